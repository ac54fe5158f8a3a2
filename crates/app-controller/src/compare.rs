//! Compares an Application with its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tidegate_application::AppKey;
use tidegate_application::automated_sync::PRUNE_DISABLED;
use tidegate_application::comparison::{self, ComparedResource, ComparisonOutcome, ObjectVersion};
use tidegate_application::machine::OperationRelation;
use tidegate_application::project::project_name;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::sources::{Sources, revisions_of_fields};
use tidegate_application::supersede::{ManifestComparison, SupersedableOperation};
use tidegate_application::{automated, external_urls, operation, supersede};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_executor::effects::{self, Differences, NO_OPERATION, ObjectDifference, ObjectStatus};
use tidegate_executor::{Clock as _, SystemClock, Targets, WINDOW_PREFIX};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::argo::{
    Application, ConditionType, HealthState, OperationRequest, ResourceStatus, SyncOperation, SyncStatusCode,
    UnknownFields,
};
use tidegate_model::{
    Action, Digest, Gvk, HealthStatus, Object, ObjectKey, Plan, ProjectPolicy, Severity, SyncRequest,
    Timestamp, Warning, annotations,
};
use tidegate_oplog::ApplicationInventory;
use tidegate_planner::{HOOK_OBJECT_KEPT, all_images, annotated_wave};

use super::admission::{self, AdmittedSync, Stage, admit, check_signatures, refuse_hooks, refuse_resources};
use super::comparison_cache::{ComparisonCache, ComparisonFindings, ComparisonInput, SearchExtent};
use super::comparison_result::{ComparisonResult, RetainedPlan};
use super::confirmations::Confirmations;
use super::destinations::{DestinationError, ResolvedDestination};
use super::discovery::CachedCluster;
use super::drift_warnings::{finding_condition, warnings_condition};
use super::fetched_dependencies::RenderContext;
use super::manifests::{RenderedManifests, RevisionLookup, have_same_objects};
use super::operation_history;
use super::operation_start::StartError;
use super::shared_state::SharedState;
use super::watches::{ObjectState, TrackedObject, WatchPosition};

/// Field for the wave in which a resource is pruned, which differs from its own wave.
const PRUNE_WAVE: &str = "pruneWave";
/// Maximum number of undefined gates to list in a message.
const GATES_NAMED_MAX: usize = 10;
/// Maximum number of objects to read concurrently.
const CONCURRENT_READS_MAX: usize = 16;

struct ComparisonFailure {
    kind: ConditionType,
    revisions: Vec<String>,
    message: String,
}

/// Returns the failure for a destination that can't be used. An unreachable cluster isn't an error in the
/// spec.
fn destination_failure(none: DestinationError) -> ComparisonFailure {
    let kind = match none {
        DestinationError::Invalid(_) => ConditionType::InvalidSpecError,
        DestinationError::Unreachable(_) | DestinationError::Unchecked(_) => ConditionType::ComparisonError,
    };
    ComparisonFailure { kind, revisions: Vec::new(), message: none.to_string() }
}

/// Compares an Application with its cluster. Failures are part of the outcome.
pub async fn compare(
    shared: &Arc<SharedState>,
    application: &Application,
    level: RefreshLevel,
    cache: ComparisonCache,
) -> ComparisonResult {
    let newest = ManifestComparison::Unknown;
    let mut comparison = Comparison {
        shared,
        application,
        level,
        cache,
        newest,
        read_since: None,
        is_access_denied: false,
        plan: None,
    };
    let compared = comparison.compare().await;
    let Comparison { cache, newest, read_since, is_access_denied, plan, .. } = comparison;
    let operation = application.operation.as_ref().and_then(operation::engine_id);
    match compared {
        Ok((outcome, objects)) => {
            let operation_relation = OperationRelation { operation, newest };
            ComparisonResult {
                outcome,
                objects: Some(objects),
                read_since,
                cache,
                operation_relation,
                is_access_denied,
                plan,
            }
        }
        Err(ComparisonFailure { kind, revisions, message }) => {
            let seen = match kind {
                ConditionType::ComparisonError => read_health(shared, application).await,
                _ => Vec::new(),
            };
            let objects = (!seen.is_empty()).then(|| seen.iter().map(tracked_object).collect());
            let outcome = ComparisonOutcome::Failed { revisions, kind, message, live_resources: seen };
            let (cache, newest) = Default::default();
            let operation_relation = OperationRelation { operation, newest };
            ComparisonResult {
                outcome,
                objects,
                read_since: None,
                cache,
                operation_relation,
                is_access_denied,
                plan: None,
            }
        }
    }
}

