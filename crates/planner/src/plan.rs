//! Planning from targets and live objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::{
    Cascade, Discovery, Gvk, KindInfo, LiveObject, ManifestId, Object, ObjectKey, OperationId, Plan,
    SyncRequest, Timestamp,
};

use crate::diff::Comparer;
use crate::draft::TaskDraft;
use crate::excluded_manifest::ExcludedManifest;
use crate::findings::{FindingSubject, Findings};
use crate::generated_names::GeneratedNames;
use crate::hooks::{self, SyncRole};
use crate::known_kinds::KnownKinds;
use crate::manifests::Target;
use crate::object_scope::object_scope;
use crate::ownership::OwnershipScope;
use crate::pairing::LiveIndex;
use crate::resources::Drafter;
use crate::targets::{TargetSelector, is_selected};
use crate::{availability, deletion, dependencies, namespace, prune, sync_options, task_order};

/// Inputs of a plan.
#[derive(Debug)]
pub struct PlanInput<'a> {
    /// The operation being planned. Its ID doesn't affect the plan.
    pub operation: OperationId,
    /// The sync or deletion to plan.
    pub request: &'a SyncRequest,
    /// Start time of the operation. Generated hook names contain it, so it must be the same for all retries.
    pub started_at: Timestamp,
    /// Targets in input order. They become the plan's manifests.
    pub targets: Vec<Target>,
    /// Live objects: those that the application tracks, and those listed by [`named_objects`].
    pub live: &'a [LiveObject],
    /// Objects written by earlier operations in the log and, for a deletion, all other known objects of the
    /// application. If they have the application's mark, they belong to it in any namespace.
    pub inventory: &'a BTreeSet<ObjectKey>,
    /// Hooks that have already succeeded with their current inputs, from
    /// [`unchanged_hooks`](crate::unchanged_hooks).
    pub unchanged_hooks: &'a BTreeSet<ObjectKey>,
    /// Destination namespaces of the operation that are being deleted.
    pub terminating_namespaces: &'a BTreeSet<String>,
    /// Kinds that the cluster serves.
    pub discovery: &'a Discovery,
    /// True if no cluster is available. There are no live objects then, and unknown kinds aren't errors.
    pub is_offline: bool,
}

/// A plan, and the manifests that its tasks refer to by index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanResult {
    /// Ordered tasks.
    pub plan: Plan,
    /// Complete manifests to write, in task order.
    pub manifests: Vec<Object>,
    /// Targets without a task, with the reasons, in input order.
    pub excluded: Vec<ExcludedManifest>,
    /// Live objects that have the application's mark but may belong to another application.
    pub owned_elsewhere: BTreeSet<ObjectKey>,
}

