//! Compaction of the log of a running engine.

use std::time::Duration;

use tidegate_model::OperationPhase;
use tidegate_oplog::Retention;
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until};

#[tokio::test(start_paused = true)]
async fn a_log_is_compacted_while_operations_run() {
    const HOUR: Duration = Duration::from_secs(3600);
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let keep = Retention { history: 1, summaries: 2, ..Retention::default() };
    let engine = builder(&cluster, &log).compact_every(HOUR, keep).start().await.unwrap();
    for round in 0..2 {
        let mut over = Vec::new();
        for number in 0..4 {
            let id = submit(&engine, &SyncSpec::new(&config(&format!("c{number}"), 0, &[]))).await;
            assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
            over.push(id);
        }
        // A compaction keeps the data of a running operation.
        let held = SyncSpec::new(&config("held", 0, &[("tidegate.dev/gate", "nobody")]));
        let held = submit(&engine, &held.with_request(|request| request.application = "other".into())).await;
        wait_until(&engine, held, |_, reason| reason.contains("no gate named nobody")).await;
        let known = log.recorded_events(held).unwrap().len();
        let event_count = |id| log.recorded_events(id).map_or(0, |events| events.len());
        assert!(
            over.last().is_some_and(|id| event_count(*id) > 0),
            "round {round}: the newest keeps its events"
        );
        // The log exceeds its limit, so a compaction starts before the hour has passed. Virtual time doesn't
        // advance until the compaction is done.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(over[..2].iter().all(|id| event_count(*id) == 0), "round {round}");
        tokio::time::sleep(HOUR + Duration::from_secs(60)).await;
        let left: Vec<bool> = over.iter().map(|id| event_count(*id) > 0).collect();
        assert_eq!(left, [false, false, false, true], "round {round}");
        let listed = engine.list().await.unwrap();
        let shop = listed.iter().filter(|summary| summary.application == "shop").count();
        assert_eq!(shop, 2, "round {round}: excess summaries are removed");
        assert!(event_count(held) >= known, "round {round}");
        engine.terminate(held, "test").await.unwrap();
        assert_eq!(wait_for_end(&engine, held).await.phase, OperationPhase::Failed, "round {round}");
    }
}
