//! Lists, watches, live state for plans, pods and logs.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_cluster::{
    Cluster, Container, Detail, ErrorKind, LiveQuery, Scope, ScopeChange, SearchScope, WatchBackoff,
    WatchEvent, list_and_watch,
};
use tidegate_model::annotations::TRACKING_ID;
use tidegate_model::{GroupKind, Tracking, TrackingMethod};

use super::*;

async fn write_all(cluster: &KubeCluster, objects: Vec<Object>) {
    let writes = stream::iter(objects).map(|object| async move { write(cluster, &object, APPLY).await });
    writes.buffer_unordered(16).try_for_each(|_| async { Ok(()) }).await.unwrap();
}

pub async fn only_readable_kinds_are_listed() {
    let control = ControlPlane::shared();
    let engine = cluster(control, User::ENGINE).await;
    let discovery = engine.discover().await.unwrap();
    let namespaced = |group: &str, kind: &str| discovery.namespaced(&GroupKind::new(group, kind));
    assert_eq!(namespaced("apps", "Deployment"), Some(true));
    assert_eq!(namespaced("", "Namespace"), Some(false));
    assert_eq!(namespaced("rbac.authorization.k8s.io", "ClusterRole"), Some(false));
    assert_eq!(namespaced("authorization.k8s.io", "SubjectAccessReview"), None, "it can only be created");
    let claims = discovery.get(&GroupKind::new("autoscaling", "HorizontalPodAutoscaler")).unwrap();
    assert!(claims.versions.len() > 1, "{claims:?}");
    assert!(discovery.unavailable_versions.is_empty(), "{:?}", discovery.unavailable_versions);
    let says = control.client(User::CONTROLLERS).get("/version").await.unwrap();
    let version = engine.version().await.unwrap().unwrap();
    let both = format!("v{}.{}.", says["major"].as_str().unwrap(), says["minor"].as_str().unwrap());
    assert!(version.starts_with(&both), "{version} is not a version of {says}");
}

pub async fn long_lists_are_paged_and_plans_get_the_live_state() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("many").await.unwrap());
    let mut objects: Vec<Object> = (0..1_100)
        .map(|number| {
            let mut object = config_map(&namespace, &format!("c{number:04}"), json!({"x": "1"}));
            object
                .set_annotation(TRACKING_ID, format!("{namespace}:/ConfigMap:{namespace}/{}", object.name()));
            object
        })
        .collect();
    write_all(&cluster, objects.clone()).await;
    for detail in [Detail::Full, Detail::Metadata] {
        let scope = Scope { gvk: config_maps(), namespace: Some(namespace.clone()), detail };
        let listing = cluster.list(&scope).await.unwrap();
        assert!(listing.objects.len() >= 1_100);
        assert!(
            listing.objects.iter().all(|object| object.gvk() == config_maps() && !object.uid().is_empty())
        );
        assert_eq!(
            listing.objects.iter().any(|object| object.pointer("/data").is_some()),
            detail == Detail::Full
        );
    }
    let place = |object: &Object| (object.gvk(), object.namespace().to_owned(), object.name().to_owned());
    let all: BTreeSet<_> = objects.iter().map(place).collect();
    let expected: Vec<String> = objects.iter().map(|object| object.name().to_owned()).collect();
    let untracked = write(&cluster, &config_map(&namespace, "other", json!({})), APPLY).await.unwrap().object;
    let list = async |query: LiveQuery| {
        let found = cluster.list_live(&query).await.unwrap().objects;
        found.iter().map(|object| object.key().name.clone()).collect::<Vec<_>>()
    };
    let query = |named: &BTreeSet<_>, inventory: Option<&BTreeSet<_>>| LiveQuery {
        application: namespace.clone(),
        named: named.clone(),
        inventory: inventory.cloned().unwrap_or_default(),
        search_scope: if inventory.is_some() { SearchScope::KnownObjects } else { SearchScope::WholeCluster },
        ..LiveQuery::default()
    };
    let nothing = BTreeSet::new();
    assert_eq!(list(query(&all, Some(&nothing))).await, expected, "by name, in lists");
    assert_eq!(list(query(&nothing, Some(&all))).await, expected, "from the inventory");
    assert_eq!(list(query(&nothing, None)).await, expected, "by search");
    let mark = control.audit_mark();
    let few: BTreeSet<_> =
        objects.drain(..3).map(|object| place(&object)).chain([place(&untracked)]).collect();
    assert_eq!(list(query(&few, Some(&nothing))).await, ["c0000", "c0001", "c0002", "other"]);
    let audit = control.audit_in_namespace(mark, &namespace).await.unwrap().by_user(User::ENGINE);
    assert_eq!(audit.0.iter().filter(|event| event.verb == "get").count(), 4);
    assert_eq!(audit.0.len(), 4, "{:?}", audit.summaries());
}

