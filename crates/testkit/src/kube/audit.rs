//! What the API server says it was asked: its audit log, in the order in which it answered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem;
use serde_json::{Value, json};

use super::{CallError, Caller, KubeError, User};

/// A place in the audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(pub(super) u64);

/// One request that was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEvent {
    /// Who asked.
    pub user: String,
    /// As whom, when that was somebody else.
    pub impersonated: Option<String>,
    /// With which program.
    pub user_agent: String,
    /// The operation that the program's name speaks of.
    pub operation: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group, empty for the core API and for paths that are no resources.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// `status`, `binding` and the like, or empty.
    pub subresource: String,
    /// Kind; the plural name where the kind is not known any more.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name; for created objects also a generated one. Empty where what was to be created never came whole.
    pub name: String,
    /// Whether it was only to be judged.
    pub dry_run: bool,
    /// HTTP status; 0 where none was sent.
    pub code: u16,
    /// Path and query.
    pub uri: String,
    /// When it came, as the server writes it.
    pub received_at: String,
    /// When it was answered.
    pub answered_at: String,
    /// The options of a deletion.
    pub options: Option<Value>,
}

impl AuditEvent {
    /// Whether it would change something. A question is asked by creating it, and changes nothing.
    pub fn is_write(&self) -> bool {
        let is_question = matches!(self.group.as_str(), "authorization.k8s.io" | "authentication.k8s.io");
        !is_question
            && matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Whether it changed something, or would have if it were not a dry run.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether nobody knows if it changed something: it was neither done nor refused by the word of the server, which notes
    /// so what it has done for a client that was gone before the answer.
    pub fn is_cut_off(&self) -> bool {
        let is_refused = (400..500).contains(&self.code) && !matches!(self.code, 408 | 499);
        !self.succeeded() && !is_refused
    }

    /// `verb Kind namespace/name`, for lists that are compared.
    pub fn summary(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let part = if self.subresource.is_empty() { String::new() } else { format!("/{}", self.subresource) };
        format!("{} {}{part} {place}{}", self.verb, self.kind, self.name)
    }
}

/// Requests, in the order of their answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit(pub Vec<AuditEvent>);

impl Audit {
    /// Those of one user.
    #[must_use]
    pub fn of(self, user: &User) -> Self {
        self.only(|event| event.user == user.name())
    }

    /// Those about objects of one namespace, and about the namespace itself.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        self.only(|event| {
            event.namespace == namespace || event.kind == "Namespace" && event.name == namespace
        })
    }

    /// Writes that were done: neither dry runs nor refused.
    #[must_use]
    pub fn writes(self) -> Self {
        self.only(|event| event.is_write() && event.succeeded() && !event.dry_run)
    }

    /// Those that pass a test.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&AuditEvent) -> bool) -> Self {
        self.0.retain(|event| keep(event));
        self
    }

    /// A line for each.
    pub fn summaries(&self) -> Vec<String> {
        self.0.iter().map(AuditEvent::summary).collect()
    }
}

/// What is logged: everything but the reads of controllers; of deletions the options, because they say whether it is
/// a dry run; of creations by the engine the answer, because it has the generated name.
pub(super) fn policy() -> Value {
    let (controllers, engine) = (User::CONTROLLERS.name(), User::ENGINE.name());
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "users": ["system:apiserver", "system:anonymous"]},
            {"level": "None", "users": [controllers], "verbs": ["get", "list", "watch"]},
            {"level": "None", "users": [controllers], "resources": [{"group": "", "resources": ["events"]}]},
            {"level": "Request", "verbs": ["delete", "deletecollection"]},
            {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
            {"level": "RequestResponse", "users": [engine], "verbs": ["create"]},
            {"level": "Metadata"},
        ],
    })
}

/// The kinds behind plural names. They are asked for once more when a name is new.
#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<(String, String), String>);

