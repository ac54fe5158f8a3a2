//! The way to servers over HTTP, for all that ask the servers of others: repositories, hosts of repositories, plugins. Whom to
//! trust, where a server may send us on to, which addresses are not asked, and tokens that are given for a while.

mod barred;
mod client;
mod clock;
mod github_app;
mod leases;
mod redirect;
mod signing;
mod trust;
mod waits;

pub use barred::{Barred, LINK_LOCAL, LOOPBACK, Resolver, is_this_machine, link_local};
pub use client::{Client, Fault, Way, cause, client, connector, direct};
pub use clock::Clock;
pub use github_app::{GITHUB_APP_FIELDS, GithubApp, is_token, is_told_in_secret};
pub use leases::{Lease, Leased, Leases, Refused};
pub use redirect::{Misled, follow, is_same_or_safer, is_same_server};
pub use signing::{RsaKey, SigningError};
pub use trust::{ClientCertificate, Tls, Trust, TrustError, Trusted};
pub use waits::{Wait, asks_to_wait};
