//! Targets: the objects to deploy, by key.
//!
//! A target's namespace follows from the scope of its kind. If several objects have the same key, the last
//! one wins. Objects that a sync skips are recorded with the reason.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use tidegate_model::{Object, ObjectKey, SyncRequest};

use crate::dependencies::{ManifestObjects, declared_dependencies, foreign_dependencies};
use crate::excluded_manifest::ExcludedManifest;
use crate::findings::{FindingSubject, Findings};
use crate::hook_conditions;
use crate::hooks::{self, Remark, SyncRole};
use crate::ineffective_annotations;
use crate::known_kinds::KnownKinds;
use crate::manifests::{Origin, Target};
use crate::object_scope::{ObjectScope, object_scope};
use crate::object_settings::{ObjectSettings, RESERVED_ANNOTATIONS, object_settings};
use crate::sync_options;

/// Target that takes part in the sync.
#[derive(Debug)]
pub(crate) struct SyncTarget {
    /// Position in the input.
    pub position: usize,
    /// Location of the manifest.
    pub origin: Origin,
    /// The object with its effective namespace.
    pub object: Object,
    /// Key of the object. The name is empty if it will be generated.
    pub key: ObjectKey,
    /// True if the object's kind is namespaced, or `None` if its scope is unknown.
    pub namespaced: Option<bool>,
    /// Role in the sync: `Resource` or `Hook` for objects that take part.
    pub role: SyncRole,
    /// Settings in the object's `tidegate.dev/*` annotations.
    pub requests: ObjectSettings,
}

impl SyncTarget {
    /// Returns the target as a subject for findings.
    pub fn finding_subject(&self) -> FindingSubject {
        finding_subject(self.position, &self.key, &self.object, &self.origin)
    }

    /// Returns the object, and its subject for findings.
    pub fn into_parts(self) -> (Object, FindingSubject) {
        let Self { position: place, origin, object, key, .. } = self;
        let prefix = object.generate_name().to_owned();
        (object, FindingSubject { position: place, key: Some(key), prefix, origin: Some(origin) })
    }
}

/// Target with its effective namespace.
struct ScopedTarget {
    position: usize,
    origin: Origin,
    object: Object,
    key: ObjectKey,
    namespaced: Option<bool>,
}

impl ScopedTarget {
    fn finding_subject(&self) -> FindingSubject {
        finding_subject(self.position, &self.key, &self.object, &self.origin)
    }
}

fn finding_subject(place: usize, key: &ObjectKey, object: &Object, origin: &Origin) -> FindingSubject {
    let prefix = object.generate_name().to_owned();
    FindingSubject { position: place, key: Some(key.clone()), prefix, origin: Some(origin.clone()) }
}

/// Targets that a sync includes and excludes.
#[derive(Debug, Default)]
pub(crate) struct SelectedTargets {
    /// Objects that take part in the sync, in input order.
    pub objects: Vec<SyncTarget>,
    /// Keys of objects in the manifests that the sync skips. They aren't pruned either.
    pub excluded_keys: BTreeSet<ObjectKey>,
    /// All objects in the manifests, for dependencies between them.
    pub manifests: ManifestObjects,
}

/// Selection of the targets for one plan.
pub(crate) struct TargetSelector<'p> {
    pub request: &'p SyncRequest,
    pub kinds: &'p KnownKinds<'p>,
    pub findings: &'p mut Findings,
    pub left_out: &'p mut Vec<ExcludedManifest>,
    /// Hooks that have already succeeded with their current inputs.
    pub unchanged: &'p BTreeSet<ObjectKey>,
}

