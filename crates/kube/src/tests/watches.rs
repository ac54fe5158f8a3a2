//! Tests of lists page by page, and of watches line by line.

use futures_util::StreamExt as _;
use tidegate_cluster::{Backpressure, Cluster as _, ClusterError, Detail, ErrorKind, Scope, WatchEvent};
use tokio::time::Instant;

use super::*;

fn scope(detail: Detail) -> Scope {
    Scope { gvk: config_map_gvk(), namespace: Some("shop".to_owned()), detail }
}

fn watch_line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// Returns the events of a watch with a body that arrives in these pieces.
async fn collect_events(pieces: Vec<Vec<u8>>, end: End) -> Vec<Result<WatchEvent, ClusterError>> {
    let reply = Mutex::new(Some(Reply::Pieces(pieces, end)));
    let (cluster, _) =
        scripted_cluster(
            move |asked| if asked.path.contains("watch=true") { reply.lock().unwrap().take() } else { None },
        );
    cluster.watch(&scope(Detail::Full), "5").await.unwrap().collect().await
}

#[tokio::test]
async fn events_arrive_whole_regardless_of_how_the_body_is_split() {
    let mut object = live_config_map("a");
    object["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "99"}});
    let body = [
        watch_line("ADDED", &object),
        "\n".to_owned(),
        watch_line("BOOKMARK", &bookmark),
        watch_line("DELETED", &object),
        "{\"type\": \"ADDED\", \"obj".to_owned(),
    ]
    .concat()
    .into_bytes();
    let seen = Object::try_from(live_config_map("a")).unwrap();
    for size in [1, 7, 64, body.len()] {
        let pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
        let events: Vec<WatchEvent> =
            collect_events(pieces, End::Complete).await.into_iter().map(Result::unwrap).collect();
        let expected = [
            WatchEvent::Applied(seen.clone()),
            WatchEvent::Bookmark("99".to_owned()),
            WatchEvent::Deleted(seen.clone()),
        ];
        assert_eq!(events, expected, "pieces of {size} bytes");
    }
}

/// These kinds must keep their managed fields, because their health depends on the time of the last change to
/// the spec.
#[tokio::test]
async fn the_managers_of_an_autoscaler_are_kept() {
    let scaler = json!({
        "apiVersion": "apps/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "shop", "managedFields": [{"manager": "x"}]},
    });
    let kinds = json!({"kind": "APIResourceList", "resources": [{
        "name": "scalers", "kind": "HorizontalPodAutoscaler", "namespaced": true, "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    }]});
    let reply =
        Mutex::new(Some(Reply::Pieces(vec![watch_line("MODIFIED", &scaler).into_bytes()], End::Complete)));
    let (cluster, _) = scripted_cluster(move |asked| match asked.path.as_str() {
        "/apis/apps/v1" => Some(Reply::Json(200, kinds.clone())),
        path if path.contains("watch=true") => reply.lock().unwrap().take(),
        _ => None,
    });
    let gvk = Gvk::new("apps", "v1", "HorizontalPodAutoscaler");
    let scope = Scope { gvk, namespace: Some("shop".to_owned()), detail: Detail::Full };
    let events: Vec<_> = cluster.watch(&scope, "5").await.unwrap().collect().await;
    let Some(Ok(WatchEvent::Applied(object))) = events.first() else { panic!("{events:?}") };
    assert_eq!(object.as_value(), &scaler);
}

#[tokio::test]
async fn a_watch_ends_with_its_error() {
    let expired = watch_line("ERROR", &status_body(410, "Expired", "too old resource version: 5 (80)"));
    let endless = vec![b'x'; 33 << 20];
    for (pieces, end, kind, text) in [
        (vec![expired.clone().into_bytes()], End::Open, ErrorKind::Gone, "too old resource version: 5 (80)"),
        (vec![b"{\"type\": 1}\n".to_vec()], End::Open, ErrorKind::Server, "cannot read a line in the watch"),
        (
            vec![watch_line("SUNG", &live_config_map("a")).into_bytes()],
            End::Open,
            ErrorKind::Server,
            "unknown type \"SUNG\"",
        ),
        (vec![endless], End::Open, ErrorKind::Server, "longer than"),
        (
            vec![watch_line("ADDED", &live_config_map("a")).into_bytes()],
            End::Broken,
            ErrorKind::Unavailable,
            "was lost during GET",
        ),
    ] {
        let events = collect_events(pieces, end).await;
        let last = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last.kind, kind, "{last}");
        assert!(last.message.contains(text), "{last}");
        assert!(events.iter().rev().skip(1).all(Result::is_ok));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_ends_in_time_and_blocks_no_calls() {
    let (cluster, log) = scripted_cluster(|asked| {
        let watch = asked.path.contains("watch=true").then(|| Reply::Pieces(Vec::new(), End::Open));
        watch.or_else(|| asked.path.contains("/configmaps/").then(|| Reply::Json(200, live_config_map("a"))))
    });
    let started = Instant::now();
    // Open more watches than the maximum number of calls in flight.
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(cluster.watch(&scope(Detail::Metadata), "5").await.unwrap());
    }
    assert!(cluster.get(&config_map_gvk(), "shop", "a").await.unwrap().is_some());
    assert_eq!(started.elapsed(), Duration::ZERO);
    // A server always ends a watch. If no data arrives at all, the connection may be dead.
    let error = watches[0].next().await.unwrap().unwrap_err();
    assert!(error.message.contains("did not end the watch of v1 ConfigMap"), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(305));
    assert_eq!(watches[0].next().await, None);
    assert_eq!(
        logged_calls(&log)[0],
        "GET /api/v1/namespaces/shop/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion=5"
    );
    assert!(log.lock().unwrap().iter().any(|asked| asked.accept.contains("as=PartialObjectMetadata;")));
}

/// An open watch can't distinguish a quiet server from a hanging one, so one of the watches must probe the
/// server and report the result.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_noticed_by_open_watches() {
    let started = Instant::now();
    let (cluster, log) = scripted_cluster(move |asked| match asked.path.as_str() {
        "/version" if started.elapsed() > Duration::from_secs(30) => Some(Reply::Hang),
        "/version" => Some(Reply::Json(200, json!({}))),
        path => path.contains("watch=true").then(|| Reply::Pieces(Vec::new(), End::Open)),
    });
    let scope = scope(Detail::Metadata);
    let watches = (0..10).map(|_| cluster.watch(&scope, "5"));
    let watches = futures_util::future::join_all(watches).await;
    let silent = watches.into_iter().map(|watch| async move { watch.unwrap().next().await });
    let looking = async {
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(cluster.backpressure(), None);
        let asked = logged_calls(&log).iter().filter(|line| *line == "GET /version").count();
        assert!((3..=6).contains(&asked), "{asked} of 10 watches sent a probe");
        // The server hangs from the 30th second on. The watch must report this within 15 seconds.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let backpressure = cluster.backpressure();
        assert!(
            matches!(&backpressure, Some(Backpressure::Unresponsive { message, .. }) if message.contains("/version")),
            "{backpressure:?}"
        );
    };
    let silent = futures_util::future::join_all(silent);
    tokio::select! {
        _ = silent => panic!("a watch ended"),
        () = looking => {}
    }
}

#[tokio::test]
async fn a_watch_from_an_expired_version_is_refused_as_gone() {
    let (cluster, _) = scripted_cluster(|asked| {
        asked.path.contains("watch=true").then(|| Reply::Json(410, status_body(410, "Expired", "too old")))
    });
    let refused = cluster.watch(&scope(Detail::Full), "1").await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Gone);
}

#[tokio::test]
async fn lists_are_read_in_pages_and_at_once_if_the_pages_expire() {
    for expires in [false, true] {
        let (cluster, log) = scripted_cluster(move |asked| {
            let page = |next: &str, names: &[&str]| {
                let items: Vec<Value> = names
                    .iter()
                    .map(|name| {
                        let mut item = live_config_map(name);
                        item.as_object_mut().unwrap().remove("kind");
                        item["data"] = json!({"a": "b"});
                        item
                    })
                    .collect();
                Reply::Json(
                    200,
                    json!({"metadata": {"resourceVersion": "70", "continue": next}, "items": items}),
                )
            };
            let (_, query) = asked.path.split_once('?')?;
            Some(match query {
                "limit=500" => page("to+ken/=", &["a", "b"]),
                "limit=500&continue=to%2Bken/%3D" if expires => {
                    Reply::Json(410, status_body(410, "Expired", "old"))
                }
                "limit=500&continue=to%2Bken/%3D" => page("", &["c"]),
                "limit=0" => page("", &["a", "b", "c"]),
                _ => return None,
            })
        });
        let listing = cluster.list(&scope(Detail::Metadata)).await.unwrap();
        let names: Vec<&str> = listing.objects.iter().map(Object::name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(listing.resource_version, "70");
        assert_eq!(
            Value::from(listing.objects[0].clone()),
            live_config_map("a"),
            "kind restored, data left out"
        );
        assert_eq!(logged_calls(&log).len(), if expires { 3 } else { 2 });
    }
}

#[tokio::test]
async fn an_empty_list_can_lack_its_items() {
    let (cluster, _) = scripted_cluster(|asked| {
        let empty = json!({"metadata": {"resourceVersion": "1"}, "items": null});
        asked.path.contains("limit=500").then_some(Reply::Json(200, empty))
    });
    assert!(cluster.list(&scope(Detail::Full)).await.unwrap().objects.is_empty());
}
