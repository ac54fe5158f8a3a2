//! Where the API of `serve` is offered, and to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::values;

/// Where the API is offered, and to whom.
#[derive(Clone, Debug, Args)]
pub struct ApiArgs {
    /// Offer the page and the HTTP API here: a port of this machine, or ADDRESS:PORT, which off this machine needs
    /// --tokens or --oidc; `off` for neither. With --apps, if not said: on port 8480 of this machine or any other that is free,
    /// for whoever opens the address that is printed
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub listen: Option<Listen>,
    /// Who may ask the API: a file with lines NAME ROLE sha256:HEX, where ROLE is read-only or operator;
    /// without it those on this machine may look
    #[arg(long, value_name = "FILE", requires = "listen", value_parser = values::path())]
    pub tokens: Option<PathBuf>,
    /// Have people sign in at the page with an OpenID provider: a file with issuer, clientId, url, and roles of groups
    #[arg(long, value_name = "FILE", requires = "listen", value_parser = values::path())]
    pub oidc: Option<PathBuf>,
    /// Take webhooks of GitHub and others at /api/webhook: a file with keys such as webhook.github.secret, or a
    /// folder with a file for each
    #[arg(long, value_name = "PATH", requires = "listen", value_parser = values::path())]
    pub webhook_secrets: Option<PathBuf>,
    /// Certificates for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "listen", value_parser = values::path())]
    pub tls_cert: Option<PathBuf>,
    /// Private key for TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_parser = values::path())]
    pub tls_key: Option<PathBuf>,
    /// Post to webhooks and chats when operations begin, end or miss a deadline, as a file of targets says
    #[arg(long, value_name = "FILE", value_parser = values::path())]
    pub notify: Option<PathBuf>,
    /// Send a trace of each operation to an OpenTelemetry collector, by OTLP over HTTP, such as http://collector:4318;
    /// also OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of OpenTelemetry
    #[arg(long, value_name = "URL")]
    pub otlp: Option<String>,
}

/// Where is listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// There.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

fn address(text: &str) -> Result<Listen, String> {
    if text == "off" {
        return Ok(Listen::Off);
    }
    let of_this_machine = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let wrong =
        || "write a port, such as 8480, or ADDRESS:PORT, such as 127.0.0.1:8480 or [::1]:8480".to_owned();
    text.parse::<u16>().map(of_this_machine).or_else(|_| text.parse()).map(Listen::At).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        for (text, expected) in [
            ("8480", "127.0.0.1:8480"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(address(text).unwrap(), Listen::At(expected.parse().unwrap()));
        }
        assert_eq!(address("off").unwrap(), Listen::Off);
        for text in ["", ":80", "localhost:80", "70000", "127.0.0.1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
