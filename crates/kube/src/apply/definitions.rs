//! Waiting for a written CustomResourceDefinition, because the server starts to serve its kind slightly
//! later.

use std::time::Duration;

use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;

/// Maximum time to wait for a kind to be served. Later calls for it fail.
const SERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// First interval between checks, doubled up to [`POLL_INTERVAL_MAX`]. Most kinds are served immediately.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Time after a write during which the definition may still report an earlier refusal of its names.
const STALE_REFUSAL_MAX: Duration = Duration::from_secs(2);

impl KubeCluster {
    /// Waits until the definition is established and its kind is served, and records the kind. Gives up if
    /// the definition's names are refused, because it will never be established. Returns its status if it
    /// reports a refusal or has resolved an earlier one.
    pub(super) async fn await_definition(&self, definition: &Object) -> Option<Value> {
        let kinds = defined_kinds(definition);
        let was_refused = has_name_conflict(definition);
        let mut latest = None;
        let served = async {
            let mut established = is_established(definition);
            let began = tokio::time::Instant::now();
            let mut pause = POLL_INTERVAL;
            while !(established && self.has_all_kinds(&kinds).await) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(POLL_INTERVAL_MAX);
                if established {
                    continue;
                }
                // Deleted or unreadable: nothing to wait for.
                let Some(found) = self.find_definition(definition).await else {
                    established = true;
                    continue;
                };
                established = is_established(&found);
                // An established definition keeps its kind, whatever happens to its names later.
                let refused = has_name_conflict(&found) && !established;
                latest = found.pointer("/status").filter(|_| refused || was_refused).cloned();
                if refused && (!was_refused || began.elapsed() >= STALE_REFUSAL_MAX) {
                    return;
                }
            }
        };
        // Drop the kind from the cache first, because its versions may have changed.
        for gvk in &kinds {
            if !is_established(definition) {
                self.kinds().forget(gvk).await;
            }
        }
        if tokio::time::timeout(SERVE_TIMEOUT, served).await.is_err() {
            tracing::warn!(
                name = definition.name(),
                "the kind defined by a CustomResourceDefinition is not served yet"
            );
        }
        latest
    }

    async fn has_all_kinds(&self, kinds: &[Gvk]) -> bool {
        for gvk in kinds {
            if self.kinds().find_now(self.api_server(), gvk).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Reads the definition. `None` if it was deleted or can't be read.
    async fn find_definition(&self, definition: &Object) -> Option<Object> {
        let gvk = definition.gvk();
        let target = self.find_target(&gvk, "", definition.name()).await.ok()?;
        self.read_object(&target).await.ok()?
    }
}

fn defined_kinds(definition: &Object) -> Vec<Gvk> {
    let (group, kind) = (definition.text("/spec/group"), definition.text("/spec/names/kind"));
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let served = versions
        .into_iter()
        .flatten()
        .filter(|version| version.get("served").and_then(Value::as_bool).unwrap_or(false));
    served
        .filter_map(|version| version.get("name")?.as_str())
        .map(|version| Gvk::new(group, version, kind))
        .collect()
}

fn is_established(definition: &Object) -> bool {
    has_condition(definition, "Established", "True")
}

/// Returns true if another definition already has these names.
fn has_name_conflict(definition: &Object) -> bool {
    has_condition(definition, "NamesAccepted", "False")
}

fn has_condition(definition: &Object, kind: &str, status: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") == Some(kind) && text("status") == Some(status)
    })
}
