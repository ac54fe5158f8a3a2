//! The claim of the operation: kept while it runs, given back when it is over.

use std::sync::Arc;

use tidegate_model::{ClaimPlace, Wisher};

use tidegate_lifecycle::operation::State;

use super::hands::{GivingBack, SyncHands};
use crate::claims::{self, Claimant, Hold, Keeper, Live, Places};
use crate::inbox::Note;

impl SyncHands {
    /// What covers the writes of this operation; `None` for one without a claim.
    pub(super) fn hold(&self, state: &State) -> Option<Arc<Hold>> {
        let claims = state.header().is_some_and(|header| header.claims().is_some());
        claims.then(|| Arc::clone(&self.hold))
    }

    fn claimant(&self, state: &State) -> Option<(Claimant, Places)> {
        let header = state.header()?;
        let request = &header.request;
        let places = Places::of(request, request.claim.as_ref()?);
        let worker = &self.shared.worker;
        let who = if worker.is_empty() { Wisher::read(&request.initiated_by).by } else { worker };
        let us = Claimant {
            operation: self.id.to_string(),
            application: request.application.clone(),
            who: who.to_owned(),
            revision: request.revision.clone(),
        };
        Some((us, places))
    }

    /// Sees to it that somebody keeps the claim.
    pub(super) fn keep_claim(&mut self, state: &State) {
        if self.keeper.is_some() {
            return;
        }
        let Some((us, places)) = self.claimant(state) else { return };
        let Some(header) = state.header() else { return };
        let Some(around) = self.around_claim(state) else { return };
        let keeper = Keeper {
            around,
            us,
            places,
            if_taken: header.request.claim.as_ref().map(|claim| claim.if_taken).unwrap_or_default(),
            had: header.had_claim(),
            vigil: self.vigil.clone(),
        };
        self.keeper = Some(tokio::spawn(keeper.run()).abort_handle());
    }

    /// What a keeper of the claim has to do with; `None` where nobody knows the way to the cluster.
    fn around_claim(&self, state: &State) -> Option<Live> {
        let cluster = self.shared.clusters.get(&state.header()?.request.destination)?;
        Some(Live {
            cluster: cluster.at_once(),
            clock: Arc::clone(&self.shared.clock),
            log: Arc::clone(&self.shared.log),
            log_failure: Arc::clone(&self.shared.log_failure),
            inbox: self.inbox.clone(),
            hold: Arc::clone(&self.hold),
            operation: self.id,
            began: self.began,
        })
    }

    /// Whether nothing is left of the claim of an operation that is over; otherwise it is on its way.
    pub(super) fn gave_back(&mut self, state: &State) -> bool {
        match self.giving_back {
            GivingBack::Done => return true,
            GivingBack::OnTheWay => return false,
            GivingBack::Not => {}
        }
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        let Some(around) = self.hold(state).and_then(|_| self.around_claim(state)) else { return true };
        let Some((us, places)) = self.claimant(state) else { return true };
        let had = state.header().and_then(|header| header.had_claim());
        let places: Vec<ClaimPlace> = match had {
            Some(place) => vec![place],
            None => std::iter::once(places.home).chain(places.aside).collect(),
        };
        self.giving_back = GivingBack::OnTheWay;
        let inbox = self.inbox.clone();
        let giving_back = claims::GivingBack { around, us, places };
        self.spawn(async move {
            giving_back.run().await;
            inbox.note(Note::GivenBack);
        });
        false
    }
}
