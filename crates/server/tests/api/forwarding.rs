//! Requests that a standby forwards to the leader.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate_server::{
    Limits, Owner, PeerTls, Rate, Server, ServerState, Settings, TlsFiles, parse_peer_name, parse_service_url,
};
use tidegate_web::{SystemTrust, TrustedServers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::client::{OPERATOR, READER, TestServer, run_test, serve_with_settings, settings};

/// Token that only the leader accepts.
const LEADER_TOKEN: &str = "only-the-leader-knows-this-token";

/// Delay before a standby repeats a request.
const RETRY_DELAY: Duration = Duration::from_millis(250);

struct Standby {
    server: TestServer,
    state: Arc<ServerState>,
}

fn peer_tls() -> PeerTls {
    let config = SystemTrust::default().tls_config(TrustedServers::Anyone, None).unwrap();
    PeerTls { config, server_name: None }
}

/// Returns settings for a service with a shared log.
fn shared_settings(limits: Limits) -> (Settings, TempDir) {
    let (mut settings, dir) = settings(limits);
    settings.peer_tls = Some(peer_tls());
    (settings, dir)
}

/// Limits of a standby that gives up on the leader quickly.
fn quick_limits() -> Limits {
    Limits { leader_timeout: Duration::from_millis(600), ..Limits::default() }
}

async fn start_standby(leader: Owner) -> Standby {
    start_standby_with(quick_limits(), leader).await
}

async fn start_standby_with(limits: Limits, leader: Owner) -> Standby {
    let (settings, dir) = shared_settings(limits);
    start_with_settings(&settings, dir, leader).await
}

async fn start_with_settings(settings: &Settings, dir: TempDir, leader: Owner) -> Standby {
    let state = Arc::new(ServerState::default());
    state.set_leader(leader);
    let server = Server::listen(settings, &state).await.unwrap();
    Standby { server: TestServer::new(server, dir), state }
}

/// Starts a leader that accepts one more token.
async fn start_leader() -> TestServer {
    let (settings, dir) = shared_settings(Limits::default());
    let tokens = settings.tokens.clone().unwrap();
    let known = fs::read_to_string(&tokens).unwrap();
    fs::write(&tokens, format!("{known}lea operator {LEADER_TOKEN}\n")).unwrap();
    serve_with_settings(&settings, dir).await.unwrap()
}

fn leader_at(address: SocketAddr) -> Owner {
    Owner::other("pid 1 on node-1", Some(&format!("http://{address}")))
}

/// Returns an address that refuses connections.
async fn closed_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Waits until `/readyz` responds with this status, and returns the body.
async fn wait_for_readiness(standby: &Standby, status: u16) -> String {
    loop {
        let answer = standby.server.get("/readyz").await;
        if answer.status == status {
            return answer.body;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A leader that records the head of each request, and responds with these bytes.
struct FakeLeader {
    address: SocketAddr,
    requests: watch::Sender<Vec<String>>,
}

impl FakeLeader {
    /// Starts a leader. After the response, it leaves the connection open if `stays_open` is set.
    async fn start(response: &'static str, stays_open: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = watch::Sender::new(Vec::new());
        let recorded = requests.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let head = read_until_blank_line(&mut stream).await;
                // The standby regularly checks whether it can reach the leader.
                if !head.starts_with("GET /readyz ") {
                    recorded.send_modify(|all| all.push(head));
                }
                stream.write_all(response.as_bytes()).await.unwrap();
                if stays_open {
                    open.push(stream);
                }
            }
        });
        Self { address, requests }
    }

    /// Returns the requests of clients.
    fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    async fn wait_for_requests(&self, count: usize) {
        self.requests.subscribe().wait_for(|all| all.len() >= count).await.unwrap();
    }
}

async fn read_until_blank_line(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(read).unwrap()
}

#[test]
fn the_leader_authenticates_forwarded_requests() {
    run_test(async {
        let leader = start_leader().await;
        let standby = start_standby(leader_at(leader.address)).await;
        let session = async |token: &str| {
            let authorization = format!("authorization: Bearer {token}");
            standby.server.request("GET", "/api/v1/session", &[&authorization], "").await
        };
        let known = session(LEADER_TOKEN).await;
        assert_eq!(known.status, 200, "{known:?}");
        assert!(known.body.contains("\"lea\""), "{known:?}");
        let other =
            standby.server.request("GET", "/api/v1/operations", &["authorization: Bearer wrong"], "").await;
        assert_eq!((other.status, other.problem_code().as_str()), (401, "unauthorized"));
        assert!(other.head.contains("cache-control: no-store"), "{other:?}");
    });
}

#[test]
fn a_forwarded_request_keeps_its_end_to_end_headers() {
    run_test(async {
        let leader = FakeLeader::start(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: timeout=9\r\nx-own: 1\r\n\r\n{}",
            false,
        )
        .await;
        let standby = start_standby(leader_at(leader.address)).await;
        let headers = [
            "x-custom: kept",
            "connection: x-dropped, host, cookie",
            "x-dropped: 1",
            "cookie: a=b",
            "te: trailers",
            "last-event-id: 7",
        ];
        let answer = standby.server.request("GET", "/api/v1/operations?limit=3", &headers, "").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "{}"));
        assert!(answer.head.contains("x-own: 1") && !answer.head.contains("timeout=9"), "{answer:?}");
        let head = leader.requests().remove(0).to_lowercase();
        assert!(head.starts_with("get /api/v1/operations?limit=3 http/1.1\r\n"), "{head}");
        let host = format!("host: {}", standby.server.address);
        for kept in
            [host.as_str(), "x-custom: kept", "cookie: a=b", "last-event-id: 7", "x-tidegate-forwarded: 1"]
        {
            assert!(head.contains(kept), "{kept}: {head}");
        }
        assert!(!head.contains("x-dropped") && !head.contains("trailers"), "{head}");
    });
}

