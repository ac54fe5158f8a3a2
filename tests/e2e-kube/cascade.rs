//! An ApplicationSet that is deleted as `kubectl delete --cascade` has it: in the foreground the garbage collector deletes all
//! of its Applications at once, and their objects go in the order of the set all the same; with `orphan` they are nobody's, and
//! the next set of that name takes them back.

use serde_json::{Value, json};
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::site;
use crate::bench::Running;
use crate::site::Site;

const MEMBERS: [&str; 4] = ["dev-a", "dev-b", "prod-a", "prod-b"];
const SETS: &str = "applicationsets";
const APPLICATIONS: &str = "applications";
const RESOURCES: &str = "resources-finalizer.argocd.argoproj.io";
const HELD: &str = "example.com/held";

fn repository(site: &Site) {
    for name in MEMBERS {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{name}")}});
        site.write(&format!("repo/apps/{name}/map.yaml"), map.to_string());
    }
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

fn set(site: &Site, strategy: &Value) -> Value {
    let repository = site.path().join("repo").display().to_string();
    let env = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
    let elements: Vec<Value> = MEMBERS.iter().map(|name| json!({"name": name, "env": env(name)})).collect();
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "fleet"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "strategy": strategy,
            "template": {
                "metadata": {
                    "name": "{{ .name }}", "labels": {"env": "{{ .env }}"},
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": {
                    "project": "default",
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
                    "source": {"repoURL": repository, "path": "apps/{{ .name }}", "targetRevision": "main"},
                    "syncPolicy": {"automated": {"prune": true}},
                },
            },
        },
    })
}

/// First prod, then dev.
fn reverse() -> Value {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    json!({
        "type": "RollingSync", "deletionOrder": "Reverse", "rollingSync": {"steps": [step("dev"), step("prod")]},
    })
}

fn serve(site: &Site) -> Running {
    let namespace = &site.namespace;
    let mut serving = site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    serving.await_line("serving");
    serving
}

fn path(site: &Site, plural: &str) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/{plural}", site.namespace)
}

fn one(site: &Site, plural: &str, name: &str) -> String {
    format!("{}/{name}", path(site, plural))
}

async fn applications(site: &Site) -> Vec<Value> {
    let all = site.observer().get(&path(site, APPLICATIONS)).await.unwrap();
    all["items"].as_array().cloned().unwrap_or_default()
}

fn is_synced(application: &Value) -> bool {
    application["status"]["sync"]["status"] == "Synced"
        && application["status"]["operationState"]["finishedAt"].is_string()
}

async fn deployed(site: &Site) {
    for name in MEMBERS {
        site.observer()
            .until(&one(site, APPLICATIONS, name), |one| one.is_some_and(is_synced))
            .await
            .unwrap();
    }
    collected(site).await;
}

/// The garbage collector looks for new definitions every 30 s. A set that goes in the foreground before the collector knows of
/// Applications has none to it, and it deletes none: it does once an Application is gone whose owner never was.
async fn collected(site: &Site) {
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
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {"repoURL": "https://example.com/left.git", "path": ".", "targetRevision": "main"},
        },
    });
    site.observer().post(&path(site, APPLICATIONS), &left).await.unwrap();
    site.observer().until(&one(site, APPLICATIONS, "left"), |left| left.is_none()).await;
}

/// At which places of the audit the ConfigMaps of the members were deleted.
async fn deletions(site: &Site) -> Vec<usize> {
    let writes = site.audit().await.of(User::ENGINE).only(|event| event.is_write() && !event.dry_run).0;
    let is_it = |event: &AuditEvent, name: &str| {
        event.kind == "ConfigMap" && event.name == format!("map-{name}") && event.verb == "delete"
    };
    let of = |name: &str| writes.iter().position(|event| is_it(event, name));
    MEMBERS.iter().map(|name| of(name).unwrap_or_else(|| panic!("delete {name}"))).collect()
}

