//! Faults occur as configured, and the same seed reproduces them.

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::{Faults, SimConfig};
use tidegate_cluster::{ErrorKind, WatchEvent};

use super::{SSA, World, config_map, gvk, ms};

fn world(faults: Faults) -> World {
    World::with_config(SimConfig::default().with_faults(faults).with_seed(7))
}

fn world_with_certain_fault(set: impl FnOnce(&mut Faults)) -> World {
    let mut faults = Faults::none();
    set(&mut faults);
    world(faults)
}

#[test]
fn each_fault_has_its_effect() {
    let retry_after = Duration::from_secs(3);
    let cases: [(World, ErrorKind, Option<u16>, bool); 5] = [
        (world_with_certain_fault(|faults| faults.conflict = 1.0), ErrorKind::Conflict, Some(409), false),
        (
            world_with_certain_fault(|faults| {
                (faults.too_many_requests, faults.retry_after) = (1.0, retry_after)
            }),
            ErrorKind::TooManyRequests { retry_after: Some(retry_after) },
            Some(429),
            false,
        ),
        (world_with_certain_fault(|faults| faults.server_error = 1.0), ErrorKind::Server, Some(500), false),
        (world_with_certain_fault(|faults| faults.timeout_before = 1.0), ErrorKind::Timeout, None, false),
        (world_with_certain_fault(|faults| faults.timeout_after = 1.0), ErrorKind::Timeout, Some(201), true),
    ];
    for (mut world, kind, code, done) in cases {
        let error = world.write(&config_map("web", json!({})), SSA).unwrap_err();
        assert_eq!(error.kind, kind);
        assert_eq!(world.state.audit().last().map(|entry| entry.code), code, "{kind:?}");
        assert_eq!(world.state.objects().any(|object| object.name() == "web"), done, "{kind:?}");
    }
}

#[test]
fn reads_fail_as_well() {
    for mut world in [
        world_with_certain_fault(|faults| faults.server_error = 1.0),
        world_with_certain_fault(|faults| faults.timeout_before = 1.0),
    ] {
        let now = world.now;
        assert!(
            world.state.discover(now).is_err() && world.state.get(now, &gvk("Pod"), "default", "x").is_err()
        );
        assert!(
            world.state.list(now, &gvk("Pod")).is_err()
                && world.state.watch_since(now, &gvk("Pod"), "").is_err()
        );
    }
}

#[test]
fn a_stale_list_is_an_earlier_state() {
    let mut world = world_with_certain_fault(|faults| faults.stale_read = 1.0);
    let mut past = Vec::new();
    for number in 0..20 {
        world.write(&config_map(&format!("c{}", number % 4), json!({"n": number.to_string()})), SSA).unwrap();
        past.push(
            world.state.objects().filter(|object| object.kind() == "ConfigMap").cloned().collect::<Vec<_>>(),
        );
        let listing = world.state.list(world.now, &gvk("ConfigMap")).unwrap();
        let newest = past.last().unwrap();
        assert!(
            listing.objects.is_empty() || (past.contains(&listing.objects) && listing.objects != *newest)
        );
        let from = listing.resource_version.parse::<u64>().unwrap();
        assert!(from < world.state.revision());
    }
    let current = world.state.get(world.now, &gvk("ConfigMap"), "default", "c3").unwrap().unwrap();
    assert_eq!(current.text("/data/n"), "19", "a get is never stale");
}

/// Returns the names that a watch delivers for three creations.
fn delivered_names(mut world: World) -> Vec<String> {
    let from = world.state.revision().to_string();
    let mut cursor = world.state.watch_since(world.now, &gvk("ConfigMap"), &from).unwrap();
    for name in ["a", "b", "c"] {
        world.write(&config_map(name, json!({})), SSA).unwrap();
    }
    let mut names = Vec::new();
    for _ in 0..10 {
        match world.state.next_changes(world.now, &mut cursor) {
            Ok(events) => names.extend(events.iter().filter_map(|event| match event {
                WatchEvent::Applied(object) => {
                    Some(format!("{}@{}", object.name(), world.now.since(super::START).as_millis()))
                }
                _ => None,
            })),
            Err(error) => names.push(error.kind.to_string()),
        }
        world.advance(ms(100));
    }
    names.dedup_by(|a, b| a == "Gone" && b == "Gone");
    names
}

#[test]
fn watches_lose_repeat_delay_and_expire() {
    assert_eq!(delivered_names(world_with_certain_fault(|_| ())), ["a@0", "b@0", "c@0"]);
    assert_eq!(delivered_names(world_with_certain_fault(|faults| faults.watch_dropped = 1.0)), [""; 0]);
    assert_eq!(
        delivered_names(world_with_certain_fault(|faults| faults.watch_repeated = 1.0)),
        ["a@0", "a@0", "b@0", "b@0", "c@0", "c@0"]
    );
    assert_eq!(
        delivered_names(world_with_certain_fault(|faults| faults.stale_read = 1.0)),
        ["a@100", "b@200", "c@300"]
    );
    assert_eq!(delivered_names(world_with_certain_fault(|faults| faults.gone = 1.0)), ["Gone"]);
}

#[test]
fn the_same_seed_draws_the_same_faults() {
    let run = |seed: u64| {
        let mut world =
            World::with_config(SimConfig::default().with_faults(Faults::uniform(0.2)).with_seed(seed));
        let outcome = |number: usize| {
            let result =
                world.write(&config_map(&format!("c{}", number % 7), json!({"n": number.to_string()})), SSA);
            world.advance(ms(3));
            result.map(|applied| applied.object.uid().to_owned()).map_err(|error| error.kind.to_string())
        };
        (0..100).map(outcome).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
