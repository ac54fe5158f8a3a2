//! Life cycle of a claim: acquisition, renewal and release. I/O and the clock are behind
//! [`KeeperEnvironment`], so tests can simulate any interleaving of operations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimEvent};
use tidegate_model::{ClaimConflictPolicy, ClaimHolder, ClaimLocation, Object, Timestamp};

use super::lease_expiry::{HolderStatus, LeaseExpiry};
use super::location::ClaimLocations;
use super::record::{Claimant, Lease, Owner, new_lease};
use super::times::{CLAIM_RENEWAL_INTERVAL, CONFLICT_RETRY_DELAY, OBSERVATION_INTERVAL, RENEWAL_RETRY_DELAY};
use crate::effects::call_error;

/// Environment of a claim keeper: a cluster, time, and the operation.
pub(crate) trait KeeperEnvironment: Send + Sync {
    /// A point in time.
    type Moment: Copy + Send;

    /// Reads the current Lease.
    fn read(&self, place: &ClaimLocation)
    -> impl Future<Output = Result<Option<Lease>, ClusterError>> + Send;
    /// Writes a Lease, unless it has changed since it was read.
    fn write(&self, lease: Object) -> impl Future<Output = Result<Lease, ClusterError>> + Send;
    /// Describes the rights missing to hold a claim at this location, or returns `None` if none are known to
    /// be missing.
    fn missing_rights(
        &self,
        place: &ClaimLocation,
    ) -> impl Future<Output = Result<Option<String>, ClusterError>> + Send;
    /// Returns true if the operation has finished according to this process's own log. Its process must have
    /// been killed before it could release the claim.
    fn is_over(&self, operation: &str) -> impl Future<Output = bool> + Send;
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send;
    /// Returns the wall-clock time for a Lease.
    fn now(&self) -> Timestamp;
    /// Returns the monotonic time since the start.
    fn elapsed(&self) -> Duration;
    /// Returns the current point in time, for [`Self::record_renewal`].
    fn moment(&self) -> Self::Moment;
    /// Records a successful renewal that began at `began`.
    fn record_renewal(&self, began: Self::Moment);
    /// Reports a claim event to the operation.
    fn report(&self, news: ClaimEvent);
}

/// Acquires and keeps the claim of one operation.
pub(crate) struct ClaimKeeper<A> {
    pub environment: A,
    pub claimant: Claimant,
    pub locations: ClaimLocations,
    pub if_taken: ClaimConflictPolicy,
    /// Location where an earlier keeper of this operation held the claim.
    pub previous_location: Option<ClaimLocation>,
    /// Observations of other claims by earlier keepers in this process.
    pub observations: ObservationStore,
    /// True once this engine has held the claim. From then on, another engine in the Lease has taken over.
    pub has_held: Arc<AtomicBool>,
}

/// Observations made while waiting for other operations' claims. They outlive a keeper that gives up on a
/// call, so that the next keeper doesn't measure a holder's silence from scratch.
#[derive(Clone, Default)]
pub(crate) struct ObservationStore(Arc<Mutex<HolderObservations>>);

/// A claim held by this operation.
struct HeldClaim {
    location: ClaimLocation,
    lease: Lease,
}

/// Result of an attempt to acquire a claim.
enum Attempt {
    Held(Box<HeldClaim>),
    Taken {
        holder: ClaimHolder,
        is_renewing: bool,
    },
    Lost(Option<ClaimHolder>),
    /// Another writer changed the Lease concurrently.
    Conflict,
    /// The namespace doesn't exist or is being deleted.
    NoNamespace(ClusterError),
}

/// Reason for the end of renewals.
enum ClaimLoss {
    Over(ClaimEvent),
    /// Renewal is forbidden.
    Forbidden(ClusterError),
    /// The namespace and its Lease are gone or being deleted.
    NoNamespace(ClusterError),
}

