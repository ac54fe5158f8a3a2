//! The gates of a held wave: who is asked, who listens, and the places in groups that come of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{Driver, Header, Input, Operation, State, Verdict, concurrency_group};
use tidegate_model::{ObjectKey, OperationId, PlannedWave, Task};
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::hands::{Placing, SyncHands};
use crate::extend::GateQuestion;
use crate::gates::{self, Around, Asked, GateDefinitions, Recorded, Ticket, Way};
use crate::inbox::Note;
use crate::log::blocking;
use crate::manifests;
use crate::offline::operations;
use crate::shared::Shared;

/// How often somebody who waits for a place looks whether operations have ended that nobody works on. Others may record that.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The places that an operation has.
fn recorded(operation: OperationId, state: &State) -> Recorded {
    let application = state.header().map(|header| header.request.application.clone()).unwrap_or_default();
    Recorded { operation, application, places: state.places().map(str::to_owned).collect() }
}

impl SyncHands {
    /// Asks a gate, and listens to it until the wave is not held any more.
    pub(super) fn ask_gate(&mut self, state: &State, index: u32, gate: &str) {
        let Some(operation) = state.operation() else { return };
        let Some(planned) = operation.wave(index) else { return };
        if let Some(group) = concurrency_group(gate) {
            let all = planned.gates.iter().filter_map(|gate| concurrency_group(gate)).map(str::to_owned);
            return self.ask_for_place(state, index, group, &all.collect());
        }
        let registered = self.shared.extensions.gates.get(gate).cloned();
        let asking = if registered.is_none() && GateDefinitions::concerns(gate) {
            self.keep_gate(operation, index, planned, gate)
        } else {
            let (id, inbox, name) = (self.id, self.inbox.clone(), gate.to_owned());
            let (phase, wave) = (planned.phase, planned.wave);
            let objects: Vec<ObjectKey> = operation.plan.tasks_of(planned).iter().map(Task::key).collect();
            let application = operation.header.request.application.clone();
            tokio::spawn(async move {
                let question = |reply| {
                    let (application, objects) = (application.clone(), objects.clone());
                    GateQuestion { operation: id, application, phase, wave, objects, reply }
                };
                let tell = |verdict| inbox.tell(Input::Gate { wave: index, gate: name.clone(), verdict });
                gates::ask(&name, registered.as_ref(), question, tell).await;
            })
        };
        if let Some(before) = self.gates.insert(gate.to_owned(), asking.abort_handle()) {
            before.abort();
        }
    }

    /// Keeps a gate that comes with the engine.
    fn keep_gate(
        &self,
        operation: &Operation,
        index: u32,
        planned: &PlannedWave,
        gate: &str,
    ) -> JoinHandle<()> {
        let Header { request, targets, started_at, .. } = &operation.header;
        let (shared, inbox, targets) = (Arc::clone(&self.shared), self.inbox.clone(), *targets);
        let destination = &request.destination;
        let way = shared.clusters.get(destination).map(|cluster| Way {
            destination: destination.clone(),
            cluster: cluster.at_once(),
            permits: cluster.permits(),
        });
        let asked = Asked {
            gate: gate.to_owned(),
            operation: self.id,
            application: request.application.clone(),
            revision: request.revision.clone(),
            phase: planned.phase,
            wave: planned.wave,
            began: *started_at,
            // Until it is read what it was begun for.
            manual: false,
        };
        tokio::spawn(async move {
            let gate = asked.gate.clone();
            let tell = |verdict| inbox.tell(Input::Gate { wave: index, gate: gate.clone(), verdict });
            let around = Around {
                clock: &shared.clock,
                web: &shared.web,
                objects: &shared.objects,
                way: way.as_ref(),
            };
            match manifests::gates(&shared.log, targets).await {
                Ok((definitions, manual)) => {
                    let asked = Asked { manual, ..asked };
                    gates::keep(&asked, &definitions, &around, tell).await;
                }
                Err(error) => tell(Verdict::closed(error.message)),
            }
        })
    }

