//! Applications in one line each, as lists, events and the fleet show them. The field names are a stable interface.

mod plan;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::approval::waiting_plan;
use tidegate_application::credentials::{text_without_credentials, without_credentials};
use tidegate_application::operation::BETWEEN;
use tidegate_application::sources::revisions;
use tidegate_application::{automated, operation};
use tidegate_applicationset::ownership::set_of;
use tidegate_model::argo::{
    Application, ApplicationCondition, ApplicationSource, OperationRequest, SyncStatusCode, Time,
};
use tidegate_model::{HealthStatus, OperationId, OperationPhase};

use crate::applications::store::AppKey;
use crate::plain::one_line;
use crate::sets::SetServing;

pub use plan::{PlanLine, PlanState};

/// How an application stands, in one line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationLine {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Where its objects go.
    pub destination: DestinationLine,
    /// Where its manifests come from.
    pub sources: Vec<SourceLine>,
    /// How it stands to its manifests.
    pub sync: SyncStatusCode,
    /// The revision it was compared with, with commas between those of several sources; may be empty.
    pub revision: String,
    /// How well it does.
    pub health: HealthStatus,
    /// Why; may be empty.
    pub health_message: String,
    /// Whether it is synced by itself.
    pub policy: SyncPolicyLine,
    /// What is wrong with it, how often.
    pub conditions: BTreeMap<String, u32>,
    /// The gravest of that, with its message; absent where nothing is wrong.
    pub condition: Option<ConditionLine>,
    /// The operation under way, or the last one.
    pub operation: Option<OperationLine>,
    /// The plan of its operation that waits for an approval, by its hash.
    pub plan: Option<String>,
    /// When it was compared last.
    pub reconciled_at: Option<Time>,
    /// Somebody has asked for its deletion.
    pub deleting: bool,
    /// The ApplicationSet of its namespace that answers for it; nothing where none does.
    pub set: Option<String>,
    /// What it waits for in the progressive sync of that set, in lists and events; nothing where its turn has come.
    pub awaits: Option<String>,
}

/// What is wrong with an application, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionLine {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// The beginning of its message, without credentials.
    pub message: String,
}

/// Where objects go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DestinationLine {
    /// The cluster, by its URL or its name.
    pub cluster: String,
    /// The namespace of what names none; may be empty.
    pub namespace: String,
}

/// Where manifests come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceLine {
    /// The repository, without credentials.
    #[serde(rename = "repoURL")]
    pub repo_url: String,
    /// A folder in it, or the name of a chart.
    pub path: String,
    /// Branch, tag, commit or constraint; may be empty.
    pub target_revision: String,
}

/// Whether an application is synced by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicyLine {
    /// It is not.
    Manual,
    /// It is.
    Auto,
    /// It is, and what is no longer in the manifests is deleted.
    AutoPrune,
}

/// An operation in one line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationLine {
    /// Its id; nothing until it has one.
    pub id: Option<OperationId>,
    /// How it stands.
    pub phase: OperationPhase,
    /// Why, and what it waits for.
    pub message: String,
    /// When it began; nothing until it has.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// Nothing is written to the cluster.
    pub dry_run: bool,
    /// Who asked; `automated` for nobody.
    pub by: String,
    /// Why; empty where they have not said it.
    pub reason: String,
}

/// Whether sync windows let an application be synced now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowLine {
    /// By itself.
    pub automated: bool,
    /// When somebody asks for it.
    pub manual: bool,
    /// Which windows are in the way, and until when; nothing where none is.
    pub reason: Option<String>,
}

/// The words of Argo CD's command line.
impl fmt::Display for WindowLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.automated, self.manual) {
            (true, _) => "Sync Allowed",
            (false, true) => "Manual Allowed",
            (false, false) => "Sync Denied",
        })?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}

/// So many characters of a message are in a line: lists have thousands of them.
const MESSAGE_MAX: usize = 240;
/// An operation that was asked for a moment ago.
const ASKED: &str = "asked for, and not begun yet";

