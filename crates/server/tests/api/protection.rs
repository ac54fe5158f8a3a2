//! Authentication, and protection against malicious clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use tidegate_server::{Limits, Rate, Server, ServerState, Settings, TlsFiles};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{OPERATOR, READER, TestResponse, run_test, serve, serve_with_settings, settings};

#[test]
fn tokens_are_required_if_other_machines_can_connect() {
    run_test(async {
        for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let settings = Settings::new(listen.parse().unwrap());
            let error = Server::listen(&settings, &Arc::new(ServerState::default())).await.err().unwrap();
            assert!(error.to_string().contains("--tokens"), "{listen}: {error}");
        }
        for listen in ["127.0.0.1:0", "127.1.2.3:0", "[::ffff:127.0.0.1]:0"] {
            assert!(Settings::new(listen.parse().unwrap()).check().is_ok(), "{listen}");
        }
        let (mut open, dir) = settings(Limits::default());
        open.listen = "0.0.0.0:0".parse().unwrap();
        assert!(open.warning().unwrap().contains("--tls-cert"));
        assert!(serve_with_settings(&open, dir).await.is_ok());
    });
}

#[test]
fn the_process_is_alive_before_it_is_ready() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let alive = server.request("GET", "/healthz", &[], "").await;
        assert_eq!((alive.status, alive.json()["ok"].as_bool()), (200, Some(true)));
        let ready = server.request("GET", "/readyz", &[], "").await;
        assert_eq!((ready.status, ready.problem_code().as_str()), (503, "not-ready"));
        assert!(ready.body.contains("log is not open"), "{ready:?}");
        for header in
            ["cache-control: no-store", "x-content-type-options: nosniff", "content-security-policy:"]
        {
            assert!(ready.head.contains(header), "{}", ready.head);
        }
        let head = server.request("HEAD", "/healthz", &[], "").await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
        server.server.close().await;
        assert!(TcpStream::connect(server.address).await.is_err());
    });
}

#[test]
fn unknown_paths_and_methods_are_problems() {
    run_test(async {
        let server = serve(Limits::default()).await;
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
            let answer = server.get(target).await;
            assert_eq!((answer.status, answer.problem_code().as_str()), (404, "not-found"), "{target}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
            let answer = server.request(method, "/healthz", &[], "").await;
            assert_eq!(
                (answer.status, answer.problem_code().as_str()),
                (405, "method-not-allowed"),
                "{method}"
            );
        }
        let answer = server.get("/healthz?verbose=1").await;
        assert_eq!((answer.status, answer.problem_code().as_str()), (400, "bad-request"));
    });
}

#[test]
fn a_malformed_request_ends_only_its_own_connection() {
    run_test(async {
        let server = serve(Limits::default()).await;
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
            let answer = server.send_raw(bytes).await;
            let is_refused = answer.is_empty() || TestResponse::parse(&answer).status >= 400;
            assert!(is_refused, "{:?}", String::from_utf8_lossy(&answer));
        }
        assert_eq!(server.request("GET", "/healthz", &[], "").await.status, 200);
    });
}

