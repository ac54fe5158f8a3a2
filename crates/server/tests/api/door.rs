//! Who is let in, and what becomes of those who mean no good.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate_server::{Limits, Rate, Server, Settings, Site, TlsFiles};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Answered, OPERATOR, READER, run, serve, serve_as, settings};

#[test]
fn whoever_can_be_reached_from_elsewhere_asks_for_tokens() {
    run(async {
        for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let settings = Settings::new(listen.parse().unwrap());
            let error = Server::listen(&settings, &Arc::new(Site::default())).await.err().unwrap();
            assert!(error.to_string().contains("--tokens"), "{listen}: {error}");
        }
        for listen in ["127.0.0.1:0", "127.1.2.3:0", "[::ffff:127.0.0.1]:0"] {
            assert!(Settings::new(listen.parse().unwrap()).check().is_ok(), "{listen}");
        }
        let (mut open, dir) = settings(Limits::default());
        open.listen = "0.0.0.0:0".parse().unwrap();
        assert!(open.warning().unwrap().contains("--tls-cert"));
        assert!(serve_as(&open, dir).await.is_ok());
    });
}

#[test]
fn the_process_is_alive_before_it_is_ready() {
    run(async {
        let served = serve(Limits::default()).await;
        let alive = served.ask("GET", "/healthz", &[], "").await;
        assert_eq!((alive.status, alive.json()["ok"].as_bool()), (200, Some(true)));
        let ready = served.ask("GET", "/readyz", &[], "").await;
        assert_eq!((ready.status, ready.code().as_str()), (503, "not-ready"));
        assert!(ready.body.contains("log is not open"), "{ready:?}");
        for header in
            ["cache-control: no-store", "x-content-type-options: nosniff", "content-security-policy:"]
        {
            assert!(ready.head.contains(header), "{}", ready.head);
        }
        let head = served.ask("HEAD", "/healthz", &[], "").await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        served.server.close().await;
        assert!(TcpStream::connect(served.address).await.is_err());
    });
}

#[test]
fn paths_and_methods_that_are_not_there_are_problems() {
    run(async {
        let served = serve(Limits::default()).await;
        for target in [
            "/page/",
            "/page/nothing.js",
            "/page/../main.js",
            "/applications",
            "/nothing",
            "//healthz",
            "/healthz/",
            "/../etc/passwd",
            "/%2e%2e/healthz",
            "/healthz%00",
        ] {
            let answer = served.get(target).await;
            assert_eq!((answer.status, answer.code().as_str()), (404, "not-found"), "{target}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
            let answer = served.ask(method, "/healthz", &[], "").await;
            assert_eq!((answer.status, answer.code().as_str()), (405, "method-not-allowed"), "{method}");
        }
        let answer = served.get("/healthz?verbose=1").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "bad-request"));
    });
}

#[test]
fn what_is_no_request_ends_the_connection_and_nothing_else() {
    run(async {
        let served = serve(Limits::default()).await;
        let long = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(64 << 10));
        let many = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}\r\n", "x: y\r\n".repeat(2000));
        let target = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(64 << 10));
        for bytes in [
            &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
            b"\0\0\0\0\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx",
            long.as_bytes(),
            many.as_bytes(),
            target.as_bytes(),
        ] {
            let answer = served.raw(bytes).await;
            let is_refused = answer.is_empty() || Answered::parse(&answer).status >= 400;
            assert!(is_refused, "{:?}", String::from_utf8_lossy(&answer));
        }
        assert_eq!(served.ask("GET", "/healthz", &[], "").await.status, 200);
    });
}

#[test]
fn a_head_that_never_ends_is_cut_and_keeps_nobody_out() {
    run(async {
        let head_within = Duration::from_millis(200);
        let served = serve(Limits { connections: 2, head_within, ..Limits::default() }).await;
        let mut slow = Vec::new();
        for _ in 0..2 {
            let mut stream = served.connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ").await.unwrap();
            slow.push(stream);
        }
        // Both places are taken until they are cut.
        assert_eq!(served.ask("GET", "/healthz", &[], "").await.status, 200);
        for mut stream in slow {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.is_empty() || Answered::parse(&rest).status == 408, "{rest:?}");
        }
    });
}

#[test]
fn without_tokens_only_this_machine_is_answered_and_by_its_own_name() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let served = serve_as(&Settings::new("127.0.0.1:0".parse().unwrap()), dir).await.unwrap();
        assert_eq!(served.ask("GET", "/openapi.json", &[], "").await.status, 200);
    });
}

#[test]
fn there_is_a_limit_to_how_often_everybody_asks() {
    run(async {
        let all = Rate { per_second: 0.01, burst: 3.0 };
        let served = serve(Limits { all, ..Limits::default() }).await;
        for _ in 0..3 {
            assert_eq!(served.get("/metrics").await.status, 200);
        }
        for target in ["/metrics", "/api/v1/applications"] {
            let answer = served.get(target).await;
            assert_eq!((answer.status, answer.code().as_str()), (429, "too-often"));
            let after = answer.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
            assert!((90..=100).contains(&after.parse::<u32>().unwrap()), "{after}");
        }
        // Whoever looks whether the process lives is not kept out.
        assert_eq!(served.ask("GET", "/healthz", &[], "").await.status, 200);
    });
}