#[test]
fn a_standby_answers_probes_and_metrics_itself() {
    run_test(async {
        let leader = FakeLeader::start("HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", false).await;
        let standby = start_standby(leader_at(leader.address)).await;
        wait_for_readiness(&standby, 200).await;
        for target in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(standby.server.get(target).await.status, 200, "{target}");
        }
        assert_eq!(leader.requests(), [""; 0]);
        let metrics = standby.server.get("/metrics").await.body;
        assert!(!metrics.contains("tidegate_http_requests_forwarded_total{"), "{metrics}");
        // Without a leader to forward to, the standby isn't ready.
        standby.state.set_leader(Owner::other("pid 1 on node-1", None));
        assert_eq!(standby.server.get("/readyz").await.status, 503);
        let refused = standby.server.get("/api/v1/operations").await;
        assert_eq!(refused.status, 503);
        assert!(refused.body.contains("node-1") && refused.body.contains("--advertise"), "{refused:?}");
        let metrics = standby.server.get("/metrics").await.body;
        assert!(metrics.contains("tidegate_http_requests_forwarded_total{status=\"503\"} 1"), "{metrics}");
        // Without a connection to the leader, it isn't ready either.
        standby.state.set_leader(leader_at(closed_address().await));
        while !wait_for_readiness(&standby, 503)
            .await
            .contains("the leader (pid 1 on node-1) cannot be reached")
        {}
        standby.state.take_over();
        assert_eq!(standby.server.get("/readyz").await.status, 503);
    });
}

/// A standby that is ready too early would replace a working service in a rolling update.
#[test]
fn a_standby_is_not_ready_before_it_has_reached_the_leader() {
    run_test(async {
        // This leader accepts connections, but never responds.
        let hanging = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let leader = FakeLeader::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false).await;
        let standby = start_standby(Owner::Changing).await;
        for address in [hanging.local_addr().unwrap(), leader.address, hanging.local_addr().unwrap()] {
            standby.state.set_leader(leader_at(address));
            if address == leader.address {
                wait_for_readiness(&standby, 200).await;
            } else {
                let body = wait_for_readiness(&standby, 503).await;
                // After two seconds, the check fails.
                assert!(body.contains("not been checked yet") || body.contains("did not respond"), "{body}");
            }
        }
    });
}

