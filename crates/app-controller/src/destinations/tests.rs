//! Declared clusters at a local address where one cluster replaces another.

use std::sync::Mutex;

use serde_json::json;
use tidegate_executor::Engine;
use tidegate_kube::{ExecPlugin, ExecProvider};
use tidegate_model::Gvk;
use tidegate_oplog::MemoryLog;
use tidegate_state::simulated;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::watches::WatchRegistry;

/// A received request: the UID of its cluster, its credentials and its content.
type ReceivedRequest = (String, String, String);

/// Address at which one API server at a time responds.
struct ServerAddress {
    server: String,
    /// UID of the current cluster. A connection belongs to the cluster for which it was opened and is closed
    /// when that cluster is replaced.
    identity: watch::Sender<String>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ServerAddress {
    async fn new(identity: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (identity, requests) =
            (watch::Sender::new(identity.to_owned()), Arc::<Mutex<Vec<ReceivedRequest>>>::default());
        let (now, log) = (identity.subscribe(), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut replaced, log) = (now.clone(), Arc::clone(&log));
                let own = replaced.borrow_and_update().clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = replaced.changed() => {}
                        () = answer(stream, &own, &log) => {}
                    }
                });
            }
        });
        Self { server, identity, requests }
    }

    /// Replaces the current cluster.
    fn set_identity(&self, identity: &str) {
        self.identity.send_replace(identity.to_owned());
        self.requests.lock().unwrap().clear();
    }

    fn declaration(&self, secret: &str, token: &str) -> ClusterSecret {
        ClusterSecret {
            secret_name: secret.to_owned(),
            connection: ClusterConnection {
                name: "staging".to_owned(),
                server: self.server.clone(),
                token: token.to_owned(),
                ..ClusterConnection::default()
            },
            ..ClusterSecret::default()
        }
    }

    /// Returns the requests to a cluster, except requests for its identity.
    fn requests_to(&self, identity: &str) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let of = requests.iter().filter(|(own, _, line)| own == identity && !line.contains("kube-system"));
        of.map(|(_, token, line)| format!("{token}: {line}")).collect()
    }
}

