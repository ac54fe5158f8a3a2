//! What holds for all sets and all Applications.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_applicationset::changes::{Changes, Generated, reconcile};
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::policy::{Options, allowed};
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_model::argo::{Application, ApplicationSet};

use crate::{FINALIZER, Here, MARK, all, applied, generated, live, set, with};

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What an Application may say, or be generated to say.
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

/// Applications that are there: of the set, of another one, of nobody, handed over, on their way, or in another namespace.
fn existing() -> impl Strategy<Value = Vec<Application>> {
    let whose = prop::sample::select(vec![
        json!({}),
        json!({}),
        json!({}),
        json!({"metadata": {"ownerReferences": crate::owner("ApplicationSet", "other")}}),
        json!({"metadata": {"ownerReferences": null, "annotations": {MARK: null}}}),
        json!({"metadata": {"ownerReferences": null}}),
        json!({"metadata": {"annotations": {MARK: null}}}),
        json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}),
        json!({"metadata": {"namespace": "team"}}),
    ]);
    let one = (spec(), metadata(), whose);
    prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), one, 0..6).prop_map(|there| {
        let made = there
            .into_iter()
            .map(|(name, (spec, metadata, whose))| with(&with(&live(name, &spec), &metadata), &whose));
        made.collect()
    })
}

fn wanted() -> impl Strategy<Value = Generated> {
    let made = prop::collection::btree_map(prop::sample::select(NAMES.to_vec()), (spec(), metadata()), 0..6);
    let refused = prop::option::of(prop::sample::select(NAMES.to_vec()));
    let silent = || prop::option::weighted(0.1, Just("generators[0]".to_owned()));
    (made, refused, silent(), silent()).prop_map(|(made, refused, silent, failed)| {
        let applications =
            made.into_iter().map(|(name, (spec, metadata))| with(&with(&generated(name), &spec), &metadata));
        let mut wanted = all(applications.collect());
        if let Some(name) = refused {
            wanted.applications.remove(name);
            wanted.refused.insert(name.to_owned(), "contains it twice".to_owned());
        }
        wanted.silent.extend(silent);
        wanted.failed.extend(failed);
        wanted
    })
}

fn sets() -> impl Strategy<Value = ApplicationSet> {
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
        set(&json!({
            "strategy": strategy, "ignoreApplicationDifferences": ignored,
            "preservedFields": {"annotations": ["mine"]},
            "syncPolicy": {"applicationsSync": policy, "preserveResourcesOnDeletion": preserves},
        }))
    })
}

fn done(set: &ApplicationSet, wanted: &Generated, there: &[Application]) -> Changes {
    reconcile(set, Ok(wanted), there, &Here, &Options::default())
}

proptest! {
    /// Once the changes are made there is nothing more to do.
    #[test]
    fn it_settles(set in sets(), wanted in wanted(), there in existing()) {
        let first = done(&set, &wanted, &there);
        let now = applied(&there, &first);
        let second = done(&set, &wanted, &now);
        prop_assert!(second.is_empty(), "{second:#?}");
    }

    /// What a set does not own stays as it is, unless somebody hands it over.
    #[test]
    fn what_others_own_stays(set in sets(), wanted in wanted(), there in existing()) {
        let now = applied(&there, &done(&set, &wanted, &there));
        for one in &there {
            let is_handed = one.annotation(MARK) == Some("fleet");
            let is_elsewhere = one.metadata.namespace == "team";
            let is_others = matches!(owner(&set, one), Owner::Other(_));
            let is_nobodys = owner(&set, one) == Owner::Nobody && !is_handed;
            if is_elsewhere || is_others || is_nobodys {
                prop_assert!(now.contains(one), "{}", one.metadata.name);
            }
        }
    }

    /// Nothing is done that the policy forbids, and every Application is accounted for once.
    #[test]
    fn policies_hold(set in sets(), wanted in wanted(), there in existing()) {
        let changes = done(&set, &wanted, &there);
        let may = allowed(&set, &Options::default());
        prop_assert!(may.update || changes.update.is_empty());
        prop_assert!(may.delete || changes.delete.is_empty());
        for name in wanted.applications.keys().chain(wanted.refused.keys()) {
            let named = |all: &[Application]| all.iter().filter(|one| one.metadata.name == *name).count();
            let left = usize::from(changes.left.contains_key(name));
            prop_assert_eq!(named(&changes.create) + named(&changes.update) + left, 1, "{}", name);
        }
        for gone in &changes.delete {
            let name = &gone.application.metadata.name;
            prop_assert!(!wanted.applications.contains_key(name) && !wanted.refused.contains_key(name));
            prop_assert!(wanted.silent.is_empty() && wanted.failed.is_empty());
        }
    }

    /// A generator that fails deletes and changes nothing.
    #[test]
    fn a_failure_deletes_nothing(set in sets(), there in existing(), message in "\\PC{0,20}") {
        let failed = Failure { reason: Reason::RenderTemplateParamsError, message };
        let changes = reconcile(&set, Err(&failed), &there, &Here, &Options::default());
        prop_assert_eq!(applied(&there, &changes), applied(&there, &Changes::default()));
    }
}
