//! What becomes of the namespaces that an operation writes into.

use tidegate_model::{Plan, Timestamp};

use crate::operation::fact::Fact;
use crate::operation::input::NamespaceSight;
use crate::operation::judge::is_older;
use crate::operation::rules::namespaces_of;
use crate::operation::state::{Identity, Loss, Operation, Stage, WaveStep};
use crate::operation::{follow, messages};

/// What was seen of them for a plan, which is fixed with this: what it writes into, and whether it may begin.
pub(super) fn planned(plan: &Plan, sights: &[NamespaceSight], now: Timestamp) -> Vec<Fact> {
    let names = namespaces_of(plan);
    let wanted = || sights.iter().filter(|sight| names.contains(&sight.name));
    let mut facts: Vec<Fact> = seen(wanted()).into_iter().collect();
    // What is not valid fails anyway, and needs no other reason.
    let going = wanted().find(|sight| sight.terminating).filter(|_| plan.errors().is_empty());
    facts.extend(going.into_iter().flat_map(|sight| lost_already(&sight.name, Loss::Terminating, now)));
    facts
}

/// One of them was seen.
pub(super) fn one_seen(operation: &Operation, sight: &NamespaceSight, now: Timestamp) -> Vec<Fact> {
    match loss(operation, sight) {
        Some(loss) => lost(operation, &sight.name, loss, now),
        None if operation.current_wave().is_some() && is_new(operation, sight) => {
            seen(std::iter::once(sight)).into_iter().collect()
        }
        None => Vec::new(),
    }
}

/// The look that a wave ends with; `None` when nobody awaits it.
pub(super) fn all_seen(
    operation: &Operation,
    sights: &[NamespaceSight],
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let (index, step) = operation.current_wave()?;
    let is_decided = operation.wave_expired.is_some() || operation.failure.is_some();
    if step != WaveStep::Verifying || is_decided || operation.header.paused.is_some() {
        return None;
    }
    let mut losses = sights.iter().filter_map(|sight| Some((sight, loss(operation, sight)?)));
    let lost = losses.next().map(|(sight, loss)| lost(operation, &sight.name, loss, now));
    Some(lost.unwrap_or_else(|| follow::verified(operation, index, now)))
}

fn seen<'a>(sights: impl Iterator<Item = &'a NamespaceSight>) -> Option<Fact> {
    let there = |sight: &NamespaceSight| Some((sight.name.clone(), sight.found.clone()?));
    let namespaces: Vec<(String, Identity)> =
        sights.filter(|sight| !sight.terminating).filter_map(there).collect();
    (!namespaces.is_empty()).then_some(Fact::NamespacesSeen { namespaces })
}

fn is_new(operation: &Operation, sight: &NamespaceSight) -> bool {
    operation.namespaces.contains(&sight.name) && operation.seen_namespaces.get(&sight.name).is_none()
}

/// What a sight says has become of a namespace that the operation writes into; `None` where all is well, or the sight is
/// older than what is known.
fn loss(operation: &Operation, sight: &NamespaceSight) -> Option<Loss> {
    if !operation.namespaces.contains(&sight.name) {
        return None;
    }
    let known = operation.seen_namespaces.get(&sight.name);
    let Some(found) = &sight.found else {
        // One that was never there may still come with the operation.
        return (known.is_some() || has_written(operation, &sight.name)).then_some(Loss::Gone);
    };
    let is_other = known.is_some_and(|known| known.uid != found.uid);
    let is_old = known.is_some_and(|known| is_older(&found.resource_version, &known.resource_version));
    match (sight.terminating, is_other) {
        _ if is_old => None,
        (true, _) => Some(Loss::Terminating),
        (false, true) => Some(Loss::MadeAgain),
        (false, false) => None,
    }
}

fn has_written(operation: &Operation, namespace: &str) -> bool {
    let written = |task: &tidegate_model::Task| task.namespace == namespace && !task.action.is_prune();
    operation.all_tasks().any(|(_, task, state)| written(task) && state.applied.is_some())
}

/// One of them is lost. What fails anyway needs no other reason.
fn lost(operation: &Operation, name: &str, loss: Loss, at: Timestamp) -> Vec<Fact> {
    if operation.failure.is_some() || operation.wave_expired.is_some() {
        return Vec::new();
    }
    match operation.stage {
        Stage::Planned | Stage::DryRun => lost_already(name, loss, at),
        Stage::Wave { index, .. } if !operation.is_sync_fail(index) => {
            vec![Fact::NamespaceLost { namespace: name.to_owned(), loss, at }]
        }
        _ => Vec::new(),
    }
}

/// The same, before anything was put there.
fn lost_already(name: &str, loss: Loss, at: Timestamp) -> Vec<Fact> {
    let message = messages::namespace_lost_already(name, loss);
    vec![
        Fact::NamespaceLost { namespace: name.to_owned(), loss, at },
        Fact::AttemptFailed { message, retriable: true, at },
    ]
}