/// Plans an operation. The same input always yields the same plan. The order of targets and live objects
/// doesn't matter, except that the last of several duplicates wins.
///
/// Planning never fails. Problems become findings in the plan, and findings with [`Severity::Error`] make the
/// plan invalid.
///
/// [`Severity::Error`]: tidegate_model::Severity::Error
pub fn plan(input: PlanInput<'_>) -> PlanResult {
    let request = input.request;
    let mut findings = Findings::default();
    let mut left_out = Vec::new();
    review_request(request, &mut findings);
    let (comparer, errors) = Comparer::new(&request.ignore_differences, &request.tracking);
    for error in errors {
        findings.warn(
            "invalid-ignore-difference",
            &FindingSubject::default(),
            format!("ignoreDifferences: {error}"),
        );
    }
    let kinds = KnownKinds::new(input.discovery, input.targets.iter().map(|target| &target.object));
    let namespaces = namespace::deployed_namespaces(request, &input.targets, &kinds);
    let domain = OwnershipScope { request, inventory: input.inventory, namespaces: &namespaces };
    let mut live = if input.is_offline { LiveIndex::default() } else { LiveIndex::new(input.live) };
    let names = GeneratedNames::new(request, &input.targets, &kinds, input.started_at);
    let mut sorter = TargetSelector {
        request,
        kinds: &kinds,
        findings: &mut findings,
        left_out: &mut left_out,
        unchanged: input.unchanged_hooks,
    };
    let wanted = sorter.select_targets(input.targets);
    let mut manifests = wanted.manifests;
    if namespace::needs_namespace(request) {
        manifests.keys.insert(namespace::namespace_key(&request.namespace));
    }
    let restart_on_retry = wanted.objects.iter().any(|wanted| wanted.requests.restart_on_retry);
    wanted.excluded_keys.iter().for_each(|key| live.mark_has_target(key, Some(true)));
    let resources = wanted.objects.iter().filter(|wanted| wanted.role == SyncRole::Resource);
    resources.for_each(|wanted| live.mark_has_target(&wanted.key, wanted.namespaced));
    let mut drafter = Drafter {
        request,
        names: &names,
        live: &live,
        comparer: &comparer,
        findings: &mut findings,
        left_out: &mut left_out,
    };
    let mut drafts = drafter.draft_all(wanted.objects);
    // A hook that runs deletes the existing object with its key, even an ordinary resource.
    let hooks = drafts.iter().filter(|draft| draft.task.is_hook());
    hooks.for_each(|hook| live.mark_has_target(&hook.task.key(), Some(true)));
    add_namespace(request, &live, &mut drafts, &mut findings);
    let elsewhere = add_prunes(domain, &live, &mut drafts, &mut findings);
    namespace::review_namespaces(&drafts, input.terminating_namespaces, &mut findings);
    review_selection(request, &drafts, &mut findings);
    availability::mark_availability(&mut drafts, &kinds, input.is_offline, &mut findings);
    let drafts = task_order::sort_tasks(drafts, &request.namespace);
    let dependencies = dependencies::resolve_dependencies(request, &drafts, &manifests, &mut findings);
    left_out.sort_by_key(|left| left.position);
    let (mut plan, bundle) = assemble_plan(drafts, &findings.errors_by_position());
    plan.warnings = findings.into_warnings();
    plan.restart_on_retry = restart_on_retry;
    plan.dependencies = dependencies;
    PlanResult { plan, manifests: bundle, excluded: left_out, owned_elsewhere: elsewhere }
}

fn review_request(request: &SyncRequest, findings: &mut Findings) {
    let nowhere = FindingSubject::default();
    if let Err(error) = request.tracking.check(&request.application) {
        findings.error("untrackable-application", &nowhere, error.to_string());
    }
    if request.tracking.method.uses_annotation() && request.application.contains(':') {
        let message = format!(
            "application name {:?} contains ':', so the application's objects cannot be tracked or pruned",
            request.application
        );
        findings.warn("untrackable-application", &nowhere, message);
    }
    for (code, message) in sync_options::review_application(&request.options) {
        findings.warn(code, &nowhere, message);
    }
}

fn add_namespace(
    request: &SyncRequest,
    live: &LiveIndex<'_>,
    drafts: &mut Vec<TaskDraft>,
    findings: &mut Findings,
) {
    let Some(automatic) = namespace::draft_namespace(request, live) else { return };
    let key = automatic.task.key();
    match drafts.iter().find(|draft| draft.task.key() == key) {
        None => drafts.push(automatic),
        Some(hook) if hook.task.is_hook() => {
            findings.warn(
                "namespace-is-hook",
                &hook.subject,
                "the destination namespace is a hook, so CreateNamespace=true has no effect; declare the namespace as a resource, because hooks may be deleted",
            );
        }
        Some(_) => {}
    }
}

