//! State directories that are damaged by accident, at random, or on purpose.

use std::env;
use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bench::{Bench, CommandOutput, Running, files};
use crate::manifests::{CONFIG, SLOW};

/// Number of trials. Commands are slow to start, and the tests of the log itself run many more trials.
const TRIALS: u64 = 40;

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy_folder(&entry.path(), &to),
            kind if kind.is_file() => drop(fs::copy(entry.path(), to).unwrap()),
            _ => {}
        }
    }
}

/// Returns a test environment with a finished and an unfinished operation.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.write("slow.yaml", SLOW);
    bench.run(&["sync", "config.yaml", "--app", "done", "--sim"]).expect_code(0);
    let mut sync = bench.start(&["sync", "slow.yaml", "--app", "slow", "--sim"]);
    sync.wait_for_line("waiting for hook Job default/slow");
    sync.signal("KILL");
    sync.finish();
    bench
}

#[test]
fn a_pipe_instead_of_a_file_is_refused_at_once() {
    let bench = bench();
    let whole = bench.path().join("whole");
    copy_folder(&bench.state(), &whole);
    for name in ["holder", "witness", "key", "key-id", "log/db", "log/conf", "cluster/journal-0", "clock"] {
        fs::remove_dir_all(bench.state()).unwrap();
        copy_folder(&whole, &bench.state());
        let path = bench.state().join(name);
        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(1);
        assert!(ran.err.contains(name) && ran.err.contains("not a regular file"), "{name}: {}", ran.err);
    }
}

/// An invalid clock file isn't fatal: the command uses the system clock and writes the file again.
#[test]
fn an_invalid_clock_file_is_reported_once() {
    let bench = bench();
    for damage in ["noon\n", ""] {
        fs::write(bench.state().join("clock"), damage).unwrap();
        for args in [&["ops", "list"][..], &["sync", "config.yaml", "--app", "a", "--sim"]] {
            let ran = bench.run(args).expect_code(0);
            let clock = bench.state().join("clock");
            assert!(ran.err.contains(&format!("warning: {} is damaged", clock.display())), "{}", ran.err);
        }
        let ran = bench.run(&["ops", "list"]).expect_code(0);
        assert!(!ran.err.contains("clock"), "{damage:?}: {}", ran.err);
    }
}

#[test]
fn a_file_that_is_too_large_is_refused_by_its_size() {
    let bench = bench();
    let open = |name: &str| OpenOptions::new().write(true).open(bench.state().join(name)).unwrap();
    open("cluster/journal-0").set_len(8 << 30).unwrap();
    let ran = bench.run(&["sim", "audit"]).expect_code(1);
    assert!(
        ran.err.contains("cluster/journal-0 is damaged on line 1: the file exceeds the maximum size"),
        "{}",
        ran.err
    );
    open("log/db").set_len(8 << 30).unwrap();
    for args in [&["ops", "list"][..], &["sync", "config.yaml", "--app", "a", "--sim"]] {
        let ran = bench.run(args).expect_code(1);
        assert!(ran.err.contains("log/db is too large: 8589934592 bytes"), "{}", ran.err);
    }
}

