//! Next action for an Application without a running operation.

use tidegate_application::automated_sync::IdleReason;
use tidegate_application::refresh::SKIP_RECONCILE_ANNOTATION;
use tidegate_lifecycle::NextAction;
use tidegate_model::HealthStatus;
use tidegate_model::argo::{ConditionType, SyncStatusCode};

use super::{IdleStatus, SyncTime};

impl IdleStatus {
    pub fn next_action(&self) -> NextAction {
        let name = &self.application;
        let sync = || NextAction::run(format!("tidegate app sync {name}"), "syncs the application");
        if let Some(plan) = &self.plan {
            return NextAction::run(
                format!("tidegate app approve {name} {plan}"),
                "approves the plan and starts its sync",
            );
        }
        if self.left_alone.is_some() {
            return NextAction::change(format!(
                "remove the {SKIP_RECONCILE_ANNOTATION} annotation from the Application, or set the annotation to \"false\""
            ));
        }
        if let Some(error) = self.conditions.iter().find(|one| one.kind.is_error()) {
            return self.fix_action(&error.kind);
        }
        if self.operation.as_ref().is_some_and(|operation| operation.finished_at.is_none()) {
            return self.pending_action();
        }
        match (&self.set, self.automated, self.sync) {
            (Some(set), is_automated, _) if set.sync_time != SyncTime::Unknown || !is_automated => {
                self.appset_action(&set.name, set.sync_time)
            }
            (_, false, SyncStatusCode::OutOfSync | SyncStatusCode::Unknown) => sync(),
            (_, false, SyncStatusCode::Synced) => self.health_action("a user requests it"),
            (_, true, SyncStatusCode::Synced) => self.health_action("the manifests or the objects change"),
            (_, true, SyncStatusCode::Unknown) => NextAction::wait("the comparison finishes")
                .or(&format!("`tidegate app refresh {name}` starts a comparison now")),
            (_, true, SyncStatusCode::OutOfSync) if self.window.is_some() => {
                NextAction::wait("a sync window permits the sync")
            }
            (_, true, SyncStatusCode::OutOfSync) => match self.rests {
                Some(IdleReason::Leftovers) => NextAction::run(
                    format!("tidegate app sync {name} --prune"),
                    "deletes the objects that are no longer in the manifests",
                ),
                Some(IdleReason::SelfHealOff) => sync(),
                None => NextAction::wait("the automated sync starts"),
            },
        }
    }

    /// Returns the action for a requested operation that hasn't started or has no details.
    fn pending_action(&self) -> NextAction {
        match self.after {
            _ if self.has_begun => NextAction::nothing("the operation is running"),
            Some(older) => NextAction::wait(&format!("operation {older} ends"))
                .or(&format!("`tidegate explain {older}` shows what that operation is waiting for")),
            None if self.window.is_some() => NextAction::wait("a sync window permits the sync"),
            None => NextAction::wait("the wait described in the operation's message ends"),
        }
    }

    fn appset_action(&self, set: &str, sync_time: SyncTime) -> NextAction {
        let name = &self.application;
        let sync = |effect| NextAction::run(format!("tidegate app sync {name}"), effect);
        let explain = || {
            NextAction::run(format!("tidegate appset explain {set}"), "shows what the rollout is waiting for")
        };
        match (sync_time, self.sync) {
            (
                SyncTime::InStep(_) | SyncTime::Later | SyncTime::Manual(_) | SyncTime::NoStep,
                SyncStatusCode::Synced,
            ) => self.health_action("the ApplicationSet's rollout has new targets"),
            (SyncTime::Manual(_), _) => sync("syncs the application in its rollout step"),
            (SyncTime::NoStep, _) => sync("syncs the application"),
            (SyncTime::InStep(_) | SyncTime::Later | SyncTime::Unknown, _) => explain(),
        }
    }

    /// Returns the action for an Application that is in sync.
    fn health_action(&self, next: &str) -> NextAction {
        match self.health {
            HealthStatus::Degraded | HealthStatus::Missing => NextAction::run(
                format!("tidegate app get {}", self.application),
                "shows the objects that are not healthy",
            ),
            HealthStatus::Healthy
            | HealthStatus::Progressing
            | HealthStatus::Suspended
            | HealthStatus::Unknown => NextAction::nothing(&format!("the next sync starts when {next}")),
        }
    }

