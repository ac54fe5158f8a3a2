//! Cluster commands in flight. Each command gets a result even if its call is dropped or panics, so no command
//! is lost.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tidegate_cluster::{Cluster, ClusterError, Effect, Layer, PendingCall, with_write_check};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, CallError, Command, Input, NamespaceObservation, TaskCommand};
use tidegate_model::{Digest, Object, OperationId, PackedObject, Plan, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{ApplicationInventory, InventoryChange};
use tidegate_planner::{LastRun, runs_when_inputs_change};

use crate::claims::LeaseCoverage;
use crate::clock::Clock;
use crate::clusters::ClusterHandle;
use crate::effects::{self, HookDiagnostics, PlanError, Targets};
use crate::engine_context::EngineContext;
use crate::extensions::HookResult;
use crate::inbox::{Arrival, EffectMessage, Inbox};
use crate::last_runs::last_runs;
use crate::log::{LogFailure, read_error, read_json, run_blocking, store_json};
use crate::manifests::{Bundle, SubmittedManifests};
use crate::policy_check::PolicyGuard;

/// A command in flight. Its result is reported exactly once, on drop at the latest.
pub(crate) struct InFlightCommand {
    command: Command,
    inbox: Inbox,
    is_answered: bool,
}

impl InFlightCommand {
    pub fn new(command: Command, inbox: Inbox) -> Self {
        Self { command, inbox, is_answered: false }
    }

    pub fn answer(mut self, input: Input) {
        self.send(input);
    }

    fn send(&mut self, input: Input) {
        self.is_answered = true;
        self.inbox.push(Arrival::Answer { subject: self.command.subject(), input });
    }

    fn answer_task(self, answer: Answer) {
        if let Command::Task { task, attempt, .. } = self.command {
            self.answer(Input::Answer { task, attempt, answer });
        }
    }

    pub fn fail(mut self, error: CallError) {
        self.send_failure(error);
    }

    fn send_failure(&mut self, error: CallError) {
        if let Some(input) = self.command.failure_input(error) {
            self.send(input);
        }
    }

    /// Reports the result of a hook executed by a hook runner.
    pub fn answer_hook_result(self, end: HookResult) {
        self.answer_task(match end {
            HookResult::Succeeded(message) => Answer::Ran { success: true, message },
            HookResult::Failed(message) => Answer::Ran { success: false, message },
        });
    }
}

impl Drop for InFlightCommand {
    fn drop(&mut self) {
        if !self.is_answered {
            self.send_failure(CallError::transient("the call was lost because of an internal error"));
        }
    }
}

/// A command for the cluster, with its inputs.
pub(crate) struct Call {
    pub command: InFlightCommand,
    pub kind: CallKind,
}

/// Work to perform on the cluster.
pub(crate) enum CallKind {
    Plan(Box<PlanJob>),
    Task(Box<TaskJob>),
    /// Observe these namespaces.
    Namespaces(Arc<[String]>),
}

/// Wraps a cluster so that writes wait until the operation's claim covers them. Returns it unchanged without
/// a claim.
fn cover_writes(cluster: Arc<dyn Cluster>, hold: Option<Arc<LeaseCoverage>>) -> Arc<dyn Cluster> {
    match hold {
        Some(coverage) => Arc::new(CoveredCluster { cluster, coverage }),
        None => cluster,
    }
}

/// Reason for a write that fails because the claim isn't certain.
const NOT_RENEWED: &str =
    "cannot write because the operation's claim on its application could not be renewed";

/// A cluster with writes that wait for the claim.
struct CoveredCluster {
    cluster: Arc<dyn Cluster>,
    coverage: Arc<LeaseCoverage>,
}

impl Layer for CoveredCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(
        &self,
        call: tidegate_cluster::Call,
        answer: impl PendingCall<T>,
    ) -> Result<T, ClusterError> {
        if call.effect != Effect::Write {
            return answer.await;
        }
        self.coverage.ensure_covered(NOT_RENEWED).await?;
        let coverage = Arc::clone(&self.coverage);
        with_write_check(move || coverage.check_now(NOT_RENEWED), answer).await
    }
}

