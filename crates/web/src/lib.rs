//! HTTP client for third-party servers: repositories, their hosts, and plugins. The client handles trust,
//! redirects, blocked addresses and temporary tokens.

mod blocked_addresses;
mod client;
mod clock;
mod github_app;
mod rate_limit;
mod redirect;
mod signing;
mod token_cache;
mod trust;

pub use blocked_addresses::{
    BlockedAddresses, LINK_LOCAL_REASON, LOOPBACK_REASON, Resolver, is_local_host, link_local_ip,
};
pub use client::{
    Client, ConnectionError, Transport, create_client, create_connector, direct_transport, root_cause,
};
pub use clock::Clock;
pub use github_app::{GITHUB_APP_FIELDS, GithubApp, can_send_secrets_to, is_token};
pub use rate_limit::{RequestedWait, requested_wait};
pub use redirect::{RedirectError, is_same_or_safer, is_same_server, redirect_target};
pub use signing::{RsaKey, SigningError};
pub use token_cache::{ExpiringToken, ObtainedToken, TokenCache, TokenFailure};
pub use trust::{ClientCertificate, SystemTrust, Tls, TrustError, TrustedServers};
