//! Hooks: their types, phases, deletion policies and names.

use tidegate_model::{Cascade, DeletePolicy, Object, Phase, SyncRequest, Timestamp, annotations};

use crate::text::split_list;

/// Role of an object in a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyncRole {
    /// A resource: applied in the Sync phase, and pruned once it is gone from the manifests.
    Resource,
    /// A hook that runs in these phases. The list is sorted, without duplicates, and never empty.
    Hook(Vec<Phase>),
    /// `Skip`: neither applied nor pruned.
    Skip,
    /// A hook for the application's deletion or for a different type of operation. Not part of the sync.
    OtherHook,
    /// A hook of an unknown type. Not part of the sync.
    UnknownHook,
}

impl SyncRole {
    /// Returns true if the object runs as a hook.
    pub fn runs_as_hook(&self) -> bool {
        matches!(self, Self::Hook(_))
    }

    /// Returns true if the object counts as a hook. Live hook objects are never pruned.
    pub fn is_hook(&self) -> bool {
        matches!(self, Self::Hook(_) | Self::OtherHook | Self::UnknownHook)
    }
}

/// Returns true if a sync skips a manifest because it is marked `Skip` or is a hook for a different
/// operation.
pub fn is_excluded_from_sync(manifest: &Object) -> bool {
    matches!(sync_role(manifest), SyncRole::Skip | SyncRole::OtherHook | SyncRole::UnknownHook)
}

/// Remark about an object's annotations: its code and message.
pub(crate) type Remark = (&'static str, String);

const ARGO_PHASES: [(&str, Phase); 4] = [
    ("PreSync", Phase::PreSync),
    ("Sync", Phase::Sync),
    ("PostSync", Phase::PostSync),
    ("SyncFail", Phase::SyncFail),
];
const ARGO_SKIP: &str = "Skip";
const ARGO_DELETION: [(&str, Phase); 2] =
    [("PreDelete", Phase::PreDelete), ("PostDelete", Phase::PostDelete)];
const HELM_DELETION: [(&str, Phase); 2] =
    [("pre-delete", Phase::PreDelete), ("post-delete", Phase::PostDelete)];
const HELM_PHASES: [(&str, Phase); 4] = [
    ("pre-install", Phase::PreSync),
    ("pre-upgrade", Phase::PreSync),
    ("post-install", Phase::PostSync),
    ("post-upgrade", Phase::PostSync),
];
/// Helm hook types that a sync never runs.
const HELM_OTHER: [&str; 7] =
    ["pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success", "test-failure"];
const HELM_CRD: &str = "crd-install";

/// Hook types in an annotation.
#[derive(Debug, Default)]
struct HookTypes<'o> {
    phases: Vec<Phase>,
    has_skip: bool,
    has_other: bool,
    unknown: Vec<&'o str>,
}

impl HookTypes<'_> {
    fn is_hook(&self) -> bool {
        !self.phases.is_empty() || self.has_skip || self.has_other
    }

    /// Returns true if Helm's annotation decides the role: Argo CD's annotation has no hook type, or only
    /// types that a sync never runs while Helm's has a sync hook.
    fn defers_to_helm(&self, helm: &str) -> bool {
        !self.is_hook()
            || (self.phases.is_empty() && !self.has_skip && !parse_helm_types(helm).phases.is_empty())
    }
}

fn parse_argo_types(value: &str) -> HookTypes<'_> {
    let mut types = HookTypes::default();
    for word in split_list(value) {
        if let Some((_, phase)) = ARGO_PHASES.iter().find(|(name, _)| *name == word) {
            types.phases.push(*phase);
        } else if word == ARGO_SKIP {
            types.has_skip = true;
        } else if ARGO_DELETION.iter().any(|(name, _)| *name == word) {
            types.has_other = true;
        } else {
            types.unknown.push(word);
        }
    }
    types
}

fn parse_helm_types(value: &str) -> HookTypes<'_> {
    let mut types = HookTypes::default();
    for word in split_list(value) {
        if let Some((_, phase)) = HELM_PHASES.iter().find(|(name, _)| *name == word) {
            types.phases.push(*phase);
        } else if HELM_OTHER.contains(&word) {
            types.has_other = true;
        } else if word != HELM_CRD {
            types.unknown.push(word);
        }
    }
    types
}

/// Returns an object's role in a sync, based on its hook annotations. Their values are case-sensitive.
pub(crate) fn sync_role(object: &Object) -> SyncRole {
    classify_object(object).0
}

