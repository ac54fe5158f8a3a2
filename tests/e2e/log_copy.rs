//! `tidegate log copy`: an operation log moves from a state directory to PostgreSQL and back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bench::Bench;
use crate::manifests::{CONFIG, FAST, STUCK};
use crate::postgres_server::PostgresServer;

/// Returns the metadata files of the stored plans, with their content.
fn plan_files(state: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(state.join("plans")).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "json"));
    files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Returns the list of operations, and the log of each.
fn operations(bench: &Bench, more: &[&str]) -> (Value, Vec<Value>) {
    let list = bench.json(&[&["ops", "list", "-o", "json"][..], more].concat());
    let logs = list.as_array().unwrap().iter().map(|operation| {
        bench.json(&[&["ops", "log", operation["id"].as_str().unwrap(), "-o", "json"][..], more].concat())
    });
    let logs = logs.collect();
    (list, logs)
}

#[test]
fn a_log_moves_to_a_database_and_back() {
    let Some(server) = PostgresServer::shared() else { return };
    let (mut bench, url) = (Bench::new(), server.new_log_url());
    bench.write("one.yaml", FAST);
    bench.write("two.yaml", CONFIG.replace("config", "other"));
    bench.write("stuck.yaml", STUCK.replace("before", "early").replace("server", "waiting"));
    bench.run(&["plan", "one.yaml", "--app", "one", "--sim", "--save", "one.plan"]).expect_code(0);
    bench.run(&["sync", "one.yaml", "--app", "one", "--sim"]).expect_code(0);
    bench.run(&["sync", "two.yaml", "--app", "two", "--sim"]).expect_code(0);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "stuck", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/waiting");
    // The directory is in use.
    let copy = ["log", "copy", "--from", "state", "--to", &url];
    let ran = bench.run(&copy).expect_code(4);
    assert!(ran.err.contains(&format!("in use by pid {}", sync.pid)), "{}", ran.err);
    sync.signal("TERM");
    sync.finish().expect_code(3);
    let (before, plans) = (operations(&bench, &[]), plan_files(&bench.state()));
    assert_eq!((before.1.len(), plans.len()), (3, 1));

    let has_schema =
        || server.psql(&url, "SELECT to_regnamespace(current_setting('search_path')) IS NOT NULL");
    let ran = bench.run(&[&copy[..], &["--dry-run"]].concat()).expect_code(0);
    assert!(ran.out.contains("3 (1 unfinished)"), "{}", ran.out);
    assert_eq!(has_schema(), "f", "a dry run writes nothing");
    assert_eq!(operations(&bench, &[]), before);

    let ran = bench.run(&copy).expect_code(0);
    assert!(ran.out.contains("3 (1 unfinished)") && ran.err.contains("state/key"), "{ran:?}");
    assert_eq!(server.psql(&url, "SELECT count(*), count(finished_at) FROM stream"), "3|2");
    assert_eq!(server.psql(&url, "SELECT count(*) FROM kept WHERE kind = 1"), "1");
    assert_eq!(server.psql(&url, "SELECT count(*) FROM replica"), "0");
    for refused in
        [&["ops", "list"][..], &["sync", "two.yaml", "--app", "two", "--sim"], &["resume", "--all"]]
    {
        let ran = bench.run(refused).expect_code(1);
        assert!(ran.err.contains("was moved to"), "{refused:?}: {}", ran.err);
    }
    let ran = bench.run(&copy).expect_code(0);
    assert!(ran.out.contains("already been moved"), "{}", ran.out);

    let back = ["log", "copy", "--from", &url, "--to", "restored"];
    let ran = bench.run(&back).expect_code(4);
    assert!(ran.err.contains("TIDEGATE_LOG_KEY"), "{}", ran.err);
    bench.set_variable("TIDEGATE_LOG_KEY", fs::read_to_string(bench.state().join("key")).unwrap().trim());
    bench.run(&[&back[..], &["--dry-run"]].concat()).expect_code(0);
    assert!(!bench.path().join("restored").exists(), "a dry run writes nothing");
    bench.run(&back).expect_code(0);
    let restored = ["--state-dir", "restored"];
    assert_eq!(operations(&bench, &restored), before);
    assert_eq!(plan_files(&bench.path().join("restored")), plans);
    // A copy is the same when it is repeated, and the unfinished operation can be ended.
    bench.run(&back).expect_code(0);
    let id = bench.json(&[&["ops", "list", "--app", "stuck", "-o", "json"][..], &restored].concat());
    let id = id[0]["id"].as_str().unwrap();
    let ran = bench.run(&[&["ops", "show", id, "-o", "json"][..], &restored].concat()).expect_code(0);
    assert!(ran.out.contains("stuck"), "{}", ran.out);
}

#[test]
fn a_copy_without_a_database_or_a_log_is_refused() {
    let bench = Bench::new();
    for (from, to) in [("state", "other"), ("postgres://a@b/c", "postgres://a@b/d")] {
        let ran = bench.run(&["log", "copy", "--from", from, "--to", to]).expect_code(2);
        assert!(ran.err.contains("one of them must be"), "{}", ran.err);
    }
    let to = "postgres://a@localhost/c?sslmode=disable";
    let ran = bench.run(&["log", "copy", "--from", "state", "--to", to]).expect_code(2);
    assert!(ran.err.contains("does not contain an operation log"), "{}", ran.err);
    assert!(!bench.state().exists());
}
