//! Watches of a scope, split into lines as the server sends them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_cluster::{ClusterError, Detail, ErrorKind, Scope, WatchEvent, WatchStream};
use tidegate_model::Gvk;
use tokio::time::Instant;

use crate::KubeCluster;
use crate::call::{Call, JSON};
use crate::paths::{Target, push_value};
use crate::read::complete_item;
use crate::response::{CallSubject, Status};
use crate::transport::WatchPermit;

/// Kinds with health rules that allow failures for some time after a change to the spec. Only the managed
/// fields contain the time of that change.
const KINDS_WITH_GRACE_PERIOD: [&str; 2] = ["HorizontalPodAutoscaler", "ScaledObject"];

/// Delay after which the client itself ends a watch that the server should have ended.
const END_DELAY: Duration = Duration::from_secs(15);
/// Maximum length of a watch line in bytes. An object of the maximum size, 1.5 MB, fits even if its JSON in
/// another version is longer.
const LINE_BYTES_MAX: usize = 32 << 20;
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

impl KubeCluster {
    pub(crate) async fn watch_scope(
        &self,
        scope: &Scope,
        resource_version: &str,
    ) -> Result<WatchStream, ClusterError> {
        let Scope { gvk, namespace, detail } = scope;
        let resource = self.kinds().find(self.api_server(), gvk).await?;
        let target = Target::for_kind(gvk, resource, namespace.as_deref());
        let mut path = target.collection_path();
        path.push_str("?watch=true&allowWatchBookmarks=true&timeoutSeconds=");
        let lasts = self.api_server().watch_duration();
        path.push_str(&lasts.as_secs().to_string());
        path.push_str("&resourceVersion=");
        push_value(&mut path, resource_version);
        let call = Call::get(path).with_accept(if *detail == Detail::Metadata { METADATA } else { JSON });
        let (body, permit) = match self.api_server().open_watch(&call, CallSubject::from(&target)).await {
            Ok(opened) => opened,
            Err(error) => return Err(self.forget_unserved_kind(gvk, error).await),
        };
        let lines = Lines {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            ends_at: Instant::now() + lasts + END_DELAY,
            permit,
        };
        let watch =
            Watch { cluster: self.clone(), gvk: gvk.clone(), detail: *detail, call, lines, has_ended: false };
        Ok(Box::pin(stream::unfold(watch, |mut watch| async move {
            let event = watch.next().await?;
            Some((event, watch))
        })))
    }
}

struct Watch {
    cluster: KubeCluster,
    gvk: Gvk,
    detail: Detail,
    call: Call,
    lines: Lines,
    has_ended: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Map<String, Value>,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<WatchEvent, ClusterError>> {
        if self.has_ended {
            return None;
        }
        let http = self.cluster.api_server();
        let line = tokio::select! {
            line = self.lines.next() => line,
            never = http.probe_while_silent() => match never {},
        };
        if line.is_ok() {
            http.record_activity();
        }
        let event = match line {
            Ok(Some(line)) => self.parse_event(&line),
            Ok(None) => return None,
            Err(LineError::TooLong) => {
                let text =
                    format!("a line in the watch of {} is longer than {LINE_BYTES_MAX} bytes", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, text))
            }
            Err(LineError::Unfinished) => {
                let text = format!("the server did not end the watch of {} when it timed out", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, text))
            }
            Err(LineError::Broken(error)) => {
                Err(self.cluster.api_server().connection_error(&self.call, &error))
            }
        };
        self.has_ended = event.is_err();
        Some(event)
    }

    fn parse_event(&self, line: &[u8]) -> Result<WatchEvent, ClusterError> {
        let Line { kind, mut object } = serde_json::from_slice(line).map_err(|error| {
            let text = format!("cannot read a line in the watch of {}: {error}", self.gvk);
            ClusterError::new(ErrorKind::Server, text)
        })?;
        match kind.as_str() {
            "ADDED" | "MODIFIED" | "DELETED" => {
                // Drop managed fields, the largest part of an object. They are needed only if the object's
                // health depends on the time of the last change to its spec.
                if let Some(Value::Object(metadata)) = object.get_mut("metadata")
                    && !KINDS_WITH_GRACE_PERIOD.contains(&self.gvk.kind.as_str())
                {
                    metadata.remove("managedFields");
                }
                let object = complete_item(object, &self.gvk, self.detail)?;
                Ok(if kind == "DELETED" { WatchEvent::Deleted(object) } else { WatchEvent::Applied(object) })
            }
            "BOOKMARK" => {
                let version = object.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
                Ok(WatchEvent::Bookmark(version.and_then(Value::as_str).unwrap_or_default().to_owned()))
            }
            "ERROR" => {
                let status = serde_json::from_value::<Status>(Value::Object(object)).unwrap_or_default();
                Err(status.refusal_error(CallSubject { gvk: Some(&self.gvk), ..CallSubject::default() }))
            }
            other => {
                let text = format!("the watch of {} sent an event of unknown type {other:?}", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, text))
            }
        }
    }
}

/// Lines of a response body, delivered as soon as they are complete.
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Length of the prefix of `read` without a line ending.
    searched: usize,
    ends_at: Instant,
    /// Held while the response body exists.
    #[expect(dead_code, reason = "held until it is dropped")]
    permit: Option<WatchPermit>,
}

enum LineError {
    TooLong,
    /// The server didn't end the watch at its timeout. The connection may be dead.
    Unfinished,
    Broken(kube::Error),
}

impl Lines {
    /// Returns the next line, or `None` once the server has closed the watch. Ignores an incomplete last
    /// line.
    async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            let unread = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(length) = unread.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + length + 1).freeze();
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            match tokio::time::timeout_at(self.ends_at, self.body.frame()).await {
                Err(_) => return Err(LineError::Unfinished),
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Err(LineError::Broken(error)),
            }
        }
    }
}
