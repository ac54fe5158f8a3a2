//! What a plan is told of the cluster, and in how many requests.

use std::collections::BTreeSet;

use tidegate_cluster::{Cluster as _, ErrorKind, LiveQuery, MissingRight, Reach};
use tidegate_model::annotations::TRACKING_ID;
use tidegate_model::{LiveObject, Tracking, TrackingMethod};

use super::*;

fn places(names: &[&str]) -> BTreeSet<(Gvk, String, String)> {
    names.iter().map(|name| (config_map(), "shop".to_owned(), (*name).to_owned())).collect()
}

fn tracked(name: &str, application: &str) -> Value {
    let mut object = live(name);
    object["metadata"]["annotations"] = json!({TRACKING_ID: format!("{application}:/ConfigMap:shop/{name}")});
    object
}

fn absent(name: &str) -> Reply {
    let mut status = status(404, "NotFound", "not found");
    status["details"] = json!({"kind": "configmaps", "name": name});
    Reply::Json(404, status)
}

fn list(items: &[Value]) -> Reply {
    Reply::Json(200, json!({"metadata": {"resourceVersion": "70"}, "items": items}))
}

fn names(objects: &[LiveObject]) -> Vec<&str> {
    objects.iter().map(|object| object.key().name.as_str()).collect()
}

/// Answers reads of single objects: those whose name begins with `x` are not there.
fn get_one(asked: &Asked) -> Option<Reply> {
    let (_, name) = asked.path.split_once("/configmaps/")?;
    Some(if name.starts_with('x') { absent(name) } else { Reply::Json(200, tracked(name, "app")) })
}

#[tokio::test]
async fn few_names_are_read_one_by_one_and_many_by_one_list() {
    let many: Vec<String> = (0..40).map(|number| format!("a{number:02}")).collect();
    for (wanted, lists) in [(8, 0), (9, 1), (40, 1)] {
        let stored = many.clone();
        let (cluster, log) = cluster(move |asked| {
            let all = stored.iter().map(|name| live(name)).collect::<Vec<_>>();
            asked.path.contains("/configmaps?limit=500").then(|| list(&all)).or_else(|| get_one(asked))
        });
        let named: Vec<&str> = many.iter().take(wanted).map(String::as_str).collect();
        let query = LiveQuery {
            application: "app".to_owned(),
            named: places(&named),
            reach: Reach::Places,
            ..LiveQuery::default()
        };
        let found = cluster.live(&query).await.unwrap().objects;
        assert_eq!(names(&found), named);
        let asked = calls(&log);
        assert_eq!(asked.iter().filter(|line| line.contains('?')).count(), lists, "{asked:?}");
        assert_eq!(asked.len(), if lists == 0 { wanted } else { 1 });
    }
}

#[tokio::test]
async fn whoever_may_not_list_reads_one_by_one() {
    let (cluster, log) = cluster(|asked| {
        let forbidden = || Reply::Json(403, status(403, "Forbidden", "cannot list resource \"configmaps\""));
        asked.path.contains('?').then(forbidden).or_else(|| get_one(asked))
    });
    let named: Vec<String> = (0..12).map(|number| format!("a{number:02}")).chain(["x".to_owned()]).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let (application, reach) = ("app".to_owned(), Reach::Places);
    let query = LiveQuery { application, named: places(&named), reach, ..LiveQuery::default() };
    assert_eq!(cluster.live(&query).await.unwrap().objects.len(), 12);
    assert_eq!(calls(&log).len(), 14);
}

#[tokio::test]
async fn an_inventory_is_believed_only_where_the_cluster_agrees() {
    let (cluster, log) = cluster(|asked| {
        let (_, name) = asked.path.split_once("/configmaps/")?;
        Some(match name {
            "x" => absent(name),
            "foreign" => Reply::Json(200, tracked(name, "other")),
            "plain" => Reply::Json(200, live(name)),
            "child" => {
                let mut child = tracked(name, "app");
                child["metadata"]["ownerReferences"] = json!([{"uid": "u"}]);
                Reply::Json(200, child)
            }
            _ => Reply::Json(200, tracked(name, "app")),
        })
    });
    let unserved = (Gvk::new("gone.org", "v1", "Foo"), "shop".to_owned(), "f".to_owned());
    let mut inventory = places(&["a", "child", "foreign", "plain", "x"]);
    inventory.insert(unserved);
    let named = places(&["foreign"]);
    let query = LiveQuery {
        application: "app".to_owned(),
        named,
        inventory,
        reach: Reach::Places,
        ..LiveQuery::default()
    };
    let found = cluster.live(&query).await.unwrap().objects;
    assert_eq!(names(&found), ["a", "foreign"]);
    assert!(calls(&log).iter().all(|line| !line.contains("/foo") || line.contains("foreign")));
}

