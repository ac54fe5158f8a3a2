//! Where the cluster is and who we are: a kubeconfig, or the pod we run in.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::proxy;
use crate::reasons::reasons;

/// A server gives up a write itself after 34 s, and a webhook after at most 30: only its own words say which it was.
const CALL_TIMEOUT: Duration = Duration::from_secs(36);
/// A new watch is cheap, and less than what servers end watches after by themselves.
pub(crate) const WATCH_DURATION: Duration = Duration::from_secs(290);

/// How to reach a cluster.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// A kubeconfig file. `None`: the files of `KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig. `None`: its current one.
    pub context: Option<String>,
    /// Act as this user.
    pub impersonate_user: Option<String>,
    /// Act as a member of these groups. Needs a user.
    pub impersonate_groups: Vec<String>,
    /// The longest that one call may take; open watches are not calls.
    pub call_timeout: Duration,
    /// The most calls at the same time, while the server keeps up.
    pub in_flight: usize,
    /// The server is asked to end each watch after this, in whole seconds.
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

/// Why there is no way to the cluster. The cluster itself was not asked yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod.
    #[error(
        "no cluster is configured: set KUBECONFIG or --kubeconfig, write ~/.kube/config, or run in a pod ({inside})"
    )]
    NotConfigured {
        /// Why it is not a pod.
        inside: String,
    },
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig{} cannot be used: {reason}", in_file(.file.as_ref()))]
    Kubeconfig {
        /// The file that was named.
        file: Option<PathBuf>,
        /// What of it cannot be read, found or used.
        reason: String,
    },
    /// The kubeconfig has no such context.
    #[error("there is no context {context:?} in the kubeconfig; {}", known(.there))]
    UnknownContext {
        /// The context that was asked for.
        context: String,
        /// The contexts that the kubeconfig has, by name.
        there: Vec<String>,
    },
    /// `--as-group` was given without `--as`: the API knows groups of a user alone.
    #[error("groups can only be impersonated together with a user: name one with --as")]
    GroupsWithoutUser,
    /// A proxy of another sort than we know is configured.
    #[error(
        "cannot go through the proxy {proxy} to {server}: only http:// and socks5:// proxies are supported"
    )]
    Proxy {
        /// Its URL, as it was configured.
        proxy: String,
        /// URL of the API server that it leads to.
        server: String,
    },
    /// Certificates, tokens or the program that gives them.
    #[error("cannot use the credentials for {server}: {reason}")]
    Credentials {
        /// URL of the API server that they are for.
        server: String,
        /// What of them cannot be read or used.
        reason: String,
    },
}

fn in_file(file: Option<&PathBuf>) -> String {
    file.map(|file| format!(" {}", file.display())).unwrap_or_default()
}

fn known(contexts: &[String]) -> String {
    if contexts.is_empty() { "it has none".to_owned() } else { format!("it has: {}", contexts.join(", ")) }
}

/// A cluster, and the name it goes by.
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) context: String,
}

/// Reads the configuration, as it is now.
pub(crate) async fn find(options: &ConnectOptions) -> Result<Place, ConnectError> {
    if options.impersonate_user.is_none() && !options.impersonate_groups.is_empty() {
        return Err(ConnectError::GroupsWithoutUser);
    }
    let mut place = match read(options)? {
        Some(kubeconfig) => from_file(options, kubeconfig).await?,
        None => from_pod()?,
    };
    let config = &mut place.config;
    if let Some(user) = &options.impersonate_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(options.impersonate_groups.clone());
    }
    fit(config)?;
    Ok(place)
}

/// Makes a configuration one of ours.
pub(crate) fn fit(config: &mut Config) -> Result<(), ConnectError> {
    // The operation's state machine owns retries: a repeated write must be one it knows of.
    config.default_retry = false;
    if config.proxy_url.is_some() && is_direct(config) {
        config.proxy_url = None;
    }
    match config.proxy_url.as_ref().filter(|proxy| !proxy::is_supported(proxy)) {
        None => Ok(()),
        Some(proxy) => {
            let (proxy, server) = (proxy::shown(proxy), config.cluster_url.to_string());
            Err(ConnectError::Proxy { proxy, server })
        }
    }
}

/// Whether the proxy is that of the environment, which also says for whom it is not.
fn is_direct(config: &Config) -> bool {
    let variable = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
        values.find(|value| !value.is_empty()).unwrap_or_default()
    };
    let general = variable(["HTTPS_PROXY", "https_proxy"]).parse::<http::Uri>().ok();
    let host = config.cluster_url.host().unwrap_or_default();
    general == config.proxy_url && proxy::is_exempt(&variable(["NO_PROXY", "no_proxy"]), host)
}

/// `None` when there is no kubeconfig and nobody asked for one.
fn read(options: &ConnectOptions) -> Result<Option<Kubeconfig>, ConnectError> {
    let file = options.kubeconfig.as_ref();
    let asked = file.is_some()
        || options.context.is_some()
        || std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    let found = match file {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    match found {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        Err(KubeconfigError::FindPath) if !asked => Ok(None),
        Err(KubeconfigError::ReadConfig(error, _)) if !asked && error.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(unusable(options, &error)),
    }
}

async fn from_file(options: &ConnectOptions, kubeconfig: Kubeconfig) -> Result<Place, ConnectError> {
    let context = options.context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    let there: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    if !there.contains(&context) && (options.context.is_some() || !context.is_empty()) {
        return Err(ConnectError::UnknownContext { context, there });
    }
    let chosen = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &chosen)
        .await
        .map_err(|error| unusable(options, &error))?;
    Ok(Place { config, context })
}

fn from_pod() -> Result<Place, ConnectError> {
    let config =
        Config::incluster().map_err(|error| ConnectError::NotConfigured { inside: reasons(&error) })?;
    Ok(Place { config, context: String::new() })
}

fn unusable(options: &ConnectOptions, error: &KubeconfigError) -> ConnectError {
    ConnectError::Kubeconfig { file: options.kubeconfig.clone(), reason: reasons(error) }
}
