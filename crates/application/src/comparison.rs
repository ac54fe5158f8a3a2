//! What a comparison with the cluster means for the status.

use std::collections::BTreeSet;

use tidegate_model::argo::{
    Application, ApplicationStatus, ApplicationSummary, ConditionType, GROUP, HealthState, ResourceStatus,
    Rest, SyncStatus, SyncStatusCode,
};
use tidegate_model::{HealthStatus, Object, Phase, Timestamp};

use crate::conditions;
use crate::hook_finalizers;
use crate::refresh::{Level, compared_to};
use crate::sources::Sources;

/// The kinds of conditions that a comparison finds.
const FOUND: [ConditionType; 6] = [
    ConditionType::ComparisonError,
    ConditionType::InvalidSpecError,
    ConditionType::UnknownError,
    ConditionType::SharedResourceWarning,
    ConditionType::RepeatedResourceWarning,
    ConditionType::ExcludedResourceWarning,
];

/// A gate that never opens, because nobody has defined it.
pub fn undefined_gate() -> ConditionType {
    ConditionType::Other("UndefinedGateWarning".to_owned())
}

/// A condition of our own: manifests say what has no effect, or is probably not what was meant.
pub fn manifest_warning() -> ConditionType {
    ConditionType::Other("ManifestWarning".to_owned())
}

fn found() -> Vec<ConditionType> {
    FOUND.into_iter().chain([undefined_gate(), manifest_warning()]).collect()
}

/// One resource, as it was compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// What the status says of it.
    pub status: ResourceStatus,
    /// It is in the cluster.
    pub is_live: bool,
    /// It is out of sync, and asks not to count (`IgnoreExtraneous`), or may be another's.
    pub is_ignored: bool,
    /// Its health does not count (`ignore-healthcheck`).
    pub is_healthy_anyway: bool,
    /// Images of its containers, as they are in the cluster.
    pub images: Vec<String>,
    /// Where it is reached from outside the cluster.
    pub urls: Vec<String>,
    /// The rule that judges its health, where its annotations make that another than its kind has; empty: none does.
    pub own_rule: Option<Box<str>>,
    /// The version of the object that was compared, where that is known.
    pub version: Option<Version>,
}

/// The version of an object, as its cluster counts: with another one, it may be another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(Box<str>);

impl Version {
    /// That of an object, if its cluster tells.
    pub fn of(object: &Object) -> Option<Self> {
        let version = object.resource_version();
        (!version.is_empty()).then(|| Self(version.into()))
    }
}

/// What became of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was made.
    Compared {
        /// With these revisions, one for each source.
        revisions: Vec<String>,
        /// What made the manifests of each source.
        source_types: Vec<String>,
        /// The resources, in any order.
        resources: Vec<Resource>,
        /// In which phases of its deletion hooks would run.
        deletion_hooks: BTreeSet<Phase>,
        /// What was found beside.
        warnings: Vec<(ConditionType, String)>,
    },
    /// It could not be made.
    Failed {
        /// With these revisions; none where even those could not be told.
        revisions: Vec<String>,
        /// Of which kind the reason is.
        kind: ConditionType,
        /// Why not.
        message: String,
        /// What the cluster has of the resources that are known; nothing where nobody looked.
        seen: Vec<Resource>,
    },
}

impl Outcome {
    /// A comparison that could not be made, and nobody looked at the cluster.
    pub fn failed(kind: ConditionType, message: String) -> Self {
        Self::Failed { revisions: Vec::new(), kind, message, seen: Vec::new() }
    }
}

/// Whether all that counts is in sync. An application without resources is.
pub fn sync_status(resources: &[Resource]) -> SyncStatusCode {
    let of = |code| {
        let counts = |resource: &&Resource| !resource.is_ignored && !resource.status.hook;
        resources.iter().filter(counts).any(|resource| resource.status.status == Some(code))
    };
    match (of(SyncStatusCode::Unknown), of(SyncStatusCode::OutOfSync)) {
        (true, _) => SyncStatusCode::Unknown,
        (false, true) => SyncStatusCode::OutOfSync,
        (false, false) => SyncStatusCode::Synced,
    }
}

