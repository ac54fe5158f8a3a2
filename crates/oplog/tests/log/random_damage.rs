//! Random damage to state directories, in every kind of file. After damage to a file or folder, opening
//! returns a log, or an error that describes the problem. Each operation is either unchanged or reported as
//! lost. Finished operations are not resumed, and unfinished operations don't count as finished.
//!
//! A failing trial prints its seed, and `TIDEGATE_DAMAGE_SEED=N` repeats it. `TIDEGATE_DAMAGE_TRIALS` sets
//! the number of trials.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tidegate_model::StreamId;
use tidegate_oplog::{Damage, LogError, Lookup};

use crate::files::copy_folder;
use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Event, Log, ReopenableLog, State, append_to_shop, finished_summary, operation,
    waves_passed,
};

/// Number of trials in the quick form of the test. `TIDEGATE_LONG_TESTS=1` selects the long form.
const TRIALS: u64 = 60;
const TRIALS_LONG: u64 = 300;
/// Time after which opening a log counts as hanging, even on a slow machine.
const OPEN_TIMEOUT: Duration = Duration::from_secs(300);
const OPERATIONS: u128 = 6;

/// Small random number generator, determined by its seed.
struct Random(u64);

impl Random {
    fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn number_below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next_number() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn random_bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next_number().to_le_bytes()[0]).collect()
    }
}

/// State directory, with an earlier copy.
struct Template {
    disk: Disk,
    earlier: PathBuf,
    expected: BTreeMap<u128, (Vec<Event>, bool)>,
}

fn event(number: u128, sequence: u32) -> Event {
    let notes =
        vec![format!("{number} {sequence} ").repeat(if sequence.is_multiple_of(5) { 900 } else { 3 })];
    Event::Ended { phase: tidegate_model::OperationPhase::Failed, notes }
}

/// Creates finished operations, one with all kinds of data, and unfinished operations.
fn create_template() -> Template {
    let mut disk = Disk::create();
    let mut expected = BTreeMap::new();
    let earlier = disk.folder.path().join("earlier");
    for half in [0, 1] {
        let log = disk.open();
        for number in 1..=OPERATIONS {
            let first = half * 6 + 1;
            let events: Vec<Event> = (first..first + 6).map(|sequence| event(number, sequence)).collect();
            let is_over = half == 1 && number % 2 == 0;
            let blob = log.put_blob(format!("manifests {number} {half}").repeat(400).as_bytes()).unwrap();
            let snapshot = (number > 2).then(|| State {
                waves: vec![first],
                padding: "s".repeat(if half == 0 { 20 } else { 9_000 }),
            });
            let sequence = u64::from(first);
            let base: Append = append_to_shop(number, sequence, events.clone());
            let summary = if is_over { finished_summary(number, "shop") } else { base.summary.clone() };
            log.append_all(vec![Append { snapshot, summary, blobs: vec![blob], ..base }]).unwrap();
            let (all, over) = expected.entry(number).or_insert((Vec::new(), false));
            all.extend(events);
            *over = is_over;
        }
        disk.close();
        drop(kit::open_database(&disk.path()));
        if half == 0 {
            copy_folder(&disk.path(), &earlier);
        }
    }
    Template { disk, earlier, expected }
}

/// Returns the relative paths of all files below a folder.
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { folders.push(entry) } else { found.push(entry) }
        }
    }
    let mut found: Vec<PathBuf> =
        found.into_iter().map(|path| path.strip_prefix(folder).unwrap().to_path_buf()).collect();
    found.sort();
    found
}

/// Damages one file, and returns a description of the damage.
fn damage_file(state: &Path, template: &Template, dice: &mut Random) -> String {
    let all = list_files(state);
    // Choose each kind of file equally often, although there are many blobs but only one database.
    let mut kinds: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
    for file in &all {
        let kind = file.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let kind = if kind == "log" { file.to_string_lossy().chars().take(8).collect() } else { kind };
        kinds.entry(kind).or_default().push(file);
    }
    let kinds: Vec<_> = kinds.into_values().collect();
    let kind = &kinds[dice.number_below(kinds.len())];
    let name = kind[dice.number_below(kind.len())];
    let path = state.join(name);
    let mut content = fs::read(&path).unwrap();
    let length = content.len();
    let what = match dice.number_below(9) {
        0 => {
            for _ in 0..=dice.number_below(3) {
                if length > 0 {
                    content[dice.number_below(length)] ^= 1 << dice.number_below(8);
                }
            }
            "bits flipped"
        }
        1 | 2 => {
            let (at, size) = (dice.number_below(length), 1 << (4 + dice.number_below(9)));
            let page = if dice.number_below(2) == 0 { vec![0; size] } else { dice.random_bytes(size) };
            content.iter_mut().skip(at).zip(page).for_each(|(byte, other)| *byte = other);
            "a page overwritten"
        }
        3 => {
            content.truncate(dice.number_below(length));
            "cut"
        }
        4 => {
            fs::remove_file(&path).unwrap();
            return format!("{} removed", name.display());
        }
        5 => {
            if let Ok(earlier) = fs::read(template.earlier.join(name)) {
                content = earlier;
            }
            "an older copy"
        }
        6 => {
            content = dice.random_bytes(length.min(1 << 16));
            "garbage"
        }
        7 => {
            let other = kind[dice.number_below(kind.len())];
            fs::copy(&path, state.join("swap")).unwrap();
            fs::copy(state.join(other), &path).unwrap();
            fs::copy(state.join("swap"), state.join(other)).unwrap();
            fs::remove_file(state.join("swap")).unwrap();
            return format!("{} and {} swapped", name.display(), other.display());
        }
        _ => {
            content.extend(dice.random_bytes(200));
            "garbage at the end"
        }
    };
    fs::write(&path, content).unwrap();
    format!("{}: {what}", name.display())
}