impl From<&Application> for ApplicationLine {
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
            project: project(application).to_owned(),
            labels: application.metadata.labels.clone(),
            destination: DestinationLine {
                cluster: cluster.clone(),
                namespace: destination.namespace.clone(),
            },
            sources: application.sources().iter().map(source).collect(),
            sync: sync.map(|sync| sync.status).unwrap_or_default(),
            revision: sync
                .map(|sync| revisions(&sync.revision, &sync.revisions).join(BETWEEN))
                .unwrap_or_default(),
            health: self::health(application),
            health_message: health.map(|health| health.message.clone()).unwrap_or_default(),
            policy: match automated(application) {
                None => SyncPolicyLine::Manual,
                Some(automated) if automated.prune == Some(true) => SyncPolicyLine::AutoPrune,
                Some(_) => SyncPolicyLine::Auto,
            },
            conditions,
            condition: condition_line(&status.conditions),
            operation: operation_line(application),
            plan: waiting_plan(application).map(str::to_owned),
            reconciled_at: status.reconciled_at,
            deleting: application.is_deleting(),
            set: set_of(application).map(str::to_owned),
            awaits: None,
        }
    }
}

impl ApplicationLine {
    /// The line of an application, with what it waits for in the progressive sync of its set.
    pub fn with_sets(application: &Application, sets: Option<&SetServing>) -> Self {
        Self { awaits: sets.and_then(|sets| sets.awaits(application)), ..application.into() }
    }
}

/// The first error, or else the first of all.
fn condition_line(all: &[ApplicationCondition]) -> Option<ConditionLine> {
    let condition = all.iter().find(|one| one.kind.is_error()).or(all.first())?;
    let message = one_line(&text_without_credentials(&condition.message));
    let mut shown: String = message.chars().take(MESSAGE_MAX).collect();
    if shown.len() < message.len() {
        shown.push('…');
    }
    Some(ConditionLine { kind: condition.kind.to_string(), message: shown })
}

fn source(source: &ApplicationSource) -> SourceLine {
    SourceLine {
        repo_url: without_credentials(&source.repo_url),
        path: if source.path.is_empty() { source.chart.clone() } else { source.path.clone() },
        target_revision: source.target_revision.clone(),
    }
}

/// The project of an application.
pub(crate) fn project(application: &Application) -> &str {
    match application.spec.project.as_str() {
        "" => "default",
        project => project,
    }
}

/// How well an application does.
pub(crate) fn health(application: &Application) -> HealthStatus {
    application.status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status)
}

fn operation_line(application: &Application) -> Option<OperationLine> {
    let by = |asked: &OperationRequest| asked.initiated_by.name().to_owned();
    let asked = application.operation.as_ref();
    let known = application.status.operation_state.as_ref();
    // What it waits for before it begins is known too.
    let waits = |asked: &OperationRequest| {
        known.is_some_and(|known| known.finished_at.is_none() && operation::is_same(&known.operation, asked))
    };
    let is_new = |id: Option<OperationId>| {
        id.is_none() || known.is_none_or(|known| id != operation::id(&known.operation))
    };
    match asked.map(|asked| (asked, operation::id(asked))) {
        Some((asked, id)) if is_new(id) && !waits(asked) => Some(OperationLine {
            id,
            phase: OperationPhase::Running,
            message: ASKED.to_owned(),
            started_at: None,
            finished_at: None,
            dry_run: asked.is_dry_run(),
            by: by(asked),
            reason: operation::reason(asked).to_owned(),
        }),
        _ => known.map(|known| OperationLine {
            id: operation::id(&known.operation),
            phase: known.phase,
            message: known.message.clone(),
            started_at: Some(known.started_at),
            finished_at: known.finished_at,
            dry_run: known.operation.is_dry_run(),
            by: by(&known.operation),
            reason: operation::reason(&known.operation).to_owned(),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(conditions: &Value) -> Option<(String, String)> {
        let status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
        let application = Application { status, ..Application::default() };
        ApplicationLine::from(&application).condition.map(|one| (one.kind, one.message))
    }

    #[test]
    fn the_gravest_condition_is_shown_in_one_short_line_without_credentials() {
        assert_eq!(shown(&json!([])), None);
        let warning = json!({"type": "SharedResourceWarning", "message": "it is shared"});
        let own = json!({"type": "ApprovalRequired", "message": "it waits"});
        let error = json!({"type": "ComparisonError", "message": "cannot read\nhttps://me:hunter2@example.com/a.git"});
        let said = |kind: &str, message: &str| Some((kind.to_owned(), message.to_owned()));
        assert_eq!(shown(&json!([own, warning])), said("ApprovalRequired", "it waits"));
        assert_eq!(
            shown(&json!([warning, error])),
            said("ComparisonError", "cannot read; https://******@example.com/a.git")
        );
        let long = json!([{"type": "SyncError", "message": "é".repeat(MESSAGE_MAX + 1)}]);
        assert_eq!(shown(&long), said("SyncError", &format!("{}…", "é".repeat(MESSAGE_MAX))));
    }
}
