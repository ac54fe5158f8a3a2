//! Entry point for external writes: runs due steps, draws a fault, executes or refuses the write, and records
//! it in the audit log.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Object, ObjectKey, OperationId, Timestamp};

use super::SimState;
use super::api_error;
use super::audit::{Verb, WriteAttempt, http_status};
use super::compose::{WriteKind, store_last_applied};
use super::faults::CallFault;
use super::json::{gvk_of, key_of, text_field};
use crate::{
    ApplyRequest, ApplyResult, ClusterError, DeleteRequest, DeleteResult, JobStart, Propagation, WriteMode,
    field_manager,
};

/// An external write, in the form stored in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Write {
    Apply { manager: String, request: ApplyRequest },
    Delete { request: DeleteRequest },
    RemoveFinalizer { key: ObjectKey, uid: String, finalizer: String, operation: Option<OperationId> },
    Put { object: Object, operation: Option<OperationId> },
    PutStatus { object: Object, operation: Option<OperationId> },
    StartJob { request: JobStart },
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteResult {
    Applied(ApplyResult),
    Deleted(DeleteResult),
    Done,
}

impl SimState {
    /// Writes a manifest as the engine.
    pub fn apply(&mut self, now: Timestamp, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
        self.apply_as(now, FIELD_MANAGER, request)
    }

    /// Writes a manifest as the given field manager.
    pub fn apply_as(
        &mut self,
        now: Timestamp,
        manager: &str,
        request: ApplyRequest,
    ) -> Result<ApplyResult, ClusterError> {
        match self.write(now, &Write::Apply { manager: manager.to_owned(), request })? {
            WriteResult::Applied(applied) => Ok(applied),
            other => unreachable!("unexpected response to an apply: {other:?}"),
        }
    }

    /// Deletes an object, or starts its deletion if finalizers block it.
    pub fn delete(&mut self, now: Timestamp, request: DeleteRequest) -> Result<DeleteResult, ClusterError> {
        match self.write(now, &Write::Delete { request })? {
            WriteResult::Deleted(deleted) => Ok(deleted),
            other => unreachable!("unexpected response to a delete: {other:?}"),
        }
    }

    /// Removes one finalizer. Succeeds if the object or the finalizer no longer exists, or if the object has
    /// a different UID.
    pub fn remove_finalizer(
        &mut self,
        now: Timestamp,
        key: &ObjectKey,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        let (uid, finalizer) = (uid.to_owned(), finalizer.to_owned());
        self.write(now, &Write::RemoveFinalizer { key: key.clone(), uid, finalizer, operation }).map(drop)
    }

    fn write(&mut self, now: Timestamp, write: &Write) -> Result<WriteResult, ClusterError> {
        match self.draw_fault() {
            Some(CallFault::TimeoutBefore) => Err(CallFault::TimeoutBefore.error()),
            fault => {
                self.advance(now);
                self.execute(write, fault)
            }
        }
    }

    /// Draws the fault for the next write.
    pub(crate) fn draw_fault(&mut self) -> Option<CallFault> {
        self.injector.draw_write_fault()
    }

    /// Executes a received write, subject to its fault. The caller must run all due steps first.
    pub(crate) fn execute(
        &mut self,
        write: &Write,
        fault: Option<CallFault>,
    ) -> Result<WriteResult, ClusterError> {
        let refusal = fault.filter(|fault| *fault != CallFault::TimeoutAfter);
        let result = match write {
            Write::Apply { manager, request } => {
                self.execute_apply(manager, request, refusal).map(WriteResult::Applied)
            }
            Write::Put { object, operation } => {
                self.execute_put(object, *operation, refusal).map(WriteResult::Applied)
            }
            Write::PutStatus { object, operation } => {
                self.execute_put_status(object, *operation, refusal).map(WriteResult::Applied)
            }
            Write::StartJob { request } => self.execute_job_start(request, refusal).map(WriteResult::Applied),
            Write::Delete { request } => self.execute_delete(request, refusal).map(WriteResult::Deleted),
            Write::RemoveFinalizer { key, uid, finalizer, operation } => self
                .execute_remove_finalizer(key, uid, finalizer, *operation, refusal)
                .map(|()| WriteResult::Done),
        };
        match fault {
            Some(fault @ CallFault::TimeoutAfter) => Err(fault.error()),
            _ => result,
        }
    }

