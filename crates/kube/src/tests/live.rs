//! Tests of reading the live state for a plan, with counted requests.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster as _, ErrorKind, LiveQuery, MissingRight, SearchScope};
use tidegate_model::annotations::TRACKING_ID;
use tidegate_model::{LiveObject, Tracking, TrackingMethod};

use super::*;

fn locations(names: &[&str]) -> BTreeSet<(Gvk, String, String)> {
    names.iter().map(|name| (config_map_gvk(), "shop".to_owned(), (*name).to_owned())).collect()
}

fn tracked_object(name: &str, application: &str) -> Value {
    let mut object = live_config_map(name);
    object["metadata"]["annotations"] = json!({TRACKING_ID: format!("{application}:/ConfigMap:shop/{name}")});
    object
}

fn absent_reply(name: &str) -> Reply {
    let mut status = status_body(404, "NotFound", "not found");
    status["details"] = json!({"kind": "configmaps", "name": name});
    Reply::Json(404, status)
}

fn list_reply(items: &[Value]) -> Reply {
    Reply::Json(200, json!({"metadata": {"resourceVersion": "70"}, "items": items}))
}

fn object_names(objects: &[LiveObject]) -> Vec<&str> {
    objects.iter().map(|object| object.key().name.as_str()).collect()
}

/// Responds to reads of single objects. Objects with names that start with `x` don't exist.
fn reply_with_one_object(request: &ReceivedRequest) -> Option<Reply> {
    let (_, name) = request.path.split_once("/configmaps/")?;
    Some(if name.starts_with('x') {
        absent_reply(name)
    } else {
        Reply::Json(200, tracked_object(name, "app"))
    })
}

#[tokio::test]
async fn few_objects_are_read_individually_and_many_with_one_list() {
    let many: Vec<String> = (0..40).map(|number| format!("a{number:02}")).collect();
    for (wanted, lists) in [(8, 0), (9, 1), (40, 1)] {
        let stored = many.clone();
        let (cluster, log) = scripted_cluster(move |request| {
            let all = stored.iter().map(|name| live_config_map(name)).collect::<Vec<_>>();
            request
                .path
                .contains("/configmaps?limit=500")
                .then(|| list_reply(&all))
                .or_else(|| reply_with_one_object(request))
        });
        let named: Vec<&str> = many.iter().take(wanted).map(String::as_str).collect();
        let query = LiveQuery {
            application: "app".to_owned(),
            named: locations(&named),
            search_scope: SearchScope::KnownObjects,
            ..LiveQuery::default()
        };
        let found = cluster.list_live(&query).await.unwrap().objects;
        assert_eq!(object_names(&found), named);
        let requests = logged_calls(&log);
        assert_eq!(requests.iter().filter(|line| line.contains('?')).count(), lists, "{requests:?}");
        assert_eq!(requests.len(), if lists == 0 { wanted } else { 1 });
    }
}

#[tokio::test]
async fn without_the_right_to_list_objects_are_read_individually() {
    let (cluster, log) = scripted_cluster(|request| {
        let forbidden =
            || Reply::Json(403, status_body(403, "Forbidden", "cannot list resource \"configmaps\""));
        request.path.contains('?').then(forbidden).or_else(|| reply_with_one_object(request))
    });
    let named: Vec<String> = (0..12).map(|number| format!("a{number:02}")).chain(["x".to_owned()]).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let (application, search_scope) = ("app".to_owned(), SearchScope::KnownObjects);
    let query = LiveQuery { application, named: locations(&named), search_scope, ..LiveQuery::default() };
    assert_eq!(cluster.list_live(&query).await.unwrap().objects.len(), 12);
    assert_eq!(logged_calls(&log).len(), 14);
}

