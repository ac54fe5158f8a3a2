//! Tests with repositories on a real Git server on the loopback interface. The server records its requests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
#![allow(missing_docs, reason = "tests may panic")]

mod credentials;
mod fixture;
mod hostile;
mod lfs;
mod mirror;
mod proxy;
mod signatures;
mod ssh;
mod temporary_tokens;
