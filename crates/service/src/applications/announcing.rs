//! Events of the cluster: that an operation of an Application began and ended, that its deadline passed, and that one was refused
//! before it began, for `kubectl describe` and whoever watches Events.
//!
//! Each has a name of its own, made from the operation and the number of what happened, so that told twice it is there
//! once. A cluster that takes none is told so in the log, and nothing waits for it.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{Clock as _, Event, EventKind, Events, SystemClock};
use tidegate_model::argo::{API_VERSION, Application, Time};
use tidegate_model::{Object, OperationPhase, Timestamp};

use super::shared::Shared;
use super::store::AppKey;

/// The longest message that a server takes, in characters.
const MESSAGE_MAX: usize = 1000;

/// Tells what happens to the operations of Applications that are resources of the cluster, for as long as it is polled.
pub(crate) async fn announce(shared: Arc<Shared>, mut events: Events) {
    let mut is_refused = false;
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let Some(announced) = announced(&shared, &event) else { continue };
        match put_event(shared.places.cluster().as_ref(), &announced).await {
            Ok(()) => is_refused = false,
            // Said once, until it works again.
            Err(problem) if !std::mem::replace(&mut is_refused, true) => {
                tracing::warn!(application = event.application, problem, "the cluster takes no Events");
            }
            Err(_) => {}
        }
    }
}

/// Something that an Event tells.
pub(crate) struct Announced {
    /// The name of the Event, which tells it from all others.
    pub name: String,
    /// Kind of what it is about.
    pub kind: &'static str,
    /// Name of what it is about.
    pub key: AppKey,
    pub uid: String,
    pub resource_version: String,
    /// In one word.
    pub reason: String,
    /// Whether nobody has to see to it.
    pub is_well: bool,
    /// In words.
    pub message: String,
    pub at: Timestamp,
}

/// Tells something. What was told before is there already.
pub(crate) async fn put_event(cluster: &dyn Cluster, announced: &Announced) -> Result<(), String> {
    let object = Object::try_from(object(announced)).map_err(|error| error.to_string())?;
    match cluster.put(object, None).await {
        Err(error) if error.kind != ErrorKind::AlreadyExists => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn object(announced: &Announced) -> Value {
    let Announced { name, kind, key, uid, resource_version, reason, is_well, message, at } = announced;
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
        "type": if *is_well { "Normal" } else { "Warning" },
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

/// What is told of an event, and whether all is well; nothing of most.
fn told(what: &EventKind) -> Option<(&'static str, bool, String)> {
    Some(match what {
        EventKind::Accepted => ("OperationStarted", true, "the operation has begun".to_owned()),
        EventKind::DeadlinePassed { message, .. } => ("DeadlinePassed", false, message.clone()),
        EventKind::Finished { phase, message } => {
            ("OperationCompleted", *phase == OperationPhase::Succeeded, format!("{phase}: {message}"))
        }
        _ => return None,
    })
}

/// Tells of an operation that was refused before it began, of which the log knows nothing. Does nothing where Applications are no
/// resources of the cluster.
pub(crate) async fn announce_refusal(shared: &Shared, application: &Application, message: &str) {
    if !shared.store.is_shared() {
        return;
    }
    let (metadata, at) = (&application.metadata, SystemClock.now());
    let announced = Announced {
        name: format!("tidegate.{}.{}", metadata.uid, at.as_millis()),
        kind: "Application",
        key: AppKey::of(application),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        reason: "OperationRefused".to_owned(),
        is_well: false,
        message: format!("nothing was begun: {message}"),
        at,
    };
    if let Err(problem) = put_event(shared.places.cluster().as_ref(), &announced).await {
        tracing::warn!(application = %announced.key, problem, "the cluster takes no Events");
    }
}

/// What is told of an operation; nothing of those of what is no resource of the cluster.
fn announced(shared: &Shared, event: &Event) -> Option<Announced> {
    let (reason, is_well, message) = told(&event.what)?;
    let key = AppKey::named(&event.application);
    let application = shared.board.get(&key)?;
    Some(Announced {
        name: format!("tidegate.{}.{}", event.operation, event.sequence),
        kind: "Application",
        key,
        uid: application.metadata.uid.clone(),
        resource_version: application.metadata.resource_version.clone(),
        reason: reason.to_owned(),
        is_well,
        message: format!("operation {}: {message}", event.operation),
        at: event.at.unwrap_or_else(|| SystemClock.now()),
    })
}
