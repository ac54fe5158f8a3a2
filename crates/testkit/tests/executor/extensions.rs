//! Gates, hook runners and notifiers, good ones and bad ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::{EngineError, Event, EventKind, GateQuestion, HookEnd, HookRun};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::{Sync, retries};

use crate::logs::for_application;
use crate::support::{Log, Moody, actor, builder, config, end, hook, server, submit, until};

fn gated() -> Sync {
    let second = config("second", 1, &[("tidegate.dev/gate", "night")]);
    Sync::of(&format!("{}{second}", config("first", 0, &[])))
}

fn closed(reason: &str) -> Verdict {
    Verdict::Closed { reason: reason.to_owned(), ask_again_after: Duration::from_secs(30) }
}

/// An actor that nobody would ever ask is worse than an error.
#[tokio::test(start_paused = true)]
async fn a_gate_of_every_engine_cannot_be_registered() {
    for name in ["approval", "soak:10m", "concurrency:db"] {
        let gate = actor(|_: GateQuestion| {}).await;
        let refused = builder(&Moody::calm(), &Log::new()).gate(name, gate).start().await.err();
        assert!(
            matches!(&refused, Some(EngineError::BuiltInGate { name: named }) if named == name),
            "{refused:?}"
        );
    }
    // The file of sync windows may be left to a program.
    let gate = actor(|_: GateQuestion| {}).await;
    let engine = builder(&Moody::calm(), &Log::new()).gate("window:office", gate).start().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_its_gate_and_says_why() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let gate = actor({
        let asked = Arc::clone(&asked);
        move |question: GateQuestion| {
            let mut asked = asked.lock().unwrap();
            asked.push((question.application, question.wave, question.objects.len()));
            let verdict = if asked.len() < 3 { closed("the night shift is asleep") } else { Verdict::Open };
            let _ = question.reply.send(verdict);
        }
    });
    let engine = builder(&cluster, &log).gate("night", gate.await).start().await.unwrap();
    let id = submit(&engine, &gated()).await;
    until(&engine, id, |_, why| why.contains("gate night") && why.contains("the night shift is asleep"))
        .await;
    assert_eq!((cluster.created("first"), cluster.created("second")), (1, 0));
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(cluster.created("second"), 1);
    assert_eq!(*asked.lock().unwrap(), vec![("shop".to_owned(), 1, 1); 3]);
}

/// A gate keeps where its answers go, and says by itself when they change: nobody asks it again.
#[tokio::test(start_paused = true)]
async fn a_gate_is_asked_once_and_changes_its_answer_by_itself() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let gate = actor({
        let asked = Arc::clone(&asked);
        move |question: GateQuestion| {
            assert!(question.reply.send(Verdict::closed("the night shift is asleep")));
            asked.lock().unwrap().push(question.reply);
        }
    });
    let engine = builder(&cluster, &log).gate("night", gate.await).start().await.unwrap();
    let id = submit(&engine, &gated()).await;
    until(&engine, id, |_, why| why.contains("the night shift is asleep")).await;
    let reply = asked.lock().unwrap()[0].clone();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(reply.send(Verdict::closed("the night shift has coffee")));
    until(&engine, id, |_, why| why.contains("the night shift has coffee")).await;
    assert_eq!(cluster.created("second"), 0);
    assert!(reply.send(Verdict::Open));
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(asked.lock().unwrap().len(), 1, "it was asked once");
    reply.unwanted().await;
    assert!(!reply.is_wanted() && !reply.send(Verdict::Open), "nobody listens any more");
}

/// A gate whose actor dies after it has answered is not there any more, whatever it has said.
#[tokio::test(start_paused = true)]
async fn a_gate_that_dies_later_is_closed() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let night = actor(|question: GateQuestion| assert!(question.reply.send(Verdict::Open))).await;
    let office = actor(|question: GateQuestion| {
        question.reply.send(Verdict::closed("nobody is there"));
        std::mem::forget(question);
    });
    let engine = builder(&cluster, &log)
        .gate("night", night.clone())
        .gate("office", office.await)
        .start()
        .await
        .unwrap();
    let second = config("second", 0, &[("tidegate.dev/gate", "night,office")]);
    let id = submit(&engine, &Sync::of(&second)).await;
    until(&engine, id, |_, why| why.contains("office") && !why.contains("night")).await;
    night.stop(None);
    until(&engine, id, |_, why| why.contains("gate night is not running")).await;
}