#[test]
fn a_request_that_a_proxy_may_read_differently_is_rejected() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let chunks = "transfer-encoding: chunked\r\n";
        for (headers, body, named) in [
            ("", "", "Host"),
            ("host: a\r\nhost: a\r\n", "", "Host"),
            ("host: a\r\nHost: b\r\n", "", "Host"),
            (&format!("host: a\r\ncontent-length: 5\r\n{chunks}"), "0\r\n\r\n", "Content-Length"),
            (&format!("host: a\r\n{chunks}content-length: 5\r\n"), "0\r\n\r\n", "Content-Length"),
            ("host: a\r\ncontent-length: -1\r\n", "", "Content-Length"),
            ("host: a\r\ncontent-length: 0, 0\r\n", "", "Content-Length"),
            ("host: a\r\ncontent-length: 0\r\ncontent-length: 1\r\n", "", "Content-Length"),
            ("host: a\r\ntransfer-encoding: identity\r\n", "", "Transfer-Encoding"),
        ] {
            let request = format!("POST /healthz HTTP/1.1\r\n{headers}connection: close\r\n\r\n{body}");
            let answer = TestResponse::parse(&server.send_raw(request.as_bytes()).await);
            assert_eq!((answer.status, answer.problem_code().as_str()), (400, "bad-request"), "{request}");
            assert!(answer.json()["message"].as_str().unwrap().contains(named), "{answer:?}");
        }
        // The server doesn't respond to later bytes on this connection, because they may be part of the
        // request's body.
        let smuggled = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
        for headers in [format!("content-length: 0\r\n{chunks}"), format!("{chunks}content-length: 0\r\n")] {
            let request = format!("POST /healthz HTTP/1.1\r\nhost: a\r\n{headers}\r\n0\r\n\r\n{smuggled}");
            let answers = String::from_utf8(server.send_raw(request.as_bytes()).await).unwrap();
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
            assert!(answers.to_lowercase().contains("connection: close"), "{answers}");
        }
        // HTTP/1.0 requires no host, chunked encoding without a length is accepted, and one connection can
        // carry several requests.
        assert_eq!(TestResponse::parse(&server.send_raw(b"GET /healthz HTTP/1.0\r\n\r\n").await).status, 200);
        let chunked = format!("POST /healthz HTTP/1.1\r\nhost: a\r\n{chunks}\r\n0\r\n\r\n");
        assert_eq!(TestResponse::parse(&server.send_raw(chunked.as_bytes()).await).status, 405);
        let several = format!(
            "POST /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{{}}{smuggled}GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        );
        let answers = String::from_utf8(server.send_raw(several.as_bytes()).await).unwrap();
        assert!(answers.matches("HTTP/1.1 ").count() >= 1 && !answers.contains("400"), "{answers}");
    });
}

#[test]
fn a_rejected_head_leaves_the_responses_before_it_intact() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let head = "GET /healthz HTTP/1.1\r\nhost: a\r\n";
        let request = format!("{head}\r\n{head}content-length: x\r\n\r\n{head}\r\n");
        let answers = String::from_utf8(server.send_raw(request.as_bytes()).await).unwrap();
        let (first, second) = answers.rsplit_once("HTTP/1.1 ").unwrap();
        assert_eq!(TestResponse::parse(first.as_bytes()).status, 200, "{answers}");
        let second = TestResponse::parse(format!("HTTP/1.1 {second}").as_bytes());
        assert_eq!((second.status, second.problem_code().as_str()), (400, "bad-request"), "{answers}");
        assert!(second.head.contains("connection: close") && second.head.contains("nosniff"), "{answers}");
    });
}

#[test]
fn a_target_that_names_another_host_is_rejected() {
    run_test(async {
        let server = serve(Limits::default()).await;
        for (target, expected) in [
            ("http://localhost/healthz", 200),
            ("http://LOCALHOST/healthz", 200),
            ("http://evil.example/healthz", 400),
            ("http://evil.example/api/v1/applications", 400),
            ("http://evil.example/nothing", 400),
            ("http://localhost:81/healthz", 400),
            ("http://ann@localhost/healthz", 400),
            ("http://ann:secret@localhost/healthz", 400),
            ("http:///healthz", 400),
        ] {
            let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let answer = TestResponse::parse(&server.send_raw(request.as_bytes()).await);
            assert_eq!(answer.status, expected, "{target}");
            if expected == 400 {
                assert_eq!(answer.problem_code(), "bad-request", "{target}");
            }
        }
        let request = b"GET http://evil.example/healthz HTTP/1.0\r\n\r\n";
        assert_eq!(TestResponse::parse(&server.send_raw(request).await).status, 400);
    });
}

