//! Approval of blocked deletions by a command. The ApplicationSet records who approved them and why.

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, Time};

use super::{DELETIONS_APPROVED_ANNOTATION, DeletionsBlocked};
use crate::changes::AppSetProblem;

/// Annotation with the most recent approval by a command.
pub const APPROVAL_ANNOTATION: &str = "tidegate.dev/deletions-approval";

/// Annotations of an approval.
pub const ANNOTATIONS: [&str; 2] = [DELETIONS_APPROVED_ANNOTATION, APPROVAL_ANNOTATION];

/// Approval of deletions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionApproval {
    /// Identifies the generated names at the time of the approval.
    pub token: String,
    /// Name of the approver.
    pub by: String,
    /// Reason for the approval. May be empty.
    pub reason: String,
    /// Time of the approval.
    pub at: Time,
}

/// Reason an approval is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeletionApprovalRefusal {
    /// No deletions are blocked.
    #[error(
        "ApplicationSet {0} has no deletions waiting for approval; `tidegate appset explain {0}` shows its state"
    )]
    NothingBlocked(String),
    /// The approval is for deletions other than the blocked ones.
    #[error(
        "the token {given:?} does not match the deletions waiting for approval in ApplicationSet {set}: {held}"
    )]
    OtherToken {
        /// Name of the ApplicationSet.
        set: String,
        /// Token in the approval.
        given: String,
        /// The deletions that are actually blocked.
        held: Box<DeletionsBlocked>,
    },
    /// The approval can't be serialized.
    #[error("cannot record the approval to delete Applications of ApplicationSet {0}: {1}")]
    NotSerializable(String, String),
}

/// Returns the ApplicationSet with an approval of its blocked deletions, which the next reconciliation
/// carries out.
///
/// # Errors
///
/// Fails if no deletions are blocked, or if the approval is for other deletions.
pub fn with_approval<'a>(
    set: &ApplicationSet,
    wrong: impl IntoIterator<Item = &'a AppSetProblem>,
    approval: &DeletionApproval,
) -> Result<ApplicationSet, DeletionApprovalRefusal> {
    let name = || format!("{}/{}", set.metadata.namespace_or_default(), set.metadata.name);
    let held = wrong.into_iter().find_map(|wrong| match wrong {
        AppSetProblem::DeletionsBlocked(held @ DeletionsBlocked::TooMany { token, .. }) => {
            Some((held, token))
        }
        _ => None,
    });
    let Some((held, token)) = held else { return Err(DeletionApprovalRefusal::NothingBlocked(name())) };
    if *token != approval.token {
        return Err(DeletionApprovalRefusal::OtherToken {
            set: name(),
            given: approval.token.clone(),
            held: Box::new(held.clone()),
        });
    }
    let written = serde_json::to_string(approval);
    let written =
        written.map_err(|error| DeletionApprovalRefusal::NotSerializable(name(), error.to_string()))?;
    let mut approved = set.clone();
    let annotations = &mut approved.metadata.annotations;
    annotations.insert(DELETIONS_APPROVED_ANNOTATION.to_owned(), token.clone());
    annotations.insert(APPROVAL_ANNOTATION.to_owned(), written);
    Ok(approved)
}

/// Returns the most recent approval by a command.
pub fn last_approval(set: &ApplicationSet) -> Option<DeletionApproval> {
    serde_json::from_str(set.metadata.annotations.get(APPROVAL_ANNOTATION)?).ok()
}

/// Removes a command's permit after the deletions, because it would also apply to a later identical output.
/// The approver remains on record, and a permit that a user wrote into the annotation is kept. Returns `None`
/// if there is nothing to remove.
pub fn without_used_approval(set: &ApplicationSet) -> Option<ApplicationSet> {
    let permit = set.metadata.annotations.get(DELETIONS_APPROVED_ANNOTATION)?;
    last_approval(set).filter(|approval| approval.token == *permit)?;
    let mut without = set.clone();
    without.metadata.annotations.remove(DELETIONS_APPROVED_ANNOTATION);
    Some(without)
}

/// Copies a command's approval to an ApplicationSet that was reread from its file. An approval in the file
/// takes precedence.
pub fn carry_over_approval(known: &ApplicationSet, read: &mut ApplicationSet) {
    if read.metadata.annotations.contains_key(DELETIONS_APPROVED_ANNOTATION) || last_approval(known).is_none()
    {
        return;
    }
    for name in ANNOTATIONS {
        if let Some(value) = known.metadata.annotations.get(name) {
            read.metadata.annotations.insert(name.to_owned(), value.clone());
        }
    }
}
