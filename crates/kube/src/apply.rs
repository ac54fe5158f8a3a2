//! Writes manifests.

mod client_side;
mod definitions;
mod replace;
mod write_options;

use std::borrow::Cow;
use std::time::Duration;

use http::{Method, StatusCode};
use tidegate_cluster::{ApplyRequest, ApplyResult, ClusterError, ErrorKind, Refusal, WriteMode, check_write};
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Gvk, Object, ObjectKey, OperationId};

use self::client_side::store_last_applied;
use self::write_options::{WriteOptions, check_version, format_result};
use crate::KubeCluster;
use crate::call::{APPLY_PATCH, Call, JSON};
use crate::paths::Target;
use crate::refusal;

/// Fields that only the server writes.
const SERVER_FIELDS: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
];

/// Maximum number of unknown fields to remove from a manifest.
const UNKNOWN_FIELDS_MAX: usize = 64;
/// Maximum time for a working server to return an object.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

impl KubeCluster {
    pub(crate) async fn write_manifest(&self, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
        let ApplyRequest { mut object, mode, validate, dry_run, take_over, resource_version, operation } =
            request;
        let manner = WriteOptions { manager: FIELD_MANAGER, validate, dry_run, operation };
        let gvk = object.gvk();
        let only = match mode {
            // A manifest with a resource version may replace only that version.
            WriteMode::Replace { recreate: false } if resource_version.is_empty() => {
                object.resource_version().to_owned()
            }
            _ => resource_version,
        };
        let resource = self.kinds().find(self.api_server(), &gvk).await?;
        remove_server_fields(&mut object, resource.namespaced, resource.has_status_subresource);
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let target = if name.is_empty() && !matches!(mode, WriteMode::Apply { .. }) {
            Target::for_create(&gvk, resource, &namespace)?
        } else {
            Target::for_object(&gvk, resource, &namespace, &name)?
        };
        let take_over = if dry_run { Vec::new() } else { take_over };
        let mut applied = match self.write_in_mode(mode, &target, object, only, take_over, manner).await {
            Ok(applied) => applied,
            Err(error) => return Err(self.reclassify_timeout(&target, error).await),
        };
        if !dry_run
            && is_definition(&gvk)
            && let Some(status) = self.await_definition(&applied.object).await
        {
            applied.object.fields_mut().insert("status".to_owned(), status);
        }
        Ok(applied)
    }

    /// Writes a manifest. `only` is the expected version of the object; empty accepts any.
    async fn write_in_mode(
        &self,
        mode: WriteMode,
        target: &Target<'_>,
        mut object: Object,
        mut only: String,
        take_over: Vec<String>,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        match mode {
            WriteMode::Apply { force } => {
                if !take_over.is_empty() {
                    only = self.take_over_fields(target, &take_over, only, manner).await?;
                }
                set_expected_version(&mut object, &only);
                self.apply_server_side(target, &object, force, manner).await
            }
            WriteMode::ClientSideApply => self.apply_client_side(target, object, &only, manner).await,
            WriteMode::Create { client_side } => {
                if client_side {
                    store_last_applied(target, &mut object)?;
                }
                self.create_object(target, &object, manner).await
            }
            WriteMode::Replace { recreate } => {
                self.replace_object(target, object, &only, recreate, manner).await
            }
            WriteMode::Recreate { server_side } => {
                self.delete_and_apply(target, object, server_side, &only, manner).await
            }
        }
    }

    /// Reclassifies the timeout of a write if the object can still be read. The cluster is up then, but
    /// something that writes depend on, such as an admission webhook, isn't responding. Returns other errors
    /// unchanged, including that of a write that wasn't allowed to be sent.
    pub(crate) async fn reclassify_timeout(&self, target: &Target<'_>, error: ClusterError) -> ClusterError {
        if error.kind != ErrorKind::Timeout || check_write().is_err() {
            return error;
        }
        let place = if target.name.is_empty() {
            format!("{}?limit=1", target.collection_path())
        } else {
            target.path()
        };
        let call = Call::get(place);
        let reading = tokio::time::timeout(READ_TIMEOUT, self.api_server().call(&call)).await;
        match reading {
            Ok(Ok(answer))
                if !answer.status.is_server_error() && answer.status != StatusCode::TOO_MANY_REQUESTS =>
            {
                let text =
                    "the API server responds to other requests; an admission webhook may not be responding";
                ClusterError::new(ErrorKind::DependencyTimeout, format!("{}: {text}", error.message))
            }
            _ => error,
        }
    }

