//! Recovery of a rollout after a crash at any point.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::rollout::{End, Event, OnFailure, Request, State, Step, UserRequest, apply, view};

use super::states::representatives;
use super::world::World;
use crate::build::*;

fn two_step_world() -> World {
    let first = Step { max_update: MaxUpdate::Count(2), ..step("env in dev") };
    let second = Step {
        gates: vec!["approval".into(), "freeze".into(), "soak:5s".into()],
        max_update: MaxUpdate::Count(1),
        max_failures: Some(0),
        on_failure: OnFailure::RollBack,
        ..step("env in prod")
    };
    let members = ["dev-a", "dev-b", "dev-c", "prod-a", "prod-b", "prod-c"];
    let of = |name: &str| member(name, &format!("env={}", name.split('-').next().unwrap()));
    let request: Request = request(vec![first, second], members.map(of).into());
    let mut world = World::new(request);
    world.gates.insert("freeze".into(), 12_000);
    world.behavior("dev-b").rejections = 1;
    world.behavior("dev-c").window_until = 3_000;
    world.behavior("prod-b").failures = 1;
    world.request_at(9_000, UserRequest::Approve { step: Some(2) });
    world
}

/// Wherever the process crashes, the rollout requests the same operations in the same order.
#[test]
fn a_crash_at_any_point_does_not_change_the_writes() {
    let mut calm = two_step_world();
    calm.run();
    let (events, ended) = (calm.event_count, view(calm.state()).unwrap());
    assert_eq!(ended.end, Some(End::RolledBack), "{:?}", calm.transcript);
    let work = |world: &World| -> Vec<String> {
        let lines = world.transcript.iter();
        let lines = lines.filter(|line| line.contains("Sync") || line.contains("RollBack "));
        lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let expected = work(&calm);
    assert!(events > 40 && expected.len() == 7, "{events}, {expected:?}");
    for event in 2..=events {
        let mut world = two_step_world();
        world.crash_before = Some(event);
        world.run();
        assert_eq!(work(&world), expected, "died before event {event}: {:#?}", world.transcript);
        let found = view(world.state()).unwrap();
        assert_eq!((found.end, &found.message), (ended.end, &ended.message), "event {event}");
    }
}

/// The log alone determines the state, because no part of the state is stored anywhere else.
#[test]
fn the_state_equals_the_fold_of_durable_events() {
    let mut world = two_step_world();
    world.run();
    let folded = world.durable.iter().fold(State::New, |state, event: &Event| apply(state, event).unwrap());
    assert_eq!(folded, *world.state());
}

#[test]
fn states_and_events_survive_serialization() {
    let config = bincode::config::standard();
    for (name, state) in representatives() {
        let bytes = bincode::serde::encode_to_vec(&state, config).unwrap();
        let (read, rest): (State, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        assert_eq!((read, rest), (state, bytes.len()), "{name}");
    }
    let mut world = two_step_world();
    world.run();
    for event in &world.durable {
        let bytes = bincode::serde::encode_to_vec(event, config).unwrap();
        let (read, _): (Event, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        assert_eq!(read, *event);
    }
}
