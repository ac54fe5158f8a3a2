//! Finds a hook's pods and follows the output of their containers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::Value;
use tidegate_cluster::{Cluster, Container, ErrorKind, WatchBackoff, follow_container, has_started};
use tidegate_model::{Object, ObjectKey};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::queue::LINES_MAX;
use super::reader::{ContainerPermit, Reader};
use super::{Output, OutputSource, RunningHook};
use crate::effects::LineMask;

/// Interval between pod searches for a running hook, until a container is followed.
const POD_SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between pod searches once a container is followed.
const LATER_POD_SEARCH_INTERVAL: Duration = Duration::from_secs(5);
/// Timeout of a pod search.
const POD_SEARCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to keep reading a hook's output after it has finished.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum size of a hook's output per reader, in bytes.
const HOOK_BYTES_MAX: usize = 8 << 20;
/// Delays before rereading a container's output.
const RETRY_DELAYS: WatchBackoff =
    WatchBackoff { min: Duration::from_millis(500), max: Duration::from_secs(5) };

/// Follows a hook until it has finished and all of its output has been read.
pub(super) async fn follow_hook(
    reader: Arc<Reader>,
    cluster: Arc<dyn Cluster>,
    hook: RunningHook,
    mut has_ended: watch::Receiver<bool>,
) {
    let mut following = HookFollower {
        key: hook.key(),
        reader,
        cluster,
        hook,
        owner: None,
        followed: BTreeSet::new(),
        byte_budget: Arc::new(ByteBudget::new(HOOK_BYTES_MAX)),
        containers: JoinSet::new(),
    };
    loop {
        // Read the flag before searching, so that the loop searches once more after the hook finishes.
        let is_last = *has_ended.borrow_and_update();
        if tokio::time::timeout(POD_SEARCH_TIMEOUT, following.find_containers()).await.is_err() {
            tracing::debug!(hook = %following.key, "the pods of a hook were not found in time");
        }
        if is_last {
            break;
        }
        let pause =
            if following.containers.is_empty() { POD_SEARCH_INTERVAL } else { LATER_POD_SEARCH_INTERVAL };
        tokio::select! {
            changed = has_ended.changed() => if changed.is_err() { break },
            Some(_) = following.containers.join_next() => tokio::time::sleep(POD_SEARCH_INTERVAL).await,
            () = tokio::time::sleep(pause) => {}
        }
    }
    let reading_on = async { while following.containers.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, reading_on).await;
}

struct HookFollower {
    key: ObjectKey,
    reader: Arc<Reader>,
    cluster: Arc<dyn Cluster>,
    hook: RunningHook,
    /// Object of the hook, once found.
    owner: Option<Object>,
    /// Pod UID and container name of every container followed so far.
    followed: BTreeSet<(String, String)>,
    byte_budget: Arc<ByteBudget>,
    containers: JoinSet<()>,
}

impl HookFollower {
    /// Finds started containers, and follows the new ones.
    async fn find_containers(&mut self) {
        let Ok(permit) = Arc::clone(&self.reader.shared.output_limits.pod_searches).acquire_owned().await
        else {
            return;
        };
        let Some(mut pods) = self.find_pods().await else { return };
        drop(permit);
        pods.sort_by(|a, b| creation_time(a).cmp(creation_time(b)).then_with(|| a.name().cmp(b.name())));
        for pod in &pods {
            for name in containers_in_start_order(pod).filter(|name| has_started(pod, name)) {
                let known = (pod.uid().to_owned(), name.to_owned());
                if self.followed.contains(&known) {
                    continue;
                }
                let Some(place) = self.reader.try_acquire_permit() else {
                    let text = "already following the maximum number of containers; output from other \
                                containers will appear once a followed container finishes";
                    return self.reader.note(Some(self.key.clone()), text);
                };
                self.followed.insert(known);
                self.follow_container(pod, name, place);
            }
        }
    }

    async fn find_pods(&mut self) -> Option<Vec<Object>> {
        if self.owner.is_none() {
            let RunningHook { gvk, namespace, name, uid } = &self.hook;
            let found = self.cluster.get(gvk, namespace, name).await.ok()?;
            self.owner = found.filter(|found| found.uid() == uid);
        }
        match self.cluster.pods(self.owner.as_ref()?).await {
            Ok(pods) => Some(pods),
            Err(error) if error.kind == ErrorKind::Forbidden => {
                self.reader.note(None, &format!("cannot follow the hook output: {error}"));
                None
            }
            // If the cluster is unavailable, the operation itself reports the outage.
            Err(_) => None,
        }
    }

    fn follow_container(&mut self, pod: &Object, name: &str, place: ContainerPermit) {
        let container = Container {
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            name: name.to_owned(),
        };
        let source =
            OutputSource { hook: self.key.clone(), pod: pod.name().to_owned(), container: name.to_owned() };
        let (reader, allowance) = (Arc::clone(&self.reader), Arc::clone(&self.byte_budget));
        let (cluster, uid) = (Arc::clone(&self.cluster), pod.uid().to_owned());
        self.containers.spawn(async move {
            let _place = place;
            let mut mask = LineMask::new(reader.mask());
            let mut lines = follow_container(cluster, container, uid, LINES_MAX, RETRY_DELAYS);
            while let Some(line) = lines.next().await {
                match line {
                    Ok(line) if allowance.take(line.text.len().saturating_add(1)) => {
                        let (at, text) = (line.at.timestamp(), mask.mask_line(&line.text));
                        reader.push_output(Output::Line { source: source.clone(), at, text });
                    }
                    Ok(_) => {
                        let most = HOOK_BYTES_MAX >> 20;
                        let words = format!(
                            "the hook has written more than {most} MiB of output; the rest is not shown"
                        );
                        return reader.note(Some(source.hook), &words);
                    }
                    Err(error) => {
                        return reader.note(None, &format!("cannot follow the hook output: {error}"));
                    }
                }
            }
        });
    }
}

/// Number of output bytes that may still be read from a hook.
struct ByteBudget(AtomicUsize);

impl ByteBudget {
    fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Takes `bytes` from the budget. Returns false if too few are left.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}

fn creation_time(pod: &Object) -> &str {
    pod.text("/metadata/creationTimestamp")
}

/// Returns the containers of a pod in start order.
fn containers_in_start_order(pod: &Object) -> impl Iterator<Item = &str> {
    ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .filter_map(|container| container.get("name").and_then(Value::as_str))
}
