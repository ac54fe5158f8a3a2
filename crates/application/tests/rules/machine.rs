//! The machine of an Application: its transitions, and rules that hold for any sequence of inputs, failures
//! and restarts.

mod approval_transitions;
mod child_transitions;
mod properties;
mod superseding_transitions;
mod transitions;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::approval::ApprovalPolicy;
use tidegate_application::comparison::ComparisonOutcome;
use tidegate_application::deletion::{RESOURCES_FINALIZER, is_own_finalizer};
use tidegate_application::history::{LogSummary, LoggedOperation, knows_operation};
use tidegate_application::machine::{
    AdmissionError, ApplicationMachine, Call, ChangedResource, ComparisonStart, Decision, Effect,
    FinishedComparison, Input, OperationRelation, Outcome, Phase, PreparationId, RefreshId, Settings, World,
    WriteDecision,
};
use tidegate_application::operation::{self, EngineProgress, sync_request};
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::supersede::{ManifestComparison, POLICY_INFO, policy_name};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_application::{AppKey, instance_name};
use tidegate_model::argo::{AppProject, Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{
    ClaimConflictPolicy, Destination, HealthStatus, OperationId, OperationPhase, SyncRequest, Timestamp,
};

use crate::{application, at, compared, resource};

/// State outside of the Application.
#[derive(Default)]
struct Surroundings {
    /// True while it isn't known whether the cluster is reachable.
    is_cluster_unknown: bool,
    has_unread_changes: bool,
    /// Dependencies, as published.
    others: BTreeMap<String, Arc<Application>>,
    /// Reason for which the deletion waits.
    deletion_order: Option<String>,
}

impl World for Surroundings {
    fn sync_windows(&self, _: &Application) -> SyncWindows {
        SyncWindows::default()
    }

    fn approval_policy(&self, application: &Application) -> Result<ApprovalPolicy, String> {
        Ok(ApprovalPolicy::from_annotations(application, &AppProject::default()))
    }

    fn check_admission(&self, _: &Application) -> Result<(), AdmissionError> {
        match self.is_cluster_unknown {
            true => Err(AdmissionError::Unchecked("not contacted yet".to_owned())),
            false => Ok(()),
        }
    }

    fn unknown_cluster_reason(&self, _: &Application) -> Option<String> {
        self.is_cluster_unknown.then(|| "the cluster".to_owned())
    }

    fn unknown_project_fields(&self, _: &Application) -> Vec<String> {
        Vec::new()
    }

    fn project_warnings(&self, _: &Application) -> Vec<String> {
        Vec::new()
    }

    fn forbidden_kinds(&self, _: &AppKey) -> Vec<String> {
        Vec::new()
    }

    fn has_unread_changes(&self, _: &AppKey) -> bool {
        self.has_unread_changes
    }

    fn application(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.others.get(&key.name).cloned()
    }

    fn deletion_order_reason(&self, _: &Application) -> Option<String> {
        self.deletion_order.clone()
    }

    fn blocking_dependents(&self, _: &AppKey) -> Option<Vec<(AppKey, Arc<Application>)>> {
        Some(Vec::new())
    }
}

/// An operation in the engine and its log.
#[derive(Clone)]
struct EngineOperation {
    id: OperationId,
    request: SyncRequest,
    is_deletion: bool,
    is_automated: bool,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
}

impl EngineOperation {
    fn progress(&self) -> EngineProgress {
        EngineProgress {
            phase: match self.finished_at {
                Some(_) => OperationPhase::Succeeded,
                None => OperationPhase::Running,
            },
            message: if self.finished_at.is_some() { "done" } else { "running" }.to_owned(),
            started_at: self.started_at,
            finished_at: self.finished_at,
            retry_count: 0,
            resources: Vec::new(),
        }
    }
}

/// Asynchronous work of the controller.
#[derive(Clone, Debug)]
enum Task {
    Comparison {
        start: Box<ComparisonStart>,
        began_at: Timestamp,
    },
    Preparation {
        preparation: PreparationId,
        application: Arc<Application>,
    },
    /// The handover, until the engine has the operation. Then the operation's end.
    Operation {
        operation: OperationId,
        /// True if the engine doesn't look for the operation in the log.
        is_new: bool,
        application: Arc<Application>,
    },
}

/// A controller with one Application, on virtual time.
struct Controller {
    machine: ApplicationMachine,
    surroundings: Surroundings,
    now: Timestamp,
    alarm: Option<Timestamp>,
    tasks: VecDeque<Task>,
    /// The resource in the store.
    stored: Application,
    are_writes_failing: bool,
    /// Newest commit, and the deployed one.
    commit: u32,
    deployed: u32,
    next_id: u128,
    next_refresh: u64,
    answers: BTreeMap<RefreshId, Option<Result<(), String>>>,
    log: Vec<EngineOperation>,
    is_released: bool,
    /// Reason for which the engine doesn't stop an operation in favor of another, if it doesn't.
    superseding_refusal: Option<String>,
    /// Relation of the newest commit's manifests to those of the running operation.
    newest_manifests: ManifestComparison,
    steps: usize,
    /// Effects that this controller doesn't execute, by name.
    unhandled_effects: Vec<String>,
    /// Effects and calls of the last input, by name.
    last_effects: Vec<String>,
}

fn commit_name(number: u32) -> String {
    format!("{number:040x}")
}

/// Returns the name of a variant.
fn name_of(value: &impl fmt::Debug) -> String {
    format!("{value:?}").split(['(', ' ', '{']).next().unwrap().to_owned()
}

/// Input or request of a client.
type Act = fn(&mut Controller);

/// Expected phase and effects after an input in a situation.
struct Transition<S> {
    situation: S,
    input: &'static str,
    act: Act,
    phase: &'static str,
    effects: &'static [&'static str],
}

