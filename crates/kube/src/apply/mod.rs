//! Writing manifests.

mod client_side;
mod definitions;
mod manner;
mod replace;

use std::time::Duration;

use http::{Method, StatusCode};
use tidegate_cluster::{Applied, ApplyRequest, ClusterError, ErrorKind, WriteMode};
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Gvk, Object, ObjectKey, OperationId};

use self::client_side::note;
use self::manner::{Manner, check_version, said};
use crate::KubeCluster;
use crate::paths::Target;
use crate::server::{APPLY_PATCH, Call, JSON};

/// What only the server writes.
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

/// A server that is there reads an object within this time.
const READ_WITHIN: Duration = Duration::from_secs(5);

impl KubeCluster {
    pub(crate) async fn write_manifest(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        let ApplyRequest { mut object, mode, validate, dry_run, take_over, resource_version, operation } =
            request;
        let manner = Manner { manager: FIELD_MANAGER, validate, dry_run, operation };
        let gvk = object.gvk();
        let only = match mode {
            // A manifest that names a version wants to replace that one.
            WriteMode::Replace { recreate: false } if resource_version.is_empty() => {
                object.resource_version().to_owned()
            }
            _ => resource_version,
        };
        let resource = self.kinds().find(self.http(), &gvk).await?;
        clean(&mut object, resource.namespaced, resource.status_apart);
        let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
        let target = if name.is_empty() && !matches!(mode, WriteMode::Apply { .. }) {
            Target::in_place(&gvk, resource, &namespace)?
        } else {
            Target::one(&gvk, resource, &namespace, &name)?
        };
        let take_over = take_over.filter(|_| !dry_run);
        let mut applied = match self.write_by(mode, &target, object, only, take_over, manner).await {
            Err(error) if error.kind == ErrorKind::Timeout => return Err(self.stalled(&target, error).await),
            other => other?,
        };
        if !dry_run
            && is_definition(&gvk)
            && let Some(status) = self.await_definition(&applied.object).await
        {
            applied.object.fields_mut().insert("status".to_owned(), status);
        }
        Ok(applied)
    }

    /// `only`: the version of the object that is meant, empty for any.
    async fn write_by(
        &self,
        mode: WriteMode,
        target: &Target<'_>,
        mut object: Object,
        mut only: String,
        take_over: Option<String>,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        match mode {
            WriteMode::Apply { force } => {
                if let Some(manager) = take_over {
                    only = self.take_over(target, &manager, only, manner).await?;
                }
                only_version(&mut object, &only);
                self.server_side(target, &object, force, manner).await
            }
            WriteMode::ClientSideApply => self.client_side(target, object, &only, manner).await,
            WriteMode::Create { client_side } => {
                if client_side {
                    note(target, &mut object)?;
                }
                self.create(target, &object, manner).await
            }
            WriteMode::Replace { recreate } => self.replace(target, object, &only, recreate, manner).await,
            WriteMode::Recreate { server_side } => {
                self.apply_anew(target, object, server_side, &only, manner).await
            }
        }
    }

    /// A write that got no answer, while a read of the same place gets one: it is not the cluster that is away, but
    /// something that is asked about writes only.
    async fn stalled(&self, target: &Target<'_>, error: ClusterError) -> ClusterError {
        let place =
            if target.name.is_empty() { format!("{}?limit=1", target.collection()) } else { target.path() };
        let call = Call::get(place);
        let reading = tokio::time::timeout(READ_WITHIN, self.http().call(&call)).await;
        match reading {
            Ok(Ok(answer))
                if !answer.status.is_server_error() && answer.status != StatusCode::TOO_MANY_REQUESTS =>
            {
                let words = "the cluster answers other requests; an admission webhook may not answer it";
                ClusterError::new(ErrorKind::Stalled, format!("{}: {words}", error.message))
            }
            _ => error,
        }
    }