#[test]
fn an_invalid_host_is_rejected_on_every_route() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let status = async |method: &str, target: &str, host: &[u8]| {
            let mut request = format!("{method} {target} HTTP/1.1\r\nhost: ").into_bytes();
            request.extend_from_slice(host);
            request.extend_from_slice(b"\r\nconnection: close\r\n\r\n");
            let answer = TestResponse::parse(&server.send_raw(&request).await);
            let is_about_host = answer.status == 400 && answer.body.contains("the Host header ");
            (answer.status, is_about_host)
        };
        for host in [
            "localhost",
            "LOCALHOST:8480",
            "deploy.example.com.",
            "my_service:80",
            "127.0.0.1:8480",
            "[::1]",
            "[::1]:8480",
            "localhost:",
        ] {
            assert_eq!(status("GET", "/healthz", host.as_bytes()).await, (200, false), "{host}");
        }
        let invalid: [&[u8]; 19] = [
            b"",
            b":80",
            b"a b",
            b"ann@localhost",
            b"ann:secret@localhost:80",
            b"http://localhost",
            b"localhost/path",
            b"localhost?query",
            b"localhost#part",
            b"localhost\\evil",
            b"local%20host",
            b"<localhost>",
            b"localhost:http",
            b"localhost:+80",
            b"localhost:65536",
            b"localhost:80:80",
            b"::1",
            b"[localhost]:80",
            b"localh\xc3\xb6st",
        ];
        for host in invalid {
            let name = String::from_utf8_lossy(host);
            assert_eq!(status("GET", "/healthz", host).await, (400, true), "{name}");
        }
        for (method, target) in [
            ("GET", "/readyz"),
            ("HEAD", "/healthz"),
            ("GET", "/"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("GET", "/api/v1/applications"),
            ("POST", "/api/webhook"),
            ("GET", "/nothing"),
        ] {
            assert_eq!(status(method, target, b"a b").await.0, 400, "{method} {target}");
        }
    });
}

#[test]
fn an_endless_head_is_cut_and_blocks_no_other_client() {
    run_test(async {
        let head_timeout = Duration::from_millis(200);
        let server = serve(Limits { connections: 2, head_timeout, ..Limits::default() }).await;
        let mut slow = Vec::new();
        for _ in 0..2 {
            let mut stream = server.connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nx-slow: ").await.unwrap();
            slow.push(stream);
        }
        // Both connections are in use until the server closes them.
        assert_eq!(server.request("GET", "/healthz", &[], "").await.status, 200);
        for mut stream in slow {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.is_empty() || TestResponse::parse(&rest).status == 408, "{rest:?}");
        }
    });
}

#[test]
fn without_tokens_only_requests_to_a_local_host_are_answered() {
    run_test(async {
        let dir = tempfile::tempdir().unwrap();
        let server = serve_with_settings(&Settings::new("127.0.0.1:0".parse().unwrap()), dir).await.unwrap();
        assert_eq!(server.request("GET", "/openapi.json", &[], "").await.status, 200);
    });
}

#[test]
fn requests_are_rate_limited() {
    run_test(async {
        let total_rate = Rate { per_second: 0.01, burst: 3.0 };
        let server = serve(Limits { total_rate, ..Limits::default() }).await;
        for _ in 0..3 {
            assert_eq!(server.get("/metrics").await.status, 200);
        }
        for target in ["/metrics", "/api/v1/applications"] {
            let answer = server.get(target).await;
            assert_eq!((answer.status, answer.problem_code().as_str()), (429, "too-many-requests"));
            let after = answer.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
            assert!((90..=100).contains(&after.parse::<u32>().unwrap()), "{after}");
        }
        // Liveness probes are not blocked.
        assert_eq!(server.request("GET", "/healthz", &[], "").await.status, 200);
    });
}

