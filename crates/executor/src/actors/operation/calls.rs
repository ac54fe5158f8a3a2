//! Commands on their way to the cluster. Each is answered even when its job is dropped or panics, so none is ever lost.

use std::sync::Arc;

use tidegate_cluster::Cluster;
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, CallError, Command, Input, NamespaceSight, TaskCommand};
use tidegate_model::{Digest, Object, OperationId, PackedObject, Plan, SyncRequest, TaskId, Timestamp};
use tidegate_oplog::{InventoryChange, Known};
use tidegate_planner::{LastRun, runs_when_inputs_change};

use crate::claims::{Covered, Hold};
use crate::clock::Clock;
use crate::clusters::Job;
use crate::effects::{self, LastWords, NotPlanned, Targets};
use crate::extend::HookEnd;
use crate::inbox::{Arrival, Inbox, Note};
use crate::last_runs::last_runs;
use crate::log::{Log, LogFailure, blocking, keep, read};
use crate::manifests::{Bundle, HandedOver};
use crate::permits::Guard;

/// A command on its way. It is answered exactly once: by dropping it, if by nothing else.
pub(crate) struct OnItsWay {
    command: Command,
    inbox: Inbox,
    answered: bool,
}

impl OnItsWay {
    pub fn new(command: Command, inbox: Inbox) -> Self {
        Self { command, inbox, answered: false }
    }

    pub fn answer(mut self, input: Input) {
        self.send(input);
    }

    fn send(&mut self, input: Input) {
        self.answered = true;
        self.inbox.push(Arrival::Answer { about: self.command.subject(), input });
    }

    fn answer_task(self, answer: Answer) {
        if let Command::Task { task, attempt, .. } = self.command {
            self.answer(Input::Answer { task, attempt, answer });
        }
    }

    /// It could not be carried out.
    pub fn fail(mut self, error: CallError) {
        self.send_failure(error);
    }

    fn send_failure(&mut self, error: CallError) {
        if let Some(input) = self.command.failed(error) {
            self.send(input);
        }
    }

    /// A runner's hook has ended.
    pub fn ran(self, end: HookEnd) {
        self.answer_task(match end {
            HookEnd::Succeeded(message) => Answer::Ran { success: true, message },
            HookEnd::Failed(message) => Answer::Ran { success: false, message },
        });
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        if !self.answered {
            self.send_failure(CallError::transient("the call was lost inside the engine"));
        }
    }
}

/// A command that needs the cluster, with what else it needs.
pub(crate) struct Call {
    pub command: OnItsWay,
    pub work: Work,
}

/// What is to be done on the cluster.
pub(crate) enum Work {
    Plan(Box<Planning>),
    Task(Box<TaskWork>),
    /// A look at these namespaces.
    Namespaces(Arc<[String]>),
}

/// Writes only while the operation has its claim, if it has to have one.
fn covered(cluster: Arc<dyn Cluster>, hold: Option<Arc<Hold>>) -> Arc<dyn Cluster> {
    match hold {
        Some(hold) => Arc::new(Covered { cluster, hold }),
        None => cluster,
    }
}

impl Call {
    /// A job for the cluster, covered by the operation's claim where there is one, and as its project permits.
    pub fn into_job(self, hold: Option<Arc<Hold>>, guard: Guard) -> Job {
        Box::new(move |cluster| {
            Box::pin(async move {
                // After the wait for the claim: what was permitted before it may not be so any more.
                let cluster = match guard.before(cluster).await {
                    Ok(cluster) => covered(cluster, hold),
                    Err(error) => return self.command.fail(error),
                };
                match self.work {
                    Work::Plan(planning) => planning.run(cluster.as_ref(), self.command).await,
                    Work::Task(work) => work.run(cluster.as_ref(), self.command).await,
                    Work::Namespaces(names) => {
                        let names = names.iter().map(String::as_str);
                        let namespaces = effects::look_at_namespaces(cluster.as_ref(), names).await;
                        self.command.answer(Input::NamespacesSeen { namespaces });
                    }
                }
            })
        })
    }
}

/// What planning has led to.
struct Outcome {
    plan: Plan,
    bundle: Bundle,
    inventory: Vec<InventoryChange>,
    namespaces: Vec<NamespaceSight>,
}

/// Reading the cluster and planning.
pub(crate) struct Planning {
    pub log: Log,
    pub log_failure: LogFailure,
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub targets: Digest,
    /// The same, as they were submitted.
    pub handed_over: Option<Box<HandedOver>>,
    pub started_at: Timestamp,
    pub known: effects::ExtensionNames,
}

