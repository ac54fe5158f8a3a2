//! Deletions that were held, and that a person has approved by a command: the set says so, with who and why.

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{ApplicationSet, Time};

use super::{DELETIONS_APPROVED_ANNOTATION, Guarded};
use crate::changes::Wrong;

/// On a set: the last approval of deletions that was given by a command.
pub const APPROVAL_ANNOTATION: &str = "tidegate.dev/deletions-approval";

/// Both annotations that an approval consists of.
pub const ANNOTATIONS: [&str; 2] = [DELETIONS_APPROVED_ANNOTATION, APPROVAL_ANNOTATION];

/// Who has approved which deletions, when, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Stands for the names that were generated then.
    pub token: String,
    /// Who.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
    /// When.
    pub at: Time,
}

/// Why nothing is approved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    /// No deletion is held.
    #[error(
        "no deletion of an Application of ApplicationSet {0} is held; `tidegate appset explain {0}` says how it stands"
    )]
    NothingHeld(String),
    /// What is held is something else.
    #[error(
        "the deletions of ApplicationSet {set} that are held now are not those that {given:?} stands for: {held}"
    )]
    Other {
        /// The set.
        set: String,
        /// What was to be approved.
        given: String,
        /// What is held.
        held: Box<Guarded>,
    },
    /// It cannot be written down.
    #[error("who approves the deletions of ApplicationSet {0} cannot be written down: {1}")]
    Unwritten(String, String),
}

/// The set, with the approval of the deletions that are held. Who looks at it from then on deletes them.
///
/// # Errors
///
/// No deletion is held, or others than those that are meant.
pub fn approve<'a>(
    set: &ApplicationSet,
    wrong: impl IntoIterator<Item = &'a Wrong>,
    approval: &Approval,
) -> Result<ApplicationSet, NotApproved> {
    let name = || format!("{}/{}", set.metadata.home(), set.metadata.name);
    let held = wrong.into_iter().find_map(|wrong| match wrong {
        Wrong::Guarded(held @ Guarded::TooMany { token, .. }) => Some((held, token)),
        _ => None,
    });
    let Some((held, token)) = held else { return Err(NotApproved::NothingHeld(name())) };
    if *token != approval.token {
        return Err(NotApproved::Other {
            set: name(),
            given: approval.token.clone(),
            held: Box::new(held.clone()),
        });
    }
    let written = serde_json::to_string(approval);
    let written = written.map_err(|error| NotApproved::Unwritten(name(), error.to_string()))?;
    let mut approved = set.clone();
    let annotations = &mut approved.metadata.annotations;
    annotations.insert(DELETIONS_APPROVED_ANNOTATION.to_owned(), token.clone());
    annotations.insert(APPROVAL_ANNOTATION.to_owned(), written);
    Ok(approved)
}

/// The approval that was given last by a command.
pub fn approval(set: &ApplicationSet) -> Option<Approval> {
    serde_json::from_str(set.metadata.annotations.get(APPROVAL_ANNOTATION)?).ok()
}

/// The set without a permit that a command has given and that has done what it is for: should the same be generated once more,
/// it would count again. Who gave it stays. `None` where there is none; one that somebody has written is theirs.
pub fn spent(set: &ApplicationSet) -> Option<ApplicationSet> {
    let permit = set.metadata.annotations.get(DELETIONS_APPROVED_ANNOTATION)?;
    approval(set).filter(|approval| approval.token == *permit)?;
    let mut without = set.clone();
    without.metadata.annotations.remove(DELETIONS_APPROVED_ANNOTATION);
    Some(without)
}

/// What is known of an approval by a command goes on to a set that was read anew from what its author wrote. What he says of
/// it himself counts.
pub fn carried(known: &ApplicationSet, read: &mut ApplicationSet) {
    if read.metadata.annotations.contains_key(DELETIONS_APPROVED_ANNOTATION) || approval(known).is_none() {
        return;
    }
    for name in ANNOTATIONS {
        if let Some(value) = known.metadata.annotations.get(name) {
            read.metadata.annotations.insert(name.to_owned(), value.clone());
        }
    }
}
