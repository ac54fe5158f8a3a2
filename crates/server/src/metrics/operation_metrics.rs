//! Aggregated operation events.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_executor::{DurationHistogram, Event, EventKind};
use tidegate_lifecycle::operation::{ClaimEvent, Deadline, Stage, Verdict, WaveName, WaveStep};
use tidegate_model::{OperationId, OperationOutcome, Phase, Timestamp};

/// Waves with their own label. All others share a label, so that arbitrary wave numbers can't increase memory
/// use.
const LABELED_WAVES: std::ops::RangeInclusive<i64> = -10..=10;
const OTHER_LABEL: &str = "other";
/// Upper bounds of the histogram buckets in seconds, from a wave of ConfigMaps to a rollout that takes hours.
const BUCKET_BOUNDS: &[f64] =
    &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0];

/// Aggregated operation events since the process started.
pub(crate) struct OperationMetrics {
    /// Start of counting. Earlier events are ignored.
    since: Timestamp,
    open_operations: BTreeMap<OperationId, OperationProgress>,
    pub blocked_time: BTreeMap<&'static str, Duration>,
    pub waves: BTreeMap<(Phase, String), DurationHistogram>,
    pub phases: BTreeMap<Phase, DurationHistogram>,
    pub operations: BTreeMap<String, DurationHistogram>,
    pub tasks: BTreeMap<String, u64>,
    pub deadlines: BTreeMap<&'static str, u64>,
    pub retries: u64,
}

/// Progress of an operation.
#[derive(Default)]
struct OperationProgress {
    started_at: Timestamp,
    /// Time of the newest event so far. Also stands in for missing timestamps.
    last_event_at: Timestamp,
    wave: Option<(WaveName, Timestamp)>,
    phase: Option<(Phase, Timestamp)>,
    /// Kind of wait in the current stage, such as `gate`; `None` if it isn't waiting.
    awaited: Option<&'static str>,
    is_paused: bool,
    /// Kind of the current wait, and when it started.
    current_wait: Option<(&'static str, Timestamp)>,
}

impl OperationProgress {
    fn wait_subject(&self) -> Option<&'static str> {
        if self.is_paused { Some("paused") } else { self.awaited }
    }
}

impl OperationMetrics {
    /// Creates empty metrics that start counting at `since`.
    pub fn new(since: Timestamp) -> Self {
        Self {
            since,
            open_operations: BTreeMap::new(),
            blocked_time: BTreeMap::new(),
            waves: BTreeMap::new(),
            phases: BTreeMap::new(),
            operations: BTreeMap::new(),
            tasks: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            retries: 0,
        }
    }

    /// Returns the number of open operations.
    pub fn open_count(&self) -> u64 {
        u64::try_from(self.open_operations.len()).unwrap_or(u64::MAX)
    }

