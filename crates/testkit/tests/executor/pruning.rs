//! Prunes that meet something else than an object that goes at once.

use std::sync::{Arc, OnceLock};

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::{SimCluster, SimConfig};
use tidegate_model::{OperationPhase, ResultCode};
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, server, submit};

/// Somebody else was faster, or took the kind away.
#[tokio::test(start_paused = true)]
async fn what_is_to_be_pruned_may_be_gone_already() {
    for kind in [ErrorKind::NotFound, ErrorKind::UnknownKind] {
        let cluster = Moody::new(SimConfig::default(), move |verb, name| match (verb, name) {
            ("delete", "old") => Fate::Refuse(kind),
            _ => Fate::Answer,
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let both = Sync::of(&[config("a", 0, &[]), config("old", 0, &[])].concat());
        let first = submit(&engine, &both).await;
        assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
        let one = Sync::of(&config("a", 0, &[])).with(|request| request.options.prune = true);
        let second = submit(&engine, &one).await;
        let view = end(&engine, second).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{kind}: {}", view.message);
        let pruned = view.resources.iter().find(|result| result.name == "old").unwrap();
        assert_eq!(pruned.status, Some(ResultCode::Pruned), "{kind}: {pruned:?}");
    }
}

/// A wave that others follow applies when what it prunes is gone, and not while that still ends.
#[tokio::test(start_paused = true)]
async fn a_wave_applies_when_what_it_prunes_is_gone() {
    let (sim, seen) = (Arc::new(OnceLock::<SimCluster>::new()), Arc::new(OnceLock::new()));
    let cluster = Moody::new(SimConfig::default(), {
        let (sim, seen) = (Arc::clone(&sim), Arc::clone(&seen));
        move |verb, name| {
            if (verb, name) == ("apply", "new") {
                let objects = sim.get().unwrap().objects();
                let left = objects.iter().filter(|object| object.name().starts_with("old"));
                seen.set(left.map(|object| object.key().to_string()).collect::<Vec<_>>()).unwrap();
            }
            Fate::Answer
        }
    });
    sim.set(cluster.sim.clone()).unwrap();
    let log = Log::new();
    let engine = builder(&cluster, &log).start().await.unwrap();
    let first = submit(&engine, &Sync::of(&server("old", 0, &[]))).await;
    assert_eq!(end(&engine, first).await.phase, OperationPhase::Succeeded);
    let next = [config("new", 0, &[]), config("later", 1, &[])].concat();
    let second = submit(&engine, &Sync::of(&next).with(|request| request.options.prune = true)).await;
    assert_eq!(end(&engine, second).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.writes().iter().filter(|entry| entry.name == "old" && entry.code == 200).count(), 1);
    assert_eq!(seen.get(), Some(&Vec::new()), "the Deployment and what belongs to it");
}
