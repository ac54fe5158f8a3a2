//! A cluster whose address and credentials somebody else has read: not from a kubeconfig, and not from a pod.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Map, Value, json};

use crate::KubeCluster;
use crate::place::{ConnectError, fit};
use crate::plugin::{Given, Plugin};
use crate::reasons::reasons;
use crate::server::Server;
use crate::transport::Transport;

/// The way to a cluster, and what proves who asks. Shows nothing of that.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// What it is called.
    pub name: String,
    /// URL of the API server.
    pub server: String,
    /// A bearer token; empty for none.
    pub token: String,
    /// A user by name and password.
    pub username: String,
    /// The password of `username`.
    pub password: String,
    /// Certificates that are trusted, as PEM in base64.
    pub ca_data: String,
    /// A certificate that proves who asks, as PEM in base64.
    pub cert_data: String,
    /// The key of that certificate, as PEM in base64.
    pub key_data: String,
    /// The name in the server's certificate, where it is not that of the URL.
    pub server_name: String,
    /// The server's certificate is not checked.
    pub insecure: bool,
    /// URL of a proxy on the way there; empty for none.
    pub proxy_url: String,
    /// A program that gives token or certificate, instead of all of these.
    pub exec: Option<Plugin>,
}

impl std::fmt::Debug for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Declared")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Prepares the way to a cluster. The API server is not called.
pub async fn connect_declared(
    declared: &Declared,
    call_timeout: Duration,
    in_flight: usize,
) -> Result<KubeCluster, ConnectError> {
    let ready = ready(declared, None).await?;
    let namespace = ready.config.default_namespace.clone();
    let transport = Transport::declared(declared.clone(), ready).await?;
    Ok(KubeCluster::new(Server::new(transport, call_timeout, in_flight), declared.name.clone(), namespace))
}

impl KubeCluster {
    /// From now on asks with these credentials. Calls and watches that are under way go on with those they have. The address
    /// must be that of before.
    pub async fn change(&self, declared: &Declared) -> Result<(), ConnectError> {
        self.http().transport().change(declared.clone(), ready(declared, None).await?).await
    }
}

/// A configuration, and what a program has given for it.
pub(crate) struct Ready {
    pub(crate) config: Config,
    pub(crate) given: Option<Arc<Given>>,
}

/// The configuration with the credentials of now, others than those that were refused.
pub(crate) async fn ready(declared: &Declared, refused: Option<&Arc<Given>>) -> Result<Ready, ConnectError> {
    let Some(plugin) = &declared.exec else {
        return Ok(Ready { config: config(declared).await?, given: None });
    };
    let given = plugin.credentials(refused).await.map_err(|error| ConnectError::Credentials {
        server: declared.server.clone(),
        reason: error.to_string(),
    })?;
    let with = Declared {
        token: given.token.clone(),
        cert_data: STANDARD.encode(&given.certificate),
        key_data: STANDARD.encode(&given.key),
        ..declared.clone()
    };
    Ok(Ready { config: config(&with).await?, given: Some(given) })
}

async fn config(declared: &Declared) -> Result<Config, ConnectError> {
    let unusable = |reason: String| ConnectError::Credentials { server: declared.server.clone(), reason };
    // A name for each of the three, which nobody sees.
    const ONLY: &str = "declared";
    let cluster = said([
        ("server", &declared.server),
        ("certificate-authority-data", &declared.ca_data),
        ("tls-server-name", &declared.server_name),
        ("proxy-url", &declared.proxy_url),
    ]);
    let user = said([
        ("token", &declared.token),
        ("username", &declared.username),
        ("password", &declared.password),
        ("client-certificate-data", &declared.cert_data),
        ("client-key-data", &declared.key_data),
    ]);
    let mut file = json!({
        "clusters": [{"name": ONLY, "cluster": cluster}],
        "users": [{"name": ONLY, "user": user}],
        "contexts": [{"name": ONLY, "context": {"cluster": ONLY, "user": ONLY}}],
        "current-context": ONLY,
    });
    if let Some(cluster) = file.pointer_mut("/clusters/0/cluster").and_then(Value::as_object_mut) {
        cluster.insert("insecure-skip-tls-verify".to_owned(), declared.insecure.into());
    }
    // Nothing of the file shows: whatever is wrong with it may be about a credential.
    let file: Kubeconfig =
        serde_json::from_value(file).map_err(|_| unusable("they cannot be read".to_owned()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(|error| unusable(reasons(&error)))?;
    fit(&mut config)?;
    Ok(config)
}

fn said<const N: usize>(fields: [(&str, &String); N]) -> Map<String, Value> {
    let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value.as_str().into())).collect()
}