impl Kinds {
    /// Asks the server for what it serves, if any of these is unknown. What it served before stays known.
    pub(super) async fn learn(&mut self, caller: &Caller, events: &[AuditEvent]) -> Result<(), CallError> {
        let unknown = |event: &AuditEvent| {
            !event.resource.is_empty() && !self.0.contains_key(&(event.group.clone(), event.resource.clone()))
        };
        if !events.iter().any(unknown) {
            return Ok(());
        }
        self.add("", &caller.get("/api/v1").await?);
        let groups = caller.get("/apis").await?;
        for group in list(&groups, "groups") {
            let name = text(group, "/name");
            for version in list(group, "versions") {
                let path = format!("/apis/{}", text(version, "/groupVersion"));
                // An aggregated API may be away for a while.
                if let Ok(resources) = caller.get(&path).await {
                    self.add(&name, &resources);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, group: &str, resources: &Value) {
        for resource in list(resources, "resources") {
            let name = text(resource, "/name");
            if !name.contains('/') {
                self.0.insert((group.to_owned(), name), text(resource, "/kind"));
            }
        }
    }

    pub(super) fn name(&self, events: &mut [AuditEvent]) {
        for event in events {
            let known = self.0.get(&(event.group.clone(), event.resource.clone()));
            event.kind = known.cloned().unwrap_or_else(|| event.resource.clone());
        }
    }
}

/// The end of the log.
pub(super) fn end(path: &Path) -> Mark {
    Mark(std::fs::metadata(path).map_or(0, |file| file.len()))
}

/// Whole lines from a place on, and of them those that hold one of these texts, if there are any. A line that was only half
/// written when the place was marked belongs to what was before.
pub(super) fn read(path: &Path, from: Mark, texts: &[&str]) -> Result<Vec<AuditEvent>, KubeError> {
    let failed = |why| KubeError::File { path: path.to_owned(), why };
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(from.0.saturating_sub(1))).map_err(failed)?;
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(failed)?;
    if from.0 > 0 {
        let begun = content.iter().position(|byte| *byte == b'\n').map_or(content.len(), |at| at + 1);
        content.drain(..begun);
    }
    let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let texts: Vec<_> = texts.iter().map(|text| memmem::Finder::new(*text)).collect();
    let is_about = |line: &[u8]| texts.is_empty() || texts.iter().any(|text| text.find(line).is_some());
    let mut events = Vec::new();
    for (number, line) in content[..whole].split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() && is_about(line) {
            let wrong = |why: serde_json::Error| KubeError::Audit { line: number + 1, why: why.to_string() };
            events.push(event(&serde_json::from_slice(line).map_err(wrong)?));
        }
    }
    Ok(events)
}

fn event(line: &Value) -> AuditEvent {
    let (verb, uri) = (text(line, "/verb"), text(line, "/requestURI"));
    let options = line.get("requestObject").filter(|_| verb.starts_with("delete")).cloned();
    let judged = options.as_ref().is_some_and(|options| !list(options, "dryRun").is_empty());
    // Where nobody waited for the answer there is none, but there is what was asked for.
    let names = ["/objectRef/name", "/responseObject/metadata/name", "/requestObject/metadata/name"];
    let name =
        names.into_iter().map(|path| text(line, path)).find(|name| !name.is_empty()).unwrap_or_default();
    let user_agent = text(line, "/userAgent");
    let operation = user_agent.split_once("(operation/").and_then(|(_, rest)| rest.split_once(')'));
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    AuditEvent {
        user: text(line, "/user/username"),
        impersonated: Some(text(line, "/impersonatedUser/username")).filter(|user| !user.is_empty()),
        operation: operation.map(|(operation, _)| operation.to_owned()),
        user_agent,
        group: text(line, "/objectRef/apiGroup"),
        resource: text(line, "/objectRef/resource"),
        subresource: text(line, "/objectRef/subresource"),
        kind: String::new(),
        // For a namespace itself the server names the namespace twice.
        namespace: text(line, "/objectRef/namespace"),
        name,
        dry_run: judged || query.split('&').any(|part| part.starts_with("dryRun=")),
        code: line.pointer("/responseStatus/code").and_then(Value::as_u64).map_or(0, |code| code as u16),
        received_at: text(line, "/requestReceivedTimestamp"),
        answered_at: text(line, "/stageTimestamp"),
        options,
        verb,
        uri,
    }
}

fn text(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
