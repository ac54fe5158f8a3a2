//! Connections to servers, directly or through a proxy, with some addresses blocked.

use std::error::Error;
use std::io;
use std::net::ToSocketAddrs as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use tidegate_web::{BlockedAddresses, ConnectionError, Transport, create_connector, direct_transport};
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use super::Problem;
use crate::credentials::AccessSettings;

/// Default port of SOCKS proxies.
const SOCKS_PORT: u16 = 1080;

/// Fails if the host is a blocked address.
pub(crate) fn check_host(host: &str, barred: BlockedAddresses) -> Result<(), Problem> {
    barred.blocked_host_reason(host).map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// Fails if the host name resolves to a blocked address. Called before another program connects to the host.
/// Names that don't resolve are left for that program to report.
pub(crate) fn check_name(host: &str, barred: BlockedAddresses) -> Result<(), Problem> {
    check_host(host, barred)?;
    let found = (host.trim_matches(['[', ']']), 0).to_socket_addrs();
    let mut found = found.into_iter().flatten();
    found
        .find_map(|address| barred.blocked_reason(address.ip()))
        .map_or(Ok(()), |reason| Err(Problem::new(reason)))
}

/// Returns the connector for the server of a URL.
pub(crate) fn connector_for(
    access: &AccessSettings,
    to: &Uri,
    barred: BlockedAddresses,
    within: Duration,
) -> Result<Transport, Problem> {
    match proxy_for(access, to)? {
        None => Ok(direct_transport(create_connector(within, barred))),
        // The proxy may be on this machine, since the author of the Secret chose it.
        Some(found) => connector_through(
            &found,
            create_connector(within, BlockedAddresses { loopback: false, ..barred }),
        )
        .ok_or_else(|| invalid_proxy(access)),
    }
}

/// Returns the connector for a server that speaks first, through a proxy. Returns `None` if the server needs no
/// proxy.
pub(crate) fn proxy_connector_for(
    access: &AccessSettings,
    to: &Uri,
    barred: BlockedAddresses,
    within: Duration,
) -> Result<Option<BoxCloneSyncService<Uri, SingleByteReads, ConnectionError>>, Problem> {
    let Some(found) = proxy_for(access, to)? else { return Ok(None) };
    let to_proxy = create_connector(within, BlockedAddresses { loopback: false, ..barred });
    connector_through(&found, to_proxy.map_response(SingleByteReads))
        .map(Some)
        .ok_or_else(|| invalid_proxy(access))
}

/// Connection that returns a single byte per read. hyper-util discards what it reads after the response of a proxy,
/// which can be the first data of the server.
pub(crate) struct SingleByteReads(TokioIo<TcpStream>);

impl SingleByteReads {
    /// Returns the connection, without the restriction.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.0.into_inner()
    }
}

