//! Records of the operation log whose content is not what it was, but whose checksum is right: of another version, or made up.

use tidegate_cluster::sim::SimConfig;
use tidegate_lifecycle::operation::{Driver, Fact, view};
use tidegate_model::OperationId;
use tidegate_oplog::{Append, MemoryLog, OperationLog as _, RawAppend, RawEntry, Record, TypedLog as _};
use tidegate_testkit::process::World;
use tidegate_testkit::{fuzz, scenario};
use uuid::Uuid;

/// The records of some operations, as they are in the log.
fn recorded() -> Vec<(RawEntry, Vec<Record>)> {
    let mut all = Vec::new();
    for scenario in scenario::all().into_iter().filter(|scenario| scenario.before.is_empty()).step_by(6) {
        let mut world = World::new(SimConfig::default());
        world.run(&scenario.sync);
        for entry in world.log.find(&tidegate_oplog::Lookup::all()).unwrap() {
            let facts = world.log.facts(entry.stream).unwrap().facts;
            all.push((entry, facts));
        }
    }
    assert!(all.len() > 3, "{}", all.len());
    all
}

#[test]
fn fuzz_log_records() {
    let recorded = recorded();
    // Which operation, which of its facts, and what that is instead.
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (operation, (_, facts)) in recorded.iter().enumerate() {
        for (number, fact) in facts.iter().enumerate() {
            let mut seed = vec![u8::try_from(operation).unwrap(), u8::try_from(number % 256).unwrap()];
            seed.extend(fact.kind.to_le_bytes());
            seed.extend(&fact.content);
            seeds.push(seed);
        }
    }
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    fuzz::bytes("log-records", &seeds, &["\u{1}", "\u{fb}\0\u{1}", "\u{fc}\0\0\0\u{1}", "\u{fd}"], |input| {
        let [operation, number, low, high, content @ ..] = input else { return };
        let (entry, facts) = &recorded[usize::from(*operation) % recorded.len()];
        let mut facts = facts.clone();
        let number = usize::from(*number) % facts.len();
        let kind = u16::from_le_bytes([*low, *high]);
        facts[number] = Record { kind, content: content.to_vec() };
        let id = OperationId(Uuid::from_u128(7));
        let log = MemoryLog::default();
        let group: RawAppend = Append {
            stream: id.into(),
            kind: entry.kind.clone(),
            epoch: entry.epoch,
            first_sequence: 1,
            facts,
            snapshot: None,
            summary: entry.summary.clone(),
            blobs: Vec::new(),
            inventory: None,
        };
        if log.append(vec![group]).is_err() {
            return;
        }
        let Ok(history) = log.facts_as::<Fact>(id) else { return };
        // What can be read may make no sense, which is said.
        if let Ok(driver) = Driver::recover(None, history.facts) {
            view(driver.state());
        }
    });
}
