//! Writes manifests: builds the resulting object and performs the server's checks.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Object, ObjectKey};

use super::admission::{PreparedManifest, has_generation};
use super::behavior::{Behavior, PREFIX};
use super::compose::{WriteKind, compose_object};
use super::json::{digest, drop_nulls, field, has_owner, is_deleting, text_field};
use super::kinds::is_definition;
use super::ownership::{FieldOwners, Operation, Writer};
use super::{SimState, api_error, controllers, defaults, immutable, validate};
use crate::{ApplyRequest, ApplyResult, ClusterError, WriteMode};

/// Result of a write, before it is stored.
struct Draft {
    object: Object,
    /// True if the draft differs from the existing object.
    is_changed: bool,
    /// True if the object does not exist yet.
    is_created: bool,
}

impl SimState {
    /// Validates a manifest, and writes it unless this is a dry run.
    pub(crate) fn write_manifest(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        write_kind: WriteKind,
    ) -> Result<ApplyResult, ClusterError> {
        let mut prepared = self.prepare_manifest(&request.object)?;
        let rng = self.rng;
        let named = self.assign_name(&mut prepared, write_kind.can_generate_names());
        let key = prepared.key.clone();
        let result = named.and_then(|()| {
            let draft = self.build_draft(manager, request, write_kind, &key, prepared)?;
            Ok(self.store_draft(draft, key, request.dry_run, write_kind))
        });
        if request.dry_run || result.is_err() {
            self.rng = rng;
        }
        result
    }

    /// Writes only the status, and fails if the object has changed since it was read. Does not wake the
    /// controllers of the kind.
    pub(crate) fn write_status(&mut self, key: &ObjectKey, new: &Object) -> Result<Object, ClusterError> {
        let prepared = self.prepare_manifest(new)?;
        let found = self.find(key).map(|stored| stored.object.clone());
        let before = found.ok_or_else(|| api_error::not_found(key))?;
        let request = ApplyRequest::new(new.clone(), WriteMode::Replace { recreate: false });
        check_preconditions(&request, &prepared, Some(&before), WriteKind::Put)?;
        let mut object = (*before).clone();
        let mut status = new.pointer("/status").cloned().unwrap_or_default();
        drop_nulls(&mut status);
        match status.is_null() {
            true => drop(object.fields_mut().remove("status")),
            false => drop(object.fields_mut().insert("status".to_owned(), status)),
        }
        if object == *before {
            return Ok(object);
        }
        let written = self.update(key, object, false);
        Ok((*written.ok_or_else(|| api_error::not_found(key))?).clone())
    }

    /// Transfers fields from the managers in `from` to the manager that is writing. Returns the next version
    /// of the object, or `None` if nothing changes.
    pub(crate) fn transfer_fields(
        &mut self,
        from: &[String],
        manager: &str,
        key: &ObjectKey,
    ) -> Option<Object> {
        let mut object = (*self.find(key)?.object).clone();
        let (api_version, now) = (text_field(&object, &["apiVersion"]).to_owned(), self.timestamp());
        let writer = Writer { manager, operation: Operation::Apply, api_version: &api_version, now: &now };
        let mut owners = FieldOwners::take_from(&mut object);
        let changes = owners.adopt(&object, writer, from);
        owners.store_in(&mut object);
        changes.then_some(object)
    }

    /// Performs all checks and returns the resulting draft.
    fn build_draft(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        write_kind: WriteKind,
        key: &ObjectKey,
        prepared: PreparedManifest,
    ) -> Result<Draft, ClusterError> {
        let found = self.find(key).map(|stored| stored.object.clone());
        // Like a real server, check last whether the object to create already exists.
        let (existing, in_the_way) =
            if write_kind == WriteKind::Create { (None, found) } else { (found, None) };
        check_preconditions(request, &prepared, existing.as_deref(), write_kind)?;
        if existing.is_none() {
            self.check_namespace(key)?;
        }
        validate::check_types(key, &prepared.manifest)?;
        if request.validate {
            validate::check_fields(key, &prepared.manifest, self.kinds.is_custom(&key.group_kind()))?;
        }
        let api_version = text_field(&prepared.manifest, &["apiVersion"]).to_owned();
        let now = self.timestamp();
        let writer =
            Writer { manager, operation: write_kind.operation(), api_version: &api_version, now: &now };
        let mut object = compose_object(write_kind, prepared, existing.as_deref(), writer)?;
        defaults::fill_defaults(key, &mut object, || cluster_ip(key));
        validate::check_object(key, &object)?;
        if let Some(other) = in_the_way {
            let refusal =
                if is_deleting(&other) { api_error::still_exists } else { api_error::already_exists };
            return Err(refusal(key));
        }
        match existing {
            Some(before) => {
                immutable::check_immutable_fields(key, &before, &object)?;
                check_finalizers(key, &before, &object)?;
                let is_changed = object != *before;
                if is_changed && has_generation(key) && has_spec_changed(&before, &object) {
                    let generation = before.generation() + 1;
                    object.metadata_mut().insert("generation".to_owned(), generation.into());
                }
                Ok(Draft { object, is_changed, is_created: false })
            }
            None => {
                self.assign_identity(key, &mut object);
                Ok(Draft { object, is_changed: true, is_created: true })
            }
        }
    }

