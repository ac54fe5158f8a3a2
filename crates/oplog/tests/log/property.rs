//! Random lives of a log, compared step by step with a model that is too simple to be wrong; for both logs.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use tidegate_oplog::{Compacted, Loaded, LogError, OperationLog, Retention};

use crate::child::fact;
use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Fact, Kept, Memory, NOW, State, append, finished, loaded as loaded_of, operation, summary,
};

const OPERATIONS: u128 = 5;
const APPLICATIONS: [&str; 2] = ["shop", "bank"];

#[derive(Clone, Debug)]
enum Step {
    /// Facts for some operations in one group; whether a snapshot comes with them, and whether they end.
    Append(Vec<(Index, u8, bool, bool)>),
    /// A group that must be refused as a whole.
    Gap(Index, u64),
    /// With a history, a number of summaries, and how many facts an open operation keeps.
    Compact(usize, usize, u64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let one = (any::<Index>(), 0_u8..4, prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    prop_oneof![
        8 => prop::collection::vec(one, 1..4).prop_map(Step::Append),
        1 => (any::<Index>(), 2_u64..9).prop_map(|(which, ahead)| Step::Gap(which, ahead)),
        2 => (0_usize..3, 0_usize..4, 0_u64..9).prop_map(|(a, b, c)| Step::Compact(a, b, c)),
        2 => Just(Step::Reopen),
    ]
}

#[derive(Clone, Debug, Default)]
struct Modelled {
    facts: Vec<Fact>,
    snapshot: Option<u64>,
    /// Facts up to this one are gone.
    base: u64,
    ended: bool,
    reduced: bool,
}

#[derive(Debug, Default)]
struct Model(BTreeMap<u128, Modelled>);

fn application(number: u128) -> &'static str {
    APPLICATIONS[usize::try_from(number % 2).unwrap()]
}

fn state(at: u64) -> State {
    State { waves: vec![], padding: format!("state after {at}") }
}

fn count(facts: &[Fact]) -> u64 {
    u64::try_from(facts.len()).unwrap()
}

impl Model {
    /// Appends to the model and returns what to append to the log.
    fn append(&mut self, number: u128, facts: u8, snapshot: bool, end: bool) -> Append {
        let kept = self.0.entry(number).or_default();
        let first = count(&kept.facts) + 1;
        let new: Vec<Fact> = (first..first + u64::from(facts)).map(|number| fact(number, 40)).collect();
        kept.facts.extend(new.clone());
        kept.ended |= end;
        let last = count(&kept.facts);
        if snapshot {
            kept.snapshot = Some(last);
        }
        let summary = if kept.ended {
            finished(number, application(number))
        } else {
            summary(number, application(number))
        };
        Append { snapshot: snapshot.then(|| state(last)), summary, ..append(number, first, new) }
    }

    fn compact(&mut self, history: usize, summaries: usize, open_facts: u64) -> Compacted {
        let mut done = Compacted::default();
        let mut forgotten = Vec::new();
        for each in 0..2 {
            let ended = self.0.iter_mut().rev().filter(|(number, kept)| **number % 2 == each && kept.ended);
            for (position, (number, kept)) in ended.enumerate() {
                if !kept.reduced && position >= history {
                    kept.reduced = true;
                    done.streams += 1;
                    done.facts += kept.facts.len() - usize::try_from(kept.base).unwrap();
                }
                if position >= history && position >= summaries {
                    forgotten.push(*number);
                }
            }
        }
        done.forgotten = forgotten.len();
        forgotten.iter().for_each(|number| drop(self.0.remove(number)));
        for kept in self.0.values_mut().filter(|kept| !kept.ended) {
            let newest = count(&kept.facts).saturating_sub(open_facts);
            let base = kept.snapshot.unwrap_or(0).min(newest).max(kept.base);
            done.facts += usize::try_from(base - kept.base).unwrap();
            kept.base = base;
        }
        done
    }

    fn check(&self, log: &impl OperationLog) {
        assert_eq!(log.damage(), []);
        assert_eq!(log.lines().len(), self.0.len());
        for (number, kept) in &self.0 {
            let loaded = log.load_as::<Fact>(operation(*number));
            if kept.reduced {
                assert!(matches!(loaded, Err(LogError::Compacted { .. })));
                continue;
            }
            let after = usize::try_from(kept.snapshot.unwrap_or(0)).unwrap();
            let expected = Loaded {
                snapshot: kept.snapshot.map(|at| (at, state(at))),
                ..loaded_of(kept.facts[after..].to_vec(), count(&kept.facts))
            };
            assert_eq!(loaded.unwrap(), expected);
            let history = log.facts_as::<Fact>(operation(*number)).unwrap();
            assert_eq!(history.first_sequence, kept.base + 1);
            assert_eq!(history.facts, kept.facts[usize::try_from(kept.base).unwrap()..]);
        }
    }
}

fn live<K: Kept>(steps: &[Step]) {
    let mut kept = K::fresh();
    let mut model = Model::default();
    let choose =
        |which: &Index| u128::try_from(which.index(usize::try_from(OPERATIONS).unwrap())).unwrap() + 1;
    for step in steps {
        match step {
            Step::Append(group) => {
                let group: Vec<_> = group
                    .iter()
                    .map(|(which, facts, snapshot, end)| (choose(which), *facts, *snapshot, *end))
                    .filter(|(number, ..)| !model.0.get(number).is_some_and(|kept| kept.reduced))
                    .collect();
                let group = group
                    .into_iter()
                    .map(|(number, facts, snapshot, end)| model.append(number, facts, snapshot, end));
                let group = group.collect();
                kept.open().append_all(group).unwrap();
            }
            Step::Gap(which, ahead) => {
                let number = choose(which);
                let next = model.0.get(&number).map_or(0, |kept| count(&kept.facts)) + ahead;
                let refused = vec![append(99, 1, vec![fact(1, 40)]), append(number, next, vec![fact(1, 40)])];
                assert!(kept.open().append_all(refused).is_err());
            }
            Step::Compact(history, summaries, open_facts) => {
                let (history, summaries, open_facts) = (*history, *summaries, *open_facts);
                let keep = Retention { history, summaries, open_facts, ..Retention::default() };
                let done = kept.open().compact(&keep, NOW).unwrap();
                // Where large facts are kept is each log's own affair.
                assert_eq!(Compacted { blobs: 0, ..done }, model.compact(history, summaries, open_facts));
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
    fn the_log_on_disk_is_what_was_appended(steps in prop::collection::vec(step(), 1..40)) {
        live::<Disk>(&steps);
    }

    #[test]
    fn the_log_in_memory_is_what_was_appended(steps in prop::collection::vec(step(), 1..40)) {
        live::<Memory>(&steps);
    }
}