/// A sync window opens and closes by the clock, and is asked for after a restart as before it.
#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_its_sync_window() {
    use tidegate_executor::{GateDefinitions, Targets, Window, WindowKind};
    use tidegate_testkit::recorded::Recorded as _;
    let (cluster, log) = (Moody::calm(), Log::new());
    let window = Window {
        kind: WindowKind::Allow,
        // Tests begin at midnight.
        schedule: "0 9 * * *".into(),
        duration: "8h".into(),
        time_zone: String::new(),
        manual_sync: false,
        sync_overrun: false,
        description: String::new(),
    };
    let windows = [("office".to_owned(), vec![window])].into();
    let definitions = GateDefinitions { windows, ..GateDefinitions::default() };
    let sync = Sync::of(&config("c", 0, &[("tidegate.dev/gate", "window:office,window:lost")]));
    let engine = builder(&cluster, &log).start().await.unwrap();
    let targets = Targets { definitions: definitions.clone(), ..sync.targets() };
    let lost = engine.submit(sync.request.clone(), targets).await.unwrap();
    until(&engine, lost, |view, why| {
        why.contains("sync window office does not allow it until 2026-01-01T09:00:00Z")
            && why.contains("nobody has defined it")
            && view.warnings.iter().any(|warning| warning.message.contains("window:lost"))
            && view.warnings.iter().all(|warning| !warning.message.contains("window:office"))
    })
    .await;
    engine.terminate(lost, "test").await.unwrap();
    end(&engine, lost).await;
    let sync = Sync::of(&config("c", 0, &[("tidegate.dev/gate", "window:office")]));
    let targets = Targets { definitions, ..sync.targets() };
    let id = engine.submit(sync.request.clone(), targets).await.unwrap();
    until(&engine, id, |_, why| why.contains("09:00:00Z")).await;
    tokio::time::sleep(Duration::from_secs(8 * 3600)).await;
    let facts = log.facts(id).unwrap().len();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(log.facts(id).unwrap().len(), facts, "it waits, and that is no fact");
    assert_eq!(cluster.created("c"), 0);
    // The process is killed; the definitions are with the operation.
    let log = log.reopen();
    let a_minute_before = tidegate_testkit::process::START + Duration::from_secs(9 * 3600 - 60);
    let clock = tidegate_executor::RuntimeClock::starting_at(a_minute_before);
    let engine = builder(&cluster, &log).clock(Arc::new(clock)).start().await.unwrap();
    engine.resume(id).await.unwrap();
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(view.finished_at.unwrap() >= a_minute_before + Duration::from_secs(60));
}

/// The log does not grow while operations wait: by a gate that repeats itself, by one that is not there, by one that hangs.
#[tokio::test(start_paused = true)]
async fn waiting_at_a_gate_writes_nothing() {
    use tidegate_testkit::recorded::Recorded as _;
    let (cluster, log) = (Moody::calm(), Log::new());
    let asked = Arc::new(Mutex::new(0_usize));
    let nagging = actor({
        let asked = Arc::clone(&asked);
        move |question: GateQuestion| {
            *asked.lock().unwrap() += 1;
            let _ = question.reply.send(Verdict::Closed {
                reason: "still closed".to_owned(),
                ask_again_after: Duration::from_secs(2),
            });
        }
    });
    let silent = actor(|question: GateQuestion| std::mem::forget(question));
    let engine = builder(&cluster, &log)
        .gate("nagging", nagging.await)
        .gate("silent", silent.await)
        .start()
        .await
        .unwrap();
    let mut operations = Vec::new();
    for (number, gate) in ["nagging", "silent", "missing"].iter().cycle().take(30).enumerate() {
        let yaml = config(&format!("c{number}"), 0, &[("tidegate.dev/gate", gate)]);
        operations.push(submit(&engine, &for_application(&format!("app{number}"), &yaml)).await);
    }
    let facts = || operations.iter().map(|id| log.facts(*id).unwrap().len()).sum::<usize>();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = facts();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(facts(), before, "an hour later");
    assert!(*asked.lock().unwrap() > 10_000, "it was asked again and again: {}", asked.lock().unwrap());
}

