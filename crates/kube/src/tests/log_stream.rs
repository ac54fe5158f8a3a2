//! Tests of container log streams, line by line.

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster as _, ClusterError, Container, ErrorKind, LogLine, LogStart, LogTime};

use super::*;

fn container() -> Container {
    Container { namespace: "shop".to_owned(), pod: "migrate-x".to_owned(), name: "main".to_owned() }
}

/// Creates a cluster that serves pods and responds to log requests according to the script.
fn cluster_with_pods(
    script: impl Fn() -> Option<Reply> + Send + Sync + 'static,
) -> (KubeCluster, RequestLog) {
    scripted_cluster(move |asked| match asked.path.as_str() {
        "/api/v1" => {
            let pods =
                json!({"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get", "list", "watch"]});
            Some(Reply::Json(200, json!({"kind": "APIResourceList", "resources": [pods]})))
        }
        path if path.contains("/log?") => script(),
        _ => None,
    })
}

/// Returns the lines of a body that arrives in these pieces, and the requests that the server received.
async fn follow_lines(
    pieces: Vec<Vec<u8>>,
    end: End,
    from: LogStart,
) -> (Vec<Result<LogLine, ClusterError>>, Vec<String>) {
    let reply = Mutex::new(Some(Reply::Pieces(pieces, end)));
    let (cluster, log) = cluster_with_pods(move || reply.lock().unwrap().take());
    let items = cluster.follow_logs(&container(), from).await.unwrap().collect().await;
    let asked = log
        .lock()
        .unwrap()
        .iter()
        .map(ReceivedRequest::summary_line)
        .filter(|line| line.contains("/log?"))
        .collect();
    (items, asked)
}

#[tokio::test]
async fn lines_arrive_whole_regardless_of_how_the_body_is_split() {
    let long = "ä".repeat(20_000);
    let body = format!(
        "2026-11-21T09:30:41.000000001Z größer\n2026-11-21T09:30:41.000000001Z\t\n\
         2026-11-21T09:30:41.000000002Z {long}\n2026-11-21T11:30:42.5+02:00 back\r\nno time\n2026-11-21T09:30:43Z \n2026-11-21T09:30:44Z half"
    )
    .into_bytes();
    let at = |text: &str| LogTime::parse(text).unwrap();
    let whole = |time: &str, text: &str| LogLine { at: at(time), text: text.to_owned(), is_complete: true };
    let cut = format!("{}…", "ä".repeat(8 * 1024));
    for size in [1, 7, 64, 5000, body.len()] {
        let pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
        let (items, asked) = follow_lines(pieces, End::Complete, LogStart::Last(1000)).await;
        let lines: Vec<LogLine> = items.into_iter().map(Result::unwrap).collect();
        let mut expected = vec![
            whole("2026-11-21T09:30:41.000000001Z", "größer"),
            // Text that isn't a time, or a time without a space after it, is part of the line.
            whole("2026-11-21T09:30:41.000000001Z", "2026-11-21T09:30:41.000000001Z\t"),
            whole("2026-11-21T09:30:41.000000002Z", &cut),
            whole("2026-11-21T09:30:42.5Z", "back"),
            whole("2026-11-21T09:30:42.5Z", "no time"),
            whole("2026-11-21T09:30:43Z", ""),
            whole("2026-11-21T09:30:44Z", "half"),
        ];
        expected[6].is_complete = false;
        assert_eq!(lines, expected, "pieces of {size} bytes");
        let path = "GET /api/v1/namespaces/shop/pods/migrate-x/log?follow=true&timestamps=true&container=main&tailLines=1000";
        assert_eq!(asked, [path]);
    }
}

#[tokio::test]
async fn a_stream_starts_at_a_second_and_ends_with_the_error() {
    let since = LogStart::Since(LogTime::parse("2026-11-21T09:30:41.987654321Z").unwrap());
    let line = b"2026-11-21T09:30:41.5Z a\n".to_vec();
    let (items, asked) = follow_lines(vec![line], End::Broken, since).await;
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].as_ref().unwrap().text, "a");
    assert_eq!(items[1].as_ref().unwrap_err().kind, ErrorKind::Unavailable);
    assert!(asked[0].ends_with("&container=main&sinceTime=2026-11-21T09:30:41.000Z"), "{asked:?}");
}

/// A container that hasn't started, a container that doesn't exist, and a node that doesn't respond.
#[tokio::test]
async fn an_error_on_opening_is_the_first_item() {
    let named = json!({"name": "migrate-x", "kind": "pods"});
    for (code, reason, details, kind) in [
        (400, "BadRequest", json!(null), ErrorKind::Invalid),
        (403, "Forbidden", json!(null), ErrorKind::Forbidden),
        (404, "NotFound", named, ErrorKind::NotFound),
        // A virtual node doesn't serve logs.
        (404, "NotFound", json!(null), ErrorKind::Unsupported),
        (500, "InternalError", json!(null), ErrorKind::Server),
    ] {
        let (cluster, _) = cluster_with_pods(move || {
            let mut body = status_body(code, reason, "not now");
            body["details"] = details.clone();
            Some(Reply::Json(code, body))
        });
        let lines = cluster.follow_logs(&container(), LogStart::Last(10)).await.unwrap();
        let items: Vec<_> = lines.collect().await;
        let [Err(error)] = items.as_slice() else { panic!("{items:?}") };
        assert_eq!(error.kind, kind, "{error}");
    }
}

/// If no lines arrive for a long time, the server must not be treated as unresponsive, and other calls must
/// not be blocked.
#[tokio::test(start_paused = true)]
async fn a_silent_container_does_not_disturb_other_calls() {
    let (cluster, _) = cluster_with_pods(|| Some(Reply::Hang));
    let mut following = Vec::new();
    // Open more streams than the maximum number of calls in flight.
    for _ in 0..8 {
        let mut lines = cluster.follow_logs(&container(), LogStart::Last(10)).await.unwrap();
        following.push(tokio::spawn(async move { lines.next().await.map(drop) }));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.backpressure(), None);
    assert!(following.iter().all(|one| !one.is_finished()));
    cluster.discover().await.unwrap();
}
