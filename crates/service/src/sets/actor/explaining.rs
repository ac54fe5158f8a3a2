//! What people are told of a set.

use tidegate_application::operation;
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::unheeded::unheeded;
use tidegate_lifecycle::fleet::Explanation;
use tidegate_lifecycle::operation::{concurrency_group, is_known_gate};
use tidegate_lifecycle::rollout::{MemberStatus, RolloutView, StepStatus};
use tidegate_lifecycle::{rollout, teardown};

use super::SetState;
use crate::sets::standing::member;
use crate::sets::wishes::SetExplanation;

impl SetState {
    /// How it stands, and why.
    pub(super) async fn explained(&self) -> SetExplanation {
        let now = self.now();
        let rollout = self.own_rollout();
        let rollout_view = rollout.and_then(rollout::view);
        let teardown = self.teardowns.last.as_ref().filter(|_| self.teardowns.running.is_some());
        let explanation = match (teardown, rollout) {
            (Some(teardown), _) => Some(teardown::explain(teardown, now)),
            (None, Some(rollout)) => {
                let mut explanation = rollout::explain(rollout, now);
                explanation.warnings.extend(self.undefined_gates(rollout_view.as_ref()).await);
                self.name_operations(rollout_view.as_ref(), &mut explanation);
                Some(explanation)
            }
            (None, None) => None,
        };
        let owned = self.members.values().filter(|one| owner(&self.set, one) == Owner::Set).count();
        let line = match (&self.problem, &self.failure, &explanation) {
            (Some(problem), _, _) => problem.clone(),
            (None, Some(failure), None) => failure.message.clone(),
            (None, Some(failure), Some(explanation)) => format!("{explanation}; {}", failure.message),
            (None, None, Some(explanation)) => explanation.to_string(),
            (None, None, None) if self.generated.is_none() => "it was not looked at yet".to_owned(),
            (None, None, None) => format!("its {owned} Applications are as they are generated"),
        };
        let unheeded = unheeded(&self.set, &self.shared.options);
        let line = unheeded.iter().fold(line, |line, one| format!("{line}; {one}"));
        SetExplanation {
            set: self.key.to_string(),
            // What was quoted may have several.
            line: line.split_whitespace().collect::<Vec<_>>().join(" "),
            rollout: rollout_view,
            teardown: self.teardowns.last.as_ref().and_then(teardown::view),
            outside: explanation.as_ref().map(|one| one.outside.clone()).unwrap_or_default(),
            explanation,
            refused: self.refused.clone(),
        }
    }
}

impl SetState {
    /// Says of each Application that is Pending which other operation is at work on it: its sync begins after that.
    fn name_operations(&self, view: Option<&RolloutView>, explanation: &mut Explanation) {
        let members = view.map(|view| view.members.as_slice()).unwrap_or_default();
        let pending = members.iter().filter(|member| member.status == MemberStatus::Pending);
        for pending in pending {
            let key = member(&self.key, &pending.application);
            let live = self.shared.applications.board.get(&key);
            let at_work = live.as_ref().and_then(|live| operation::id(live.operation.as_ref()?));
            let Some(other) = at_work.filter(|other| Some(*other) != pending.operation) else { continue };
            let what = format!("Application {}", pending.application);
            let awaited = explanation.awaited.iter_mut().filter(|awaited| awaited.what == what);
            awaited
                .for_each(|awaited| awaited.why.push_str(&format!("; operation {other} is at work on it")));
        }
    }

    /// The gates of steps to come that would never open, because nobody has defined them.
    async fn undefined_gates(&self, view: Option<&RolloutView>) -> Vec<String> {
        let steps = view.map(|view| view.steps.as_slice()).unwrap_or_default();
        let to_come = (1_u32..).zip(steps).filter(|(_, step)| step.status == StepStatus::Waiting);
        let named: Vec<(u32, &String)> = to_come
            .flat_map(|(number, step)| step.gates.iter().map(move |gate| (number, gate)))
            .filter(|(_, gate)| !is_known_gate(gate))
            .collect();
        if named.is_empty() {
            return Vec::new();
        }
        let applications = &self.shared.applications;
        let mut known = applications.engine.extension_names();
        known.gates.extend(applications.gates.read().await.names());
        let problem = |(number, gate): &(u32, &String)| match concurrency_group(gate) {
            Some(_) => Some(format!(
                "step {number} names {gate:?}, which gives places to operations, and none to steps"
            )),
            None => Some(format!("step {number} {}", known.why_never(gate)?)),
        };
        named.iter().filter_map(problem).collect()
    }
}
