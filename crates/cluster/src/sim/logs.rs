//! What pods write: the lines of an annotation, one after the other while the pod runs.
//!
//! A pod that takes ten seconds and has nine lines writes one each second. All are written when its time is over, whatever
//! becomes of it then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tidegate_model::{GroupKind, Object, ObjectKey, Timestamp};
use tokio::sync::watch;

use super::behaviour::LOGS;
use super::objects::Stored;
use super::shared::Shared;
use super::{SimState, refuse};
use crate::{ClusterError, Container, ErrorKind, LogLine, LogStream, LogTime, LogsFrom};

/// A line with its end, and when it is written.
type Line = (Timestamp, String);

impl SimState {
    /// The end of what a container has written so far, as the annotation of its pod, or of what the pod belongs to, has it.
    pub fn logs(
        &mut self,
        now: Timestamp,
        namespace: &str,
        pod: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        self.begin_read(now)?;
        let (_, lines) = self.lines_of(namespace, pod)?;
        let written = lines.into_iter().filter(|(at, _)| *at <= now);
        let text: String = written.map(|(_, line)| line).collect();
        let mut start = text.len().saturating_sub(limit_bytes);
        while !text.is_char_boundary(start) {
            start += 1;
        }
        Ok(text.get(start..).unwrap_or_default().to_owned())
    }

    /// The pod, and all that it will write.
    fn lines_of(&self, namespace: &str, pod: &str) -> Result<(&Stored, Vec<Line>), ClusterError> {
        let key = ObjectKey::new("", "Pod", namespace, pod);
        let stored = self.find(&key).ok_or_else(|| refuse::not_found(&key))?;
        let text = self.logs_of(&stored.object).ok_or_else(|| {
            let why = format!("simulated pods write no logs; let them write some with the annotation {LOGS}");
            ClusterError::new(ErrorKind::Unsupported, why)
        })?;
        let lasts = self.behaviour(stored).ready_after.unwrap_or(self.config.ready_after);
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let parts = u32::try_from(lines.len()).unwrap_or(u32::MAX).saturating_add(1);
        let at = |number: u32| stored.created_at + lasts.saturating_mul(number) / parts;
        Ok((stored, (1..).zip(lines).map(|(number, line)| (at(number), line.to_owned())).collect()))
    }

    fn logs_of(&self, object: &Object) -> Option<String> {
        object.annotation(LOGS).map(str::to_owned).or_else(|| {
            let owners = self.owners(object);
            owners.iter().find_map(|owner| self.logs_of(&self.find(&owner.key)?.object))
        })
    }
}

/// What a pod writes from now on, and what it wrote before.
pub(super) struct Follower {
    shared: Arc<Shared>,
    container: Container,
    uid: String,
    /// So many lines were told, or passed over.
    next: usize,
    ready: VecDeque<LogLine>,
    changed: watch::Receiver<u64>,
    schedule: watch::Receiver<u64>,
    is_over: bool,
}

/// Begins to follow a pod.
pub(super) fn begin(
    shared: &Arc<Shared>,
    container: &Container,
    from: LogsFrom,
) -> Result<LogStream, ClusterError> {
    let (uid, next, changed) = shared.act(|inner, now| {
        inner.refuse_if_broken()?;
        inner.state.begin_read(now)?;
        let (pod, lines) = inner.state.lines_of(&container.namespace, &container.pod)?;
        let written = lines.iter().take_while(|(at, _)| *at <= now).count();
        let next = match from {
            LogsFrom::Last(most) => written.saturating_sub(most),
            LogsFrom::Since(time) => lines.iter().take_while(|(at, _)| *at < time.second()).count(),
        };
        let uid = pod.object.uid().to_owned();
        Ok::<_, ClusterError>((uid, next, inner.subscribe(GroupKind::new("", "Pod"))))
    })?;
    let (shared, container) = (Arc::clone(shared), container.clone());
    let (schedule, ready) = (shared.schedule.subscribe(), VecDeque::new());
    let follower = Follower { shared, container, uid, next, ready, changed, schedule, is_over: false };
    Ok(Box::pin(stream::unfold(follower, |mut follower| async move {
        follower.next().await.map(|line| (line, follower))
    })))
}

impl Follower {
    async fn next(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(Ok(line));
            }
            if self.is_over {
                return None;
            }
            match self.look() {
                Ok(pause) if self.ready.is_empty() && !self.is_over => self.sleep(pause).await,
                Ok(_) => {}
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }

    /// Takes what was written. Returns how long nothing more can happen by itself.
    fn look(&mut self) -> Result<Option<Duration>, ClusterError> {
        // Notices are taken before the look, so that a change in between is not missed.
        self.changed.borrow_and_update();
        self.schedule.borrow_and_update();
        let Container { namespace, pod, .. } = &self.container;
        let seen = self.shared.act(|inner, now| {
            inner.refuse_if_broken()?;
            inner.state.advance(now);
            let (stored, lines) = match inner.state.lines_of(namespace, pod) {
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
                found => found?,
            };
            let has_ended = matches!(stored.object.text("/status/phase"), "Succeeded" | "Failed");
            let is_same = stored.object.uid() == self.uid;
            Ok::<_, ClusterError>(is_same.then_some((now, has_ended, lines, inner.state.next_due())))
        })?;
        let Some((now, has_ended, lines, step)) = seen else {
            self.is_over = true;
            return Ok(None);
        };
        let written = lines.iter().skip(self.next).take_while(|(at, _)| *at <= now);
        self.ready.extend(written.map(|(at, line)| LogLine {
            at: LogTime::from(*at),
            text: line.trim_end_matches(['\n', '\r']).to_owned(),
            is_whole: true,
        }));
        self.next += self.ready.len();
        let line = lines.get(self.next).map(|(at, _)| *at);
        self.is_over = has_ended && line.is_none();
        let wake = [line, step].into_iter().flatten().min();
        Ok(wake.map(|at| at.since(now).max(Duration::from_millis(1))))
    }

    async fn sleep(&mut self, pause: Option<Duration>) {
        let timer = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        // The senders live as long as this follower, so neither notice can fail.
        tokio::select! {
            _ = self.changed.changed() => {}
            _ = self.schedule.changed() => {}
            () = timer => {}
        }
    }
}
