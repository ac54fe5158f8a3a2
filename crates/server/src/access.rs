//! Callers and their permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Role of a token or of a group of people. Each role includes the permissions of the previous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// May read.
    ReadOnly,
    /// May run operations and change applications.
    Operator,
}

/// A caller of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller's token. For people who signed in with a provider, `oidc:` and the user name. Empty without
    /// authentication.
    pub name: String,
    /// Role of the caller.
    pub role: Role,
}

impl Caller {
    /// Returns the caller on this machine for a server that does not use tokens.
    pub(crate) fn anonymous() -> Self {
        Self { name: String::new(), role: Role::ReadOnly }
    }
}

/// A person whom a provider has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    /// Name, with the prefix for people who signed in with a provider, and role.
    pub caller: Caller,
    /// Identifier at the provider.
    pub subject: String,
}

/// Access rule of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone, without a rate limit, so that other callers cannot block liveness checks.
    Probe,
    /// Everyone, because the response reveals nothing about managed applications.
    Public,
    /// Everyone; the response contains the caller's identity.
    OptionalAuth,
    /// Senders that sign their requests.
    SignedRequest,
    /// Callers who have this role.
    RequiresRole(Role),
}
