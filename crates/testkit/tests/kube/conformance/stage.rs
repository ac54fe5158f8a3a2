//! One of the two clusters, with a protocol of the requests and responses. The protocol omits data that
//! differs between runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig, Verb};
use tidegate_cluster::{
    ApplyRequest, Cluster, ClusterError, DeleteRequest, Detail, ErrorKind, FinalizerRemoval, Propagation,
    Scope, WriteMode,
};
use tidegate_model::{Gvk, Object, OperationId};
use tidegate_testkit::kube::{ApiClient, ControlPlane, Mark, User};
use tidegate_testkit::process::START;
use tokio::time::{sleep, timeout};

pub const SSA: WriteMode = WriteMode::Apply { force: false };
pub const FORCED: WriteMode = WriteMode::Apply { force: true };
pub const REPLACE: WriteMode = WriteMode::Replace { recreate: false };
pub const CREATE: WriteMode = WriteMode::Create { client_side: false };
pub const RECREATE: WriteMode = WriteMode::Replace { recreate: true };

/// Maximum time to wait.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// One of the two clusters.
enum Side {
    Sim(SimCluster),
    Kube(&'static ControlPlane, ApiClient, Mark),
}

pub struct Stage {
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    side: Side,
    operation: OperationId,
    lines: Vec<String>,
    /// Values that can't be compared, such as UIDs, each with its placeholder.
    placeholders: Vec<(String, String)>,
    /// Last observed version of each object.
    versions: Vec<(String, String)>,
}

static OPERATIONS: AtomicU64 = AtomicU64::new(1);

fn operation() -> OperationId {
    OperationId(uuid::Uuid::from_u128(OPERATIONS.fetch_add(1, Ordering::Relaxed).into()))
}

/// Returns a scenario's two stages, on the simulated and the real cluster, with the same namespace.
pub async fn stage_pair(control: &'static ControlPlane, name: &str) -> [Stage; 2] {
    let namespace = control.create_namespace(name).await.unwrap();
    let sim = SimCluster::in_memory(SimConfig::default(), Clock::tokio(START));
    let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let place = ApplyRequest { mode: REPLACE, ..request(Object::try_from(place).unwrap(), None) };
    sim.apply_as("observer", place).await.unwrap();
    let options = tidegate_kube::ConnectOptions {
        kubeconfig: Some(control.kubeconfig(User::ENGINE)),
        ..Default::default()
    };
    let kube = tidegate_kube::connect(&options).await.unwrap();
    let observer = control.client(User::OBSERVER);
    let stage = |cluster: Arc<dyn Cluster>, side| Stage {
        cluster,
        side,
        namespace: namespace.clone(),
        operation: operation(),
        lines: Vec::new(),
        placeholders: Vec::new(),
        versions: Vec::new(),
    };
    [
        stage(Arc::new(sim.clone()), Side::Sim(sim)),
        stage(Arc::new(kube), Side::Kube(control, observer, control.audit_mark())),
    ]
}

fn request(object: Object, operation: Option<OperationId>) -> ApplyRequest {
    ApplyRequest { operation, ..ApplyRequest::new(object, SSA) }
}

impl Stage {
    /// Returns the protocol.
    pub fn finish(self) -> Vec<String> {
        let names = self.placeholders;
        let plain = |line: String| names.iter().fold(line, |line, (from, to)| line.replace(from, to));
        self.lines.into_iter().map(plain).collect()
    }

