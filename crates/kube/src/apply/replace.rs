//! Replacement of whole objects.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use tidegate_cluster::{ApplyResult, ClusterError, DeleteRequest, ErrorKind, Propagation};
use tidegate_model::Object;

use super::{WriteOptions, check_version, encode_object, format_result, is_definition, set_expected_version};
use crate::KubeCluster;
use crate::call::{Call, JSON};
use crate::paths::Target;

/// Fields that the cluster allocates once and refuses to change. A manifest that omits them keeps their
/// values.
const ALLOCATED_FIELDS: [(&str, &str); 4] = [
    ("Service", "clusterIP"),
    ("PersistentVolumeClaim", "volumeName"),
    ("Pod", "nodeName"),
    ("Namespace", "finalizers"),
];
/// Interval between checks that an object is gone, before it is created again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl KubeCluster {
    /// Replaces an object. `only` is the expected resource version; empty accepts any.
    pub(super) async fn replace_object(
        &self,
        target: &Target<'_>,
        mut object: Object,
        only: &str,
        recreate: bool,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        let live = if target.name.is_empty() { None } else { self.read_object(target).await? };
        let Some(live) = live else { return self.create_object(target, &object, manner).await };
        if recreate {
            check_version(target, &live, only)?;
            return self.recreate_object(target, &object, &live, manner).await;
        }
        keep_allocated_fields(&mut object, &live);
        set_expected_version(&mut object, if only.is_empty() { live.resource_version() } else { only });
        let mut path = target.path();
        manner.push_query(&mut path);
        let call = Call::write(Method::PUT, path, JSON, encode_object(&object)?, manner.operation);
        let (answer, object) = self.send_write(target, &call).await?;
        let message = replace_message(target, manner);
        Ok(ApplyResult { object, is_created: false, message, warnings: answer.warnings })
    }

    async fn recreate_object(
        &self,
        target: &Target<'_>,
        object: &Object,
        live: &Object,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        self.delete_and_wait(target, live, manner).await?;
        if manner.dry_run {
            Ok(dry_run_result(target, object, manner))
        } else {
            self.create_object(target, object, manner).await
        }
    }

    /// Deletes an object if it exists, and applies its manifest.
    pub(super) async fn delete_and_apply(
        &self,
        target: &Target<'_>,
        object: Object,
        server_side: bool,
        only: &str,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        if let Some(live) = self.read_object(target).await? {
            check_version(target, &live, only)?;
            self.delete_and_wait(target, &live, manner).await?;
            if manner.dry_run {
                return Ok(dry_run_result(target, &object, manner));
            }
        }
        if server_side {
            self.apply_server_side(target, &object, true, manner).await
        } else {
            self.apply_client_side(target, object, "", manner).await
        }
    }

    /// Deletes an object and waits until it is gone, at most for the timeout of a call.
    async fn delete_and_wait(
        &self,
        target: &Target<'_>,
        live: &Object,
        manner: WriteOptions,
    ) -> Result<(), ClusterError> {
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
                match self.read_object(target).await? {
                    Some(object) if object.uid() == live.uid() => tokio::time::sleep(POLL_INTERVAL).await,
                    _ => return Ok(()),
                }
            }
        };
        tokio::time::timeout(self.api_server().call_timeout(), gone).await.unwrap_or_else(|_| {
            let finalizers: Vec<&str> = live.finalizers().collect();
            let held = if finalizers.is_empty() {
                String::new()
            } else {
                format!(" (finalizers: {})", finalizers.join(", "))
            };
            let text =
                format!("{} cannot be recreated: the old object is still being deleted{held}", target.key());
            Err(ClusterError::new(ErrorKind::Conflict, text))
        })
    }
}

/// Returns the result of dry-running only the deletion. Dry-running the creation would fail while the old
/// object exists.
fn dry_run_result(target: &Target<'_>, object: &Object, manner: WriteOptions) -> ApplyResult {
    let message = format_result(&target.key(), "created", manner);
    ApplyResult { object: object.clone(), is_created: true, message, warnings: Vec::new() }
}

/// Returns the message for a replacement, in Argo CD's wording. Namespaces and definitions are updated
/// instead.
fn replace_message(target: &Target<'_>, manner: WriteOptions) -> String {
    if target.gvk.kind == "Namespace" || is_definition(target.gvk) {
        let suffix = if manner.dry_run { " (server dry run)" } else { "" };
        return format!("{}/{} updated{suffix}", target.gvk.kind, target.name);
    }
    format_result(&target.key(), "replaced", manner)
}

fn keep_allocated_fields(object: &mut Object, live: &Object) {
    if !object.group().is_empty() {
        return;
    }
    let fields: Vec<&str> =
        ALLOCATED_FIELDS.iter().filter(|(kind, _)| *kind == object.kind()).map(|(_, field)| *field).collect();
    for field in fields {
        let path = format!("/spec/{field}");
        let missing = object.pointer(&path).is_none_or(Value::is_null);
        if let Some(value) = live.pointer(&path).filter(|_| missing) {
            object.section_mut("spec").insert(field.to_owned(), value.clone());
        }
    }
}
