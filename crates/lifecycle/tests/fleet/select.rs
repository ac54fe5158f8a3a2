//! Who is in which step, and how many at once: the tables of Argo CD, and where we differ on purpose.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{Assignment, MaxUpdate, Operator, assign};

use crate::build::*;

#[test]
fn a_label_meets_an_expression_or_does_not() {
    for (labels_of, expression, is_met) in [
        ("env=dev", "env in dev,qa", true),
        ("env=prod", "env in dev,qa", false),
        ("env=dev", "env not in dev,qa", false),
        ("env=prod", "env not in dev,qa", true),
        ("tier=db", "env in dev", false),
        ("tier=db", "env not in dev", true),
        ("env=dev tier=db", "env in dev;tier in db", true),
        ("env=dev tier=web", "env in dev;tier in db", false),
        // What one excludes, no other brings back.
        ("env=dev", "env in dev;env not in dev", false),
        ("env=dev", "", true),
    ] {
        let steps = [expressions(expression)];
        let place = assign(steps.iter().map(Vec::as_slice), &labels(labels_of));
        assert_eq!(place.step.is_some(), is_met, "{labels_of} with {expression}");
    }
}

#[test]
fn the_first_step_that_selects_an_application_gets_it() {
    let steps = ["env in dev", "tier in db", "env in dev,prod"].map(expressions);
    let place = |of: &str| assign(steps.iter().map(Vec::as_slice), &labels(of));
    assert_eq!(place("env=dev tier=db"), Assignment { step: Some(0), also: vec![1, 2] });
    assert_eq!(place("env=prod"), Assignment { step: Some(2), also: vec![] });
    assert_eq!(place("env=qa"), Assignment { step: None, also: vec![] });
}

#[test]
fn an_operator_that_is_none_is_an_error_and_selects_nobody() {
    assert_eq!("In".parse(), Ok(Operator::In));
    assert_eq!("NotIn".parse(), Ok(Operator::NotIn));
    for word in ["in", "Exists", "DoesNotExist", "notIn", ""] {
        let error = word.parse::<Operator>().unwrap_err().to_string();
        assert!(error.contains(&format!("{word:?}")) && error.contains("In or NotIn"), "{error}");
    }
}

#[test]
fn so_many_at_once() {
    for (text, members, at_once) in [
        ("3", 10, 3),
        ("0", 10, 0),
        ("10%", 10, 1),
        ("10%", 19, 1),
        ("10%", 20, 2),
        ("33%", 10, 3),
        ("1%", 10, 1),
        ("100%", 10, 10),
        ("0%", 10, 0),
        ("50%", 0, 1),
        ("10%", 1_000, 100),
    ] {
        assert_eq!(text.parse::<MaxUpdate>().unwrap().of(members), at_once, "{text} of {members}");
    }
    assert_eq!(MaxUpdate::All.of(7), u32::MAX);
    assert_eq!(MaxUpdate::from(-3), MaxUpdate::Count(0));
    for text in ["", "%", "ten", "-1", "+1", "1.5", "1 %", "-5%", "99999999999"] {
        let error = text.parse::<MaxUpdate>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("10%"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Rounded down, and never to nothing: held against whole numbers that are multiplied out.
    #[test]
    fn a_share_is_the_largest_number_that_is_not_too_many(percent in 1_u32..=100, members in 0_u32..5_000) {
        let share = u64::from(MaxUpdate::Percent(percent).of(members));
        let (percent, members) = (u64::from(percent), u64::from(members));
        prop_assert!(share == 1 || share * 100 <= percent * members);
        prop_assert!((share + 1) * 100 > percent * members);
    }
}