/// Returns a row of a transition table.
fn row<S>(
    situation: S,
    input: &'static str,
    act: Act,
    phase: &'static str,
    effects: &'static [&'static str],
) -> Transition<S> {
    Transition { situation, input, act, phase, effects }
}

fn check_transitions<S: Copy + fmt::Debug>(
    reach: fn(S) -> Controller,
    table: impl IntoIterator<Item = Transition<S>>,
) {
    for Transition { situation, input, act, phase, effects } in table {
        let mut controller = reach(situation);
        act(&mut controller);
        assert_eq!(controller.effects(), effects, "{situation:?}: {input}");
        assert_eq!(controller.phase(), phase, "{situation:?}: {input}");
    }
}

fn operation_id(number: u128) -> OperationId {
    format!("{number:032x}").parse().unwrap()
}

fn settings() -> Settings {
    Settings { refresh_interval: Duration::ZERO, controller_namespace: None }
}

impl Controller {
    /// Creates a controller for an Application with this sync policy. It hasn't been compared yet.
    fn new(policy: serde_json::Value) -> Self {
        let mut stored = application(policy);
        stored.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        Self {
            machine: ApplicationMachine::new(stored.clone(), None, settings(), false),
            surroundings: Surroundings::default(),
            now: at(0),
            alarm: None,
            tasks: VecDeque::new(),
            stored,
            are_writes_failing: false,
            commit: 1,
            deployed: 0,
            next_id: 1,
            next_refresh: 1,
            answers: BTreeMap::new(),
            log: Vec::new(),
            is_released: false,
            superseding_refusal: Some("its hook is running".to_owned()),
            newest_manifests: ManifestComparison::Different,
            steps: 0,
            unhandled_effects: Vec::new(),
            last_effects: Vec::new(),
        }
    }

    fn app(&self) -> &Application {
        self.machine.application()
    }

    /// Delivers an input, and executes everything that the machine decides.
    fn deliver(&mut self, input: Input) {
        self.last_effects.clear();
        let mut next = Some(input);
        while let Some(input) = next.take() {
            self.steps += 1;
            let Decision { effects, call } = self.machine.decide(input, &self.surroundings, self.now);
            self.execute(effects);
            next = call.map(|call| {
                self.last_effects.push(name_of(&call));
                Input::Outcome(self.make(call))
            });
        }
        self.check();
    }

