//! A namespace of the shared control plane, and the command configured for it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_testkit::kube::{ApiClient, Audit, AuditEvent, ControlPlane, Mark, Options, User};

use crate::bench::{Bench, CommandOutput, Running};
use crate::manifests::STUCK;

/// Namespaces by control plane and application. A prune searches the whole cluster for the objects of an
/// application, so two tests with the same application would delete each other's objects.
static APPLICATIONS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());

/// Returns [`STUCK`] without its hook: a Deployment that never becomes ready, and a later wave.
pub fn stuck_server() -> &'static str {
    STUCK.split_once("---\n").unwrap().1
}

/// Control plane of a test.
#[derive(Clone)]
pub enum Plane {
    /// The control plane that all tests share.
    Shared(&'static ControlPlane),
    /// A separate control plane, which stops when its last handle is dropped, because it uses a twentieth of
    /// a core.
    Own(Arc<ControlPlane>),
}

impl Plane {
    pub fn own(options: Options) -> Self {
        Self::Own(Arc::new(ControlPlane::start(options).unwrap()))
    }
}

impl Deref for Plane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match self {
            Self::Shared(control) => control,
            Self::Own(control) => control,
        }
    }
}

/// A namespace, and a test environment whose command connects to the control plane as [`User::ENGINE`].
pub struct KubeBench {
    pub control: Plane,
    pub namespace: String,
    pub bench: Bench,
    mark: Mark,
}

impl Deref for KubeBench {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl KubeBench {
    /// Creates a test environment with a unique namespace.
    pub async fn new(prefix: &str) -> Self {
        Self::on_plane(Plane::Shared(ControlPlane::shared()), prefix).await
    }

    /// Creates a test environment as [`Self::new`] does, on another control plane.
    pub async fn on_plane(control: Plane, prefix: &str) -> Self {
        let namespace = control.create_namespace(prefix).await.unwrap();
        Self::with_namespace(control, namespace)
    }

    /// Creates a test environment with the name of a nonexistent namespace.
    pub fn without_namespace(prefix: &str) -> Self {
        let control = Plane::Shared(ControlPlane::shared());
        let namespace = control.unique_name(prefix);
        Self::with_namespace(control, namespace)
    }

    fn with_namespace(control: Plane, namespace: String) -> Self {
        let mut bench = Bench::new();
        bench.set_variable("KUBECONFIG", control.kubeconfig(User::ENGINE));
        let mark = control.audit_mark();
        Self { control, namespace, bench, mark }
    }

    /// Returns a unique name for an application, different from the namespace's name.
    pub fn app(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Returns the arguments that select the application and the namespace with the same name.
    pub fn target_args(&self) -> [&str; 4] {
        ["--app", &self.namespace, "-n", &self.namespace]
    }

    /// Runs the command as [`Bench::run`] does.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        self.claim_application(args);
        self.bench.run(args)
    }

    /// Starts the command as [`Bench::start`] does.
    pub fn start(&self, args: &[&str]) -> Running {
        self.claim_application(args);
        self.bench.start(args)
    }

    /// Fails if another test has an application with this name.
    fn claim_application(&self, args: &[&str]) {
        let name = args.iter().skip_while(|arg| **arg != "--app").nth(1);
        let Some(name) = name.filter(|_| !args.contains(&"--sim")) else { return };
        let key = (self.control.url().to_owned(), (*name).to_owned());
        let owner = {
            let mut known = APPLICATIONS.lock().unwrap();
            known.entry(key).or_insert_with(|| self.namespace.clone()).clone()
        };
        assert_eq!(
            owner, self.namespace,
            "both sites have an application {name:?}: name it like the namespace, or use `site.app`"
        );
    }

    /// Returns a client that reads and interferes as another person would.
    pub fn observer(&self) -> ApiClient {
        self.control.client(User::OBSERVER)
    }

    /// Returns the requests about our namespace since the test environment was created.
    pub async fn audit(&self) -> Audit {
        self.control.audit_in_namespace(self.mark, &self.namespace).await.unwrap()
    }

    /// Returns the command's writes in our namespace, without claims.
    pub async fn writes(&self) -> Audit {
        self.audit().await.by_user(User::ENGINE).successful_writes().filter(|event| event.kind != "Lease")
    }

    /// Returns the number of creations of an object, by any verb.
    pub async fn creations(&self, kind: &str, name: &str) -> usize {
        let writes = self.writes().await;
        writes.filter(|event| event.kind == kind && event.name == name && event.code == 201).0.len()
    }

    /// Checks that processes that were killed created an object exactly once. If a kill came before the
    /// response, the server may have logged a failure for a successful write.
    pub async fn assert_created_once(&self, kind: &str, name: &str, story: &str) {
        self.assert_created_once_by(None, kind, name, story).await;
    }

    /// Checks the creations as [`Self::assert_created_once`] does, but only those by this operation.
    pub async fn assert_created_once_by(&self, operation: Option<&str>, kind: &str, name: &str, story: &str) {
        let is_about = |event: &AuditEvent| event.kind == kind && event.name == name;
        let is_by = |event: &AuditEvent| operation.is_none() || event.operation.as_deref() == operation;
        let writes =
            self.audit().await.by_user(User::ENGINE).filter(|event| event.is_write() && !event.dry_run);
        let makes =
            writes.clone().filter(|event| is_about(event) && is_by(event) && event.verb != "delete").0;
        let created = makes.iter().filter(|event| event.code == 201).count();
        let cut_off = makes.iter().filter(|event| event.has_unknown_outcome()).count();
        assert!(
            created == 1 || created == 0 && cut_off > 0,
            "{story}: {kind} {name} was created {created} times, {cut_off} writes were cut off: {:#?}",
            writes.summaries()
        );
    }

    /// Ignores all requests so far.
    pub fn reset_audit(&mut self) {
        self.mark = self.control.audit_mark();
    }

    /// Returns an object in our namespace, such as `/apis/apps/v1`, `deployments`, `server`.
    pub async fn object(&self, api: &str, plural: &str, name: &str) -> Option<Value> {
        let path = format!("{api}/namespaces/{}/{plural}/{name}", self.namespace);
        self.observer().find(&path).await.unwrap()
    }

    /// Writes a changed copy of the engine's kubeconfig.
    pub fn changed_kubeconfig(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let text = std::fs::read_to_string(self.control.kubeconfig(User::ENGINE)).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        change(&mut config);
        self.write(name, config.to_string())
    }
}
