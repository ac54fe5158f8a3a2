//! From pending commands to jobs, watches and timers. A command already on its way is left out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_lifecycle::operation::{Command, Input, Operation, TaskCommand};
use tidegate_model::{SyncRequest, TaskId, Timestamp};

use super::OperationState;
use super::jobs::{self, Bundle, Call, Guard};
use crate::actors::cluster::ClusterMessage;
use crate::extend::{GateQuestion, HookEnd, HookRun};
use crate::inbox::{Arrival, Errand};
use crate::watches::Subscription;

/// Shortest wait for a time that the alarm has rung for already.
const RING_AGAIN: Duration = Duration::from_millis(100);

/// A waiting operation keeps what it must mask in memory when it is no more than this.
const MASK_BYTES: usize = 2048;

/// How long the manifests of an operation that waits for objects stay in memory.
const LINGER: Duration = Duration::from_secs(5);

impl OperationState {
    /// Carries out what the world is owed.
    pub(super) fn dispatch(&mut self, now: Timestamp) {
        let commands = self.driver.commands(now);
        let mut watch = BTreeSet::new();
        let mut wake = None;
        let owes = !commands.is_empty();
        for command in commands {
            match command {
                Command::WakeAt(at) => wake = wake.into_iter().chain([at]).min(),
                Command::Observe { task } => drop(watch.insert(task)),
                Command::Claim => self.keep_claim(),
                _ if self.stopping => {}
                Command::Plan => self.plan(),
                Command::Task { task, attempt, what } => self.task(task, attempt, what),
                Command::AskGate { wave, gate } => self.ask_gate(wave, gate),
            }
        }
        if owes {
            // While a fact that matters is being written nothing is owed, and watches stay as they are.
            self.watch(&watch);
        }
        self.set_alarm(wake, now);
        if self.on_the_way.is_empty() && !self.writing {
            self.rest();
        }
    }

    /// A waiting operation keeps in memory what its state needs, and no more. While it only waits for objects to become
    /// healthy, its manifests stay for a moment: reading them anew for each of many short waves would cost more than the
    /// waves.
    fn rest(&mut self) {
        self.request = None;
        self.mask.take_if(|mask| mask.bytes() > MASK_BYTES);
        if let Some(bundle) = self.bundle.take().filter(|_| !self.watched.is_empty()) {
            self.lingering = Arc::downgrade(&bundle);
            self.spawn(async move {
                tokio::time::sleep(LINGER).await;
                drop(bundle);
            });
        }
    }

    fn request(&mut self) -> Option<Arc<SyncRequest>> {
        if self.request.is_none() {
            self.request = self.driver.state().header().map(|header| Arc::new(header.request.clone()));
        }
        self.request.clone()
    }

    fn operation(&self) -> Option<&Operation> {
        self.driver.state().operation()
    }

    /// Sends a job to the cluster of the operation. Without one, the guard answers.
    fn run(&self, call: Call) {
        match self.cluster() {
            Some(cluster) => {
                let alive = self.alive.subscribe();
                drop(cluster.send_message(ClusterMessage::Run { job: call.into_job(self.hold()), alive }));
            }
            None => {
                call.refuse("this engine has no connection to the operation's cluster; start it with one")
            }
        }
    }

    fn plan(&mut self) {
        if !self.on_the_way.insert(Errand::Plan) {
            return;
        }
        let Some(header) = self.driver.state().header() else { return };
        let (targets, started_at) = (header.targets, header.started_at);
        let Some(request) = self.request() else { return };
        let guard = Guard::plan(self.inbox.clone());
        let planning = jobs::Planning {
            log: Arc::clone(&self.shared.log),
            operation: self.id,
            request,
            targets,
            handed_over: self.to_plan.take(),
            started_at,
            known: self.shared.extensions.names(),
        };
        self.run(Call::Plan { planning: Box::new(planning), guard });
    }

    fn bundle(&mut self) -> Option<Arc<Bundle>> {
        if self.bundle.is_none() {
            self.bundle = self.lingering.upgrade();
        }
        if self.bundle.is_none() {
            let digest = self.operation()?.bundle?;
            self.bundle = Some(Arc::new(Bundle::new(Arc::clone(&self.shared.log), digest)));
        }
        self.bundle.clone()
    }

