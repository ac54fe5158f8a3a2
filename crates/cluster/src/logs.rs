//! What a container writes, line by line, for as long as somebody asks: over broken connections and restarts of the container,
//! each line once and none left out, as far as the cluster still has them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use tidegate_model::{Gvk, Object, Timestamp};

use crate::{Cluster, ClusterError, ErrorKind, Pauses};

/// So many streams in a row may end in the middle of a line that is not written any more.
const IDLE_MAX: u32 = 16;
/// A server that fails so often in a row, without a line in between, has no logs to give.
const FAILURES_MAX: u32 = 3;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Lines of a container, in the order in which they were written. The first item may be an error that keeps the stream from
/// beginning; an error ends it.
pub type LogStream = BoxStream<'static, Result<LogLine, ClusterError>>;

/// A line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When, as whoever keeps the log has noted it.
    pub at: LogTime,
    /// What, without the end of the line.
    pub text: String,
    /// It has an end; otherwise the stream has ended in the middle of it, or the container has.
    pub is_whole: bool,
}

/// When a line was written, in nanoseconds since 1970. Several lines may have the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime(i64);

impl LogTime {
    /// Reads a time of RFC 3339 with up to nine digits after the second, as kubelets write them.
    pub fn parse(text: &str) -> Option<Self> {
        let at: Timestamp = text.parse().ok()?;
        let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
        let digits = fraction.bytes().take_while(u8::is_ascii_digit);
        // Milliseconds are in the timestamp; what follows them is in the fourth digit to the ninth.
        let below = digits.chain(std::iter::repeat(b'0')).skip(3).take(6);
        let nanos = below.fold(0, |nanos: i64, digit| nanos * 10 + i64::from(digit - b'0'));
        Some(Self(at.as_millis().checked_mul(NANOS_PER_MILLI)?.checked_add(nanos)?))
    }

    /// To the millisecond, rounded down.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(NANOS_PER_MILLI))
    }

    /// The beginning of its second: servers can be asked for no other moments.
    pub fn second(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(NANOS_PER_SECOND).saturating_mul(1000))
    }
}

impl From<Timestamp> for LogTime {
    fn from(at: Timestamp) -> Self {
        Self(at.as_millis().saturating_mul(NANOS_PER_MILLI))
    }
}

/// Which container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    /// Namespace of its pod.
    pub namespace: String,
    /// Its pod.
    pub pod: String,
    /// Its name in the pod.
    pub name: String,
}

/// Which lines come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogsFrom {
    /// So many of those that were written before, at most.
    Last(usize),
    /// Those from the second of this moment on; some of them may be known.
    Since(LogTime),
}

/// Follows a container of the pod with this UID, beginning with the last `lines` that it has written. The stream ends when the
/// container has ended for good and all of it was told, or the pod is gone. Its last item is an error where the cluster serves
/// no logs, or not to us; whatever may pass is waited for.
pub fn follow_container(
    cluster: Arc<dyn Cluster>,
    container: Container,
    uid: String,
    lines: usize,
    pauses: Pauses,
) -> LogStream {
    let follower = Follower {
        cluster,
        container,
        uid,
        lines,
        pauses,
        wait: pauses.min,
        failures: 0,
        told: Told::default(),
        half: None,
        has_half: false,
        has_news: false,
        idle: 0,
        stage: Stage::Opening(Duration::ZERO, false),
    };
    stream::unfold(follower, |mut follower| {
        async move {
            let next = follower.next().await?;
            Some((next, follower))
        }
        .boxed()
    })
    .boxed()
}

struct Follower {
    cluster: Arc<dyn Cluster>,
    container: Container,
    uid: String,
    lines: usize,
    pauses: Pauses,
    /// Before it is asked again.
    wait: Duration,
    /// How often the server has failed in a row.
    failures: u32,
    told: Told,
    /// The half of a line that came last. If it comes again, it is all there is of that line.
    half: Option<LogLine>,
    /// The stream that is read has ended in the middle of a line.
    has_half: bool,
    /// The stream that is read has told something new.
    has_news: bool,
    /// How many streams in a row have told nothing new since the container has ended.
    idle: u32,
    stage: Stage,
}