    async fn apply_server_side(
        &self,
        target: &Target<'_>,
        object: &Object,
        force: bool,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        let mut path = target.path();
        manner.push_query(&mut path);
        path.push_str(if force { "&force=true" } else { "&force=false" });
        let mut sent = Cow::Borrowed(object);
        let mut warnings = Vec::new();
        loop {
            let body = encode_object(&sent)?;
            let call = Call::write(Method::PATCH, path.clone(), APPLY_PATCH, body, manner.operation);
            let refused = match self.send_write(target, &call).await {
                Ok((answer, object)) => {
                    warnings.extend(answer.warnings);
                    let is_created = answer.status == StatusCode::CREATED;
                    let message = format_result(&target.key(), "serverside-applied", manner);
                    return Ok(ApplyResult { object, is_created, message, warnings });
                }
                Err(refused) => refused,
            };
            // Server-side apply refuses unknown fields even without validation; other writes drop them.
            match refused.refusal.as_deref() {
                Some(Refusal::UnknownFields(paths))
                    if !manner.validate && warnings.len() < UNKNOWN_FIELDS_MAX =>
                {
                    let fields = sent.to_mut().fields_mut();
                    if !paths.iter().all(|path| refusal::remove_path(fields, path)) {
                        return Err(refused);
                    }
                    let left_out = |path: &String| {
                        format!(
                            "unknown field {:?} is ignored (Validate=false)",
                            path.trim_start_matches('.')
                        )
                    };
                    warnings.extend(paths.iter().map(left_out));
                }
                _ => return Err(refused),
            }
        }
    }

    /// Creates an object, or replaces exactly the version that was read. A single request does this, so it
    /// never overwrites concurrent writes by other clients.
    pub(crate) async fn put_object(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let gvk = object.gvk();
        let resource = self.kinds().find(self.api_server(), &gvk).await?;
        let target = Target::for_object(&gvk, resource, object.namespace(), object.name())?;
        let manner =
            WriteOptions { manager: self.manager(operation), validate: false, dry_run: false, operation };
        if object.resource_version().is_empty() {
            return Ok(self.create_object(&target, &object, manner).await?.object);
        }
        self.replace_version(&target, target.path(), &object, manner).await
    }

    /// Replaces the status of exactly the version that was read, or the whole object if the kind has no
    /// status subresource.
    pub(crate) async fn put_object_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let gvk = object.gvk();
        let resource = self.kinds().find(self.api_server(), &gvk).await?;
        let target = Target::for_object(&gvk, resource, object.namespace(), object.name())?;
        let manner =
            WriteOptions { manager: self.manager(operation), validate: false, dry_run: false, operation };
        let mut path = target.path();
        if target.resource.has_status_subresource {
            path.push_str("/status");
        }
        self.replace_version(&target, path, &object, manner).await
    }

    /// Replaces exactly the version in the object's `resourceVersion`. The server checks it.
    async fn replace_version(
        &self,
        target: &Target<'_>,
        mut path: String,
        object: &Object,
        manner: WriteOptions,
    ) -> Result<Object, ClusterError> {
        manner.push_query(&mut path);
        let call = Call::write(Method::PUT, path, JSON, encode_object(object)?, manner.operation);
        Ok(self.send_write(target, &call).await?.1)
    }

    /// Creates an object. The server may generate its name.
    async fn create_object(
        &self,
        target: &Target<'_>,
        object: &Object,
        manner: WriteOptions,
    ) -> Result<ApplyResult, ClusterError> {
        let mut path = target.collection_path();
        manner.push_query(&mut path);
        let call = Call::write(Method::POST, path, JSON, encode_object(object)?, manner.operation);
        let (answer, object) = self.send_write(target, &call).await?;
        let key = ObjectKey { name: object.name().to_owned(), ..target.key() };
        let message = format_result(&key, "created", manner);
        Ok(ApplyResult { object, is_created: true, message, warnings: answer.warnings })
    }
}

fn encode_object(object: &Object) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(object.as_value())
        .map_err(|error| ClusterError::new(ErrorKind::Invalid, format!("cannot serialize {object}: {error}")))
}

/// Removes server fields from a manifest.
fn remove_server_fields(object: &mut Object, namespaced: bool, status_apart: bool) {
    if !namespaced {
        object.set_namespace("");
    }
    if status_apart {
        object.fields_mut().remove("status");
    }
    let named = !object.name().is_empty();
    let metadata = object.metadata_mut();
    SERVER_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
    if named {
        metadata.remove("generateName");
    }
}

/// Sets the expected version for the server to check. Empty accepts any version.
fn set_expected_version(object: &mut Object, version: &str) {
    if !version.is_empty() {
        object.metadata_mut().insert("resourceVersion".to_owned(), version.into());
    }
}

fn is_definition(gvk: &Gvk) -> bool {
    gvk.group == "apiextensions.k8s.io" && gvk.kind == "CustomResourceDefinition"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn server_fields_are_not_sent() {
        let mut object = Object::try_from(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": "shop", "namespace": "elsewhere", "uid": "u", "resourceVersion": "5", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}], "selfLink": "/x",
                "generateName": "sh", "labels": {"a": "b"}, "finalizers": ["f"],
            },
            "status": {"phase": "Active"},
        }))
        .unwrap();
        remove_server_fields(&mut object, false, true);
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"a": "b"}, "finalizers": ["f"]},
        });
        assert_eq!(object.as_value(), &expected);
    }

    #[test]
    fn messages_match_kubectl() {
        let manner =
            |dry_run| WriteOptions { manager: FIELD_MANAGER, validate: true, dry_run, operation: None };
        for (key, dry_run, text) in [
            (ObjectKey::new("apps", "Deployment", "shop", "api"), false, "deployment.apps/api created"),
            (ObjectKey::new("", "ConfigMap", "shop", "a"), true, "configmap/a created (server dry run)"),
        ] {
            assert_eq!(format_result(&key, "created", manner(dry_run)), text);
        }
    }
}
