//! Conditions for running a hook: annotations about the type of operation and the hook's inputs.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Discovery, Object, ObjectKey, Phase, ResourceSelector, SyncRequest, annotations};

use crate::hooks::{Remark, SyncRole, sync_role};
use crate::known_kinds::KnownKinds;
use crate::manifests::Target;
use crate::object_scope::{ObjectScope, object_scope};
use crate::text::split_list;

/// `hook-on` value for a sync of the whole application, manual or automated.
const SYNC: &str = "sync";
/// `hook-on` value for an operation that corrects the cluster although the manifests are unchanged.
const SELF_HEAL: &str = "selfheal";
/// `run-when` value for a hook that runs only if its inputs have changed since its last run.
const INPUTS_CHANGED: &str = "inputs-changed";

/// Returns the reason a hook's annotation excludes it from an operation. Without the annotation, a hook runs
/// in every sync of the whole application.
pub(crate) fn exclusion_reason(request: &SyncRequest, hook: &Object) -> Option<&'static str> {
    let named = split_list(hook.annotation(annotations::HOOK_ON).unwrap_or_default());
    let says = |word| named.contains(&word);
    if request.is_self_heal() {
        const SYNC_ONLY: &str = "hooks run during a self-heal only with tidegate.dev/hook-on: selfheal";
        return (!says(SELF_HEAL)).then_some(SYNC_ONLY);
    }
    if !request.selection.is_empty() {
        return Some("hooks do not run during a selective sync");
    }
    (says(SELF_HEAL) && !says(SYNC)).then_some("its tidegate.dev/hook-on annotation contains only selfheal")
}

/// Returns remarks about the annotations that determine when a hook runs.
pub(crate) fn review_conditions(object: &Object, role: &SyncRole) -> Vec<Remark> {
    let SyncRole::Hook(phases) = role else { return review_ineffective(object) };
    let mut remarks = Vec::new();
    for word in split_list(object.annotation(annotations::HOOK_ON).unwrap_or_default()) {
        if ![SYNC, SELF_HEAL].contains(&word) {
            let name = annotations::HOOK_ON;
            let message = format!(
                "invalid value {word:?} in the {name} annotation is ignored; use {SYNC}, {SELF_HEAL} or both"
            );
            remarks.push(("unknown-hook-on", message));
        }
    }
    match object.annotation(annotations::RUN_WHEN) {
        None if object.annotation(annotations::INPUTS).is_some() => {
            let (inputs, when) = (annotations::INPUTS, annotations::RUN_WHEN);
            let message = format!("the {inputs} annotation has no effect without {when}: {INPUTS_CHANGED}");
            remarks.push(("annotation-without-effect", message));
        }
        Some(when) if when.trim() != INPUTS_CHANGED => {
            let name = annotations::RUN_WHEN;
            let message =
                format!("invalid value {when:?} in the {name} annotation is ignored; use {INPUTS_CHANGED}");
            remarks.push(("unknown-run-when", message));
        }
        Some(_) if phases.contains(&Phase::SyncFail) => {
            let message =
                format!("the {} annotation has no effect on a SyncFail hook", annotations::RUN_WHEN);
            remarks.push(("annotation-without-effect", message));
        }
        Some(_) if object.name().is_empty() => {
            let message = format!(
                "the {} annotation needs metadata.name: earlier runs of a hook with a generated name cannot \
                 be found, so the hook always runs",
                annotations::RUN_WHEN
            );
            remarks.push(("run-when-without-name", message));
        }
        _ => {}
    }
    remarks.extend(input_selectors(object).filter_map(Result::err).map(|problem| ("invalid-input", problem)));
    remarks
}

fn review_ineffective(object: &Object) -> Vec<Remark> {
    let own = [annotations::HOOK_ON, annotations::RUN_WHEN, annotations::INPUTS];
    let given = own.into_iter().filter(|name| object.annotation(name).is_some());
    given
        .map(|name| {
            let message = format!("the {name} annotation has no effect on an object that is not a hook");
            ("annotation-without-effect", message)
        })
        .collect()
}

