//! Builds plans from short texts and shows them as short texts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tidegate_model::{
    Cascade, Destination, Discovery, LiveObject, Object, ObjectKey, OperationId, RetryPolicy, Severity,
    SyncOptions, SyncRequest, Timestamp, Tracking, TrackingMethod, WaitFor,
};
use tidegate_planner::{Limits, PlanInput, Planned, Target, manifests, plan};

pub const STARTED_AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A plan to be made. Application `app`, destination namespace `shop`, revision `0123456789`.
#[derive(Debug)]
pub struct Case {
    pub request: SyncRequest,
    pub targets: Vec<Target>,
    pub live: Vec<Object>,
    /// What earlier operations put into the cluster.
    pub known: BTreeSet<ObjectKey>,
    /// Hooks that have succeeded with the inputs they have.
    pub unchanged: BTreeSet<ObjectKey>,
    pub terminating: BTreeSet<String>,
    pub discovery: Discovery,
    pub offline: bool,
}

pub fn case(yaml: &str) -> Case {
    Case {
        request: SyncRequest {
            application: "app".to_owned(),
            namespace: "shop".to_owned(),
            destination: Destination::Simulated,
            revision: "0123456789".to_owned(),
            options: SyncOptions { prune: true, ..SyncOptions::default() },
            selection: Vec::new(),
            retry: RetryPolicy::default(),
            deadline: None::<Duration>,
            wait: WaitFor::Synced,
            wave_delay: None,
            initiated_by: String::new(),
            sources: Vec::new(),
            ignore_differences: Vec::new(),
            tracking: Tracking::default(),
            claim: None,
            deletion: None,
        },
        targets: targets(yaml),
        live: Vec::new(),
        known: BTreeSet::new(),
        unchanged: BTreeSet::new(),
        terminating: BTreeSet::new(),
        discovery: Discovery::built_in(),
        offline: false,
    }
}

pub fn targets(yaml: &str) -> Vec<Target> {
    manifests::parse("in.yaml", yaml.as_bytes(), &Limits::default()).unwrap()
}

impl Case {
    pub fn live(mut self, yaml: &str) -> Self {
        self.live = targets(yaml).into_iter().map(|target| target.object).collect();
        self
    }

    /// Earlier operations put all that is live there.
    pub fn known(mut self) -> Self {
        self.known = self.live.iter().map(Object::key).collect();
        self
    }

    pub fn flags(mut self, flags: &[&str]) -> Self {
        self.request.options.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self
    }

    pub fn options(mut self, change: impl FnOnce(&mut SyncOptions)) -> Self {
        change(&mut self.request.options);
        self
    }

    pub fn deleted(mut self, cascade: Cascade) -> Self {
        self.request.deletion = Some(cascade);
        self
    }

    pub fn select(mut self, selectors: &[&str]) -> Self {
        self.request.selection = selectors.iter().map(|selector| selector.parse().unwrap()).collect();
        self
    }

    pub fn tracked_by(mut self, method: TrackingMethod) -> Self {
        self.request.tracking.method = method;
        self
    }

    pub fn plan(&self) -> Planned {
        plan(PlanInput {
            operation: OperationId("01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap()),
            request: &self.request,
            started_at: STARTED_AT,
            targets: self.targets.clone(),
            live: &self.live.iter().cloned().map(LiveObject::pack).collect::<Vec<_>>(),
            known: &self.known,
            unchanged: &self.unchanged,
            terminating: &self.terminating,
            discovery: &self.discovery,
            offline: self.offline,
        })
    }

    /// `Sync 0: create ConfigMap shop/a` …
    pub fn tasks(&self) -> Vec<String> {
        tasks(&self.plan())
    }

    /// The codes of the findings, errors with `!`.
    pub fn codes(&self) -> Vec<String> {
        codes(&self.plan())
    }
}

pub fn tasks(planned: &Planned) -> Vec<String> {
    let line = |task: &tidegate_model::Task| {
        format!("{} {}: {} {}", task.phase, task.wave, task.action.as_str(), task.key())
    };
    planned.plan.tasks.iter().map(line).collect()
}

pub fn codes(planned: &Planned) -> Vec<String> {
    let code = |warning: &tidegate_model::Warning| {
        let mark = if warning.severity == Severity::Error { "!" } else { "" };
        format!("{mark}{}", warning.code)
    };
    planned.plan.warnings.iter().map(code).collect()
}

/// A manifest with annotations: `object("v1 ConfigMap shop/a", "sync-wave=1; tracked")`. Annotation names without a
/// slash are Argo CD's; `tracked` adds the tracking id of application `app`.
pub fn object(what: &str, annotations: &str) -> String {
    let [api_version, kind, name] = what.split(' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let mut given = serde_json::Map::new();
    for item in annotations.split("; ").filter(|item| !item.is_empty()) {
        if item == "tracked" {
            let home = if namespace.is_empty() { "shop" } else { namespace };
            let id = format!("app:{group}/{kind}:{home}/{name}");
            given.insert("argocd.argoproj.io/tracking-id".to_owned(), id.into());
            continue;
        }
        let (key, value) = item.split_once('=').unwrap();
        let key = if key.contains('/') { key.to_owned() } else { format!("argocd.argoproj.io/{key}") };
        given.insert(key, value.into());
    }
    let mut metadata = json!({"annotations": given});
    if let Some(prefix) = name.strip_suffix('*') {
        metadata["generateName"] = prefix.into();
    } else {
        metadata["name"] = name.into();
    }
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    if given_uid(annotations) {
        metadata["uid"] = format!("uid-{name}").into();
    }
    format!("{}\n---\n", json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

/// Objects that are tracked are live, so they have an identity.
fn given_uid(annotations: &str) -> bool {
    annotations.contains("tracked")
}

/// Several manifests: `objects(&[("v1 ConfigMap a", ""), …])`.
pub fn objects(all: &[(&str, &str)]) -> String {
    all.iter().map(|(what, annotations)| object(what, annotations)).collect()
}

/// A CRD for a kind of group `example.com`.
pub fn crd(kind: &str, annotations: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let text = object(
        &format!("apiextensions.k8s.io/v1 CustomResourceDefinition {plural}.example.com"),
        annotations,
    );
    let mut value: serde_json::Value = serde_json::from_str(text.trim_end_matches("---\n")).unwrap();
    value["spec"] =
        json!({"group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}});
    format!("{value}\n---\n")
}