/// Adds the prune tasks. Returns the marked objects that may belong to another application, whether or not
/// the sync selects them.
fn add_prunes(
    domain: OwnershipScope<'_>,
    live: &LiveIndex<'_>,
    drafts: &mut Vec<TaskDraft>,
    findings: &mut Findings,
) -> BTreeSet<ObjectKey> {
    let request = domain.request;
    let extraneous = live.extraneous(request);
    let elsewhere = extraneous.iter().filter(|object| !domain.is_owned(object)).map(|object| object.key());
    let elsewhere = elsewhere.collect();
    let (selected, others): (Vec<_>, Vec<_>) =
        extraneous.into_iter().partition(|object| is_selected(request, &object.key()));
    let others: Vec<_> = others.into_iter().filter(|object| domain.is_owned(object)).collect();
    let mut extraneous = selected;
    if namespace::needs_namespace(request) {
        let key = namespace::namespace_key(&request.namespace);
        if extraneous.iter().any(|object| object.key() == key) && !namespace::has_namespace_metadata(request)
        {
            findings.warn(
                "namespace-not-pruned",
                &FindingSubject::for_live(key.clone()),
                "the namespace is no longer in the manifests, but CreateNamespace=true requires it, so it is kept",
            );
        }
        extraneous.retain(|object| object.key() != key);
    }
    let last: BTreeSet<ObjectKey> = extraneous
        .iter()
        .filter(|object| sync_options::is_pruned_last(object, &request.options))
        .map(|object| object.key())
        .collect();
    match request.deletion {
        None => {
            drafts.extend(prune::draft_prunes(domain, &extraneous));
            dependencies::keep_needed_objects(drafts, &others);
            prune::reverse_waves(drafts, |draft| last.contains(&draft.task.key()));
        }
        Some(cascade) => {
            drafts.extend(deletion::draft_deletions(domain, &extraneous, cascade));
            dependencies::keep_needed_objects(drafts, &others);
            deletion::review_retained(drafts, findings);
            prune::reverse_waves(drafts, |_| false);
        }
    }
    dependencies::delay_needed_objects(drafts);
    prune::review_prunes(request, drafts, findings);
    elsewhere
}

fn review_selection(request: &SyncRequest, drafts: &[TaskDraft], findings: &mut Findings) {
    for selector in &request.selection {
        if !drafts.iter().any(|draft| selector.matches(&draft.task.key())) {
            let key = ObjectKey::new(&selector.group, &selector.kind, &selector.namespace, &selector.name);
            let subject = FindingSubject::for_requested(key);
            findings.warn(
                "selection-without-match",
                &subject,
                "the selected object is neither in the manifests nor in the cluster (hooks cannot be selected)",
            );
        }
    }
}

fn assemble_plan(drafts: Vec<TaskDraft>, errors: &BTreeMap<usize, String>) -> (Plan, Vec<Object>) {
    let mut plan = Plan::default();
    let mut manifests = Vec::new();
    for draft in drafts {
        let TaskDraft { mut task, subject, manifest, wave_timeout, gates, .. } = draft;
        task.error = errors.get(&subject.position).cloned();
        if let Some(manifest) = manifest {
            task.images = main_images(&manifest);
            task.manifest = u32::try_from(manifests.len()).ok().map(ManifestId);
            manifests.push(manifest);
        }
        plan.push_task(task, wave_timeout, gates);
    }
    for wave in &mut plan.waves {
        wave.gates.sort_unstable();
        wave.gates.dedup();
    }
    // The plan stays in memory while its operation runs.
    plan.tasks.shrink_to_fit();
    plan.waves.shrink_to_fit();
    (plan, manifests)
}

/// Returns the container images of a pod or pod template.
fn main_images(manifest: &Object) -> Vec<String> {
    container_images(manifest, "containers").map(str::to_owned).collect()
}

/// Returns all images of a pod or pod template, including init containers.
pub fn all_images(object: &Object) -> Vec<String> {
    let all = container_images(object, "initContainers").chain(container_images(object, "containers"));
    all.map(str::to_owned).collect()
}

fn container_images<'o>(object: &'o Object, field: &'static str) -> impl Iterator<Item = &'o str> {
    const PODS: [&str; 3] = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let has_containers = |pod: &&'o Value| pod.get("containers").is_some_and(Value::is_array);
    let pod = PODS.iter().filter_map(|place| object.pointer(place)).find(has_containers);
    let containers = pod.and_then(|pod| pod.get(field)?.as_array());
    containers.into_iter().flatten().filter_map(|container| container.get("image")?.as_str())
}