/// Observations of other operations' claims in the home and fallback locations.
#[derive(Default)]
struct HolderObservations {
    home: LeaseExpiry,
    fallback: LeaseExpiry,
    /// Holder that was asked to end.
    notified_holder: Option<String>,
}

impl ObservationStore {
    fn take(&self) -> HolderObservations {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_back(&self, watching: HolderObservations) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = watching;
    }
}

impl<A: KeeperEnvironment> ClaimKeeper<A> {
    /// Acquires the claim and renews it until it is lost or can't be held. Returns the reason.
    pub async fn run(&self) -> Result<ClaimEvent, CallError> {
        let mut held = match self.acquire().await {
            Ok(held) => held,
            Err(news) => return news,
        };
        loop {
            let place = held.location.clone();
            self.environment.report(ClaimEvent::Held { place: place.clone(), epoch: held.lease.epoch() });
            let again = match self.renew(*held).await {
                ClaimLoss::Over(news) => return Ok(news),
                ClaimLoss::Forbidden(error) => self.reacquire(&place, Some(error)).await,
                ClaimLoss::NoNamespace(error) => self.move_to_fallback(&place, &error).await,
            };
            held = match again {
                Ok(held) => held,
                Err(news) => return Ok(news),
            };
        }
    }

    /// Acquires the claim. Waits while another operation holds it.
    async fn acquire(&self) -> Result<Box<HeldClaim>, Result<ClaimEvent, CallError>> {
        if let Some(place) = &self.previous_location {
            return self.reacquire(place, None).await.map_err(Ok);
        }
        let mut watching = self.observations.take();
        let taken = self.wait_for_claim(&mut watching).await;
        self.observations.put_back(watching);
        taken
    }

    async fn wait_for_claim(
        &self,
        watching: &mut HolderObservations,
    ) -> Result<Box<HeldClaim>, Result<ClaimEvent, CallError>> {
        loop {
            let moment = self.environment.moment();
            match self.try_acquire(watching).await {
                Ok(Attempt::Held(held)) => {
                    self.environment.record_renewal(moment);
                    return Ok(held);
                }
                Ok(Attempt::Lost(holder)) => return Err(Ok(ClaimEvent::Lost { holder })),
                Ok(Attempt::Conflict) => self.environment.sleep(CONFLICT_RETRY_DELAY).await,
                Ok(Attempt::NoNamespace(error)) => {
                    return Err(handle_failed_acquisition(&error, self.locations.fallback.is_some()));
                }
                Ok(Attempt::Taken { holder, is_renewing: at_work }) => {
                    self.environment.report(ClaimEvent::Taken { holder, at_work });
                    self.environment.sleep(OBSERVATION_INTERVAL).await;
                }
                Err(error) => return Err(handle_failed_acquisition(&error, is_forbidden(error.kind))),
            }
        }
    }