/// Returns an object's role when its application is deleted: a deletion hook, or no hook at all. Both hook
/// annotations count.
pub(crate) fn deletion_role(object: &Object) -> SyncRole {
    let named = |annotation, known: &[(&str, Phase)]| {
        let given = split_list(object.annotation(annotation).unwrap_or_default());
        let phases = known.iter().filter(|(name, _)| given.contains(name)).map(|(_, phase)| *phase);
        phases.collect::<Vec<_>>()
    };
    let argo = named(annotations::HOOK, &ARGO_DELETION);
    let mut phases = [argo, named(annotations::HELM_HOOK, &HELM_DELETION)].concat();
    phases.sort_unstable();
    phases.dedup();
    if phases.is_empty() { SyncRole::OtherHook } else { SyncRole::Hook(phases) }
}

/// Returns an object's role in the requested operation.
pub(crate) fn role_in_operation(request: &SyncRequest, object: &Object) -> SyncRole {
    if request.deletion.is_some() { deletion_role(object) } else { sync_role(object) }
}

/// Returns the reason an operation doesn't run any hooks, or `None` if it does.
pub(crate) fn hooks_disabled_reason(request: &SyncRequest) -> Option<&'static str> {
    match request.deletion {
        Some(Cascade::Orphan) => Some("hooks do not run during a deletion that keeps the objects"),
        Some(_) if request.options.skip_hooks => Some("hooks do not run during this deletion"),
        None if request.options.skip_hooks => Some("hooks do not run during this sync"),
        _ => None,
    }
}

/// Returns an object's role in a sync, and remarks about it.
pub(crate) fn classify_object(object: &Object) -> (SyncRole, Vec<Remark>) {
    let argo = object.annotation(annotations::HOOK);
    let helm = object.annotation(annotations::HELM_HOOK);
    let mut remarks = Vec::new();
    let role = match (argo, helm) {
        (None, None) => SyncRole::Resource,
        (None, Some(helm)) => helm_role(helm, &mut remarks),
        (Some(argo), helm) => argo_role(argo, helm, &mut remarks),
    };
    (role, remarks)
}

fn argo_role(argo: &str, helm: Option<&str>, remarks: &mut Vec<Remark>) -> SyncRole {
    let types = parse_argo_types(argo);
    report_unknown_types(
        annotations::HOOK,
        &types,
        "PreSync, Sync, PostSync, SyncFail, Skip, PreDelete, PostDelete",
        remarks,
    );
    if let Some(helm) = helm.filter(|helm| types.defers_to_helm(helm)) {
        remarks.push((
            "mixed-hook-annotations",
            format!(
                "the {} annotation contains no sync hook type, so {} applies",
                annotations::HOOK,
                annotations::HELM_HOOK
            ),
        ));
        return helm_role(helm, remarks);
    }
    if helm.is_some() {
        remarks.push((
            "mixed-hook-annotations",
            format!(
                "both {} and {} are set; the second annotation is ignored",
                annotations::HOOK,
                annotations::HELM_HOOK
            ),
        ));
    }
    if split_list(argo).is_empty() {
        remarks.push((
            "empty-hook",
            format!(
                "the {} annotation is empty, so the object is skipped; remove the annotation to apply the \
                 object",
                annotations::HOOK
            ),
        ));
    }
    role_of_types(types)
}

fn helm_role(helm: &str, remarks: &mut Vec<Remark>) -> SyncRole {
    if helm == HELM_CRD {
        return SyncRole::Resource;
    }
    let types = parse_helm_types(helm);
    report_unknown_types(
        annotations::HELM_HOOK,
        &types,
        "pre-install, pre-upgrade, post-install, post-upgrade",
        remarks,
    );
    if split_list(helm).is_empty() {
        remarks.push((
            "empty-hook",
            format!(
                "the {} annotation is empty, so the object is skipped; remove the annotation to apply the \
                 object",
                annotations::HELM_HOOK
            ),
        ));
    }
    role_of_types(types)
}

fn role_of_types(types: HookTypes<'_>) -> SyncRole {
    let HookTypes { mut phases, has_skip: skip, has_other: other, .. } = types;
    phases.sort_unstable();
    phases.dedup();
    if !phases.is_empty() {
        SyncRole::Hook(phases)
    } else if skip {
        SyncRole::Skip
    } else if other {
        SyncRole::OtherHook
    } else {
        SyncRole::UnknownHook
    }
}

fn report_unknown_types(annotation: &str, types: &HookTypes<'_>, known: &str, remarks: &mut Vec<Remark>) {
    let effect = if types.is_hook() { "the type is ignored" } else { "the object is skipped" };
    for word in &types.unknown {
        remarks.push((
            "unknown-hook-type",
            format!(
                "unknown hook type {word:?} in the {annotation} annotation, so {effect}; use one of {known}"
            ),
        ));
    }
}