/// Reads the health of the resources listed in the status. Used if the desired state is unavailable.
async fn read_health(shared: &Arc<SharedState>, application: &Application) -> Vec<ComparedResource> {
    let Ok(ResolvedDestination { cluster, .. }) = shared.destinations.resolve(&application.spec.destination)
    else {
        return Vec::new();
    };
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    let reads = application.status.resources.clone().into_iter().map(|known| async move {
        let (key, gvk) = resource_key(&known);
        let live = cluster.get(&gvk, &key.namespace, &key.name).await;
        resource_from_status(known, live, &shared.rules, now)
    });
    futures_util::stream::iter(reads).buffered(CONCURRENT_READS_MAX).collect().await
}

fn resource_key(resource: &ResourceStatus) -> (ObjectKey, Gvk) {
    let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
    (ObjectKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name), gvk)
}

fn tracked_object(resource: &ComparedResource) -> (ObjectKey, TrackedObject) {
    let (object, gvk) = resource_key(&resource.status);
    let state = match (resource.is_live, &resource.version) {
        (false, _) => ObjectState::Missing,
        (true, None) => ObjectState::Unknown,
        (true, Some(version)) => ObjectState::Version(version.clone()),
    };
    (object, TrackedObject { gvk, state })
}

fn resource_from_status(
    recorded: ResourceStatus,
    live: Result<Option<Object>, ClusterError>,
    rules: &HealthRules,
    now: Timestamp,
) -> ComparedResource {
    let unreadable = |error: ClusterError| HealthState {
        status: HealthStatus::Unknown,
        message: error.to_string(),
        ..missing_health()
    };
    let version = live.as_ref().ok().and_then(|live| ObjectVersion::from_object(live.as_ref()?));
    let health_changes_at = live.as_ref().ok().and_then(|live| rules.health_changes_at(live.as_ref()?, now));
    let (is_live, is_healthy_anyway, health) = match live {
        Ok(Some(live)) => (true, ignores_health(&live), object_health(&live, rules, now)),
        Ok(None) => (false, false, Some(missing_health())),
        Err(error) => (true, false, Some(unreadable(error))),
    };
    let status = ResourceStatus { status: Some(SyncStatusCode::Unknown), health, ..recorded };
    ComparedResource {
        status,
        is_live,
        is_health_ignored: is_healthy_anyway,
        version,
        health_changes_at,
        ..ComparedResource::default()
    }
}

fn ignores_health(object: &Object) -> bool {
    object.annotation(annotations::IGNORE_HEALTHCHECK) == Some("true")
}

/// A comparison in progress.
struct Comparison<'a> {
    shared: &'a Arc<SharedState>,
    application: &'a Application,
    level: RefreshLevel,
    cache: ComparisonCache,
    /// Relation to the manifests that the running operation is deploying.
    newest: ManifestComparison,
    /// Watch position before the cluster was read.
    read_since: Option<WatchPosition>,
    is_access_denied: bool,
    /// Plan for an automated sync.
    plan: Option<RetainedPlan>,
}

