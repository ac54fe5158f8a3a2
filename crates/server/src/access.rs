//! Callers and their permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::Requester;

/// Role of a token or a user group. Each role includes the permissions of the roles that are listed before
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Allows reading.
    ReadOnly,
    /// Allows running operations and changing applications.
    Operator,
}

/// A caller of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the caller's token, or `oidc:` followed by the name of a user who signed in with a provider.
    /// Empty if the caller is not authenticated.
    pub name: String,
    /// Role of the caller.
    pub role: Role,
}

impl Caller {
    /// Returns the caller for any local user of a server without tokens.
    pub(crate) fn anonymous() -> Self {
        Self { name: String::new(), role: Role::ReadOnly }
    }

    /// Returns the caller as the requester of a change.
    pub(crate) fn requester<'a>(&'a self, reason: &'a str) -> Requester<'a> {
        Requester { name: &self.name, reason }
    }
}

/// A user authenticated by a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    /// Caller with the user's role, named `oidc:` followed by the user name.
    pub caller: Caller,
    /// The provider's identifier for the user.
    pub subject: String,
    /// Digest of the settings file that determined the role.
    pub settings: [u8; 32],
}

/// Access rule for a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Open to everyone, without a rate limit, so that other callers can't block liveness checks.
    Probe,
    /// Open to everyone, because the response reveals nothing about managed applications.
    Public,
    /// Open to everyone. The response identifies the caller, if authenticated.
    OptionalAuth,
    /// Restricted to senders that sign their requests.
    SignedRequest,
    /// Restricted to callers with this role.
    RequiresRole(Role),
}

impl Access {
    pub fn identifies_callers(self) -> bool {
        matches!(self, Self::OptionalAuth | Self::RequiresRole(_))
    }
}
