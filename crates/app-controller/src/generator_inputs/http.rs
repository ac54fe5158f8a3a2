//! HTTP requests for generators. Each request is sent once per run, with credentials from Secrets and
//! ConfigMaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tidegate_generate::{Branch, PullRequest, QueryError, Reply};
use tidegate_model::Object;
use tidegate_model::argo::{PluginGenerator, PullRequestGenerator, ScmGenerator};
use tidegate_scm::{Plugin, Policy, RequestContext, Secrets, Token, Web};

use super::objects::ObjectSources;

/// Secret with a plugin's token, unless the plugin's ConfigMap specifies a different Secret.
const ARGOCD_SECRET_NAME: &str = "argocd-secret";
/// Default timeout for a plugin request.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Label that allows generators to use a Secret.
const PERMISSION_LABEL: (&str, &str) = ("argocd.argoproj.io/secret-type", "scm-creds");
/// Label value for a Secret with credentials for many repositories, such as GitHub App credentials.
const REPOSITORY_CREDENTIALS: &str = "repo-creds";

/// Servers that generators may query over HTTP, and the Secrets that they may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Providers {
    /// Permitted servers.
    pub policy: Policy,
    /// True if only Secrets labeled `argocd.argoproj.io/secret-type: scm-creds` may be used.
    pub requires_label: bool,
}

/// Context for one ApplicationSet's requests.
pub struct RequestInputs<'w> {
    /// HTTP client.
    pub web: &'w Web,
    /// Access to the SCM providers.
    pub providers: &'w Providers,
    /// Objects that contain credentials and certificates.
    pub objects: ObjectSources<'w>,
    /// Namespace of the ApplicationSet.
    pub namespace: &'w str,
    /// Name of the ApplicationSet.
    pub appset: &'w str,
}

/// Responses received during this run. They are cached because a matrix generator repeats its requests.
#[derive(Default)]
pub struct HttpResponses {
    branches: ResponseCache<Vec<Branch>>,
    requests: ResponseCache<Vec<PullRequest>>,
    plugins: ResponseCache<Value>,
}

/// Responses, by request.
struct ResponseCache<T>(BTreeMap<String, Result<Arc<T>, QueryError>>);

impl<T> Default for ResponseCache<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> ResponseCache<T> {
    fn get_or_request(
        &mut self,
        question: &impl Serialize,
        ask: impl FnOnce() -> Result<T, QueryError>,
    ) -> Reply<Arc<T>> {
        let question = serde_json::to_string(question).map_err(|error| QueryError::new(error.to_string()))?;
        self.0.entry(question).or_insert_with(|| ask().map(Arc::new)).clone().map(Some)
    }
}

impl HttpResponses {
    /// Returns the repositories and branches that an SCM provider lists.
    pub fn branches(
        &mut self,
        with: &RequestInputs<'_>,
        generator: &ScmGenerator,
        paths: &BTreeSet<String>,
    ) -> Reply<Arc<Vec<Branch>>> {
        // The cache key doesn't contain fields that only affect how the response is used.
        let question = ScmGenerator { values: BTreeMap::new(), template: None, ..generator.clone() };
        self.branches
            .get_or_request(&(&question, paths), || with.request_context().branches(generator, paths))
    }

    /// Returns the open pull requests that an SCM provider lists.
    pub fn pull_requests(
        &mut self,
        with: &RequestInputs<'_>,
        generator: &PullRequestGenerator,
    ) -> Reply<Arc<Vec<PullRequest>>> {
        let question = PullRequestGenerator {
            values: BTreeMap::new(),
            template: None,
            filters: Vec::new(),
            ..generator.clone()
        };
        self.requests.get_or_request(&question, || with.request_context().pull_requests(generator))
    }

    /// Returns a plugin's response.
    pub fn plugin(&mut self, with: &RequestInputs<'_>, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let question = (&generator.config_map_ref, &generator.input);
        self.plugins.get_or_request(&question, || {
            let plugin = with.load_plugin(&generator.config_map_ref.name).map_err(QueryError::new)?;
            plugin.request_parameters(with.web, with.appset, &generator.input)
        })
    }
}

