//! Correct and faulty gates, hook runners and notifiers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::{EngineError, Event, EventKind, GateRequest, HookResult, HookRun};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::{SyncSpec, retry_policy};

use crate::log_failures::sync_for_application;
use crate::support::{
    FaultyCluster, Log, builder, callback_actor, config, hook, server_deployment, submit, wait_for_end,
    wait_until,
};

fn gated_sync() -> SyncSpec {
    let second = config("second", 1, &[("tidegate.dev/gate", "night")]);
    SyncSpec::new(&format!("{}{second}", config("first", 0, &[])))
}

fn closed(reason: &str) -> Verdict {
    Verdict::Closed { reason: reason.to_owned(), ask_again_after: Duration::from_secs(30) }
}

/// An actor for a built-in gate would never receive messages, so it must be rejected.
#[tokio::test(start_paused = true)]
async fn a_built_in_gate_cannot_be_registered() {
    for name in ["approval", "soak:10m", "concurrency:db"] {
        let gate = callback_actor(|_: GateRequest| {}).await;
        let refused = builder(&FaultyCluster::reliable(), &Log::new()).gate(name, gate).start().await.err();
        assert!(
            matches!(&refused, Some(EngineError::BuiltInGate { name: named }) if named == name),
            "{refused:?}"
        );
    }
    // Unlike built-in gates, sync windows can be delegated to a program.
    let gate = callback_actor(|_: GateRequest| {}).await;
    let engine =
        builder(&FaultyCluster::reliable(), &Log::new()).gate("window:office", gate).start().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_its_gate_and_reports_the_reason() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let gate = callback_actor({
        let requests = Arc::clone(&requests);
        move |question: GateRequest| {
            let mut requests = requests.lock().unwrap();
            requests.push((question.application, question.wave, question.objects.len()));
            let verdict =
                if requests.len() < 3 { closed("the night shift is asleep") } else { Verdict::Open };
            let _ = question.reply.send(verdict);
        }
    });
    let engine = builder(&cluster, &log).gate("night", gate.await).start().await.unwrap();
    let id = submit(&engine, &gated_sync()).await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("gate night") && reason.contains("the night shift is asleep")
    })
    .await;
    assert_eq!((cluster.creations_of("first"), cluster.creations_of("second")), (1, 0));
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(cluster.creations_of("second"), 1);
    assert_eq!(*requests.lock().unwrap(), vec![("shop".to_owned(), 1, 1); 3]);
}

/// A gate isn't polled. It keeps the reply port for its answers and must report changes itself.
#[tokio::test(start_paused = true)]
async fn a_gate_is_queried_once_and_reports_its_changes() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let gate = callback_actor({
        let requests = Arc::clone(&requests);
        move |question: GateRequest| {
            assert!(question.reply.send(Verdict::closed("the night shift is asleep")));
            requests.lock().unwrap().push(question.reply);
        }
    });
    let engine = builder(&cluster, &log).gate("night", gate.await).start().await.unwrap();
    let id = submit(&engine, &gated_sync()).await;
    wait_until(&engine, id, |_, reason| reason.contains("the night shift is asleep")).await;
    let reply = requests.lock().unwrap()[0].clone();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert!(reply.send(Verdict::closed("the night shift has coffee")));
    wait_until(&engine, id, |_, reason| reason.contains("the night shift has coffee")).await;
    assert_eq!(cluster.creations_of("second"), 0);
    assert!(reply.send(Verdict::Open));
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(requests.lock().unwrap().len(), 1, "it received one request");
    reply.wait_until_unwanted().await;
    assert!(!reply.is_wanted() && !reply.send(Verdict::Open), "the receivers are gone");
}

