//! Endpoints that answer well, badly, late, too much and not at all, through pipes and on virtual time.

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

struct Pipe(DuplexStream);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Pipe {
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

/// What an endpoint does with a question.
#[derive(Clone, Debug)]
enum Answer {
    /// Says this, and closes the connection.
    Says(String),
    /// Says this, and then nothing for ever.
    Hangs(String),
    Refuses,
}

fn is_complete(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

async fn serve(mut server: DuplexStream, answer: Answer, got: Arc<Mutex<String>>) {
    let mut request = Vec::new();
    while !is_complete(&String::from_utf8_lossy(&request)) {
        if server.read_buf(&mut request).await.unwrap() == 0 {
            return;
        }
    }
    *got.lock().unwrap() = String::from_utf8(request).unwrap();
    let (Answer::Says(text) | Answer::Hangs(text)) = &answer else { return };
    // Whoever asked may have heard enough.
    let _ = server.write_all(text.as_bytes()).await;
    if matches!(answer, Answer::Hangs(_)) {
        std::future::pending::<()>().await;
    }
}

/// Asks an endpoint that answers like this; returns what it got as well.
async fn asked_of(question: &Question, answer: Answer) -> (Said, String) {
    let got = Arc::new(Mutex::new(String::new()));
    let connector = tower::service_fn({
        let got = Arc::clone(&got);
        move |_: Uri| {
            let (client, server) = duplex(1 << 20);
            let refuses = matches!(answer, Answer::Refuses);
            tokio::spawn(serve(server, answer.clone(), Arc::clone(&got)));
            std::future::ready(match refuses {
                true => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused)),
                false => Ok(TokioIo::new(Pipe(client))),
            })
        }
    });
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let said = client::ask(&client, question).await;
    let got = got.lock().unwrap().clone();
    (said, got)
}

fn asked() -> Asked {
    Asked {
        gate: "http:freeze".into(),
        operation: OperationId(uuid::Uuid::from_u128(7)),
        application: "shop & co".into(),
        revision: "abc123".into(),
        phase: Phase::Sync,
        wave: 3,
        began: Timestamp::from_millis(0),
        manual: true,
    }
}

fn gate(more: serde_json::Value) -> HttpGate {
    let mut gate = json!({"url": "http://freeze.example:8080/allowed"});
    gate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(gate).unwrap()
}

fn question(more: serde_json::Value) -> Question {
    gate(more).question(&asked()).unwrap()
}

