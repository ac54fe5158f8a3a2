//! How tidegate processes talk: the one at work in a state directory listens on a socket in it, and others ask.
//!
//! ```text
//! tidegate ops pause ID ──{"do":"wish",…}\n──▶ control.sock ──▶ tidegate sync
//!                       ◀──────"done"\n──────
//! ```
//!
//! One request and one reply per connection, each a line of JSON; only the output of hooks is told in many replies. Only the owner of the state directory can connect,
//! and root; who it was is asked of the system, and not of them.

mod address;
pub mod client;
pub mod protocol;
pub mod server;