/// Returns the additional inputs that a hook specifies.
fn input_selectors(hook: &Object) -> impl Iterator<Item = Result<ResourceSelector, String>> {
    let named = split_list(hook.annotation(annotations::INPUTS).unwrap_or_default());
    named.into_iter().map(|word| {
        let name = annotations::INPUTS;
        word.parse()
            .map_err(|error| format!("the {name} annotation is invalid, so the hook always runs: {error}"))
    })
}

/// Returns the inputs that a hook declares but the manifests lack.
pub(crate) fn missing_inputs<'a>(
    hook: &'a Object,
    keys: &'a BTreeSet<ObjectKey>,
) -> impl Iterator<Item = String> + use<'a> {
    let named = input_selectors(hook).filter_map(Result::ok);
    let missing = named.filter(|one| !keys.iter().any(|key| one.matches(key)));
    missing.map(|one| {
        format!(
            "the {} annotation refers to {}:{}:{}/{}, but that object is not in the manifests; the hook always runs",
            annotations::INPUTS,
            one.group,
            one.kind,
            one.namespace,
            one.name
        )
    })
}

/// Returns true if a manifest is a hook that runs only when its inputs change.
pub fn runs_when_inputs_change(manifest: &Object) -> bool {
    let when = manifest.annotation(annotations::RUN_WHEN).map(str::trim);
    let of_sync = matches!(sync_role(manifest), SyncRole::Hook(phases) if !phases.contains(&Phase::SyncFail));
    when == Some(INPUTS_CHANGED) && of_sync && !manifest.name().is_empty()
}

/// Last operation in which a hook succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct LastRun {
    /// Key of the hook.
    pub hook: ObjectKey,
    /// Manifests of the operation.
    pub targets: Vec<Target>,
}

/// Returns the hooks whose inputs haven't changed since their last successful run. The inputs are the hook's
/// own manifest and the manifests it names.
pub fn unchanged_hooks(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
    last_runs: &[LastRun],
) -> BTreeSet<ObjectKey> {
    if last_runs.is_empty() || request.deletion.is_some() {
        return BTreeSet::new();
    }
    let now = targets_by_key(request, targets, discovery);
    let is_unchanged = |run: &&LastRun| {
        let Some(hook) = now.get(&run.hook).filter(|hook| runs_when_inputs_change(hook)) else {
            return false;
        };
        let inputs = hook_inputs(hook, &now);
        let before = targets_by_key(request, &run.targets, discovery);
        let Some(was) = before.get(&run.hook) else { return false };
        inputs.is_some() && inputs == self::hook_inputs(was, &before)
    };
    last_runs.iter().filter(is_unchanged).map(|run| run.hook.clone()).collect()
}

/// Indexes the manifests by key. As in the plan, the last duplicate wins.
fn targets_by_key<'t>(
    request: &SyncRequest,
    targets: &'t [Target],
    discovery: &Discovery,
) -> BTreeMap<ObjectKey, &'t Object> {
    let kinds = KnownKinds::new(discovery, targets.iter().map(|target| &target.object));
    let placed = targets.iter().map(|Target { object, .. }| {
        let ObjectScope { namespace, .. } = object_scope(object, &kinds, &request.namespace);
        (ObjectKey { namespace: namespace.to_owned(), ..object.key() }, object)
    });
    placed.collect()
}

/// Returns the hook and all its inputs, or `None` if one of them is missing.
fn hook_inputs<'t>(
    hook: &'t Object,
    all: &BTreeMap<ObjectKey, &'t Object>,
) -> Option<BTreeMap<ObjectKey, &'t Object>> {
    let mut inputs = BTreeMap::from([(hook.key(), hook)]);
    for selector in input_selectors(hook) {
        let selector = selector.ok()?;
        let mut named = all.iter().filter(|(key, _)| selector.matches(key)).peekable();
        named.peek()?;
        inputs.extend(named.map(|(key, object)| (key.clone(), *object)));
    }
    Some(inputs)
}
