//! Tests of the interpretation of responses.

use tidegate_cluster::{
    Backpressure, Cluster as _, DeleteRequest, ErrorKind, FinalizerRemoval, Propagation, Scope,
};
use tokio::time::Instant;

use super::*;

const APPLY: WriteMode = WriteMode::Apply { force: false };

fn detailed_status(code: u16, reason: &str, message: &str, details: Value) -> Value {
    let mut status = status_body(code, reason, message);
    status["details"] = details;
    status
}

#[tokio::test]
async fn refusals_have_the_error_kind_that_the_engine_needs() {
    let named = |kind: &str, name: &str| json!({"kind": kind, "name": name});
    let port_taken = json!({"causes": [{
        "reason": "FieldValueInvalid", "field": "spec.ports[0].nodePort",
        "message": "Invalid value: 30080: provided port is already allocated",
    }]});
    let terminating = json!({"causes": [{
        "reason": "NamespaceTerminating", "field": "metadata.namespace",
        "message": "namespace shop is being terminated",
    }]});
    let conflicts = json!({"causes": [
        {"reason": "FieldManagerConflict", "message": "conflict with \"hpa\" using apps/v1", "field": ".spec.replicas"},
        {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using v1", "field": ".data.a"},
        {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\" using v1", "field": ".data.b"},
    ]});
    let rows = [
        (
            Reply::Json(
                404,
                detailed_status(
                    404,
                    "NotFound",
                    "namespaces \"shop\" not found",
                    named("namespaces", "shop"),
                ),
            ),
            ErrorKind::NamespaceMissing,
            "namespaces \"shop\" not found",
        ),
        (
            Reply::Json(
                404,
                detailed_status(404, "NotFound", "configmaps \"a\" not found", named("configmaps", "a")),
            ),
            ErrorKind::NotFound,
            "configmaps \"a\" not found",
        ),
        (Reply::Text(404, "404 page not found"), ErrorKind::UnknownKind, "no matches for kind \"ConfigMap\""),
        (
            Reply::Json(
                404,
                status_body(404, "NotFound", "the server could not find the requested resource"),
            ),
            ErrorKind::UnknownKind,
            "ensure CRDs are installed first",
        ),
        (
            Reply::Json(409, detailed_status(409, "Conflict", "Apply failed with 3 conflicts: …", conflicts)),
            ErrorKind::Conflict,
            "Apply failed with 3 conflicts: conflict with \"hpa\" using apps/v1: .spec.replicas; \
             conflicts with \"kubectl\" using v1: .data.a, .data.b",
        ),
        (Reply::Json(409, status_body(409, "Conflict", "modified")), ErrorKind::Conflict, "modified"),
        (Reply::Json(409, status_body(409, "AlreadyExists", "there")), ErrorKind::AlreadyExists, "there"),
        (
            Reply::Json(
                403,
                status_body(403, "Forbidden", "User \"u\" cannot patch resource \"configmaps\""),
            ),
            ErrorKind::Forbidden,
            "cannot patch resource",
        ),
        (
            Reply::Json(
                403,
                detailed_status(403, "Forbidden", "leases \"a\" is forbidden: it goes", terminating),
            ),
            ErrorKind::NamespaceTerminating,
            "it goes",
        ),
        (
            Reply::Json(401, status_body(401, "Unauthorized", "Unauthorized")),
            ErrorKind::Unauthorized,
            "Unauthorized",
        ),
        (Reply::Json(422, status_body(422, "Invalid", "spec.x: required")), ErrorKind::Invalid, "spec.x"),
        (
            Reply::Json(422, detailed_status(422, "Invalid", "Service \"a\" is invalid", port_taken)),
            ErrorKind::AlreadyAllocated,
            "Service \"a\" is invalid",
        ),
        (
            Reply::Json(400, status_body(400, "BadRequest", "unknown field")),
            ErrorKind::Invalid,
            "unknown field",
        ),
        (
            Reply::Json(500, status_body(500, "", "failed to create typed patch object: .foo: not declared")),
            ErrorKind::Invalid,
            ".foo",
        ),
        (
            Reply::Json(413, status_body(413, "RequestEntityTooLarge", "limit is 3145728")),
            ErrorKind::Invalid,
            "ConfigMap \"a\" is too large: the manifest is 0.01 MB",
        ),
        (
            Reply::Json(500, status_body(500, "", "etcdserver: request is too large")),
            ErrorKind::Invalid,
            "etcdserver: request is too large",
        ),
        (Reply::Json(410, status_body(410, "Expired", "too old")), ErrorKind::Gone, "too old"),
        (Reply::Json(405, status_body(405, "MethodNotAllowed", "no")), ErrorKind::Unsupported, "no"),
        (Reply::Json(500, status_body(500, "InternalError", "boom")), ErrorKind::Server, "boom"),
        (
            Reply::Json(
                500,
                status_body(500, "InternalError", "failed calling webhook: context deadline exceeded"),
            ),
            ErrorKind::Server,
            "webhook",
        ),
        (
            Reply::Json(500, status_body(500, "", "etcdserver: leader changed")),
            ErrorKind::Unavailable,
            "leader changed",
        ),
        // The server responds to reads, so the timeout concerns only the write.
        (Reply::Json(504, status_body(504, "Timeout", "slow")), ErrorKind::DependencyTimeout, "slow"),
        (
            Reply::Text(502, "<html>Bad Gateway</html>"),
            ErrorKind::Unavailable,
            "<html>Bad Gateway</html> (502",
        ),
        (Reply::Text(503, ""), ErrorKind::Unavailable, "the server returned 503"),
        (
            Reply::Text(200, "{\"kind\": "),
            ErrorKind::Server,
            "cannot parse the server's response for v1 ConfigMap a",
        ),
        (Reply::Text(200, "[]"), ErrorKind::Server, "must be a map of fields"),
        (Reply::Broken, ErrorKind::Unavailable, "the connection to https://kube.test was lost during PATCH"),
    ];
    for (reply, kind, text) in rows {
        let reply = Mutex::new(Some(reply));
        let (cluster, _) =
            scripted_cluster(
                move |asked| if asked.method == "PATCH" { reply.lock().unwrap().take() } else { None },
            );
        let refused = cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap_err();
        assert_eq!(refused.kind, kind, "{refused}");
        assert!(refused.message.contains(text), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn overload_is_reported_and_the_next_call_waits_as_requested() {
    let (cluster, log) = scripted_cluster(|asked| {
        let first = asked.method == "PATCH" && asked.path.contains("/a?");
        first
            .then_some(Reply::Busy(3))
            .or_else(|| (asked.method == "PATCH").then(|| Reply::Json(201, live_config_map("b"))))
    });
    cluster.discover().await.unwrap();
    let started = Instant::now();
    let refused = cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap_err();
    let wait = Duration::from_secs(3);
    assert_eq!(refused.kind, ErrorKind::TooManyRequests { retry_after: Some(wait) });
    assert_eq!(started.elapsed(), Duration::ZERO);
    let Some(Backpressure::RateLimited { remaining, message }) = cluster.backpressure() else {
        panic!("{:?}", cluster.backpressure())
    };
    assert_eq!(remaining, wait);
    assert!(message.starts_with("429 Too Many Requests to PATCH /api/v1/"), "{message}");
    let applied = cluster.apply(apply_request(config_map_manifest("b"), APPLY)).await.unwrap();
    assert!(applied.is_created);
    assert_eq!(started.elapsed(), wait);
    assert_eq!(logged_calls(&log).len(), 2, "nothing is sent twice");
    assert_eq!(cluster.backpressure(), None);
}

/// A server that has yet to fill its cache for a kind refuses that kind for a long time. That must not delay
/// calls for other kinds.
#[tokio::test(start_paused = true)]
async fn a_temporarily_refused_kind_delays_no_other_call() {
    let (cluster, _) = scripted_cluster(|asked| match asked.path.split('?').next() {
        Some("/api/v1/secrets") => {
            let mut unready = status_body(429, "TooManyRequests", "storage is (re)initializing");
            unready["details"] = json!({"retryAfterSeconds": 30});
            Some(Reply::RetryAfter(429, 30, unready))
        }
        _ => reply_with_any_object(asked),
    });
    cluster.discover().await.unwrap();
    let started = Instant::now();
    let (secrets, gvk) = (Scope::complete_objects(Gvk::new("", "v1", "Secret")), config_map_gvk());
    let list = async { tokio::time::timeout(Duration::from_secs(60), cluster.list(&secrets)).await };
    let others = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        for _ in 0..20 {
            assert!(cluster.get(&gvk, "shop", "a").await.unwrap().is_some());
        }
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert!(
            matches!(cluster.backpressure(), Some(Backpressure::RateLimited { .. })),
            "{:?}",
            cluster.backpressure()
        );
    };
    assert!(
        futures_util::future::join(list, others).await.0.is_err(),
        "the list waits for the requested delay"
    );
}

/// A refused request must not be sent again too early, whatever its caller and the handling of the refusal.
#[tokio::test(start_paused = true)]
async fn a_temporarily_refused_request_is_retried_at_the_requested_time() {
    for in_words_only in [false, true] {
        let started = Instant::now();
        let (cluster, log) = scripted_cluster(move |asked| {
            if asked.method != "PATCH" || !asked.path.contains("/a?") || started.elapsed().as_secs() >= 12 {
                return (asked.method == "PATCH").then(|| Reply::Json(200, live_config_map("a")));
            }
            let mut refusal = status_body(429, "TooManyRequests", "slow down");
            refusal["details"] = json!({"retryAfterSeconds": 12});
            Some(if in_words_only { Reply::Json(429, refusal) } else { Reply::RetryAfter(429, 12, refusal) })
        });
        cluster.discover().await.unwrap();
        let refused = cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap_err();
        let wait = Duration::from_secs(12);
        assert_eq!(refused.kind, ErrorKind::TooManyRequests { retry_after: Some(wait) });
        assert!(
            matches!(cluster.backpressure(), Some(Backpressure::RateLimited { .. })),
            "{:?}",
            cluster.backpressure()
        );
        cluster.apply(apply_request(config_map_manifest("b"), APPLY)).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO, "another request is sent");
        cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap();
        assert_eq!((started.elapsed(), logged_calls(&log).len()), (wait, 3));
    }
}

/// The delay between two bulk reads must be exactly the requested delay.
#[tokio::test(start_paused = true)]
async fn retries_wait_exactly_as_long_as_the_server_requests() {
    let started = Instant::now();
    let (cluster, log) = scripted_cluster(move |asked| {
        let list = asked.path.contains("/configmaps?");
        let busy = list && started.elapsed() < Duration::from_secs(4);
        let empty = || Reply::Json(200, json!({"metadata": {"resourceVersion": "70"}, "items": []}));
        busy.then_some(Reply::Busy(2)).or_else(|| list.then(empty))
    });
    cluster.list(&Scope::complete_objects(config_map_gvk())).await.unwrap();
    assert_eq!((started.elapsed(), logged_calls(&log).len()), (Duration::from_secs(4), 3));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_reported_while_calls_wait() {
    let (cluster, _) = scripted_cluster(|asked| {
        if asked.path.contains("/hang") { Some(Reply::Hang) } else { reply_with_any_object(asked) }
    });
    cluster.discover().await.unwrap();
    let gvk = config_map_gvk();
    let hanging = cluster.get(&gvk, "shop", "hang");
    let looking = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(cluster.backpressure(), None);
        tokio::time::sleep(Duration::from_secs(4)).await;
        let text = "no response to GET /api/v1/namespaces/shop/configmaps/hang".to_owned();
        assert_eq!(
            cluster.backpressure(),
            Some(Backpressure::Unresponsive { elapsed: Duration::from_secs(8), message: text })
        );
        // A response to another call shows that the server is alive.
        cluster.get(&gvk, "shop", "a").await.unwrap();
        assert_eq!(cluster.backpressure(), None);
    };
    let (error, ()) = futures_util::future::join(hanging, looking).await;
    assert_eq!((error.unwrap_err().kind, cluster.backpressure()), (ErrorKind::Timeout, None));
}

#[tokio::test(start_paused = true)]
async fn a_hung_server_costs_one_time_limit_and_no_permit() {
    let (cluster, log) = scripted_cluster(|asked| {
        if asked.path.contains("/hang") { Some(Reply::Hang) } else { reply_with_any_object(asked) }
    });
    cluster.discover().await.unwrap();
    let started = Instant::now();
    // Make more calls than the maximum number of calls in flight.
    let gvk = config_map_gvk();
    let hanging = (0..4).map(|_| cluster.get(&gvk, "shop", "hang"));
    for answer in futures_util::future::join_all(hanging).await {
        let error = answer.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert!(
            error
                .message
                .contains("did not respond to GET /api/v1/namespaces/shop/configmaps/hang within 30s")
        );
    }
    assert_eq!(started.elapsed(), Duration::from_secs(30));
    let dropped: Vec<_> = (0..20)
        .map(|_| {
            let cluster = cluster.clone();
            tokio::spawn(async move { cluster.get(&config_map_gvk(), "shop", "hang").await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(1)).await;
    dropped.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(cluster.get(&config_map_gvk(), "shop", "a").await.unwrap().is_some());
    assert!(logged_calls(&log).len() < 20, "no more calls than may be in flight");
}

fn reply_with_any_object(asked: &ReceivedRequest) -> Option<Reply> {
    asked.path.contains("/configmaps/").then(|| Reply::Json(200, live_config_map("a")))
}

#[tokio::test]
async fn writes_carry_the_operation_and_the_write_mode() {
    let (cluster, log) = scripted_cluster(|asked| match asked.method.as_str() {
        "PATCH" | "PUT" => Some(Reply::Json(200, live_config_map("a"))),
        "DELETE" => Some(Reply::Json(200, json!({"kind": "Status", "status": "Success"}))),
        _ => reply_with_any_object(asked),
    });
    let request = apply_request(config_map_manifest("a"), WriteMode::Apply { force: true });
    let applied = cluster.apply(ApplyRequest { dry_run: true, ..request.clone() }).await.unwrap();
    assert_eq!(
        (applied.message.as_str(), applied.is_created),
        ("configmap/a serverside-applied (server dry run)", false)
    );
    let unchecked =
        ApplyRequest { validate: false, mode: WriteMode::Replace { recreate: false }, ..request.clone() };
    assert_eq!(cluster.apply(unchecked).await.unwrap().message, "configmap/a replaced");
    let delete = DeleteRequest {
        gvk: config_map_gvk(),
        namespace: "shop".to_owned(),
        name: "a".to_owned(),
        uid: "u".to_owned(),
        resource_version: String::new(),
        propagation: Propagation::Orphan,
        dry_run: true,
        operation: request.operation,
    };
    cluster.delete(delete).await.unwrap();
    let place = "/api/v1/namespaces/shop/configmaps/a";
    assert_eq!(
        logged_calls(&log),
        [
            format!("PATCH {place}?fieldManager=tidegate&fieldValidation=Strict&dryRun=All&force=true"),
            format!("GET {place}"),
            format!("PUT {place}?fieldManager=tidegate&fieldValidation=Ignore"),
            format!("DELETE {place}"),
        ]
    );
    let asked = log.lock().unwrap();
    for write in asked.iter().filter(|asked| asked.method != "GET") {
        assert_eq!(write.user_agent, "tidegate/0.1.0 (operation/0190b5a4-7c1e-7000-8000-000000000001)");
    }
    let body = |method: &str| {
        let found = asked.iter().find(|asked| asked.method == method).unwrap();
        serde_json::from_slice::<Value>(&found.body).unwrap()
    };
    assert_eq!(body("PATCH"), config_map_manifest("a"));
    assert_eq!(body("PUT")["metadata"]["resourceVersion"], "7");
    assert_eq!(
        body("DELETE"),
        json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan",
            "preconditions": {"uid": "u"}, "dryRun": ["All"],
        })
    );
}

#[tokio::test]
async fn a_finalizer_is_removed_despite_conflicts_and_missing_objects() {
    let rounds = Mutex::new(0);
    let (cluster, log) = scripted_cluster(move |asked| {
        if asked.path.contains("/gone") {
            let details = json!({"kind": "configmaps", "name": "gone"});
            return Some(Reply::Json(404, detailed_status(404, "NotFound", "not found", details)));
        }
        let mut object = live_config_map("a");
        object["metadata"]["finalizers"] = json!(["x", "y"]);
        match asked.method.as_str() {
            "GET" if asked.path.contains("/configmaps/") => Some(Reply::Json(200, object)),
            "PATCH" => {
                let mut rounds = rounds.lock().unwrap();
                *rounds += 1;
                let done = *rounds > 2;
                Some(if done {
                    Reply::Json(200, object)
                } else {
                    Reply::Json(409, status_body(409, "Conflict", "changed"))
                })
            }
            _ => None,
        }
    });
    let remove = |name: &str, uid: &str, finalizer: &str| {
        let request = FinalizerRemoval {
            gvk: config_map_gvk(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            finalizer: finalizer.to_owned(),
            operation: None,
        };
        let cluster = cluster.clone();
        async move { cluster.remove_finalizer(request).await }
    };
    remove("gone", "u", "x").await.unwrap();
    remove("a", "another", "x").await.unwrap();
    remove("a", "uid-of-a", "z").await.unwrap();
    assert!(logged_calls(&log).iter().all(|line| line.starts_with("GET")));
    remove("a", "uid-of-a", "x").await.unwrap();
    assert_eq!(logged_calls(&log).iter().filter(|line| line.starts_with("PATCH")).count(), 3);
}

#[tokio::test]
async fn the_identity_of_a_cluster_is_readable_with_sufficient_rights() {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "u1"}});
    let refusal = |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "no"});
    for (code, body, expected) in [
        (200, namespace, Ok(Some("u1"))),
        (403, refusal(403), Ok(None)),
        (404, refusal(404), Ok(None)),
        (500, refusal(500), Err(ErrorKind::Server)),
    ] {
        let (cluster, log) = scripted_cluster(move |asked| {
            (asked.path == "/api/v1/namespaces/kube-system").then(|| Reply::Json(code, body.clone()))
        });
        let identity = cluster.identity().await;
        let identity = identity.as_ref().map(Option::as_deref).map_err(|error| error.kind);
        assert_eq!(identity, expected, "{code}");
        assert_eq!(log.lock().unwrap().len(), 1, "no other request is sent");
    }
}