#[test]
fn a_held_request_ends_when_the_service_shuts_down() {
    run_test(async {
        let standby = start_standby_with(Limits::default(), Owner::Changing).await;
        let request = standby.server.get("/api/v1/session");
        let shutdown = async {
            tokio::time::sleep(RETRY_DELAY).await;
            standby.state.shut_down();
        };
        let (answer, ()) = tokio::join!(request, shutdown);
        assert_eq!((answer.status, answer.problem_code().as_str()), (503, "not-ready"));
        assert!(answer.body.contains("shutting down"), "{answer:?}");
    });
}

#[test]
fn a_request_is_forwarded_only_once() {
    run_test(async {
        let first = start_standby(Owner::This).await;
        let second = start_standby(leader_at(first.server.address)).await;
        // Each of them takes the other one for the leader.
        first.state.set_leader(leader_at(second.server.address));
        let answer = second.server.get("/api/v1/operations").await;
        assert_eq!((answer.status, answer.problem_code().as_str()), (503, "not-ready"));
        assert!(answer.body.contains("has handed over"), "{answer:?}");
        assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    });
}

#[test]
fn requests_wait_while_the_leader_changes() {
    run_test(async {
        const STANDBY: &str = "HTTP/1.1 503 Not ready\r\nx-tidegate-not-leader: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let next = start_leader().await;
        for new_leader in [leader_at(next.address), Owner::This] {
            let last = FakeLeader::start(STANDBY, false).await;
            let standby = start_standby_with(Limits::default(), leader_at(last.address)).await;
            let change = async {
                // The standby repeats the request.
                last.wait_for_requests(2).await;
                standby.state.take_over();
                // Requests wait until the new leader is known.
                let early = standby.server.get("/api/v1/session");
                assert!(tokio::time::timeout(2 * RETRY_DELAY, early).await.is_err());
                standby.state.set_leader(new_leader);
            };
            let (answer, ()) = tokio::join!(standby.server.get("/api/v1/session"), change);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    });
}

/// The leader may have executed a request before it closed the connection.
#[test]
fn only_reads_are_repeated_after_a_lost_response() {
    run_test(async {
        let leader = FakeLeader::start("", false).await;
        let standby = start_standby(leader_at(leader.address)).await;
        let authorization = format!("authorization: Bearer {OPERATOR}");
        let headers = ["content-type: application/json", authorization.as_str()];
        let lost =
            standby.server.request("POST", "/api/v1/applications/default/shop/sync", &headers, "{}").await;
        assert_eq!((lost.status, lost.problem_code().as_str()), (504, "gateway-timeout"));
        assert_eq!(leader.requests().len(), 1);
        let read = standby.server.get("/api/v1/operations").await;
        assert_eq!((read.status, read.problem_code().as_str()), (503, "not-ready"));
        assert!(leader.requests().len() > 2, "{:?}", leader.requests());
    });
}

#[test]
fn a_stream_is_aborted_when_the_leader_changes() {
    run_test(async {
        const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n8\r\nid: 1\n\n\n\r\n";
        let leader = FakeLeader::start(EVENTS, true).await;
        let standby = start_standby(leader_at(leader.address)).await;
        let mut stream = standby.server.connect().await;
        let head =
            format!("GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {READER}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"id: 1\n\n\n\r\n") {
            received.push(stream.read_u8().await.unwrap());
        }
        standby.state.take_over();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"", "an aborted response has no last chunk");
    });
}

/// Guesses of tokens and signatures must not use up the requests of callers with a valid token.
#[test]
fn unknown_clients_of_a_standby_block_no_other_client() {
    run_test(async {
        let leader = FakeLeader::start("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", false).await;
        let few = Rate { per_second: 0.001, burst: 3.0 };
        let limits =
            Limits { page_rate: few, unauthenticated_rate: few, webhook_rate: few, ..Limits::default() };
        let standby = start_standby_with(limits, leader_at(leader.address)).await;
        for (headers, target) in [
            (&["authorization: Bearer wrong"][..], "/api/v1/operations"),
            (&["cookie: tidegate-session-8480=wrong"], "/api/v1/operations"),
        ] {
            for _ in 0..3 {
                let answer = standby.server.request("GET", target, headers, "").await;
                assert_eq!(answer.status, 200, "the leader decides: {answer:?}");
            }
            let refused = standby.server.request("GET", target, headers, "").await;
            assert_eq!(
                (refused.status, refused.problem_code().as_str()),
                (429, "too-many-requests"),
                "{headers:?}"
            );
        }
        let before = leader.requests().len();
        let event =
            standby.server.request("POST", "/api/webhook", &["content-type: application/json"], "{}").await;
        assert!((400..500).contains(&event.status), "an event without a sender is refused: {event:?}");
        assert_eq!(leader.requests().len(), before);
        assert_eq!(standby.server.get("/api/v1/operations").await.status, 200);
    });
}

