//! Assignment of Applications to steps, and the number of Applications updated at once. The tables cover Argo
//! CD's behavior and Tidegate's deliberate differences.

use proptest::prelude::*;
use tidegate_lifecycle::fleet::{Assignment, MaxUpdate, Operator, assign_step};

use crate::build::*;

#[test]
fn expressions_match_labels() {
    for (labels_of, expression, is_met) in [
        ("env=dev", "env in dev,qa", true),
        ("env=prod", "env in dev,qa", false),
        ("env=dev", "env not in dev,qa", false),
        ("env=prod", "env not in dev,qa", true),
        ("tier=db", "env in dev", false),
        ("tier=db", "env not in dev", true),
        ("env=dev tier=db", "env in dev;tier in db", true),
        ("env=dev tier=web", "env in dev;tier in db", false),
        // All expressions must match, so an expression can't include an Application that another expression
        // excludes.
        ("env=dev", "env in dev;env not in dev", false),
        ("env=dev", "", true),
    ] {
        let steps = [expressions(expression)];
        let place = assign_step(steps.iter().map(Vec::as_slice), &labels(labels_of));
        assert_eq!(place.step.is_some(), is_met, "{labels_of} with {expression}");
    }
}

#[test]
fn the_first_matching_step_gets_an_application() {
    let steps = ["env in dev", "tier in db", "env in dev,prod"].map(expressions);
    let place = |of: &str| assign_step(steps.iter().map(Vec::as_slice), &labels(of));
    assert_eq!(place("env=dev tier=db"), Assignment { step: Some(0), also: vec![1, 2] });
    assert_eq!(place("env=prod"), Assignment { step: Some(2), also: vec![] });
    assert_eq!(place("env=qa"), Assignment { step: None, also: vec![] });
}

#[test]
fn an_invalid_operator_is_an_error_and_selects_nothing() {
    assert_eq!("In".parse(), Ok(Operator::In));
    assert_eq!("NotIn".parse(), Ok(Operator::NotIn));
    for word in ["in", "Exists", "DoesNotExist", "notIn", ""] {
        let error = word.parse::<Operator>().unwrap_err().to_string();
        assert!(error.contains(&format!("{word:?}")) && error.contains("In or NotIn"), "{error}");
    }
}

#[test]
fn max_update_limits_the_number_in_flight() {
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
        assert_eq!(text.parse::<MaxUpdate>().unwrap().limit_for(members), at_once, "{text} of {members}");
    }
    assert_eq!(MaxUpdate::All.limit_for(7), u32::MAX);
    assert_eq!(MaxUpdate::from(-3), MaxUpdate::Count(0));
    for text in ["", "%", "ten", "-1", "+1", "1.5", "1 %", "-5%", "99999999999"] {
        let error = text.parse::<MaxUpdate>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("10%"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The expected result is computed with integer multiplication instead of division.
    #[test]
    fn a_percentage_is_rounded_down_but_never_to_zero(percent in 1_u32..=100, members in 0_u32..5_000) {
        let share = u64::from(MaxUpdate::Percent(percent).limit_for(members));
        let (percent, members) = (u64::from(percent), u64::from(members));
        prop_assert!(share == 1 || share * 100 <= percent * members);
        prop_assert!((share + 1) * 100 > percent * members);
    }
}
