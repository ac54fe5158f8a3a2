//! The state directory: its location, its permissions, and reports of damage.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::bench::{Bench, Running};
use crate::fleet::Fleet;
use crate::manifests::{CONFIG, SLOW, STUCK};

fn is_log(folder: &Path) -> bool {
    folder.join("log").is_dir()
}

#[test]
fn the_argument_overrides_the_environment_and_the_default() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let (home, xdg) = (bench.path().join("home"), bench.path().join("xdg"));
    let args = ["sync", "config.yaml", "--app", "a", "--sim"];
    let mut command = bench.command(&[&args[..], &["--state-dir", "given"]].concat());
    command.env("HOME", &home);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&bench.path().join("given")) && !bench.state().exists());
    bench.run(&args).expect_code(0);
    assert!(is_log(&bench.state()));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env("HOME", &home).env("XDG_STATE_HOME", &xdg);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&xdg.join("tidegate")));
    // An empty variable counts as not set.
    let mut command = bench.command(&args);
    let other = bench.path().join("other");
    command.env("TIDEGATE_STATE_DIR", "").env("HOME", &home).env("XDG_STATE_HOME", &other);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&other.join("tidegate")));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env("HOME", &home);
    Running::start(command).finish().expect_code(0);
    assert!(is_log(&home.join(".local/state/tidegate")));
    let mut command = bench.command(&args);
    command.env_remove("TIDEGATE_STATE_DIR").env_remove("HOME");
    let ran = Running::start(command).finish().expect_code(2);
    assert!(ran.err.contains("--state-dir"), "{}", ran.err);
}

#[test]
fn the_state_directory_is_private() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&bench.state()), 0o700);
    assert_eq!(mode(&bench.state().join("control.sock")), 0o600);
    sync.signal("TERM");
    sync.finish().expect_code(3);
}

#[test]
fn a_sync_whose_state_directory_disappears_does_not_succeed() {
    for is_removed in [true, false] {
        let bench = Bench::new();
        bench.write("slow.yaml", SLOW);
        let mut sync = bench.start(&["sync", "slow.yaml", "--app", "a", "--sim"]);
        sync.wait_for_line("waiting for hook Job default/slow");
        let aside = bench.path().join("aside");
        match is_removed {
            true => fs::remove_dir_all(bench.state()).unwrap(),
            false => fs::rename(bench.state(), &aside).unwrap(),
        }
        let ran = sync.finish().expect_code(1);
        assert!(ran.err.contains("was moved, removed or replaced"), "{}", ran.err);
        assert!(!ran.out.contains("Succeeded") && !bench.state().exists(), "{}", ran.out);
        if !is_removed {
            fs::rename(aside, bench.state()).unwrap();
            bench.run(&["resume", "--all", "--sim"]).expect_code(0);
            assert_eq!(bench.creations("Job", "slow"), 1);
        }
    }
}

/// This doesn't need a request, because the service checks the directory itself.
#[test]
fn a_service_whose_state_directory_disappears_ends_and_loses_no_commit() {
    let fleet = Fleet::new();
    let (state, aside) = (fleet.bench.state(), fleet.bench.path().join("aside"));
    let service = fleet.serve_with(&["--refresh-every", "1s"]);
    fleet.wait_until_synced(&[]);
    fs::rename(&state, &aside).unwrap();
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.commit();
    let ran = service.finish().expect_code(1);
    assert!(ran.err.contains("was moved, removed or replaced"), "{}", ran.err);
    assert!(!state.exists(), "{}", ran.err);
    fs::rename(&aside, &state).unwrap();
    let service = fleet.serve();
    let is_synced = |app: &Value| app["status"]["history"].as_array().is_some_and(|all| all.len() == 2);
    fleet.wait_until("frontend", is_synced);
    fleet.wait_until_synced(&["frontend"]);
    assert_eq!(fleet.get("frontend")["status"]["summary"]["images"][0], "example.com/fleet/frontend:2.0");
    Fleet::stop(service);
}

