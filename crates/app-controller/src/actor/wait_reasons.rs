//! Reasons why a requested operation must wait. A sync waits for dependencies. A deletion waits for
//! dependents and for its turn in the ApplicationSet's deletion order.

use std::collections::BTreeSet;

use tidegate_application::AppKey;
use tidegate_application::dependencies::{self, dependency_delay, format_cycle};
use tidegate_application::operation;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::Timestamp;

use super::ActorState;
use crate::dependency_graph::{to_key, to_name};
use crate::messages::SupervisorMessage;

/// Condition type for dependency cycles, which is specific to Tidegate.
const DEPENDENCY_CONDITION: &str = "DependencyError";
/// Maximum number of dependencies to list in a message.
const DEPENDENCIES_NAMED_MAX: usize = 5;

impl ActorState {
    /// Notifies the Application's dependencies and dependents that it has changed.
    pub(super) fn notify_related(&self) {
        self.notify_applications(self.shared.dependencies.related(&self.key));
    }

    fn notify_applications(&self, keys: BTreeSet<AppKey>) {
        if !keys.is_empty() {
            drop(self.supervisor.send_message(SupervisorMessage::RelatedChanged(keys)));
        }
    }

    /// Returns true if the requested operation must wait, and stores the reason in the operation's state.
    /// Sets a condition if there is a dependency cycle.
    pub(super) fn should_operation_wait(&mut self, now: Timestamp) -> bool {
        // Register before checking, so that later changes to the dependencies are reported.
        let dependencies = dependencies::dependencies_of(&self.application).iter().map(to_key).collect();
        // Also notify former dependencies, because one of them may be waiting for this change.
        self.notify_applications(self.shared.dependencies.set_dependencies(&self.key, dependencies));
        let cycle = self.dependency_cycle();
        let found = cycle.as_ref().map(|cycle| {
            format!(
                "{} forms a cycle: {cycle}; none of these applications will be synced until one of the \
                 dependencies is removed",
                dependencies::DEPENDS_ON
            )
        });
        self.set_condition(DEPENDENCY_CONDITION, found.as_slice(), now);
        self.clear_approval();
        let Some(request) =
            self.application.operation.as_ref().filter(|request| self.can_be_withheld(request))
        else {
            (self.prepared_revisions, self.refreshed_dependency) = (None, None);
            return false;
        };
        if self.is_preparing {
            return false;
        }
        let wrong = self.problem.as_ref().filter(|_| operation::deletion_cascade(request).is_none());
        let wrong = wrong.map(|problem| format!("this problem to be fixed: {problem}"));
        let reason = wrong.or_else(|| self.unknown_cluster_reason()).or_else(|| {
            match operation::deletion_cascade(request) {
                Some(_) => self
                    .shared
                    .deletion_queue
                    .wait_reason(&self.application)
                    .or_else(|| self.first_remaining_dependent()),
                None => cycle
                    .clone()
                    .map(|cycle| format!("its dependency cycle to be broken: {cycle}"))
                    .or_else(|| self.dependencies_not_ready()),
            }
        });
        let may_be_behind = cycle.is_none() && operation::deletion_cascade(request).is_none();
        // Only plan if nothing else holds the operation back, so that the plan is current.
        let Some(reason) = reason.or_else(|| self.missing_approval(now)) else { return false };
        operation::set_waiting(&mut self.application, format!("waiting for {reason}"), now);
        if may_be_behind {
            self.refresh_dependency();
        }
        true
    }

    /// Compares the dependency that the Application is waiting for, once per commit. A push that doesn't
    /// touch the dependency's files wouldn't trigger this.
    fn refresh_dependency(&mut self) {
        let deploys =
            dependencies::revisions_to_deploy(&self.application, self.prepared_revisions.as_deref());
        let Some((awaited, _)) = self.first_dependency_not_ready(&deploys) else { return };
        let looked_at = Some((awaited.clone(), deploys));
        if self.refreshed_dependency != looked_at {
            self.refreshed_dependency = looked_at;
            let compare = SupervisorMessage::Compare { key: awaited, level: RefreshLevel::Latest };
            drop(self.supervisor.send_message(compare));
        }
    }

    /// Returns the dependency cycle that the Application is part of, if any.
    pub(super) fn dependency_cycle(&self) -> Option<String> {
        let cache = &self.shared.application_cache;
        let depend = |one: &dependencies::ApplicationName| match to_key(one) {
            own if own == self.key => dependencies::dependencies_of(&self.application),
            other => cache.get(&other).map(|found| dependencies::dependencies_of(&found)).unwrap_or_default(),
        };
        dependencies::dependencies_of(&self.application).first()?;
        dependencies::find_cycle(&to_name(&self.key), depend).map(|cycle| format_cycle(&cycle))
    }

    /// Lists the dependencies that aren't ready, with reasons.
    pub(super) fn dependencies_not_ready(&self) -> Option<String> {
        let deploys =
            dependencies::revisions_to_deploy(&self.application, self.prepared_revisions.as_deref());
        let mut all = self.all_dependencies_not_ready(&deploys).map(|(_, reason)| reason);
        let named = all.by_ref().take(DEPENDENCIES_NAMED_MAX).collect::<Vec<_>>().join("; ");
        let more = all.count();
        match (named.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(named),
            (false, more) => Some(format!("{named}; and {more} more")),
        }
    }

    fn first_dependency_not_ready(&self, deploys: &[String]) -> Option<(AppKey, String)> {
        self.all_dependencies_not_ready(deploys).next()
    }

    fn all_dependencies_not_ready(&self, deploys: &[String]) -> impl Iterator<Item = (AppKey, String)> {
        let dependencies = dependencies::dependencies_of(&self.application).into_iter();
        dependencies.filter_map(|one| {
            let found = self.shared.application_cache.get(&to_key(&one));
            let reason = dependency_delay(found.as_deref(), &self.application, deploys)?;
            Some((to_key(&one), format!("{one}: {reason}")))
        })
    }

    /// Returns the first dependent that still exists.
    fn first_remaining_dependent(&self) -> Option<String> {
        let Some(keep) =
            self.shared.dependencies.blocking_dependents(&self.key, &self.shared.application_cache)
        else {
            return Some("the list of Applications that depend on this Application".to_owned());
        };
        keep.first().map(|(other, found)| match found.is_deleting() {
            true => format!("{other}, which depends on this Application, to be deleted first"),
            false => format!(
                "{other}, which depends on this Application: delete {other} first, or remove this dependency \
                 from its {} annotation",
                dependencies::DEPENDS_ON
            ),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod tests;
