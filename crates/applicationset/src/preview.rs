//! Previews of progressive syncs and deletions, computed by the state machines that execute them: a machine
//! is started, but not run any further.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::deletion::{RESOURCES_FINALIZER, is_resources_finalizer};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::fleet::assign_step;
use tidegate_lifecycle::rollout::{self, ProgressiveSync, RolloutView};
use tidegate_lifecycle::teardown::{self, MemberSpec, OrderedDeletion, TeardownView};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::change_preview::{ChangeKind, FieldChange, preview_with_references};
use crate::changes::AppSetOutput;
use crate::deletion::{outlive_reason, preservation_reason};
use crate::deletion_order::{InvalidOrder, deletion_order};
use crate::references::References;
use crate::rollout::ROLLOUT_REQUESTER;
use crate::rollout_steps::{InvalidStep, Step, parse_steps};
use crate::sync_policy::{AppSetRuleOptions, rolling_steps};

/// Error returned when a preview isn't possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreviewError {
    /// The deletion order is invalid.
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    /// A step of the progressive sync is invalid.
    #[error(transparent)]
    Step(#[from] InvalidStep),
    /// The state machine can't start.
    #[error("{0}")]
    NotStarted(String),
}

/// Changes to an ApplicationSet's Applications before its progressive sync starts, because the generators,
/// the template or the repositories have changed. Step numbers refer to the progressive sync and start at 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MembersPreview {
    /// Applications that would be created, by name.
    pub created: Vec<CreatedMember>,
    /// Applications whose fields would change, by name.
    pub changed: Vec<ChangedMember>,
    /// Applications that would be deleted because they are no longer generated, by name.
    pub deleted: Vec<DeletedMember>,
    /// Order of these deletions. Absent if nothing would be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionPreview>,
    /// Applications that are outdated or no longer generated but would be left unchanged, each with the
    /// reason.
    #[serde(rename = "withheld")]
    pub left: BTreeMap<String, String>,
    /// Problems that make the preview incomplete or block some of the changes.
    pub problems: Vec<String>,
}

/// Application that would be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedMember {
    /// Name of the Application.
    pub application: String,
    /// Step that selects the Application. Absent if no step selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

/// Application that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedMember {
    /// Name of the Application.
    pub application: String,
    /// Step that selects the Application after the change. Absent if no step selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// Changed fields. Secrets are masked.
    pub fields: Vec<FieldChange>,
}

/// Application that would be deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedMember {
    /// Name of the Application.
    pub application: String,
    /// Step that currently selects the Application. Absent if no step selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// True if the Application's objects are kept.
    pub keeps_objects: bool,
}

/// Preview of the deletion of an ApplicationSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPreview {
    /// Deletion steps, with the Applications that are deleted in each.
    #[serde(flatten)]
    pub deletion: TeardownView,
    /// Applications and objects that are kept.
    #[serde(rename = "remaining")]
    pub kept: Vec<RetainedMember>,
}

/// Applications or objects that are kept after a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Remainder")]
pub struct RetainedMember {
    /// Part of the Applications that is kept.
    #[serde(rename = "kind")]
    pub what: RetainedKind,
    /// Reason why the Applications or objects are kept.
    #[serde(rename = "reason")]
    pub why: String,
    /// Names of the Applications.
    pub applications: Vec<String>,
}

/// Part of an Application that is kept after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RemainderType")]
pub enum RetainedKind {
    /// The Application outlives the ApplicationSet along with all its objects.
    Application,
    /// The Application is deleted, but its objects are kept.
    Objects,
}

/// Returns the preview of a progressive sync.
///
/// # Errors
///
/// Fails if two Applications have the same name.
pub fn preview_rollout(request: rollout::Request, at: Timestamp) -> Result<RolloutView, PreviewError> {
    let state = start_machine::<ProgressiveSync>(&rollout::Input::Begin(Box::new(request)), at)?;
    rollout::view(&state).ok_or_else(nothing_to_preview)
}

