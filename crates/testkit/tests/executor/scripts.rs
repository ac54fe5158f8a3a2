//! Health scripts: a wave waits for kinds that only a script can judge.

use tidegate_health::{HealthRules, Script};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, submit, until};

fn rules(script: &str) -> HealthRules {
    HealthRules::with_scripts([Script::new("ConfigMap", "ConfigMap/health.lua", script).unwrap()]).unwrap()
}

fn two() -> Sync {
    Sync::of(&format!("{}{}", config("first", 0, &[]), config("second", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_a_kind_that_only_a_script_judges() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let waiting = "return { status = 'Progressing', message = obj.metadata.name .. ' is not there yet' }";
    let engine = builder(&cluster, &log).health(rules(waiting)).start().await.unwrap();
    let id = submit(&engine, &two()).await;
    until(&engine, id, |_, why| why.contains("first is not there yet")).await;
    assert_eq!(cluster.created("second"), 0);
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_looks_at_the_body_opens_the_next_wave() {
    let (cluster, log) = (Moody::calm(), Log::new());
    // Without the body, of which metadata is not enough, this is an error and never healthy.
    let there = "if obj.metadata.uid and obj.data ~= nil then return { status = 'Healthy', message = 'there' } end \
                 error('no body')";
    let engine = builder(&cluster, &log).health(rules(there)).start().await.unwrap();
    let id = submit(&engine, &two()).await;
    let view = end(&engine, id).await;
    assert_eq!((view.phase, cluster.created("second")), (OperationPhase::Succeeded, 1), "{}", view.message);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_never_ends_holds_its_wave_and_nothing_else() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let endless = "while true do pcall(function() while true do end end) end";
    let engine = builder(&cluster, &log).health(rules(endless)).start().await.unwrap();
    let id = submit(&engine, &two()).await;
    until(&engine, id, |_, why| why.contains("was stopped after")).await;
    assert_eq!(cluster.created("second"), 0);
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn expressions_in_an_annotation_see_the_whole_object() {
    let (cluster, log) = (Moody::calm(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let judged = |expression| {
        let first = config("first", 0, &[("tidegate.dev/health-current", expression)]);
        Sync::of(&format!("{first}{}", config("second", 1, &[])))
    };
    // Without the body, of which metadata is not enough, this is never true.
    let id = submit(&engine, &judged("metadata.uid != '' && has(self.data)")).await;
    let view = end(&engine, id).await;
    assert_eq!((view.phase, cluster.created("second")), (OperationPhase::Succeeded, 1), "{}", view.message);
    let id = submit(&engine, &judged("has(data.never)")).await;
    until(&engine, id, |_, why| why.contains("Waiting until the expression current is true")).await;
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
}
