//! State directories damaged at random, in every kind of file. Whatever is done to one file or folder: opening ends, with
//! a log or with an error that names what is wrong; each operation is as it was, or what it lost is reported; and what was
//! over does not come back, nor does what was not over count as over.
//!
//! A failing trial prints its seed; `TIDEGATE_DAMAGE_SEED=N` runs that one again. `TIDEGATE_DAMAGE_TRIALS` says how many.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tidegate_model::StreamId;
use tidegate_oplog::{Damage, LogError, Lookup};

use crate::files::copy;
use crate::kit::prelude::*;
use crate::kit::{self, Append, Disk, Fact, Kept, Log, State, append, finished, operation, passed};

/// In the quick form of the suites, and with `TIDEGATE_LONG_TESTS=1`.
const TRIALS: u64 = 60;
const TRIALS_LONG: u64 = 300;
/// No opening takes this long unless it hangs, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(300);
const OPERATIONS: u128 = 6;

/// A small generator: the same numbers for the same seed, for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.roll() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.roll().to_le_bytes()[0]).collect()
    }
}

/// A state directory, and a copy of it from earlier.
struct Template {
    disk: Disk,
    earlier: PathBuf,
    truth: BTreeMap<u128, (Vec<Fact>, bool)>,
}

fn fact(number: u128, sequence: u32) -> Fact {
    let notes =
        vec![format!("{number} {sequence} ").repeat(if sequence.is_multiple_of(5) { 900 } else { 3 })];
    Fact::Ended { phase: tidegate_model::OperationPhase::Failed, notes }
}

