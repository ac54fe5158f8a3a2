//! Human-readable explanations of an ApplicationSet's status.

mod attempts;
mod early_end;
mod next_action;

use tidegate_application::operation;
use tidegate_application::sources::revisions_of_fields;
use tidegate_applicationset::changes::AppSetProblem;
use tidegate_applicationset::deletion_limit::DeletionsBlocked;
use tidegate_applicationset::ignored::ignored_settings;
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::preview::retains_objects;
use tidegate_applicationset::rollout::{awaited_comparison_message, retry_command};
use tidegate_applicationset::status::RolloutStatus;
use tidegate_applicationset::sync_policy::is_progressive;
use tidegate_lifecycle::fleet::{Explanation, join_names};
use tidegate_lifecycle::operation::{concurrency_group, is_built_in_gate};
use tidegate_lifecycle::rollout::{MemberStatus, Progress, RolloutView, State, StepStatus};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::argo::SyncStatusCode;
use tidegate_views::appset_actions::{AppSetExplanation, HeldDeletions};

use super::ActorState;
use crate::member_status::member_key;

/// Maximum number of unchanged Applications to list in a message.
const NAMED_APPLICATIONS_MAX: usize = 5;

impl ActorState {
    /// Returns the ApplicationSet's status, with the reasons.
    pub(super) async fn explain(&self) -> AppSetExplanation {
        let now = self.now();
        let rollout = self.own_rollout();
        let mut rollout_view = rollout.and_then(|state| self.rollout_view(state));
        let teardown = self.teardowns.last.as_ref().filter(|_| self.teardowns.running.is_some());
        let teardown = teardown.or_else(|| self.incomplete_deletion());
        let witnessed = self.teardowns.unordered.as_ref();
        let explanation = match (teardown, rollout) {
            (None, _) if let Some(witnessed) = witnessed => Some(teardown::explain(&witnessed.state, now)),
            (Some(teardown), _) => {
                let mut explanation = teardown::explain(teardown, now);
                self.add_remaining_applications(teardown, &mut explanation);
                Some(explanation)
            }
            (None, Some(rollout)) => {
                let mut explanation = rollout::explain(rollout, now);
                explanation.warnings.extend(self.undefined_gates(rollout_view.as_ref()).await);
                explanation.warnings.extend(awaited_comparison_message(&self.results.awaited));
                self.add_blocking_operations(rollout_view.as_ref(), &mut explanation);
                self.add_attempts(rollout_view.as_mut(), &mut explanation).await;
                self.add_remaining_changes(rollout, &mut explanation);
                Some(explanation)
            }
            (None, None) => None,
        };
        let owned = self.members.values().filter(|one| owner_of(&self.set, one) == Owner::AppSet).count();
        let failure = self
            .results
            .failure
            .as_ref()
            .filter(|failure| Some(&failure.message) != self.describe_incomplete_deletion().as_ref());
        let line = match (&self.problem, failure, &explanation) {
            // The state of a deletion matters more than a problem with the document.
            (Some(problem), _, Some(explanation)) if self.set.metadata.deletion_timestamp.is_some() => {
                format!("{explanation}; {problem}")
            }
            (Some(problem), _, _) => problem.clone(),
            (None, Some(failure), None) => failure.message.clone(),
            (None, Some(failure), Some(explanation)) => format!("{explanation}; {}", failure.message),
            (None, None, Some(explanation)) => explanation.to_string(),
            (None, None, None) if self.results.generated.is_none() => {
                "the ApplicationSet has not been processed yet".to_owned()
            }
            (None, None, None) if self.is_rollout_pending() => {
                "the progressive sync starts once the Applications' target revisions are known".to_owned()
            }
            (None, None, None) => self.describe_members(owned),
        };
        let held = self.held_deletions();
        let is_invalid = self.problem.is_some() || failure.is_some();
        let next_action = self.next_action(held.as_ref(), is_invalid, explanation.as_ref());
        let unheeded = ignored_settings(&self.set, &self.shared.options);
        let line = unheeded
            .iter()
            .chain(self.results.output_warnings())
            .fold(line, |line, one| format!("{line}; {one}"));
        AppSetExplanation {
            set: self.key.to_string(),
            // Quoted messages may have several lines.
            line: line.split_whitespace().collect::<Vec<_>>().join(" "),
            rollout: rollout_view,
            teardown: witnessed
                .map(|witnessed| &witnessed.state)
                .or(self.teardowns.last.as_ref())
                .and_then(teardown::view),
            outside: explanation.as_ref().map(|one| one.outside.clone()).unwrap_or_default(),
            explanation,
            refused: self.results.refused.clone(),
            held,
            next_action,
            rollout_id: self.rollouts.id.filter(|_| self.own_rollout().is_some()),
            teardown_id: witnessed
                .map(|witnessed| witnessed.id)
                .or_else(|| self.teardowns.id.filter(|_| self.teardowns.last.is_some())),
            retry: self.requested_retry.as_ref().map(Into::into),
        }
    }

