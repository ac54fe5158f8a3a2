//! Is an object a hook? In which phases does it run, when is it deleted, what is it called?

use tidegate_model::{DeletePolicy, Object, Phase, SyncRequest, Timestamp, annotations};

use crate::text::words;

/// What an object is to a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A resource: applied in the Sync phase, and pruned when it is wanted no more.
    Resource,
    /// A hook that runs in these phases; never empty, sorted, without duplicates.
    Hook(Vec<Phase>),
    /// `Skip`: neither applied nor pruned.
    Skip,
    /// A hook of the application's deletion, or of something else that is not a sync. Left out.
    OtherHook,
    /// Says it is a hook, but of no known type. Left out.
    Dropped,
}

impl Role {
    /// Whether it is a hook that is run.
    pub fn runs(&self) -> bool {
        matches!(self, Self::Hook(_))
    }

    /// Whether the object counts as a hook; such live objects are never pruned.
    pub fn is_hook(&self) -> bool {
        matches!(self, Self::Hook(_) | Self::OtherHook | Self::Dropped)
    }
}

/// Whether a sync leaves a manifest out: it is marked `Skip`, or is a hook of something else than a sync.
pub fn is_left_out(manifest: &Object) -> bool {
    matches!(role(manifest), Role::Skip | Role::OtherHook | Role::Dropped)
}

/// Something surprising in the annotations of one object: a code and a message.
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
/// Helm's hook types that a sync never runs.
const HELM_OTHER: [&str; 7] =
    ["pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success", "test-failure"];
const HELM_CRD: &str = "crd-install";

/// The hook types an annotation names.
#[derive(Debug, Default)]
struct Types<'o> {
    phases: Vec<Phase>,
    skip: bool,
    other: bool,
    unknown: Vec<&'o str>,
}

impl Types<'_> {
    fn any(&self) -> bool {
        !self.phases.is_empty() || self.skip || self.other
    }

    /// Whether Helm's annotation decides: a hook of the application's deletion may be one of a sync as well.
    fn leaves_it_to(&self, helm: &str) -> bool {
        !self.any() || (self.phases.is_empty() && !self.skip && !helm_types(helm).phases.is_empty())
    }
}

fn argo_types(value: &str) -> Types<'_> {
    let mut types = Types::default();
    for word in words(value) {
        if let Some((_, phase)) = ARGO_PHASES.iter().find(|(name, _)| *name == word) {
            types.phases.push(*phase);
        } else if word == ARGO_SKIP {
            types.skip = true;
        } else if ARGO_DELETION.iter().any(|(name, _)| *name == word) {
            types.other = true;
        } else {
            types.unknown.push(word);
        }
    }
    types
}

fn helm_types(value: &str) -> Types<'_> {
    let mut types = Types::default();
    for word in words(value) {
        if let Some((_, phase)) = HELM_PHASES.iter().find(|(name, _)| *name == word) {
            types.phases.push(*phase);
        } else if HELM_OTHER.contains(&word) {
            types.other = true;
        } else if word != HELM_CRD {
            types.unknown.push(word);
        }
    }
    types
}

/// What an object is to a sync, by its hook annotations. Words are case-sensitive.
pub(crate) fn role(object: &Object) -> Role {
    classify(object).0
}

/// What an object is to the deletion of its application: a hook of it, or nothing. Both annotations count.
pub(crate) fn role_in_deletion(object: &Object) -> Role {
    let named = |annotation, known: &[(&str, Phase)]| {
        let given = words(object.annotation(annotation).unwrap_or_default());
        let phases = known.iter().filter(|(name, _)| given.contains(name)).map(|(_, phase)| *phase);
        phases.collect::<Vec<_>>()
    };
    let argo = named(annotations::HOOK, &ARGO_DELETION);
    let mut phases = [argo, named(annotations::HELM_HOOK, &HELM_DELETION)].concat();
    phases.sort_unstable();
    phases.dedup();
    if phases.is_empty() { Role::OtherHook } else { Role::Hook(phases) }
}

/// What an object is to what is asked for.
pub(crate) fn role_for(request: &SyncRequest, object: &Object) -> Role {
    if request.deletion.is_some() { role_in_deletion(object) } else { role(object) }
}

/// The role, and what is surprising about it.
pub(crate) fn classify(object: &Object) -> (Role, Vec<Remark>) {
    let argo = object.annotation(annotations::HOOK);
    let helm = object.annotation(annotations::HELM_HOOK);
    let mut remarks = Vec::new();
    let role = match (argo, helm) {
        (None, None) => Role::Resource,
        (None, Some(helm)) => helm_role(helm, &mut remarks),
        (Some(argo), helm) => argo_role(argo, helm, &mut remarks),
    };
    (role, remarks)
}

