//! Audit log of the API server, in the order of the responses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use memchr::memmem;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{ApiClient, CallError, KubeError, User};

/// Polling interval of [`wait_for_events`].
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Position in the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub(super) u64);

/// A request and its response.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEvent {
    /// User that sent the request.
    pub user: String,
    /// Impersonated user, if any.
    pub impersonated: Option<String>,
    /// User agent.
    pub user_agent: String,
    /// Operation ID in the user agent, if any.
    pub operation: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group. Empty for the core API and for paths that aren't resources.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Subresource, such as `status` or `binding`. Empty for none.
    pub subresource: String,
    /// Kind, or the plural name if the kind is unknown by now.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name, including generated names. Empty if the body of a creation was incomplete.
    pub name: String,
    /// True for a dry run.
    pub dry_run: bool,
    /// HTTP status; 0 if there was no response.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// Time of the request, in the server's format.
    pub received_at: String,
    /// Time of the response.
    pub responded_at: String,
    /// Options in the body of a deletion.
    pub options: Option<Value>,
    /// Details of a write to a Job or to its status.
    pub job: Option<JobWrite>,
}

/// Details of a write to a Job or to its status.
#[derive(Clone, Debug, PartialEq)]
pub struct JobWrite {
    /// UID of the Job in the response. Empty without a successful response.
    pub uid: String,
    /// Annotations of the Job in the response or, without one, in the request.
    pub annotations: BTreeMap<String, String>,
    /// True if the request makes the Job run: it creates a Job that the server doesn't suspend, or ends the
    /// suspension.
    pub is_start: bool,
    /// True if the Job in the response has completed.
    pub is_complete: bool,
}

impl AuditEvent {
    /// Returns true if the request is meant to change something. Reviews are created but change nothing.
    pub fn is_write(&self) -> bool {
        let is_question = matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
        !is_question
            && matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Returns true if the request changed something, or would have outside a dry run.
    pub fn has_succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Returns true if the outcome is unknown because the server reports neither success nor rejection, for
    /// example after an early disconnect of the client.
    pub fn has_unknown_outcome(&self) -> bool {
        let is_refused = (400..500).contains(&self.code) && !matches!(self.code, 408 | 499);
        !self.has_succeeded() && !is_refused
    }

    /// Returns `verb Kind namespace/name`, for comparing lists.
    pub fn summary(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let part = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        format!("{} {}{part} {place}{}", self.verb, self.kind, self.name)
    }
}

/// Requests, in the order of their responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit(pub Vec<AuditEvent>);

impl Audit {
    /// Keeps only the requests from one user.
    #[must_use]
    pub fn by_user(self, user: &User) -> Self {
        self.filter(|event| event.user == user.name())
    }

    /// Keeps only the requests for objects in a namespace, and for the namespace itself.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.filter(|event| {
            event.namespace == namespace || event.kind == "Namespace" && event.name == namespace
        })
    }

    /// Keeps only the successful writes, dropping dry runs and rejected writes.
    #[must_use]
    pub fn successful_writes(self) -> Self {
        self.filter(|event| event.is_write() && event.has_succeeded() && !event.dry_run)
    }

    /// Keeps only the requests that satisfy a predicate.
    #[must_use]
    pub fn filter(mut self, keep: impl Fn(&AuditEvent) -> bool) -> Self {
        self.0.retain(|event| keep(event));
        self
    }

    /// Returns one line for each request.
    pub fn summaries(&self) -> Vec<String> {
        self.0.iter().map(AuditEvent::summary).collect()
    }
}

/// Returns the audit policy: everything except reads by controllers. Deletions are logged with their options,
/// which mark dry runs, and the engine's creations with their responses, which have the generated names. Writes
/// to Jobs are logged with bodies, which show when a Job starts and completes.
pub(super) fn audit_policy() -> Value {
    let (controllers, engine) = (User::CONTROLLERS.name(), User::ENGINE.name());
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "users": ["system:apiserver", "system:anonymous"]},
            {"level": "None", "users": [controllers], "verbs": ["get", "list", "watch"]},
            {"level": "None", "users": [controllers], "resources": [{"group": "", "resources": ["events"]}]},
            {"level": "Request", "verbs": ["delete", "deletecollection"]},
            {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
            {
                "level": "RequestResponse", "verbs": ["create", "update", "patch"],
                "resources": [{"group": "batch", "resources": ["jobs", "jobs/status"]}],
            },
            {"level": "RequestResponse", "users": [engine], "verbs": ["create"]},
            {"level": "Metadata"},
        ],
    })
}

/// Kinds by plural name. An unknown name triggers a new discovery.
#[derive(Debug, Default)]
pub(super) struct KindsByPlural(BTreeMap<(String, String), String>);

impl KindsByPlural {
    /// Discovers the served kinds if any request is for an unknown one. Kinds that were served earlier stay
    /// known.
    pub(super) async fn discover_missing(
        &mut self,
        caller: &ApiClient,
        events: &[AuditEvent],
    ) -> Result<(), CallError> {
        let unknown = |event: &AuditEvent| {
            !event.resource.is_empty() && !self.0.contains_key(&(event.group.clone(), event.resource.clone()))
        };
        if !events.iter().any(unknown) {
            return Ok(());
        }
        self.add_resources("", &caller.get("/api/v1").await?);
        let groups = caller.get("/apis").await?;
        for group in list_at(&groups, "groups") {
            let name = text_at(group, "/name");
            for version in list_at(group, "versions") {
                let path = format!("/apis/{}", text_at(version, "/groupVersion"));
                // An aggregated API may be temporarily unavailable.
                if let Ok(resources) = caller.get(&path).await {
                    self.add_resources(&name, &resources);
                }
            }
        }
        Ok(())
    }