impl Comparison<'_> {
    async fn compare(
        &mut self,
    ) -> Result<(ComparisonOutcome, BTreeMap<ObjectKey, TrackedObject>), ComparisonFailure> {
        let Self { shared, application, .. } = *self;
        let (place, policy) = admit(shared, application).map_err(destination_failure)?;
        let sources = Sources::from_application(application);
        let revisions = self.revisions(&sources).await.map_err(|message| comparison_failure(&[], message))?;
        let signed = check_signatures(shared, application, &sources, &revisions, Vec::new()).await;
        signed.map_err(|message| comparison_failure(&revisions, message))?;
        let found = self.find_differences(place, &policy, &sources, &revisions).await;
        let found = found.map_err(|message| comparison_failure(&revisions, message))?;
        let errors = found.warnings.iter().filter(|one| one.severity == Severity::Error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(comparison_failure(&revisions, errors.join("; ")));
        }
        // The hook's object exists only because the running operation created it.
        let has_hooks = was_operation_running(
            application,
            shared.application_cache.get(&AppKey::of(application)).as_deref(),
        );
        let relevant = found.warnings.iter().filter(|one| !has_hooks || one.code != HOOK_OBJECT_KEPT);
        let relevant: Vec<Warning> = relevant.cloned().collect();
        let mut warnings: Vec<(ConditionType, String)> =
            relevant.iter().filter_map(finding_condition).collect();
        warnings.extend(warnings_condition(&relevant));
        warnings.extend(found.rejections.iter().cloned());
        warnings.extend(undefined_gates(shared, application, &found.gates).await);
        let mut resources = found.resources.clone();
        let objects = resources.iter().map(tracked_object).collect();
        warnings.extend(refuse_resources(shared, &policy, &mut resources));
        if let Some(refusals) = refuse_hooks(shared, &policy, &found.hooks) {
            return Err(comparison_failure(&revisions, refusals));
        }
        let own_rules = resources
            .iter()
            .filter_map(|one| Some((resource_key(&one.status).0, one.custom_health_rule.clone()?)));
        shared.application_cache.set_own_rules(&AppKey::of(application), own_rules.collect());
        let (source_types, deletion_hooks) = (found.types.clone(), found.deletion_hooks.clone());
        Ok((
            ComparisonOutcome::Compared { revisions, source_types, resources, deletion_hooks, warnings },
            objects,
        ))
    }

    /// Returns the revisions to compare with.
    async fn revisions(&self, sources: &Sources) -> Result<Vec<String>, String> {
        let sync = self.application.status.sync.as_ref();
        let before =
            sync.map(|sync| revisions_of_fields(&sync.revision, &sync.revisions)).unwrap_or_default();
        if self.level == RefreshLevel::Recent && before.len() == sources.as_slice().len() {
            return Ok(before);
        }
        let lookup = if self.level >= RefreshLevel::Forced {
            RevisionLookup::OwnComparison
        } else {
            RevisionLookup::LastObservation
        };
        self.shared.resolve_revisions(self.application, sources, sources.target_revisions(), lookup).await
    }

    /// Returns the differences. Uses the cache if no input has changed.
    async fn find_differences(
        &mut self,
        place: ResolvedDestination,
        policy: &ProjectPolicy,
        sources: &Sources,
        revisions: &[String],
    ) -> Result<Arc<ComparisonFindings>, String> {
        let Self { shared, application, level, .. } = *self;
        let (destination, namespace) = (place.destination.clone(), place.namespace.clone());
        // The order matters: a change between the two calls must be treated as new.
        self.read_since = Some(shared.watches.current_position(&destination));
        let mark = shared.watches.position(&AppKey::of(application), &destination);
        let request = shared.comparison_request(application, destination.clone(), namespace.clone());
        let recorded = operation_history::inventory(shared, &request).await;
        let keys = |context: RenderContext| async move {
            let keys = shared.manifests.manifest_keys(sources, revisions, context.clone()).await?;
            Ok((context, keys))
        };
        let (context, keys) = shared.render(application, &place, level == RefreshLevel::Hard, keys).await?;
        self.newest = self.with_operation(revisions, &keys, &context).await;
        let input =
            ComparisonInput { request: &request, inventory: None, manifests: &keys, user: &policy.user };
        let known = self.cache.known_objects(recorded.clone(), level, &input);
        let input = ComparisonInput { inventory: known.as_ref(), ..input };
        if self.cache.can_be_valid(level, mark.as_ref())
            && let Some(found) = self.cache.find(&input)
        {
            return Ok(found);
        }
        let manifests =
            shared.manifests.targets(sources, revisions, context, level == RefreshLevel::Hard).await?;
        let cluster = reading_cluster(shared, &place, &manifests, level);
        let (cluster, targets) = (cluster.as_ref(), &manifests.targets);
        let differing = shared.engine.compare(cluster, &request, targets, known.as_ref()).await;
        self.is_access_denied =
            differing.as_ref().is_err_and(|error| !error.is_transient && !error.is_outage);
        let (Differences { objects: differences, findings, is_complete }, plan) =
            differing.map_err(comparison_error)?;
        let may_sync = automated(application).is_some() && application.operation.is_none();
        let permit = Arc::clone(&shared.plan_permits).try_acquire_owned().ok().filter(|_| may_sync);
        self.plan = permit.map(|permit| RetainedPlan { plan: Arc::new(plan), _permit: permit });
        if known.as_ref().is_none_or(|known| !known.searched) {
            let extent = match is_complete {
                true => SearchExtent::Complete,
                // Only a comparison that searches the cluster reports this finding, so the next comparison
                // must search as well.
                false if findings.iter().any(|one| one.code == effects::NOT_SEARCHED) => SearchExtent::Denied,
                false => SearchExtent::Partial,
            };
            self.cache.record_search(&input, &differences, extent);
        }
        // The next comparison also considers the objects that the search found, so add them to this input.
        let known = self.cache.known_objects(recorded, RefreshLevel::Recent, &input);
        let input = ComparisonInput { inventory: known.as_ref(), ..input };
        // The server couldn't evaluate the change, perhaps only temporarily, so the next comparison must try
        // again.
        let is_guessed = |one: &ObjectDifference| one.estimate && !one.task.options.take_over.is_empty();
        let is_sure = !differences.iter().any(is_guessed);
        let rejections = differences.iter().filter_map(refusal_condition).collect();
        let resources = compared_resources(differences, &request, &manifests, &shared.rules);
        let found = ComparisonFindings {
            warnings: findings,
            rejections,
            ..ComparisonFindings::from_resources(&manifests.targets, manifests.types, resources)
        };
        let found = Arc::new(found);
        match is_sure {
            true => self.cache.store(&input, mark, &found, &shared.rules),
            false => self.cache.clear(),
        }
        Ok(found)
    }

    /// Returns how the manifests with these keys relate to those that the running operation is deploying.
    /// Also compares the manifests in the log, because identical manifests may have different keys.
    async fn with_operation(
        &self,
        compared: &[String],
        keys: &[Digest],
        context: &RenderContext,
    ) -> ManifestComparison {
        let Self { shared, application, level, .. } = *self;
        let Some(current) = supersede::supersedable_operation(application) else {
            return ManifestComparison::Different;
        };
        let SupersedableOperation { id: operation, sources, revisions } = current;
        if revisions == compared {
            return ManifestComparison::Same;
        }
        let deployed = shared.manifests.manifest_keys(&sources, &revisions, context.clone()).await;
        if deployed.is_ok_and(|deployed| deployed == keys) {
            return ManifestComparison::Same;
        }
        let deployed = match operation_history::manifests(shared, operation).await {
            Ok(Some(deployed)) => deployed,
            Ok(None) => return ManifestComparison::Different,
            Err(error) => {
                tracing::warn!(%operation, %error, "failed to read an operation's manifests; newer revisions will not supersede the operation until the manifests can be compared");
                return ManifestComparison::Unknown;
            }
        };
        let (sources, ignores_cache) = (Sources::from_application(application), level == RefreshLevel::Hard);
        match shared.manifests.targets(&sources, compared, context.clone(), ignores_cache).await {
            Ok(newest) if have_same_objects(&deployed, &newest.targets) => ManifestComparison::Same,
            Ok(_) => ManifestComparison::Different,
            Err(_) => ManifestComparison::Unknown,
        }
    }
}

