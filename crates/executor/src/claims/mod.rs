//! The claim of an operation on a cluster: a `Lease` per application, which keeps apart operations whose engines share
//! no log.
//!
//! Clocks of different machines are not compared. A claim has run out when whoever wants it has watched it for its whole
//! duration, by a clock of its own that only goes forward, and it was not renewed; its holder stops writing well before.
//! `place` says where the Lease is, `record` what is in it, `patience` when it has run out, `keeper` how it is taken
//! and renewed, `live` does that in the engine, `hold` keeps calls back that are not covered by it.

mod hold;
mod keeper;
mod live;
mod patience;
mod place;
mod record;
#[cfg(test)]
mod renewals;
mod times;
#[cfg(test)]
mod trials;

pub(crate) use self::hold::{Covered, Hold};
pub(crate) use self::keeper::Vigil;
pub(crate) use self::live::{GivingBack, Keeper, Live};
pub(crate) use self::place::Places;
pub(crate) use self::record::Claimant;
pub use self::times::{CLAIM_LASTS, CLAIM_RENEWED_EVERY};
