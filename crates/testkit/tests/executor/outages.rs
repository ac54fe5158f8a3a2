//! Clusters that don't respond for minutes. The operation waits for them, reports the wait, and fails only if
//! it passes a deadline.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Backpressure, ErrorKind};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, server_deployment, submit, wait_for_end,
    wait_until,
};

/// Returns a cluster that is unavailable during a period, in seconds after its creation.
fn unavailable_between(from: u64, until: u64, fate: CallOutcome) -> Arc<FaultyCluster> {
    let began = tokio::time::Instant::now();
    FaultyCluster::new(SimConfig::default(), move |_, _| {
        let now = began.elapsed().as_secs();
        if (from..until).contains(&now) { fate } else { CallOutcome::Answer }
    })
}

fn shop() -> SyncSpec {
    let migrate = hook("migrate", "PreSync", &[("sim.tidegate.dev/ready-after", "20s")]);
    let api = server_deployment("api", 0, &[("sim.tidegate.dev/ready-after", "30s")]);
    SyncSpec::new(&format!("{migrate}{api}{}{}", config("a", 1, &[]), hook("smoke", "PostSync", &[])))
}

/// Whatever the error and the time of the outage, the operation must continue afterwards, and each hook must
/// run once.
#[tokio::test(start_paused = true)]
async fn an_operation_survives_an_outage_of_minutes() {
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Unauthorized,
        ErrorKind::TooManyRequests { retry_after: Some(Duration::from_secs(3)) },
    ];
    for (kind, from) in kinds.into_iter().cycle().zip([0, 1, 5, 15, 19, 21, 22, 30, 40, 50, 53]) {
        let cluster = unavailable_between(from, from + 400, CallOutcome::Refuse(kind));
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind} from {from} s: {}", view.message);
        assert_eq!(
            (cluster.creations_of("migrate"), cluster.creations_of("smoke")),
            (1, 1),
            "{kind} from {from} s"
        );
        assert!(view.resources.iter().all(|resource| resource.hook_phase == Some(OperationPhase::Succeeded)));
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_start_and_cause_of_an_outage_are_reported() {
    let cluster = unavailable_between(0, 300, CallOutcome::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    tokio::time::sleep(Duration::from_secs(72)).await;
    let (view, explanation) = engine.inspect(id).await.unwrap();
    assert_eq!(
        explanation.to_string(),
        "planning; the cluster has not responded for 1 min 12 s: injected: Unavailable; trying again"
    );
    assert_eq!(view.message, "waiting for the cluster to respond: injected: Unavailable");
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    // An outage during a wait affects only watches.
    let cluster = unavailable_between(25, 300, CallOutcome::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server_deployment("api", 0, &[("sim.tidegate.dev/ready-after", "200s")]);
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &SyncSpec::new(&format!("{slow}{}", config("last", 1, &[])))).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert!(began.elapsed() >= Duration::from_secs(200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn failing_watches_are_reported() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, _| match verb {
        "list" | "watch" => CallOutcome::Refuse(ErrorKind::Unavailable),
        _ => CallOutcome::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server_deployment("api", 0, &[("sim.tidegate.dev/ready-after", "60s")]);
    let id = submit(&engine, &SyncSpec::new(&format!("{slow}{}", config("last", 1, &[])))).await;
    let named = "watches of the cluster have been failing for";
    wait_until(&engine, id, |_, explanation| explanation.contains(named)).await;
    // Periodic reads make up for missed watch events.
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// The cluster accepts connections but doesn't respond. The open watch stays silent, and each read hangs
/// until its timeout.
#[tokio::test(start_paused = true)]
async fn a_hanging_cluster_is_reported_after_the_first_read() {
    let began = tokio::time::Instant::now();
    let cluster = FaultyCluster::new(SimConfig::default(), move |_, _| match began.elapsed().as_secs() {
        20..400 => CallOutcome::Hang,
        _ => CallOutcome::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server_deployment("api", 0, &[("sim.tidegate.dev/ready-after", "500s")]);
    let id = submit(&engine, &SyncSpec::new(&format!("{slow}{}", config("last", 1, &[])))).await;
    let named = "watches of the cluster have been failing for";
    wait_until(&engine, id, |_, explanation| explanation.contains(named)).await;
    let explained = engine.inspect(id).await.unwrap().1.to_string();
    // A read starts every 15 s and has a timeout of 75 s.
    let after = began.elapsed();
    assert!(after <= Duration::from_secs(20 + 15 + 75 + 5), "{after:?}: {explained}");
    // The outage counts from the start of the read, not from its timeout.
    assert!(explained.contains("failing for 1 min 1"), "{explained}");
    assert!(explained.contains("did not respond within 75 s"), "{explained}");
    wait_until(&engine, id, |_, explanation| !explanation.contains(named)).await;
    assert!(began.elapsed() < Duration::from_secs(500), "{:?}", began.elapsed());
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// A hanging list must be reported like a rejected list, although periodic reads make up for it.
#[tokio::test(start_paused = true)]
async fn a_hanging_watch_is_reported_when_its_call_times_out() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, _| match verb {
        "list" => CallOutcome::Hang,
        _ => CallOutcome::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let began = tokio::time::Instant::now();
    let slow = server_deployment("api", 0, &[("sim.tidegate.dev/ready-after", "400s")]);
    let id = submit(&engine, &SyncSpec::new(&format!("{slow}{}", config("last", 1, &[])))).await;
    wait_until(&engine, id, |_, explanation| explanation.contains("have been failing for 5 min")).await;
    assert!(began.elapsed() < Duration::from_secs(310), "{:?}", began.elapsed());
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait() {
    let cluster = unavailable_between(10, 100_000, CallOutcome::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let mut sync = shop();
    sync.request.deadline = Some(Duration::from_secs(120));
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &sync).await;
    let view = wait_for_end(&engine, id).await;
    assert!(view.phase.is_unsuccessful(), "{}", view.message);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
}

/// A call that never returns must be aborted and retried.
#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_aborted() {
    for verb in ["discover", "live", "check", "apply", "get", "release"] {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let cluster = FaultyCluster::new(SimConfig::default(), move |called, _| {
            let hangs = called == verb && calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
            if hangs { CallOutcome::Hang } else { CallOutcome::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{verb}: {}", view.message);
        assert_eq!((cluster.creations_of("migrate"), cluster.creations_of("smoke")), (1, 1), "{verb}");
    }
}

/// A waiting or hanging call hasn't failed yet, but the cause and the end of the delay must be reported
/// anyway.
#[tokio::test(start_paused = true)]
async fn the_cause_of_a_delay_is_reported_before_calls_fail() {
    let began = tokio::time::Instant::now();
    let cluster =
        FaultyCluster::new(SimConfig::default(), move |verb, _| match (verb, began.elapsed().as_secs()) {
            ("discover", 0..30) | ("apply", 75..140) => CallOutcome::Hang,
            _ => CallOutcome::Answer,
        });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&config("a", 0, &[]))).await;
    let remaining = Duration::from_secs(8);
    let asks =
        Backpressure::RateLimited { remaining, message: "429 Too Many Requests to GET /api".to_owned() };
    *cluster.backpressure.lock().unwrap() = Some(asks);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, explanation) = engine.inspect(id).await.unwrap();
    let until = explanation.at + remaining;
    let cluster_answers = "nothing to do; it continues when the cluster responds";
    assert_eq!(explanation.action.to_string(), cluster_answers);
    assert_eq!(
        explanation.to_string(),
        format!(
            "planning; the cluster is rate limiting requests until {until} (in less than 9 s): 429 Too Many Requests to GET /api; trying again"
        )
    );
    let silent =
        Backpressure::Unresponsive { elapsed: remaining, message: "no response to GET /api".to_owned() };
    *cluster.backpressure.lock().unwrap() = Some(silent.clone());
    let explanation = engine.inspect(id).await.unwrap().1;
    assert_eq!(
        explanation.to_string(),
        "planning; the cluster has not responded for 8 s: no response to GET /api; trying again"
    );
    assert_eq!(explanation.action.to_string(), cluster_answers);
    *cluster.backpressure.lock().unwrap() = None;
    let explanation = engine.inspect(id).await.unwrap().1;
    assert_eq!(explanation.to_string(), "planning");
    assert_eq!(explanation.action.to_string(), "nothing to do; it continues when the plan is ready");
    // Users can act during an outage.
    engine.pause(id, "ann", "").await.unwrap();
    *cluster.backpressure.lock().unwrap() = Some(silent);
    let explanation = engine.inspect(id).await.unwrap().1;
    assert!(explanation.trouble.is_some(), "{explanation}");
    assert_eq!(
        explanation.action.to_string(),
        format!("`tidegate ops unpause {id}` continues the operation")
    );
}

/// A retry must happen exactly after the requested delay.
#[tokio::test(start_paused = true)]
async fn a_retry_happens_after_the_requested_delay() {
    let second = Some(Duration::from_secs(1));
    let cluster =
        unavailable_between(0, 60, CallOutcome::Refuse(ErrorKind::TooManyRequests { retry_after: second }));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &shop()).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let explained = engine.inspect(id).await.unwrap().1.to_string();
    assert!(explained.contains("the cluster requested a delay of 1 s: "), "{explained}");
    wait_until(&engine, id, |view, _| !view.waves.is_empty()).await;
    assert!(began.elapsed() < Duration::from_millis(61_500), "{:?}", began.elapsed());
}

/// A termination must not wait for an unresponsive cluster.
#[tokio::test(start_paused = true)]
async fn a_termination_takes_at_most_five_seconds_whatever_hangs() {
    for (what, fate) in [
        ("nothing is answered", CallOutcome::Hang),
        ("nothing is reached", CallOutcome::Refuse(ErrorKind::Unavailable)),
        ("all takes its time", CallOutcome::Refuse(ErrorKind::Timeout)),
        ("all is well", CallOutcome::Answer),
    ] {
        let cluster = unavailable_between(10, 10_000, fate);
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(cluster.creations_of("migrate"), 1, "{what}: its hook is running");
        let started_at = tokio::time::Instant::now();
        engine.terminate(id, "ann").await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert!(started_at.elapsed() <= Duration::from_secs(5), "{what}: {:?}", started_at.elapsed());
        let hook = &view.resources[0];
        match fate {
            CallOutcome::Answer => {
                assert_eq!((view.phase, &*view.message), (OperationPhase::Failed, "Operation terminated"));
            }
            // The result must report that the hook may still be running in the cluster.
            _ => {
                assert_eq!(view.phase, OperationPhase::Error, "{what}: {}", view.message);
                assert_eq!(view.message, "Operation termination had errors", "{what}");
                assert!(hook.message.contains("the hook may still be running"), "{what}: {}", hook.message);
            }
        }
        engine.shutdown().await;
    }
}
