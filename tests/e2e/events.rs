//! `ops events`, which prints numbered events from the running process or from the log.

use serde_json::Value;

use crate::bench::Bench;
use crate::manifests::{FAST, SLOW, STUCK};

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
}

fn events(bench: &Bench, args: &[&str]) -> Vec<Value> {
    let all = bench.json(&[&["ops", "events"], args, &["-o", "json"]].concat());
    all.as_array().unwrap().clone()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn events_of_a_finished_operation_are_printed_after_a_number() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "fast", "--sim"]).expect_code(0);
    let all = events(&bench, &["fast"]);
    let numbers = numbers(&all);
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!((&all[0]["kind"], &all[0]["app"]), (&"accepted".into(), &"fast".into()));
    let last = all.last().unwrap();
    assert_eq!((&last["kind"], &last["details"]["phase"]), (&"finished".into(), &"Succeeded".into()));
    let hook = all.iter().find(|event| event["object"]["name"] == "before").unwrap();
    assert_eq!(hook["kind"], "task-ended");
    let wave = all.iter().find(|event| event["details"]["state"] == "Applying").unwrap();
    assert_eq!(wave["details"]["phase"], "PreSync", "{wave}");

    let after = numbers[3].to_string();
    assert_eq!(events(&bench, &["fast", "--after", &after]), all[4..]);
    let followed = bench.run(&["ops", "events", "fast", "--follow", "-o", "json"]).expect_code(0);
    assert_eq!(lines(&followed.out), all, "one document per line, until the operation ends");
    let text = bench.run(&["ops", "events", "fast", "--after", &after]).expect_code(0);
    assert_eq!(text.out.lines().count(), all.len() - 4);
    assert!(text.out.contains("Succeeded: "), "{}", text.out);
    // The number is greater than that of the last event.
    let ahead = bench.run(&["ops", "events", "fast", "--after", "10000"]).expect_code(0);
    assert!(ahead.err.contains("records, but events after record 10000 were requested"), "{}", ahead.err);
}

#[test]
fn events_are_followed_live() {
    let bench = Bench::new();
    bench.write("slow.yaml", SLOW);
    let mut sync = bench.start(&["sync", "slow.yaml", "--app", "slow", "--sim"]);
    sync.wait_for_line("waiting for hook");
    let follower = bench.start(&["ops", "events", "slow", "--follow", "-o", "json"]);
    let followed = follower.finish().expect_code(0);
    sync.finish().expect_code(0);
    assert_eq!(lines(&followed.out), events(&bench, &["slow"]));
}

#[test]
fn after_a_kill_the_next_process_emits_the_remaining_events() {
    let bench = Bench::new();
    bench.write("stuck.yaml", STUCK);
    let mut sync = bench.start(&["sync", "stuck.yaml", "--app", "stuck", "--sim"]);
    sync.wait_for_line("waiting for Deployment default/server");
    sync.signal("KILL");
    sync.finish();
    let left = bench.run(&["ops", "events", "stuck", "--follow", "-o", "json"]).expect_code(3);
    assert!(left.err.contains("no process is running the operation"), "{}", left.err);
    assert!(left.err.contains("tidegate resume"), "{}", left.err);
    let before = lines(&left.out);
    let seen = numbers(&before).last().unwrap().to_string();
    bench.run(&["ops", "terminate", "stuck"]).expect_code(0);
    let rest = events(&bench, &["stuck", "--after", &seen]);
    assert_eq!(rest[0]["kind"], "termination-requested");
    assert_eq!(rest.last().unwrap()["kind"], "finished");
    assert_eq!([before, rest].concat(), events(&bench, &["stuck"]), "each once");
}

#[test]
fn compacted_events_are_reported() {
    let bench = Bench::new();
    bench.write("fast.yaml", FAST);
    bench.run(&["sync", "fast.yaml", "--app", "fast", "--sim"]).expect_code(0);
    let old = bench.newest();
    bench.run(&["sync", "fast.yaml", "--app", "fast", "--sim", "--history", "1"]).expect_code(0);
    let output = bench.run(&["ops", "events", &old, "--follow"]).expect_code(0);
    assert!(output.out.is_empty(), "{}", output.out);
    assert!(output.err.contains("no longer stored"), "{}", output.err);
}

/// The events of awaited objects must follow the start of their wave, and the times must increase across
/// operations.
#[test]
fn awaited_objects_are_reported_in_order() {
    let bench = Bench::new();
    bench.write("slow.yaml", SLOW);
    let ran = bench.run(&["sync", "slow.yaml", "--app", "slow", "--sim"]).expect_code(0);
    let place = |part: &str| ran.err.find(part).unwrap_or_else(|| panic!("{part}: {}", ran.err));
    assert!(place("applying 1 object") < place("waiting for hook"), "{}", ran.err);
    for app in ["one", "two"] {
        bench.write("slow.yaml", SLOW.replace("slow", app));
        bench.run(&["sync", "slow.yaml", "--app", app, "--sim", "--timeout", "100ms"]).expect_code(3);
    }
    let ran = bench.run(&["resume", "--all", "--sim"]).expect_code(0);
    let time = |line: &str| line.strip_prefix('[')?.split_once(" s]")?.0.trim().parse::<f64>().ok();
    let times: Vec<f64> = ran.err.lines().filter_map(time).collect();
    assert!(times.len() > 4 && times.is_sorted(), "{}", ran.err);
}
