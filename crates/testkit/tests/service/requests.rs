//! Requests to replicas that share the shards. Each replica answers requests about all Applications, with the help of the
//! owner.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_daemon::queries::Queries;
use tidegate_executor::list_summaries;
use tidegate_oplog::{Log, Lookup, MemoryLog, OwnedShards, Shard};
use tidegate_server::{Owner, PeerTls, Server, ServerState, Settings, ShardOwners};

use crate::invariants;
use crate::random_life::deployed_commit;
use crate::user_documents::{self, BASE_APP, Fleet, STANDALONE_APP};
use crate::world::{Life, World};

const TOKEN: &str = "operators-may-have-things-done";
const QUIET_TIME: Duration = Duration::from_secs(300);
/// Only a hanging server takes this long.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Virtual time that passes in each step of real time during a request.
const VIRTUAL_STEP: Duration = Duration::from_millis(20);
const REAL_STEP: Duration = Duration::from_millis(5);
/// Time after a commit until an operation is running.
const SYNC_TIME: Duration = Duration::from_secs(4);

/// A replica with its API.
struct Replica {
    life: Life,
    log: MemoryLog,
    state: Arc<ServerState>,
    server: Server,
    _tokens: TempDir,
}

impl Replica {
    async fn start((life, own): (Life, MemoryLog)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens");
        fs::write(&tokens, format!("ann operator {TOKEN}\n")).unwrap();
        fs::set_permissions(&tokens, Permissions::from_mode(0o600)).unwrap();
        let mut settings = Settings::new("127.0.0.1:0".parse().unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let secrets = dir.path().join("secrets");
        fs::write(&secrets, format!("webhook.gitlab.secret: {TOKEN}\n")).unwrap();
        fs::set_permissions(&secrets, Permissions::from_mode(0o600)).unwrap();
        (settings.tokens, settings.webhooks) = (Some(tokens), Some(secrets));
        settings.peer_tls = Some(PeerTls { config: Arc::new(config), server_name: None });
        let state = Arc::new(ServerState::default());
        let server = Server::listen(&settings, &state).await.unwrap();
        let log: Log = Arc::new(own.clone());
        let queries = Queries::with_engine(log, life.engine());
        queries.set_appsets(life.appsets());
        queries.set_applications(life.applications());
        state.set_handles(Arc::new(queries), life.engine());
        Self { life, log: own, state, server, _tokens: dir }
    }

    fn owner(&self) -> Owner {
        Owner::other("another replica", Some(&format!("http://{}", self.server.address())))
    }

    /// Sends a request, and returns the status and the body.
    async fn send(
        &self,
        method: &'static str,
        path: &str,
        headers: &'static str,
        body: Value,
    ) -> (u16, Value) {
        let (address, path) = (self.server.address(), path.to_owned());
        let (response, mut received) = mpsc::channel();
        std::thread::spawn(move || response.send(exchange(address, method, &path, headers, &body)));
        loop {
            // Virtual time stands still during a blocking call, so that connections make progress.
            let wait = move || (received.recv_timeout(REAL_STEP), received);
            match tokio::task::spawn_blocking(wait).await.unwrap() {
                (Ok(response), _) => return response,
                (Err(RecvTimeoutError::Timeout), waiting) => received = waiting,
                (Err(RecvTimeoutError::Disconnected), _) => panic!("the request failed"),
            }
            tokio::time::sleep(VIRTUAL_STEP).await;
        }
    }

    /// Follows the events on another thread.
    fn follow_events(&self, path: &str) -> EventStream {
        let (address, path) = (self.server.address(), path.to_owned());
        let (chunks, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let head =
                format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if chunks.send(String::from_utf8_lossy(&buffer[..count]).into_owned()).is_err() {
                    return;
                }
            }
        });
        let received = Arc::new(Mutex::new((String::new(), received)));
        EventStream { received }
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, "", json!({})).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, body) = self.send("POST", path, "", body).await;
        assert!((200..300).contains(&status), "{path}: {status} {body}");
        body
    }
}

struct EventStream {
    /// Text that was read so far, and the rest.
    received: Arc<Mutex<(String, Receiver<String>)>>,
}

