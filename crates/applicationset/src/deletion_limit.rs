//! Limit on simultaneous deletions of Applications. It guards against a generator that returns too few items,
//! for example because a folder was moved or a filter is wrong.

pub mod approval;

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use tidegate_model::argo::ApplicationSet;

use self::approval::DeletionApproval;
pub use crate::max_deletions::{InvalidMaxDeletions, MaxDeletions};
use crate::output::AppSetOutput;
use crate::sync_policy::AppSetRuleOptions;

/// Annotation with the maximum number or percentage of an ApplicationSet's Applications that a single
/// reconciliation may delete.
pub const MAX_DELETIONS_ANNOTATION: &str = "tidegate.dev/max-deletions";
/// Annotation that approves the ApplicationSet's current output, no matter how many Applications must be
/// deleted.
pub const DELETIONS_APPROVED_ANNOTATION: &str = "tidegate.dev/deletions-approved";
/// Maximum number of blocked deletions to list in a message.
const NAMES_SHOWN_MAX: usize = 5;
/// Number of digest bytes in a token, which must be short enough to type.
const TOKEN_BYTES: usize = 6;

/// Permit for deletions that exceed the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionPermit {
    /// Token that identifies the output.
    pub token: String,
    /// The approval by a command, or `None` if a user wrote the annotation.
    pub approval: Option<DeletionApproval>,
}

/// Reason deletions are blocked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeletionsBlocked {
    /// The number of deletions exceeds the limit.
    #[error(
        "{} of its {members} Applications are no longer generated ({}), but at most {most} Applications may \
         be deleted at once (`{MAX_DELETIONS_ANNOTATION}`), so none of them will be deleted. Fix the \
         generators; or, to delete the Applications, run `tidegate appset approve {set} --deletions \
         {token}`, or annotate the ApplicationSet with `{DELETIONS_APPROVED_ANNOTATION}: {token}`",
        .deleted.len(),
        shown_names(.deleted)
    )]
    TooMany {
        /// Name of the ApplicationSet.
        set: String,
        /// Names of the Applications to delete.
        deleted: Vec<String>,
        /// Total number of Applications.
        members: usize,
        /// Maximum number of deletions allowed.
        most: usize,
        /// Token that approves the deletions.
        token: String,
    },
    /// The limit in the annotation is invalid.
    #[error(
        "{MAX_DELETIONS_ANNOTATION} annotation: {0}. No Applications will be deleted until this is fixed"
    )]
    Invalid(#[from] InvalidMaxDeletions),
}

/// Returns the limit in an ApplicationSet's annotation, if there is one.
///
/// # Errors
///
/// Fails if the annotation isn't a valid limit.
pub fn max_deletions(set: &ApplicationSet) -> Result<Option<MaxDeletions>, DeletionsBlocked> {
    let said = set.metadata.annotations.get(MAX_DELETIONS_ANNOTATION);
    Ok(said.map(|text| text.parse()).transpose()?)
}

/// Checks an ApplicationSet's deletions against its limit. `members` is the number of its Applications. If
/// the limit is exceeded but the deletions are permitted, returns the permit.
pub(crate) fn check_deletions(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    going: &[&str],
    members: usize,
    options: &AppSetRuleOptions,
) -> Result<Option<DeletionPermit>, DeletionsBlocked> {
    let most = max_deletions(set)?.or(options.max_deletions);
    let Some(most) = most.map(|most| most.limit_for(members)) else { return Ok(None) };
    let token = approval_token(generated);
    let approved = set.metadata.annotations.get(DELETIONS_APPROVED_ANNOTATION);
    if going.len() <= most {
        return Ok(None);
    }
    if approved.is_some_and(|approved| approved.trim() == token) {
        let given = approval::last_approval(set).filter(|approval| approval.token == token);
        return Ok(Some(DeletionPermit { token, approval: given }));
    }
    let set = set.metadata.name.clone();
    let going = going.iter().map(|name| (*name).to_owned()).collect();
    Err(DeletionsBlocked::TooMany { set, deleted: going, members, most, token })
}

/// Formats the first names of the Applications to delete.
fn shown_names(going: &[String]) -> String {
    let names = going.iter().take(NAMES_SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match going.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Returns the token for the generated names. It approves the deletion of all other Applications, and isn't
/// valid for any other output.
fn approval_token(generated: &AppSetOutput) -> String {
    let names: BTreeSet<&String> = generated.applications.keys().chain(generated.rejected.keys()).collect();
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
