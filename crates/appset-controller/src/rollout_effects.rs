//! Effects of a rollout. The Application actors run its operations, and observations come from the
//! application cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_app_controller::{
    AppMessage, ChildOperation, SharedState, SupervisorMessage, is_operation_known,
};
use tidegate_application::AppKey;
use tidegate_application::automated;
use tidegate_application::rollout_operation::{
    AdoptableOperations, ROLLOUT_REQUESTER, RolloutDeployment, deployment_request, rollback_request,
};
use tidegate_applicationset::rollout::TargetIdentities;
use tidegate_executor::{EngineError, MachineEffects, MachineSender, StepGateRequest, SummaryOf};
use tidegate_lifecycle::fleet::Attribution;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::{
    Command, Details, Input, OperationReport, Progress, ProgressiveSync, Rollout, State, StopOutcome, Target,
    WorkKind as Direction,
};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Digest, OperationId, StreamId, Timestamp};
use tidegate_oplog::Summary;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::member_status::{member_key, observe_member};
use super::same_manifests::RevisionEquivalence;
use super::subscriptions::{SubscriptionTask, WatchedApplications};

/// Delay before another request to an unavailable Application. A change event triggers an earlier retry.
const RETRY_DELAY: Duration = Duration::from_secs(30);
/// Interval between checks for changed gate definitions.
const GATE_CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Applications synced with pruning: those generated with `automated.prune`, unless automated sync is
/// disabled. The stored Applications lack this setting during a progressive sync. `None` before the first
/// pass.
#[derive(Clone, Default)]
pub struct PruningApplications(Arc<Mutex<Option<BTreeSet<String>>>>);

impl PruningApplications {
    /// Records the Applications that are currently generated.
    pub fn set<'a>(&self, generated: impl IntoIterator<Item = &'a Application>) {
        let prunes = |one: &&Application| automated(one).is_some_and(|policy| policy.prune == Some(true));
        let names = generated.into_iter().filter(prunes).map(|one| one.metadata.name.clone()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// Returns true if an Application is synced with pruning. Before the first generation, the stored
    /// Application decides.
    fn contains(&self, live: &Application) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref() {
            Some(names) => names.contains(&live.metadata.name),
            None => {
                let policy = live.spec.sync_policy.as_ref().and_then(|policy| policy.automated.as_ref());
                policy.is_some_and(|automated| automated.prune == Some(true))
            }
        }
    }
}

/// Dependencies of a rollout's effects.
#[derive(Clone)]
pub struct RolloutContext {
    /// State shared by all Applications.
    pub shared: Arc<SharedState>,
    /// Supervisor of the Applications.
    pub applications: ActorRef<SupervisorMessage>,
    /// The ApplicationSet.
    pub set: AppKey,
    /// The rollout.
    pub id: StreamId,
    /// Digests of the generated specs.
    pub targets: Arc<TargetIdentities>,
    pub prunes: PruningApplications,
    /// Revisions with the same manifests.
    pub same: RevisionEquivalence,
    /// Callback for changes to the rollout's durable state. Must not block.
    pub on_change: Arc<dyn Fn(&State) + Send + Sync>,
}

/// Effects of a rollout.
pub struct RolloutEffects {
    context: RolloutContext,
    operations: BTreeMap<String, (SubscriptionTask, SupervisorChannel)>,
    gates: BTreeMap<String, SubscriptionTask>,
    watched: WatchedApplications,
}

impl RolloutEffects {
    pub fn new(context: RolloutContext) -> Self {
        Self {
            context,
            operations: BTreeMap::new(),
            gates: BTreeMap::new(),
            watched: WatchedApplications::default(),
        }
    }

    /// Stops requesting a member's operation. Later messages to the supervisor arrive after all of these
    /// requests.
    fn end_operation(&mut self, name: &str) {
        if let Some((_, line)) = self.operations.remove(name) {
            line.close();
        }
    }

