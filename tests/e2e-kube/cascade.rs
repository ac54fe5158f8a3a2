//! Deletion of an ApplicationSet with `kubectl delete --cascade`. With `foreground`, the garbage collector
//! deletes all its Applications at once, but their objects must be deleted in the order of the
//! ApplicationSet. With `orphan`, the Applications lose their owner, and the next ApplicationSet with the
//! same name adopts them.

use serde_json::{Value, json};
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::bench_with_crds;
use crate::appsets;
use crate::bench::Running;
use crate::kube_bench::KubeBench;

const MEMBERS: [&str; 4] = ["dev-a", "dev-b", "prod-a", "prod-b"];
const APPSETS: &str = "applicationsets";
const APPLICATIONS: &str = "applications";
const RESOURCES: &str = "resources-finalizer.argocd.argoproj.io";
const HELD: &str = "example.com/held";

fn repository(bench: &KubeBench) {
    for name in MEMBERS {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{name}")}});
        bench.write(&format!("repo/apps/{name}/map.yaml"), map.to_string());
    }
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

fn appset(bench: &KubeBench, strategy: &Value) -> Value {
    let env = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    let elements: Vec<Value> = MEMBERS.iter().map(|name| json!({"name": name, "env": env(name)})).collect();
    appsets::appset(bench, &json!({"list": {"elements": elements}}), strategy)
}

/// Returns a reverse order, in which prod is deleted before dev.
fn reverse() -> Value {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    json!({
        "type": "RollingSync", "deletionOrder": "Reverse", "rollingSync": {"steps": [step("dev"), step("prod")]},
    })
}

fn serve(bench: &KubeBench) -> Running {
    let namespace = &bench.namespace;
    let mut service = bench.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    service.wait_for_line("managing");
    service
}

fn path(bench: &KubeBench, plural: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/{plural}", bench.namespace)
}

fn object_path(bench: &KubeBench, plural: &str, name: &str) -> String {
    format!("{}/{name}", path(bench, plural))
}

async fn applications(bench: &KubeBench) -> Vec<Value> {
    let all = bench.observer().get(&path(bench, APPLICATIONS)).await.unwrap();
    all["items"].as_array().cloned().unwrap_or_default()
}

fn is_synced(application: &Value) -> bool {
    application["status"]["sync"]["status"] == "Synced"
        && application["status"]["operationState"]["finishedAt"].is_string()
}

async fn wait_until_deployed(bench: &KubeBench) {
    for name in MEMBERS {
        bench
            .observer()
            .wait_until(&object_path(bench, APPLICATIONS, name), |one| one.is_some_and(is_synced))
            .await
            .unwrap();
    }
    wait_for_garbage_collector(bench).await;
}

/// Waits until the garbage collector knows the definitions, which it reads every 30 s. If an ApplicationSet is deleted
/// in the foreground before that, the collector doesn't see its dependents and doesn't delete them. Once the collector
/// knows the definitions, it deletes an Application with a nonexistent owner.
async fn wait_for_garbage_collector(bench: &KubeBench) {
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000",
    });
    let left = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": "left", "ownerReferences": [owner],
            "annotations": {"argocd.argoproj.io/skip-reconcile": "true"},
        },
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {"repoURL": "https://example.com/left.git", "path": ".", "targetRevision": "main"},
        },
    });
    bench.observer().post(&path(bench, APPLICATIONS), &left).await.unwrap();
    bench.observer().wait_until(&object_path(bench, APPLICATIONS, "left"), |left| left.is_none()).await;
}

/// Returns the audit positions of the deletions of the members' ConfigMaps.
async fn deletions(bench: &KubeBench) -> Vec<usize> {
    let writes =
        bench.audit().await.by_user(User::ENGINE).filter(|event| event.is_write() && !event.dry_run).0;
    let is_it = |event: &AuditEvent, name: &str| {
        event.kind == "ConfigMap" && event.name == format!("map-{name}") && event.verb == "delete"
    };
    let of = |name: &str| writes.iter().position(|event| is_it(event, name));
    MEMBERS.iter().map(|name| of(name).unwrap_or_else(|| panic!("delete {name}"))).collect()
}

