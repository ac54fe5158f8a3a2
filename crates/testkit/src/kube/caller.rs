//! Plain requests to the API server.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Method, Request};
use kube::core::WatchEvent;
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::KubeError;

/// How often [`Caller::until`] looks: the server answers eight tests at once, and on two cores each look takes from the others.
const LOOK: Duration = Duration::from_millis(100);
/// How long it looks.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sends requests as one user. Belongs to the runtime it was made in.
#[derive(Clone)]
pub struct Caller {
    client: Client,
}

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: {why}")]
pub struct CallError {
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// HTTP status; 0 when there was no answer.
    pub code: u16,
    /// The server's words.
    pub why: String,
}

impl Caller {
    pub(super) fn new(config: Config) -> Result<Self, KubeError> {
        let failed = |error: kube::Error| CallError {
            method: "CONNECT".to_owned(),
            path: String::new(),
            code: 0,
            why: error.to_string(),
        };
        Ok(Self { client: Client::try_from(config).map_err(failed)? })
    }

    /// The client, for what is not here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, CallError> {
        self.call(Method::GET, path, "application/json", &Value::Null).await
    }

    /// Reads an object that may not be there.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, CallError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(Method::POST, path, "application/json", body).await
    }

    /// Replaces.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(Method::PUT, path, "application/json", body).await
    }

    /// Merges a patch.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(Method::PATCH, path, "application/merge-patch+json", body).await
    }

    /// Applies on the server; the path names the field manager: `?fieldManager=me`.
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(Method::PATCH, path, "application/apply-patch+yaml", body).await
    }

    /// Deletes, with `DeleteOptions`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, CallError> {
        self.call(Method::DELETE, path, "application/json", options).await
    }

    /// What `/readyz` and the like say.
    pub async fn text(&self, path: &str) -> Result<String, CallError> {
        let request = request(&Method::GET, path, "application/json", &Value::Null);
        self.client.request_text(request).await.map_err(|error| failed(&Method::GET, path, &error))
    }

    /// Waits until what is at a path is as wished, whether or not it is there, and returns it. Panics after a minute.
    pub async fn until(&self, path: &str, wish: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let mut last = None;
        let looking = async {
            loop {
                last = self.find(path).await.unwrap_or_else(|error| panic!("{error}"));
                if wish(last.as_ref()) {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        let in_time = timeout(PATIENCE, looking).await.is_ok();
        let shown = last.clone().unwrap_or_default();
        assert!(in_time, "{path} does not become as wished; at last it is {shown:#}");
        last
    }

    /// Changes: type and object.
    pub(super) async fn watch(
        &self,
        path: &str,
    ) -> Result<BoxStream<'static, Result<(Change, Value), CallError>>, CallError> {
        let request = request(&Method::GET, path, "application/json", &Value::Null);
        let events = self.client.request_events::<Value>(request).await;
        let events = events.map_err(|error| failed(&Method::GET, path, &error))?;
        let path = path.to_owned();
        let changes = events.filter_map(move |event: Result<WatchEvent<Value>, kube::Error>| {
            std::future::ready(match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    Some(Ok((Change::Applied, object)))
                }
                Ok(WatchEvent::Deleted(object)) => Some(Ok((Change::Deleted, object))),
                Ok(WatchEvent::Bookmark(_)) => None,
                Ok(WatchEvent::Error(_)) => Some(Ok((Change::Expired, Value::Null))),
                Err(error) => Some(Err(failed(&Method::GET, &path, &error))),
            })
        });
        Ok(Box::pin(changes))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, CallError> {
        let request = request(&method, path, content, body);
        self.client.request(request).await.map_err(|error| failed(&method, path, &error))
    }
}

/// What a watch says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Applied,
    Deleted,
    /// The watch is too old: list again.
    Expired,
}

fn request(method: &Method, path: &str, content: &str, body: &Value) -> Request<Vec<u8>> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", content).body(body);
    request.expect("a test asks for a valid path")
}

fn failed(method: &Method, path: &str, error: &kube::Error) -> CallError {
    let (code, why) = match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => (0, other.to_string()),
    };
    CallError { method: method.to_string(), path: path.to_owned(), code, why }
}
