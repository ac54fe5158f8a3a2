//! Lists page by page, and watches line by line.

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster as _, ClusterError, Detail, ErrorKind, Scope, Strain, WatchEvent};
use tokio::time::Instant;

use super::*;

fn scope(detail: Detail) -> Scope {
    Scope { gvk: config_map(), namespace: Some("shop".to_owned()), detail }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

/// A watch of a body in these pieces, to its end.
async fn watch(pieces: Vec<Vec<u8>>, end: End) -> Vec<Result<WatchEvent, ClusterError>> {
    let reply = Mutex::new(Some(Reply::Pieces(pieces, end)));
    let (cluster, _) =
        cluster(
            move |asked| if asked.path.contains("watch=true") { reply.lock().unwrap().take() } else { None },
        );
    cluster.watch(&scope(Detail::Full), "5").await.unwrap().collect().await
}

#[tokio::test]
async fn events_come_whole_however_the_body_is_cut() {
    let mut object = live("a");
    object["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    let bookmark = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "99"}});
    let body = [
        line("ADDED", &object),
        "\n".to_owned(),
        line("BOOKMARK", &bookmark),
        line("DELETED", &object),
        "{\"type\": \"ADDED\", \"obj".to_owned(),
    ]
    .concat()
    .into_bytes();
    let seen = Object::try_from(live("a")).unwrap();
    for size in [1, 7, 64, body.len()] {
        let pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
        let events: Vec<WatchEvent> =
            watch(pieces, End::Proper).await.into_iter().map(Result::unwrap).collect();
        let expected = [
            WatchEvent::Applied(seen.clone()),
            WatchEvent::Bookmark("99".to_owned()),
            WatchEvent::Deleted(seen.clone()),
        ];
        assert_eq!(events, expected, "pieces of {size} bytes");
    }
}

#[tokio::test]
async fn a_watch_ends_with_what_went_wrong() {
    let expired = line("ERROR", &status(410, "Expired", "too old resource version: 5 (80)"));
    let endless = vec![b'x'; 33 << 20];
    for (pieces, end, kind, words) in [
        (vec![expired.clone().into_bytes()], End::Never, ErrorKind::Gone, "too old resource version: 5 (80)"),
        (vec![b"{\"type\": 1}\n".to_vec()], End::Never, ErrorKind::Server, "cannot read a line of the watch"),
        (vec![line("SUNG", &live("a")).into_bytes()], End::Never, ErrorKind::Server, "unknown type \"SUNG\""),
        (vec![endless], End::Never, ErrorKind::Server, "longer than"),
        (
            vec![line("ADDED", &live("a")).into_bytes()],
            End::Broken,
            ErrorKind::Unavailable,
            "broke during GET",
        ),
    ] {
        let events = watch(pieces, end).await;
        let last = events.last().unwrap().as_ref().unwrap_err();
        assert_eq!(last.kind, kind, "{last}");
        assert!(last.message.contains(words), "{last}");
        assert!(events.iter().rev().skip(1).all(Result::is_ok));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_ends_in_time_and_holds_nobody_up() {
    let (cluster, log) = cluster(|asked| {
        let watch = asked.path.contains("watch=true").then(|| Reply::Pieces(Vec::new(), End::Never));
        watch.or_else(|| asked.path.contains("/configmaps/").then(|| Reply::Json(200, live("a"))))
    });
    let begun = Instant::now();
    // More than calls may be in flight.
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(cluster.watch(&scope(Detail::Metadata), "5").await.unwrap());
    }
    assert!(cluster.get(&config_map(), "shop", "a").await.unwrap().is_some());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // A server ends each watch; where nothing comes at all, the way there may be dead.
    let error = watches[0].next().await.unwrap().unwrap_err();
    assert!(error.message.contains("did not end the watch of v1 ConfigMap"), "{error}");
    assert_eq!(begun.elapsed(), Duration::from_secs(305));
    assert_eq!(watches[0].next().await, None);
    assert_eq!(
        calls(&log)[0],
        "GET /api/v1/namespaces/shop/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&resourceVersion=5"
    );
    assert!(log.lock().unwrap().iter().any(|asked| asked.accept.contains("as=PartialObjectMetadata;")));
}

/// An open watch cannot tell silence from a server that hangs: one of them asks, and the answer, or its absence, is told.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_noticed_by_open_watches() {
    let begun = Instant::now();
    let (cluster, log) = cluster(move |asked| match asked.path.as_str() {
        "/version" if begun.elapsed() > Duration::from_secs(30) => Some(Reply::Hang),
        "/version" => Some(Reply::Json(200, json!({}))),
        path => path.contains("watch=true").then(|| Reply::Pieces(Vec::new(), End::Never)),
    });
    let scope = scope(Detail::Metadata);
    let watches = (0..10).map(|_| cluster.watch(&scope, "5"));
    let watches = futures_util::future::join_all(watches).await;
    let silent = watches.into_iter().map(|watch| async move { watch.unwrap().next().await });
    let looking = async {
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert_eq!(cluster.strain(), None);
        let asked = calls(&log).iter().filter(|line| *line == "GET /version").count();
        assert!((3..=6).contains(&asked), "{asked} of 10 watches asked");
        // It hangs from the 30th second on, and is told of within 15.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let strain = cluster.strain();
        assert!(
            matches!(&strain, Some(Strain::Silent { message, .. }) if message.contains("/version")),
            "{strain:?}"
        );
    };
    let silent = futures_util::future::join_all(silent);
    tokio::select! {
        _ = silent => panic!("a watch ended"),
        () = looking => {}
    }
}

#[tokio::test]
async fn a_watch_from_too_long_ago_is_refused_as_gone() {
    let (cluster, _) = cluster(|asked| {
        asked.path.contains("watch=true").then(|| Reply::Json(410, status(410, "Expired", "too old")))
    });
    let refused = cluster.watch(&scope(Detail::Full), "1").await.err().unwrap();
    assert_eq!(refused.kind, ErrorKind::Gone);
}

#[tokio::test]
async fn lists_come_in_pages_and_again_in_one_when_the_pages_expire() {
    for expires in [false, true] {
        let (cluster, log) = cluster(move |asked| {
            let page = |next: &str, names: &[&str]| {
                let items: Vec<Value> = names
                    .iter()
                    .map(|name| {
                        let mut item = live(name);
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
                    Reply::Json(410, status(410, "Expired", "old"))
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
        assert_eq!(Value::from(listing.objects[0].clone()), live("a"), "kind restored, data left out");
        assert_eq!(calls(&log).len(), if expires { 3 } else { 2 });
    }
}

#[tokio::test]
async fn an_empty_list_may_have_no_items_at_all() {
    let (cluster, _) = cluster(|asked| {
        let empty = json!({"metadata": {"resourceVersion": "1"}, "items": null});
        asked.path.contains("limit=500").then_some(Reply::Json(200, empty))
    });
    assert!(cluster.list(&scope(Detail::Full)).await.unwrap().objects.is_empty());
}
