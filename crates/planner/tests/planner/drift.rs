//! Validity of stored plans. Each row contains the cluster at planning time, the current cluster, and the
//! expected changes.

use std::sync::Arc;

use tidegate_model::{LiveObject, Object, ObjectKey};
use tidegate_planner::{Comparer, Drift, PlanManifests, find_drift, stored_observations};

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

/// Returns a live object with fields written by the server and by other managers.
fn live_object(kind: &str, uid: &str, version: &str, rest: &str) -> String {
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
    live_object("Deployment", uid, version, &rest)
}

fn drift_of_plans(yaml: &str, before: &str, now: &str) -> Drift {
    drift_between(&case(yaml).with_live(before), &case(yaml).with_live(now))
}

/// Compares a plan stored for one cluster state with another cluster state.
fn drift_between(before: &Case, now: &Case) -> Drift {
    let look = |case: &Case| {
        let objects: Vec<LiveObject> = case.live.iter().cloned().map(LiveObject::pack).collect();
        move |key: &ObjectKey| objects.iter().find(|object| object.key() == key).map(LiveObject::unpack)
    };
    let (comparer, errors) = Comparer::new(&now.request.ignore_differences, &now.request.tracking);
    assert!(errors.is_empty());
    let (kept, planned) = (before.plan(), now.plan());
    let seen = stored_observations(&comparer, &kept.plan, look(before));
    find_drift(&comparer, with_manifests(&kept), &seen, with_manifests(&planned), look(now))
}

#[test]
fn server_writes_are_not_drift() {
    let before = deployment("u1", "7", 2, "api:0", "status: {readyReplicas: 1}");
    let now = deployment("u1", "9", 2, "api:0", "status: {readyReplicas: 2, observedGeneration: 3}");
    assert_eq!(drift_of_plans(DEPLOYMENT, &before, &now), Drift::default());
    let secret = |version, data| live_object("Secret", "s1", version, data);
    assert_eq!(
        drift_of_plans(SECRET, &secret("7", "data: {key: eA==}"), &secret("7", "data: {key: eA==}")),
        Drift::default()
    );
}

#[test]
fn changes_of_manifest_fields_are_distinguished_from_others() {
    let before = deployment("u1", "7", 2, "api:0", "");
    let path = "Deployment shop/api: /spec";
    for (now, related, unrelated) in [
        (deployment("u1", "8", 5, "api:0", ""), Some(format!("{path}/replicas was 2 and is now 5")), None),
        (
            deployment("u1", "8", 2, "api:9", ""),
            Some(format!("{path}/template/spec/containers/0/image was \"api:0\" and is now \"api:9\"")),
            None,
        ),
        (
            deployment("u1", "8", 2, "api:0", "  paused: true"),
            None,
            Some(format!("{path}/paused was absent and is now true")),
        ),
        (
            deployment("u1", "8", 2, "api:0", "      - {name: proxy, image: 'proxy:1'}"),
            None,
            Some(format!("{path}/template/spec/containers/1 has changed")),
        ),
        (
            deployment("u1", "8", 2, "api:0", "").replace("team: shop", "team: shop, more: x"),
            None,
            Some("Deployment shop/api: /metadata/labels/more was absent and is now \"x\"".to_owned()),
        ),
        (
            deployment("u2", "8", 2, "api:0", ""),
            Some("Deployment shop/api: it was deleted and recreated".to_owned()),
            None,
        ),
        (String::new(), Some("Deployment shop/api: it no longer exists".to_owned()), None),
    ] {
        let expected =
            Drift { related: related.into_iter().collect(), unrelated: unrelated.into_iter().collect() };
        assert_eq!(drift_of_plans(DEPLOYMENT, &before, &now), expected, "{now}");
    }
    let expected = vec!["Deployment shop/api: it now exists".to_owned()];
    assert_eq!(drift_of_plans(DEPLOYMENT, "", &before).related, expected);
}