impl EventStream {
    /// Waits until the stream contains what is wanted, without virtual time passing. Returns everything received.
    async fn wait_for(&self, is_wanted: impl Fn(&str) -> bool + Send + 'static) -> String {
        let received = Arc::clone(&self.received);
        let wait = move || {
            let mut received = received.lock().unwrap();
            let (text, chunks) = &mut *received;
            while !is_wanted(text) {
                let chunk = chunks.recv_timeout(RESPONSE_TIMEOUT);
                text.push_str(&chunk.unwrap_or_else(|error| panic!("{error}: {text}")));
            }
            text.clone()
        };
        tokio::task::spawn_blocking(wait).await.unwrap()
    }
}

/// Returns true if a stream contains the end of an Application's operation.
fn has_operation_end(text: &str, name: &str) -> bool {
    let mut lines = text.lines().filter(|line| line.starts_with("data: {\"operation\":"));
    lines.any(|line| line.contains(&format!("\"app\":\"{name}\"")) && line.contains("\"kind\":\"finished\""))
}

fn exchange(address: SocketAddr, method: &str, path: &str, headers: &str, body: &Value) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).unwrap();
    let body = body.to_string();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

/// Returns the owners of all shards for the replica that owns `own`.
fn owners(own: &BTreeSet<Shard>, other: &Replica) -> ShardOwners {
    let owner = |shard: &Shard| if own.contains(shard) { Owner::This } else { other.owner() };
    Shard::all().map(|shard| (shard, owner(&shard))).collect()
}

