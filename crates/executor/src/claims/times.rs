//! How long a claim lasts, and when it is looked at.

use std::time::Duration;

/// How long a claim lasts that is not renewed.
pub const CLAIM_LASTS: Duration = Duration::from_secs(30);
/// How often it is renewed.
pub const CLAIM_RENEWED_EVERY: Duration = Duration::from_secs(5);
/// How long a holder goes on writing after it began its last renewal that succeeded. What is left of the duration is for
/// a call on its way.
pub(super) const COVERS: Duration = Duration::from_secs(20);
/// How soon a renewal is tried again that failed.
pub(super) const RENEW_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the claim of another operation is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A look that comes later than this after the one before does not count as watching: the cluster was away, or we were.
pub(super) const LOOK_GAP: Duration = Duration::from_secs(10);
/// How soon a claim is looked at again that was written by somebody at the same moment.
pub(super) const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long the end of an operation waits for its claim to be given back. It runs out by itself otherwise.
pub(super) const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);
/// How long a write waits for the renewal of the claim that covers it.
pub(super) const COVERED_WITHIN: Duration = Duration::from_secs(10);
