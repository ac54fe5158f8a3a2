//! Who is deleted when.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::teardown::{InvalidOrder, Order, Selection};

use crate::build::*;

pub fn selection(of: &str) -> Selection {
    Selection { expressions: expressions(of), max_update: MaxUpdate::All }
}

fn steps() -> Vec<Selection> {
    ["env in dev", "tier in db", "env in prod,dev"].map(selection).into()
}

#[test]
fn an_application_is_deleted_with_its_step() {
    let orders = ["AllAtOnce", "Reverse", "Custom"].map(|word| Order::of(word, &steps(), &steps()).unwrap());
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
    let at_once = |word: &str, step| Order::of(word, &steps, &steps).unwrap().max_update(step);
    assert_eq!(at_once("AllAtOnce", 0), MaxUpdate::All);
    // Argo CD deletes one by one, and a step's maxUpdate of the rollout may be 0.
    assert_eq!([0, 2, 3].map(|step| at_once("Reverse", step)), [MaxUpdate::Count(1); 3]);
    assert_eq!(at_once("Custom", 0), MaxUpdate::Count(2));
    assert_eq!([1, 3].map(|step| at_once("Custom", step)), [MaxUpdate::All; 2]);
}

#[test]
fn an_order_that_cannot_be_made_is_an_error() {
    let of = |word: &str| Order::of(word, &[], &[]);
    assert_eq!(of(""), Ok(Order::AllAtOnce));
    assert_eq!(of("allatonce"), Ok(Order::AllAtOnce));
    assert_eq!(of("reverse"), Err(InvalidOrder::NothingToReverse));
    assert_eq!(of("Custom"), Err(InvalidOrder::NoSteps));
    for (word, says) in [
        ("Reverse", "RollingSync with at least one step"),
        ("Custom", "tidegate.dev/deletion-sync"),
        ("Backwards", "\"Backwards\" is not known; write AllAtOnce, Reverse or Custom"),
    ] {
        let error = of(word).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