pub async fn a_user_of_one_namespace_gets_only_that_one() {
    let control = ControlPlane::shared();
    let (engine, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("narrow").await.unwrap());
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    let user = control.create_limited_user(&[(Some(&namespace), rules)]).await.unwrap();
    let limited = cluster(control, &user).await;
    let mut ours = config_map(&namespace, "a", json!({}));
    ours.set_annotation(TRACKING_ID, format!("{namespace}:/ConfigMap:{namespace}/a"));
    write(&engine, &ours, APPLY).await.unwrap();
    let named = BTreeSet::from([(config_maps(), namespace.clone(), "b".to_owned())]);
    let query = LiveQuery { application: namespace.clone(), named, ..LiveQuery::default() };
    let found = limited.list_live(&query).await.unwrap().objects;
    assert_eq!(found.iter().map(|object| object.key().name.as_str()).collect::<Vec<_>>(), ["a"]);
}

/// Controllers set labels but not owners on the claims of a StatefulSet and on Endpoints, so pruning by label
/// would lose data.
pub async fn labels_set_by_controllers_do_not_mean_ownership() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("claims").await.unwrap());
    let labels = json!({"app.kubernetes.io/instance": namespace, "app": "db"});
    let metadata = |name: &str| json!({"name": name, "namespace": namespace, "labels": labels});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("db"),
        "spec": {"selector": labels, "ports": [{"port": 80}]}});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata("db"), "spec": {
        "replicas": 1, "serviceName": "db", "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}});
    let own_claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata("own"), "spec": claim});
    for object in [service, set, own_claim] {
        write(&cluster, &Object::try_from(object).unwrap(), APPLY).await.unwrap();
    }
    let claims = Gvk::new("", "v1", "PersistentVolumeClaim");
    let endpoints = Gvk::new("", "v1", "Endpoints");
    let made = [
        (claims, namespace.clone(), "data-db-0".to_owned()),
        (endpoints, namespace.clone(), "db".to_owned()),
    ];
    for (gvk, namespace, name) in &made {
        let looking = async {
            loop {
                let found = cluster.get(gvk, namespace, name).await.unwrap();
                if let Some(found) = found.filter(|found| found.label("app") == Some("db")) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(TIMEOUT, looking).await.unwrap();
        assert_eq!(found.label("app.kubernetes.io/instance"), Some(namespace.as_str()));
        assert!(!found.has_owner());
    }
    let tracking = Tracking { method: TrackingMethod::Label, ..Tracking::default() };
    for inventory in [None, Some(BTreeSet::from(made))] {
        let known = inventory.is_some();
        let (application, tracking) = (namespace.clone(), tracking.clone());
        let search_scope = if known { SearchScope::KnownObjects } else { SearchScope::WholeCluster };
        let inventory = inventory.unwrap_or_default();
        let query = LiveQuery { application, tracking, inventory, search_scope, ..LiveQuery::default() };
        let found = cluster.list_live(&query).await.unwrap().objects;
        let found: Vec<String> = found.iter().map(|object| object.key().to_string()).collect();
        let ours = ["PersistentVolumeClaim", "Service", "StatefulSet"].iter().zip(["own", "db", "db"]);
        let ours: Vec<String> = ours.map(|(kind, name)| format!("{kind} {namespace}/{name}")).collect();
        assert_eq!(found, if known { Vec::new() } else { ours });
    }
}

pub async fn watches_report_every_change_after_the_list() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("watched").await.unwrap());
    for detail in [Detail::Full, Detail::Metadata] {
        let scope = Scope { gvk: config_maps(), namespace: Some(namespace.clone()), detail };
        let listing = cluster.list(&scope).await.unwrap();
        let mut changes = cluster.watch(&scope, &listing.resource_version).await.unwrap();
        let manifest = config_map(&namespace, "w", json!({"x": "1"}));
        let written = write(&cluster, &manifest, APPLY).await.unwrap().object;
        cluster.delete(delete(&written, Propagation::Background)).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match tokio::time::timeout(TIMEOUT, changes.next()).await.unwrap().unwrap().unwrap() {
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Applied(object) => seen.push(("applied", object)),
                WatchEvent::Deleted(object) => seen.push(("deleted", object)),
            }
        }
        for ((what, object), expected) in seen.iter().zip(["applied", "deleted"]) {
            assert_eq!((*what, object.uid(), object.gvk()), (expected, written.uid(), config_maps()));
            assert_eq!(object.pointer("/data").is_some(), detail == Detail::Full);
        }
    }
}