/// Returns the objects to read from the cluster by name before planning, tracked or not: the targets with an
/// available kind, the hooks under their generated names, and the destination namespace if the operation may
/// create it. A deletion also needs its own hooks, and sync hooks that may still exist.
///
/// Kinds of unknown scope aren't served, so the cluster can't have such objects.
pub fn named_objects(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
    started_at: Timestamp,
) -> BTreeSet<(Gvk, String, String)> {
    let kinds = KnownKinds::new(discovery, targets.iter().map(|target| &target.object));
    // Sorting once at the end is faster than inserting each object in order.
    let mut named = Vec::with_capacity(targets.len());
    if namespace::needs_namespace(request) {
        named.push((Gvk::new("", "v1", "Namespace"), String::new(), request.namespace.clone()));
    }
    let names = GeneratedNames::new(request, targets, &kinds, started_at);
    for (place, target) in targets.iter().enumerate() {
        let object = &target.object;
        let Some(gvk) = served_gvk(object, discovery) else { continue };
        let namespace = object_scope(object, &kinds, &request.namespace).namespace.to_owned();
        let role = hooks::role_in_operation(request, object);
        if role.runs_as_hook() && request.deletion == Some(Cascade::Orphan) {
            continue;
        }
        if request.deletion.is_some() && !role.runs_as_hook() {
            if can_outlive_sync(request, object) {
                named.push((gvk, namespace, object.name().to_owned()));
            }
            continue;
        }
        if !object.name().is_empty() {
            named.push((gvk, namespace, object.name().to_owned()));
        } else if let SyncRole::Hook(phases) = role {
            for phase in phases {
                named.push((gvk.clone(), namespace.clone(), names.name_for(place, object, phase)));
            }
        }
    }
    named.into_iter().collect()
}

/// Returns the objects in the manifests that a deletion removes if they have the application's mark. Key and
/// mark are enough evidence here, because the manifest names this very object. Empty if the operation isn't a
/// deletion or keeps the objects.
pub fn deleted_objects(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
) -> BTreeSet<(Gvk, String, String)> {
    if !request.deletion.is_some_and(Cascade::deletes_objects) {
        return BTreeSet::new();
    }
    let kinds = KnownKinds::new(discovery, targets.iter().map(|target| &target.object));
    let named = targets.iter().filter(|target| !target.object.name().is_empty());
    let places = named.filter_map(|target| {
        let object = &target.object;
        let gvk = served_gvk(object, discovery)?;
        let namespace = object_scope(object, &kinds, &request.namespace).namespace.to_owned();
        Some((gvk, namespace, object.name().to_owned()))
    });
    places.collect()
}

/// Returns true for a hook object that its policy may keep until the application is deleted. It must be read
/// by name, since inventories don't contain hooks.
fn can_outlive_sync(request: &SyncRequest, object: &Object) -> bool {
    request.deletion.is_some_and(Cascade::deletes_objects)
        && hooks::sync_role(object).runs_as_hook()
        && !object.name().is_empty()
}

/// Returns the namespaces of an operation's objects.
pub fn operation_namespaces(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
) -> BTreeSet<String> {
    let kinds = KnownKinds::new(discovery, targets.iter().map(|target| &target.object));
    namespace::deployed_namespaces(request, targets, &kinds)
}

/// Returns the group, version and kind to use for an object: its own version if the cluster serves it,
/// otherwise the preferred version.
fn served_gvk(object: &Object, discovery: &Discovery) -> Option<Gvk> {
    let gvk = object.gvk();
    let KindInfo { versions, .. } = discovery.get(&gvk.group_kind())?;
    let version = versions.iter().find(|version| **version == gvk.version).or_else(|| versions.first())?;
    Some(Gvk { version: version.clone(), ..gvk })
}