/// Returns true for errors that reject the whole directory unchanged. They contain a path.
fn is_expected_refusal(error: &LogError) -> bool {
    matches!(
        error,
        LogError::WrongKey { .. }
            | LogError::KeyMissing { .. }
            | LogError::KeyInvalid { .. }
            | LogError::KeyExposed { .. }
            | LogError::NotAFile { .. }
            | LogError::NotADirectory { .. }
            | LogError::Oversized { .. }
    )
}

fn check_damaged_log(state: &Path, template: &Template, what: &str) {
    let log: Log = match kit::open_log(state) {
        Ok(log) => log,
        Err(error) => return assert!(is_expected_refusal(&error), "{what}: {error:?}"),
    };
    let damage = log.damage();
    let lines = log.listing();
    let open = log.ids_of(&Lookup::open());
    for (number, (events, is_over)) in &template.expected {
        let id = operation(*number);
        let is_told = is_reported(&damage, id);
        match log.all_events(id) {
            Ok(found) if found == *events => {}
            Ok(found) => {
                assert!(events.starts_with(&found), "{what}: operation {number} has other events");
                assert!(is_told, "{what}: operation {number} lost events without a report: {damage:?}");
            }
            Err(error) => {
                assert!(is_told, "{what}: operation {number} ({error}) without a report: {damage:?}")
            }
        }
        let summary = lines.iter().find(|(stream, _)| *stream == id).map(|(_, line)| line);
        if let Some(summary) = summary {
            assert!(
                summary.finished_at.is_none() || *is_over,
                "{what}: operation {number} must not count as finished"
            );
            assert_eq!(summary.finished_at.is_none(), open.contains(&id), "{what}: the index of {number}");
            assert!(
                summary.finished_at.is_some() || !is_over || is_told,
                "{what}: finished operation {number} is open without a report"
            );
        } else {
            let listed = log.impaired_streams().iter().any(|impaired| impaired.stream == id);
            assert!(listed && is_told, "{what}: operation {number} is lost: {damage:?}");
        }
    }
    log.append_all(vec![append_to_shop(99, 1, waves_passed(1..=1))])
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(log);
    let log: Log = kit::open_log(state).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(log.all_events(operation(99)).unwrap(), waves_passed(1..=1), "{what}");
    assert!(log.damage().iter().all(|damage| !damage.is_new), "{what}: new damage at the second opening");
}

fn is_reported(damage: &[Damage], id: StreamId) -> bool {
    damage.iter().any(|damage| damage.stream == Some(id))
}

#[test]
fn any_damage_is_reported_and_the_rest_of_the_log_keeps_working() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let is_long = env::var_os("TIDEGATE_LONG_TESTS").is_some_and(|value| value == "1");
    let trials = if is_long { TRIALS_LONG } else { TRIALS };
    let seeds: Vec<u64> = match number("TIDEGATE_DAMAGE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TIDEGATE_DAMAGE_TRIALS").unwrap_or(trials)).collect(),
    };
    let (done, progress) = mpsc::channel();
    let trials = std::thread::spawn(move || {
        let template = create_template();
        for seed in seeds {
            let folder = tempfile::tempdir().unwrap();
            let state = folder.path().join("state");
            copy_folder(&template.disk.path(), &state);
            let what = damage_file(&state, &template, &mut Random(seed));
            let what = format!("TIDEGATE_DAMAGE_SEED={seed} ({what})");
            check_damaged_log(&state, &template, &what);
            done.send(what).unwrap();
        }
    });
    let mut last = "the first".to_owned();
    loop {
        match progress.recv_timeout(OPEN_TIMEOUT) {
            Ok(what) => last = what,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the trial after {last} hangs"),
        }
    }
    if let Err(panic) = trials.join() {
        std::panic::resume_unwind(panic);
    }
}