/// Returns true if one of an Application's operations was running at any time since the comparison started.
fn was_operation_running(at_first: &Application, now: Option<&Application>) -> bool {
    let last = |one: &Application| {
        let state = one.status.operation_state.as_ref()?;
        Some((operation::engine_id(&state.operation), state.started_at, state.finished_at))
    };
    let is_at_work = |one: &Application| one.operation.is_some();
    is_at_work(at_first) || now.is_some_and(|now| is_at_work(now) || last(now) != last(at_first))
}

fn comparison_failure(revisions: &[String], message: String) -> ComparisonFailure {
    ComparisonFailure { kind: ConditionType::ComparisonError, revisions: revisions.to_vec(), message }
}

/// Returns the cluster that a comparison should read from: through watches, or directly for a hard refresh.
fn reading_cluster(
    shared: &SharedState,
    place: &ResolvedDestination,
    manifests: &RenderedManifests,
    level: RefreshLevel,
) -> Arc<dyn Cluster> {
    let cluster = Arc::clone(&place.cluster);
    if level == RefreshLevel::Hard {
        return cluster;
    }
    let required_kinds = manifests.targets.iter().map(|target| target.object.gvk()).collect();
    Arc::new(CachedCluster { cluster, discovery: shared.watches.discovery(place), required_kinds })
}