#[tokio::test]
async fn an_inventory_counts_only_where_the_cluster_agrees() {
    let (cluster, log) = scripted_cluster(|request| {
        let (_, name) = request.path.split_once("/configmaps/")?;
        Some(match name {
            "x" => absent_reply(name),
            "foreign" => Reply::Json(200, tracked_object(name, "other")),
            "plain" => Reply::Json(200, live_config_map(name)),
            "child" => {
                let mut child = tracked_object(name, "app");
                child["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
                Reply::Json(200, child)
            }
            _ => Reply::Json(200, tracked_object(name, "app")),
        })
    });
    let unserved = (Gvk::new("gone.org", "v1", "Foo"), "shop".to_owned(), "f".to_owned());
    let mut inventory = locations(&["a", "child", "foreign", "plain", "x"]);
    inventory.insert(unserved);
    let named = locations(&["foreign"]);
    let query = LiveQuery {
        application: "app".to_owned(),
        named,
        inventory,
        search_scope: SearchScope::KnownObjects,
        ..LiveQuery::default()
    };
    let found = cluster.list_live(&query).await.unwrap().objects;
    assert_eq!(object_names(&found), ["a", "foreign"]);
    assert!(logged_calls(&log).iter().all(|line| !line.contains("/foo") || line.contains("foreign")));
}

#[tokio::test]
async fn without_an_inventory_every_kind_is_searched_by_its_metadata() {
    let (cluster, log) = scripted_cluster(|request| match request.path.as_str() {
        "/api/v1/configmaps?limit=500" => Some(list_reply(&[
            tracked_object("a", "app"),
            tracked_object("b", "other"),
            live_config_map("c"),
        ])),
        "/api/v1/secrets?limit=500" => {
            Some(Reply::Json(403, status_body(403, "Forbidden", "cannot list secrets")))
        }
        "/api/v1/namespaces/shop/secrets?limit=500" | "/api/v1/namespaces?limit=500" => Some(list_reply(&[])),
        "/apis/apps/v1/deployments?limit=500" => {
            Some(Reply::Json(500, status_body(500, "", "conversion failed")))
        }
        _ => reply_with_one_object(request),
    });
    let query = LiveQuery { application: "app".to_owned(), named: locations(&["d"]), ..LiveQuery::default() };
    let found = cluster.list_live(&query).await.unwrap().objects;
    assert_eq!(object_names(&found), ["a", "d"]);
    let requests = log.lock().unwrap();
    let lists: Vec<&ReceivedRequest> = requests.iter().filter(|request| request.path.contains('?')).collect();
    assert_eq!(lists.len(), 5);
    assert!(lists.iter().all(|list| list.accept.contains("as=PartialObjectMetadataList")));
}

/// Thousands of applications may be planned at the same time, all searching for the same kinds.
#[tokio::test(start_paused = true)]
async fn applications_planned_together_share_their_searches() {
    let object = |number: usize| tracked_object(&format!("a{number}"), &format!("app-{number}"));
    let (cluster, log) = scripted_cluster(move |request| {
        if request.path == "/api/v1/configmaps?limit=500" {
            let all: Vec<Value> = (0..20).map(object).collect();
            return Some(Reply::Slow(1, 200, json!({"metadata": {"resourceVersion": "70"}, "items": all})));
        }
        let (_, number) = request.path.split_once("/configmaps/a")?;
        Some(Reply::Json(200, object(number.parse().unwrap())))
    });
    let cluster = &cluster.with_shared_searches();
    let plan = |number: usize| async move {
        let kinds = BTreeSet::from([(config_map_gvk(), "shop".to_owned(), String::new())]);
        let (application, search_scope) = (format!("app-{number}"), SearchScope::KnownKinds);
        let query = LiveQuery { application, inventory: kinds, search_scope, ..LiveQuery::default() };
        assert_eq!(object_names(&cluster.list_live(&query).await.unwrap().objects), [format!("a{number}")]);
    };
    let lists = || logged_calls(&log).iter().filter(|line| line.contains("?limit")).count();
    futures_util::future::join_all((0..20).map(plan)).await;
    assert_eq!(lists(), 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    plan(0).await;
    assert_eq!(lists(), 2, "an old search result is not used");
}

/// Permissions in an application's namespaces are enough to find its objects there. Unsearchable kinds must
/// be reported and never treated as empty.
#[tokio::test]
async fn unsearchable_kinds_are_reported() {
    let refused =
        |what: &str| Some(Reply::Json(403, status_body(403, "Forbidden", &format!("cannot list {what}"))));
    let (cluster, log) = scripted_cluster(move |request| match request.path.as_str() {
        "/api/v1/namespaces/shop/configmaps?limit=500" => Some(list_reply(&[tracked_object("a", "app")])),
        "/api/v1/namespaces/other/configmaps?limit=500" => Some(list_reply(&[])),
        "/api/v1/namespaces/shop/secrets?limit=500" => Some(list_reply(&[])),
        "/apis/apps/v1/deployments?limit=500" => {
            Some(Reply::Json(500, status_body(500, "", "conversion failed")))
        }
        path if path.contains("?limit=500") => refused(path),
        _ => reply_with_one_object(request),
    });
    let namespaces = BTreeSet::from(["shop".to_owned(), "other".to_owned()]);
    let query = LiveQuery { application: "app".to_owned(), namespaces, ..LiveQuery::default() };
    let answer = cluster.list_live(&query).await.unwrap();
    assert_eq!(object_names(&answer.objects), ["a"]);
    let right = |namespace: &str, resource: &str| MissingRight {
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        verb: "list",
    };
    let reported_kinds: Vec<_> = answer
        .incomplete_searches
        .into_iter()
        .map(|one| {
            (
                one.kind.to_string(),
                one.has_searched_namespaces,
                one.missing_rights.into_iter().collect::<Vec<_>>(),
            )
        })
        .collect();
    let reported_kinds: BTreeSet<_> = reported_kinds.into_iter().collect();
    let expected = [
        ("ConfigMap", true, vec![right("", "configmaps")]),
        ("apps/Deployment", false, vec![]),
        ("Namespace", false, vec![right("", "namespaces")]),
        ("Secret", false, vec![right("other", "secrets")]),
    ];
    assert_eq!(
        reported_kinds,
        expected.into_iter().map(|(kind, beyond, rights)| (kind.to_owned(), beyond, rights)).collect()
    );
    assert!(logged_calls(&log).iter().all(|line| !line.contains("/namespaces/shop/namespaces")));
}

#[tokio::test]
async fn an_unsearchable_kind_is_reported_once_until_it_is_searchable() {
    let gvk = |kind: &str| Gvk::new("", "v1", kind);
    let (cluster, _) = scripted_cluster(|_| None);
    let (both, secret) = ([gvk("ConfigMap"), gvk("Secret")], BTreeSet::from([gvk("Secret")]));
    assert_eq!(cluster.record_unsearched(&both, &secret), secret);
    assert_eq!(cluster.record_unsearched(&both, &secret), BTreeSet::new());
    assert_eq!(cluster.record_unsearched(&both[..1], &BTreeSet::new()), BTreeSet::new());
    assert_eq!(
        cluster.record_unsearched(&both, &secret),
        BTreeSet::new(),
        "the kind has not been searched since"
    );
    assert_eq!(cluster.record_unsearched(&both, &BTreeSet::new()), BTreeSet::new());
    assert_eq!(cluster.record_unsearched(&both, &secret), secret);
}

/// A search for display doesn't justify listing every kind.
#[tokio::test]
async fn a_narrow_search_lists_only_named_or_known_kinds() {
    let (cluster, log) = scripted_cluster(|request| match request.path.as_str() {
        "/api/v1/configmaps?limit=500" => {
            Some(list_reply(&[tracked_object("a", "app"), tracked_object("b", "other")]))
        }
        "/api/v1/secrets?limit=500" => Some(list_reply(&[])),
        _ => reply_with_one_object(request),
    });
    let secret = (Gvk::new("", "v1", "Secret"), "shop".to_owned(), String::new());
    let query = LiveQuery {
        application: "app".to_owned(),
        named: locations(&["d"]),
        inventory: BTreeSet::from([secret]),
        search_scope: SearchScope::KnownKinds,
        ..LiveQuery::default()
    };
    assert_eq!(object_names(&cluster.list_live(&query).await.unwrap().objects), ["a", "d"]);
    let requests = log.lock().unwrap();
    let lists: Vec<&ReceivedRequest> = requests.iter().filter(|request| request.path.contains('?')).collect();
    let mut paths: Vec<&str> = lists.iter().map(|list| list.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/api/v1/configmaps?limit=500", "/api/v1/secrets?limit=500"]);
    assert!(lists.iter().all(|list| list.accept.contains("as=PartialObjectMetadataList")));
}

#[tokio::test]
async fn a_search_by_label_lists_only_matching_objects() {
    let tracking = Tracking { method: TrackingMethod::Label, ..Tracking::default() };
    let labelled = |name: &str| {
        let mut object = live_config_map(name);
        object["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "app"});
        object
    };
    // `d` is in the manifests. If it has only the annotation, other objects may too.
    for (named, conditions, found_names) in [
        (labelled("d"), "&labelSelector=app.kubernetes.io/instance%3Dapp", &["a", "d"][..]),
        (tracked_object("d", "app"), "", &["a", "c", "d"]),
    ] {
        let all = format!("/api/v1/configmaps?limit=500{conditions}");
        let (cluster, log) = scripted_cluster(move |request| match request.path.as_str() {
            path if path == all && conditions.is_empty() => {
                Some(list_reply(&[labelled("a"), tracked_object("c", "app")]))
            }
            path if path == all => Some(list_reply(&[labelled("a")])),
            path if path.contains("?limit=500") => Some(list_reply(&[])),
            path if path.ends_with("/d") => Some(Reply::Json(200, named.clone())),
            path if path.ends_with("/c") => Some(Reply::Json(200, tracked_object("c", "app"))),
            path if path.ends_with("/a") => Some(Reply::Json(200, labelled("a"))),
            _ => None,
        });
        let application = "app".to_owned();
        let tracking = tracking.clone();
        let query = LiveQuery { application, tracking, named: locations(&["d"]), ..LiveQuery::default() };
        assert_eq!(object_names(&cluster.list_live(&query).await.unwrap().objects), found_names);
        let requests = logged_calls(&log);
        let lists: Vec<&String> = requests.iter().filter(|line| line.contains('?')).collect();
        assert!(lists.iter().all(|line| line.ends_with(&format!("?limit=500{conditions}"))), "{lists:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_retried_and_then_reported() {
    let refusals = Mutex::new(3);
    let (cluster, log) = scripted_cluster(move |request| {
        let mut left = refusals.lock().unwrap();
        let refused = || Reply::RetryAfter(429, 1, status_body(429, "TooManyRequests", "slow down"));
        if request.path.contains("/configmaps/busy") {
            return Some(refused());
        }
        if request.path.contains("/configmaps/") && *left > 0 {
            *left -= 1;
            return Some(refused());
        }
        reply_with_one_object(request)
    });
    let query = |name| LiveQuery {
        named: locations(&[name]),
        search_scope: SearchScope::KnownObjects,
        ..LiveQuery::default()
    };
    assert_eq!(cluster.list_live(&query("a")).await.unwrap().objects.len(), 1);
    assert_eq!(logged_calls(&log).len(), 4);
    let refused = cluster.list_live(&query("busy")).await.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::TooManyRequests { .. }));
    assert_eq!(logged_calls(&log).len(), 4 + 5);
}