/// If a gate's actor stops after an answer, the gate must count as absent, whatever the answer.
#[tokio::test(start_paused = true)]
async fn a_gate_whose_actor_ends_later_is_closed() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let night = callback_actor(|question: GateRequest| assert!(question.reply.send(Verdict::Open))).await;
    let office = callback_actor(|question: GateRequest| {
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
    let id = submit(&engine, &SyncSpec::new(&second)).await;
    wait_until(&engine, id, |_, reason| reason.contains("office") && !reason.contains("night")).await;
    night.stop(None);
    wait_until(&engine, id, |_, reason| reason.contains("gate night is not running")).await;
}

/// A sync window must open and close at the scheduled times, even after a restart.
#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_its_sync_window() {
    use tidegate_executor::{GateDefinitions, Targets, Window, WindowKind};
    use tidegate_testkit::operation_events::OperationEvents as _;
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    // Tests start at midnight.
    let window = Window::new(WindowKind::Allow, "0 9 * * *", "8h", "");
    let windows = [("office".to_owned(), vec![window])].into();
    let definitions = GateDefinitions { windows, ..GateDefinitions::default() };
    let sync = SyncSpec::new(&config("c", 0, &[("tidegate.dev/gate", "window:office,window:lost")]));
    let engine = builder(&cluster, &log).start().await.unwrap();
    let targets = Targets { definitions: definitions.clone(), ..sync.targets() };
    let lost = engine.submit(sync.request.clone(), targets).await.unwrap();
    wait_until(&engine, lost, |view, reason| {
        reason.contains("sync window office does not allow syncs until 2026-01-01T09:00:00Z")
            && reason.contains("the gate is not defined")
            && view.warnings.iter().any(|warning| warning.message.contains("window:lost"))
            && view.warnings.iter().all(|warning| !warning.message.contains("window:office"))
    })
    .await;
    engine.terminate(lost, "test").await.unwrap();
    wait_for_end(&engine, lost).await;
    let sync = SyncSpec::new(&config("c", 0, &[("tidegate.dev/gate", "window:office")]));
    let targets = Targets { definitions, ..sync.targets() };
    let id = engine.submit(sync.request.clone(), targets).await.unwrap();
    wait_until(&engine, id, |_, reason| reason.contains("09:00:00Z")).await;
    tokio::time::sleep(Duration::from_secs(8 * 3600)).await;
    let events = log.recorded_events(id).unwrap().len();
    tokio::time::sleep(Duration::from_secs(1800)).await;
    assert_eq!(log.recorded_events(id).unwrap().len(), events, "it waits, without an event");
    assert_eq!(cluster.creations_of("c"), 0);
    // Reopen the log, as after a crash. The definitions are stored with the operation.
    let log = log.reopen();
    let a_minute_before = tidegate_testkit::process::START + Duration::from_secs(9 * 3600 - 60);
    let clock = tidegate_executor::RuntimeClock::starting_at(a_minute_before);
    let engine = builder(&cluster, &log).clock(Arc::new(clock)).start().await.unwrap();
    engine.resume(id).await.unwrap();
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(view.finished_at.unwrap() >= a_minute_before + Duration::from_secs(60));
}

/// The log must not grow while operations wait for a gate that repeats its answer, doesn't exist, or hangs.
#[tokio::test(start_paused = true)]
async fn waiting_at_a_gate_writes_nothing() {
    use tidegate_testkit::operation_events::OperationEvents as _;
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let call_count = Arc::new(Mutex::new(0_usize));
    let nagging = callback_actor({
        let call_count = Arc::clone(&call_count);
        move |question: GateRequest| {
            *call_count.lock().unwrap() += 1;
            let _ = question.reply.send(Verdict::Closed {
                reason: "still closed".to_owned(),
                ask_again_after: Duration::from_secs(2),
            });
        }
    });
    let silent = callback_actor(|question: GateRequest| std::mem::forget(question));
    let engine = builder(&cluster, &log)
        .gate("nagging", nagging.await)
        .gate("silent", silent.await)
        .start()
        .await
        .unwrap();
    let mut operations = Vec::new();
    for (number, gate) in ["nagging", "silent", "missing"].iter().cycle().take(30).enumerate() {
        let yaml = config(&format!("c{number}"), 0, &[("tidegate.dev/gate", gate)]);
        operations.push(submit(&engine, &sync_for_application(&format!("app{number}"), &yaml)).await);
    }
    let events = || operations.iter().map(|id| log.recorded_events(*id).unwrap().len()).sum::<usize>();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = events();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(events(), before, "an hour later");
    assert!(
        *call_count.lock().unwrap() > 10_000,
        "it received repeated requests: {}",
        call_count.lock().unwrap()
    );
}

