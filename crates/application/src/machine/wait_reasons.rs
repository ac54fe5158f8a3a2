//! Reasons why a requested operation must wait. A sync waits for dependencies. A deletion waits for
//! dependents and for its turn in the ApplicationSet's deletion order.

use tidegate_model::Timestamp;

use super::{ApplicationMachine, Effect, Phase, World};
use crate::AppKey;
use crate::approval::ApprovalPolicy;
use crate::dependencies::{self, dependency_delay, format_cycle};
use crate::operation;

/// Condition type for dependency cycles, which is specific to Tidegate.
const DEPENDENCY_CONDITION: &str = "DependencyError";
/// Maximum number of dependencies to list in a message.
const DEPENDENCIES_NAMED_MAX: usize = 5;

impl ApplicationMachine {
    /// Returns true if the requested operation must wait, and stores the reason in the operation's state.
    /// Sets a condition if there is a dependency cycle.
    pub(super) fn should_operation_wait(&mut self, world: &dyn World, now: Timestamp) -> bool {
        let dependencies = dependencies::dependencies_of(&self.application);
        if self.dependencies.as_ref() != Some(&dependencies) {
            self.dependencies = Some(dependencies.clone());
            self.effects.push(Effect::RegisterDependencies(dependencies));
        }
        let cycle = self.dependency_cycle(world);
        let found = cycle.as_ref().map(|cycle| {
            format!(
                "{} forms a cycle: {cycle}; none of these applications will be synced until one of the \
                 dependencies is removed",
                dependencies::DEPENDS_ON
            )
        });
        self.set_condition(DEPENDENCY_CONDITION, found.as_slice(), now);
        self.approval.is_needed = false;
        let Some(request) =
            self.application.operation.as_ref().filter(|request| self.can_be_withheld(request))
        else {
            (self.prepared_revisions, self.refreshed_dependency) = (None, None);
            return false;
        };
        if self.phase == Phase::Preparing {
            return false;
        }
        let deletes = operation::deletion_cascade(request).is_some();
        let invalid = self.problem.as_ref().filter(|_| !deletes);
        let reason = invalid.map(|problem| format!("this problem to be fixed: {problem}"));
        let reason = reason.or_else(|| world.unknown_cluster_reason(&self.application));
        let reason = reason.or_else(|| match (deletes, &cycle) {
            (true, _) => world
                .deletion_order_reason(&self.application)
                .or_else(|| self.first_remaining_dependent(world)),
            (false, Some(cycle)) => Some(format!("its dependency cycle to be broken: {cycle}")),
            (false, None) => self.dependencies_not_ready(world),
        });
        // Only plan if nothing else holds the operation back, so that the plan is current.
        let reason = reason.or_else(|| {
            let policy = world.approval_policy(&self.application).ok().filter(ApprovalPolicy::is_required)?;
            self.missing_approval(&policy, now)
        });
        let Some(reason) = reason else { return false };
        operation::set_waiting(&mut self.application, format!("waiting for {reason}"), now);
        if cycle.is_none() && !deletes {
            self.refresh_dependency(world);
        }
        true
    }

    /// Compares the dependency that the application is waiting for, once per commit. A push that doesn't
    /// touch the dependency's files wouldn't trigger this.
    fn refresh_dependency(&mut self, world: &dyn World) {
        let revisions = self.revisions_to_deploy();
        let Some((dependency, _)) = self.unready_dependencies(world, &revisions).next() else { return };
        let refreshed = Some((dependency.clone(), revisions));
        if self.refreshed_dependency != refreshed {
            self.refreshed_dependency = refreshed;
            self.effects.push(Effect::CompareOther(dependency));
        }
    }

    fn revisions_to_deploy(&self) -> Vec<String> {
        dependencies::revisions_to_deploy(&self.application, self.prepared_revisions.as_deref())
    }

    /// Returns the dependency cycle that the application is part of, if any.
    pub(super) fn dependency_cycle(&self, world: &dyn World) -> Option<String> {
        let depend = |one: &AppKey| match *one == self.key {
            true => dependencies::dependencies_of(&self.application),
            false => {
                world.application(one).map(|found| dependencies::dependencies_of(&found)).unwrap_or_default()
            }
        };
        dependencies::dependencies_of(&self.application).first()?;
        dependencies::find_cycle(&self.key, depend).map(|cycle| format_cycle(&cycle))
    }

    /// Lists the dependencies that aren't ready, with reasons.
    pub(super) fn dependencies_not_ready(&self, world: &dyn World) -> Option<String> {
        let revisions = self.revisions_to_deploy();
        let mut all = self.unready_dependencies(world, &revisions).map(|(_, reason)| reason);
        let named = all.by_ref().take(DEPENDENCIES_NAMED_MAX).collect::<Vec<_>>().join("; ");
        let more = all.count();
        match (named.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(named),
            (false, more) => Some(format!("{named}; and {more} more")),
        }
    }

    fn unready_dependencies(
        &self,
        world: &dyn World,
        revisions: &[String],
    ) -> impl Iterator<Item = (AppKey, String)> {
        let dependencies = dependencies::dependencies_of(&self.application).into_iter();
        dependencies.filter_map(|key| {
            let found = world.application(&key);
            let reason = dependency_delay(found.as_deref(), &self.application, revisions)?;
            let text = format!("{key}: {reason}");
            Some((key, text))
        })
    }

    /// Returns the first dependent that still exists.
    fn first_remaining_dependent(&self, world: &dyn World) -> Option<String> {
        let Some(dependents) = world.blocking_dependents(&self.key) else {
            return Some("the list of Applications that depend on this Application".to_owned());
        };
        dependents.first().map(|(other, found)| match found.is_deleting() {
            true => format!("{other}, which depends on this Application, to be deleted first"),
            false => format!(
                "{other}, which depends on this Application: delete {other} first, or remove this dependency \
                 from the {} annotation of {other}",
                dependencies::DEPENDS_ON
            ),
        })
    }
}
