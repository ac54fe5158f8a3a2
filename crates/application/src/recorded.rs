//! What the operation log says of an application, where its status does not know it.
//!
//! The status is a cache of the log: the last operation, the history and the revision that was synced follow from the
//! operations that are recorded. So a status that was lost, or that is older than the log, costs no second sync.

use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationSource, ConditionType, OperationInitiator, OperationRequest, OperationResource,
    OperationState, Rest, Retry, RetryBackoff, Strategy, SyncOperation, SyncStrategy,
};
use tidegate_model::{
    OperationId, OperationPhase, ResourceSelector, RetryPolicy, SyncRequest, Timestamp, Wisher,
};

use crate::before;
use crate::conditions;
use crate::deletion;
use crate::operation::{
    self, ASKED_REMARK, AUTOMATED, BETWEEN, CHART, DELETION_REMARK, ID_REMARK, Progress, described,
};
use crate::running::{self, Deployed};
use crate::sources::{Sources, is_commit};

/// The condition of an application whose status was made again.
pub const REBUILT: &str = "StatusRebuiltWarning";

/// One operation as the log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Which.
    pub operation: OperationId,
    /// What was asked; nothing where only a line is left of it.
    pub request: Option<SyncRequest>,
    /// How it stands.
    pub progress: Progress,
}

/// One line of the log about an operation of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which.
    pub operation: OperationId,
    /// Whether it is not over.
    pub is_open: bool,
}

/// Holds the operation that an application asks for against the log, which has `lines` of this application, oldest first.
/// Whoever may write the resource could have written that operation, and a backup may bring back an old one. So its id
/// counts only where it is that of an open operation, or of the newest whose end the status does not know yet; what else it
/// says has not begun. A deletion that has not begun begins by what the resource says now, and what a progressive sync wants
/// when that asks for it again: it may want something else by now.
pub fn verify(application: &mut Application, lines: &[Line], now: Timestamp) {
    let Some(asked) = &application.operation else { return };
    let id = operation::id(asked);
    let told = application.status.operation_state.as_ref();
    let is_told = told.is_some_and(|told| told.finished_at.is_some() && operation::id(&told.operation) == id);
    let is_newest = lines.last().is_some_and(|newest| Some(newest.operation) == id);
    let is_open = lines.iter().any(|line| Some(line.operation) == id && line.is_open);
    if is_open || is_newest && !is_told {
        return;
    }
    let deletes = operation::cascade(asked);
    if running::is_of_rollout(asked) {
        id.into_iter().for_each(|id| running::take_back(application, id, now));
        application.operation = None;
    } else if deletes.is_some() && application.is_deleting() {
        application.operation = None;
    } else if let Some(asked) = &mut application.operation {
        operation::disown(asked);
        if let Some(cascade) = deletes {
            // It is told that this is no deletion; a sync is not what was meant.
            asked.set_remark(DELETION_REMARK, cascade.as_str());
        }
    }
}

/// Whether an operation was begun for an application, and not by somebody who syncs files under the same name: it names
/// a repository and a commit, or a chart, for each source.
pub fn is_own(request: &SyncRequest) -> bool {
    if request.deletion.is_some() {
        return deletion::asked(&request.initiated_by).is_some();
    }
    let revisions: Vec<&str> = request.revision.split(BETWEEN).collect();
    let mut both = request.sources.iter().zip(&revisions);
    revisions.len() == request.sources.len()
        && both.all(|(source, revision)| match source.rsplit_once(' ') {
            Some((url, path)) => is_commit(revision) || path.starts_with(CHART) || url.starts_with("oci://"),
            None => false,
        })
}

/// What has deployed all of an application, the newest of these operations, oldest first. Nothing as well where only a line
/// is left of the newest that has succeeded: nobody knows what it did.
pub fn deployed(recorded: impl DoubleEndedIterator<Item = Recorded>) -> Option<Deployed> {
    let has_succeeded = |one: &Recorded| one.progress.phase == OperationPhase::Succeeded;
    for Recorded { operation, request, .. } in recorded.rev().filter(has_succeeded) {
        let request = request?;
        if !request.options.dry_run && request.selection.is_empty() {
            let revisions = operation::revisions_of(&request);
            return request.deletion.is_none().then_some(Deployed { operation, revisions });
        }
    }
    None
}

