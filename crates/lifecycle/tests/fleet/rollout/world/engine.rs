//! The engine with its operations, and the Applications.

use tidegate_lifecycle::Arrival;
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{ChildNews, Command, Fact, Input, Sight, Subject, Target, Work};
use tidegate_model::{HealthStatus, OperationId, OperationPhase};

use super::{Event, Operation, World};
use crate::build::*;

impl World {
    /// What is not kept up any more: an operation that has not begun is taken back.
    pub(super) fn let_go(&mut self, command: &Command) {
        if let Command::Run { operation, .. } = command
            && self.operations.get(operation).is_some_and(|operation| !operation.begun)
        {
            self.operations.remove(operation);
        }
    }

    fn is_kept_up(&self, operation: OperationId) -> bool {
        self.shell
            .standing()
            .any(|kept| matches!(kept, Command::Run { operation: of, .. } if *of == operation))
    }

    pub(super) fn reach(&mut self, command: Command) {
        let about = command.subject();
        match command {
            Command::Choose { member } => {
                let operation = if self.dice.percent(self.weather.busy) {
                    Err(busy())
                } else {
                    self.next_id += 1;
                    Ok(id(self.next_id))
                };
                self.answer(about, Input::Chosen { member, operation });
            }
            Command::Run { member, operation, work } => self.ensure(member, operation, work),
            Command::Stop { member, operation } => {
                let result = if self.dice.percent(self.weather.busy) { Err(busy()) } else { Ok(()) };
                if result.is_ok() {
                    self.stop(operation);
                }
                self.answer(about, Input::Stopped { member, operation, result });
            }
            Command::Watch { member } => self.look(&member),
            Command::AskGate { step, gate } => {
                let opens = self.gates.get(&gate).copied().unwrap_or_default();
                if opens > self.now {
                    let verdict = Verdict::closed(format!("until {opens}"));
                    self.tell(Input::Gate { step, gate: gate.clone(), verdict });
                    self.schedule(opens, Event::Open { step, gate });
                } else {
                    self.open(step, gate);
                }
            }
        }
    }

    /// Whoever still asks hears of it.
    pub(super) fn open(&mut self, step: u32, gate: String) {
        let asked = Command::AskGate { step, gate: gate.clone() };
        if self.shell.keeps_up(&asked) {
            self.tell(Input::Gate { step, gate, verdict: Verdict::Open });
        }
    }

    fn answer(&mut self, about: Subject, input: Input) {
        // It finds its way at once, so that a crash can come between doing and hearing.
        let arrival = Arrival::Answer { about, input };
        self.take(arrival);
    }

    /// The engine hears of an operation: its id was recorded before, and no other is at work on the Application.
    fn ensure(&mut self, member: String, operation: OperationId, work: Work) {
        if !self.is_kept_up(operation) || self.withdrawn.contains(&operation) {
            return;
        }
        let is_recorded = |fact: &Fact| matches!(fact, Fact::Named { operation: of, .. } if *of == operation);
        assert!(self.durable.iter().any(is_recorded), "intent before effect: {operation}");
        if let Some(known) = self.operations.get(&operation).cloned() {
            assert_eq!(known.work, work, "an id means one thing");
            // Somebody listens again.
            self.news(operation, if known.begun { ChildNews::Begun } else { return });
            if let Some(phase) = known.over {
                self.news(operation, ChildNews::Ended { phase, message: "over".into() });
            }
            return;
        }
        let fate = self.fates.get_mut(&member).unwrap();
        if fate.busy > 0 {
            fate.busy -= 1;
            self.news(operation, ChildNews::Failed(busy()));
            return;
        }
        let window = fate.window_until;
        self.check_start(&member, work);
        self.operations
            .insert(operation, Operation { member: member.clone(), work, begun: false, over: None });
        if window > self.now {
            self.news(operation, ChildNews::Held { window: format!("night, until {window}") });
        }
        let delay = self.delay();
        self.schedule(window.max(self.now) + delay, Event::Begin(operation));
    }

    fn news(&mut self, operation: OperationId, news: ChildNews) {
        if self.is_kept_up(operation)
            && let Some(known) = self.operations.get(&operation)
        {
            let member = known.member.clone();
            self.tell(Input::Child { member, operation, news });
        } else if let ChildNews::Failed(_) = news {
            let kept = self.shell.standing().find_map(|kept| match kept {
                Command::Run { operation: of, member, .. } if *of == operation => Some(member.clone()),
                _ => None,
            });
            if let Some(member) = kept {
                self.tell(Input::Child { member, operation, news });
            }
        }
    }

