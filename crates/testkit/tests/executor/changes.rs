//! Clusters that come, and health rules that change, while the engine runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError, RuntimeClock};
use tidegate_health::{HealthRules, Script};
use tidegate_model::{Destination, OperationPhase};
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, server, submit, until};

fn rules(script: &str) -> HealthRules {
    HealthRules::with_scripts([Script::new("ConfigMap", "ConfigMap/health.lua", script).unwrap()]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn operations_work_on_a_cluster_that_came_later() {
    let cluster = Moody::calm();
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(Log::new())).clock(clock).start().await.unwrap();
    let sync = Sync::of(&server("a", 0, &[]));
    let id = submit(&engine, &sync).await;
    let view = end(&engine, id).await;
    assert!(view.message.contains("no connection to the operation's cluster"), "{}", view.message);
    let add = |cluster: &Arc<Moody>| {
        engine.add_cluster(Destination::Simulated, Arc::clone(cluster) as Arc<dyn Cluster>)
    };
    add(&cluster).await.unwrap();
    let id = submit(&engine, &sync).await;
    // It waits for the server, so it is watched as well.
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    let other = Moody::calm();
    let known = add(&other).await.unwrap_err();
    assert!(matches!(known, EngineError::ClusterKnown { .. }), "{known}");
    let id = submit(&engine, &Sync::of(&config("b", 0, &[]))).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!((cluster.created("b"), other.created("b")), (1, 0));
    engine.shutdown().await;
    assert!(matches!(add(&other).await, Err(EngineError::Stopped)));
}

/// A script that is wrong is mended while an operation waits for what it says.
#[tokio::test(start_paused = true)]
async fn an_operation_at_work_is_judged_by_rules_that_change() {
    let cluster = Moody::calm();
    let never = rules("return { status = 'Progressing', message = 'not there yet' }");
    let engine = builder(&cluster, &Log::new()).health(never).start().await.unwrap();
    let both = Sync::of(&format!("{}{}", config("first", 0, &[]), config("second", 1, &[])));
    let id = submit(&engine, &both).await;
    until(&engine, id, |_, why| why.contains("not there yet")).await;
    let other = rules("return { status = 'Progressing', message = obj.data.a .. ' is judged' }");
    engine.set_health_rules(other).await.unwrap();
    let began = tokio::time::Instant::now();
    until(&engine, id, |_, why| why.contains("b is judged")).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(cluster.created("second"), 0);
    // Without a rule there is nothing to wait for.
    engine.set_health_rules(HealthRules::built_in()).await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.created("second"), 1);
}