impl RequestInputs<'_> {
    fn request_context(&self) -> RequestContext<'_> {
        RequestContext { web: self.web, secrets: self, policy: &self.providers.policy }
    }

    /// Returns the plugin that a ConfigMap in the control plane's namespace describes.
    fn load_plugin(&self, name: &str) -> Result<Plugin, String> {
        let home = self.objects.control_namespace;
        let config = self.objects.find("ConfigMap", home, name)?.ok_or_else(|| {
            format!("ConfigMap {home}/{name} not found; create it with the plugin's baseUrl and token")
        })?;
        let text = |key: &str| {
            let text = config.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
            text.map(str::trim).filter(|text| !text.is_empty())
        };
        let needed = |key: &str| text(key).ok_or_else(|| format!("ConfigMap {home}/{name} has no key {key}"));
        let base_url = needed("baseUrl")?.to_owned();
        let reference = needed("token")?.strip_prefix('$').ok_or_else(|| {
            format!(
                "token in ConfigMap {home}/{name} does not refer to a key in a Secret; use $key for a key \
                 in {ARGOCD_SECRET_NAME}, or $secret:key"
            )
        })?;
        let (secret, key) = reference.split_once(':').unwrap_or((ARGOCD_SECRET_NAME, reference));
        let token = self.objects.secret_value(home, secret, key)?;
        let timeout = match text("requestTimeout") {
            None => PLUGIN_TIMEOUT,
            Some(text) => match text.parse() {
                Ok(0) => PLUGIN_TIMEOUT,
                Ok(seconds) => Duration::from_secs(seconds),
                Err(_) => {
                    return Err(format!(
                        "requestTimeout {text:?} in ConfigMap {home}/{name} is not a number of seconds"
                    ));
                }
            },
        };
        let token_origin = format!("key {key} in Secret {home}/{secret}");
        Ok(Plugin { base_url, token: Token::new(token), token_origin, timeout })
    }
}

impl RequestInputs<'_> {
    /// If the label is required, rejects a Secret whose label doesn't allow generators to use the Secret.
    fn check_label(&self, name: &str, accepted: &[&str]) -> Result<(), String> {
        if !self.providers.requires_label {
            return Ok(());
        }
        let (label, value) = PERMISSION_LABEL;
        let secret = self.objects.find("Secret", self.namespace, name)?;
        let is_accepted = |secret: &Object| secret.label(label).is_some_and(|one| accepted.contains(&one));
        match secret {
            Some(secret) if !is_accepted(&secret) => Err(format!(
                "Secret {}/{name} may not be used by generators; add the label {label}: {value}",
                self.namespace
            )),
            _ => Ok(()),
        }
    }
}

impl Secrets for RequestInputs<'_> {
    fn secret(&self, name: &str, key: &str) -> Result<Token, String> {
        self.check_label(name, &[PERMISSION_LABEL.1])?;
        self.objects.secret_value(self.namespace, name, key).map(Token::new)
    }

    fn app_secret(&self, name: &str, keys: &[&str]) -> Result<BTreeMap<String, Token>, String> {
        self.check_label(name, &[PERMISSION_LABEL.1, REPOSITORY_CREDENTIALS])?;
        let found = self.objects.secret_values(self.namespace, name, keys)?;
        Ok(found.into_iter().map(|(key, value)| (key, Token::new(value))).collect())
    }

    fn config_map(&self, name: &str, key: &str) -> Result<String, String> {
        let namespace = self.namespace;
        let found = self.objects.find("ConfigMap", namespace, name)?;
        let found = found.ok_or_else(|| format!("ConfigMap {namespace}/{name} not found"))?;
        let text = found.pointer("/data").and_then(|data| data.get(key)).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| format!("ConfigMap {namespace}/{name} has no key {key}"))
    }
}