    fn task(&mut self, id: TaskId, attempt: u32, command: TaskCommand) {
        if !self.on_the_way.insert(jobs::errand(id, attempt, &command)) {
            return;
        }
        let Some(operation) = self.operation() else { return };
        let Some((_, state)) = operation.task(id) else { return };
        let (plan, again) = (Arc::clone(&operation.plan), self.recovered || state.calls.is_some());
        let (Some(request), Some(bundle)) = (self.request(), self.bundle()) else { return };
        let guard = Guard::task(self.inbox.clone(), id, attempt, command.clone());
        let step = jobs::Step {
            operation: self.id,
            request,
            attempt,
            plan,
            task: id,
            bundle,
            again,
            clock: Arc::clone(&self.shared.clock),
            health: self.shared.health.clone(),
            command,
        };
        if let TaskCommand::RunHook { runner } = &step.command {
            let runner = runner.clone();
            self.run_hook(runner, step, guard);
        } else {
            self.run(Call::Step { step: Box::new(step), guard });
        }
    }

    /// A runner works as long as it likes, so it takes no place among the calls to the cluster.
    fn run_hook(&self, runner: String, step: jobs::Step, guard: Guard) {
        let extensions = Arc::clone(&self.shared.extensions);
        let (operation, application) = (self.id, step.request.application.clone());
        let hold = self.hold();
        self.spawn(async move {
            if let Some(hold) = hold {
                // Without a claim nothing is begun; once it is lost, this operation is over.
                while hold.covered().await.is_err() {}
            }
            let end = match step.manifest().await {
                Err(error) => HookEnd::Failed(error.message),
                Ok(manifest) => {
                    let attempt = step.attempt;
                    let run = |reply| HookRun { operation, application, attempt, manifest, reply };
                    extensions.run_hook(&runner, run).await
                }
            };
            guard.ran(end);
        });
    }

    fn ask_gate(&mut self, wave: u32, gate: String) {
        if !self.on_the_way.insert(Errand::Gate(gate.clone())) {
            return;
        }
        let Some((operation, planned)) =
            self.operation().and_then(|operation| operation.wave(wave).map(|planned| (operation, planned)))
        else {
            return;
        };
        let (phase, number) = (planned.phase, planned.wave);
        let objects = operation.plan.tasks_of(planned).iter().map(tidegate_model::Task::key).collect();
        let application = operation.header.request.application.clone();
        let (extensions, inbox, id) = (Arc::clone(&self.shared.extensions), self.inbox.clone(), self.id);
        self.spawn(async move {
            let question =
                |reply| GateQuestion { operation: id, application, phase, wave: number, objects, reply };
            let verdict = extensions.ask_gate(&gate, question).await;
            let answers = Some(Errand::Gate(gate.clone()));
            inbox.push(Arrival::Input { input: Input::Gate { wave, gate, verdict }, answers });
        });
    }

    fn watch(&mut self, wanted: &BTreeSet<TaskId>) {
        let Some(cluster): Option<ActorRef<ClusterMessage>> = self.cluster().cloned() else { return };
        for task in self.watched.difference(wanted) {
            let _ = cluster.send_message(ClusterMessage::Unwatch(self.id, *task));
        }
        for id in wanted.difference(&self.watched) {
            let Some((task, _)) = self.operation().and_then(|operation| operation.task(*id)) else {
                continue;
            };
            let _ = cluster.send_message(ClusterMessage::Watch(Subscription {
                operation: self.id,
                task: *id,
                gvk: task.gvk.clone(),
                namespace: task.namespace.clone(),
                name: task.name.clone(),
                judge: task.health_judge.clone(),
                inbox: self.inbox.clone(),
            }));
        }
        self.watched.clone_from(wanted);
    }

    /// Work outside the cluster. Like a call to the cluster it ends with this actor, whatever it is waiting for.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut alive = self.alive.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                () = work => {}
            }
        });
    }

    fn set_alarm(&mut self, wake: Option<Timestamp>, now: Timestamp) {
        if self.alarm.as_ref().map(|(at, _)| *at) == wake {
            return;
        }
        if let Some((_, alarm)) = self.alarm.take() {
            alarm.abort();
        }
        let Some(at) = wake else { return };
        // The time it rang for may come again: the wall clock was set back, or nothing could be done then.
        let again = self.rang.is_some_and(|rang| at <= rang);
        let wait = if again { at.since(now).max(RING_AGAIN) } else { at.since(now) };
        let inbox = self.inbox.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            inbox.push(Arrival::Alarm);
        });
        self.alarm = Some((at, task.abort_handle()));
    }
}
