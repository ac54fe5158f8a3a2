//! The last operation of each Application of a rollout, and how it has ended. The state of a rollout forgets an operation that
//! was stopped, and that of an Application that was skipped or is tried again: what it does next has nothing to do with it. The
//! record remembers it.

use std::collections::BTreeMap;

use tidegate_lifecycle::rollout::{Fact, Listed, RolloutView};
use tidegate_model::{OperationId, OperationPhase};

use super::facts::because;

/// The last operation of an Application, as far as the facts tell.
struct Last {
    operation: OperationId,
    /// It is known to have begun.
    has_begun: bool,
    /// How it has ended; `None` for one that was stopped, of which only the operation itself knows.
    end: Option<(OperationPhase, String)>,
}

impl Last {
    fn of(operation: OperationId, end: Option<OperationPhase>) -> Self {
        let end = end.map(|phase| (phase, String::new()));
        Self { operation, has_begun: end.is_some(), end }
    }

    /// `its last operation is over, Failed: Operation terminated`.
    fn words(&self, end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>) -> String {
        match self.end.clone().or_else(|| end_of(self.operation)) {
            Some((phase, message)) => because(&format!("its last operation is over, {phase}"), &message),
            None if self.has_begun => "its last operation was stopped".to_owned(),
            None => "its last operation was stopped, or never began".to_owned(),
        }
    }
}

/// Names the last operation of each Application that has none any more, and says how it has ended.
pub(super) fn tell(
    view: &mut RolloutView,
    facts: &[Fact],
    end_of: impl Fn(OperationId) -> Option<(OperationPhase, String)>,
) {
    let known = last(facts);
    for member in view.members.iter_mut().filter(|member| member.operation.is_none()) {
        let Some(last) = known.get(member.application.as_str()) else { continue };
        member.operation = Some(last.operation);
        member.message = format!("{}; {}", member.message, last.words(&end_of));
    }
}

fn last(facts: &[Fact]) -> BTreeMap<&str, Last> {
    let mut known: BTreeMap<&str, Last> = BTreeMap::new();
    for fact in facts {
        match fact {
            Fact::Begun { members, .. } => members.iter().for_each(|member| listed(&mut known, member)),
            Fact::Joined { member, .. } => listed(&mut known, member),
            Fact::Named { member, operation } => {
                known.insert(member.as_str(), Last::of(*operation, None));
            }
            // What counts for a rollout has succeeded, whoever has begun it.
            Fact::Adopted { member, operation, .. } => {
                known.insert(member, Last::of(*operation, Some(OperationPhase::Succeeded)));
            }
            Fact::Started { member, .. } => {
                if let Some(last) = known.get_mut(member.as_str()) {
                    last.has_begun = true;
                }
            }
            Fact::Ended { member, phase, message, .. } => {
                if let Some(last) = known.get_mut(member.as_str()) {
                    last.end = Some((*phase, message.clone()));
                }
            }
            _ => {}
        }
    }
    known
}

/// One that comes back is another than the one that left.
fn listed<'a>(known: &mut BTreeMap<&'a str, Last>, member: &'a Listed) {
    match member.done_by {
        Some(operation) => {
            known.insert(&member.name, Last::of(operation, Some(OperationPhase::Succeeded)));
        }
        None => {
            known.remove(member.name.as_str());
        }
    }
}