/// Checks that a failing gate keeps the wave closed, with a readable reason, and that the operation can be
/// terminated.
async fn assert_stays_closed(reason: &str, gate: Option<fn(GateRequest)>) {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let mut builder = builder(&cluster, &log);
    if let Some(gate) = gate {
        builder = builder.gate("night", callback_actor(gate).await);
    }
    let engine = builder.start().await.unwrap();
    let id = submit(&engine, &gated_sync()).await;
    wait_until(&engine, id, |_, why| why.contains(reason)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    wait_until(&engine, id, |view, why| view.phase == OperationPhase::Running && why.contains("gate night"))
        .await;
    assert_eq!(cluster.creations_of("second"), 0, "{reason}");
    engine.terminate(id, "test").await.unwrap();
    let view = wait_for_end(&engine, id).await;
    assert_eq!((view.phase, cluster.creations_of("second")), (OperationPhase::Failed, 0), "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_panics_is_closed() {
    assert_stays_closed("gate night", Some(|_| panic!("injected"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_drops_the_question_is_closed() {
    assert_stays_closed("gate night ended without a result", Some(drop)).await;
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_never_answers_is_closed() {
    assert_stays_closed("gate night did not respond within 10 s", Some(std::mem::forget)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_gate_is_closed() {
    assert_stays_closed("no gate named night is registered", None).await;
}

type RecordedRuns = Arc<Mutex<Vec<(String, u32, String)>>>;

fn hook_run_by(name: &str) -> SyncSpec {
    SyncSpec::new(&format!(
        "{}{}",
        hook("migrate", "PreSync", &[("tidegate.dev/hook-runner", name)]),
        config("first", 0, &[])
    ))
}

fn recording_runner(
    seen: &RecordedRuns,
    answer: fn(HookRun),
) -> impl Fn(HookRun) + Send + std::marker::Sync + 'static {
    let seen = Arc::clone(seen);
    move |run| {
        let key = (run.operation.to_string(), run.attempt, run.manifest.name().to_owned());
        seen.lock().unwrap().push(key);
        answer(run);
    }
}

/// Behavior of a runner, expected final phase of the operation, and expected message.
type Row = (fn(HookRun), OperationPhase, &'static str);

#[tokio::test(start_paused = true)]
async fn a_runner_executes_a_hook() {
    let table: [Row; 4] = [
        (
            |run| drop(run.reply.send(HookResult::Succeeded("42 rows".into()))),
            OperationPhase::Succeeded,
            "42 rows",
        ),
        (
            |run| drop(run.reply.send(HookResult::Failed("no database".into()))),
            OperationPhase::Failed,
            "no database",
        ),
        (|_| panic!("injected"), OperationPhase::Failed, "ended without a result"),
        (drop, OperationPhase::Failed, "ended without a result"),
    ];
    for (answer, phase, message) in table {
        let (cluster, log, seen) = (FaultyCluster::reliable(), Log::new(), RecordedRuns::default());
        let runner = callback_actor(recording_runner(&seen, answer)).await;
        let engine = builder(&cluster, &log).hook_runner("shell", runner).start().await.unwrap();
        let id = submit(&engine, &hook_run_by("shell")).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, phase, "{message}: {}", view.message);
        let result = view.resources.iter().find(|result| result.name == "migrate").unwrap();
        assert!(result.message.contains(message), "{message}: {}", result.message);
        assert_eq!(*seen.lock().unwrap(), [(id.to_string(), 1, "migrate".to_owned())]);
        assert_eq!(cluster.creations_of("migrate"), 0, "a runner's hook is not an object");
        assert_eq!(cluster.creations_of("first"), usize::from(phase == OperationPhase::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn a_runner_is_called_again_with_the_same_ids_after_a_crash() {
    let (cluster, log, seen) = (FaultyCluster::reliable(), Log::new(), RecordedRuns::default());
    let silent = callback_actor(recording_runner(&seen, std::mem::forget)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", silent).start().await.unwrap();
    let id = submit(&engine, &hook_run_by("shell")).await;
    wait_until(&engine, id, |_, _| !seen.lock().unwrap().is_empty()).await;
    // Simulate a crash by reopening the log without a shutdown.
    let log = log.reopen();
    let good = callback_actor(recording_runner(&seen, |run| {
        drop(run.reply.send(HookResult::Succeeded(String::new())))
    }))
    .await;
    let engine = builder(&cluster, &log).hook_runner("shell", good).start().await.unwrap();
    engine.resume(id).await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, vec![(id.to_string(), 1, "migrate".to_owned()); 2]);
}

#[tokio::test(start_paused = true)]
async fn an_endless_runner_does_not_block_termination() {
    let (cluster, log, seen) = (FaultyCluster::reliable(), Log::new(), RecordedRuns::default());
    let silent = callback_actor(recording_runner(&seen, std::mem::forget)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", silent).start().await.unwrap();
    let id = submit(&engine, &hook_run_by("shell")).await;
    wait_until(&engine, id, |_, _| !seen.lock().unwrap().is_empty()).await;
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn an_endless_runner_does_not_block_the_next_attempt() {
    let (cluster, log, seen) = (FaultyCluster::reliable(), Log::new(), RecordedRuns::default());
    let second_time = |run: HookRun| match run.attempt {
        1 => std::mem::forget(run),
        _ => drop(run.reply.send(HookResult::Succeeded(String::new()))),
    };
    let runner = callback_actor(recording_runner(&seen, second_time)).await;
    let engine = builder(&cluster, &log).hook_runner("shell", runner).start().await.unwrap();
    let annotations = [("tidegate.dev/hook-runner", "shell"), ("tidegate.dev/timeout", "5s")];
    let sync = SyncSpec::new(&hook("migrate", "PreSync", &annotations))
        .with_request(|request| request.retry = retry_policy(2));
    let id = submit(&engine, &sync).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let attempts: Vec<u32> = seen.lock().unwrap().iter().map(|(_, attempt, _)| *attempt).collect();
    assert_eq!(attempts, [1, 2]);
}

/// A runner must be notified when its hook is canceled, so that it can stop its work. It must not be notified
/// if the hook finishes normally or its engine shuts down.
#[tokio::test(start_paused = true)]
async fn a_runner_is_notified_when_its_hook_is_canceled() {
    let cancelled = Arc::new(Mutex::new(Vec::new()));
    let runner = || {
        let cancelled = Arc::clone(&cancelled);
        callback_actor(move |run: HookRun| {
            let (cancelled, mut cancellation) = (Arc::clone(&cancelled), run.cancellation.clone());
            tokio::spawn(async move {
                cancellation.wait_until_canceled().await;
                cancelled.lock().unwrap().push((run.attempt, run.reply.is_closed()));
            });
        })
    };
    let hooked = |annotations: &[(&str, &str)]| {
        let runner = [("tidegate.dev/hook-runner", "shell")];
        SyncSpec::new(&hook("migrate", "PreSync", &[&runner, annotations].concat()))
    };
    let rows = [
        ("terminate", hooked(&[])),
        ("its deadline", hooked(&[("tidegate.dev/timeout", "5s")])),
        ("the wave's deadline", hooked(&[("tidegate.dev/wave-timeout", "5s")])),
        ("shutdown", hooked(&[])),
    ];
    for (what, sync) in rows {
        cancelled.lock().unwrap().clear();
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let engine = builder(&cluster, &log).hook_runner("shell", runner().await).start().await.unwrap();
        let id = submit(&engine, &sync).await;
        wait_until(&engine, id, |_, reason| reason.contains("migrate")).await;
        match what {
            "shutdown" => {
                engine.shutdown().await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert_eq!(*cancelled.lock().unwrap(), [], "{what}: it continues and may run again");
                continue;
            }
            "terminate" => engine.terminate(id, "test").await.unwrap(),
            _ => {}
        }
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed, "{what}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let attempts: Vec<u32> = cancelled.lock().unwrap().iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(attempts, [1], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn notifiers_get_durable_events_in_order() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let events = Arc::new(Mutex::new(Vec::new()));
    let good = callback_actor({
        let (events, log) = (Arc::clone(&events), log.clone());
        move |event: Event| {
            use tidegate_testkit::operation_events::OperationEvents as _;
            // Every emitted event can be read back.
            let recorded_events = log.recorded_events(event.operation).unwrap();
            if let EventKind::Finished { .. } = event.what {
                assert!(format!("{recorded_events:?}").contains("Finished"));
            }
            assert!(!recorded_events.is_empty());
            events.lock().unwrap().push(event.what);
        }
    });
    let dead = callback_actor(|_: Event| panic!("injected")).await;
    let stopped = callback_actor(|_: Event| {}).await;
    stopped.stop(None);
    let engine =
        builder(&cluster, &log).notifier(dead).notifier(stopped).notifier(good.await).start().await.unwrap();
    let mut listener = engine.events_from_now().await.unwrap();
    // A third wave is needed, because the operation doesn't wait for the health of the last one.
    let manifests =
        [server_deployment("a", 0, &[]), server_deployment("b", 1, &[]), config("c", 2, &[])].concat();
    let id = submit(&engine, &SyncSpec::new(&manifests)).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    wait_until(&engine, id, |_, _| matches!(events.lock().unwrap().last(), Some(EventKind::Finished { .. })))
        .await;
    let mut received = Vec::new();
    engine.shutdown().await;
    while let Some(event) = listener.next().await {
        received.push(event.unwrap().what);
    }
    let events = events.lock().unwrap();
    assert_eq!(*events, received, "notifiers and listeners receive the same events");
    assert_eq!(events[0], EventKind::Accepted);
    let position = |name: &str| {
        let is_it =
            |event: &EventKind| matches!(event, EventKind::Task { object, .. } if object.name == name);
        events.iter().position(is_it).unwrap()
    };
    assert!(position("a") < position("b"), "{events:#?}");
}
