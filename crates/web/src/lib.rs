//! The way to servers over HTTP, for all that ask the servers of others: repositories, hosts of repositories, plugins. Whom to
//! trust, where a server may send us on to, and which addresses are not asked.

mod barred;
mod client;
mod redirect;
mod trust;

pub use barred::{Barred, LINK_LOCAL, LOOPBACK, Resolver, is_this_machine, link_local};
pub use client::{Client, Fault, Way, cause, client, connector, direct};
pub use redirect::{Misled, follow, is_same_or_safer, is_same_server};
pub use trust::{ClientCertificate, Tls, Trust, TrustError, Trusted};
