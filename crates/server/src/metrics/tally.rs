//! What the events of operations add up to.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_executor::{Durations, Event, EventKind};
use tidegate_lifecycle::operation::{ClaimNews, Deadline, Stage, Verdict, WaveName, WaveStep};
use tidegate_model::{OperationId, Phase, Timestamp};

/// Waves with these numbers have a label of their own; all others share one, so that nobody's numbers cost memory.
const WAVES: std::ops::RangeInclusive<i64> = -10..=10;
const OTHER: &str = "other";
/// Upper ends of histograms, in seconds: from a wave of settings to a rollout of hours.
const BOUNDS: &[f64] = &[0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0];

/// What the events of operations add up to, since the process began.
pub(crate) struct Tally {
    /// What happened before is known, and not counted.
    since: Timestamp,
    open: BTreeMap<OperationId, Course>,
    pub blocked: BTreeMap<&'static str, Duration>,
    pub waves: BTreeMap<(Phase, String), Durations>,
    pub phases: BTreeMap<Phase, Durations>,
    pub operations: BTreeMap<String, Durations>,
    pub tasks: BTreeMap<String, u64>,
    pub deadlines: BTreeMap<&'static str, u64>,
    pub retries: u64,
}

/// How far an operation has come.
#[derive(Default)]
struct Course {
    begun: Timestamp,
    /// Time of the newest event; a few have none of their own.
    at: Timestamp,
    wave: Option<(WaveName, Timestamp)>,
    phase: Option<(Phase, Timestamp)>,
    /// What the stage it is at waits for.
    awaited: Option<&'static str>,
    is_paused: bool,
    /// Since when it waits for what it waits for now.
    waits: Option<(&'static str, Timestamp)>,
}

impl Course {
    fn waits_for(&self) -> Option<&'static str> {
        if self.is_paused { Some("paused") } else { self.awaited }
    }
}

impl Tally {
    /// Nothing has happened since then.
    pub fn new(since: Timestamp) -> Self {
        Self {
            since,
            open: BTreeMap::new(),
            blocked: BTreeMap::new(),
            waves: BTreeMap::new(),
            phases: BTreeMap::new(),
            operations: BTreeMap::new(),
            tasks: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            retries: 0,
        }
    }

    /// How many operations are not over.
    pub fn open(&self) -> u64 {
        u64::try_from(self.open.len()).unwrap_or(u64::MAX)
    }

    /// How long operations have waited, by what for, those that wait now included.
    pub fn blocked(&self, now: Timestamp) -> BTreeMap<&'static str, Duration> {
        let mut blocked = self.blocked.clone();
        for (reason, since) in self.open.values().filter_map(|course| course.waits) {
            *blocked.entry(reason).or_default() += now.since(since.max(self.since));
        }
        blocked
    }

    /// Something happened.
    pub fn hear(&mut self, event: &Event) {
        let Event { operation, at, what, .. } = event;
        let mut course = self.open.remove(operation).unwrap_or_default();
        let at = at.unwrap_or(course.at).max(course.at);
        course.at = at;
        let counts = at >= self.since;
        match what {
            EventKind::Accepted => course.begun = at,
            EventKind::Moved { to, wave } => self.moved(&mut course, to, *wave, at),
            EventKind::Gate { gate, verdict } => {
                course.awaited = matches!(verdict, Verdict::Closed { .. }).then(|| gate_kind(gate));
            }
            EventKind::Claim { news, .. } => {
                course.awaited = matches!(news, ClaimNews::Taken { .. }).then_some("claim");
            }
            EventKind::Paused { .. } => course.is_paused = true,
            EventKind::Unpaused { .. } => course.is_paused = false,
            EventKind::Task { phase, .. } if counts => add(&mut self.tasks, phase.to_string()),
            EventKind::DeadlinePassed { of, .. } if counts => {
                let of = match of {
                    Deadline::Operation => "operation",
                    Deadline::Wave => "wave",
                    Deadline::Hook(_) => "hook",
                };
                add(&mut self.deadlines, of);
            }
            EventKind::RetryStarted { .. } if counts => self.retries = self.retries.saturating_add(1),
            EventKind::Finished { phase, .. } => {
                self.leave_wave(&mut course, at);
                self.leave_phase(&mut course, at);
                course.awaited = None;
                course.is_paused = false;
                self.wait(&mut course, at);
                if counts {
                    observe(&mut self.operations, phase.to_string(), at.since(course.begun));
                }
                return;
            }
            _ => {}
        }
        self.wait(&mut course, at);
        self.open.insert(*operation, course);
    }

    fn moved(&mut self, course: &mut Course, to: &Stage, wave: Option<WaveName>, at: Timestamp) {
        course.awaited = awaited(to);
        let Some(wave) = wave else {
            // What is between two waves belongs to the phase, unless it is given up.
            if !matches!(to, Stage::Wave { .. }) {
                self.leave_wave(course, at);
                self.leave_phase(course, at);
            }
            return;
        };
        if course.phase.is_none_or(|(phase, _)| phase != wave.phase) {
            self.leave_phase(course, at);
            course.phase = Some((wave.phase, at));
        }
        if course.wave.is_none_or(|(name, _)| name != wave) {
            self.leave_wave(course, at);
            course.wave = Some((wave, at));
        }
        if matches!(to, Stage::Wave { step: WaveStep::Passed, .. }) {
            self.leave_wave(course, at);
        }
    }

    fn leave_wave(&mut self, course: &mut Course, at: Timestamp) {
        let Some((WaveName { phase, wave }, opened)) = course.wave.take() else { return };
        if at >= self.since {
            let wave = if WAVES.contains(&wave) { wave.to_string() } else { OTHER.to_owned() };
            observe(&mut self.waves, (phase, wave), at.since(opened));
        }
    }

    fn leave_phase(&mut self, course: &mut Course, at: Timestamp) {
        let Some((phase, began)) = course.phase.take() else { return };
        if at >= self.since {
            observe(&mut self.phases, phase, at.since(began));
        }
    }

    /// Counts what it waited for until now, where that is another thing now.
    fn wait(&mut self, course: &mut Course, at: Timestamp) {
        let now = course.waits_for();
        match course.waits {
            Some((before, _)) if Some(before) == now => return,
            Some((before, since)) => {
                *self.blocked.entry(before).or_default() += at.since(since.max(self.since));
            }
            None => {}
        }
        course.waits = now.map(|reason| (reason, at));
    }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    let count = counts.entry(key).or_default();
    *count = count.saturating_add(1);
}

