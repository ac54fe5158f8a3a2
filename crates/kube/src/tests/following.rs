//! What containers write, line by line.

use futures_util::StreamExt as _;
use tidegate_cluster::{Cluster as _, ClusterError, Container, ErrorKind, LogLine, LogTime, LogsFrom};

use super::*;

fn container() -> Container {
    Container { namespace: "shop".to_owned(), pod: "migrate-x".to_owned(), name: "main".to_owned() }
}

/// A cluster that serves pods, and answers questions for their logs as the script says.
fn with_pods(script: impl Fn() -> Option<Reply> + Send + Sync + 'static) -> (KubeCluster, Log) {
    cluster(move |asked| match asked.path.as_str() {
        "/api/v1" => {
            let pods =
                json!({"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get", "list", "watch"]});
            Some(Reply::Json(200, json!({"kind": "APIResourceList", "resources": [pods]})))
        }
        path if path.contains("/log?") => script(),
        _ => None,
    })
}

/// What is told of a body in these pieces, and what was asked for.
async fn follow(
    pieces: Vec<Vec<u8>>,
    end: End,
    from: LogsFrom,
) -> (Vec<Result<LogLine, ClusterError>>, Vec<String>) {
    let reply = Mutex::new(Some(Reply::Pieces(pieces, end)));
    let (cluster, log) = with_pods(move || reply.lock().unwrap().take());
    let told = cluster.follow_logs(&container(), from).await.unwrap().collect().await;
    let asked = log.lock().unwrap().iter().map(Asked::line).filter(|line| line.contains("/log?")).collect();
    (told, asked)
}

#[tokio::test]
async fn lines_come_whole_however_the_body_is_cut() {
    let long = "ä".repeat(20_000);
    let body = format!(
        "2026-11-21T09:30:41.000000001Z größer\n2026-11-21T09:30:41.000000001Z\t\n\
         2026-11-21T09:30:41.000000002Z {long}\n2026-11-21T11:30:42.5+02:00 back\r\nno time\n2026-11-21T09:30:43Z \n2026-11-21T09:30:44Z half"
    )
    .into_bytes();
    let at = |text: &str| LogTime::parse(text).unwrap();
    let whole = |time: &str, text: &str| LogLine { at: at(time), text: text.to_owned(), is_whole: true };
    let cut = format!("{}…", "ä".repeat(8 * 1024));
    for size in [1, 7, 64, 5000, body.len()] {
        let pieces = body.chunks(size).map(<[u8]>::to_vec).collect();
        let (told, asked) = follow(pieces, End::Proper, LogsFrom::Last(1000)).await;
        let lines: Vec<LogLine> = told.into_iter().map(Result::unwrap).collect();
        let mut expected = vec![
            whole("2026-11-21T09:30:41.000000001Z", "größer"),
            // What is no time, or is followed by something else than a blank, is part of the line.
            whole("2026-11-21T09:30:41.000000001Z", "2026-11-21T09:30:41.000000001Z\t"),
            whole("2026-11-21T09:30:41.000000002Z", &cut),
            whole("2026-11-21T09:30:42.5Z", "back"),
            whole("2026-11-21T09:30:42.5Z", "no time"),
            whole("2026-11-21T09:30:43Z", ""),
            whole("2026-11-21T09:30:44Z", "half"),
        ];
        expected[6].is_whole = false;
        assert_eq!(lines, expected, "pieces of {size} bytes");
        let path = "GET /api/v1/namespaces/shop/pods/migrate-x/log?follow=true&timestamps=true&container=main&tailLines=1000";
        assert_eq!(asked, [path]);
    }
}

#[tokio::test]
async fn it_is_asked_from_a_second_on_and_ends_with_what_went_wrong() {
    let since = LogsFrom::Since(LogTime::parse("2026-11-21T09:30:41.987654321Z").unwrap());
    let line = b"2026-11-21T09:30:41.5Z a\n".to_vec();
    let (told, asked) = follow(vec![line], End::Broken, since).await;
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].as_ref().unwrap().text, "a");
    assert_eq!(told[1].as_ref().unwrap_err().kind, ErrorKind::Unavailable);
    assert!(asked[0].ends_with("&container=main&sinceTime=2026-11-21T09:30:41.000Z"), "{asked:?}");
}

/// A container that has not begun, one that is not there, and a node that does not answer.
#[tokio::test]
async fn what_keeps_it_from_beginning_is_its_first_item() {
    let named = json!({"name": "migrate-x", "kind": "pods"});
    for (code, reason, details, kind) in [
        (400, "BadRequest", json!(null), ErrorKind::Invalid),
        (403, "Forbidden", json!(null), ErrorKind::Forbidden),
        (404, "NotFound", named, ErrorKind::NotFound),
        // What answers in the place of the node knows no logs.
        (404, "NotFound", json!(null), ErrorKind::Unsupported),
        (500, "InternalError", json!(null), ErrorKind::Server),
    ] {
        let (cluster, _) = with_pods(move || {
            let mut body = status(code, reason, "not now");
            body["details"] = details.clone();
            Some(Reply::Json(code, body))
        });
        let lines = cluster.follow_logs(&container(), LogsFrom::Last(10)).await.unwrap();
        let told: Vec<_> = lines.collect().await;
        let [Err(error)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(error.kind, kind, "{error}");
    }
}

/// However long nothing is written: that is no silence of the server, and holds no other call up.
#[tokio::test(start_paused = true)]
async fn a_container_that_writes_nothing_is_no_trouble() {
    let (cluster, _) = with_pods(|| Some(Reply::Hang));
    let mut following = Vec::new();
    // More than there are calls in flight.
    for _ in 0..8 {
        let mut lines = cluster.follow_logs(&container(), LogsFrom::Last(10)).await.unwrap();
        following.push(tokio::spawn(async move { lines.next().await.map(drop) }));
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.strain(), None);
    assert!(following.iter().all(|one| !one.is_finished()));
    cluster.discover().await.unwrap();
}
