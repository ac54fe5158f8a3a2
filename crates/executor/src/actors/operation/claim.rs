//! The operation's claim, held while it is running and released once it has finished.

use std::sync::Arc;

use tidegate_model::{ClaimLocation, Requester};

use tidegate_lifecycle::operation::State;

use super::sync_effects::{ReleaseProgress, SyncEffects};
use crate::claims::{self, ClaimLocations, ClaimTask, Claimant, EngineEnvironment, LeaseCoverage};
use crate::inbox::EffectMessage;

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
        let keeper = ClaimTask {
            environment,
            claimant,
            locations,
            if_taken: header.request.claim.as_ref().map(|claim| claim.if_taken).unwrap_or_default(),
            previous_location: header.last_claim(),
            observations: self.holder_observations.clone(),
        };
        self.keeper = Some(tokio::spawn(keeper.run()).abort_handle());
    }

    /// Creates the environment for a claim keeper, or returns `None` if the cluster is unknown.
    fn claim_environment(&self, state: &State) -> Option<EngineEnvironment> {
        let cluster = self.shared.clusters.get(&state.header()?.request.destination)?;
        Some(EngineEnvironment {
            cluster: cluster.priority_connection(),
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
        let inbox = self.inbox.clone();
        let giving_back = claims::ClaimRelease { environment, claimant, locations };
        self.spawn(async move {
            giving_back.run().await;
            inbox.push_message(EffectMessage::ClaimReleased);
        });
        false
    }
}
