//! What does a set say that has no effect? It is told, because whoever wrote it counts on it.

use tidegate_model::annotations::{DELETION_REQUESTED_BY, TIDEGATE_PREFIX};
use tidegate_model::argo::ApplicationSet;

use crate::guard::approval::APPROVAL_ANNOTATION;
use crate::guard::{DELETIONS_APPROVED_ANNOTATION, MAX_DELETIONS_ANNOTATION};
use crate::order::{DELETION_SYNC_ANNOTATION, is_custom};
use crate::policy::{Options, rolling_steps};
use crate::retry::RETRY_ANNOTATION;
use crate::rollout::ROLLOUT_ANNOTATION;

/// What may be said of a set by an annotation of ours.
const ANNOTATIONS: [&str; 5] = [
    ROLLOUT_ANNOTATION,
    DELETION_SYNC_ANNOTATION,
    MAX_DELETIONS_ANNOTATION,
    DELETIONS_APPROVED_ANNOTATION,
    APPROVAL_ANNOTATION,
];

/// The strategies there are.
const STRATEGIES: [&str; 2] = ["AllAtOnce", "RollingSync"];

/// What a set says that has no effect, and why, a sentence for each.
pub fn unheeded(set: &ApplicationSet, options: &Options) -> Vec<String> {
    let unknown = set.unknown_fields();
    let unknown =
        (!unknown.is_empty()).then(|| format!("these fields have no effect: {}", unknown.join(", ")));
    let all = [unknown, annotations(set), strategy(set, options), extras(set), deletion_steps(set)];
    all.into_iter().flatten().collect()
}

/// Annotations of ours that no set has.
fn annotations(set: &ApplicationSet) -> Option<String> {
    let names = set.metadata.annotations.keys();
    let unknown: Vec<&str> = names
        .filter(|name| name.starts_with(TIDEGATE_PREFIX) && !ANNOTATIONS.contains(&name.as_str()))
        // Nobody writes these by hand.
        .filter(|name| ![DELETION_REQUESTED_BY, RETRY_ANNOTATION].contains(&name.as_str()))
        .map(String::as_str)
        .collect();
    let known = || ANNOTATIONS.join(", ");
    (!unknown.is_empty()).then(|| {
        format!(
            "these annotations of an ApplicationSet have no effect: {}; known are {}",
            unknown.join(", "),
            known()
        )
    })
}

/// Why its Applications are not synced step by step, though it seems to ask for that.
fn strategy(set: &ApplicationSet, options: &Options) -> Option<String> {
    let strategy = set.spec.strategy.as_ref()?;
    let kind = strategy.kind.as_str();
    let has_steps = strategy.rolling_sync.as_ref().is_some_and(|rolling| !rolling.steps.is_empty());
    let each = "each Application is synced by its own policy";
    if !kind.is_empty() && !STRATEGIES.contains(&kind) {
        let known = STRATEGIES.join(" or ");
        return Some(format!("spec.strategy.type {kind:?} is not known, so {each}; write {known}"));
    }
    match (kind == "RollingSync", has_steps) {
        (true, false) => Some(format!(
            "spec.strategy.type is RollingSync, and spec.strategy.rollingSync has no steps, so {each}"
        )),
        (true, true) if !options.progressive_syncs => Some(format!(
            "progressive syncs are switched off in this service, so the steps of spec.strategy.rollingSync have no effect and {each}"
        )),
        (false, true) => Some(format!(
            "spec.strategy.rollingSync has no effect without spec.strategy.type RollingSync, so {each}"
        )),
        _ => None,
    }
}

/// What is said of the steps of a rollout, where there are none.
fn extras(set: &ApplicationSet) -> Option<String> {
    let is_annotated = set.metadata.annotations.contains_key(ROLLOUT_ANNOTATION);
    (is_annotated && rolling_steps(set).is_empty()).then(|| {
        format!(
            "the annotation {ROLLOUT_ANNOTATION} has no effect without spec.strategy.type RollingSync and steps"
        )
    })
}

/// Steps of a deletion that nobody looks at.
fn deletion_steps(set: &ApplicationSet) -> Option<String> {
    let strategy = set.spec.strategy.as_ref();
    let in_spec = strategy
        .and_then(|strategy| strategy.deletion_sync.as_ref())
        .is_some_and(|deletion| !deletion.steps.is_empty());
    let is_annotated = set.metadata.annotations.contains_key(DELETION_SYNC_ANNOTATION);
    let annotation = format!("the annotation {DELETION_SYNC_ANNOTATION}");
    let without_order = "no effect without spec.strategy.deletionOrder Custom";
    match (is_custom(set), in_spec, is_annotated) {
        (true, true, true) => {
            Some(format!("{annotation} has no effect beside the steps of spec.strategy.deletionSync"))
        }
        (false, true, true) => {
            Some(format!("spec.strategy.deletionSync and {annotation} have {without_order}"))
        }
        (false, true, false) => Some(format!("spec.strategy.deletionSync has {without_order}")),
        (false, false, true) => Some(format!("{annotation} has {without_order}")),
        _ => None,
    }
}
