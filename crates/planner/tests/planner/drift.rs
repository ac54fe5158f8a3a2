//! Does a plan that was kept still fit? Each row: how the cluster was, how it is, and what is told.

use std::sync::Arc;

use tidegate_model::{LiveObject, Object, ObjectKey};
use tidegate_planner::{Comparer, Drift, drift, sights};

use crate::support::*;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {team: shop}}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - {name: api, image: 'api:1', args: [--fast]}
";
const SECRET: &str = "
apiVersion: v1
kind: Secret
metadata: {name: door, namespace: shop}
data: {key: b3Blbg==}
";

/// As it is in the cluster, with what the server and others have written.
fn live(kind: &str, uid: &str, version: &str, rest: &str) -> String {
    let (api, name) = match kind {
        "Deployment" => ("apps/v1", "api"),
        "Secret" => ("v1", "door"),
        _ => ("v1", "old"),
    };
    format!(
        "
apiVersion: {api}
kind: {kind}
metadata:
  name: {name}
  namespace: shop
  uid: {uid}
  resourceVersion: '{version}'
  generation: 3
  annotations: {{'argocd.argoproj.io/tracking-id': 'app:{}/{kind}:shop/{name}'}}
{rest}",
        if api == "v1" { "" } else { "apps" }
    )
}

fn deployment(uid: &str, version: &str, replicas: u32, image: &str, more: &str) -> String {
    let rest = format!(
        "  labels: {{team: shop}}
spec:
  replicas: {replicas}
  template:
    spec:
      containers:
      - {{name: api, image: '{image}', args: [--fast], imagePullPolicy: IfNotPresent}}
{more}"
    );
    live("Deployment", uid, version, &rest)
}

fn made(yaml: &str, before: &str, now: &str) -> Drift {
    moved(&case(yaml).live(before), &case(yaml).live(now))
}

/// A plan of the one, kept, and the other.
fn moved(before: &Case, now: &Case) -> Drift {
    let look = |case: &Case| {
        let objects: Vec<LiveObject> = case.live.iter().cloned().map(LiveObject::pack).collect();
        move |key: &ObjectKey| objects.iter().find(|object| object.key() == key).map(LiveObject::unpack)
    };
    let (comparer, errors) = Comparer::new(&now.request.ignore_differences, &now.request.tracking);
    assert!(errors.is_empty());
    let (kept, planned) = (before.plan(), now.plan());
    let seen = sights(&comparer, &kept.plan, look(before));
    drift(&comparer, (&kept.plan, &kept.manifests, &seen), (&planned.plan, &planned.manifests), look(now))
}

#[test]
fn nothing_has_moved_where_only_the_server_wrote() {
    let before = deployment("u1", "7", 2, "api:0", "status: {readyReplicas: 1}");
    let now = deployment("u1", "9", 2, "api:0", "status: {readyReplicas: 2, observedGeneration: 3}");
    assert_eq!(made(DEPLOYMENT, &before, &now), Drift::default());
    let secret = |version, data| live("Secret", "s1", version, data);
    assert_eq!(
        made(SECRET, &secret("7", "data: {key: eA==}"), &secret("7", "data: {key: eA==}")),
        Drift::default()
    );
}

#[test]
fn what_the_manifest_gives_changes_the_plan_and_what_it_does_not_give_is_told_apart() {
    let before = deployment("u1", "7", 2, "api:0", "");
    let path = "Deployment shop/api: /spec";
    for (now, related, unrelated) in [
        (deployment("u1", "8", 5, "api:0", ""), Some(format!("{path}/replicas was 2 and is 5")), None),
        (
            deployment("u1", "8", 2, "api:9", ""),
            Some(format!("{path}/template/spec/containers/0/image was \"api:0\" and is \"api:9\"")),
            None,
        ),
        (
            deployment("u1", "8", 2, "api:0", "  paused: true"),
            None,
            Some(format!("{path}/paused was not there and is true")),
        ),
        (
            deployment("u1", "8", 2, "api:0", "      - {name: proxy, image: 'proxy:1'}"),
            None,
            Some(format!("{path}/template/spec/containers/1 is not as it was")),
        ),
        (
            deployment("u1", "8", 2, "api:0", "").replace("team: shop", "team: shop, more: x"),
            None,
            Some("Deployment shop/api: /metadata/labels/more was not there and is \"x\"".to_owned()),
        ),
        (
            deployment("u2", "8", 2, "api:0", ""),
            Some("Deployment shop/api: it was deleted, and another one of its name was created".to_owned()),
            None,
        ),
        (String::new(), Some("Deployment shop/api: it was there, and is gone".to_owned()), None),
    ] {
        let expected =
            Drift { related: related.into_iter().collect(), unrelated: unrelated.into_iter().collect() };
        assert_eq!(made(DEPLOYMENT, &before, &now), expected, "{now}");
    }
    let expected = vec!["Deployment shop/api: it was not there, and is now".to_owned()];
    assert_eq!(made(DEPLOYMENT, "", &before).related, expected);
}