impl Call {
    /// Makes the call once the cluster's limit allows, restricted by the operation's claim and its project
    /// policy.
    ///
    /// Thousands of calls can be waiting. Both futures are allocated separately, so that neither is copied into another
    /// one while the call waits.
    pub fn run(
        self,
        cluster: Arc<ClusterHandle>,
        coverage: Option<Arc<LeaseCoverage>>,
        guard: PolicyGuard,
        log_failure: LogFailure,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The semaphore is never closed. If it were, the call would be dropped and report its failure.
            let Ok(_permit) = cluster.permits().acquire_owned().await else { return };
            if log_failure.get().is_none() {
                self.execute(cluster.connection_with_timeouts(), coverage, guard).await;
            }
        })
    }

    /// Makes the call. The future is large, so it is allocated only once the call has its permit.
    fn execute(
        self,
        cluster: Arc<dyn Cluster>,
        coverage: Option<Arc<LeaseCoverage>>,
        guard: PolicyGuard,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Check the policy only after waiting for the claim: it may have changed in the meantime.
            let cluster = match guard.restrict(cluster).await {
                Ok(cluster) => cover_writes(cluster, coverage),
                Err(error) => return self.command.fail(error),
            };
            match self.kind {
                CallKind::Plan(planning) => planning.run(cluster.as_ref(), self.command).await,
                CallKind::Task(work) => work.run(cluster.as_ref(), self.command).await,
                CallKind::Namespaces(names) => {
                    let names = names.iter().map(String::as_str);
                    let namespaces = effects::look_at_namespaces(cluster.as_ref(), names).await;
                    self.command.answer(Input::NamespacesRead { namespaces });
                }
            }
        })
    }
}

/// Result of making a plan.
struct PlanOutcome {
    plan: Plan,
    bundle: Bundle,
    inventory: Vec<InventoryChange>,
    namespaces: Vec<NamespaceObservation>,
}

/// Reads the live state of the cluster and computes the plan.
pub(crate) struct PlanJob {
    pub engine: Arc<EngineContext>,
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub targets: Digest,
    /// Manifests from the submitter. If absent, they are read from the log.
    pub submitted: Option<Box<SubmittedManifests>>,
    pub started_at: Timestamp,
}

impl PlanJob {
    async fn run(self, cluster: &dyn Cluster, command: InFlightCommand) {
        match self.plan(cluster, &command.inbox).await {
            Ok(PlanOutcome { plan, bundle, inventory, namespaces }) => {
                let planned = Input::Planned { plan: Arc::new(plan), bundle: bundle.digest, namespaces };
                let inbox = command.inbox.clone();
                // Send the inventory first, so that it is recorded no later than the plan.
                inbox.push_message(EffectMessage::Inventory(inventory));
                inbox.push_message(EffectMessage::Bundle(Arc::new(bundle)));
                command.answer(planned);
            }
            Err(PlanError::Call(error)) => command.fail(error),
            Err(PlanError::Outdated(moved)) => {
                command.answer(Input::PlanRejected { reason: moved.to_string() });
            }
        }
    }

    async fn plan(mut self, cluster: &dyn Cluster, inbox: &Inbox) -> Result<PlanOutcome, PlanError> {
        let mut targets = match self.submitted.take() {
            Some(handed_over) => {
                let SubmittedManifests { targets, permit } = *handed_over;
                drop(permit);
                targets
            }
            None => read_json(&self.engine.log, self.targets).await?,
        };
        inbox.push_message(EffectMessage::Mask(Arc::new(targets.mask())));
        let mut extension_names = self.engine.extensions.names();
        extension_names.gates.extend(targets.definitions.names());
        let user = targets.mandate.as_ref().map(|mandate| mandate.user.clone()).unwrap_or_default();
        let known = self.read_inventory().await?;
        targets.last_runs = self.read_last_runs(&targets).await;
        let effects::PreparedPlan { mut planned, inventory, namespaces, is_reused } = effects::prepare(
            cluster,
            self.operation,
            &self.request,
            targets,
            self.started_at,
            known.as_ref(),
        )
        .await?;
        self.engine.plan_counters.count_plan(is_reused);
        effects::warn_of_missing_extensions(&mut planned.plan, &extension_names);
        effects::review_rights(cluster, &self.request, &user, &mut planned.plan).await;
        let stored = store_json(&self.engine.log, &self.engine.log_failure, &planned.manifests).await;
        // If the log has failed, the plan isn't recorded, and the next process makes a new one.
        let digest = stored.map_err(CallError::from)?;
        let bundle = Bundle::from_stored(Arc::clone(&self.engine.log), digest, planned.manifests);
        Ok(PlanOutcome { plan: planned.plan, bundle, inventory, namespaces })
    }

