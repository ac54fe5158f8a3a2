//! Writing a manifest: what becomes of it, and whether the server takes it.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Object, ObjectKey};

use super::admission::{Prepared, counts_generations};
use super::behaviour::{Behaviour, PREFIX};
use super::compose::{Way, compose};
use super::json::{digest, drop_nulls, field, has_owner, is_deleting, text};
use super::kinds::is_definition;
use super::ownership::{Operation, Owners, Writer};
use super::{SimState, controllers, defaults, immutable, refuse, validate};
use crate::{Applied, ApplyRequest, ClusterError, WriteMode};

/// What a write would make of an object.
struct Draft {
    object: Object,
    /// It differs from what is there.
    changed: bool,
    /// There is nothing yet.
    created: bool,
}

impl SimState {
    /// Judges a manifest, and writes it unless this is a dry run.
    pub(crate) fn write_manifest(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        way: Way,
    ) -> Result<Applied, ClusterError> {
        let mut prepared = self.prepare(&request.object)?;
        let rng = self.rng;
        let named = self.name(&mut prepared, way.may_generate_names());
        let key = prepared.key.clone();
        let result = named.and_then(|()| {
            let draft = self.draft(manager, request, way, &key, prepared)?;
            Ok(self.settle(draft, key, request.dry_run, way))
        });
        if request.dry_run || result.is_err() {
            self.rng = rng;
        }
        result
    }

    /// Writes the status of the version that was read, and nothing else; no controller of its own is woken by it.
    pub(crate) fn write_status(&mut self, key: &ObjectKey, wanted: &Object) -> Result<Object, ClusterError> {
        let prepared = self.prepare(wanted)?;
        let found = self.find(key).map(|stored| stored.object.clone());
        let before = found.ok_or_else(|| refuse::not_found(key))?;
        let request = ApplyRequest::new(wanted.clone(), WriteMode::Replace { recreate: false });
        check_preconditions(&request, &prepared, Some(&before), Way::Put)?;
        let mut object = (*before).clone();
        let mut status = wanted.pointer("/status").cloned().unwrap_or_default();
        drop_nulls(&mut status);
        match status.is_null() {
            true => drop(object.fields_mut().remove("status")),
            false => drop(object.fields_mut().insert("status".to_owned(), status)),
        }
        if object == *before {
            return Ok(object);
        }
        let written = self.update(key, object, false);
        Ok((*written.ok_or_else(|| refuse::not_found(key))?).clone())
    }

    /// What another manager wrote to an object by updates becomes the writer's. The next version of the object, if
    /// anything changes.
    pub(crate) fn hand_over(&mut self, from: &str, manager: &str, key: &ObjectKey) -> Option<Object> {
        let mut object = (*self.find(key)?.object).clone();
        let (api_version, now) = (text(&object, &["apiVersion"]).to_owned(), self.timestamp());
        let writer = Writer { manager, operation: Operation::Apply, api_version: &api_version, now: &now };
        let mut owners = Owners::take(&mut object);
        let changes = owners.adopt(&object, writer, from);
        owners.put(&mut object);
        changes.then_some(object)
    }

    /// What the write would make of the object, after every check.
    fn draft(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        way: Way,
        key: &ObjectKey,
        prepared: Prepared,
    ) -> Result<Draft, ClusterError> {
        let found = self.find(key).map(|stored| stored.object.clone());
        // As a server does, a creation meets what has its name at last, when all else is in order.
        let (existing, in_the_way) = if way == Way::Create { (None, found) } else { (found, None) };
        check_preconditions(request, &prepared, existing.as_deref(), way)?;
        if existing.is_none() {
            self.check_namespace(key)?;
        }
        validate::check_types(key, &prepared.manifest)?;
        if request.validate {
            validate::check_fields(key, &prepared.manifest, self.kinds.is_custom(&key.group_kind()))?;
        }
        let api_version = text(&prepared.manifest, &["apiVersion"]).to_owned();
        let now = self.timestamp();
        let writer = Writer { manager, operation: way.operation(), api_version: &api_version, now: &now };
        let mut object = compose(way, prepared, existing.as_deref(), writer)?;
        defaults::fill_in(key, &mut object, || cluster_ip(key));
        validate::check(key, &object)?;
        if let Some(other) = in_the_way {
            let refusal = if is_deleting(&other) { refuse::still_exists } else { refuse::already_exists };
            return Err(refusal(key));
        }
        match existing {
            Some(before) => {
                immutable::check(key, &before, &object)?;
                check_finalizers(key, &before, &object)?;
                let changed = object != *before;
                if changed && counts_generations(key) && spec_changed(&before, &object) {
                    let generation = before.generation() + 1;
                    object.metadata_mut().insert("generation".to_owned(), generation.into());
                }
                Ok(Draft { object, changed, created: false })
            }
            None => {
                self.give_identity(key, &mut object);
                Ok(Draft { object, changed: true, created: true })
            }
        }
    }

