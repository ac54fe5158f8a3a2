//! Application summaries for lists, events and the fleet view. The field names are a stable interface.

mod plan;
mod sync_window;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_application::AppKey;
use tidegate_application::approval::waiting_plan;
use tidegate_application::credentials::{text_without_credentials, without_credentials};
use tidegate_application::operation::REVISION_SEPARATOR;
use tidegate_application::project::project_name;
use tidegate_application::sources::revisions_of_fields;
use tidegate_application::{automated, operation};
use tidegate_applicationset::ownership::owning_appset;
use tidegate_model::argo::{
    Application, ApplicationCondition, ApplicationSource, OperationRequest, SyncStatusCode, Time,
};
use tidegate_model::{HealthStatus, OperationId, OperationOutcome, OperationPhase};

use crate::sanitize::one_line;

pub use plan::describe_actions;
pub use plan::{PlanState, PlanSummary};
pub use sync_window::SyncWindowSummary;

/// Summary of an Application.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSummary {
    /// Application namespace.
    pub namespace: String,
    /// Application name.
    pub name: String,
    /// The Application's project.
    pub project: String,
    /// The Application's labels.
    pub labels: BTreeMap<String, String>,
    /// Destination of the Application's objects.
    pub destination: DestinationSummary,
    /// Sources of the Application's manifests.
    pub sources: Vec<SourceSummary>,
    /// Sync status.
    pub sync: SyncStatusCode,
    /// Revision at the last comparison, comma-separated for several sources; may be empty.
    pub revision: String,
    /// Health status.
    pub health: HealthStatus,
    /// Health message; may be empty.
    pub health_message: String,
    /// Sync policy.
    pub policy: SyncPolicySummary,
    /// Number of conditions of each type.
    pub conditions: BTreeMap<String, u32>,
    /// The most severe condition, with its message; absent if there are no conditions.
    pub condition: Option<ConditionSummary>,
    /// Running or last operation.
    pub operation: Option<OperationSummary>,
    /// Hash of the operation's plan, if the plan is waiting for approval.
    pub plan: Option<String>,
    /// Time of the last comparison.
    pub reconciled_at: Option<Time>,
    /// True if the deletion of the Application was requested.
    pub deleting: bool,
    /// ApplicationSet that owns the Application, in the same namespace; absent if there is none.
    #[serde(rename = "applicationSet")]
    pub set: Option<String>,
    /// Reason why the Application is waiting in its ApplicationSet's progressive sync, for lists and events.
    /// Absent once the Application's step has started.
    #[serde(rename = "waitReason")]
    pub awaits: Option<String>,
}

/// Summary of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionSummary {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// Beginning of the message, without credentials.
    pub message: String,
}

/// Destination of an Application's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationSummary {
    /// Cluster URL or name.
    pub cluster: String,
    /// Namespace for objects that don't specify one; may be empty.
    pub namespace: String,
}

/// A source of manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceSummary {
    /// Repository URL, without credentials.
    #[serde(rename = "repoURL")]
    pub repo_url: String,
    /// Folder in the repository, or chart name.
    pub path: String,
    /// Branch, tag, commit or version constraint; may be empty.
    pub target_revision: String,
}

/// An Application's sync policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicySummary {
    /// Not synced automatically.
    Manual,
    /// Synced automatically.
    Auto,
    /// Synced automatically, with pruning.
    AutoPrune,
}

/// Summary of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationSummary {
    /// Operation ID; absent until the operation has an ID.
    pub id: Option<OperationId>,
    /// Phase of the operation.
    pub phase: OperationPhase,
    /// The phase, or `Superseded` if another operation replaced this operation. A superseded operation has
    /// the phase `Failed`.
    pub outcome: OperationOutcome,
    /// Status message.
    pub message: String,
    /// Start time; absent if the operation hasn't started.
    pub started_at: Option<Time>,
    /// End time.
    pub finished_at: Option<Time>,
    /// True for a dry run.
    pub dry_run: bool,
    /// Requester; `automated` for an automated sync.
    pub initiated_by: String,
    /// Reason; empty if no reason was given.
    pub reason: String,
}

/// Maximum number of characters in a message. A list can contain thousands of messages.
const MESSAGE_CHARS_MAX: usize = 240;
/// Message for an operation that was just requested.
const REQUESTED_MESSAGE: &str = "requested, not started yet";

