//! Declared clusters behind an address of this machine, where one comes in the place of another.

use std::sync::Mutex;

use serde_json::json;
use tidegate_executor::Engine;
use tidegate_kube::{ExecProvider, Plugin};
use tidegate_model::Gvk;
use tidegate_oplog::MemoryLog;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::applications::watching::Watchings;
use crate::simulated;

/// A request: the cluster that it came to, by its UID, who asked by which credentials, and what.
type Asked = (String, String, String);

/// The address of API servers, one at a time.
struct Site {
    server: String,
    /// Which one it is; a connection leads to the one of its beginning, and ends with it.
    identity: watch::Sender<String>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Site {
    async fn of(identity: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (identity, asked) =
            (watch::Sender::new(identity.to_owned()), Arc::<Mutex<Vec<Asked>>>::default());
        let (now, log) = (identity.subscribe(), Arc::clone(&asked));
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
        Self { server, identity, asked }
    }

    /// From now on another one is there.
    fn is(&self, identity: &str) {
        self.identity.send_replace(identity.to_owned());
        self.asked.lock().unwrap().clear();
    }

    fn declaration(&self, secret: &str, token: &str) -> Declaration {
        Declaration {
            secret: secret.to_owned(),
            declared: Declared {
                name: "staging".to_owned(),
                server: self.server.clone(),
                token: token.to_owned(),
                ..Declared::default()
            },
            ..Declaration::default()
        }
    }

    /// What was asked of a cluster, but for who it is.
    fn asked_of(&self, identity: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let of = asked.iter().filter(|(own, _, line)| own == identity && !line.contains("kube-system"));
        of.map(|(_, token, line)| format!("{token}: {line}")).collect()
    }
}

async fn answer(stream: TcpStream, identity: &str, log: &Mutex<Vec<Asked>>) {
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

async fn begin() -> (Places, Engine) {
    let places = Places::new(Destination::Simulated, Arc::new(simulated::empty()), "default".to_owned());
    let engine = Engine::builder(Arc::new(MemoryLog::new())).start().await.unwrap();
    (places, engine)
}

/// A call to the cluster: nothing, or why it was not made.
async fn call(cluster: &Arc<dyn Cluster>) -> Option<String> {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    loop {
        let error = cluster.get(&gvk, "default", "a").await.err()?;
        // Then operations wait.
        assert!(error.kind.is_outage(), "{error:?}");
        // It takes a moment until it is seen that a connection has ended.
        if !error.message.contains("broke during") {
            return Some(error.message);
        }
    }
}

/// Asks until this cluster has answered.
async fn answered(places: &Places, engine: &Engine, identity: &str) -> Place {
    loop {
        places.ask(engine).await;
        let name = "staging".to_owned();
        let found = places.resolve(&ApplicationDestination { name, ..ApplicationDestination::default() });
        let is_it = |place: &Place| matches!(&place.destination, Destination::Kubernetes { uid, .. } if uid == identity);
        if let Some(place) = found.ok().filter(is_it) {
            return place;
        }
    }
}

#[tokio::test]
async fn a_cluster_in_the_place_of_another_gets_nothing_that_was_meant_for_that() {
    let site = Site::of("a").await;
    let (places, engine) = begin().await;
    places.declare(vec![site.declaration("argocd/staging", "t")]);
    let first = answered(&places, &engine, "a").await;
    assert_eq!(call(&first.cluster).await, None);
    assert!(!places.ask(&engine).await, "nothing is new");
    // Nobody has asked who is there since.
    site.is("b");
    let replaced = format!("another cluster answers at {}", site.server);
    assert_eq!(call(&first.cluster).await.as_ref(), Some(&replaced));
    assert_eq!(site.asked_of("b"), Vec::<String>::new());
    let second = answered(&places, &engine, "b").await;
    assert!(second.destination.is_replaced(&first.destination));
    assert!(places.is_there(&second.destination) && !places.is_there(&first.destination));
    assert_eq!((call(&second.cluster).await, call(&first.cluster).await), (None, Some(replaced.clone())));
    // When the first is back, what was begun there goes on there, and only that.
    site.is("a");
    assert_eq!(call(&second.cluster).await.as_ref(), Some(&replaced));
    assert_eq!(answered(&places, &engine, "a").await.destination, first.destination);
    assert_eq!((call(&first.cluster).await, call(&second.cluster).await), (None, Some(replaced)));
    engine.shutdown().await;
}

#[tokio::test]
async fn what_no_secret_declares_is_not_called_with_the_credentials_of_before() {
    let site = Site::of("a").await;
    let (places, engine) = begin().await;
    places.declare(vec![site.declaration("argocd/staging", "old")]);
    let first = answered(&places, &engine, "a").await;
    assert_eq!(call(&first.cluster).await, None);
    site.is("a");
    places.declare(Vec::new());
    places.ask(&engine).await;
    let message = call(&first.cluster).await.unwrap();
    assert!(message.contains("no Secret declares the cluster at"), "{message}");
    let twice = vec![site.declaration("argocd/one", "old"), site.declaration("argocd/two", "new")];
    places.declare(twice);
    places.ask(&engine).await;
    let message = call(&first.cluster).await.unwrap();
    assert!(message.contains("argocd/one, argocd/two"), "{message}");
    assert_eq!(site.asked_of("a"), Vec::<String>::new());
    // With those that count now it goes on.
    places.declare(vec![site.declaration("argocd/two", "new")]);
    answered(&places, &engine, "a").await;
    assert_eq!(call(&first.cluster).await, None);
    let asked = site.asked_of("a");
    assert!(!asked.is_empty() && asked.iter().all(|line| line.starts_with("Bearer new: ")), "{asked:?}");
    engine.shutdown().await;
}

#[tokio::test]
async fn whether_a_cluster_is_there_is_not_known_before_it_was_asked_and_its_secret_was_seen() {
    let site = Site::of("a").await;
    let (places, engine) = begin().await;
    let name = "staging".to_owned();
    let wanted = ApplicationDestination { name, ..ApplicationDestination::default() };
    places.await_secrets();
    assert!(places.unasked(&wanted).is_some(), "nobody knows what is declared");
    places.declare(vec![site.declaration("argocd/staging", "t")]);
    places.have_come();
    assert!(places.unasked(&wanted).is_some(), "nobody has asked");
    let (watching, _) = Watchings::new();
    let connected = || {
        let all = places.standing(&watching).into_iter();
        all.map(|one| (one.names.join(" "), one.is_connected)).collect::<Vec<_>>()
    };
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), false)]);
    places.ask(&engine).await;
    assert_eq!(places.unasked(&wanted), None);
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), true)]);
    // One that does not answer was asked all the same.
    places.declare(vec![Declaration {
        declared: Declared {
            name: "dead".to_owned(),
            server: "http://127.0.0.1:1".to_owned(),
            ..Declared::default()
        },
        ..site.declaration("argocd/dead", "")
    }]);
    places.ask(&engine).await;
    let wanted = ApplicationDestination { name: "dead".to_owned(), ..ApplicationDestination::default() };
    assert!(matches!(places.resolve(&wanted), Err(NoPlace::Away(_))));
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("dead".to_owned(), false)]);
    // Two Secrets for one cluster: it cannot be used, and counts once.
    places.declare(vec![
        site.declaration("argocd/one", "t"),
        Declaration {
            declared: Declared { name: "twin".to_owned(), ..site.declaration("argocd/two", "t").declared },
            ..site.declaration("argocd/two", "t")
        },
    ]);
    places.ask(&engine).await;
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging twin".to_owned(), false)]);
    places.declare(vec![Declaration {
        problem: Some("its config is no JSON".to_owned()),
        ..site.declaration("argocd/staging", "t")
    }]);
    assert_eq!(connected(), [("in-cluster".to_owned(), true), ("staging".to_owned(), false)]);
    engine.shutdown().await;
}

