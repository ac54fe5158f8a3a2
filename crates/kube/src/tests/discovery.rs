//! Tests of discovery.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_cluster::{Cluster as _, ErrorKind};
use tidegate_model::GroupKind;

use super::*;

fn request_paths(log: &RequestLog) -> Vec<String> {
    log.lock().unwrap().iter().map(|asked| asked.path.clone()).collect()
}

#[tokio::test]
async fn aggregated_discovery_takes_two_requests() {
    let (cluster, log) = scripted_cluster(|asked| {
        assert!(
            asked.accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,")
        );
        let resource = |plural: &str, kind: &str, scope: &str, verbs: &[&str]| {
            json!({
                "resource": plural, "scope": scope, "verbs": verbs,
                "responseKind": {"group": "", "version": "", "kind": kind},
                "subresources": [{"subresource": "status"}],
            })
        };
        let all = ["get", "list", "patch"];
        let groups = match asked.path.as_str() {
            "/api" => json!([{"metadata": {"name": null}, "versions": []}]),
            "/apis" => json!([
                {"metadata": {"name": "x.org"}, "versions": [
                    {"version": "v2", "resources": [resource("as", "A", "Namespaced", &all)], "freshness": "Current"},
                    {"version": "v1", "resources": [
                        resource("as", "A", "Namespaced", &all),
                        resource("bs", "B", "Cluster", &all),
                        resource("reviews", "Review", "Cluster", &["create"]),
                    ]},
                ]},
                {"metadata": {"name": "down.org"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
            ]),
            other => panic!("{other} is not needed"),
        };
        let groups = if asked.path == "/api" { json!([]) } else { groups };
        Some(Reply::Json(200, json!({"kind": "APIGroupDiscoveryList", "items": groups})))
    });
    let discovery = cluster.discover().await.unwrap();
    let info = |kind: &str| {
        discovery.get(&GroupKind::new("x.org", kind)).map(|info| (info.versions.join(","), info.namespaced))
    };
    assert_eq!(info("A"), Some(("v2,v1".to_owned(), true)));
    assert_eq!(info("B"), Some(("v1".to_owned(), false)));
    assert_eq!(info("Review"), None);
    assert_eq!(
        discovery.unavailable_versions.into_iter().collect::<Vec<_>>(),
        [("down.org".to_owned(), "v1".to_owned())]
    );
    assert_eq!(request_paths(&log).len(), 2);
}

#[tokio::test]
async fn a_version_contains_only_its_numbers() {
    for (answer, expected) in [
        (Reply::Json(200, json!({"gitVersion": "v1.36.1"})), Some("v1.36.1")),
        (Reply::Json(200, json!({"gitVersion": "v1.30.4-eks-a737599", "minor": "30+"})), Some("v1.30.4")),
        (Reply::Json(200, json!({"gitVersion": "v1.31.5+k3s1"})), Some("v1.31.5")),
        (Reply::Json(200, json!({"gitVersion": "v1.31"})), None),
        (Reply::Json(200, json!({"gitVersion": "v1.31.x"})), None),
        (Reply::Json(200, json!({})), None),
        (Reply::Json(403, json!({"kind": "Status", "reason": "Forbidden", "code": 403})), None),
    ] {
        let answer = std::sync::Mutex::new(Some(answer));
        let (cluster, _) = scripted_cluster(move |asked| {
            assert_eq!(asked.path, "/version");
            answer.lock().unwrap().take()
        });
        assert_eq!(cluster.version().await.unwrap().as_deref(), expected);
    }
}

#[tokio::test]
async fn an_unchanged_discovery_is_not_sent_again() {
    let changed = Arc::new(AtomicBool::new(false));
    let script = Arc::clone(&changed);
    let (cluster, log) = scripted_cluster(move |asked| {
        let kind = |plural: &str, kind: &str| {
            json!({"resource": plural, "scope": "Namespaced", "verbs": ["get"],
                "responseKind": {"group": "", "version": "", "kind": kind}})
        };
        let group = |name: &str, kinds: Vec<Value>| {
            let versions = json!([{"version": "v1", "resources": kinds}]);
            json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": name}, "versions": versions}]})
        };
        let mut all = vec![kind("as", "A")];
        Some(match (asked.path.as_str(), script.load(Ordering::SeqCst)) {
            ("/api", _) => Reply::Etag("core", group("", vec![kind("pods", "Pod")])),
            ("/apis", false) => Reply::Etag("first", group("x.org", all)),
            ("/apis", true) => {
                all.push(kind("bs", "B"));
                Reply::Etag("second", group("x.org", all))
            }
            (path, _) if path.contains("/as/") => Reply::Text(404, "404 page not found"),
            (other, _) => panic!("{other} is not needed"),
        })
    });
    let kinds = async || {
        let found = cluster.discover().await.unwrap();
        found.kinds.into_keys().map(|kind| kind.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds().await, ["Pod", "A"]);
    let known = |from: usize| {
        log.lock().unwrap()[from..].iter().map(|one| one.known_etag.clone()).collect::<Vec<_>>()
    };
    assert_eq!(known(0), ["", ""]);
    assert_eq!(kinds().await, ["Pod", "A"]);
    assert_eq!(known(2), ["core", "first"], "nothing is reported twice");
    // A removed kind is available again once the server reports it.
    let gone = cluster.get(&Gvk::new("x.org", "v1", "A"), "shop", "a").await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::UnknownKind);
    assert_eq!(kinds().await, ["Pod", "A"]);
    changed.store(true, Ordering::SeqCst);
    assert_eq!(kinds().await, ["Pod", "A", "B"]);
    let asked = log.lock().unwrap().len();
    assert_eq!(kinds().await, ["Pod", "A", "B"]);
    assert_eq!(known(asked), ["core", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_check_starts_only_the_discovery_that_follows() {
    let (cluster, log) = scripted_cluster(|_| None);
    let whole = ["/api", "/apis", "/api/v1", "/apis/apps/v1"];
    cluster.check_connection().await.unwrap();
    assert_eq!(request_paths(&log), whole[..2]);
    assert!(cluster.discover().await.unwrap().get(&GroupKind::new("apps", "Deployment")).is_some());
    assert_eq!(request_paths(&log), whole);
    cluster.discover().await.unwrap();
    assert_eq!(request_paths(&log)[4..], whole, "a second discovery reads everything");

    cluster.check_connection().await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    cluster.discover().await.unwrap();
    assert_eq!(request_paths(&log)[10..], whole, "discovery results expire after a minute");
}

#[tokio::test]
async fn a_group_that_does_not_respond_hides_only_its_own_kinds() {
    let (cluster, _) = scripted_cluster(|asked| match asked.path.as_str() {
        "/apis" => Some(Reply::Json(
            200,
            json!({"kind": "APIGroupList", "groups": [
                {"name": "metrics.k8s.io", "versions": [{"version": "v1beta1"}]},
                {"name": "apps", "versions": [{"version": "v1beta1"}, {"version": "v1"}], "preferredVersion": {"version": "v1"}},
            ]}),
        )),
        "/apis/metrics.k8s.io/v1beta1" => {
            Some(Reply::Json(503, status_body(503, "ServiceUnavailable", "down")))
        }
        "/apis/apps/v1beta1" => {
            Some(reply_to_discovery(&ReceivedRequest { path: "/apis/apps/v1".to_owned(), ..asked.clone() }))
        }
        _ => None,
    });
    let discovery = cluster.discover().await.unwrap();
    let deployments = discovery.get(&GroupKind::new("apps", "Deployment")).unwrap();
    assert_eq!(deployments.versions, ["v1", "v1beta1"]);
    assert!(discovery.kinds.keys().all(|kind| kind.group != "metrics.k8s.io"));
}

#[tokio::test]
async fn a_lost_connection_is_not_an_empty_cluster() {
    let (cluster, _) = scripted_cluster(|asked| (asked.path == "/apis/apps/v1").then_some(Reply::Broken));
    assert_eq!(cluster.discover().await.unwrap_err().kind, ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_costs_one_request_and_is_found_once_it_exists() {
    let there = Arc::new(AtomicBool::new(false));
    let script = Arc::clone(&there);
    let (cluster, log) = scripted_cluster(move |asked| match asked.path.as_str() {
        "/apis/x.org/v1" if script.load(Ordering::SeqCst) => Some(Reply::Json(
            200,
            json!({"kind": "APIResourceList", "resources": [
                {"name": "foos", "kind": "Foo", "namespaced": true, "verbs": ["get", "list"]}]}),
        )),
        path if path.contains("/foos/") => {
            let foo = json!({"apiVersion": "x.org/v1", "kind": "Foo", "metadata": {"name": "f"}});
            Some(if script.load(Ordering::SeqCst) {
                Reply::Json(200, foo)
            } else {
                Reply::Text(404, "404 page not found")
            })
        }
        _ => None,
    });
    let foo = Gvk::new("x.org", "v1", "Foo");
    let many = (0..50).map(|_| cluster.get(&foo, "shop", "f"));
    for answer in futures_util::future::join_all(many).await {
        assert_eq!(answer.unwrap_err().kind, ErrorKind::UnknownKind);
    }
    assert_eq!(request_paths(&log), ["/apis/x.org/v1"]);

    there.store(true, Ordering::SeqCst);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(cluster.get(&foo, "shop", "f").await.unwrap().is_some());

    there.store(false, Ordering::SeqCst);
    assert_eq!(cluster.get(&foo, "shop", "f").await.unwrap_err().kind, ErrorKind::UnknownKind);
    let asked = request_paths(&log).len();
    assert_eq!(cluster.get(&foo, "shop", "f").await.unwrap_err().kind, ErrorKind::UnknownKind);
    assert_eq!(
        request_paths(&log)[asked..],
        ["/apis/x.org/v1"],
        "objects of unserved kinds are not requested"
    );
}
