//! Operation log records with unexpected content but a correct checksum: records of another version, or
//! forged records.

use tidegate_cluster::sim::SimConfig;
use tidegate_lifecycle::operation::{Driver, OperationEvent, view};
use tidegate_model::OperationId;
use tidegate_oplog::{Append, MemoryLog, OperationLog as _, RawAppend, RawEntry, Record, TypedLog as _};
use tidegate_testkit::process::World;
use tidegate_testkit::{fuzz, scenario};
use uuid::Uuid;

/// Returns the records of some operations, as stored in the log.
fn sample_records() -> Vec<(RawEntry, Vec<Record>)> {
    let mut all = Vec::new();
    for scenario in scenario::all().into_iter().filter(|scenario| scenario.setup_syncs.is_empty()).step_by(6)
    {
        let mut world = World::new(SimConfig::default());
        world.run(&scenario.sync);
        for entry in world.log.find(&tidegate_oplog::Lookup::all()).unwrap() {
            let events = world.log.events(entry.stream).unwrap().events;
            all.push((entry, events));
        }
    }
    assert!(all.len() > 3, "{}", all.len());
    all
}

#[test]
fn fuzz_log_records() {
    let recorded = sample_records();
    // Each seed contains the index of an operation, the index of its event, and the replacement.
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (operation, (_, recorded_events)) in recorded.iter().enumerate() {
        for (number, event) in recorded_events.iter().enumerate() {
            let mut seed = vec![u8::try_from(operation).unwrap(), u8::try_from(number % 256).unwrap()];
            seed.extend(event.kind.to_le_bytes());
            seed.extend(&event.content);
            seeds.push(seed);
        }
    }
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    fuzz::fuzz_bytes(
        "log-records",
        &seeds,
        &["\u{1}", "\u{fb}\0\u{1}", "\u{fc}\0\0\0\u{1}", "\u{fd}"],
        |input| {
            let [operation, number, low, high, content @ ..] = input else { return };
            let (entry, recorded_events) = &recorded[usize::from(*operation) % recorded.len()];
            let mut events = recorded_events.clone();
            let number = usize::from(*number) % events.len();
            let kind = u16::from_le_bytes([*low, *high]);
            events[number] = Record { kind, content: content.to_vec() };
            let id = OperationId(Uuid::from_u128(7));
            let log = MemoryLog::default();
            let group: RawAppend = Append {
                stream: id.into(),
                kind: entry.kind.clone(),
                epoch: entry.epoch,
                first_sequence: 1,
                events,
                snapshot: None,
                summary: entry.summary.clone(),
                blobs: Vec::new(),
                inventory: None,
                shard: None,
            };
            if log.append(vec![group]).is_err() {
                return;
            }
            let Ok(history) = log.events_as::<OperationEvent>(id) else { return };
            // A readable record may be inconsistent. Recovery then reports an error.
            if let Ok(driver) = Driver::recover(None, history.events) {
                view(driver.state());
            }
        },
    );
}
