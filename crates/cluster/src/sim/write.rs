//! The way in for every write from outside: time passes, faults strike, the write is done or refused, and the audit
//! says so.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tidegate_model::annotations::FIELD_MANAGER;
use tidegate_model::{Object, ObjectKey, OperationId, Timestamp};

use super::SimState;
use super::audit::{Attempt, Verb, code_of};
use super::compose::{Way, note};
use super::faults::CallFault;
use super::json::{gvk_of, key_of, text};
use super::refuse;
use crate::{Applied, ApplyRequest, ClusterError, DeleteRequest, Deleted, Propagation, WriteMode, writer};

/// A write from outside, as it is kept in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Write {
    Apply { manager: String, request: ApplyRequest },
    Delete { request: DeleteRequest },
    RemoveFinalizer { key: ObjectKey, uid: String, finalizer: String, operation: Option<OperationId> },
    Put { object: Object, operation: Option<OperationId> },
    PutStatus { object: Object, operation: Option<OperationId> },
}

/// The answer to a write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Written {
    Applied(Applied),
    Deleted(Deleted),
    Done,
}

impl SimState {
    /// Writes a manifest as the engine does.
    pub fn apply(&mut self, now: Timestamp, request: ApplyRequest) -> Result<Applied, ClusterError> {
        self.apply_as(now, FIELD_MANAGER, request)
    }

    /// Writes a manifest as somebody else: another field manager.
    pub fn apply_as(
        &mut self,
        now: Timestamp,
        manager: &str,
        request: ApplyRequest,
    ) -> Result<Applied, ClusterError> {
        match self.write(now, &Write::Apply { manager: manager.to_owned(), request })? {
            Written::Applied(applied) => Ok(applied),
            other => unreachable!("a manifest was written, and the answer is {other:?}"),
        }
    }

    /// Deletes an object, or begins to where finalizers keep it.
    pub fn delete(&mut self, now: Timestamp, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        match self.write(now, &Write::Delete { request })? {
            Written::Deleted(deleted) => Ok(deleted),
            other => unreachable!("an object was deleted, and the answer is {other:?}"),
        }
    }

    /// Removes one finalizer. An absent object or finalizer, or another UID, counts as done.
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

    fn write(&mut self, now: Timestamp, write: &Write) -> Result<Written, ClusterError> {
        match self.draw_fault() {
            Some(CallFault::TimeoutBefore) => Err(CallFault::TimeoutBefore.error()),
            fault => {
                self.advance(now);
                self.execute(write, fault)
            }
        }
    }

    /// Draws what goes wrong with the next write.
    pub(crate) fn draw_fault(&mut self) -> Option<CallFault> {
        self.injector.write()
    }

