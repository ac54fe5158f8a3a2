//! Simulated engine with its operations, and simulated Applications.

use tidegate_lifecycle::Arrival;
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Command, Event, Input, MemberObservation, OperationReport, Subject, Target, WorkKind,
};
use tidegate_model::{HealthStatus, OperationId, OperationPhase};

use super::{Operation, SimEvent, World};
use crate::build::*;

impl World {
    /// Ends a subscription. An operation that hasn't begun is withdrawn.
    pub(super) fn end_subscription(&mut self, command: &Command) {
        if let Command::Run { operation, .. } = command
            && self.operations.get(operation).is_some_and(|operation| !operation.has_begun)
        {
            self.operations.remove(operation);
        }
    }

    fn is_subscribed(&self, operation: OperationId) -> bool {
        self.runner
            .subscriptions()
            .any(|kept| matches!(kept, Command::Run { operation: of, .. } if *of == operation))
    }

    pub(super) fn execute(&mut self, command: Command) {
        let about = command.subject();
        match command {
            Command::ChooseId { member } => {
                let operation = if self.disturbances.rng.chance(self.disturbances.busy_chance) {
                    Err(busy_error())
                } else {
                    self.next_id += 1;
                    Ok(id(self.next_id))
                };
                self.answer(about, Input::IdChosen { member, operation });
            }
            Command::Run { member, operation, work } => self.ensure_operation(member, operation, work),
            Command::Stop { member, operation } => {
                let result = if self.disturbances.rng.chance(self.disturbances.busy_chance) {
                    Err(busy_error())
                } else {
                    Ok(())
                };
                if result.is_ok() {
                    self.stop_operation(operation);
                }
                self.answer(about, Input::Stopped { member, operation, result });
            }
            Command::WatchMember { member } => self.report_observations(&member),
            Command::AskGate { step, gate } => {
                let opens = self.gates.get(&gate).copied().unwrap_or_default();
                if opens > self.now {
                    let verdict = Verdict::closed(format!("until {opens}"));
                    self.send(Input::Gate { step, gate: gate.clone(), verdict });
                    self.queue.schedule(opens, SimEvent::OpenGate { step, gate });
                } else {
                    self.open_gate(step, gate);
                }
            }
        }
    }

    /// Opens a gate, and notifies the subscription if it is still active.
    pub(super) fn open_gate(&mut self, step: u32, gate: String) {
        let asked = Command::AskGate { step, gate: gate.clone() };
        if self.runner.has_subscription(&asked) {
            self.send(Input::Gate { step, gate, verdict: Verdict::Open });
        }
    }

    fn answer(&mut self, subject: Subject, input: Input) {
        // The answer arrives immediately, so that a crash can occur between the effect and its observation.
        let arrival = Arrival::Answer { subject, input };
        self.deliver_arrival(arrival);
    }

    /// Ensures that an operation exists. Checks that its ID was recorded first, and that no other operation
    /// of the Application is running.
    fn ensure_operation(&mut self, member: String, operation: OperationId, work: WorkKind) {
        if !self.is_subscribed(operation) || self.withdrawn.contains(&operation) {
            return;
        }
        let is_recorded = |event: &Event| matches!(event, Event::OperationAssigned { operation: of, .. } if *of == operation);
        assert!(
            self.durable.iter().any(is_recorded),
            "operation {operation} must be recorded before it is started"
        );
        if let Some(known) = self.operations.get(&operation).cloned() {
            assert_eq!(known.work, work, "an operation must not change its kind of work");
            // This is a new subscription to an existing operation.
            self.report(operation, if known.has_begun { OperationReport::Started } else { return });
            if let Some(phase) = known.final_phase {
                self.report(operation, OperationReport::Ended { phase, message: "over".into() });
            }
            return;
        }
        let fate = self.behaviors.get_mut(&member).unwrap();
        if fate.rejections > 0 {
            fate.rejections -= 1;
            self.report(operation, OperationReport::Failed(busy_error()));
            return;
        }
        let window = fate.window_until;
        self.check_start(&member, work);
        self.operations.insert(
            operation,
            Operation { member: member.clone(), work, has_begun: false, final_phase: None },
        );
        if window > self.now {
            self.report(operation, OperationReport::Delayed { window: format!("night, until {window}") });
        }
        let delay = self.disturbances.random_delay();
        self.queue.schedule(window.max(self.now) + delay, SimEvent::BeginOperation(operation));
    }

    fn report(&mut self, operation: OperationId, report: OperationReport) {
        if self.is_subscribed(operation)
            && let Some(known) = self.operations.get(&operation)
        {
            let member = known.member.clone();
            self.send(Input::OperationReported { member, operation, report });
        } else if let OperationReport::Failed(_) = report {
            let kept = self.runner.subscriptions().find_map(|kept| match kept {
                Command::Run { operation: of, member, .. } if *of == operation => Some(member.clone()),
                _ => None,
            });
            if let Some(member) = kept {
                self.send(Input::OperationReported { member, operation, report });
            }
        }
    }

