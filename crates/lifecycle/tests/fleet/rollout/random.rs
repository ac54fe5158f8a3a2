//! Random fleets in random weather. What must hold at every moment is in [`world`](super::world); here, how it ends.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::rollout::{
    End, Input, MemberSpec, OnFailure, OnNewTargets, OnPending, Options, Request, Step, Wish, explain,
};
use tidegate_model::{Digest, HealthStatus};

use super::world::World;
use crate::build::*;
use crate::dice::Dice;
use crate::weather::{Weather, weather};

const ENVS: [&str; 4] = ["dev", "qa", "prod", "lab"];
const TIERS: [&str; 2] = ["web", "db"];

fn one<T: Clone>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.below(u64::try_from(of.len()).unwrap())).unwrap()].clone()
}

fn some_step(dice: &mut Dice) -> Step {
    let selects = match dice.below(5) {
        0 => format!("env in {}", one(dice, &ENVS)),
        1 => format!("env in {},{}", one(dice, &ENVS), one(dice, &ENVS)),
        2 => format!("env in {};tier in {}", one(dice, &ENVS), one(dice, &TIERS)),
        3 => format!("env not in {}", one(dice, &ENVS)),
        _ => String::new(),
    };
    let max_update = match dice.below(6) {
        0 => MaxUpdate::All,
        1 => MaxUpdate::Percent(u32::try_from(1 + dice.below(100)).unwrap()),
        2 if dice.percent(20) => MaxUpdate::Count(0),
        _ => MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()),
    };
    let gates = [("approval", 15), ("freeze", 25), ("soak:3s", 25)];
    let gates = gates.into_iter().filter(|(_, percent)| dice.percent(*percent));
    Step {
        max_update,
        gates: gates.map(|(gate, _)| gate.to_owned()).collect(),
        deadline: dice.percent(30).then(|| seconds(5 + dice.below(60))),
        max_failures: dice.percent(40).then(|| u32::try_from(dice.below(3)).unwrap()),
        on_failure: one(dice, &[OnFailure::Pause, OnFailure::Abort, OnFailure::RollBack]),
        ..step(&selects)
    }
}

fn some_member(dice: &mut Dice, number: u64) -> MemberSpec {
    let mut of = String::new();
    if dice.percent(90) {
        of = format!("env={}", one(dice, &ENVS));
    }
    if dice.percent(60) {
        of = format!("{of} tier={}", one(dice, &TIERS));
    }
    let mut member = member(&format!("m{number:02}"), &of);
    if dice.percent(10) {
        member.before = None;
    }
    if dice.percent(10) {
        member.done_by = Some(id(1));
    }
    member
}

/// A fleet, and what will happen to it. `calm`: nothing that needs people, and nothing that fails for good.
fn scene(seed: u64, calm: bool, weather: Weather) -> World {
    let mut dice = Dice(seed);
    let steps: Vec<Step> = (0..1 + dice.below(4)).map(|_| some_step(&mut dice)).collect();
    let members = (0..dice.below(14)).map(|number| some_member(&mut dice, number)).collect();
    let options = Options {
        pending_timeout: dice.percent(30).then(|| seconds(2 + dice.below(20))),
        on_pending: one(&mut dice, &[OnPending::Hold, OnPending::Fail, OnPending::Healthy]),
        on_new_targets: one(&mut dice, &[OnNewTargets::Supersede, OnNewTargets::Finish]),
    };
    let mut request = Request { options, ..request(steps, members) };
    if calm {
        request.options.pending_timeout = None;
        for step in &mut request.steps {
            step.gates.retain(|gate| gate != "approval");
            step.deadline = None;
            step.max_update = if step.max_update.is_manual() { MaxUpdate::All } else { step.max_update };
        }
    }
    let mut world = World::new(request).rough(weather);
    // Some look as if they were there already: by an operation of before, which is no evidence.
    let known = world.request.members.iter().filter(|member| member.before.is_some());
    let names: Vec<String> = known.map(|member| member.name.clone()).collect();
    for name in names.into_iter().filter(|_| dice.percent(30)) {
        let app = world.apps.get_mut(&name).unwrap();
        app.sight = sight(1, "new", HealthStatus::Healthy);
    }
    world.gates.insert("freeze".into(), 5_000 + i64::try_from(dice.below(20_000)).unwrap());
    for fate in world.fates.values_mut() {
        fate.window_until = if dice.percent(15) { 10_000 } else { 0 };
        fate.busy = u32::try_from(dice.below(2)).unwrap();
        let time = |dice: &mut Dice| Some(i64::try_from(dice.below(4_000)).unwrap());
        fate.takes = time(&mut dice);
        fate.healthy_after = time(&mut dice);
        if calm {
            continue;
        }
        fate.failures = u32::from(dice.percent(20));
        fate.takes = fate.takes.filter(|_| !dice.percent(5));
        fate.healthy_after = fate.healthy_after.filter(|_| !dice.percent(5));
    }
    if !calm {
        people(&mut world, &mut dice);
    }
    world
}

/// People, commits and generators do what they like.
fn people(world: &mut World, dice: &mut Dice) {
    for _ in 0..dice.below(8) {
        let millis = i64::try_from(dice.below(60_000)).unwrap();
        let name = format!("m{:02}", dice.below(14));
        let scope = if dice.percent(70) {
            Scope::Member(name.clone())
        } else {
            Scope::Step(u32::try_from(dice.below(5)).unwrap())
        };
        match dice.below(12) {
            0 => world.wish(millis, Wish::Pause),
            1 | 2 => world.wish(millis, Wish::Resume),
            3 => world.wish(millis, Wish::Skip(scope)),
            4 | 5 => world.wish(millis, Wish::Retry(scope)),
            6 | 7 => world.wish(millis, Wish::Approve { step: None }),
            8 => world.at(millis, Input::Gone { member: name }),
            9 => {
                let of = format!("env={}", one(dice, &ENVS));
                let number = 20 + dice.below(4);
                let member = Box::new(MemberSpec { before: None, ..member(&format!("m{number}"), &of) });
                world.at(millis, Input::Joined { member });
            }
            10 => world.at(millis, Input::NewTargets { targets: Digest([7; 32]) }),
            _ if dice.percent(30) => world.wish(millis, Wish::Terminate),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// It ends, or it says what it awaits.
    #[test]
    fn any_rollout_ends_or_says_what_it_awaits(seed in any::<u64>(), weather in weather()) {
        let mut world = scene(seed, false, weather);
        world.run_until(10_000_000);
        let explained = explain(world.state(), at(world.now));
        let says = !explained.awaited.is_empty() || explained.paused.is_some();
        prop_assert!(world.state().is_finished() || says, "{explained}");
        // And a person can end it, whatever it awaits.
        world.wish(world.now, Wish::Terminate);
        world.run_until(20_000_000);
        prop_assert!(world.state().is_finished(), "{}", world.explain());
    }

    /// Where nothing fails, nothing but time is needed, however rough it is.
    #[test]
    fn a_rollout_of_which_nothing_fails_completes(seed in any::<u64>(), weather in weather()) {
        let mut world = scene(seed, true, weather);
        world.run_until(10_000_000);
        let end = world.rollout().outcome.as_ref().map(|outcome| outcome.end);
        prop_assert_eq!(end, Some(End::Completed), "{}", world.explain());
        for (name, member) in world.rollout().members.iter().filter(|(_, member)| member.place.step.is_some()) {
            prop_assert!(world.apps[name].proven, "{} is {:?}", name, member.progress);
        }
    }
}
