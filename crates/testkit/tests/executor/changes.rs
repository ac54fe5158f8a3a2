//! Clusters that come, and health rules that change, while the engine runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError, RuntimeClock};
use tidegate_health::{HealthRules, Script};
use tidegate_lifecycle::operation::Fact;
use tidegate_model::{Destination, Digest, OperationId, OperationPhase};
use tidegate_testkit::process::START;
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, server, submit, until};

fn rules(script: &str) -> HealthRules {
    HealthRules::with_scripts([Script::new("ConfigMap", "ConfigMap/health.lua", script).unwrap()]).unwrap()
}

/// The second waits until the first is well.
fn both() -> Sync {
    Sync::of(&format!("{}{}", config("first", 0, &[]), config("second", 1, &[])))
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
    let id = submit(&engine, &both()).await;
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

/// The health rules an operation was judged by, in turn.
fn judged_by(log: &Log, id: OperationId) -> Vec<Digest> {
    let digest = |fact: &Fact| match fact {
        Fact::HealthRulesKnown { digest, .. } => Some(*digest),
        _ => None,
    };
    log.facts(id).unwrap().iter().filter_map(digest).collect()
}

const NOT_YET: &str = "return { status = 'Progressing', message = 'not there yet' }";

#[tokio::test(start_paused = true)]
async fn an_operation_records_the_rules_it_is_judged_by() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).health(rules(NOT_YET)).start().await.unwrap();
    let id = submit(&engine, &both()).await;
    until(&engine, id, |_, why| why.contains("not there yet")).await;
    let facts = log.facts(id).unwrap();
    let position = |wanted: fn(&Fact) -> bool| facts.iter().position(wanted).unwrap();
    let known = position(|fact| matches!(fact, Fact::HealthRulesKnown { .. }));
    assert!(position(|fact| matches!(fact, Fact::Planned { .. })) < known);
    assert!(known < position(|fact| matches!(fact, Fact::Moved { .. })), "before anything is done");
    // The same rules are no news.
    engine.set_health_rules(rules(NOT_YET)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let [first] = judged_by(&log, id)[..] else { panic!("{:?}", judged_by(&log, id)) };
    let (view, why) = engine.inspect(id).await.unwrap();
    let known = view.health_rules.unwrap();
    assert_eq!((known.digest, known.before, why.rules_changed), (first.short(), None, None));
    engine.set_health_rules(rules(&NOT_YET.replace("not there", "not here"))).await.unwrap();
    until(&engine, id, |_, why| why.contains("not here yet")).await;
    let [_, second] = judged_by(&log, id)[..] else { panic!("{:?}", judged_by(&log, id)) };
    assert_ne!(first, second);
    let (view, why) = engine.inspect(id).await.unwrap();
    let known = view.health_rules.unwrap();
    assert_eq!((known.digest, known.before), (second.short(), Some(first.short())));
    let changed = format!(
        "; its health rules changed at {}, from {} to {}",
        known.since,
        first.short(),
        second.short()
    );
    assert!(why.to_string().contains(&changed), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_records_rules_that_differ_and_no_others() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let two = |first: &'static str, second: &'static str| {
        let script = |kind| Script::new(kind, format!("{kind}/health.lua"), NOT_YET).unwrap();
        HealthRules::with_scripts([script(first), script(second)]).unwrap()
    };
    let begin =
        async |log: &Log, rules: HealthRules| builder(&cluster, log).health(rules).start().await.unwrap();
    let engine = begin(&log, two("ConfigMap", "Secret")).await;
    let id = submit(&engine, &both()).await;
    until(&engine, id, |_, why| why.contains("not there yet")).await;
    engine.shutdown().await;
    let log = log.reopen();
    let known = log.facts(id).unwrap();
    let engine = begin(&log, two("Secret", "ConfigMap")).await;
    engine.resume(id).await.unwrap();
    until(&engine, id, |_, why| why.contains("not there yet")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    engine.shutdown().await;
    assert_eq!(judged_by(&log, id).len(), 1, "the same rules, read in another order");
    assert_eq!(log.facts(id).unwrap().len(), known.len(), "nothing happened");
    let log = log.reopen();
    let engine = begin(&log, HealthRules::built_in()).await;
    engine.resume(id).await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(judged_by(&log, id).len(), 2);
}
