//! State of an Application without a running operation. The requested operation is waiting, or none was
//! requested.

mod next_action;

use serde::Serialize;
use tidegate_application::AppKey;
use tidegate_application::approval::waiting_plan;
use tidegate_application::automated_sync::{self, IdleReason};
use tidegate_application::{automated, operation, refresh};
use tidegate_applicationset::sync_policy::{AppSetRuleOptions, is_progressive};
use tidegate_lifecycle::NextAction;
use tidegate_model::argo::{Application, ApplicationCondition, ApplicationSet, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationId, Timestamp};
use tidegate_state::summaries::{OperationSummary, SyncWindowSummary};
use tidegate_views::runs::NO_STEP;

use super::{Style, Text, one_line};

/// State of an application without a running operation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleStatus {
    /// NAMESPACE/NAME of the application, or only its name.
    application: String,
    /// Requested operation that is waiting, or else the last one.
    operation: Option<OperationSummary>,
    /// True if `operation` has already started.
    #[serde(skip)]
    has_begun: bool,
    /// Older operation that must finish before the requested one starts.
    #[serde(rename = "predecessor")]
    after: Option<OperationId>,
    /// Reason no operation is running; absent if one is.
    #[serde(rename = "idleReason")]
    idle: Option<String>,
    /// Sync status.
    sync: SyncStatusCode,
    /// Health status.
    health: HealthStatus,
    /// Reason for the health status; may be empty.
    health_message: String,
    /// True if the application is synced automatically.
    automated: bool,
    /// Reason an OutOfSync application isn't synced automatically.
    #[serde(skip)]
    rests: Option<IdleReason>,
    /// ApplicationSet that syncs the application step by step; absent without one or during an operation.
    #[serde(rename = "applicationSet")]
    set: Option<ControllingAppSet>,
    /// Reason the controller skips the application.
    #[serde(rename = "skipReason")]
    left_alone: Option<String>,
    /// State of the application's sync windows.
    window: Option<SyncWindowSummary>,
    /// Problems with the application.
    conditions: Vec<ApplicationCondition>,
    /// Hash of the plan awaiting approval.
    #[serde(skip)]
    plan: Option<String>,
    /// Next action.
    next_action: NextAction,
}

/// State of an application outside its resource.
#[derive(Clone, Debug, Default)]
pub struct ExternalState {
    /// State of the application's sync windows.
    pub window: Option<SyncWindowSummary>,
    /// ApplicationSet that syncs the application.
    pub appset: Option<ControllingAppSet>,
    /// Older operation that must finish before the requested one starts.
    pub after: Option<OperationId>,
}

/// ApplicationSet that syncs an application step by step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllingAppSet {
    /// NAMESPACE/NAME of the ApplicationSet, or only its name.
    name: String,
    /// Number of the step that selects the application, counting from 1; absent if none does or it is
    /// unknown.
    step: Option<u32>,
    /// Point at which the ApplicationSet syncs the application.
    #[serde(skip)]
    sync_time: SyncTime,
}

/// Point in a rollout at which the ApplicationSet syncs the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncTime {
    /// Unknown, because the ApplicationSet couldn't be queried.
    Unknown,
    /// In a later step with an unknown number.
    Later,
    /// In this step.
    InStep(u32),
    /// In this step, which must be synced manually.
    Manual(u32),
    /// Never, because no step selects the application.
    NoStep,
}

impl ControllingAppSet {
    /// Returns the state for an ApplicationSet that couldn't be queried.
    pub fn unknown(set: &AppKey) -> Self {
        Self { name: set.to_string(), step: None, sync_time: SyncTime::Unknown }
    }