    /// Sets the server-assigned fields of a new object.
    pub(crate) fn assign_identity(&mut self, key: &ObjectKey, object: &mut Object) {
        let (uid, now) = (self.rng.uuid(), self.timestamp());
        let metadata = object.metadata_mut();
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        if has_generation(key) {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }

    /// Stores the draft unless nothing changes or this is a dry run.
    fn store_draft(
        &mut self,
        draft: Draft,
        key: ObjectKey,
        dry_run: bool,
        write_kind: WriteKind,
    ) -> ApplyResult {
        let message = write_kind.result_message(&key, draft.is_created, draft.is_changed, dry_run);
        let is_created = draft.is_created;
        if dry_run || !draft.is_changed {
            return ApplyResult { object: draft.object, is_created, message, warnings: Vec::new() };
        }
        let written = if is_created {
            Some(self.create_object(key.clone(), draft.object))
        } else {
            self.update(&key, draft.object, true)
        };
        let mut object = written
            .map(|object| (*object).clone())
            .unwrap_or_else(|| unreachable!("the object was found above"));
        if is_definition(&key) {
            controllers::crd::step(self, &key);
            object = self.find(&key).map_or(object, |stored| (*stored.object).clone());
        }
        self.remove_if_unblocked(&key);
        ApplyResult { object, is_created, message, warnings: Vec::new() }
    }

    /// Adds a new object. Also counts the creation if the object has the `fail-times` annotation.
    pub(crate) fn create_object(&mut self, key: ObjectKey, object: Object) -> Arc<Object> {
        // A dependent behaves like its owner, so its own creations aren't counted.
        let fail_times = if has_owner(&object) { 0 } else { Behavior::from_object(&object).fail_times };
        let mut fails = false;
        if fail_times > 0 {
            let prefix = object.generate_name();
            let name = if prefix.is_empty() {
                key.to_string()
            } else {
                format!("{} {}/{prefix}", key.kind, key.namespace)
            };
            let count = self.creations.entry(name).or_default();
            fails = *count < fail_times;
            *count += 1;
        }
        self.insert(key, object, fails)
    }
}

fn check_preconditions(
    request: &ApplyRequest,
    prepared: &PreparedManifest,
    existing: Option<&Object>,
    write_kind: WriteKind,
) -> Result<(), ClusterError> {
    let key = &prepared.key;
    let Some(existing) = existing else { return Ok(()) };
    let (expected_uid, found) = (prepared.expected_uid.as_str(), existing.uid());
    if !expected_uid.is_empty() && expected_uid != found {
        let reason =
            format!("Precondition failed: UID in precondition: {expected_uid}, UID in object meta: {found}");
        return Err(api_error::conflict(key, &reason));
    }
    let of_manifest = prepared.expected_revision.as_str();
    let expected_version = match write_kind {
        WriteKind::Put if request.resource_version.is_empty() => of_manifest,
        _ => request.resource_version.as_str(),
    };
    if !expected_version.is_empty() && expected_version != existing.resource_version() {
        return Err(api_error::modified(key));
    }
    Ok(())
}

fn check_finalizers(key: &ObjectKey, before: &Object, after: &Object) -> Result<(), ClusterError> {
    if is_deleting(before) && after.finalizers().any(|finalizer| !before.has_finalizer(finalizer)) {
        let reason =
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(api_error::invalid(key, reason));
    }
    Ok(())
}

/// Returns true if the change increases the generation, that is, if it changes a field outside `metadata` and
/// `status`. The simulation's annotations count as well, because they change how the controllers behave.
fn has_spec_changed(before: &Object, after: &Object) -> bool {
    !spec_fields(before).eq(spec_fields(after))
        || simulation_annotations(before) != simulation_annotations(after)
}

fn spec_fields(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_value().as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion"))
}

fn simulation_annotations(object: &Object) -> Vec<(&String, &Value)> {
    let annotations = field(object, &["metadata", "annotations"]).and_then(Value::as_object);
    annotations.into_iter().flatten().filter(|(name, _)| name.starts_with(PREFIX)).collect()
}

/// Returns the IP address of a Service. Recreating the Service keeps the address.
fn cluster_ip(key: &ObjectKey) -> String {
    let number = digest(&Value::from(key.to_string()));
    format!("10.96.{}.{}", number % 256, 1 + (number >> 8) % 254)
}