/// The worst health of all that counts. What is missing does not, unless nothing is there at all.
pub fn health(resources: &[Resource]) -> HealthStatus {
    let counted: Vec<&Resource> = resources
        .iter()
        .filter(|one| !one.status.hook && !one.is_healthy_anyway && !one.is_ignored)
        .collect();
    if !counted.is_empty() && counted.iter().all(|one| !one.is_live) {
        return HealthStatus::Missing;
    }
    let judged = counted.iter().filter(|one| one.is_live).filter_map(|one| one.status.health.as_ref());
    judged.map(|health| health.status).max().unwrap_or(HealthStatus::Healthy)
}

/// Takes the outcome of a comparison into the status.
pub fn take_in(application: &mut Application, outcome: Outcome, level: Level, now: Timestamp) {
    let compared_to = Some(compared_to(application));
    let sources = Sources::of(application);
    let status = &mut application.status;
    let (revisions, code, health) = match outcome {
        Outcome::Compared { revisions, source_types, mut resources, deletion_hooks, warnings } => {
            // Nobody may add one to what is being deleted.
            if application.metadata.deletion_timestamp.is_none() {
                hook_finalizers::ask(&mut application.metadata.finalizers, &deletion_hooks);
            }
            conditions::set(&mut status.conditions, &found(), warnings, now);
            let (code, health) = (sync_status(&resources), health(&resources));
            status.summary = summary(&mut resources);
            set_resources(status, resources);
            (status.source_type, status.source_types) = sources.revisions(&source_types);
            (revisions, code, Some(health))
        }
        Outcome::Failed { revisions, kind, message, seen } => {
            // What is wanted cannot be told; what is there can, where what is asked for makes sense.
            let is_invalid = kind != ConditionType::ComparisonError;
            conditions::set(&mut status.conditions, &found(), [(kind, message)], now);
            let health = match seen.is_empty() {
                _ if is_invalid => Some(HealthStatus::Unknown),
                true => status.health.is_none().then_some(HealthStatus::Unknown),
                false => Some(health(&seen)),
            };
            if !is_invalid && !seen.is_empty() {
                set_resources(status, seen);
            }
            (revisions, SyncStatusCode::Unknown, health)
        }
    };
    let before = status.sync.take().unwrap_or_default();
    let (revision, revisions) = sources.revisions(&revisions);
    status.sync = Some(SyncStatus { status: code, compared_to, revision, revisions, rest: before.rest });
    if let Some(health) = health {
        set_health(status, health, now);
    }
    if status.reconciled_at.is_none() || level >= Level::Latest {
        status.reconciled_at = Some(now.into());
    }
}

fn summary(resources: &mut [Resource]) -> ApplicationSummary {
    let mut all = |of: fn(&mut Resource) -> &mut Vec<String>| -> Vec<String> {
        let each: BTreeSet<String> = resources.iter_mut().flat_map(|one| std::mem::take(of(one))).collect();
        each.into_iter().collect()
    };
    let (images, external_urls) = (all(|one| &mut one.images), all(|one| &mut one.urls));
    let is_application = |one: &Resource| one.status.group == GROUP && one.status.kind == "Application";
    ApplicationSummary {
        images,
        external_urls,
        is_app_of_apps: resources.iter().any(is_application),
        rest: Rest::new(),
    }
}

/// What is written down of an application cannot be used: it is left alone, and what is known of it stays.
pub fn refuse(application: &mut Application, message: String, now: Timestamp) {
    let status = &mut application.status;
    conditions::set(&mut status.conditions, &found(), [(ConditionType::InvalidSpecError, message)], now);
    status.sync.get_or_insert_default();
    if status.health.is_none() {
        set_health(status, HealthStatus::Unknown, now);
    }
}

fn set_resources(status: &mut ApplicationStatus, mut resources: Vec<Resource>) {
    resources.sort_by(|a, b| order(&a.status).cmp(&order(&b.status)));
    status.resources = resources.into_iter().map(|one| one.status).collect();
}

fn order(resource: &ResourceStatus) -> (&str, &str, &str, &str) {
    (&resource.group, &resource.kind, &resource.namespace, &resource.name)
}

/// The time of a health is that of its last change.
pub(crate) fn set_health(status: &mut ApplicationStatus, health: HealthStatus, now: Timestamp) {
    if status.health.as_ref().is_none_or(|before| before.status != health) {
        let rest = status.health.take().map(|before| before.rest).unwrap_or_default();
        let last_transition_time = Some(now.into());
        status.health =
            Some(HealthState { status: health, message: String::new(), last_transition_time, rest });
    }
}
