//! Streams of the log that were changed after they were written, with right checksums: they are refused, or read as something.
//! An input is a list of changes to a golden stream.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_fuzz::now;
use tidegate_lifecycle::operation::{self, SyncOperation};
use tidegate_lifecycle::rollout::{self, Progressive};
use tidegate_lifecycle::{Driver, Machine};
use tidegate_model::{Digest, OperationId, OperationPhase, Records, StreamId};
use tidegate_oplog::{AppendOf, MemoryLog, OperationLog as _, RawAppend, Record, Summary, TypedLog as _};
use uuid::Uuid;

/// So many changes are made to one stream.
const CHANGES_MAX: usize = 32;
/// Facts that follow from one state: far more than any has, and few enough to be waited for.
const FOLLOWING_MAX: usize = 10_000;

/// Operations, as they were recorded.
static OPERATIONS: LazyLock<Vec<RawAppend>> = LazyLock::new(|| {
    let golden: Value = read(include_str!("../../crates/testkit/tests/golden/v10-facts.json"));
    let details = || operation::Details {
        destination: "simulated".to_owned(),
        phase: OperationPhase::Running,
        paused: false,
        message: String::new(),
        waves: (0, 1),
        revision: String::new(),
        initiated_by: String::new(),
        dry_run: false,
    };
    let streams = golden.as_object().expect("they are by operation").values();
    streams.map(|facts| stream::<operation::Fact>(read(&facts.to_string()), details())).collect()
});

/// A rollout with every fact that there is.
static ROLLOUTS: LazyLock<Vec<RawAppend>> = LazyLock::new(|| {
    let golden: Value = read(include_str!("../../crates/lifecycle/tests/fleet/golden/rollout-v3.json"));
    let facts = golden["facts"].as_array().expect("they are a list").iter();
    let facts = facts.map(|fact| read(&fact["means"].to_string())).collect();
    let details = rollout::Details {
        targets: Digest([7; 32]),
        end: None,
        paused: false,
        message: String::new(),
        steps: (0, 1),
        members: (0, 1),
        by: String::new(),
        revisions: Vec::new(),
        skipped: None,
    };
    vec![stream::<rollout::Fact>(facts, details)]
});

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("what was recorded is read")
}

fn id() -> StreamId {
    OperationId(Uuid::from_u128(7)).into()
}

fn stream<F: Records>(facts: Vec<F>, details: F::Details) -> RawAppend {
    let (application, set) = (Some("shop".to_owned()), None);
    let summary = Summary { application, set, started_at: now(), finished_at: None, details };
    AppendOf::<F>::new(id(), 1, facts, summary).encode().expect("what was recorded can be written")
}

/// One change takes six bytes: which fact, what is done, where (two bytes), with what (two bytes).
fn change(facts: &mut Vec<Record>, [fact, what, low, high, byte, more]: [u8; 6]) {
    if facts.is_empty() {
        return;
    }
    let number = usize::from(fact) % facts.len();
    let Record { kind, content } = &mut facts[number];
    let at = usize::from(u16::from_le_bytes([low, high])) % (content.len() + 1);
    match what % 8 {
        0 | 1 if at < content.len() => content[at] = byte,
        2 => content.insert(at, byte),
        3 => drop(content.drain(at..content.len().min(at + usize::from(byte)))),
        4 => drop(content.splice(at..at, [byte, more])),
        5 => *kind = u16::from_le_bytes([byte, more]),
        6 => drop(facts.remove(number)),
        _ => {
            let copy = facts[number].clone();
            facts.insert(usize::from(byte) % facts.len(), copy);
        }
    }
}

/// What a changed stream means, if it means anything; and what follows from it, which ends.
fn recover<F: Records, M: Machine<Fact = F>>(mut stream: RawAppend, changes: &[u8]) -> Option<M::State> {
    for one in changes.chunks_exact(6).take(CHANGES_MAX) {
        change(&mut stream.facts, one.try_into().expect("it has six bytes"));
    }
    let log = MemoryLog::default();
    log.append(vec![stream]).ok()?;
    let facts = log.facts_as::<F>(id()).ok()?.facts;
    let driver = Driver::<M>::recover(None, facts).ok()?;
    let recovered = driver.state().clone();
    let mut state = recovered.clone();
    let mut following = 0;
    loop {
        M::pending(&state, now());
        let facts = M::follow(&state, now());
        if facts.is_empty() {
            return Some(recovered);
        }
        following += facts.len();
        assert!(following <= FOLLOWING_MAX, "more and more follows");
        for fact in facts {
            state = M::evolve(state, &fact).expect("what follows from a state is possible in it");
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, changes @ ..] = input else { return };
    if let Some(which) = usize::from(*which).checked_sub(OPERATIONS.len()) {
        let rollout = &ROLLOUTS[which % ROLLOUTS.len()];
        if let Some(state) = recover::<rollout::Fact, Progressive>(rollout.clone(), changes) {
            rollout::explain(&state, now());
        }
    } else if let Some(operation) = OPERATIONS.get(usize::from(*which))
        && let Some(state) = recover::<operation::Fact, SyncOperation>(operation.clone(), changes)
    {
        operation::view(&state);
        operation::explain(&state, now());
    }
});
