//! Repositories of a real Git server on loopback. What was asked is read from the server's own record.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

mod bench;
mod hostile;
mod issued;
mod lfs;
mod mirror;
mod proxied;
mod reach;
mod signed;
mod ssh;
