//! Tests of the order of deletion.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::teardown::{Order, Selection};

use crate::build::*;

pub fn selection_of(of: &str) -> Selection {
    Selection { expressions: expressions(of), max_update: MaxUpdate::All }
}

fn steps() -> Vec<Selection> {
    ["env in dev", "tier in db", "env in prod,dev"].map(selection_of).into()
}

#[test]
fn an_application_is_deleted_with_its_step() {
    let orders = [Order::AllAtOnce, Order::reverse(steps()), Order::Custom { steps: steps() }];
    for (of, expected) in [
        ("env=dev", [0, 2, 0]),
        // Even in reverse order, an Application is in the first rollout step that selects it.
        ("env=dev tier=db", [0, 2, 0]),
        ("env=qa tier=db", [0, 1, 1]),
        ("env=prod", [0, 0, 2]),
        // Applications that no step selects come last.
        ("env=qa", [0, 3, 3]),
        ("", [0, 3, 3]),
    ] {
        let found = orders.each_ref().map(|order| order.assign_step(&labels(of)).step.unwrap());
        assert_eq!(found, expected, "{of}");
    }
    let text =
        |order: &Order| (0..order.step_count()).map(|step| order.describe_selector(step)).collect::<Vec<_>>();
    assert_eq!(text(&orders[0]), ["all Applications"]);
    assert_eq!(
        text(&orders[1]),
        ["env in (prod, dev)", "tier in (db)", "env in (dev)", "Applications that no step selects"]
    );
    assert_eq!(
        text(&orders[2]),
        ["env in (dev)", "tier in (db)", "env in (prod, dev)", "Applications that no step selects"]
    );
}

#[test]
fn max_update_limits_deletions_of_a_step() {
    let mut steps = steps();
    steps[0].max_update = MaxUpdate::Count(2);
    assert_eq!(Order::AllAtOnce.max_update(0), MaxUpdate::All);
    let (reverse, custom) = (Order::reverse(steps.clone()), Order::Custom { steps });
    // A reverse deletion ignores the rollout steps' `maxUpdate`, which may be 0. As in Argo CD, Applications
    // are deleted one by one.
    assert_eq!([0, 2, 3].map(|step| reverse.max_update(step)), [MaxUpdate::Count(1); 3]);
    assert_eq!(custom.max_update(0), MaxUpdate::Count(2));
    assert_eq!([1, 3].map(|step| custom.max_update(step)), [MaxUpdate::All; 2]);
}
