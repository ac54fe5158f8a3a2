//! Random histories of a log, compared step by step with a model that is too simple to be wrong. They run on
//! both implementations.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_oplog::{CompactionResult, LoadedStream, LogError, OperationLog, Retention};

use crate::child::event;
use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Event, Memory, NOW, ReopenableLog, State, append_to_shop, finished_summary,
    loaded_stream as loaded_of, operation, operation_summary,
};
use crate::log_copy::{MovingDatabase, MovingDisk};
use crate::postgres::Postgres;
use crate::postgres_server::PostgresServer;

const OPERATIONS: u128 = 5;
const APPLICATIONS: [&str; 5] = ["shop", "bank", "mint", "mill", "forge"];

#[derive(Clone, Debug)]
enum Step {
    /// Appends events to some operations in one group, with or without a snapshot, finished or not.
    Append(Vec<(Index, u8, bool, bool)>),
    /// Appends a group that must be rejected as a whole.
    Gap(Index, u64),
    /// Compacts with a history, a number of summaries, and a number of events per open operation.
    Compact(usize, usize, u64),
    Reopen,
}

fn step_strategy() -> impl Strategy<Value = Step> {
    let one = (any::<Index>(), 0_u8..4, prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    prop_oneof![
        8 => prop::collection::vec(one, 1..4).prop_map(Step::Append),
        1 => (any::<Index>(), 2_u64..9).prop_map(|(which, ahead)| Step::Gap(which, ahead)),
        2 => (0_usize..3, 0_usize..4, 0_u64..9).prop_map(|(a, b, c)| Step::Compact(a, b, c)),
        2 => Just(Step::Reopen),
    ]
}

#[derive(Clone, Debug, Default)]
struct ModelStream {
    events: Vec<Event>,
    snapshot: Option<u64>,
    /// Sequence number of the last removed event.
    base: u64,
    has_ended: bool,
    is_reduced: bool,
}

/// Streams by number, and the number of applications that they belong to.
#[derive(Debug)]
struct Model(BTreeMap<u128, ModelStream>, u128);

fn state_at(at: u64) -> State {
    State { waves: vec![], padding: format!("state after {at}") }
}

fn count_events(events: &[Event]) -> u64 {
    u64::try_from(events.len()).unwrap()
}

impl Model {
    /// Applies an append to the model, and returns it for the log.
    fn append(&mut self, number: u128, events: u8, snapshot: bool, end: bool) -> Append {
        let kept = self.0.entry(number).or_default();
        let first = count_events(&kept.events) + 1;
        let new: Vec<Event> = (first..first + u64::from(events)).map(|number| event(number, 40)).collect();
        kept.events.extend(new.clone());
        kept.has_ended |= end;
        let last = count_events(&kept.events);
        if snapshot {
            kept.snapshot = Some(last);
        }
        let application = APPLICATIONS[usize::try_from(number % self.1).unwrap()];
        let summary = if kept.has_ended {
            finished_summary(number, application)
        } else {
            operation_summary(number, application)
        };
        Append { snapshot: snapshot.then(|| state_at(last)), summary, ..append_to_shop(number, first, new) }
    }

    fn compact(&mut self, history: usize, summaries: usize, open_events: u64) -> CompactionResult {
        let mut done = CompactionResult::default();
        let mut forgotten = Vec::new();
        for each in 0..self.1 {
            let ended =
                self.0.iter_mut().rev().filter(|(number, kept)| **number % self.1 == each && kept.has_ended);
            for (position, (number, kept)) in ended.enumerate() {
                if !kept.is_reduced && position >= history {
                    kept.is_reduced = true;
                    done.streams += 1;
                    done.events += kept.events.len() - usize::try_from(kept.base).unwrap();
                }
                if position >= history && position >= summaries {
                    forgotten.push(*number);
                }
            }
        }
        done.forgotten = forgotten.len();
        forgotten.iter().for_each(|number| drop(self.0.remove(number)));
        for kept in self.0.values_mut().filter(|kept| !kept.has_ended) {
            let newest = count_events(&kept.events).saturating_sub(open_events);
            let base = kept.snapshot.unwrap_or(0).min(newest).max(kept.base);
            done.events += usize::try_from(base - kept.base).unwrap();
            kept.base = base;
        }
        done
    }

    fn check(&self, log: &impl OperationLog) {
        assert_eq!(log.damage(), []);
        assert_eq!(log.listing().len(), self.0.len());
        for (number, kept) in &self.0 {
            let loaded = log.load_as::<Event>(operation(*number));
            if kept.is_reduced {
                assert!(matches!(loaded, Err(LogError::Compacted { .. })));
                continue;
            }
            let after = usize::try_from(kept.snapshot.unwrap_or(0)).unwrap();
            let expected = LoadedStream {
                snapshot: kept.snapshot.map(|at| (at, state_at(at))),
                ..loaded_of(kept.events[after..].to_vec(), count_events(&kept.events))
            };
            assert_eq!(loaded.unwrap(), expected);
            let history = log.events_as::<Event>(operation(*number)).unwrap();
            assert_eq!(history.first_sequence, kept.base + 1);
            assert_eq!(history.events, kept.events[usize::try_from(kept.base).unwrap()..]);
        }
    }
}

fn run_steps(kept: impl ReopenableLog, steps: &[Step]) {
    run_steps_with(kept, steps, 2);
}

fn run_steps_with(mut kept: impl ReopenableLog, steps: &[Step], applications: u128) {
    let mut model = Model(BTreeMap::new(), applications);
    let choose =
        |which: &Index| u128::try_from(which.index(usize::try_from(OPERATIONS).unwrap())).unwrap() + 1;
    for step in steps {
        match step {
            Step::Append(group) => {
                let group: Vec<_> = group
                    .iter()
                    .map(|(which, events, snapshot, end)| (choose(which), *events, *snapshot, *end))
                    .filter(|(number, ..)| !model.0.get(number).is_some_and(|kept| kept.is_reduced))
                    .collect();
                let group = group
                    .into_iter()
                    .map(|(number, events, snapshot, end)| model.append(number, events, snapshot, end));
                let group = group.collect();
                kept.open().append_all(group).unwrap();
            }
            Step::Gap(which, ahead) => {
                let number = choose(which);
                let next = model.0.get(&number).map_or(0, |kept| count_events(&kept.events)) + ahead;
                let refused = vec![
                    append_to_shop(99, 1, vec![event(1, 40)]),
                    append_to_shop(number, next, vec![event(1, 40)]),
                ];
                assert!(kept.open().append_all(refused).is_err());
            }
            Step::Compact(history, summaries, open_events) => {
                let (history, summaries, open_events) = (*history, *summaries, *open_events);
                let keep = Retention { history, summaries, open_events, ..Retention::default() };
                let done = kept.open().compact(&keep, NOW).unwrap();
                // Each log decides for itself where to store large events.
                assert_eq!(
                    CompactionResult { blobs: 0, ..done },
                    model.compact(history, summaries, open_events)
                );
            }
            Step::Reopen => model.check(kept.reopen()),
        }
    }
    model.check(kept.open());
    model.check(kept.reopen());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_on_disk_matches_the_model(steps in prop::collection::vec(step_strategy(), 1..40)) {
        run_steps(Disk::create(), &steps);
    }

    #[test]
    fn the_log_in_memory_matches_the_model(steps in prop::collection::vec(step_strategy(), 1..40)) {
        run_steps(Memory::create(), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_in_postgres_matches_the_model(steps in prop::collection::vec(step_strategy(), 1..40)) {
        if let Some(kept) = Postgres::available() {
            run_steps(kept, &steps);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two operations of one application can't both be open in a log that is copied, so each has its own.
    #[test]
    fn a_log_that_moves_at_every_reopening_matches_the_model(
        steps in prop::collection::vec(step_strategy(), 1..25),
    ) {
        if PostgresServer::shared().is_some() {
            run_steps_with(MovingDisk::create(), &steps, OPERATIONS);
            run_steps_with(MovingDatabase::create(), &steps, OPERATIONS);
        }
    }
}