/// Puts back the operation that is under way, of those that the log has, where somebody has written another one into the
/// resource while nobody was at work.
pub fn put_back(application: &mut Application, lines: &[Line]) {
    let told = application.status.operation_state.as_ref().filter(|told| told.finished_at.is_none());
    let told = told.map(|told| &told.operation);
    let is_open = |id| lines.iter().any(|line| line.operation == id && line.is_open);
    if let Some(open) = told.filter(|told| operation::id(told).is_some_and(is_open)) {
        application.operation = Some(open.clone());
    }
}

/// Whether the status knows this operation, the newest of those that the log has.
pub fn is_known(application: &Application, newest: OperationId) -> bool {
    let asked = application.operation.as_ref().and_then(operation::id);
    asked == Some(newest) || newest_known(application).is_some_and(|known| known >= newest)
}

/// The newest operation of those that may be in the log of which the status knows: ids sort by time.
fn newest_known(application: &Application) -> Option<OperationId> {
    application.status.operation_state.as_ref().and_then(before::newest)
}

/// Takes in the operations of an application, oldest first, that its status does not know. Returns how many those were.
pub fn take_in(application: &mut Application, recorded: Vec<Recorded>) -> usize {
    let mut own: Vec<Recorded> =
        recorded.into_iter().filter(|one| one.request.as_ref().is_none_or(is_own)).collect();
    let deletes = |one: &Recorded| one.request.as_ref().is_some_and(|request| request.deletion.is_some());
    if let Some(deleted) = own.iter().rposition(deletes).filter(|_| !application.is_deleting()) {
        // That was another one of its name, and what it did is undone.
        own.drain(..=deleted);
    }
    let Some(newest) = own.last() else { return 0 };
    if is_known(application, newest.operation) || is_newer(application, newest) {
        return 0;
    }
    let asked = application.operation.as_ref().and_then(operation::id);
    if asked.is_some_and(|asked| own.iter().any(|one| one.operation == asked)) {
        // It was over before the newest one began.
        application.operation = None;
    }
    let known = newest_known(application);
    let is_unknown = |one: &Recorded| known.is_none_or(|known| one.operation > known);
    let unknown: Vec<Recorded> = own.into_iter().filter(is_unknown).collect();
    let count = unknown.len();
    unknown.into_iter().for_each(|one| replay(application, one));
    count
}

/// Whether the status tells of an operation that ended before the engine heard of it, after the newest one in the log; where it
/// does not say itself after which that was.
fn is_newer(application: &Application, newest: &Recorded) -> bool {
    let last = application.status.operation_state.as_ref().filter(|last| before::newest(last).is_none());
    last.is_some_and(|last| last.started_at > newest.progress.started_at.into())
}

fn replay(application: &mut Application, recorded: Recorded) {
    let Recorded { operation, request, progress } = recorded;
    match request {
        Some(request) => {
            let mut asked = asked(application, &request);
            asked.set_remark(ID_REMARK, operation.to_string());
            application.operation = Some(asked);
            operation::take_in(application, progress);
        }
        // Which revision it was is not known: it counts as an attempt to do whatever is due.
        None => {
            let mut asked = OperationRequest::default();
            asked.set_remark(ID_REMARK, operation.to_string());
            application.operation = None;
            application.status.operation_state = Some(OperationState {
                operation: asked,
                phase: progress.phase,
                message: progress.message,
                started_at: progress.started_at.into(),
                finished_at: progress.finished_at.map(Into::into),
                retry_count: progress.retry_count.into(),
                sync_result: None,
                rest: Rest::new(),
            });
        }
    }
}

