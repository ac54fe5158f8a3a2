//! Pod logs: lines from an annotation, written one by one while the pod is running.
//!
//! A pod that runs for ten seconds and has nine lines writes one line per second. All lines are written by
//! the end of its running time, whatever its outcome.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tidegate_model::{GroupKind, Object, ObjectKey, Timestamp};

use super::behavior::LOGS;
use super::objects::StoredObject;
use super::shared_state::SharedState;
use super::wakeups::Wakeups;
use super::{SimState, api_error};
use crate::{ClusterError, Container, ErrorKind, LogLine, LogStart, LogStream, LogTime};

/// Time and text of a line, including its line ending.
type TimedLine = (Timestamp, String);

impl SimState {
    /// Returns the last bytes that a container has written so far, according to the annotation on its pod or
    /// on the pod's owner.
    pub fn read_logs(
        &mut self,
        now: Timestamp,
        container: &Container,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        self.begin_read(now)?;
        let (_, lines) = self.pod_lines(&container.namespace, &container.pod)?;
        let written = lines.into_iter().filter(|(at, _)| *at <= now);
        let text: String = written.map(|(_, line)| line).collect();
        let mut start = text.len().saturating_sub(limit_bytes);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        Ok(text.get(start..).unwrap_or_default().to_owned())
    }

    /// Returns the pod and all its lines, including lines not yet written.
    fn pod_lines(&self, namespace: &str, pod: &str) -> Result<(&StoredObject, Vec<TimedLine>), ClusterError> {
        let key = ObjectKey::new("", "Pod", namespace, pod);
        let stored = self.find(&key).ok_or_else(|| api_error::not_found(&key))?;
        let text = self.logs_annotation(&stored.object).ok_or_else(|| {
            let reason = format!("simulated pods do not write logs unless the {LOGS} annotation is set");
            ClusterError::new(ErrorKind::Unsupported, reason)
        })?;
        let lasts = self.behavior_of(stored).ready_after.unwrap_or(self.config.ready_after);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let parts = u32::try_from(lines.len()).unwrap_or(u32::MAX).saturating_add(1);
        let at = |number: u32| stored.created_at + lasts.saturating_mul(number) / parts;
        Ok((stored, (1..).zip(lines).map(|(number, line)| (at(number), line.to_owned())).collect()))
    }

    fn logs_annotation(&self, object: &Object) -> Option<String> {
        object.annotation(LOGS).map(str::to_owned).or_else(|| {
            let owners = self.owners(object);
            owners.iter().find_map(|owner| self.logs_annotation(&self.find(&owner.key)?.object))
        })
    }
}

/// Follows the log of a pod.
pub(super) struct PodLogFollower {
    shared: Arc<SharedState>,
    container: Container,
    uid: String,
    /// Number of delivered or skipped lines.
    next_index: usize,
    pending: VecDeque<LogLine>,
    wakeups: Wakeups,
    has_ended: bool,
}

/// Starts following a pod's log.
pub(super) fn follow_pod(
    shared: &Arc<SharedState>,
    container: &Container,
    from: LogStart,
) -> Result<LogStream, ClusterError> {
    let (uid, next_index, changes) = shared.with_state(|inner, now| {
        inner.check_journal()?;
        inner.state.begin_read(now)?;
        let (pod, lines) = inner.state.pod_lines(&container.namespace, &container.pod)?;
        let written = lines.iter().take_while(|(at, _)| *at <= now).count();
        let next = match from {
            LogStart::Last(most) => written.saturating_sub(most),
            LogStart::Since(time) => lines.iter().take_while(|(at, _)| *at < time.start_of_second()).count(),
        };
        let uid = pod.object.uid().to_owned();
        Ok::<_, ClusterError>((uid, next, inner.subscribe(GroupKind::new("", "Pod"))))
    })?;
    let (shared, container) = (Arc::clone(shared), container.clone());
    let (wakeups, pending) = (Wakeups::new(&shared, changes), VecDeque::new());
    let follower = PodLogFollower { shared, container, uid, next_index, pending, wakeups, has_ended: false };
    Ok(Box::pin(stream::unfold(follower, |mut follower| async move {
        follower.next_line().await.map(|line| (line, follower))
    })))
}

impl PodLogFollower {
    async fn next_line(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(Ok(line));
            }
            if self.has_ended {
                return None;
            }
            match self.read_new_lines() {
                Ok(pause) if self.pending.is_empty() && !self.has_ended => self.wakeups.wait(pause).await,
                Ok(_) => {}
                Err(error) => {
                    self.has_ended = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Reads the new lines. Returns the time until the next possible change if nothing is written before
    /// then.
    fn read_new_lines(&mut self) -> Result<Option<Duration>, ClusterError> {
        self.wakeups.mark_seen();
        let Container { namespace, pod, .. } = &self.container;
        let seen = self.shared.with_state(|inner, now| {
            inner.check_journal()?;
            inner.state.advance(now);
            let (stored, lines) = match inner.state.pod_lines(namespace, pod) {
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
                found => found?,
            };
            let has_ended = matches!(stored.object.text("/status/phase"), "Succeeded" | "Failed");
            let is_same = stored.object.uid() == self.uid;
            Ok::<_, ClusterError>(is_same.then_some((now, has_ended, lines, inner.state.next_due())))
        })?;
        let Some((now, has_ended, lines, step)) = seen else {
            self.has_ended = true;
            return Ok(None);
        };
        let written = lines.iter().skip(self.next_index).take_while(|(at, _)| *at <= now);
        self.pending.extend(written.map(|(at, line)| LogLine {
            at: LogTime::from(*at),
            text: line.trim_end_matches(['\n', '\r']).to_owned(),
            is_complete: true,
        }));
        self.next_index += self.pending.len();
        let line = lines.get(self.next_index).map(|(at, _)| *at);
        self.has_ended = has_ended && line.is_none();
        let wake = [line, step].into_iter().flatten().min();
        Ok(wake.map(|at| at.since(now).max(Duration::from_millis(1))))
    }
}
