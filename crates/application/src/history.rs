//! Recovery of an application's status from the operation log.
//!
//! The status is a cache of the log: the last operation, the history and the synced revision all follow from
//! recorded operations. Losing the status, or restoring an old one, therefore never causes a second sync.

use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationSource, ConditionType, OperationInitiator, OperationRequest, OperationResource,
    OperationState, Retry, RetryBackoff, Strategy, SyncOperation, SyncStrategy, UnknownFields,
};
use tidegate_model::{
    OperationId, OperationPhase, Requester, ResourceSelector, RetryPolicy, SyncRequest, Timestamp,
};

use crate::approval;
use crate::conditions;
use crate::controller_info::{DELETION_INFO, ID_INFO, REQUESTED_AT_INFO};
use crate::deletion;
use crate::operation::{
    self, AUTOMATED_REQUESTER, CHART_PREFIX, EngineProgress, REVISION_SEPARATOR, source_text,
};
use crate::previous_operation;
use crate::rollout_operation::{self, Deployment};
use crate::sources::{Sources, is_commit};

/// Condition type for a status that was rebuilt.
pub const STATUS_REBUILT_CONDITION: &str = "StatusRebuiltWarning";

/// Maximum time by which another service's clock may be ahead of ours.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(3600);

/// Operation as recorded in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedOperation {
    /// ID of the operation.
    pub operation: OperationId,
    /// The operation's request, or `None` if only its summary remains.
    pub request: Option<SyncRequest>,
    /// Progress of the operation.
    pub progress: EngineProgress,
}

/// Summary of one of the application's operations in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSummary {
    /// ID of the operation.
    pub operation: OperationId,
    /// True if the operation has not ended.
    pub is_running: bool,
}

/// Checks an application's current operation against the log. `lines` are the log's summaries for this
/// application, oldest first. Anyone with access to the resource can write an operation, and a backup can
/// bring back an old one, so the ID is accepted in only two cases: the operation is still open, or it is the
/// newest one and the status doesn't show its end yet.
///
/// Any other operation counts as not started. A deletion is then requested again, based on the current
/// resource. A progressive sync must request its operation again as well, because the request may have
/// changed.
pub fn verify_operation(application: &mut Application, lines: &[LogSummary], now: Timestamp) {
    let Some(asked) = &application.operation else { return };
    let id = operation::engine_id(asked);
    let state = application.status.operation_state.as_ref();
    let is_told = state
        .is_some_and(|state| state.finished_at.is_some() && operation::engine_id(&state.operation) == id);
    let is_newest = lines.last().is_some_and(|newest| Some(newest.operation) == id);
    let is_open = lines.iter().any(|line| Some(line.operation) == id && line.is_running);
    if is_open || is_newest && !is_told {
        return;
    }
    let deletes = operation::deletion_cascade(asked);
    if rollout_operation::is_of_rollout(asked) {
        id.into_iter().for_each(|id| rollout_operation::withdraw_operation(application, id, now));
        application.operation = None;
    } else if deletes.is_some() && application.is_deleting() {
        application.operation = None;
    } else if let Some(asked) = &mut application.operation {
        operation::remove_controller_infos(asked);
        if let Some(cascade) = deletes {
            // Without this info item, the operation would count as a sync, which no client has requested.
            asked.set_info(DELETION_INFO, cascade.as_str());
        }
    }
}

/// Returns true if another service started the current operation but didn't finish it: the status shows that
/// it started, but the local log has neither this operation nor a newer one. The service that takes over
/// continues it under the same ID, so that existing hooks don't run again. An operation that depends on data
/// outside the resource (a stored plan, a rollout, a deletion) starts from scratch.
pub fn is_interrupted(application: &Application, lines: &[LogSummary], now: Timestamp) -> bool {
    let Some(asked) = &application.operation else { return false };
    let Some(id) = operation::engine_id(asked) else { return false };
    let state = application.status.operation_state.as_ref().filter(|state| state.finished_at.is_none());
    let began = |state: &OperationState| state.started_at.timestamp() <= now + CLOCK_SKEW_MAX;
    state.is_some_and(|state| operation::engine_id(&state.operation) == Some(id) && began(state))
        && !application.is_deleting()
        && !rollout_operation::is_of_rollout(asked)
        && operation::deletion_cascade(asked).is_none()
        && approval::requested_plan(asked).is_none()
        && lines.iter().all(|line| line.operation < id)
}