/// What was asked of the application, from what was asked of the engine.
fn asked(application: &Application, request: &SyncRequest) -> OperationRequest {
    let options = &request.options;
    let is_of_rollout = request.initiated_by == SyncRequest::ROLLOUT;
    let automated = request.initiated_by == AUTOMATED || is_of_rollout || request.deletion.is_some();
    let of_deletion = request.deletion.and_then(|_| deletion::asked(&request.initiated_by));
    let (username, reason) = match of_deletion {
        Some((who, _)) => (who.to_owned(), ""),
        None if is_of_rollout => (SyncRequest::ROLLOUT.to_owned(), ""),
        None if automated => (String::new(), ""),
        None => {
            let Wisher { by, reason } = Wisher::read(&request.initiated_by);
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
    let sources = sources(application, request);
    let revisions: Vec<String> = request.revision.split(BETWEEN).map(str::to_owned).collect();
    let (revision, revisions) = sources.revisions(&revisions);
    let mut asked = OperationRequest {
        sync: Some(SyncOperation {
            auto_heal_attempts_count: if heals { healed(application, &revision, &revisions) } else { 0 },
            revision,
            revisions,
            source: sources.one(),
            sources: sources.several(),
            prune: options.prune,
            dry_run: options.dry_run,
            sync_options: options.flags.clone(),
            sync_strategy: strategy,
            resources: request.selection.iter().map(resource).collect(),
            ..SyncOperation::default()
        }),
        initiated_by: OperationInitiator { username, automated, ..OperationInitiator::default() },
        retry: Some(retry(application, &request.retry)),
        ..OperationRequest::default()
    };
    operation::give_reason(&mut asked, reason);
    if let Some(cascade) = request.deletion {
        asked.set_remark(DELETION_REMARK, cascade.as_str());
        if let Some((_, Some(asked_at))) = of_deletion {
            asked.set_remark(ASKED_REMARK, asked_at);
        }
    }
    asked
}

/// The sources that were deployed. The log has their repositories and folders: those of the application, where these are
/// the same.
fn sources(application: &Application, request: &SyncRequest) -> Sources {
    let own = Sources::of(application).bare();
    if own.all().iter().map(described).eq(request.sources.iter().cloned()) {
        return own;
    }
    let said: Vec<ApplicationSource> = request.sources.iter().filter_map(|text| source(text)).collect();
    let said = match said.as_slice() {
        [only] => Sources::said(Some(only), &[]),
        all => Sources::said(None, all),
    };
    said.unwrap_or_default()
}

fn source(text: &str) -> Option<ApplicationSource> {
    let (repo_url, path) = text.rsplit_once(' ')?;
    let source = ApplicationSource { repo_url: repo_url.to_owned(), ..ApplicationSource::default() };
    Some(match path.strip_prefix(CHART) {
        Some(chart) => ApplicationSource { chart: chart.to_owned(), ..source },
        None => ApplicationSource { path: path.to_owned(), ..source },
    })
}

/// How many times in a row the cluster was put right to these revisions, with this time.
fn healed(application: &Application, revision: &str, revisions: &[String]) -> i64 {
    let before = application.status.operation_state.as_ref().and_then(|state| state.operation.sync.as_ref());
    let before = before.filter(|before| before.revision == revision && before.revisions == revisions);
    before.map_or(0, |before| before.auto_heal_attempts_count).saturating_add(1)
}

fn resource(selector: &ResourceSelector) -> OperationResource {
    let ResourceSelector { group, kind, namespace, name } = selector.clone();
    OperationResource { group, kind, namespace, name, ..OperationResource::default() }
}

/// How it is tried again. The log does not have whether another attempt takes the newest revision: where the rest may be what
/// the application says, that is as it says as well.
fn retry(application: &Application, policy: &RetryPolicy) -> Retry {
    let own = application.spec.sync_policy.as_ref().and_then(|policy| policy.retry.as_ref());
    let is_of = |own: &RetryPolicy| {
        own.backoff == policy.backoff && (own.limit < 0 || (0..=own.limit).contains(&policy.limit))
    };
    let refresh = own.is_some_and(|own| own.refresh && operation::retry(own).as_ref().is_ok_and(is_of));
    let text = |duration: Duration| format!("{}ms", duration.as_millis());
    let backoff = RetryBackoff {
        duration: text(policy.backoff.duration),
        factor: Some(policy.backoff.factor.into()),
        max_duration: text(policy.backoff.max),
        ..RetryBackoff::default()
    };
    Retry { limit: policy.limit, refresh, backoff: Some(backoff), ..Retry::default() }
}

/// Says that the status was made again, until the next operation has ended: nothing is said for `None`.
pub fn tell(application: &mut Application, message: Option<String>, now: Timestamp) {
    let kind = ConditionType::Other(REBUILT.to_owned());
    let found = message.map(|message| (kind.clone(), message));
    conditions::set(&mut application.status.conditions, &[kind], found, now);
}
