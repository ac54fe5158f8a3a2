//! Properties that hold for all ApplicationSets and Applications.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_application::comparison::{ComparisonOutcome, apply_comparison};
use tidegate_application::refresh::{REFRESH_ANNOTATION, RefreshLevel, complete_refresh};
use tidegate_applicationset::changes::{AppSetChanges, AppSetOutput, reconcile};
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::status::{ConditionReason, ReconcileFailure};
use tidegate_applicationset::sync_policy::{AppSetRuleOptions, allowed_changes};
use tidegate_model::Phase;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{
    APPSET_ANNOTATION, FINALIZER, OneCluster, apply_changes, appset, at, generated_application,
    generated_output, live_application, with_patch,
};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Generates specifications for live or generated Applications.
fn spec() -> impl Strategy<Value = Value> {
    let project = prop::sample::select(vec!["", "default", "shop", "gone"]);
    let cluster = prop::sample::select(vec!["in-cluster", "in-cluster", "in-cluster", "moon", "twice"]);
    let policy = prop::sample::select(vec![
        json!(null),
        json!({}),
        json!({"automated": {}}),
        json!({"automated": {"prune": true, "enabled": false}}),
        json!({"syncOptions": ["A=true"]}),
    ]);
    let parameters = prop::collection::vec(("[ab]", "[xy]"), 0..3);
    let revision = prop::sample::select(vec!["main", "v1"]);
    (project, cluster, policy, parameters, revision).prop_map(
        |(project, cluster, policy, parameters, revision)| {
            let parameters: Vec<_> =
                parameters.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            json!({"spec": {
                "project": project, "destination": {"name": cluster}, "syncPolicy": policy,
                "source": {"targetRevision": revision, "helm": {"parameters": parameters}},
            }})
        },
    )
}

fn metadata() -> impl Strategy<Value = Value> {
    let keys = prop::collection::btree_map(
        prop::sample::select(vec!["mine", "x", "argocd.argoproj.io/refresh"]),
        prop::sample::select(vec!["1", "2"]),
        0..3,
    );
    let finalizers = prop::sample::subsequence(
        vec![FINALIZER, "pre-delete-finalizer.argocd.argoproj.io", "example.com/x"],
        0..=3,
    );
    (keys.clone(), keys, finalizers).prop_map(|(annotations, labels, finalizers)| {
        json!({"metadata": {"annotations": annotations, "labels": labels, "finalizers": finalizers}})
    })
}

/// Generates existing Applications: owned by the ApplicationSet or by other owners, without an owner, handed
/// over, being deleted, or in another namespace.
fn any_existing() -> impl Strategy<Value = Vec<Application>> {
    let whose = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({}),
        json!({"metadata": {"ownerReferences": crate::owner_reference("ApplicationSet", "other")}}),
        json!({"metadata": {"ownerReferences": null, "annotations": {APPSET_ANNOTATION: null}}}),
        json!({"metadata": {"ownerReferences": null}}),
        json!({"metadata": {"annotations": {APPSET_ANNOTATION: null}}}),
        json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}),
        json!({"metadata": {"namespace": "team"}}),
    ]);
    let one = (spec(), metadata(), whose);
    prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), one, 0..6).prop_map(|there| {
        let made = there.into_iter().map(|(name, (spec, metadata, whose))| {
            with_patch(&with_patch(&live_application(name, &spec), &metadata), &whose)
        });
        made.collect()
    })
}

fn any_output() -> impl Strategy<Value = AppSetOutput> {
    let made = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), (spec(), metadata()), 0..6);
    let refused = prop::option::of(prop::sample::select(NAMES.to_vec()));
    let silent = || prop::option::weighted(0.1, Just("generators[0]".to_owned()));
    (made, refused, silent(), silent()).prop_map(|(made, refused, silent, failed)| {
        let applications = made.into_iter().map(|(name, (spec, metadata))| {
            with_patch(&with_patch(&generated_application(name), &spec), &metadata)
        });
        let mut wanted = generated_output(applications.collect());
        if let Some(name) = refused {
            wanted.applications.remove(name);
            wanted.rejected.insert(name.to_owned(), "contains it twice".to_owned());
        }
        wanted.without_output.extend(silent);
        wanted.errors.extend(failed);
        wanted
    })
}

fn any_appset() -> impl Strategy<Value = ApplicationSet> {
    let policy = prop::sample::select(vec!["create-only", "create-update", "create-delete", "sync", "sync"]);
    let strategy = prop::sample::select(vec![
        json!({}),
        json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}}),
        json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}, "deletionOrder": "Reverse"}),
        json!({"deletionOrder": "nonsense"}),
    ]);
    let ignored = prop::sample::select(vec![
        json!([]),
        json!([{"jsonPointers": ["/spec/source/targetRevision", "/metadata/labels/x"]}]),
        json!([{"name": "a", "jqPathExpressions": [".spec.source.helm.parameters[] | select(.name == \"a\") | .value"]}]),
        json!([{"jqPathExpressions": [".spec.source.helm.parameters[] | select(.name == \"a\")", ".spec.syncPolicy"]}]),
        json!([{"jqPathExpressions": ["nonsense("]}]),
    ]);
    let preserves = any::<bool>();
    (policy, strategy, ignored, preserves).prop_map(|(policy, strategy, ignored, preserves)| {
        appset(&json!({
            "strategy": strategy, "ignoreApplicationDifferences": ignored,
            "preservedFields": {"annotations": ["mine"]},
            "syncPolicy": {"applicationsSync": policy, "preserveResourcesOnDeletion": preserves},
        }))
    })
}

