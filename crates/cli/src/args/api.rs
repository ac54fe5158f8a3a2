//! Options for the HTTP API of `serve`, including access control.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::values;

/// Options for the HTTP API, including access control.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Page and HTTP API")]
pub struct ApiArgs {
    /// Address for the web page and the HTTP API: a port on localhost, ADDRESS:PORT, or `off` to disable
    /// both. An address that other machines can reach requires --tokens or --oidc. With --apps, the default
    /// is port 8480 on localhost, or another free port if 8480 is in use; the URL printed at startup grants
    /// access [default without --apps: off]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen_address)]
    pub listen: Option<ListenAddress>,
    /// File with one API token per line: NAME ROLE sha256:HEX, where ROLE is read-only or operator [default:
    /// no tokens; clients on this machine have read-only access]
    #[arg(long, value_name = "FILE", requires = "listen", value_parser = values::path_parser())]
    pub tokens: Option<PathBuf>,
    /// File with the OpenID Connect settings for signing in to the web page: issuer, clientId, url, and the
    /// roles of groups
    #[arg(long, value_name = "FILE", requires = "listen", value_parser = values::path_parser())]
    pub oidc: Option<PathBuf>,
    /// Secrets that authenticate webhook events from Git providers (/api/webhook): a file with keys such as
    /// webhook.github.secret, or a folder with one file per key
    #[arg(long, value_name = "PATH", requires = "listen", value_parser = values::path_parser())]
    pub webhook_secrets: Option<PathBuf>,
    /// File with the TLS certificates for --listen, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "listen", value_parser = values::path_parser())]
    pub tls_cert: Option<PathBuf>,
    /// File with the TLS private key for --tls-cert, in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_parser = values::path_parser())]
    pub tls_key: Option<PathBuf>,
    /// File with webhook and chat targets to notify when operations start, end or miss a deadline
    #[arg(long, value_name = "FILE", value_parser = values::path_parser(), help_heading = EVENTS_HEADING)]
    pub notify: Option<PathBuf>,
    /// URL of an OpenTelemetry collector, such as http://collector:4318, that receives a trace of each
    /// operation (OTLP over HTTP); OTEL_EXPORTER_OTLP_ENDPOINT and the other OpenTelemetry variables also
    /// work
    #[arg(long, value_name = "URL", help_heading = EVENTS_HEADING)]
    pub otlp: Option<String>,
}

const EVENTS_HEADING: &str = "Notifications and traces";

/// Value of `--listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Address to listen on.
    Address(SocketAddr),
    /// The HTTP API and the web page are disabled.
    Off,
}

fn parse_listen_address(text: &str) -> Result<ListenAddress, String> {
    if text == "off" {
        return Ok(ListenAddress::Off);
    }
    let of_this_machine = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let wrong =
        || "use a port, such as 8480, or ADDRESS:PORT, such as 127.0.0.1:8480 or [::1]:8480".to_owned();
    text.parse::<u16>()
        .map(of_this_machine)
        .or_else(|_| text.parse())
        .map(ListenAddress::Address)
        .map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_port_without_an_address_is_on_the_local_machine() {
        for (text, expected) in [
            ("8480", "127.0.0.1:8480"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(
                parse_listen_address(text).unwrap(),
                ListenAddress::Address(expected.parse().unwrap())
            );
        }
        assert_eq!(parse_listen_address("off").unwrap(), ListenAddress::Off);
        for text in ["", ":80", "localhost:80", "70000", "127.0.0.1"] {
            assert!(parse_listen_address(text).is_err(), "{text}");
        }
    }
}
