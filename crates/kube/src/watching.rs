//! Changes of a scope, line by line as the server sends them.

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
use crate::answer::{About, Status};
use crate::paths::{Target, push_value};
use crate::read::complete;
use crate::server::{Call, JSON};
use crate::transport::Seat;

/// So much later than the server should have ended a watch, we do.
const GRACE: Duration = Duration::from_secs(15);
/// No line of a watch is longer: an object at most 1.5 MB large, as JSON, in the version that needs most.
const LINE_BYTES_MAX: usize = 32 << 20;
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

impl KubeCluster {
    pub(crate) async fn watch_scope(
        &self,
        scope: &Scope,
        resource_version: &str,
    ) -> Result<WatchStream, ClusterError> {
        let Scope { gvk, namespace, detail } = scope;
        let resource = self.kinds().find(self.http(), gvk).await?;
        let target = Target::all(gvk, resource, namespace.as_deref());
        let mut path = target.collection();
        path.push_str("?watch=true&allowWatchBookmarks=true&timeoutSeconds=");
        let lasts = self.http().watch_duration();
        path.push_str(&lasts.as_secs().to_string());
        path.push_str("&resourceVersion=");
        push_value(&mut path, resource_version);
        let call = Call::get(path).accept(if *detail == Detail::Metadata { METADATA } else { JSON });
        let (body, seat) = match self.http().watch(&call, About::from(&target)).await {
            Ok(opened) => opened,
            Err(error) => return Err(self.noted(gvk, error).await),
        };
        let lines =
            Lines { body, read: BytesMut::new(), searched: 0, ends: Instant::now() + lasts + GRACE, seat };
        let watch =
            Watch { cluster: self.clone(), gvk: gvk.clone(), detail: *detail, call, lines, over: false };
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
    over: bool,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Map<String, Value>,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<WatchEvent, ClusterError>> {
        if self.over {
            return None;
        }
        let http = self.cluster.http();
        let line = tokio::select! {
            line = self.lines.next() => line,
            never = http.keep_asking() => match never {},
        };
        if line.is_ok() {
            http.heard();
        }
        let event = match line {
            Ok(Some(line)) => self.event(&line),
            Ok(None) => return None,
            Err(LineError::TooLong) => {
                let words =
                    format!("a line of the watch of {} is longer than {LINE_BYTES_MAX} bytes", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, words))
            }
            Err(LineError::Unended) => {
                let words = format!("the server did not end the watch of {} when it was to", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, words))
            }
            Err(LineError::Broken(error)) => Err(self.cluster.http().broken(&self.call, &error)),
        };
        self.over = event.is_err();
        Some(event)
    }

    fn event(&self, line: &[u8]) -> Result<WatchEvent, ClusterError> {
        let Line { kind, mut object } = serde_json::from_slice(line).map_err(|error| {
            let words = format!("cannot read a line of the watch of {}: {error}", self.gvk);
            ClusterError::new(ErrorKind::Server, words)
        })?;
        match kind.as_str() {
            "ADDED" | "MODIFIED" | "DELETED" => {
                // Most of an object, and of no use to anyone who watches.
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.remove("managedFields");
                }
                let object = complete(object, &self.gvk, self.detail)?;
                Ok(if kind == "DELETED" { WatchEvent::Deleted(object) } else { WatchEvent::Applied(object) })
            }
            "BOOKMARK" => {
                let version = object.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
                Ok(WatchEvent::Bookmark(version.and_then(Value::as_str).unwrap_or_default().to_owned()))
            }
            "ERROR" => {
                let status = serde_json::from_value::<Status>(Value::Object(object)).unwrap_or_default();
                Err(status.error(About { gvk: Some(&self.gvk), ..About::default() }))
            }
            other => {
                let words = format!("the watch of {} sent an event of the unknown type {other:?}", self.gvk);
                Err(ClusterError::new(ErrorKind::Server, words))
            }
        }
    }
}

/// The lines of a body, each as soon as it is complete.
struct Lines {
    body: Body,
    read: BytesMut,
    /// How much of `read` is known to have no end of line.
    searched: usize,
    ends: Instant,
    /// Kept for as long as the body is.
    #[expect(dead_code, reason = "what matters is when it is dropped")]
    seat: Option<Seat>,
}

enum LineError {
    TooLong,
    /// Nothing says that the way to the server still carries anything.
    Unended,
    Broken(kube::Error),
}

impl Lines {
    /// The next line. `None` when the server has ended the watch; half a line at the end is nothing.
    async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            let unread = self.read.get(self.searched..).unwrap_or_default();
            if let Some(length) = unread.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(self.searched + length + 1).freeze();
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.read.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            match tokio::time::timeout_at(self.ends, self.body.frame()).await {
                Err(_) => return Err(LineError::Unended),
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Err(LineError::Broken(error)),
            }
        }
    }
}
