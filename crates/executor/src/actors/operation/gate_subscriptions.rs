//! Evaluation of the gates that block a waiting wave, subscriptions to these gates, and the operation's slots
//! in concurrency groups. The code calls a slot a place.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{Driver, Header, Input, Operation, State, Verdict, concurrency_group};
use tidegate_model::{ObjectKey, OperationId, PlannedWave, Task};
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::sync_effects::{PlacePublication, SyncEffects};
use crate::engine_context::EngineContext;
use crate::extensions::GateRequest;
use crate::gates::{
    self, ClusterConnection, GateDefinitions, GateEnvironment, GateSubject, RecordedPlaces, Ticket,
};
use crate::inbox::EffectMessage;
use crate::log::run_blocking;
use crate::manifests;
use crate::offline::list_summaries;

/// Interval at which an operation waiting for a slot checks for finished operations without an actor. Another
/// process may have recorded their end.
const ENDED_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the slots that an operation holds according to its state.
fn recorded_places(operation: OperationId, state: &State) -> RecordedPlaces {
    let application = state.header().map(|header| header.request.application.clone()).unwrap_or_default();
    RecordedPlaces { operation, application, places: state.held_groups().map(str::to_owned).collect() }
}

impl SyncEffects {
    /// Evaluates a gate, and subscribes to it until the wave is released.
    pub(super) fn evaluate_gate(&mut self, state: &State, index: u32, gate: &str) {
        let Some(operation) = state.operation() else { return };
        let Some(planned) = operation.wave(index) else { return };
        if let Some(group) = concurrency_group(gate) {
            let all = planned.gates.iter().filter_map(|gate| concurrency_group(gate)).map(str::to_owned);
            return self.request_place(state, index, group, &all.collect());
        }
        let registered = self.shared.extensions.gates.get(gate).cloned();
        let asking = if registered.is_none() && GateDefinitions::can_evaluate(gate) {
            self.subscribe_to_gate(operation, index, planned, gate)
        } else {
            let (id, inbox, name) = (self.id, self.inbox.clone(), gate.to_owned());
            let (phase, wave) = (planned.phase, planned.wave);
            let objects: Vec<ObjectKey> = operation.plan.tasks_of(planned).iter().map(Task::key).collect();
            let application = operation.header.request.application.clone();
            tokio::spawn(async move {
                let question = |reply| {
                    let (application, objects) = (application.clone(), objects.clone());
                    GateRequest { operation: id, application, phase, wave, objects, reply }
                };
                let tell =
                    |verdict| inbox.push_input(Input::Gate { wave: index, gate: name.clone(), verdict });
                gates::poll_registered_gate(&name, registered.as_ref(), question, tell).await;
            })
        };
        if let Some(before) = self.gates.insert(gate.to_owned(), asking.abort_handle()) {
            before.abort();
        }
    }

    /// Subscribes to a built-in gate.
    fn subscribe_to_gate(
        &self,
        operation: &Operation,
        index: u32,
        planned: &PlannedWave,
        gate: &str,
    ) -> JoinHandle<()> {
        let Header { request, targets, started_at, .. } = &operation.header;
        let (shared, inbox, targets) = (Arc::clone(&self.shared), self.inbox.clone(), *targets);
        let destination = &request.destination;
        let connection = shared.clusters.get(destination).map(|cluster| ClusterConnection {
            destination: destination.clone(),
            cluster: cluster.connection_with_timeouts(),
            permits: cluster.permits(),
        });
        let subject = GateSubject {
            gate: gate.to_owned(),
            operation: self.id,
            application: request.application.clone(),
            revision: request.revision.clone(),
            phase: planned.phase,
            wave: planned.wave,
            started_at: *started_at,
            // The trigger is stored with the gate definitions, which are read below.
            is_manual: false,
        };
        tokio::spawn(async move {
            let gate = subject.gate.clone();
            let tell = |verdict| inbox.push_input(Input::Gate { wave: index, gate: gate.clone(), verdict });
            let environment = GateEnvironment {
                clock: &shared.clock,
                http_client: &shared.http_client,
                object_watches: &shared.object_watches,
                connection: connection.as_ref(),
            };
            match manifests::read_gates(&shared.log, targets).await {
                Ok((definitions, is_manual)) => {
                    let subject = GateSubject { is_manual, ..subject };
                    gates::watch_defined_gate(&subject, &definitions, &environment, tell).await;
                }
                Err(error) => tell(Verdict::closed(error.message)),
            }
        })
    }