fn argo_role(argo: &str, helm: Option<&str>, remarks: &mut Vec<Remark>) -> Role {
    let types = argo_types(argo);
    unknown_words(
        annotations::HOOK,
        &types,
        "PreSync, Sync, PostSync, SyncFail, Skip, PreDelete, PostDelete",
        remarks,
    );
    if let Some(helm) = helm.filter(|helm| types.leaves_it_to(helm)) {
        remarks.push((
            "mixed-hook-annotations",
            format!(
                "{} names no hook type of a sync, so {} decides",
                annotations::HOOK,
                annotations::HELM_HOOK
            ),
        ));
        return helm_role(helm, remarks);
    }
    if helm.is_some() {
        remarks.push((
            "mixed-hook-annotations",
            format!("has both {} and {}; the second is ignored", annotations::HOOK, annotations::HELM_HOOK),
        ));
    }
    if words(argo).is_empty() {
        remarks.push((
            "empty-hook",
            format!(
                "annotation {} is empty, so the object is left out; remove the annotation to apply it",
                annotations::HOOK
            ),
        ));
    }
    decide(types)
}

fn helm_role(helm: &str, remarks: &mut Vec<Remark>) -> Role {
    if helm == HELM_CRD {
        return Role::Resource;
    }
    let types = helm_types(helm);
    unknown_words(
        annotations::HELM_HOOK,
        &types,
        "pre-install, pre-upgrade, post-install, post-upgrade",
        remarks,
    );
    if words(helm).is_empty() {
        remarks.push((
            "empty-hook",
            format!(
                "annotation {} is empty, so the object is left out; remove the annotation to apply it",
                annotations::HELM_HOOK
            ),
        ));
    }
    decide(types)
}

fn decide(types: Types<'_>) -> Role {
    let Types { mut phases, skip, other, .. } = types;
    phases.sort_unstable();
    phases.dedup();
    if !phases.is_empty() {
        Role::Hook(phases)
    } else if skip {
        Role::Skip
    } else if other {
        Role::OtherHook
    } else {
        Role::Dropped
    }
}

fn unknown_words(annotation: &str, types: &Types<'_>, known: &str, remarks: &mut Vec<Remark>) {
    let effect = if types.any() { "it is ignored" } else { "the object is left out" };
    for word in &types.unknown {
        remarks.push((
            "unknown-hook-type",
            format!(
                "{word:?} in annotation {annotation} is not a hook type, so {effect}; write one of {known}"
            ),
        ));
    }
}

