//! Effects of the simulated engine on the cluster. They match the real ones, but happen immediately.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::Cluster as _;
use tidegate_executor::effects::{self, Subject};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::{Answer, CallError, Command, Input, TaskCommand, Verdict};
use tidegate_model::{Observation, ObservedState, PackedObject, TaskId};
use tidegate_oplog::Blobs as _;

use super::World;
use crate::process::START;

impl World<'_> {
    pub(super) fn observe_task(&mut self, id: TaskId) -> Option<Input> {
        let (task, _) = self.runner.state().operation()?.task(id)?;
        let found = self.cluster.get(&task.gvk, &task.namespace, &task.name).now_or_never()?;
        let at = self.now();
        let seen = match found.ok()? {
            Some(object) => tidegate_health::observe(&object, at).seen,
            None => ObservedState::Gone { uid: None },
        };
        Some(Input::Observed { task: id, observation: Observation { at, seen } })
    }

    /// Executes a command on the cluster.
    pub(super) fn execute_command(&mut self, command: &Command) -> Input {
        match command {
            Command::Plan => self.make_plan(),
            Command::AskGate { wave, gate } => {
                let verdict = if self.rng.percent(50) {
                    Verdict::Open
                } else {
                    Verdict::Closed { reason: "not yet".into(), ask_again_after: Duration::from_secs(5) }
                };
                Input::Gate { wave: *wave, gate: gate.clone(), verdict }
            }
            Command::Task { task, attempt, command: TaskCommand::RunHook { .. } } => {
                let answer = Answer::Ran { success: self.rng.percent(90), message: String::new() };
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::Task { task, attempt, command: what } => {
                let answer = self.execute_task(*task, *attempt, what);
                Input::Answer { task: *task, attempt: *attempt, answer }
            }
            Command::ReadNamespaces => {
                let operation = self.runner.state().operation();
                let names = operation.map(|operation| Arc::clone(&operation.namespaces)).unwrap_or_default();
                let names = names.iter().map(String::as_str);
                let namespaces = effects::look_at_namespaces(self.cluster, names).now_or_never();
                let namespaces = namespaces.expect("the simulated cluster responds immediately");
                Input::NamespacesRead { namespaces }
            }
            Command::Observe { .. } | Command::WatchNamespaces | Command::Claim => {
                unreachable!("these are not sent to the cluster")
            }
        }
    }

    fn make_plan(&mut self) -> Input {
        let started_at = self.runner.state().header().map_or(START, |header| header.started_at);
        let targets = self.sync.targets();
        let known = self.known_inventory();
        let request = &self.sync.request;
        let planning = effects::prepare(self.cluster, self.id, request, targets, started_at, known.as_ref());
        match planning.now_or_never().expect("the simulated cluster responds immediately") {
            Ok(effects::PreparedPlan { planned, inventory, namespaces, .. }) => {
                self.inventory.extend(inventory);
                let bundle = self.log.put_blob(&serde_json::to_vec(&planned.manifests).unwrap()).unwrap();
                Input::Planned { plan: Arc::new(planned.plan), bundle, namespaces }
            }
            Err(effects::PlanError::Call(error)) => Input::PlanFailed(error),
            Err(effects::PlanError::Outdated(moved)) => Input::PlanRejected { reason: moved.to_string() },
        }
    }

    fn execute_task(&mut self, id: TaskId, attempt: u32, command: &TaskCommand) -> Answer {
        let now = self.now();
        let Some(operation) = self.runner.state().operation() else {
            return command.failure_answer(CallError::transient("no operation is planned"));
        };
        let (task, state) = operation.task(id).expect("commands refer to tasks of the plan");
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
            is_repeated: self.has_recovered || state.calls.is_some(),
            now,
            health: &HealthRules::built_in(),
        };
        effects::execute(self.cluster, &subject, command)
            .now_or_never()
            .expect("the simulated cluster responds immediately")
    }
}
