//! Access to Secrets and ConfigMaps, and the context of a request.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_model::canonical_server;

use crate::api_address::Base;
use crate::http_client::Web;
use crate::problem::Problem;

/// A secret string. Its `Debug` output is always `***`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token, without surrounding whitespace.
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
    /// Returns a value from a Secret as a token.
    ///
    /// # Errors
    ///
    /// If the value is missing or can't be read, returns a message that names the Secret and the key. The
    /// message doesn't contain secrets.
    fn secret(&self, name: &str, key: &str) -> Result<Token, String>;

    /// Returns the values of these keys in the repository Secret of a GitHub App. Omits missing keys.
    ///
    /// # Errors
    ///
    /// If the Secret is missing or can't be read, returns a message that names the Secret. The message
    /// doesn't contain secrets.
    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String>;

    /// Returns a value from a ConfigMap.
    ///
    /// # Errors
    ///
    /// If the value is missing or can't be read, returns a message that names the ConfigMap and the key.
    fn config_map(&self, name: &str, key: &str) -> Result<String, String>;
}

/// Restrictions on the servers that generators may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// True if SCM providers are disabled.
    pub is_disabled: bool,
    /// Values that generators may use for `api`, in any spelling. If empty, all values are allowed.
    pub allowed: Vec<String>,
}

/// Context of a request: the HTTP client, credentials and restrictions.
#[derive(Clone, Copy)]
pub struct RequestContext<'a> {
    /// HTTP client.
    pub web: &'a Web,
    /// Source of credentials.
    pub secrets: &'a dyn Secrets,
    /// Restrictions on servers.
    pub policy: &'a Policy,
}

impl RequestContext<'_> {
    /// Returns the generator's API URL, or else the default. Fails if the policy doesn't allow it.
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