enum Stage {
    /// It is to be asked after so long; whether the container was seen to have ended before.
    Opening(Duration, bool),
    Reading(LogStream, bool),
    Over,
}

/// What became of a container.
enum Fate {
    Runs,
    Ended,
    Gone,
}

/// How far it was told. A server can be asked for lines from a second on, so the first ones after that may be known.
#[derive(Default)]
struct Told {
    /// The time of the last line; nothing before the first.
    last: Option<LogTime>,
    /// How many lines with this time.
    with_it: usize,
    /// How many lines with this time have come again.
    again: usize,
    is_catching_up: bool,
}

impl Told {
    fn reopened(&mut self) {
        (self.again, self.is_catching_up) = (0, self.last.is_some());
    }

    /// Whether a line is not known yet. From then on it is.
    fn is_new(&mut self, at: LogTime) -> bool {
        if let Some(last) = self.last.filter(|_| self.is_catching_up) {
            if at < last {
                return false;
            }
            if at == last && self.again < self.with_it {
                self.again += 1;
                return false;
            }
            self.is_catching_up = false;
        }
        // A clock may go back: what comes in one stream is new, whatever its time.
        self.with_it = if self.last == Some(at) { self.with_it + 1 } else { 1 };
        self.last = Some(at);
        true
    }
}

impl Follower {
    async fn next(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            match &mut self.stage {
                Stage::Over => return None,
                Stage::Opening(after, had_ended) => {
                    let had_ended = *had_ended;
                    tokio::time::sleep(*after).await;
                    let from = self.told.last.map_or(LogsFrom::Last(self.lines), LogsFrom::Since);
                    match self.cluster.follow_logs(&self.container, from).await {
                        Ok(stream) => {
                            self.told.reopened();
                            (self.has_news, self.has_half) = (false, false);
                            self.stage = Stage::Reading(stream, had_ended);
                        }
                        Err(error) => {
                            if let Some(end) = self.broke(error) {
                                return Some(Err(end));
                            }
                        }
                    }
                }
                Stage::Reading(stream, had_ended) => {
                    let had_ended = *had_ended;
                    match stream.next().await {
                        // Half a line comes again whole, unless nobody has written the rest.
                        Some(Ok(line))
                            if !(line.is_whole || had_ended && self.half.as_ref() == Some(&line)) =>
                        {
                            (self.half, self.has_half) = (Some(line), true);
                        }
                        Some(Ok(line)) => {
                            self.failures = 0;
                            if self.told.is_new(line.at) {
                                (self.wait, self.has_news, self.idle) = (self.pauses.min, true, 0);
                                // It was half of this one; another of the same moment may have one that is alike.
                                self.half.take_if(|_| line.is_whole);
                                return Some(Ok(line));
                            }
                        }
                        Some(Err(error)) => {
                            if let Some(end) = self.broke(error) {
                                return Some(Err(end));
                            }
                        }
                        // All was told when a stream that was opened after its end has nothing new.
                        None if had_ended && !self.has_news && (!self.has_half || self.idle >= IDLE_MAX) => {
                            self.stage = Stage::Over;
                        }
                        None => {
                            self.idle = self.idle.saturating_add(u32::from(had_ended && !self.has_news));
                            self.ended().await;
                        }
                    }
                }
            }
        }
    }

    /// A stream has ended: with the container, or because the server, or something on the way there, has cut it.
    async fn ended(&mut self) {
        self.stage = match self.fate().await {
            Fate::Gone => Stage::Over,
            // Whoever is cut off in the same place again and again is not asked without a pause.
            Fate::Ended if self.idle > 0 => Stage::Opening(self.wait_longer(), true),
            Fate::Ended => Stage::Opening(Duration::ZERO, true),
            Fate::Runs => Stage::Opening(self.wait_longer(), false),
        };
    }

    /// It could not be asked, or the stream broke. Returns why nothing more can be told.
    fn broke(&mut self, error: ClusterError) -> Option<ClusterError> {
        self.failures = self.failures.saturating_add(1);
        let is_final = match error.kind {
            ErrorKind::NotFound | ErrorKind::Gone => {
                self.stage = Stage::Over;
                return None;
            }
            ErrorKind::Unsupported | ErrorKind::Forbidden | ErrorKind::UnknownKind => true,
            // The API server fetches logs from the node; where it cannot, there are none to be had.
            ErrorKind::Server => self.failures >= FAILURES_MAX,
            _ => false,
        };
        if is_final {
            self.stage = Stage::Over;
            let ClusterError { kind, message } = error;
            return Some(match kind {
                ErrorKind::Server => {
                    ClusterError::new(ErrorKind::Unsupported, format!("no logs can be had: {message}"))
                }
                kind => ClusterError::new(kind, message),
            });
        }
        self.stage = Stage::Opening(self.wait_longer(), false);
        None
    }

    fn wait_longer(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = self.wait.saturating_mul(2).min(self.pauses.max);
        wait
    }

    async fn fate(&mut self) -> Fate {
        let Container { namespace, pod, name } = &self.container;
        match self.cluster.get(&Gvk::new("", "v1", "Pod"), namespace, pod).await {
            Ok(Some(pod)) if pod.uid() == self.uid => {
                if has_ended(&pod, name) {
                    Fate::Ended
                } else {
                    Fate::Runs
                }
            }
            Ok(_) => Fate::Gone,
            Err(error) if error.kind == ErrorKind::NotFound => Fate::Gone,
            Err(_) => Fate::Runs,
        }
    }
}