#[tokio::test]
async fn warnings_of_the_server_are_returned_with_the_object() {
    const WARNING_HEADERS: [&str; 4] = [
        r#"299 - "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+" "Sat, 21 Nov 2026 10:00:00 GMT""#,
        r#"299 - "policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+""#,
        r#"299 kube "a \"quoted\" word""#,
        "nonsense",
    ];
    let (cluster, _) = scripted_cluster(|asked| {
        (asked.method == "PATCH").then(|| Reply::Warning(200, &WARNING_HEADERS, live_config_map("a")))
    });
    let applied = cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap();
    assert_eq!(
        applied.warnings,
        ["policy/v1beta1 PodSecurityPolicy is deprecated in v1.21+", "a \"quoted\" word"]
    );
}

/// The error of an unanswered write must show whether the cluster is unavailable, or something that writes
/// depend on.
#[tokio::test(start_paused = true)]
async fn a_hanging_write_is_no_outage_while_reads_succeed() {
    let hang: fn() -> Reply = || Reply::Hang;
    for (written, read, kind, text) in [
        (hang, true, ErrorKind::DependencyTimeout, "an admission webhook may not be responding"),
        (hang, false, ErrorKind::Timeout, "did not respond to PATCH"),
        (
            || Reply::Json(504, status_body(504, "Timeout", "slow")),
            true,
            ErrorKind::DependencyTimeout,
            "slow: the API server responds",
        ),
        (|| Reply::Json(504, status_body(504, "Timeout", "slow")), false, ErrorKind::Timeout, "slow"),
        (slow_failure, true, ErrorKind::DependencyTimeout, "failed calling webhook"),
        (immediate_failure, true, ErrorKind::Server, "failed calling webhook"),
    ] {
        let (cluster, _) = scripted_cluster(move |asked| match asked.method.as_str() {
            "PATCH" => Some(written()),
            _ if !asked.path.contains("/configmaps/") => None,
            _ if read => Some(Reply::Json(200, live_config_map("a"))),
            _ => Some(Reply::Hang),
        });
        let error = cluster.apply(apply_request(config_map_manifest("a"), APPLY)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(text), "{error}");
    }
}

fn webhook_failure() -> Value {
    status_body(500, "InternalError", "failed calling webhook \"w\": context deadline exceeded")
}

fn slow_failure() -> Reply {
    Reply::Slow(10, 500, webhook_failure())
}

fn immediate_failure() -> Reply {
    Reply::Json(500, webhook_failure())
}
