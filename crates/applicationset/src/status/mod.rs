//! What the status of a set says.

mod conditions;
mod members;

use tidegate_model::Timestamp;
use tidegate_model::argo::{
    API_VERSION, Application, ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetStatus,
    HealthState, ResourceStatus, Rest,
};

use crate::policy::{Options, is_progressive, is_rolling_sync};
use crate::unheeded::unheeded;
pub use conditions::{FOREGROUND, Failure, Reason};

/// How a set stands, after its Applications were looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen<'a> {
    /// Whether its parameters could be generated.
    pub is_generated: bool,
    /// What went wrong, if anything did: with generating, with its Applications, or when they were written.
    pub failure: Option<Failure>,
    /// Its Applications as they are now, in any order.
    pub members: Vec<&'a Application>,
    /// Its progressive sync.
    pub rollout: Rollout,
    /// What its deletion meets that somebody should know.
    pub warning: Option<String>,
}

/// How the progressive sync of a set stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rollout {
    /// Nothing new is known of it: what was said stays, of Applications that are still there.
    #[default]
    Unknown,
    /// It stands like this.
    Known {
        /// Whether it is under way.
        is_progressing: bool,
        /// Why, in one word.
        reason: String,
        /// Where it is, in words.
        message: String,
        /// What keeps it back that somebody should know.
        warning: Option<String>,
        /// Its Applications, in any order.
        members: Vec<ApplicationSetApplicationStatus>,
    },
}

/// The status of a set; `None` where it says that already, and nothing is to be written.
pub fn status(
    set: &ApplicationSet,
    seen: &Seen<'_>,
    options: &Options,
    now: Timestamp,
) -> Option<ApplicationSetStatus> {
    let before = &set.status;
    let rolls = is_rolling_sync(set) && options.progressive_syncs;
    let unheeded = unheeded(set, options);
    let conditions = conditions::conditions(&before.conditions, seen, (rolls, &unheeded), now);
    let application_status = match is_progressive(set, options) {
        true => members::members(&before.application_status, seen),
        false => Vec::new(),
    };
    let (resources, resources_count) = resources(seen, options);
    let status = ApplicationSetStatus {
        health: Some(conditions::health(&conditions, before.health.as_ref(), now)),
        conditions,
        application_status,
        resources,
        resources_count,
        rest: before.rest.clone(),
    };
    (status != *before).then_some(status)
}

/// The Applications of a set, up to a number of them, and how many they are.
fn resources(seen: &Seen<'_>, options: &Options) -> (Vec<ResourceStatus>, i64) {
    let mut members = seen.members.clone();
    members.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
    let most = if options.resources_max == 0 { usize::MAX } else { options.resources_max };
    (members.into_iter().take(most).map(resource).collect(), count)
}

fn resource(application: &Application) -> ResourceStatus {
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
            rest: Rest::new(),
        }),
        ..ResourceStatus::default()
    }
}