/// Returns true if an operation belongs to an application rather than to a sync of files under the same name.
/// An application's operation has a repository and a commit, or a chart, for each source.
pub fn belongs_to_application(request: &SyncRequest) -> bool {
    if request.deletion.is_some() {
        return deletion::parse_requester(&request.initiated_by).is_some();
    }
    let revisions: Vec<&str> = request.revision.split(REVISION_SEPARATOR).collect();
    let mut both = request.sources.iter().zip(&revisions);
    revisions.len() == request.sources.len()
        && both.all(|(source, revision)| match source.rsplit_once(' ') {
            Some((url, path)) => {
                is_commit(revision) || path.starts_with(CHART_PREFIX) || url.starts_with("oci://")
            }
            None => false,
        })
}

/// Returns the newest operation that deployed the whole application. `recorded` is ordered from oldest to
/// newest. Returns `None` if the log has only a summary of the newest successful operation, since its content
/// is then unknown.
pub fn newest_deployment(recorded: impl DoubleEndedIterator<Item = LoggedOperation>) -> Option<Deployment> {
    let has_succeeded = |one: &LoggedOperation| one.progress.phase == OperationPhase::Succeeded;
    for LoggedOperation { operation, request, .. } in recorded.rev().filter(has_succeeded) {
        let request = request?;
        if !request.options.dry_run && request.selection.is_empty() {
            let revisions = operation::deployed_revisions(&request);
            return request.deletion.is_none().then_some(Deployment { operation, revisions });
        }
    }
    None
}

/// Restores the running operation from the status. Needed if the log shows it as open but it was replaced in
/// the resource while the service was down.
pub fn restore_operation(application: &mut Application, lines: &[LogSummary]) {
    let state = application.status.operation_state.as_ref().filter(|state| state.finished_at.is_none());
    let state = state.map(|state| &state.operation);
    let is_open = |id| lines.iter().any(|line| line.operation == id && line.is_running);
    if let Some(open) = state.filter(|state| operation::engine_id(state).is_some_and(is_open)) {
        application.operation = Some(open.clone());
    }
}

/// Returns true if the status has the log's newest operation.
pub fn knows_operation(application: &Application, newest: OperationId) -> bool {
    let asked = application.operation.as_ref().and_then(operation::engine_id);
    asked == Some(newest) || newest_known_operation(application).is_some_and(|known| known >= newest)
}

/// Returns the newest operation in the status that may be in the log. IDs sort by time.
fn newest_known_operation(application: &Application) -> Option<OperationId> {
    application.status.operation_state.as_ref().and_then(previous_operation::newest_logged_operation)
}

/// Applies the logged operations that are missing from the status, oldest first, and returns their number.
pub fn apply_history(application: &mut Application, recorded: Vec<LoggedOperation>) -> usize {
    let mut own: Vec<LoggedOperation> =
        recorded.into_iter().filter(|one| one.request.as_ref().is_none_or(belongs_to_application)).collect();
    let deletes =
        |one: &LoggedOperation| one.request.as_ref().is_some_and(|request| request.deletion.is_some());
    if let Some(deleted) = own.iter().rposition(deletes).filter(|_| !application.is_deleting()) {
        // An earlier application of this name was deleted, so its operations no longer count.
        own.drain(..=deleted);
    }
    let Some(newest) = own.last() else { return 0 };
    if knows_operation(application, newest.operation) || is_status_newer(application, newest) {
        return 0;
    }
    let asked = application.operation.as_ref().and_then(operation::engine_id);
    if asked.is_some_and(|asked| own.iter().any(|one| one.operation == asked)) {
        // The current operation finished before the newest logged operation started.
        application.operation = None;
    }
    let known = newest_known_operation(application);
    let is_unknown = |one: &LoggedOperation| known.is_none_or(|known| one.operation > known);
    let unknown: Vec<LoggedOperation> = own.into_iter().filter(is_unknown).collect();
    let count = unknown.len();
    unknown.into_iter().for_each(|one| replay_operation(application, one));
    count
}