    /// Returns the state for the ApplicationSet that owns the application, or `None` if it doesn't control
    /// the timing of syncs.
    pub fn for_application(
        set: &ApplicationSet,
        options: &AppSetRuleOptions,
        application: &Application,
    ) -> Option<Self> {
        if !is_progressive(set, options) {
            return None;
        }
        let mut members = set.status.application_status.iter();
        let member = members.find(|one| one.application == application.metadata.name);
        let step: Option<u32> = member.and_then(|member| member.step.parse().ok());
        let sync_time = match (member, step) {
            (_, Some(step)) if is_manual_step(set, step) => SyncTime::Manual(step),
            (_, Some(step)) => SyncTime::InStep(step),
            (Some(member), None) if member.step == NO_STEP => SyncTime::NoStep,
            _ => SyncTime::Later,
        };
        Some(Self { name: AppKey::of_appset(set).to_string(), step, sync_time })
    }

    /// Explains why no operation is running and what to do.
    fn explain_idle(&self, none: &str, sync: SyncStatusCode) -> String {
        let name = &self.name;
        let belongs = format!("{none}; the application belongs to ApplicationSet {name}");
        let explain = format!("`tidegate appset explain {name}`");
        match (self.sync_time, sync) {
            (SyncTime::InStep(step) | SyncTime::Manual(step), SyncStatusCode::Synced) => {
                format!(
                    "{none}: the application is in sync; rollouts of ApplicationSet {name} sync it in step {step}"
                )
            }
            (SyncTime::InStep(step), _) => {
                format!(
                    "{belongs} and is synced in step {step} of its rollout; {explain} shows what that step is waiting for"
                )
            }
            (SyncTime::Manual(step), _) => format!(
                "{belongs} and requires a manual sync in step {step} of its rollout (maxUpdate): use `tidegate app sync` when {explain} shows that the step is waiting for the application"
            ),
            (SyncTime::Later, _) => {
                format!("{belongs} and is synced when its rollout step starts; {explain} shows the progress")
            }
            (SyncTime::NoStep, _) => format!("{belongs}, and no step selects it: use `tidegate app sync`"),
            (SyncTime::Unknown, _) => format!(
                "{belongs}: {explain} shows the progress of a progressive sync; without a progressive sync, use `tidegate app sync`"
            ),
        }
    }
}

/// Returns true if users must start the syncs in this step of an ApplicationSet's progressive sync.
fn is_manual_step(set: &ApplicationSet, step: u32) -> bool {
    let place = usize::try_from(step).ok().and_then(|step| step.checked_sub(1));
    let rolling = set.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_sync.as_ref());
    let found = rolling.zip(place).and_then(|(rolling, place)| rolling.steps.get(place));
    let most = found.and_then(|step| step.max_update.as_ref()).map(ToString::to_string);
    most.is_some_and(|most| ["0", "0%"].contains(&most.as_str()))
}

