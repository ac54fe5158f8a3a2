//! Communication between tidegate processes. The process running in a state directory listens on a socket
//! there for requests from others.
//!
//! ```text
//! tidegate ops pause ID ──{"do":"request-operation-action",…}\n──▶ control.sock ──▶ tidegate sync
//!                       ◀──────"done"\n──────
//! ```
//!
//! Each connection carries one request and one reply, both as a line of JSON. Only hook output is a stream of
//! replies. Only root and the owner of the state directory can connect. The operating system identifies the
//! requester.

mod address;
pub mod client;
pub mod server;