#[test]
fn read_only_commands_create_no_state_directory() {
    let bench = Bench::new();
    let commands: [&[&str]; 5] = [
        &["ops", "list"],
        &["resume", "--all", "--sim"],
        &["sim", "audit"],
        &["sim", "objects"],
        &["sim", "reset"],
    ];
    for args in commands {
        bench.run(args).expect_code(0);
    }
    assert_eq!(bench.run(&["sim", "audit", "-o", "json"]).expect_code(0).out, "[]\n");
    assert_eq!(bench.run(&["ops", "list", "-o", "json"]).expect_code(0).out, "[]\n");
    assert!(!bench.state().exists());
}

#[test]
fn a_damaged_operation_is_set_aside_and_the_rest_works() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "stuck.yaml", "--app", "stuck", "--sim", "--timeout", "200ms"]).expect_code(3);
    bench.run(&["sync", "config.yaml", "--app", "good", "--sim"]).expect_code(0);
    damage(&bench.state(), 5);
    let ran = bench.run(&["ops", "list"]).expect_code(0);
    assert!(ran.err.contains("warning: the operation log was damaged"), "{}", ran.err);
    bench.run(&["sync", "config.yaml", "--app", "new", "--sim"]).expect_code(0);
}

/// Removes all data that is stored next to the log.
fn lose_blobs(bench: &Bench) {
    let blobs = bench.state().join("blobs");
    assert!(fs::read_dir(&blobs).unwrap().count() > 0);
    fs::remove_dir_all(blobs).unwrap();
}

#[test]
fn a_finished_operation_without_its_manifests_is_shown_with_a_note() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    lose_blobs(&bench);
    let list = bench.run(&["ops", "list"]).expect_code(0).out;
    assert!(list.contains("Succeeded, damaged"), "{list}");
    let listed = bench.json(&["ops", "list", "-o", "json"]);
    assert_eq!(listed[0]["app"], "a");
    assert_eq!(listed[0]["phase"], "Succeeded");
    assert!(listed[0]["damage"].as_str().unwrap().contains("is missing"), "{listed}");
    let shown = bench.run(&["ops", "show", "a"]).expect_code(0).out;
    assert!(shown.contains("config") && shown.contains("is missing"), "{shown}");
    let shown = bench.json(&["ops", "show", "a", "-o", "json"]);
    assert_eq!(shown["warnings"][0]["code"], "damaged-log");
    let log = bench.run(&["ops", "log", "a"]).expect_code(0);
    assert!(log.out.contains("Succeeded") && log.err.contains("is missing"), "{log:?}");
    // The next operation isn't blocked.
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
}

#[test]
fn a_finished_operation_without_its_plan_is_shown_as_far_as_possible() {
    let bench = Bench::new();
    let many: String = (0..150)
        .map(|number| format!("---\n{}", CONFIG.replace("name: config", &format!("name: c{number}"))))
        .collect();
    bench.write("many.yaml", many);
    bench.run(&["sync", "many.yaml", "--app", "a", "--sim"]).expect_code(0);
    lose_blobs(&bench);
    let listed = bench.json(&["ops", "list", "-o", "json"]);
    assert!(listed[0]["damage"].as_str().unwrap().contains("event 2: blob"), "{listed}");
    let shown = bench.run(&["ops", "show", "a"]).expect_code(0).out;
    assert!(shown.contains("Succeeded") && shown.contains("event 2: blob"), "{shown}");
    let explained = bench.run(&["explain", "a"]).expect_code(0).out;
    assert!(explained.contains("Succeeded") && explained.contains("is damaged"), "{explained}");
    let log = bench.run(&["ops", "log", "a"]).expect_code(1);
    assert!(log.err.contains("is damaged: event 2: blob"), "{}", log.err);
}

#[test]
fn lost_operations_are_listed_with_their_errors() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let id = bench.newest();
    damage(&bench.state(), usize::MAX);
    let ran = bench.run(&["ops", "list"]).expect_code(0);
    assert!(ran.out.lines().any(|line| line.contains(&id) && line.contains("damaged")), "{}", ran.out);
    let listed = bench.json(&["ops", "list", "--app", "a", "-o", "json"]);
    assert!(listed[0]["id"] == *id && listed[0]["damage"].is_string(), "{listed}");
    assert!(listed[0]["app"].is_null() && listed[0]["startedAt"].as_str().unwrap() > "2026", "{listed}");
    for args in [&["ops", "show"][..], &["ops", "log"], &["explain"], &["resume", "--sim"], &["ops", "pause"]]
    {
        let ran = bench.run(&[args, &[id.as_str()]].concat()).expect_code(1);
        assert!(ran.err.contains(&format!("operation {id} is damaged: ")), "{args:?}: {}", ran.err);
    }
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
}

