//! May so many Applications be deleted at once? A generator that finds less than it should, because a folder has moved or
//! somebody's filter is wrong, must not take all of them with it.

pub mod approval;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_model::argo::ApplicationSet;

use self::approval::Approval;
use crate::changes::Generated;
use crate::policy::Options;

/// On a set: so many of its Applications may drop out of what it generates in one look, or such a percentage of them.
pub const MAX_DELETIONS_ANNOTATION: &str = "tidegate.dev/max-deletions";
/// On a set: what it generates now is wanted, however many are to be deleted for it.
pub const DELETIONS_APPROVED_ANNOTATION: &str = "tidegate.dev/deletions-approved";
/// So many of those that are held are named.
const NAMED_MAX: usize = 5;
/// Bytes of a digest that are shown, so that a person can write it.
const TOKEN_BYTES: usize = 6;

/// How many of the Applications of a set may be deleted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MaxDeletions(MaxUpdate);

/// A text that says no number of deletions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no number of Applications; write a whole number, or a percentage such as 10%")]
pub struct InvalidMaxDeletions(pub String);

impl FromStr for MaxDeletions {
    type Err = InvalidMaxDeletions;

    fn from_str(text: &str) -> Result<Self, InvalidMaxDeletions> {
        text.trim().parse().map(Self).map_err(|_| InvalidMaxDeletions(text.to_owned()))
    }
}

impl TryFrom<String> for MaxDeletions {
    type Error = InvalidMaxDeletions;

    fn try_from(text: String) -> Result<Self, InvalidMaxDeletions> {
        text.parse()
    }
}

impl From<MaxDeletions> for String {
    fn from(most: MaxDeletions) -> Self {
        most.0.to_string()
    }
}

impl JsonSchema for MaxDeletions {
    fn schema_name() -> Cow<'static, str> {
        "MaxDeletions".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "How many Applications may be deleted at once: a whole number, or a percentage such as 10%",
        })
    }
}

impl MaxDeletions {
    /// So many of this many; of a percentage, at least one.
    fn of(self, members: usize) -> usize {
        let members = u32::try_from(members).unwrap_or(u32::MAX);
        usize::try_from(self.0.of(members)).unwrap_or(usize::MAX)
    }
}

/// By what deletions are done that would be held because they are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Stands for what is generated.
    pub token: String,
    /// Who has given it by a command; `None` where somebody has written the annotation by hand.
    pub given: Option<Approval>,
}

/// Why nothing is deleted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Guarded {
    /// More would go than may.
    #[error(
        "{} of its {members} Applications are not generated any more ({}), and no more than {most} may be deleted at once (`{MAX_DELETIONS_ANNOTATION}`), so none is. Mend its generators; or, where they are to go, approve it with `tidegate appset approve {set} --deletions {token}`, or annotate the ApplicationSet with `{DELETIONS_APPROVED_ANNOTATION}: {token}`",
        .going.len(),
        named(.going)
    )]
    TooMany {
        /// The set.
        set: String,
        /// Those that would go, by name.
        going: Vec<String>,
        /// How many there are.
        members: usize,
        /// How many may go.
        most: usize,
        /// What approves it.
        token: String,
    },
    /// It is not said how many may.
    #[error(
        "the annotation {MAX_DELETIONS_ANNOTATION}: {0}. No Application that drops out is deleted before"
    )]
    Invalid(#[from] InvalidMaxDeletions),
}

/// How many of the Applications of a set may be deleted at once, where it says that.
///
/// # Errors
///
/// What it says is no number of them.
pub fn limit(set: &ApplicationSet) -> Result<Option<MaxDeletions>, Guarded> {
    let said = set.metadata.annotations.get(MAX_DELETIONS_ANNOTATION);
    Ok(said.map(|text| text.parse()).transpose()?)
}

/// Whether those that drop out of what a set generates, of so many that it has, may be deleted; and by which permit, where more
/// go than may without one.
pub(crate) fn check(
    set: &ApplicationSet,
    generated: &Generated,
    (going, members): (&[&str], usize),
    options: &Options,
) -> Result<Option<Permit>, Guarded> {
    let most = limit(set)?.or(options.max_deletions);
    let Some(most) = most.map(|most| most.of(members)) else { return Ok(None) };
    let token = token(generated);
    let approved = set.metadata.annotations.get(DELETIONS_APPROVED_ANNOTATION);
    if going.len() <= most {
        return Ok(None);
    }
    if approved.is_some_and(|approved| approved.trim() == token) {
        let given = approval::approval(set).filter(|approval| approval.token == token);
        return Ok(Some(Permit { token, given }));
    }
    let set = set.metadata.name.clone();
    let going = going.iter().map(|name| (*name).to_owned()).collect();
    Err(Guarded::TooMany { set, going, members, most, token })
}

/// The first of those that would go.
fn named(going: &[String]) -> String {
    let names = going.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match going.len().saturating_sub(NAMED_MAX) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Stands for the names that are generated: what is approved is that there is to be nothing else, so it holds until all others
/// are gone, and for no other result.
fn token(generated: &Generated) -> String {
    let names: BTreeSet<&String> = generated.applications.keys().chain(generated.refused.keys()).collect();
    let mut digest = Sha256::new();
    for name in names {
        digest.update(name.as_bytes());
        digest.update(b"\n");
    }
    digest.finalize().iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
