//! Records that a newer version has written to the same state directory, and retention of older records in
//! lists.

use serde::{Deserialize, Serialize};
use tidegate_executor::codecs;
use tidegate_lifecycle::Machine as _;
use tidegate_lifecycle::teardown::{Details, Event, Input, Options, Order, OrderedDeletion, Request, State};
use tidegate_model::{LogRecord, OperationId, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{AppendOf, Holder, OpenOptions, OperationLog as _, SledLog, Summary, TypedLog as _};

use crate::bench::Bench;
use crate::manifests::CONFIG;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ForeignRecord(String);

impl LogRecord for ForeignRecord {
    type Earlier = Self;
}

impl StreamRecords for ForeignRecord {
    const KIND: StreamKind = StreamKind::new(StreamKind::FIRST_FREE, "voyage");
    type Snapshot = ForeignRecord;
    type Details = ForeignRecord;
}

/// Returns the log as opened by a newer version that knows the kind "voyage".
fn open_as_newer_program(bench: &Bench) -> SledLog {
    let holder = Holder { pid: 1, command: "newer".into(), since: Timestamp::from_millis(0) };
    let options = OpenOptions { holder, key: None, codecs: codecs().with_kind::<ForeignRecord>() };
    SledLog::open(bench.state(), options).unwrap()
}

#[test]
fn records_of_a_newer_program_are_listed_and_left_alone() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let id: OperationId = "0190a000-0000-7000-8000-000000000001".parse().unwrap();
    let summary = Summary {
        application: Some("a".to_owned()),
        set: Some("fleet".to_owned()),
        started_at: Timestamp::from_millis(0),
        finished_at: None,
        details: ForeignRecord("home".into()),
    };
    let events = vec![ForeignRecord("Ithaca".into()), ForeignRecord("Troy".into())];
    open_as_newer_program(&bench).append_all(vec![AppendOf::new(id, 1, events.clone(), summary)]).unwrap();

    let listed = bench.run(&["ops", "list"]).expect_code(0);
    let line = listed.out.lines().find(|line| line.contains(&id.to_string()));
    assert!(line.is_some_and(|line| line.contains("voyage")), "{}", listed.out);
    assert!(!listed.err.contains("damage"), "{}", listed.err);
    let documents = bench.json(&["ops", "list", "--app", "a", "-o", "json"]);
    let documents = documents.as_array().unwrap();
    assert_eq!(documents.len(), 2, "{documents:?}");
    let found = documents.iter().find(|one| one["id"] == id.to_string()).unwrap();
    assert_eq!((found["unknownKind"].as_str(), found["damage"].is_null()), (Some("voyage"), true), "{found}");
    for args in [&["ops", "show"][..], &["ops", "log"], &["explain"], &["resume", "--sim"], &["ops", "pause"]]
    {
        let ran = bench.run(&[args, &[id.to_string().as_str()]].concat()).expect_code(4);
        assert!(ran.err.contains("is a voyage"), "{args:?}: {}", ran.err);
    }
    // Operations still work.
    for args in
        [&["ops", "show", "a"][..], &["ops", "log", "a"], &["explain", "a"], &["resume", "--all", "--sim"]]
    {
        bench.run(args).expect_code(0);
    }
    for _ in 0..2 {
        bench
            .run(&["sync", "config.yaml", "--app", "a", "--sim", "--history", "0", "--summaries", "0"])
            .expect_code(0);
    }
    let log = open_as_newer_program(&bench);
    assert_eq!((log.damage(), log.events_as::<ForeignRecord>(id).unwrap().events), (vec![], events));
}

#[test]
fn old_operations_are_removed_by_number_and_by_age() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = |options: &[&str]| {
        bench.run(&[&["sync", "config.yaml", "--app", "a", "--sim"], options].concat()).expect_code(0);
        bench.json(&["ops", "list", "-o", "json"]).as_array().unwrap().len()
    };
    assert_eq!([1, 2, 3].map(|_| sync(&[])), [1, 2, 3]);
    assert_eq!(sync(&["--history", "1"]), 4, "each keeps a summary");
    assert_eq!(sync(&["--history", "1", "--summaries", "3"]), 3);
    assert_eq!(sync(&["--history", "2", "--summaries-for", "0s"]), 2);
    assert_eq!(sync(&["--summaries-for", "0s"]), 3, "age does not remove operations that keep their events");
}

/// Compaction also works without an operation to resume.
#[test]
fn resume_compacts_the_log_and_reports_what_remains() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = || bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    for _ in 0..3 {
        sync();
    }
    let ids = || {
        let list = bench.json(&["ops", "list", "-o", "json"]);
        list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ids();
    bench.run(&["resume", "--all", "--sim", "--history", "1", "--summaries", "2"]).expect_code(0);
    assert_eq!(ids(), all[1..]);
    let output = bench.run(&["ops", "log", &all[1]]);
    assert!(output.code() != 0 && output.err.contains("set a higher --history"), "{output:?}");
    bench.run(&["ops", "log", &all[2]]).expect_code(0);
}

/// The log also contains rollouts and teardowns of ApplicationSets. Lists of operations must omit them,
/// `resume --all` must ignore them, and commands for a rollout or teardown must report its type.
#[test]
fn rollouts_and_teardowns_are_not_operations() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim"]).expect_code(0);
    let id: OperationId = "0190a000-0000-7000-8000-000000000001".parse().unwrap();
    let begin = Input::Begin(Box::new(Request {
        set: "argocd/a".to_owned(),
        uid: "uid".to_owned(),
        by: "ann".to_owned(),
        order: Order::AllAtOnce,
        members: Vec::new(),
        options: Options::default(),
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    }));
    let events = OrderedDeletion::decide(&State::New, &begin, Timestamp::from_millis(0)).unwrap();
    let summary = Summary {
        application: None,
        set: Some("argocd/a".to_owned()),
        started_at: Timestamp::from_millis(0),
        finished_at: None,
        details: Details {
            end: None,
            paused: false,
            message: "0 of 0 are gone".to_owned(),
            members: (0, 0),
            by: "ann".to_owned(),
        },
    };
    open_as_newer_program(&bench).append_all(vec![AppendOf::new(id, 1, events, summary)]).unwrap();

    let listed = bench.json(&["ops", "list", "-o", "json"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.iter().filter(|one| one["app"] == "a").count(), listed.len(), "{listed:?}");
    for args in [&["ops", "show"][..], &["ops", "log"], &["explain"], &["resume", "--sim"], &["ops", "pause"]]
    {
        let ran = bench.run(&[args, &[id.to_string().as_str()]].concat()).expect_code(4);
        assert!(ran.err.contains("is a deletion of an ApplicationSet, not an operation"), "{}", ran.err);
    }
    let ran = bench.run(&["resume", "--all", "--sim"]).expect_code(0);
    assert!(ran.err.contains("there is nothing to resume: all operations have finished"), "{}", ran.err);
    // If an ID prefix also matches an operation, the command selects the operation.
    let operation = listed[0]["id"].as_str().unwrap();
    bench.run(&["ops", "show", &operation[..2]]).expect_code(0);
    bench.run(&["sync", "config.yaml", "--app", "a", "--sim", "--history", "0"]).expect_code(0);
    assert_eq!(open_as_newer_program(&bench).events_as::<Event>(id).unwrap().events.len(), 1);
}
