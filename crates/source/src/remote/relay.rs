//! A way through a proxy for another program: what connects to this machine at a port goes through it, once.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use http::Uri;
use hyper_util::rt::TokioIo;
use tidegate_web::cause;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use super::http::{proxy, way};
use super::{Attempt, Network, Problem};
use crate::credentials::Access;

/// Connects to a host through the proxy of an access, and waits for one program at the port that is returned; nothing where the
/// host is to be reached without a proxy.
pub(super) fn open(
    (host, port): (&str, u16),
    access: &Access,
    network: &Network,
    attempt: &Arc<Attempt>,
) -> Result<Option<u16>, Problem> {
    let to: Uri =
        format!("http://{host}:{port}").parse().map_err(|_| Problem::new("its host cannot be read"))?;
    if proxy(access, &to)?.is_none() {
        return Ok(None);
    }
    let lacks = |error: std::io::Error| Problem::new(format!("this machine lacks what it takes: {error}"));
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(1).build().map_err(lacks)?;
    let server = connect(&runtime, to, access, network, attempt)?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(lacks)?;
    let at =
        listener.local_addr().as_ref().map(SocketAddr::port).map_err(|error| lacks(error.kind().into()))?;
    let attempt = Arc::clone(attempt);
    let pass = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = attempt.ended() => {}
                () = pass(listener, server) => {}
            }
        });
        runtime.shutdown_background();
    };
    thread::Builder::new().name("ssh-proxy".to_owned()).spawn(pass).map_err(lacks)?;
    Ok(Some(at))
}

fn connect(
    runtime: &Runtime,
    to: Uri,
    access: &Access,
    network: &Network,
    attempt: &Attempt,
) -> Result<TcpStream, Problem> {
    let within = network.limits.connect;
    let way = way(access, &to, network.barred(access), within)?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            over = attempt.ended() => Err(over.problem()),
            done = tokio::time::timeout(within, way.oneshot(to)) => match done {
                Ok(Ok(stream)) => Ok(TokioIo::into_inner(stream)),
                Ok(Err(error)) => {
                    let why = access.hide(cause(error.as_ref()));
                    Err(Problem::new(format!("there is no way through the proxy: {why}"))
                        .hint("check the proxy's address, user and password"))
                }
                Err(_) => {
                    Err(Problem::new(format!("the proxy led nowhere within {} s", within.as_secs_f64())))
                }
            },
        }
    })
}

/// Passes on what one program says and hears, until either side has ended.
async fn pass(listener: TcpListener, mut server: TcpStream) {
    let Ok((mut program, _)) = listener.accept().await else { return };
    drop(listener);
    // Either side sees the other's end as its own.
    let _ = copy_bidirectional(&mut program, &mut server).await;
}
