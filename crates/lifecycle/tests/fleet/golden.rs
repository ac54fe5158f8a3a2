//! Golden records of rollouts and teardowns, which must stay readable forever.
//!
//! `golden/rollout-layout-1.json` and `golden/teardown-layout-1.json` contain one event of every kind and one
//! snapshot of every state. Each record is stored with its bytes in the operation log, its kind number, and
//! its decoded content. A new layout gets its own files, which are written once with
//! `TIDEGATE_WRITE_GOLDEN=layout-2` and added to `LAYOUTS`. Existing files are never rewritten.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{LogRecord, RecordContent, StreamRecords};

use crate::rollout as rollouts;
use crate::teardown as teardowns;

const LAYOUTS: [&str; 1] = ["layout-1"];

fn golden_path(kind: &str, layout: &str) -> PathBuf {
    let name = format!("{kind}-{layout}.json");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/golden").join(name)
}

/// Content of a record in the log.
struct RecordBytes(Vec<u8>);

impl RecordContent for RecordBytes {
    type Error = String;

    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        let decoded = bincode::serde::decode_from_slice(&self.0, bincode::config::standard());
        let (value, read) = decoded.map_err(|error| error.to_string())?;
        if read == self.0.len() { Ok(value) } else { Err(format!("{read} of {} bytes", self.0.len())) }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> RecordBytes {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    RecordBytes((0..text.len()).step_by(2).map(byte).collect())
}

fn encode_record<R: LogRecord>(record: &R) -> Value {
    let bytes = bincode::serde::encode_to_vec(record, bincode::config::standard()).unwrap();
    json!({"kind": record.kind(), "bytes": to_hex(&bytes), "means": record})
}

/// Decodes a golden record as the log does.
fn decode_record<R: LogRecord>(known: &Value) -> R {
    let kind = u16::try_from(known["kind"].as_u64().unwrap()).unwrap();
    let content = from_hex(known["bytes"].as_str().unwrap());
    assert!(kind <= R::HIGHEST_KIND);
    if R::is_earlier(kind) {
        return R::read_earlier(kind, &content).unwrap();
    }
    let found: R = content.read().unwrap();
    assert_eq!(found.kind(), kind, "a kind number must not change its meaning");
    found
}

/// Returns the decoded content without fields that were added later. Existing fields never change.
fn without_new_fields(found: &Value, known: &Value) -> Value {
    match (found, known) {
        (Value::Object(found), Value::Object(known)) => {
            let known = known.iter().filter_map(|(name, known)| Some((name, known, found.get(name)?)));
            known.map(|(name, known, found)| (name.clone(), without_new_fields(found, known))).collect()
        }
        (Value::Array(found), Value::Array(known)) if found.len() == known.len() => {
            found.iter().zip(known).map(|(found, known)| without_new_fields(found, known)).collect()
        }
        (found, _) => found.clone(),
    }
}

fn check_records<F: StreamRecords>(events: &[F], states: &[F::Snapshot], view: fn(&F::Snapshot) -> Value) {
    let kind = F::KIND.name().to_owned();
    if let Ok(layout) = std::env::var("TIDEGATE_WRITE_GOLDEN") {
        let path = golden_path(&kind, &layout);
        assert!(!path.exists(), "{} must not be overwritten", path.display());
        let states: Vec<Value> = states
            .iter()
            .map(|state| json!({"snapshot": encode_record(state), "view": view(state)}))
            .collect();
        let golden = json!({"facts": events.iter().map(encode_record).collect::<Vec<_>>(), "states": states});
        std::fs::write(path, serde_json::to_string_pretty(&golden).unwrap() + "\n").unwrap();
    }
    for layout in LAYOUTS {
        let golden: Value =
            serde_json::from_slice(&std::fs::read(golden_path(&kind, layout)).unwrap()).unwrap();
        let known = golden["facts"].as_array().unwrap();
        assert!(known.len() >= 16, "{kind} {layout}");
        for known in known {
            let found = view_value(decode_record::<F>(known));
            assert_eq!(without_new_fields(&found, &known["means"]), known["means"], "{kind} {layout}");
        }
        for known in golden["states"].as_array().unwrap() {
            let snapshot = &known["snapshot"];
            let state = decode_record::<F::Snapshot>(snapshot);
            let found = view_value(&state);
            assert_eq!(without_new_fields(&found, &snapshot["means"]), snapshot["means"], "{kind} {layout}");
            let (found, known) = (view(&state), &known["view"]);
            assert_eq!(without_new_fields(&found, known), *known, "{kind} {layout}");
        }
    }
}

fn view_value(view: impl Serialize) -> Value {
    serde_json::to_value(view).unwrap()
}

#[test]
fn rollout_records_stay_readable() {
    let states: Vec<rollout::State> =
        rollouts::states::representatives().into_iter().map(|(_, state)| state).collect();
    check_records::<rollout::Event>(&rollouts::events::all_events(), &states, |state| {
        view_value(rollout::view(state))
    });
}

#[test]
fn teardown_records_stay_readable() {
    let all = teardowns::table::representatives().into_iter().chain(teardowns::table::witnessed_states());
    let states: Vec<teardown::State> = all.map(|(_, state)| state).collect();
    check_records::<teardown::Event>(&teardowns::table::all_events(), &states, |state| {
        view_value(teardown::view(state))
    });
}

/// The summary counts skipped Applications separately, not as Healthy.
#[test]
fn rollout_summary_does_not_count_skipped_members_as_healthy() {
    let mut found = 0;
    for (name, state) in rollouts::states::representatives() {
        let Some(line) = rollout::Details::from_state(&state) else { continue };
        let view = rollout::view(&state).unwrap();
        let of_step = || view.members.iter().filter(|one| one.step != "-1");
        let skipped = of_step().filter(|one| one.outcome == Some(rollout::MemberOutcome::Skipped)).count();
        let healthy = of_step().filter(|one| one.status == rollout::MemberStatus::Healthy).count();
        assert_eq!(line.skipped, u32::try_from(skipped).unwrap(), "{name}");
        assert_eq!(usize::try_from(line.members.0).unwrap() + skipped, healthy, "{name}");
        found += skipped;
    }
    assert!(found > 0);
}

/// A list entry contains the requester and the distinct target revisions, up to a maximum.
#[test]
fn rollout_summary_names_requester_and_revisions() {
    let (mut named, mut many) = (0, 0);
    for (name, state) in rollouts::states::representatives() {
        let Some(rollout) = state.rollout() else { continue };
        let line = rollout::Details::from_state(&state).unwrap();
        assert_eq!(line.by, rollout.by, "{name}");
        let selected = rollout.members.values().filter(|member| member.place.step.is_some());
        let all: std::collections::BTreeSet<&String> =
            selected.flat_map(|one| &one.target.revisions).collect();
        let listed: std::collections::BTreeSet<&String> = line.revisions.iter().collect();
        assert_eq!(listed.len(), line.revisions.len(), "{name}: revisions must be distinct");
        assert!(listed.is_subset(&all) && listed.len() == all.len().min(5), "{name}");
        named += usize::from(!listed.is_empty());
        many += 1;
    }
    assert!(named == many && many > 5);
}
