//! Panics of shared actors under load. Operations either continue or end with the panic as their reason, and
//! no hook is created twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Destination, OperationId, OperationPhase, SyncRequest, Timestamp};
use tidegate_oplog::MemoryLog;
use tidegate_planner::Limits;

use crate::actors::cluster::ClusterMessage;
use crate::clock::RuntimeClock;
use crate::effects::Targets;
use crate::engine::Engine;
use crate::error::EngineError;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const APPLICATIONS: usize = 4;

/// An engine running several operations on a slow cluster.
struct LoadTest {
    cluster: SimCluster,
    engine: Engine,
}

/// Returns the manifests of an application: a hook that is deleted on success, servers, and an object in a
/// later wave.
fn manifests(name: &str) -> String {
    let hook = |hook: &str, phase: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}-{hook}\n  annotations: {{argocd.argoproj.io/hook: {phase}, \
             argocd.argoproj.io/hook-delete-policy: HookSucceeded}}\nspec:\n  template:\n    spec: {{restartPolicy: Never, \
             containers: [{{name: main, image: busybox}}]}}\n---\n"
        )
    };
    let wait = if name.starts_with("slow") { "60s" } else { "1s" };
    let server = |number: usize| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}-{number}, annotations: \
             {{sim.tidegate.dev/ready-after: {wait}}}}}\nspec:\n  selector: {{matchLabels: \
             {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: \
             main, image: busybox}}]}}\n---\n"
        )
    };
    let servers: String = (0..4).map(server).collect();
    format!("{}{servers}{}", hook("before", "PreSync"), hook("after", "PostSync"))
}

fn request(application: &str) -> SyncRequest {
    SyncRequest {
        revision: "0123456789abcdef".into(),
        initiated_by: "test".into(),
        ..SyncRequest::new(application, "default", Destination::Simulated)
    }
}