#[test]
fn tls_needs_a_key_that_others_cannot_read() {
    run_test(async {
        let (mut settings, dir) = settings(Limits::default());
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificates, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        fs::write(&certificates, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        settings.tls = Some(TlsFiles { certificates: certificates.clone(), key: key.clone() });
        fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        let state = Arc::new(ServerState::default());
        let error = Server::listen(&settings, &state).await.err().unwrap().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        for (path, content) in [(&key, "no key"), (&certificates, "no certificate")] {
            let before = fs::read(path).unwrap();
            fs::write(path, content).unwrap();
            let error = Server::listen(&settings, &state).await.err().unwrap().to_string();
            assert!(error.contains("PEM"), "{error}");
            fs::write(path, before).unwrap();
        }
        let server = serve_with_settings(&settings, dir).await.unwrap();
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
        let mut stream = connector.connect(name, server.connect().await).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(TestResponse::parse(&answer).status, 200);
        // A client without TLS receives no response.
        let plain = server.send_raw(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(!plain.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&plain));
        let _ = (OPERATOR, READER);
    });
}

#[test]
fn clients_without_a_valid_token_are_rejected_and_rate_limited() {
    run_test(async {
        let unauthenticated_rate = Rate { per_second: 0.01, burst: 4.0 };
        let server = serve(Limits { unauthenticated_rate, ..Limits::default() }).await;
        for header in
            ["x: y", "authorization: Bearer", "authorization: Bearer wrong", "authorization: Basic YTpi"]
        {
            let answer = server.request("GET", "/api/v1/applications", &[header], "").await;
            assert_eq!((answer.status, answer.problem_code().as_str()), (401, "unauthorized"), "{header}");
            assert!(answer.head.contains("www-authenticate: bearer"));
        }
        let again = server.request("GET", "/api/v1/applications", &["authorization: Bearer again"], "").await;
        assert_eq!((again.status, again.problem_code().as_str()), (429, "too-many-requests"));
        for target in ["/nothing", "/openapi.json"] {
            assert_eq!(server.request("GET", target, &[], "").await.status, 429);
        }
        // Requests without a token don't block requests with a token. The log is not open yet.
        assert_eq!(server.get("/api/v1/applications").await.problem_code(), "not-ready");
        let bearer = format!("authorization: Bearer {OPERATOR}");
        let twice = server.request("GET", "/api/v1/applications", &[&bearer, &bearer], "").await;
        assert_eq!(twice.status, 400);
    });
}

#[test]
fn bodies_are_limited_in_type_size_and_time() {
    run_test(async {
        let body_timeout = Duration::from_millis(200);
        let server = serve(Limits { body_bytes: 1000, body_timeout, ..Limits::default() }).await;
        let target = "/api/v1/applications/argocd/shop/sync";
        let (bearer, json) = (format!("authorization: Bearer {OPERATOR}"), "content-type: application/json");
        let ask = async |headers: &[&str], body: &str| {
            server.request("POST", target, headers, body).await.problem_code()
        };
        assert_eq!(ask(&[&bearer], "{}").await, "unsupported-media-type");
        assert_eq!(ask(&[&bearer, "content-type: text/plain"], "{}").await, "unsupported-media-type");
        assert_eq!(ask(&[&bearer, json], &" ".repeat(1001)).await, "payload-too-large");
        assert_eq!(ask(&[&bearer, json], "{").await, "bad-request");
        assert_eq!(ask(&[&bearer, "content-type: application/json; charset=utf-8"], "{}").await, "not-ready");
        let reader = format!("authorization: Bearer {READER}");
        assert_eq!(ask(&[&reader, json], "{").await, "forbidden", "the role is checked before the body");
        // An excessive length is rejected before the body arrives.
        for length in ["1001", "1099511627776"] {
            let mut stream = server.connect().await;
            let head = format!(
                "POST {target} HTTP/1.1\r\nhost: a\r\n{bearer}\r\n{json}\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut first = vec![0; 4096];
            let read = stream.read(&mut first).await.unwrap();
            let answer = String::from_utf8_lossy(&first[..read]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 413"), "{length}: {answer}");
        }
        // This body never arrives.
        let mut stream = server.connect().await;
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: a\r\n{bearer}\r\n{json}\r\ncontent-length: 10\r\nconnection: close\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(TestResponse::parse(&answer).problem_code(), "request-timeout");
    });
}

#[test]
fn an_oversized_length_is_rejected_on_every_route() {
    run_test(async {
        let server = serve(Limits::default()).await;
        let request = |(method, target): (&str, &str), headers: &str, length: &str| {
            format!(
                "{method} {target} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {OPERATOR}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n"
            )
        };
        let digits = "9".repeat(300);
        for route in [
            ("DELETE", "/api/v1/applications/argocd/shop"),
            ("POST", "/api/v1/applications/argocd/shop/sync"),
            ("GET", "/api/v1/applications"),
            ("GET", "/healthz"),
            ("GET", "/"),
            ("POST", "/api/webhook"),
            ("PUT", "/healthz"),
            ("GET", "/nothing"),
        ] {
            for length in ["99999999999", "18446744073709551615", "18446744073709551616", &digits] {
                for headers in ["", "expect: 100-continue\r\n"] {
                    let request = request(route, headers, length);
                    let answer = TestResponse::parse(&server.send_raw(request.as_bytes()).await);
                    let code = answer.problem_code();
                    assert_eq!((answer.status, code.as_str()), (413, "payload-too-large"), "{request}");
                }
            }
        }
        // Only webhook events may have this length.
        for (route, is_rejected) in [
            (("DELETE", "/api/v1/applications/argocd/shop"), true),
            (("GET", "/healthz"), true),
            (("POST", "/api/webhook"), false),
        ] {
            let request = request(route, "connection: close\r\n", "300000");
            let answer = TestResponse::parse(&server.send_raw(request.as_bytes()).await);
            assert_eq!(answer.status == 413, is_rejected, "{route:?} {answer:?}");
        }
    });
}

#[test]
fn without_tokens_changes_and_foreign_pages_are_rejected() {
    run_test(async {
        let dir = tempfile::tempdir().unwrap();
        let server = serve_with_settings(&Settings::new("127.0.0.1:0".parse().unwrap()), dir).await.unwrap();
        assert_eq!(server.get("/api/v1/applications").await.problem_code(), "not-ready");
        let target = "/api/v1/applications/argocd/shop/sync";
        let refused = server.request("POST", target, &["content-type: application/json"], "{}").await;
        assert_eq!(refused.problem_code(), "forbidden");
        assert!(refused.body.contains("--tokens"), "{}", refused.body);
        for (host, is_home) in [
            ("localhost:80", true),
            ("127.0.0.1", true),
            ("[::1]:8480", true),
            ("LOCALHOST", true),
            ("example.com", false),
            ("localhost.example.com:80", false),
            ("192.0.2.1:80", false),
        ] {
            let request =
                format!("GET /api/v1/applications HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = TestResponse::parse(&server.send_raw(request.as_bytes()).await);
            assert_eq!(answer.problem_code(), if is_home { "not-ready" } else { "forbidden" }, "{host}");
        }
    });
}

#[test]
fn one_address_cannot_use_all_connections() {
    run_test(async {
        let server = serve(Limits { connections: 8, connections_per_address: 3, ..Limits::default() }).await;
        let mut idle = Vec::new();
        for _ in 0..3 {
            let mut stream = server.connect().await;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
            assert!(stream.read(&mut [0; 16]).await.unwrap() > 0);
            idle.push(stream);
        }
        assert_eq!(server.send_raw(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await, b"");
        idle.pop();
        // The permit is released once the server has detected the end of the connection.
        loop {
            let answer =
                server.send_raw(b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
            if !answer.is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}
