//! Operations in a concurrency group. The number of operations in the group's waves is limited, despite
//! crashes, failures and terminations.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::extensions::ractor::ActorRef;
use tidegate_executor::{ConcurrencyGroup, Engine, GateDefinitions, HookResult, HookRun, Targets};
use tidegate_model::{OperationId, OperationPhase};
use tidegate_testkit::effort::rounds;
use tidegate_testkit::scenario::{SyncSpec, retry_policy};

use crate::log_failures::sync_for_application;
use crate::support::{FaultyCluster, Log, builder, callback_actor, config, hook, wait_for_end, wait_until};

const GATE: (&str, &str) = ("tidegate.dev/gate", "concurrency:db");

fn definitions(limit: usize) -> GateDefinitions {
    let concurrency = [("db".to_owned(), ConcurrencyGroup { limit })].into();
    GateDefinitions { concurrency, ..GateDefinitions::default() }
}

/// Returns a sync with a wave in the group, executed by a runner, and a second wave.
fn gated_sync(number: usize) -> SyncSpec {
    let runner = ("tidegate.dev/hook-runner", "work");
    let work = hook(&format!("work-{number}"), "PreSync", &[runner, GATE]);
    sync_for_application(&format!("app{number}"), &format!("{work}{}", config(&format!("c{number}"), 0, &[])))
}

async fn submit(engine: &Engine, sync: &SyncSpec, limit: usize) -> OperationId {
    let targets = Targets { definitions: definitions(limit), ..sync.targets() };
    engine.submit(sync.request.clone(), targets).await.unwrap()
}

/// Shared state of the runners in all processes.
#[derive(Default)]
struct RunnerState {
    /// Operations with a running hook, including hooks of killed processes.
    running: BTreeSet<OperationId>,
    max_running: usize,
    /// Order in which the hooks started.
    started: Vec<OperationId>,
    /// Current process. Messages from others are ignored.
    process: usize,
}

impl RunnerState {
    fn record_start(&mut self, operation: OperationId) {
        self.running.insert(operation);
        self.max_running = self.max_running.max(self.running.len());
        if !self.started.contains(&operation) {
            self.started.push(operation);
        }
    }
}

/// Creates a runner with a duration and a result.
async fn runner(
    work: &Arc<Mutex<RunnerState>>,
    how: impl Fn(&HookRun) -> (u64, HookResult) + Send + std::marker::Sync + 'static,
) -> ActorRef<HookRun> {
    let (work, process) = (Arc::clone(work), work.lock().unwrap().process);
    callback_actor(move |mut run: HookRun| {
        let work = Arc::clone(&work);
        if work.lock().unwrap().process != process {
            return std::mem::forget(run);
        }
        work.lock().unwrap().record_start(run.operation);
        let (seconds, end) = how(&run);
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
                () = run.cancellation.wait_until_canceled() => {}
            }
            let mut work = work.lock().unwrap();
            if work.process == process {
                work.running.remove(&run.operation);
                drop(work);
                let _ = run.reply.send(end);
            }
        });
    })
    .await
}

fn hook_success() -> HookResult {
    HookResult::Succeeded(String::new())
}

/// Returns a pseudo-random number.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

async fn start(cluster: &Arc<FaultyCluster>, log: &Log, work: &Arc<Mutex<RunnerState>>, seed: u64) -> Engine {
    let dice = Mutex::new(seed);
    let how = move |_: &HookRun| {
        let mut dice = dice.lock().unwrap();
        let end = if random(&mut dice, 5) == 0 { HookResult::Failed("no".into()) } else { hook_success() };
        (random(&mut dice, 40), end)
    };
    builder(cluster, log).hook_runner("work", runner(work, how).await).start().await.unwrap()
}

