//! From wanted and live objects to a plan.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_model::{
    Cascade, Discovery, Gvk, KindInfo, LiveObject, ManifestId, Object, ObjectKey, OperationId, Plan,
    SyncRequest, Timestamp,
};

use crate::diff::Comparer;
use crate::domain::Domain;
use crate::draft::Draft;
use crate::findings::{Findings, Subject};
use crate::hooks::{self, Role};
use crate::kinds::Kinds;
use crate::left_out::LeftOut;
use crate::manifests::Target;
use crate::naming::Names;
use crate::pairing::Live;
use crate::resources::Drafter;
use crate::targets::{Sorter, is_selected, scope};
use crate::{availability, deletion, namespace, options, order, prune};

/// Everything a plan depends on.
#[derive(Debug)]
pub struct PlanInput<'a> {
    /// The operation the plan is for. It does not change the plan.
    pub operation: OperationId,
    /// What is asked for.
    pub request: &'a SyncRequest,
    /// When the operation began; part of generated hook names, and so the same for all its retries.
    pub started_at: Timestamp,
    /// The wanted objects, in the order of the input. They become the manifests of the plan.
    pub targets: Vec<Target>,
    /// The objects in the cluster: those that the application tracks, and those of [`named_objects`].
    pub live: &'a [LiveObject],
    /// The objects that are the application's own wherever they bear its mark: those that its earlier operations put into the
    /// cluster, as far as that is recorded, and for a deletion those that it is known to have.
    pub known: &'a BTreeSet<ObjectKey>,
    /// The hooks that have succeeded with the inputs they have: [`unchanged_hooks`](crate::unchanged_hooks).
    pub unchanged: &'a BTreeSet<ObjectKey>,
    /// The namespaces that are being deleted, among those that the operation deploys to.
    pub terminating: &'a BTreeSet<String>,
    /// The kinds the cluster serves.
    pub discovery: &'a Discovery,
    /// There is no cluster: nothing is live, and unknown kinds are no errors.
    pub offline: bool,
}

/// A plan and the manifests its tasks name by position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// What will be done, in order.
    pub plan: Plan,
    /// The manifests to write, complete, in the order of their tasks.
    pub manifests: Vec<Object>,
    /// Wanted objects without a task of their own, and why. Sorted by their place in the input.
    pub left_out: Vec<LeftOut>,
    /// Live objects that bear the application's mark, and of which nothing proves that they are its own.
    pub elsewhere: BTreeSet<ObjectKey>,
}

/// Plans an operation. The same input gives the same plan, and except for repeated objects, of which the last wins, the
/// order of targets and live objects does not matter.
///
/// Planning never fails: what is wrong is a finding of the plan, and findings of [`Severity::Error`] make it invalid.
///
/// [`Severity::Error`]: tidegate_model::Severity::Error
pub fn plan(input: PlanInput<'_>) -> Planned {
    let request = input.request;
    let mut findings = Findings::default();
    let mut left_out = Vec::new();
    review_request(request, &mut findings);
    let (comparer, errors) = Comparer::new(&request.ignore_differences, &request.tracking);
    for error in errors {
        findings.warn(
            "invalid-ignore-difference",
            &Subject::default(),
            format!("ignoreDifferences: {error}"),
        );
    }
    let kinds = Kinds::new(input.discovery, input.targets.iter().map(|target| &target.object));
    let namespaces = namespace::deployed_to(request, &input.targets, &kinds);
    let domain = Domain { request, known: input.known, namespaces: &namespaces };
    let mut live = if input.offline { Live::default() } else { Live::new(input.live) };
    let names = Names::new(request, &input.targets, &kinds, input.started_at);
    let mut sorter = Sorter {
        request,
        kinds: &kinds,
        findings: &mut findings,
        left_out: &mut left_out,
        unchanged: input.unchanged,
    };
    let wanted = sorter.sort_out(input.targets);
    let restart_on_retry = wanted.objects.iter().any(|wanted| wanted.requests.restart_on_retry);
    wanted.left_alone.iter().for_each(|key| live.keep(key, Some(true)));
    let resources = wanted.objects.iter().filter(|wanted| wanted.role == Role::Resource);
    resources.for_each(|wanted| live.keep(&wanted.key, wanted.namespaced));
    let mut drafter = Drafter {
        request,
        names: &names,
        live: &live,
        comparer: &comparer,
        findings: &mut findings,
        left_out: &mut left_out,
    };
    let mut drafts = drafter.draft_all(wanted.objects);
    // A hook makes room for itself when its turn comes, even where an ordinary resource has become one.
    let hooks = drafts.iter().filter(|draft| draft.task.is_hook());
    hooks.for_each(|hook| live.keep(&hook.task.key(), Some(true)));
    add_namespace(request, &live, &mut drafts, &mut findings);
    let elsewhere = add_prunes(domain, &live, &mut drafts, &mut findings);
    namespace::review(&drafts, input.terminating, &mut findings);
    review_selection(request, &drafts, &mut findings);
    availability::mark(&mut drafts, &kinds, input.offline, &mut findings);
    let drafts = order::arrange(drafts, &request.namespace);
    left_out.sort_by_key(|left| left.place);
    let (mut plan, manifests) = assemble(drafts, &findings.errors_by_place());
    plan.warnings = findings.into_warnings();
    plan.restart_on_retry = restart_on_retry;
    Planned { plan, manifests, left_out, elsewhere }
}