#[tokio::test]
async fn without_an_inventory_every_kind_is_searched_by_its_metadata() {
    let (cluster, log) = cluster(|asked| match asked.path.as_str() {
        "/api/v1/configmaps?limit=500" => {
            Some(list(&[tracked("a", "app"), tracked("b", "other"), live("c")]))
        }
        "/api/v1/secrets?limit=500" => {
            Some(Reply::Json(403, status(403, "Forbidden", "cannot list secrets")))
        }
        "/api/v1/namespaces/shop/secrets?limit=500" | "/api/v1/namespaces?limit=500" => Some(list(&[])),
        "/apis/apps/v1/deployments?limit=500" => Some(Reply::Json(500, status(500, "", "conversion failed"))),
        _ => get_one(asked),
    });
    let query = LiveQuery { application: "app".to_owned(), named: places(&["d"]), ..LiveQuery::default() };
    let found = cluster.live(&query).await.unwrap().objects;
    assert_eq!(names(&found), ["a", "d"]);
    let asked = log.lock().unwrap();
    let lists: Vec<&Asked> = asked.iter().filter(|asked| asked.path.contains('?')).collect();
    assert_eq!(lists.len(), 5);
    assert!(lists.iter().all(|list| list.accept.contains("as=PartialObjectMetadataList")));
}

/// Thousands may be planned at the same time, and each looks through the same objects.
#[tokio::test(start_paused = true)]
async fn applications_that_are_planned_together_are_searched_for_together() {
    let object = |number: usize| tracked(&format!("a{number}"), &format!("app-{number}"));
    let (cluster, log) = cluster(move |asked| {
        if asked.path == "/api/v1/configmaps?limit=500" {
            let all: Vec<Value> = (0..20).map(object).collect();
            return Some(Reply::Slow(1, 200, json!({"metadata": {"resourceVersion": "70"}, "items": all})));
        }
        let (_, number) = asked.path.split_once("/configmaps/a")?;
        Some(Reply::Json(200, object(number.parse().unwrap())))
    });
    let cluster = &cluster.for_many();
    let plan = |number: usize| async move {
        let kinds = BTreeSet::from([(config_map(), "shop".to_owned(), String::new())]);
        let (application, reach) = (format!("app-{number}"), Reach::Kinds);
        let query = LiveQuery { application, inventory: kinds, reach, ..LiveQuery::default() };
        assert_eq!(names(&cluster.live(&query).await.unwrap().objects), [format!("a{number}")]);
    };
    let lists = || calls(&log).iter().filter(|line| line.contains("?limit")).count();
    futures_util::future::join_all((0..20).map(plan)).await;
    assert_eq!(lists(), 1);
    tokio::time::sleep(Duration::from_secs(3)).await;
    plan(0).await;
    assert_eq!(lists(), 2, "what was found a while ago is nothing to go by");
}

/// Rights that end at the namespaces of an application are enough for what it has there; what may not be looked through is
/// told, and never taken for empty.
#[tokio::test]
async fn what_cannot_be_searched_is_told() {
    let refused =
        |what: &str| Some(Reply::Json(403, status(403, "Forbidden", &format!("cannot list {what}"))));
    let (cluster, log) = cluster(move |asked| match asked.path.as_str() {
        "/api/v1/namespaces/shop/configmaps?limit=500" => Some(list(&[tracked("a", "app")])),
        "/api/v1/namespaces/other/configmaps?limit=500" => Some(list(&[])),
        "/api/v1/namespaces/shop/secrets?limit=500" => Some(list(&[])),
        "/apis/apps/v1/deployments?limit=500" => Some(Reply::Json(500, status(500, "", "conversion failed"))),
        path if path.contains("?limit=500") => refused(path),
        _ => get_one(asked),
    });
    let namespaces = BTreeSet::from(["shop".to_owned(), "other".to_owned()]);
    let query = LiveQuery { application: "app".to_owned(), namespaces, ..LiveQuery::default() };
    let answer = cluster.live(&query).await.unwrap();
    assert_eq!(names(&answer.objects), ["a"]);
    let right = |namespace: &str, resource: &str| MissingRight {
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        verb: "list",
    };
    let told: Vec<_> = answer
        .unsearched
        .into_iter()
        .map(|one| (one.kind.to_string(), one.is_beyond, one.missing.into_iter().collect::<Vec<_>>()))
        .collect();
    let told: BTreeSet<_> = told.into_iter().collect();
    let expected = [
        ("ConfigMap", true, vec![right("", "configmaps")]),
        ("apps/Deployment", false, vec![]),
        ("Namespace", false, vec![right("", "namespaces")]),
        ("Secret", false, vec![right("other", "secrets")]),
    ];
    assert_eq!(
        told,
        expected.into_iter().map(|(kind, beyond, rights)| (kind.to_owned(), beyond, rights)).collect()
    );
    assert!(calls(&log).iter().all(|line| !line.contains("/namespaces/shop/namespaces")));
}

