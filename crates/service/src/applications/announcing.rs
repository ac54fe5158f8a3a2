//! Events of the cluster: that an operation of an Application began and ended, and that its deadline passed, for `kubectl
//! describe` and whoever watches Events.
//!
//! Each has a name of its own, made from the operation and the number of what happened, so that told twice it is there
//! once. A cluster that takes none is told so in the log, and nothing waits for it.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{Clock as _, Event, EventKind, Events, SystemClock};
use tidegate_model::argo::{API_VERSION, Time};
use tidegate_model::{Object, OperationPhase};

use super::shared::Shared;
use super::store::AppKey;

/// The longest message that a server takes, in characters.
const MESSAGE_MAX: usize = 1000;

/// Tells what happens to the operations of Applications that are resources of the cluster, for as long as it is polled.
pub(crate) async fn announce(shared: Arc<Shared>, mut events: Events) {
    let mut is_refused = false;
    while let Some(event) = events.next().await {
        let Ok(event) = event else { continue };
        let Some(object) = object(&shared, &event) else { continue };
        match put(shared.places.cluster().as_ref(), object).await {
            Ok(()) => is_refused = false,
            // Said once, until it works again.
            Err(problem) if !std::mem::replace(&mut is_refused, true) => {
                tracing::warn!(application = event.application, problem, "the cluster takes no Events");
            }
            Err(_) => {}
        }
    }
}

async fn put(cluster: &dyn Cluster, object: Value) -> Result<(), String> {
    let object = Object::try_from(object).map_err(|error| error.to_string())?;
    match cluster.put(object, None).await {
        Err(error) if error.kind != ErrorKind::AlreadyExists => Err(error.to_string()),
        _ => Ok(()),
    }
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

/// The Event; nothing for operations of what is no resource of the cluster.
fn object(shared: &Shared, event: &Event) -> Option<Value> {
    let (reason, is_well, message) = told(&event.what)?;
    let key = AppKey::named(&event.application);
    let application = shared.board.get(&key)?;
    let metadata = &application.metadata;
    let at = Time::from(event.at.unwrap_or_else(|| SystemClock.now())).to_string();
    let message: String = message.chars().take(MESSAGE_MAX).collect();
    Some(json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("tidegate.{}.{}", event.operation, event.sequence),
            "namespace": key.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "Application",
            "namespace": key.namespace,
            "name": key.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
        "type": if is_well { "Normal" } else { "Warning" },
        "reason": reason,
        "message": format!("operation {}: {message}", event.operation),
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": "tidegate"},
        "reportingComponent": "tidegate",
        "reportingInstance": "tidegate",
    }))
}
