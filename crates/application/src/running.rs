//! An operation that a progressive sync wants of an application: when is it begun, what does it ask for, and what is known
//! of what it has brought about?
//!
//! It has an id before anybody hears of it, and the revisions it deploys are chosen: it is begun once, under that id, and
//! waits while another operation has its place.

use tidegate_model::argo::{
    Application, OperationInitiator, OperationRequest, OperationState, Retry, RevisionHistory, SyncOperation,
};
use tidegate_model::{OperationId, OperationPhase, SyncRequest, Timestamp};

use crate::operation::{self, ID_REMARK, Progress, REASON_REMARK, ROLLOUT_REMARK};
use crate::refresh::{self, SKIP_ANNOTATION};
use crate::sources::{Sources, revisions};
use crate::windows::{Held, Windows};

/// Who begins the operations of progressive syncs, as Argo CD has it.
pub const BY: &str = SyncRequest::ROLLOUT;
/// Why, as Argo CD has it.
const REASON: &str = "ApplicationSet RollingSync triggered a sync of this Application resource";
/// How often such an operation is tried again, where the application does not say.
const RETRIES: i64 = 5;

/// What a progressive sync deploys.
#[derive(Clone, Copy, Debug)]
pub struct Deploy<'a> {
    /// The set, as people know it.
    pub set: &'a str,
    /// A revision for each source, in order.
    pub revisions: &'a [String],
    /// Objects that are no longer in the manifests are deleted.
    pub prune: bool,
}

/// The operation that deploys revisions of the application's own sources.
pub fn request(application: &Application, deploy: Deploy<'_>) -> OperationRequest {
    asked(application, &Sources::of(application).bare(), deploy)
}

/// The operation that goes back to revisions which were deployed before, of the sources they were deployed of.
pub fn request_back(application: &Application, deploy: Deploy<'_>) -> OperationRequest {
    let of = |one: &&RevisionHistory| revisions(&one.revision, &one.revisions) == deploy.revisions;
    let before = application.status.history.iter().rev().find(of);
    let sources = before.and_then(|one| Sources::said(one.source.as_ref(), &one.sources));
    asked(application, &sources.unwrap_or_else(|| Sources::of(application).bare()), deploy)
}

fn asked(application: &Application, sources: &Sources, deploy: Deploy<'_>) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let (revision, revisions) = sources.revisions(deploy.revisions);
    let mut asked = OperationRequest {
        sync: Some(SyncOperation {
            revision,
            revisions,
            source: sources.one(),
            sources: sources.several(),
            prune: deploy.prune,
            sync_options: policy.sync_options,
            ..SyncOperation::default()
        }),
        initiated_by: OperationInitiator {
            username: BY.to_owned(),
            automated: true,
            ..OperationInitiator::default()
        },
        retry: Some(policy.retry.unwrap_or_else(|| Retry { limit: RETRIES, ..Retry::default() })),
        ..OperationRequest::default()
    };
    asked.set_remark(REASON_REMARK, REASON);
    asked.set_remark(ROLLOUT_REMARK, deploy.set);
    asked
}

/// Whether an operation is one that a progressive sync wants.
pub fn is_of_rollout(asked: &OperationRequest) -> bool {
    asked.remark(ROLLOUT_REMARK).is_some()
}

/// The operation of a progressive sync that an application has in its place, begun or not.
pub fn placed(application: &Application) -> Option<OperationId> {
    application.operation.as_ref().filter(|asked| is_of_rollout(asked)).and_then(operation::id)
}

/// What is done about an operation that a progressive sync wants, and that has no place yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It gets its place.
    Begin,
    /// Another operation is finished first.
    Wait,
    /// Sync windows keep it, and it is looked at again.
    Held(Held),
    /// It cannot be begun now, and that may pass.
    Later(String),
}

/// Whether an operation that a progressive sync wants gets its place now. Nobody has asked for it, as windows see it.
pub fn next(application: &Application, windows: &Windows, now: Timestamp) -> Next {
    let name = &application.metadata.name;
    if application.is_deleting() {
        return Next::Later(format!("application {name} is being deleted"));
    }
    if refresh::is_skipped(application) {
        return Next::Later(format!("application {name} is left alone by its annotation {SKIP_ANNOTATION}"));
    }
    if application.operation.is_some() {
        return Next::Wait;
    }
    windows.held(false, now).map_or(Next::Begin, Next::Held)
}

/// Gives an operation its place, under the id it has.
pub fn place(application: &mut Application, operation: OperationId, mut asked: OperationRequest) {
    asked.set_remark(ID_REMARK, operation.to_string());
    application.operation = Some(asked);
}

/// Takes an operation that has not begun out of its place. Nothing says any more which one it was: it may be wanted again.
pub fn take_back(application: &mut Application, operation: OperationId, now: Timestamp) {
    if placed(application) != Some(operation) {
        return;
    }
    if is_about(application.status.operation_state.as_ref(), operation) {
        operation::take_in(application, Progress::terminated(BY, now));
        if let Some(state) = &mut application.status.operation_state {
            operation::disown(&mut state.operation);
        }
    }
    application.operation = None;
}

fn is_about(state: Option<&OperationState>, operation: OperationId) -> bool {
    state.is_some_and(|state| operation::id(&state.operation) == Some(operation))
}

/// How an operation has ended, as far as the status tells.
pub fn ended(application: &Application, operation: OperationId) -> Option<(OperationPhase, String)> {
    let state = application.status.operation_state.as_ref();
    let state = state.filter(|_| is_about(state, operation))?;
    (state.phase.is_completed() && state.finished_at.is_some()).then(|| (state.phase, state.message.clone()))
}

/// An operation that has deployed all of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// Which.
    pub operation: OperationId,
    /// The revisions it has deployed, one for each source.
    pub revisions: Vec<String>,
}

/// What the last operation has deployed, where it has succeeded with all of the application.
pub fn deployed(application: &Application) -> Option<Deployed> {
    let state = application.status.operation_state.as_ref()?;
    let sync = state.operation.sync.as_ref()?;
    let is_whole =
        !sync.dry_run && sync.resources.is_empty() && operation::cascade(&state.operation).is_none();
    let is_done = state.phase == OperationPhase::Succeeded && state.finished_at.is_some();
    (is_whole && is_done).then_some(())?;
    let of = state.sync_result.as_ref()?;
    let revisions = revisions(&of.revision, &of.revisions);
    Some(Deployed { operation: operation::id(&state.operation)?, revisions })
}
