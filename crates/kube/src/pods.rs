//! The pods of a workload, and what their containers wrote.

use std::collections::{HashSet, VecDeque};

use http_body_util::BodyExt as _;
use serde_json::Value;
use tidegate_cluster::{ClusterError, Detail, ErrorKind};
use tidegate_model::{Gvk, Object};

use crate::KubeCluster;
use crate::answer::About;
use crate::paths::{Target, push_value};
use crate::selector;
use crate::server::Call;

/// The label that pods of a Job carry, on every version.
const JOB_NAME: &str = "&labelSelector=job-name";
/// Lines of a log are taken to be at least this long on average when its end is asked for.
const LINE_BYTES: usize = 10;

impl KubeCluster {
    pub(crate) async fn pods_of(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        let pods = Gvk::new("", "v1", "Pod");
        let (namespace, uid) = (owner.namespace(), owner.uid());
        if namespace.is_empty() || uid.is_empty() {
            return Ok(Vec::new());
        }
        let selector = owner.pointer("/spec/selector");
        let (between, conditions) = match (owner.group(), owner.kind()) {
            ("", "Pod") => {
                let target = self.target(&pods, namespace, owner.name()).await?;
                let pod = self.read(&target).await?.filter(|pod| pod.uid() == uid);
                return Ok(pod.into_iter().collect());
            }
            ("batch", "CronJob") => (Some(Gvk::new("batch", "v1", "Job")), Some(JOB_NAME.to_owned())),
            ("", "ReplicationController") => (None, selector.and_then(selector::query_of_labels)),
            ("apps", "StatefulSet" | "DaemonSet" | "ReplicaSet") | ("batch", "Job") => {
                (None, selector.and_then(selector::query))
            }
            // A Deployment, or a kind that works like one.
            (group, _) if !group.is_empty() => {
                (Some(Gvk::new("apps", "v1", "ReplicaSet")), selector.and_then(selector::query))
            }
            _ => return Ok(Vec::new()),
        };
        let Some(conditions) = conditions else { return Ok(Vec::new()) };
        let mut owners = HashSet::from([uid.to_owned()]);
        if let Some(between) = between {
            // Jobs do not carry the labels of their pods; ReplicaSets do.
            let conditions = if between.kind == "Job" { "" } else { &conditions };
            let found = self.list_in(&between, namespace, Detail::Metadata, conditions).await?;
            owners.extend(
                found
                    .iter()
                    .filter(|found| owned_by(found, &owners))
                    .map(|found| found.uid().to_owned())
                    .collect::<Vec<_>>(),
            );
        }
        let mut found = self.list_in(&pods, namespace, Detail::Full, &conditions).await?;
        found.retain(|pod| owned_by(pod, &owners));
        Ok(found)
    }

    async fn list_in(
        &self,
        gvk: &Gvk,
        namespace: &str,
        detail: Detail,
        conditions: &str,
    ) -> Result<Vec<Object>, ClusterError> {
        let resource = self.kinds().find(self.http(), gvk).await?;
        let target = Target::all(gvk, resource, Some(namespace));
        Ok(self.list_all(&target, detail, conditions).await?.objects)
    }

    /// The end of a container's log.
    pub(crate) async fn tail(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        let gvk = Gvk::new("", "v1", "Pod");
        let target = self.target(&gvk, namespace, pod).await?;
        let lines = (limit_bytes / LINE_BYTES).max(1);
        let mut path = format!("{}/log?tailLines={lines}", target.path());
        if !container.is_empty() {
            path.push_str("&container=");
            push_value(&mut path, container);
        }
        let call = Call::get(path).accept("text/plain, application/json, */*");
        let read = async {
            let mut body = self.http().open(&call, About::from(&target)).await.map_err(unserved)?;
            let mut end = VecDeque::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| self.http().broken(&call, &error))?;
                if let Ok(data) = frame.into_data() {
                    end.extend(data);
                    end.drain(..end.len().saturating_sub(limit_bytes));
                }
            }
            Ok(text(end.into()))
        };
        self.http().timed(&call, read).await
    }
}

/// Whether one of these objects owns it.
fn owned_by(object: &Object, owners: &HashSet<String>) -> bool {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let mut uids = references.into_iter().flatten().filter_map(|reference| reference.get("uid")?.as_str());
    uids.any(|uid| owners.contains(uid))
}

/// The API server fetches logs from the node; where it cannot, there are none to be had.
fn unserved(error: ClusterError) -> ClusterError {
    match error.kind {
        ErrorKind::Server | ErrorKind::UnknownKind => {
            ClusterError::new(ErrorKind::Unsupported, format!("no logs can be had: {}", error.message))
        }
        _ => error,
    }
}

/// As text; a character that was cut in two at the beginning is left out.
fn text(bytes: Vec<u8>) -> String {
    let begun = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    String::from_utf8_lossy(bytes.get(begun..).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_cut_inside_a_character_is_still_text() {
        let whole = "größer".as_bytes();
        for (from, expected) in [(0, "größer"), (2, "ößer"), (3, "ßer"), (4, "ßer"), (5, "er")] {
            assert_eq!(text(whole[from..].to_vec()), expected, "{from}");
        }
        assert_eq!(text(Vec::new()), "");
    }
}
