//! Health scripts. A wave waits for objects that only a script can assess.

use tidegate_health::{HealthRules, Script};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until};

fn rules(script: &str) -> HealthRules {
    HealthRules::with_scripts([Script::new("ConfigMap", "ConfigMap/health.lua", script).unwrap()]).unwrap()
}

fn two_waves() -> SyncSpec {
    SyncSpec::new(&format!("{}{}", config("first", 0, &[]), config("second", 1, &[])))
}

#[tokio::test(start_paused = true)]
async fn a_wave_waits_for_a_kind_that_only_a_script_assesses() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let waiting = "return { status = 'Progressing', message = obj.metadata.name .. ' is not there yet' }";
    let engine = builder(&cluster, &log).health(rules(waiting)).start().await.unwrap();
    let id = submit(&engine, &two_waves()).await;
    wait_until(&engine, id, |_, reason| reason.contains("first is not there yet")).await;
    assert_eq!(cluster.creations_of("second"), 0);
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_reads_the_body_opens_the_next_wave() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    // The script needs the object's body. With metadata alone, it fails and the object is never healthy.
    let there = "if obj.metadata.uid and obj.data ~= nil then return { status = 'Healthy', message = 'there' } end \
                 error('no body')";
    let engine = builder(&cluster, &log).health(rules(there)).start().await.unwrap();
    let id = submit(&engine, &two_waves()).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(
        (view.phase, cluster.creations_of("second")),
        (OperationPhase::Succeeded, 1),
        "{}",
        view.message
    );
}

#[tokio::test(start_paused = true)]
async fn an_endless_script_blocks_only_its_wave() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let endless = "while true do pcall(function() while true do end end) end";
    let engine = builder(&cluster, &log).health(rules(endless)).start().await.unwrap();
    let id = submit(&engine, &two_waves()).await;
    wait_until(&engine, id, |_, reason| reason.contains("was stopped after")).await;
    assert_eq!(cluster.creations_of("second"), 0);
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
}

#[tokio::test(start_paused = true)]
async fn expressions_in_an_annotation_see_the_whole_object() {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let judged = |expression| {
        let first = config("first", 0, &[("tidegate.dev/health-current", expression)]);
        SyncSpec::new(&format!("{first}{}", config("second", 1, &[])))
    };
    // The expression needs the object's body. With metadata alone, it is never true.
    let id = submit(&engine, &judged("metadata.uid != '' && has(self.data)")).await;
    let view = wait_for_end(&engine, id).await;
    assert_eq!(
        (view.phase, cluster.creations_of("second")),
        (OperationPhase::Succeeded, 1),
        "{}",
        view.message
    );
    let id = submit(&engine, &judged("has(data.never)")).await;
    wait_until(&engine, id, |_, reason| reason.contains("Waiting for the `current` expression to be true"))
        .await;
    engine.terminate(id, "test").await.unwrap();
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
}
