//! The API from the outside: real connections to a server on this machine, with the manners of clients and of those who
//! mean no good.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod client;
mod door;
mod oidc;
mod page;
#[path = "../../../../tests/provider/mod.rs"]
mod provider;
mod watched;
mod webhooks;