/// Whether a container will write nothing more.
fn has_ended(pod: &Object, container: &str) -> bool {
    let is_over = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
    let restarts = pod.text("/spec/restartPolicy");
    is_over
        || status_of(pod, container)
            .and_then(|status| status.pointer("/state/terminated"))
            .is_some_and(|ended| restarts == "Never" || ended["exitCode"] == 0 && restarts == "OnFailure")
}

/// Whether a container of a pod has begun, so that it may have written something.
pub fn has_begun(pod: &Object, container: &str) -> bool {
    let begun = |status: &Value| {
        ["/state/running", "/state/terminated", "/lastState/terminated"]
            .iter()
            .any(|state| status.pointer(state).is_some_and(Value::is_object))
    };
    status_of(pod, container).is_some_and(begun)
}

fn status_of<'p>(pod: &'p Object, container: &str) -> Option<&'p Value> {
    ["/status/initContainerStatuses", "/status/containerStatuses"]
        .into_iter()
        .filter_map(|list| pod.pointer(list).and_then(Value::as_array))
        .flatten()
        .find(|status| status.get("name").and_then(Value::as_str) == Some(container))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let base = LogTime::parse("2026-11-21T09:30:41Z").unwrap();
        for (text, nanos) in [
            ("2026-11-21T09:30:41.123456789Z", 123_456_789),
            ("2026-11-21T11:30:41.123456789+02:00", 123_456_789),
            ("2026-11-21T09:30:41.5Z", 500_000_000),
            ("2026-11-21T09:30:41.0000001Z", 100),
        ] {
            let at = LogTime::parse(text).unwrap();
            assert_eq!(at.0 - base.0, nanos, "{text}");
            assert_eq!(at.second(), "2026-11-21T09:30:41Z".parse().unwrap(), "{text}");
        }
        assert_eq!(LogTime::parse("listening on :80"), None);
    }

    #[test]
    fn of_lines_that_come_again_each_is_new_once() {
        let at = |nanos| LogTime(1_000_000_000 + nanos);
        let mut told = Told::default();
        let mut new = |lines: &[i64], reopened: bool| {
            if reopened {
                told.reopened();
            }
            lines.iter().map(|nanos| told.is_new(at(*nanos))).collect::<Vec<_>>()
        };
        assert_eq!(new(&[1, 5, 5], true), [true, true, true]);
        // The second begins again; of the time that was told last a third line has come meanwhile.
        assert_eq!(new(&[1, 5, 5, 5, 7], true), [false, false, false, true, true]);
        // A clock that goes back makes no line old.
        assert_eq!(new(&[3, 3], false), [true, true]);
        assert_eq!(new(&[3, 3, 9], true), [false, false, true]);
    }
}