/// When a hook object is deleted: the union of what both annotations name, else before the next creation.
pub(crate) fn delete_policies(object: &Object, remarks: &mut Vec<Remark>) -> Vec<DeletePolicy> {
    let mut policies = Vec::new();
    let argo = |(policy, argo, _)| (policy, argo);
    let helm = |(policy, _, helm)| (policy, helm);
    let argo_words = DeletePolicy::WORDS.map(argo);
    let helm_words = DeletePolicy::WORDS.map(helm);
    for (annotation, known) in
        [(annotations::HOOK_DELETE_POLICY, argo_words), (annotations::HELM_HOOK_DELETE_POLICY, helm_words)]
    {
        for word in words(object.annotation(annotation).unwrap_or_default()) {
            match known.iter().find(|(_, name)| *name == word) {
                Some((policy, _)) => policies.push(*policy),
                None => remarks.push((
                    "unknown-delete-policy",
                    format!(
                        "{word:?} in annotation {annotation} is not a delete policy and is ignored; write one of {}",
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

/// The name of a hook that only has `generateName`: the same for all retries of an operation, another in each phase.
///
/// The prefix is kept as it is; revision, phase and start time follow in lower case.
pub(crate) fn generated_name(prefix: &str, revision: &str, phase: Phase, started_at: Timestamp) -> String {
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
        let hook = |phases: &[Phase]| Role::Hook(phases.to_vec());
        for (argo, helm, role) in [
            (None, None, Role::OtherHook),
            (Some("PreSync"), Some("pre-install"), Role::OtherHook),
            (Some("PreDelete"), None, hook(&[PreDelete])),
            (Some("PostDelete, PreDelete,Sync,PostDelete"), None, hook(&[PreDelete, PostDelete])),
            (Some("Sync"), Some("pre-delete"), hook(&[PreDelete])),
            (Some("PostDelete"), Some("pre-delete,pre-install"), hook(&[PreDelete, PostDelete])),
            (None, Some("post-delete"), hook(&[PostDelete])),
            (Some("predelete"), Some("PreDelete"), Role::OtherHook),
            (Some("Skip"), None, Role::OtherHook),
        ] {
            assert_eq!(role_in_deletion(&hooks(argo, helm)), role, "{argo:?} {helm:?}");
        }
    }

    fn hooks(argo: Option<&'static str>, helm: Option<&'static str>) -> Object {
        let argo = argo.map(|value| (annotations::HOOK, value));
        let helm = helm.map(|value| (annotations::HELM_HOOK, value));
        object(&argo.into_iter().chain(helm).collect::<Vec<_>>())
    }

    /// Argo CD's annotation, Helm's, the role, and the codes of the findings.
    type Row = (Option<&'static str>, Option<&'static str>, Role, Vec<&'static str>);

    #[test]
    fn classification_table() {
        use Phase::{PostSync, PreSync, Sync, SyncFail};
        let hook = |phases: &[Phase]| Role::Hook(phases.to_vec());
        let mixed = "mixed-hook-annotations";
        let unknown = "unknown-hook-type";
        #[rustfmt::skip]
        let table: Vec<Row> = vec![
            (None, None, Role::Resource, vec![]),
            (Some("PreSync"), None, hook(&[PreSync]), vec![]),
            (Some("Sync"), None, hook(&[Sync]), vec![]),
            (Some("PostSync"), None, hook(&[PostSync]), vec![]),
            (Some("SyncFail"), None, hook(&[SyncFail]), vec![]),
            (Some(" PostSync , PreSync,,PreSync"), None, hook(&[PreSync, PostSync]), vec![]),
            (Some("Skip"), None, Role::Skip, vec![]),
            (Some("Skip,PreSync"), None, hook(&[PreSync]), vec![]),
            (Some("Skip,Foo"), None, Role::Skip, vec![unknown]),
            (Some("Foo"), None, Role::Dropped, vec![unknown]),
            (Some("presync"), None, Role::Dropped, vec![unknown]),
            (Some("PreDelete"), None, Role::OtherHook, vec![]),
            (Some("PostDelete,PreDelete"), None, Role::OtherHook, vec![]),
            (Some("PreDelete,Sync"), None, hook(&[Sync]), vec![]),
            (Some("PreSync,Foo"), None, hook(&[PreSync]), vec![unknown]),
            (Some("Foo"), Some("pre-install"), hook(&[PreSync]), vec![unknown, mixed]),
            (Some(""), Some("post-install"), hook(&[PostSync]), vec![mixed]),
            (Some(""), None, Role::Dropped, vec!["empty-hook"]),
            (Some(" , "), None, Role::Dropped, vec!["empty-hook"]),
            (Some("PostSync"), Some("pre-install"), hook(&[PostSync]), vec![mixed]),
            (Some("PreDelete"), Some("pre-install,pre-upgrade"), hook(&[PreSync]), vec![mixed]),
            (Some("PreDelete"), Some("pre-delete"), Role::OtherHook, vec![mixed]),
            (Some("PreDelete,PostSync"), Some("pre-install"), hook(&[PostSync]), vec![mixed]),
            (Some("Skip"), Some("pre-install"), Role::Skip, vec![mixed]),
            (None, Some("crd-install"), Role::Resource, vec![]),
            (None, Some("crd-install,pre-install"), hook(&[PreSync]), vec![]),
            (None, Some(" crd-install"), Role::Dropped, vec![]),
            (None, Some("pre-install,pre-upgrade"), hook(&[PreSync]), vec![]),
            (None, Some("post-install"), hook(&[PostSync]), vec![]),
            (None, Some("post-upgrade,pre-delete"), hook(&[PostSync]), vec![]),
            (None, Some("pre-delete"), Role::OtherHook, vec![]),
            (None, Some("post-delete"), Role::OtherHook, vec![]),
            (None, Some("pre-rollback"), Role::OtherHook, vec![]),
            (None, Some("test-success"), Role::OtherHook, vec![]),
            (None, Some("PreSync"), Role::Dropped, vec![unknown]),
            (None, Some(""), Role::Dropped, vec!["empty-hook"]),
        ];
        for (argo, helm, role, codes) in table {
            let (found, remarks) = classify(&hooks(argo, helm));
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
            assert_eq!(generated_name(prefix, revision, phase, at), name);
        }
    }
}
