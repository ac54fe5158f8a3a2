//! Updates an application's status after a comparison.

use std::collections::BTreeSet;

use tidegate_model::argo::{
    Application, ApplicationStatus, ApplicationSummary, ConditionType, GROUP, HealthState, ResourceStatus,
    SyncStatus, SyncStatusCode, UnknownFields,
};
use tidegate_model::{HealthStatus, Object, Phase, Timestamp};

use crate::conditions;
use crate::hook_finalizers;
use crate::refresh::{RefreshLevel, compared_to};
use crate::sources::Sources;

/// Maximum number of characters of a resource's message to include in the application's health message.
const REASON_CHARACTERS_MAX: usize = 400;
/// Condition types that a comparison sets.
const COMPARISON_CONDITIONS: [ConditionType; 6] = [
    ConditionType::ComparisonError,
    ConditionType::InvalidSpecError,
    ConditionType::UnknownError,
    ConditionType::SharedResourceWarning,
    ConditionType::RepeatedResourceWarning,
    ConditionType::ExcludedResourceWarning,
];

/// Returns the condition type for an undefined gate, which never opens.
pub fn undefined_gate_condition() -> ConditionType {
    ConditionType::Other("UndefinedGateWarning".to_owned())
}

/// Returns Tidegate's condition type for manifest settings that have no effect or are probably mistakes.
pub fn manifest_warning_condition() -> ConditionType {
    ConditionType::Other("ManifestWarning".to_owned())
}

fn comparison_conditions() -> Vec<ConditionType> {
    COMPARISON_CONDITIONS
        .into_iter()
        .chain([undefined_gate_condition(), manifest_warning_condition()])
        .collect()
}

/// Resource with the result of its comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparedResource {
    /// Entry for the resource in the status.
    pub status: ResourceStatus,
    /// True if the resource exists in the cluster.
    pub is_live: bool,
    /// True if the resource may be out of sync without affecting the application's status, because it has
    /// `IgnoreExtraneous` or may belong to another application.
    pub is_ignored: bool,
    /// True if the resource doesn't count towards the application's health (`ignore-healthcheck`).
    pub is_health_ignored: bool,
    /// Images of the resource's containers in the cluster.
    pub images: Vec<String>,
    /// URLs of the resource outside the cluster.
    pub urls: Vec<String>,
    /// Health rule from the resource's annotations, which overrides the rule for its kind. Empty if the
    /// annotations disable the rule.
    pub custom_health_rule: Option<Box<str>>,
    /// Version of the compared object, if known.
    pub version: Option<ObjectVersion>,
    /// Time at which the resource's health changes even if the object doesn't.
    pub health_changes_at: Option<Timestamp>,
}

/// Version of an object in its cluster. Two objects with different versions may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion(Box<str>);