fn observe<K: Ord>(durations: &mut BTreeMap<K, Durations>, key: K, took: Duration) {
    durations.entry(key).or_insert_with(|| Durations::new(BOUNDS)).observe(took);
}

/// What an operation at this stage waits for; nothing where it works.
fn awaited(stage: &Stage) -> Option<&'static str> {
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

/// What kind of gate it is; gates of one's own share a word, since their names may be anything.
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
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use tidegate_model::OperationPhase;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1000)
    }

    /// Tells events of one operation, in order.
    fn tell(tally: &mut Tally, operation: u128, events: Vec<(Option<i64>, EventKind)>) {
        for (sequence, (second, what)) in (1..).zip(events) {
            let operation = OperationId(uuid::Uuid::from_u128(operation));
            let application = "shop".to_owned();
            tally.hear(&Event { operation, application, sequence, at: second.map(at), what });
        }
    }

    fn moved(step: WaveStep, wave: i64) -> EventKind {
        let to = Stage::Wave { index: 0, step };
        EventKind::Moved { to, wave: Some(WaveName { phase: Phase::Sync, wave }) }
    }

    fn closed(gate: &str) -> EventKind {
        let verdict =
            Verdict::Closed { reason: "not yet".to_owned(), ask_again_after: Duration::from_secs(1) };
        EventKind::Gate { gate: gate.to_owned(), verdict }
    }

    fn finished() -> EventKind {
        EventKind::Finished { phase: OperationPhase::Succeeded, message: String::new() }
    }

    #[test]
    fn waits_are_counted_by_what_for_and_waves_by_how_long() {
        let mut tally = Tally::new(at(100));
        let events = vec![
            (Some(100), EventKind::Accepted),
            (Some(101), moved(WaveStep::AwaitingHealth, 0)),
            (Some(111), EventKind::Paused { by: "ann".to_owned(), reason: String::new() }),
            (Some(131), EventKind::Unpaused { by: "ann".to_owned() }),
            (Some(136), moved(WaveStep::Passed, 0)),
            (Some(136), closed("soak:10m")),
            (
                None,
                EventKind::Prune {
                    object: tidegate_model::ObjectKey::new("", "ConfigMap", "a", "b"),
                    gone: true,
                },
            ),
        ];
        tell(&mut tally, 1, events);
        assert_eq!(tally.open(), 1);
        let blocked: Vec<(&str, u64)> =
            tally.blocked(at(146)).into_iter().map(|(reason, time)| (reason, time.as_secs())).collect();
        assert_eq!(blocked, [("health", 15), ("paused", 20), ("soak", 10)]);
        tell(&mut tally, 1, vec![(Some(150), moved(WaveStep::Applying, 99)), (Some(160), finished())]);
        assert_eq!(tally.open(), 0);
        assert_eq!(tally.blocked(at(999)).get("soak").unwrap().as_secs(), 14, "what is over grows no more");
        let waves: Vec<(String, String)> = tally
            .waves
            .iter()
            .map(|((_, wave), took)| (wave.clone(), took.counted().seconds.to_string()))
            .collect();
        assert_eq!(waves, [("0".to_owned(), "35".to_owned()), (OTHER.to_owned(), "10".to_owned())]);
        let phase = tally.phases.get(&Phase::Sync).unwrap().counted();
        assert_eq!((phase.count, phase.seconds), (1, 59.0));
        assert_eq!(tally.operations.get("Succeeded").unwrap().counted().seconds, 60.0);
    }

    #[test]
    fn what_happened_before_the_process_is_known_and_not_counted() {
        let mut tally = Tally::new(at(100));
        tell(
            &mut tally,
            1,
            vec![
                (Some(10), EventKind::Accepted),
                (Some(20), moved(WaveStep::AwaitingHealth, 0)),
                (Some(30), EventKind::RetryStarted { attempt: 2 }),
                (Some(110), moved(WaveStep::Passed, 0)),
            ],
        );
        assert_eq!(tally.retries, 0);
        assert_eq!(tally.blocked(at(110)).get("health").unwrap().as_secs(), 10);
        assert_eq!(
            tally.waves.values().next().unwrap().counted().seconds,
            90.0,
            "a wave is as long as it was"
        );
        tell(&mut tally, 2, vec![(Some(10), EventKind::Accepted), (Some(20), finished())]);
        assert!(tally.operations.is_empty() && tally.open() == 1);
    }
}
