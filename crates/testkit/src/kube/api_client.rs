//! Plain requests to the API server.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{Method, Request};
use kube::core::WatchEvent;
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::error::{CallError, KubeError};

/// Polling interval of [`ApiClient::wait_until`]. Several tests share the server, and on two cores, polling
/// slows down the others.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of [`ApiClient::wait_until`].
const WAIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Client for requests as a particular user. It works only in the runtime that created it.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
}

impl ApiClient {
    pub(super) fn new(config: Config) -> Result<Self, KubeError> {
        let failed = |error: kube::Error| CallError {
            method: "CONNECT".to_owned(),
            path: String::new(),
            code: 0,
            why: error.to_string(),
        };
        Ok(Self { client: Client::try_from(config).map_err(failed)? })
    }

    /// Returns the underlying client, for other kinds of requests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object or a list.
    pub async fn get(&self, path: &str) -> Result<Value, CallError> {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// Reads an object. Returns `None` if it doesn't exist.
    pub async fn find(&self, path: &str) -> Result<Option<Value>, CallError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.send(Method::POST, path, "application/json", body).await
    }

    /// Replaces an object.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.send(Method::PUT, path, "application/json", body).await
    }

    /// Applies a merge patch.
    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.send(Method::PATCH, path, "application/merge-patch+json", body).await
    }

    /// Runs a server-side apply. The path has the field manager: `?fieldManager=me`.
    pub async fn apply(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", body).await
    }

    /// Deletes an object. `options` are the `DeleteOptions`.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, CallError> {
        self.send(Method::DELETE, path, "application/json", options).await
    }

    /// Returns the text response of a path such as `/readyz`.
    pub async fn get_text(&self, path: &str) -> Result<String, CallError> {
        let request = build_request(&Method::GET, path, "application/json", &Value::Null);
        self.client.request_text(request).await.map_err(|error| call_error(&Method::GET, path, &error))
    }

    /// Waits until the object at a path, which may be absent at first, satisfies a predicate, and returns it.
    /// Panics after ten minutes.
    pub async fn wait_until(&self, path: &str, request: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let mut last = None;
        let looking = async {
            loop {
                last = self.find(path).await.unwrap_or_else(|error| panic!("{error}"));
                if request(last.as_ref()) {
                    return;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let in_time = timeout(WAIT_TIMEOUT, looking).await.is_ok();
        let shown = last.clone().unwrap_or_default();
        assert!(in_time, "{path} does not reach the expected state; its last state is {shown:#}");
        last
    }

    /// Watches for changes. Each change has a type and an object.
    pub(super) async fn watch(
        &self,
        path: &str,
    ) -> Result<BoxStream<'static, Result<(WatchChange, Value), CallError>>, CallError> {
        let request = build_request(&Method::GET, path, "application/json", &Value::Null);
        let events = self.client.request_events::<Value>(request).await;
        let events = events.map_err(|error| call_error(&Method::GET, path, &error))?;
        let path = path.to_owned();
        let changes = events.filter_map(move |event: Result<WatchEvent<Value>, kube::Error>| {
            std::future::ready(match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    Some(Ok((WatchChange::Applied, object)))
                }
                Ok(WatchEvent::Deleted(object)) => Some(Ok((WatchChange::Deleted, object))),
                Ok(WatchEvent::Bookmark(_)) => None,
                Ok(WatchEvent::Error(_)) => Some(Ok((WatchChange::Expired, Value::Null))),
                Err(error) => Some(Err(call_error(&Method::GET, &path, &error))),
            })
        });
        Ok(Box::pin(changes))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, CallError> {
        let request = build_request(&method, path, content, body);
        self.client.request(request).await.map_err(|error| call_error(&method, path, &error))
    }
}

/// A watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchChange {
    Applied,
    Deleted,
    /// The resource version is too old, so the caller must list again.
    Expired,
}

fn build_request(method: &Method, path: &str, content: &str, body: &Value) -> Request<Vec<u8>> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", content).body(body);
    request.expect("tests use valid paths")
}

fn call_error(method: &Method, path: &str, error: &kube::Error) -> CallError {
    let (code, why) = match error {
        kube::Error::Api(status) => (status.code, status.message.clone()),
        other => (0, other.to_string()),
    };
    CallError { method: method.to_string(), path: path.to_owned(), code, why }
}