/// Whatever is wrong with a gate, the wave stays closed, the reason can be read, and the operation can be ended.
async fn stays_closed(reason: &str, gate: Option<fn(GateQuestion)>) {
    let (cluster, log) = (Moody::calm(), Log::new());
    let mut builder = builder(&cluster, &log);
    if let Some(gate) = gate {
        builder = builder.gate("night", actor(gate).await);
    }
    let engine = builder.start().await.unwrap();
    let id = submit(&engine, &gated()).await;
    until(&engine, id, |_, why| why.contains(reason)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    until(&engine, id, |view, why| view.phase == OperationPhase::Running && why.contains("gate night")).await;
    assert_eq!(cluster.created("second"), 0, "{reason}");
    engine.terminate(id, "test").await.unwrap();
    let view = end(&engine, id).await;
    assert_eq!((view.phase, cluster.created("second")), (OperationPhase::Failed, 0), "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_panics_is_closed() {
    stays_closed("gate night", Some(|_| panic!("injected"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_drops_the_question_is_closed() {
    stays_closed("gate night ended without an answer", Some(drop)).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_never_answers_is_closed() {
    stays_closed("gate night did not answer within 10 s", Some(std::mem::forget)).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_nobody_registered_is_closed() {
    stays_closed("no gate named night is registered", None).await;
}

type Seen = Arc<Mutex<Vec<(String, u32, String)>>>;

fn ran_by(name: &str) -> Sync {
    Sync::of(&format!(
        "{}{}",
        hook("migrate", "PreSync", &[("tidegate.dev/hook-runner", name)]),
        config("first", 0, &[])
    ))
}

fn runner(seen: &Seen, answer: fn(HookRun)) -> impl Fn(HookRun) + Send + std::marker::Sync + 'static {
    let seen = Arc::clone(seen);
    move |run| {
        let key = (run.operation.to_string(), run.attempt, run.manifest.name().to_owned());
        seen.lock().unwrap().push(key);
        answer(run);
    }
}

/// What a runner does, how the operation then ends, and what is said.
type Row = (fn(HookRun), OperationPhase, &'static str);

#[tokio::test(start_paused = true)]
async fn a_runner_carries_out_a_hook() {
    let table: [Row; 4] = [
        (
            |run| drop(run.reply.send(HookEnd::Succeeded("42 rows".into()))),
            OperationPhase::Succeeded,
            "42 rows",
        ),
        (
            |run| drop(run.reply.send(HookEnd::Failed("no database".into()))),
            OperationPhase::Failed,
            "no database",
        ),
        (|_| panic!("injected"), OperationPhase::Failed, "ended without an answer"),
        (drop, OperationPhase::Failed, "ended without an answer"),
    ];
    for (answer, phase, message) in table {
        let (cluster, log, seen) = (Moody::calm(), Log::new(), Seen::default());
        let runner = actor(runner(&seen, answer)).await;
        let engine = builder(&cluster, &log).hook_runner("shell", runner).start().await.unwrap();
        let id = submit(&engine, &ran_by("shell")).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, phase, "{message}: {}", view.message);
        let result = view.resources.iter().find(|result| result.name == "migrate").unwrap();
        assert!(result.message.contains(message), "{message}: {}", result.message);
        assert_eq!(*seen.lock().unwrap(), [(id.to_string(), 1, "migrate".to_owned())]);
        assert_eq!(cluster.created("migrate"), 0, "a runner's hook is not an object");
        assert_eq!(cluster.created("first"), usize::from(phase == OperationPhase::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_is_called_again_with_the_same_three_after_a_crash() {
    let (cluster, log, seen) = (Moody::calm(), Log::new(), Seen::default());
    let silent = actor(runner(&seen, std::mem::forget)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", silent).start().await.unwrap();
    let id = submit(&engine, &ran_by("shell")).await;
    until(&engine, id, |_, _| !seen.lock().unwrap().is_empty()).await;
    // The process is killed: its log handle is dead, and nobody says goodbye.
    let log = log.reopen();
    let good = actor(runner(&seen, |run| drop(run.reply.send(HookEnd::Succeeded(String::new()))))).await;
    let engine = builder(&cluster, &log).hook_runner("shell", good).start().await.unwrap();
    engine.resume(id).await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, vec![(id.to_string(), 1, "migrate".to_owned()); 2]);
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_never_ends_does_not_stand_in_the_way_of_terminating() {
    let (cluster, log, seen) = (Moody::calm(), Log::new(), Seen::default());
    let silent = actor(runner(&seen, std::mem::forget)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", silent).start().await.unwrap();
    let id = submit(&engine, &ran_by("shell")).await;
    until(&engine, id, |_, _| !seen.lock().unwrap().is_empty()).await;
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_runner_that_never_ends_does_not_stand_in_the_way_of_the_next_attempt() {
    let (cluster, log, seen) = (Moody::calm(), Log::new(), Seen::default());
    let second_time = |run: HookRun| match run.attempt {
        1 => std::mem::forget(run),
        _ => drop(run.reply.send(HookEnd::Succeeded(String::new()))),
    };
    let runner = actor(runner(&seen, second_time)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", runner).start().await.unwrap();
    let annotations = [("tidegate.dev/hook-runner", "shell"), ("tidegate.dev/timeout", "5s")];
    let sync = Sync::of(&hook("migrate", "PreSync", &annotations)).with(|request| request.retry = retries(2));
    let id = submit(&engine, &sync).await;
    let view = end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let attempts: Vec<u32> = seen.lock().unwrap().iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

/// A runner whose hook was cancelled can stop its work; one whose hook ends by itself, or whose engine goes away, hears
/// nothing.
#[tokio::test(start_paused = true)]
async fn a_runner_learns_that_its_hook_was_cancelled() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let runner = || {
        let cancelled = Arc::clone(&cancelled);
        actor(move |run: HookRun| {
            let (cancelled, mut cancellation) = (Arc::clone(&cancelled), run.cancellation.clone());
            tokio::spawn(async move {
                cancellation.cancelled().await;
                cancelled.lock().unwrap().push((run.attempt, run.reply.is_closed()));
            });
        })
    };
    let hooked = |annotations: &[(&str, &str)]| {
        let runner = [("tidegate.dev/hook-runner", "shell")];
        Sync::of(&hook("migrate", "PreSync", &[&runner, annotations].concat()))
    };
    let rows = [
        ("terminate", hooked(&[])),
        ("its deadline", hooked(&[("tidegate.dev/timeout", "5s")])),
        ("the wave's deadline", hooked(&[("tidegate.dev/wave-timeout", "5s")])),
        ("shutdown", hooked(&[])),
    ];
    for (what, sync) in rows {
        cancelled.lock().unwrap().clear();
        let (cluster, log) = (Moody::calm(), Log::new());
        let engine = builder(&cluster, &log).hook_runner("shell", runner().await).start().await.unwrap();
        let id = submit(&engine, &sync).await;
        until(&engine, id, |_, why| why.contains("migrate")).await;
        match what {
            "shutdown" => {
                engine.shutdown().await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert_eq!(*cancelled.lock().unwrap(), [], "{what}: it goes on, and may be run again");
                continue;
            }
            "terminate" => engine.terminate(id, "test").await.unwrap(),
            _ => {}
        }
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed, "{what}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let told: Vec<u32> = cancelled.lock().unwrap().iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(told, [1], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn notifiers_get_events_in_order_when_they_are_durable() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let events = Arc::new(Mutex::new(Vec::new()));
    let good = actor({
        let (events, log) = (Arc::clone(&events), log.clone());
        move |event: Event| {
            use tidegate_testkit::recorded::Recorded as _;
            // Whatever is announced can be read back.
            let facts = log.facts(event.operation).unwrap();
            if let EventKind::Finished { .. } = event.what {
                assert!(format!("{facts:?}").contains("Finished"));
            }
            assert!(!facts.is_empty());
            events.lock().unwrap().push(event.what);
        }
    });
    let dead = actor(|_: Event| panic!("injected")).await;
    let stopped = actor(|_: Event| {}).await;
    stopped.stop(None);
    let engine =
        builder(&cluster, &log).notifier(dead).notifier(stopped).notifier(good.await).start().await.unwrap();
    let mut listener = engine.events_from_now().await.unwrap();
    // The health of a last wave is not awaited, so there is a third.
    let manifests = [server("a", 0, &[]), server("b", 1, &[]), config("c", 2, &[])].concat();
    let id = submit(&engine, &Sync::of(&manifests)).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    until(&engine, id, |_, _| matches!(events.lock().unwrap().last(), Some(EventKind::Finished { .. })))
        .await;
    let mut heard = Vec::new();
    engine.shutdown().await;
    while let Some(event) = listener.next().await {
        heard.push(event.unwrap().what);
    }
    let events = events.lock().unwrap();
    assert_eq!(*events, heard, "a notifier and a listener hear the same");
    assert_eq!(events[0], EventKind::Accepted);
    let position = |name: &str| {
        let is_it =
            |event: &EventKind| matches!(event, EventKind::Task { object, .. } if object.name == name);
        events.iter().position(is_it).unwrap()
    };
    assert!(position("a") < position("b"), "{events:#?}");
}