pub async fn a_watch_that_the_server_ends_continues_where_it_was() {
    let control = ControlPlane::shared();
    let namespace = control.create_namespace("resumed").await.unwrap();
    // Even with a late response, the watch must exceed the minimum duration of a successful one.
    let brief = ConnectOptions { watch_duration: Duration::from_secs(3), ..options(control, User::ENGINE) };
    let cluster = Arc::new(connect(&brief).await.unwrap());
    let there = config_map(&namespace, "there", json!({}));
    write(&cluster, &there, APPLY).await.unwrap();
    let scope = Scope { gvk: config_maps(), namespace: Some(namespace.clone()), detail: Detail::Metadata };
    let mark = control.audit_mark();
    let pauses = WatchBackoff { min: Duration::from_millis(50), max: Duration::from_secs(1) };
    let mut followed = list_and_watch(Arc::clone(&cluster) as Arc<dyn Cluster>, scope, pauses);
    let audit_events = async |verb: &str| {
        let audit = control.audit_in_namespace(mark, &namespace).await.unwrap().by_user(User::ENGINE);
        audit.filter(|event| event.verb == verb && event.resource == "configmaps").0
    };
    let listed = followed.next().await.unwrap();
    let ScopeChange::Listed(objects) = &listed else { panic!("{listed:?}") };
    assert!(objects.iter().any(|object| object.name() == "there"), "{objects:?}");
    // Other clients' objects, such as the certificates of each namespace, may appear at any time.
    let mut seen = Vec::new();
    for (ended, name) in [(2, "first"), (4, "second")] {
        // A watch appears in the audit log only after it has ended.
        let written = async {
            while audit_events("watch").await.len() < ended {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            write(&cluster, &config_map(&namespace, name, json!({})), APPLY).await.unwrap();
            std::future::pending::<()>().await;
        };
        let follow_until_change = async {
            loop {
                match followed.next().await.unwrap() {
                    ScopeChange::Applied(object) if object.name() == name => return,
                    ScopeChange::Applied(object) => seen.push(object.name().to_owned()),
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::select! {
            () = written => unreachable!("it waits"),
            follow_until_change = tokio::time::timeout(TIMEOUT, follow_until_change) => follow_until_change.unwrap(),
        }
    }
    assert!(
        !seen.iter().any(|name| ["there", "first", "second"].contains(&name.as_str())),
        "sent again: {seen:?}"
    );
    assert_eq!(audit_events("list").await.len(), 1);
    let watches = audit_events("watch").await;
    assert!(watches.iter().all(|watch| watch.code == 200 && watch.uri.contains("timeoutSeconds=3&")));
}

pub async fn pods_are_found_through_their_owners() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("owned").await.unwrap());
    let template = |app: &str, policy: &str| {
        json!({"metadata": {"labels": {"app": app}}, "spec": {
            "restartPolicy": policy, "containers": [{"name": "main", "image": "busybox"}]}})
    };
    let workload = |api: &str, kind: &str, spec: Value| {
        object(json!({"apiVersion": api, "kind": kind,
            "metadata": {"name": kind.to_lowercase(), "namespace": namespace}, "spec": spec}))
    };
    let selected = |app: &str, more: Value| {
        let mut spec =
            json!({"selector": {"matchLabels": {"app": app}}, "template": template(app, "Always")});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    // This pod has the same labels but no owner.
    let mut stray = json!({"apiVersion": "v1", "kind": "Pod"});
    stray.as_object_mut().unwrap().extend(template("deployment", "Always").as_object().unwrap().clone());
    stray["metadata"]["name"] = json!("stray");
    stray["metadata"]["namespace"] = json!(namespace);
    let stray = write(&cluster, &object(stray), APPLY).await.unwrap().object;
    let mine = cluster.pods(&stray).await.unwrap();
    assert_eq!(mine.iter().map(Object::name).collect::<Vec<_>>(), ["stray"]);
    for (workload, count) in [
        (workload("apps/v1", "Deployment", selected("deployment", json!({"replicas": 2}))), 2),
        (workload("apps/v1", "StatefulSet", selected("set", json!({"serviceName": "set"}))), 1),
        (workload("apps/v1", "DaemonSet", selected("daemon", json!({}))), 1),
        (workload("batch/v1", "Job", json!({"template": template("job", "Never")})), 1),
        (workload("v1", "ConfigMap", json!({})), 0),
    ] {
        let mut workload = workload;
        if count == 0 {
            workload.fields_mut().remove("spec");
        }
        let owner = write(&cluster, &workload, APPLY).await.unwrap().object;
        let found = async {
            loop {
                let owner = read(&cluster, &owner).await.unwrap();
                let pods = cluster.pods(&owner).await.unwrap();
                if pods.len() >= count {
                    return pods;
                }
                tokio::task::yield_now().await;
            }
        };
        let pods = tokio::time::timeout(TIMEOUT, found).await.unwrap();
        assert_eq!(pods.len(), count, "{workload}");
        assert!(pods.iter().all(|pod| pod.kind() == "Pod" && pod.name() != "stray"));
    }
    let container =
        |pod: &str| Container { namespace: namespace.clone(), pod: pod.to_owned(), name: "main".to_owned() };
    let error = cluster.logs(&container("not-there"), 100).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    let place = format!("/api/v1/namespaces/{namespace}/pods/stray");
    control
        .client(User::OBSERVER)
        .wait_until(&place, |pod| pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string()))
        .await;
    let error = cluster.logs(&container("stray"), 100).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
}