/// Returns true if the status describes an operation that finished before the engine received it and is newer
/// than anything in the log. The status doesn't record the operation before that.
fn is_status_newer(application: &Application, newest: &LoggedOperation) -> bool {
    let last = application
        .status
        .operation_state
        .as_ref()
        .filter(|last| previous_operation::newest_logged_operation(last).is_none());
    last.is_some_and(|last| last.started_at > newest.progress.started_at.into())
}

fn replay_operation(application: &mut Application, recorded: LoggedOperation) {
    let LoggedOperation { operation, request, progress } = recorded;
    match request {
        Some(request) => {
            let mut asked = to_operation_request(application, &request);
            asked.set_info(ID_INFO, operation.to_string());
            application.operation = Some(asked);
            operation::apply_progress(application, progress);
        }
        // The revision is unknown, so this counts as an attempt at any revision.
        None => {
            let mut asked = OperationRequest::default();
            asked.set_info(ID_INFO, operation.to_string());
            application.operation = None;
            application.status.operation_state = Some(OperationState {
                operation: asked,
                phase: progress.phase,
                message: progress.message,
                started_at: progress.started_at.into(),
                finished_at: progress.finished_at.map(Into::into),
                retry_count: progress.retry_count.into(),
                sync_result: None,
                rest: UnknownFields::new(),
            });
        }
    }
}

/// Converts an engine request back to an operation request of the application.
fn to_operation_request(application: &Application, request: &SyncRequest) -> OperationRequest {
    let options = &request.options;
    let is_of_rollout = request.initiated_by == SyncRequest::ROLLOUT_REQUESTER;
    let automated =
        request.initiated_by == AUTOMATED_REQUESTER || is_of_rollout || request.deletion.is_some();
    let of_deletion = request.deletion.and_then(|_| deletion::parse_requester(&request.initiated_by));
    let (username, reason) = match of_deletion {
        Some((who, _)) => (who.to_owned(), ""),
        None if is_of_rollout => (SyncRequest::ROLLOUT_REQUESTER.to_owned(), ""),
        None if automated => (String::new(), ""),
        None => {
            let Requester { name: by, reason } = Requester::parse(&request.initiated_by);
            (by.to_owned(), reason)
        }
    };
    let force = Strategy { force: options.force, ..Strategy::default() };
    let strategy = match (options.skip_hooks, options.force) {
        (true, _) => Some(SyncStrategy { apply: Some(force), ..SyncStrategy::default() }),
        (false, true) => Some(SyncStrategy { hook: Some(force), ..SyncStrategy::default() }),
        (false, false) => None,
    };
    let heals = automated && !request.selection.is_empty();
    let sources = deployed_sources(application, request);
    let revisions: Vec<String> = request.revision.split(REVISION_SEPARATOR).map(str::to_owned).collect();
    let (revision, revisions) = sources.revision_fields(&revisions);
    let mut asked = OperationRequest {
        sync: Some(SyncOperation {
            auto_heal_attempts_count: if heals {
                consecutive_heals(application, &revision, &revisions)
            } else {
                0
            },
            revision,
            revisions,
            source: sources.single_field(),
            sources: sources.list_field(),
            prune: options.prune,
            dry_run: options.dry_run,
            sync_options: options.flags.clone(),
            sync_strategy: strategy,
            resources: request.selection.iter().map(from_selector).collect(),
            ..SyncOperation::default()
        }),
        initiated_by: OperationInitiator { username, automated, ..OperationInitiator::default() },
        retry: Some(to_retry(application, &request.retry)),
        ..OperationRequest::default()
    };
    operation::set_reason(&mut asked, reason);
    if let Some(cascade) = request.deletion {
        asked.set_info(DELETION_INFO, cascade.as_str());
        if let Some((_, Some(asked_at))) = of_deletion {
            asked.set_info(REQUESTED_AT_INFO, asked_at);
        }
    }
    asked
}

