//! Kubelet that serves logs: a node with containers that write lines on request.
//!
//! The API server calls this kubelet over HTTPS, like any other, and doesn't verify its certificate by
//! default. Pods are assigned to the node with `spec.nodeName`, and the node simulator or the test writes
//! their status.

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

use super::{ApiClient, ControlPlane, User};

/// Node with a kubelet that listens until the process exits.
pub struct Kubelet {
    /// Name of the node.
    pub node: String,
    logs: Arc<Logs>,
}

/// Logs by namespace. All containers in a namespace write the same lines.
#[derive(Default)]
struct Logs {
    logs: Mutex<BTreeMap<String, Log>>,
    changed: watch::Sender<u64>,
}

#[derive(Clone, Default)]
struct Log {
    /// Lines with their times.
    lines: Vec<(Timestamp, String)>,
    has_ended: bool,
    /// Number of connection cuts.
    cut_count: u64,
    /// Requested paths.
    requested_paths: Vec<String>,
}

impl Kubelet {
    /// Registers a node with a unique name, and starts the kubelet.
    pub async fn start(control: &ControlPlane) -> Self {
        let node = control.unique_name("talking");
        let logs = Arc::<Logs>::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept_connections(listener, tls_acceptor(), Arc::clone(&logs)));
        register_node(&control.client(User::CONTROLLERS), &node, address).await;
        Self { node, logs }
    }

    /// Writes a line to the logs of the containers in a namespace.
    pub fn write_line(&self, namespace: &str, line: &str) {
        let line = (SystemClock.now(), line.to_owned());
        self.update_log(namespace, |log| log.lines.push(line));
    }

    /// Ends the containers in a namespace.
    pub fn end_containers(&self, namespace: &str) {
        self.update_log(namespace, |log| log.has_ended = true);
    }

    /// Cuts the connections of all clients that follow the logs in a namespace.
    pub fn cut_connections(&self, namespace: &str) {
        self.update_log(namespace, |log| log.cut_count += 1);
    }

    /// Returns the paths that the API server has requested.
    pub fn requested_paths(&self, namespace: &str) -> Vec<String> {
        self.logs.log_of_namespace(namespace).map(|log| log.requested_paths).unwrap_or_default()
    }

    fn update_log(&self, namespace: &str, change: impl FnOnce(&mut Log)) {
        change(self.logs.logs.lock().unwrap().entry(namespace.to_owned()).or_default());
        self.logs.changed.send_modify(|count| *count += 1);
    }
}

impl Logs {
    fn log_of_namespace(&self, namespace: &str) -> Option<Log> {
        self.logs.lock().unwrap().get(namespace).cloned()
    }
}

async fn register_node(caller: &ApiClient, node: &str, address: SocketAddr) {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
    caller.post("/api/v1/nodes", &object).await.unwrap();
    let status: Value = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}],
    }});
    caller.patch(&format!("/api/v1/nodes/{node}/status"), &status).await.unwrap();
}

fn tls_acceptor() -> TlsAcceptor {
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

async fn accept_connections(listener: TcpListener, acceptor: TlsAcceptor, logs: Arc<Logs>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, logs) = (acceptor.clone(), Arc::clone(&logs));
        // An error means only that the client has disconnected.
        tokio::spawn(async move { serve(acceptor.accept(stream).await?, &logs).await });
    }
}

/// Serves a connection with a single request: `GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&…`.
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
        all.get_mut(namespace).map(|log| log.requested_paths.push(target.clone())).is_some()
    };
    if !is_known {
        let refusal =
            "HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\ncontent-length: 7\r\n\r\nunknown";
        stream.write_all(refusal.as_bytes()).await?;
        return stream.shutdown().await;
    }
    stream_log(stream, logs, namespace, &LogQuery::parse(query)).await
}

/// Query of a log request.
struct LogQuery {
    follow: bool,
    timestamps: bool,
    since: Option<Timestamp>,
    tail: Option<usize>,
}

impl LogQuery {
    fn parse(text: &str) -> Self {
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

async fn stream_log(
    mut stream: TlsStream<TcpStream>,
    logs: &Logs,
    namespace: &str,
    query: &LogQuery,
) -> io::Result<()> {
    let mut changed = logs.changed.subscribe();
    let first = logs.log_of_namespace(namespace).unwrap_or_default();
    let before = first.lines.iter().filter(|(at, _)| query.since.is_some_and(|since| *at < since)).count();
    let tail = query.tail.map_or(0, |lines| first.lines.len().saturating_sub(lines));
    let (mut next, mut has_begun) = (before.max(tail), false);
    loop {
        changed.borrow_and_update();
        let log = logs.log_of_namespace(namespace).unwrap_or_default();
        if log.cut_count != first.cut_count {
            // Cut the connection in the middle of the response.
            return Ok(());
        }
        let mut text = String::new();
        for (at, line) in log.lines.iter().skip(next) {
            // All lines get the same fraction of a millisecond, so lines written within a millisecond have
            // the same time.
            let time = at.to_string().replace('Z', "000042Z");
            let _ = if query.timestamps { writeln!(text, "{time} {line}") } else { writeln!(text, "{line}") };
        }
        next = log.lines.len();
        let is_over = log.has_ended || !query.follow;
        if !has_begun && (!text.is_empty() || is_over) {
            has_begun = true;
            // As with a real kubelet, the response starts with the first line.
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
            // The client doesn't send any more data.
            _ = stream.read(&mut byte) => return Ok(()),
        }
    }
}
