//! Tests of connections to small, real servers on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use http::Method;
use tidegate_cluster::{Cluster as _, ClusterError, ErrorKind, with_write_check};

use super::*;
use crate::call::{Call, JSON};
use crate::{ConnectError, ConnectOptions, connect};

fn kubeconfig(dir: &Path, server: &str, user: &Value) -> PathBuf {
    let file = dir.join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "test", "context": {"cluster": "c", "user": "u", "namespace": "shop"}},
            {"name": "broken", "context": {"cluster": "nowhere", "user": "u"}},
        ],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

fn options(file: &Path) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(file.to_owned()), ..ConnectOptions::default() }
}

#[tokio::test]
async fn a_refused_connection_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing listens on port 1. A port that a test has just closed might be reused by another program.
    let free = "127.0.0.1:1";
    let cluster =
        connect(&options(&kubeconfig(dir.path(), &format!("http://{free}"), &json!({})))).await.unwrap();
    assert_eq!((cluster.context(), cluster.default_namespace()), ("test", "shop"));
    assert_eq!(cluster.server_url(), format!("http://{free}"));
    let error = cluster.discover().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let reason = error.message.strip_prefix(&format!("cannot reach the server at http://{free}: "));
    assert!(reason.is_some_and(|reason| reason.starts_with("Connection refused")), "{error}");
}

/// Starts a server that responds with 401 to every request without the token.
fn start_guarded_server(token: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve_guarded(stream, token));
        }
    });
    address
}

fn serve_guarded(mut stream: TcpStream, token: &str) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut good = false;
    for line in lines.map_while(Result::ok) {
        good |= line.eq_ignore_ascii_case(&format!("authorization: bearer {token}"));
        if !line.is_empty() {
            continue;
        }
        let (code, body) = if std::mem::take(&mut good) {
            ("200 OK", json!({"kind": "APIVersions", "versions": []}))
        } else {
            ("401 Unauthorized", status_body(401, "Unauthorized", "Unauthorized"))
        };
        let body = body.to_string();
        let head = format!("HTTP/1.1 {code}\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn renewed_credentials_are_read_again_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = start_guarded_server("new");
    let file = kubeconfig(dir.path(), &server, &json!({"token": "old"}));
    let cluster = connect(&options(&file)).await.unwrap();
    kubeconfig(dir.path(), &server, &json!({"token": "new"}));
    assert!(cluster.discover().await.unwrap().kinds.is_empty());

    kubeconfig(dir.path(), &server, &json!({"token": "old"}));
    let cluster = connect(&options(&file)).await.unwrap();
    assert_eq!(cluster.discover().await.unwrap_err().kind, ErrorKind::Unauthorized);
}

/// Starts a server with an identity. Returns its URL, and the first lines of the requests that it receives.
fn start_identified_server(uid: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&requests);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                if line.contains(" HTTP/1.1") {
                    received.lock().unwrap().push(line);
                } else if line.is_empty() {
                    let metadata = json!({"name": "kube-system", "uid": uid});
                    let body =
                        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).to_string();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                    stream.write_all((head + &body).as_bytes()).unwrap();
                }
            }
        }
    });
    (address, requests)
}

#[tokio::test]
async fn a_write_is_checked_again_after_the_identity_of_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (server, requests) = start_identified_server("uid-1");
    let cluster = connect(&options(&kubeconfig(dir.path(), &server, &json!({})))).await.unwrap();
    cluster.expect_identity("uid-1");
    // The permission ends while the identity is checked.
    let seen = Arc::clone(&requests);
    let check = move || match seen.lock().unwrap().is_empty() {
        true => Ok(()),
        false => Err(ClusterError::new(ErrorKind::Timeout, "no longer the leader")),
    };
    let write = Call::write(Method::DELETE, "/api/v1/namespaces/shop".to_owned(), JSON, Vec::new(), None);
    let error = with_write_check(check, cluster.api_server().call(&write)).await.err().unwrap();
    assert_eq!(error.message, "no longer the leader");
    assert_eq!(*requests.lock().unwrap(), ["GET /api/v1/namespaces/kube-system HTTP/1.1"]);
}

#[tokio::test]
async fn invalid_configuration_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let good = kubeconfig(dir.path(), "https://127.0.0.1:1", &json!({}));
    let broken = dir.path().join("broken");
    std::fs::write(&broken, "{").unwrap();
    let absent = dir.path().join("absent");
    let with = |change: fn(&mut ConnectOptions)| {
        let mut options = options(&good);
        change(&mut options);
        options
    };
    for (options, text) in [
        (options(&absent), "absent: failed to read kubeconfig"),
        (options(&broken), "broken: failed to parse kubeconfig YAML"),
        (
            with(|options| options.context = Some("other".to_owned())),
            "the kubeconfig has no context \"other\"; available contexts: test, broken",
        ),
        (with(|options| options.context = Some("broken".to_owned())), "cluster of context: nowhere"),
        (with(|options| options.impersonate_groups = vec!["g".to_owned()]), "set the user with --as"),
    ] {
        let error = connect(&options).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    // A cluster that already impersonates a user can't impersonate another one.
    let jane = with(|options| options.impersonate_user = Some("jane".to_owned()));
    let in_file = options(&kubeconfig(dir.path(), "https://127.0.0.1:1", &json!({"as": "jane"})));
    for options in [jane, in_file] {
        let cluster = connect(&options).await.unwrap();
        let error = cluster.as_user("system:serviceaccount:a:b").err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains("--as") && error.message.contains("a:b"), "{error}");
    }
    let program =
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/login"}});
    let file = kubeconfig(dir.path(), "https://127.0.0.1:1", &program);
    let error = connect(&options(&file)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
    assert!(error.to_string().contains("unable to run auth exec"), "{error}");
}

#[tokio::test]
async fn output_of_a_credential_program_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let answer = |token: &str| format!("echo '{{\"status\": {{\"token\": {token}}}}}'");
    let env = json!([{"name": "KEY", "value": "hunter2-in-env"}]);
    for (script, text) in [
        (format!("{}; exit 3", answer("\"hunter2\"")), "failed (exit status: 3)"),
        (format!("{}; exit 1", answer("\"hunter2\"")), "failed (exit status: 1)"),
        (answer("[\"hunter2\"]"), "did not print an ExecCredential; its output is hidden"),
        ("echo hunter2".to_owned(), "did not print an ExecCredential; its output is hidden"),
    ] {
        let program = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "env": env,
        }});
        let file = kubeconfig(dir.path(), "https://127.0.0.1:1", &program);
        let error = connect(&options(&file)).await.unwrap_err();
        let message = format!("{error} {error:?}");
        assert!(message.contains(text), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}