    fn watch(&mut self, name: &str, post: &MachineSender<ProgressiveSync>) {
        let key = member_key(&self.context.set, name);
        let (parts, sender) = (self.context.clone(), post.clone());
        let observe = move |key: &AppKey| {
            let Some((live, deployments)) = parts.shared.application_cache.get_with_deployments(key) else {
                return;
            };
            let observation = observe_member(&live, &deployments, &parts.targets, &parts.same);
            sender.send_input(Input::Observed { member: key.name.clone(), observation });
        };
        self.watched.watch(key, || self.context.shared.application_cache.subscribe(), post, observe);
    }

    fn query_gate(
        &mut self,
        rollout: &Rollout,
        step: u32,
        gate: &str,
        post: &MachineSender<ProgressiveSync>,
    ) {
        let question = StepGateRequest {
            gate: gate.to_owned(),
            rollout: OperationId::from(self.context.id),
            appset: rollout.set.clone(),
            step: step.saturating_add(1),
            started_at: rollout.started_at,
            destination: self.context.shared.destinations.managed().clone(),
        };
        let asking = query_gate(Arc::clone(&self.context.shared), question, step, post.clone());
        self.gates.insert(gate.to_owned(), SubscriptionTask::spawn(post, asking));
    }
}

/// Returns the user who stopped an Application's operation, or `None` if the rollout stops it on its own.
fn stop_requester<'a>(rollout: &'a Rollout, member: &str) -> Option<&'a Attribution> {
    let skipped = || match &rollout.members.get(member)?.progress {
        Progress::Stopping { then: StopOutcome::Skip(decision), .. } => Some(decision),
        _ => None,
    };
    rollout.terminated.as_ref().or_else(skipped)
}

impl MachineEffects for RolloutEffects {
    type Machine = ProgressiveSync;

    fn summary(state: &State) -> Option<SummaryOf<ProgressiveSync>> {
        let (rollout, details) = state.rollout().zip(Details::from_state(state))?;
        let ended_at = rollout.outcome.as_ref().map(|outcome| outcome.at);
        Some(Summary::of_appset(&rollout.set, rollout.started_at, ended_at, details))
    }

    fn resume_input() -> Option<Input> {
        Some(Input::Recovered)
    }

    fn execute(
        &mut self,
        state: &State,
        command: Command,
        _: Timestamp,
        post: MachineSender<ProgressiveSync>,
    ) {
        let (parts, about, to) = (self.context.clone(), command.subject(), post.clone());
        match command {
            Command::ChooseId { member } => {
                post.spawn(async move {
                    if let Some(operation) = choose_id(&parts.shared).await {
                        to.answer(about, Input::IdChosen { member, operation });
                    }
                });
            }
            Command::Stop { member, operation } => {
                self.end_operation(&member);
                let decision = state.rollout().and_then(|rollout| stop_requester(rollout, &member));
                let by = decision
                    .map_or_else(|| ROLLOUT_REQUESTER.to_owned(), |decision| decision.requester().to_text());
                post.spawn(async move {
                    if let Some(result) = stop_operation(&parts, &member, operation, by).await {
                        to.answer(about, Input::Stopped { member, operation, result });
                    }
                });
            }
            // These commands are subscriptions.
            Command::Run { .. } | Command::WatchMember { .. } | Command::AskGate { .. } => {}
        }
    }

    fn start_subscription(
        &mut self,
        state: &State,
        command: &Command,
        _: Timestamp,
        post: MachineSender<ProgressiveSync>,
    ) {
        let Some(rollout) = state.rollout() else { return };
        match command {
            Command::Run { member, operation, work } => {
                let Some(wanted) = MemberOperation::new(rollout, member, *operation, *work) else { return };
                let line = SupervisorChannel::new(&self.context.applications);
                let running = run_operation(self.context.clone(), wanted, line.clone(), post.clone());
                self.operations.insert(member.clone(), (SubscriptionTask::spawn(&post, running), line));
            }
            Command::WatchMember { member } => self.watch(member, &post),
            Command::AskGate { step, gate } => self.query_gate(rollout, *step, gate, &post),
            Command::ChooseId { .. } | Command::Stop { .. } => {}
        }
    }