    /// Reads the last runs of hooks that run only when their inputs change.
    async fn read_last_runs(&self, targets: &Targets) -> Vec<LastRun> {
        if !targets.targets.iter().any(|target| runs_when_inputs_change(&target.object)) {
            return Vec::new();
        }
        let (operation, request, targets) =
            (self.operation, Arc::clone(&self.request), targets.targets.clone());
        let reading =
            run_blocking(&self.engine.log, move |log| Ok(last_runs(log, operation, &request, &targets)));
        // Without information about earlier runs, run all hooks.
        reading.await.unwrap_or_default()
    }

    async fn read_inventory(&self) -> Result<Option<ApplicationInventory>, CallError> {
        let Some(cluster) = effects::cluster_identity(&self.request.destination) else { return Ok(None) };
        let application = self.request.application.clone();
        run_blocking(&self.engine.log, move |log| log.inventory(&cluster, &application))
            .await
            .map_err(|error| read_error("the inventory", &error))
    }
}

/// Inputs for a task's command.
pub(crate) struct TaskJob {
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub attempt: u32,
    pub leftover: Option<String>,
    pub plan: Arc<Plan>,
    pub task: TaskId,
    pub bundle: Arc<Bundle>,
    pub is_repeated: bool,
    pub clock: Arc<dyn Clock>,
    pub health: HealthRules,
}

impl TaskJob {
    /// Returns a copy of the task's manifest.
    pub async fn copy_manifest(&self) -> Result<Object, CallError> {
        Ok(Arc::unwrap_or_clone(self.packed_manifest().await?.unpack()))
    }

    async fn packed_manifest(&self) -> Result<&PackedObject, CallError> {
        let manifests = self.bundle.manifests().await?;
        let task = self.plan.task(self.task);
        let found = task.and_then(|task| manifests.get(task.manifest?.index()));
        found.ok_or_else(|| {
            let name = task.map_or_else(|| self.task.to_string(), |task| task.key().to_string());
            CallError::permanent(format!(
                "the manifest of {name} is missing from the operation's stored manifests"
            ))
        })
    }

    async fn run(self, cluster: &dyn Cluster, command: InFlightCommand) {
        let Command::Task { command: what, .. } = &command.command else { return };
        let needs_manifest = matches!(what, TaskCommand::Apply | TaskCommand::Check);
        let manifest = if needs_manifest {
            match self.packed_manifest().await {
                Ok(manifest) => Some(manifest),
                Err(error) => return command.fail(error),
            }
        } else {
            None
        };
        let Some(task) = self.plan.task(self.task) else {
            return command
                .fail(CallError::permanent(format!("{} is not in the operation's plan", self.task)));
        };
        let subject = effects::Subject {
            operation: self.operation,
            request: &self.request,
            attempt: self.attempt,
            leftover: self.leftover.as_deref(),
            task,
            manifest,
            is_repeated: self.is_repeated,
            now: self.clock.now(),
            health: &self.health,
        };
        let answer = match what {
            TaskCommand::ReadLogs => {
                let found = HookDiagnostics::default();
                let reading = effects::read_logs(cluster, &subject, &found);
                if tokio::time::timeout(effects::DIAGNOSTICS_TIMEOUT, reading).await.is_err() {
                    tracing::debug!(hook = %task.key(), "timed out before reading all logs of a failed hook");
                }
                found.into_answer()
            }
            what => effects::execute(cluster, &subject, what).await,
        };
        command.answer_task(answer);
    }
}
