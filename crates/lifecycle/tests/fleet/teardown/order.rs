//! Who is deleted when.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::teardown::{Order, Selection};

use crate::build::*;

pub fn selection(of: &str) -> Selection {
    Selection { expressions: expressions(of), max_update: MaxUpdate::All }
}

fn steps() -> Vec<Selection> {
    ["env in dev", "tier in db", "env in prod,dev"].map(selection).into()
}

#[test]
fn an_application_is_deleted_with_its_step() {
    let orders = [Order::AllAtOnce, Order::reverse(steps()), Order::Custom { steps: steps() }];
    for (of, expected) in [
        ("env=dev", [0, 2, 0]),
        // The first step of the rollout that selects it, also backwards.
        ("env=dev tier=db", [0, 2, 0]),
        ("env=qa tier=db", [0, 1, 1]),
        ("env=prod", [0, 0, 2]),
        // What no step selects comes last.
        ("env=qa", [0, 3, 3]),
        ("", [0, 3, 3]),
    ] {
        let found = orders.each_ref().map(|order| order.place(&labels(of)).step.unwrap());
        assert_eq!(found, expected, "{of}");
    }
    let words = |order: &Order| (0..order.step_count()).map(|step| order.words(step)).collect::<Vec<_>>();
    assert_eq!(words(&orders[0]), ["all Applications"]);
    assert_eq!(
        words(&orders[1]),
        ["env in (prod, dev)", "tier in (db)", "env in (dev)", "those that no step selects"]
    );
    assert_eq!(
        words(&orders[2]),
        ["env in (dev)", "tier in (db)", "env in (prod, dev)", "those that no step selects"]
    );
}

#[test]
fn so_many_of_a_step_at_once() {
    let mut steps = steps();
    steps[0].max_update = MaxUpdate::Count(2);
    assert_eq!(Order::AllAtOnce.max_update(0), MaxUpdate::All);
    let (reverse, custom) = (Order::reverse(steps.clone()), Order::Custom { steps });
    // Argo CD deletes one by one, and a step's maxUpdate of the rollout may be 0.
    assert_eq!([0, 2, 3].map(|step| reverse.max_update(step)), [MaxUpdate::Count(1); 3]);
    assert_eq!(custom.max_update(0), MaxUpdate::Count(2));
    assert_eq!([1, 3].map(|step| custom.max_update(step)), [MaxUpdate::All; 2]);
}
