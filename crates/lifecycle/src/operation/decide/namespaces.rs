//! Checks of the namespaces that an operation writes to.

use tidegate_model::{Plan, Timestamp};

use crate::operation::input::NamespaceObservation;
use crate::operation::judgment::is_older_version;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::rules::target_namespaces;
use crate::operation::state::{Loss, ObjectIdentity, Operation, Stage, WaveStep};
use crate::operation::{advance, messages};

/// Handles the namespaces observed during planning. Fails the attempt if one of them is being deleted.
pub(super) fn handle_planned_namespaces(
    plan: &Plan,
    observations: &[NamespaceObservation],
    now: Timestamp,
) -> Vec<OperationEvent> {
    let names = target_namespaces(plan);
    let relevant = || observations.iter().filter(|observation| names.contains(&observation.name));
    let mut events: Vec<OperationEvent> = namespaces_observed_event(relevant()).into_iter().collect();
    // An invalid plan fails for its own reason.
    let terminating =
        relevant().find(|observation| observation.is_terminating).filter(|_| plan.errors().is_empty());
    events.extend(
        terminating
            .into_iter()
            .flat_map(|observation| handle_early_loss(&observation.name, Loss::Terminating, now)),
    );
    events
}

/// Handles an observation of one namespace during the operation.
pub(super) fn handle_namespace(
    operation: &Operation,
    observation: &NamespaceObservation,
    now: Timestamp,
) -> Vec<OperationEvent> {
    match find_loss(operation, observation) {
        Some(loss) => handle_loss(operation, &observation.name, loss, now),
        None if operation.current_wave().is_some() && is_new(operation, observation) => {
            namespaces_observed_event(std::iter::once(observation)).into_iter().collect()
        }
        None => Vec::new(),
    }
}

/// Handles the namespaces read at the end of a wave. Returns `None` if the operation isn't waiting for them.
pub(super) fn handle_namespace_check(
    operation: &Operation,
    observations: &[NamespaceObservation],
    now: Timestamp,
) -> Option<Vec<OperationEvent>> {
    let (index, step) = operation.current_wave()?;
    let is_decided = operation.wave_expired.is_some() || operation.failure.is_some();
    if step != WaveStep::Verifying || is_decided || operation.header.paused.is_some() {
        return None;
    }
    let mut losses =
        observations.iter().filter_map(|observation| Some((observation, find_loss(operation, observation)?)));
    let lost = losses.next().map(|(observation, loss)| handle_loss(operation, &observation.name, loss, now));
    Some(lost.unwrap_or_else(|| advance::end_verified_wave(operation, index, now)))
}

fn namespaces_observed_event<'a>(
    observations: impl Iterator<Item = &'a NamespaceObservation>,
) -> Option<OperationEvent> {
    let there =
        |observation: &NamespaceObservation| Some((observation.name.clone(), observation.identity.clone()?));
    let namespaces: Vec<(String, ObjectIdentity)> =
        observations.filter(|observation| !observation.is_terminating).filter_map(there).collect();
    (!namespaces.is_empty()).then_some(OperationEvent::NamespacesObserved { namespaces })
}

fn is_new(operation: &Operation, observation: &NamespaceObservation) -> bool {
    operation.namespaces.contains(&observation.name)
        && operation.seen_namespaces.get(&observation.name).is_none()
}

/// Returns the loss that the observation shows, if any. Ignores stale observations.
fn find_loss(operation: &Operation, observation: &NamespaceObservation) -> Option<Loss> {
    if !operation.namespaces.contains(&observation.name) {
        return None;
    }
    let known = operation.seen_namespaces.get(&observation.name);
    let Some(found) = &observation.identity else {
        // A namespace that never existed may still be created during the operation.
        return (known.is_some() || has_written(operation, &observation.name)).then_some(Loss::Gone);
    };
    let is_other = known.is_some_and(|known| known.uid != found.uid);
    let is_old =
        known.is_some_and(|known| is_older_version(&found.resource_version, &known.resource_version));
    match (observation.is_terminating, is_other) {
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

/// Handles the loss of a namespace. Does nothing if the operation is already failing for another reason.
fn handle_loss(operation: &Operation, name: &str, loss: Loss, at: Timestamp) -> Vec<OperationEvent> {
    if operation.failure.is_some() || operation.wave_expired.is_some() {
        return Vec::new();
    }
    match operation.stage {
        Stage::Planned | Stage::DryRun => handle_early_loss(name, loss, at),
        Stage::Wave { index, .. } if !operation.is_sync_fail_wave(index) => {
            vec![OperationEvent::NamespaceLost { namespace: name.to_owned(), loss, at }]
        }
        _ => Vec::new(),
    }
}

/// Handles the loss of a namespace before the operation has written to it.
fn handle_early_loss(name: &str, loss: Loss, at: Timestamp) -> Vec<OperationEvent> {
    let message = messages::namespace_lost_early_message(name, loss);
    vec![
        OperationEvent::NamespaceLost { namespace: name.to_owned(), loss, at },
        OperationEvent::AttemptFailed { message, retriable: true, at },
    ]
}
