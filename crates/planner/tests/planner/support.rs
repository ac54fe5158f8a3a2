//! Helpers that build plans from short texts and format plans as short texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use tidegate_model::{
    Cascade, Destination, Discovery, LiveObject, Object, ObjectKey, OperationId, Severity, SyncOptions,
    SyncRequest, Timestamp, TrackingMethod,
};
use tidegate_planner::{
    ComparedPlan, Limits, ONLY_OUT_OF_SYNC, PlanInput, PlanResult, Target, manifests, plan,
};

pub const STARTED_AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Input of a plan. The application is `app`, the destination namespace `shop`, and the revision
/// `0123456789`.
#[derive(Debug)]
pub struct Case {
    pub request: SyncRequest,
    pub targets: Vec<Target>,
    pub live: Vec<Object>,
    /// Objects written by earlier operations.
    pub inventory: BTreeSet<ObjectKey>,
    /// Hooks that have succeeded with their current inputs.
    pub unchanged_hooks: BTreeSet<ObjectKey>,
    pub terminating: BTreeSet<String>,
    pub discovery: Discovery,
    pub offline: bool,
}

pub fn case(yaml: &str) -> Case {
    Case {
        request: SyncRequest {
            revision: "0123456789".to_owned(),
            options: SyncOptions { prune: true, ..SyncOptions::default() },
            ..SyncRequest::new("app", "shop", Destination::Simulated)
        },
        targets: targets(yaml),
        live: Vec::new(),
        inventory: BTreeSet::new(),
        unchanged_hooks: BTreeSet::new(),
        terminating: BTreeSet::new(),
        discovery: Discovery::built_in(),
        offline: false,
    }
}

pub fn targets(yaml: &str) -> Vec<Target> {
    manifests::parse("in.yaml", yaml.as_bytes(), &Limits::default()).unwrap()
}

impl Case {
    pub fn with_live(mut self, yaml: &str) -> Self {
        self.live = targets(yaml).into_iter().map(|target| target.object).collect();
        self
    }

    /// Marks all live objects as written by earlier operations.
    pub fn with_inventory(mut self) -> Self {
        self.inventory = self.live.iter().map(Object::key).collect();
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

    pub fn for_deletion(mut self, cascade: Cascade) -> Self {
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

    pub fn plan(&self) -> PlanResult {
        plan(self.input(&self.packed_live()))
    }

    /// Returns the plan of a comparison that finds all differences, with its inputs.
    pub fn compared_plan(&self) -> ComparedPlan {
        let mut request = self.request.clone();
        request.options.prune = true;
        request.options.flags.retain(|flag| flag != "FailOnSharedResource=true");
        request.options.flags.push(ONLY_OUT_OF_SYNC.to_owned());
        let live = self.packed_live();
        let planned = plan(PlanInput { request: &request, ..self.input(&live) });
        ComparedPlan {
            request,
            targets: Arc::new(self.targets.clone()),
            live,
            inventory: self.inventory.clone(),
            unchanged_hooks: self.unchanged_hooks.clone(),
            terminating_namespaces: self.terminating.clone(),
            discovery: self.discovery.clone(),
            planned,
        }
    }

    /// Returns the operation's plan, if it is that of the comparison.
    pub fn reuse(&self, compared: ComparedPlan) -> Option<PlanResult> {
        compared.into_operation_plan(&self.input(&self.packed_live()))
    }

    fn packed_live(&self) -> Vec<LiveObject> {
        self.live.iter().cloned().map(LiveObject::pack).collect()
    }

    fn input<'a>(&'a self, live: &'a [LiveObject]) -> PlanInput<'a> {
        PlanInput {
            operation: OperationId("01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap()),
            request: &self.request,
            started_at: STARTED_AT,
            targets: self.targets.clone(),
            live,
            inventory: &self.inventory,
            unchanged_hooks: &self.unchanged_hooks,
            terminating_namespaces: &self.terminating,
            discovery: &self.discovery,
            is_offline: self.offline,
        }
    }

    /// Returns the tasks as text, such as `Sync 0: create ConfigMap shop/a`.
    pub fn tasks(&self) -> Vec<String> {
        tasks(&self.plan())
    }

    /// Returns the codes of the findings. The codes of errors start with `!`.
    pub fn codes(&self) -> Vec<String> {
        codes(&self.plan())
    }
}

pub fn tasks(planned: &PlanResult) -> Vec<String> {
    let line = |task: &tidegate_model::Task| {
        format!("{} {}: {} {}", task.phase, task.wave, task.action.as_str(), task.key())
    };
    planned.plan.tasks.iter().map(line).collect()
}

pub fn codes(planned: &PlanResult) -> Vec<String> {
    let code = |warning: &tidegate_model::Warning| {
        let mark = if warning.severity == Severity::Error { "!" } else { "" };
        format!("{mark}{}", warning.code)
    };
    planned.plan.warnings.iter().map(code).collect()
}

/// Returns a manifest with annotations, such as `manifest_text("v1 ConfigMap shop/a", "sync-wave=1;
/// tracked")`. Annotation names without a slash get Argo CD's prefix. `tracked` adds the tracking ID of
/// application `app`.
pub fn manifest_text(what: &str, annotations: &str) -> String {
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
    if is_live_object(annotations) {
        metadata["uid"] = format!("uid-{name}").into();
    }
    format!("{}\n---\n", json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}

/// Returns true for tracked objects. They are live objects, so they have a UID.
fn is_live_object(annotations: &str) -> bool {
    annotations.contains("tracked")
}

/// Returns several manifests, such as `manifest_texts(&[("v1 ConfigMap a", ""), …])`.
pub fn manifest_texts(all: &[(&str, &str)]) -> String {
    all.iter().map(|(what, annotations)| manifest_text(what, annotations)).collect()
}

/// Returns a CRD that defines a kind in the group `example.com`.
pub fn crd(kind: &str, annotations: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let text = manifest_text(
        &format!("apiextensions.k8s.io/v1 CustomResourceDefinition {plural}.example.com"),
        annotations,
    );
    let mut value: serde_json::Value = serde_json::from_str(text.trim_end_matches("---\n")).unwrap();
    value["spec"] =
        json!({"group": "example.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural}});
    format!("{value}\n---\n")
}
