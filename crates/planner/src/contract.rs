//! In which operations does a hook run? What its annotations say of the operation, and of its inputs.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Discovery, Object, ObjectKey, Phase, ResourceSelector, SyncRequest, annotations};

use crate::hooks::{Remark, Role, role};
use crate::kinds::Kinds;
use crate::manifests::Target;
use crate::targets::{Scope, scope};
use crate::text::words;

/// A sync of all of the application, whoever began it.
const SYNC: &str = "sync";
/// An operation that puts the cluster right without a change of the manifests.
const SELF_HEAL: &str = "selfheal";
/// A hook runs when its inputs are others than when it ran last.
const INPUTS_CHANGED: &str = "inputs-changed";

/// Why a hook takes no part in an operation, as its annotation says; without one it runs in every sync of all of the
/// application.
pub(crate) fn left_out(request: &SyncRequest, hook: &Object) -> Option<&'static str> {
    let named = words(hook.annotation(annotations::HOOK_ON).unwrap_or_default());
    let says = |word| named.contains(&word);
    if request.is_self_heal() {
        return (!says(SELF_HEAL)).then_some("hooks do not run in a selective sync");
    }
    if !request.selection.is_empty() {
        return Some("hooks do not run in a selective sync");
    }
    (says(SELF_HEAL) && !says(SYNC)).then_some("its contract names only selfheal")
}

/// What is surprising in the annotations that say when a hook runs.
pub(crate) fn review(object: &Object, role: &Role) -> Vec<Remark> {
    let Role::Hook(phases) = role else { return without_effect(object) };
    let mut remarks = Vec::new();
    for word in words(object.annotation(annotations::HOOK_ON).unwrap_or_default()) {
        if ![SYNC, SELF_HEAL].contains(&word) {
            let name = annotations::HOOK_ON;
            let message =
                format!("{word:?} in annotation {name} is ignored; write {SYNC}, {SELF_HEAL} or both");
            remarks.push(("unknown-hook-on", message));
        }
    }
    match object.annotation(annotations::RUN_WHEN) {
        None if object.annotation(annotations::INPUTS).is_some() => {
            let (inputs, when) = (annotations::INPUTS, annotations::RUN_WHEN);
            let message = format!("annotation {inputs} has an effect with {when}: {INPUTS_CHANGED} only");
            remarks.push(("annotation-without-effect", message));
        }
        Some(when) if when.trim() != INPUTS_CHANGED => {
            let name = annotations::RUN_WHEN;
            let message = format!("annotation {name} is {when:?} and is ignored; write {INPUTS_CHANGED}");
            remarks.push(("unknown-run-when", message));
        }
        Some(_) if phases.contains(&Phase::SyncFail) => {
            let message = format!("annotation {} has no effect on a SyncFail hook", annotations::RUN_WHEN);
            remarks.push(("annotation-without-effect", message));
        }
        Some(_) if object.name().is_empty() => {
            let message = format!(
                "annotation {} needs metadata.name: by a generated name no earlier run is found, so it always runs",
                annotations::RUN_WHEN
            );
            remarks.push(("run-when-without-name", message));
        }
        _ => {}
    }
    remarks.extend(selectors(object).filter_map(Result::err).map(|problem| ("invalid-input", problem)));
    remarks
}

fn without_effect(object: &Object) -> Vec<Remark> {
    let own = [annotations::HOOK_ON, annotations::RUN_WHEN, annotations::INPUTS];
    let given = own.into_iter().filter(|name| object.annotation(name).is_some());
    given
        .map(|name| {
            let message = format!("annotation {name} has no effect on an object that is not a hook");
            ("annotation-without-effect", message)
        })
        .collect()
}

/// What a hook names as its inputs, besides itself.
fn selectors(hook: &Object) -> impl Iterator<Item = Result<ResourceSelector, String>> {
    let named = words(hook.annotation(annotations::INPUTS).unwrap_or_default());
    named.into_iter().map(|word| {
        let name = annotations::INPUTS;
        word.parse().map_err(|error| format!("annotation {name}, so the hook always runs: {error}"))
    })
}

/// The inputs that a hook names and that are not among the manifests.
pub(crate) fn missing<'a>(
    hook: &'a Object,
    keys: &'a BTreeSet<ObjectKey>,
) -> impl Iterator<Item = String> + use<'a> {
    let named = selectors(hook).filter_map(Result::ok);
    let missing = named.filter(|one| !keys.iter().any(|key| one.matches(key)));
    missing.map(|one| {
        format!(
            "annotation {} names {}:{}:{}/{}, which is none of the manifests, so the hook always runs",
            annotations::INPUTS,
            one.group,
            one.kind,
            one.namespace,
            one.name
        )
    })
}

/// Whether a manifest is a hook that runs only when its inputs have changed.
pub fn runs_when_inputs_change(manifest: &Object) -> bool {
    let when = manifest.annotation(annotations::RUN_WHEN).map(str::trim);
    let of_sync = matches!(role(manifest), Role::Hook(phases) if !phases.contains(&Phase::SyncFail));
    when == Some(INPUTS_CHANGED) && of_sync && !manifest.name().is_empty()
}

/// The operation in which a hook ran last, where it has succeeded there.
#[derive(Clone, Debug, PartialEq)]
pub struct LastRun {
    /// The hook.
    pub hook: ObjectKey,
    /// The manifests of that operation.
    pub targets: Vec<Target>,
}

/// The hooks whose inputs are those with which they have succeeded when they ran last: their own manifest, and what it names.
pub fn unchanged_hooks(
    request: &SyncRequest,
    targets: &[Target],
    discovery: &Discovery,
    last_runs: &[LastRun],
) -> BTreeSet<ObjectKey> {
    if last_runs.is_empty() || request.deletion.is_some() {
        return BTreeSet::new();
    }
    let now = by_key(request, targets, discovery);
    let is_unchanged = |run: &&LastRun| {
        let Some(hook) = now.get(&run.hook).filter(|hook| runs_when_inputs_change(hook)) else {
            return false;
        };
        let inputs = inputs(hook, &now);
        let before = by_key(request, &run.targets, discovery);
        let Some(was) = before.get(&run.hook) else { return false };
        inputs.is_some() && inputs == self::inputs(was, &before)
    };
    last_runs.iter().filter(is_unchanged).map(|run| run.hook.clone()).collect()
}

/// The manifests by their place in the cluster. Of those with one key the last wins, as in the plan.
fn by_key<'t>(
    request: &SyncRequest,
    targets: &'t [Target],
    discovery: &Discovery,
) -> BTreeMap<ObjectKey, &'t Object> {
    let kinds = Kinds::new(discovery, targets.iter().map(|target| &target.object));
    let placed = targets.iter().map(|Target { object, .. }| {
        let Scope { namespace, .. } = scope(object, &kinds, &request.namespace);
        (ObjectKey { namespace: namespace.to_owned(), ..object.key() }, object)
    });
    placed.collect()
}

/// The hook and all that it names; nothing where something of that is not there.
fn inputs<'t>(
    hook: &'t Object,
    all: &BTreeMap<ObjectKey, &'t Object>,
) -> Option<BTreeMap<ObjectKey, &'t Object>> {
    let mut inputs = BTreeMap::from([(hook.key(), hook)]);
    for selector in selectors(hook) {
        let selector = selector.ok()?;
        let mut named = all.iter().filter(|(key, _)| selector.matches(key)).peekable();
        named.peek()?;
        inputs.extend(named.map(|(key, object)| (key.clone(), *object)));
    }
    Some(inputs)
}