/// Operations arrive, fail, are retried and terminated, while the process is killed repeatedly.
async fn run_random_schedule(mut seed: u64) {
    const OPERATIONS: usize = 9;
    let limit = 1 + random(&mut seed, 3) as usize;
    let (cluster, mut log, work) =
        (FaultyCluster::reliable(), Log::new(), Arc::new(Mutex::new(RunnerState::default())));
    let mut engine = start(&cluster, &log, &work, seed).await;
    let mut operations = Vec::new();
    for number in 0..OPERATIONS {
        let attempts = random(&mut seed, 3) as i64;
        let sync = gated_sync(number).with_request(|request| request.retry = retry_policy(attempts));
        operations.push(submit(&engine, &sync, limit).await);
        tokio::time::sleep(Duration::from_millis(random(&mut seed, 20_000))).await;
        match random(&mut seed, 5) {
            0 => {
                let some = random(&mut seed, operations.len() as u64) as usize;
                let _ = engine.terminate(operations[some], "test").await;
            }
            1 => {
                work.lock().unwrap().process += 1;
                log = log.reopen();
                engine = start(&cluster, &log, &work, seed).await;
                // Resume all operations, starting with a random one.
                let from = random(&mut seed, operations.len() as u64) as usize;
                for operation in operations[from..].iter().chain(&operations[..from]) {
                    let _ = engine.resume(*operation).await;
                }
            }
            _ => {}
        }
    }
    for operation in &operations {
        let _ = engine.resume(*operation).await;
    }
    for operation in operations {
        match engine.wait(operation).await {
            Ok(view) => assert!(view.phase.is_completed()),
            Err(error) => assert!(
                error.to_string().contains("has ended") || error.to_string().contains("not running"),
                "{error}"
            ),
        }
    }
    let most = work.lock().unwrap().max_running;
    assert!(most <= limit, "{most} were running, and the limit is {limit}");
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_and_every_operation_gets_its_turn() {
    for seed in 0..rounds("TIDEGATE_GROUP_ROUNDS", 20, 400) {
        let played = tokio::time::timeout(Duration::from_secs(24 * 3600), run_random_schedule(seed));
        played.await.unwrap_or_else(|_| panic!("seed {seed}: an operation waits forever"));
    }
}

#[tokio::test(start_paused = true)]
async fn operations_enter_in_request_order_and_name_their_blockers() {
    let (cluster, log, work) =
        (FaultyCluster::reliable(), Log::new(), Arc::new(Mutex::new(RunnerState::default())));
    let runner = runner(&work, |_| (60, hook_success())).await;
    let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
    let mut operations = Vec::new();
    for number in 0..6 {
        operations.push(submit(&engine, &gated_sync(number), 2).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let inside = format!(
        "2 operations in the group are running (maximum: 2): app0 ({}), app1 ({})",
        operations[0], operations[1]
    );
    wait_until(&engine, operations[2], |view, reason| {
        reason.contains("gate concurrency:db") && reason.contains(&inside) && view.warnings.is_empty()
    })
    .await;
    wait_until(&engine, operations[5], |_, reason| {
        reason.contains("other operations in the group are ahead in the queue")
    })
    .await;
    for operation in &operations {
        assert_eq!(wait_for_end(&engine, *operation).await.phase, OperationPhase::Succeeded);
    }
    let work = work.lock().unwrap();
    assert_eq!((&work.started, work.max_running), (&operations, 2));
}

/// An operation in the group must keep its slot when the process is killed, whatever the order of
/// resumption.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_group_survives_a_kill() {
    let (cluster, log, work) =
        (FaultyCluster::reliable(), Log::new(), Arc::new(Mutex::new(RunnerState::default())));
    let slow = runner(&work, |_| (3600, hook_success())).await;
    let engine = builder(&cluster, &log).hook_runner("work", slow).start().await.unwrap();
    let first = submit(&engine, &gated_sync(0), 1).await;
    wait_until(&engine, first, |_, _| work.lock().unwrap().started == [first]).await;
    let second = submit(&engine, &gated_sync(1), 1).await;
    wait_until(&engine, second, |_, reason| reason.contains("(maximum: 1)")).await;
    work.lock().unwrap().process += 1;
    let log = log.reopen();
    let quick = runner(&work, |_| (5, hook_success())).await;
    let engine = builder(&cluster, &log).hook_runner("work", quick).start().await.unwrap();
    engine.resume(second).await.unwrap();
    let named = format!("app0 ({first}, not running in any process)");
    wait_until(&engine, second, |_, reason| reason.contains(&named)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(work.lock().unwrap().started, [first]);
    engine.resume(first).await.unwrap();
    assert_eq!(wait_for_end(&engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(
        (wait_for_end(&engine, first).await.phase, work.lock().unwrap().max_running),
        (OperationPhase::Succeeded, 1)
    );
}

/// However an operation ends, the next one must be able to enter the group.
#[tokio::test(start_paused = true)]
async fn an_ended_operation_frees_its_place() {
    for how in ["terminated", "failed", "its deadline"] {
        let (cluster, log, work) =
            (FaultyCluster::reliable(), Log::new(), Arc::new(Mutex::new(RunnerState::default())));
        let first_fails = move |run: &HookRun| match (run.application.as_str(), how) {
            ("app0", "failed") => (30, HookResult::Failed("no".into())),
            ("app0", _) => (3600, hook_success()),
            _ => (1, hook_success()),
        };
        let runner = runner(&work, first_fails).await;
        let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
        let deadline = (how == "its deadline").then_some(Duration::from_secs(60));
        let first =
            submit(&engine, &gated_sync(0).with_request(|request| request.deadline = deadline), 1).await;
        wait_until(&engine, first, |_, _| work.lock().unwrap().started == [first]).await;
        let second = submit(&engine, &gated_sync(1), 1).await;
        wait_until(&engine, second, |_, reason| reason.contains("(maximum: 1)")).await;
        if how == "terminated" {
            engine.terminate(first, "test").await.unwrap();
        }
        assert_eq!(wait_for_end(&engine, second).await.phase, OperationPhase::Succeeded, "{how}");
        assert_eq!(wait_for_end(&engine, first).await.phase, OperationPhase::Failed, "{how}");
    }
}

/// One of the two groups is undefined. Its operations must stay closed and must not block others.
#[tokio::test(start_paused = true)]
async fn an_undefined_group_is_closed() {
    let (cluster, log, work) =
        (FaultyCluster::reliable(), Log::new(), Arc::new(Mutex::new(RunnerState::default())));
    let runner = runner(&work, |_| (1, hook_success())).await;
    let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
    let gate = ("tidegate.dev/gate", "concurrency:db,concurrency:lost");
    let lost = submit(&engine, &sync_for_application("lost", &config("l", 0, &[gate])), 1).await;
    wait_until(&engine, lost, |view, reason| {
        reason.contains(
            "the gate is not defined; define it in the file passed to `tidegate serve --gates`, or \
             terminate the operation and sync again with `tidegate sync --gates FILE`",
        ) && view.warnings.iter().any(|warning| warning.message.contains("concurrency:lost"))
    })
    .await;
    let other = submit(&engine, &gated_sync(1), 1).await;
    assert_eq!(wait_for_end(&engine, other).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("l"), 0);
}
