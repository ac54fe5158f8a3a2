//! What the driver does with a rollout: killed anywhere, it goes on; what is kept can be read again.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::rollout::{End, Fact, OnFailure, Request, State, Step, Wish, evolve, view};

use super::states::representatives;
use super::world::World;
use crate::build::*;

fn scene() -> World {
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
    world.fate("dev-b").busy = 1;
    world.fate("dev-c").window_until = 3_000;
    world.fate("prod-b").failures = 1;
    world.wish(9_000, Wish::Approve { step: Some(2) });
    world
}

/// The writes to the world, in order; the same however often the process dies.
#[test]
fn a_crash_at_any_point_changes_nothing() {
    let mut calm = scene();
    calm.run();
    let (events, ended) = (calm.happened, view(calm.state()).unwrap());
    assert_eq!(ended.end, Some(End::RolledBack), "{:?}", calm.transcript);
    let work = |world: &World| -> Vec<String> {
        let lines = world.transcript.iter();
        let lines = lines.filter(|line| line.contains("Sync") || line.contains("RollBack "));
        lines.map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    };
    let expected = work(&calm);
    assert!(events > 40 && expected.len() == 7, "{events}, {expected:?}");
    for event in 2..=events {
        let mut world = scene();
        world.crash_before = Some(event);
        world.run();
        assert_eq!(work(&world), expected, "died before event {event}: {:#?}", world.transcript);
        let found = view(world.state()).unwrap();
        assert_eq!((found.end, &found.message), (ended.end, &ended.message), "event {event}");
    }
}

/// What follows from facts follows from the log alone: no piece of the state is kept anywhere else.
#[test]
fn the_state_is_the_fold_of_what_is_durable() {
    let mut world = scene();
    world.run();
    let folded = world.durable.iter().fold(State::New, |state, fact: &Fact| evolve(state, fact).unwrap());
    assert_eq!(folded, *world.state());
}

#[test]
fn states_and_facts_are_read_as_they_were_written() {
    let config = bincode::config::standard();
    for (name, state) in representatives() {
        let bytes = bincode::serde::encode_to_vec(&state, config).unwrap();
        let (read, rest): (State, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        assert_eq!((read, rest), (state, bytes.len()), "{name}");
    }
    let mut world = scene();
    world.run();
    for fact in &world.durable {
        let bytes = bincode::serde::encode_to_vec(fact, config).unwrap();
        let (read, _): (Fact, usize) = bincode::serde::decode_from_slice(&bytes, config).unwrap();
        assert_eq!(read, *fact);
    }
}
