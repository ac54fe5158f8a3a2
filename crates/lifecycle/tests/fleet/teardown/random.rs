//! Random ApplicationSets with random disturbances. [`world`](super::world) checks the invariants of every
//! deletion, and these tests check the outcome.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::teardown::{
    End, Input, MemberSpec, OnDeadline, Options, Order, Request, Selection, UserRequest, explain,
};

use super::order::selection_of;
use super::world::{World, member_spec};
use crate::build::*;
use crate::disturbances::{Disturbances, disturbances};
use crate::rng::Rng;

const ENVS: [&str; 4] = ["dev", "qa", "prod", "lab"];

fn random_env(dice: &mut Rng) -> &'static str {
    ENVS[usize::try_from(dice.below(4)).unwrap()]
}

fn random_step(dice: &mut Rng, calm: bool) -> Selection {
    let max_update = match dice.below(5) {
        0 => MaxUpdate::All,
        1 => MaxUpdate::Percent(u32::try_from(1 + dice.below(100)).unwrap()),
        2 if !calm => MaxUpdate::Count(0),
        _ => MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()),
    };
    let of = match dice.below(4) {
        0 => format!("env not in {}", random_env(dice)),
        1 => format!("env in {},{}", random_env(dice), random_env(dice)),
        _ => format!("env in {}", random_env(dice)),
    };
    Selection { max_update, ..selection_of(&of) }
}

fn random_world(seed: u64, calm: bool, weather: Disturbances) -> World {
    let mut dice = Rng(seed);
    let steps: Vec<Selection> = (0..1 + dice.below(4)).map(|_| random_step(&mut dice, calm)).collect();
    let order = match dice.below(3) {
        0 => Order::AllAtOnce,
        1 => Order::Reverse { steps, at_once: MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()) },
        _ => Order::Custom { steps },
    };
    let number = dice.below(14);
    let mut some = |number| member_spec(&format!("m{number:02}"), &format!("env={}", random_env(&mut dice)));
    let members: Vec<MemberSpec> = (0..number).map(&mut some).collect();
    let options = Options {
        deadline: (!calm && dice.chance(40)).then(|| seconds(1 + dice.below(60))),
        on_late: if dice.chance(50) { OnDeadline::Hold } else { OnDeadline::Abort },
    };
    let (set, uid, by) = ("argocd/fleet".into(), "uid-1".into(), "ann".into());
    let mut world = World::new(Request {
        set,
        uid,
        by,
        order,
        members,
        kept_members: std::collections::BTreeMap::new(),
        options,
        approved: None,
    })
    .with_disturbances(weather);
    for app in world.apps.values_mut() {
        app.finalizer_duration =
            Some(i64::try_from(dice.below(5_000)).unwrap()).filter(|_| calm || dice.chance(93));
    }
    let happenings = if calm { 0 } else { dice.below(6) };
    for number in 0..happenings {
        let millis = i64::try_from(dice.below(30_000)).unwrap();
        match dice.below(7) {
            0 => world.request_at(millis, UserRequest::Pause),
            1 | 2 => world.request_at(millis, UserRequest::Resume),
            3 => {
                world.request_at(millis, UserRequest::Skip(Scope::Member(format!("m{:02}", dice.below(14)))))
            }
            4 => world
                .request_at(millis, UserRequest::Skip(Scope::Step(u32::try_from(dice.below(5)).unwrap()))),
            5 => {
                let (name, of) = (format!("n{number:02}"), format!("env={}", random_env(&mut dice)));
                world.schedule_input(millis, Input::Joined { member: Box::new(member_spec(&name, &of)) });
            }
            _ => {}
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// The teardown either ends, or explains what it is waiting for.
    #[test]
    fn any_teardown_ends_or_explains_what_it_awaits(seed in any::<u64>(), weather in disturbances()) {
        let mut world = random_world(seed, false, weather);
        world.run_until(10_000_000);
        let explained = explain(world.state(), at(world.now));
        let says = !explained.awaited.is_empty() || explained.paused.is_some();
        prop_assert!(world.state().is_finished() || says, "{}", explained);
        world.request_at(world.now, UserRequest::Terminate);
        world.run_until(20_000_000);
        prop_assert!(world.state().is_finished(), "{}", world.explain());
    }

    /// If every Application is eventually deleted, the teardown completes, whatever the disturbances.
    #[test]
    fn a_teardown_completes_if_every_application_goes(seed in any::<u64>(), weather in disturbances()) {
        let mut world = random_world(seed, true, weather);
        world.run_until(10_000_000);
        let end = world.teardown().outcome.as_ref().map(|outcome| outcome.end);
        prop_assert_eq!(end, Some(End::Completed), "{}", world.explain());
        prop_assert!(world.apps.is_empty(), "{:?}", world.apps);
    }
}
