//! What generators ask over HTTP, once in each run, with what Secrets and ConfigMaps say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tidegate_generate::{Branch, PullRequest, Reply, Unanswered};
use tidegate_model::Object;
use tidegate_model::argo::{PluginGenerator, PullRequestGenerator, ScmGenerator};
use tidegate_scm::{Asking, Plugin, Policy, Secrets, Token, Web};

use super::objects::Objects;

/// The Secret of a plugin's token that names none.
const ARGOCD_SECRET: &str = "argocd-secret";
/// How long a plugin may take whose ConfigMap does not say.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// By which a Secret says that generators may use it.
const MAY_BE_USED: (&str, &str) = ("argocd.argoproj.io/secret-type", "scm-creds");
/// By which a Secret says that it has credentials of many repositories, as those of GitHub Apps do.
const OF_REPOSITORIES: &str = "repo-creds";

/// Whom generators may ask over HTTP, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Providers {
    /// Whom they may ask.
    pub policy: Policy,
    /// Only Secrets labelled `argocd.argoproj.io/secret-type: scm-creds` are used.
    pub only_labelled: bool,
}

/// What a question of one set is asked with.
pub(crate) struct With<'w> {
    pub web: &'w Web,
    pub providers: &'w Providers,
    pub objects: Objects<'w>,
    /// The namespace of the set.
    pub namespace: &'w str,
    /// Its name.
    pub set: &'w str,
}

/// What was answered in this run: a matrix asks the same again and again.
#[derive(Default)]
pub(crate) struct Http {
    branches: Once<Vec<Branch>>,
    requests: Once<Vec<PullRequest>>,
    plugins: Once<Value>,
}

/// Answers by their question.
struct Once<T>(BTreeMap<String, Result<Arc<T>, Unanswered>>);

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Once<T> {
    fn answer(
        &mut self,
        question: &impl Serialize,
        ask: impl FnOnce() -> Result<T, Unanswered>,
    ) -> Reply<Arc<T>> {
        let question = serde_json::to_string(question).map_err(|error| Unanswered::new(error.to_string()))?;
        self.0.entry(question).or_insert_with(|| ask().map(Arc::new)).clone().map(Some)
    }
}

impl Http {
    pub fn branches(
        &mut self,
        with: &With<'_>,
        generator: &ScmGenerator,
        paths: &BTreeSet<String>,
    ) -> Reply<Arc<Vec<Branch>>> {
        // What becomes of the answer is no part of the question.
        let question = ScmGenerator { values: BTreeMap::new(), template: None, ..generator.clone() };
        self.branches.answer(&(&question, paths), || with.asking().branches(generator, paths))
    }

    pub fn pull_requests(
        &mut self,
        with: &With<'_>,
        generator: &PullRequestGenerator,
    ) -> Reply<Arc<Vec<PullRequest>>> {
        let question = PullRequestGenerator {
            values: BTreeMap::new(),
            template: None,
            filters: Vec::new(),
            ..generator.clone()
        };
        self.requests.answer(&question, || with.asking().pull_requests(generator))
    }

    pub fn plugin(&mut self, with: &With<'_>, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let question = (&generator.config_map_ref, &generator.input);
        self.plugins.answer(&question, || {
            let plugin = with.plugin(&generator.config_map_ref.name).map_err(Unanswered::new)?;
            plugin.ask(with.web, with.set, &generator.input)
        })
    }
}

impl With<'_> {
    fn asking(&self) -> Asking<'_> {
        Asking { web: self.web, secrets: self, policy: &self.providers.policy }
    }

    /// The plugin that a ConfigMap of the control plane describes.
    fn plugin(&self, name: &str) -> Result<Plugin, String> {
        let home = self.objects.home;
        let config = self.objects.find("ConfigMap", home, name)?.ok_or_else(|| {
            format!("there is no ConfigMap {home}/{name}; it says where the plugin is, in baseUrl and token")
        })?;
        let text = |key: &str| {
            let text = config.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
            text.map(str::trim).filter(|text| !text.is_empty())
        };
        let needed = |key: &str| {
            text(key).ok_or_else(|| format!("{key} is missing in the data of ConfigMap {home}/{name}"))
        };
        let base_url = needed("baseUrl")?.to_owned();
        let reference = needed("token")?.strip_prefix('$').ok_or_else(|| {
            format!(
                "token of ConfigMap {home}/{name} names no key of a Secret; write $key for one of {ARGOCD_SECRET}, or $secret:key"
            )
        })?;
        let (secret, key) = reference.split_once(':').unwrap_or((ARGOCD_SECRET, reference));
        let token = self.objects.secret_value(home, secret, key)?;
        let timeout = match text("requestTimeout") {
            None => PLUGIN_TIMEOUT,
            Some(text) => match text.parse() {
                Ok(0) => PLUGIN_TIMEOUT,
                Ok(seconds) => Duration::from_secs(seconds),
                Err(_) => {
                    return Err(format!(
                        "requestTimeout {text:?} of ConfigMap {home}/{name} is no number of seconds"
                    ));
                }
            },
        };
        let token_origin = format!("key {key} of Secret {home}/{secret}");
        Ok(Plugin { base_url, token: Token::new(token), token_origin, timeout })
    }
}

impl With<'_> {
    /// Refuses a Secret that does not say that generators may use it, where that has to be said.
    fn check_label(&self, name: &str, accepted: &[&str]) -> Result<(), String> {
        if !self.providers.only_labelled {
            return Ok(());
        }
        let (label, value) = MAY_BE_USED;
        let secret = self.objects.find("Secret", self.namespace, name)?;
        let is_accepted = |secret: &Object| secret.label(label).is_some_and(|one| accepted.contains(&one));
        match secret {
            Some(secret) if !is_accepted(&secret) => Err(format!(
                "Secret {}/{name} may not be used by generators; label it {label}: {value}",
                self.namespace
            )),
            _ => Ok(()),
        }
    }
}

impl Secrets for With<'_> {
    fn secret(&self, name: &str, key: &str) -> Result<Token, String> {
        self.check_label(name, &[MAY_BE_USED.1])?;
        self.objects.secret_value(self.namespace, name, key).map(Token::new)
    }

    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String> {
        self.check_label(name, &[MAY_BE_USED.1, OF_REPOSITORIES])?;
        let found = self.objects.secret_values(self.namespace, name, keys)?;
        Ok(found.into_iter().map(|(key, value)| (key, Token::new(value))).collect())
    }

    fn config_map(&self, name: &str, key: &str) -> Result<String, String> {
        let namespace = self.namespace;
        let found = self.objects.find("ConfigMap", namespace, name)?;
        let found = found.ok_or_else(|| format!("there is no ConfigMap {namespace}/{name}"))?;
        let text = found.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
        text.map(str::to_owned)
            .ok_or_else(|| format!("there is no key {key} in the data of ConfigMap {namespace}/{name}"))
    }
}