impl Planning {
    async fn run(self, cluster: &dyn Cluster, command: OnItsWay) {
        match self.plan(cluster, &command.inbox).await {
            Ok(Outcome { plan, bundle, inventory, namespaces }) => {
                let planned = Input::Planned { plan: Arc::new(plan), bundle: bundle.digest, namespaces };
                let inbox = command.inbox.clone();
                // Before the plan, so that it is not written later.
                inbox.note(Note::Inventory(inventory));
                inbox.note(Note::Bundle(Arc::new(bundle)));
                command.answer(planned);
            }
            Err(NotPlanned::Call(error)) => command.fail(error),
            Err(NotPlanned::Moved(moved)) => {
                command.answer(Input::PlanRefused { reason: moved.to_string() });
            }
        }
    }

    async fn plan(mut self, cluster: &dyn Cluster, inbox: &Inbox) -> Result<Outcome, NotPlanned> {
        let mut targets = match self.handed_over.take() {
            Some(handed_over) => {
                let HandedOver { targets, place } = *handed_over;
                drop(place);
                targets
            }
            None => read(&self.log, self.targets).await?,
        };
        inbox.note(Note::Mask(Arc::new(targets.mask())));
        self.known.gates.extend(targets.definitions.names());
        let user = targets.mandate.as_ref().map(|mandate| mandate.user.clone()).unwrap_or_default();
        let known = self.inventory().await?;
        targets.last_runs = self.last_runs(&targets).await;
        let effects::Prepared { mut planned, inventory, namespaces } = effects::prepare(
            cluster,
            self.operation,
            &self.request,
            targets,
            self.started_at,
            known.as_ref(),
        )
        .await?;
        effects::warn_of_missing_extensions(&mut planned.plan, &self.known);
        effects::review_rights(cluster, &self.request, &user, &mut planned.plan).await;
        let kept = keep(&self.log, &self.log_failure, &planned.manifests).await;
        // Where the log has failed, this is recorded nowhere: the next process plans anew.
        let digest = kept.map_err(CallError::from)?;
        let bundle = Bundle::kept(self.log, digest, planned.manifests);
        Ok(Outcome { plan: planned.plan, bundle, inventory, namespaces })
    }

    /// What the log says of hooks that run only when their inputs have changed.
    async fn last_runs(&self, targets: &Targets) -> Vec<LastRun> {
        if !targets.targets.iter().any(|target| runs_when_inputs_change(&target.object)) {
            return Vec::new();
        }
        let (operation, request, targets) =
            (self.operation, Arc::clone(&self.request), targets.targets.clone());
        let reading = blocking(&self.log, move |log| Ok(last_runs(log, operation, &request, &targets)));
        // Without them all hooks run.
        reading.await.unwrap_or_default()
    }

    async fn inventory(&self) -> Result<Option<Known>, CallError> {
        let Some(cluster) = effects::cluster_of(&self.request.destination) else { return Ok(None) };
        let application = self.request.application.clone();
        blocking(&self.log, move |log| log.inventory(&cluster, &application))
            .await
            .map_err(|error| CallError::permanent(format!("the inventory cannot be read: {error}")))
    }
}

/// What a command about one task needs.
pub(crate) struct TaskWork {
    pub operation: OperationId,
    pub request: Arc<SyncRequest>,
    pub attempt: u32,
    pub leftover: Option<String>,
    pub plan: Arc<Plan>,
    pub task: TaskId,
    pub bundle: Arc<Bundle>,
    pub again: bool,
    pub clock: Arc<dyn Clock>,
    pub health: HealthRules,
}

impl TaskWork {
    /// A copy of the task's manifest.
    pub async fn manifest(&self) -> Result<Object, CallError> {
        Ok(Arc::unwrap_or_clone(self.packed_manifest().await?.unpack()))
    }

    async fn packed_manifest(&self) -> Result<&PackedObject, CallError> {
        let manifests = self.bundle.manifests().await?;
        let task = self.plan.task(self.task);
        let found = task.and_then(|task| manifests.get(task.manifest?.index()));
        found.ok_or_else(|| {
            let name = task.map_or_else(|| self.task.to_string(), |task| task.key().to_string());
            CallError::permanent(format!("the manifest of {name} is not in the operation's bundle"))
        })
    }

    async fn run(self, cluster: &dyn Cluster, command: OnItsWay) {
        let Command::Task { what, .. } = &command.command else { return };
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
            again: self.again,
            now: self.clock.now(),
            health: &self.health,
        };
        let answer = match what {
            TaskCommand::ReadLogs => {
                let found = LastWords::default();
                let reading = effects::read_logs(cluster, &subject, &found);
                if tokio::time::timeout(effects::READ_WITHIN, reading).await.is_err() {
                    tracing::debug!(hook = %task.key(), "not all logs of a failed hook came in time");
                }
                found.into_answer()
            }
            what => effects::carry_out(cluster, &subject, what).await,
        };
        command.answer_task(answer);
    }
}