/// Returns a hook's deletion policies, combined from both annotations. By default, a hook is deleted before
/// it is created again.
pub(crate) fn delete_policies(object: &Object, remarks: &mut Vec<Remark>) -> Vec<DeletePolicy> {
    let mut policies = Vec::new();
    let argo = |(policy, argo, _)| (policy, argo);
    let helm = |(policy, _, helm)| (policy, helm);
    let argo_words = DeletePolicy::NAMES.map(argo);
    let helm_words = DeletePolicy::NAMES.map(helm);
    for (annotation, known) in
        [(annotations::HOOK_DELETE_POLICY, argo_words), (annotations::HELM_HOOK_DELETE_POLICY, helm_words)]
    {
        for word in split_list(object.annotation(annotation).unwrap_or_default()) {
            match known.iter().find(|(_, name)| *name == word) {
                Some((policy, _)) => policies.push(*policy),
                None => remarks.push((
                    "unknown-delete-policy",
                    format!(
                        "unknown delete policy {word:?} in the {annotation} annotation is ignored; use one \
                         of {}",
                        known.map(|(_, name)| name).join(", ")
                    ),
                )),
            }
        }
    }
    policies.sort_unstable();
    policies.dedup();
    if policies.is_empty() {
        policies.push(DeletePolicy::BeforeHookCreation);
    }
    policies
}

