//! Applications that leave the ApplicationSet during its rollout, and are listed with their progress.

use tidegate_lifecycle::rollout::{Input, departed_members};

use super::*;

fn remove_member(world: &mut World, millis: i64, name: &str) {
    world.schedule_input(millis, Input::Gone { member: name.into() });
}

#[test]
fn departed_applications_stay_in_the_record_with_their_progress() {
    let mut world = World::new(fleet_request());
    world.behavior("qa-a").duration = None;
    for name in ["dev-a", "dev-b", "prod-a", "qa-a"] {
        remove_member(&mut world, 5_000, name);
    }
    // This Application comes back, so it must not be listed as departed.
    world.schedule_input(5_500, Input::Joined { member: Box::new(member("dev-b", "env=dev")) });
    world.run();
    assert_eq!(rollout_end(&world), Some(End::Completed));
    let departed = departed_members(&world.durable).unwrap();
    let lines: Vec<String> = departed
        .iter()
        .map(|one| {
            let (status, has_operation) = (one.status.unwrap(), one.operation.is_some());
            format!("{} of {}, {status:?}, {has_operation}: {}", one.application, one.step, one.message)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "dev-a of 1, Healthy, true: left the ApplicationSet after it reached its target and became Healthy",
            "prod-a of 3, Waiting, false: left the ApplicationSet before its turn came",
            "qa-a of 2, Progressing, true: left the ApplicationSet while its sync was running",
        ]
    );
    assert!(departed.iter().all(|one| one.at >= at(5) && one.target_revisions == ["new"]), "{departed:#?}");
    assert!(world.message().contains("left the ApplicationSet: dev-a, prod-a, qa-a"), "{}", world.message());
    // The view lists Applications that left separately. Its members are the ApplicationSet's current
    // Applications.
    let shown = view(world.state()).unwrap();
    let names: Vec<&str> = shown.left.iter().map(|one| one.application.as_str()).collect();
    assert_eq!(names, ["dev-a", "prod-a", "qa-a"]);
    assert!(shown.members.iter().all(|one| !names.contains(&one.application.as_str())));
}

#[test]
fn a_rollout_without_departures_lists_none() {
    let mut world = World::new(fleet_request());
    world.run();
    assert_eq!(departed_members(&world.durable).unwrap(), []);
    assert_eq!(view(world.state()).unwrap().left, []);
}