impl IdleStatus {
    pub fn new(
        application: &Application,
        operation: Option<OperationSummary>,
        beside: ExternalState,
    ) -> Self {
        let status = &application.status;
        // Only the operation state says that a requested operation is waiting.
        let state = status.operation_state.as_ref().filter(|state| state.finished_at.is_none());
        let operation = operation.map(|operation| OperationSummary {
            message: state.map_or(operation.message, |state| state.message.clone()),
            ..operation
        });
        let standing = Self {
            application: super::application::display_name(application),
            has_begun: operation.as_ref().is_some_and(|operation| operation.id.is_some())
                && operation::has_started(application),
            operation,
            after: beside.after,
            idle: None,
            sync: status.sync.as_ref().map(|sync| sync.status).unwrap_or_default(),
            health: status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status),
            health_message: status.health.as_ref().map(|health| health.message.clone()).unwrap_or_default(),
            automated: automated(application).is_some(),
            // The time only affects the delay, which is never an idle reason.
            rests: automated_sync::decide(application, Timestamp::default()).idle,
            set: beside.appset,
            left_alone: refresh::skip_reason(application),
            window: beside.window.filter(|window| window.reason.is_some()),
            conditions: status.conditions.clone(),
            plan: waiting_plan(application).map(ToString::to_string),
            next_action: NextAction::default(),
        };
        Self { idle: standing.idle_reason(), next_action: standing.next_action(), ..standing }
    }

    /// Formats the whole state.
    pub fn text(&self) -> Text {
        let mut text = Text::new();
        add_line(&mut text, "Application:", &self.application);
        add_line(&mut text, "Operation:", &self.describe_operation());
        text.append(self.details_text());
        text
    }

    /// Formats the details to show besides the last operation, which has finished.
    pub fn details_text(&self) -> Text {
        let mut text = Text::new();
        let mut add = |label: &str, value: &str| add_line(&mut text, label, value);
        if self.operation.is_some() {
            self.idle.iter().for_each(|reason| add("Next Operation:", reason));
        }
        add("Sync Status:", &self.sync.to_string());
        let reason = match self.health_message.as_str() {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        add("Health Status:", &format!("{:?}{reason}", self.health));
        self.left_alone.iter().for_each(|reason| add("Skipped:", reason));
        self.window.iter().for_each(|window| add("Sync Window:", &window.to_string()));
        for condition in &self.conditions {
            add("Condition:", &format!("{}: {}", condition.kind, condition.message));
        }
        text
    }

    fn describe_operation(&self) -> String {
        let Some(operation) = &self.operation else { return self.idle.clone().unwrap_or_default() };
        match (operation.finished_at, self.after) {
            _ if self.has_begun => format!("{}: {}", operation.outcome, operation.message),
            (Some(_), _) => format!("{}, before it started: {}", operation.outcome, operation.message),
            (None, None) => format!("not started: {}", operation.message),
            (None, Some(older)) => format!(
                "not started: {}; it starts when operation {older} ends (`tidegate explain {older}`)",
                operation.message
            ),
        }
    }

    fn idle_reason(&self) -> Option<String> {
        let none = match &self.operation {
            Some(operation) if operation.finished_at.is_none() => return None,
            Some(_) => "no new operation has started",
            None => "no operation has started",
        };
        let reason = match (&self.set, self.automated, self.sync) {
            _ if self.left_alone.is_some() => ", and none will start",
            // An ApplicationSet that couldn't be queried doesn't affect automated syncs.
            (Some(set), is_automated, sync) if set.sync_time != SyncTime::Unknown || !is_automated => {
                return Some(set.explain_idle(none, sync));
            }
            (_, false, _) => "; automated sync is off: use `tidegate app sync`",
            (_, true, SyncStatusCode::Synced) => ": the application is in sync",
            (_, true, SyncStatusCode::Unknown) => ": the differences are not known yet",
            (_, true, SyncStatusCode::OutOfSync) if self.window.is_some() => {
                ": a sync window denies the sync"
            }
            (_, true, SyncStatusCode::OutOfSync) if !self.conditions.is_empty() => "; see the conditions",
            (_, true, SyncStatusCode::OutOfSync) => match self.rests {
                Some(rests) => return Some(format!("{none}: {rests}")),
                None => ", but a sync is due",
            },
        };
        Some(format!("{none}{reason}"))
    }
}