    /// Asks for a place in a group, for a wave that needs one in each of `all`. Its turn counts from now.
    fn ask_for_place(&mut self, state: &State, index: u32, group: &str, all: &BTreeSet<String>) {
        let Some(header) = state.header() else { return };
        let gate = format!("{}{group}", gates::CONCURRENCY);
        let tell = {
            let (inbox, gate) = (self.inbox.clone(), gate.clone());
            move |verdict| inbox.tell(Input::Gate { wave: index, gate: gate.clone(), verdict })
        };
        let who = (self.id, header.request.application.as_str());
        let ticket = self.shared.groups.ask(who, all, group, Box::new(tell));
        let (shared, targets, group) = (Arc::clone(&self.shared), header.targets, group.to_owned());
        let asking = tokio::spawn(async move {
            know_places(&shared, ticket, &group).await;
            let kept = manifests::gates(&shared.log, targets).await;
            let limit = kept.map_err(|error| error.message).and_then(|(known, _)| known.limit(&group));
            shared.groups.allow(ticket, &group, limit);
            loop {
                sleep(LOOK_AGAIN_AFTER).await;
                look_at_left_alone(&shared).await;
            }
        });
        if let Some(before) = self.gates.insert(gate, asking.abort_handle()) {
            before.abort();
        }
    }

    /// Asks a gate no more.
    pub(super) fn unask_gate(&mut self, gate: &str) {
        self.gates.remove(gate).iter().for_each(tokio::task::AbortHandle::abort);
        if let Some(group) = concurrency_group(gate) {
            self.shared.groups.withdraw(self.id, group);
            // Behind what it may have said last.
            self.inbox.note(Note::Unasked);
        }
    }

    /// What was told of places before they were not asked for any more has been taken in.
    pub(super) fn resolve_places(&self, state: &State) {
        self.shared.groups.resolve(self.id, state.places().next().is_some());
    }

    /// An operation from the log may have places.
    pub(super) fn recover_places(&mut self, state: &State) {
        let recorded = recorded(self.id, state);
        if !recorded.places.is_empty() {
            self.placing.had = true;
            self.shared.groups.settle(recorded);
        }
    }

    /// Which places it has once what is being written is durable.
    pub(super) fn append_places(&mut self, state: &State) {
        let has = state.places().next().is_some();
        if has || self.placing.had {
            self.placing = Placing { had: has, next: Some(recorded(self.id, state)) };
        }
    }

    /// What was written is durable.
    pub(super) fn settle_places(&mut self) {
        if let Some(recorded) = self.placing.next.take() {
            self.shared.groups.settle(recorded);
        }
    }

    /// Nobody works on the operation any more, or for a moment.
    pub(super) fn leave_gates(&mut self, state: &State) {
        for (gate, asking) in std::mem::take(&mut self.gates) {
            asking.abort();
            if let Some(group) = concurrency_group(&gate) {
                self.shared.groups.withdraw(self.id, group);
            }
        }
        self.resolve_places(state);
        self.shared.groups.leave(self.id);
    }
}

/// Reads who has places, unless that is known. Until then none is given.
async fn know_places(shared: &Shared, ticket: Ticket, group: &str) {
    let _reading = shared.groups.reading.lock().await;
    while !shared.groups.is_known() {
        match read_places(shared).await {
            Ok(recorded) => shared.groups.learn(recorded),
            Err(error) => {
                let reason = format!("which operations have a place cannot be read: {error}");
                shared.groups.say(ticket, group, reason);
                sleep(LOOK_AGAIN_AFTER).await;
            }
        }
    }
}

/// The places that operations have according to the log, whoever works on them.
async fn read_places(shared: &Shared) -> Result<Vec<Recorded>, LogError> {
    let open = blocking(&shared.log, |log| operations(log, Lookup::open())).await?;
    let mut found = Vec::new();
    for operation in open.into_iter().map(|summary| summary.operation) {
        let read = blocking(&shared.log, move |log| {
            let loaded = log.load_as(operation)?;
            Ok(Driver::recover(loaded.snapshot, loaded.facts))
        });
        match read.await {
            Ok(Ok(driver)) => found.push(recorded(operation, driver.state())),
            // It cannot go on either.
            Ok(Err(error)) => tracing::warn!(%operation, %error, "whether it has places is not known"),
            Err(error) => tracing::warn!(%operation, %error, "whether it has places is not known"),
        }
    }
    found.retain(|recorded| !recorded.places.is_empty());
    Ok(found)
}

/// Looks whether operations are over that have places and that nobody works on.
async fn look_at_left_alone(shared: &Shared) {
    let left_alone = shared.groups.left_alone();
    if left_alone.is_empty() {
        return;
    }
    let open = blocking(&shared.log, |log| operations(log, Lookup::open())).await;
    if let Ok(open) = open {
        let open: BTreeSet<OperationId> = open.into_iter().map(|summary| summary.operation).collect();
        let over: Vec<OperationId> =
            left_alone.into_iter().filter(|operation| !open.contains(operation)).collect();
        shared.groups.are_over(&over);
    }
}