    fn end_subscription(&mut self, _: &State, command: &Command) {
        match command {
            Command::Run { member: name, operation, .. } => {
                self.end_operation(name);
                let key = member_key(&self.context.set, name);
                let message =
                    SupervisorMessage::Forward(key, AppMessage::WithdrawChild { operation: *operation });
                drop(self.context.applications.send_message(message));
            }
            Command::WatchMember { member: name } => {
                self.watched.unwatch(&member_key(&self.context.set, name))
            }
            Command::AskGate { gate, .. } => drop(self.gates.remove(gate)),
            Command::ChooseId { .. } | Command::Stop { .. } => {}
        }
    }

    fn publish_state(&mut self, state: &State) {
        (self.context.on_change)(state);
    }
}

/// Returns an ID that sorts after all existing operations, or `None` if the engine stops.
async fn choose_id(shared: &SharedState) -> Option<Result<OperationId, CallError>> {
    match shared.engine.next_id().await {
        Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => None,
        chosen => Some(chosen.map_err(|error| CallError::transient(error.to_string()))),
    }
}

/// Stops an operation. Succeeds once it has finished or can't start anymore. Returns `None` if the engine
/// stops.
async fn stop_operation(
    parts: &RolloutContext,
    name: &str,
    operation: OperationId,
    by: String,
) -> Option<Result<(), CallError>> {
    let (reply, answer) = oneshot::channel();
    let key = member_key(&parts.set, name);
    let message =
        SupervisorMessage::Forward(key, AppMessage::StopChild { operation, by, reply: reply.into() });
    parts.applications.send_message(message).ok()?;
    match answer.await {
        Ok(result) => Some(result.map_err(CallError::transient)),
        Err(_) if is_stopped(parts) => None,
        // The actor failed, or stopped together with its Application. The next call reaches its successor.
        Err(_) => Some(Err(CallError::transient(format!("application {name} did not respond")))),
    }
}

/// Returns true if the supervisor or the engine has stopped.
fn is_stopped(parts: &RolloutContext) -> bool {
    let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&parts.applications.get_status());
    over || parts.shared.engine.failure().is_some()
}

/// Operation that a member must run.
struct MemberOperation {
    member: String,
    operation: OperationId,
    direction: Direction,
    revisions: Vec<String>,
    /// Spec that the Application must have before the operation starts.
    spec: Option<Digest>,
    /// Criteria for adopting another operation.
    adoption_evidence: Option<AdoptionEvidence>,
}

/// Criteria for adopting an operation that may already have deployed a member's target.
struct AdoptionEvidence {
    target: Target,
    /// Only later operations are adopted.
    after: Option<OperationId>,
    /// True if operations of Degraded members can be adopted. False in a rollout that a user requested,
    /// because syncing the member again may fix it.
    accepts_degraded: bool,
}

impl MemberOperation {
    fn new(rollout: &Rollout, name: &str, operation: OperationId, direction: Direction) -> Option<Self> {
        let member = rollout.members.get(name)?;
        let (target, spec) = match direction {
            Direction::Sync => (&member.target, Some(member.target.spec)),
            Direction::RollBack => (&member.before.as_ref()?.target, None),
        };
        let adoption_evidence = spec.map(|_| AdoptionEvidence {
            target: target.clone(),
            after: member.before.as_ref().and_then(|before| before.operation),
            accepts_degraded: rollout.by == ROLLOUT_REQUESTER,
        });
        let revisions = target.revisions.clone();
        Some(Self { member: name.to_owned(), operation, direction, revisions, spec, adoption_evidence })
    }

    fn adoptable_operations(&self, parts: &RolloutContext) -> Option<AdoptableOperations> {
        let AdoptionEvidence { target, after, accepts_degraded } = self.adoption_evidence.as_ref()?;
        let revisions = parts.same.revisions_of_target(&self.member, target);
        let (after, rollout, is_degraded_too) = (*after, OperationId::from(parts.id), *accepts_degraded);
        Some(AdoptableOperations { after, rollout, revisions, includes_degraded: is_degraded_too })
    }

