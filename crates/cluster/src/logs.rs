//! Continuous log stream of a container that survives broken connections and restarts. Delivers each line
//! exactly once, if the cluster still has it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use serde_json::Value;
use tidegate_model::{Gvk, Object};

use crate::{
    Cluster, ClusterError, Container, ErrorKind, LogLine, LogStart, LogStream, LogTime, WatchBackoff,
};

/// Maximum number of consecutive streams that may end in the middle of the same line.
const IDLE_STREAMS_MAX: u32 = 16;
/// Number of consecutive failures without a new line before the logs count as unavailable.
const FAILURES_MAX: u32 = 3;

/// Follows a container's log, starting with its last `lines` lines. `uid` is the UID of its pod. The stream
/// ends when the container has terminated for good and all lines have been delivered, or when the pod is
/// gone. Transient errors are retried; if the cluster doesn't serve logs or refuses the request, the error is
/// the last item.
pub fn follow_container(
    cluster: Arc<dyn Cluster>,
    container: Container,
    uid: String,
    lines: usize,
    backoff: WatchBackoff,
) -> LogStream {
    let follower = LogFollower {
        cluster,
        container,
        uid,
        lines,
        backoff,
        next_delay: backoff.min,
        failure_count: 0,
        progress: DeliveryProgress::default(),
        partial_line: None,
        has_partial_line: false,
        has_new_line: false,
        idle_streams: 0,
        stage: Stage::Opening(Duration::ZERO, false),
    };
    stream::unfold(follower, |mut follower| {
        async move {
            let next = follower.next_line().await?;
            Some((next, follower))
        }
        .boxed()
    })
    .boxed()
}

struct LogFollower {
    cluster: Arc<dyn Cluster>,
    container: Container,
    uid: String,
    lines: usize,
    backoff: WatchBackoff,
    /// Delay before the next request.
    next_delay: Duration,
    /// Number of consecutive server failures.
    failure_count: u32,
    progress: DeliveryProgress,
    /// The last, incomplete line. If the server sends exactly this text again, the line is complete.
    partial_line: Option<LogLine>,
    /// True if the current stream has ended in the middle of a line.
    has_partial_line: bool,
    /// True if the current stream has delivered a new line.
    has_new_line: bool,
    /// Number of consecutive streams without a new line since the container terminated.
    idle_streams: u32,
    stage: Stage,
}

enum Stage {
    /// Waiting to send the next request, after this delay. The flag is true if the container has already
    /// terminated.
    Opening(Duration, bool),
    Reading(LogStream, bool),
    Finished,
}

/// State of a container.
enum ContainerState {
    Running,
    Terminated,
    Gone,
}

/// Delivery progress. Streams can only start at a whole second, so they may begin with lines that were
/// already delivered.
#[derive(Default)]
struct DeliveryProgress {
    /// Time of the last line. `None` before the first line.
    last_time: Option<LogTime>,
    /// Number of lines with this time.
    lines_at_last_time: usize,
    /// Number of lines with this time repeated by the current stream.
    repeated_lines: usize,
    is_catching_up: bool,
}

impl DeliveryProgress {
    fn restart_stream(&mut self) {
        (self.repeated_lines, self.is_catching_up) = (0, self.last_time.is_some());
    }

    /// Records a line and returns true if it is new.
    fn is_new(&mut self, at: LogTime) -> bool {
        if let Some(last) = self.last_time.filter(|_| self.is_catching_up) {
            if at < last {
                return false;
            }
            if at == last && self.repeated_lines < self.lines_at_last_time {
                self.repeated_lines += 1;
                return false;
            }
            self.is_catching_up = false;
        }
        // The rest of this stream is new, even if the node's clock was set back in the meantime.
        self.lines_at_last_time = if self.last_time == Some(at) { self.lines_at_last_time + 1 } else { 1 };
        self.last_time = Some(at);
        true
    }
}

