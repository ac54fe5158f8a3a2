//! Clusters that do not answer, for minutes: the operation waits for them, says so, and fails only by a deadline.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{ErrorKind, Strain};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, hook, server, submit, until};

/// A cluster that is away between two moments after its making.
fn away(from: u64, until: u64, fate: Fate) -> Arc<Moody> {
    let began = tokio::time::Instant::now();
    Moody::new(SimConfig::default(), move |_, _| {
        let now = began.elapsed().as_secs();
        if (from..until).contains(&now) { fate } else { Fate::Answer }
    })
}

fn shop() -> Sync {
    let migrate = hook("migrate", "PreSync", &[("sim.tidegate.dev/ready-after", "20s")]);
    let api = server("api", 0, &[("sim.tidegate.dev/ready-after", "30s")]);
    Sync::of(&format!("{migrate}{api}{}{}", config("a", 1, &[]), hook("smoke", "PostSync", &[])))
}

/// Whenever it goes away, and whatever it says: the operation goes on when it is back, and each hook runs once.
#[tokio::test(start_paused = true)]
async fn an_outage_of_minutes_is_survived() {
    let kinds = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Unauthorized,
        ErrorKind::TooManyRequests { retry_after: Some(Duration::from_secs(3)) },
    ];
    for (kind, from) in kinds.into_iter().cycle().zip([0, 1, 5, 15, 19, 21, 22, 30, 40, 50, 53]) {
        let cluster = away(from, from + 400, Fate::Refuse(kind));
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind} from {from} s: {}", view.message);
        assert_eq!((cluster.created("migrate"), cluster.created("smoke")), (1, 1), "{kind} from {from} s");
        assert!(view.resources.iter().all(|resource| resource.hook_phase == Some(OperationPhase::Succeeded)));
        engine.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_said_since_when_and_why() {
    let cluster = away(0, 300, Fate::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &shop()).await;
    tokio::time::sleep(Duration::from_secs(72)).await;
    let (view, explanation) = engine.inspect(id).await.unwrap();
    assert_eq!(
        explanation.to_string(),
        "planning; the cluster has not answered for 1 min 12 s: injected: Unavailable; trying again"
    );
    assert_eq!(view.message, "waiting for the cluster to answer: injected: Unavailable");
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    // While something is awaited only watches fail.
    let cluster = away(25, 300, Fate::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server("api", 0, &[("sim.tidegate.dev/ready-after", "200s")]);
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &Sync::of(&format!("{slow}{}", config("last", 1, &[])))).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert!(began.elapsed() >= Duration::from_secs(200), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn watches_that_fail_are_named() {
    let cluster = Moody::new(SimConfig::default(), |verb, _| match verb {
        "list" | "watch" => Fate::Refuse(ErrorKind::Unavailable),
        _ => Fate::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server("api", 0, &[("sim.tidegate.dev/ready-after", "60s")]);
    let id = submit(&engine, &Sync::of(&format!("{slow}{}", config("last", 1, &[])))).await;
    let named = "changes in the cluster have not been seen for";
    until(&engine, id, |_, explanation| explanation.contains(named)).await;
    // Looks make good what watches miss.
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// It takes connections and answers nothing: the open watch stays silent, and each look hangs to its time limit.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_hangs_is_named_after_the_first_look() {
    let began = tokio::time::Instant::now();
    let cluster = Moody::new(SimConfig::default(), move |_, _| match began.elapsed().as_secs() {
        20..400 => Fate::Never,
        _ => Fate::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let slow = server("api", 0, &[("sim.tidegate.dev/ready-after", "500s")]);
    let id = submit(&engine, &Sync::of(&format!("{slow}{}", config("last", 1, &[])))).await;
    let named = "changes in the cluster have not been seen for";
    until(&engine, id, |_, explanation| explanation.contains(named)).await;
    let explained = engine.inspect(id).await.unwrap().1.to_string();
    // A look every 15 s, and 75 s until it is given up.
    let after = began.elapsed();
    assert!(after <= Duration::from_secs(20 + 15 + 75 + 5), "{after:?}: {explained}");
    // Since when is when the look began, not when it was given up.
    assert!(explained.contains("seen for 1 min 1"), "{explained}");
    assert!(explained.contains("did not answer within 75 s"), "{explained}");
    until(&engine, id, |_, explanation| !explanation.contains(named)).await;
    assert!(began.elapsed() < Duration::from_secs(500), "{:?}", began.elapsed());
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}

/// A list that never comes back is as bad as one that is refused, though looks make good for it.
#[tokio::test(start_paused = true)]
async fn a_watch_that_hangs_is_named_when_its_call_is_given_up() {
    let cluster = Moody::new(SimConfig::default(), |verb, _| match verb {
        "list" => Fate::Never,
        _ => Fate::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let began = tokio::time::Instant::now();
    let slow = server("api", 0, &[("sim.tidegate.dev/ready-after", "400s")]);
    let id = submit(&engine, &Sync::of(&format!("{slow}{}", config("last", 1, &[])))).await;
    until(&engine, id, |_, explanation| explanation.contains("have not been seen for 5 min")).await;
    assert!(began.elapsed() < Duration::from_secs(310), "{:?}", began.elapsed());
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_waiting() {
    let cluster = away(10, 100_000, Fate::Refuse(ErrorKind::Unavailable));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let mut sync = shop();
    sync.request.deadline = Some(Duration::from_secs(120));
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &sync).await;
    let view = end(&engine, id).await;
    assert!(view.phase.is_unsuccessful(), "{}", view.message);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
}

/// An implementation that never comes back is given up, and the call made again.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up() {
    for verb in ["discover", "live", "check", "apply", "get", "release"] {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let cluster = Moody::new(SimConfig::default(), move |called, _| {
            let hangs = called == verb && calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
            if hangs { Fate::Never } else { Fate::Answer }
        });
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{verb}: {}", view.message);
        assert_eq!((cluster.created("migrate"), cluster.created("smoke")), (1, 1), "{verb}");
    }
}

/// A call that waits or hangs has not failed yet; why it does is told all the same, and until when.
#[tokio::test(start_paused = true)]
async fn what_keeps_calls_waiting_is_told_before_they_fail() {
    let began = tokio::time::Instant::now();
    let cluster = Moody::new(SimConfig::default(), move |verb, _| match (verb, began.elapsed().as_secs()) {
        ("discover", 0..30) | ("apply", 75..140) => Fate::Never,
        _ => Fate::Answer,
    });
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &Sync::of(&config("a", 0, &[]))).await;
    let left = Duration::from_secs(8);
    let asks = Strain::AsksToWait { left, message: "429 Too Many Requests to GET /api".to_owned() };
    *cluster.strain.lock().unwrap() = Some(asks);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_, explanation) = engine.inspect(id).await.unwrap();
    let until = explanation.at + left;
    assert_eq!(
        explanation.to_string(),
        format!(
            "planning; the cluster asks to slow down until {until} (less than 9 s): 429 Too Many Requests to GET /api; trying again"
        )
    );
    let silent = Strain::Silent { lasts: left, message: "no answer to GET /api".to_owned() };
    *cluster.strain.lock().unwrap() = Some(silent);
    let explained = engine.inspect(id).await.unwrap().1.to_string();
    assert_eq!(
        explained,
        "planning; the cluster has not answered for 8 s: no answer to GET /api; trying again"
    );
    *cluster.strain.lock().unwrap() = None;
    assert_eq!(engine.inspect(id).await.unwrap().1.to_string(), "planning");
}

/// Whoever says how long to wait is asked again then, and not later.
#[tokio::test(start_paused = true)]
async fn the_wait_is_the_one_that_was_asked_for() {
    let second = Some(Duration::from_secs(1));
    let cluster = away(0, 60, Fate::Refuse(ErrorKind::TooManyRequests { retry_after: second }));
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let began = tokio::time::Instant::now();
    let id = submit(&engine, &shop()).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let explained = engine.inspect(id).await.unwrap().1.to_string();
    assert!(explained.contains("it asks to slow down for 1 s: "), "{explained}");
    until(&engine, id, |view, _| !view.waves.is_empty()).await;
    assert!(began.elapsed() < Duration::from_millis(61_500), "{:?}", began.elapsed());
}

/// Whoever ends an operation does not wait for a cluster that says nothing, however long that is so.
#[tokio::test(start_paused = true)]
async fn what_a_person_ends_is_over_within_five_seconds_whatever_hangs() {
    for (what, fate) in [
        ("nothing is answered", Fate::Never),
        ("nothing is reached", Fate::Refuse(ErrorKind::Unavailable)),
        ("all takes its time", Fate::Refuse(ErrorKind::Timeout)),
        ("all is well", Fate::Answer),
    ] {
        let cluster = away(10, 10_000, fate);
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let id = submit(&engine, &shop()).await;
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(cluster.created("migrate"), 1, "{what}: its hook is at work");
        let asked = tokio::time::Instant::now();
        engine.terminate(id, "ann").await.unwrap();
        let view = end(&engine, id).await;
        assert!(asked.elapsed() <= Duration::from_secs(5), "{what}: {:?}", asked.elapsed());
        let hook = &view.resources[0];
        match fate {
            Fate::Answer => {
                assert_eq!((view.phase, &*view.message), (OperationPhase::Failed, "Operation terminated"));
            }
            // It may still run there, and that is said of it.
            _ => {
                assert_eq!(view.phase, OperationPhase::Error, "{what}: {}", view.message);
                assert_eq!(view.message, "Operation termination had errors", "{what}");
                assert!(hook.message.contains("it may still run"), "{what}: {}", hook.message);
            }
        }
        engine.shutdown().await;
    }
}