impl From<&Application> for ApplicationSummary {
    fn from(application: &Application) -> Self {
        let AppKey { namespace, name } = AppKey::of(application);
        let (spec, status) = (&application.spec, &application.status);
        let destination = &spec.destination;
        let cluster = if destination.server.is_empty() { &destination.name } else { &destination.server };
        let (sync, health) = (status.sync.as_ref(), status.health.as_ref());
        let mut conditions = BTreeMap::new();
        for condition in &status.conditions {
            let count: &mut u32 = conditions.entry(condition.kind.to_string()).or_default();
            *count = count.saturating_add(1);
        }
        Self {
            namespace,
            name,
            project: project_name(application).to_owned(),
            labels: application.metadata.labels.clone(),
            destination: DestinationSummary {
                cluster: cluster.clone(),
                namespace: destination.namespace.clone(),
            },
            sources: application.sources().iter().map(summarize_source).collect(),
            sync: sync.map(|sync| sync.status).unwrap_or_default(),
            revision: sync
                .map(|sync| revisions_of_fields(&sync.revision, &sync.revisions).join(REVISION_SEPARATOR))
                .unwrap_or_default(),
            health: self::health_status(application),
            health_message: health.map(|health| health.message.clone()).unwrap_or_default(),
            policy: match automated(application) {
                None => SyncPolicySummary::Manual,
                Some(automated) if automated.prune == Some(true) => SyncPolicySummary::AutoPrune,
                Some(_) => SyncPolicySummary::Auto,
            },
            conditions,
            condition: summarize_conditions(&status.conditions),
            operation: summarize_operation(application),
            plan: waiting_plan(application).map(str::to_owned),
            reconciled_at: status.reconciled_at,
            deleting: application.is_deleting(),
            set: owning_appset(application).map(str::to_owned),
            awaits: None,
        }
    }
}

/// Returns the first error, or the first condition if there are no errors.
fn summarize_conditions(all: &[ApplicationCondition]) -> Option<ConditionSummary> {
    let condition = all.iter().find(|one| one.kind.is_error()).or(all.first())?;
    let message = one_line(&text_without_credentials(&condition.message));
    let mut shown: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    if shown.len() < message.len() {
        shown.push('…');
    }
    Some(ConditionSummary { kind: condition.kind.to_string(), message: shown })
}

fn summarize_source(source: &ApplicationSource) -> SourceSummary {
    SourceSummary {
        repo_url: without_credentials(&source.repo_url),
        path: if source.path.is_empty() { source.chart.clone() } else { source.path.clone() },
        target_revision: source.target_revision.clone(),
    }
}

/// Returns an Application's health.
pub fn health_status(application: &Application) -> HealthStatus {
    application.status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status)
}

fn summarize_operation(application: &Application) -> Option<OperationSummary> {
    let by = |request: &OperationRequest| request.initiated_by.name().to_owned();
    let request = application.operation.as_ref();
    let known = application.status.operation_state.as_ref();
    // The status of an operation that hasn't started shows the reason for the wait.
    let waits = |request: &OperationRequest| {
        known.is_some_and(|known| {
            known.finished_at.is_none() && operation::is_same_request(&known.operation, request)
        })
    };
    let is_new = |id: Option<OperationId>| {
        id.is_none() || known.is_none_or(|known| id != operation::engine_id(&known.operation))
    };
    match request.map(|request| (request, operation::engine_id(request))) {
        Some((request, id)) if is_new(id) && !waits(request) => Some(OperationSummary {
            id,
            phase: OperationPhase::Running,
            outcome: OperationOutcome::Running,
            message: REQUESTED_MESSAGE.to_owned(),
            started_at: None,
            finished_at: None,
            dry_run: request.is_dry_run(),
            initiated_by: by(request),
            reason: operation::request_reason(request).to_owned(),
        }),
        _ => known.map(|known| OperationSummary {
            id: operation::engine_id(&known.operation),
            phase: known.phase,
            outcome: OperationOutcome::from_phase(known.phase, &known.message),
            message: known.message.clone(),
            started_at: Some(known.started_at),
            finished_at: known.finished_at,
            dry_run: known.operation.is_dry_run(),
            initiated_by: by(&known.operation),
            reason: operation::request_reason(&known.operation).to_owned(),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown_condition(conditions: &Value) -> Option<(String, String)> {
        let status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
        let application = Application { status, ..Application::default() };
        ApplicationSummary::from(&application).condition.map(|one| (one.kind, one.message))
    }

    #[test]
    fn the_most_severe_condition_is_one_short_line_without_credentials() {
        assert_eq!(shown_condition(&json!([])), None);
        let warning = json!({"type": "SharedResourceWarning", "message": "it is shared"});
        let own = json!({"type": "ApprovalRequired", "message": "it waits"});
        let error = json!({"type": "ComparisonError", "message": "cannot read\nhttps://me:hunter2@example.com/a.git"});
        let pair = |kind: &str, message: &str| Some((kind.to_owned(), message.to_owned()));
        assert_eq!(shown_condition(&json!([own, warning])), pair("ApprovalRequired", "it waits"));
        assert_eq!(
            shown_condition(&json!([warning, error])),
            pair("ComparisonError", "cannot read; https://******@example.com/a.git")
        );
        let long = json!([{"type": "SyncError", "message": "é".repeat(MESSAGE_CHARS_MAX + 1)}]);
        assert_eq!(shown_condition(&long), pair("SyncError", &format!("{}…", "é".repeat(MESSAGE_CHARS_MAX))));
    }
}