fn add_line(text: &mut Text, label: &str, value: &str) {
    text.add(Style::Dim, format!("{label:<16}"));
    text.add(Style::Plain, one_line(value));
    text.end_line();
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_model::argo::ConditionType;
    use tidegate_model::{OperationOutcome, OperationPhase};

    use super::*;

    #[test]
    fn the_wait_of_a_requested_operation_is_explained() {
        let mut application = Application::default();
        application.metadata.name = "shop".to_owned();
        let state = json!({
            "operation": {},
            "phase": "Running",
            "message": "waiting for db: it does not exist",
            "startedAt": "2026-01-01T00:00:00Z",
        });
        application.status.operation_state = serde_json::from_value(state).unwrap();
        let kind = ConditionType::Other("DependencyError".to_owned());
        let message = "makes a cycle: a → b → a".to_owned();
        application.status.conditions =
            vec![ApplicationCondition { kind, message, last_transition_time: None }];
        let requested = OperationSummary {
            id: None,
            phase: OperationPhase::Running,
            outcome: OperationOutcome::Running,
            message: "requested, and not started yet".to_owned(),
            started_at: None,
            dry_run: false,
            finished_at: None,
            initiated_by: "jane".to_owned(),
            reason: String::new(),
        };
        let reason = Some("2 windows of project fleet, until 12:00".to_owned());
        let window = SyncWindowSummary { automated: false, manual: false, reason };
        let beside = ExternalState { window: Some(window), ..ExternalState::default() };
        let standing = IdleStatus::new(&application, Some(requested.clone()), beside);
        let text = standing.text().render(false);
        for part in [
            "not started: waiting for db: it does not exist",
            "Sync Denied: 2 windows",
            "DependencyError: makes a cycle",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let document = serde_json::to_value(&standing).unwrap();
        assert_eq!(document["operation"]["message"], "waiting for db: it does not exist");
        assert_eq!(document["idleReason"], json!(null));
        let idle = render_status(&Application::default(), ExternalState::default());
        assert!(idle.contains("automated sync is off"), "{idle}");
        // The requested operation must wait for an older one.
        let older = "01890000-0000-7000-8000-000000000001".parse().unwrap();
        let beside = ExternalState { after: Some(older), ..ExternalState::default() };
        let text = IdleStatus::new(&application, Some(requested), beside).text().render(false);
        assert!(
            text.contains(&format!("it starts when operation {older} ends (`tidegate explain {older}`)")),
            "{text}"
        );
    }

    fn render_status(application: &Application, beside: ExternalState) -> String {
        IdleStatus::new(application, None, beside).text().render(false)
    }

    fn ended_operation(phase: OperationPhase) -> OperationSummary {
        let at = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        OperationSummary {
            id: None,
            phase,
            outcome: OperationOutcome::from_phase(phase, ""),
            message: "its last words".to_owned(),
            started_at: Some(at),
            finished_at: Some(at),
            dry_run: false,
            initiated_by: "jane".to_owned(),
            reason: String::new(),
        }
    }

    #[test]
    fn the_reason_why_no_operation_follows_the_last_one_is_shown() {
        let application: Application = serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
            "spec": {
                "project": "default", "destination": {"name": "in-cluster"},
                "syncPolicy": {"automated": {}},
            },
            "status": {
                "sync": {"status": "OutOfSync"}, "health": {"status": "Missing", "message": "nothing was deployed"},
                "conditions": [{"type": "SyncError", "message": "Skipping sync attempt"}],
            },
        }))
        .unwrap();
        let last = Some(ended_operation(OperationPhase::Succeeded));
        let standing = IdleStatus::new(&application, last, ExternalState::default());
        let rest = standing.details_text().render(false);
        for part in [
            "Next Operation: no new operation has started; see the conditions\n",
            "Sync Status:    OutOfSync\n",
            "Health Status:  Missing (nothing was deployed)\n",
            "Condition:      SyncError: Skipping sync attempt\n",
        ] {
            assert!(rest.contains(part), "{part}: {rest}");
        }
        assert!(!rest.contains("its last words") && !rest.contains("shop"), "{rest}");
        let whole = standing.text().render(false);
        assert!(whole.contains("its last words") && whole.ends_with(&rest), "{whole}");
        let document = serde_json::to_value(&standing).unwrap();
        assert_eq!(document["idleReason"], "no new operation has started; see the conditions");
        assert_eq!((&document["health"], &document["applicationSet"]), (&json!("Missing"), &json!(null)));
    }

    #[test]
    fn an_application_without_a_due_sync_is_explained() {
        let of = |automated: serde_json::Value, requires_pruning: bool| -> Application {
            let source = json!({"repoURL": "./repo", "path": "web"});
            serde_json::from_value(json!({
                "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"},
                "spec": {
                    "project": "default", "destination": {"name": "in-cluster"}, "source": source,
                    "syncPolicy": {"automated": automated},
                },
                "status": {
                    "sync": {"status": "OutOfSync", "revision": "c1"}, "health": {"status": "Healthy"},
                    "resources": [{
                        "group": "", "version": "v1", "kind": "Namespace", "name": "web", "status": "OutOfSync",
                        "requiresPruning": requires_pruning,
                    }],
                    "operationState": {
                        "operation": {"initiatedBy": {"automated": true}, "sync": {"revision": "c1"}},
                        "phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z",
                        "syncResult": {"revision": "c1", "source": source},
                    },
                },
            }))
            .unwrap()
        };
        for (automated, requires_pruning, expected) in [
            (
                json!({}),
                false,
                "no operation has started: the last sync of this revision succeeded, and self-heal is off",
            ),
            (
                json!({"selfHeal": true}),
                true,
                "no operation has started: only objects that are no longer in the manifests are out of sync",
            ),
            (json!({"selfHeal": true}), false, "no operation has started, but a sync is due"),
        ] {
            let text = render_status(&of(automated, requires_pruning), ExternalState::default());
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    fn appset(max_update: serde_json::Value) -> ApplicationSet {
        let mut set = ApplicationSet::default();
        set.metadata.name = "shops".to_owned();
        let strategy = json!({
            "type": "RollingSync",
            "rollingSync": {"steps": [{}, {"maxUpdate": max_update}]},
        });
        set.spec.strategy = Some(serde_json::from_value(strategy).unwrap());
        set.status = serde_json::from_value(json!({"applicationStatus": [
            {"application": "one", "status": "Healthy", "step": "1", "message": ""},
            {"application": "two", "status": "Waiting", "step": "2", "message": ""},
            {"application": "left", "status": "Waiting", "step": "-1", "message": ""},
        ]}))
        .unwrap();
        set
    }

    #[test]
    fn a_member_is_synced_in_its_step_and_not_by_the_reader() {
        let options = AppSetRuleOptions::default();
        let told_of = |name: &str, set: &ApplicationSet, options: &AppSetRuleOptions| {
            let mut application = Application::default();
            application.metadata.name = name.to_owned();
            let set = ControllingAppSet::for_application(set, options, &application);
            render_status(&application, ExternalState { appset: set, ..ExternalState::default() })
        };
        let rolling = appset(json!(1));
        let two = told_of("two", &rolling, &options);
        assert!(
            two.contains("the application belongs to ApplicationSet shops and is synced in step 2 of its rollout; `tidegate appset explain shops` shows what that step is waiting for"),
            "{two}"
        );
        let new = told_of("new", &rolling, &options);
        assert!(new.contains("when its rollout step starts"), "{new}");
        assert!(!two.contains("`tidegate app sync`") && !new.contains("`tidegate app sync`"), "{two}{new}");
        let left = told_of("left", &rolling, &options);
        assert!(left.contains("and no step selects it: use `tidegate app sync`"), "{left}");
        for none in [json!(0), json!("0%")] {
            let by_hand = told_of("two", &appset(none), &options);
            assert!(
                by_hand.contains("requires a manual sync in step 2 of its rollout (maxUpdate)"),
                "{by_hand}"
            );
        }
        // An ApplicationSet without control over the order has no effect.
        let off = AppSetRuleOptions { progressive_syncs: false, ..AppSetRuleOptions::default() };
        let alone = told_of("two", &rolling, &off);
        assert!(!alone.contains("shops") && alone.contains("`tidegate app sync`"), "{alone}");
        let key = AppKey::of_appset(&rolling);
        let beside =
            ExternalState { appset: Some(ControllingAppSet::unknown(&key)), ..ExternalState::default() };
        let unasked = render_status(&Application::default(), beside);
        assert!(unasked.contains("`tidegate appset explain shops`"), "{unasked}");
    }
}
