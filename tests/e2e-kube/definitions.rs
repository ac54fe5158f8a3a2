//! A server that has our definitions judges resources as one that has Argo CD's.

use serde_json::{Value, json};
use tidegate_model::argo::{self, AppProject, Application, ApplicationSet};
use tidegate_testkit::kube::Options;

use crate::from_argo_cd::definitions;
use crate::site::{Plane, Site};

const APPLICATION: &str = "applications";
const SET: &str = "applicationsets";
const PROJECT: &str = "appprojects";

/// One that has what it must have, and no more.
fn least(plural: &str) -> Value {
    let spec = json!({"project": "default", "destination": {"name": "in-cluster"}});
    let (kind, spec) = match plural {
        APPLICATION => ("Application", spec),
        SET => (
            "ApplicationSet",
            json!({"generators": [], "template": {"metadata": {"name": "a"}, "spec": spec}}),
        ),
        _ => ("AppProject", json!({})),
    };
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

/// What stands for a field that is not there.
const ABSENT: &str = "<absent>";

fn with(plural: &str, place: &str, value: &Value) -> Value {
    let mut made = least(plural);
    let (parents, name) = place.rsplit_once('.').unwrap_or(("", place));
    let parents = parents.split('.').filter(|parent| !parent.is_empty());
    let parent = parents.fold(&mut made, |at, name| &mut at[name]);
    match value == ABSENT {
        true => drop(parent.as_object_mut().unwrap().remove(name)),
        false => parent[name] = value.clone(),
    }
    made
}

/// A resource with one thing at one place, and whether it is taken.
type Row = (&'static str, &'static str, Value, bool);

fn of_applications() -> Vec<Row> {
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

fn of_sets() -> Vec<Row> {
    let whole = least(SET)["spec"]["template"].clone();
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
    rows.into_iter().map(|(place, value, is_taken)| (SET, place, value, is_taken)).collect()
}

fn of_projects() -> Vec<Row> {
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

/// A control plane that has the definitions of a folder.
async fn defined(name: &str, folder: &str) -> Site {
    let bare = Options { nodes: false, controllers: false, ..Options::default() };
    let site = Site::on(Plane::own(bare), name).await;
    if folder.is_empty() {
        let definitions = site.run(&["crds"]).expect_code(0).out;
        site.write("crds/crds.yaml", definitions);
    }
    let folder = if folder.is_empty() { "crds" } else { folder };
    site.run(&["sync", folder, "--app", &site.app("crds"), "--wait", "healthy"]).expect_code(0);
    for plural in [APPLICATION, SET, PROJECT] {
        site.observer().until(&path(&site, plural), |found| found.is_some()).await;
    }
    site
}

fn path(site: &Site, plural: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/{plural}", site.namespace)
}

/// What would be kept of a resource, or why it is refused.
async fn judge(site: &Site, plural: &str, resource: &Value) -> Result<Value, String> {
    match site.observer().post(&format!("{}?dryRun=All", path(site, plural)), resource).await {
        Ok(kept) => Ok(kept),
        Err(error) if error.code == 422 => Err(error.why),
        Err(error) => panic!("{error}, of {resource}"),
    }
}

fn read(plural: &str, kept: &Value) -> Result<(), argo::Unreadable> {
    match plural {
        APPLICATION => argo::read::<Application>(kept).map(drop),
        SET => argo::read::<ApplicationSet>(kept).map(drop),
        _ => argo::read::<AppProject>(kept).map(drop),
    }
}

/// Taken or refused by both, kept by both as it is, and read by us.
async fn assert_alike(theirs: &Site, ours: &Site) {
    for (plural, place, value, is_taken) in [of_applications(), of_sets(), of_projects()].concat() {
        let resource = with(plural, place, &value);
        let (by_theirs, by_ours) =
            (judge(theirs, plural, &resource).await, judge(ours, plural, &resource).await);
        let row = format!("{plural}, {place}: {value}");
        assert_eq!(by_theirs.is_ok(), is_taken, "{row}: {by_theirs:?}");
        assert_eq!(by_ours.is_ok(), is_taken, "{row}: {by_ours:?}");
        let (Ok(by_theirs), Ok(by_ours)) = (by_theirs, by_ours) else { continue };
        if !value.to_string().contains("null") {
            for section in ["spec", "operation", "status"] {
                assert_eq!(by_ours.get(section), by_theirs.get(section), "{row}");
            }
        }
        read(plural, &by_ours).unwrap_or_else(|error| panic!("{row}: {error}, of {by_ours}"));
    }
}

/// What is ours alone: what Argo CD's definitions drop is kept, and an empty text in a list is taken by every server.
async fn assert_kept(theirs: &Site, ours: &Site) {
    for (plural, place, value) in [
        (APPLICATION, "spec.fieldOfTomorrow", json!({"a": [1, null]})),
        (APPLICATION, "spec.destination.fieldOfTomorrow", json!("b")),
        (SET, "spec.strategy", json!({"deletionSync": {"steps": [{"maxUpdate": 1}]}})),
        (SET, "spec.generators", json!([{"terraform": {"of": "tomorrow"}}])),
        (PROJECT, "spec.fieldOfTomorrow", json!(true)),
    ] {
        let resource = with(plural, place, &value);
        let kept = judge(ours, plural, &resource).await.unwrap();
        assert_eq!(kept["spec"], resource["spec"], "{place}");
        read(plural, &kept).unwrap();
        let kept = judge(theirs, plural, &resource).await.unwrap();
        assert_ne!(kept["spec"], resource["spec"], "{place}");
    }
    let empty = json!([{"group": "", "kind": "Secret", "name": ""}]);
    let resource = with(APPLICATION, "spec.ignoreDifferences", &empty);
    let kept = judge(ours, APPLICATION, &resource).await.unwrap();
    assert_eq!(kept["spec"]["ignoreDifferences"], empty);
}

pub async fn a_server_judges_by_ours_as_by_those_of_argo_cd() {
    let folder = definitions().canonicalize().unwrap();
    let theirs = defined("theirs", folder.to_str().unwrap()).await;
    let ours = defined("ours", "").await;
    assert_alike(&theirs, &ours).await;
    assert_kept(&theirs, &ours).await;
}
