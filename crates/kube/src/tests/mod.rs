//! The crate against a scripted server: what it sends, and what it makes of each answer.

mod acting;
mod answers;
mod connection;
mod following;
mod kinds;
mod living;
mod rights;
mod watches;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tidegate_cluster::{ApplyRequest, WriteMode};
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;
use crate::server::Server;
use crate::transport::Transport;

/// What the server does with a request.
enum Reply {
    /// Status and a JSON body.
    Json(u16, Value),
    /// The same, and the `Retry-After` header.
    Later(u16, u64, Value),
    /// Status, `Warning` headers and a JSON body.
    Warning(u16, &'static [&'static str], Value),
    /// A JSON body with a tag, or that the one who asks has it already.
    Tagged(&'static str, Value),
    /// After so many seconds, a JSON body.
    Slow(u64, u16, Value),
    /// A server that has too much to do, and for how many seconds.
    Busy(u64),
    /// Status and any other body.
    Text(u16, &'static str),
    /// A stream of pieces, and whether the connection breaks after the last one.
    Pieces(Vec<Vec<u8>>, End),
    /// The server says nothing, and keeps the connection open.
    Hang,
    /// The connection breaks before an answer.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Proper,
    Broken,
    Never,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    agent: String,
    accept: String,
    known: String,
    user: String,
    body: Vec<u8>,
}

impl Asked {
    fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

type Log = Arc<Mutex<Vec<Asked>>>;
type BoxedBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A cluster whose server answers as the script says; what the script has no answer for is what every server serves.
fn cluster(script: impl Fn(&Asked) -> Option<Reply> + Send + Sync + 'static) -> (KubeCluster, Log) {
    let log = Log::default();
    let (script, kept) = (Arc::new(script), Arc::clone(&log));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (script, log) = (Arc::clone(&script), Arc::clone(&kept));
        async move {
            let asked = read(request).await;
            log.lock().unwrap().push(asked.clone());
            let reply = script(&asked).unwrap_or_else(|| served(&asked));
            respond(reply, &asked.known).await
        }
    });
    let transport = Transport::of(Client::new(service, "default"), "https://kube.test/".to_owned());
    let server = Server::new(transport, Duration::from_secs(30), 4);
    (KubeCluster::new(server, "test".to_owned(), "default".to_owned()), log)
}

async fn read(request: Request<Body>) -> Asked {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    Asked {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        agent: header(http::header::USER_AGENT),
        accept: header(http::header::ACCEPT),
        known: header(http::header::IF_NONE_MATCH),
        user: header(http::HeaderName::from_static("impersonate-user")),
        body: body.collect().await.unwrap().to_bytes().to_vec(),
    }
}

async fn respond(reply: Reply, known: &str) -> Result<Response<BoxedBody>, std::io::Error> {
    let broken = || std::io::Error::other("connection reset by peer");
    let full = |bytes: Vec<u8>| {
        Full::new(Bytes::from(bytes)).map_err(|never: Infallible| match never {}).boxed_unsync()
    };
    let mut warnings: &[&str] = &[];
    let mut tag = None;
    let (status, retry_after, body) = match reply {
        Reply::Tagged(its, _) if its == known => (304, None, full(Vec::new())),
        Reply::Tagged(its, body) => {
            tag = Some(its);
            (200, None, full(body.to_string().into_bytes()))
        }
        Reply::Warning(status, words, body) => {
            warnings = words;
            (status, None, full(body.to_string().into_bytes()))
        }
        Reply::Slow(seconds, status, body) => {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            (status, None, full(body.to_string().into_bytes()))
        }
        Reply::Json(status, body) => (status, None, full(body.to_string().into_bytes())),
        Reply::Later(status, seconds, body) => (status, Some(seconds), full(body.to_string().into_bytes())),
        Reply::Busy(seconds) => {
            let words = b"Too many requests, please try again later.\n".to_vec();
            (429, Some(seconds), full(words))
        }
        Reply::Text(status, body) => (status, None, full(body.as_bytes().to_vec())),
        Reply::Hang => std::future::pending().await,
        Reply::Broken => return Err(broken()),
        Reply::Pieces(pieces, end) => {
            let pieces = pieces.into_iter().map(|piece| Ok(http_body::Frame::data(Bytes::from(piece))));
            let last = stream::unfold(end, move |end| async move {
                match end {
                    End::Proper => None,
                    End::Broken => Some((Err(broken()), End::Proper)),
                    End::Never => std::future::pending().await,
                }
            });
            let body = StreamBody::new(futures_util::StreamExt::chain(stream::iter(pieces), last));
            (200, None, body.boxed_unsync())
        }
    };
    let mut response = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        response = response.header(http::header::RETRY_AFTER, seconds);
    }
    if let Some(tag) = tag {
        response = response.header(http::header::ETAG, tag);
    }
    for words in warnings {
        response = response.header(http::header::WARNING, *words);
    }
    Ok(response.body(body).unwrap())
}

/// Discovery as servers up to 1.25 answer it, with a few kinds.
fn served(asked: &Asked) -> Reply {
    let kinds = |kinds: &[(&str, &str, bool)]| {
        let verbs = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
        let resources: Vec<Value> = kinds
            .iter()
            .map(|(name, kind, namespaced)| {
                json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs})
            })
            .collect();
        Reply::Json(200, json!({"kind": "APIResourceList", "resources": resources}))
    };
    match asked.path.as_str() {
        "/api" => Reply::Json(200, json!({"kind": "APIVersions", "versions": ["v1"]})),
        "/apis" => Reply::Json(
            200,
            json!({"kind": "APIGroupList", "groups": [
                {"name": "apps", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}},
            ]}),
        ),
        "/api/v1" => kinds(&[
            ("configmaps", "ConfigMap", true),
            ("namespaces", "Namespace", false),
            ("namespaces/status", "Namespace", false),
            ("secrets", "Secret", true),
        ]),
        "/apis/apps/v1" => {
            kinds(&[("deployments", "Deployment", true), ("deployments/status", "Deployment", true)])
        }
        _ => Reply::Text(404, "404 page not found"),
    }
}

/// A refusal as Kubernetes words it.
fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    })
}

fn config_map() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn manifest(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}})
}

fn live(name: &str) -> Value {
    let mut object = manifest(name);
    object["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    object["metadata"]["resourceVersion"] = json!("7");
    object
}

fn apply(object: Value, mode: WriteMode) -> ApplyRequest {
    ApplyRequest {
        operation: Some("0190b5a4-7c1e-7000-8000-000000000001".parse().unwrap()),
        ..ApplyRequest::new(Object::try_from(object).unwrap(), mode)
    }
}

/// What was asked beside discovery.
fn calls(log: &Log) -> Vec<String> {
    let asked = log.lock().unwrap();
    let discovery = ["/api", "/apis", "/api/v1", "/apis/apps/v1"];
    asked.iter().filter(|asked| !discovery.contains(&asked.path.as_str())).map(Asked::line).collect()
}