async fn answer(stream: TcpStream, identity: &str, log: &Mutex<Vec<ReceivedRequest>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length, mut token) = (String::new(), 0, String::new());
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse().unwrap();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                    value.clone_into(&mut token)
                }
                _ if line == "\r\n" => break,
                _ => {}
            }
            if head.is_empty() {
                line.trim_end().clone_into(&mut head);
            }
        }
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        log.lock().unwrap().push((identity.to_owned(), token, head.clone()));
        let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap();
        let body = match path {
            "/api/v1/namespaces/kube-system" => json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": identity},
            }),
            "/api/v1" => json!({
                "kind": "APIResourceList", "groupVersion": "v1",
                "resources": [{
                    "name": "configmaps", "singularName": "configmap", "namespaced": true, "kind": "ConfigMap",
                    "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
                }],
            }),
            _ => json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "1"},
            }),
        }
        .to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if stream.get_mut().write_all(format!("{head}{body}").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn start() -> (Destinations, Engine) {
    let places =
        Destinations::new(Destination::Simulated, Arc::new(simulated::empty_cluster()), "default".to_owned());
    let engine = Engine::builder(Arc::new(MemoryLog::new())).start().await.unwrap();
    (places, engine)
}

/// Calls the cluster. Returns the error if the call fails.
async fn call_cluster(cluster: &Arc<dyn Cluster>) -> Option<String> {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    loop {
        let error = cluster.get(&gvk, "default", "a").await.err()?;
        // An error of this kind makes operations wait.
        assert!(error.kind.is_outage(), "{error:?}");
        // It takes the client a moment to notice that a connection was closed.
        if !error.message.contains("was lost during") {
            return Some(error.message);
        }
    }
}

/// Checks the clusters until the cluster with the given identity has responded.
async fn await_response(places: &Destinations, engine: &Engine, identity: &str) -> ResolvedDestination {
    loop {
        places.check_all(engine).await;
        let name = "staging".to_owned();
        let found = places.resolve(&ApplicationDestination { name, ..ApplicationDestination::default() });
        let is_it = |place: &ResolvedDestination| matches!(&place.destination, Destination::Kubernetes { uid, .. } if uid == identity);
        if let Some(place) = found.ok().filter(is_it) {
            return place;
        }
    }
}

#[tokio::test]
async fn a_replaced_cluster_gets_no_request_that_was_meant_for_the_former_one() {
    let api_server = ServerAddress::new("a").await;
    let (places, engine) = start().await;
    places.declare(vec![api_server.declaration("argocd/staging", "t")]);
    let first = await_response(&places, &engine, "a").await;
    assert_eq!(call_cluster(&first.cluster).await, None);
    assert!(!places.check_all(&engine).await, "nothing has changed");
    // No health check has noticed the change yet.
    api_server.set_identity("b");
    let replaced = format!("a different cluster responds at {}", api_server.server);
    assert_eq!(call_cluster(&first.cluster).await.as_ref(), Some(&replaced));
    assert_eq!(api_server.requests_to("b"), Vec::<String>::new());
    let second = await_response(&places, &engine, "b").await;
    assert!(second.destination.is_replaced_by(&first.destination));
    assert!(places.is_reachable(&second.destination) && !places.is_reachable(&first.destination));
    assert_eq!(
        (call_cluster(&second.cluster).await, call_cluster(&first.cluster).await),
        (None, Some(replaced.clone()))
    );
    // When the first cluster is back, only its own work continues there.
    api_server.set_identity("a");
    assert_eq!(call_cluster(&second.cluster).await.as_ref(), Some(&replaced));
    assert_eq!(await_response(&places, &engine, "a").await.destination, first.destination);
    assert_eq!(
        (call_cluster(&first.cluster).await, call_cluster(&second.cluster).await),
        (None, Some(replaced))
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn an_undeclared_cluster_is_not_called_with_its_former_credentials() {
    let api_server = ServerAddress::new("a").await;
    let (places, engine) = start().await;
    places.declare(vec![api_server.declaration("argocd/staging", "old")]);
    let first = await_response(&places, &engine, "a").await;
    assert_eq!(call_cluster(&first.cluster).await, None);
    api_server.set_identity("a");
    places.declare(Vec::new());
    places.check_all(&engine).await;
    let message = call_cluster(&first.cluster).await.unwrap();
    assert!(message.contains("no Secret declares the cluster at"), "{message}");
    // Two Secrets for the same server also block calls, even if they spell the address differently.
    for server in [api_server.server.clone(), api_server.server.replace("127.0.0.1", "127.1")] {
        let mut twice =
            vec![api_server.declaration("argocd/one", "old"), api_server.declaration("argocd/two", "new")];
        twice[1].connection.server = server;
        places.declare(twice);
        places.check_all(&engine).await;
        let message = call_cluster(&first.cluster).await.unwrap();
        assert!(message.contains("argocd/one, argocd/two"), "{message}");
    }
    assert_eq!(api_server.requests_to("a"), Vec::<String>::new());
    // The cluster continues with the current credentials.
    places.declare(vec![api_server.declaration("argocd/two", "new")]);
    await_response(&places, &engine, "a").await;
    assert_eq!(call_cluster(&first.cluster).await, None);
    let requests = api_server.requests_to("a");
    assert!(
        !requests.is_empty() && requests.iter().all(|line| line.starts_with("Bearer new: ")),
        "{requests:?}"
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn reachability_is_unknown_before_the_secrets_are_read_and_checked() {
    let api_server = ServerAddress::new("a").await;
    let (places, engine) = start().await;
    let name = "staging".to_owned();
    let destination = ApplicationDestination { name, ..ApplicationDestination::default() };
    places.await_secrets();
    assert!(places.unchecked_reason(&destination).is_some(), "no declarations have been read");
    places.declare(vec![api_server.declaration("argocd/staging", "t")]);
    places.mark_secrets_listed();
    assert!(places.unchecked_reason(&destination).is_some(), "no connection was attempted");
    let (watching, _) = WatchRegistry::new();
    let connected = || {
        let all = places.cluster_statuses(&watching).into_iter();
        all.map(|one| (one.names.join(" "), one.is_connected)).collect::<Vec<_>>()
    };
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), false)]);
    places.check_all(&engine).await;
    assert_eq!(places.unchecked_reason(&destination), None);
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), true)]);
    // A cluster that doesn't respond is still considered checked.
    places.declare(vec![ClusterSecret {
        connection: ClusterConnection {
            name: "dead".to_owned(),
            server: "http://127.0.0.1:1".to_owned(),
            ..ClusterConnection::default()
        },
        ..api_server.declaration("argocd/dead", "")
    }]);
    places.check_all(&engine).await;
    let destination = ApplicationDestination { name: "dead".to_owned(), ..ApplicationDestination::default() };
    assert!(matches!(places.resolve(&destination), Err(DestinationError::Unreachable(_))));
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("dead".to_owned(), false)]);
    // A cluster that two Secrets declare can't be used, and is only counted once.
    places.declare(vec![
        api_server.declaration("argocd/one", "t"),
        ClusterSecret {
            connection: ClusterConnection {
                name: "twin".to_owned(),
                ..api_server.declaration("argocd/two", "t").connection
            },
            ..api_server.declaration("argocd/two", "t")
        },
    ]);
    places.check_all(&engine).await;
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging twin".to_owned(), false)]);
    let mut twin = api_server.declaration("argocd/two", "t");
    twin.connection.name = "twin".to_owned();
    twin.connection.server = api_server.server.replace("127.0.0.1", "127.1");
    places.declare(vec![api_server.declaration("argocd/one", "t"), twin]);
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging twin".to_owned(), false)]);
    places.declare(vec![ClusterSecret {
        problem: Some("config is not JSON".to_owned()),
        ..api_server.declaration("argocd/staging", "t")
    }]);
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), false)]);
    engine.shutdown().await;
}

