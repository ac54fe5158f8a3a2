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
mod trials;

use std::time::Duration;

pub(crate) use self::hold::{Covered, Hold};
pub(crate) use self::live::{GivingBack, Keeper, Live};
pub(crate) use self::place::Places;
pub(crate) use self::record::Claimant;

/// How long a claim lasts that is not renewed.
pub const CLAIM_LASTS: Duration = Duration::from_secs(30);
/// How often it is renewed.
pub const CLAIM_RENEWED_EVERY: Duration = Duration::from_secs(5);
/// How long a holder goes on writing after it began its last renewal that succeeded. What is left of the duration is for
/// a call on its way.
const COVERS: Duration = Duration::from_secs(20);
/// How soon a renewal is tried again that failed.
const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the claim of another operation is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A look that comes later than this after the one before does not count as watching: the cluster was away, or we were.
const LOOK_GAP: Duration = Duration::from_secs(10);
/// How soon a claim is looked at again that was written by somebody at the same moment.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long the end of an operation waits for its claim to be given back. It runs out by itself otherwise.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);
/// How long a write waits for the renewal of the claim that covers it.
const COVERED_WITHIN: Duration = Duration::from_secs(10);
