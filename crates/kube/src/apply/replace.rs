//! Replacing an object as a whole.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use tidegate_cluster::{Applied, ClusterError, DeleteRequest, ErrorKind, Propagation};
use tidegate_model::Object;

use super::{Manner, bytes, check_version, is_definition, only_version, said};
use crate::KubeCluster;
use crate::paths::Target;
use crate::server::{Call, JSON};

/// What the cluster fills in once and refuses to change: a manifest that does not speak of it means to keep it.
const ALLOCATED: [(&str, &str); 4] = [
    ("Service", "clusterIP"),
    ("PersistentVolumeClaim", "volumeName"),
    ("Pod", "nodeName"),
    ("Namespace", "finalizers"),
];
/// How often a deleted object is looked for before its successor is made.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl KubeCluster {
    /// `only`: the resource version that is to be replaced, empty for the newest.
    pub(super) async fn replace(
        &self,
        target: &Target<'_>,
        mut object: Object,
        only: &str,
        recreate: bool,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        let live = if target.name.is_empty() { None } else { self.read(target).await? };
        let Some(live) = live else { return self.create(target, &object, manner).await };
        if recreate {
            check_version(target, &live, only)?;
            return self.recreate(target, &object, &live, manner).await;
        }
        keep_allocated(&mut object, &live);
        only_version(&mut object, if only.is_empty() { live.resource_version() } else { only });
        let mut path = target.path();
        manner.query(&mut path);
        let call = Call::write(Method::PUT, path, JSON, bytes(&object)?, manner.operation);
        let (answer, object) = self.object_call(target, &call).await?;
        let message = replaced(target, manner);
        Ok(Applied { object, created: false, message, warnings: answer.warnings })
    }

    /// Deletes an object and makes it anew.
    async fn recreate(
        &self,
        target: &Target<'_>,
        object: &Object,
        live: &Object,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        self.remove(target, live, manner).await?;
        if manner.dry_run {
            Ok(tried(target, object, manner))
        } else {
            self.create(target, object, manner).await
        }
    }

    /// Deletes an object, where there is one, and applies its manifest.
    pub(super) async fn apply_anew(
        &self,
        target: &Target<'_>,
        object: Object,
        server_side: bool,
        only: &str,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        if let Some(live) = self.read(target).await? {
            check_version(target, &live, only)?;
            self.remove(target, &live, manner).await?;
            if manner.dry_run {
                return Ok(tried(target, &object, manner));
            }
        }
        if server_side {
            self.server_side(target, &object, true, manner).await
        } else {
            self.client_side(target, object, "", manner).await
        }
    }

    /// Deletes an object and waits until it is gone, for as long as a call may take.
    async fn remove(&self, target: &Target<'_>, live: &Object, manner: Manner) -> Result<(), ClusterError> {
        let request = DeleteRequest {
            gvk: target.gvk.clone(),
            namespace: target.namespace.to_owned(),
            name: target.name.to_owned(),
            uid: live.uid().to_owned(),
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: manner.dry_run,
            operation: manner.operation,
        };
        match self.delete_object(&request).await {
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if manner.dry_run {
            return Ok(());
        }
        let gone = async {
            loop {
                match self.read(target).await? {
                    Some(object) if object.uid() == live.uid() => tokio::time::sleep(LOOK_AGAIN).await,
                    _ => return Ok(()),
                }
            }
        };
        tokio::time::timeout(self.http().call_timeout(), gone).await.unwrap_or_else(|_| {
            let finalizers: Vec<&str> = live.finalizers().collect();
            let held =
                if finalizers.is_empty() { String::new() } else { format!(" ({})", finalizers.join(", ")) };
            let words = format!(
                "{} cannot be created again: the old object is still being deleted{held}",
                target.key()
            );
            Err(ClusterError::new(ErrorKind::Conflict, words))
        })
    }
}

/// The old object is still in the way of a creation: what could be tried was the deletion.
fn tried(target: &Target<'_>, object: &Object, manner: Manner) -> Applied {
    let message = said(&target.key(), "created", manner);
    Applied { object: object.clone(), created: true, message, warnings: Vec::new() }
}

/// What other objects depend on is updated, and the words are Argo CD's.
fn replaced(target: &Target<'_>, manner: Manner) -> String {
    if target.gvk.kind == "Namespace" || is_definition(target.gvk) {
        let suffix = if manner.dry_run { " (server dry run)" } else { "" };
        return format!("{}/{} updated{suffix}", target.gvk.kind, target.name);
    }
    said(&target.key(), "replaced", manner)
}

fn keep_allocated(object: &mut Object, live: &Object) {
    if !object.group().is_empty() {
        return;
    }
    let fields: Vec<&str> =
        ALLOCATED.iter().filter(|(kind, _)| *kind == object.kind()).map(|(_, field)| *field).collect();
    for field in fields {
        let path = format!("/spec/{field}");
        let missing = object.pointer(&path).is_none_or(Value::is_null);
        if let Some(value) = live.pointer(&path).filter(|_| missing) {
            object.section_mut("spec").insert(field.to_owned(), value.clone());
        }
    }
}