impl TargetSelector<'_> {
    /// Selects the objects that take part in the sync, and records why the others don't.
    pub fn select_targets(&mut self, targets: Vec<Target>) -> SelectedTargets {
        let mut wanted = SelectedTargets::default();
        let deletes = self.request.deletion.is_some();
        let all = self.remove_duplicates(self.resolve_scopes(targets));
        let keys: BTreeSet<ObjectKey> = all.iter().map(|scoped| scoped.key.clone()).collect();
        let mut hooks_left_out = 0_usize;
        for mut scoped in all {
            let (role, mut remarks) = match deletes {
                true => (hooks::deletion_role(&scoped.object), Vec::new()),
                false => hooks::classify_object(&scoped.object),
            };
            if deletes && role == SyncRole::OtherHook {
                continue;
            }
            if let Some(reason) = self.exclusion_reason(&scoped, &role) {
                self.left_out.push(ExcludedManifest::new(&scoped.finding_subject(), reason));
                hooks_left_out += usize::from(deletes && role.runs_as_hook());
                if role == SyncRole::Skip {
                    remarks
                        .push(("skipped", format!("{reason}, so the object is neither applied nor pruned")));
                }
                self.add_remarks(&scoped, remarks);
                if let Some(declared) = declared_dependencies(&scoped.object) {
                    wanted.manifests.skipped.insert(scoped.key.clone(), declared);
                }
                if matches!(role, SyncRole::Skip | SyncRole::OtherHook | SyncRole::UnknownHook) {
                    wanted.excluded_keys.insert(scoped.key);
                }
                continue;
            }
            if role.runs_as_hook() && !deletes {
                let missing = hook_conditions::missing_inputs(&scoped.object, &keys);
                remarks.extend(missing.map(|problem| ("missing-input", problem)));
            }
            let admitted = self.validate_target(&mut scoped, &role, &mut remarks);
            self.add_remarks(&scoped, remarks);
            let ScopedTarget { position: place, origin, object, key, namespaced } = scoped;
            let desire =
                |requests| SyncTarget { position: place, origin, object, key, namespaced, role, requests };
            wanted.objects.extend(admitted.map(desire));
        }
        self.warn_excluded_hooks(hooks_left_out);
        wanted.manifests.keys = keys;
        wanted
    }

    /// Warns about deletion hooks that won't run.
    fn warn_excluded_hooks(&mut self, count: usize) {
        let Some(reason) = hooks::hooks_disabled_reason(self.request).filter(|_| count > 0) else { return };
        let what = if count == 1 { "deletion hook" } else { "deletion hooks" };
        self.findings.warn(
            "deletion-hooks-not-run",
            &FindingSubject::default(),
            format!("{count} {what} will not run: {reason}"),
        );
    }

    /// Returns the reason an object isn't part of this sync.
    fn exclusion_reason(&self, scoped: &ScopedTarget, role: &SyncRole) -> Option<&'static str> {
        match role {
            SyncRole::Hook(_) if self.unchanged.contains(&scoped.key) => {
                request_exclusion(self.request, scoped, role)
                    .or(Some("its inputs have not changed since it succeeded"))
            }
            role => request_exclusion(self.request, scoped, role),
        }
    }

    fn add_remarks(&mut self, scoped: &ScopedTarget, remarks: Vec<Remark>) {
        for (code, message) in remarks {
            self.findings.warn(code, &scoped.finding_subject(), message);
        }
    }

    fn resolve_scopes(&self, targets: Vec<Target>) -> Vec<ScopedTarget> {
        let scope = |(index, Target { mut object, origin }): (usize, Target)| {
            let ObjectScope { namespaced, namespace } =
                object_scope(&object, self.kinds, &self.request.namespace);
            if namespace != object.namespace() {
                let namespace = namespace.to_owned();
                object.set_namespace(&namespace);
            }
            let key = object.key();
            ScopedTarget { position: index + 1, origin, object, key, namespaced }
        };
        targets.into_iter().enumerate().map(scope).collect()
    }

    /// Validates an object and parses its annotations.
    fn validate_target(
        &mut self,
        scoped: &mut ScopedTarget,
        role: &SyncRole,
        remarks: &mut Vec<Remark>,
    ) -> Option<ObjectSettings> {
        let ScopedTarget { object, key, namespaced, .. } = scoped;
        remarks.extend(sync_options::review_resource(object, &self.request.options));
        remarks.extend(ineffective_annotations::review_ineffective(object));
        if self.request.deletion.is_none() {
            remarks.extend(foreign_dependencies(object).1);
        }
        if self.request.deletion.is_none() {
            remarks.extend(hook_conditions::review_conditions(object, role));
        }
        let requests = object_settings(object, role.is_hook(), remarks);
        remove_server_fields(object, remarks);
        review_target(object, role, remarks);
        let refusal = if key.name.is_empty() && *role == SyncRole::Resource {
            Some((
                "generated-name",
                "only hooks may have metadata.generateName instead of metadata.name; set metadata.name",
            ))
        } else if *namespaced != Some(false) && key.namespace.is_empty() {
            Some((
                "missing-namespace",
                "the object has no namespace, and the operation has no destination namespace; set one of them",
            ))
        } else {
            None
        };
        if let Some((code, reason)) = refusal {
            self.findings.error(code, &scoped.finding_subject(), reason);
            self.left_out.push(ExcludedManifest::new(&scoped.finding_subject(), reason));
            return None;
        }
        Some(requests)
    }

    /// Keeps only the last object for each key. Generated names never clash.
    fn remove_duplicates(&mut self, all: Vec<ScopedTarget>) -> Vec<ScopedTarget> {
        let named = || all.iter().filter(|scoped| !scoped.key.name.is_empty());
        let keys: HashSet<&ObjectKey> = named().map(|scoped| &scoped.key).collect();
        if keys.len() == named().count() {
            return all;
        }
        let mut same: BTreeMap<&ObjectKey, Vec<&ScopedTarget>> = BTreeMap::new();
        named().for_each(|scoped| same.entry(&scoped.key).or_default().push(scoped));
        let mut dropped = BTreeSet::new();
        for (key, same) in same {
            if let Some((kept, earlier)) = same.split_last().filter(|(_, earlier)| !earlier.is_empty()) {
                self.report_duplicates(key, &kept.finding_subject(), earlier);
                dropped.extend(earlier.iter().map(|scoped| scoped.position));
            }
        }
        all.into_iter().filter(|scoped| !dropped.contains(&scoped.position)).collect()
    }

    fn report_duplicates(&mut self, key: &ObjectKey, kept: &FindingSubject, earlier: &[&ScopedTarget]) {
        let origins: Vec<String> = earlier.iter().map(|scoped| scoped.origin.to_string()).collect();
        let message = format!(
            "Resource {}/{}/{}/{} appeared {} times among application resources. The last one wins; also at {}",
            key.group,
            key.kind,
            key.namespace,
            key.name,
            earlier.len() + 1,
            origins.join(", ")
        );
        self.findings.warn("repeated-resource", kept, message);
        for scoped in earlier {
            self.left_out
                .push(ExcludedManifest::new(&scoped.finding_subject(), "a later object has the same key"));
        }
    }
}

