//! Tests of the API over real connections to a server on this machine, with well-behaved and malicious
//! clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, missing_docs, reason = "tests may panic")]

mod client;
mod dashboards;
mod forwarding;
mod oidc;
mod page;
mod protection;
#[path = "../../../../tests/provider/provider.rs"]
mod provider;
mod webhooks;