/// Removes the time of the last comparison and the version of the resource. A comparison without a difference isn't
/// stored, so only the owner knows its time, and the owner doesn't read its own writes.
fn without_versions(mut body: Value) -> Value {
    match &mut body {
        Value::Object(fields) => {
            for name in ["reconciledAt", "resourceVersion", "generation"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(|value| *value = without_versions(value.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = without_versions(value.take())),
        _ => {}
    }
    body
}

#[test]
fn every_replica_answers_for_the_owner() {
    let world = World::new(7, 0.0);
    let members = [("a", 0), ("b", 0)].map(|(name, step)| (name.to_owned(), step)).into();
    let fleet = Fleet { members, max_update: vec![None], rollout: None, deletion: "Reverse" };
    let (repository, names) = (world.repository(), ["a", "b", STANDALONE_APP, BASE_APP]);
    user_documents::commit(&repository, names, (1, None));
    world.run(async || {
        let mut lives = world.start_replicas(2).await.into_iter();
        let [first, second] = [lives.next().unwrap(), lives.next().unwrap()];
        let (first, second) = (Replica::start(first).await, Replica::start(second).await);
        // The first replica manages the Applications outside the ApplicationSet, and the second the ApplicationSet.
        let set = Shard::of_key("argocd/fleet");
        let (of_first, of_second): (BTreeSet<_>, BTreeSet<_>) = Shard::all().partition(|shard| *shard != set);
        assert!(![STANDALONE_APP, BASE_APP].iter().any(|name| Shard::of_key(name) == set));
        first.life.controllers().release_others(&of_first).await.unwrap();
        first.log.set_owned_shards(OwnedShards::Only(of_first.clone()));
        second.log.set_owned_shards(OwnedShards::Only(of_second.clone()));
        second.life.controllers().manage(&of_second).await.unwrap();
        first.state.set_shard_owners(owners(&of_first, &second));
        second.state.set_shard_owners(owners(&of_second, &first));
        world.write(user_documents::application(&repository, STANDALONE_APP, Some(BASE_APP))).await;
        world.write(user_documents::application(&repository, BASE_APP, None)).await;
        world.write(fleet.document(&repository)).await;
        world.wait_for_quiet(QUIET_TIME).await;

        // Lists and resources come from the replica itself, and are the same.
        for path in ["/api/v1/applications", "/api/v1/applicationsets", "/api/v1/applications/argocd/a"] {
            let [shown, other] = [&first, &second].map(|replica| replica.get(path));
            assert_eq!(without_versions(shown.await), without_versions(other.await), "{path}");
        }
        assert_eq!(first.get("/api/v1/applications").await["total"], 4);

        // A stream contains the events of both replicas, wherever the client is connected.
        let streams = [&first, &second].map(|replica| replica.follow_events("/api/v1/events"));
        for stream in &streams {
            stream.wait_for(|text| text.contains("id: ")).await;
        }

        // Both replicas receive each webhook event.
        let gitlab = "x-gitlab-event: Push Hook\r\nx-gitlab-token: operators-may-have-things-done\r\n";
        let push = json!({"ref": "refs/heads/main", "before": "1".repeat(40), "project": {"web_url": "https://example.com/a"}});
        let (status, body) = first.send("POST", "/api/webhook", gitlab, push).await;
        assert_eq!(status, 202, "{body}");
        let received = "route=\"tellPush\",status=\"202\"} 1";
        let metrics = async {
            loop {
                let metrics = second.get("/metrics").await;
                if metrics.as_str().is_some_and(|metrics| metrics.contains(received)) {
                    return;
                }
            }
        };
        // Virtual time passes during each request.
        tokio::time::timeout(QUIET_TIME, metrics).await.expect("the event has not arrived");

        // Both replicas refresh and plan all Applications and the ApplicationSet.
        user_documents::commit(&repository, names, (2, None));
        for replica in [&first, &second] {
            replica.get("/api/v1/applicationsets/argocd/fleet/explain").await;
            for name in ["a", STANDALONE_APP] {
                let plan = replica.get(&format!("/api/v1/applications/argocd/{name}/plan")).await;
                assert!(plan.to_string().contains("Deployment"), "{plan}");
            }
        }
        second.post("/api/v1/applications/argocd/base/refresh", json!({})).await;
        first.post("/api/v1/applications/argocd/a/refresh", json!({})).await;
        tokio::time::sleep(SYNC_TIME).await;

        // Requests for a running operation reach the replica that runs it.
        let log: Log = Arc::new(world.log.clone());
        let open = list_summaries(&log, Lookup::open()).unwrap();
        assert!(open.iter().any(|open| open.application == "a"), "{open:?}");
        assert!(open.iter().any(|open| open.application == BASE_APP), "{open:?}");
        let replicas = [&first, &second];
        for (one, replica) in open.iter().zip(replicas.iter().cycle()) {
            let path = format!("/api/v1/operations/{}/pause", one.operation);
            assert_eq!(replica.post(&path, json!({})).await["isRunning"], true);
        }
        for (one, other) in open.iter().zip(replicas.iter().cycle().skip(1)) {
            let path = format!("/api/v1/operations/{}", one.operation);
            for replica in replicas {
                let shown = replica.get(&path).await;
                assert_eq!(shown["isRunning"], true, "{shown}");
                let listed = replica.get("/api/v1/operations?open=true").await;
                let listed = listed["items"].as_array().unwrap();
                assert!(listed.iter().all(|one| one["isRunning"] != false), "{listed:?}");
            }
            assert_eq!(other.post(&format!("{path}/unpause"), json!({})).await["isRunning"], true);
        }
        // A request is forwarded only once.
        let forwarded = "x-tidegate-forwarded: 1\r\n";
        let path = "/api/v1/applications/argocd/a/sync";
        let (status, body) = first.send("POST", path, forwarded, json!({})).await;
        assert_eq!((status, &body["code"]), (503, &json!("not-ready")), "{body}");

        world.wait_for_quiet(QUIET_TIME).await;
        second.post(&format!("/api/v1/applications/argocd/{STANDALONE_APP}/sync"), json!({})).await;
        world.wait_for_quiet(QUIET_TIME).await;
        for name in names {
            assert_eq!(deployed_commit(&world, name).await, Some(2), "{name}");
        }
        for (stream, other) in streams.iter().zip([&second, &first]) {
            let text = stream.wait_for(move |text| names.iter().all(|name| has_operation_end(text, name))).await;
            let events = text.lines().filter_map(|line| line.strip_prefix("data: {\"operation\":"));
            let numbers: Vec<_> = events.map(|event| event.split("\"kind\"").next().unwrap()).collect();
            let distinct: BTreeSet<_> = numbers.iter().collect();
            assert_eq!(distinct.len(), numbers.len(), "an event was sent twice: {text}");
            // The client continues at the other replica.
            let last = text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
            let resumed = other.follow_events(&format!("/api/v1/events?lastEventId={last}"));
            let resumed = resumed.wait_for(|text| text.contains("id: ")).await;
            assert!(!resumed.contains("event: reset"), "{resumed}");
        }
        for replica in [first, second] {
            replica.server.close().await;
        }
    });
    invariants::check_single_operation(&world.sim);
    invariants::check_hooks_run_once(&world.sim);
}