    /// Reacquires a claim that the operation held before. Fails if another operation has held it in the
    /// meantime. Keeps retrying while claims are forbidden; the operation then continues without a claim.
    async fn reacquire(
        &self,
        place: &ClaimLocation,
        forbidden: Option<ClusterError>,
    ) -> Result<Box<HeldClaim>, ClaimEvent> {
        let mut watching = HolderObservations::default();
        let without = |error: &ClusterError| ClaimEvent::not_renewed(place, &error.message);
        let mut is_reported = forbidden.map(|error| self.environment.report(without(&error))).is_some();
        loop {
            let moment = self.environment.moment();
            match self.try_acquire_at(place, true, &mut watching, |watching| &mut watching.home).await {
                Ok(Attempt::Held(held)) => {
                    self.environment.record_renewal(moment);
                    return Ok(held);
                }
                Ok(Attempt::Lost(holder)) => return Err(ClaimEvent::Lost { holder }),
                Ok(Attempt::NoNamespace(error)) => return self.move_to_fallback(place, &error).await,
                Ok(Attempt::Conflict | Attempt::Taken { .. }) => {
                    self.environment.sleep(CONFLICT_RETRY_DELAY).await
                }
                Err(error) if is_forbidden(error.kind) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        self.environment.report(without(&error));
                    }
                    self.environment.sleep(OBSERVATION_INTERVAL).await;
                }
                Err(error) => {
                    tracing::debug!(reason = error.message, "failed to reacquire a claim; retrying");
                    self.environment.sleep(retry_delay(&error)).await;
                }
            }
        }
    }

    /// Moves a claim to the fallback location because its namespace is gone or being deleted. Fails only if
    /// another operation holds the claim there.
    async fn move_to_fallback(
        &self,
        place: &ClaimLocation,
        reason: &ClusterError,
    ) -> Result<Box<HeldClaim>, ClaimEvent> {
        let aside = self.locations.fallback.as_ref().filter(|aside| *aside != place);
        let Some(aside) = aside else { return Err(no_claim_news(reason)) };
        // The claim at the former location is void, so the engine has not held any claim at the other one.
        self.has_held.store(false, Ordering::SeqCst);
        let mut watching = HolderObservations::default();
        loop {
            let moment = self.environment.moment();
            match self.try_acquire_at(aside, false, &mut watching, |watching| &mut watching.fallback).await {
                Ok(Attempt::Held(held)) => {
                    self.environment.record_renewal(moment);
                    return Ok(held);
                }
                Ok(Attempt::Taken { holder, is_renewing: true }) => {
                    return Err(ClaimEvent::Lost { holder: Some(holder) });
                }
                Ok(Attempt::Lost(holder)) => return Err(ClaimEvent::Lost { holder }),
                Ok(Attempt::Taken { is_renewing: false, .. }) => {
                    self.environment.sleep(OBSERVATION_INTERVAL).await
                }
                Ok(Attempt::Conflict) => self.environment.sleep(CONFLICT_RETRY_DELAY).await,
                Ok(Attempt::NoNamespace(error)) => {
                    return Err(no_claim_news(&combine_errors(reason, aside, &error)));
                }
                Err(error) if is_forbidden(error.kind) => {
                    return Err(no_claim_news(&combine_errors(reason, aside, &error)));
                }
                Err(error) => self.environment.sleep(retry_delay(&error)).await,
            }
        }
    }

    async fn try_acquire(&self, watching: &mut HolderObservations) -> Result<Attempt, ClusterError> {
        let ClaimLocations { home, fallback } = &self.locations;
        let at_home = self.try_acquire_at(home, false, watching, |watching| &mut watching.home).await?;
        match (at_home, fallback) {
            (Attempt::Held(held), Some(aside)) => {
                Ok(match self.find_fallback_holder(aside, watching).await? {
                    Some(other) => other,
                    None => Attempt::Held(held),
                })
            }
            (Attempt::NoNamespace(reason), Some(aside)) => {
                let found =
                    self.try_acquire_at(aside, false, watching, |watching| &mut watching.fallback).await;
                let found = match found {
                    Err(error) if is_forbidden(error.kind) => {
                        return Ok(Attempt::NoNamespace(combine_errors(&reason, aside, &error)));
                    }
                    found => found?,
                };
                let Attempt::Held(held) = found else { return Ok(found) };
                // An operation that started while the namespace existed checks the fallback location after
                // acquiring the claim at home. At least one of two competing operations therefore observes
                // the other's claim.
                match self.try_acquire_at(home, false, watching, |watching| &mut watching.home).await? {
                    Attempt::NoNamespace(_) => Ok(Attempt::Held(held)),
                    found => {
                        let _ = self.environment.write(held.lease.released()).await;
                        Ok(found)
                    }
                }
            }
            (found, _) => Ok(found),
        }
    }

    /// Reads a claim once, and tries to acquire it if it is free. `had` is true if this operation previously
    /// held the claim at this location.
    async fn try_acquire_at(
        &self,
        place: &ClaimLocation,
        had: bool,
        watching: &mut HolderObservations,
        expiry: fn(&mut HolderObservations) -> &mut LeaseExpiry,
    ) -> Result<Attempt, ClusterError> {
        let found = match self.environment.read(place).await {
            Err(error) if error.kind == ErrorKind::Forbidden && !had => {
                return Err(self.add_missing_rights(place, error).await);
            }
            found => found?,
        };
        if found.is_none() && !had {
            self.check_rights(place).await?;
        }
        let owner = found.as_ref().map_or(Owner::Free, |lease| lease.owner(&self.claimant, had));
        let known = found.as_ref().map_or(0, Lease::epoch);
        let now = self.environment.now();
        let Some(lease) = found.or_else(|| new_lease(place)) else { return Ok(Attempt::Conflict) };
        let wanted = match owner {
            Owner::Ours | Owner::Free if self.is_taken_over(&lease) => {
                return Ok(Attempt::Lost(Some(lease.holder())));
            }
            Owner::Ours => lease.renewed_by(&self.claimant, now),
            Owner::Free => lease.with_claimant(&self.claimant, known.saturating_add(1), now),
            Owner::Lost(holder) => return Ok(Attempt::Lost(holder)),
            Owner::Other(holder) => match self.judge_holder(&holder, &lease, expiry(watching)).await {
                HolderStatus::Expired => lease.with_claimant(&self.claimant, known.saturating_add(1), now),
                verdict => return self.wait_for_holder(holder, verdict, &lease, watching).await,
            },
        };
        match self.environment.write(wanted).await {
            Ok(lease) => {
                self.has_held.store(true, Ordering::SeqCst);
                Ok(Attempt::Held(Box::new(HeldClaim { location: place.clone(), lease })))
            }
            Err(error) if has_no_namespace(error.kind) => Ok(Attempt::NoNamespace(error)),
            Err(error) if is_race(error.kind) => Ok(Attempt::Conflict),
            Err(error) => Err(error),
        }
    }

    /// Checks the rights to renew and release a Lease before it is created here. Without them, it would only
    /// block other operations.
    async fn check_rights(&self, place: &ClaimLocation) -> Result<(), ClusterError> {
        match self.environment.missing_rights(place).await? {
            Some(rights) => Err(ClusterError::new(ErrorKind::Forbidden, missing_rights_message(&rights))),
            None => Ok(()),
        }
    }

    /// Adds all missing rights to a "forbidden" error.
    async fn add_missing_rights(&self, place: &ClaimLocation, error: ClusterError) -> ClusterError {
        match self.environment.missing_rights(place).await {
            Ok(Some(rights)) => ClusterError::new(
                error.kind,
                format!("{}; {}", error.message, missing_rights_message(&rights)),
            ),
            _ => error,
        }
    }

    /// Determines the status of another operation's claim. If that operation has finished according to the
    /// local log, its claim counts as expired.
    async fn judge_holder(
        &self,
        holder: &ClaimHolder,
        lease: &Lease,
        expiry: &mut LeaseExpiry,
    ) -> HolderStatus {
        match expiry.observe(lease, self.environment.elapsed()) {
            HolderStatus::Unknown if self.environment.is_over(&holder.operation).await => {
                HolderStatus::Expired
            }
            verdict => verdict,
        }
    }

    /// Waits for the holder of the claim, and asks it once to end if the policy says so.
    async fn wait_for_holder(
        &self,
        holder: ClaimHolder,
        verdict: HolderStatus,
        lease: &Lease,
        watching: &mut HolderObservations,
    ) -> Result<Attempt, ClusterError> {
        let asks = self.if_taken == ClaimConflictPolicy::Supersede
            && watching.notified_holder.as_ref() != Some(&holder.operation)
            && lease.end_requester().is_none_or(|by| by.operation != self.claimant.operation);
        if asks {
            match self.environment.write(lease.with_end_request(&self.claimant)).await {
                Ok(_) => watching.notified_holder = Some(holder.operation.clone()),
                Err(error) if is_race(error.kind) => return Ok(Attempt::Conflict),
                Err(error) if is_forbidden(error.kind) => {
                    // The holder still has the claim, so keep waiting.
                    tracing::warn!(reason = error.message, "failed to ask the holder of a claim to stop");
                    watching.notified_holder = Some(holder.operation.clone());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Attempt::Taken { holder, is_renewing: verdict == HolderStatus::Renewing })
    }

    /// Returns the operation that holds its claim in the fallback location because its namespace didn't
    /// exist. Returns `None` without permission to read the fallback location.
    async fn find_fallback_holder(
        &self,
        aside: &ClaimLocation,
        watching: &mut HolderObservations,
    ) -> Result<Option<Attempt>, ClusterError> {
        let lease = match self.environment.read(aside).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ok(None),
            Err(error) if is_forbidden(error.kind) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Owner::Other(holder) = lease.owner(&self.claimant, false) else { return Ok(None) };
        let verdict = self.judge_holder(&holder, &lease, &mut watching.fallback).await;
        if verdict != HolderStatus::Expired {
            return self.wait_for_holder(holder, verdict, &lease, watching).await.map(Some);
        }
        match self.environment.write(lease.revoked_by(&self.claimant)).await {
            Ok(_) => Ok(None),
            Err(error) if is_race(error.kind) => Ok(Some(Attempt::Conflict)),
            Err(error) => Err(error),
        }
    }

    /// Renews the claim until it is lost or can't be held.
    async fn renew(&self, mut held: HeldClaim) -> ClaimLoss {
        let mut pause = CLAIM_RENEWAL_INTERVAL;
        let mut heard = None;
        loop {
            let request = held.lease.end_requester();
            if let Some(by) = request.filter(|by| heard.as_ref() != Some(&by.operation)) {
                heard = Some(by.operation.clone());
                self.environment.report(ClaimEvent::EndWanted { by });
            }
            self.environment.sleep(pause).await;
            let began = self.environment.elapsed();
            pause = match self.renew_once(&mut held).await {
                // Measure the interval from the start of the renewal. A renewal that hung may not cover any
                // more writes, so the next one follows immediately.
                Ok(None) => {
                    CLAIM_RENEWAL_INTERVAL.saturating_sub(self.environment.elapsed().saturating_sub(began))
                }
                Ok(Some(news)) => return ClaimLoss::Over(news),
                Err(error) if has_no_namespace(error.kind) => return ClaimLoss::NoNamespace(error),
                Err(error) if is_forbidden(error.kind) => return ClaimLoss::Forbidden(error),
                Err(error) if is_race(error.kind) => CONFLICT_RETRY_DELAY,
                Err(error) => retry_delay(&error),
            };
        }
    }

    /// Returns true if another engine has continued the operation since this one held the claim. This engine must not
    /// write anymore.
    fn is_taken_over(&self, lease: &Lease) -> bool {
        self.has_held.load(Ordering::SeqCst) && lease.is_of_other_engine(&self.claimant)
    }

    async fn renew_once(&self, held: &mut HeldClaim) -> Result<Option<ClaimEvent>, ClusterError> {
        let moment = self.environment.moment();
        match self.environment.write(held.lease.renewed_by(&self.claimant, self.environment.now())).await {
            Ok(lease) => {
                held.lease = lease;
                self.environment.record_renewal(moment);
                return Ok(None);
            }
            Err(error) if is_race(error.kind) => {}
            Err(error) => return Err(error),
        }
        let moment = self.environment.moment();
        let found = self.environment.read(&held.location).await?;
        let owner = found.as_ref().map_or(Owner::Free, |lease| lease.owner(&self.claimant, true));
        let is_new = found.is_none();
        let known = found.as_ref().map_or(held.lease.epoch(), Lease::epoch);
        let Some(lease) = found.or_else(|| new_lease(&held.location)) else { return Ok(None) };
        let now = self.environment.now();
        let wanted = match owner {
            Owner::Ours | Owner::Free if self.is_taken_over(&lease) => {
                return Ok(Some(ClaimEvent::Lost { holder: Some(lease.holder()) }));
            }
            Owner::Ours => lease.renewed_by(&self.claimant, now),
            // A user has removed the holder or deleted the Lease.
            Owner::Free => lease.with_claimant(&self.claimant, known.saturating_add(u64::from(is_new)), now),
            Owner::Other(holder) => return Ok(Some(ClaimEvent::Lost { holder: Some(holder) })),
            Owner::Lost(holder) => return Ok(Some(ClaimEvent::Lost { holder })),
        };
        held.lease = self.environment.write(wanted).await?;
        self.environment.record_renewal(moment);
        if is_new {
            self.environment
                .report(ClaimEvent::Held { place: held.location.clone(), epoch: held.lease.epoch() });
        }
        Ok(None)
    }
}

/// Releases the claim of a finished operation if it holds the claim. If that fails, the claim expires. Also
/// withdraws any request for another holder to end, because the operation isn't waiting for the claim
/// anymore.
pub(crate) async fn release_claim(
    environment: &impl KeeperEnvironment,
    us: &Claimant,
    places: &[ClaimLocation],
    has_held: bool,
) {
    for place in places {
        while let Ok(Some(lease)) = environment.read(place).await {
            let is_wanted_by_us = lease.end_requester().is_some_and(|by| by.operation == us.operation);
            let wanted = match lease.owner(us, false) {
                // Another engine has continued the operation since this one held the claim.
                Owner::Ours if has_held && lease.is_of_other_engine(us) => break,
                Owner::Ours => lease.released(),
                _ if is_wanted_by_us => lease.without_end_request(),
                _ => break,
            };
            match environment.write(wanted).await {
                // The Lease has changed, for example because another operation has asked this one to end.
                Err(error) if is_race(error.kind) => {}
                Err(error) => {
                    tracing::warn!(%place, reason = error.message, "cannot release a claim; it will expire");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
}

fn missing_rights_message(rights: &str) -> String {
    format!("missing permissions: {rights}")
}

/// Returns true if another writer changed the object after it was read.
pub(super) fn is_race(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::AlreadyExists | ErrorKind::NotFound)
}

/// Returns the delay before a failed call is retried, extended if the server requests it.
pub(super) fn retry_delay(error: &ClusterError) -> Duration {
    match error.kind {
        ErrorKind::TooManyRequests { retry_after: Some(asked) } => asked.max(RENEWAL_RETRY_DELAY),
        _ => RENEWAL_RETRY_DELAY,
    }
}

/// Returns true if the namespace is missing or being deleted, so that no object can be created in it.
fn has_no_namespace(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NamespaceMissing | ErrorKind::NamespaceTerminating)
}

/// Returns true if the API server forbids claims at this location.
fn is_forbidden(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Forbidden | ErrorKind::UnknownKind | ErrorKind::Unsupported)
}

/// Decides how to proceed without the claim: continue without it, retry, or end.
fn handle_failed_acquisition(error: &ClusterError, goes_on: bool) -> Result<ClaimEvent, CallError> {
    if goes_on { Ok(no_claim_news(error)) } else { Err(call_error(error)) }
}

/// Combines the errors from the home and fallback locations.
fn combine_errors(reason: &ClusterError, aside: &ClaimLocation, error: &ClusterError) -> ClusterError {
    let text = format!(
        "{}; storing the claim in namespace {} failed too: {}",
        reason.message, aside.namespace, error.message
    );
    ClusterError::new(reason.kind, text)
}

/// Returns the event that explains why the operation continues without a claim.
fn no_claim_news(error: &ClusterError) -> ClaimEvent {
    match error.kind {
        ErrorKind::NamespaceTerminating => ClaimEvent::namespace_terminating(&error.message),
        _ => ClaimEvent::Without { reason: error.message.clone() },
    }
}