fn comparison_error(error: CallError) -> String {
    format!("cannot compare with the cluster: {}", error.message)
}

/// Returns the changes that a sync to these revisions, by default the Application's own, would make.
pub async fn sync_differences(
    shared: &Arc<SharedState>,
    application: &Application,
    named: Vec<String>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), String> {
    let PreviewInput { cluster, request, known, manifests } =
        preview_input(shared, application, named).await?;
    let (cluster, targets) = (cluster.as_ref(), &manifests.targets);
    let comparing = shared.engine.compare(cluster, &request, targets, known.as_ref());
    let (found, _) = comparing.await.map_err(comparison_error)?;
    Ok((found.objects, found.findings))
}

/// Returns the plan for a sync to these revisions, by default the Application's own. Includes hooks.
pub async fn sync_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    named: Vec<String>,
) -> Result<Plan, String> {
    let PreviewInput { cluster, mut request, known, manifests } =
        preview_input(shared, application, named).await?;
    request.options.prune = automated(application).is_some_and(|policy| policy.prune == Some(true));
    let targets = Targets { targets: manifests.targets.as_ref().clone(), ..Targets::default() };
    let now = SystemClock.now();
    let planning = effects::plan(cluster.as_ref(), NO_OPERATION, &request, targets, now, known.as_ref());
    let planned = planning.await;
    planned.map(|planned| planned.plan).map_err(|error| format!("cannot plan the sync: {}", error.message))
}

/// Input for previewing a sync.
struct PreviewInput {
    cluster: Arc<dyn Cluster>,
    request: SyncRequest,
    known: Option<ApplicationInventory>,
    manifests: RenderedManifests,
}

async fn preview_input(
    shared: &Arc<SharedState>,
    application: &Application,
    named: Vec<String>,
) -> Result<PreviewInput, String> {
    let sync = SyncOperation { revisions: named, ..SyncOperation::default() };
    let requested = OperationRequest { sync: Some(sync), ..OperationRequest::default() };
    let stage = Stage::Plan(RevisionLookup::NewObservation);
    let admitted = admission::check(shared, application, &requested, stage).await;
    let AdmittedSync { place, sources, revisions, .. } = admitted.map_err(StartError::into_reason)?;
    let manifests = shared.render_manifests(application, &place, &sources, &revisions).await?;
    let ResolvedDestination { destination, cluster, namespace, .. } = place;
    let request = shared.comparison_request(application, destination, namespace);
    let known = operation_history::inventory(shared, &request).await;
    Ok(PreviewInput { cluster, request, known, manifests })
}

/// Returns a warning if the manifests use gates that never open because they aren't defined.
async fn undefined_gates(
    shared: &SharedState,
    application: &Application,
    named: &BTreeMap<String, ObjectKey>,
) -> Option<(ConditionType, String)> {
    if named.is_empty() {
        return None;
    }
    let mut known = shared.engine.extension_names();
    known.gates.extend(shared.gates.read().await.names());
    known.gates.insert(format!("{WINDOW_PREFIX}{}", project_name(application)));
    let problem = |(gate, object): (&String, &ObjectKey)| {
        Some(format!("{} of {object} {}", annotations::GATE, known.explain_missing_gate(gate)?))
    };
    let problems: Vec<String> = named.iter().filter_map(problem).take(GATES_NAMED_MAX).collect();
    let message = || format!("a sync would wait forever: {}", problems.join("; "));
    (!problems.is_empty()).then(|| (comparison::undefined_gate_condition(), message()))
}

fn refusal_condition(difference: &ObjectDifference) -> Option<(ConditionType, String)> {
    let reason = difference.refused.as_ref()?;
    let message = format!("the cluster rejects {}: {reason}", difference.task.key());
    Some((ConditionType::ComparisonError, message))
}

