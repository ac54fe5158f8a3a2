//! Connection settings from a kubeconfig or from the pod that runs the process.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::error_message::format_error_chain;
use crate::proxy;

/// Default timeout of a call. A server aborts a write after 34 s and a webhook call after at most 30 s. This
/// timeout is longer than both, because only the server's message distinguishes the two.
const CALL_TIMEOUT: Duration = Duration::from_secs(36);
/// Default duration of a watch. Short, because servers close watches anyway and opening a new one is cheap.
pub(crate) const WATCH_DURATION: Duration = Duration::from_secs(290);

/// Options for connecting to a cluster.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Kubeconfig file. `None` means the first of: the files in `KUBECONFIG`, `~/.kube/config`, the pod's
    /// service account.
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context. `None` means the current context.
    pub context: Option<String>,
    /// User to impersonate.
    pub impersonate_user: Option<String>,
    /// Groups to impersonate. Requires `impersonate_user`.
    pub impersonate_groups: Vec<String>,
    /// Maximum duration of a call, other than a watch.
    pub call_timeout: Duration,
    /// Maximum number of concurrent calls. Reduced while the server is overloaded.
    pub in_flight: usize,
    /// Requested duration of a watch, in whole seconds. The server ends the watch after it.
    pub watch_duration: Duration,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            impersonate_user: None,
            impersonate_groups: Vec::new(),
            call_timeout: CALL_TIMEOUT,
            in_flight: 16,
            watch_duration: WATCH_DURATION,
        }
    }
}

/// Error in the connection settings, before any call to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account was found.
    #[error(
        "no cluster is configured: set KUBECONFIG or --kubeconfig, create ~/.kube/config, or run in a pod \
         ({inside})"
    )]
    NotConfigured {
        /// Reason why the process doesn't seem to run in a pod.
        inside: String,
    },
    /// The kubeconfig can't be used.
    #[error("cannot use the kubeconfig{}: {reason}", describe_file(.file.as_ref()))]
    Kubeconfig {
        /// Kubeconfig file, if the caller specified one.
        file: Option<PathBuf>,
        /// Description of the missing, unreadable or unusable part.
        reason: String,
    },
    /// The kubeconfig doesn't contain the requested context.
    #[error("the kubeconfig has no context {context:?}; {}", list_contexts(.there))]
    UnknownContext {
        /// The requested context.
        context: String,
        /// Names of the contexts in the kubeconfig.
        there: Vec<String>,
    },
    /// The caller specified groups to impersonate but no user (`--as-group` without `--as`). The API accepts
    /// groups only with a user.
    #[error("cannot impersonate groups without a user: set the user with --as")]
    GroupsWithoutUser,
    /// The configured proxy type isn't supported.
    #[error(
        "cannot connect to {server} through the proxy {proxy}: only http:// and socks5:// proxies are supported"
    )]
    Proxy {
        /// URL of the proxy, as configured.
        proxy: String,
        /// URL of the API server behind the proxy.
        server: String,
    },
    /// The certificates, the token or the credential program can't be used.
    #[error("cannot use the credentials for {server}: {reason}")]
    Credentials {
        /// URL of the API server for these credentials.
        server: String,
        /// Description of the unreadable or unusable part.
        reason: String,
    },
}

fn describe_file(file: Option<&PathBuf>) -> String {
    file.map(|file| format!(" {}", file.display())).unwrap_or_default()
}

fn list_contexts(contexts: &[String]) -> String {
    if contexts.is_empty() {
        "the kubeconfig contains no contexts".to_owned()
    } else {
        format!("available contexts: {}", contexts.join(", "))
    }
}

/// Client configuration, with its context and user.
pub(crate) struct ClusterConfig {
    pub(crate) config: Config,
    pub(crate) context: String,
    /// Configured user: the impersonated user, else the user in the kubeconfig, else the subject of the
    /// token.
    pub(crate) user: String,
}

