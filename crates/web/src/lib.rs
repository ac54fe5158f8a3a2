//! The way to servers over HTTP, for all that ask the servers of others: repositories, hosts of repositories, plugins. Whom to
//! trust, where a server may send us on to, and which addresses are not asked.

mod client;
mod link_local;
mod redirect;
mod trust;

pub use client::{Client, Fault, Way, cause, client, connector, direct};
pub use link_local::{LINK_LOCAL, Resolver, link_local};
pub use redirect::{Misled, follow, is_same_or_safer, is_same_server};
pub use trust::{ClientCertificate, Tls, Trust, TrustError, Trusted};