    async fn server_side(
        &self,
        target: &Target<'_>,
        object: &Object,
        force: bool,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        let mut path = target.path();
        manner.query(&mut path);
        path.push_str(if force { "&force=true" } else { "&force=false" });
        let call = Call::write(Method::PATCH, path, APPLY_PATCH, bytes(object)?, manner.operation);
        let (answer, object) = self.object_call(target, &call).await?;
        let created = answer.status == StatusCode::CREATED;
        let message = said(&target.key(), "serverside-applied", manner);
        Ok(Applied { object, created, message, warnings: answer.warnings })
    }

    /// Creates an object, or replaces the very version of it that was read. One request: what somebody else has written
    /// meanwhile stays.
    pub(crate) async fn put_object(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let gvk = object.gvk();
        let resource = self.kinds().find(self.http(), &gvk).await?;
        let target = Target::one(&gvk, resource, object.namespace(), object.name())?;
        let manner = Manner { manager: self.manager(operation), validate: false, dry_run: false, operation };
        if object.resource_version().is_empty() {
            return Ok(self.create(&target, &object, manner).await?.object);
        }
        self.replace_version(&target, target.path(), &object, manner).await
    }

    /// Replaces the status of the very version that was read; the whole object where the status is not apart.
    pub(crate) async fn put_status_of(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let gvk = object.gvk();
        let resource = self.kinds().find(self.http(), &gvk).await?;
        let target = Target::one(&gvk, resource, object.namespace(), object.name())?;
        let manner = Manner { manager: self.manager(operation), validate: false, dry_run: false, operation };
        let mut path = target.path();
        if target.resource.status_apart {
            path.push_str("/status");
        }
        self.replace_version(&target, path, &object, manner).await
    }

    /// The version is in the object, and the server checks it.
    async fn replace_version(
        &self,
        target: &Target<'_>,
        mut path: String,
        object: &Object,
        manner: Manner,
    ) -> Result<Object, ClusterError> {
        manner.query(&mut path);
        let call = Call::write(Method::PUT, path, JSON, bytes(object)?, manner.operation);
        Ok(self.object_call(target, &call).await?.1)
    }

    /// Creates an object; its name may come from the server.
    async fn create(
        &self,
        target: &Target<'_>,
        object: &Object,
        manner: Manner,
    ) -> Result<Applied, ClusterError> {
        let mut path = target.collection();
        manner.query(&mut path);
        let call = Call::write(Method::POST, path, JSON, bytes(object)?, manner.operation);
        let (answer, object) = self.object_call(target, &call).await?;
        let key = ObjectKey { name: object.name().to_owned(), ..target.key() };
        let message = said(&key, "created", manner);
        Ok(Applied { object, created: true, message, warnings: answer.warnings })
    }
}

fn bytes(object: &Object) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(object.as_value())
        .map_err(|error| ClusterError::new(ErrorKind::Invalid, format!("{object} cannot be sent: {error}")))
}

/// Leaves of a manifest what we want to say.
fn clean(object: &mut Object, namespaced: bool, status_apart: bool) {
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

/// Says in what is sent which version it is meant for; the server checks that. Empty for any.
fn only_version(object: &mut Object, version: &str) {
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
    fn what_only_the_server_writes_is_not_sent() {
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
        clean(&mut object, false, true);
        let expected = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"a": "b"}, "finalizers": ["f"]},
        });
        assert_eq!(object.as_value(), &expected);
    }

    #[test]
    fn messages_are_those_of_kubectl() {
        let manner = |dry_run| Manner { manager: FIELD_MANAGER, validate: true, dry_run, operation: None };
        for (key, dry_run, words) in [
            (ObjectKey::new("apps", "Deployment", "shop", "api"), false, "deployment.apps/api created"),
            (ObjectKey::new("", "ConfigMap", "shop", "a"), true, "configmap/a created (server dry run)"),
        ] {
            assert_eq!(said(&key, "created", manner(dry_run)), words);
        }
    }
}