impl Read for SingleByteReads {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.0).poll_read(context, buffer.unfilled()))?;
        into.put_slice(buffer.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for SingleByteReads {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Returns the proxy for a request, if any.
pub(crate) fn proxy_for(access: &AccessSettings, to: &Uri) -> Result<Option<Intercept>, Problem> {
    let Some(proxy) = access.proxy.text() else { return Ok(None) };
    let all = || Matcher::builder().all(proxy.to_owned());
    let found = all().no(access.no_proxy.clone()).build().intercept(to);
    // No proxy: the host is excluded, or the proxy's URL is invalid.
    match found.is_some() || all().build().intercept(to).is_some() {
        true => Ok(found),
        false => Err(invalid_proxy(access)),
    }
}

fn invalid_proxy(access: &AccessSettings) -> Problem {
    let secret = access.secret.as_deref().unwrap_or_default();
    Problem::new(format!(
        "the proxy in Secret {secret} is not a valid URL; use a URL such as http://proxy.example.com:3128 or \
         socks5://proxy.example.com:1080"
    ))
}

/// Returns a connector that uses a proxy, or `None` if this type of proxy isn't supported.
fn connector_through<C>(
    proxy: &Intercept,
    to_proxy: C,
) -> Option<BoxCloneSyncService<Uri, C::Response, ConnectionError>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Error: Error + Send + Sync + 'static,
    C::Response: Read + Write + Unpin + Send + 'static,
    C::Future: Send + 'static,
{
    let uri = proxy.uri().clone();
    match uri.scheme_str()? {
        "http" => {
            let tunnel = Tunnel::new(uri, to_proxy);
            let tunnel = match proxy.basic_auth() {
                Some(header) => tunnel.with_auth(header.clone()),
                None => tunnel,
            };
            Some(BoxCloneSyncService::new(
                tunnel.map_request(with_default_port).map_err(ConnectionError::from),
            ))
        }
        // With both of these schemes, the proxy resolves the host name.
        "socks5" | "socks5h" => {
            let socks = SocksV5::new(with_given_port(uri, SOCKS_PORT), to_proxy);
            let socks = match proxy.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            Some(BoxCloneSyncService::new(
                socks.map_request(with_default_port).map_err(ConnectionError::from),
            ))
        }
        _ => None,
    }
}

/// Adds the scheme's default port to a URL. Without a port, the tunnel would use 443 even for `http`.
fn with_default_port(to: Uri) -> Uri {
    if to.scheme_str() == Some("http") { with_given_port(to, 80) } else { to }
}

/// Adds a port to a URL without one.
fn with_given_port(to: Uri, port: u16) -> Uri {
    let (None, Some(host)) = (to.port(), to.host()) else { return to };
    let authority = format!("{host}:{port}").parse();
    let mut parts = to.clone().into_parts();
    parts.authority = authority.ok();
    Uri::from_parts(parts).unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn link_local_addresses_are_contacted_if_allowed() {
        let none = BlockedAddresses { link_local: false, loopback: false };
        assert!(check_host("[fe80::1]", BlockedAddresses::LINK_LOCAL).is_err());
        assert!(check_host("169.254.169.254", none).is_ok());
        assert!(check_host("example.com", BlockedAddresses::LINK_LOCAL).is_ok());
    }

    #[test]
    fn names_for_other_programs_are_checked_first() {
        let all = BlockedAddresses { link_local: true, loopback: true };
        assert!(check_host("localhost", all).is_ok() && check_name("localhost", all).is_err());
        assert!(check_name("localhost", BlockedAddresses::LINK_LOCAL).is_ok());
        assert!(check_name("127.0.0.1", all).is_err() && check_name("10.0.0.1", all).is_ok());
    }

    /// A server that speaks first, such as an SSH server, may send data together with the answer of the proxy.
    #[tokio::test]
    async fn data_that_follows_the_answer_of_a_proxy_is_not_lost() {
        const BANNER: &[u8] = b"SSH-2.0-server\r\n";
        for (scheme, answers) in [
            ("http", vec![(b"\r\n\r\n".to_vec(), b"HTTP/1.1 200 OK\r\n\r\n".to_vec())]),
            (
                "socks5",
                vec![
                    (vec![5, 1, 0], vec![5, 0]),
                    (22_u16.to_be_bytes().to_vec(), vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
                ],
            ),
        ] {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let proxy = tokio::spawn(async move {
                let (mut client, _) = listener.accept().await.unwrap();
                let last = answers.len() - 1;
                for (index, (end, answer)) in answers.into_iter().enumerate() {
                    let mut request = Vec::new();
                    while !request.ends_with(&end) {
                        request.push(client.read_u8().await.unwrap());
                    }
                    let more = if index == last { BANNER } else { &[] };
                    client.write_all(&[&answer, more].concat()).await.unwrap();
                }
                client
            });
            let to: Uri = "http://git.example.invalid:22".parse().unwrap();
            let matcher = Matcher::builder().all(format!("{scheme}://{address}")).build();
            let to_proxy = create_connector(
                Duration::from_secs(30),
                BlockedAddresses { link_local: false, loopback: false },
            );
            let way =
                connector_through(&matcher.intercept(&to).unwrap(), to_proxy.map_response(SingleByteReads))
                    .unwrap();
            let mut stream = way.oneshot(to).await.unwrap().into_inner();
            let mut said = vec![0; BANNER.len()];
            stream.read_exact(&mut said).await.unwrap();
            assert_eq!(said, BANNER, "{scheme}");
            drop(proxy.await.unwrap());
        }
    }
}
