//! Superseding of running operations. When a newer revision or request arrives, the running operation either
//! carries on until it is complete, or makes way for its successor.

use tidegate_model::argo::{Application, ConditionType, OperationRequest, Retry, SyncStatus, SyncStatusCode};
use tidegate_model::{
    ClaimConflictPolicy, ClaimHolder, OperationId, OperationPhase, SUPERSEDED_PREFIX, SafePoint, Timestamp,
};

pub use crate::controller_info::SUPERSEDES_INFO;
use crate::operation::{self, EngineProgress};
use crate::sources::{Sources, revisions_of_fields};
pub use crate::successor::{Successor, successor_of, was_superseded};
use crate::successor::{remove_successor, set_successor};
use crate::{approval, automated, automated_sync, rollout_operation};

/// Determines what happens to a running operation when a newer revision arrives: `finish` or `supersede`.
pub const ON_NEW_REVISION: &str = "tidegate.dev/on-new-revision";
/// Info item of a request: what to do if another operation is running.
pub const POLICY_INFO: &str = "tidegate.dev/policy";
/// Tidegate-specific condition type: a newer revision or request is waiting for the running operation.
pub const NEW_REVISION_CONDITION: &str = "NewRevisionWarning";
/// Tidegate-specific condition type: an operation that a client wrote into the resource was rejected because
/// another one was running.
pub const OPERATION_REFUSED_CONDITION: &str = "OperationRefusedWarning";
/// Text in the message of an operation between two attempts.
const RETRYING_TEXT: &str = " Retrying attempt #";
/// Number of digits in an abbreviated commit.
const SHORT_COMMIT_LENGTH: usize = 7;

/// An application's policy for newer revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRevisionPolicy {
    /// The operation runs to completion, including retries.
    Finish,
    /// An automated operation makes way if it is waiting or has failed. A running hook is never stopped.
    Supersede,
}

/// Returns the policy in the application's annotation, or `None` if there is none.
pub fn new_revision_policy(application: &Application) -> Result<Option<NewRevisionPolicy>, String> {
    match application.annotation(ON_NEW_REVISION).map(str::trim) {
        None => Ok(None),
        Some("finish") => Ok(Some(NewRevisionPolicy::Finish)),
        Some("supersede") => Ok(Some(NewRevisionPolicy::Supersede)),
        Some(other) => Err(format!(
            "the {ON_NEW_REVISION} annotation is {other:?}, but must be finish or supersede; Tidegate \
             treats it as finish"
        )),
    }
}

/// Returns true if this is the message of an operation between two attempts.
pub fn awaits_retry(message: &str) -> bool {
    message.contains(RETRYING_TEXT)
}

/// Returns the name of a policy.
pub fn policy_name(policy: ClaimConflictPolicy) -> &'static str {
    match policy {
        ClaimConflictPolicy::Refuse => "refuse",
        ClaimConflictPolicy::Queue => "queue",
        ClaimConflictPolicy::Supersede => "supersede",
    }
}

/// Reason a request is rejected while an operation is running.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusyError {
    /// Another operation is running.
    #[error(
        "another operation is already in progress for application {0}; wait for it with `tidegate app wait {0} \
         --operation`, or run `tidegate app sync` with `--policy queue` or `--policy supersede`"
    )]
    InProgress(String),
    /// The application is being deleted.
    #[error("application {0} cannot be synced, because the operation in progress is deleting it")]
    Deleting(String),
    /// Another request is already queued.
    #[error(
        "{by} is already waiting for the operation in progress for application {application}; wait for that \
         operation to finish, or replace the waiting request with `tidegate app sync --policy supersede`"
    )]
    Queued {
        /// Name of the application.
        application: String,
        /// Requester of the queued request.
        by: String,
    },
    /// The policy is invalid.
    #[error("invalid {POLICY_INFO} {0:?}: use refuse, queue or supersede")]
    InvalidPolicy(String),
}

