//! Health of Gateway API objects with a status that mirrors entries of the spec: a route's status lists its
//! parents, a Gateway's its listeners.

use std::fmt;

use serde_json::Value;

use super::generation::{is_outdated, newest_generation};

/// Route's reference to a parent, with the Gateway API's defaults filled in.
#[derive(PartialEq, Eq)]
struct ParentRef<'a> {
    group: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    section: &'a str,
    port: Option<i64>,
}

impl<'a> ParentRef<'a> {
    fn parse(reference: &'a Value, route_namespace: &'a str) -> Self {
        let text = |field: &str| reference.get(field).and_then(Value::as_str);
        Self {
            // An empty group is the core group, as for Services.
            group: text("group").unwrap_or("gateway.networking.k8s.io"),
            kind: text("kind").unwrap_or("Gateway"),
            namespace: text("namespace").unwrap_or(route_namespace),
            name: text("name").unwrap_or_default(),
            section: text("sectionName").unwrap_or_default(),
            port: reference.get("port").and_then(Value::as_i64),
        }
    }
}

impl fmt::Display for ParentRef<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(formatter, "{}/", self.namespace)?;
        }
        formatter.write_str(self.name)?;
        if !self.section.is_empty() {
            write!(formatter, ", section {}", self.section)?;
        }
        match self.port {
            Some(port) => write!(formatter, ", port {port}"),
            None => Ok(()),
        }
    }
}

/// Conditions that controllers write for each generation. Others may be left over from earlier versions of a
/// controller, or come from other controllers.
const RENEWED_CONDITIONS: [&str; 3] = ["Accepted", "Programmed", "ResolvedRefs"];

/// Describes the first parent without a controller's response to the newest generation of a route. If several
/// controllers respond for the same parent, a single response is enough.
pub(super) fn find_unanswered_parent(route: &Value) -> Option<String> {
    let namespace = route.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let generation = newest_generation(route);
    entries(route, "/spec/parentRefs").find_map(|reference| {
        let parent = ParentRef::parse(reference, namespace);
        let is_about = |answer: &&Value| {
            answer.get("parentRef").is_some_and(|about| ParentRef::parse(about, namespace) == parent)
        };
        let mut answers = entries(route, "/status/parents").filter(is_about).peekable();
        if answers.peek().is_none() {
            return Some(format!("Waiting for a response from {parent}"));
        }
        let is_old =
            !answers.any(|answer| is_about_acceptance(answer) && !is_answer_outdated(answer, generation));
        is_old.then(|| format!("Waiting for a response from {parent} for generation {generation}"))
    })
}

/// Describes the first listener without a status for the newest generation of a Gateway or ListenerSet.
pub(super) fn find_unanswered_listener(gateway: &Value) -> Option<String> {
    let generation = newest_generation(gateway);
    entries(gateway, "/spec/listeners").find_map(|listener| {
        let name = text_of(listener, "name");
        match entries(gateway, "/status/listeners").find(|answer| text_of(answer, "name") == name) {
            None => Some(format!("Waiting for listener {name}")),
            Some(answer) => is_answer_outdated(answer, generation)
                .then(|| format!("Waiting for listener {name} for generation {generation}")),
        }
    })
}

/// Returns true if a response decides whether the route is accepted.
fn is_about_acceptance(answer: &Value) -> bool {
    entries(answer, "/conditions").any(|condition| text_of(condition, "type") == "Accepted")
}

/// Returns true if a response is about an older generation.
fn is_answer_outdated(answer: &Value, generation: i64) -> bool {
    entries(answer, "/conditions")
        .filter(|condition| RENEWED_CONDITIONS.contains(&text_of(condition, "type")))
        .any(|condition| is_outdated(condition, generation))
}

fn entries<'o>(object: &'o Value, place: &'static str) -> impl Iterator<Item = &'o Value> {
    object.pointer(place).and_then(Value::as_array).into_iter().flatten()
}

fn text_of<'a>(entry: &'a Value, field: &str) -> &'a str {
    entry.get(field).and_then(Value::as_str).unwrap_or_default()
}