#[test]
fn resume_all_names_damaged_unfinished_operations() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    bench.run(&["sync", "stuck.yaml", "--app", "a", "--sim", "--timeout", "200ms"]).expect_code(3);
    let id = bench.newest();
    // The operation can't continue without its manifests.
    lose_blobs(&bench);
    for args in [&["resume", "--all", "--sim"][..], &["resume", "--sim"]] {
        let ran = bench.run(args).expect_code(1);
        assert!(
            ran.err.contains(&format!("operation {id} (a) is damaged and cannot continue")),
            "{}",
            ran.err
        );
        assert!(!ran.err.contains("all operations have finished"), "{}", ran.err);
    }
    fs::remove_dir_all(bench.state().join("quarantine").join(&id)).unwrap();
    bench.run(&["resume", "--all", "--sim"]).expect_code(0);
}

/// The newest summary is damaged. An older summary and all events must still be found.
#[test]
fn a_salvaged_operation_keeps_its_recorded_pause() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "a", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    sync.signal("KILL");
    sync.finish();
    bench.run(&["ops", "pause", "a", "--reason", "lunch"]).expect_code(0);
    damage_newest(&bench.state(), SUMMARY);
    let list = bench.run(&["ops", "list"]).expect_code(0);
    assert!(list.err.contains("was damaged") && list.out.contains("paused"), "{}{}", list.out, list.err);
    let explained = bench.run(&["explain", "a"]).expect_code(0);
    assert!(explained.out.contains("paused by tester"), "{}", explained.out);
    bench.run(&["resume", "a", "--sim"]).expect_code(3);
    bench.run(&["ops", "unpause", "a"]).expect_code(0);
    let list = bench.run(&["ops", "list"]).expect_code(0);
    assert!(!list.out.contains("paused"), "{}", list.out);
}

const SUMMARY: u8 = 4;

/// Changes a byte in each copy of the newest record of a family.
fn damage_newest(state: &Path, family: u8) {
    let path = state.join("log/db");
    let mut bytes = fs::read(&path).unwrap();
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at + 25..at + 33].try_into().unwrap());
    let of_family =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"TGLR") && bytes[*at + 5] == family);
    let records: Vec<usize> = of_family.collect();
    let newest = records.iter().map(|at| number(&bytes, *at)).max().unwrap();
    assert!(records.iter().any(|at| number(&bytes, *at) < newest), "there is an older one");
    for at in records {
        if number(&bytes, at) == newest {
            bytes[at + 50] ^= 0xff;
        }
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_simulated_cluster_is_named_and_can_be_reset() {
    type DamageFn = fn(&Path);
    let cases: [(&str, &str, DamageFn); 2] = [
        ("damaged", "is damaged on line", |journal| {
            let mut bytes = fs::read(journal).unwrap();
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
            fs::write(journal, bytes).unwrap();
        }),
        ("missing", "is missing", |journal| {
            let folder = journal.parent().unwrap();
            fs::write(folder.join("audit"), "").unwrap();
            fs::remove_file(journal).unwrap();
        }),
    ];
    for (what, text, spoil) in cases {
        let bench = Bench::new();
        bench.write("stuck.yaml", STUCK);
        bench.run(&["sync", "stuck.yaml", "--app", "a", "--sim", "--timeout", "100ms"]).expect_code(3);
        spoil(&bench.state().join("cluster/journal-0"));
        for args in [&["sim", "objects"][..], &["sim", "audit"], &["resume", "--all", "--sim"]] {
            let ran = bench.run(args).expect_code(1);
            assert!(ran.err.contains(text) && ran.err.contains("`tidegate sim reset"), "{what}: {}", ran.err);
        }
        let ran = bench.run(&["sim", "reset"]).expect_code(0);
        assert!(ran.err.contains("`tidegate ops terminate"), "{what}: {}", ran.err);
        let objects = bench.json(&["sim", "objects", "-o", "json"]);
        let names: Vec<_> = objects.as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["default", "kube-system"], "{what}: those of a new cluster");
        bench.run(&["ops", "terminate", "a"]).expect_code(0);
        bench.run(&["sync", "stuck.yaml", "--app", "a", "--sim", "--timeout", "100ms"]).expect_code(3);
    }
}