fn review_request(request: &SyncRequest, findings: &mut Findings) {
    let nowhere = Subject::default();
    if let Err(error) = request.tracking.check(&request.application) {
        findings.error("untrackable-application", &nowhere, error.to_string());
    }
    if request.tracking.method.annotates() && request.application.contains(':') {
        let message = format!(
            "the application name {:?} holds ':', so its objects cannot be tracked or pruned",
            request.application
        );
        findings.warn("untrackable-application", &nowhere, message);
    }
    for (code, message) in options::review_application(&request.options) {
        findings.warn(code, &nowhere, message);
    }
}

fn add_namespace(request: &SyncRequest, live: &Live<'_>, drafts: &mut Vec<Draft>, findings: &mut Findings) {
    let Some(automatic) = namespace::draft(request, live) else { return };
    let key = automatic.task.key();
    match drafts.iter().find(|draft| draft.task.key() == key) {
        None => drafts.push(automatic),
        Some(hook) if hook.task.is_hook() => {
            findings.warn(
                "namespace-is-hook",
                &hook.subject,
                "the destination namespace is a hook, so CreateNamespace=true has no effect; a hook may be deleted, so declare it as a resource",
            );
        }
        Some(_) => {}
    }
}

/// Adds the prunes, and gives the objects that are found elsewhere, selected or not.
fn add_prunes(
    domain: Domain<'_>,
    live: &Live<'_>,
    drafts: &mut Vec<Draft>,
    findings: &mut Findings,
) -> BTreeSet<ObjectKey> {
    let request = domain.request;
    let mut extraneous = live.extraneous(request);
    let elsewhere = extraneous.iter().filter(|object| !domain.holds(object)).map(|object| object.key());
    let elsewhere = elsewhere.collect();
    extraneous.retain(|object| is_selected(request, &object.key()));
    if namespace::is_requested(request) {
        let key = namespace::key(&request.namespace);
        if extraneous.iter().any(|object| object.key() == key) && !namespace::has_metadata(request) {
            findings.warn(
                "namespace-not-pruned",
                &Subject::live(key.clone()),
                "it is no longer in the manifests, but CreateNamespace=true asks for it, so it is kept",
            );
        }
        extraneous.retain(|object| object.key() != key);
    }
    let last: BTreeSet<ObjectKey> = extraneous
        .iter()
        .filter(|object| options::prune_last(object, &request.options))
        .map(|object| object.key())
        .collect();
    match request.deletion {
        None => {
            drafts.extend(prune::drafts(domain, &extraneous));
            prune::reverse_waves(drafts, |draft| last.contains(&draft.task.key()));
        }
        Some(cascade) => {
            drafts.extend(deletion::drafts(domain, &extraneous, cascade));
            deletion::review(drafts, findings);
            prune::reverse_waves(drafts, |_| false);
        }
    }
    prune::review(request, drafts, findings);
    elsewhere
}

fn review_selection(request: &SyncRequest, drafts: &[Draft], findings: &mut Findings) {
    for selector in &request.selection {
        if !drafts.iter().any(|draft| selector.matches(&draft.task.key())) {
            let key = ObjectKey::new(&selector.group, &selector.kind, &selector.namespace, &selector.name);
            let subject = Subject::requested(key);
            findings.warn(
                "selection-without-match",
                &subject,
                "it is selected, but neither in the manifests nor in the cluster (hooks cannot be selected)",
            );
        }
    }
}

fn assemble(drafts: Vec<Draft>, errors: &BTreeMap<usize, String>) -> (Plan, Vec<Object>) {
    let mut plan = Plan::default();
    let mut manifests = Vec::new();
    for draft in drafts {
        let Draft { mut task, subject, manifest, wave_timeout, gates, .. } = draft;
        task.error = errors.get(&subject.place).cloned();
        if let Some(manifest) = manifest {
            task.images = images(&manifest);
            task.manifest = u32::try_from(manifests.len()).ok().map(ManifestId);
            manifests.push(manifest);
        }
        plan.push(task, wave_timeout, gates);
    }
    for wave in &mut plan.waves {
        wave.gates.sort_unstable();
        wave.gates.dedup();
    }
    // A plan stays in memory for as long as its operation lasts.
    plan.tasks.shrink_to_fit();
    plan.waves.shrink_to_fit();
    (plan, manifests)
}

