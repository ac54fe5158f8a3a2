//! Operations of a group: at most so many are in the waves that name it at once, whatever is killed, fails or is ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::extend::ractor::ActorRef;
use tidegate_executor::{Concurrency, Engine, GateDefinitions, HookEnd, HookRun, Targets};
use tidegate_model::{OperationId, OperationPhase};
use tidegate_testkit::effort::rounds;
use tidegate_testkit::scenario::{Sync, retries};

use crate::logs::for_application;
use crate::support::{Log, Moody, actor, builder, config, end, hook, until};

const GATE: (&str, &str) = ("tidegate.dev/gate", "concurrency:db");

fn definitions(limit: usize) -> GateDefinitions {
    let concurrency = [("db".to_owned(), Concurrency { limit })].into();
    GateDefinitions { concurrency, ..GateDefinitions::default() }
}

/// A wave of the group that a runner works on, and one that comes after it.
fn gated(number: usize) -> Sync {
    let runner = ("tidegate.dev/hook-runner", "work");
    let work = hook(&format!("work-{number}"), "PreSync", &[runner, GATE]);
    for_application(&format!("app{number}"), &format!("{work}{}", config(&format!("c{number}"), 0, &[])))
}

async fn submit(engine: &Engine, sync: &Sync, limit: usize) -> OperationId {
    let targets = Targets { definitions: definitions(limit), ..sync.targets() };
    engine.submit(sync.request.clone(), targets).await.unwrap()
}

/// What the runners of all processes know.
#[derive(Default)]
struct Work {
    /// The operations whose hook has begun and not ended. Those of a process that was killed are still inside.
    inside: BTreeSet<OperationId>,
    most: usize,
    /// In which order they began.
    began: Vec<OperationId>,
    /// Which process works; nothing comes from the others any more.
    process: usize,
}

impl Work {
    fn begin(&mut self, operation: OperationId) {
        self.inside.insert(operation);
        self.most = self.most.max(self.inside.len());
        if !self.began.contains(&operation) {
            self.began.push(operation);
        }
    }
}

/// A runner that works for as long as is said, and then ends as is said.
async fn runner(
    work: &Arc<Mutex<Work>>,
    how: impl Fn(&HookRun) -> (u64, HookEnd) + Send + std::marker::Sync + 'static,
) -> ActorRef<HookRun> {
    let (work, process) = (Arc::clone(work), work.lock().unwrap().process);
    actor(move |mut run: HookRun| {
        let work = Arc::clone(&work);
        if work.lock().unwrap().process != process {
            return std::mem::forget(run);
        }
        work.lock().unwrap().begin(run.operation);
        let (seconds, end) = how(&run);
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
                () = run.cancellation.cancelled() => {}
            }
            let mut work = work.lock().unwrap();
            if work.process == process {
                work.inside.remove(&run.operation);
                drop(work);
                let _ = run.reply.send(end);
            }
        });
    })
    .await
}

fn done() -> HookEnd {
    HookEnd::Succeeded(String::new())
}

/// A number that looks random.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

async fn start(cluster: &Arc<Moody>, log: &Log, work: &Arc<Mutex<Work>>, seed: u64) -> Engine {
    let dice = Mutex::new(seed);
    let how = move |_: &HookRun| {
        let mut dice = dice.lock().unwrap();
        let end = if random(&mut dice, 5) == 0 { HookEnd::Failed("no".into()) } else { done() };
        (random(&mut dice, 40), end)
    };
    builder(cluster, log).hook_runner("work", runner(work, how).await).start().await.unwrap()
}

/// Operations come, fail, are tried again, are ended by people, and the process is killed again and again.
async fn play(mut seed: u64) {
    const OPERATIONS: usize = 9;
    let limit = 1 + random(&mut seed, 3) as usize;
    let (cluster, mut log, work) = (Moody::calm(), Log::new(), Arc::new(Mutex::new(Work::default())));
    let mut engine = start(&cluster, &log, &work, seed).await;
    let mut operations = Vec::new();
    for number in 0..OPERATIONS {
        let attempts = random(&mut seed, 3) as i64;
        let sync = gated(number).with(|request| request.retry = retries(attempts));
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
                // In any order.
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
                error.to_string().contains("is over") || error.to_string().contains("at work"),
                "{error}"
            ),
        }
    }
    let most = work.lock().unwrap().most;
    assert!(most <= limit, "{most} were inside, and the limit is {limit}");
}

#[tokio::test(start_paused = true)]
async fn never_more_than_the_limit_are_inside_and_nobody_waits_for_ever() {
    for seed in 0..rounds("TIDEGATE_GROUP_ROUNDS", 20, 400) {
        let played = tokio::time::timeout(Duration::from_secs(24 * 3600), play(seed));
        played.await.unwrap_or_else(|_| panic!("seed {seed}: somebody waits for ever"));
    }
}

