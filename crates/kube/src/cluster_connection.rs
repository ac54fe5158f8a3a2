//! Connections with a URL and credentials from the caller instead of a kubeconfig or a pod.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};

use crate::connect_options::{ConnectError, apply_defaults};
use crate::error_message::format_error_chain;
use crate::exec_plugin::{ExecPlugin, ProgramCredentials};

/// URL and credentials of a cluster. `Debug` omits both.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClusterConnection {
    /// Name of the cluster.
    pub name: String,
    /// URL of the API server.
    pub server: String,
    /// Bearer token. Empty for none.
    pub token: String,
    /// User name for basic authentication.
    pub username: String,
    /// Password for `username`.
    pub password: String,
    /// Trusted CA certificates, as base64-encoded PEM.
    pub ca_data: String,
    /// Client certificate, as base64-encoded PEM.
    pub cert_data: String,
    /// Key of the client certificate, as base64-encoded PEM.
    pub key_data: String,
    /// Host name in the server's certificate, if it differs from the host in the URL.
    pub server_name: String,
    /// True to skip verifying the server's certificate.
    pub insecure: bool,
    /// Proxy URL. Empty for no proxy.
    pub proxy_url: String,
    /// Program that provides the token or certificate, instead of the fields above.
    pub exec: Option<ExecPlugin>,
}

impl std::fmt::Debug for ClusterConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Declared")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Client configuration, including credentials from a program.
pub(crate) struct ResolvedConfig {
    pub(crate) config: Config,
    pub(crate) credentials: Option<Arc<ProgramCredentials>>,
}

/// Returns the configuration with current credentials, but never the ones that the server just refused.
pub(crate) async fn resolve_config(
    declared: &ClusterConnection,
    refused: Option<&Arc<ProgramCredentials>>,
) -> Result<ResolvedConfig, ConnectError> {
    let Some(plugin) = &declared.exec else {
        return Ok(ResolvedConfig { config: build_config(declared).await?, credentials: None });
    };
    let given = plugin.credentials(refused).await.map_err(|error| ConnectError::Credentials {
        server: declared.server.clone(),
        reason: error.to_string(),
    })?;
    let with = ClusterConnection {
        token: given.token.clone(),
        cert_data: STANDARD.encode(&given.certificate),
        key_data: STANDARD.encode(&given.key),
        ..declared.clone()
    };
    Ok(ResolvedConfig { config: build_config(&with).await?, credentials: Some(given) })
}

async fn build_config(declared: &ClusterConnection) -> Result<Config, ConnectError> {
    let unusable = |reason: String| ConnectError::Credentials { server: declared.server.clone(), reason };
    // Name of the cluster, the user and the context. The name is never displayed.
    const ENTRY_NAME: &str = "declared";
    let cluster = collect_set_fields([
        ("server", &declared.server),
        ("certificate-authority-data", &declared.ca_data),
        ("tls-server-name", &declared.server_name),
        ("proxy-url", &declared.proxy_url),
    ]);
    let user = collect_set_fields([
        ("token", &declared.token),
        ("username", &declared.username),
        ("password", &declared.password),
        ("client-certificate-data", &declared.cert_data),
        ("client-key-data", &declared.key_data),
    ]);
    let mut file = json!({
        "clusters": [{"name": ENTRY_NAME, "cluster": cluster}],
        "users": [{"name": ENTRY_NAME, "user": user}],
        "contexts": [{"name": ENTRY_NAME, "context": {"cluster": ENTRY_NAME, "user": ENTRY_NAME}}],
        "current-context": ENTRY_NAME,
    });
    if let Some(cluster) = file.pointer_mut("/clusters/0/cluster").and_then(Value::as_object_mut) {
        cluster.insert("insecure-skip-tls-verify".to_owned(), declared.insecure.into());
    }
    // Don't quote the file: the error may be about a credential.
    let file: Kubeconfig =
        serde_json::from_value(file).map_err(|_| unusable("they cannot be parsed".to_owned()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(format_error_chain(&error)))?;
    apply_defaults(&mut config)?;
    Ok(config)
}

fn collect_set_fields<const N: usize>(fields: [(&str, &String); N]) -> Map<String, Value> {
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value.as_str().into())).collect()
}
