//! Status of an ApplicationSet.

mod conditions;
mod members;

use tidegate_model::Timestamp;
use tidegate_model::argo::{
    API_VERSION, Application, ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetStatus,
    HealthState, ResourceStatus, UnknownFields,
};

use crate::ignored::ignored_settings;
use crate::sync_policy::{AppSetRuleOptions, is_progressive, is_rolling_sync};
pub use conditions::{ConditionReason, FOREGROUND_DELETION_REASON, ReconcileFailure};

/// State of an ApplicationSet after its Applications were reconciled.
#[derive(Clone, Debug, PartialEq)]
pub struct ReconciledState<'a> {
    /// True if the parameters were generated.
    pub is_generated: bool,
    /// Failure to generate, update or write the Applications, if any.
    pub failure: Option<ReconcileFailure>,
    /// Applications that currently exist, in any order.
    pub members: Vec<&'a Application>,
    /// State of the progressive sync.
    pub rollout: RolloutStatus,
    /// Warning about the deletion, if any.
    pub warning: Option<String>,
    /// Warnings about the generated Applications.
    pub output_warnings: &'a [String],
}

/// State of an ApplicationSet's progressive sync.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RolloutStatus {
    /// Unknown, so the recorded status of each existing Application is kept.
    #[default]
    Unknown,
    /// The state is known.
    Known {
        /// True if the progressive sync is running.
        is_progressing: bool,
        /// Reason for the `RolloutProgressing` condition.
        reason: String,
        /// Description of the progress.
        message: String,
        /// Warning about a delay, if any.
        warning: Option<String>,
        /// Status of each Application, in any order.
        members: Vec<ApplicationSetApplicationStatus>,
    },
}

/// Returns an ApplicationSet's new status, or `None` if it is unchanged.
pub fn new_status(
    set: &ApplicationSet,
    seen: &ReconciledState<'_>,
    options: &AppSetRuleOptions,
    now: Timestamp,
) -> Option<ApplicationSetStatus> {
    let before = &set.status;
    let rolls = is_rolling_sync(set) && options.progressive_syncs;
    let ignored = ignored_settings(set, options);
    let conditions = conditions::new_conditions(&before.conditions, seen, rolls, &ignored, now);
    let application_status = match is_progressive(set, options) {
        true => members::member_entries(&before.application_status, seen),
        false => Vec::new(),
    };
    let (resources, resources_count) = resource_entries(seen, options);
    let status = ApplicationSetStatus {
        health: Some(conditions::appset_health(&conditions, before.health.as_ref(), now)),
        conditions,
        application_status,
        resources,
        resources_count,
        rest: before.rest.clone(),
    };
    (status != *before).then_some(status)
}

/// Returns the entries for an ApplicationSet's Applications, up to the maximum, and the total number of
/// Applications.
fn resource_entries(seen: &ReconciledState<'_>, options: &AppSetRuleOptions) -> (Vec<ResourceStatus>, i64) {
    let mut members = seen.members.clone();
    members.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let most = if options.resources_max == 0 { usize::MAX } else { options.resources_max };
    (members.into_iter().take(most).map(resource_entry).collect(), count)
}

fn resource_entry(application: &Application) -> ResourceStatus {
    let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
    let status = &application.status;
    ResourceStatus {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: "Application".to_owned(),
        name: application.metadata.name.clone(),
        namespace: application.metadata.namespace.clone(),
        status: status.sync.as_ref().map(|sync| sync.status),
        health: status.health.as_ref().map(|health| HealthState {
            status: health.status,
            message: String::new(),
            last_transition_time: None,
            rest: UnknownFields::new(),
        }),
        ..ResourceStatus::default()
    }
}
