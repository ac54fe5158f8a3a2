//! Applications that leave the set while it is rolled out: the record has them, with how far they were.

use tidegate_lifecycle::rollout::{Input, left};

use super::*;

fn gone(world: &mut World, millis: i64, name: &str) {
    world.at(millis, Input::Gone { member: name.into() });
}

#[test]
fn who_leaves_a_set_while_it_is_rolled_out_stays_in_the_record_with_how_far_they_were() {
    let mut world = World::new(fleet());
    world.fate("qa-a").takes = None;
    for name in ["dev-a", "dev-b", "prod-a", "qa-a"] {
        gone(&mut world, 5_000, name);
    }
    // This one comes back, and is a member like the others.
    world.at(5_500, Input::Joined { member: Box::new(member("dev-b", "env=dev")) });
    world.run();
    assert_eq!(end(&world), Some(End::Completed));
    let told = left(&world.durable).unwrap();
    let lines: Vec<String> = told
        .iter()
        .map(|one| {
            let (status, has_operation) = (one.status.unwrap(), one.operation.is_some());
            format!("{} of {}, {status:?}, {has_operation}: {}", one.application, one.step, one.message)
        })
        .collect();
    assert_eq!(
        lines,
        [
            "dev-a of 1, Healthy, true: left the ApplicationSet after it had reached its target and was Healthy",
            "prod-a of 3, Waiting, false: left the ApplicationSet before its turn came",
            "qa-a of 2, Progressing, true: left the ApplicationSet while its sync was under way",
        ]
    );
    assert!(told.iter().all(|one| one.at >= at(5) && one.target_revisions == ["new"]), "{told:#?}");
    assert!(world.message().contains("left the ApplicationSet: dev-a, prod-a, qa-a"), "{}", world.message());
    // The state has their names; its members are those that the set has.
    let shown = view(world.state()).unwrap();
    let names: Vec<&str> = shown.left.iter().map(|one| one.application.as_str()).collect();
    assert_eq!(names, ["dev-a", "prod-a", "qa-a"]);
    assert!(shown.members.iter().all(|one| !names.contains(&one.application.as_str())));
}

#[test]
fn a_rollout_that_nobody_leaves_names_nobody() {
    let mut world = World::new(fleet());
    world.run();
    assert_eq!(left(&world.durable).unwrap(), []);
    assert_eq!(view(world.state()).unwrap().left, []);
}