    fn fix_action(&self, kind: &ConditionType) -> NextAction {
        let name = &self.application;
        let change = NextAction::change(format!("fix the problem that the {kind} condition reports"));
        match kind {
            ConditionType::SyncError => {
                change.or(&format!("`tidegate app sync {name}` then syncs the application"))
            }
            ConditionType::ComparisonError | ConditionType::UnknownError | ConditionType::Other(_) => {
                change.or(&format!("`tidegate app refresh {name}` then starts a new comparison"))
            }
            ConditionType::InvalidSpecError
            | ConditionType::DeletionError
            | ConditionType::ExcludedResourceWarning
            | ConditionType::OrphanedResourceWarning
            | ConditionType::RepeatedResourceWarning
            | ConditionType::SharedResourceWarning => change,
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::argo::{Application, ApplicationCondition};
    use tidegate_model::{OperationOutcome, OperationPhase};
    use tidegate_state::summaries::{OperationSummary, SyncWindowSummary};

    use super::super::{ControllingAppSet, ExternalState};
    use super::*;

    fn idle_status() -> IdleStatus {
        let mut application = Application::default();
        application.metadata.name = "shop".to_owned();
        IdleStatus::new(&application, None, ExternalState::default())
    }

    fn pending_status() -> IdleStatus {
        let operation = OperationSummary {
            id: None,
            phase: OperationPhase::Running,
            outcome: OperationOutcome::Running,
            message: String::new(),
            started_at: None,
            dry_run: false,
            finished_at: None,
            initiated_by: String::new(),
            reason: String::new(),
        };
        IdleStatus { operation: Some(operation), ..idle_status() }
    }

    fn appset_status(sync_time: SyncTime) -> IdleStatus {
        IdleStatus {
            set: Some(ControllingAppSet { name: "shops".to_owned(), step: None, sync_time }),
            ..idle_status()
        }
    }

    fn with_condition(kind: ConditionType) -> IdleStatus {
        let condition = ApplicationCondition { kind, message: String::new(), last_transition_time: None };
        IdleStatus { conditions: vec![condition], ..idle_status() }
    }

    #[test]
    fn every_state_has_a_next_action() {
        use SyncStatusCode::{OutOfSync, Synced, Unknown};
        let older = "01890000-0000-7000-8000-000000000001".parse().unwrap();
        let window =
            || Some(SyncWindowSummary { automated: false, manual: false, reason: Some(String::new()) });
        let automated = |sync| IdleStatus { automated: true, sync, rests: None, ..idle_status() };
        for (standing, expected) in [
            (
                IdleStatus { plan: Some("3f2a".to_owned()), ..pending_status() },
                "`tidegate app approve shop 3f2a` approves the plan and starts its sync",
            ),
            (
                IdleStatus { left_alone: Some(String::new()), ..idle_status() },
                "remove the argocd.argoproj.io/skip-reconcile annotation from the Application, or set the \
                 annotation to \"false\"",
            ),
            (
                with_condition(ConditionType::InvalidSpecError),
                "fix the problem that the InvalidSpecError condition reports",
            ),
            (
                with_condition(ConditionType::ComparisonError),
                "fix the problem that the ComparisonError condition reports; `tidegate app refresh shop` then starts a new comparison",
            ),
            (
                with_condition(ConditionType::SyncError),
                "fix the problem that the SyncError condition reports; `tidegate app sync shop` then syncs the application",
            ),
            (IdleStatus { has_begun: true, ..pending_status() }, "nothing to do; the operation is running"),
            (
                IdleStatus { after: Some(older), ..pending_status() },
                "nothing to do; it continues when operation 01890000-0000-7000-8000-000000000001 ends; \
                 `tidegate explain 01890000-0000-7000-8000-000000000001` shows what that operation is \
                 waiting for",
            ),
            (
                IdleStatus { window: window(), ..pending_status() },
                "nothing to do; it continues when a sync window permits the sync",
            ),
            (
                pending_status(),
                "nothing to do; it continues when the wait described in the operation's message ends",
            ),
            (
                IdleStatus { sync: OutOfSync, ..appset_status(SyncTime::InStep(2)) },
                "`tidegate appset explain shops` shows what the rollout is waiting for",
            ),
            (
                IdleStatus { sync: OutOfSync, ..appset_status(SyncTime::Manual(2)) },
                "`tidegate app sync shop` syncs the application in its rollout step",
            ),
            (
                IdleStatus { sync: OutOfSync, ..appset_status(SyncTime::NoStep) },
                "`tidegate app sync shop` syncs the application",
            ),
            (
                IdleStatus { sync: Synced, ..appset_status(SyncTime::Later) },
                "nothing to do; the next sync starts when the ApplicationSet's rollout has new targets",
            ),
            (
                appset_status(SyncTime::Unknown),
                "`tidegate appset explain shops` shows what the rollout is waiting for",
            ),
            (
                IdleStatus { sync: OutOfSync, ..idle_status() },
                "`tidegate app sync shop` syncs the application",
            ),
            (
                IdleStatus { sync: Synced, ..idle_status() },
                "nothing to do; the next sync starts when a user requests it",
            ),
            (
                IdleStatus { sync: Synced, health: HealthStatus::Degraded, ..idle_status() },
                "`tidegate app get shop` shows the objects that are not healthy",
            ),
            (
                automated(Synced),
                "nothing to do; the next sync starts when the manifests or the objects change",
            ),
            (
                automated(Unknown),
                "nothing to do; it continues when the comparison finishes; `tidegate app refresh shop` \
                 starts a comparison now",
            ),
            (
                IdleStatus { window: window(), ..automated(OutOfSync) },
                "nothing to do; it continues when a sync window permits the sync",
            ),
            (
                IdleStatus { rests: Some(IdleReason::Leftovers), ..automated(OutOfSync) },
                "`tidegate app sync shop --prune` deletes the objects that are no longer in the manifests",
            ),
            (
                IdleStatus { rests: Some(IdleReason::SelfHealOff), ..automated(OutOfSync) },
                "`tidegate app sync shop` syncs the application",
            ),
            (automated(OutOfSync), "nothing to do; it continues when the automated sync starts"),
        ] {
            assert_eq!(standing.next_action().to_string(), expected);
        }
    }
}
