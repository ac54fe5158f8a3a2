//! What hooks write while they run, told to whoever follows them, and never of consequence for the operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{Engine, EngineError, HookOutput, Output};
use tidegate_lifecycle::operation::Fact;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;
use tokio::time::Instant;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, submit, within};

/// A hook that takes so long and writes these lines.
fn writing(name: &str, phase: &str, lasts: &str, text: &str) -> String {
    hook(name, phase, &[("sim.tidegate.dev/ready-after", lasts), ("sim.tidegate.dev/logs", text)])
}

/// All that is told, to its end.
async fn all(mut output: HookOutput) -> Vec<Output> {
    let mut told = Vec::new();
    while let Some(item) = within(output.next()).await {
        told.push(item);
    }
    told
}

/// The lines of each hook, in order.
fn lines(told: &[Output]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in told {
        if let Output::Line { source, text, .. } = item {
            lines.entry(source.hook.name.clone()).or_default().push(text.clone());
        }
    }
    lines
}

fn notes(told: &[Output]) -> Vec<String> {
    let notes = told.iter().filter_map(|item| match item {
        Output::Note { message, .. } => Some(message.clone()),
        _ => None,
    });
    notes.collect()
}

fn numbered(count: usize) -> (String, Vec<String>) {
    let lines: Vec<String> = (0..count).map(|number| format!("line {number}")).collect();
    (lines.join("\n"), lines)
}

#[tokio::test(start_paused = true)]
async fn each_line_is_told_once_and_while_the_hook_runs() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let (text, expected) = numbered(19);
    let began = Instant::now();
    let id = submit(&engine, &Sync::of(&writing("migrate", "PreSync", "20s", &text))).await;
    let mut output = engine.follow_output(id).await.unwrap();
    let (mut told, mut times) = (Vec::new(), Vec::new());
    while let Some(item) = within(output.next()).await {
        times.push(began.elapsed());
        told.push(item);
    }
    assert_eq!(lines(&told), BTreeMap::from([("migrate".to_owned(), expected)]));
    let Output::Line { source, at, .. } = &told[0] else { panic!("{told:?}") };
    assert_eq!((source.hook.kind.as_str(), source.hook.namespace.as_str()), ("Job", "default"));
    assert!(source.pod.starts_with("migrate-") && source.container == "main", "{source:?}");
    assert!(*at > tidegate_testkit::process::START, "{at}");
    // One each second, as they are written, and not all of them at the end.
    for (number, at) in (1..).zip(&times) {
        let late = at.saturating_sub(Duration::from_secs(number));
        assert!(late < Duration::from_secs(2), "line {number} after {at:?}");
    }
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    // Of one that is over nothing follows, and of one that never was there is nothing.
    let error = engine.follow_output(id).await.err().unwrap();
    assert!(matches!(error, EngineError::AlreadyFinished { .. }), "{error}");
    let error = engine.follow_output(engine.next_id().await.unwrap()).await.err().unwrap();
    assert!(matches!(error, EngineError::Unknown { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn hooks_that_begin_later_are_followed_too_and_who_comes_late_is_told_what_was_before() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = [
        writing("first", "PreSync", "10s", "a\nb\nc"),
        writing("beside", "PreSync", "8s", "x\ny"),
        writing("later", "PostSync", "10s", "d\ne"),
        config("settings", 0, &[]),
    ];
    let id = submit(&engine, &Sync::of(&manifests.concat())).await;
    let early = tokio::spawn(all(engine.follow_output(id).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(9)).await;
    let late = tokio::spawn(all(engine.follow_output(id).await.unwrap()));
    end(&engine, id).await;
    let expected = [("beside", vec!["x", "y"]), ("first", vec!["a", "b", "c"]), ("later", vec!["d", "e"])];
    let expected: BTreeMap<String, Vec<String>> = expected
        .into_iter()
        .map(|(name, lines)| (name.to_owned(), lines.into_iter().map(str::to_owned).collect()))
        .collect();
    assert_eq!(lines(&early.await.unwrap()), expected);
    let mut known = expected.clone();
    // It had ended before anybody came.
    known.remove("beside");
    assert_eq!(lines(&late.await.unwrap()), known);
}

/// A slow reader keeps nobody waiting, and is told how much it has missed.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_the_oldest_lines_and_is_told() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let (text, expected) = numbered(5000);
    let id = submit(&engine, &Sync::of(&writing("chatty", "Sync", "50s", &text))).await;
    let output = engine.follow_output(id).await.unwrap();
    end(&engine, id).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told = all(output).await;
    let Output::LeftOut { source, lines: left_out } = &told[0] else { panic!("{:?}", told[0]) };
    assert_eq!(source.hook.name, "chatty");
    let kept = &lines(&told)["chatty"];
    assert_eq!(kept.len() + usize::try_from(*left_out).unwrap(), 5000);
    assert!(kept.len() >= 1000, "{}", kept.len());
    assert_eq!(kept[..], expected[5000 - kept.len()..]);
    assert_eq!(told.len(), kept.len() + 1);
}

/// Neither what a follower does, nor that it dies, nor a cluster that does not answer it, makes a difference to anything that
/// is recorded or written.
#[tokio::test(start_paused = true)]
async fn no_follower_ever_matters_to_the_operation() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Reader {
        None,
        Reads,
        Sleeps,
        Dies,
    }
    let manifests = [
        writing("migrate", "PreSync", "7s", "a\nb\nc"),
        config("settings", 0, &[]),
        writing("smoke", "PostSync", "5s", "d\ne"),
    ]
    .concat();
    let run = async |reader: Reader, fate: Fate| -> (Vec<Fact>, Vec<(String, u16)>) {
        let cluster = Moody::new(SimConfig::default(), move |verb, _| match verb {
            "pods" | "follow" => fate,
            _ => Fate::Answer,
        });
        let engine = builder(&cluster, &Log::new()).in_flight(1).start().await.unwrap();
        let id = submit(&engine, &Sync::of(&manifests)).await;
        let mut readers = Vec::new();
        // More than there are calls in flight.
        for _ in 0..if reader == Reader::None { 0 } else { 4 } {
            let mut output = engine.follow_output(id).await.unwrap();
            readers.push(tokio::spawn(async move {
                match reader {
                    Reader::Sleeps => std::future::pending().await,
                    Reader::Dies => drop(output.next().await),
                    _ => while output.next().await.is_some() {},
                }
            }));
        }
        if reader == Reader::Dies {
            tokio::time::sleep(Duration::from_secs(3)).await;
            readers.iter().for_each(tokio::task::JoinHandle::abort);
        }
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded, "{reader:?} {fate:?}");
        let facts = engine.facts(id).await.unwrap();
        (facts, cluster.writes().into_iter().map(|entry| (entry.name, entry.code)).collect())
    };
    for fate in [Fate::Answer, Fate::Never, Fate::Panic, Fate::Refuse(ErrorKind::Unavailable)] {
        let (undisturbed, writes) = run(Reader::None, Fate::Answer).await;
        for reader in [Reader::Reads, Reader::Sleeps, Reader::Dies] {
            let (facts, written) = run(reader, fate).await;
            assert_eq!(names(&facts), names(&undisturbed), "{reader:?} {fate:?}");
            assert_eq!(written, writes, "{reader:?} {fate:?}");
        }
    }
}

