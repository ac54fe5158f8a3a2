//! Diagnostics of a failed hook: the status of its unhealthy pods, and the last lines of their container
//! logs.
//!
//! Diagnostics are best-effort: errors never fail the hook, and unreadable information is omitted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::{Cluster, Container, ErrorKind};
use tidegate_lifecycle::operation::{Answer, HookLog};
use tidegate_model::Object;

use super::live_object;
use super::subject::Subject;

/// Maximum size of one hook's logs, in bytes.
pub(crate) const LOG_BYTES_MAX: usize = 16 * 1024;
/// Maximum time to read the diagnostics. Reading delays the end of the hook.
pub(crate) const DIAGNOSTICS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of containers read per hook, newest pods first.
const CONTAINERS_MAX: usize = 16;

/// Diagnostics collected so far, which survive the time limit.
#[derive(Debug, Default)]
pub(crate) struct HookDiagnostics(Mutex<(String, Vec<HookLog>)>);

impl HookDiagnostics {
    fn lock(&self) -> MutexGuard<'_, (String, Vec<HookLog>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the diagnostics to the result of the command.
    pub fn into_answer(self) -> Answer {
        let (reason, logs) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Answer::LogsRead { reason, logs }
    }
}

pub(crate) async fn read_diagnostics(cluster: &dyn Cluster, subject: &Subject<'_>, found: &HookDiagnostics) {
    let Ok(Some(owner)) = live_object::find_object(cluster, subject).await else { return };
    let Ok(mut pods) = cluster.pods(&owner).await else { return };
    // Start with the newest pods: they are the most informative.
    pods.sort_by(|a, b| creation_time(b).cmp(creation_time(a)).then_with(|| a.name().cmp(b.name())));
    found.lock().0 = tidegate_health::pods_reason(&pods).unwrap_or_default();
    let mut left = LOG_BYTES_MAX;
    for container in pods.iter().flat_map(containers).take(CONTAINERS_MAX) {
        if left == 0 {
            return;
        }
        match cluster.logs(&container, left).await {
            Ok(text) => {
                let text = tail(&text, left);
                left = left.saturating_sub(text.len());
                if !text.is_empty() {
                    let log =
                        HookLog { pod: container.pod, container: container.name, text: text.to_owned() };
                    found.lock().1.push(log);
                }
            }
            Err(error) if error.kind == ErrorKind::Unsupported => return,
            // A container that never started has no log.
            Err(error) => {
                tracing::debug!(pod = container.pod, container = container.name, why = %error.kind, "failed to read the log of a failed hook");
            }
        }
    }
}

fn creation_time(pod: &Object) -> &str {
    pod.text("/metadata/creationTimestamp")
}

fn containers(pod: &Object) -> impl Iterator<Item = Container> {
    ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .map(|name| Container {
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            name: name.to_owned(),
        })
}

/// Returns at most the last `limit` bytes of a text, starting at a character boundary.
fn tail(text: &str, limit: usize) -> &str {
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start = start.saturating_add(1);
    }
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_starts_at_a_character_boundary() {
        assert_eq!(tail("abc", 5), "abc");
        assert_eq!(tail("abc", 2), "bc");
        assert_eq!(tail("aäb", 2), "b");
        assert_eq!(tail("", 0), "");
    }
}