/// Returns the changes that a reconciliation would make to an ApplicationSet's Applications, with the step
/// that selects each of them. `existing` are all existing Applications, including those of other owners.
/// Without a progressive sync, there are no steps.
///
/// # Errors
///
/// Fails if a step or the deletion order is invalid.
pub fn preview_members(
    set: &ApplicationSet,
    generated: &AppSetOutput,
    existing: &[Application],
    known: &dyn References,
    options: &AppSetRuleOptions,
    at: Timestamp,
) -> Result<MembersPreview, PreviewError> {
    let steps = parse_steps("spec.strategy.rollingSync", rolling_steps(set))?;
    let foreseen = preview_with_references(set, generated, existing, &BTreeMap::new(), known, options);
    let mut preview = MembersPreview { left: foreseen.retained, ..MembersPreview::default() };
    preview.problems = generated.errors.iter().cloned().chain(foreseen.problems).collect();
    for (application, change) in foreseen.members {
        let step = generated.applications.get(&application).and_then(|one| step_of(&steps, one));
        match change.what {
            ChangeKind::Created => preview.created.push(CreatedMember { application, step }),
            ChangeKind::Changed => {
                preview.changed.push(ChangedMember { application, step, fields: change.fields });
            }
            ChangeKind::LeftAlone => drop(preview.left.insert(application, change.why.unwrap_or_default())),
            ChangeKind::Unchanged => {}
        }
    }
    let deleted = foreseen.removed.iter().map(|one| DeletedMember {
        application: one.metadata.name.clone(),
        step: step_of(&steps, one),
        keeps_objects: retains_objects(set, one),
    });
    preview.deleted = deleted.collect();
    if !foreseen.removed.is_empty() {
        preview.deletion = Some(preview_deletion(set, &foreseen.removed, options, at)?);
    }
    Ok(preview)
}

/// Returns the number of the step that selects an Application, counting from 1.
fn step_of(steps: &[Step], application: &Application) -> Option<u32> {
    let expressions = steps.iter().map(|step| step.expressions.as_slice());
    assign_step(expressions, &application.metadata.labels).step.map(|step| step.saturating_add(1))
}

/// Returns the preview of deleting an ApplicationSet's Applications. Those that exist only in the output have
/// no UID yet.
///
/// # Errors
///
/// Fails if the order is invalid or if two Applications have the same name.
pub fn preview_deletion<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    options: &AppSetRuleOptions,
    at: Timestamp,
) -> Result<DeletionPreview, PreviewError> {
    let mut members: Vec<&Application> = members.into_iter().collect();
    let mut kept = BTreeMap::<_, Vec<String>>::new();
    let outlived = outlive_reason(set, options);
    for member in &members {
        let stays = match &outlived {
            Some(reason) => Some((RetainedKind::Application, reason.clone())),
            None => object_retention_reason(set, member).map(|reason| (RetainedKind::Objects, reason)),
        };
        if let Some(stays) = stays {
            kept.entry(stays).or_default().push(member.metadata.name.clone());
        }
    }
    if outlived.is_some() {
        members.clear();
    }
    let kept = kept.into_iter().map(|((what, why), mut applications)| {
        applications.sort_unstable();
        RetainedMember { what, why, applications }
    });
    Ok(DeletionPreview { deletion: preview_ordered_deletion(set, members, at)?, kept: kept.collect() })
}

/// Returns true if an Application's objects are kept when the ApplicationSet deletes it.
pub fn retains_objects(set: &ApplicationSet, member: &Application) -> bool {
    object_retention_reason(set, member).is_some()
}

/// Returns the reason an Application's objects are kept when it is deleted along with its ApplicationSet.
fn object_retention_reason(set: &ApplicationSet, member: &Application) -> Option<String> {
    let has_finalizer = member.metadata.finalizers.iter().any(|one| is_resources_finalizer(one));
    let missing = || (!has_finalizer).then(|| format!("no finalizer {RESOURCES_FINALIZER}"));
    preservation_reason(set).or_else(missing)
}

fn preview_ordered_deletion<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    at: Timestamp,
) -> Result<TeardownView, PreviewError> {
    let member = |one: &Application| MemberSpec {
        name: one.metadata.name.clone(),
        uid: one.metadata.uid.clone(),
        labels: one.metadata.labels.clone(),
    };
    let request = teardown::Request {
        set: format!("{}/{}", set.metadata.namespace_or_default(), set.metadata.name),
        uid: set.metadata.uid.clone(),
        by: ROLLOUT_REQUESTER.to_owned(),
        order: deletion_order(set)?,
        members: members.into_iter().map(member).collect(),
        options: teardown::Options::default(),
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    };
    let state = start_machine::<OrderedDeletion>(&teardown::Input::Begin(Box::new(request)), at)?;
    teardown::view(&state).ok_or_else(nothing_to_preview)
}

fn start_machine<M: Machine>(begin: &M::Input, at: Timestamp) -> Result<M::State, PreviewError> {
    let events = M::decide(&M::State::default(), begin, at);
    let events = events.map_err(|rejection| PreviewError::NotStarted(rejection.to_string()))?;
    let state = events.iter().try_fold(M::State::default(), M::apply);
    state.map_err(|illegal| PreviewError::NotStarted(illegal.to_string()))
}

fn nothing_to_preview() -> PreviewError {
    PreviewError::NotStarted("nothing has started".to_owned())
}
