//! Fuzz target for log streams that were altered after they were written, but have valid checksums. Recovery
//! must either reject such a stream or return a usable state. The first byte of an input selects a golden
//! stream, and the remaining bytes are changes to the stream.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_fuzz::checks::now;
use tidegate_lifecycle::operation::{self, SyncOperation};
use tidegate_lifecycle::rollout::{self, ProgressiveSync};
use tidegate_lifecycle::{Driver, Machine};
use tidegate_model::{Digest, OperationId, OperationPhase, StreamId, StreamRecords};
use tidegate_oplog::{AppendOf, MemoryLog, OperationLog as _, RawAppend, Record, Summary, TypedLog as _};
use uuid::Uuid;

/// Maximum number of changes to a stream.
const CHANGES_MAX: usize = 32;
/// Maximum number of automatic transitions from a recovered state. No valid state has nearly as many, and the
/// target reaches the limit quickly.
const FOLLOWING_MAX: usize = 10_000;

/// Golden streams of operations.
static OPERATIONS: LazyLock<Vec<RawAppend>> = LazyLock::new(|| {
    let golden: Value = read(include_str!("../../crates/testkit/tests/golden/layout-1-facts.json"));
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
    let streams = golden.as_object().expect("a map of operations").values();
    streams.map(|events| stream::<operation::OperationEvent>(read(&events.to_string()), details())).collect()
});

/// Golden stream of a rollout that contains every type of event.
static ROLLOUTS: LazyLock<Vec<RawAppend>> = LazyLock::new(|| {
    let golden: Value = read(include_str!("../../crates/lifecycle/tests/fleet/golden/rollout-layout-1.json"));
    let events = golden["events"].as_array().expect("a list of events").iter();
    let events = events.map(|event| read(&event["means"].to_string())).collect();
    let details = rollout::Details {
        targets: Digest([7; 32]),
        end: None,
        paused: false,
        message: String::new(),
        steps: (0, 1),
        members: (0, 1),
        by: String::new(),
        revisions: Vec::new(),
        skipped: 0,
    };
    vec![stream::<rollout::Event>(events, details)]
});

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).expect("recorded events are readable")
}

fn id() -> StreamId {
    OperationId(Uuid::from_u128(7)).into()
}

fn stream<F: StreamRecords>(events: Vec<F>, details: F::Details) -> RawAppend {
    let (application, set) = (Some("shop".to_owned()), None);
    let summary = Summary { application, set, started_at: now(), finished_at: None, details };
    AppendOf::<F>::new(id(), 1, events, summary).encode().expect("recorded events are serializable")
}

/// Applies a change to one event. The change has six bytes: index of the event, action, position (two bytes),
/// data (two bytes).
fn change(events: &mut Vec<Record>, [event, what, low, high, byte, more]: [u8; 6]) {
    if events.is_empty() {
        return;
    }
    let number = usize::from(event) % events.len();
    let Record { kind, content } = &mut events[number];
    let at = usize::from(u16::from_le_bytes([low, high])) % (content.len() + 1);
    match what % 8 {
        0 | 1 if at < content.len() => content[at] = byte,
        2 => content.insert(at, byte),
        3 => drop(content.drain(at..content.len().min(at + usize::from(byte)))),
        4 => drop(content.splice(at..at, [byte, more])),
        5 => *kind = u16::from_le_bytes([byte, more]),
        6 => drop(events.remove(number)),
        _ => {
            let copy = events[number].clone();
            events.insert(usize::from(byte) % events.len(), copy);
        }
    }
}

/// Recovers the state of a changed stream. Returns `None` if the stream is rejected. The automatic
/// transitions from the recovered state must end.
fn recover<F: StreamRecords, M: Machine<Event = F>>(
    mut stream: RawAppend,
    changes: &[u8],
) -> Option<M::State> {
    for chunk in changes.chunks_exact(6).take(CHANGES_MAX) {
        change(&mut stream.events, chunk.try_into().expect("six bytes"));
    }
    let log = MemoryLog::default();
    log.append(vec![stream]).ok()?;
    let events = log.events_as::<F>(id()).ok()?.events;
    let driver = Driver::<M>::recover(None, events).ok()?;
    let recovered = driver.state().clone();
    let mut state = recovered.clone();
    let mut following = 0;
    loop {
        M::outstanding(&state, now());
        let events = M::advance(&state, now());
        if events.is_empty() {
            return Some(recovered);
        }
        following += events.len();
        assert!(following <= FOLLOWING_MAX, "the automatic transitions do not end");
        for event in events {
            state = M::apply(state, &event).expect("an automatic transition is valid in its state");
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let [which, changes @ ..] = input else { return };
    if let Some(which) = usize::from(*which).checked_sub(OPERATIONS.len()) {
        let rollout = &ROLLOUTS[which % ROLLOUTS.len()];
        if let Some(state) = recover::<rollout::Event, ProgressiveSync>(rollout.clone(), changes) {
            rollout::explain(&state, now());
        }
    } else if let Some(operation) = OPERATIONS.get(usize::from(*which))
        && let Some(state) = recover::<operation::OperationEvent, SyncOperation>(operation.clone(), changes)
    {
        operation::view(&state);
        operation::explain(&state, now());
    }
});
