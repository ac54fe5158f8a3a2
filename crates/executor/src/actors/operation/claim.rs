//! The operation's claim, held while it is running and released once it has finished. The claim keeper calls
//! the operation's cluster, uses real time and notifies the operation.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_cluster::{Cluster, ClusterError, ErrorKind};
use tidegate_lifecycle::operation::{CallError, ClaimEvent, Input, State, Subject};
use tidegate_model::{ClaimLocation, Object, OperationId, Requester, Timestamp};
use tokio::time::Instant;

use super::sync_effects::{ReleaseProgress, SyncEffects};
use crate::claims::{
    ClaimKeeper, ClaimLocations, Claimant, KeeperEnvironment, Lease, LeaseCoverage, Moment, RELEASE_TIMEOUT,
    lease_kind, release_claim, required_rights,
};
use crate::clock::Clock;
use crate::effects;
use crate::inbox::{Arrival, EffectMessage, Inbox};
use crate::log::{Log, LogFailure, run_blocking};

impl SyncEffects {
    /// Returns the claim that covers this operation's writes, or `None` if it needs none.
    pub(super) fn coverage(&self, state: &State) -> Option<Arc<LeaseCoverage>> {
        let claims = state.header().is_some_and(|header| header.claim_request().is_some());
        claims.then(|| Arc::clone(&self.coverage))
    }

    fn claimant(&self, state: &State) -> Option<(Claimant, ClaimLocations)> {
        let header = state.header()?;
        let request = &header.request;
        let places = ClaimLocations::for_request(request, request.claim.as_ref()?);
        let worker = &self.shared.worker;
        let who = if worker.is_empty() { Requester::parse(&request.initiated_by).name } else { worker };
        let us = Claimant {
            operation: self.id.to_string(),
            application: request.application.clone(),
            worker: who.to_owned(),
            revision: request.revision.clone(),
            incarnation: self.shared.incarnation.to_string(),
        };
        Some((us, places))
    }

    pub(super) fn ensure_claim_keeper(&mut self, state: &State) {
        if self.keeper.is_some() {
            return;
        }
        let Some((claimant, locations)) = self.claimant(state) else { return };
        let Some(header) = state.header() else { return };
        let Some(environment) = self.claim_environment(state) else { return };
        let keeper = ClaimKeeper {
            environment,
            claimant,
            locations,
            if_taken: header.request.claim.as_ref().map(|claim| claim.if_taken).unwrap_or_default(),
            previous_location: header.last_claim(),
            observations: self.holder_observations.clone(),
            has_held: Arc::clone(&self.claim_held),
        };
        self.keeper = Some(tokio::spawn(keep_claim(keeper)).abort_handle());
    }

    /// Creates the environment for a claim keeper, or returns `None` if the cluster is unknown.
    fn claim_environment(&self, state: &State) -> Option<EngineEnvironment> {
        let cluster = self.shared.clusters.get(&state.header()?.request.destination)?;
        Some(EngineEnvironment {
            cluster: cluster.connection_with_timeouts(),
            clock: Arc::clone(&self.shared.clock),
            log: Arc::clone(&self.shared.log),
            log_failure: Arc::clone(&self.shared.log_failure),
            inbox: self.inbox.clone(),
            coverage: Arc::clone(&self.coverage),
            operation: self.id,
            started_at: self.started_at,
        })
    }