impl LogFollower {
    async fn next_line(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            match &mut self.stage {
                Stage::Finished => return None,
                Stage::Opening(after, had_ended) => {
                    let had_ended = *had_ended;
                    tokio::time::sleep(*after).await;
                    let from = self.progress.last_time.map_or(LogStart::Last(self.lines), LogStart::Since);
                    match self.cluster.follow_logs(&self.container, from).await {
                        Ok(stream) => {
                            self.progress.restart_stream();
                            (self.has_new_line, self.has_partial_line) = (false, false);
                            self.stage = Stage::Reading(stream, had_ended);
                        }
                        Err(error) => {
                            if let Some(end) = self.handle_error(error) {
                                return Some(Err(end));
                            }
                        }
                    }
                }
                Stage::Reading(stream, had_ended) => {
                    let had_ended = *had_ended;
                    match stream.next().await {
                        // A partial line is sent again in full, unless the container never wrote the rest of
                        // it.
                        Some(Ok(line))
                            if !(line.is_complete
                                || had_ended && self.partial_line.as_ref() == Some(&line)) =>
                        {
                            (self.partial_line, self.has_partial_line) = (Some(line), true);
                        }
                        Some(Ok(line)) => {
                            self.failure_count = 0;
                            if self.progress.is_new(line.at) {
                                (self.next_delay, self.has_new_line, self.idle_streams) =
                                    (self.backoff.min, true, 0);
                                // The stored partial line was the start of this line. Forget it, because
                                // another line with the same time could begin with the same text.
                                self.partial_line.take_if(|_| line.is_complete);
                                return Some(Ok(line));
                            }
                        }
                        Some(Err(error)) => {
                            if let Some(end) = self.handle_error(error) {
                                return Some(Err(end));
                            }
                        }
                        // The log is complete once a stream opened after the container's termination has
                        // nothing new.
                        None if had_ended
                            && !self.has_new_line
                            && (!self.has_partial_line || self.idle_streams >= IDLE_STREAMS_MAX) =>
                        {
                            self.stage = Stage::Finished;
                        }
                        None => {
                            self.idle_streams =
                                self.idle_streams.saturating_add(u32::from(had_ended && !self.has_new_line));
                            self.handle_end().await;
                        }
                    }
                }
            }
        }
    }

    /// Handles the end of a stream. Either the container has terminated, or the server or a proxy has closed
    /// the connection.
    async fn handle_end(&mut self) {
        self.stage = match self.container_state().await {
            ContainerState::Gone => Stage::Finished,
            // Delay the next request if streams repeatedly end at the same position.
            ContainerState::Terminated if self.idle_streams > 0 => {
                Stage::Opening(self.increase_delay(), true)
            }
            ContainerState::Terminated => Stage::Opening(Duration::ZERO, true),
            ContainerState::Running => Stage::Opening(self.increase_delay(), false),
        };
    }

    /// Handles a failed request or a broken stream. Returns the error if the logs are unavailable.
    fn handle_error(&mut self, error: ClusterError) -> Option<ClusterError> {
        self.failure_count = self.failure_count.saturating_add(1);
        let is_final = match error.kind {
            ErrorKind::NotFound | ErrorKind::Gone => {
                self.stage = Stage::Finished;
                return None;
            }
            ErrorKind::Unsupported | ErrorKind::Forbidden | ErrorKind::UnknownKind => true,
            // The API server fetches logs from the node. If it can't reach the node, the logs are
            // unavailable.
            ErrorKind::Server => self.failure_count >= FAILURES_MAX,
            _ => false,
        };
        if is_final {
            self.stage = Stage::Finished;
            let ClusterError { kind, message, .. } = error;
            return Some(match kind {
                ErrorKind::Server => {
                    ClusterError::new(ErrorKind::Unsupported, format!("logs are not available: {message}"))
                }
                kind => ClusterError::new(kind, message),
            });
        }
        self.stage = Stage::Opening(self.increase_delay(), false);
        None
    }

    fn increase_delay(&mut self) -> Duration {
        let wait = self.next_delay;
        self.next_delay = self.next_delay.saturating_mul(2).min(self.backoff.max);
        wait
    }

    async fn container_state(&mut self) -> ContainerState {
        let Container { namespace, pod, name } = &self.container;
        match self.cluster.get(&Gvk::new("", "v1", "Pod"), namespace, pod).await {
            Ok(Some(pod)) if pod.uid() == self.uid => {
                if has_ended(&pod, name) {
                    ContainerState::Terminated
                } else {
                    ContainerState::Running
                }
            }
            Ok(_) => ContainerState::Gone,
            Err(error) if error.kind == ErrorKind::NotFound => ContainerState::Gone,
            Err(_) => ContainerState::Running,
        }
    }
}

/// Returns true if a container won't write any more lines.
fn has_ended(pod: &Object, container: &str) -> bool {
    let is_over = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
    let restarts = pod.text("/spec/restartPolicy");
    is_over
        || container_status(pod, container)
            .and_then(|status| status.pointer("/state/terminated"))
            .is_some_and(|ended| restarts == "Never" || ended["exitCode"] == 0 && restarts == "OnFailure")
}

/// Returns true if a container has started and may have written lines.
pub fn has_started(pod: &Object, container: &str) -> bool {
    let begun = |status: &Value| {
        ["/state/running", "/state/terminated", "/lastState/terminated"]
            .iter()
            .any(|state| status.pointer(state).is_some_and(Value::is_object))
    };
    container_status(pod, container).is_some_and(begun)
}

fn container_status<'p>(pod: &'p Object, container: &str) -> Option<&'p Value> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .find(|status| status.get("name").and_then(Value::as_str) == Some(container))
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;

    use super::*;

    #[test]
    fn a_repeated_line_is_new_only_once() {
        let at = |millis: i64| LogTime::from(Timestamp::from_millis(1000 + millis));
        let mut progress = DeliveryProgress::default();
        let mut new = |lines: &[i64], reopened: bool| {
            if reopened {
                progress.restart_stream();
            }
            lines.iter().map(|millis| progress.is_new(at(*millis))).collect::<Vec<_>>()
        };
        assert_eq!(new(&[1, 5, 5], true), [true, true, true]);
        // The server repeats the whole second. Meanwhile, the container has written a third line with the
        // last delivered time.
        assert_eq!(new(&[1, 5, 5, 5, 7], true), [false, false, false, true, true]);
        // Lines are new even if the node's clock was set back.
        assert_eq!(new(&[3, 3], false), [true, true]);
        assert_eq!(new(&[3, 3, 9], true), [false, false, true]);
    }
}
