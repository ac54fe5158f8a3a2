//! What random lives have found, each by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_testkit::crash::Points;

use crate::author::{self, Fleet};
use crate::rules;
use crate::world::{Life, World, kind};

const REST: Duration = Duration::from_secs(300);

/// A set whose first step is `b`, and whose second one is `c`, at rest with its first commit.
fn served(work: impl AsyncFnOnce(&World, &Life)) -> World {
    let world = World::new(1, 0.0);
    author::commit(&world.repository(), ["b", "c"], (1, None));
    let members = [("b", 0), ("c", 1)].map(|(name, step)| (name.to_owned(), step));
    let fleet =
        Fleet { members: members.into(), max_update: vec![None, None], rollout: None, deletion: "AllAtOnce" };
    let living = async |life: &Life| {
        world.write(fleet.document(&world.repository())).await;
        world.quiet_for(REST).await;
        work(&world, life).await;
    };
    world.live(&Points::dying_at(0), living).unwrap();
    world
}

#[test]
fn a_step_does_not_pass_without_an_application_that_cannot_be_written_for_a_moment() {
    let world = served(async |world, life| {
        // Somebody changes what the set has written, and it cannot be put right now.
        let mut changed = world.sim.get(&kind("Application"), "argocd", "b").await.unwrap().unwrap();
        *world.weather.closed.lock().unwrap() = Some("b".to_owned());
        changed.section_mut("spec").insert("revisionHistoryLimit".to_owned(), json!(3));
        world.sim.put(changed, None).await.unwrap();
        author::commit(&world.repository(), ["b", "c"], (2, None));
        life.sets().refresh("fleet").await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let set = world.set().await.unwrap();
        let said: BTreeMap<_, _> =
            set.status.conditions.into_iter().map(|one| (one.kind, one.message)).collect();
        assert!(said["ErrorOccurred"].contains("Application b"), "{said:?}");
        *world.weather.closed.lock().unwrap() = None;
        world.quiet_for(REST).await;
    });
    let deployed = rules::deployed(&world.weather.writes.lock().unwrap());
    let order: Vec<_> = deployed.iter().map(|one| (one.application.as_str(), one.commit)).collect();
    assert_eq!(order, [("b", 1), ("c", 1), ("b", 2), ("c", 2)]);
    assert!(deployed[2].done.unwrap() <= deployed[3].began);
}
