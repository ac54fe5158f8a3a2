//! Lets another program use a proxy: a local port that accepts a single connection and forwards its data
//! through the proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::Uri;
use tidegate_web::{ConnectionError, root_cause};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::http::{SingleByteReads, proxy_connector_for};
use super::{Attempt, Network, Problem};
use crate::credentials::AccessSettings;

/// Connects to a host through its proxy and accepts a single connection on a local port. Returns the port, or
/// `None` if the host needs no proxy.
pub(super) fn open_relay(
    host: &str,
    port: u16,
    access: &AccessSettings,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Option<u16>, Problem> {
    let to: Uri =
        format!("http://{host}:{port}").parse().map_err(|_| Problem::new("the host cannot be parsed"))?;
    let within = network.limits.connect;
    let Some(way) = proxy_connector_for(access, &to, network.blocked_addresses(access), within)? else {
        return Ok(None);
    };
    let lacks = |error: std::io::Error| Problem::new(format!("cannot start the network runtime: {error}"));
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(1).build().map_err(lacks)?;
    let server = connect_through_proxy(&runtime, way, to, access, within, attempt)?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(lacks)?;
    let at =
        listener.local_addr().as_ref().map(SocketAddr::port).map_err(|error| lacks(error.kind().into()))?;
    let attempt = Arc::clone(attempt);
    let pass = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = attempt.wait_for_end() => {}
                () = copy_both_ways(listener, server) => {}
            }
        });
        runtime.shutdown_background();
    };
    thread::Builder::new().name("ssh-proxy".to_owned()).spawn(pass).map_err(lacks)?;
    Ok(Some(at))
}

fn connect_through_proxy(
    runtime: &Runtime,
    way: BoxCloneSyncService<Uri, SingleByteReads, ConnectionError>,
    to: Uri,
    access: &AccessSettings,
    within: Duration,
    attempt: &Attempt,
) -> Result<TcpStream, Problem> {
    runtime.block_on(async {
        tokio::select! {
            biased;
            over = attempt.wait_for_end() => Err(over.to_problem()),
            done = tokio::time::timeout(within, way.oneshot(to)) => match done {
                Ok(Ok(stream)) => Ok(stream.into_inner()),
                Ok(Err(error)) => {
                    let reason = access.mask_secrets(root_cause(error.as_ref()));
                    Err(Problem::new(format!("cannot connect through the proxy: {reason}"))
                        .with_hint("check the proxy's address, user and password"))
                }
                Err(_) => {
                    Err(Problem::new(format!("the proxy did not connect within {} s", within.as_secs_f64())))
                }
            },
        }
    })
}

/// Copies data in both directions until either side closes the connection.
async fn copy_both_ways(listener: TcpListener, mut server: TcpStream) {
    let Ok((mut program, _)) = listener.accept().await else { return };
    drop(listener);
    // When one side closes, so does the other.
    let _ = copy_bidirectional(&mut program, &mut server).await;
}
