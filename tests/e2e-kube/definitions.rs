//! A server with our definitions validates resources in the same way as a server with Argo CD's definitions.

use serde_json::{Value, json};
use tidegate_model::argo::{self, AppProject, Application, ApplicationSet};
use tidegate_testkit::kube::Options;

use crate::from_argo_cd::definitions;
use crate::kube_bench::{KubeBench, Plane};

const APPLICATION: &str = "applications";
const APPSET: &str = "applicationsets";
const PROJECT: &str = "appprojects";

/// Returns a resource with only its required fields.
fn minimal_resource(plural: &str) -> Value {
    let spec = json!({"project": "default", "destination": {"name": "in-cluster"}});
    let (kind, spec) = match plural {
        APPLICATION => ("Application", spec),
        APPSET => (
            "ApplicationSet",
            json!({"generators": [], "template": {"metadata": {"name": "a"}, "spec": spec}}),
        ),
        _ => ("AppProject", json!({})),
    };
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

/// Placeholder for a missing field.
const ABSENT: &str = "<absent>";

fn with_field(plural: &str, place: &str, value: &Value) -> Value {
    let mut made = minimal_resource(plural);
    let (parents, name) = place.rsplit_once('.').unwrap_or(("", place));
    let parents = parents.split('.').filter(|parent| !parent.is_empty());
    let parent = parents.fold(&mut made, |at, name| &mut at[name]);
    match value == ABSENT {
        true => drop(parent.as_object_mut().unwrap().remove(name)),
        false => parent[name] = value.clone(),
    }
    made
}

/// A resource kind, a field, its value, and true if the server accepts it.
type Row = (&'static str, &'static str, Value, bool);

fn application_rows() -> Vec<Row> {
    let source = |name: &str, value: Value| json!({"repoURL": "r", name: value});
    let rows = [
        ("spec.project", json!("default"), true),
        ("spec.project", json!(ABSENT), false),
        ("spec.project", json!(null), false),
        ("spec.destination", json!(ABSENT), false),
        ("spec.source", json!({"path": "a"}), false),
        ("spec.source", source("targetRevision", json!(null)), true),
        ("spec.sources", json!([source("chart", json!(null))]), true),
        ("spec.sources", json!([null]), false),
        ("spec.source", source("kustomize", json!({"replicas": [{"name": "a", "count": "3"}]})), true),
        ("spec.source", source("kustomize", json!({"replicas": [{"name": "a", "count": 3}]})), true),
        ("spec.source", source("kustomize", json!({"replicas": [{"name": "a"}]})), false),
        ("spec.source", source("plugin", json!({"env": [{"name": "A", "value": "b"}]})), true),
        ("spec.source", source("plugin", json!({"env": [{"name": "A"}]})), false),
        ("spec.source", source("plugin", json!({"parameters": [{"map": {"a": 1}}]})), false),
        ("spec.source", source("directory", json!({"jsonnet": {"tlas": [{"name": "a"}]}})), false),
        ("spec.source", source("directory", json!({"jsonnet": {"libs": ["a"]}})), true),
        ("spec.source", source("helm", json!({"valuesObject": {"image": null, "replicas": 2}})), true),
        ("spec.source", source("helm", json!({"valuesObject": "replicas: 2"})), false),
        ("spec.syncPolicy", json!({"automated": null, "syncOptions": null}), true),
        ("spec.syncPolicy", json!({"automated": {"prune": "yes"}}), false),
        ("spec.ignoreDifferences", json!([{"group": "apps"}]), false),
        ("spec.revisionHistoryLimit", json!(0), true),
        ("spec.revisionHistoryLimit", json!("10"), false),
        ("spec.revisionHistoryLimit", json!(1.5), false),
        ("operation", json!({"sync": {"resources": [{"name": "a"}]}}), false),
        ("status", json!({"health": {}, "summary": {}}), true),
        ("status", json!({"health": {"status": "Healthy", "lastTransitionTime": "soon"}}), false),
        ("status", json!({"conditions": [{"type": "SyncError"}]}), false),
        ("status", json!({"sync": {}}), false),
        ("status", json!({"history": [{"id": 1, "deployedAt": "2026-01-02T03:04:05Z"}]}), true),
        ("status", json!({"history": [{"id": 1}]}), false),
    ];
    rows.into_iter().map(|(place, value, is_taken)| (APPLICATION, place, value, is_taken)).collect()
}

fn appset_rows() -> Vec<Row> {
    let whole = minimal_resource(APPSET)["spec"]["template"].clone();
    let list = |template: Value| json!([{"list": {"elements": [{"a": null}], "template": template}}]);
    let merged = |inner: Value| json!([{"merge": {"mergeKeys": ["a"], "generators": [inner]}}]);
    let git = |revision: Value| json!({"git": {"repoURL": "r", "revision": revision}});
    let selector =
        |expression: Value| json!([{"clusters": {"selector": {"matchExpressions": [expression]}}}]);
    let step = |step: Value| json!({"type": "RollingSync", "rollingSync": {"steps": [step]}});
    let rows = [
        ("spec.generators", json!([]), true),
        ("spec.generators", json!(ABSENT), false),
        ("spec.generators", list(whole.clone()), true),
        ("spec.generators", list(json!({"metadata": {}})), false),
        ("spec.generators", list(json!({"metadata": {}, "spec": {"destination": {}}})), false),
        ("spec.generators", merged(git(json!("main"))), true),
        ("spec.generators", merged(git(json!(1))), false),
        ("spec.generators", merged(json!({"git": {"repoURL": "r"}})), false),
        ("spec.generators", merged(json!({"matrix": {"generators": [git(json!("main"))]}})), true),
        ("spec.generators", selector(json!({"key": "a", "operator": "Exists"})), true),
        ("spec.generators", selector(json!({"key": "a"})), false),
        (
            "spec.generators",
            json!([{"plugin": {"configMapRef": {"name": "p"}, "requeueAfterSeconds": "9"}}]),
            false,
        ),
        (
            "spec.generators",
            json!([{"plugin": {"configMapRef": {"name": "p"}, "input": {"parameters": {"a": {"b": []}}}}}]),
            true,
        ),
        ("spec.template.spec.project", json!(ABSENT), false),
        ("spec.syncPolicy", json!({"applicationsSync": "create-only"}), true),
        ("spec.syncPolicy", json!({"applicationsSync": "sometimes"}), false),
        ("spec.syncPolicy", json!({"applicationsSync": null}), true),
        ("spec.strategy", step(json!({"maxUpdate": "10%", "matchExpressions": [{}]})), true),
        ("spec.strategy", step(json!({"maxUpdate": 0})), true),
    ];
    rows.into_iter().map(|(place, value, is_taken)| (APPSET, place, value, is_taken)).collect()
}

fn project_rows() -> Vec<Row> {
    let rows = [
        ("spec", json!({}), true),
        ("spec", json!(ABSENT), false),
        ("spec.description", json!("ü".repeat(255)), true),
        ("spec.description", json!("ü".repeat(256)), false),
        ("spec.clusterResourceWhitelist", json!([{"group": "*", "kind": "*"}]), true),
        ("spec.clusterResourceWhitelist", json!([{"kind": "*"}]), false),
        ("spec.namespaceResourceWhitelist", json!([]), true),
        ("spec.destinationServiceAccounts", json!([{"server": "*"}]), false),
        ("spec.sourceIntegrity", json!({"git": {"policies": []}}), true),
        ("spec.sourceIntegrity", json!({}), false),
        ("spec.sourceIntegrity", json!({"git": {"policies": [{"repos": [{"url": "*"}]}]}}), false),
        ("spec.syncWindows", json!(null), true),
        ("spec.syncWindows", json!([{"kind": "deny", "manualSync": "no"}]), false),
        ("spec.roles", json!([{"name": "reader", "policies": ["p"]}]), true),
        ("spec.orphanedResources", json!({"warn": true}), true),
    ];
    rows.into_iter().map(|(place, value, is_taken)| (PROJECT, place, value, is_taken)).collect()
}

/// Returns a control plane with the definitions in a folder.
async fn bench_with_definitions(name: &str, folder: &str) -> KubeBench {
    let bare = Options { has_nodes: false, has_controllers: false, ..Options::default() };
    let bench = KubeBench::on_plane(Plane::own(bare), name).await;
    if folder.is_empty() {
        let definitions = bench.run(&["crds"]).expect_code(0).out;
        bench.write("crds/crds.yaml", definitions);
    }
    let folder = if folder.is_empty() { "crds" } else { folder };
    bench.run(&["sync", folder, "--app", &bench.app("crds"), "--wait", "healthy"]).expect_code(0);
    for plural in [APPLICATION, APPSET, PROJECT] {
        bench.observer().wait_until(&path(&bench, plural), |found| found.is_some()).await;
    }
    bench
}

fn path(bench: &KubeBench, plural: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/{plural}", bench.namespace)
}

/// Returns the stored form of a resource, or the reason why it was rejected.
async fn validate(bench: &KubeBench, plural: &str, resource: &Value) -> Result<Value, String> {
    match bench.observer().post(&format!("{}?dryRun=All", path(bench, plural)), resource).await {
        Ok(kept) => Ok(kept),
        Err(error) if error.code == 422 => Err(error.why),
        Err(error) => panic!("{error}, of {resource}"),
    }
}

fn parse_stored(plural: &str, stored: &Value) -> Result<(), argo::InvalidResource> {
    match plural {
        APPLICATION => argo::read_resource::<Application>(stored).map(drop),
        APPSET => argo::read_resource::<ApplicationSet>(stored).map(drop),
        _ => argo::read_resource::<AppProject>(stored).map(drop),
    }
}

/// Checks that both servers accept or reject the resource, that they store it unchanged, and that we can read
/// it.
async fn assert_same_validation(theirs: &KubeBench, ours: &KubeBench) {
    for (plural, place, value, is_taken) in [application_rows(), appset_rows(), project_rows()].concat() {
        let resource = with_field(plural, place, &value);
        let (by_theirs, by_ours) =
            (validate(theirs, plural, &resource).await, validate(ours, plural, &resource).await);
        let row = format!("{plural}, {place}: {value}");
        assert_eq!(by_theirs.is_ok(), is_taken, "{row}: {by_theirs:?}");
        assert_eq!(by_ours.is_ok(), is_taken, "{row}: {by_ours:?}");
        let (Ok(by_theirs), Ok(by_ours)) = (by_theirs, by_ours) else { continue };
        if !value.to_string().contains("null") {
            for section in ["spec", "operation", "status"] {
                assert_eq!(by_ours.get(section), by_theirs.get(section), "{row}");
            }
        }
        parse_stored(plural, &by_ours).unwrap_or_else(|error| panic!("{row}: {error}, of {by_ours}"));
    }
}

/// Checks our extensions. Fields that Argo CD's definitions drop are stored, and every server accepts an
/// empty string in a list.
async fn assert_extensions_stored(theirs: &KubeBench, ours: &KubeBench) {
    for (plural, place, value) in [
        (APPLICATION, "spec.fieldOfTomorrow", json!({"a": [1, null]})),
        (APPLICATION, "spec.destination.fieldOfTomorrow", json!("b")),
        (APPSET, "spec.strategy", json!({"deletionSync": {"steps": [{"maxUpdate": 1}]}})),
        (APPSET, "spec.generators", json!([{"terraform": {"of": "tomorrow"}}])),
        (PROJECT, "spec.fieldOfTomorrow", json!(true)),
    ] {
        let resource = with_field(plural, place, &value);
        let stored = validate(ours, plural, &resource).await.unwrap();
        assert_eq!(stored["spec"], resource["spec"], "{place}");
        parse_stored(plural, &stored).unwrap();
        let stored = validate(theirs, plural, &resource).await.unwrap();
        assert_ne!(stored["spec"], resource["spec"], "{place}");
    }
    let empty = json!([{"group": "", "kind": "Secret", "name": ""}]);
    let resource = with_field(APPLICATION, "spec.ignoreDifferences", &empty);
    let stored = validate(ours, APPLICATION, &resource).await.unwrap();
    assert_eq!(stored["spec"]["ignoreDifferences"], empty);
}

pub async fn our_definitions_validate_like_those_of_argo_cd() {
    let folder = definitions().canonicalize().unwrap();
    let theirs = bench_with_definitions("theirs", folder.to_str().unwrap()).await;
    let ours = bench_with_definitions("ours", "").await;
    assert_same_validation(&theirs, &ours).await;
    assert_extensions_stored(&theirs, &ours).await;
}
