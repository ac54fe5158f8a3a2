//! Clusters and health rules that change while the engine is running.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError, RuntimeClock};
use tidegate_health::{HealthRules, Script};
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::{Destination, Digest, OperationId, OperationPhase};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    FaultyCluster, Log, builder, config, server_deployment, submit, wait_for_end, wait_until,
};

fn rules(script: &str) -> HealthRules {
    HealthRules::with_scripts([Script::new("ConfigMap", "ConfigMap/health.lua", script).unwrap()]).unwrap()
}

/// Returns two objects. The second one waits until the first one is healthy.
fn two_waves() -> SyncSpec {
    SyncSpec::new(&format!("{}{}", config("first", 0, &[]), config("second", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn operations_run_on_a_cluster_added_later() {
    let cluster = FaultyCluster::reliable();
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(Log::new())).clock(clock).start().await.unwrap();
    let sync = SyncSpec::new(&server_deployment("a", 0, &[]));
    let id = submit(&engine, &sync).await;
    let view = wait_for_end(&engine, id).await;
    assert!(view.message.contains("no connection to the operation's cluster"), "{}", view.message);
    let add = |cluster: &Arc<FaultyCluster>| {
        engine.add_cluster(Destination::Simulated, Arc::clone(cluster) as Arc<dyn Cluster>)
    };
    add(&cluster).await.unwrap();
    let id = submit(&engine, &sync).await;
    // The operation finishes only if the new connection also supports watches.
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let other = FaultyCluster::reliable();
    let known = add(&other).await.unwrap_err();
    assert!(matches!(known, EngineError::DuplicateCluster { .. }), "{known}");
    let id = submit(&engine, &SyncSpec::new(&config("b", 0, &[]))).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!((cluster.creations_of("b"), other.creations_of("b")), (1, 0));
    engine.shutdown().await;
    assert!(matches!(add(&other).await, Err(EngineError::Stopped)));
}

/// A script is fixed while an operation is waiting for its result.
#[tokio::test(start_paused = true)]
async fn a_running_operation_uses_changed_health_rules() {
    let cluster = FaultyCluster::reliable();
    let never = rules("return { status = 'Progressing', message = 'not there yet' }");
    let engine = builder(&cluster, &Log::new()).health(never).start().await.unwrap();
    let id = submit(&engine, &two_waves()).await;
    wait_until(&engine, id, |_, reason| reason.contains("not there yet")).await;
    let other = rules("return { status = 'Progressing', message = obj.data.a .. ' is judged' }");
    engine.set_health_rules(other).await.unwrap();
    let began = tokio::time::Instant::now();
    wait_until(&engine, id, |_, reason| reason.contains("b is judged")).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(cluster.creations_of("second"), 0);
    // Without a rule, there is nothing to wait for.
    engine.set_health_rules(HealthRules::built_in()).await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("second"), 1);
}

/// Returns the health rules that an operation used, in order.
fn recorded_health_rules(log: &Log, id: OperationId) -> Vec<Digest> {
    let digest = |event: &OperationEvent| match event {
        OperationEvent::HealthRulesSet { digest, .. } => Some(*digest),
        _ => None,
    };
    log.recorded_events(id).unwrap().iter().filter_map(digest).collect()
}

const PROGRESSING_SCRIPT: &str = "return { status = 'Progressing', message = 'not there yet' }";

#[tokio::test(start_paused = true)]
async fn an_operation_records_its_health_rules() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).health(rules(PROGRESSING_SCRIPT)).start().await.unwrap();
    let id = submit(&engine, &two_waves()).await;
    wait_until(&engine, id, |_, reason| reason.contains("not there yet")).await;
    let events = log.recorded_events(id).unwrap();
    let position = |wanted: fn(&OperationEvent) -> bool| events.iter().position(wanted).unwrap();
    let known = position(|event| matches!(event, OperationEvent::HealthRulesSet { .. }));
    assert!(position(|event| matches!(event, OperationEvent::Planned { .. })) < known);
    assert!(
        known < position(|event| matches!(event, OperationEvent::StageChanged { .. })),
        "before any action"
    );
    // Unchanged rules aren't recorded again.
    engine.set_health_rules(rules(PROGRESSING_SCRIPT)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let [first] = recorded_health_rules(&log, id)[..] else {
        panic!("{:?}", recorded_health_rules(&log, id))
    };
    let (view, reason) = engine.inspect(id).await.unwrap();
    let known = view.health_rules.unwrap();
    assert_eq!((known.digest, known.before, reason.rules_changed), (first.short(), None, None));
    engine.set_health_rules(rules(&PROGRESSING_SCRIPT.replace("not there", "not here"))).await.unwrap();
    wait_until(&engine, id, |_, reason| reason.contains("not here yet")).await;
    let [_, second] = recorded_health_rules(&log, id)[..] else {
        panic!("{:?}", recorded_health_rules(&log, id))
    };
    assert_ne!(first, second);
    let (view, reason) = engine.inspect(id).await.unwrap();
    let known = view.health_rules.unwrap();
    assert_eq!((known.digest, known.before), (second.short(), Some(first.short())));
    let changed = format!(
        "; the operation's health rules changed at {}, from {} to {}",
        known.since,
        first.short(),
        second.short()
    );
    assert!(reason.to_string().contains(&changed), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_records_only_changed_health_rules() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let two = |first: &'static str, second: &'static str| {
        let script = |kind| Script::new(kind, format!("{kind}/health.lua"), PROGRESSING_SCRIPT).unwrap();
        HealthRules::with_scripts([script(first), script(second)]).unwrap()
    };
    let begin =
        async |log: &Log, rules: HealthRules| builder(&cluster, log).health(rules).start().await.unwrap();
    let engine = begin(&log, two("ConfigMap", "Secret")).await;
    let id = submit(&engine, &two_waves()).await;
    wait_until(&engine, id, |_, reason| reason.contains("not there yet")).await;
    engine.shutdown().await;
    let log = log.reopen();
    let known = log.recorded_events(id).unwrap();
    let engine = begin(&log, two("Secret", "ConfigMap")).await;
    engine.resume(id).await.unwrap();
    wait_until(&engine, id, |_, reason| reason.contains("not there yet")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    engine.shutdown().await;
    assert_eq!(recorded_health_rules(&log, id).len(), 1, "the same rules, read in another order");
    assert_eq!(log.recorded_events(id).unwrap().len(), known.len(), "nothing happened");
    let log = log.reopen();
    let engine = begin(&log, HealthRules::built_in()).await;
    engine.resume(id).await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(recorded_health_rules(&log, id).len(), 2);
}