/// Returns the name for a hook that has only `generateName`. It stays the same across retries of an
/// operation, but differs between phases.
///
/// The name is the unchanged prefix, followed by the revision, phase and start time in lower case.
pub(crate) fn generated_hook_name(
    prefix: &str,
    revision: &str,
    phase: Phase,
    started_at: Timestamp,
) -> String {
    const SHORT_REVISION: usize = 7;
    let revision = match revision.char_indices().nth(SHORT_REVISION) {
        Some((end, _)) => revision.get(..end).unwrap_or(revision),
        None => revision,
    };
    format!("{prefix}{}", format!("{revision}-{phase}-{}", started_at.as_seconds()).to_lowercase())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(pairs: &[(&str, &str)]) -> Object {
        let mut object =
            Object::try_from(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}))
                .unwrap();
        for (name, value) in pairs {
            object.set_annotation(name, *value);
        }
        object
    }

    #[test]
    fn hooks_of_a_deletion() {
        use Phase::{PostDelete, PreDelete};
        let hook = |phases: &[Phase]| SyncRole::Hook(phases.to_vec());
        for (argo, helm, role) in [
            (None, None, SyncRole::OtherHook),
            (Some("PreSync"), Some("pre-install"), SyncRole::OtherHook),
            (Some("PreDelete"), None, hook(&[PreDelete])),
            (Some("PostDelete, PreDelete,Sync,PostDelete"), None, hook(&[PreDelete, PostDelete])),
            (Some("Sync"), Some("pre-delete"), hook(&[PreDelete])),
            (Some("PostDelete"), Some("pre-delete,pre-install"), hook(&[PreDelete, PostDelete])),
            (None, Some("post-delete"), hook(&[PostDelete])),
            (Some("predelete"), Some("PreDelete"), SyncRole::OtherHook),
            (Some("Skip"), None, SyncRole::OtherHook),
        ] {
            assert_eq!(deletion_role(&hooks(argo, helm)), role, "{argo:?} {helm:?}");
        }
    }

    fn hooks(argo: Option<&'static str>, helm: Option<&'static str>) -> Object {
        let argo = argo.map(|value| (annotations::HOOK, value));
        let helm = helm.map(|value| (annotations::HELM_HOOK, value));
        object(&argo.into_iter().chain(helm).collect::<Vec<_>>())
    }

    /// Argo CD's annotation, Helm's annotation, the expected role, and the expected finding codes.
    type TestRow = (Option<&'static str>, Option<&'static str>, SyncRole, Vec<&'static str>);

    #[test]
    fn classification_table() {
        use Phase::{PostSync, PreSync, Sync, SyncFail};
        let hook = |phases: &[Phase]| SyncRole::Hook(phases.to_vec());
        let mixed = "mixed-hook-annotations";
        let unknown = "unknown-hook-type";
        #[rustfmt::skip]
        let table: Vec<TestRow> = vec![
            (None, None, SyncRole::Resource, vec![]),
            (Some("PreSync"), None, hook(&[PreSync]), vec![]),
            (Some("Sync"), None, hook(&[Sync]), vec![]),
            (Some("PostSync"), None, hook(&[PostSync]), vec![]),
            (Some("SyncFail"), None, hook(&[SyncFail]), vec![]),
            (Some(" PostSync , PreSync,,PreSync"), None, hook(&[PreSync, PostSync]), vec![]),
            (Some("Skip"), None, SyncRole::Skip, vec![]),
            (Some("Skip,PreSync"), None, hook(&[PreSync]), vec![]),
            (Some("Skip,Foo"), None, SyncRole::Skip, vec![unknown]),
            (Some("Foo"), None, SyncRole::UnknownHook, vec![unknown]),
            (Some("presync"), None, SyncRole::UnknownHook, vec![unknown]),
            (Some("PreDelete"), None, SyncRole::OtherHook, vec![]),
            (Some("PostDelete,PreDelete"), None, SyncRole::OtherHook, vec![]),
            (Some("PreDelete,Sync"), None, hook(&[Sync]), vec![]),
            (Some("PreSync,Foo"), None, hook(&[PreSync]), vec![unknown]),
            (Some("Foo"), Some("pre-install"), hook(&[PreSync]), vec![unknown, mixed]),
            (Some(""), Some("post-install"), hook(&[PostSync]), vec![mixed]),
            (Some(""), None, SyncRole::UnknownHook, vec!["empty-hook"]),
            (Some(" , "), None, SyncRole::UnknownHook, vec!["empty-hook"]),
            (Some("PostSync"), Some("pre-install"), hook(&[PostSync]), vec![mixed]),
            (Some("PreDelete"), Some("pre-install,pre-upgrade"), hook(&[PreSync]), vec![mixed]),
            (Some("PreDelete"), Some("pre-delete"), SyncRole::OtherHook, vec![mixed]),
            (Some("PreDelete,PostSync"), Some("pre-install"), hook(&[PostSync]), vec![mixed]),
            (Some("Skip"), Some("pre-install"), SyncRole::Skip, vec![mixed]),
            (None, Some("crd-install"), SyncRole::Resource, vec![]),
            (None, Some("crd-install,pre-install"), hook(&[PreSync]), vec![]),
            (None, Some(" crd-install"), SyncRole::UnknownHook, vec![]),
            (None, Some("pre-install,pre-upgrade"), hook(&[PreSync]), vec![]),
            (None, Some("post-install"), hook(&[PostSync]), vec![]),
            (None, Some("post-upgrade,pre-delete"), hook(&[PostSync]), vec![]),
            (None, Some("pre-delete"), SyncRole::OtherHook, vec![]),
            (None, Some("post-delete"), SyncRole::OtherHook, vec![]),
            (None, Some("pre-rollback"), SyncRole::OtherHook, vec![]),
            (None, Some("test-success"), SyncRole::OtherHook, vec![]),
            (None, Some("PreSync"), SyncRole::UnknownHook, vec![unknown]),
            (None, Some(""), SyncRole::UnknownHook, vec!["empty-hook"]),
        ];
        for (argo, helm, role, codes) in table {
            let (found, remarks) = classify_object(&hooks(argo, helm));
            assert_eq!(found, role, "{argo:?} {helm:?}");
            assert_eq!(remarks.iter().map(|(code, _)| *code).collect::<Vec<_>>(), codes, "{argo:?} {helm:?}");
        }
    }

    #[test]
    fn delete_policy_table() {
        use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
        for (argo, helm, expected, unknown) in [
            ("", "", vec![BeforeHookCreation], 0),
            ("HookSucceeded", "", vec![HookSucceeded], 0),
            ("HookFailed, HookSucceeded", "", vec![HookSucceeded, HookFailed], 0),
            (
                "HookSucceeded",
                "hook-failed,before-hook-creation",
                vec![BeforeHookCreation, HookSucceeded, HookFailed],
                0,
            ),
            ("", "hook-succeeded", vec![HookSucceeded], 0),
            ("hook-succeeded", "", vec![BeforeHookCreation], 1),
            ("HookSucceded", "HookFailed", vec![BeforeHookCreation], 2),
            ("HookFailed,x", "", vec![HookFailed], 1),
        ] {
            let object = object(&[
                (annotations::HOOK_DELETE_POLICY, argo),
                (annotations::HELM_HOOK_DELETE_POLICY, helm),
            ]);
            let mut remarks = Vec::new();
            assert_eq!(delete_policies(&object, &mut remarks), expected, "{argo:?} {helm:?}");
            assert_eq!(remarks.len(), unknown, "{argo:?} {helm:?}");
        }
        assert_eq!(delete_policies(&hooks(Some("Sync"), None), &mut Vec::new()), [BeforeHookCreation]);
    }

    #[test]
    fn generated_names() {
        let at = Timestamp::from_millis(1_700_000_000_999);
        for (prefix, revision, phase, name) in [
            ("migrate-", "FooBarBaz", Phase::PreSync, "migrate-foobarb-presync-1700000000"),
            ("migrate-", "foobarb", Phase::PostSync, "migrate-foobarb-postsync-1700000000"),
            ("migrate-", "v1", Phase::SyncFail, "migrate-v1-syncfail-1700000000"),
            ("Migrate-", "", Phase::Sync, "Migrate--sync-1700000000"),
        ] {
            assert_eq!(generated_hook_name(prefix, revision, phase, at), name);
        }
    }
}