/// Operations that are over, with all that is kept of one, and operations that are not.
fn template() -> Template {
    let mut disk = Disk::fresh();
    let mut truth = BTreeMap::new();
    let earlier = disk.folder.path().join("earlier");
    for half in [0, 1] {
        let log = disk.open();
        for number in 1..=OPERATIONS {
            let first = half * 6 + 1;
            let facts: Vec<Fact> = (first..first + 6).map(|sequence| fact(number, sequence)).collect();
            let is_over = half == 1 && number % 2 == 0;
            let blob = log.put_blob(format!("manifests {number} {half}").repeat(400).as_bytes()).unwrap();
            let snapshot = (number > 2).then(|| State {
                waves: vec![first],
                padding: "s".repeat(if half == 0 { 20 } else { 9_000 }),
            });
            let sequence = u64::from(first);
            let base: Append = append(number, sequence, facts.clone());
            let summary = if is_over { finished(number, "shop") } else { base.summary.clone() };
            log.append_all(vec![Append { snapshot, summary, blobs: vec![blob], ..base }]).unwrap();
            let (all, over) = truth.entry(number).or_insert((Vec::new(), false));
            all.extend(facts);
            *over = is_over;
        }
        disk.close();
        drop(kit::raw(&disk.path()));
        if half == 0 {
            copy(&disk.path(), &earlier);
        }
    }
    Template { disk, earlier, truth }
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<PathBuf> {
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

/// Damages one file; says how.
fn damage(state: &Path, template: &Template, dice: &mut Dice) -> String {
    let all = files(state);
    // Each kind of file as often as the others, though there are many blobs and one database.
    let mut kinds: BTreeMap<String, Vec<&PathBuf>> = BTreeMap::new();
    for file in &all {
        let kind = file.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        let kind = if kind == "log" { file.to_string_lossy().chars().take(8).collect() } else { kind };
        kinds.entry(kind).or_default().push(file);
    }
    let kinds: Vec<_> = kinds.into_values().collect();
    let kind = &kinds[dice.below(kinds.len())];
    let name = kind[dice.below(kind.len())];
    let path = state.join(name);
    let mut content = fs::read(&path).unwrap();
    let length = content.len();
    let what = match dice.below(9) {
        0 => {
            for _ in 0..=dice.below(3) {
                if length > 0 {
                    content[dice.below(length)] ^= 1 << dice.below(8);
                }
            }
            "bits flipped"
        }
        1 | 2 => {
            let (at, size) = (dice.below(length), 1 << (4 + dice.below(9)));
            let page = if dice.below(2) == 0 { vec![0; size] } else { dice.bytes(size) };
            content.iter_mut().skip(at).zip(page).for_each(|(byte, other)| *byte = other);
            "a page overwritten"
        }
        3 => {
            content.truncate(dice.below(length));
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
            content = dice.bytes(length.min(1 << 16));
            "garbage"
        }
        7 => {
            let other = kind[dice.below(kind.len())];
            fs::copy(&path, state.join("swap")).unwrap();
            fs::copy(state.join(other), &path).unwrap();
            fs::copy(state.join("swap"), state.join(other)).unwrap();
            fs::remove_file(state.join("swap")).unwrap();
            return format!("{} and {} swapped", name.display(), other.display());
        }
        _ => {
            content.extend(dice.bytes(200));
            "garbage at the end"
        }
    };
    fs::write(&path, content).unwrap();
    format!("{}: {what}", name.display())
}

/// Errors that refuse a whole directory: each names a file, and nothing was touched.
fn is_named_refusal(error: &LogError) -> bool {
    matches!(
        error,
        LogError::WrongKey { .. }
            | LogError::KeyMissing { .. }
            | LogError::KeyUnusable { .. }
            | LogError::KeyExposed { .. }
            | LogError::NotAFile { .. }
            | LogError::NotADirectory { .. }
            | LogError::Oversized { .. }
    )
}

fn judge(state: &Path, template: &Template, what: &str) {
    let log: Log = match kit::open(state) {
        Ok(log) => log,
        Err(error) => return assert!(is_named_refusal(&error), "{what}: {error:?}"),
    };
    let damage = log.damage();
    let lines = log.lines();
    let open = log.ids_of(&Lookup::open());
    for (number, (facts, is_over)) in &template.truth {
        let id = operation(*number);
        let is_told = told(&damage, id);
        match log.all(id) {
            Ok(found) if found == *facts => {}
            Ok(found) => {
                assert!(facts.starts_with(&found), "{what}: operation {number} has other facts");
                assert!(is_told, "{what}: operation {number} lost facts, and nobody is told: {damage:?}");
            }
            Err(error) => {
                assert!(is_told, "{what}: operation {number} ({error}) and nobody is told: {damage:?}")
            }
        }
        let summary = lines.iter().find(|(stream, _)| *stream == id).map(|(_, line)| line);
        if let Some(summary) = summary {
            assert!(summary.finished_at.is_none() || *is_over, "{what}: {number} is not over");
            assert_eq!(summary.finished_at.is_none(), open.contains(&id), "{what}: the index of {number}");
            assert!(summary.finished_at.is_some() || !is_over || is_told, "{what}: {number} came back");
        } else {
            let listed = log.impaired().iter().any(|impaired| impaired.stream == id);
            assert!(listed && is_told, "{what}: operation {number} is lost: {damage:?}");
        }
    }
    log.append_all(vec![append(99, 1, passed(1..=1))]).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(log);
    let log: Log = kit::open(state).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(log.all(operation(99)).unwrap(), passed(1..=1), "{what}");
    assert!(log.damage().iter().all(|damage| !damage.is_new), "{what}: new damage at the second opening");
}

/// Whether there is a report about it.
fn told(damage: &[Damage], id: StreamId) -> bool {
    damage.iter().any(|damage| damage.stream == Some(id))
}

#[test]
fn whatever_is_damaged_is_reported_and_the_rest_goes_on() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let is_long = env::var_os("TIDEGATE_LONG_TESTS").is_some_and(|value| value == "1");
    let trials = if is_long { TRIALS_LONG } else { TRIALS };
    let seeds: Vec<u64> = match number("TIDEGATE_DAMAGE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TIDEGATE_DAMAGE_TRIALS").unwrap_or(trials)).collect(),
    };
    let (done, progress) = mpsc::channel();
    let trials = std::thread::spawn(move || {
        let template = template();
        for seed in seeds {
            let folder = tempfile::tempdir().unwrap();
            let state = folder.path().join("state");
            copy(&template.disk.path(), &state);
            let what = damage(&state, &template, &mut Dice(seed));
            let what = format!("TIDEGATE_DAMAGE_SEED={seed} ({what})");
            judge(&state, &template, &what);
            done.send(what).unwrap();
        }
    });
    let mut last = "the first".to_owned();
    loop {
        match progress.recv_timeout(PATIENCE) {
            Ok(what) => last = what,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the trial after {last} hangs"),
        }
    }
    if let Err(panic) = trials.join() {
        std::panic::resume_unwind(panic);
    }
}