    /// What every new object gets from the server.
    pub(crate) fn give_identity(&mut self, key: &ObjectKey, object: &mut Object) {
        let (uid, now) = (self.rng.uuid(), self.timestamp());
        let metadata = object.metadata_mut();
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        if counts_generations(key) {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }

    /// Writes the draft unless nothing changed or nothing is to be written.
    fn settle(&mut self, draft: Draft, key: ObjectKey, dry_run: bool, way: Way) -> Applied {
        let message = way.message(&key, draft.created, draft.changed, dry_run);
        let created = draft.created;
        if dry_run || !draft.changed {
            return Applied { object: draft.object, created, message, warnings: Vec::new() };
        }
        let written = if created {
            Some(self.create(key.clone(), draft.object))
        } else {
            self.update(&key, draft.object, true)
        };
        let mut object = written
            .map(|object| (*object).clone())
            .unwrap_or_else(|| unreachable!("the object was found above"));
        if is_definition(&key) {
            controllers::definition::step(self, &key);
            object = self.find(&key).map_or(object, |stored| (*stored.object).clone());
        }
        self.finish_if_done(&key);
        Applied { object, created, message, warnings: Vec::new() }
    }

    /// Puts a new object into the world, and counts it where the first few are to fail.
    pub(crate) fn create(&mut self, key: ObjectKey, object: Object) -> Arc<Object> {
        // What a controller makes from a template does what its owner does.
        let fail_times = if has_owner(&object) { 0 } else { Behaviour::of(&object).fail_times };
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
    prepared: &Prepared,
    existing: Option<&Object>,
    way: Way,
) -> Result<(), ClusterError> {
    let key = &prepared.key;
    let Some(existing) = existing else { return Ok(()) };
    let (wanted, found) = (prepared.expected_uid.as_str(), existing.uid());
    if !wanted.is_empty() && wanted != found {
        let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}");
        return Err(refuse::conflict(key, &why));
    }
    let of_manifest = prepared.expected_revision.as_str();
    let wanted = match way {
        Way::Put if request.resource_version.is_empty() => of_manifest,
        _ => request.resource_version.as_str(),
    };
    if !wanted.is_empty() && wanted != existing.resource_version() {
        return Err(refuse::modified(key));
    }
    Ok(())
}

fn check_finalizers(key: &ObjectKey, before: &Object, after: &Object) -> Result<(), ClusterError> {
    if is_deleting(before) && after.finalizers().any(|finalizer| !before.has_finalizer(finalizer)) {
        let why =
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(refuse::invalid(key, why));
    }
    Ok(())
}

/// Whether a new generation begins: anything but `metadata` and `status` changed. Annotations of the simulation count
/// as well, because they change what the controllers will do.
fn spec_changed(before: &Object, after: &Object) -> bool {
    !spec_fields(before).eq(spec_fields(after)) || steering(before) != steering(after)
}

fn spec_fields(object: &Object) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_value().as_object().into_iter().flatten();
    fields.filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion"))
}

fn steering(object: &Object) -> Vec<(&String, &Value)> {
    let annotations = field(object, &["metadata", "annotations"]).and_then(Value::as_object);
    annotations.into_iter().flatten().filter(|(name, _)| name.starts_with(PREFIX)).collect()
}

/// The address a Service gets: the same one whenever it is created again.
fn cluster_ip(key: &ObjectKey) -> String {
    let number = digest(&Value::from(key.to_string()));
    format!("10.96.{}.{}", number % 256, 1 + (number >> 8) % 254)
}