/// Removes the policy for running operations from a request and returns it.
pub fn take_policy(asked: &mut OperationRequest) -> Result<ClaimConflictPolicy, BusyError> {
    let policy = match asked.info_value(POLICY_INFO) {
        None => ClaimConflictPolicy::Refuse,
        Some(text) => {
            [ClaimConflictPolicy::Refuse, ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede]
                .into_iter()
                .find(|policy| policy_name(*policy) == text)
                .ok_or_else(|| BusyError::InvalidPolicy(text.to_owned()))?
        }
    };
    asked.info.retain(|info| info.name != POLICY_INFO);
    Ok(policy)
}

/// Normalizes an operation that a user wrote into a resource that already had one. A patch keeps all fields
/// it doesn't mention, so many of them may stem from the previous operation.
pub fn normalize_written_request(mut asked: OperationRequest) -> OperationRequest {
    operation::remove_controller_infos(&mut asked);
    asked.initiated_by.automated = false;
    asked
}

/// Returns true if an operation is a sync request without an ID that isn't part of a rollout.
pub fn is_sync_request(asked: &OperationRequest) -> bool {
    operation::engine_id(asked).is_none()
        && operation::deletion_cascade(asked).is_none()
        && !rollout_operation::is_of_rollout(asked)
}

/// Returns the condition message for a waiting successor, including what it is waiting for.
pub fn new_revision_condition_message(application: &Application) -> Option<&str> {
    let mut conditions = application.status.conditions.iter();
    let waiting = conditions
        .find(|one| matches!(&one.kind, ConditionType::Other(kind) if kind == NEW_REVISION_CONDITION));
    waiting.map(|one| one.message.as_str())
}

/// Accepts a request as the current operation or as its successor. `may_replace` is true if the current
/// operation has no ID and can't get one concurrently.
pub fn accept_request(
    application: &mut Application,
    mut asked: OperationRequest,
    policy: ClaimConflictPolicy,
    may_replace: bool,
    now: Timestamp,
) -> Result<(), BusyError> {
    // Requests may not specify their own successor.
    remove_successor(&mut asked);
    let name = application.metadata.name.clone();
    let Some(current) = &mut application.operation else {
        application.operation = Some(asked);
        return Ok(());
    };
    if operation::deletion_cascade(current).is_some() {
        return Err(BusyError::Deleting(name));
    }
    let queued = successor_of(current).filter(|next| !next.is_retry);
    let when = match (policy, queued) {
        (ClaimConflictPolicy::Refuse, _) => return Err(BusyError::InProgress(name)),
        (ClaimConflictPolicy::Queue, Some(queued)) => {
            let by = successor_description(&queued.operation).to_string();
            return Err(BusyError::Queued { application: name, by });
        }
        (ClaimConflictPolicy::Queue, None) => None,
        (ClaimConflictPolicy::Supersede, _) => Some(SafePoint::Waiting),
    };
    if when.is_some() && may_replace && operation::engine_id(current).is_none() {
        let message = format!("{SUPERSEDED_PREFIX}{}; nothing was written", successor_description(&asked));
        let ended =
            EngineProgress { phase: OperationPhase::Failed, ..EngineProgress::rejected(message, now) };
        operation::apply_progress(application, ended);
        application.operation = Some(asked);
        return Ok(());
    }
    set_successor(current, &Successor { operation: asked, when, is_retry: false });
    Ok(())
}

/// Returns a description of the successor.
fn successor_description(asked: &OperationRequest) -> ClaimHolder {
    let by = &asked.initiated_by;
    let sync = asked.sync.as_ref();
    ClaimHolder {
        who: if by.automated { String::new() } else { by.username.clone() },
        revision: sync
            .map(|sync| revisions_of_fields(&sync.revision, &sync.revisions).join(" "))
            .unwrap_or_default(),
        ..ClaimHolder::default()
    }
}

/// Decision for the running operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SupersedeDecision {
    /// The operation continues, and no successor is waiting.
    Continue,
    /// The operation carries on, and a successor waits for it to finish. The text is the reason for the wait.
    Finish(String),
    /// The operation ends at a safe point.
    Supersede {
        /// The successor.
        by: ClaimHolder,
        /// Safe point at which the operation ends.
        when: SafePoint,
        /// Reason for superseding the operation.
        why: String,
    },
}

/// Comparison of newer revisions' manifests with those of a running operation or a rollout's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestComparison {
    /// Not compared yet, for example after a restart or while a repository is unreachable. Nothing is
    /// superseded until then.
    #[default]
    Unknown,
    /// The manifests are identical: the commits change other parts of the repository.
    Same,
    /// The manifests differ.
    Different,
}