    /// Releases the claim of a finished operation. Returns true if nothing is left to release, and otherwise
    /// starts the release.
    pub(super) fn release_claim(&mut self, state: &State) -> bool {
        match self.release_progress {
            ReleaseProgress::Done => return true,
            ReleaseProgress::InFlight => return false,
            ReleaseProgress::NotStarted => {}
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        let Some(environment) = self.coverage(state).and_then(|_| self.claim_environment(state)) else {
            return true;
        };
        let Some((claimant, places)) = self.claimant(state) else { return true };
        let had = state.header().and_then(|header| header.last_claim());
        let locations: Vec<ClaimLocation> = match had {
            Some(place) => vec![place],
            None => std::iter::once(places.home).chain(places.fallback).collect(),
        };
        self.release_progress = ReleaseProgress::InFlight;
        let (inbox, has_held) = (self.inbox.clone(), self.claim_held.load(Ordering::SeqCst));
        self.spawn(async move {
            let releasing = release_claim(&environment, &claimant, &locations, has_held);
            if tokio::time::timeout(RELEASE_TIMEOUT, releasing).await.is_err() {
                tracing::warn!("failed to release a claim in time; it will expire");
            }
            inbox.push_message(EffectMessage::ClaimReleased);
        });
        false
    }
}

/// Acquires and renews the claim until it is lost or can't be held, and then notifies the operation.
async fn keep_claim(keeper: ClaimKeeper<EngineEnvironment>) {
    let mut last = EndNotifier { inbox: keeper.environment.inbox.clone(), news: None };
    let news = keeper.run().await;
    let coverage = &keeper.environment.coverage;
    match &news {
        Ok(ClaimEvent::Without { .. }) => coverage.allow_without_claim(),
        _ => coverage.revoke(),
    }
    last.news = Some(news);
}

/// Notifies the operation when its keeper stops, for whatever reason.
struct EndNotifier {
    inbox: Inbox,
    news: Option<Result<ClaimEvent, CallError>>,
}

impl Drop for EndNotifier {
    fn drop(&mut self) {
        let lost = || Err(CallError::transient("claim renewal stopped because of an internal error"));
        let input = Input::Claim(self.news.take().unwrap_or_else(lost));
        self.inbox.push_all([
            Arrival::Input(input),
            Arrival::Message(EffectMessage::KeeperEnded),
            Arrival::SubscriptionEnded(Subject::Claim),
        ]);
    }
}

/// Environment of a claim keeper in a running engine.
struct EngineEnvironment {
    cluster: Arc<dyn Cluster>,
    clock: Arc<dyn Clock>,
    log: Log,
    log_failure: LogFailure,
    inbox: Inbox,
    coverage: Arc<LeaseCoverage>,
    operation: OperationId,
    /// Reference point of monotonic time, shared by all keepers of one operation actor.
    started_at: Instant,
}

impl EngineEnvironment {
    fn check_can_call(&self) -> Result<(), ClusterError> {
        match self.log_failure.get() {
            Some(reason) => Err(ClusterError::new(ErrorKind::Unavailable, reason.as_str())),
            None => Ok(()),
        }
    }
}

impl KeeperEnvironment for EngineEnvironment {
    type Moment = Moment;

    async fn read(&self, place: &ClaimLocation) -> Result<Option<Lease>, ClusterError> {
        self.check_can_call()?;
        Ok(self.cluster.get(&lease_kind(), &place.namespace, &place.name).await?.map(Lease))
    }

    async fn write(&self, lease: Object) -> Result<Lease, ClusterError> {
        self.check_can_call()?;
        self.cluster.put(lease, Some(self.operation)).await.map(Lease)
    }

    async fn missing_rights(&self, place: &ClaimLocation) -> Result<Option<String>, ClusterError> {
        self.check_can_call()?;
        let missing = self.cluster.missing_rights(&required_rights(place)).await?;
        Ok((!missing.is_empty()).then(|| effects::missing_rights_words(&missing)))
    }

    async fn is_over(&self, operation: &str) -> bool {
        let Ok(operation) = operation.parse::<OperationId>() else { return false };
        let entry = run_blocking(&self.log, move |log| log.entry(operation.into())).await;
        matches!(entry, Ok(Some(entry)) if !entry.summary.is_open())
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }

    fn moment(&self) -> Moment {
        Moment::now()
    }

    fn record_renewal(&self, began: Moment) {
        self.coverage.record_renewal(began);
    }

    fn report(&self, news: ClaimEvent) {
        if matches!(news, ClaimEvent::Without { .. }) {
            self.coverage.allow_without_claim();
        }
        self.inbox.push_input(Input::Claim(Ok(news)));
    }
}
