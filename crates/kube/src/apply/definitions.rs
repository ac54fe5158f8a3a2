//! After a CustomResourceDefinition was written: its kind is served a little later.

use std::time::Duration;

use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;

/// The longest wait for a kind to be served. What comes after it will say so if it is not.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// Most kinds are served at once; for others, looks that follow each other closely tell nothing new.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(1);
/// How long a refusal of names that was there before the write may be old news.
const STALE: Duration = Duration::from_secs(2);

impl KubeCluster {
    /// Waits until the definition is established and its kind is served, and remembers the kind; no longer where its names are
    /// refused, for then that never comes. Gives its status where that tells of a refusal, or a refusal is over.
    pub(super) async fn await_definition(&self, definition: &Object) -> Option<Value> {
        let kinds = defined_kinds(definition);
        let was_refused = is_refused(definition);
        let mut latest = None;
        let served = async {
            let mut established = is_established(definition);
            let began = tokio::time::Instant::now();
            let mut pause = LOOK_AGAIN;
            while !(established && self.all_served(&kinds).await) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LOOK_AGAIN_MAX);
                if established {
                    continue;
                }
                // Gone, or not to be read: then there is nothing to wait for.
                let Some(found) = self.find_definition(definition).await else {
                    established = true;
                    continue;
                };
                established = is_established(&found);
                // One that is established keeps its kind, whatever names it is given later.
                let refused = is_refused(&found) && !established;
                latest = found.pointer("/status").filter(|_| refused || was_refused).cloned();
                if refused && (!was_refused || began.elapsed() >= STALE) {
                    return;
                }
            }
        };
        // A refreshed kind first: its versions may have changed.
        for gvk in &kinds {
            if !is_established(definition) {
                self.kinds().forget(gvk).await;
            }
        }
        if tokio::time::timeout(SERVED_WITHIN, served).await.is_err() {
            tracing::warn!(name = definition.name(), "the kind of a definition is not served yet");
        }
        latest
    }

    async fn all_served(&self, kinds: &[Gvk]) -> bool {
        for gvk in kinds {
            if self.kinds().find_again(self.http(), gvk).await.is_err() {
                return false;
            }
        }
        true
    }

    /// `None` when it went away or cannot be read: then there is nothing to wait for.
    async fn find_definition(&self, definition: &Object) -> Option<Object> {
        let gvk = definition.gvk();
        let target = self.target(&gvk, "", definition.name()).await.ok()?;
        self.read(&target).await.ok()?
    }
}

/// The kinds that a definition asks the server to serve.
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

/// Another definition has its names.
fn is_refused(definition: &Object) -> bool {
    has_condition(definition, "NamesAccepted", "False")
}

fn has_condition(definition: &Object, kind: &str, status: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str);
        text("type") == Some(kind) && text("status") == Some(status)
    })
}
