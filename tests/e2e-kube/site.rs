//! A namespace of the shared control plane, and the command with the way there.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tidegate_testkit::kube::{Audit, AuditEvent, Caller, ControlPlane, Mark, Options, User};

use crate::bench::{Bench, Ran, Running};

/// Which namespace the applications of each control plane belong to. Pruning looks for an application's objects in the
/// whole cluster, so two tests with the same one would delete each other's.
static APPLICATIONS: Mutex<BTreeMap<(String, String), String>> = Mutex::new(BTreeMap::new());

/// The control plane of a test.
#[derive(Clone)]
pub enum Plane {
    /// The one of all tests.
    Shared(&'static ControlPlane),
    /// One of its own, which goes with the last that holds it: one that stays keeps a twentieth of a core busy.
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

/// A namespace, and a bench whose command reaches the control plane as [`User::ENGINE`].
pub struct Site {
    pub control: Plane,
    pub namespace: String,
    pub bench: Bench,
    mark: Mark,
}

impl Deref for Site {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl Site {
    /// With a namespace that nobody else has.
    pub async fn new(prefix: &str) -> Self {
        Self::on(Plane::Shared(ControlPlane::shared()), prefix).await
    }

    /// The same on another control plane.
    pub async fn on(control: Plane, prefix: &str) -> Self {
        let namespace = control.namespace(prefix).await.unwrap();
        Self::at(control, namespace)
    }

    /// With a name for a namespace that is not there.
    pub fn without_namespace(prefix: &str) -> Self {
        let control = Plane::Shared(ControlPlane::shared());
        let namespace = control.name(prefix);
        Self::at(control, namespace)
    }

    fn at(control: Plane, namespace: String) -> Self {
        let mut bench = Bench::new();
        bench.set("KUBECONFIG", control.kubeconfig(User::ENGINE));
        let mark = control.mark();
        Self { control, namespace, bench, mark }
    }

    /// A name for an application that no other test has; the namespace's is another.
    pub fn app(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// As [`Bench::run`].
    pub fn run(&self, args: &[&str]) -> Ran {
        self.claim_application(args);
        self.bench.run(args)
    }

    /// As [`Bench::start`].
    pub fn start(&self, args: &[&str]) -> Running {
        self.claim_application(args);
        self.bench.start(args)
    }

    /// Fails when another test has an application of this name.
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
            "both sites have an application {name:?}: call it like the namespace, or by `site.app`"
        );
    }

    /// Reads and meddles as another person would.
    pub fn observer(&self) -> Caller {
        self.control.caller(User::OBSERVER)
    }

    /// What was asked of the API server since the site was made, about our namespace.
    pub async fn audit(&self) -> Audit {
        self.control.audit_within(self.mark, &self.namespace).await.unwrap()
    }

    /// What the command has changed in our namespace, its claims apart.
    pub async fn writes(&self) -> Audit {
        self.audit().await.of(User::ENGINE).writes().only(|event| event.kind != "Lease")
    }

    /// How often an object was created, by whatever verb.
    pub async fn creations(&self, kind: &str, name: &str) -> usize {
        let writes = self.writes().await;
        writes.only(|event| event.kind == kind && event.name == name && event.code == 201).0.len()
    }

    /// Fails unless an object was created exactly once by processes that were killed: where the kill came before the
    /// answer, the server may note a failure for what it has done all the same.
    pub async fn assert_created_once(&self, kind: &str, name: &str, story: &str) {
        self.assert_created_once_by(None, kind, name, story).await;
    }

    /// The same, by one of the operations that create it.
    pub async fn assert_created_once_by(&self, operation: Option<&str>, kind: &str, name: &str, story: &str) {
        let is_about = |event: &AuditEvent| event.kind == kind && event.name == name;
        let is_by = |event: &AuditEvent| operation.is_none() || event.operation.as_deref() == operation;
        let writes = self.audit().await.of(User::ENGINE).only(|event| event.is_write() && !event.dry_run);
        let makes = writes.clone().only(|event| is_about(event) && is_by(event) && event.verb != "delete").0;
        let created = makes.iter().filter(|event| event.code == 201).count();
        let cut_off = makes.iter().filter(|event| event.is_cut_off()).count();
        assert!(
            created == 1 || created == 0 && cut_off > 0,
            "{story}: {kind} {name} was created {created} times, {cut_off} writes were cut off: {:#?}",
            writes.summaries()
        );
    }

    /// Forgets what was asked so far.
    pub fn look_from_now(&mut self) {
        self.mark = self.control.mark();
    }

    /// An object of our namespace: `/apis/apps/v1`, `deployments`, `server`.
    pub async fn object(&self, api: &str, plural: &str, name: &str) -> Option<Value> {
        let path = format!("{api}/namespaces/{}/{plural}/{name}", self.namespace);
        self.observer().find(&path).await.unwrap()
    }

    /// A kubeconfig as that of the engine, but changed.
    pub fn changed_kubeconfig(&self, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
        let text = std::fs::read_to_string(self.control.kubeconfig(User::ENGINE)).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        change(&mut config);
        self.write(name, config.to_string())
    }
}
