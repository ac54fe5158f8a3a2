//! What is written into the resource of an application for what somebody asks of it.

use serde_json::{Value, json};
use tidegate_application::deletion::{self, Asker};
use tidegate_application::refresh::{self, REFRESH_ANNOTATION};
use tidegate_application::{operation, superseding};
use tidegate_cluster::{DeleteRequest, ErrorKind, Propagation};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, OperationRequest, OperationState, Time};
use tidegate_model::{Cascade, Object, OperationPhase};

use super::{Direct, Resource};
use crate::applications::store::kubernetes::Applications;
use crate::applications::store::kubernetes::seen::set;
use crate::applications::store::kubernetes::site::kind;
use crate::error::ServiceError;

/// How often a write is tried that others are faster than.
const TRIES: usize = 8;
/// Asks for a comparison that does more than a `normal` one.
const HARD: &str = "hard";

impl Direct {
    /// Asks for an operation. When this returns it is in the resource.
    ///
    /// # Errors
    ///
    /// One is asked for already that no service has taken up yet, or that what is asked does not say it follows; the application
    /// is being deleted, or left alone; it is synced by itself to another revision; or the cluster refuses the write.
    pub async fn sync(&self, known: &Resource, mut asked: OperationRequest) -> Result<(), ServiceError> {
        asked.initiated_by.username.clone_from(&self.by);
        operation::bound_reason(&mut asked);
        self.write(known, |now| with_operation(now, &asked)).await.map(drop)
    }

    /// Asks to go back to a sync of the history, or to the one before the last.
    ///
    /// # Errors
    ///
    /// As [`Self::sync`]; and where there is no such sync, or the application is synced by itself.
    pub async fn rollback(
        &self,
        known: &Resource,
        id: Option<i64>,
        prune: bool,
        reason: &str,
    ) -> Result<(), ServiceError> {
        let made = |now: &Resource| {
            let mut asked = operation::rollback(&now.application, id, prune).map_err(refused)?;
            asked.initiated_by.username.clone_from(&self.by);
            operation::give_reason(&mut asked, reason);
            with_operation(now, &asked)
        };
        self.write(known, made).await.map(drop)
    }

    /// Says that the operation under way is to end, as Argo CD says it: by its phase.
    ///
    /// # Errors
    ///
    /// None is asked for, or the cluster refuses the write.
    pub async fn terminate(&self, known: &Resource) -> Result<(), ServiceError> {
        self.write(known, |now| terminating(now, SystemClock.now().into())).await.map(drop)
    }

    /// Asks for a comparison; with manifests that are read anew where it is `hard`, or somebody asks for that already. It is done
    /// when the annotation is gone.
    ///
    /// # Errors
    ///
    /// The application is left alone, or the cluster refuses the write.
    pub async fn refresh(&self, known: &Resource, hard: bool) -> Result<(), ServiceError> {
        let level = if hard { HARD } else { "normal" };
        let made = |now: &Resource| {
            if let Some(why) = refresh::left_alone(&now.application) {
                return Err(refused(why));
            }
            if now.object.annotation(REFRESH_ANNOTATION).is_some_and(|asked| asked == level || asked == HARD)
            {
                return Ok(None);
            }
            let mut object = now.object.clone();
            object.set_annotation(REFRESH_ANNOTATION, level);
            Ok(Some(object))
        };
        self.write(known, made).await.map(drop)
    }