fn condition<'s>(set: &'s Value, kind: &str) -> Option<&'s Value> {
    set["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Removes another controller's finalizer from an Application.
async fn remove_finalizer(bench: &KubeBench, name: &str) {
    let path = object_path(bench, APPLICATIONS, name);
    let mut is_free = false;
    while !is_free {
        let Some(found) = bench.observer().find(&path).await.unwrap() else { return };
        let mut finalizers = found["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|one| *one != HELD);
        let metadata =
            json!({"finalizers": finalizers, "resourceVersion": found["metadata"]["resourceVersion"]});
        // A concurrent deletion may have changed the Application first.
        is_free = bench.observer().patch(&path, &json!({"metadata": metadata})).await.is_ok();
    }
}

pub async fn foreground_deletion_keeps_the_order_of_objects() {
    let bench = bench_with_crds().await;
    repository(&bench);
    let service = serve(&bench);
    bench.observer().post(&path(&bench, APPSETS), &appset(&bench, &reverse())).await.unwrap();
    wait_until_deployed(&bench).await;
    // No service is running during the garbage collection.
    service.signal("KILL");
    service.finish();
    let fleet = object_path(&bench, APPSETS, "fleet");
    bench.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    for name in MEMBERS {
        let is_going = |one: Option<&Value>| one.unwrap()["metadata"]["deletionTimestamp"].is_string();
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), is_going).await;
    }
    let service = serve(&bench);
    bench.observer().wait_until(&fleet, |set| set.is_none()).await;
    let at = deletions(&bench).await;
    let [dev_a, dev_b, prod_a, prod_b] = at.as_slice() else { panic!("four") };
    assert!(prod_a.max(prod_b) < dev_a.min(dev_b), "{at:?}");
    assert_eq!(applications(&bench).await, Vec::<Value>::new());
    let events = format!("/api/v1/namespaces/{}/events", bench.namespace);
    let is_told = |events: Option<&Value>| {
        let all = events.and_then(|events| events["items"].as_array()).cloned().unwrap_or_default();
        all.iter().any(|one| {
            one["reason"] == "ForegroundDeletion"
                && one["involvedObject"]["kind"] == "ApplicationSet"
                && one["message"].as_str().unwrap().contains("--cascade=foreground")
        })
    };
    bench.observer().wait_until(&events, is_told).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// The condition also appears while the service manages the ApplicationSet. It must contain the blocking
/// member.
pub async fn foreground_deletion_is_reported_by_a_condition() {
    let bench = bench_with_crds().await;
    repository(&bench);
    let service = serve(&bench);
    bench.observer().post(&path(&bench, APPSETS), &appset(&bench, &reverse())).await.unwrap();
    wait_until_deployed(&bench).await;
    // Another controller's finalizer keeps each Application.
    let held = json!([RESOURCES, HELD]);
    let map = |name: &str| format!("/api/v1/namespaces/{}/configmaps/map-{name}", bench.namespace);
    let template = json!({"spec": {"template": {"metadata": {"finalizers": held}}}});
    let fleet = object_path(&bench, APPSETS, "fleet");
    bench.observer().patch(&fleet, &template).await.unwrap();
    for name in MEMBERS {
        let has_both = |one: Option<&Value>| one.unwrap()["metadata"]["finalizers"] == held;
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), has_both).await;
    }
    bench.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    let warned = |set: Option<&Value>| {
        let condition = set.and_then(|set| condition(set, "DeletionOrderWarning"));
        condition.is_some_and(|one| one["message"].as_str().unwrap().contains("--cascade=foreground"))
    };
    bench.observer().wait_until(&fleet, warned).await;
    // Only the resource of the first deleted member remains, and the other members wait for it.
    bench.observer().wait_until(&map("prod-a"), |map| map.is_none()).await;
    let waits = |one: Option<&Value>| {
        let message = one.map(|one| one["status"]["operationState"]["message"].clone()).unwrap_or_default();
        message.as_str().is_some_and(|message| message.contains("waiting for its turn"))
    };
    for name in ["dev-a", "dev-b", "prod-b"] {
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), waits).await;
        assert!(bench.observer().get(&map(name)).await.is_ok(), "{name} is still there");
    }
    for name in MEMBERS {
        remove_finalizer(&bench, name).await;
    }
    bench.observer().wait_until(&fleet, |set| set.is_none()).await;
    let at = deletions(&bench).await;
    let [dev_a, dev_b, prod_a, prod_b] = at.as_slice() else { panic!("four") };
    assert!(prod_a.max(prod_b) < dev_a.min(dev_b), "{at:?}");
    service.signal("TERM");
    service.finish().expect_code(0);
}