/// Returns a declaration that gets its credentials from a shell script.
fn with_program(mut declaration: ClusterSecret, script: &str) -> ClusterSecret {
    declaration.connection.exec = Some(ExecPlugin::new(ExecProvider {
        secret: declaration.secret_name.clone(),
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        ..ExecProvider::default()
    }));
    declaration
}

/// Returns a script that prints an `ExecCredential`. The shell expands `token`.
fn print_token_script(token: &str, ends: &str) -> String {
    let status = format!("{{\"token\": \"'{token}'\", \"expirationTimestamp\": \"{ends}\"}}");
    format!(
        "echo '{{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {status}}}'"
    )
}

fn named(name: &str) -> ApplicationDestination {
    ApplicationDestination { name: name.to_owned(), ..ApplicationDestination::default() }
}

#[tokio::test]
async fn a_plugin_that_hangs_delays_only_its_own_cluster() {
    let (slow, other) = (ServerAddress::new("a").await, ServerAddress::new("b").await);
    let (places, engine) = start().await;
    let places = places.with_exec_plugins(BTreeSet::from(["sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let hangs = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; {}",
        go.display(),
        print_token_script("t", "2999-01-01T00:00:00Z")
    );
    let mut beside = other.declaration("argocd/beside", "u");
    beside.connection.name = "beside".to_owned();
    places.declare(vec![with_program(slow.declaration("argocd/staging", ""), &hangs), beside]);
    let destination = named("beside");
    tokio::select! {
        _ = places.check_all(&engine) => panic!("the check finished although a plugin hangs"),
        () = places.await_reachable(&destination) => {}
    }
    assert!(places.resolve(&named("beside")).is_ok());
    assert!(matches!(places.resolve(&named("staging")), Err(DestinationError::Unchecked(_))));
    std::fs::write(&go, "").unwrap();
    let place = await_response(&places, &engine, "a").await;
    assert_eq!(call_cluster(&place.cluster).await, None);
    assert_eq!(
        slow.requests_to("a").last().unwrap(),
        "Bearer t: GET /api/v1/namespaces/default/configmaps/a HTTP/1.1"
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn expired_credentials_are_sent_to_no_cluster() {
    let api_server = ServerAddress::new("a").await;
    let (places, engine) = start().await;
    let places = places.with_exec_plugins(BTreeSet::from(["sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    // The first token has already expired when it is issued. The other tokens haven't.
    let script = format!(
        "echo x >> {0}; if [ $(wc -l < {0}) = 1 ]; then {1}; else {2}; fi",
        count.display(),
        print_token_script("old", "2020-01-01T00:00:00Z"),
        print_token_script("new", "2999-01-01T00:00:00Z")
    );
    places.declare(vec![with_program(api_server.declaration("argocd/staging", ""), &script)]);
    let place = await_response(&places, &engine, "a").await;
    assert_eq!(call_cluster(&place.cluster).await, None);
    let requests = api_server.requests.lock().unwrap().clone();
    assert!(
        !requests.is_empty() && requests.iter().all(|(_, token, _)| token == "Bearer new"),
        "{requests:?}"
    );
    // The script ran once for the expired token and once for all later requests.
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\n");
    engine.shutdown().await;
}

#[tokio::test]
async fn only_permitted_plugins_are_run() {
    let api_server = ServerAddress::new("a").await;
    let (places, engine) = start().await;
    let places = places.with_exec_plugins(BTreeSet::from(["/bin/sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let script = format!("touch {}", ran.display());
    places.declare(vec![with_program(api_server.declaration("argocd/staging", ""), &script)]);
    places.check_all(&engine).await;
    let error = places.resolve(&named("staging")).err().unwrap().to_string();
    assert!(error.contains("--allow-exec-credentials sh") && error.contains("argocd/staging"), "{error}");
    assert!(!ran.exists() && api_server.requests.lock().unwrap().is_empty());
    engine.shutdown().await;
}
