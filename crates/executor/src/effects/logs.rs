//! The last words of a failed hook: why its pods are not well, and the end of what their containers wrote.
//!
//! Nothing depends on them, so nothing here fails: what cannot be read is left out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_lifecycle::operation::{Answer, HookLog};
use tidegate_model::Object;

use super::found;
use super::subject::Subject;

/// How much of the logs of one hook is kept.
pub(crate) const LOG_BYTES_MAX: usize = 16 * 1024;
/// How long reading them may take. The hook's end waits for it.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(10);
/// Containers of one hook that are asked, the newest pods first.
const CONTAINERS_MAX: usize = 16;

/// What was found so far: whoever runs out of patience keeps that.
#[derive(Debug, Default)]
pub(crate) struct LastWords(Mutex<(String, Vec<HookLog>)>);

impl LastWords {
    fn lock(&self) -> MutexGuard<'_, (String, Vec<HookLog>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to the command.
    pub fn into_answer(self) -> Answer {
        let (reason, logs) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Answer::LogsRead { reason, logs }
    }
}

/// Reads the last words of a hook.
pub(crate) async fn read(cluster: &dyn Cluster, subject: &Subject<'_>, found: &LastWords) {
    let Ok(Some(owner)) = found::find(cluster, subject).await else { return };
    let Ok(mut pods) = cluster.pods(&owner).await else { return };
    // The newest attempt tells most.
    pods.sort_by(|a, b| created(b).cmp(created(a)).then_with(|| a.name().cmp(b.name())));
    found.lock().0 = tidegate_health::pods_reason(&pods).unwrap_or_default();
    let mut left = LOG_BYTES_MAX;
    for (pod, container) in pods.iter().flat_map(containers).take(CONTAINERS_MAX) {
        if left == 0 {
            return;
        }
        match cluster.logs(pod.namespace(), pod.name(), container, left).await {
            Ok(text) => {
                let text = end_of(&text, left);
                left = left.saturating_sub(text.len());
                if !text.is_empty() {
                    let log = HookLog {
                        pod: pod.name().to_owned(),
                        container: container.to_owned(),
                        text: text.to_owned(),
                    };
                    found.lock().1.push(log);
                }
            }
            Err(error) if error.kind == ErrorKind::Unsupported => return,
            // A container that never started has no log.
            Err(error) => {
                tracing::debug!(pod = pod.name(), container, why = %error.kind, "no log of a failed hook");
            }
        }
    }
}

fn created(pod: &Object) -> &str {
    pod.text("/metadata/creationTimestamp")
}

fn containers(pod: &Object) -> impl Iterator<Item = (&Object, &str)> {
    ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .map(move |name| (pod, name))
}

/// The last `limit` bytes, from the beginning of a character on.
fn end_of(text: &str, limit: usize) -> &str {
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
    fn the_end_begins_with_a_whole_character() {
        assert_eq!(end_of("abc", 5), "abc");
        assert_eq!(end_of("abc", 2), "bc");
        assert_eq!(end_of("aäb", 2), "b");
        assert_eq!(end_of("", 0), "");
    }
}