#[test]
fn changes_of_pruned_objects_and_new_tasks_are_drift() {
    let old = |version, data| live_object("ConfigMap", "c1", version, data);
    let drift = drift_of_plans(DEPLOYMENT, &old("1", "data: {a: b}"), &old("2", "data: {a: c}"));
    assert_eq!(drift.related, Vec::<String>::new());
    assert_eq!(drift.unrelated, ["ConfigMap shop/old: /data/a was \"b\" and is now \"c\""]);
    let drift = drift_of_plans(DEPLOYMENT, "", &old("1", "data: {a: b}"));
    assert_eq!(
        drift.related,
        ["ConfigMap shop/old: it is not in the plan, but would now be pruned in wave 0 of Sync"]
    );
    let drift = drift_of_plans(DEPLOYMENT, &old("1", "data: {a: b}"), "");
    assert_eq!(
        drift.related,
        ["ConfigMap shop/old: it is in the plan, but would no longer be in wave 0 of Sync"]
    );
}

#[test]
fn secret_values_are_neither_stored_nor_shown() {
    let secret = |version, data| live_object("Secret", "s1", version, data);
    let (before, now) = (secret("7", "data: {key: Y2FuYXJ5}"), secret("8", "data: {key: bm9ib2R5}"));
    let case = case(SECRET).with_live(&before);
    let (comparer, _) = Comparer::new(&[], &case.request.tracking);
    let objects: Vec<Object> = case.live.clone();
    let kept = stored_observations(&comparer, &case.plan().plan, |key| {
        objects.iter().find(|object| object.key() == *key).cloned().map(Arc::new)
    });
    assert!(!serde_json::to_string(&kept).unwrap().contains("Y2FuYXJ5"));
    let drift = drift_of_plans(SECRET, &before, &now);
    let text = "Secret shop/door: was written, but its changed fields are unknown because the plan does not store Secret values";
    assert_eq!(drift.related, [text]);
}

#[test]
fn ignored_fields_and_existing_hooks_are_not_drift() {
    let ignoring = |live: &str| {
        let mut case = case(DEPLOYMENT).with_live(live);
        case.request.ignore_differences = vec![
            serde_json::from_str(
                r#"{"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}"#,
            )
            .unwrap(),
        ];
        case
    };
    let (two, five) = (deployment("u1", "7", 2, "api:0", ""), deployment("u1", "8", 5, "api:0", ""));
    assert_eq!(drift_between(&ignoring(&two), &ignoring(&five)), Drift::default());
    let hook = manifest_text("batch/v1 Job shop/migrate", "hook=PreSync");
    let left = manifest_text("batch/v1 Job shop/migrate", "hook=PreSync; tracked");
    assert_eq!(drift_of_plans(&hook, "", &left), Drift::default());
    assert_eq!(drift_of_plans(&hook, &left, ""), Drift::default());
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
    let drift = |before: String, now: String| drift_between(&case(&before), &case(&now)).related;
    assert_eq!(drift(config("b", ""), config("c", "")), ["ConfigMap shop/a: its manifest has changed"]);
    let waves = drift(config("b", ""), config("b", "1"));
    assert_eq!(
        waves,
        [
            "ConfigMap shop/a: it is in the plan, but would no longer be in wave 0 of Sync",
            "ConfigMap shop/a: it is not in the plan, but would now be created in wave 1 of Sync",
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
    assert_eq!(drift.related, ["the order, gates or deadlines of the waves have changed"]);
}

fn drift_of(
    comparer: &Comparer,
    kept: &tidegate_planner::PlanResult,
    now: &tidegate_planner::PlanResult,
    live: impl Fn(&ObjectKey) -> Option<Arc<Object>>,
) -> Drift {
    find_drift(comparer, with_manifests(kept), &[], with_manifests(now), live)
}

fn with_manifests(planned: &tidegate_planner::PlanResult) -> PlanManifests<'_> {
    PlanManifests { plan: &planned.plan, manifests: &planned.manifests }
}