#[tokio::test]
async fn a_kind_that_cannot_be_searched_is_told_of_once_until_it_can_be() {
    let gvk = |kind: &str| Gvk::new("", "v1", kind);
    let (cluster, _) = cluster(|_| None);
    let (both, secret) = ([gvk("ConfigMap"), gvk("Secret")], BTreeSet::from([gvk("Secret")]));
    assert_eq!(cluster.newly_unsearched(&both, &secret), secret);
    assert_eq!(cluster.newly_unsearched(&both, &secret), BTreeSet::new());
    assert_eq!(cluster.newly_unsearched(&both[..1], &BTreeSet::new()), BTreeSet::new());
    assert_eq!(cluster.newly_unsearched(&both, &secret), BTreeSet::new(), "nobody has searched it since");
    assert_eq!(cluster.newly_unsearched(&both, &BTreeSet::new()), BTreeSet::new());
    assert_eq!(cluster.newly_unsearched(&both, &secret), secret);
}

/// What would only be shown is not worth a list of every kind.
#[tokio::test]
async fn a_narrow_search_lists_the_kinds_that_are_named_or_known() {
    let (cluster, log) = cluster(|asked| match asked.path.as_str() {
        "/api/v1/configmaps?limit=500" => Some(list(&[tracked("a", "app"), tracked("b", "other")])),
        "/api/v1/secrets?limit=500" => Some(list(&[])),
        _ => get_one(asked),
    });
    let secret = (Gvk::new("", "v1", "Secret"), "shop".to_owned(), String::new());
    let query = LiveQuery {
        application: "app".to_owned(),
        named: places(&["d"]),
        inventory: BTreeSet::from([secret]),
        reach: Reach::Kinds,
        ..LiveQuery::default()
    };
    assert_eq!(names(&cluster.live(&query).await.unwrap().objects), ["a", "d"]);
    let asked = log.lock().unwrap();
    let lists: Vec<&Asked> = asked.iter().filter(|asked| asked.path.contains('?')).collect();
    let mut paths: Vec<&str> = lists.iter().map(|list| list.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/api/v1/configmaps?limit=500", "/api/v1/secrets?limit=500"]);
    assert!(lists.iter().all(|list| list.accept.contains("as=PartialObjectMetadataList")));
}

#[tokio::test]
async fn a_label_is_searched_for_and_not_everything() {
    let tracking = Tracking { method: TrackingMethod::Label, ..Tracking::default() };
    let labelled = |name: &str| {
        let mut object = live(name);
        object["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "app"});
        object
    };
    // `d` is in the manifests. While it bears only the annotation, so may others.
    for (named, conditions, found_names) in [
        (labelled("d"), "&labelSelector=app.kubernetes.io/instance%3Dapp", &["a", "d"][..]),
        (tracked("d", "app"), "", &["a", "c", "d"]),
    ] {
        let all = format!("/api/v1/configmaps?limit=500{conditions}");
        let (cluster, log) = cluster(move |asked| match asked.path.as_str() {
            path if path == all && conditions.is_empty() => Some(list(&[labelled("a"), tracked("c", "app")])),
            path if path == all => Some(list(&[labelled("a")])),
            path if path.contains("?limit=500") => Some(list(&[])),
            path if path.ends_with("/d") => Some(Reply::Json(200, named.clone())),
            path if path.ends_with("/c") => Some(Reply::Json(200, tracked("c", "app"))),
            path if path.ends_with("/a") => Some(Reply::Json(200, labelled("a"))),
            _ => None,
        });
        let application = "app".to_owned();
        let tracking = tracking.clone();
        let query = LiveQuery { application, tracking, named: places(&["d"]), ..LiveQuery::default() };
        assert_eq!(names(&cluster.live(&query).await.unwrap().objects), found_names);
        let asked = calls(&log);
        let lists: Vec<&String> = asked.iter().filter(|line| line.contains('?')).collect();
        assert!(lists.iter().all(|line| line.ends_with(&format!("?limit=500{conditions}"))), "{lists:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_given_time_and_then_told_of() {
    let refusals = Mutex::new(3);
    let (cluster, log) = cluster(move |asked| {
        let mut left = refusals.lock().unwrap();
        let refused = || Reply::Later(429, 1, status(429, "TooManyRequests", "slow down"));
        if asked.path.contains("/configmaps/busy") {
            return Some(refused());
        }
        if asked.path.contains("/configmaps/") && *left > 0 {
            *left -= 1;
            return Some(refused());
        }
        get_one(asked)
    });
    let query = |name| LiveQuery { named: places(&[name]), reach: Reach::Places, ..LiveQuery::default() };
    assert_eq!(cluster.live(&query("a")).await.unwrap().objects.len(), 1);
    assert_eq!(calls(&log).len(), 4);
    let refused = cluster.live(&query("busy")).await.unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::TooManyRequests { .. }));
    assert_eq!(calls(&log).len(), 4 + 5);
}
