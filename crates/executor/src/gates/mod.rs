//! Gates: how they are asked, and those that are built in.

mod asking;

pub use asking::GateReply;
pub(crate) use asking::ask;