impl LoadTest {
    async fn new() -> Self {
        let config = SimConfig { latency: Duration::from_millis(20), ..SimConfig::default() };
        let cluster = SimCluster::in_memory(config, SimClock::tokio(START));
        let engine = Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(cluster.clone()))
            .clock(Arc::new(RuntimeClock::starting_at(START)))
            .start()
            .await
            .unwrap();
        Self { cluster, engine }
    }

    async fn submit(&self, name: &str) -> OperationId {
        let yaml = manifests(name);
        let targets = tidegate_planner::manifests::parse("a.yaml", yaml.as_bytes(), &Limits::default());
        let targets = Targets { targets: targets.unwrap(), ..Targets::default() };
        self.engine.submit(request(name), targets).await.unwrap()
    }

    async fn submit_all(&self, prefix: &str) -> Vec<OperationId> {
        let mut submitted = Vec::new();
        for number in 0..APPLICATIONS {
            submitted.push(self.submit(&format!("{prefix}{number}")).await);
        }
        submitted
    }

    async fn wait(&self, operation: OperationId) -> Result<OperationView, EngineError> {
        let waiting = self.engine.wait(operation);
        tokio::time::timeout(Duration::from_secs(3600), waiting).await.expect("an operation waits forever")
    }

    fn panic_in_cluster(&self) {
        for (_, cluster) in self.engine.shared.clusters.all() {
            cluster.send(ClusterMessage::Panic);
        }
    }

    /// Checks that no hook was created twice, and that each hook of a successful operation was created
    /// exactly once.
    fn check_hooks(&self, application: &str, has_succeeded: bool, what: &str) {
        for hook in ["before", "after"] {
            let name = format!("{application}-{hook}");
            let audit = self.cluster.audit();
            let created =
                audit.iter().filter(|entry| !entry.dry_run && entry.name == name && entry.code == 201);
            let created = created.count();
            let right = if has_succeeded { created == 1 } else { created <= 1 };
            assert!(right, "{what}: {name} was created {created} times");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn operations_continue_after_a_shared_actor_panics() {
    let mut went_on = 0;
    for after in (0..2_000).step_by(61) {
        for which in ["log", "cluster", "both"] {
            let load = LoadTest::new().await;
            let operations = load.submit_all("app").await;
            for wait in [after, 250] {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                if which != "cluster" {
                    load.engine.shared.log_actor.panic();
                }
                if which != "log" {
                    load.panic_in_cluster();
                }
            }
            for (number, operation) in operations.into_iter().enumerate() {
                let what = format!("{which} after {after} ms");
                let succeeded = match load.wait(operation).await {
                    Ok(view) => {
                        assert_eq!(view.phase, OperationPhase::Succeeded, "{what}: {}", view.message);
                        went_on += 1;
                        true
                    }
                    // The log actor failed before recording the operation, so submit it again.
                    Err(EngineError::StartFailed { reason, .. }) if reason.contains("start it again") => {
                        false
                    }
                    Err(EngineError::Log(_)) if after == 0 => false,
                    Err(error) => panic!("{what}: {error}"),
                };
                load.check_hooks(&format!("app{number}"), succeeded, &what);
            }
        }
    }
    assert!(went_on > 300, "{went_on}");
}

/// Without watches, an operation that is only waiting for its servers would wait forever, so it must
/// subscribe again.
#[tokio::test(start_paused = true)]
async fn operations_subscribe_again_after_watches_are_lost() {
    let load = LoadTest::new().await;
    let began = tokio::time::Instant::now();
    let operation = load.submit("slow0").await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    load.panic_in_cluster();
    assert_eq!(load.wait(operation).await.unwrap().phase, OperationPhase::Succeeded);
    assert!(began.elapsed() < Duration::from_secs(75), "{:?}", began.elapsed());
    load.check_hooks("slow0", true, "while it waits");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_actor_that_keeps_failing_ends_its_operations_with_the_reason() {
    let load = LoadTest::new().await;
    let operations = load.submit_all("slow").await;
    for _ in 0..6 {
        load.panic_in_cluster();
        tokio::time::sleep(Duration::from_millis(1_700)).await;
    }
    for (number, operation) in operations.into_iter().enumerate() {
        let view = load.wait(operation).await.unwrap();
        assert_eq!(view.phase, OperationPhase::Error, "{}", view.message);
        let said =
            "watches of the simulated cluster failed 6 times in 300 s; last error: injected into the cluster";
        assert!(view.message.contains(said), "{}", view.message);
        load.check_hooks(&format!("slow{number}"), false, "given up");
    }
    // The failure isn't permanent: the next operation waits until the cluster can be watched again.
    let next = load.submit("app7").await;
    assert_eq!(load.wait(next).await.unwrap().phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_log_actor_that_keeps_failing_ends_the_engine_with_the_reason() {
    let load = LoadTest::new().await;
    let operation = load.submit("slow0").await;
    let waiter = tokio::spawn({
        let engine = load.engine.clone();
        async move { engine.wait(operation).await }
    });
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(1_700)).await;
        load.engine.shared.log_actor.panic();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let Err(EngineError::LogFailed { reason }) =
        load.engine.submit(request("app8"), Targets::default()).await
    else {
        panic!("an engine without a log continues");
    };
    let said = "the engine's log actor failed 6 times in 300 s; last error: injected into the log actor";
    assert!(reason.contains(said), "{reason}");
    let error = waiter.await.unwrap().unwrap_err();
    assert!(matches!(&error, EngineError::LogFailed { .. }), "{error}");
}

/// Only failures within the restart window count toward the limit.
#[tokio::test(start_paused = true)]
async fn failures_outside_the_window_do_not_end_an_actor() {
    let load = LoadTest::new().await;
    for number in 0..20 {
        load.panic_in_cluster();
        load.engine.shared.log_actor.panic();
        tokio::time::sleep(Duration::from_secs(100)).await;
        if number % 5 == 4 {
            let operation = load.submit(&format!("app{number}")).await;
            assert_eq!(load.wait(operation).await.unwrap().phase, OperationPhase::Succeeded);
        }
    }
}

/// Actor that reports the end of a linked task.
struct ParentActor(tokio::sync::mpsc::UnboundedSender<()>);

impl Actor for ParentActor {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if matches!(event, SupervisionEvent::ActorTerminated(..) | SupervisionEvent::ActorFailed(..)) {
            let _ = self.0.send(());
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_ends_with_its_supervisor_and_reports_its_own_end() {
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let (above, _) = Actor::spawn(None, ParentActor(sender), ()).await.unwrap();
    let builder = || {
        let cluster = SimCluster::in_memory(SimConfig::default(), SimClock::tokio(START));
        Engine::builder(Arc::new(MemoryLog::new()))
            .cluster(Destination::Simulated, Arc::new(cluster))
            .supervised_by(above.get_cell())
    };
    let engine = builder().start().await.unwrap();
    assert_eq!(above.get_cell().get_children().len(), 1);
    engine.shutdown().await;
    ended.recv().await.unwrap();
    let engine = builder().start().await.unwrap();
    let linked = |engine: &Engine| engine.supervisor.get_cell().get_children().len();
    assert_eq!(linked(&engine), 2, "the log actor and the cluster actor");
    above.stop_and_wait(None, None).await.unwrap();
    assert!(matches!(engine.running_operations().await, Err(EngineError::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_unexpectedly_reports_it() {
    let load = LoadTest::new().await;
    let operation = load.submit("app").await;
    assert!(load.engine.failure().is_none());

    // From here on, messages to the supervisor are lost, as after a panic.
    load.engine.supervisor.kill();
    let ended = load.wait(operation).await;

    assert!(matches!(ended, Err(EngineError::Stopped)), "{ended:?}");
    assert!(matches!(load.engine.failure(), Some(EngineError::Stopped)), "{:?}", load.engine.failure());
}