#[test]
fn a_reached_file_limit_is_a_named_error() {
    let bench = bench();
    let limited = |limit: &str| {
        let inner = bench.command(&["resume", "--all", "--sim"]);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(bench.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Running::start(command).finish().expect_code(1)
    };
    let ran = limited("ulimit -f 1");
    assert!(ran.err.contains("`ulimit -f`") && ran.err.contains("File too large"), "{}", ran.err);
    let ran = limited("ulimit -n 12");
    assert!(ran.err.contains("`ulimit -n`") && ran.err.contains("Too many open files"), "{}", ran.err);
    bench.run(&["resume", "--all", "--sim"]).expect_code(0);
    assert_eq!(bench.creations("Job", "slow"), 1);
}

#[test]
fn suggested_commands_are_shell_safe_and_name_the_state_directory() {
    let bench = bench();
    let state = bench.path().join("state of mind");
    copy_folder(&bench.state(), &state);
    let at = ["--state-dir", state.to_str().unwrap()];
    let hint = format!("--state-dir '{}'", state.display());
    let cases: [(&[&str], i32); 4] = [
        (&["explain", "slow"], 0),
        (&["explain", "nobody"], 2),
        (&["sync", "config.yaml", "--app", "slow", "--sim"], 4),
        (&["ops", "pause", "done"], 4),
    ];
    for (args, code) in cases {
        let ran = bench.run(&[args, &at].concat()).expect_code(code);
        // An explanation ends with the next action.
        let text = format!("{}{}", ran.err, ran.out);
        let suggested: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        assert!(suggested.iter().all(|command| command.contains(&hint)), "{args:?}: {text}");
        assert!(!suggested.is_empty() || args[0] == "ops", "{args:?}: {text}");
    }
}

/// Pseudo-random numbers from a seed.
struct Dice(u64);

impl Dice {
    fn random_below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

/// Damages one file. Returns the name of the file and a description of the damage.
fn damage(state: &Path, dice: &mut Dice) -> String {
    let mut all = files(state);
    all.sort();
    let path = &all[dice.random_below(all.len())];
    let mut content = fs::read(path).unwrap();
    let what = match dice.random_below(5) {
        0 => {
            fs::remove_file(path).unwrap();
            return format!("{} removed", path.display());
        }
        1 => {
            content.truncate(dice.random_below(content.len()));
            "cut"
        }
        2 => {
            content = (0..content.len()).map(|_| u8::try_from(dice.random_below(256)).unwrap()).collect();
            "garbage"
        }
        3 => {
            let at = dice.random_below(content.len());
            content.iter_mut().skip(at).take(512).for_each(|byte| *byte = 0);
            "a page of zeros"
        }
        _ => {
            let at = dice.random_below(content.len());
            content.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << dice.random_below(8));
            "a bit flipped"
        }
    };
    fs::write(path, content).unwrap();
    format!("{}: {what}", path.display())
}

/// `TIDEGATE_DAMAGE_SEED=N` repeats one trial.
#[test]
fn commands_in_damaged_state_directories_end_and_report() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match number("TIDEGATE_DAMAGE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TIDEGATE_DAMAGE_TRIALS").unwrap_or(TRIALS)).collect(),
    };
    let bench = bench();
    let id = bench.newest();
    let whole = bench.path().join("whole");
    copy_folder(&bench.state(), &whole);
    for seed in seeds {
        fs::remove_dir_all(bench.state()).unwrap();
        copy_folder(&whole, &bench.state());
        let what = damage(&bench.state(), &mut Dice(seed));
        let what = format!("TIDEGATE_DAMAGE_SEED={seed} ({what})");
        let run = |args: &[&str]| -> CommandOutput {
            let ran = bench.run(args);
            assert!(!ran.err.contains("panicked"), "{what}: {}", ran.err);
            assert!((0..=4).contains(&ran.code()), "{what}: {}", ran.err);
            ran
        };
        let listed = run(&["ops", "list", "-o", "json"]);
        if listed.code() != 0 {
            assert!(listed.err.contains("error: "), "{what}: {}", listed.err);
            continue;
        }
        let operations: Value = serde_json::from_str(&listed.out).unwrap();
        let slow = operations.as_array().unwrap().iter().find(|one| one["id"] == *id);
        let slow = slow.unwrap_or_else(|| panic!("{what}: {id} is not listed: {}", listed.err));
        let resumed = run(&["resume", "--all", "--sim"]);
        if resumed.code() == 0 {
            assert!(slow["damage"].is_null(), "{what}: {}", resumed.err);
            assert!(resumed.out.contains("slow: Succeeded"), "{what}: {}", resumed.err);
            if !what.contains("/cluster/") {
                assert_eq!(bench.creations("Job", "slow"), 1, "{what}");
            }
        } else {
            assert!(!resumed.err.is_empty(), "{what}");
        }
    }
}