pub async fn orphaned_applications_are_adopted_by_the_next_appset_of_their_name() {
    let bench = bench_with_crds().await;
    repository(&bench);
    let service = serve(&bench);
    let fleet = object_path(&bench, APPSETS, "fleet");
    let ordered = appset(&bench, &reverse());
    bench.observer().post(&path(&bench, APPSETS), &ordered).await.unwrap();
    wait_until_deployed(&bench).await;
    let uids = || async {
        let all = applications(&bench).await;
        all.iter().map(|one| one["metadata"]["uid"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = uids().await;
    bench.observer().delete(&fleet, &json!({"propagationPolicy": "Orphan"})).await.unwrap();
    bench.observer().wait_until(&fleet, |set| set.is_none()).await;
    for name in MEMBERS {
        let is_nobodys = |one: Option<&Value>| one.unwrap()["metadata"]["ownerReferences"].is_null();
        let left =
            bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), is_nobodys).await.unwrap();
        assert_eq!(left["metadata"]["annotations"]["tidegate.dev/application-set"], "fleet");
    }
    let made = bench.observer().post(&path(&bench, APPSETS), &ordered).await.unwrap();
    let is_owned = |one: Option<&Value>| {
        one.unwrap()["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    };
    for name in MEMBERS {
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), is_owned).await;
    }
    // A member without its owner reference still belongs to the ApplicationSet.
    let dev = object_path(&bench, APPLICATIONS, "dev-a");
    bench.observer().patch(&dev, &json!({"metadata": {"ownerReferences": null}})).await.unwrap();
    bench.observer().wait_until(&dev, is_owned).await;
    assert_eq!(uids().await, before, "they are the same");
    // A member that is deleted without its ApplicationSet doesn't wait for its step, and is recreated.
    let old = bench.observer().get(&dev).await.unwrap()["metadata"]["uid"].clone();
    bench.observer().delete(&dev, &json!({"propagationPolicy": "Background"})).await.unwrap();
    let is_new = |one: Option<&Value>| one.is_some_and(|one| one["metadata"]["uid"] != old);
    bench.observer().wait_until(&dev, is_new).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// The ApplicationSet's policy doesn't permit deletions, but Kubernetes deletes its Applications.
pub async fn objects_survive_a_foreground_deletion_that_the_policy_forbids() {
    let bench = bench_with_crds().await;
    repository(&bench);
    let service = serve(&bench);
    let mut appset_object = appset(&bench, &json!({"deletionOrder": "AllAtOnce"}));
    appset_object["spec"]["syncPolicy"] = json!({"applicationsSync": "create-update"});
    bench.observer().post(&path(&bench, APPSETS), &appset_object).await.unwrap();
    wait_until_deployed(&bench).await;
    // No service is running during the garbage collection. Otherwise it would release the Applications first.
    service.signal("KILL");
    service.finish();
    let fleet = object_path(&bench, APPSETS, "fleet");
    bench.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    for name in MEMBERS {
        let is_going = |one: Option<&Value>| one.unwrap()["metadata"]["deletionTimestamp"].is_string();
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), is_going).await;
    }
    let service = serve(&bench);
    bench.observer().wait_until(&fleet, |set| set.is_none()).await;
    for name in MEMBERS {
        bench.observer().wait_until(&object_path(&bench, APPLICATIONS, name), |one| one.is_none()).await;
        let map = format!("/api/v1/namespaces/{}/configmaps/map-{name}", bench.namespace);
        let map = bench.observer().get(&map).await.unwrap();
        assert!(map["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    let writes = bench
        .audit()
        .await
        .by_user(User::ENGINE)
        .filter(|event| event.kind == "ConfigMap" && event.verb == "delete");
    assert_eq!(writes.0.len(), 0, "{:?}", writes.summaries());
    service.signal("TERM");
    service.finish().expect_code(0);
}