    /// Deletes an application: with the finalizers that say what becomes of its objects, and with who has asked for it and why.
    /// When this returns it is being deleted that way, or gone.
    ///
    /// # Errors
    ///
    /// It is being deleted in another way already, or left alone; or the cluster refuses it.
    pub async fn delete(&self, known: &Resource, cascade: Cascade, reason: &str) -> Result<(), ServiceError> {
        if deletion::is_under_way(&known.application, cascade) {
            return Ok(());
        }
        let asker = Asker::new(&self.by, reason, SystemClock.now().into());
        for _ in 0..TRIES {
            let now = self.write(known, |now| deleted(now, cascade, asker.as_ref())).await?;
            if now.is_deleting() {
                return Ok(());
            }
            // Others may have written finalizers since that mean another way, in which nothing may go.
            let request = DeleteRequest {
                gvk: kind::<Applications>(),
                namespace: now.namespace().to_owned(),
                name: now.name().to_owned(),
                uid: now.uid().to_owned(),
                resource_version: now.resource_version().to_owned(),
                propagation: Propagation::Background,
                dry_run: false,
                operation: None,
            };
            match self.site.cluster.delete(request).await {
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) if error.kind != ErrorKind::NotFound => return Err(self.failed(&error)),
                _ => return Ok(()),
            }
        }
        Err(refused(format!(
            "application {} was changed by others {TRIES} times before it was deleted, and is there still; try again",
            known.full_name()
        )))
    }

    /// Writes a resource as it is made from what is there: nothing where that says so. The resource as it is then.
    async fn write(
        &self,
        known: &Resource,
        made: impl Fn(&Resource) -> Result<Option<Object>, ServiceError>,
    ) -> Result<Object, ServiceError> {
        let (key, gone) = (known.key(), || refused(format!("application {} is gone", known.full_name())));
        for _ in 0..TRIES {
            let now = self.get(&key).await?.filter(|now| now.object.uid() == known.object.uid());
            let now = now.ok_or_else(gone)?;
            let Some(made) = made(&now)? else { return Ok(now.object) };
            match self.site.cluster.put(made, None).await {
                Ok(written) => return Ok(written),
                Err(error) if error.kind == ErrorKind::Conflict => {}
                Err(error) if error.kind == ErrorKind::NotFound => return Err(gone()),
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Err(refused(format!(
            "application {} was changed by others {TRIES} times while it was written, and nothing was asked for; try again",
            known.full_name()
        )))
    }
}

/// Whether its service knows of the operation that an application asks for, if it asks for one: that has an id, or the status is
/// about it. What is written over one that is not taken up takes its place, and nobody ever hears of that one.
pub fn is_taken_up(application: &Application) -> bool {
    let Some(asked) = &application.operation else { return true };
    // That it is to end is written by others, who need not wait for its service.
    let is_told = |state: &OperationState| {
        let is_open = state.finished_at.is_none() && state.phase != OperationPhase::Terminating;
        is_open && operation::is_same(&state.operation, asked)
    };
    operation::id(asked).is_some() || application.status.operation_state.as_ref().is_some_and(is_told)
}

fn refused(why: impl ToString) -> ServiceError {
    ServiceError::refused(why.to_string())
}

/// The resource, with an operation that is asked for.
fn with_operation(now: &Resource, asked: &OperationRequest) -> Result<Option<Object>, ServiceError> {
    may_begin(now, asked)?;
    let mut object = now.object.clone();
    set(object.fields_mut(), "operation", Some(asked));
    Ok(Some(object))
}

/// What a service would refuse, and nobody but whoever looks at the status would be told of.
fn may_begin(now: &Resource, asked: &OperationRequest) -> Result<(), ServiceError> {
    let (application, name) = (&now.application, now.key());
    if let Some(why) = refresh::left_alone(application) {
        return Err(refused(why));
    }
    if application.is_deleting() {
        return Err(refused(format!("application {name} is deleting")));
    }
    if let Some(problem) = &now.problem {
        return Err(refused(format!("application {name} cannot be synced: {problem}")));
    }
    operation::may_name(application, asked).map_err(refused)?;
    if !is_taken_up(application) {
        return Err(refused(format!(
            "an operation is asked for already of application {name}, and no service has taken it up yet: nothing can follow it or take its place before that; try again then, or wait for its end with `tidegate app wait {name} --operation`"
        )));
    }
    let mut asked = asked.clone();
    let policy = superseding::take_policy(&mut asked).map_err(refused)?;
    let mut taken = application.clone();
    superseding::receive(&mut taken, asked, (policy, false), SystemClock.now()).map_err(refused)
}

/// The resource, whose operation is to end; nothing where that is said already.
fn terminating(now: &Resource, at: Time) -> Result<Option<Object>, ServiceError> {
    let nothing = || refused("Unable to terminate operation. No operation is in progress");
    let asked = now.object.pointer("/operation").ok_or_else(nothing)?.clone();
    let state = now.object.pointer("/status/operationState");
    let state = state.filter(|state| state.get("finishedAt").is_none_or(Value::is_null));
    let phase = Value::from(OperationPhase::Terminating.to_string());
    if state.and_then(|state| state.get("phase")) == Some(&phase) {
        return Ok(None);
    }
    let told = match state.cloned() {
        Some(mut state) => {
            state
                .as_object_mut()
                .into_iter()
                .for_each(|state| drop(state.insert("phase".to_owned(), phase.clone())));
            state
        }
        // Its service has not told of it yet.
        None => json!({"operation": asked, "phase": phase, "startedAt": at}),
    };
    let mut object = now.object.clone();
    let status = object.fields_mut().entry("status").or_insert_with(|| json!({}));
    let status = status.as_object_mut().ok_or_else(|| refused("its status is no object"))?;
    status.insert("operationState".to_owned(), told);
    Ok(Some(object))
}

/// The resource as it is to be when it is deleted; nothing where it is so.
fn deleted(now: &Resource, cascade: Cascade, asker: Option<&Asker>) -> Result<Option<Object>, ServiceError> {
    if deletion::is_under_way(&now.application, cascade) {
        return Ok(None);
    }
    if let Some(why) = deletion::in_the_way(&now.application, &now.key().to_string(), cascade) {
        return Err(refused(why));
    }
    let mut object = now.object.clone();
    let finalizers = deletion::finalizers(&now.application, cascade);
    set(object.metadata_mut(), "finalizers", Some(&finalizers).filter(|all| !all.is_empty()));
    let mut annotations = now.application.metadata.annotations.clone();
    asker.into_iter().for_each(|asker| asker.annotate(&mut annotations));
    if let Some(asked) = annotations.remove(DELETION_REQUESTED_BY) {
        object.set_annotation(DELETION_REQUESTED_BY, asked);
    }
    Ok((object != now.object).then_some(object))
}
