//! The pods of one hook, and what their containers write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tidegate_cluster::{Cluster, Container, ErrorKind, Pauses, follow_container, has_begun};
use tidegate_model::{Object, ObjectKey};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::following::{Allowance, Place, Reader};
use super::queue::LINES_MAX;
use super::{Output, OutputSource, RunningHook};
use crate::effects::LineMask;

/// How often it is looked for pods while a hook runs: at first, and once a container is followed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_FOR_MORE_EVERY: Duration = Duration::from_secs(5);
/// How long a look may take.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How long after the end of a hook its containers are read to their end.
const READ_ON_FOR: Duration = Duration::from_secs(3);
/// Of one hook so much is told to one reader.
const HOOK_BYTES_MAX: usize = 8 << 20;
/// How long to wait before a container is asked for again.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(5) };

/// Follows a hook until it has ended, and its containers are read to their end.
pub(super) async fn follow(
    reader: Arc<Reader>,
    cluster: Arc<dyn Cluster>,
    hook: RunningHook,
    mut has_ended: watch::Receiver<bool>,
) {
    let mut following = Following {
        key: hook.key(),
        reader,
        cluster,
        hook,
        owner: None,
        known: BTreeSet::new(),
        allowance: Arc::new(Allowance::new(HOOK_BYTES_MAX)),
        containers: JoinSet::new(),
    };
    loop {
        // What has ended meanwhile is looked at once more.
        let is_last = *has_ended.borrow_and_update();
        if tokio::time::timeout(LOOK_WITHIN, following.look()).await.is_err() {
            tracing::debug!(hook = %following.key, "the pods of a hook were not found in time");
        }
        if is_last {
            break;
        }
        let pause = if following.containers.is_empty() { LOOK_EVERY } else { LOOK_FOR_MORE_EVERY };
        tokio::select! {
            changed = has_ended.changed() => if changed.is_err() { break },
            Some(_) = following.containers.join_next() => tokio::time::sleep(LOOK_EVERY).await,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let reading_on = async { while following.containers.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(READ_ON_FOR, reading_on).await;
}

struct Following {
    key: ObjectKey,
    reader: Arc<Reader>,
    cluster: Arc<dyn Cluster>,
    hook: RunningHook,
    /// The object of the hook, once it was found.
    owner: Option<Object>,
    /// UIDs of pods, and names of containers, that are followed or were.
    known: BTreeSet<(String, String)>,
    allowance: Arc<Allowance>,
    containers: JoinSet<()>,
}

impl Following {
    /// Finds containers that have begun, and follows those that are not followed yet.
    async fn look(&mut self) {
        let Ok(turn) = Arc::clone(&self.reader.shared.output.looks).acquire_owned().await else { return };
        let Some(mut pods) = self.pods().await else { return };
        drop(turn);
        pods.sort_by(|a, b| created(a).cmp(created(b)).then_with(|| a.name().cmp(b.name())));
        for pod in &pods {
            for name in containers(pod).filter(|name| has_begun(pod, name)) {
                let known = (pod.uid().to_owned(), name.to_owned());
                if self.known.contains(&known) {
                    continue;
                }
                let Some(place) = self.reader.place() else {
                    let words = "as many containers are followed as may be at once; more follow as those end";
                    return self.reader.note(Some(self.key.clone()), words);
                };
                self.known.insert(known);
                self.begin(pod, name, place);
            }
        }
    }

    async fn pods(&mut self) -> Option<Vec<Object>> {
        if self.owner.is_none() {
            let RunningHook { gvk, namespace, name, uid } = &self.hook;
            let found = self.cluster.get(gvk, namespace, name).await.ok()?;
            self.owner = found.filter(|found| found.uid() == uid);
        }
        match self.cluster.pods(self.owner.as_ref()?).await {
            Ok(pods) => Some(pods),
            Err(error) if error.kind == ErrorKind::Forbidden => {
                self.reader.note(None, &format!("the output of hooks cannot be followed: {error}"));
                None
            }
            // Whether the cluster answers, the operation itself tells.
            Err(_) => None,
        }
    }

    fn begin(&mut self, pod: &Object, name: &str, place: Place) {
        let container = Container {
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            name: name.to_owned(),
        };
        let source =
            OutputSource { hook: self.key.clone(), pod: pod.name().to_owned(), container: name.to_owned() };
        let (reader, allowance) = (Arc::clone(&self.reader), Arc::clone(&self.allowance));
        let (cluster, uid) = (Arc::clone(&self.cluster), pod.uid().to_owned());
        self.containers.spawn(async move {
            let _place = place;
            let mut mask = LineMask::new(reader.mask());
            let mut lines = follow_container(cluster, container, uid, LINES_MAX, PAUSES);
            while let Some(line) = lines.next().await {
                match line {
                    Ok(line) if allowance.take(line.text.len().saturating_add(1)) => {
                        let (at, text) = (line.at.timestamp(), mask.hidden(&line.text));
                        reader.tell(Output::Line { source: source.clone(), at, text });
                    }
                    Ok(_) => {
                        let most = HOOK_BYTES_MAX >> 20;
                        let words =
                            format!("it has written more than {most} MiB, and is not followed any further");
                        return reader.note(Some(source.hook), &words);
                    }
                    Err(error) => {
                        return reader
                            .note(None, &format!("the output of hooks cannot be followed: {error}"));
                    }
                }
            }
        });
    }
}

fn created(pod: &Object) -> &str {
    pod.text("/metadata/creationTimestamp")
}

/// The containers of a pod, in the order in which they begin.
fn containers(pod: &Object) -> impl Iterator<Item = &str> {
    ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
}