    pub fn note(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Returns the API group of the scenario's own kinds.
    pub fn group(&self) -> String {
        format!("{}.example.com", self.namespace)
    }

    pub fn gvk(&self, kind: &str) -> Gvk {
        match kind {
            "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => Gvk::new("apps", "v1", kind),
            "Job" => Gvk::new("batch", "v1", kind),
            "CustomResourceDefinition" => Gvk::new("apiextensions.k8s.io", "v1", kind),
            "ClusterRole" | "Role" | "RoleBinding" => Gvk::new("rbac.authorization.k8s.io", "v1", kind),
            "Widget" | "Unserved" => Gvk::new(self.group(), "v1", kind),
            _ => Gvk::new("", "v1", kind),
        }
    }

    fn place(&self, kind: &str) -> String {
        let cluster_wide = ["Namespace", "CustomResourceDefinition", "ClusterRole"].contains(&kind);
        if cluster_wide { String::new() } else { self.namespace.clone() }
    }

    /// Returns a manifest. `rest` is merged into it at the top level and in `metadata`.
    pub fn manifest(&self, kind: &str, name: &str, rest: Value) -> Object {
        let mut value = json!({
            "apiVersion": self.gvk(kind).api_version(), "kind": kind, "metadata": {"name": name},
        });
        let place = self.place(kind);
        if !place.is_empty() {
            value["metadata"]["namespace"] = place.into();
        }
        for (field, part) in rest.as_object().unwrap() {
            match (field.as_str(), part) {
                ("metadata", Value::Object(part)) => {
                    value["metadata"].as_object_mut().unwrap().extend(part.clone());
                }
                _ => value[field] = part.clone(),
            }
        }
        Object::try_from(value).unwrap()
    }

    pub fn config(&self, name: &str, data: Value) -> Object {
        // A server doesn't store empty maps.
        let empty = data == json!({});
        self.manifest("ConfigMap", name, if empty { json!({}) } else { json!({"data": data}) })
    }

    /// Applies an object with the default options: server-side, not forced, and validated.
    pub async fn apply(&mut self, object: &Object) {
        self.write(object, SSA, |_| {}).await;
    }

    pub async fn write(&mut self, object: &Object, mode: WriteMode, change: impl FnOnce(&mut ApplyRequest)) {
        let mut request = ApplyRequest { mode, ..request(object.clone(), Some(self.operation)) };
        change(&mut request);
        let what = if request.dry_run { "judge" } else { "write" };
        let name = if object.name().is_empty() { object.generate_name() } else { object.name() };
        let request_text = format!("{what} {} {name} {mode:?}", object.kind());
        match self.cluster.apply(request.clone()).await {
            Ok(applied) => {
                let created = if applied.is_created { "created" } else { "kept" };
                if object.name().is_empty() {
                    self.placeholders.push((applied.object.name().to_owned(), format!("{name}*")));
                }
                let changed = if request.dry_run { "" } else { self.describe_change(&applied.object) };
                let seen = resulting_fields(object.as_value(), applied.object.as_value());
                self.note(format!("{request_text} -> {created}{changed}: {} {seen}", applied.message));
            }
            Err(error) => self.note_refusal(&request_text, &error),
        }
    }

    fn note_refusal(&mut self, request_text: &str, error: &ClusterError) {
        let text = stable_message(&error.message);
        self.note(format!("{request_text} -> {:?}: {text}", error.kind));
    }

    /// Describes whether the object's resource version differs from the last observed one.
    fn describe_change(&mut self, object: &Object) -> &'static str {
        let (key, version) = (object.key().to_string(), object.resource_version().to_owned());
        self.placeholders.push((object.uid().to_owned(), format!("<uid of {}>", object.name())));
        self.placeholders.push((format!("({version})"), "(<version>)".to_owned()));
        match self.versions.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) if *known == version => ", same version",
            Some((_, known)) => {
                *known = version;
                ", new version"
            }
            None => {
                self.versions.push((key, version));
                ""
            }
        }
    }

    /// Applies an object with another field manager.
    pub async fn apply_as(&mut self, manager: &str, object: &Object) {
        match &self.side {
            Side::Sim(sim) => drop(sim.apply_as(manager, request(object.clone(), None)).await.unwrap()),
            Side::Kube(_, observer, _) => {
                let path = format!("{}?fieldManager={manager}&force=false", self.path(object));
                observer.apply(&path, object.as_value()).await.unwrap();
            }
        }
    }

    fn path(&self, object: &Object) -> String {
        let api = object.text("/apiVersion");
        let root = if api.contains('/') { "apis" } else { "api" };
        let place = self.place(object.kind());
        let place = if place.is_empty() { String::new() } else { format!("namespaces/{place}/") };
        format!("/{root}/{api}/{place}{}s/{}", object.kind().to_lowercase(), object.name())
    }

    pub async fn delete(&mut self, kind: &str, name: &str, propagation: Propagation) {
        self.delete_with(kind, name, |request| request.propagation = propagation).await;
    }

    pub async fn delete_with(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut DeleteRequest)) {
        let (gvk, namespace) = (self.gvk(kind), self.place(kind));
        let mut request = DeleteRequest {
            gvk,
            namespace,
            name: name.to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: false,
            operation: Some(self.operation),
        };
        change(&mut request);
        let what = if request.dry_run { "judge deletion of" } else { "delete" };
        let request_text = format!("{what} {kind} {name} {:?}", request.propagation);
        match self.cluster.delete(request).await {
            Ok(deleted) => self.note(format!("{request_text} -> {deleted:?}")),
            Err(error) => self.note_refusal(&request_text, &error),
        }
    }

    pub async fn release(&mut self, kind: &str, name: &str, uid: &str, finalizer: &str) {
        let request = FinalizerRemoval {
            gvk: self.gvk(kind),
            namespace: self.place(kind),
            name: name.to_owned(),
            uid: uid.to_owned(),
            finalizer: finalizer.to_owned(),
            operation: Some(self.operation),
        };
        let done = self.cluster.remove_finalizer(request).await;
        let done =
            done.map_or_else(|error| format!("{:?}: {}", error.kind, error.message), |()| "done".into());
        self.note(format!("release {kind} {name} {finalizer} -> {done}"));
    }

    pub async fn get(&self, kind: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        self.cluster.get(&self.gvk(kind), &self.place(kind), name).await
    }

    /// Records some fields of an object.
    pub async fn note_fields(&mut self, kind: &str, name: &str, paths: &[&str]) {
        let line = match self.get(kind, name).await {
            Ok(Some(object)) => {
                self.describe_change(&object);
                let fields: Vec<String> = paths
                    .iter()
                    .map(|path| format!("{path}={}", object.pointer(path).unwrap_or(&Value::Null)))
                    .collect();
                fields.join(" ")
            }
            Ok(None) => "not there".to_owned(),
            Err(error) => format!("{:?}: {}", error.kind, error.message),
        };
        self.note(format!("{kind} {name}: {line}"));
    }

    /// Waits until an object satisfies a predicate or is gone.
    pub async fn wait_until(
        &mut self,
        kind: &str,
        name: &str,
        what: &str,
        request: impl Fn(Option<&Object>) -> bool,
    ) {
        let looking = async {
            loop {
                let found = match self.get(kind, name).await {
                    Err(error) if error.kind == ErrorKind::UnknownKind => None,
                    found => found.unwrap(),
                };
                if request(found.as_ref()) {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = timeout(TIMEOUT, looking).await.is_ok();
        self.note(format!("{kind} {name} {what}: {}", if in_time { "yes" } else { "never" }));
    }

    pub async fn wait_until_gone(&mut self, kind: &str, name: &str) {
        self.wait_until(kind, name, "is gone", |found| found.is_none()).await;
    }

    pub async fn wait_for_field(&mut self, kind: &str, name: &str, path: &str, value: &Value) {
        let what = format!("{path}={value}");
        self.wait_until(kind, name, &what, |found| {
            found.and_then(|found| found.pointer(path)) == Some(value)
        })
        .await;
    }

    pub fn scope(&self, kind: &str, namespaced: bool, detail: Detail) -> Scope {
        Scope { gvk: self.gvk(kind), namespace: namespaced.then(|| self.place(kind)), detail }
    }

    /// Records the names of a kind's objects in the scenario's namespace.
    pub async fn note_names(&mut self, kind: &str) {
        let scope = self.scope(kind, true, Detail::Metadata);
        let listing = self.cluster.list(&scope).await.unwrap();
        let mut names: Vec<&str> = listing.objects.iter().map(Object::name).collect();
        names.sort_unstable();
        let line = format!("{kind}s: {}", names.join(" "));
        self.note(line);
    }

    /// Writes an object that must be rejected. Records only the error kind, because the fields in the message
    /// differ between versions.
    pub async fn note_refusal_kind(&mut self, object: &Object, mode: WriteMode) {
        self.note_changed_refusal_kind(object, mode, |_| {}).await;
    }

    /// Records the error kind like [`Self::note_refusal_kind`], for a write with an expected resource
    /// version.
    pub async fn note_guarded_refusal_kind(&mut self, object: &Object, mode: WriteMode, version: &str) {
        self.note_changed_refusal_kind(object, mode, |request| {
            version.clone_into(&mut request.resource_version)
        })
        .await;
    }

    /// Records the error kind like [`Self::note_refusal_kind`], for a write modified by `change`.
    pub async fn note_changed_refusal_kind(
        &mut self,
        object: &Object,
        mode: WriteMode,
        change: impl FnOnce(&mut ApplyRequest),
    ) {
        let mut request = ApplyRequest { mode, ..request(object.clone(), Some(self.operation)) };
        change(&mut request);
        let answer = self.cluster.apply(request).await;
        let kind = answer.map_or_else(|error| format!("{:?}", error.kind), |_| "done".to_owned());
        self.note(format!("write {} {} {mode:?} -> {kind}", object.kind(), object.name()));
    }

    /// Writes the status of an object that was read, and records the result.
    pub async fn put_status(&mut self, object: &Object) {
        let answer = self.cluster.put_status(object.clone(), Some(self.operation)).await;
        let text = match answer {
            Ok(object) => format!("{:?} of {:?}", object.pointer("/status"), object.pointer("/spec")),
            Err(error) => format!("{:?}", error.kind),
        };
        self.note(format!("status {} {} -> {text}", object.kind(), object.name()));
    }

    /// Waits until the given number of objects of a kind have the label `app`.
    pub async fn wait_for_count(&mut self, kind: &str, app: &str, wanted: usize) {
        let scope = self.scope(kind, true, Detail::Metadata);
        let looking = async {
            loop {
                let listing = self.cluster.list(&scope).await.unwrap();
                if listing.objects.iter().filter(|object| object.label("app") == Some(app)).count() == wanted
                {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = timeout(TIMEOUT, looking).await.is_ok();
        self.note(format!("{wanted} {kind} of {app}: {in_time}"));
    }

    /// Waits until objects of a kind can be read.
    pub async fn wait_until_served(&mut self, kind: &str) {
        self.wait_for_served(kind, true).await;
    }

    pub async fn wait_until_unserved(&mut self, kind: &str) {
        self.wait_for_served(kind, false).await;
    }

    async fn wait_for_served(&mut self, kind: &str, served: bool) {
        let looking = async {
            while self.get(kind, "none").await.is_ok() != served {
                sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = timeout(TIMEOUT, looking).await.is_ok();
        self.note(format!("{kind} served {served}: {in_time}"));
    }

    /// Records the health of an object.
    pub async fn note_health(&mut self, kind: &str, name: &str) {
        let object = self.get(kind, name).await.unwrap().unwrap();
        let line = match tidegate_health::assess(&object) {
            // The messages of controllers differ between versions.
            Some(Ok(health)) => format!("{:?}", health.status),
            other => format!("{other:?}"),
        };
        self.note(format!("{kind} {name}: {line}"));
    }

    /// Waits until an object has the given health.
    pub async fn wait_for_health(&mut self, kind: &str, name: &str, wanted: &str) {
        let well = |found: Option<&Object>| {
            let health = found.and_then(tidegate_health::assess).and_then(Result::ok);
            health.is_some_and(|health| format!("{:?}", health.status) == wanted)
        };
        self.wait_until(kind, name, wanted, well).await;
    }

    /// Reads the audit log, so that the control plane learns the names of kinds before their removal.
    pub async fn learn_kinds(&self) {
        if let Side::Kube(control, _, mark) = &self.side {
            control.audit_since(*mark).await.unwrap();
        }
    }

    /// Records the cluster's own audit log of successful writes, in order. Refusals are already in the
    /// protocol, as responses.
    pub async fn note_audit(&mut self) {
        let lines: Vec<String> = match &self.side {
            Side::Sim(sim) => sim
                .audit()
                .into_iter()
                .filter(|entry| entry.operation_id == Some(self.operation) && entry.code < 300)
                .map(|entry| {
                    let verb = match entry.verb {
                        Verb::Apply | Verb::Patch => "patch",
                        Verb::Create => "create",
                        Verb::Update => "update",
                        Verb::Delete => "delete",
                    };
                    line(verb, &entry.kind, &entry.name, entry.dry_run, entry.code)
                })
                .collect(),
            Side::Kube(control, _, mark) => {
                let all = control.audit_since(*mark).await.unwrap().by_user(User::ENGINE);
                let own = all.filter(|event| {
                    event.is_write()
                        && event.has_succeeded()
                        && event.operation.as_deref() == Some(&self.operation.to_string())
                });
                own.0
                    .iter()
                    .map(|event| line(&event.verb, &event.kind, &event.name, event.dry_run, event.code))
                    .collect()
            }
        };
        self.lines.extend(lines);
    }
}

/// Removes the parts of a refusal that differ between versions. For an invalid object, keeps the object, the
/// first field and its problem. For an undecodable object, replaces the whole message.
fn stable_message(message: &str) -> String {
    let unreadable = ["failed to c", "cannot be handled as", "name is required"];
    if unreadable.iter().any(|text| message.contains(text)) {
        return "cannot be read".to_owned();
    }
    match message.split_once(" is invalid: ") {
        Some((object, reason)) => {
            let reason: Vec<&str> = reason.trim_start_matches('[').split(": ").take(2).collect();
            // Older and newer servers disagree on whether the list of labels contains the invalid one.
            let field = reason[0].split("[no good]").next().unwrap_or_default();
            let wrong = reason.get(1).and_then(|wrong| wrong.split(", ").next()).unwrap_or_default();
            format!("{object} is invalid: {field}: {wrong}")
        }
        None => message.to_owned(),
    }
}

fn line(verb: &str, kind: &str, name: &str, dry_run: bool, code: u16) -> String {
    let dry = if dry_run { " (dry run)" } else { "" };
    format!("audit: {verb} {kind} {name} {code}{dry}")
}

/// Returns the resulting fields of a manifest.
fn resulting_fields(manifest: &Value, found: &Value) -> Value {
    match (manifest, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let fields = wanted.iter().map(|(name, wanted)| {
                (name.clone(), found.get(name).map_or(Value::Null, |found| resulting_fields(wanted, found)))
            });
            Value::Object(fields.collect())
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).map(|(wanted, found)| resulting_fields(wanted, found)).collect()
        }
        _ => found.clone(),
    }
}