/// An empty cluster must be reported if operations ran on an earlier cluster, unless the cluster was reset.
#[test]
fn a_missing_simulated_cluster_is_reported_as_empty() {
    type LossFn = fn(&Path);
    let cases: [LossFn; 3] = [
        |cluster| fs::remove_dir_all(cluster).unwrap(),
        |cluster| fs::remove_file(cluster.join("journal-0")).unwrap(),
        |cluster| fs::write(cluster.join("journal-0"), "").unwrap(),
    ];
    for lose in cases {
        let bench = Bench::new();
        bench.write("config.yaml", CONFIG);
        // The folder is new, so an absent cluster isn't missing.
        let sync = &["sync", "config.yaml", "--app", "a", "--sim"][..];
        let ran = bench.run(sync).expect_code(0);
        assert!(!ran.err.contains("missing"), "{}", ran.err);
        let cluster = bench.state().join("cluster");
        let text =
            format!("warning: the files of the simulated cluster are missing from {}", cluster.display());
        let looks: [&[&str]; 4] = [
            &["sim", "audit"],
            &["sim", "objects"],
            &["diff", "config.yaml", "--app", "a", "--sim"],
            &["plan", "config.yaml", "--app", "a", "--sim"],
        ];
        for args in looks.into_iter().chain([sync]) {
            bench.run(&["sim", "reset"]).expect_code(0);
            let ran = bench.run(args);
            assert!(!ran.err.contains("missing"), "{args:?}: {}", ran.err);
            lose(&cluster);
            let ran = bench.run(args);
            assert!(ran.err.contains(&text) && ran.err.contains("starts empty"), "{args:?}: {}", ran.err);
            // The cluster of later operations can be lost again.
            bench.run(&["sim", "reset"]).expect_code(0);
        }
    }
}

/// Changes a byte in each of the first records.
fn damage(state: &Path, count: usize) {
    let path = state.join("log/db");
    let mut bytes = fs::read(&path).unwrap();
    let records: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"TGLR")).take(count).collect();
    assert!(!records.is_empty());
    for at in records {
        bytes[at + 30] ^= 0xff;
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_file_in_the_way_is_named() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.write("state", "a file");
    let ran = bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(1);
    assert!(ran.err.contains("state"), "{}", ran.err);
    // The directory doesn't contain any operations, but it differs from an unused directory.
    let looks = [["ops", "list"].as_slice(), &["explain", "a"], &["resume", "--all"], &["sim", "audit"]];
    for args in looks {
        let ran = bench.run(args).expect_code(1);
        assert!(ran.err.contains("state directory") && ran.err.contains("/state:"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn the_simulated_cluster_is_shown_and_reset() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    assert!(bench.run(&["sim", "objects"]).expect_code(0).out.contains("config"));
    assert!(bench.run(&["sim", "audit"]).expect_code(0).out.contains("ConfigMap default/config"));
    let entry = &bench.writes()[0];
    let mut keys: Vec<&String> = entry.as_object().unwrap().keys().collect();
    keys.sort();
    let audit = ["code", "dryRun", "group", "kind", "name", "namespace", "operationId", "sequence", "verb"];
    assert_eq!(keys, audit);
    bench.run(&["sim", "reset"]).expect_code(0);
    assert_eq!(bench.writes().len(), 0);
    bench.write("stuck.yaml", STUCK);
    bench.run(&["sync", "stuck.yaml", "--app", "b", "--sim", "--timeout", "100ms"]).expect_code(3);
    let ran = bench.run(&["sim", "reset"]).expect_code(4);
    assert!(ran.err.contains("tidegate ops terminate"), "{}", ran.err);
}