/// A declaration whose credentials a shell script gives.
fn with_program(mut declaration: Declaration, script: &str) -> Declaration {
    declaration.declared.exec = Some(Plugin::new(ExecProvider {
        secret: declaration.secret.clone(),
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        api_version: "client.authentication.k8s.io/v1".to_owned(),
        ..ExecProvider::default()
    }));
    declaration
}

/// What prints a token, which is made of words of the shell.
fn prints(token: &str, ends: &str) -> String {
    let status = format!("{{\"token\": \"'{token}'\", \"expirationTimestamp\": \"{ends}\"}}");
    format!(
        "echo '{{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {status}}}'"
    )
}

fn named(name: &str) -> ApplicationDestination {
    ApplicationDestination { name: name.to_owned(), ..ApplicationDestination::default() }
}

#[tokio::test]
async fn a_program_that_hangs_holds_back_only_its_own_cluster() {
    let (slow, other) = (Site::of("a").await, Site::of("b").await);
    let (places, engine) = begin().await;
    let places = places.with_programs(BTreeSet::from(["sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let hangs = format!(
        "while [ ! -e {} ]; do sleep 0.05; done; {}",
        go.display(),
        prints("t", "2999-01-01T00:00:00Z")
    );
    let mut beside = other.declaration("argocd/beside", "u");
    beside.declared.name = "beside".to_owned();
    places.declare(vec![with_program(slow.declaration("argocd/staging", ""), &hangs), beside]);
    let wanted = named("beside");
    tokio::select! {
        _ = places.ask(&engine) => panic!("it waits for the one that hangs"),
        () = places.reached(&wanted) => {}
    }
    assert!(places.resolve(&named("beside")).is_ok());
    assert!(matches!(places.resolve(&named("staging")), Err(NoPlace::Unasked(_))));
    std::fs::write(&go, "").unwrap();
    let place = answered(&places, &engine, "a").await;
    assert_eq!(call(&place.cluster).await, None);
    assert_eq!(
        slow.asked_of("a").last().unwrap(),
        "Bearer t: GET /api/v1/namespaces/default/configmaps/a HTTP/1.1"
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn credentials_that_have_ended_are_shown_to_nobody() {
    let site = Site::of("a").await;
    let (places, engine) = begin().await;
    let places = places.with_programs(BTreeSet::from(["sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let count = folder.path().join("count");
    // The first one has ended when it is given; the others have not.
    let script = format!(
        "echo x >> {0}; if [ $(wc -l < {0}) = 1 ]; then {1}; else {2}; fi",
        count.display(),
        prints("old", "2020-01-01T00:00:00Z"),
        prints("new", "2999-01-01T00:00:00Z")
    );
    places.declare(vec![with_program(site.declaration("argocd/staging", ""), &script)]);
    let place = answered(&places, &engine, "a").await;
    assert_eq!(call(&place.cluster).await, None);
    let asked = site.asked.lock().unwrap().clone();
    assert!(!asked.is_empty() && asked.iter().all(|(_, token, _)| token == "Bearer new"), "{asked:?}");
    // Once for what has ended, and once for all that is asked since.
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "x\nx\n");
    engine.shutdown().await;
}

#[tokio::test]
async fn no_program_is_run_that_is_not_named() {
    let site = Site::of("a").await;
    let (places, engine) = begin().await;
    let places = places.with_programs(BTreeSet::from(["/bin/sh".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let script = format!("touch {}", ran.display());
    places.declare(vec![with_program(site.declaration("argocd/staging", ""), &script)]);
    places.ask(&engine).await;
    let said = places.resolve(&named("staging")).err().unwrap().to_string();
    assert!(said.contains("--allow-exec-credentials sh") && said.contains("argocd/staging"), "{said}");
    assert!(!ran.exists() && site.asked.lock().unwrap().is_empty());
    engine.shutdown().await;
}