fn status(status: &str, more: &str) -> Answer {
    Answer::Says(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n{more}\r\n"))
}

fn ok(body: &str) -> Answer {
    Answer::Says(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

#[tokio::test(start_paused = true)]
async fn only_a_clear_yes_opens() {
    const E: &str = "http://freeze.example:8080";
    const UNCLEAR: &str = "answered 200 OK, but not with a JSON object in which allowed is true or false";
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"allowe\r\n8\r\nd\":true}\r\n0\r\n\r\n";
    let long = "x".repeat(1000);
    let table: Vec<(Answer, Said)> = vec![
        (ok("{\"allowed\":true}"), Said::Yes),
        (ok(" {\"allowed\" : true, \"message\": \"go\", \"until\": 5}\n"), Said::Yes),
        (Answer::Says(chunked.into()), Said::Yes),
        (ok("{\"allowed\":false}"), Said::No(format!("{E} does not allow it"))),
        (
            ok("{\"allowed\":false,\"message\":\" frozen\\nuntil\\tMonday \"}"),
            Said::No("frozen until Monday".into()),
        ),
        (ok("{\"allowed\":false,\"message\":null}"), Said::No(format!("{E} does not allow it"))),
        (
            ok(&format!("{{\"allowed\":false,\"message\":\"{long}\"}}")),
            Said::No(format!("{}…", &long[..300])),
        ),
        (ok("{\"allowed\":\"true\"}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("{\"allowed\":1}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("{\"allowed\":null}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("{\"allowed\":false,\"allowed\":true}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("{\"open\":true}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("{\"allowed\":true} {\"allowed\":false}"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("[true, null]"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("true"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok("<html>sign in</html>"), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (ok(""), Said::Nothing(format!("{E} {UNCLEAR}"))),
        (status("201 Created", ""), Said::Nothing(format!("{E} answered 201 Created"))),
        (status("404 Not Found", ""), Said::Nothing(format!("{E} answered 404 Not Found"))),
        (
            status("500 Internal Server Error", ""),
            Said::Nothing(format!("{E} answered 500 Internal Server Error")),
        ),
        (
            status("302 Found", "location: http://elsewhere/\r\n"),
            Said::Nothing(format!("{E} answered 302 Found; redirects are not followed")),
        ),
        (ok(&" ".repeat(70_000)), Said::Nothing(format!("{E} answered with more than 64 KiB"))),
        (
            Answer::Says("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"allowed\":true}".into()),
            Said::Nothing(format!("{E} broke the connection in the middle of its answer")),
        ),
        (Answer::Hangs(String::new()), Said::Nothing(format!("{E} did not answer within 10 s"))),
        (
            Answer::Hangs("HTTP/1.1 200 OK\r\ncontent-length: 17\r\n\r\n{\"allowed\":true}".into()),
            Said::Nothing(format!("{E} did not answer within 10 s")),
        ),
        (Answer::Refuses, Said::Nothing(format!("{E} cannot be reached: connection refused"))),
    ];
    let question = question(json!({}));
    for (answer, expected) in table {
        let (said, _) = asked_of(&question, answer.clone()).await;
        assert_eq!(said, expected, "{answer:?}");
    }
    for answer in ["", "nonsense\r\n\r\n"] {
        let (said, _) = asked_of(&question, Answer::Says(answer.into())).await;
        assert!(
            matches!(&said, Said::Nothing(why) if why.contains("broke the connection")),
            "{answer}: {said:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_told_what_it_is_asked_about() {
    let id = asked().operation;
    let all = question(json!({}));
    let (_, got) = asked_of(&all, ok("{}")).await;
    assert!(
        got.starts_with("POST /allowed HTTP/1.1\r\n") && got.contains("host: freeze.example:8080"),
        "{got}"
    );
    let body: serde_json::Value = serde_json::from_str(got.split_once("\r\n\r\n").unwrap().1).unwrap();
    let expected = json!({"operation": id.to_string(), "application": "shop & co", "revision": "abc123", "phase": "Sync", "wave": "3"});
    assert_eq!(body, expected);
    let own = json!({"url": "http://h/${phase}?app=${application}", "body": {"n": 1, "who": ["<${application}/${wave}>"]}});
    let (_, got) = asked_of(&question(own), ok("{}")).await;
    assert!(got.starts_with("POST /Sync?app=shop%20%26%20co HTTP/1.1\r\n"), "{got}");
    assert!(got.ends_with("{\"n\":1,\"who\":[\"<shop & co/3>\"]}"), "{got}");
    let (_, got) = asked_of(&question(json!({"method": "GET"})), ok("{}")).await;
    assert!(
        got.starts_with("GET /allowed ") && got.ends_with("\r\n\r\n") && !got.contains("content-"),
        "{got}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_headers_hold_is_sent_and_shows_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "s3cr3t-1\n").unwrap();
    let gate = gate(json!({"headers": {
        "Authorization": {"prefix": "Bearer ", "file": file},
        "X-Env": {"env": "CARGO_PKG_NAME"},
        "X-Key": {"value": "s3cr3t-2"},
    }}));
    assert_eq!(gate.check(), [""; 0]);
    let question = gate.question(&asked()).unwrap();
    let echo = ok("{\"allowed\": false, \"message\": \"not with Bearer s3cr3t-1 and s3cr3t-2\"}");
    let (said, got) = asked_of(&question, echo.clone()).await;
    assert_eq!(said, Said::No("not with Bearer *** and ***".into()));
    for sent in ["authorization: Bearer s3cr3t-1\r\n", "x-env: tidegate-executor\r\n", "x-key: s3cr3t-2\r\n"]
    {
        assert!(got.contains(sent), "{got}");
    }
    assert!(!format!("{gate:?}{question:?}").contains("s3cr3t"), "{gate:?}{question:?}");
    // A token that is renewed is read anew, and without one nothing is asked.
    std::fs::write(&file, "renewed").unwrap();
    assert!(asked_of(&question, echo.clone()).await.1.contains("authorization: Bearer renewed\r\n"));
    for (content, wrong) in
        [(Some("a\nb"), "its value has characters that no header may have"), (None, "cannot be read")]
    {
        match content {
            Some(content) => std::fs::write(&file, content).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let (said, got) = asked_of(&question, echo.clone()).await;
        let Said::Nothing(why) = said else { panic!("{said:?}") };
        assert!(why.starts_with("header authorization: ") && why.contains(wrong) && got.is_empty(), "{why}");
    }
}

#[test]
fn what_cannot_be_asked_is_refused_by_the_name_of_its_field() {
    let header = |source: serde_json::Value| json!({"headers": {"X-Key": source}});
    let table = [
        (json!({"url": "freeze.example/allowed"}), "url: it is none"),
        (json!({"url": "ftp://freeze.example"}), "url: it is neither http nor https"),
        (json!({"url": "http://"}), "url: it is none"),
        (json!({"url": "http://ann:pw@freeze.example/"}), "url: a password does not belong there"),
        (json!({"url": "http://${application}.example/"}), "url: the host is the same for all questions"),
        (json!({"url": "http://h/${aplication}"}), "url: ${aplication} stands for nothing"),
        (json!({"body": {"a": ["${wave"]}}), "body: ${ without }"),
        (json!({"body": {}, "method": "GET"}), "body: a GET has none"),
        (json!({"timeout": "soon"}), "timeout: "),
        (json!({"timeout": "0s"}), "timeout: write one of at most a minute"),
        (json!({"timeout": "2m"}), "timeout: write one of at most a minute"),
        (json!({"interval": "100ms"}), "interval: write one between 1s and 1h"),
        (json!({"interval": "2h"}), "interval: write one between 1s and 1h"),
        (header(json!({})), "headers.X-Key: write one of value, env and file"),
        (header(json!({"env": "A", "value": "b"})), "headers.X-Key: write one of value, env and file"),
        (header(json!({"file": "token"})), "headers.X-Key: file: write the whole path"),
        (header(json!({"env": "A=B"})), "headers.X-Key: env: write the name of a variable"),
        (header(json!({"value": "a\nb"})), "headers.X-Key: its value has characters"),
        (json!({"headers": {"a b": {"value": "c"}}}), "headers.a b: that is no name of a header"),
        (json!({"headers": {"Host": {"value": "c"}}}), "headers.Host: this header is not yours to set"),
    ];
    for (more, wrong) in table {
        let problems = gate(more.clone()).check();
        assert!(
            matches!(problems.as_slice(), [problem] if problem.starts_with(wrong)),
            "{more}: {problems:?}"
        );
    }
    assert_eq!(gate(json!({})).check(), [""; 0]);
}

/// What was asked when, in seconds, and what was told.
async fn played(said: Vec<Said>) -> (Vec<u64>, Vec<Verdict>) {
    let began = tokio::time::Instant::now();
    let (times, told, round) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()), Cell::new(0));
    let ask = || {
        times.borrow_mut().push(began.elapsed().as_secs());
        let next = said.get(round.get()).cloned();
        round.set(round.get() + 1);
        async move {
            match next {
                Some(said) => said,
                None => std::future::pending().await,
            }
        }
    };
    let question = question(json!({"interval": "100s"}));
    let asking = again_and_again(&question, 7, ask, |verdict| told.borrow_mut().push(verdict));
    let _ = tokio::time::timeout(Duration::from_secs(24 * 3600), asking).await;
    (times.into_inner(), told.into_inner())
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_asked_again_and_less_often_while_it_says_nothing() {
    let no = || Said::No("not yet".into());
    let (times, told) = played(vec![no(), no(), Said::Yes, no()]).await;
    assert_eq!(
        told,
        [Verdict::closed("not yet"), Verdict::closed("not yet"), Verdict::Open, Verdict::closed("not yet")]
    );
    for pair in times.windows(2) {
        assert!((100..=120).contains(&(pair[1] - pair[0])), "{times:?}");
    }
    let (times, told) = played(vec![Said::Nothing("gone".into()); 12]).await;
    assert!(told.iter().all(|verdict| *verdict == Verdict::closed("gone")) && told.len() == 12);
    let waits: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((2..=3).contains(&waits[0]) && waits[3] >= 15 && waits[3] <= 20, "{waits:?}");
    assert!((300..=360).contains(&waits[11]) && waits.iter().all(|wait| *wait <= 360), "{waits:?}");
}

/// Operations that begin to ask in the same moment do not go on in the same moments.
#[test]
fn questions_are_spread() {
    let waits: BTreeMap<Duration, u64> =
        (0..100_u64).map(|seed| (spread(Duration::from_secs(30), seed, 1), seed)).collect();
    assert!(waits.len() > 50, "{waits:?}");
    assert!(waits.keys().all(|wait| (30.0..=36.0).contains(&wait.as_secs_f64())), "{waits:?}");
}