impl ObjectVersion {
    /// Returns the version of an object, if its cluster provides one.
    pub fn from_object(object: &Object) -> Option<Self> {
        let version = object.resource_version();
        (!version.is_empty()).then(|| Self(version.into()))
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum ComparisonOutcome {
    /// The comparison succeeded.
    Compared {
        /// Revisions that were compared, one per source.
        revisions: Vec<String>,
        /// Type of each source, in source order.
        source_types: Vec<String>,
        /// Compared resources, in any order.
        resources: Vec<ComparedResource>,
        /// Deletion phases that have hooks in the manifests.
        deletion_hooks: BTreeSet<Phase>,
        /// Warnings found during the comparison.
        warnings: Vec<(ConditionType, String)>,
    },
    /// The comparison failed.
    Failed {
        /// Revisions that were compared. Empty if unknown.
        revisions: Vec<String>,
        /// Condition type that describes the failure.
        kind: ConditionType,
        /// Message that describes the failure.
        message: String,
        /// Cluster state of the resources that are already in the status. Empty if the cluster wasn't read.
        live_resources: Vec<ComparedResource>,
    },
}

impl ComparisonOutcome {
    /// Returns the earliest time at which any resource's health changes even if its object doesn't.
    pub fn health_changes_at(&self) -> Option<Timestamp> {
        let (Self::Compared { resources, .. } | Self::Failed { live_resources: resources, .. }) = self;
        resources.iter().filter_map(|resource| resource.health_changes_at).min()
    }

    /// Creates the result of a comparison that failed before reading the cluster.
    pub fn without_cluster_state(kind: ConditionType, message: String) -> Self {
        Self::Failed { revisions: Vec::new(), kind, message, live_resources: Vec::new() }
    }
}

/// Returns the combined sync status of all resources that aren't ignored. An application without resources is
/// Synced.
pub fn sync_status(resources: &[ComparedResource]) -> SyncStatusCode {
    let of = |code| {
        let counts = |resource: &&ComparedResource| !resource.is_ignored && !resource.status.hook;
        resources.iter().filter(counts).any(|resource| resource.status.status == Some(code))
    };
    match (of(SyncStatusCode::Unknown), of(SyncStatusCode::OutOfSync)) {
        (true, _) => SyncStatusCode::Unknown,
        (false, true) => SyncStatusCode::OutOfSync,
        (false, false) => SyncStatusCode::Synced,
    }
}

/// Returns the worst health of all resources that aren't ignored. Missing resources don't count either,
/// unless all of them are missing.
pub fn application_health(resources: &[ComparedResource]) -> HealthStatus {
    let counted: Vec<&ComparedResource> = resources_with_health(resources).collect();
    if !counted.is_empty() && counted.iter().all(|one| !one.is_live) {
        return HealthStatus::Missing;
    }
    let judged = counted.iter().filter(|one| one.is_live).filter_map(|one| one.status.health.as_ref());
    judged.map(|health| health.status).max().unwrap_or(HealthStatus::Healthy)
}

/// Returns the resources that affect the application's health.
fn resources_with_health(resources: &[ComparedResource]) -> impl Iterator<Item = &ComparedResource> {
    resources.iter().filter(|one| !one.status.hook && !one.is_health_ignored && !one.is_ignored)
}

/// Returns the reason an application is Degraded: the first Degraded resource in status order, and how many
/// more there are. Empty for any other health.
fn degraded_reason(resources: &[ComparedResource], health: HealthStatus) -> String {
    if health != HealthStatus::Degraded {
        return String::new();
    }
    let is_degraded = |one: &&ComparedResource| {
        one.is_live
            && one.status.health.as_ref().is_some_and(|health| health.status == HealthStatus::Degraded)
    };
    let Some(first) =
        resources_with_health(resources).filter(is_degraded).min_by_key(|one| resource_sort_key(&one.status))
    else {
        return String::new();
    };
    let ResourceStatus { kind, namespace, name, health, .. } = &first.status;
    let place = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let why: String =
        health.iter().flat_map(|health| health.message.chars()).take(REASON_CHARACTERS_MAX).collect();
    let what =
        if why.is_empty() { format!("{kind} {place} is Degraded") } else { format!("{kind} {place}: {why}") };
    match resources_with_health(resources).filter(is_degraded).count().saturating_sub(1) {
        0 => what,
        more => format!("{what} (and {more} more)"),
    }
}

/// Updates the status with the result of a comparison.
pub fn apply_comparison(
    application: &mut Application,
    outcome: ComparisonOutcome,
    level: RefreshLevel,
    now: Timestamp,
) {
    let compared_to = Some(compared_to(application));
    let sources = Sources::from_application(application);
    let status = &mut application.status;
    let (revisions, code, health) = match outcome {
        ComparisonOutcome::Compared { revisions, source_types, mut resources, deletion_hooks, warnings } => {
            // The API server rejects new finalizers on an object that is being deleted.
            if application.metadata.deletion_timestamp.is_none() {
                hook_finalizers::set_hook_finalizers(&mut application.metadata.finalizers, &deletion_hooks);
            }
            conditions::set_conditions(&mut status.conditions, &comparison_conditions(), warnings, now);
            let (code, health) = (sync_status(&resources), health_with_reason(&resources));
            status.summary = summarize(&mut resources);
            set_resources(status, resources);
            (status.source_type, status.source_types) = sources.revision_fields(&source_types);
            (revisions, code, Some(health))
        }
        ComparisonOutcome::Failed { revisions, kind, message, live_resources: seen } => {
            // The desired state is unknown, but the live state is known if the spec is valid.
            let is_invalid = kind != ConditionType::ComparisonError;
            conditions::set_conditions(
                &mut status.conditions,
                &comparison_conditions(),
                [(kind, message)],
                now,
            );
            let health = match seen.is_empty() {
                _ if is_invalid => Some(unknown_health()),
                true => status.health.is_none().then(unknown_health),
                false => Some(health_with_reason(&seen)),
            };
            if !is_invalid && !seen.is_empty() {
                set_resources(status, seen);
            }
            (revisions, SyncStatusCode::Unknown, health)
        }
    };
    let before = status.sync.take().unwrap_or_default();
    let (revision, revisions) = sources.revision_fields(&revisions);
    status.sync = Some(SyncStatus { status: code, compared_to, revision, revisions, rest: before.rest });
    if let Some((health, reason)) = health {
        set_health(status, health, reason, now);
    }
    if status.reconciled_at.is_none() || level >= RefreshLevel::Latest {
        status.reconciled_at = Some(now.into());
    }
}

fn health_with_reason(resources: &[ComparedResource]) -> (HealthStatus, String) {
    let health = application_health(resources);
    (health, degraded_reason(resources, health))
}

fn unknown_health() -> (HealthStatus, String) {
    (HealthStatus::Unknown, String::new())
}

fn summarize(resources: &mut [ComparedResource]) -> ApplicationSummary {
    let mut all = |of: fn(&mut ComparedResource) -> &mut Vec<String>| -> Vec<String> {
        let each: BTreeSet<String> = resources.iter_mut().flat_map(|one| std::mem::take(of(one))).collect();
        each.into_iter().collect()
    };
    let (images, external_urls) = (all(|one| &mut one.images), all(|one| &mut one.urls));
    let is_application =
        |one: &ComparedResource| one.status.group == GROUP && one.status.kind == "Application";
    ApplicationSummary {
        images,
        external_urls,
        is_app_of_apps: resources.iter().any(is_application),
        rest: UnknownFields::new(),
    }
}

/// Records that the spec is unusable. The application isn't synced, and the rest of its status stays as it
/// is.
pub fn record_invalid_spec(application: &mut Application, message: String, now: Timestamp) {
    let status = &mut application.status;
    conditions::set_conditions(
        &mut status.conditions,
        &comparison_conditions(),
        [(ConditionType::InvalidSpecError, message)],
        now,
    );
    status.sync.get_or_insert_default();
    if status.health.is_none() {
        set_health(status, HealthStatus::Unknown, String::new(), now);
    }
}

fn set_resources(status: &mut ApplicationStatus, mut resources: Vec<ComparedResource>) {
    resources.sort_by(|a, b| resource_sort_key(&a.status).cmp(&resource_sort_key(&b.status)));
    status.resources = resources.into_iter().map(|one| one.status).collect();
}

fn resource_sort_key(resource: &ResourceStatus) -> (&str, &str, &str, &str) {
    (&resource.group, &resource.kind, &resource.namespace, &resource.name)
}

/// Sets the health. A new message alone doesn't change the transition time.
pub(crate) fn set_health(
    status: &mut ApplicationStatus,
    health: HealthStatus,
    reason: String,
    now: Timestamp,
) {
    match &mut status.health {
        Some(before) if before.status == health => before.message = reason,
        before => {
            let rest = before.take().map(|before| before.rest).unwrap_or_default();
            let last_transition_time = Some(now.into());
            *before = Some(HealthState { status: health, message: reason, last_transition_time, rest });
        }
    }
}