    fn execute_apply(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        refusal: Option<CallFault>,
    ) -> Result<ApplyResult, ClusterError> {
        let key = self.request_key(&request.object);
        let exists = self.find(&key).is_some();
        let (verb, write_kind) = match request.mode {
            WriteMode::Apply { force } => (Verb::Apply, WriteKind::Apply { force }),
            WriteMode::ClientSideApply => (if exists { Verb::Patch } else { Verb::Create }, WriteKind::Patch),
            WriteMode::Create { .. } => (Verb::Create, WriteKind::Create),
            WriteMode::Replace { recreate: true } if exists => {
                return self.recreate(manager, request, key, refusal, WriteKind::Create);
            }
            WriteMode::Recreate { server_side } => {
                let write_kind =
                    if server_side { WriteKind::Apply { force: true } } else { WriteKind::Patch };
                if exists {
                    return self.recreate(manager, request, key, refusal, write_kind);
                }
                (if server_side { Verb::Apply } else { Verb::Create }, write_kind)
            }
            WriteMode::Replace { .. } => (if exists { Verb::Update } else { Verb::Create }, WriteKind::Put),
        };
        let attempt = WriteAttempt { verb, dry_run: request.dry_run, key, operation: request.operation };
        let (mut request, mut refusal) = (Cow::Borrowed(request), refusal);
        if request.mode == (WriteMode::Create { client_side: true }) {
            store_last_applied(&mut request.to_mut().object);
        }
        if let WriteKind::Apply { .. } = write_kind
            && let Some(newer) = self.take_over(manager, &request, &attempt, refusal)?
        {
            refusal = None;
            if !request.resource_version.is_empty() {
                request.to_mut().resource_version = newer;
            }
        }
        self.run_audited(attempt, refusal, |state| state.write_manifest(manager, &request, write_kind))
    }

    /// Transfers the fields of other managers in a separate write before a server-side apply. Returns the new
    /// version of the object, or `None` if there were no fields to transfer.
    fn take_over(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        attempt: &WriteAttempt,
        refusal: Option<CallFault>,
    ) -> Result<Option<String>, ClusterError> {
        let key = &attempt.key;
        if request.take_over.is_empty() || request.dry_run {
            return Ok(None);
        }
        let wanted = request.resource_version.as_str();
        let found = self.find(key).map_or(wanted, |stored| stored.object.resource_version());
        if !wanted.is_empty() && wanted != found {
            return Err(api_error::modified(key));
        }
        let Some(object) = self.transfer_fields(&request.take_over, manager, key) else { return Ok(None) };
        let attempt = WriteAttempt { verb: Verb::Patch, ..attempt.clone() };
        self.run_audited(attempt, refusal, |state| {
            state.update(key, object, true);
            Ok(())
        })?;
        Ok(self.find(key).map(|stored| stored.object.resource_version().to_owned()))
    }