/// Returns the status of the compared objects.
fn compared_resources(
    differences: Vec<ObjectDifference>,
    request: &SyncRequest,
    manifests: &RenderedManifests,
    rules: &HealthRules,
) -> Vec<ComparedResource> {
    let objects = manifests.targets.iter().map(|target| &target.object);
    let (confirmations, now) = (Confirmations::new(&request.options, objects), SystemClock.now());
    differences.into_iter().map(|one| compared_resource(one, &confirmations, rules, now)).collect()
}

fn compared_resource(
    difference: ObjectDifference,
    confirmations: &Confirmations<'_>,
    rules: &HealthRules,
    now: Timestamp,
) -> ComparedResource {
    let ObjectDifference { task, status, ignored, live, .. } = difference;
    let live = live.as_deref();
    let code = if status == ObjectStatus::Same { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
    // Waves are pruned in reverse order.
    let own = live.filter(|_| status == ObjectStatus::Extra).map(annotated_wave);
    let mut rest = UnknownFields::new();
    if own.is_some() && task.action == Action::Prune {
        rest.insert(PRUNE_WAVE.to_owned(), task.wave.into());
    }
    if own.is_some() && task.action == Action::PruneSkipped {
        rest.insert(PRUNE_DISABLED.to_owned(), true.into());
    }
    ComparedResource {
        status: ResourceStatus {
            rest,
            group: task.gvk.group.clone(),
            version: task.gvk.version.clone(),
            kind: task.gvk.kind.clone(),
            namespace: task.namespace.clone(),
            name: task.name.clone(),
            status: Some(code),
            health: live.map_or_else(|| Some(missing_health()), |live| object_health(live, rules, now)),
            requires_pruning: status == ObjectStatus::Extra,
            requires_deletion_confirmation: confirmations.is_required(&task.key(), live),
            sync_wave: own.unwrap_or(task.wave),
            ..ResourceStatus::default()
        },
        is_live: live.is_some(),
        is_ignored: ignored,
        is_health_ignored: live.is_some_and(ignores_health),
        images: live.map(all_images).unwrap_or_default(),
        urls: live.map(external_urls::external_urls).unwrap_or_default(),
        custom_health_rule: live.and_then(|live| own_rule(live, rules)),
        version: live.and_then(ObjectVersion::from_object),
        health_changes_at: live.and_then(|live| rules.health_changes_at(live, now)),
    }
}

/// Returns an object's health rule if it differs from the default rule for its kind.
fn own_rule(live: &Object, rules: &HealthRules) -> Option<Box<str>> {
    let own = rules.rule_for(live);
    (own != rules.rule_for_kind(&live.gvk())).then(|| own.unwrap_or_default().into())
}

fn missing_health() -> HealthState {
    HealthState {
        status: HealthStatus::Missing,
        message: String::new(),
        last_transition_time: None,
        rest: UnknownFields::new(),
    }
}

fn object_health(live: &Object, rules: &HealthRules, now: Timestamp) -> Option<HealthState> {
    let (status, message) = match rules.assess(live, now)? {
        Ok(health) => (health.status, health.message),
        Err(error) => (HealthStatus::Unknown, error.to_string()),
    };
    Some(HealthState { status, message, ..missing_health() })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    fn application_with_operation(operation: serde_json::Value, finished_at: Option<&str>) -> Application {
        let operation = serde_json::from_value(operation).unwrap();
        let mut application = Application { operation, ..Application::default() };
        let state = json!({
            "operation": {}, "phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": finished_at,
        });
        application.status.operation_state = serde_json::from_value(state).unwrap();
        application
    }

    /// A comparison that overlaps the start or end of an operation may observe objects created by hooks.
    #[test]
    fn an_operation_that_overlaps_a_comparison_is_detected() {
        let (first, second) = (Some("2026-01-01T00:00:01Z"), Some("2026-01-01T00:00:09Z"));
        let (idle, later) =
            (application_with_operation(json!(null), first), application_with_operation(json!(null), second));
        let (input, started) = (
            application_with_operation(json!({"sync": {}}), first),
            application_with_operation(json!({"sync": {}}), None),
        );
        for (at_first, now, expected) in [
            (&idle, Some(&idle), false),
            (&idle, None, false),
            (&started, Some(&started), true),
            (&input, Some(&input), true),
            (&idle, Some(&started), true),
            (&started, Some(&idle), true),
            (&idle, Some(&later), true),
        ] {
            assert_eq!(was_operation_running(at_first, now), expected);
        }
    }
}