#[test]
fn the_certificate_of_the_leader_is_verified() {
    run_test(async {
        let own = rcgen::generate_simple_self_signed(["tidegate.example.com".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["tidegate.example.com".to_owned()]).unwrap();
        let (mut settings, dir) = shared_settings(Limits::default());
        let (certificates, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        fs::write(&certificates, own.cert.pem()).unwrap();
        fs::write(&key, own.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        settings.tls = Some(TlsFiles { certificates, key });
        let leader = serve_with_settings(&settings, dir).await.unwrap();
        let address = format!("https://{}", leader.address);
        let right = "tidegate.example.com";
        for (authority, name, is_trusted) in [
            (&own, Some(right), true),
            (&own, Some("other.example.com"), false),
            (&own, None, false),
            (&other, Some(right), false),
        ] {
            let pem = authority.cert.pem();
            let config = SystemTrust::default().tls_config(TrustedServers::Authorities(&pem), None).unwrap();
            let server_name = name.map(|name| parse_peer_name(name).unwrap());
            let (mut settings, dir) = shared_settings(quick_limits());
            settings.peer_tls = Some(PeerTls { config, server_name });
            let leader = Owner::other("pid 1 on node-1", Some(&address));
            let standby = start_with_settings(&settings, dir, leader).await;
            let answer = standby.server.get("/api/v1/session").await;
            assert_eq!(answer.status, if is_trusted { 200 } else { 503 }, "{name:?}: {answer:?}");
            assert!(is_trusted || answer.body.contains("certificate"), "{answer:?}");
        }
    });
}

/// A standby that other machines can reach must not act for the local users of a leader without tokens.
#[test]
fn a_leader_without_tokens_refuses_forwarded_requests() {
    run_test(async {
        let (mut settings, dir) = shared_settings(Limits::default());
        settings.tokens = None;
        let leader = serve_with_settings(&settings, dir).await.unwrap();
        assert_eq!(leader.get("/api/v1/session").await.status, 200);
        let standby = start_standby(leader_at(leader.address)).await;
        let refused = standby.server.get("/api/v1/session").await;
        assert_eq!((refused.status, refused.problem_code().as_str()), (403, "forbidden"));
        assert!(refused.body.contains("--tokens"), "{refused:?}");
    });
}

#[test]
fn the_size_of_a_body_is_limited_before_it_is_forwarded() {
    run_test(async {
        let leader = FakeLeader::start("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false).await;
        let limits = Limits { body_bytes: 10, ..Limits::default() };
        let standby = start_standby_with(limits, leader_at(leader.address)).await;
        let chunked = format!(
            "POST /api/v1/applications/default/shop/sync HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\nb\r\n{}\r\n0\r\n\r\n",
            "x".repeat(11)
        );
        let answer = standby.server.send_raw(chunked.as_bytes()).await;
        assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
        assert_eq!(leader.requests(), [""; 0]);
    });
}

#[test]
fn the_url_of_a_service_has_no_path() {
    for (url, expected) in [
        ("http://10.1.2.3:8480", Some("http://10.1.2.3:8480")),
        ("https://[fd00::1]:8480/", Some("https://[fd00::1]:8480")),
        ("https://node-1", Some("https://node-1")),
        ("node-1:8480", None),
        ("ftp://node-1", None),
        ("http://me@node-1", None),
        ("http://node-1/path", None),
        ("http://node-1?a=b", None),
        ("", None),
    ] {
        assert_eq!(parse_service_url(url).ok().as_deref(), expected, "{url}");
    }
}
