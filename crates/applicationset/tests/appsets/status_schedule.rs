//! The schedule of an ApplicationSet's status.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tidegate_applicationset::status_schedule::{StatusAction, StatusSchedule};
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSet;

use crate::{appset, at};

/// Returns an ApplicationSet with this number of resources in its status.
fn with_status(resources: i64) -> ApplicationSet {
    let mut set = appset(&json!({}));
    set.status.resources_count = resources;
    set
}

fn written(set: &ApplicationSet) -> StatusSchedule {
    let mut schedule = StatusSchedule::default();
    schedule.finish_write(set, at(0));
    schedule
}

fn millis(millis: u64) -> Timestamp {
    at(0) + Duration::from_millis(millis)
}

#[test]
fn the_status_is_computed_at_intervals() {
    let mut schedule = StatusSchedule::default();
    assert_eq!(schedule.start_computation(at(0)), Ok(()));
    assert_eq!(schedule.start_computation(at(0)), Ok(()), "nothing was written yet");
    schedule.finish_write(&with_status(1), at(0));
    assert_eq!(schedule.start_computation(millis(199)), Err(millis(200)));
    assert_eq!(schedule.start_computation(millis(200)), Ok(()));
    assert_eq!(schedule.start_computation(millis(201)), Err(millis(400)));
    schedule.expedite();
    assert_eq!(schedule.start_computation(millis(201)), Ok(()));
}

#[test]
fn only_a_changed_status_is_written() {
    let before = with_status(1);
    let mut relabeled = before.clone();
    relabeled.metadata.labels.insert("team".to_owned(), "shop".to_owned());
    let write = StatusAction::PublishAndWrite;
    for (name, set, is_rollout_same, is_shared, members, at_millis, expected) in [
        ("no change", &before, true, true, 1, 0, StatusAction::Nothing),
        ("a change of the rollout alone", &before, false, true, 1, 0, StatusAction::Publish),
        ("a change of the labels", &relabeled, true, true, 1, 0, StatusAction::Publish),
        ("a changed status", &with_status(2), true, true, 1, 1000, write),
        ("too early", &with_status(2), true, true, 1, 999, StatusAction::PublishAndWait(millis(1000))),
        ("a file has no other readers", &with_status(2), true, false, 1, 0, write),
        (
            "500 Applications",
            &with_status(2),
            true,
            true,
            500,
            4999,
            StatusAction::PublishAndWait(millis(5000)),
        ),
        ("many Applications", &with_status(2), true, true, 100_000, 10_000, write),
    ] {
        let mut schedule = written(&before);
        let now = millis(at_millis);
        assert_eq!(schedule.decide(set, is_rollout_same, is_shared, members, now), expected, "{name}");
        // A published state isn't published again.
        if expected == StatusAction::Publish {
            assert_eq!(schedule.decide(set, true, is_shared, members, now), StatusAction::Nothing, "{name}");
        }
    }
    // A status that changes back before it was written is published again.
    let mut schedule = written(&before);
    let wait = StatusAction::PublishAndWait(millis(1000));
    assert_eq!(schedule.decide(&with_status(2), true, true, 1, millis(300)), wait);
    assert_eq!(schedule.decide(&before, true, true, 1, millis(600)), StatusAction::Publish);
    assert_eq!(schedule.decide(&before, true, true, 1, millis(900)), StatusAction::Nothing);
    let mut first = StatusSchedule::default();
    assert_eq!(first.decide(&before, true, true, 1, at(0)), write, "the first status");
    assert!(!first.is_ended());
    first.end();
    assert!(first.is_ended());
}

proptest! {
    /// The newest status reaches the store after any sequence of changes and failed writes, and the schedule
    /// then becomes quiet. Successful writes keep their distance.
    #[test]
    fn the_newest_status_is_written(
        changes in prop::collection::vec((0..4i64, 0..800u64, any::<bool>()), 1..40),
        is_shared in any::<bool>(),
    ) {
        let (mut schedule, mut stored, mut published) = (StatusSchedule::default(), None, None);
        let (mut now, mut alarm, mut last_write) = (at(0), None, None);
        let count = changes.len();
        let rest = std::iter::repeat_n((0, 0, true), 8);
        for (index, (resources, elapsed, succeeds)) in changes.iter().copied().chain(rest).enumerate() {
            let set = match index < count {
                true => with_status(resources),
                false => with_status(changes[count - 1].0),
            };
            now = now + Duration::from_millis(elapsed);
            if index >= count {
                // No change follows, so only the alarm leads to another step.
                let Some(at) = alarm.take() else { break };
                now = now.max(at);
            }
            if let Err(later) = schedule.start_computation(now) {
                alarm = Some(later);
                continue;
            }
            let action = schedule.decide(&set, true, is_shared, 1, now);
            if action != StatusAction::Nothing {
                published = Some(set.clone());
            }
            match action {
                StatusAction::Nothing | StatusAction::Publish => {}
                StatusAction::PublishAndWait(later) => alarm = Some(later),
                StatusAction::PublishAndWrite if succeeds => {
                    let distance = last_write.map(|last| now.since(last));
                    let is_far = distance.is_none_or(|distance| distance >= Duration::from_secs(1));
                    prop_assert!(!is_shared || is_far, "{distance:?}");
                    schedule.finish_write(&set, now);
                    (stored, last_write) = (Some(set), Some(now));
                }
                StatusAction::PublishAndWrite => alarm = Some(now + Duration::from_secs(5)),
            }
        }
        let newest = with_status(changes[count - 1].0);
        prop_assert_eq!(stored.as_ref(), Some(&newest));
        prop_assert_eq!(published.as_ref(), Some(&newest));
        prop_assert_eq!(alarm, None, "the schedule becomes quiet");
    }
}