/// Facts without the id and the resource versions, which no two runs share.
fn names(facts: &[Fact]) -> Vec<String> {
    facts
        .iter()
        .map(|fact| format!("{fact:?}").chars().take_while(|sign| sign.is_alphanumeric()).collect())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn values_of_secrets_are_masked_in_every_line() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: the-canary-of-this-test}\n---\n";
    let text = "connecting as app:the-canary-of-this-test\nthe-canary-of-\nthis-test\nwell";
    let manifests = format!("{secret}{}", writing("migrate", "Sync", "10s", text));
    let id = submit(&engine, &Sync::of(&manifests)).await;
    let told = all(engine.follow_output(id).await.unwrap()).await;
    let shown = &lines(&told)["migrate"];
    assert_eq!(shown[..], ["connecting as app:++++++++", "++++++++", "++++++++", "well"]);
    assert!(!format!("{told:?}").contains("canary"));
}

/// Only so many containers are followed at once; the others are as soon as there is room, and that is said.
#[tokio::test(start_paused = true)]
async fn more_containers_than_may_be_followed_wait_for_their_turn() {
    let cluster = Moody::calm();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let hooks: String = (0..20)
        .map(|number| {
            let lasts = if number < 16 { "10s" } else { "60s" };
            writing(&format!("hook-{number:02}"), "Sync", lasts, "begins\nends")
        })
        .collect();
    let id = submit(&engine, &Sync::of(&hooks)).await;
    let told = all(engine.follow_output(id).await.unwrap()).await;
    let lines = lines(&told);
    assert_eq!(lines.len(), 20, "{lines:?}");
    assert!(lines.values().all(|lines| lines[..] == ["begins", "ends"]), "{lines:?}");
    let notes: BTreeSet<String> = notes(&told).into_iter().collect();
    assert!(notes.len() == 1 && notes.iter().all(|note| note.contains("as many containers")), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_logs_is_noted_once_and_the_sync_goes_on() {
    let run = async |manifests: &str, cluster: Arc<Moody>| {
        let engine: Engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &Sync::of(manifests)).await;
        let told = all(engine.follow_output(id).await.unwrap()).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        assert!(lines(&told).is_empty(), "{told:?}");
        notes(&told)
    };
    let lasts = [("sim.tidegate.dev/ready-after", "10s")];
    let silent = format!("{}{}", hook("a", "PreSync", &lasts), hook("b", "PostSync", &lasts));
    let noted = run(&silent, Moody::calm()).await;
    assert!(noted.len() == 1 && noted[0].contains("simulated pods write no logs"), "{noted:?}");
    // The same of rights that are missing, and of a server that fails each time.
    for kind in [ErrorKind::Forbidden, ErrorKind::Server] {
        let refusing = Moody::new(SimConfig::default(), move |verb, _| {
            if verb == "follow" { Fate::Refuse(kind) } else { Fate::Answer }
        });
        let noted = run(&writing("a", "PreSync", "10s", "a\nb"), refusing).await;
        assert!(noted.len() == 1 && noted[0].contains(&format!("injected: {kind}")), "{noted:?}");
    }
}
