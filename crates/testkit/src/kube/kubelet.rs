//! A kubelet, as far as it gives logs: a node whose containers write what a test says, when it says so.
//!
//! The API server asks it as it asks any kubelet, over HTTPS, and does not verify its certificate unless it is told to. Pods get
//! there by their `spec.nodeName`; their status is written by the simulator of nodes, or by the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Caller, ControlPlane, User};

/// A node and its kubelet. It listens for as long as the process lives.
pub struct Kubelet {
    /// The name of the node.
    pub node: String,
    logs: Arc<Logs>,
}

/// What the containers of each namespace have written; all containers of one write the same.
#[derive(Default)]
struct Logs {
    logs: Mutex<BTreeMap<String, Log>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct Log {
    /// Each with its time.
    lines: Vec<(Timestamp, String)>,
    has_ended: bool,
    /// How often connections were cut.
    cuts: u64,
    /// The paths that were asked for.
    asked: Vec<String>,
}

impl Kubelet {
    /// Registers a node, whose name no other test has, and listens.
    pub async fn start(control: &ControlPlane) -> Self {
        let node = control.name("talking");
        let logs = Arc::<Logs>::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, acceptor(), Arc::clone(&logs)));
        register(&control.caller(User::CONTROLLERS), &node, address).await;
        Self { node, logs }
    }

    /// The containers of a namespace write a line.
    pub fn write(&self, namespace: &str, line: &str) {
        let line = (SystemClock.now(), line.to_owned());
        self.change(namespace, |log| log.lines.push(line));
    }

    /// They end.
    pub fn end(&self, namespace: &str) {
        self.change(namespace, |log| log.has_ended = true);
    }

    /// The connections break by which they are followed.
    pub fn cut(&self, namespace: &str) {
        self.change(namespace, |log| log.cuts += 1);
    }

    /// The paths that the API server has asked for.
    pub fn asked(&self, namespace: &str) -> Vec<String> {
        self.logs.of(namespace).map(|log| log.asked).unwrap_or_default()
    }

    fn change(&self, namespace: &str, change: impl FnOnce(&mut Log)) {
        change(self.logs.logs.lock().unwrap().entry(namespace.to_owned()).or_default());
        self.logs.changed.send_modify(|count| *count += 1);
    }
}

impl Logs {
    fn of(&self, namespace: &str) -> Option<Log> {
        self.logs.lock().unwrap().get(namespace).cloned()
    }
}

async fn register(caller: &Caller, node: &str, address: SocketAddr) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    caller.post("/api/v1/nodes", &object).await.unwrap();
    let status: Value = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}],
    }});
    caller.patch(&format!("/api/v1/nodes/{node}/status"), &status).await.unwrap();
}

fn acceptor() -> TlsAcceptor {
    let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, logs: Arc<Logs>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, logs) = (acceptor.clone(), Arc::clone(&logs));
        // Whoever goes away is served no longer.
        tokio::spawn(async move { serve(acceptor.accept(stream).await?, &logs).await });
    }
}

/// One request of a connection: `GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&…`.
async fn serve(mut stream: TlsStream<TcpStream>, logs: &Logs) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let namespace = path.split('/').nth(2).unwrap_or_default();
    let is_known = {
        let mut all = logs.logs.lock().unwrap();
        all.get_mut(namespace).map(|log| log.asked.push(target.clone())).is_some()
    };
    if !is_known {
        let refusal =
            "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 7\r\n\r\nunknown";
        stream.write_all(refusal.as_bytes()).await?;
        return stream.shutdown().await;
    }
    tell(stream, logs, namespace, &Query::of(query)).await
}

/// What is asked of a log.
struct Query {
    follow: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
}

impl Query {
    fn of(text: &str) -> Self {
        let value = |name: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(known, _)| *known == name).map(|(_, value)| value.replace("%3A", ":")).next()
        };
        Self {
            follow: value("follow").as_deref() == Some("true"),
            timestamps: value("timestamps").as_deref() == Some("true"),
            since: value("sinceTime").map(|time| time.parse().unwrap()),
            tail: value("tailLines").map(|lines| lines.parse().unwrap()),
        }
    }
}

async fn tell(
    mut stream: TlsStream<TcpStream>,
    logs: &Logs,
    namespace: &str,
    query: &Query,
) -> io::Result<()> {
    let mut changed = logs.changed.subscribe();
    let first = logs.of(namespace).unwrap_or_default();
    let before = first.lines.iter().filter(|(at, _)| query.since.is_some_and(|since| *at < since)).count();
    let tail = query.tail.map_or(0, |lines| first.lines.len().saturating_sub(lines));
    let (mut next, mut has_begun) = (before.max(tail), false);
    loop {
        changed.borrow_and_update();
        let log = logs.of(namespace).unwrap_or_default();
        if log.cuts != first.cuts {
            // In the middle of the answer, without its end.
            return Ok(());
        }
        let mut text = String::new();
        for (at, line) in log.lines.iter().skip(next) {
            // A container's lines within a millisecond have the same time here.
            let time = at.to_string().replace('Z', "000042Z");
            let _ = if query.timestamps { writeln!(text, "{time} {line}") } else { writeln!(text, "{line}") };
        }
        next = log.lines.len();
        let is_over = log.has_ended || !query.follow;
        if !has_begun && (!text.is_empty() || is_over) {
            has_begun = true;
            // As a kubelet: nothing is answered before there is something to tell.
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
        }
        if !text.is_empty() {
            stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
            stream.flush().await?;
        }
        if is_over {
            stream.write_all(b"0\r\n\r\n").await?;
            return stream.shutdown().await;
        }
        let mut byte = [0; 1];
        tokio::select! {
            _ = changed.changed() => {}
            // Who asks says nothing more.
            _ = stream.read(&mut byte) => return Ok(()),
        }
    }
}
