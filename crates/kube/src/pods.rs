//! Pods of a workload, their logs, and the events about an object.

use std::collections::{HashSet, VecDeque};

use http_body_util::BodyExt as _;
use serde_json::Value;
use tidegate_cluster::{ClusterError, Container, Detail, ErrorKind};
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;
use crate::call::Call;
use crate::paths::{Target, push_value};
use crate::response::CallSubject;
use crate::selector;

/// Label on the pods of a Job in every Kubernetes version.
const JOB_NAME: &str = "&labelSelector=job-name";
/// Assumed minimum average length of a log line in bytes, for reading the end of a log.
const LINE_BYTES: usize = 10;

impl KubeCluster {
    pub(crate) async fn list_pods_of(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        let pods = Gvk::new("", "v1", "Pod");
        let (namespace, uid) = (owner.namespace(), owner.uid());
        if namespace.is_empty() || uid.is_empty() {
            return Ok(Vec::new());
        }
        let selector = owner.pointer("/spec/selector");
        let (between, conditions) = match (owner.group(), owner.kind()) {
            ("", "Pod") => {
                let target = self.find_target(&pods, namespace, owner.name()).await?;
                let pod = self.read_object(&target).await?.filter(|pod| pod.uid() == uid);
                return Ok(pod.into_iter().collect());
            }
            ("batch", "CronJob") => (Some(Gvk::new("batch", "v1", "Job")), Some(JOB_NAME.to_owned())),
            ("", "ReplicationController") => (None, selector.and_then(selector::labels_query)),
            ("apps", "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => {
                (None, selector.and_then(selector::selector_query))
            }
            // A Deployment, or a custom kind that also creates ReplicaSets.
            (group, _) if !group.is_empty() => {
                (Some(Gvk::new("apps", "v1", "ReplicaSet")), selector.and_then(selector::selector_query))
            }
            _ => return Ok(Vec::new()),
        };
        let Some(conditions) = conditions else { return Ok(Vec::new()) };
        let mut owners = HashSet::from([uid.to_owned()]);
        if let Some(between) = between {
            // ReplicaSets have the same labels as their pods, but Jobs don't.
            let conditions = if between.kind == "Job" { "" } else { &conditions };
            let found = self.list_by_query(&between, namespace, Detail::Metadata, conditions).await?;
            owners.extend(
                found
                    .iter()
                    .filter(|found| is_owned_by(found, &owners))
                    .map(|found| found.uid().to_owned())
                    .collect::<Vec<_>>(),
            );
        }
        let mut found = self.list_by_query(&pods, namespace, Detail::Full, &conditions).await?;
        found.retain(|pod| is_owned_by(pod, &owners));
        Ok(found)
    }

    /// Returns the events about an object. Events about cluster-scoped objects are in the namespace
    /// `default`.
    pub(crate) async fn list_events_about(&self, object: &Object) -> Result<Vec<Object>, ClusterError> {
        if object.uid().is_empty() {
            return Ok(Vec::new());
        }
        let namespace = if object.namespace().is_empty() { "default" } else { object.namespace() };
        let mut conditions = "&fieldSelector=involvedObject.uid%3D".to_owned();
        push_value(&mut conditions, object.uid());
        self.list_by_query(&Gvk::new("", "v1", "Event"), namespace, Detail::Full, &conditions).await
    }

    async fn list_by_query(
        &self,
        gvk: &Gvk,
        namespace: &str,
        detail: Detail,
        conditions: &str,
    ) -> Result<Vec<Object>, ClusterError> {
        let resource = self.kinds().find(self.api_server(), gvk).await?;
        let target = Target::for_kind(gvk, resource, Some(namespace));
        Ok(self.list_all(&target, detail, conditions).await?.objects)
    }

    /// Returns the end of a container's log.
    pub(crate) async fn read_log_tail(
        &self,
        container: &Container,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        let gvk = Gvk::new("", "v1", "Pod");
        let target = self.find_target(&gvk, &container.namespace, &container.pod).await?;
        let lines = (limit_bytes / LINE_BYTES).max(1);
        let mut path = format!("{}/log?tailLines={lines}", target.path());
        if !container.name.is_empty() {
            path.push_str("&container=");
            push_value(&mut path, &container.name);
        }
        let call = Call::get(path).with_accept("text/plain, application/json, */*");
        let read = async {
            let mut body =
                self.api_server().open_stream(&call, CallSubject::from(&target)).await.map_err(node_error)?;
            let mut end = VecDeque::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.api_server().connection_error(&call, &error))?;
                if let Ok(data) = frame.into_data() {
                    end.extend(data);
                    end.drain(..end.len().saturating_sub(limit_bytes));
                }
            }
            Ok(decode_text(end.into()))
        };
        self.api_server().with_timeout(&call, read).await
    }
}

/// Returns true if an object is owned by one of the given UIDs.
fn is_owned_by(object: &Object, owners: &HashSet<String>) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut uids = references.into_iter().flatten().filter_map(|reference| reference.get("uid")?.as_str());
    uids.any(|uid| owners.contains(uid))
}

/// Converts errors from a node while the API server fetches its logs. If the node is down, its logs are
/// unavailable.
fn node_error(error: ClusterError) -> ClusterError {
    match error.kind {
        ErrorKind::Server | ErrorKind::UnknownKind => {
            ClusterError::new(ErrorKind::Unsupported, format!("cannot read logs: {}", error.message))
        }
        _ => error,
    }
}

/// Converts bytes to text, dropping a leading character that was cut in half.
fn decode_text(bytes: Vec<u8>) -> String {
    let started = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    String::from_utf8_lossy(bytes.get(started..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_cut_inside_a_character_is_still_text() {
        let whole = "größer".as_bytes();
        for (from, expected) in [(0, "größer"), (2, "ößer"), (3, "ßer"), (4, "ßer"), (5, "er")] {
            assert_eq!(decode_text(whole[from..].to_vec()), expected, "{from}");
        }
        assert_eq!(decode_text(Vec::new()), "");
    }
}