    pub(super) fn begin_operation(&mut self, id: OperationId) {
        // The operation may have been withdrawn or stopped in the meantime.
        let Some(operation) =
            self.operations.get_mut(&id).filter(|operation| operation.final_phase.is_none())
        else {
            return;
        };
        if std::mem::replace(&mut operation.has_begun, true) {
            return;
        }
        let takes = match operation.work {
            WorkKind::Sync => self.behaviors[&operation.member].duration,
            WorkKind::RollBack => Some(1_000),
        };
        self.transcript.push(format!("{} {:?} {}", self.now, operation.work, operation.member));
        self.report(id, OperationReport::Started);
        if let Some(takes) = takes {
            self.queue.schedule(self.now + takes, SimEvent::EndOperation(id));
        }
    }

    fn target_of(&self, member: &str, work: WorkKind) -> Target {
        match work {
            WorkKind::Sync => target("new"),
            WorkKind::RollBack => {
                let known = self.request.members.iter().find(|known| known.name == member);
                known.and_then(|known| known.before.clone()).map_or(target("old"), |before| before.target)
            }
        }
    }

    pub(super) fn end_operation(&mut self, id: OperationId) {
        let Some(operation) =
            self.operations.get_mut(&id).filter(|operation| operation.final_phase.is_none())
        else {
            return;
        };
        let fate = self.behaviors.get_mut(&operation.member).unwrap();
        let fails = fate.failures > 0;
        fate.failures -= u32::from(fails);
        let phase = if fails { OperationPhase::Failed } else { OperationPhase::Succeeded };
        operation.final_phase = Some(phase);
        let (member, work) = (operation.member.clone(), operation.work);
        if !fails {
            self.deploy(&member, id, self.target_of(&member, work));
        }
        self.report(id, OperationReport::Ended { phase, message: "over".into() });
    }

    /// Applies the result of an operation to an Application.
    pub fn deploy(&mut self, member: &str, operation: OperationId, deployed: Target) {
        let healthy_after = self.behaviors[member].healthy_after;
        let Some(app) = self.apps.get_mut(member) else { return };
        app.past_observations.push(app.observation.clone());
        app.observation = MemberObservation {
            operation: Some(operation),
            deployed: Some(deployed),
            synced: true,
            health: HealthStatus::Progressing,
            message: "1 of 2 updated".into(),
        };
        self.notify_watch(member);
        if let Some(after) = healthy_after {
            self.queue.schedule(self.now + after, SimEvent::BecomeHealthy(operation));
        }
    }

    pub(super) fn become_healthy(&mut self, operation: OperationId) {
        let mut healed = None;
        for (name, app) in &mut self.apps {
            if app.observation.operation == Some(operation) && app.observation.health != HealthStatus::Healthy
            {
                app.past_observations.push(app.observation.clone());
                app.observation.health = HealthStatus::Healthy;
                app.observation.message.clear();
                app.was_healthy |= app.observation.deployed == Some(target("new"));
                healed = Some(name.clone());
            }
        }
        if let Some(name) = healed {
            self.notify_watch(&name);
        }
    }

    /// Degrades a Healthy Application for some time.
    pub fn degrade(&mut self, member: &str, for_millis: i64) {
        let app = self.apps.get_mut(member).unwrap();
        app.past_observations.push(app.observation.clone());
        app.observation.health = HealthStatus::Degraded;
        let operation = app.observation.operation.unwrap();
        self.notify_watch(member);
        self.queue.schedule(self.now + for_millis, SimEvent::BecomeHealthy(operation));
    }

    fn notify_watch(&mut self, member: &str) {
        let watched = self
            .runner
            .subscriptions()
            .any(|kept| matches!(kept, Command::WatchMember { member: of } if of == member));
        if watched {
            self.report_observations(member);
        }
    }

    /// Reports the current state, sometimes preceded by an older state.
    fn report_observations(&mut self, member: &str) {
        let Some(app) = self.apps.get(member) else { return };
        let (now, past) = (app.observation.clone(), app.past_observations.clone());
        if self.disturbances.rng.chance(self.disturbances.old_chance) && !past.is_empty() {
            let which = self.disturbances.rng.below(u64::try_from(past.len()).unwrap());
            let observation = past[usize::try_from(which).unwrap()].clone();
            self.send_in_order(self.now, Input::Observed { member: member.into(), observation });
        }
        let delay = self.disturbances.random_delay();
        self.send_in_order(self.now + delay, Input::Observed { member: member.into(), observation: now });
    }

    fn stop_operation(&mut self, id: OperationId) {
        self.withdrawn.insert(id);
        match self.operations.get_mut(&id) {
            Some(operation) if operation.has_begun => {
                operation.final_phase.get_or_insert(OperationPhase::Failed);
            }
            _ => drop(self.operations.remove(&id)),
        }
    }
}
