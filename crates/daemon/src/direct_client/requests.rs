//! Requests written to an Application's resource.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_app_controller::DeletionOptions;
use tidegate_application::deletion::{self, DeletionRequester};
use tidegate_application::refresh::{self, REFRESH_ANNOTATION};
use tidegate_application::supersede::BusyError;
use tidegate_application::{operation, supersede};
use tidegate_cluster::{DeleteRequest, ErrorKind, Propagation};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, OperationRequest, OperationState, Time};
use tidegate_model::{Cascade, Object, OperationPhase};
use tidegate_state::error::ServiceError;
use tidegate_stores::applications::kubernetes::ApplicationKind;
use tidegate_stores::applications::kubernetes::object_fields::set_field;
use tidegate_stores::applications::kubernetes::resource_client::managed_kind;
use tokio::time::Instant;

use super::{DirectClient, Resource};

/// Maximum number of attempts to write the resource despite conflicts.
const ATTEMPTS_MAX: usize = 8;
/// Maximum time until a finished operation's result appears in the resource. The service writes the status
/// once per second, so the operation may still seem to be running.
const RESULT_DELAY_MAX: Duration = Duration::from_secs(2);
/// Interval between reads while waiting for a finished operation's result.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// Refresh level that renders manifests from scratch, unlike `normal`.
const HARD_REFRESH: &str = "hard";

impl DirectClient {
    /// Requests an operation. Once this returns, the request is in the resource.
    ///
    /// # Errors
    ///
    /// Returns an error if the Application is being deleted, is ignored by services, or is automatically
    /// synced to a different revision, or if the cluster rejects the write. Also returns an error if a
    /// service hasn't accepted an earlier request yet and this request doesn't supersede it.
    pub async fn sync(&self, known: &Resource, mut request: OperationRequest) -> Result<(), ServiceError> {
        request.initiated_by.username.clone_from(&self.requester);
        operation::bound_reason(&mut request);
        self.request_operation(known, |_| Ok(request.clone())).await
    }

    /// Requests a rollback to a sync in the history, by default the sync before the last.
    ///
    /// # Errors
    ///
    /// Returns an error for the same reasons as [`Self::sync`]. Also returns an error if the history doesn't
    /// contain the sync or the Application is automatically synced.
    pub async fn rollback(
        &self,
        known: &Resource,
        id: Option<i64>,
        prune: bool,
        reason: &str,
    ) -> Result<(), ServiceError> {
        let build = |now: &Resource| {
            let mut request =
                operation::rollback_operation(&now.application, id, prune).map_err(refused_error)?;
            request.initiated_by.username.clone_from(&self.requester);
            operation::set_reason(&mut request, reason);
            Ok(request)
        };
        self.request_operation(known, build).await
    }

    /// Writes a requested operation. If another operation seems to be running, waits briefly for it to
    /// finish.
    async fn request_operation(
        &self,
        known: &Resource,
        build: impl Fn(&Resource) -> Result<OperationRequest, ServiceError>,
    ) -> Result<(), ServiceError> {
        let give_up = Instant::now() + RESULT_DELAY_MAX;
        loop {
            let written = self.update_resource(known, |now| with_operation(now, &build(now)?)).await;
            let Err(error) = written else { return Ok(()) };
            let now = self.get(&known.key()).await?;
            let is_busy = now
                .is_some_and(|now| build(&now).is_ok_and(|request| is_blocked_by_operation(&now, &request)));
            if !is_busy || Instant::now() >= give_up {
                return Err(error);
            }
            tokio::time::sleep(READ_INTERVAL).await;
        }
    }

    /// Requests the termination of the running operation by setting its phase, as in Argo CD.
    ///
    /// # Errors
    ///
    /// Returns an error if no operation is requested or the cluster rejects the write.
    pub async fn terminate(&self, known: &Resource) -> Result<(), ServiceError> {
        self.update_resource(known, |now| with_termination(now, SystemClock.now().into())).await.map(drop)
    }

    /// Requests a comparison. The manifests are rendered from scratch if `hard` is set, or if a pending
    /// earlier request demands it. The comparison has finished once the annotation is gone.
    ///
    /// # Errors
    ///
    /// Returns an error if services ignore the Application, or if the cluster rejects the write.
    pub async fn refresh(&self, known: &Resource, hard: bool) -> Result<(), ServiceError> {
        let level = if hard { HARD_REFRESH } else { "normal" };
        let build = |now: &Resource| {
            if let Some(reason) = refresh::skip_reason(&now.application) {
                return Err(refused_error(reason));
            }
            if now
                .object
                .annotation(REFRESH_ANNOTATION)
                .is_some_and(|request| request == level || request == HARD_REFRESH)
            {
                return Ok(None);
            }
            let mut object = now.object.clone();
            object.set_annotation(REFRESH_ANNOTATION, level);
            Ok(Some(object))
        };
        self.update_resource(known, build).await.map(drop)
    }

