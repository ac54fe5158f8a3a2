//! Random sets in random weather. What must hold at every deletion is in [`world`](super::world); here, how it ends.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::teardown::{
    End, Input, MemberSpec, OnLate, Options, Order, Request, Selection, Wish, explain,
};

use super::order::selection;
use super::world::{World, spec};
use crate::build::*;
use crate::dice::Dice;
use crate::weather::{Weather, weather};

const ENVS: [&str; 4] = ["dev", "qa", "prod", "lab"];

fn env(dice: &mut Dice) -> &'static str {
    ENVS[usize::try_from(dice.below(4)).unwrap()]
}

fn some_step(dice: &mut Dice, calm: bool) -> Selection {
    let max_update = match dice.below(5) {
        0 => MaxUpdate::All,
        1 => MaxUpdate::Percent(u32::try_from(1 + dice.below(100)).unwrap()),
        2 if !calm => MaxUpdate::Count(0),
        _ => MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()),
    };
    let of = match dice.below(4) {
        0 => format!("env not in {}", env(dice)),
        1 => format!("env in {},{}", env(dice), env(dice)),
        _ => format!("env in {}", env(dice)),
    };
    Selection { max_update, ..selection(&of) }
}

fn scene(seed: u64, calm: bool, weather: Weather) -> World {
    let mut dice = Dice(seed);
    let steps: Vec<Selection> = (0..1 + dice.below(4)).map(|_| some_step(&mut dice, calm)).collect();
    let order = match dice.below(3) {
        0 => Order::AllAtOnce,
        1 => Order::Reverse { steps, at_once: MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()) },
        _ => Order::Custom { steps },
    };
    let number = dice.below(14);
    let mut some = |number| spec(&format!("m{number:02}"), &format!("env={}", env(&mut dice)));
    let members: Vec<MemberSpec> = (0..number).map(&mut some).collect();
    let options = Options {
        deadline: (!calm && dice.percent(40)).then(|| seconds(1 + dice.below(60))),
        on_late: if dice.percent(50) { OnLate::Hold } else { OnLate::Abort },
    };
    let (set, uid, by) = ("argocd/fleet".into(), "uid-1".into(), "ann".into());
    let mut world = World::new(Request {
        set,
        uid,
        by,
        order,
        members,
        kept: std::collections::BTreeMap::new(),
        options,
        approved: None,
    })
    .rough(weather);
    for app in world.apps.values_mut() {
        app.lingers = Some(i64::try_from(dice.below(5_000)).unwrap()).filter(|_| calm || dice.percent(93));
    }
    let happenings = if calm { 0 } else { dice.below(6) };
    for number in 0..happenings {
        let millis = i64::try_from(dice.below(30_000)).unwrap();
        match dice.below(7) {
            0 => world.wish(millis, Wish::Pause),
            1 | 2 => world.wish(millis, Wish::Resume),
            3 => world.wish(millis, Wish::Skip(Scope::Member(format!("m{:02}", dice.below(14))))),
            4 => world.wish(millis, Wish::Skip(Scope::Step(u32::try_from(dice.below(5)).unwrap()))),
            5 => {
                let (name, of) = (format!("n{number:02}"), format!("env={}", env(&mut dice)));
                world.at(millis, Input::Joined { member: Box::new(spec(&name, &of)) });
            }
            _ => {}
        }
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// It ends, or it says what it awaits.
    #[test]
    fn any_teardown_ends_or_says_what_it_awaits(seed in any::<u64>(), weather in weather()) {
        let mut world = scene(seed, false, weather);
        world.run_until(10_000_000);
        let explained = explain(world.state(), at(world.now));
        let says = !explained.awaited.is_empty() || explained.paused.is_some();
        prop_assert!(world.state().is_finished() || says, "{}", explained);
        world.wish(world.now, Wish::Terminate);
        world.run_until(20_000_000);
        prop_assert!(world.state().is_finished(), "{}", world.explain());
    }

    /// Where everything goes in the end, everything is gone, however rough it is.
    #[test]
    fn a_teardown_of_what_goes_completes(seed in any::<u64>(), weather in weather()) {
        let mut world = scene(seed, true, weather);
        world.run_until(10_000_000);
        let end = world.teardown().outcome.as_ref().map(|outcome| outcome.end);
        prop_assert_eq!(end, Some(End::Completed), "{}", world.explain());
        prop_assert!(world.apps.is_empty(), "{:?}", world.apps);
    }
}
