//! Kept plans in one line each.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{OperationId, PlanApproval, Timestamp};

use crate::applications::store::AppKey;
use crate::plans::{KeptLine, in_words};

/// A kept plan of an application, in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanLine {
    /// What names it: SHA-256 of all of it, in hexadecimal digits. The first 12 are enough for people.
    pub hash: String,
    /// The namespace of its application.
    pub namespace: String,
    /// The name of its application.
    pub name: String,
    /// The revisions it deploys, with commas between those of several sources.
    pub revision: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Who has asked for it; `automated sync` for nobody.
    pub by: String,
    /// Why, while its operation waits; empty where that was not said, and of a plan that is not made for an operation.
    #[serde(default)]
    pub reason: String,
    /// What it does to how many objects: `create`, `apply`, `replace`, `prune`, `prune-skipped`. Hooks are among those that are created.
    pub actions: BTreeMap<String, u64>,
    /// Who has approved it.
    pub approvals: Vec<PlanApproval>,
    /// Who has ended the operation that it was made for, before that began; nothing where nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_by: Option<PlanApproval>,
    /// How it stands.
    pub state: PlanState,
    /// Whose approval it still needs, in words; nothing where it needs none.
    pub needs: Option<String>,
    /// Why whoever asks the API may not approve it; left out where they may, and where nobody's approval is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_yours: Option<String>,
    /// The operation that has carried it out.
    pub operation: Option<OperationId>,
}

/// How a kept plan stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// An operation of its application waits for its approval.
    Waiting,
    /// It was made by itself for an operation, and there is another one since.
    Replaced,
    /// It can be carried out, or needs an approval before.
    Kept,
    /// An operation carries it out, has done so, or is about to: all is approved that has to be.
    Taken,
    /// It was made by itself for an operation that nobody wants any more: that was ended before it began, or nothing was left to
    /// do.
    Withdrawn,
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Replaced => "replaced",
            Self::Kept => "kept",
            Self::Taken => "taken",
            Self::Withdrawn => "withdrawn",
        })
    }
}

impl PlanLine {
    /// What is kept of a plan, how it stands, whose approval it needs, and why it is asked for.
    pub(crate) fn new(line: &KeptLine, state: PlanState, (needs, reason): (Option<String>, String)) -> Self {
        let AppKey { namespace, name } = AppKey::named(&line.application);
        let number = |count: &usize| u64::try_from(*count).unwrap_or(u64::MAX);
        Self {
            hash: line.hash.to_string(),
            namespace,
            name,
            revision: line.revision.clone(),
            made_at: line.made_at,
            by: line.by.clone(),
            reason,
            actions: line.actions.iter().map(|(action, count)| (action.clone(), number(count))).collect(),
            approvals: line.approvals.clone(),
            withdrawn_by: line.withdrawn_by.clone(),
            state,
            needs,
            not_yours: None,
            operation: line.operation,
        }
    }

    /// Enough of its hash for people.
    pub fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }

    /// What it does: `2 to create, 1 to prune`.
    pub fn does(&self) -> String {
        in_words(&self.actions)
    }
}