    /// Deletes an Application with the finalizers that decide how its objects are deleted, recording the
    /// requester and the reason. Once this returns, the deletion is in progress or has finished.
    ///
    /// # Errors
    ///
    /// Returns an error if the Application is already being deleted with a different policy, if services
    /// ignore it, or if the cluster rejects the deletion.
    pub async fn delete(
        &self,
        known: &Resource,
        options: DeletionOptions,
        reason: &str,
    ) -> Result<(), ServiceError> {
        let DeletionOptions { cascade, no_hooks } = options;
        if deletion::is_deleting_with(&known.application, cascade) {
            return self.update_resource(known, |now| Ok(with_deletion_retry(now))).await.map(drop);
        }
        let requester =
            DeletionRequester::with_hooks(&self.requester, reason, no_hooks, SystemClock.now().into());
        for _ in 0..ATTEMPTS_MAX {
            let now = self
                .update_resource(known, |now| with_deletion_policy(now, cascade, requester.as_ref()))
                .await?;
            if now.is_deleting() {
                return Ok(());
            }
            // Another client may have written finalizers for a different policy meanwhile, so bind the
            // deletion to the version that was read.
            let request = DeleteRequest {
                gvk: managed_kind::<ApplicationKind>(),
                namespace: now.namespace().to_owned(),
                name: now.name().to_owned(),
                uid: now.uid().to_owned(),
                resource_version: now.resource_version().to_owned(),
                propagation: Propagation::Background,
                dry_run: false,
                operation: None,
            };
            match self.resource_client.cluster.delete(request).await {
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) if error.kind != ErrorKind::NotFound => return Err(self.cluster_error(&error)),
                _ => return Ok(()),
            }
        }
        Err(refused_error(format!(
            "failed to delete application {} in {ATTEMPTS_MAX} attempts because other clients kept changing it; try again",
            known.full_name()
        )))
    }

    /// Writes the resource that `build` derives from the current version, if any. Returns the resource after
    /// the write.
    async fn update_resource(
        &self,
        known: &Resource,
        build: impl Fn(&Resource) -> Result<Option<Object>, ServiceError>,
    ) -> Result<Object, ServiceError> {
        let (key, gone) =
            (known.key(), || refused_error(format!("application {} no longer exists", known.full_name())));
        for _ in 0..ATTEMPTS_MAX {
            let now = self.get(&key).await?.filter(|now| now.object.uid() == known.object.uid());
            let now = now.ok_or_else(gone)?;
            let Some(object) = build(&now)? else { return Ok(now.object) };
            match self.resource_client.cluster.put(object, None).await {
                Ok(written) => return Ok(written),
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) if error.kind == ErrorKind::NotFound => return Err(gone()),
                Err(error) => return Err(self.cluster_error(&error)),
            }
        }
        Err(refused_error(format!(
            "failed to update application {} in {ATTEMPTS_MAX} attempts because other clients kept changing it; nothing was requested, so try again",
            known.full_name()
        )))
    }
}

/// Returns true if the service has accepted the operation that an Application requests, if any. An accepted
/// operation has an ID, or the status refers to it. Any other operation would be lost without a trace if
/// replaced.
pub fn is_operation_accepted(application: &Application) -> bool {
    let Some(request) = &application.operation else { return true };
    // Other clients may write the `Terminating` phase without waiting for the service.
    let is_accepted = |state: &OperationState| {
        let is_open = state.finished_at.is_none() && state.phase != OperationPhase::Terminating;
        is_open && operation::is_same_request(&state.operation, request)
    };
    operation::engine_id(request).is_some()
        || application.status.operation_state.as_ref().is_some_and(is_accepted)
}

fn refused_error(reason: impl ToString) -> ServiceError {
    ServiceError::refused(reason.to_string())
}

/// Returns the resource with the requested operation added.
fn with_operation(now: &Resource, request: &OperationRequest) -> Result<Option<Object>, ServiceError> {
    check_can_start(now, request)?;
    let mut object = now.object.clone();
    set_field(object.fields_mut(), "operation", Some(request));
    Ok(Some(object))
}