    fn execute(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.last_effects.push(match &effect {
                Effect::Report { report, .. } => format!("Report {}", name_of(report)),
                effect => name_of(effect),
            });
            match effect {
                Effect::Compare(start) => {
                    self.tasks.push_back(Task::Comparison { start, began_at: self.now });
                }
                Effect::Prepare(preparation) => {
                    let application = self.machine.application().share();
                    self.tasks.push_back(Task::Preparation { preparation, application });
                }
                Effect::Run { operation, is_new } => {
                    let is_stored =
                        self.stored.operation.as_ref().and_then(operation::engine_id) == Some(operation);
                    let is_logged = self.log.iter().any(|one| one.id == operation);
                    assert!(is_stored || is_logged, "a crash could lose operation {operation}");
                    assert!(!is_new || !is_logged, "the engine already has operation {operation}");
                    let application = self.machine.application().share();
                    self.tasks.push_back(Task::Operation { operation, is_new, application });
                }
                Effect::AnswerRefresh { request, answer } => {
                    let before = self.answers.insert(request, Some(answer));
                    assert_eq!(before, Some(None), "the request is answered once");
                }
                Effect::Wake(at) => self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at))),
                Effect::Again => self.deliver_later(),
                Effect::Publish
                | Effect::ReleaseProjects
                | Effect::AnnounceRefusal { .. }
                | Effect::CompareOther(_)
                | Effect::RegisterDependencies(_) => {}
                // The tables deliver the results. The properties don't cover approvals and child operations.
                effect @ (Effect::WithdrawPlan { .. }
                | Effect::Report { .. }
                | Effect::CompareRevisions { .. }
                | Effect::CheckPlan { .. }) => self.unhandled_effects.push(name_of(&effect)),
            }
        }
    }

    fn deliver_later(&mut self) {
        let soon = self.now;
        self.alarm = Some(self.alarm.map_or(soon, |alarm| alarm.min(soon)));
    }

    fn make(&mut self, call: Call) -> Outcome {
        match call {
            Call::StopHandover { operation } => {
                self.tasks.retain(|task| matches!(task, Task::Comparison { .. }));
                let is_begun = operation.is_some_and(|id| self.log.iter().any(|one| one.id == id));
                Outcome::HandoverStopped { is_begun }
            }
            Call::Release => {
                if !self.are_writes_failing {
                    self.stored.metadata.finalizers.retain(|one| !is_own_finalizer(one));
                    self.is_released = true;
                }
                Outcome::Released { is_released: !self.are_writes_failing }
            }
            Call::ConfirmDeletions { .. } => Outcome::Confirmed { is_accepted: true },
            Call::Store => Outcome::Stored { is_stored: self.store() },
            Call::Supersede { .. } => {
                Outcome::Superseded(self.superseding_refusal.clone().map_or(Ok(()), Err))
            }
            Call::FindOperation(operation) => {
                Outcome::Durable { is_durable: self.log.iter().any(|one| one.id == operation) }
            }
        }
    }

    fn store(&mut self) -> bool {
        let is_stored = match self.machine.decide_write(self.now) {
            WriteDecision::Current => {
                self.machine.clear_write_failure();
                true
            }
            WriteDecision::Delayed => true,
            WriteDecision::Failed(_) => false,
            WriteDecision::Write => {
                let state = self.machine.start_write(self.now);
                let written = match self.are_writes_failing {
                    true => Err("the store is unavailable".to_owned()),
                    false => {
                        self.stored = Application::clone(&state);
                        Ok(())
                    }
                };
                let is_written = written.is_ok();
                self.machine.finish_write(written, self.now);
                is_written
            }
        };
        let effects = self.machine.take_effects();
        self.execute(effects);
        is_stored
    }

    /// Checks rules that hold at any time.
    fn check(&self) {
        let running: Vec<_> = self.log.iter().filter(|one| one.finished_at.is_none()).collect();
        assert!(running.len() <= 1, "{} operations are running", running.len());
        let preparations = self.tasks.iter().filter(|task| matches!(task, Task::Preparation { .. }));
        assert!(preparations.count() <= 1, "one operation is prepared at a time");
        let comparisons = self.tasks.iter().filter(|task| matches!(task, Task::Comparison { .. }));
        assert!(comparisons.count() <= 1, "there is one comparison at a time");
        if let Phase::Running(id) = self.machine.phase() {
            assert_eq!(self.machine.operation_id(), Some(id), "the running operation is the current one");
        }
        for number in 1..=self.commit {
            let of = |one: &&EngineOperation| one.is_automated && one.request.revision == commit_name(number);
            let runs = self.log.iter().filter(of).count();
            assert!(runs <= 1, "automated sync ran {runs} operations for commit {number}");
        }
    }

    /// Completes the `index`th task.
    fn complete(&mut self, index: usize) {
        let Some(task) = self.tasks.remove(index) else { return };
        match task {
            Task::Comparison { start, began_at } => self.finish_comparison(*start, began_at, false),
            Task::Preparation { preparation, application } => {
                let id = operation_id(self.next_id);
                self.next_id += 1;
                let named = application.operation.as_ref().and_then(|one| one.sync.as_ref());
                let named = named.map(|sync| sync.revision.clone()).filter(|name| !name.is_empty());
                let revision = named.unwrap_or_else(|| commit_name(self.commit));
                let result = Ok((vec![revision], id));
                self.deliver(Input::Prepared { preparation, result });
            }
            Task::Operation { operation, is_new, application } => {
                self.advance_operation(operation, is_new, application);
            }
        }
    }

    fn finish_comparison(&mut self, start: ComparisonStart, began_at: Timestamp, has_failed: bool) {
        self.surroundings.has_unread_changes = false;
        let is_synced = self.deployed == self.commit;
        let status = if is_synced { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
        let health = (self.deployed > 0).then_some(HealthStatus::Healthy);
        let outcome = match has_failed {
            true => ComparisonOutcome::without_cluster_state(
                ConditionType::ComparisonError,
                "the repository is unavailable".to_owned(),
            ),
            false => compared(&commit_name(self.commit), vec![resource("web", status, health)]),
        };
        let operation_relation =
            OperationRelation { operation: self.machine.operation_id(), newest: self.newest_manifests };
        self.deliver(Input::Compared(Box::new(FinishedComparison {
            start,
            began_at,
            outcome,
            operation_relation,
            is_access_denied: false,
            has_objects: !has_failed,
        })));
    }

    fn advance_operation(&mut self, id: OperationId, is_new: bool, application: Arc<Application>) {
        let known = self.log.iter().position(|one| one.id == id);
        let index = match known {
            // The operation ends.
            Some(index) => {
                assert!(!is_new, "the engine would run operation {id} again");
                let now = self.now;
                let one = &mut self.log[index];
                if one.finished_at.is_none() {
                    one.finished_at = Some(now);
                    if !one.is_deletion {
                        self.deployed = u32::from_str_radix(&one.request.revision, 16).unwrap();
                    }
                }
                index
            }
            None => {
                let request = application.operation.clone().unwrap();
                let sync = request.sync.clone().unwrap_or_default();
                let shop = "shop".to_owned();
                self.log.push(EngineOperation {
                    id,
                    request: sync_request(
                        &application,
                        &request,
                        Destination::Simulated,
                        shop,
                        &[sync.revision],
                    )
                    .unwrap(),
                    is_deletion: operation::deletion_cascade(&request).is_some(),
                    is_automated: request.initiated_by.automated
                        && operation::deletion_cascade(&request).is_none(),
                    started_at: self.now,
                    finished_at: None,
                });
                self.tasks.push_back(Task::Operation { operation: id, is_new: false, application });
                self.log.len() - 1
            }
        };
        let progress = Box::new(self.log[index].progress());
        self.deliver(Input::Progress { operation: id, progress });
    }

    /// Requests a sync, as a client does. Returns the reason if the request is rejected.
    fn sync(&mut self) -> Result<(), String> {
        self.sync_with_policy(ClaimConflictPolicy::Refuse)
    }

    /// Requests a sync with a policy for the case that another operation is current.
    fn sync_with_policy(&mut self, policy: ClaimConflictPolicy) -> Result<(), String> {
        let mut request = OperationRequest { sync: Some(Default::default()), ..OperationRequest::default() };
        request.initiated_by.username = "ann".to_owned();
        request.set_info(POLICY_INFO, policy_name(policy));
        let backup = self.machine.back_up_operation();
        let mut answer = self.machine.request_operation(request, None, &self.surroundings, self.now);
        if answer.is_ok() {
            self.machine.reset_operation_status(self.now);
            if !self.store() {
                self.machine.undo_request(backup);
                answer = Err("cannot store the request".to_owned());
            }
        }
        self.deliver(Input::Step);
        answer
    }

    fn refresh(&mut self, level: RefreshLevel) {
        let request = RefreshId(self.next_refresh);
        self.next_refresh += 1;
        self.answers.insert(request, None);
        self.deliver(Input::Refresh { level, request });
    }

    /// Changes the Application, as a client of the store does.
    fn change(&mut self, edit: impl FnOnce(&mut Application)) {
        let mut changed = self.app().clone();
        changed.operation = None;
        edit(&mut changed);
        (self.stored.metadata, self.stored.spec) = (changed.metadata.clone(), changed.spec.clone());
        let changed = ChangedResource { application: changed, problem: None };
        self.deliver(Input::Changed(Box::new(changed)));
    }

    /// Deletes the Application, as a client of the store does.
    fn delete(&mut self) {
        let now = self.now.into();
        self.change(|application| {
            application.metadata.deletion_timestamp.get_or_insert(now);
        });
    }

    /// Reports the progress of the current operation.
    fn report_progress(&mut self, phase: OperationPhase, message: &str) {
        let operation = self.machine.operation_id().unwrap();
        let progress = EngineProgress {
            phase,
            message: message.to_owned(),
            started_at: self.now,
            finished_at: phase.is_completed().then_some(self.now),
            retry_count: 0,
            resources: Vec::new(),
        };
        if let Some(one) = self.log.iter_mut().find(|one| one.id == operation) {
            one.finished_at = progress.finished_at;
        }
        self.deliver(Input::Progress { operation, progress: Box::new(progress) });
    }

    /// Completes tasks until an operation is running.
    fn run_operation(&mut self) {
        while self.log.last().is_none_or(|one| one.finished_at.is_some()) {
            self.complete(0);
        }
    }

    /// Completes the running comparison.
    fn complete_comparison(&mut self) {
        let is_comparison = |task: &Task| matches!(task, Task::Comparison { .. });
        let index = self.tasks.iter().position(is_comparison).unwrap();
        self.complete(index);
    }

    /// Returns the phase, without the operation.
    fn phase(&self) -> &'static str {
        match self.machine.phase() {
            Phase::Idle => "Idle",
            Phase::Preparing => "Preparing",
            Phase::Running(_) => "Running",
        }
    }

    /// Returns the effects and calls of the last input, without alarms and writes.
    fn effects(&self) -> Vec<&str> {
        let effects = self.last_effects.iter().map(String::as_str);
        effects.filter(|one| !["Wake", "Store"].contains(one)).collect()
    }

    /// Stops the process and starts another one, which has only the store, the log and the engine.
    fn restart(&mut self) {
        self.tasks.clear();
        self.alarm = None;
        // The connections of the waiting clients are closed.
        self.answers.retain(|_, answer| answer.is_some());
        let stored = self.stored.clone();
        self.machine = ApplicationMachine::new(stored.clone(), None, settings(), false);
        let summaries: Vec<LogSummary> = self
            .log
            .iter()
            .map(|one| LogSummary { operation: one.id, is_running: one.finished_at.is_none() })
            .collect();
        let unknown = match self.log.last() {
            Some(newest) if !knows_operation(&stored, newest.id) => self
                .log
                .iter()
                .map(|one| LoggedOperation {
                    operation: one.id,
                    request: Some(one.request.clone()),
                    progress: one.progress(),
                })
                .collect(),
            _ => Vec::new(),
        };
        assert_eq!(instance_name(&stored), "web");
        self.machine.apply_history(unknown, &summaries, &self.surroundings, self.now);
        self.machine.verify_operation(&summaries, true, self.now);
        let newest = self.machine.last_deployment();
        self.machine.set_newest_deployment(newest);
        self.machine.restore_conditions(&self.surroundings, self.now);
        self.deliver(Input::Step);
    }

    /// Completes tasks and lets alarms go off until nothing is left to do.
    fn settle(&mut self) {
        let before = self.steps;
        loop {
            assert!(
                self.steps - before < 300,
                "the controller does not become quiet: {:?}",
                self.last_effects
            );
            if !self.tasks.is_empty() {
                self.complete(0);
            } else if let Some(at) = self.alarm.take() {
                self.now = self.now.max(at);
                self.deliver(Input::Wake);
            } else {
                return;
            }
        }
    }

    /// Completes tasks, and lets up to `alarms` alarms go off.
    fn settle_for(&mut self, alarms: usize) {
        for _ in 0..alarms {
            while !self.tasks.is_empty() {
                self.complete(0);
            }
            let Some(at) = self.alarm.take() else { return };
            self.now = self.now.max(at);
            self.deliver(Input::Wake);
        }
    }
}
