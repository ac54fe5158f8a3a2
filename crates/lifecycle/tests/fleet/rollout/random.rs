//! Random fleets with random disturbances. [`world`](super::world) checks the invariants at every step, and
//! these tests check the outcome.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{MaxUpdate, Scope};
use tidegate_lifecycle::rollout::{
    End, Input, MemberSpec, OnFailure, OnNewTargets, OnPending, Options, Request, Step, UserRequest, explain,
};
use tidegate_model::{Digest, HealthStatus};

use super::world::World;
use crate::build::*;
use crate::disturbances::{Disturbances, disturbances};
use crate::rng::Rng;

const ENVS: [&str; 4] = ["dev", "qa", "prod", "lab"];
const TIERS: [&str; 2] = ["web", "db"];

fn pick<T: Clone>(dice: &mut Rng, of: &[T]) -> T {
    of[usize::try_from(dice.below(u64::try_from(of.len()).unwrap())).unwrap()].clone()
}

fn random_step(dice: &mut Rng) -> Step {
    let selects = match dice.below(5) {
        0 => format!("env in {}", pick(dice, &ENVS)),
        1 => format!("env in {},{}", pick(dice, &ENVS), pick(dice, &ENVS)),
        2 => format!("env in {};tier in {}", pick(dice, &ENVS), pick(dice, &TIERS)),
        3 => format!("env not in {}", pick(dice, &ENVS)),
        _ => String::new(),
    };
    let max_update = match dice.below(6) {
        0 => MaxUpdate::All,
        1 => MaxUpdate::Percent(u32::try_from(1 + dice.below(100)).unwrap()),
        2 if dice.chance(20) => MaxUpdate::Count(0),
        _ => MaxUpdate::Count(u32::try_from(1 + dice.below(3)).unwrap()),
    };
    let gates = [("approval", 15), ("freeze", 25), ("soak:3s", 25)];
    let gates = gates.into_iter().filter(|(_, percent)| dice.chance(*percent));
    Step {
        max_update,
        gates: gates.map(|(gate, _)| gate.to_owned()).collect(),
        deadline: dice.chance(30).then(|| seconds(5 + dice.below(60))),
        max_failures: dice.chance(40).then(|| u32::try_from(dice.below(3)).unwrap()),
        on_failure: pick(dice, &[OnFailure::Pause, OnFailure::Abort, OnFailure::RollBack]),
        ..step(&selects)
    }
}

fn random_member(dice: &mut Rng, number: u64) -> MemberSpec {
    let mut of = String::new();
    if dice.chance(90) {
        of = format!("env={}", pick(dice, &ENVS));
    }
    if dice.chance(60) {
        of = format!("{of} tier={}", pick(dice, &TIERS));
    }
    let mut member = member(&format!("m{number:02}"), &of);
    if dice.chance(10) {
        member.before = None;
    }
    if dice.chance(10) {
        member.done_by = Some(id(1));
    }
    member
}