/// The images of the containers of a pod, or of what a pod is made from (spec: result model).
fn images(manifest: &Object) -> Vec<String> {
    of_containers(manifest, "containers").map(str::to_owned).collect()
}

/// The images that a pod has, or what makes pods: with those of its init containers.
pub fn all_images(object: &Object) -> Vec<String> {
    let all = of_containers(object, "initContainers").chain(of_containers(object, "containers"));
    all.map(str::to_owned).collect()
}

fn of_containers<'o>(object: &'o Object, field: &'static str) -> impl Iterator<Item = &'o str> {
    const PODS: [&str; 3] = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let has_containers = |pod: &&'o Value| pod.get("containers").is_some_and(Value::is_array);
    let pod = PODS.iter().filter_map(|place| object.pointer(place)).find(has_containers);
    let containers = pod.and_then(|pod| pod.get(field)?.as_array());
    containers.into_iter().flatten().filter_map(|container| container.get("image")?.as_str())
}

/// The objects to read from the cluster by name before planning, whether the application tracks them or not: every
/// wanted object of a kind that is served, hooks under their generated names, and the destination namespace when the
/// operation may have to make it. For a deletion those are its hooks, and the hooks of a sync, which may still be there.
///
/// Where nobody knows the scope of a kind there is nothing to read, since the kind is not served.
pub fn named_objects(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
    started_at: Timestamp,
) -> BTreeSet<(Gvk, String, String)> {
    let kinds = Kinds::new(discovery, targets.iter().map(|target| &target.object));
    // Sorted at once, which is faster than one by one.
    let mut named = Vec::with_capacity(targets.len());
    if namespace::is_requested(request) {
        named.push((Gvk::new("", "v1", "Namespace"), String::new(), request.namespace.clone()));
    }
    let names = Names::new(request, targets, &kinds, started_at);
    for (place, target) in targets.iter().enumerate() {
        let object = &target.object;
        let Some(gvk) = served_gvk(object, discovery) else { continue };
        let namespace = scope(object, &kinds, &request.namespace).namespace.to_owned();
        let role = hooks::role_for(request, object);
        if request.deletion.is_some() && !role.runs() {
            if is_left_by_syncs(request, object) {
                named.push((gvk, namespace, object.name().to_owned()));
            }
            continue;
        }
        if !object.name().is_empty() {
            named.push((gvk, namespace, object.name().to_owned()));
        } else if let Role::Hook(phases) = role {
            for phase in phases {
                named.push((gvk.clone(), namespace.clone(), names.name(place, object, phase)));
            }
        }
    }
    named.into_iter().collect()
}

/// The objects of the manifests that the deletion of an application deletes where they bear its mark: whoever writes a name
/// and a mark into its manifests means this very object. Nothing where it is no deletion, or its objects stay.
pub fn deleted_objects(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
) -> BTreeSet<(Gvk, String, String)> {
    if !request.deletion.is_some_and(Cascade::deletes) {
        return BTreeSet::new();
    }
    let kinds = Kinds::new(discovery, targets.iter().map(|target| &target.object));
    let named = targets.iter().filter(|target| !target.object.name().is_empty());
    let places = named.filter_map(|target| {
        let object = &target.object;
        let gvk = served_gvk(object, discovery)?;
        let namespace = scope(object, &kinds, &request.namespace).namespace.to_owned();
        Some((gvk, namespace, object.name().to_owned()))
    });
    places.collect()
}

/// Whether it is a hook whose object may be there when its application goes: its policy keeps it, and no inventory has it.
fn is_left_by_syncs(request: &SyncRequest, object: &Object) -> bool {
    request.deletion.is_some_and(Cascade::deletes) && hooks::role(object).runs() && !object.name().is_empty()
}

/// The namespaces that objects of an operation go into.
pub fn namespaces(request: &SyncRequest, targets: &[Target], discovery: &Discovery) -> BTreeSet<String> {
    let kinds = Kinds::new(discovery, targets.iter().map(|target| &target.object));
    namespace::deployed_to(request, targets, &kinds)
}

/// The kind under which the cluster serves an object: its own version, else the preferred one.
fn served_gvk(object: &Object, discovery: &Discovery) -> Option<Gvk> {
    let gvk = object.gvk();
    let KindInfo { versions, .. } = discovery.get(&gvk.group_kind())?;
    let version = versions.iter().find(|version| **version == gvk.version).or_else(|| versions.first())?;
    Some(Gvk { version: version.clone(), ..gvk })
}