    /// Returns the deletions that are waiting for approval.
    fn held_deletions(&self) -> Option<HeldDeletions> {
        self.results.spec_problems.iter().find_map(|wrong| match wrong {
            AppSetProblem::DeletionsBlocked(DeletionsBlocked::TooMany {
                deleted: going,
                members,
                most,
                token,
                ..
            }) => {
                let keeps = |name: &&String| {
                    self.members.get(*name).is_some_and(|one| retains_objects(&self.set, one))
                };
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

impl ActorState {
    /// Returns a rollout's view. For a finished rollout, only includes Applications that still exist.
    fn rollout_view(&self, state: &State) -> Option<RolloutView> {
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

    /// Returns true if a progressive sync hasn't been requested yet.
    fn is_rollout_pending(&self) -> bool {
        is_progressive(&self.set, &self.shared.options) && self.rollouts.settled == RolloutStatus::Unknown
    }

    /// Describes the Applications that don't match the generated ones, with reasons, or states that all
    /// match.
    fn describe_members(&self, owned: usize) -> String {
        if self.results.unmanaged.is_empty() {
            return format!("all {owned} Applications match the generated ones");
        }
        let shown = self
            .results
            .unmanaged
            .iter()
            .take(NAMED_APPLICATIONS_MAX)
            .map(|(name, reason)| format!("{name}: {reason}"));
        let shown = shown.collect::<Vec<_>>().join("; ");
        let more = self.results.unmanaged.len().saturating_sub(NAMED_APPLICATIONS_MAX);
        let more = if more == 0 { String::new() } else { format!("; and {more} more") };
        format!("{} of {owned} Applications are left unchanged: {shown}{more}", self.results.unmanaged.len())
    }

    /// Adds the operation that blocks a Pending Application.
    fn add_blocking_operations(&self, view: Option<&RolloutView>, explanation: &mut Explanation) {
        let members = view.map(|view| view.members.as_slice()).unwrap_or_default();
        let pending = members.iter().filter(|member| member.status == MemberStatus::Pending);
        for pending in pending {
            let key = member_key(&self.key, &pending.application);
            let live = self.shared.applications.application_cache.get(&key);
            let at_work = live.as_ref().and_then(|live| operation::engine_id(live.operation.as_ref()?));
            let Some(other) = at_work.filter(|other| Some(*other) != pending.operation) else { continue };
            let what = format!("Application {}", pending.application);
            let awaited = explanation.awaited.iter_mut().filter(|awaited| awaited.what == what);
            awaited.for_each(|awaited| {
                awaited.why.push_str(&format!("; operation {other} for this Application is still running"))
            });
        }
    }

    /// Adds how to restart a finished rollout, and the Applications that have changed since. They aren't
    /// synced until the targets change.
    fn add_remaining_changes(&self, state: &State, explanation: &mut Explanation) {
        let Some(rollout) = state.rollout().filter(|_| state.is_finished()) else { return };
        if is_progressive(&self.set, &self.shared.options) {
            explanation.next = self.describe_restart().or_else(|| retry_command(&self.set, rollout));
            explanation.action = self.restart_action(retry_command(&self.set, rollout).is_some());
        }
        let drifted = rollout.members.iter().filter(|(name, member)| {
            let sync = self.members.get(*name).and_then(|live| live.status.sync.as_ref());
            matches!(member.progress, Progress::Healthy { .. })
                && sync.is_some_and(|sync| {
                    sync.status == SyncStatusCode::OutOfSync
                        && revisions_of_fields(&sync.revision, &sync.revisions) == member.target.revisions
                })
        });
        let drifted: Vec<&str> = drifted.map(|(name, _)| name.as_str()).collect();
        if let Some(first) = drifted.first() {
            let named = join_names(&drifted);
            explanation.warnings.push(format!(
                "changed since deployment: {named}; `tidegate app diff {first}` shows the changes to {first}, and `tidegate app sync {first}` \
                 reverts them"
            ));
        }
    }

    /// Returns the undefined gates of upcoming steps, which can never open.
    async fn undefined_gates(&self, view: Option<&RolloutView>) -> Vec<String> {
        let steps = view.map(|view| view.steps.as_slice()).unwrap_or_default();
        let to_come = (1_u32..).zip(steps).filter(|(_, step)| step.status == StepStatus::Waiting);
        let named: Vec<(u32, &String)> = to_come
            .flat_map(|(number, step)| step.gates.iter().map(move |gate| (number, gate)))
            .filter(|(_, gate)| !is_built_in_gate(gate))
            .collect();
        if named.is_empty() {
            return Vec::new();
        }
        let applications = &self.shared.applications;
        let mut known = applications.engine.extension_names();
        known.gates.extend(applications.gates.read().await.names());
        let problem = |(number, gate): &(u32, &String)| match concurrency_group(gate) {
            Some(_) => Some(format!(
                "step {number} uses gate {gate:?}, but concurrency gates limit operations and cannot be used for steps"
            )),
            None => Some(format!("step {number} {}", known.explain_missing_gate(gate)?)),
        };
        named.iter().filter_map(problem).collect()
    }
}