fn condition<'s>(set: &'s Value, kind: &str) -> Option<&'s Value> {
    set["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Somebody else keeps an Application no more.
async fn let_go(site: &Site, name: &str) {
    let path = one(site, APPLICATIONS, name);
    let mut is_free = false;
    while !is_free {
        let Some(found) = site.observer().find(&path).await.unwrap() else { return };
        let mut finalizers = found["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|one| *one != HELD);
        let metadata =
            json!({"finalizers": finalizers, "resourceVersion": found["metadata"]["resourceVersion"]});
        // Whoever deletes it may have been faster.
        is_free = site.observer().patch(&path, &json!({"metadata": metadata})).await.is_ok();
    }
}

pub async fn a_deletion_in_the_foreground_keeps_the_order_of_the_objects() {
    let site = site().await;
    repository(&site);
    let serving = serve(&site);
    site.observer().post(&path(&site, SETS), &set(&site, &reverse())).await.unwrap();
    deployed(&site).await;
    // Nobody serves while the garbage collector is at work.
    serving.signal("KILL");
    serving.finish();
    let fleet = one(&site, SETS, "fleet");
    site.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    for name in MEMBERS {
        let is_going = |one: Option<&Value>| one.unwrap()["metadata"]["deletionTimestamp"].is_string();
        site.observer().until(&one(&site, APPLICATIONS, name), is_going).await;
    }
    let serving = serve(&site);
    site.observer().until(&fleet, |set| set.is_none()).await;
    let at = deletions(&site).await;
    let [dev_a, dev_b, prod_a, prod_b] = at.as_slice() else { panic!("four") };
    assert!(prod_a.max(prod_b) < dev_a.min(dev_b), "{at:?}");
    assert_eq!(applications(&site).await, Vec::<Value>::new());
    let events = format!("/api/v1/namespaces/{}/events", site.namespace);
    let is_told = |events: Option<&Value>| {
        let all = events.and_then(|events| events["items"].as_array()).cloned().unwrap_or_default();
        all.iter().any(|one| {
            one["reason"] == "ForegroundDeletion"
                && one["involvedObject"]["kind"] == "ApplicationSet"
                && one["message"].as_str().unwrap().contains("--cascade=foreground")
        })
    };
    site.observer().until(&events, is_told).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// The collector is at work while the set is served, and what holds one up is told.
pub async fn a_deletion_in_the_foreground_is_told_by_a_condition() {
    let site = site().await;
    repository(&site);
    let serving = serve(&site);
    site.observer().post(&path(&site, SETS), &set(&site, &reverse())).await.unwrap();
    deployed(&site).await;
    // Somebody else keeps each of them.
    let held = json!([RESOURCES, HELD]);
    let map = |name: &str| format!("/api/v1/namespaces/{}/configmaps/map-{name}", site.namespace);
    let template = json!({"spec": {"template": {"metadata": {"finalizers": held}}}});
    let fleet = one(&site, SETS, "fleet");
    site.observer().patch(&fleet, &template).await.unwrap();
    for name in MEMBERS {
        let has_both = |one: Option<&Value>| one.unwrap()["metadata"]["finalizers"] == held;
        site.observer().until(&one(&site, APPLICATIONS, name), has_both).await;
    }
    site.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    let warned = |set: Option<&Value>| {
        let condition = set.and_then(|set| condition(set, "DeletionOrderWarning"));
        condition.is_some_and(|one| one["message"].as_str().unwrap().contains("--cascade=foreground"))
    };
    site.observer().until(&fleet, warned).await;
    // Of the first that goes nothing is left but its resource, and the others wait behind it.
    site.observer().until(&map("prod-a"), |map| map.is_none()).await;
    let waits = |one: Option<&Value>| {
        let message = one.map(|one| one["status"]["operationState"]["message"].clone()).unwrap_or_default();
        message.as_str().is_some_and(|message| message.contains("waiting for its turn"))
    };
    for name in ["dev-a", "dev-b", "prod-b"] {
        site.observer().until(&one(&site, APPLICATIONS, name), waits).await;
        assert!(site.observer().get(&map(name)).await.is_ok(), "{name} is still there");
    }
    for name in MEMBERS {
        let_go(&site, name).await;
    }
    site.observer().until(&fleet, |set| set.is_none()).await;
    let at = deletions(&site).await;
    let [dev_a, dev_b, prod_a, prod_b] = at.as_slice() else { panic!("four") };
    assert!(prod_a.max(prod_b) < dev_a.min(dev_b), "{at:?}");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

pub async fn applications_that_were_orphaned_are_taken_back_by_the_next_set_of_their_name() {
    let site = site().await;
    repository(&site);
    let serving = serve(&site);
    let fleet = one(&site, SETS, "fleet");
    let ordered = set(&site, &reverse());
    site.observer().post(&path(&site, SETS), &ordered).await.unwrap();
    deployed(&site).await;
    let uids = || async {
        let all = applications(&site).await;
        all.iter().map(|one| one["metadata"]["uid"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = uids().await;
    site.observer().delete(&fleet, &json!({"propagationPolicy": "Orphan"})).await.unwrap();
    site.observer().until(&fleet, |set| set.is_none()).await;
    for name in MEMBERS {
        let is_nobodys = |one: Option<&Value>| one.unwrap()["metadata"]["ownerReferences"].is_null();
        let left = site.observer().until(&one(&site, APPLICATIONS, name), is_nobodys).await.unwrap();
        assert_eq!(left["metadata"]["annotations"]["tidegate.dev/application-set"], "fleet");
    }
    let made = site.observer().post(&path(&site, SETS), &ordered).await.unwrap();
    let is_owned = |one: Option<&Value>| {
        one.unwrap()["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    };
    for name in MEMBERS {
        site.observer().until(&one(&site, APPLICATIONS, name), is_owned).await;
    }
    // Somebody takes the owner off: it is the set's all the same.
    let dev = one(&site, APPLICATIONS, "dev-a");
    site.observer().patch(&dev, &json!({"metadata": {"ownerReferences": null}})).await.unwrap();
    site.observer().until(&dev, is_owned).await;
    assert_eq!(uids().await, before, "they are the same");
    // One that somebody deletes while the set stays waits for no turn, and is made anew.
    let old = site.observer().get(&dev).await.unwrap()["metadata"]["uid"].clone();
    site.observer().delete(&dev, &json!({"propagationPolicy": "Background"})).await.unwrap();
    let is_new = |one: Option<&Value>| one.is_some_and(|one| one["metadata"]["uid"] != old);
    site.observer().until(&dev, is_new).await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
}

/// The policy of the set allows no deletion, and Kubernetes deletes its Applications all the same.
pub async fn objects_outlive_a_deletion_in_the_foreground_that_the_policy_does_not_allow() {
    let site = site().await;
    repository(&site);
    let serving = serve(&site);
    let mut kept = set(&site, &json!({"deletionOrder": "AllAtOnce"}));
    kept["spec"]["syncPolicy"] = json!({"applicationsSync": "create-update"});
    site.observer().post(&path(&site, SETS), &kept).await.unwrap();
    deployed(&site).await;
    // Nobody serves while the garbage collector is at work, or they would be let go before it comes to them.
    serving.signal("KILL");
    serving.finish();
    let fleet = one(&site, SETS, "fleet");
    site.observer().delete(&fleet, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
    for name in MEMBERS {
        let is_going = |one: Option<&Value>| one.unwrap()["metadata"]["deletionTimestamp"].is_string();
        site.observer().until(&one(&site, APPLICATIONS, name), is_going).await;
    }
    let serving = serve(&site);
    site.observer().until(&fleet, |set| set.is_none()).await;
    for name in MEMBERS {
        site.observer().until(&one(&site, APPLICATIONS, name), |one| one.is_none()).await;
        let map = format!("/api/v1/namespaces/{}/configmaps/map-{name}", site.namespace);
        let map = site.observer().get(&map).await.unwrap();
        assert!(map["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    let writes =
        site.audit().await.of(User::ENGINE).only(|event| event.kind == "ConfigMap" && event.verb == "delete");
    assert_eq!(writes.0.len(), 0, "{:?}", writes.summaries());
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