    /// Requests a slot in `group` for a wave that needs slots in all groups in `all`. The time of the call
    /// determines the position in the queue.
    fn request_place(&mut self, state: &State, index: u32, group: &str, all: &BTreeSet<String>) {
        let Some(header) = state.header() else { return };
        let gate = format!("{}{group}", gates::CONCURRENCY_PREFIX);
        let tell = {
            let (inbox, gate) = (self.inbox.clone(), gate.clone());
            move |verdict| inbox.push_input(Input::Gate { wave: index, gate: gate.clone(), verdict })
        };
        let application = &header.request.application;
        let ticket = self.shared.groups.request_place(self.id, application, all, group, Box::new(tell));
        let (shared, targets, group) = (Arc::clone(&self.shared), header.targets, group.to_owned());
        let asking = tokio::spawn(async move {
            ensure_places_loaded(&shared, ticket, &group).await;
            let gates = manifests::read_gates(&shared.log, targets).await;
            let limit = gates
                .map_err(|error| error.message)
                .and_then(|(definitions, _)| definitions.concurrency_limit(&group));
            shared.groups.set_limit(ticket, &group, limit);
            loop {
                sleep(ENDED_CHECK_INTERVAL).await;
                check_orphaned_places(&shared).await;
            }
        });
        if let Some(before) = self.gates.insert(gate, asking.abort_handle()) {
            before.abort();
        }
    }

    /// Unsubscribes from a gate.
    pub(super) fn unsubscribe_from_gate(&mut self, gate: &str) {
        self.gates.remove(gate).iter().for_each(tokio::task::AbortHandle::abort);
        if let Some(group) = concurrency_group(gate) {
            self.shared.groups.withdraw(self.id, group);
            // The inbox preserves the order, so this message arrives after the gate's last verdict.
            self.inbox.push_message(EffectMessage::GateUnsubscribed);
        }
    }

    /// Resolves a withdrawn request once the operation has processed all verdicts sent before the withdrawal.
    pub(super) fn resolve_places(&self, state: &State) {
        self.shared.groups.resolve_withdrawal(self.id, state.held_groups().next().is_some());
    }

    /// Restores the slots of a recovered operation.
    pub(super) fn recover_places(&mut self, state: &State) {
        let recorded = recorded_places(self.id, state);
        if !recorded.places.is_empty() {
            self.place_publication.has_places = true;
            self.shared.groups.record_places(recorded);
        }
    }

    /// Prepares the slots that the operation holds once the batch in flight is durable.
    pub(super) fn prepare_places(&mut self, state: &State) {
        let has = state.held_groups().next().is_some();
        if has || self.place_publication.has_places {
            self.place_publication =
                PlacePublication { has_places: has, next: Some(recorded_places(self.id, state)) };
        }
    }

    /// Publishes the slots of the batch that just became durable.
    pub(super) fn publish_places(&mut self) {
        if let Some(recorded) = self.place_publication.next.take() {
            self.shared.groups.record_places(recorded);
        }
    }

    /// Ends all gate subscriptions when this actor stops running the operation, for good or temporarily.
    pub(super) fn release_gates(&mut self, state: &State) {
        for (gate, asking) in std::mem::take(&mut self.gates) {
            asking.abort();
            if let Some(group) = concurrency_group(&gate) {
                self.shared.groups.withdraw(self.id, group);
            }
        }
        self.resolve_places(state);
        self.shared.groups.mark_stopped(self.id);
    }
}

/// Reads the slots of all operations from the log, unless they are loaded already. No slots are assigned
/// before then.
async fn ensure_places_loaded(shared: &EngineContext, ticket: Ticket, group: &str) {
    let _reading = shared.groups.load_lock.lock().await;
    while !shared.groups.is_known() {
        match read_places(shared).await {
            Ok(recorded) => shared.groups.load_places(recorded),
            Err(error) => {
                let reason = format!("failed to read which operations occupy the concurrency group: {error}");
                shared.groups.report_reason(ticket, group, reason);
                sleep(ENDED_CHECK_INTERVAL).await;
            }
        }
    }
}

/// Reads the slots of all operations from the log, including operations without an actor.
async fn read_places(shared: &EngineContext) -> Result<Vec<RecordedPlaces>, LogError> {
    let open = run_blocking(&shared.log, |log| list_summaries(log, Lookup::open())).await?;
    let mut found = Vec::new();
    for operation in open.into_iter().map(|summary| summary.operation) {
        let read = run_blocking(&shared.log, move |log| {
            let loaded = log.load_as(operation)?;
            Ok(Driver::recover(loaded.snapshot, loaded.events))
        });
        match read.await {
            Ok(Ok(driver)) => found.push(recorded_places(operation, driver.state())),
            // An operation with unreadable records can't continue, so ignore its slots.
            Ok(Err(error)) => {
                tracing::warn!(%operation, %error, "failed to read an operation's slots in concurrency gates")
            }
            Err(error) => {
                tracing::warn!(%operation, %error, "failed to read an operation's slots in concurrency gates")
            }
        }
    }
    found.retain(|recorded| !recorded.places.is_empty());
    Ok(found)
}

/// Frees the slots of operations that finished without an actor in this process.
async fn check_orphaned_places(shared: &EngineContext) {
    let left_alone = shared.groups.orphaned();
    if left_alone.is_empty() {
        return;
    }
    let open = run_blocking(&shared.log, |log| list_summaries(log, Lookup::open())).await;
    if let Ok(open) = open {
        let open: BTreeSet<OperationId> = open.into_iter().map(|summary| summary.operation).collect();
        let over: Vec<OperationId> =
            left_alone.into_iter().filter(|operation| !open.contains(operation)).collect();
        shared.groups.remove_finished(&over);
    }
}