/// Inputs of a decision besides the application itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SupersedeInputs {
    /// True if sync windows currently block automated operations.
    pub is_blocked: bool,
    /// The newest revisions' manifests, compared with those of the running operation.
    pub newest_manifests: ManifestComparison,
}

/// Decides what to do with the running operation after a comparison has updated the status.
pub fn decide_supersede(
    application: &Application,
    given: SupersedeInputs,
    now: Timestamp,
) -> SupersedeDecision {
    let Some(current) = &application.operation else { return SupersedeDecision::Continue };
    if operation::engine_id(current).is_none()
        || operation::deletion_cascade(current).is_some()
        || application.is_deleting()
    {
        return SupersedeDecision::Continue;
    }
    let next = successor_of(current);
    if let Some(next) = next.as_ref().filter(|next| !next.is_retry) {
        return decide_for_request(next);
    }
    if given.newest_manifests != ManifestComparison::Different {
        return SupersedeDecision::Continue;
    }
    let decided = decide_for_newer_revisions(application, current, given, now);
    match (decided, next) {
        (decided @ SupersedeDecision::Supersede { .. }, _) => decided,
        // The retry would start automatically, so the window blocks it too.
        (decided, Some(retry)) if given.is_blocked && retry.operation.initiated_by.automated => decided,
        (_, Some(retry)) => {
            let by = successor_description(&retry.operation);
            let why =
                format!("{by} will replace the running operation if this attempt fails (retry.refresh)");
            SupersedeDecision::Supersede { by, when: SafePoint::Failed, why }
        }
        (decided, None) => decided,
    }
}

fn decide_for_request(next: &Successor) -> SupersedeDecision {
    let by = successor_description(&next.operation);
    match next.when {
        Some(when) => {
            let why = format!("{by} will replace the running operation");
            SupersedeDecision::Supersede { by, when, why }
        }
        None => SupersedeDecision::Finish(format!("{by} is waiting for the running operation to end")),
    }
}

/// Returns true if a comparison has found newer revisions than the running operation's, so the manifests must
/// be compared.
pub fn has_newer_revisions(application: &Application) -> bool {
    let current = application.operation.as_ref().filter(|current| can_be_superseded(current));
    !application.is_deleting()
        && current.is_some_and(|current| newer_revisions(application, current).is_some())
}

/// Returns true if newer revisions can end an operation: it has an ID, doesn't delete the application and
/// isn't part of a rollout.
fn can_be_superseded(current: &OperationRequest) -> bool {
    operation::engine_id(current).is_some()
        && operation::deletion_cascade(current).is_none()
        && !rollout_operation::is_of_rollout(current)
}

/// Returns the newest compared revisions if the operation deploys different ones.
fn newer_revisions<'a>(application: &'a Application, current: &OperationRequest) -> Option<&'a SyncStatus> {
    let newest = application.status.sync.as_ref();
    let newest = newest.filter(|newest| newest.status != SyncStatusCode::Unknown)?;
    let sync = current.sync.as_ref()?;
    let found = revisions_of_fields(&newest.revision, &newest.revisions);
    let is_other = found != revisions_of_fields(&sync.revision, &sync.revisions);
    (is_other && found.iter().all(|revision| !revision.is_empty()) && !found.is_empty()).then_some(newest)
}