    /// Returns the request for the Application, or `None` if the Application doesn't exist or doesn't have
    /// the expected spec yet.
    async fn build_request(&self, parts: &RolloutContext, key: &AppKey) -> Option<Box<OperationRequest>> {
        let live = parts.shared.application_cache.get(key)?;
        if self.spec.is_some_and(|spec| parts.targets.spec_identity(&live) != spec) {
            // An operation that has started continues despite later writes.
            if !is_operation_known(&parts.shared, self.operation).await {
                return None;
            }
        }
        let set = format!("{}/{}", parts.set.namespace, parts.set.name);
        let prune = parts.prunes.contains(&live);
        let deploy = RolloutDeployment { appset: &set, revisions: &self.revisions, prune };
        Some(Box::new(match self.direction {
            Direction::Sync => deployment_request(&live, deploy),
            Direction::RollBack => rollback_request(&live, deploy),
        }))
    }
}

/// Channel to the supervisor of the Applications. Nothing is in flight after it is closed.
#[derive(Clone)]
struct SupervisorChannel(Arc<Mutex<Option<ActorRef<SupervisorMessage>>>>);

impl SupervisorChannel {
    fn new(applications: &ActorRef<SupervisorMessage>) -> Self {
        Self(Arc::new(Mutex::new(Some(applications.clone()))))
    }

    /// Sends a message. Returns false if the channel is closed.
    fn send(&self, message: SupervisorMessage) -> bool {
        let applications = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        applications.as_ref().is_some_and(|to| to.send_message(message).is_ok())
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Requests an operation from the Application's actor and reports its progress until it finishes.
async fn run_operation(
    parts: RolloutContext,
    wanted: MemberOperation,
    line: SupervisorChannel,
    post: MachineSender<ProgressiveSync>,
) {
    let key = member_key(&parts.set, &wanted.member);
    let mut changes = parts.shared.application_cache.subscribe();
    let mut is_new = true;
    let notify = |report| {
        let (member, operation) = (wanted.member.clone(), wanted.operation);
        post.send_input(Input::OperationReported { member, operation, report });
    };
    loop {
        let asked = wanted.build_request(&parts, &key).await;
        if let Some(request) = asked {
            let (to, mut reports) = mpsc::unbounded_channel();
            let (key, operation) = (key.clone(), wanted.operation);
            let child = Box::new(ChildOperation {
                request,
                adoption: wanted.adoptable_operations(&parts),
                progress: to,
            });
            if !line.send(SupervisorMessage::Forward(key, AppMessage::RunChild { operation, child })) {
                return;
            }
            while let Some(news) = reports.recv().await {
                let is_over = matches!(
                    news,
                    OperationReport::Ended { .. }
                        | OperationReport::Deployed { .. }
                        | OperationReport::Failed(_)
                );
                notify(news);
                if is_over {
                    return;
                }
            }
        } else if !is_new {
            return notify(OperationReport::Failed(CallError::transient(format!(
                "application {key} does not exist or does not match the generated Application yet"
            ))));
        }
        // The Application doesn't exist or must change first, or its actor has stopped and the next one needs
        // the request.
        is_new = timeout(RETRY_DELAY, await_change(&mut changes, &key)).await.is_ok();
    }
}

/// Waits until an Application may have changed.
async fn await_change(changes: &mut Receiver<AppKey>, key: &AppKey) {
    loop {
        match changes.recv().await {
            Ok(other) if other == *key => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Queries a gate, and again after each change of its definition.
async fn query_gate(
    shared: Arc<SharedState>,
    question: StepGateRequest,
    step: u32,
    post: MachineSender<ProgressiveSync>,
) {
    loop {
        let definitions = shared.gates.read().await;
        let notify = |verdict| post.send_input(Input::Gate { step, gate: question.gate.clone(), verdict });
        let asking = async {
            shared.engine.evaluate_gate(&question, &definitions, notify).await;
            std::future::pending::<()>().await;
        };
        let others = async {
            loop {
                sleep(GATE_CHECK_INTERVAL).await;
                if shared.gates.read().await != definitions {
                    return;
                }
            }
        };
        tokio::select! {
            () = asking => {}
            () = others => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