    fn add_resources(&mut self, group: &str, resources: &Value) {
        for resource in list_at(resources, "resources") {
            let name = text_at(resource, "/name");
            if !name.contains('/') {
                self.0.insert((group.to_owned(), name), text_at(resource, "/kind"));
            }
        }
    }

    pub(super) fn fill_kinds(&self, events: &mut [AuditEvent]) {
        for event in events {
            let known = self.0.get(&(event.group.clone(), event.resource.clone()));
            event.kind = known.cloned().unwrap_or_else(|| event.resource.clone());
        }
    }
}

/// Returns the position of the log's current end.
pub(super) fn end_of_log(path: &Path) -> Mark {
    Mark(std::fs::metadata(path).map_or(0, |file| file.len()))
}

/// Reads complete lines from a position: those that contain any of the texts, or all lines without texts.
/// Skips the rest of a line that started before the position.
pub(super) fn read_events(path: &Path, from: Mark, texts: &[&str]) -> Result<Vec<AuditEvent>, KubeError> {
    let failed = |why| KubeError::File { path: path.to_owned(), why };
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(from.0.saturating_sub(1))).map_err(failed)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(failed)?;
    if from.0 > 0 {
        let started = content.iter().position(|byte| *byte == b'\n').map_or(content.len(), |at| at + 1);
        content.drain(..started);
    }
    let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let texts: Vec<_> = texts.iter().map(|text| memmem::Finder::new(*text)).collect();
    let is_about = |line: &[u8]| texts.is_empty() || texts.iter().any(|text| text.find(line).is_some());
    let mut events = Vec::new();
    for (number, line) in content[..whole].split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() && is_about(line) {
            let wrong =
                |reason: serde_json::Error| KubeError::Audit { line: number + 1, why: reason.to_string() };
            events.push(parse_event(&serde_json::from_slice(line).map_err(wrong)?));
        }
    }
    Ok(events)
}

/// Reads the requests for a namespace from a position, until they satisfy a predicate.
pub(super) async fn wait_for_events(
    path: &Path,
    from: Mark,
    namespace: &str,
    is_satisfied: impl Fn(&Audit) -> bool,
) -> Result<(), KubeError> {
    while !is_satisfied(&Audit(read_events(path, from, &[namespace])?).in_namespace(namespace)) {
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

fn parse_event(line: &Value) -> AuditEvent {
    let (verb, uri) = (text_at(line, "/verb"), text_at(line, "/requestURI"));
    let options = line.get("requestObject").filter(|_| verb.starts_with("delete")).cloned();
    let judged = options.as_ref().is_some_and(|options| !list_at(options, "dryRun").is_empty());
    // After a disconnect of the client, there is no response, but the request has the name.
    let names = ["/objectRef/name", "/responseObject/metadata/name", "/requestObject/metadata/name"];
    let name =
        names.into_iter().map(|path| text_at(line, path)).find(|name| !name.is_empty()).unwrap_or_default();
    let user_agent = text_at(line, "/userAgent");
    let operation = user_agent.split_once("(operation/").and_then(|(_, rest)| rest.split_once(')'));
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    AuditEvent {
        user: text_at(line, "/user/username"),
        impersonated: Some(text_at(line, "/impersonatedUser/username")).filter(|user| !user.is_empty()),
        operation: operation.map(|(operation, _)| operation.to_owned()),
        user_agent,
        group: text_at(line, "/objectRef/apiGroup"),
        resource: text_at(line, "/objectRef/resource"),
        subresource: text_at(line, "/objectRef/subresource"),
        kind: String::new(),
        // For a request about a namespace itself, the server fills in both the namespace and the name.
        namespace: text_at(line, "/objectRef/namespace"),
        name,
        dry_run: judged || query.split('&').any(|part| part.starts_with("dryRun=")),
        code: line.pointer("/responseStatus/code").and_then(Value::as_u64).map_or(0, |code| code as u16),
        received_at: text_at(line, "/requestReceivedTimestamp"),
        responded_at: text_at(line, "/stageTimestamp"),
        options,
        job: parse_job_write(line),
        verb,
        uri,
    }
}

fn parse_job_write(line: &Value) -> Option<JobWrite> {
    let is_job = text_at(line, "/objectRef/resource") == "jobs" && line.get("requestObject").is_some();
    let verb = text_at(line, "/verb");
    if !is_job || verb.starts_with("delete") {
        return None;
    }
    let at = |path: &str| line.pointer(path);
    let is_object = at("/responseObject/kind").is_some_and(|kind| kind == "Job");
    let is_start = match verb.as_str() {
        "create" => is_object && at("/responseObject/spec/suspend") != Some(&Value::Bool(true)),
        _ => at("/requestObject/spec/suspend") == Some(&Value::Bool(false)),
    };
    let annotations =
        at("/responseObject/metadata/annotations").or(at("/requestObject/metadata/annotations"));
    let annotations = annotations.and_then(Value::as_object).into_iter().flatten();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let conditions = at("/responseObject/status/conditions").and_then(Value::as_array);
    let is_complete =
        conditions.into_iter().flatten().any(|one| one["type"] == "Complete" && one["status"] == "True");
    Some(JobWrite {
        uid: if is_object { text_at(line, "/responseObject/metadata/uid") } else { String::new() },
        annotations: annotations.filter_map(text).collect(),
        is_start,
        is_complete,
    })
}

fn text_at(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list_at<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
