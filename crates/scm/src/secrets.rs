//! Access to secrets, and the inputs of a request other than its generator.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_model::canonical_server;

use crate::api_address::Base;
use crate::http_client::Web;
use crate::problem::Problem;

/// A secret string. Its `Debug` output doesn't depend on its content.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token. Removes surrounding whitespace.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Access to the Secrets and ConfigMaps in the namespace of an ApplicationSet.
pub trait Secrets {
    /// Returns a value from a Secret.
    ///
    /// # Errors
    ///
    /// If the value is missing or can't be read, returns a message that identifies it. The message doesn't
    /// contain secrets.
    fn secret(&self, name: &str, key: &str) -> Result<Token, String>;

    /// Returns the values of the given keys in a repository Secret with a GitHub App. Missing keys are
    /// omitted.
    ///
    /// # Errors
    ///
    /// If the Secret is missing or can't be read, returns a message that identifies it. The message doesn't
    /// contain secrets.
    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String>;

    /// Returns a value from a ConfigMap.
    ///
    /// # Errors
    ///
    /// If the value is missing or can't be read, returns a message that identifies it.
    fn config_map(&self, name: &str, key: &str) -> Result<String, String>;
}

/// Restrictions on the servers that generators may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// True if SCM providers are disabled.
    pub is_disabled: bool,
    /// Allowed `api` addresses, in any spelling. If empty, all addresses are allowed.
    pub allowed: Vec<String>,
}

/// Inputs of a request other than its generator.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// HTTP client.
    pub web: &'a Web,
    /// Source of credentials.
    pub secrets: &'a dyn Secrets,
    /// Allowed servers.
    pub policy: &'a Policy,
}

impl RequestContext<'_> {
    /// Returns a generator's API address if the policy allows it. If the generator doesn't specify an
    /// address, returns the default address.
    pub(crate) fn api_address(self, named: &str, usual: &str) -> Result<Base, Problem> {
        if self.policy.is_disabled {
            return Err(Problem::new("SCM providers are disabled"));
        }
        let is_custom = !named.is_empty();
        let base = Base::new("api", if is_custom { named } else { usual })?;
        let allowed = &self.policy.allowed;
        let found = canonical_server(base.text());
        if is_custom && !allowed.is_empty() && allowed.iter().all(|one| canonical_server(one) != found) {
            return Err(Problem::new(format!(
                "api {} is not one of the servers that generators may use: {}",
                base.text(),
                allowed.join(", ")
            )));
        }
        Ok(base)
    }
}
