//! Who asks, and what they may.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a token allows, or a group of people. The later one allows all that the earlier one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// To look.
    ReadOnly,
    /// To have things done.
    Operator,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name of their token; of who came by a provider, `oidc:` and their name there; empty where nobody is asked.
    pub name: String,
    /// What they may.
    pub role: Role,
}

impl Caller {
    /// Somebody on this machine, where no tokens are used.
    pub(crate) fn unnamed() -> Self {
        Self { name: String::new(), role: Role::ReadOnly }
    }
}

/// Who may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody, as often as they like: whoever looks whether the process lives must not be kept out by others.
    Probe,
    /// Everybody: it tells nothing of what is served.
    Open,
    /// Everybody, who are told who they are.
    Anybody,
    /// Whoever signs what they send.
    Signed,
    /// Whoever has this role.
    Needs(Role),
}
