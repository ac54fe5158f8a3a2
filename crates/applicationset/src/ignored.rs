//! Warnings about ApplicationSet settings that have no effect.

use tidegate_model::annotations::known_keys::{self, AnnotationSubject};
use tidegate_model::argo::{ApplicationSet, IntOrString};

use crate::deletion_order::{DELETION_SYNC_ANNOTATION, has_custom_order};
use crate::rollout::ROLLOUT_ANNOTATION;
use crate::sync_policy::{AppSetRuleOptions, rolling_steps};

/// Maximum number of annotations listed in a message.
const NAMES_SHOWN_MAX: usize = 10;

/// Valid strategies.
const STRATEGIES: [&str; 2] = ["AllAtOnce", "RollingSync"];

/// Returns a message for each setting that has no effect, with the reason.
pub fn ignored_settings(set: &ApplicationSet, options: &AppSetRuleOptions) -> Vec<String> {
    let unknown = set.unknown_fields();
    let unknown =
        (!unknown.is_empty()).then(|| format!("these fields have no effect: {}", unknown.join(", ")));
    let rest = [
        ineffective_strategy(set, options),
        ineffective_rollout_annotation(set),
        ineffective_deletion_steps(set),
    ];
    let all = unknown.into_iter().chain(ineffective_annotations(set)).chain(rest.into_iter().flatten());
    all.chain(negative_max_updates(set)).collect()
}

/// Returns a message for each step with a negative `maxUpdate`. As in Argo CD, that counts as 0, so users
/// must sync the Applications one by one.
fn negative_max_updates(set: &ApplicationSet) -> Vec<String> {
    let Some(strategy) = &set.spec.strategy else { return Vec::new() };
    let rolling = strategy.rolling_sync.iter().map(|sync| ("rollingSync", "synced", &sync.steps));
    let deletion = strategy.deletion_sync.iter().map(|sync| ("deletionSync", "deleted", &sync.steps));
    let all = rolling.chain(deletion).flat_map(|(field, done, steps)| {
        steps.iter().enumerate().filter_map(move |(index, step)| match step.max_update {
            Some(IntOrString::Int(count)) if count < 0 => Some(format!(
                "spec.strategy.{field}.steps[{index}].maxUpdate is {count} and is treated as 0, so the \
                 Applications in this step must be {done} manually; use 0, a positive number or a percentage"
            )),
            _ => None,
        })
    });
    all.collect()
}

/// Returns a message for each annotation that looks like a known one but has no effect on an ApplicationSet.
fn ineffective_annotations(set: &ApplicationSet) -> impl Iterator<Item = String> {
    let names = set.metadata.annotations.keys();
    names
        .filter_map(|name| known_keys::ineffective_key_warning(name, AnnotationSubject::ApplicationSet))
        .take(NAMES_SHOWN_MAX)
}

/// Returns the reason the strategy has no effect, if any.
fn ineffective_strategy(set: &ApplicationSet, options: &AppSetRuleOptions) -> Option<String> {
    let strategy = set.spec.strategy.as_ref()?;
    let kind = strategy.kind.as_str();
    let has_steps = strategy.rolling_sync.as_ref().is_some_and(|rolling| !rolling.steps.is_empty());
    let each = "each Application is synced according to its own policy";
    if !kind.is_empty() && !STRATEGIES.contains(&kind) {
        let known = STRATEGIES.join(" or ");
        return Some(format!("spec.strategy.type {kind:?} is unknown, so {each}; use {known}"));
    }
    match (kind == "RollingSync", has_steps) {
        (true, false) => Some(format!(
            "spec.strategy.type is RollingSync, but spec.strategy.rollingSync has no steps, so {each}"
        )),
        (true, true) if !options.progressive_syncs => Some(format!(
            "progressive syncs are disabled in this service, so the steps of spec.strategy.rollingSync have no effect and {each}"
        )),
        (false, true) => Some(format!(
            "spec.strategy.rollingSync has no effect without spec.strategy.type RollingSync, so {each}"
        )),
        _ => None,
    }
}

/// Returns a message if there are rollout settings but no steps.
fn ineffective_rollout_annotation(set: &ApplicationSet) -> Option<String> {
    let is_annotated = set.metadata.annotations.contains_key(ROLLOUT_ANNOTATION);
    (is_annotated && rolling_steps(set).is_empty()).then(|| {
        format!(
            "the {ROLLOUT_ANNOTATION} annotation has no effect without spec.strategy.type RollingSync and \
             steps"
        )
    })
}

/// Returns a message about unused deletion steps.
fn ineffective_deletion_steps(set: &ApplicationSet) -> Option<String> {
    let strategy = set.spec.strategy.as_ref();
    let in_spec = strategy
        .and_then(|strategy| strategy.deletion_sync.as_ref())
        .is_some_and(|deletion| !deletion.steps.is_empty());
    let is_annotated = set.metadata.annotations.contains_key(DELETION_SYNC_ANNOTATION);
    let annotation = format!("the {DELETION_SYNC_ANNOTATION} annotation");
    let without_order = "no effect without spec.strategy.deletionOrder Custom";
    match (has_custom_order(set), in_spec, is_annotated) {
        (true, true, true) => {
            Some(format!("{annotation} has no effect because spec.strategy.deletionSync has steps"))
        }
        (false, true, true) => {
            Some(format!("spec.strategy.deletionSync and {annotation} have {without_order}"))
        }
        (false, true, false) => Some(format!("spec.strategy.deletionSync has {without_order}")),
        (false, false, true) => Some(format!("{annotation} has {without_order}")),
        _ => None,
    }
}