fn reconcile_until_stable(
    set: &ApplicationSet,
    wanted: &AppSetOutput,
    there: &[Application],
) -> AppSetChanges {
    reconcile(set, Ok(wanted), there, &OneCluster, &AppSetRuleOptions::default())
}

/// Returns the Applications after a comparison of each. Their manifests have hooks for these deletion phases.
fn after_comparison(there: &[Application], hooks: &BTreeSet<Phase>, seconds: i64) -> Vec<Application> {
    let compare = |mut one: Application| {
        let asked = one.annotation(REFRESH_ANNOTATION).map(str::to_owned);
        let outcome = ComparisonOutcome::Compared {
            revisions: vec!["c1".to_owned()],
            source_types: vec!["Directory".to_owned()],
            resources: Vec::new(),
            deletion_hooks: hooks.clone(),
            warnings: Vec::new(),
        };
        apply_comparison(&mut one, outcome, RefreshLevel::Latest, at(seconds));
        complete_refresh(&mut one, asked.as_deref());
        one
    };
    there.iter().cloned().map(compare).collect()
}

proptest! {
    /// An ApplicationSet and the comparisons of its Applications write to the same resources, and both must
    /// eventually stop writing.
    #[test]
    fn a_set_and_its_applications_become_quiet(
        set in any_appset(),
        wanted in any_output(),
        there in any_existing(),
        hooks in prop::sample::subsequence(vec![Phase::PreDelete, Phase::PostDelete], 0..=2),
    ) {
        const ROUNDS: i64 = 4;
        let hooks = hooks.into_iter().collect();
        let written = |all: &[Application]| -> Vec<_> {
            all.iter().map(|one| (one.metadata.clone(), one.spec.clone())).collect()
        };
        let mut now = there;
        let is_quiet = (0..ROUNDS).any(|round| {
            let before = written(&now);
            let changes = reconcile_until_stable(&set, &wanted, &now);
            now = after_comparison(&apply_changes(&now, &changes), &hooks, round);
            changes.is_empty() && written(&now) == before
        });
        prop_assert!(is_quiet, "the changes do not end: {:#?}", reconcile_until_stable(&set, &wanted, &now));
    }

    /// A second reconciliation changes nothing.
    #[test]
    fn it_settles(set in any_appset(), wanted in any_output(), there in any_existing()) {
        let first = reconcile_until_stable(&set, &wanted, &there);
        let now = apply_changes(&there, &first);
        let second = reconcile_until_stable(&set, &wanted, &now);
        prop_assert!(second.is_empty(), "{second:#?}");
    }

    /// Applications with other owners don't change unless they are handed over.
    #[test]
    fn what_others_own_stays(set in any_appset(), wanted in any_output(), there in any_existing()) {
        let now = apply_changes(&there, &reconcile_until_stable(&set, &wanted, &there));
        for one in &there {
            let is_handed = one.annotation(APPSET_ANNOTATION) == Some("fleet");
            let is_elsewhere = one.metadata.namespace == "team";
            let is_others = matches!(owner_of(&set, one), Owner::Other(_));
            let is_nobodys = owner_of(&set, one) == Owner::Unowned && !is_handed;
            if is_elsewhere || is_others || is_nobodys {
                prop_assert!(now.contains(one), "{}", one.metadata.name);
            }
        }
    }

    /// The policy is never violated, and every Application appears in the result exactly once.
    #[test]
    fn policies_hold(set in any_appset(), wanted in any_output(), there in any_existing()) {
        let changes = reconcile_until_stable(&set, &wanted, &there);
        let may = allowed_changes(&set, &AppSetRuleOptions::default());
        prop_assert!(may.update || changes.update.is_empty());
        prop_assert!(may.delete || changes.delete.is_empty());
        for name in wanted.applications.keys().chain(wanted.rejected.keys()) {
            let named = |all: &[Application]| all.iter().filter(|one| one.metadata.name == *name).count();
            let left = usize::from(changes.unchanged.contains_key(name));
            prop_assert_eq!(named(&changes.create) + named(&changes.update) + left, 1, "{}", name);
        }
        for gone in &changes.delete {
            let name = &gone.application.metadata.name;
            prop_assert!(!wanted.applications.contains_key(name) && !wanted.rejected.contains_key(name));
            prop_assert!(wanted.without_output.is_empty() && wanted.errors.is_empty());
        }
    }

    /// A failed generator never causes a deletion or a change.
    #[test]
    fn a_failure_deletes_nothing(set in any_appset(), there in any_existing(), message in "\\PC{0,20}") {
        let failed = ReconcileFailure { reason: ConditionReason::RenderTemplateParamsError, message };
        let changes = reconcile(&set, Err(&failed), &there, &OneCluster, &AppSetRuleOptions::default());
        prop_assert_eq!(apply_changes(&there, &changes), apply_changes(&there, &AppSetChanges::default()));
    }
}
