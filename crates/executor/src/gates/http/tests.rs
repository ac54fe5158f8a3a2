//! Endpoints with good, bad, late, oversized and missing responses, through pipes in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tidegate_model::{OperationId, Phase, Timestamp};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf, duplex,
};

use super::*;
use crate::gates::assert_problem;

struct DuplexPipe(DuplexStream);

impl Connection for DuplexPipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for DuplexPipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for DuplexPipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Behavior of an endpoint.
#[derive(Clone, Debug)]
enum EndpointBehavior {
    /// Sends this text and closes the connection.
    Sends(String),
    /// Sends this text and then hangs.
    Hangs(String),
    RefusesConnection,
}

fn is_complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

async fn serve(mut server: DuplexStream, answer: EndpointBehavior, got: Arc<Mutex<String>>) {
    let mut request = Vec::new();
    while !is_complete(&String::from_utf8_lossy(&request)) {
        if server.read_buf(&mut request).await.unwrap() == 0 {
            return;
        }
    }
    *got.lock().unwrap() = String::from_utf8(request).unwrap();
    let (EndpointBehavior::Sends(text) | EndpointBehavior::Hangs(text)) = &answer else { return };
    // The client may have read enough and closed the connection.
    let _ = server.write_all(text.as_bytes()).await;
    if matches!(answer, EndpointBehavior::Hangs(_)) {
        std::future::pending::<()>().await;
    }
}

/// Sends a request to an endpoint with this behavior. Returns the result, and the request as received.
async fn send_to_endpoint(question: &EndpointRequest, answer: EndpointBehavior) -> (EndpointAnswer, String) {
    let got = Arc::new(Mutex::new(String::new()));
    let connector = tower::service_fn({
        let got = Arc::clone(&got);
        move |_: Uri| {
            let (client, server) = duplex(1 << 20);
            let refuses = matches!(answer, EndpointBehavior::RefusesConnection);
            tokio::spawn(serve(server, answer.clone(), Arc::clone(&got)));
            std::future::ready(match refuses {
                true => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                false => Ok(TokioIo::new(DuplexPipe(client))),
            })
        }
    });
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let endpoint_answer = client::send_request(&client, question).await;
    let got = got.lock().unwrap().clone();
    (endpoint_answer, got)
}

fn gate_subject() -> GateSubject {
    GateSubject {
        gate: "http:freeze".into(),
        operation: OperationId(uuid::Uuid::from_u128(7)),
        application: "shop & co".into(),
        revision: "abc123".into(),
        phase: Phase::Sync,
        wave: 3,
        started_at: Timestamp::from_millis(0),
        is_manual: true,
    }
}

fn gate(more: serde_json::Value) -> HttpGate {
    let mut gate = json!({"url": "http://freeze.example:8080/allowed"});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gate).unwrap()
}

fn endpoint_request(more: serde_json::Value) -> EndpointRequest {
    gate(more).build_request(&gate_subject()).unwrap()
}