    /// Returns the total waiting time of operations by kind of wait, including current waits.
    pub fn blocked_time(&self, now: Timestamp) -> BTreeMap<&'static str, Duration> {
        let mut blocked = self.blocked_time.clone();
        for (reason, since) in self.open_operations.values().filter_map(|progress| progress.current_wait) {
            *blocked.entry(reason).or_default() += now.since(since.max(self.since));
        }
        blocked
    }

    pub fn count_event(&mut self, event: &Event) {
        let Event { operation, at, what, .. } = event;
        let mut progress = self.open_operations.remove(operation).unwrap_or_default();
        let at = at.unwrap_or(progress.last_event_at).max(progress.last_event_at);
        progress.last_event_at = at;
        let counts = at >= self.since;
        match what {
            EventKind::Accepted => progress.started_at = at,
            EventKind::StageChanged { to, wave } => self.change_stage(&mut progress, to, *wave, at),
            EventKind::Gate { gate, verdict } => {
                progress.awaited = matches!(verdict, Verdict::Closed { .. }).then(|| gate_kind(gate));
            }
            EventKind::ClaimChanged { news, .. } => {
                progress.awaited = matches!(news, ClaimEvent::Taken { .. }).then_some("claim");
            }
            EventKind::Paused { .. } => progress.is_paused = true,
            EventKind::Unpaused { .. } => progress.is_paused = false,
            EventKind::Task { phase, .. } if counts => increment(&mut self.tasks, phase.to_string()),
            EventKind::DeadlineExceeded { of, .. } if counts => {
                let of = match of {
                    Deadline::Operation => "operation",
                    Deadline::Wave => "wave",
                    Deadline::Hook(_) => "hook",
                };
                increment(&mut self.deadlines, of);
            }
            EventKind::RetryStarted { .. } if counts => self.retries = self.retries.saturating_add(1),
            EventKind::Finished { phase, message } => {
                self.finish_wave(&mut progress, at);
                self.finish_phase(&mut progress, at);
                progress.awaited = None;
                progress.is_paused = false;
                self.update_wait(&mut progress, at);
                if counts {
                    let outcome = OperationOutcome::from_phase(*phase, message);
                    observe_duration(
                        &mut self.operations,
                        outcome.to_string(),
                        at.since(progress.started_at),
                    );
                }
                return;
            }
            _ => {}
        }
        self.update_wait(&mut progress, at);
        self.open_operations.insert(*operation, progress);
    }

    fn change_stage(
        &mut self,
        progress: &mut OperationProgress,
        to: &Stage,
        wave: Option<WaveName>,
        at: Timestamp,
    ) {
        progress.awaited = stage_wait_subject(to);
        let Some(wave) = wave else {
            // Stages between two waves count toward the phase, unless the phase is aborted.
            if !matches!(to, Stage::Wave { .. }) {
                self.finish_wave(progress, at);
                self.finish_phase(progress, at);
            }
            return;
        };
        if progress.phase.is_none_or(|(phase, _)| phase != wave.phase) {
            self.finish_phase(progress, at);
            progress.phase = Some((wave.phase, at));
        }
        if progress.wave.is_none_or(|(name, _)| name != wave) {
            self.finish_wave(progress, at);
            progress.wave = Some((wave, at));
        }
        if matches!(to, Stage::Wave { step: WaveStep::Passed, .. }) {
            self.finish_wave(progress, at);
        }
    }

    fn finish_wave(&mut self, progress: &mut OperationProgress, at: Timestamp) {
        let Some((WaveName { phase, wave }, opened)) = progress.wave.take() else { return };
        if at >= self.since {
            let wave = if LABELED_WAVES.contains(&wave) { wave.to_string() } else { OTHER_LABEL.to_owned() };
            observe_duration(&mut self.waves, (phase, wave), at.since(opened));
        }
    }

    fn finish_phase(&mut self, progress: &mut OperationProgress, at: Timestamp) {
        let Some((phase, began)) = progress.phase.take() else { return };
        if at >= self.since {
            observe_duration(&mut self.phases, phase, at.since(began));
        }
    }

    /// Counts the previous wait if the kind of wait has changed.
    fn update_wait(&mut self, progress: &mut OperationProgress, at: Timestamp) {
        let now = progress.wait_subject();
        match progress.current_wait {
            Some((before, _)) if Some(before) == now => return,
            Some((before, since)) => {
                *self.blocked_time.entry(before).or_default() += at.since(since.max(self.since));
            }
            None => {}
        }
        progress.current_wait = now.map(|reason| (reason, at));
    }
}

fn increment<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

fn observe_duration<K: Ord>(durations: &mut BTreeMap<K, DurationHistogram>, key: K, took: Duration) {
    durations.entry(key).or_insert_with(|| DurationHistogram::new(BUCKET_BOUNDS)).observe(took);
}

