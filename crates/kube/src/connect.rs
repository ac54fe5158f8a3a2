//! The way to a cluster.

use crate::KubeCluster;
use crate::place::{ConnectError, ConnectOptions, Place, find};
use crate::server::Server;
use crate::transport::Transport;

/// Prepares the way to a cluster. The API server is not called; what gives us credentials may be.
pub async fn connect(options: &ConnectOptions) -> Result<KubeCluster, ConnectError> {
    let Place { config, context } = find(options).await?;
    let namespace = config.default_namespace.clone();
    let transport = Transport::connect(options.clone(), config).await?;
    let server = Server::new(transport, options.call_timeout, options.in_flight)
        .with_watches_of(options.watch_duration);
    Ok(KubeCluster::new(server, context, namespace))
}
