//! Whom to ask for what is secret, and what a question needs beside its generator.

use std::collections::BTreeMap;
use std::fmt;

use crate::address::Base;
use crate::problem::Problem;
use crate::web::Web;

/// Something secret. Its debug form is the same whatever it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token as somebody has written it down: white space around it is not part of it.
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

/// Where the Secrets and ConfigMaps are that a generator names: in the namespace of its ApplicationSet.
pub trait Secrets {
    /// A value of a Secret.
    ///
    /// # Errors
    ///
    /// There is none, or it is not to be had now; in words that name it, and show nothing of it.
    fn secret(&self, name: &str, key: &str) -> Result<Token, String>;

    /// Those of the keys of a repository Secret that are there, for the GitHub App that it has.
    ///
    /// # Errors
    ///
    /// There is no such Secret, or it is not to be had now; in words that name it, and show nothing of it.
    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String>;

    /// A value of a ConfigMap.
    ///
    /// # Errors
    ///
    /// There is none, or it is not to be had now.
    fn config_map(&self, name: &str, key: &str) -> Result<String, String>;
}

/// Whom generators may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// No SCM provider at all.
    pub is_off: bool,
    /// The addresses that an `api` may be, exactly as they are written; all if there is none.
    pub allowed: Vec<String>,
}

/// What a question needs beside its generator.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The way to servers.
    pub web: &'a Web,
    /// What proves who asks.
    pub secrets: &'a dyn Secrets,
    /// Whom it may be asked of.
    pub policy: &'a Policy,
}

impl Asking<'_> {
    /// Where an API is: at the address that a generator names, if that is allowed; else in its usual place.
    pub(crate) fn api(self, named: &str, usual: &str) -> Result<Base, Problem> {
        if self.policy.is_off {
            return Err(Problem::new("SCM providers are switched off here"));
        }
        let is_custom = !named.is_empty();
        let base = Base::new("api", if is_custom { named } else { usual })?;
        let allowed = &self.policy.allowed;
        if is_custom && !allowed.is_empty() && allowed.iter().all(|one| one != named) {
            return Err(Problem::new(format!(
                "api {} is not one of the servers that generators may ask: {}",
                base.text(),
                allowed.join(", ")
            )));
        }
        Ok(base)
    }
}
