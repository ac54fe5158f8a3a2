//! Jobs for the cluster actor. Each holds a guard that answers even when the job is dropped or panics, so no command
//! is ever lost on its way.

use std::sync::Arc;

use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, CallError, Input, TaskCommand};
use tidegate_model::{Digest, Object, OperationId, Plan, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{InventoryChange, Known};
use tokio::sync::{OnceCell, OwnedSemaphorePermit};

use crate::actors::cluster::Job;
use crate::actors::log::Log;
use crate::claims::{Covered, Hold};
use crate::clock::Clock;
use crate::effects::{self, LastWords, Mask, Targets};
use crate::extend::HookEnd;
use crate::inbox::{Arrival, Errand, Inbox};
use crate::shared::blocking;

/// The manifests of an operation: those just planned, or read when the first of them is needed.
pub(crate) struct Bundle {
    log: Log,
    digest: Digest,
    manifests: OnceCell<Vec<Object>>,
}

impl Bundle {
    pub fn new(log: Log, digest: Digest) -> Self {
        Self { log, digest, manifests: OnceCell::new() }
    }

    /// The manifests that have just been kept.
    fn kept(log: Log, digest: Digest, manifests: Vec<Object>) -> Self {
        Self { log, digest, manifests: OnceCell::new_with(Some(manifests)) }
    }

    async fn manifests(&self) -> Result<&Vec<Object>, CallError> {
        self.manifests.get_or_try_init(|| read(&self.log, self.digest)).await
    }
}

/// Reads JSON that was kept outside the log. Damage there is final: asking again does not mend it.
async fn read<T: serde::de::DeserializeOwned + Send + 'static>(
    log: &Log,
    digest: Digest,
) -> Result<T, CallError> {
    let bytes = blocking(log, move |log| log.blob(digest)).await.map_err(|error| {
        CallError::permanent(format!("the operation's manifests cannot be read: {error}"))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| CallError::permanent(format!("the operation's manifests are damaged: {error}")))
}

/// What must not show of an operation's Secrets. Without its manifests nothing of them reaches a cluster, so nothing of
/// them comes back.
pub(crate) async fn mask(log: &Log, targets: Digest) -> Option<Arc<Mask>> {
    match read::<Targets>(log, targets).await {
        Ok(targets) => Some(Arc::new(targets.mask())),
        Err(error) => {
            tracing::warn!(reason = error.message, "the values of an operation's Secrets are not known");
            None
        }
    }
}

/// Keeps a value as JSON outside the log.
pub(crate) async fn keep<T: serde::Serialize>(log: &Log, value: &T) -> Result<Digest, CallError> {
    let bytes = serde_json::to_vec(value)
        .map_err(|error| CallError::permanent(format!("the manifests cannot be written as JSON: {error}")))?;
    blocking(log, move |log| log.put_blob(&bytes))
        .await
        .map_err(|error| CallError::permanent(format!("the manifests cannot be kept: {error}")))
}

/// What a command is about.
pub(crate) fn errand(task: TaskId, attempt: u32, command: &TaskCommand) -> Errand {
    match command {
        TaskCommand::RunHook { .. } => Errand::Run(task, attempt),
        _ => Errand::Task(task),
    }
}

/// Answers a command exactly once.
pub(crate) struct Guard {
    inbox: Inbox,
    subject: Subject,
    answered: bool,
}

enum Subject {
    Plan,
    Task { task: TaskId, attempt: u32, command: TaskCommand },
}

impl Guard {
    pub fn plan(inbox: Inbox) -> Self {
        Self { inbox, subject: Subject::Plan, answered: false }
    }

    pub fn task(inbox: Inbox, task: TaskId, attempt: u32, command: TaskCommand) -> Self {
        Self { inbox, subject: Subject::Task { task, attempt, command }, answered: false }
    }

    fn send(&mut self, input: Input) {
        self.answered = true;
        let errand = match &self.subject {
            Subject::Plan => Errand::Plan,
            Subject::Task { task, attempt, command } => errand(*task, *attempt, command),
        };
        self.inbox.push(Arrival::Input { input, answers: Some(errand) });
    }

    fn fail(&mut self, error: CallError) {
        let input = match &self.subject {
            Subject::Plan => Input::PlanFailed(error),
            Subject::Task { task, attempt, command } => {
                Input::Answer { task: *task, attempt: *attempt, answer: effects::failed(command, error) }
            }
        };
        self.send(input);
    }

    fn answer(mut self, answer: Answer) {
        if let Subject::Task { task, attempt, .. } = self.subject {
            self.send(Input::Answer { task, attempt, answer });
        }
    }

    /// A runner's hook has ended.
    pub fn ran(self, end: HookEnd) {
        self.answer(match end {
            HookEnd::Succeeded(message) => Answer::Ran { success: true, message },
            HookEnd::Failed(message) => Answer::Ran { success: false, message },
        });
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.answered {
            self.fail(CallError::transient("the call was lost inside the engine"));
        }
    }
}

/// A job that knows how to answer.
pub(crate) enum Call {
    Plan { planning: Box<Planning>, guard: Guard },
    Step { step: Box<Step>, guard: Guard },
}

/// Writes only while the operation has its claim, if it has to have one.
fn covered(cluster: Arc<dyn Cluster>, hold: Option<Arc<Hold>>) -> Arc<dyn Cluster> {
    match hold {
        Some(hold) => Arc::new(Covered { cluster, hold }),
        None => cluster,
    }
}

impl Call {
    /// A job for the cluster actor, covered by the operation's claim where there is one.
    pub fn into_job(self, hold: Option<Arc<Hold>>) -> Job {
        Box::new(move |cluster| {
            Box::pin(async move {
                let cluster = covered(cluster, hold);
                match self {
                    Self::Plan { planning, guard } => planning.run(cluster.as_ref(), guard).await,
                    Self::Step { step, guard } => step.run(cluster.as_ref(), guard).await,
                }
            })
        })
    }

    /// Answers without a cluster.
    pub fn refuse(self, reason: &str) {
        let (Self::Plan { mut guard, .. } | Self::Step { mut guard, .. }) = self;
        guard.fail(CallError::permanent(reason));
    }
}

/// Manifests on their way from a submit to the planning, which need not read them again.
pub(crate) struct HandedOver {
    pub targets: Targets,
    /// One of a few: a crowd of operations must not wait with all their manifests in memory.
    pub place: OwnedSemaphorePermit,
}

/// What planning has led to.
struct Outcome {
    plan: Plan,
    bundle: Bundle,
    inventory: Vec<InventoryChange>,
}

/// Reading the cluster and planning.
pub(crate) struct Planning {
    pub log: Log,
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub targets: Digest,
    /// The same, as they were submitted.
    pub handed_over: Option<HandedOver>,
    pub started_at: Timestamp,
    pub known: effects::ExtensionNames,
}

impl Planning {
    async fn run(self, cluster: &dyn Cluster, mut guard: Guard) {
        match self.plan(cluster, &guard).await {
            Ok(Outcome { plan, bundle, inventory }) => {
                let planned = Input::Planned { plan: Arc::new(plan), bundle: bundle.digest };
                // Before the plan, so that it is not written later.
                guard.inbox.push(Arrival::Inventory(inventory));
                guard.inbox.push(Arrival::Bundle(Arc::new(bundle)));
                guard.send(planned);
            }
            Err(error) => guard.fail(error),
        }
    }

    async fn plan(mut self, cluster: &dyn Cluster, guard: &Guard) -> Result<Outcome, CallError> {
        let targets = match self.handed_over.take() {
            Some(HandedOver { targets, place }) => {
                drop(place);
                targets
            }
            None => read(&self.log, self.targets).await?,
        };
        guard.inbox.push(Arrival::Mask(Arc::new(targets.mask())));
        let known = self.inventory().await?;
        let effects::Prepared { mut planned, inventory } = effects::prepare(
            cluster,
            self.operation,
            &self.request,
            targets,
            self.started_at,
            known.as_ref(),
        )
        .await?;
        effects::warn_of_missing_extensions(&mut planned.plan, &self.known);
        effects::review_rights(cluster, &self.request, &mut planned.plan).await;
        let digest = keep(&self.log, &planned.manifests).await?;
        let bundle = Bundle::kept(self.log, digest, planned.manifests);
        Ok(Outcome { plan: planned.plan, bundle, inventory })
    }

    async fn inventory(&self) -> Result<Option<Known>, CallError> {
        let Some(cluster) = effects::cluster_of(&self.request.destination) else { return Ok(None) };
        let application = self.request.application.clone();
        blocking(&self.log, move |log| log.inventory(&cluster, &application))
            .await
            .map_err(|error| CallError::permanent(format!("the inventory cannot be read: {error}")))
    }
}

/// One command about one task.
pub(crate) struct Step {
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub attempt: u32,
    pub plan: Arc<Plan>,
    pub task: TaskId,
    pub bundle: Arc<Bundle>,
    pub again: bool,
    pub clock: Arc<dyn Clock>,
    pub health: HealthRules,
    pub command: TaskCommand,
}

impl Step {
    /// A copy of the task's manifest.
    pub async fn manifest(&self) -> Result<Object, CallError> {
        self.borrow_manifest().await.cloned()
    }

    async fn borrow_manifest(&self) -> Result<&Object, CallError> {
        let manifests = self.bundle.manifests().await?;
        let task = self.plan.task(self.task);
        let found = task.and_then(|task| manifests.get(task.manifest?.index()));
        found.ok_or_else(|| {
            let name = task.map_or_else(|| self.task.to_string(), |task| task.key().to_string());
            CallError::permanent(format!("the manifest of {name} is not in the operation's bundle"))
        })
    }

    async fn run(self, cluster: &dyn Cluster, mut guard: Guard) {
        let needs_manifest = matches!(self.command, TaskCommand::Apply | TaskCommand::Check);
        let manifest = if needs_manifest {
            match self.borrow_manifest().await {
                Ok(manifest) => Some(manifest),
                Err(error) => return guard.fail(error),
            }
        } else {
            None
        };
        let Some(task) = self.plan.task(self.task) else {
            return guard.fail(CallError::permanent(format!("{} is not in the operation's plan", self.task)));
        };
        let errand = effects::Errand {
            operation: self.operation,
            request: &self.request,
            attempt: self.attempt,
            task,
            manifest,
            again: self.again,
            is_last_in_namespace: effects::is_last_in_namespace(&self.plan, self.task),
            now: self.clock.now(),
            health: &self.health,
        };
        let answer = match &self.command {
            TaskCommand::ReadLogs => {
                let found = LastWords::default();
                let reading = effects::read_logs(cluster, &errand, &found);
                if tokio::time::timeout(effects::READ_WITHIN, reading).await.is_err() {
                    tracing::debug!(hook = %task.key(), "not all logs of a failed hook came in time");
                }
                found.into_answer()
            }
            command => effects::carry_out(cluster, &errand, command).await,
        };
        guard.answer(answer);
    }
}
