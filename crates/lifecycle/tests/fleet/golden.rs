//! What an earlier program has recorded of rollouts and teardowns must be read for ever.
//!
//! `golden/rollout-v1.json` and `golden/teardown-v1.json` hold one fact of every kind and one snapshot of every state, each as
//! the bytes that the operation log keeps, with its number and with what it means; `v2` those of a layout that has who approved
//! deletions, `v3` of one that has when something was seen that keeps an Application, `v4` of one that has deletions without an
//! order. A new layout gets files of its own, written once with `TIDEGATE_WRITE_GOLDEN=v5` and added to `LAYOUTS`; those that are there are never written again.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{Content, LogRecord, Records};

use crate::rollout as rollouts;
use crate::teardown as teardowns;

const LAYOUTS: [&str; 4] = ["v1", "v2", "v3", "v4"];

fn file(kind: &str, layout: &str) -> PathBuf {
    let name = format!("{kind}-{layout}.json");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/golden").join(name)
}

/// The content of a record as the log keeps it.
struct Bytes(Vec<u8>);

impl Content for Bytes {
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

fn from_hex(text: &str) -> Bytes {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    Bytes((0..text.len()).step_by(2).map(byte).collect())
}

fn record<R: LogRecord>(record: &R) -> Value {
    let bytes = bincode::serde::encode_to_vec(record, bincode::config::standard()).unwrap();
    json!({"kind": record.kind(), "bytes": to_hex(&bytes), "means": record})
}

/// What was known when it was written, in the words of today: of a rollout that is being rolled back an earlier program said
/// that its step was performed.
fn in_words_of_today(known: &Value) -> Value {
    let mut known = known.clone();
    let is_rolling_back = known["stage"].as_str().is_some_and(|stage| stage.starts_with("RollingBack"));
    if is_rolling_back && known["message"] == "ApplicationSet is performing rollout of step 1" {
        known["message"] = json!("ApplicationSet is rolling back step 1");
    }
    known
}

/// As a program of today reads it.
fn read<R: LogRecord>(known: &Value) -> R {
    let kind = u16::try_from(known["kind"].as_u64().unwrap()).unwrap();
    let content = from_hex(known["bytes"].as_str().unwrap());
    assert!(kind <= R::HIGHEST_KIND);
    if R::is_earlier(kind) {
        return R::read_earlier(kind, &content).unwrap();
    }
    let found: R = content.read().unwrap();
    assert_eq!(found.kind(), kind, "a number means one thing");
    found
}

/// What was known when it was written: fields are added, and none is ever changed.
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

fn check<F: Records>(facts: &[F], states: &[F::Snapshot], view: fn(&F::Snapshot) -> Value) {
    let kind = F::KIND.name().to_owned();
    if let Ok(layout) = std::env::var("TIDEGATE_WRITE_GOLDEN") {
        let path = file(&kind, &layout);
        assert!(!path.exists(), "{} is written once", path.display());
        let states: Vec<Value> =
            states.iter().map(|state| json!({"snapshot": record(state), "view": view(state)})).collect();
        let golden = json!({"facts": facts.iter().map(record).collect::<Vec<_>>(), "states": states});
        std::fs::write(path, serde_json::to_string_pretty(&golden).unwrap() + "\n").unwrap();
    }
    for layout in LAYOUTS {
        let golden: Value = serde_json::from_slice(&std::fs::read(file(&kind, layout)).unwrap()).unwrap();
        let known = golden["facts"].as_array().unwrap();
        assert!(known.len() >= 16, "{kind} {layout}");
        for known in known {
            let found = value(read::<F>(known));
            assert_eq!(without_new_fields(&found, &known["means"]), known["means"], "{kind} {layout}");
        }
        for known in golden["states"].as_array().unwrap() {
            let snapshot = &known["snapshot"];
            let state = read::<F::Snapshot>(snapshot);
            let found = value(&state);
            assert_eq!(without_new_fields(&found, &snapshot["means"]), snapshot["means"], "{kind} {layout}");
            let found = view(&state);
            let known = in_words_of_today(&known["view"]);
            assert_eq!(without_new_fields(&found, &known), known, "{kind} {layout}");
        }
    }
}

fn value(view: impl Serialize) -> Value {
    serde_json::to_value(view).unwrap()
}

#[test]
fn what_was_recorded_of_rollouts_is_read() {
    let states: Vec<rollout::State> =
        rollouts::states::representatives().into_iter().map(|(_, state)| state).collect();
    check::<rollout::Fact>(&rollouts::facts::facts(), &states, |state| value(rollout::view(state)));
}

#[test]
fn what_was_recorded_of_teardowns_is_read() {
    let all = teardowns::table::representatives().into_iter().chain(teardowns::table::witnessed_states());
    let states: Vec<teardown::State> = all.map(|(_, state)| state).collect();
    check::<teardown::Fact>(&teardowns::table::facts(), &states, |state| value(teardown::view(state)));
}

/// What keeps an Application, in the layout of programs that kept no time of it.
#[test]
fn the_first_layout_of_what_keeps_an_application_is_read() {
    // The fifth of all variants; a text has its length before it.
    let bytes = Bytes(vec![4, 3, b'w', b'e', b'b', 2, b'i', b't']);
    assert!(teardown::Fact::is_earlier(5));
    let read = teardown::Fact::read_earlier(5, &bytes).unwrap();
    let (member, kept_by) = ("web".to_owned(), "it".to_owned());
    assert_eq!(read, teardown::Fact::KeptBy { member, kept_by, at: None });
    // None of these was ever another one.
    assert!(teardown::Fact::read_earlier(5, &Bytes(vec![3])).is_err());
}

/// The line of a rollout in the layout of programs that kept neither who asked nor for what: it is read, without these.
#[test]
fn the_first_layout_of_a_line_is_read() {
    // All of it is written here by hand: numbers below 251 are one byte, and a text has its length before it.
    let targets = [7_u8; 32];
    let mut rollout = targets.to_vec();
    // Superseded, not held, `over`, steps 1 of 3, members 4 of 12.
    rollout.extend([1, 3, 0, 4, b'o', b'v', b'e', b'r', 1, 3, 4, 12]);
    let line = rollout::Details::read_earlier(1, &Bytes(rollout)).unwrap();
    assert_eq!(
        (line.end, line.paused, line.message.as_str()),
        (Some(rollout::End::Superseded), false, "over")
    );
    assert_eq!((line.steps, line.members, line.targets.0), ((1, 3), (4, 12), targets));
    assert!(line.by.is_empty() && line.revisions.is_empty());
    // Not over, held, `held`, members 2 of 5.
    let teardown = Bytes(vec![0, 1, 4, b'h', b'e', b'l', b'd', 2, 5]);
    let line = teardown::Details::read_earlier(1, &teardown).unwrap();
    assert_eq!((line.end, line.paused, line.message.as_str(), line.members), (None, true, "held", (2, 5)));
    assert!(line.by.is_empty());
    assert!(rollout::Details::is_earlier(1) && teardown::Details::is_earlier(1));
}

/// The line of a rollout in the layout of programs that took those for Healthy that were skipped: nobody knows how many.
#[test]
fn the_second_layout_of_the_line_of_a_rollout_is_read() {
    let mut rollout = vec![7_u8; 32];
    // Completed, not held, `over`, steps 3 of 3, members 12 of 12, asked by `ann`, one revision `4f2a`.
    rollout.extend([1, 0, 0, 4, b'o', b'v', b'e', b'r', 3, 3, 12, 12]);
    rollout.extend([3, b'a', b'n', b'n', 1, 4, b'4', b'f', b'2', b'a']);
    let line = rollout::Details::read_earlier(2, &Bytes(rollout)).unwrap();
    assert_eq!((line.end, line.members, line.skipped), (Some(rollout::End::Completed), (12, 12), None));
    assert_eq!((line.by.as_str(), line.revisions), ("ann", vec!["4f2a".to_owned()]));
    assert!(rollout::Details::is_earlier(2) && !rollout::Details::is_earlier(3));
}

/// Who was skipped is counted apart, and is none of those that are Healthy.
#[test]
fn the_line_of_a_rollout_takes_nobody_for_healthy_who_was_skipped() {
    let mut found = 0;
    for (name, state) in rollouts::states::representatives() {
        let Some(line) = rollout::Details::of(&state) else { continue };
        let view = rollout::view(&state).unwrap();
        let of_step = || view.members.iter().filter(|one| one.step != "-1");
        let skipped = of_step().filter(|one| one.outcome == Some(rollout::MemberOutcome::Skipped)).count();
        let healthy = of_step().filter(|one| one.status == rollout::MemberStatus::Healthy).count();
        assert_eq!(line.skipped, Some(u32::try_from(skipped).unwrap()), "{name}");
        assert_eq!(usize::try_from(line.members.0).unwrap() + skipped, healthy, "{name}");
        found += skipped;
    }
    assert!(found > 0);
}

/// A line says who asked, and what for: each revision once, and of many the first few.
#[test]
fn the_line_of_a_rollout_says_who_asked_and_what_for() {
    let (mut named, mut many) = (0, 0);
    for (name, state) in rollouts::states::representatives() {
        let Some(rollout) = state.rollout() else { continue };
        let line = rollout::Details::of(&state).unwrap();
        assert_eq!(line.by, rollout.by, "{name}");
        let selected = rollout.members.values().filter(|member| member.place.step.is_some());
        let all: std::collections::BTreeSet<&String> =
            selected.flat_map(|one| &one.target.revisions).collect();
        let told: std::collections::BTreeSet<&String> = line.revisions.iter().collect();
        assert_eq!(told.len(), line.revisions.len(), "{name}: each once");
        assert!(told.is_subset(&all) && told.len() == all.len().min(5), "{name}");
        named += usize::from(!told.is_empty());
        many += 1;
    }
    assert!(named == many && many > 5);
}
