//! Preview of the changes to each Application: the same comparison as in the service, without writes.

mod field_changes;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::credentials::application_without_credentials;
use tidegate_model::HealthStatus;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSet, SyncStatusCode};

use crate::changes::{AppSetChanges, AppSetOutput, UnchangedReason, reconcile};
use crate::ownership::{Owner, applications_in_namespace, owner_of};
use crate::references::{References, UnresolvedCluster};
use crate::sync_policy::AppSetRuleOptions;

pub use field_changes::FieldChange;

/// Preview of an ApplicationSet's Applications.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppSetPreview {
    /// Previews of the generated Applications, by name.
    pub members: BTreeMap<String, MemberPreview>,
    /// Applications that would be deleted because they are no longer generated.
    pub removed: Vec<Application>,
    /// Applications that are no longer generated but would be kept, with the reasons.
    pub retained: BTreeMap<String, String>,
    /// Problems of the ApplicationSet that block some of the changes.
    pub problems: Vec<String>,
}

/// Preview of an Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberPreview {
    /// Type of change.
    #[serde(rename = "kind")]
    pub what: ChangeKind,
    /// Reason why the Application is not changed. Absent for all types of change except `LeftAlone`.
    #[serde(rename = "reason", skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Fields that would change.
    pub fields: Vec<FieldChange>,
    /// Current state. Absent if the Application doesn't exist.
    #[serde(rename = "current", skip_serializing_if = "Option::is_none")]
    pub now: Option<MemberState>,
}

/// Type of change to an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// The Application would be created.
    Created,
    /// The Application's fields would change, or it would deploy a different revision.
    Changed,
    /// The Application is up to date.
    Unchanged,
    /// The Application differs from the output but would not be changed.
    #[serde(rename = "withheld")]
    LeftAlone,
}

/// State of an Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberState {
    /// Last deployed revisions, one per source. Empty if nothing has been deployed.
    #[serde(rename = "deployedRevisions")]
    pub deployed: Vec<String>,
    /// Sync status.
    pub sync: SyncStatusCode,
    /// Health. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthStatus>,
    /// True if `sync` and `outOfSync` were determined for the new target rather than an earlier target.
    #[serde(rename = "isForTarget")]
    pub is_of_target: bool,
    /// Number of resources that are out of sync.
    pub out_of_sync: usize,
    /// Number of resources that were compared.
    pub resources: usize,
}

/// References that accept any project and cluster, because only the service knows which exist.
struct AcceptAllReferences;

impl References for AcceptAllReferences {
    fn has_project(&self, _: &str) -> bool {
        true
    }

    fn check_destination(&self, _: &ApplicationDestination) -> Result<(), UnresolvedCluster> {
        Ok(())
    }
}

/// Returns the preview for the existing and the generated Applications. URLs in existing Applications have no
/// credentials. They are removed from the generated ones too, so changes to them don't show. `targets` are
/// the revisions that each Application would deploy, if known.
pub fn preview_appset(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    existing: &[Application],
    targets: &BTreeMap<&str, Vec<String>>,
    options: &AppSetRuleOptions,
) -> AppSetPreview {
    preview_with_references(set, generated, existing, targets, &AcceptAllReferences, options)
}

/// Like [`preview_appset`], for callers that know the projects and clusters.
pub fn preview_with_references(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    existing: &[Application],
    targets: &BTreeMap<&str, Vec<String>>,
    known: &dyn References,
    options: &AppSetRuleOptions,
) -> AppSetPreview {
    let bare = |(name, one): (&String, &Application)| (name.clone(), application_without_credentials(one));
    let applications: BTreeMap<String, Application> = generated.applications.iter().map(bare).collect();
    let generated = AppSetOutput { applications, ..generated.clone() };
    let existing: Vec<Application> = existing.iter().map(application_without_credentials).collect();
    let changes = reconcile(set, Ok(&generated), &existing, known, options);
    let there: BTreeMap<&str, &Application> =
        applications_in_namespace(set, &existing).map(|one| (one.metadata.name.as_str(), one)).collect();
    let mut foreseen = AppSetPreview {
        problems: changes.problems.iter().map(ToString::to_string).collect(),
        removed: changes.delete.iter().map(|one| one.application.clone()).collect(),
        ..AppSetPreview::default()
    };
    for name in generated.applications.keys().chain(generated.rejected.keys()) {
        let target = targets.get(name.as_str()).map(Vec::as_slice);
        let change = preview_member(&changes, name, there.get(name.as_str()).copied(), target);
        foreseen.members.insert(name.clone(), change);
    }
    let is_member = |name: &&str| there.get(*name).is_some_and(|one| owner_of(set, one) == Owner::AppSet);
    for (name, left) in &changes.unchanged {
        if !foreseen.members.contains_key(name) && is_member(&name.as_str()) {
            foreseen.retained.insert(name.clone(), left.to_string());
        }
    }
    foreseen
}

fn preview_member(
    changes: &AppSetChanges,
    name: &str,
    there: Option<&Application>,
    target: Option<&[String]>,
) -> MemberPreview {
    let of_name = |one: &&Application| one.metadata.name == name;
    let updated = changes.update.iter().find(of_name);
    let fields = there.zip(updated).map(|(there, updated)| field_changes::changed_fields(there, updated));
    let is_update = fields.is_some();
    let fields = fields.unwrap_or_default();
    let has_other_spec = fields.iter().any(|one| one.field.starts_with("spec"));
    let now = there.map(|there| member_state(there, target.filter(|_| !has_other_spec)));
    let is_other_revision = || now.as_ref().zip(target).is_some_and(|(now, target)| now.deployed != target);
    let (what, why) = match changes.unchanged.get(name) {
        Some(UnchangedReason::Unchanged) if is_other_revision() => (ChangeKind::Changed, None),
        Some(UnchangedReason::Unchanged) => (ChangeKind::Unchanged, None),
        Some(other) => (ChangeKind::LeftAlone, Some(other.to_string())),
        None if is_update => (ChangeKind::Changed, None),
        None => (ChangeKind::Created, None),
    };
    MemberPreview { what, why, fields, now }
}

/// Returns the state of an Application. `target` lists the revisions that it would deploy if its spec didn't
/// change.
fn member_state(application: &Application, target: Option<&[String]>) -> MemberState {
    let status = &application.status;
    let of = |revision: &str, revisions: &[String]| match revisions {
        [] if revision.is_empty() => Vec::new(),
        [] => vec![revision.to_owned()],
        several => several.to_vec(),
    };
    let deployed = status.history.last().map(|last| of(&last.revision, &last.revisions));
    let compared = status.sync.as_ref().map(|sync| of(&sync.revision, &sync.revisions));
    let compared_resources = status.resources.iter().filter_map(|one| one.status);
    MemberState {
        deployed: deployed.unwrap_or_default(),
        sync: status.sync.as_ref().map(|sync| sync.status).unwrap_or_default(),
        health: status.health.as_ref().map(|health| health.status),
        is_of_target: compared.as_deref().is_some_and(|compared| Some(compared) == target),
        out_of_sync: compared_resources.clone().filter(|one| *one == SyncStatusCode::OutOfSync).count(),
        resources: compared_resources.count(),
    }
}