/// Decides how newer revisions affect the operation. By default, they supersede automated operations.
fn decide_for_newer_revisions(
    application: &Application,
    current: &OperationRequest,
    given: SupersedeInputs,
    now: Timestamp,
) -> SupersedeDecision {
    let Some(newest) = newer_revisions(application, current) else { return SupersedeDecision::Continue };
    if automated(application).is_none() || rollout_operation::is_of_rollout(current) {
        return SupersedeDecision::Continue;
    }
    let found = revisions_of_fields(&newest.revision, &newest.revisions);
    let newer = format!("revision {}", shorten_revisions(&found));
    let waits = |reason: &str| {
        SupersedeDecision::Finish(format!("{newer} is waiting for the running operation to end: {reason}"))
    };
    match new_revision_policy(application) {
        Err(problem) => return waits(&problem),
        Ok(Some(NewRevisionPolicy::Finish)) => return waits(&format!("{ON_NEW_REVISION} is finish")),
        // The requester may have chosen the older revision on purpose.
        Ok(_) if !current.initiated_by.automated => return waits("the operation was requested manually"),
        // The newer revision has no approved plan yet.
        Ok(None) if approval::requested_plan(current).is_some() => {
            return waits("the plan of the running operation was approved");
        }
        Ok(_) => {}
    }
    if given.is_blocked {
        return waits("sync windows block the automated sync of the newer revision");
    }
    // The older revision is superseded even if the newest one doesn't change anything. Its hooks then run in
    // the next operation.
    if let Some(error) = automated_sync::decide_start(application, now).error {
        return waits(&error);
    }
    let by = ClaimHolder { revision: found.join(" "), ..ClaimHolder::default() };
    SupersedeDecision::Supersede {
        by,
        when: SafePoint::Waiting,
        why: format!("{newer} will replace the running operation"),
    }
}

fn shorten_revisions(revisions: &[String]) -> String {
    let short = |one: &String| one.chars().take(SHORT_COMMIT_LENGTH).collect::<String>();
    revisions.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// Operation that a newer revision may supersede.
#[derive(Clone, Debug)]
pub struct SupersedableOperation {
    /// ID of the operation in the engine.
    pub id: OperationId,
    /// Sources that the operation deploys.
    pub sources: Sources,
    /// Revisions of the sources.
    pub revisions: Vec<String>,
}

/// Returns the current operation if a newer revision may supersede it.
pub fn supersedable_operation(application: &Application) -> Option<SupersedableOperation> {
    let current = application.operation.as_ref().filter(|current| can_be_superseded(current))?;
    let id = operation::engine_id(current)?;
    let sources = operation::operation_sources(application, current).ok()?;
    let revisions = operation::operation_revisions(current, &sources).ok()?;
    Some(SupersedableOperation { id, sources, revisions })
}

/// Sets the successor of an operation with `retry.refresh`: a retry of the same sources at their newest
/// revisions, if a comparison has found different manifests there.
pub fn set_retry_successor(application: &mut Application, newest: ManifestComparison) {
    let Some(current) = application.operation.as_ref() else { return };
    let queued = successor_of(current);
    if queued.as_ref().is_some_and(|queued| !queued.is_retry) || newest == ManifestComparison::Unknown {
        return;
    }
    let wanted =
        retry_at_newest_revision(application, current).filter(|_| newest == ManifestComparison::Different);
    let wanted =
        wanted.map(|operation| Successor { operation, when: Some(SafePoint::Failed), is_retry: true });
    if wanted == queued {
        return;
    }
    let Some(current) = &mut application.operation else { return };
    match wanted {
        Some(wanted) => set_successor(current, &wanted),
        None => remove_successor(current),
    }
}

fn retry_at_newest_revision(
    application: &Application,
    current: &OperationRequest,
) -> Option<OperationRequest> {
    let retry = current.retry.as_ref().filter(|retry| retry.refresh)?;
    if operation::engine_id(current).is_none()
        || operation::deletion_cascade(current).is_some()
        || rollout_operation::is_of_rollout(current)
        || application.is_deleting()
    {
        return None;
    }
    let newest = newer_revisions(application, current)?;
    // The comparison used the application's current sources, the operation those from when it started.
    let own = Sources::from_application(application).without_credentials();
    let of = operation::operation_sources(application, current)
        .ok()
        .filter(|of| of.without_credentials() == own)?;
    let state = application.status.operation_state.as_ref();
    let retried = state.map_or(0, |state| state.retry_count);
    let mut again = current.clone();
    operation::remove_controller_infos(&mut again);
    remove_successor(&mut again);
    let limit = if retry.limit < 0 { retry.limit } else { retry.limit.saturating_sub(retried + 1).max(0) };
    again.retry = Some(Retry { limit, ..retry.clone() });
    let sync = again.sync.get_or_insert_default();
    (sync.revision, sync.revisions) =
        of.revision_fields(&revisions_of_fields(&newest.revision, &newest.revisions));
    Some(again)
}