#[test]
fn tls_needs_a_key_that_is_closed_to_others_and_speaks_to_clients() {
    run(async {
        let (mut settings, dir) = settings(Limits::default());
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificates, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        fs::write(&certificates, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        settings.tls = Some(TlsFiles { certificates: certificates.clone(), key: key.clone() });
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        let site = Arc::new(Site::default());
        let error = Server::listen(&settings, &site).await.err().unwrap().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        for (path, content) in [(&key, "no key"), (&certificates, "no certificate")] {
            let before = fs::read(path).unwrap();
            fs::write(path, content).unwrap();
            let error = Server::listen(&settings, &site).await.err().unwrap().to_string();
            assert!(error.contains("in PEM"), "{error}");
            fs::write(path, before).unwrap();
        }
        let served = serve_as(&settings, dir).await.unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = "localhost".try_into().unwrap();
        let mut stream = connector.connect(name, served.connect().await).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(Answered::parse(&answer).status, 200);
        // Who speaks no TLS is told nothing.
        let plain = served.raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(!plain.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&plain));
        let _ = (OPERATOR, READER);
    });
}

#[test]
fn who_has_no_token_that_counts_is_not_let_in_and_does_not_try_for_long() {
    run(async {
        let strangers = Rate { per_second: 0.01, burst: 4.0 };
        let served = serve(Limits { strangers, ..Limits::default() }).await;
        for header in
            ["x: y", "authorization: Bearer", "authorization: Bearer wrong", "authorization: Basic YTpi"]
        {
            let answer = served.ask("GET", "/api/v1/applications", &[header], "").await;
            assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{header}");
            assert!(answer.head.contains("www-authenticate: bearer"));
        }
        let again = served.ask("GET", "/api/v1/applications", &["authorization: Bearer again"], "").await;
        assert_eq!((again.status, again.code().as_str()), (429, "too-often"));
        for target in ["/nothing", "/openapi.json"] {
            assert_eq!(served.ask("GET", target, &[], "").await.status, 429);
        }
        // Whoever has one is not kept out by those who have none; the log is not open yet.
        assert_eq!(served.get("/api/v1/applications").await.code(), "not-ready");
        let bearer = format!("authorization: Bearer {OPERATOR}");
        let twice = served.ask("GET", "/api/v1/applications", &[&bearer, &bearer], "").await;
        assert_eq!(twice.status, 400);
    });
}

#[test]
fn bodies_are_bounded_in_kind_size_and_time() {
    run(async {
        let body_within = Duration::from_millis(200);
        let served = serve(Limits { body_bytes: 1000, body_within, ..Limits::default() }).await;
        let target = "/api/v1/applications/argocd/shop/sync";
        let (bearer, json) = (format!("authorization: Bearer {OPERATOR}"), "content-type: application/json");
        let ask = async |headers: &[&str], body: &str| served.ask("POST", target, headers, body).await.code();
        assert_eq!(ask(&[&bearer], "{}").await, "not-json");
        assert_eq!(ask(&[&bearer, "content-type: text/plain"], "{}").await, "not-json");
        assert_eq!(ask(&[&bearer, json], &" ".repeat(1001)).await, "too-large");
        assert_eq!(ask(&[&bearer, json], "{").await, "bad-request");
        assert_eq!(ask(&[&bearer, "content-type: application/json; charset=utf-8"], "{}").await, "not-ready");
        let reader = format!("authorization: Bearer {READER}");
        assert_eq!(ask(&[&reader, json], "{").await, "forbidden", "before the body is looked at");
        // A body that never comes.
        let mut stream = served.connect().await;
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: a\r\n{bearer}\r\n{json}\r\ncontent-length: 10\r\nconnection: close\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(Answered::parse(&answer).code(), "too-slow");
    });
}

#[test]
fn without_tokens_nothing_can_be_done_and_no_page_of_elsewhere_can_look() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let served = serve_as(&Settings::new("127.0.0.1:0".parse().unwrap()), dir).await.unwrap();
        assert_eq!(served.get("/api/v1/applications").await.code(), "not-ready");
        let target = "/api/v1/applications/argocd/shop/sync";
        let refused = served.ask("POST", target, &["content-type: application/json"], "{}").await;
        assert_eq!(refused.code(), "forbidden");
        assert!(refused.body.contains("--tokens"), "{}", refused.body);
        for (host, is_home) in [
            ("localhost:80", true),
            ("127.0.0.1", true),
            ("[::1]:8480", true),
            ("LOCALHOST", true),
            ("example.com", false),
            ("localhost.example.com:80", false),
            ("192.0.2.1:80", false),
            ("", false),
        ] {
            let request =
                format!("GET /api/v1/applications HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = Answered::parse(&served.raw(request.as_bytes()).await);
            assert_eq!(answer.code(), if is_home { "not-ready" } else { "forbidden" }, "{host}");
        }
    });
}

#[test]
fn one_address_does_not_take_all_places() {
    run(async {
        let served = serve(Limits { connections: 8, connections_each: 3, ..Limits::default() }).await;
        let mut idle = Vec::new();
        for _ in 0..3 {
            let mut stream = served.connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
            idle.push(stream);
        }
        assert_eq!(served.raw(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await, b"");
        idle.pop();
        // Its place is free when the other side has seen that.
        loop {
            let answer = served.raw(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
            if !answer.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}