/// Returns the sources that an operation deployed. The log only has repositories and folders; if they match
/// the application's sources, those are returned.
fn deployed_sources(application: &Application, request: &SyncRequest) -> Sources {
    let own = Sources::from_application(application).without_credentials();
    if own.as_slice().iter().map(source_text).eq(request.sources.iter().cloned()) {
        return own;
    }
    let said: Vec<ApplicationSource> = request.sources.iter().filter_map(|text| parse_source(text)).collect();
    let said = match said.as_slice() {
        [only] => Sources::from_fields(Some(only), &[]),
        all => Sources::from_fields(None, all),
    };
    said.unwrap_or_default()
}

fn parse_source(text: &str) -> Option<ApplicationSource> {
    let (repo_url, path) = text.rsplit_once(' ')?;
    let source = ApplicationSource { repo_url: repo_url.to_owned(), ..ApplicationSource::default() };
    Some(match path.strip_prefix(CHART_PREFIX) {
        Some(chart) => ApplicationSource { chart: chart.to_owned(), ..source },
        None => ApplicationSource { path: path.to_owned(), ..source },
    })
}

/// Counts the consecutive self-heal operations at these revisions, including the operation that is being
/// restored.
fn consecutive_heals(application: &Application, revision: &str, revisions: &[String]) -> i64 {
    let before = application.status.operation_state.as_ref().and_then(|state| state.operation.sync.as_ref());
    let before = before.filter(|before| before.revision == revision && before.revisions == revisions);
    before.map_or(0, |before| before.auto_heal_attempts_count).saturating_add(1)
}

fn from_selector(selector: &ResourceSelector) -> OperationResource {
    let ResourceSelector { group, kind, namespace, name } = selector.clone();
    OperationResource { group, kind, namespace, name, ..OperationResource::default() }
}

/// Returns the retry policy of a logged operation. The log doesn't record whether a retry uses the newest
/// revision, so this setting is taken from the application's policy if the policies otherwise match.
fn to_retry(application: &Application, policy: &RetryPolicy) -> Retry {
    let own = application.spec.sync_policy.as_ref().and_then(|policy| policy.retry.as_ref());
    let is_of = |own: &RetryPolicy| {
        own.backoff == policy.backoff && (own.limit < 0 || (0..=own.limit).contains(&policy.limit))
    };
    let refresh = own.is_some_and(|own| own.refresh && own.to_policy().as_ref().is_ok_and(is_of));
    let text = |duration: Duration| format!("{}ms", duration.as_millis());
    let backoff = RetryBackoff {
        duration: text(policy.backoff.duration),
        factor: Some(policy.backoff.factor.into()),
        max_duration: text(policy.backoff.max),
        ..RetryBackoff::default()
    };
    Retry { limit: policy.limit, refresh, backoff: Some(backoff), ..Retry::default() }
}

/// Sets or removes the condition that reports a rebuilt status. It stays until the next operation has
/// finished.
pub fn set_rebuilt_condition(application: &mut Application, message: Option<String>, now: Timestamp) {
    let kind = ConditionType::Other(STATUS_REBUILT_CONDITION.to_owned());
    let found = message.map(|message| (kind.clone(), message));
    conditions::set_conditions(&mut application.status.conditions, &[kind], found, now);
}