/// Returns the reason the request excludes an object from the sync, ignoring earlier hook runs.
fn request_exclusion(request: &SyncRequest, scoped: &ScopedTarget, role: &SyncRole) -> Option<&'static str> {
    let selective = !request.selection.is_empty();
    match role {
        SyncRole::Skip => Some("its hook annotation is Skip"),
        SyncRole::OtherHook => Some("none of its hook types runs during a sync"),
        SyncRole::UnknownHook => Some("its hook annotation does not contain a known hook type"),
        SyncRole::Hook(_) => hooks::hooks_disabled_reason(request).or_else(|| {
            hook_conditions::exclusion_reason(request, &scoped.object).filter(|_| request.deletion.is_none())
        }),
        SyncRole::Resource if selective && !is_selected(request, &scoped.key) => Some("not selected"),
        SyncRole::Resource => None,
    }
}

/// Returns true if a sync selects the object.
pub(crate) fn is_selected(request: &SyncRequest, key: &ObjectKey) -> bool {
    request.selection.is_empty() || request.selection.iter().any(|selector| selector.matches(key))
}

/// Removes fields that only the cluster or the engine may write.
fn remove_server_fields(object: &mut Object, remarks: &mut Vec<Remark>) {
    if object.metadata_mut().remove("managedFields").is_some() {
        remarks.push((
            "server-fields",
            "metadata.managedFields is set by the API server, so it was removed from the manifest".to_owned(),
        ));
    }
    if RESERVED_ANNOTATIONS.iter().any(|annotation| object.annotation(annotation).is_some())
        && let Some(all) = object.metadata_mut().get_mut("annotations").and_then(|all| all.as_object_mut())
    {
        all.retain(|name, _| !RESERVED_ANNOTATIONS.contains(&name.as_str()));
    }
}

fn review_target(object: &Object, role: &SyncRole, remarks: &mut Vec<Remark>) {
    use tidegate_model::annotations::{HELM_HOOK_DELETE_POLICY, HOOK_DELETE_POLICY};
    for (annotation, value) in crate::waves::wave_of_object(object).invalid_annotations.into_iter().flatten()
    {
        remarks.push((
            "invalid-wave",
            format!("invalid wave {value:?} in the {annotation} annotation is ignored; use a whole number, such as \"-1\" or \"5\""),
        ));
    }
    if *role == SyncRole::Resource {
        for annotation in [HOOK_DELETE_POLICY, HELM_HOOK_DELETE_POLICY] {
            if object.annotation(annotation).is_some() {
                let message =
                    format!("the {annotation} annotation has no effect on an object that is not a hook");
                remarks.push(("annotation-without-effect", message));
            }
        }
    }
}