/// Returns a fleet with its future behavior. If `calm` is true, no user action is needed and no failure is
/// permanent.
fn random_world(seed: u64, calm: bool, weather: Disturbances) -> World {
    let mut dice = Rng(seed);
    let steps: Vec<Step> = (0..1 + dice.below(4)).map(|_| random_step(&mut dice)).collect();
    let members = (0..dice.below(14)).map(|number| random_member(&mut dice, number)).collect();
    let options = Options {
        pending_timeout: dice.chance(30).then(|| seconds(2 + dice.below(20))),
        on_pending: pick(&mut dice, &[OnPending::Hold, OnPending::Fail, OnPending::Healthy]),
        on_new_targets: pick(&mut dice, &[OnNewTargets::Supersede, OnNewTargets::Finish]),
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
    let mut world = World::new(request).with_disturbances(weather);
    // Some Applications already look Healthy at their targets, but only because of an earlier operation. Such
    // an observation must not count as evidence.
    let known = world.request.members.iter().filter(|member| member.before.is_some());
    let names: Vec<String> = known.map(|member| member.name.clone()).collect();
    for name in names.into_iter().filter(|_| dice.chance(30)) {
        let app = world.apps.get_mut(&name).unwrap();
        app.observation = observation_after(1, "new", HealthStatus::Healthy);
    }
    world.gates.insert("freeze".into(), 5_000 + i64::try_from(dice.below(20_000)).unwrap());
    for fate in world.behaviors.values_mut() {
        fate.window_until = if dice.chance(15) { 10_000 } else { 0 };
        fate.rejections = u32::try_from(dice.below(2)).unwrap();
        let time = |dice: &mut Rng| Some(i64::try_from(dice.below(4_000)).unwrap());
        fate.duration = time(&mut dice);
        fate.healthy_after = time(&mut dice);
        if calm {
            continue;
        }
        fate.failures = u32::from(dice.chance(20));
        fate.duration = fate.duration.filter(|_| !dice.chance(5));
        fate.healthy_after = fate.healthy_after.filter(|_| !dice.chance(5));
    }
    if !calm {
        schedule_random_requests(&mut world, &mut dice);
    }
    world
}

/// Schedules random user requests, commits and generated Applications.
fn schedule_random_requests(world: &mut World, dice: &mut Rng) {
    for _ in 0..dice.below(8) {
        let millis = i64::try_from(dice.below(60_000)).unwrap();
        let name = format!("m{:02}", dice.below(14));
        let scope = if dice.chance(70) {
            Scope::Member(name.clone())
        } else {
            Scope::Step(u32::try_from(dice.below(5)).unwrap())
        };
        match dice.below(12) {
            0 => world.request_at(millis, UserRequest::Pause),
            1 | 2 => world.request_at(millis, UserRequest::Resume),
            3 => world.request_at(millis, UserRequest::Skip(scope)),
            4 | 5 => world.request_at(millis, UserRequest::Retry(scope)),
            6 | 7 => world.request_at(millis, UserRequest::Approve { step: None }),
            8 => world.schedule_input(millis, Input::Gone { member: name }),
            9 => {
                let of = format!("env={}", pick(dice, &ENVS));
                let number = 20 + dice.below(4);
                let member = Box::new(MemberSpec { before: None, ..member(&format!("m{number}"), &of) });
                world.schedule_input(millis, Input::Joined { member });
            }
            10 => world.schedule_input(millis, Input::NewTargets { targets: Digest([7; 32]) }),
            _ if dice.chance(30) => world.request_at(millis, UserRequest::Terminate),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, failure_persistence: None, ..ProptestConfig::default() })]

    /// The rollout either ends, or explains what it is waiting for.
    #[test]
    fn any_rollout_ends_or_explains_what_it_awaits(seed in any::<u64>(), weather in disturbances()) {
        let mut world = random_world(seed, false, weather);
        world.run_until(10_000_000);
        let explained = explain(world.state(), at(world.now));
        let says = !explained.awaited.is_empty() || explained.paused.is_some();
        prop_assert!(world.state().is_finished() || says, "{explained}");
        // A user can end the rollout, whatever it is waiting for.
        world.request_at(world.now, UserRequest::Terminate);
        world.run_until(20_000_000);
        prop_assert!(world.state().is_finished(), "{}", world.explain());
    }

    /// If no operation fails, the rollout eventually completes, whatever the disturbances.
    #[test]
    fn a_rollout_without_failures_completes(seed in any::<u64>(), weather in disturbances()) {
        let mut world = random_world(seed, true, weather);
        world.run_until(10_000_000);
        let end = world.rollout().outcome.as_ref().map(|outcome| outcome.end);
        prop_assert_eq!(end, Some(End::Completed), "{}", world.explain());
        for (name, member) in world.rollout().members.iter().filter(|(_, member)| member.place.step.is_some()) {
            prop_assert!(world.apps[name].was_healthy, "{} is {:?}", name, member.progress);
        }
    }
}