    pub(super) fn begin(&mut self, id: OperationId) {
        // Taken back, or stopped.
        let Some(operation) = self.operations.get_mut(&id).filter(|operation| operation.over.is_none())
        else {
            return;
        };
        if std::mem::replace(&mut operation.begun, true) {
            return;
        }
        let takes = match operation.work {
            Work::Sync => self.fates[&operation.member].takes,
            Work::RollBack => Some(1_000),
        };
        self.transcript.push(format!("{} {:?} {}", self.now, operation.work, operation.member));
        self.news(id, ChildNews::Begun);
        if let Some(takes) = takes {
            self.schedule(self.now + takes, Event::End(id));
        }
    }

    fn target(&self, member: &str, work: Work) -> Target {
        match work {
            Work::Sync => target("new"),
            Work::RollBack => {
                let known = self.request.members.iter().find(|known| known.name == member);
                known.and_then(|known| known.before.clone()).map_or(target("old"), |before| before.target)
            }
        }
    }

    pub(super) fn end(&mut self, id: OperationId) {
        let Some(operation) = self.operations.get_mut(&id).filter(|operation| operation.over.is_none())
        else {
            return;
        };
        let fate = self.fates.get_mut(&operation.member).unwrap();
        let fails = fate.failures > 0;
        fate.failures -= u32::from(fails);
        let phase = if fails { OperationPhase::Failed } else { OperationPhase::Succeeded };
        operation.over = Some(phase);
        let (member, work) = (operation.member.clone(), operation.work);
        if !fails {
            self.deploy(&member, id, self.target(&member, work));
        }
        self.news(id, ChildNews::Ended { phase, message: "over".into() });
    }

    /// An operation has brought an Application somewhere.
    pub fn deploy(&mut self, member: &str, operation: OperationId, deployed: Target) {
        let healthy_after = self.fates[member].healthy_after;
        let Some(app) = self.apps.get_mut(member) else { return };
        app.past.push(app.sight.clone());
        app.sight = Sight {
            operation: Some(operation),
            deployed: Some(deployed),
            synced: true,
            health: HealthStatus::Progressing,
            message: "1 of 2 updated".into(),
        };
        self.seen(member);
        if let Some(after) = healthy_after {
            self.schedule(self.now + after, Event::Heal(operation));
        }
    }

    pub(super) fn heal(&mut self, operation: OperationId) {
        let mut healed = None;
        for (name, app) in &mut self.apps {
            if app.sight.operation == Some(operation) && app.sight.health != HealthStatus::Healthy {
                app.past.push(app.sight.clone());
                app.sight.health = HealthStatus::Healthy;
                app.sight.message.clear();
                app.proven |= app.sight.deployed == Some(target("new"));
                healed = Some(name.clone());
            }
        }
        if let Some(name) = healed {
            self.seen(&name);
        }
    }

    /// Something goes wrong with an Application that was well.
    pub fn worsen(&mut self, member: &str, for_millis: i64) {
        let app = self.apps.get_mut(member).unwrap();
        app.past.push(app.sight.clone());
        app.sight.health = HealthStatus::Degraded;
        let operation = app.sight.operation.unwrap();
        self.seen(member);
        self.schedule(self.now + for_millis, Event::Heal(operation));
    }

    fn seen(&mut self, member: &str) {
        let watched =
            self.shell.standing().any(|kept| matches!(kept, Command::Watch { member: of } if of == member));
        if watched {
            self.look(member);
        }
    }

    /// A look finds what is there, or what was there some time before; then it is looked at again.
    fn look(&mut self, member: &str) {
        let Some(app) = self.apps.get(member) else { return };
        let (now, past) = (app.sight.clone(), app.past.clone());
        if self.dice.percent(self.weather.old) && !past.is_empty() {
            let which = self.dice.below(u64::try_from(past.len()).unwrap());
            let sight = past[usize::try_from(which).unwrap()].clone();
            self.deliver(self.now, Input::Sighted { member: member.into(), sight });
        }
        let delay = self.delay();
        self.deliver(self.now + delay, Input::Sighted { member: member.into(), sight: now });
    }

    fn stop(&mut self, id: OperationId) {
        self.withdrawn.insert(id);
        match self.operations.get_mut(&id) {
            Some(operation) if operation.begun => {
                operation.over.get_or_insert(OperationPhase::Failed);
            }
            _ => drop(self.operations.remove(&id)),
        }
    }
}
