//! Last operation of each Application in a rollout, with its outcome. The rollout's state discards stopped
//! operations and those of skipped or retried Applications, because they don't affect later steps. The record
//! keeps all of them.

use std::collections::BTreeMap;

use tidegate_lifecycle::rollout::{Event, MemberRecord, RolloutView};
use tidegate_model::{OperationId, OperationPhase};

use super::run_events::with_reason;

/// Last operation of an Application, according to the events.
struct LastOperation {
    operation: OperationId,
    /// True if the events show that the operation has started.
    has_started: bool,
    /// Outcome. `None` for a stopped operation, because only the operation's own log contains its outcome.
    outcome: Option<(OperationPhase, String)>,
}

impl LastOperation {
    fn new(operation: OperationId, end: Option<OperationPhase>) -> Self {
        let outcome = end.map(|phase| (phase, String::new()));
        Self { operation, has_started: outcome.is_some(), outcome }
    }

    /// Describes the operation, such as `its last operation ended (Failed): Operation terminated`.
    fn describe(&self, end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>) -> String {
        match self.outcome.clone().or_else(|| end_of(self.operation)) {
            Some((phase, message)) => with_reason(&format!("its last operation ended ({phase})"), &message),
            None if self.has_started => "its last operation was stopped".to_owned(),
            None => "its last operation was stopped or never started".to_owned(),
        }
    }
}

/// Adds the last operation and its outcome to each Application without a current operation.
pub(super) fn add_last_operations(
    view: &mut RolloutView,
    events: &[Event],
    end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>,
) {
    let operations = find_last_operations(events);
    for member in view.members.iter_mut().filter(|member| member.operation.is_none()) {
        let Some(last) = operations.get(member.application.as_str()) else { continue };
        member.operation = Some(last.operation);
        member.message = format!("{}; {}", member.message, last.describe(&end_of));
    }
}

fn find_last_operations(events: &[Event]) -> BTreeMap<&str, LastOperation> {
    let mut operations: BTreeMap<&str, LastOperation> = BTreeMap::new();
    for event in events {
        match event {
            Event::Created { members, .. } => {
                members.iter().for_each(|member| add_member(&mut operations, member))
            }
            Event::Added { member, .. } => add_member(&mut operations, member),
            Event::OperationAssigned { member, operation } => {
                operations.insert(member.as_str(), LastOperation::new(*operation, None));
            }
            // An adopted operation has succeeded, no matter who started it.
            Event::OperationAdopted { member, operation, .. } => {
                operations.insert(member, LastOperation::new(*operation, Some(OperationPhase::Succeeded)));
            }
            Event::OperationStarted { member, .. } => {
                if let Some(last) = operations.get_mut(member.as_str()) {
                    last.has_started = true;
                }
            }
            Event::OperationEnded { member, phase, message, .. } => {
                if let Some(last) = operations.get_mut(member.as_str()) {
                    last.outcome = Some((*phase, message.clone()));
                }
            }
            _ => {}
        }
    }
    operations
}

/// Records that an Application has joined the rollout. One that leaves and joins again counts as new.
fn add_member<'a>(operations: &mut BTreeMap<&'a str, LastOperation>, member: &'a MemberRecord) {
    match member.done_by {
        Some(operation) => {
            operations.insert(&member.name, LastOperation::new(operation, Some(OperationPhase::Succeeded)));
        }
        None => {
            operations.remove(member.name.as_str());
        }
    }
}