/// Reads the current configuration.
pub(crate) async fn load_config(options: &ConnectOptions) -> Result<ClusterConfig, ConnectError> {
    if options.impersonate_user.is_none() && !options.impersonate_groups.is_empty() {
        return Err(ConnectError::GroupsWithoutUser);
    }
    let mut place = match read_kubeconfig(options)? {
        Some(kubeconfig) => from_file(options, kubeconfig).await?,
        None => from_pod()?,
    };
    let config = &mut place.config;
    if let Some(user) = &options.impersonate_user {
        place.user.clone_from(user);
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(options.impersonate_groups.clone());
    }
    apply_defaults(config)?;
    Ok(place)
}

/// Applies Tidegate's defaults to a configuration.
pub(crate) fn apply_defaults(config: &mut Config) -> Result<(), ConnectError> {
    // No retries here: the operation's state machine decides whether to repeat a write.
    config.default_retry = false;
    if config.proxy_url.is_some() && is_proxy_exempt(config) {
        config.proxy_url = None;
    }
    match config.proxy_url.as_ref().filter(|proxy| !proxy::is_supported(proxy)) {
        None => Ok(()),
        Some(proxy) => {
            let (proxy, server) = (proxy::redact_url(proxy), config.cluster_url.to_string());
            Err(ConnectError::Proxy { proxy, server })
        }
    }
}

/// Returns true if the proxy comes from an environment variable and `NO_PROXY` exempts the server.
fn is_proxy_exempt(config: &Config) -> bool {
    let variable = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
        values.find(|value| !value.is_empty()).unwrap_or_default()
    };
    let general = variable(["HTTPS_PROXY", "https_proxy"]).parse::<http::Uri>().ok();
    let host = config.cluster_url.host().unwrap_or_default();
    general == config.proxy_url && proxy::is_exempt(&variable(["NO_PROXY", "no_proxy"]), host)
}

/// Reads the kubeconfig. Returns `None` if there is none and the caller didn't request one.
fn read_kubeconfig(options: &ConnectOptions) -> Result<Option<Kubeconfig>, ConnectError> {
    let file = options.kubeconfig.as_ref();
    let is_requested = file.is_some()
        || options.context.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    let found = match file {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    match found {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        Err(KubeconfigError::FindPath) if !is_requested => Ok(None),
        Err(KubeconfigError::ReadConfig(error, _))
            if !is_requested && error.kind() == io::ErrorKind::NotFound =>
        {
            Ok(None)
        }
        Err(error) => Err(kubeconfig_error(options, &error)),
    }
}

async fn from_file(options: &ConnectOptions, kubeconfig: Kubeconfig) -> Result<ClusterConfig, ConnectError> {
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    let there: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    if !there.contains(&context) && (options.context.is_some() || !context.is_empty()) {
        return Err(ConnectError::UnknownContext { context, there });
    }
    let named =
        kubeconfig.contexts.iter().find(|one| one.name == context).and_then(|one| one.context.as_ref());
    let user = named.and_then(|named| named.user.clone()).unwrap_or_default();
    let chosen = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &chosen)
        .await
        .map_err(|error| kubeconfig_error(options, &error))?;
    let user = config.auth_info.impersonate.clone().unwrap_or(user);
    Ok(ClusterConfig { config, context, user })
}

fn from_pod() -> Result<ClusterConfig, ConnectError> {
    let config = Config::incluster()
        .map_err(|error| ConnectError::NotConfigured { inside: format_error_chain(&error) })?;
    let user = config.auth_info.token_file.as_deref().and_then(read_token_subject).unwrap_or_default();
    Ok(ClusterConfig { config, context: String::new(), user })
}

/// Returns the subject of the token in a file. The token is the process's own, so it isn't verified.
fn read_token_subject(file: &str) -> Option<String> {
    let token = std::fs::read_to_string(file).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    let payload: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    payload.get("sub")?.as_str().map(str::to_owned)
}

fn kubeconfig_error(options: &ConnectOptions, error: &KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig { file: options.kubeconfig.clone(), reason: format_error_chain(error) }
}
