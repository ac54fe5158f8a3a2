//! What the simulated engine does to the cluster: the same effects as the real one, carried out at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::Cluster as _;
use tidegate_executor::effects::{self, Subject};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, CallError, Command, Input, TaskCommand, Verdict};
use tidegate_model::{Observation, Observed, PackedObject, TaskId};
use tidegate_oplog::Blobs as _;

use super::World;
use crate::process::START;

impl World<'_> {
    pub(super) fn look(&mut self, id: TaskId) -> Option<Input> {
        let (task, _) = self.shell.state().operation()?.task(id)?;
        let found = self.cluster.get(&task.gvk, &task.namespace, &task.name).now_or_never()?;
        let at = self.now();
        let seen = match found.ok()? {
            Some(object) => tidegate_health::observe(&object, at).seen,
            None => Observed::Gone { uid: None },
        };
        Some(Input::Observed { task: id, observation: Observation { at, seen } })
    }

    /// Carries a command out on the cluster.
    pub(super) fn execute(&mut self, command: &Command) -> Input {
        match command {
            Command::Plan => self.plan(),
            Command::AskGate { wave, gate } => {
                let verdict = if self.rng.percent(50) {
                    Verdict::Open
                } else {
                    Verdict::Closed { reason: "not yet".into(), ask_again_after: Duration::from_secs(5) }
                };
                Input::Gate { wave: *wave, gate: gate.clone(), verdict }
            }
            Command::Task { task, attempt, what: TaskCommand::RunHook { .. } } => {
                let answer = Answer::Ran { success: self.rng.percent(90), message: String::new() };
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::Task { task, attempt, what } => {
                let answer = self.carry_out(*task, *attempt, what);
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::LookAtNamespaces => {
                let operation = self.shell.state().operation();
                let names = operation.map(|operation| Arc::clone(&operation.namespaces)).unwrap_or_default();
                let names = names.iter().map(String::as_str);
                let namespaces = effects::look_at_namespaces(self.cluster, names).now_or_never();
                let namespaces = namespaces.expect("the simulated cluster answers at once");
                Input::NamespacesSeen { namespaces }
            }
            Command::Observe { .. } | Command::WatchNamespaces | Command::Claim => {
                unreachable!("these are not sent to the cluster")
            }
        }
    }

    fn plan(&mut self) -> Input {
        let started_at = self.shell.state().header().map_or(START, |header| header.started_at);
        let targets = self.sync.targets();
        let known = self.known_places();
        let request = &self.sync.request;
        let planning = effects::prepare(self.cluster, self.id, request, targets, started_at, known.as_ref());
        match planning.now_or_never().expect("the simulated cluster answers at once") {
            Ok(effects::Prepared { planned, inventory, namespaces }) => {
                self.inventory.extend(inventory);
                let bundle = self.log.put_blob(&serde_json::to_vec(&planned.manifests).unwrap()).unwrap();
                Input::Planned { plan: Arc::new(planned.plan), bundle, namespaces }
            }
            Err(effects::NotPlanned::Call(error)) => Input::PlanFailed(error),
            Err(effects::NotPlanned::Moved(moved)) => Input::PlanRefused { reason: moved.to_string() },
        }
    }

    fn carry_out(&mut self, id: TaskId, attempt: u32, command: &TaskCommand) -> Answer {
        let now = self.now();
        let Some(operation) = self.shell.state().operation() else {
            return command.failed(CallError::transient("nothing is planned"));
        };
        let (task, state) = operation.task(id).expect("a command is about a task of the plan");
        let manifests: Vec<PackedObject> = operation
            .bundle
            .map(|bundle| serde_json::from_slice(&self.log.blob(bundle).unwrap()).unwrap())
            .unwrap_or_default();
        let subject = Subject {
            operation: self.id,
            request: &self.sync.request,
            attempt,
            leftover: state.leftover.as_deref(),
            task,
            manifest: task.manifest.and_then(|manifest| manifests.get(manifest.index())),
            again: self.recovered || state.calls.is_some(),
            now,
            health: &HealthRules::built_in(),
        };
        effects::carry_out(self.cluster, &subject, command)
            .now_or_never()
            .expect("the simulated cluster answers at once")
    }
}