#[tokio::test(start_paused = true)]
async fn operations_get_in_in_the_order_in_which_they_asked_and_say_whom_they_wait_for() {
    let (cluster, log, work) = (Moody::calm(), Log::new(), Arc::new(Mutex::new(Work::default())));
    let runner = runner(&work, |_| (60, done())).await;
    let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
    let mut operations = Vec::new();
    for number in 0..6 {
        operations.push(submit(&engine, &gated(number), 2).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let inside = format!(
        "2 operations of the group are at work, of 2 at most: app0 ({}), app1 ({})",
        operations[0], operations[1]
    );
    until(&engine, operations[2], |view, why| {
        why.contains("gate concurrency:db") && why.contains(&inside) && view.warnings.is_empty()
    })
    .await;
    until(&engine, operations[5], |_, why| why.contains("other operations of the group have asked before"))
        .await;
    for operation in &operations {
        assert_eq!(end(&engine, *operation).await.phase, OperationPhase::Succeeded);
    }
    let work = work.lock().unwrap();
    assert_eq!((&work.began, work.most), (&operations, 2));
}

/// An operation that was inside when its process was killed keeps its place, whoever is resumed first.
#[tokio::test(start_paused = true)]
async fn a_place_outlives_the_process() {
    let (cluster, log, work) = (Moody::calm(), Log::new(), Arc::new(Mutex::new(Work::default())));
    let slow = runner(&work, |_| (3600, done())).await;
    let engine = builder(&cluster, &log).hook_runner("work", slow).start().await.unwrap();
    let first = submit(&engine, &gated(0), 1).await;
    until(&engine, first, |_, _| work.lock().unwrap().began == [first]).await;
    let second = submit(&engine, &gated(1), 1).await;
    until(&engine, second, |_, why| why.contains("of 1 at most")).await;
    work.lock().unwrap().process += 1;
    let log = log.reopen();
    let quick = runner(&work, |_| (5, done())).await;
    let engine = builder(&cluster, &log).hook_runner("work", quick).start().await.unwrap();
    engine.resume(second).await.unwrap();
    let named = format!("app0 ({first}, which no process works on)");
    until(&engine, second, |_, why| why.contains(&named)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(work.lock().unwrap().began, [first]);
    engine.resume(first).await.unwrap();
    assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!((end(&engine, first).await.phase, work.lock().unwrap().most), (OperationPhase::Succeeded, 1));
}

/// However it ends, the next one gets in.
#[tokio::test(start_paused = true)]
async fn an_operation_that_ends_leaves_its_place() {
    for how in ["terminated", "failed", "its deadline"] {
        let (cluster, log, work) = (Moody::calm(), Log::new(), Arc::new(Mutex::new(Work::default())));
        let first_fails = move |run: &HookRun| match (run.application.as_str(), how) {
            ("app0", "failed") => (30, HookEnd::Failed("no".into())),
            ("app0", _) => (3600, done()),
            _ => (1, done()),
        };
        let runner = runner(&work, first_fails).await;
        let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
        let deadline = (how == "its deadline").then_some(Duration::from_secs(60));
        let first = submit(&engine, &gated(0).with(|request| request.deadline = deadline), 1).await;
        until(&engine, first, |_, _| work.lock().unwrap().began == [first]).await;
        let second = submit(&engine, &gated(1), 1).await;
        until(&engine, second, |_, why| why.contains("of 1 at most")).await;
        if how == "terminated" {
            engine.terminate(first, "test").await.unwrap();
        }
        assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded, "{how}");
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Failed, "{how}");
    }
}

/// Two groups, one of them not defined: nobody gets in, and nobody else is held up.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_not_defined_is_closed() {
    let (cluster, log, work) = (Moody::calm(), Log::new(), Arc::new(Mutex::new(Work::default())));
    let runner = runner(&work, |_| (1, done())).await;
    let engine = builder(&cluster, &log).hook_runner("work", runner).start().await.unwrap();
    let gate = ("tidegate.dev/gate", "concurrency:db,concurrency:lost");
    let lost = submit(&engine, &for_application("lost", &config("l", 0, &[gate])), 1).await;
    until(&engine, lost, |view, why| {
        why.contains(
            "nobody has defined it; end the operation, and begin it with a file of --gates that does",
        ) && view.warnings.iter().any(|warning| warning.message.contains("concurrency:lost"))
    })
    .await;
    let other = submit(&engine, &gated(1), 1).await;
    assert_eq!(end(&engine, other).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.created("l"), 0);
}