/// Returns the kind of wait in a stage, or `None` if operations don't wait in it.
fn stage_wait_subject(stage: &Stage) -> Option<&'static str> {
    match stage {
        Stage::AwaitingRetry { .. } => Some("retry"),
        Stage::Terminating => Some("ending"),
        Stage::Wave { step, .. } => match step {
            WaveStep::Held => Some("gate"),
            WaveStep::AwaitingGone | WaveStep::Clearing => Some("deletion"),
            WaveStep::AwaitingHealth => Some("health"),
            WaveStep::Settling { .. } => Some("settling"),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a gate's kind. Custom gates share a label, because their names are arbitrary.
fn gate_kind(gate: &str) -> &'static str {
    match gate.split_once(':').map_or(gate, |(kind, _)| kind) {
        "approval" => "approval",
        "soak" => "soak",
        "concurrency" => "concurrency",
        "window" => "window",
        _ => "gate",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use tidegate_model::OperationPhase;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    /// Counts an operation's events, in order.
    fn apply_events(tally: &mut OperationMetrics, operation: u128, events: Vec<(Option<i64>, EventKind)>) {
        for (sequence, (second, what)) in (1..).zip(events) {
            let operation = OperationId(uuid::Uuid::from_u128(operation));
            let application = "shop".to_owned();
            tally.count_event(&Event { operation, application, sequence, at: second.map(at), what });
        }
    }

    fn stage_change(step: WaveStep, wave: i64) -> EventKind {
        let to = Stage::Wave { index: 0, step };
        EventKind::StageChanged { to, wave: Some(WaveName { phase: Phase::Sync, wave }) }
    }

    fn gate_closed(gate: &str) -> EventKind {
        let verdict =
            Verdict::Closed { reason: "not yet".to_owned(), ask_again_after: Duration::from_secs(1) };
        EventKind::Gate { gate: gate.to_owned(), verdict }
    }

    fn operation_finished() -> EventKind {
        EventKind::Finished { phase: OperationPhase::Succeeded, message: String::new() }
    }

    #[test]
    fn waits_are_counted_by_subject_and_waves_by_duration() {
        let mut tally = OperationMetrics::new(at(100));
        let events = vec![
            (Some(100), EventKind::Accepted),
            (Some(101), stage_change(WaveStep::AwaitingHealth, 0)),
            (Some(111), EventKind::Paused { by: "ann".to_owned(), reason: String::new() }),
            (Some(131), EventKind::Unpaused { by: "ann".to_owned() }),
            (Some(136), stage_change(WaveStep::Passed, 0)),
            (Some(136), gate_closed("soak:10m")),
            (
                None,
                EventKind::Prune {
                    object: tidegate_model::ObjectKey::new("", "ConfigMap", "a", "b"),
                    gone: true,
                },
            ),
        ];
        apply_events(&mut tally, 1, events);
        assert_eq!(tally.open_count(), 1);
        let blocked: Vec<(&str, u64)> =
            tally.blocked_time(at(146)).into_iter().map(|(reason, time)| (reason, time.as_secs())).collect();
        assert_eq!(blocked, [("health", 15), ("paused", 20), ("soak", 10)]);
        apply_events(
            &mut tally,
            1,
            vec![(Some(150), stage_change(WaveStep::Applying, 99)), (Some(160), operation_finished())],
        );
        assert_eq!(tally.open_count(), 0);
        assert_eq!(
            tally.blocked_time(at(999)).get("soak").unwrap().as_secs(),
            14,
            "the duration of an ended wait does not grow"
        );
        let waves: Vec<(String, String)> = tally
            .waves
            .iter()
            .map(|((_, wave), took)| (wave.clone(), took.snapshot().seconds.to_string()))
            .collect();
        assert_eq!(waves, [("0".to_owned(), "35".to_owned()), (OTHER_LABEL.to_owned(), "10".to_owned())]);
        let phase = tally.phases.get(&Phase::Sync).unwrap().snapshot();
        assert_eq!((phase.count, phase.seconds), (1, 59.0));
        assert_eq!(tally.operations.get("Succeeded").unwrap().snapshot().seconds, 60.0);
    }

    #[test]
    fn events_before_the_start_are_tracked_but_not_counted() {
        let mut tally = OperationMetrics::new(at(100));
        apply_events(
            &mut tally,
            1,
            vec![
                (Some(10), EventKind::Accepted),
                (Some(20), stage_change(WaveStep::AwaitingHealth, 0)),
                (Some(30), EventKind::RetryStarted { attempt: 2 }),
                (Some(110), stage_change(WaveStep::Passed, 0)),
            ],
        );
        assert_eq!(tally.retries, 0);
        assert_eq!(tally.blocked_time(at(110)).get("health").unwrap().as_secs(), 10);
        assert_eq!(
            tally.waves.values().next().unwrap().snapshot().seconds,
            90.0,
            "the duration of an ended wave does not change"
        );
        apply_events(&mut tally, 2, vec![(Some(10), EventKind::Accepted), (Some(20), operation_finished())]);
        assert!(tally.operations.is_empty() && tally.open_count() == 1);
    }
}
