//! Kubernetes Events for Applications, as shown by `kubectl describe`. They report that an operation starts,
//! misses its deadline, finishes, or was rejected before it started.
//!
//! An Event's name is derived from the operation's ID and a sequence number, so an Event that is sent twice
//! is stored only once. If the cluster rejects Events, the service logs a warning and continues without them.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{Clock as _, Event, EventKind, EventStream, SystemClock};
use tidegate_model::argo::{API_VERSION, Application, Time};
use tidegate_model::{Object, OperationPhase, Timestamp};

use super::shared_state::SharedState;

/// Maximum message length that the API server accepts, in characters.
const MESSAGE_MAX: usize = 1000;

/// Writes Events for the operations of Applications that are resources in the cluster. Returns when `events`
/// ends.
pub async fn write_events(shared: Arc<SharedState>, mut events: EventStream) {
    let mut is_refused = false;
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let Some(announced) = event_for_operation(&shared, &event) else { continue };
        match put_event(shared.destinations.cluster().as_ref(), &announced).await {
            Ok(()) => is_refused = false,
            // Log the failure only once, until a write succeeds again.
            Err(problem) if !std::mem::replace(&mut is_refused, true) => {
                tracing::warn!(application = event.application, problem, "failed to create an Event");
            }
            Err(_) => {}
        }
    }
}

/// A Kubernetes Event to be written.
pub struct KubernetesEvent {
    /// Unique name of the Event.
    pub name: String,
    /// Kind of the involved object.
    pub kind: &'static str,
    /// Name of the involved object.
    pub key: AppKey,
    /// UID of the object.
    pub uid: String,
    /// Resource version of the object. May be empty.
    pub resource_version: String,
    /// Reason, in one word.
    pub reason: String,
    /// True for a normal Event, false for a warning.
    pub is_normal: bool,
    /// Human-readable message.
    pub message: String,
    /// Time of the event.
    pub at: Timestamp,
}

/// Writes an Event. Succeeds if the Event already exists.
pub async fn put_event(cluster: &dyn Cluster, announced: &KubernetesEvent) -> Result<(), String> {
    let object = Object::try_from(event_object(announced)).map_err(|error| error.to_string())?;
    match cluster.put(object, None).await {
        Err(error) if error.kind != ErrorKind::AlreadyExists => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn event_object(announced: &KubernetesEvent) -> Value {
    let KubernetesEvent { name, kind, key, uid, resource_version, reason, is_normal, message, at } =
        announced;
    let at = Time::from(*at).to_string();
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": key.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": uid,
            "resourceVersion": resource_version,
        },
        "type": if *is_normal { "Normal" } else { "Warning" },
        "reason": reason,
        "message": message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": "tidegate"},
        "reportingComponent": "tidegate",
        "reportingInstance": "tidegate",
    })
}

/// Returns an Event's reason, type (true for normal) and message, or `None` if the event isn't reported as a
/// Kubernetes Event.
fn describe_event(what: &EventKind) -> Option<(&'static str, bool, String)> {
    Some(match what {
        EventKind::Accepted => ("OperationStarted", true, "operation started".to_owned()),
        EventKind::DeadlineExceeded { message, .. } => ("DeadlinePassed", false, message.clone()),
        EventKind::Finished { phase, message } => {
            ("OperationCompleted", *phase == OperationPhase::Succeeded, format!("{phase}: {message}"))
        }
        _ => return None,
    })
}

/// Writes an Event for an operation that was rejected before it started and therefore isn't in the log. Does
/// nothing if Applications aren't cluster resources.
pub async fn write_refusal_event(shared: &SharedState, application: &Application, message: &str) {
    if !shared.store.is_shared() {
        return;
    }
    let (metadata, at) = (&application.metadata, SystemClock.now());
    let announced = KubernetesEvent {
        name: format!("tidegate.{}.{}", metadata.uid, at.as_millis()),
        kind: "Application",
        key: AppKey::of(application),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        reason: "OperationRefused".to_owned(),
        is_normal: false,
        message: format!("no operation was started: {message}"),
        at,
    };
    if let Err(problem) = put_event(shared.destinations.cluster().as_ref(), &announced).await {
        tracing::warn!(application = %announced.key, problem, "failed to create an Event");
    }
}

/// Returns the Event for an operation, or `None` if the operation's Application can't be found.
fn event_for_operation(shared: &SharedState, event: &Event) -> Option<KubernetesEvent> {
    let (reason, is_normal, message) = describe_event(&event.what)?;
    let key = AppKey::parse(&event.application);
    let application = shared.application_cache.get(&key)?;
    Some(KubernetesEvent {
        name: format!("tidegate.{}.{}", event.operation, event.sequence),
        kind: "Application",
        key,
        uid: application.metadata.uid.clone(),
        resource_version: application.metadata.resource_version.clone(),
        reason: reason.to_owned(),
        is_normal,
        message: format!("operation {}: {message}", event.operation),
        at: event.at.unwrap_or_else(|| SystemClock.now()),
    })
}