    /// Creates the object if it doesn't have a resource version. Otherwise, replaces the version in
    /// `metadata.resourceVersion`.
    fn execute_put(
        &mut self,
        object: &Object,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<ApplyResult, ClusterError> {
        let key = self.request_key(object);
        let is_new = object.resource_version().is_empty();
        let (verb, write_kind) =
            if is_new { (Verb::Create, WriteKind::Create) } else { (Verb::Update, WriteKind::Put) };
        let request = put_request(object.clone(), operation);
        let is_there = is_new || self.find(&key).is_some();
        let attempt = WriteAttempt { verb, dry_run: false, key: key.clone(), operation };
        self.run_audited(attempt, refusal, |state| {
            if is_there {
                state.write_manifest(field_manager(operation), &request, write_kind)
            } else {
                Err(api_error::not_found(&key))
            }
        })
    }

    /// Starts a suspended Job with exactly the requested UID.
    fn execute_job_start(
        &mut self,
        request: &JobStart,
        refusal: Option<CallFault>,
    ) -> Result<ApplyResult, ClusterError> {
        let (key, operation) = (request.key(), request.operation);
        let attempt = WriteAttempt { verb: Verb::Patch, dry_run: false, key: key.clone(), operation };
        self.run_audited(attempt, refusal, |state| {
            let found = state.find(&key).filter(|stored| stored.object.uid() == request.uid);
            let Some(mut job) = found.map(|stored| (*stored.object).clone()) else {
                return Err(api_error::not_found(&key));
            };
            job.start_job();
            state.write_manifest(field_manager(operation), &put_request(job, operation), WriteKind::Put)
        })
    }

    /// Writes an object's status, or the whole object if its kind doesn't have a status subresource.
    fn execute_put_status(
        &mut self,
        object: &Object,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<ApplyResult, ClusterError> {
        let kind = gvk_of(object).group_kind();
        if self.kinds.is_custom(&kind) && !self.kinds.has_status_subresource(&kind) {
            return self.execute_put(object, operation, refusal);
        }
        let key = self.request_key(object);
        let attempt = WriteAttempt { verb: Verb::Update, dry_run: false, key: key.clone(), operation };
        self.run_audited(attempt, refusal, |state| {
            let object = state.write_status(&key, object)?;
            Ok(ApplyResult { object, is_created: false, message: String::new(), warnings: Vec::new() })
        })
    }

    /// Deletes the old object and creates a new one, in two writes.
    fn recreate(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        key: ObjectKey,
        refusal: Option<CallFault>,
        write_kind: WriteKind,
    ) -> Result<ApplyResult, ClusterError> {
        let delete = DeleteRequest {
            gvk: request.object.gvk(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: String::new(),
            resource_version: request.resource_version.clone(),
            propagation: Propagation::Background,
            dry_run: request.dry_run,
            operation: request.operation,
        };
        self.execute_delete(&delete, refusal)?;
        // A client would wait for the pod to terminate. The simulation ends the pod immediately.
        self.finish_deletion_now(&key, request.dry_run);
        if request.dry_run {
            // A client can only dry-run the deletion, because a dry run of the creation would fail while the
            // old object exists.
            let prepared = self.prepare_manifest(&request.object)?;
            let message = WriteKind::Create.result_message(&prepared.key, true, true, true);
            return Ok(ApplyResult {
                object: prepared.manifest,
                is_created: true,
                message,
                warnings: Vec::new(),
            });
        }
        let verb = if matches!(write_kind, WriteKind::Apply { .. }) { Verb::Apply } else { Verb::Create };
        let attempt = WriteAttempt { verb, dry_run: request.dry_run, key, operation: request.operation };
        self.run_audited(attempt, None, |state| state.write_manifest(manager, request, write_kind))
    }

    fn finish_deletion_now(&mut self, key: &ObjectKey, dry_run: bool) {
        if let Some(stored) = self.objects.get_mut(key).filter(|_| !dry_run) {
            stored.held_until = None;
            self.remove_if_unblocked(key);
        }
    }

    fn execute_delete(
        &mut self,
        request: &DeleteRequest,
        refusal: Option<CallFault>,
    ) -> Result<DeleteResult, ClusterError> {
        let DeleteRequest { gvk, namespace, name, dry_run, operation, .. } = request;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        let attempt = WriteAttempt { verb: Verb::Delete, dry_run: *dry_run, key, operation: *operation };
        self.run_audited(attempt, refusal, |state| state.delete_object(request))
    }

    /// Removes a finalizer like a client: reads the object first, and writes only if the finalizer exists.
    fn execute_remove_finalizer(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<(), ClusterError> {
        if !self.has_finalizer(key, uid, finalizer) {
            return Ok(());
        }
        let attempt = WriteAttempt { verb: Verb::Patch, dry_run: false, key: key.clone(), operation };
        self.run_audited(attempt, refusal, |state| {
            state.drop_finalizer(key, finalizer);
            Ok(())
        })
    }

    /// Runs an action and records its outcome. If the write has already been refused, records the refusal
    /// instead.
    fn run_audited<T: AuditDetails>(
        &mut self,
        mut attempt: WriteAttempt,
        refusal: Option<CallFault>,
        act: impl FnOnce(&mut Self) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        let result = match refusal {
            Some(fault) => Err(fault.error()),
            None => act(self),
        };
        let code = result.as_ref().map_or_else(http_status, T::code);
        if let Some(name) = result.as_ref().ok().and_then(T::generated_name) {
            name.clone_into(&mut attempt.key.name);
        }
        self.audit.record(attempt, code);
        result
    }

    /// Returns the key of the object in a manifest, without the namespace if the kind is cluster-scoped.
    fn request_key(&self, object: &Object) -> ObjectKey {
        let (gvk, mut key) = (gvk_of(object), key_of(object));
        if self.kinds.is_namespaced(&gvk) == Some(false) {
            key.namespace.clear();
        }
        key
    }

    pub(crate) fn create_namespace(&mut self, name: &str) {
        let manifest =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let Ok(object) = Object::try_from(manifest) else { return };
        let request = ApplyRequest {
            validate: false,
            ..ApplyRequest::new(object, WriteMode::Replace { recreate: false })
        };
        let made = self.write_manifest("kube-apiserver", &request, WriteKind::Create);
        assert!(made.is_ok(), "{}", made.err().unwrap_or_else(|| api_error::bad_request("")));
    }
}

/// Returns the request that replaces a whole object without validation.
fn put_request(object: Object, operation: Option<OperationId>) -> ApplyRequest {
    let mode = WriteMode::Replace { recreate: false };
    ApplyRequest { validate: false, operation, ..ApplyRequest::new(object, mode) }
}

/// A result that contains details for the audit.
trait AuditDetails {
    fn code(&self) -> u16 {
        200
    }

    /// Returns the name that the server generated, if the request didn't specify one.
    fn generated_name(&self) -> Option<&str> {
        None
    }
}

impl AuditDetails for ApplyResult {
    fn code(&self) -> u16 {
        if self.is_created { 201 } else { 200 }
    }

    fn generated_name(&self) -> Option<&str> {
        Some(text_field(&self.object, &["metadata", "name"]))
    }
}

impl AuditDetails for DeleteResult {}

impl AuditDetails for () {}