    /// Does a write that was received, under the fault that was drawn for it. The world must be up to date.
    pub(crate) fn execute(
        &mut self,
        write: &Write,
        fault: Option<CallFault>,
    ) -> Result<Written, ClusterError> {
        let refusal = fault.filter(|fault| *fault != CallFault::TimeoutAfter);
        let result = match write {
            Write::Apply { manager, request } => {
                self.execute_apply(manager, request, refusal).map(Written::Applied)
            }
            Write::Put { object, operation } => {
                self.execute_put(object, *operation, refusal).map(Written::Applied)
            }
            Write::PutStatus { object, operation } => {
                self.execute_put_status(object, *operation, refusal).map(Written::Applied)
            }
            Write::Delete { request } => self.execute_delete(request, refusal).map(Written::Deleted),
            Write::RemoveFinalizer { key, uid, finalizer, operation } => {
                self.execute_patch((key, uid), finalizer, *operation, refusal).map(|()| Written::Done)
            }
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
    ) -> Result<Applied, ClusterError> {
        let key = self.request_key(&request.object);
        let exists = self.find(&key).is_some();
        let (verb, way) = match request.mode {
            WriteMode::Apply { force } => (Verb::Apply, Way::Apply { force }),
            WriteMode::ClientSideApply => (if exists { Verb::Patch } else { Verb::Create }, Way::Patch),
            WriteMode::Create { .. } => (Verb::Create, Way::Create),
            WriteMode::Replace { recreate: true } if exists => {
                return self.recreate(manager, request, key, refusal, Way::Create);
            }
            WriteMode::Recreate { server_side } => {
                let way = if server_side { Way::Apply { force: true } } else { Way::Patch };
                if exists {
                    return self.recreate(manager, request, key, refusal, way);
                }
                (if server_side { Verb::Apply } else { Verb::Create }, way)
            }
            WriteMode::Replace { .. } => (if exists { Verb::Update } else { Verb::Create }, Way::Put),
        };
        let attempt = Attempt { verb, dry_run: request.dry_run, key, operation: request.operation };
        let (mut request, mut refusal) = (Cow::Borrowed(request), refusal);
        if request.mode == (WriteMode::Create { client_side: true }) {
            note(&mut request.to_mut().object);
        }
        if let Way::Apply { .. } = way
            && let Some(newer) = self.take_over(manager, &request, &attempt, refusal)?
        {
            refusal = None;
            if !request.resource_version.is_empty() {
                request.to_mut().resource_version = newer;
            }
        }
        self.audited(attempt, refusal, |state| state.write_manifest(manager, &request, way))
    }

    /// Before a server-side apply the client takes over what another manager wrote, by a write of its own. Its version of
    /// the object, if there was anything.
    fn take_over(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        attempt: &Attempt,
        refusal: Option<CallFault>,
    ) -> Result<Option<String>, ClusterError> {
        let key = &attempt.key;
        let Some(from) = request.take_over.as_deref().filter(|_| !request.dry_run) else { return Ok(None) };
        let wanted = request.resource_version.as_str();
        let found = self.find(key).map_or(wanted, |stored| stored.object.resource_version());
        if !wanted.is_empty() && wanted != found {
            return Err(refuse::modified(key));
        }
        let Some(object) = self.hand_over(from, manager, key) else { return Ok(None) };
        let attempt = Attempt { verb: Verb::Patch, ..attempt.clone() };
        self.audited(attempt, refusal, |state| {
            state.update(key, object, true);
            Ok(())
        })?;
        Ok(self.find(key).map(|stored| stored.object.resource_version().to_owned()))
    }

    /// Without a resource version it is a creation, with one a replacement of that version.
    fn execute_put(
        &mut self,
        object: &Object,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<Applied, ClusterError> {
        let key = self.request_key(object);
        let is_new = object.resource_version().is_empty();
        let (verb, way) = if is_new { (Verb::Create, Way::Create) } else { (Verb::Update, Way::Put) };
        let request = ApplyRequest {
            validate: false,
            operation,
            ..ApplyRequest::new(object.clone(), WriteMode::Replace { recreate: false })
        };
        let is_there = is_new || self.find(&key).is_some();
        let attempt = Attempt { verb, dry_run: false, key: key.clone(), operation };
        self.audited(attempt, refusal, |state| {
            if is_there {
                state.write_manifest(writer(operation), &request, way)
            } else {
                Err(refuse::not_found(&key))
            }
        })
    }

    /// Where the status is not apart it is written with the object.
    fn execute_put_status(
        &mut self,
        object: &Object,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<Applied, ClusterError> {
        let kind = gvk_of(object).group_kind();
        if self.kinds.is_custom(&kind) && !self.kinds.status_is_apart(&kind) {
            return self.execute_put(object, operation, refusal);
        }
        let key = self.request_key(object);
        let attempt = Attempt { verb: Verb::Update, dry_run: false, key: key.clone(), operation };
        self.audited(attempt, refusal, |state| {
            let object = state.write_status(&key, object)?;
            Ok(Applied { object, created: false, message: String::new(), warnings: Vec::new() })
        })
    }

    /// Two writes: the old object goes, a new one comes.
    fn recreate(
        &mut self,
        manager: &str,
        request: &ApplyRequest,
        key: ObjectKey,
        refusal: Option<CallFault>,
        way: Way,
    ) -> Result<Applied, ClusterError> {
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
        // The client waits for a pod to end before it creates the new one; here it ends at once.
        self.end_now(&key, request.dry_run);
        if request.dry_run {
            // A client can only ask for a trial of the deletion: the old object is in the way of another.
            let prepared = self.prepare(&request.object)?;
            let message = Way::Create.message(&prepared.key, true, true, true);
            return Ok(Applied { object: prepared.manifest, created: true, message, warnings: Vec::new() });
        }
        let verb = if matches!(way, Way::Apply { .. }) { Verb::Apply } else { Verb::Create };
        let attempt = Attempt { verb, dry_run: request.dry_run, key, operation: request.operation };
        self.audited(attempt, None, |state| state.write_manifest(manager, request, way))
    }

    fn end_now(&mut self, key: &ObjectKey, dry_run: bool) {
        if let Some(stored) = self.objects.get_mut(key).filter(|_| !dry_run) {
            stored.held_until = None;
            self.finish_if_done(key);
        }
    }

    fn execute_delete(
        &mut self,
        request: &DeleteRequest,
        refusal: Option<CallFault>,
    ) -> Result<Deleted, ClusterError> {
        let DeleteRequest { gvk, namespace, name, dry_run, operation, .. } = request;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        let attempt = Attempt { verb: Verb::Delete, dry_run: *dry_run, key, operation: *operation };
        self.audited(attempt, refusal, |state| state.delete_object(request))
    }

    /// The client reads first, and writes only when there is something to remove.
    fn execute_patch(
        &mut self,
        (key, uid): (&ObjectKey, &str),
        finalizer: &str,
        operation: Option<OperationId>,
        refusal: Option<CallFault>,
    ) -> Result<(), ClusterError> {
        if !self.has_finalizer(key, uid, finalizer) {
            return Ok(());
        }
        let attempt = Attempt { verb: Verb::Patch, dry_run: false, key: key.clone(), operation };
        self.audited(attempt, refusal, |state| {
            state.drop_finalizer(key, finalizer);
            Ok(())
        })
    }

    /// Does something and records its outcome, or the refusal that came first.
    fn audited<T: Audited>(
        &mut self,
        mut attempt: Attempt,
        refusal: Option<CallFault>,
        act: impl FnOnce(&mut Self) -> Result<T, ClusterError>,
    ) -> Result<T, ClusterError> {
        let result = match refusal {
            Some(fault) => Err(fault.error()),
            None => act(self),
        };
        let code = result.as_ref().map_or_else(code_of, T::code);
        if let Some(name) = result.as_ref().ok().and_then(T::generated_name) {
            name.clone_into(&mut attempt.key.name);
        }
        self.audit.record(attempt, code);
        result
    }

    /// The object a manifest is about; a namespace it must not have is left out.
    fn request_key(&self, object: &Object) -> ObjectKey {
        let (gvk, mut key) = (gvk_of(object), key_of(object));
        if self.kinds.namespaced(&gvk) == Some(false) {
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
        let made = self.write_manifest("kube-apiserver", &request, Way::Create);
        assert!(made.is_ok(), "{}", made.err().unwrap_or_else(|| refuse::bad_request("")));
    }
}

/// An answer of which the audit keeps something.
trait Audited {
    fn code(&self) -> u16 {
        200
    }

    /// The name the server gave the object, when the request had none.
    fn generated_name(&self) -> Option<&str> {
        None
    }
}

impl Audited for Applied {
    fn code(&self) -> u16 {
        if self.created { 201 } else { 200 }
    }

    fn generated_name(&self) -> Option<&str> {
        Some(text(&self.object, &["metadata", "name"]))
    }
}

impl Audited for Deleted {}

impl Audited for () {}
