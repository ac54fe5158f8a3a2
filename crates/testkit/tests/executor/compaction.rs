//! The log of an engine that runs for long is made smaller while it does.

use std::time::Duration;

use tidegate_model::OperationPhase;
use tidegate_oplog::Retention;
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, config, end, submit, until};

#[tokio::test(start_paused = true)]
async fn a_log_is_made_smaller_while_operations_are_at_work() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (cluster, log) = (Moody::calm(), Log::new());
    let keep = Retention { history: 1, summaries: 2, ..Retention::default() };
    let engine = builder(&cluster, &log).compact_every(HOUR, keep).start().await.unwrap();
    for round in 0..2 {
        let mut over = Vec::new();
        for number in 0..4 {
            let id = submit(&engine, &Sync::of(&config(&format!("c{number}"), 0, &[]))).await;
            assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
            over.push(id);
        }
        // One at work meanwhile loses nothing.
        let held = Sync::of(&config("held", 0, &[("tidegate.dev/gate", "nobody")]));
        let held = submit(&engine, &held.with(|request| request.application = "other".into())).await;
        until(&engine, held, |_, why| why.contains("no gate named nobody")).await;
        let known = log.facts(held).unwrap().len();
        let kept = |id| log.facts(id).map_or(0, |facts| facts.len());
        assert!(over.iter().all(|id| kept(*id) > 0), "round {round}: nothing goes before its time");
        // Later than the compaction, and not in the same moment: until that is done, no time passes.
        tokio::time::sleep(HOUR + Duration::from_secs(60)).await;
        let left: Vec<bool> = over.iter().map(|id| kept(*id) > 0).collect();
        assert_eq!(left, [false, false, false, true], "round {round}");
        let listed = engine.list().await.unwrap();
        let shop = listed.iter().filter(|summary| summary.application == "shop").count();
        assert_eq!(shop, 2, "round {round}: summaries beyond those that are kept are forgotten");
        assert!(kept(held) >= known, "round {round}");
        engine.terminate(held, "test").await.unwrap();
        assert_eq!(end(&engine, held).await.phase, OperationPhase::Failed, "round {round}");
    }
}