#[test]
fn what_is_pruned_is_looked_at_and_what_comes_to_the_plan_is_named() {
    let old = |version, data| live("ConfigMap", "c1", version, data);
    let drift = made(DEPLOYMENT, &old("1", "data: {a: b}"), &old("2", "data: {a: c}"));
    assert_eq!(drift.related, Vec::<String>::new());
    assert_eq!(drift.unrelated, ["ConfigMap shop/old: /data/a was \"b\" and is \"c\""]);
    let drift = made(DEPLOYMENT, "", &old("1", "data: {a: b}"));
    assert_eq!(
        drift.related,
        ["ConfigMap shop/old: it is not in the plan, and would be pruned in wave 0 of Sync"]
    );
    let drift = made(DEPLOYMENT, &old("1", "data: {a: b}"), "");
    assert_eq!(
        drift.related,
        ["ConfigMap shop/old: nothing is to be done about it any more in wave 0 of Sync"]
    );
}

#[test]
fn values_of_secrets_are_neither_kept_nor_told() {
    let secret = |version, data| live("Secret", "s1", version, data);
    let (before, now) = (secret("7", "data: {key: Y2FuYXJ5}"), secret("8", "data: {key: bm9ib2R5}"));
    let case = case(SECRET).live(&before);
    let (comparer, _) = Comparer::new(&[], &case.request.tracking);
    let objects: Vec<Object> = case.live.clone();
    let kept = sights(&comparer, &case.plan().plan, |key| {
        objects.iter().find(|object| object.key() == *key).cloned().map(Arc::new)
    });
    assert!(!serde_json::to_string(&kept).unwrap().contains("Y2FuYXJ5"));
    let drift = made(SECRET, &before, &now);
    let words = "Secret shop/door: was written, and the plan does not keep its values to tell which";
    assert_eq!(drift.related, [words]);
}

#[test]
fn ignored_fields_and_hooks_in_the_way_do_not_count() {
    let ignoring = |live: &str| {
        let mut case = case(DEPLOYMENT).live(live);
        case.request.ignore_differences = vec![
            serde_json::from_str(
                r#"{"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}"#,
            )
            .unwrap(),
        ];
        case
    };
    let (two, five) = (deployment("u1", "7", 2, "api:0", ""), deployment("u1", "8", 5, "api:0", ""));
    assert_eq!(moved(&ignoring(&two), &ignoring(&five)), Drift::default());
    let hook = object("batch/v1 Job shop/migrate", "hook=PreSync");
    let left = object("batch/v1 Job shop/migrate", "hook=PreSync; tracked");
    assert_eq!(made(&hook, "", &left), Drift::default());
    assert_eq!(made(&hook, &left, ""), Drift::default());
}

#[test]
fn other_manifests_and_another_order_are_another_plan() {
    let config = |data: &str, wave: &str| {
        let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop";
        let wave = match wave {
            "" => String::new(),
            wave => format!(", annotations: {{argocd.argoproj.io/sync-wave: '{wave}'}}"),
        };
        format!("{head}{wave}}}\ndata: {{a: {data}}}\n")
    };
    let drift = |before: String, now: String| moved(&case(&before), &case(&now)).related;
    assert_eq!(
        drift(config("b", ""), config("c", "")),
        ["ConfigMap shop/a: its manifest is another one now"]
    );
    let waves = drift(config("b", ""), config("b", "1"));
    assert_eq!(
        waves,
        [
            "ConfigMap shop/a: nothing is to be done about it any more in wave 0 of Sync",
            "ConfigMap shop/a: it is not in the plan, and would be created in wave 1 of Sync",
        ]
    );
    let gates = |gate: &str| {
        let mut planned = case(&config("b", "")).plan();
        planned.plan.waves[0].gates = vec![gate.to_owned()];
        planned
    };
    let (comparer, _) = Comparer::new(&[], &case("").request.tracking);
    let (one, other) = (gates("approval"), gates("soak:1m"));
    let none = |_: &ObjectKey| None::<Arc<Object>>;
    let drift = drift_of(&comparer, &one, &other, none);
    assert_eq!(drift.related, ["the order, the gates or the deadlines of the waves are others now"]);
}

fn drift_of(
    comparer: &Comparer,
    kept: &tidegate_planner::Planned,
    now: &tidegate_planner::Planned,
    live: impl Fn(&ObjectKey) -> Option<Arc<Object>>,
) -> Drift {
    drift(comparer, (&kept.plan, &kept.manifests, &[]), (&now.plan, &now.manifests), live)
}
