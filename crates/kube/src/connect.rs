//! Connection setup.

use std::time::Duration;

use crate::KubeCluster;
use crate::cluster_connection::{ClusterConnection, resolve_config};
use crate::connect_options::{ClusterConfig, ConnectError, ConnectOptions, load_config};
use crate::server::Server;
use crate::transport::Transport;

/// Prepares a connection to a cluster. Doesn't call the API server, but may run a credential program.
pub async fn connect(options: &ConnectOptions) -> Result<KubeCluster, ConnectError> {
    let ClusterConfig { config, context, user } = load_config(options).await?;
    let namespace = config.default_namespace.clone();
    let transport = Transport::connect(options.clone(), config).await?;
    let server = Server::new(transport, options.call_timeout, options.in_flight)
        .with_watch_duration(options.watch_duration);
    Ok(KubeCluster::new(server, context, namespace).with_configured_user(user))
}

/// Prepares a connection to a cluster. Doesn't call the API server.
pub async fn connect_to_cluster(
    declared: &ClusterConnection,
    call_timeout: Duration,
    in_flight: usize,
) -> Result<KubeCluster, ConnectError> {
    let ready = resolve_config(declared, None).await?;
    let namespace = ready.config.default_namespace.clone();
    let transport = Transport::with_connection(declared.clone(), ready).await?;
    Ok(KubeCluster::new(Server::new(transport, call_timeout, in_flight), declared.name.clone(), namespace))
}

impl KubeCluster {
    /// Changes the credentials for new calls. Calls in flight, including watches, keep the old ones. The URL
    /// must not change.
    pub async fn change_credentials(&self, declared: &ClusterConnection) -> Result<(), ConnectError> {
        self.api_server()
            .transport()
            .change_credentials(declared.clone(), resolve_config(declared, None).await?)
            .await
    }
}