fn response(status: &str, more: &str) -> EndpointBehavior {
    EndpointBehavior::Sends(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n{more}\r\n"))
}

fn ok_response(body: &str) -> EndpointBehavior {
    EndpointBehavior::Sends(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

#[tokio::test(start_paused = true)]
async fn only_an_explicit_yes_opens_the_gate() {
    const E: &str = "http://freeze.example:8080";
    const UNCLEAR: &str =
        "returned 200 OK, but the body is not a JSON object with a boolean field named allowed";
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"allowe\r\n8\r\nd\":true}\r\n0\r\n\r\n";
    let long = "x".repeat(1000);
    let table: Vec<(EndpointBehavior, EndpointAnswer)> = vec![
        (ok_response("{\"allowed\":true}"), EndpointAnswer::Allowed),
        (ok_response(" {\"allowed\" : true, \"message\": \"go\", \"until\": 5}\n"), EndpointAnswer::Allowed),
        (EndpointBehavior::Sends(chunked.into()), EndpointAnswer::Allowed),
        (
            ok_response("{\"allowed\":false}"),
            EndpointAnswer::Denied(format!("{E} returned `allowed: false`")),
        ),
        (
            ok_response("{\"allowed\":false,\"message\":\" frozen\\nuntil\\tMonday \"}"),
            EndpointAnswer::Denied("frozen until Monday".into()),
        ),
        (
            ok_response("{\"allowed\":false,\"message\":null}"),
            EndpointAnswer::Denied(format!("{E} returned `allowed: false`")),
        ),
        (
            ok_response(&format!("{{\"allowed\":false,\"message\":\"{long}\"}}")),
            EndpointAnswer::Denied(format!("{}…", &long[..300])),
        ),
        (ok_response("{\"allowed\":\"true\"}"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (ok_response("{\"allowed\":1}"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (ok_response("{\"allowed\":null}"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (
            ok_response("{\"allowed\":false,\"allowed\":true}"),
            EndpointAnswer::Unusable(format!("{E} {UNCLEAR}")),
        ),
        (ok_response("{\"open\":true}"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (
            ok_response("{\"allowed\":true} {\"allowed\":false}"),
            EndpointAnswer::Unusable(format!("{E} {UNCLEAR}")),
        ),
        (ok_response("[true, null]"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (ok_response("true"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (ok_response("<html>sign in</html>"), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (ok_response(""), EndpointAnswer::Unusable(format!("{E} {UNCLEAR}"))),
        (response("201 Created", ""), EndpointAnswer::Unusable(format!("{E} returned 201 Created"))),
        (response("404 Not Found", ""), EndpointAnswer::Unusable(format!("{E} returned 404 Not Found"))),
        (
            response("500 Internal Server Error", ""),
            EndpointAnswer::Unusable(format!("{E} returned 500 Internal Server Error")),
        ),
        (
            response("302 Found", "location: http://elsewhere/\r\n"),
            EndpointAnswer::Unusable(format!("{E} returned 302 Found; redirects are not followed")),
        ),
        (
            ok_response(&" ".repeat(70_000)),
            EndpointAnswer::Unusable(format!("{E} returned more than 64 KiB")),
        ),
        (
            EndpointBehavior::Sends("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"allowed\":true}".into()),
            EndpointAnswer::Unusable(format!("{E} closed the connection before the response was complete")),
        ),
        (
            EndpointBehavior::Hangs(String::new()),
            EndpointAnswer::Unusable(format!("{E} did not respond within 10 s")),
        ),
        (
            EndpointBehavior::Hangs("HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"allowed\":true}".into()),
            EndpointAnswer::Unusable(format!("{E} did not respond within 10 s")),
        ),
        (
            EndpointBehavior::RefusesConnection,
            EndpointAnswer::Unusable(format!("{E} cannot be reached: connection refused")),
        ),
    ];
    let question = endpoint_request(json!({}));
    for (answer, expected) in table {
        let (endpoint_answer, _) = send_to_endpoint(&question, answer.clone()).await;
        assert_eq!(endpoint_answer, expected, "{answer:?}");
    }
    for answer in ["", "nonsense\r\n\r\n"] {
        let (endpoint_answer, _) = send_to_endpoint(&question, EndpointBehavior::Sends(answer.into())).await;
        assert!(
            matches!(&endpoint_answer, EndpointAnswer::Unusable(reason) if reason.contains("closed the connection")),
            "{answer}: {endpoint_answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_describes_the_wave() {
    let id = gate_subject().operation;
    let all = endpoint_request(json!({}));
    let (_, got) = send_to_endpoint(&all, ok_response("{}")).await;
    assert!(
        got.starts_with("POST /allowed HTTP/1.1\r\n") && got.contains("host: freeze.example:8080"),
        "{got}"
    );
    let body: serde_json::Value = serde_json::from_str(got.split_once("\r\n\r\n").unwrap().1).unwrap();
    let expected = json!({"operation": id.to_string(), "application": "shop & co", "revision": "abc123", "phase": "Sync", "wave": "3"});
    assert_eq!(body, expected);
    let own = json!({"url": "http://h/${phase}?app=${application}", "body": {"n": 1, "who": ["<${application}/${wave}>"]}});
    let (_, got) = send_to_endpoint(&endpoint_request(own), ok_response("{}")).await;
    assert!(got.starts_with("POST /Sync?app=shop%20%26%20co HTTP/1.1\r\n"), "{got}");
    assert!(got.ends_with("{\"n\":1,\"who\":[\"<shop & co/3>\"]}"), "{got}");
    let (_, got) = send_to_endpoint(&endpoint_request(json!({"method": "GET"})), ok_response("{}")).await;
    assert!(
        got.starts_with("GET /allowed ") && got.ends_with("\r\n\r\n") && !got.contains("content-"),
        "{got}"
    );
}

#[tokio::test(start_paused = true)]
async fn header_values_are_sent_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cr3t-1\n").unwrap();
    let gate = gate(json!({"headers": {
        "Authorization": {"prefix": "Bearer ", "file": file},
        "X-Env": {"env": "CARGO_PKG_NAME"},
        "X-Key": {"value": "s3cr3t-2"},
    }}));
    assert_eq!(gate.check(), [""; 0]);
    let question = gate.build_request(&gate_subject()).unwrap();
    let echo = ok_response("{\"allowed\": false, \"message\": \"not with Bearer s3cr3t-1 and s3cr3t-2\"}");
    let (endpoint_answer, got) = send_to_endpoint(&question, echo.clone()).await;
    assert_eq!(endpoint_answer, EndpointAnswer::Denied("not with Bearer *** and ***".into()));
    for sent in ["authorization: Bearer s3cr3t-1\r\n", "x-env: tidegate-executor\r\n", "x-key: s3cr3t-2\r\n"]
    {
        assert!(got.contains(sent), "{got}");
    }
    assert!(!format!("{gate:?}{question:?}").contains("s3cr3t"), "{gate:?}{question:?}");
    // The token file is reread for each request. Without a token, no request is sent.
    std::fs::write(&file, "renewed").unwrap();
    assert!(send_to_endpoint(&question, echo.clone()).await.1.contains("authorization: Bearer renewed\r\n"));
    for (content, wrong) in [
        (Some("a\nb"), "the value contains characters that are not allowed in a header"),
        (None, "cannot be read"),
    ] {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let (endpoint_answer, got) = send_to_endpoint(&question, echo.clone()).await;
        let EndpointAnswer::Unusable(reason) = endpoint_answer else { panic!("{endpoint_answer:?}") };
        assert!(
            reason.starts_with("header authorization: ") && reason.contains(wrong) && got.is_empty(),
            "{reason}"
        );
    }
}

#[test]
fn invalid_configuration_is_rejected_by_field_name() {
    let header = |source: serde_json::Value| json!({"headers": {"X-Key": source}});
    let table = [
        (json!({"url": "freeze.example/allowed"}), "url: the URL is invalid"),
        (json!({"url": "ftp://freeze.example"}), "url: the scheme must be http or https"),
        (json!({"url": "http://"}), "url: the URL is invalid"),
        (json!({"url": "http://ann:pw@freeze.example/"}), "url: the URL must not contain credentials"),
        (json!({"url": "http://${application}.example/"}), "url: the host cannot contain variables"),
        (json!({"url": "http://h/${aplication}"}), "url: unknown variable ${aplication}"),
        (json!({"body": {"a": ["${wave"]}}), "body: ${ without }"),
        (json!({"body": {}, "method": "GET"}), "body: a GET request cannot have a body"),
        (json!({"timeout": "soon"}), "timeout: "),
        (json!({"timeout": "0s"}), "timeout: use a duration up to 1m"),
        (json!({"timeout": "2m"}), "timeout: use a duration up to 1m"),
        (json!({"interval": "100ms"}), "interval: use a duration between 1s and 1h"),
        (json!({"interval": "2h"}), "interval: use a duration between 1s and 1h"),
        (header(json!({})), "headers.X-Key: set exactly one of value, env and file"),
        (header(json!({"env": "A", "value": "b"})), "headers.X-Key: set exactly one of value, env and file"),
        (header(json!({"file": "token"})), "headers.X-Key: file: use an absolute path"),
        (header(json!({"env": "A=B"})), "headers.X-Key: env: use the name of an environment variable"),
        (header(json!({"value": "a\nb"})), "headers.X-Key: the value contains characters"),
        (json!({"headers": {"a b": {"value": "c"}}}), "headers.a b: invalid header name"),
        (json!({"headers": {"Host": {"value": "c"}}}), "headers.Host: this header cannot be set"),
    ];
    for (more, wrong) in table {
        assert_problem(&gate(more.clone()).check(), wrong, &more);
    }
    assert_eq!(gate(json!({})).check(), [""; 0]);
}

/// Returns the times of the requests in seconds, and the reported verdicts.
async fn poll_answers(answers: Vec<EndpointAnswer>) -> (Vec<u64>, Vec<Verdict>) {
    let began = tokio::time::Instant::now();
    let (times, verdicts, round) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()), Cell::new(0));
    let ask = || {
        times.borrow_mut().push(began.elapsed().as_secs());
        let next = answers.get(round.get()).cloned();
        round.set(round.get() + 1);
        async move {
            match next {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    };
    let question = endpoint_request(json!({"interval": "100s"}));
    let asking = poll_endpoint(&question, 7, ask, |verdict| verdicts.borrow_mut().push(verdict));
    let _ = tokio::time::timeout(Duration::from_secs(24 * 3600), asking).await;
    (times.into_inner(), verdicts.into_inner())
}

#[tokio::test(start_paused = true)]
async fn an_unusable_endpoint_is_polled_less_and_less_often() {
    let no = || EndpointAnswer::Denied("not yet".into());
    let (times, verdicts) = poll_answers(vec![no(), no(), EndpointAnswer::Allowed, no()]).await;
    assert_eq!(
        verdicts,
        [Verdict::closed("not yet"), Verdict::closed("not yet"), Verdict::Open, Verdict::closed("not yet")]
    );
    for pair in times.windows(2) {
        assert!((100..=120).contains(&(pair[1] - pair[0])), "{times:?}");
    }
    let (times, verdicts) = poll_answers(vec![EndpointAnswer::Unusable("gone".into()); 12]).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::closed("gone")) && verdicts.len() == 12);
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((2..=3).contains(&waits[0]) && waits[3] >= 15 && waits[3] <= 20, "{waits:?}");
    assert!((300..=360).contains(&waits[11]) && waits.iter().all(|wait| *wait <= 360), "{waits:?}");
}

/// Operations that start polling at the same moment must not stay in lockstep.
#[test]
fn poll_times_have_jitter() {
    let waits: BTreeMap<Duration, u64> =
        (0..100_u64).map(|seed| (add_jitter(Duration::from_secs(30), seed, 1), seed)).collect();
    assert!(waits.len() > 50, "{waits:?}");
    assert!(waits.keys().all(|wait| (30.0..=36.0).contains(&wait.as_secs_f64())), "{waits:?}");
}
