//! Tests for repositories on a real Git server, which listens on the loopback interface and records its
//! requests.
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
