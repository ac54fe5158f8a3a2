//! A namespace of the shared control plane, and the command configured for it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_testkit::kube::{ApiClient, Audit, AuditEvent, ControlPlane, Mark, Options, User};

use crate::bench::{Bench, CommandOutput, Running};

/// Namespaces by control plane and application. A prune searches the whole cluster for the objects of an
/// application, so two tests with the same one would delete each other's objects.
static APPLICATIONS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());

/// Control plane of a test.
#[derive(Clone)]
pub enum Plane {
    /// The shared one of all tests.
    Shared(&'static ControlPlane),
    /// A separate one, which ends with its last handle: otherwise it would use a twentieth of a core.
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

/// A namespace, and a bench whose command connects to the control plane as [`User::ENGINE`].
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
    /// Creates a site with a unique namespace.
    pub async fn new(prefix: &str) -> Self {
        Self::on_plane(Plane::Shared(ControlPlane::shared()), prefix).await
    }

    /// Does the same on another control plane.
    pub async fn on_plane(control: Plane, prefix: &str) -> Self {
        let namespace = control.create_namespace(prefix).await.unwrap();
        Self::with_namespace(control, namespace)
    }

    /// Creates a site with the name of a nonexistent namespace.
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

    /// Returns a unique name of an application, other than the namespace's.
    pub fn app(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// Does the same as [`Bench::run`].
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        self.claim_application(args);
        self.bench.run(args)
    }

    /// Does the same as [`Bench::start`].
    pub fn start(&self, args: &[&str]) -> Running {
        self.claim_application(args);
        self.bench.start(args)
    }

    /// Fails if another test has an application of this name.
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

    /// Returns a caller that reads and interferes like another person.
    pub fn observer(&self) -> ApiClient {
        self.control.client(User::OBSERVER)
    }

    /// Returns the requests about our namespace since the site was created.
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

    /// Checks that killed processes created an object exactly once: if a kill came before the response, the
    /// server may log a failure for a successful write.
    pub async fn assert_created_once(&self, kind: &str, name: &str, story: &str) {
        self.assert_created_once_by(None, kind, name, story).await;
    }

    /// Does the same for the operations that create it.
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

    /// Drops earlier requests.
    pub fn reset_audit(&mut self) {
        self.mark = self.control.audit_mark();
    }

    /// Returns an object of our namespace: `/apis/apps/v1`, `deployments`, `server`.
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
