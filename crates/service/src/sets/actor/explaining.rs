//! What people are told of a set.

mod attempts;
mod ended;

use tidegate_application::operation;
use tidegate_application::sources::revisions;
use tidegate_applicationset::changes::Wrong;
use tidegate_applicationset::guard::Guarded;
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::policy::is_progressive;
use tidegate_applicationset::preview::keeps_objects;
use tidegate_applicationset::rollout::again;
use tidegate_applicationset::status::Rollout;
use tidegate_applicationset::unheeded::unheeded;
use tidegate_lifecycle::fleet::{Explanation, enumerate};
use tidegate_lifecycle::operation::{concurrency_group, is_known_gate};
use tidegate_lifecycle::rollout::{MemberStatus, Progress, RolloutView, State, StepStatus};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::argo::SyncStatusCode;

use super::SetState;
use crate::sets::standing::member;
use crate::sets::wishes::{HeldDeletions, SetExplanation};

/// So many Applications are named that are left as they are.
const NAMED_MAX: usize = 5;

impl SetState {
    /// How it stands, and why.
    pub(super) async fn explained(&self) -> SetExplanation {
        let now = self.now();
        let rollout = self.own_rollout();
        let mut rollout_view = rollout.and_then(|state| self.viewed(state));
        let teardown = self.teardowns.last.as_ref().filter(|_| self.teardowns.running.is_some());
        let teardown = teardown.or_else(|| self.told_cut());
        let witnessed = self.teardowns.witnessed.as_ref();
        let explanation = match (teardown, rollout) {
            (None, _) if let Some(witnessed) = witnessed => Some(teardown::explain(&witnessed.state, now)),
            (Some(teardown), _) => {
                let mut explanation = teardown::explain(teardown, now);
                self.say_what_stays(teardown, &mut explanation);
                Some(explanation)
            }
            (None, Some(rollout)) => {
                let mut explanation = rollout::explain(rollout, now);
                explanation.warnings.extend(self.undefined_gates(rollout_view.as_ref()).await);
                self.name_operations(rollout_view.as_ref(), &mut explanation);
                self.say_attempts(rollout_view.as_mut(), &mut explanation).await;
                self.say_what_is_left(rollout, &mut explanation);
                Some(explanation)
            }
            (None, None) => None,
        };
        let owned = self.members.values().filter(|one| owner(&self.set, one) == Owner::Set).count();
        let failure =
            self.failure.as_ref().filter(|failure| Some(&failure.message) != self.cut_short().as_ref());
        let line = match (&self.problem, failure, &explanation) {
            // Why its deletion is where it is matters more than that its document is back.
            (Some(problem), _, Some(explanation)) if self.set.metadata.deletion_timestamp.is_some() => {
                format!("{explanation}; {problem}")
            }
            (Some(problem), _, _) => problem.clone(),
            (None, Some(failure), None) => failure.message.clone(),
            (None, Some(failure), Some(explanation)) => format!("{explanation}; {}", failure.message),
            (None, None, Some(explanation)) => explanation.to_string(),
            (None, None, None) if self.generated.is_none() => "it was not looked at yet".to_owned(),
            (None, None, None) if self.begins_to_roll() => {
                "its progressive sync begins when it is known which revisions its Applications are brought to"
                    .to_owned()
            }
            (None, None, None) => self.as_generated(owned),
        };
        let unheeded = unheeded(&self.set, &self.shared.options);
        let line = unheeded.iter().fold(line, |line, one| format!("{line}; {one}"));
        SetExplanation {
            set: self.key.to_string(),
            // What was quoted may have several.
            line: line.split_whitespace().collect::<Vec<_>>().join(" "),
            rollout: rollout_view,
            teardown: witnessed
                .map(|witnessed| &witnessed.state)
                .or(self.teardowns.last.as_ref())
                .and_then(teardown::view),
            outside: explanation.as_ref().map(|one| one.outside.clone()).unwrap_or_default(),
            explanation,
            refused: self.refused.clone(),
            held: self.held(),
            rollout_id: self.rollouts.id.filter(|_| self.own_rollout().is_some()),
            teardown_id: witnessed
                .map(|witnessed| witnessed.id)
                .or_else(|| self.teardowns.id.filter(|_| self.teardowns.last.is_some())),
            retry: self.asked.as_ref().map(Into::into),
        }
    }

    /// The deletions that wait until somebody approves them.
    fn held(&self) -> Option<HeldDeletions> {
        self.wrong.iter().find_map(|wrong| match wrong {
            Wrong::Guarded(Guarded::TooMany { going, members, most, token, .. }) => {
                let keeps =
                    |name: &&String| self.members.get(*name).is_some_and(|one| keeps_objects(&self.set, one));
                Some(HeldDeletions {
                    token: token.clone(),
                    keep_objects: going.iter().filter(keeps).cloned().collect(),
                    applications: going.clone(),
                    members: *members,
                    at_once: *most,
                })
            }
            _ => None,
        })
    }
}

impl SetState {
    /// How a rollout stands; of one that is over, with those of its Applications that are still there.
    fn viewed(&self, state: &State) -> Option<RolloutView> {
        let mut view = rollout::view(state)?;
        if state.is_finished() {
            view.members.retain(|one| self.members.contains_key(&one.application));
            for (number, step) in (1_u32..).zip(&mut view.steps) {
                let number = number.to_string();
                let left = view.members.iter().filter(|one| one.step == number).count();
                step.members = u32::try_from(left).unwrap_or(u32::MAX);
            }
        }
        Some(view)
    }

    /// Whether a progressive sync is still to be asked for.
    fn begins_to_roll(&self) -> bool {
        is_progressive(&self.set, &self.shared.options) && self.rollouts.settled == Rollout::Unknown
    }

    /// That its Applications are as they are generated; or which are not, and why they stay so.
    fn as_generated(&self, owned: usize) -> String {
        if self.left_alone.is_empty() {
            return format!("its {owned} Applications are as they are generated");
        }
        let shown = self.left_alone.iter().take(NAMED_MAX).map(|(name, why)| format!("{name}: {why}"));
        let shown = shown.collect::<Vec<_>>().join("; ");
        let more = self.left_alone.len().saturating_sub(NAMED_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        format!("{} of its {owned} Applications are left as they are: {shown}{more}", self.left_alone.len())
    }

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

    /// Says of a rollout that is over how it is begun again, and which of its Applications were changed since: nothing syncs
    /// these before there are other targets.
    fn say_what_is_left(&self, state: &State, explanation: &mut Explanation) {
        let Some(rollout) = state.rollout().filter(|_| state.is_finished()) else { return };
        if is_progressive(&self.set, &self.shared.options) {
            explanation.next = self.next_attempt().or_else(|| again(&self.set, rollout));
        }
        let drifted = rollout.members.iter().filter(|(name, member)| {
            let sync = self.members.get(*name).and_then(|live| live.status.sync.as_ref());
            matches!(member.progress, Progress::Healthy { .. })
                && sync.is_some_and(|sync| {
                    sync.status == SyncStatusCode::OutOfSync
                        && revisions(&sync.revision, &sync.revisions) == member.target.revisions
                })
        });
        let drifted: Vec<&str> = drifted.map(|(name, _)| name.as_str()).collect();
        if let Some(first) = drifted.first() {
            let named = enumerate(&drifted);
            explanation.warnings.push(format!(
                "not as deployed any more: {named}; `tidegate app diff {first}` shows what was changed, and `tidegate app sync {first}` deploys it once more"
            ));
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