/// Refuses an operation that a service would reject, because the service would report it only in the status.
fn check_can_start(now: &Resource, request: &OperationRequest) -> Result<(), ServiceError> {
    let (application, name) = (&now.application, now.key());
    if let Some(reason) = refresh::skip_reason(application) {
        return Err(refused_error(reason));
    }
    if application.is_deleting() {
        return Err(refused_error(format!("application {name} is deleting")));
    }
    if let Some(problem) = &now.problem {
        return Err(refused_error(format!("application {name} cannot be synced: {problem}")));
    }
    operation::check_named_revisions(application, request).map_err(refused_error)?;
    if !is_operation_accepted(application) {
        return Err(refused_error(format!(
            "an operation has already been requested for application {name}, but no service has started it yet; `tidegate app sync --policy queue` and `--policy supersede` take effect only after it has started: wait for it with `tidegate app wait {name} --operation`, or try again later"
        )));
    }
    let mut request = request.clone();
    let policy = supersede::take_policy(&mut request).map_err(refused_error)?;
    let mut taken = application.clone();
    supersede::accept_request(&mut taken, request, policy, false, SystemClock.now()).map_err(refused_error)
}

/// Returns true if a requested operation must be rejected because another is running.
fn is_blocked_by_operation(now: &Resource, request: &OperationRequest) -> bool {
    let mut request = request.clone();
    let Ok(policy) = supersede::take_policy(&mut request) else { return false };
    let mut taken = now.application.clone();
    let received = supersede::accept_request(&mut taken, request, policy, false, SystemClock.now());
    matches!(received, Err(BusyError::InProgress(_)))
}

/// Returns the resource with a request to terminate its operation, or `None` if already requested.
fn with_termination(now: &Resource, at: Time) -> Result<Option<Object>, ServiceError> {
    let nothing = || refused_error("Unable to terminate operation. No operation is in progress");
    let request = now.object.pointer("/operation").ok_or_else(nothing)?.clone();
    let state = now.object.pointer("/status/operationState");
    let state = state.filter(|state| state.get("finishedAt").is_none_or(Value::is_null));
    let phase = Value::from(OperationPhase::Terminating.to_string());
    if state.and_then(|state| state.get("phase")) == Some(&phase) {
        return Ok(None);
    }
    let operation_state = match state.cloned() {
        Some(mut state) => {
            state
                .as_object_mut()
                .into_iter()
                .for_each(|state| drop(state.insert("phase".to_owned(), phase.clone())));
            state
        }
        // The service hasn't reported the requested operation yet.
        None => json!({"operation": request, "phase": phase, "startedAt": at}),
    };
    let mut object = now.object.clone();
    let status = object.fields_mut().entry("status").or_insert_with(|| json!({}));
    let status =
        status.as_object_mut().ok_or_else(|| refused_error("the application's status is not an object"))?;
    status.insert("operationState".to_owned(), operation_state);
    Ok(Some(object))
}

/// Returns the resource with a request to retry its failed deletion right away. `None` if the deletion hasn't
/// failed or a retry is already requested.
fn with_deletion_retry(now: &Resource) -> Option<Object> {
    let is_requested = now.object.annotation(REFRESH_ANNOTATION).is_some();
    (deletion::has_failed_deletion(&now.application) && !is_requested).then(|| {
        let mut object = now.object.clone();
        object.set_annotation(REFRESH_ANNOTATION, "normal");
        object
    })
}

/// Returns the resource with the finalizers and annotations for its deletion, or `None` if nothing changes.
fn with_deletion_policy(
    now: &Resource,
    cascade: Cascade,
    requester: Option<&DeletionRequester>,
) -> Result<Option<Object>, ServiceError> {
    if deletion::is_deleting_with(&now.application, cascade) {
        return Ok(None);
    }
    if let Some(reason) = deletion::deletion_refusal(&now.application, &now.key().to_string(), cascade) {
        return Err(refused_error(reason));
    }
    let mut object = now.object.clone();
    let finalizers = deletion::finalizers(&now.application, cascade);
    set_field(object.metadata_mut(), "finalizers", Some(&finalizers).filter(|all| !all.is_empty()));
    let mut annotations = now.application.metadata.annotations.clone();
    requester.into_iter().for_each(|requester| requester.annotate(&mut annotations));
    if let Some(request) = annotations.remove(DELETION_REQUESTED_BY) {
        object.set_annotation(DELETION_REQUESTED_BY, request);
    }
    Ok((object != now.object).then_some(object))
}
