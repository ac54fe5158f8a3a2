//! What an operation asks of the engine, and what the status says of it.

use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationSource, OperationRequest, OperationResource, OperationState, Retry,
    RevisionHistory, Strategy, SyncOperation, SyncOperationResult, SyncResource, SyncStrategy,
};
use tidegate_model::{
    Backoff, Cascade, ClaimRequest, Destination, IgnoreDifference, OperationId, OperationPhase,
    ResourceResult, ResourceSelector, RetryPolicy, SyncOptions, SyncRequest, Timestamp, Wisher,
    parse_duration, reason_line,
};

use crate::approval::{DRIFT_REMARK, PLAN_REMARK};
pub use crate::before::is_same;
use crate::before::{self, AFTER_REMARK, ATTEMPT_REMARK};
use crate::credentials::without_credentials;
use crate::sources::{self, Sources};
use crate::superseding::{SUPERSEDES_REMARK, take_next};
use crate::{automated, instance_name};

/// The remark of an operation that says which one of the engine it is. It is written before the engine hears of it, so
/// that it is begun once, whatever dies in between.
pub const ID_REMARK: &str = "tidegate.dev/operation-id";
/// The remark of an operation that deletes its application: what becomes of the objects.
pub(crate) const DELETION_REMARK: &str = "tidegate.dev/deletion";
/// The remark of such an operation that says which deletion it is: when that was asked for, as the resource says it.
pub(crate) const ASKED_REMARK: &str = "tidegate.dev/deletion-asked-at";
/// The remark of such an operation that says which approval was there before, if any, and is none of this deletion.
pub(crate) const APPROVED_REMARK: &str = "tidegate.dev/deletion-approved-before";
/// The remark of an operation that a progressive sync wants: whose that is.
pub(crate) const ROLLOUT_REMARK: &str = "tidegate.dev/rollout-of";
/// The remark of an operation that says why it is asked for.
pub(crate) const REASON_REMARK: &str = "Reason";
/// The remark of an operation that says by which revisions its commits were named, one a line.
const NAMES_REMARK: &str = "tidegate.dev/revisions";
const LINE: &str = "\n";
/// The remarks that nobody else may make: they say what was begun, for whom, and whether that deletes an application.
const OWN_REMARKS: [&str; 11] = [
    ID_REMARK,
    PLAN_REMARK,
    DRIFT_REMARK,
    DELETION_REMARK,
    ASKED_REMARK,
    APPROVED_REMARK,
    ROLLOUT_REMARK,
    NAMES_REMARK,
    SUPERSEDES_REMARK,
    ATTEMPT_REMARK,
    AFTER_REMARK,
];
/// Who asks for an operation that nobody asks for, as the log has it.
pub(crate) const AUTOMATED: &str = SyncRequest::AUTOMATED;
/// What is between the revisions of several sources, as the log has them.
pub const BETWEEN: &str = ",";
/// What the status says of an operation that nothing keeps from beginning.
const BEGINS: &str = "about to begin";
/// How many syncs are remembered, where the application does not say.
const HISTORY: i64 = 10;

/// Why an operation cannot be begun as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It asks for nothing.
    #[error("Invalid operation request: no operation specified")]
    Nothing,
    /// It asks for what is not done yet.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// It is not said which revision is meant for which source.
    #[error(
        "the operation names {given} revisions for {sources} sources; name one for each source, in their order: by `--revisions` with `--source-positions`, or in operation.sync.revisions"
    )]
    Revisions {
        /// So many are named.
        given: usize,
        /// So many sources there are.
        sources: usize,
    },
    /// It would be undone at once.
    #[error(
        "rollback cannot be initiated when auto-sync is enabled: it would be synced to its newest revision again; take spec.syncPolicy.automated away first"
    )]
    AutoSync,
    /// It would be undone at once.
    #[error(
        "Cannot sync to {asked}: auto-sync currently set to {target}, and would sync to that again; take spec.syncPolicy.automated away first, or name {target}"
    )]
    OtherRevision {
        /// What was asked for.
        asked: String,
        /// What the application follows.
        target: String,
    },
    /// Nothing to go back to.
    #[error("there is no sync {0} in its history; `tidegate app history` shows those there are")]
    NoSuchSync(i64),
    /// Nothing to go back to.
    #[error("its history has no sync before the last one")]
    NoSyncBefore,
    /// Its waits do not grow.
    #[error("retry.backoff.factor {0} must be a whole number from 1 on")]
    Factor(i64),
    /// Its waits cannot be read.
    #[error("retry.backoff.{field} {text:?} is no duration such as 5s")]
    Backoff {
        /// Which.
        field: &'static str,
        /// What it says.
        text: String,
    },
}

/// The engine's id of an operation, once it has one.
pub fn id(operation: &OperationRequest) -> Option<OperationId> {
    operation.remark(ID_REMARK)?.parse().ok()
}

/// Says why an operation is asked for: a remark, as Argo CD's command line makes it with `--info`. An empty one says nothing.
pub fn give_reason(operation: &mut OperationRequest, reason: &str) {
    let reason = reason_line(reason);
    if !reason.is_empty() {
        operation.set_remark(REASON_REMARK, reason);
    }
}

/// Takes a reason that comes with an operation as [`give_reason`] would have given it: as one line of bounded length.
pub fn bound_reason(operation: &mut OperationRequest) {
    if let Some(reason) = operation.remark(REASON_REMARK).map(str::to_owned) {
        operation.info.retain(|info| info.name != REASON_REMARK);
        give_reason(operation, &reason);
    }
}

/// Why somebody has asked for an operation; empty where they have not said it, and where nobody has asked.
pub fn reason(operation: &OperationRequest) -> &str {
    let is_said = !operation.initiated_by.automated;
    operation.remark(REASON_REMARK).filter(|_| is_said).unwrap_or_default()
}

/// What becomes of the objects, of an operation that deletes its application; `None` for a sync.
pub fn cascade(operation: &OperationRequest) -> Option<Cascade> {
    operation.remark(DELETION_REMARK)?.parse().ok()
}

/// Takes out of an operation that somebody else has written what only we may say of it.
pub fn disown(operation: &mut OperationRequest) {
    operation.info.retain(|info| !OWN_REMARKS.contains(&info.name.as_str()));
}

/// The sources an operation deploys: its own, or those of the application.
pub fn sources(application: &Application, operation: &OperationRequest) -> Result<Sources, Refused> {
    let sync = operation.sync.as_ref().ok_or(Refused::Nothing)?;
    if !sync.manifests.is_empty() {
        return Err(Refused::Unsupported("a sync of local manifests (operation.sync.manifests)"));
    }
    let own = Sources::of(application);
    // What is asked for is kept without credentials; those of the application open the same repository.
    let asked = Sources::said(sync.source.as_ref(), &sync.sources);
    Ok(asked.filter(|asked| asked.bare() != own.bare()).unwrap_or(own))
}

/// The revisions an operation deploys of its sources: those it names, or those that the sources ask for.
pub fn revisions(operation: &OperationRequest, of: &Sources) -> Result<Vec<String>, Refused> {
    let sync = operation.sync.as_ref().ok_or(Refused::Nothing)?;
    revisions_named(sources::revisions(&sync.revision, &sync.revisions), of)
}

/// The revisions that are deployed where somebody names these, one for each source, or none.
pub fn revisions_named(named: Vec<String>, of: &Sources) -> Result<Vec<String>, Refused> {
    let (given, sources) = (named.len(), of.all().len());
    match given {
        0 => Ok(of.wanted()),
        _ if given == sources => {
            // One that is left empty is the one that the source asks for.
            let both = named.into_iter().zip(of.wanted());
            Ok(both.map(|(named, wanted)| if named.is_empty() { wanted } else { named }).collect())
        }
        _ => Err(Refused::Revisions { given, sources }),
    }
}

/// The revisions that an operation of the log has deployed.
pub fn revisions_of(request: &SyncRequest) -> Vec<String> {
    let all = request.revision.split(BETWEEN).filter(|revision| !revision.is_empty());
    all.map(str::to_owned).collect()
}

/// Writes down which revisions the operation of an application deploys, and by which names somebody has asked for them.
pub fn set_revisions(application: &mut Application, revisions: &[String]) {
    let Some(asked) = &application.operation else { return };
    let of = sources(application, asked).unwrap_or_default();
    if let Some(asked) = &mut application.operation {
        let sync = asked.sync.get_or_insert_default();
        let names = sources::revisions(&sync.revision, &sync.revisions);
        (sync.revision, sync.revisions) = of.revisions(revisions);
        let is_name = |(name, revision): (&String, &String)| !name.is_empty() && name != revision;
        if names.iter().zip(revisions).any(is_name) {
            asked.set_remark(NAMES_REMARK, names.join(LINE));
        }
    }
}

/// By which names somebody has asked for the revisions of an operation, in the order of its sources; nothing where they are
/// those that the sources ask for.
pub fn names(operation: &OperationRequest) -> Vec<String> {
    let names = operation.remark(NAMES_REMARK);
    names.map(|names| names.split(LINE).map(str::to_owned).collect()).unwrap_or_default()
}

/// What stands before the name of a chart, where others have their folder.
pub(crate) const CHART: &str = "chart:";

/// A source as the log has it: enough to tell it from another.
pub(crate) fn described(source: &ApplicationSource) -> String {
    let url = without_credentials(&source.repo_url);
    if source.chart.is_empty() {
        format!("{url} {}", source.path)
    } else {
        format!("{url} {CHART}{}", source.chart)
    }
}

/// Whether a person may have an application synced to the revisions they name: not to others than those that it is synced to by itself.
///
/// # Errors
///
/// [`Refused::OtherRevision`].
pub fn may_name(application: &Application, asked: &OperationRequest) -> Result<(), Refused> {
    const HEAD: &str = "HEAD";
    let Some(sync) = asked.sync.as_ref() else { return Ok(()) };
    if sync.source.is_none() && sync.sources.is_empty() {
        // Which is meant for which source is to be said.
        revisions(asked, &Sources::of(application))?;
    }
    if sync.dry_run {
        return Ok(());
    }
    if automated(application).is_none() {
        return Ok(());
    }
    let or_head = |revision: &str| if revision.is_empty() { HEAD } else { revision }.to_owned();
    let targets = application.sources().iter().map(|source| or_head(&source.target_revision));
    let targets: Vec<String> = targets.collect();
    let named =
        if sync.revisions.is_empty() { std::slice::from_ref(&sync.revision) } else { &sync.revisions[..] };
    if named.len() != targets.len() {
        return Ok(());
    }
    let other = named.iter().zip(targets).find(|(named, target)| !named.is_empty() && *named != target);
    other.map_or(Ok(()), |(asked, target)| Err(Refused::OtherRevision { asked: asked.clone(), target }))
}

/// The operation that goes back to a sync of the history, or to the one before the last: without hooks, as Argo CD does it.
pub fn rollback(
    application: &Application,
    id: Option<i64>,
    prune: bool,
) -> Result<OperationRequest, Refused> {
    if automated(application).is_some() {
        return Err(Refused::AutoSync);
    }
    let history = &application.status.history;
    let entry = match id {
        Some(id) => history.iter().find(|one| one.id == id).ok_or(Refused::NoSuchSync(id))?,
        None => history.iter().rev().nth(1).ok_or(Refused::NoSyncBefore)?,
    };
    let policy = application.spec.sync_policy.as_ref();
    let sync = SyncOperation {
        revision: entry.revision.clone(),
        revisions: entry.revisions.clone(),
        source: entry.source.clone(),
        sources: entry.sources.clone(),
        prune,
        sync_options: policy.map(|policy| policy.sync_options.clone()).unwrap_or_default(),
        sync_strategy: Some(SyncStrategy { apply: Some(Strategy::default()), ..SyncStrategy::default() }),
        ..SyncOperation::default()
    };
    Ok(OperationRequest { sync: Some(sync), ..OperationRequest::default() })
}

/// What an operation asks of the engine, at a place.
pub fn request(
    application: &Application,
    operation: &OperationRequest,
    (destination, namespace): (Destination, String),
    revisions: &[String],
) -> Result<SyncRequest, Refused> {
    let sync = operation.sync.as_ref().ok_or(Refused::Nothing)?;
    let sources = sources(application, operation)?;
    let by = &operation.initiated_by;
    let initiated_by = match by.automated {
        true if operation.remark(ROLLOUT_REMARK).is_some() => SyncRequest::ROLLOUT.to_owned(),
        true => AUTOMATED.to_owned(),
        false => Wisher { by: &by.username, reason: reason(operation) }.text(),
    };
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    let base = SyncRequest::new(instance_name(application), namespace, destination);
    Ok(SyncRequest {
        revision: revisions.join(BETWEEN),
        options: options(application, sync),
        selection: sync.resources.iter().map(selector).collect(),
        retry: operation.retry.as_ref().map(retry).transpose()?.unwrap_or_default(),
        initiated_by,
        sources: sources.all().iter().map(described).collect(),
        ignore_differences: ignored(application),
        claim: (is_shared && !sync.dry_run).then(ClaimRequest::default),
        ..base
    })
}

/// What a comparison of the application asks; it is carried out by nobody.
pub fn comparison(application: &Application, destination: Destination, namespace: String) -> SyncRequest {
    let policy = application.spec.sync_policy.as_ref();
    let mut flags = policy.map(|policy| policy.sync_options.clone()).unwrap_or_default();
    // That an object is another application's too is a warning here, and fails an operation.
    flags.retain(|flag| flag != "FailOnSharedResource=true");
    let sync = SyncOperation { sync_options: flags, ..SyncOperation::default() };
    SyncRequest {
        options: options(application, &sync),
        ignore_differences: ignored(application),
        ..SyncRequest::new(instance_name(application), namespace, destination)
    }
}

fn ignored(application: &Application) -> Vec<IgnoreDifference> {
    application.spec.ignore_differences.iter().map(IgnoreDifference::from).collect()
}

fn options(application: &Application, sync: &SyncOperation) -> SyncOptions {
    let strategy = sync.sync_strategy.as_ref();
    let (apply, hook) =
        (strategy.and_then(|one| one.apply.as_ref()), strategy.and_then(|one| one.hook.as_ref()));
    let policy = application.spec.sync_policy.as_ref();
    let metadata = policy.and_then(|policy| policy.managed_namespace_metadata.clone()).unwrap_or_default();
    SyncOptions {
        prune: sync.prune,
        dry_run: sync.dry_run,
        force: apply.or(hook).is_some_and(|strategy| strategy.force),
        skip_hooks: apply.is_some(),
        flags: sync.sync_options.clone(),
        namespace_labels: metadata.labels.into_iter().collect(),
        namespace_annotations: metadata.annotations.into_iter().collect(),
        ..SyncOptions::default()
    }
}

/// What names a resource of a selective sync.
pub fn selector(resource: &OperationResource) -> ResourceSelector {
    ResourceSelector {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
    }
}

/// What a selective sync is about, as an operation names it.
pub fn resource(selector: &ResourceSelector) -> OperationResource {
    OperationResource {
        group: selector.group.clone(),
        kind: selector.kind.clone(),
        namespace: selector.namespace.clone(),
        name: selector.name.clone(),
        ..OperationResource::default()
    }
}

pub(crate) fn retry(retry: &Retry) -> Result<RetryPolicy, Refused> {
    Ok(RetryPolicy { limit: retry.limit, backoff: backoff(retry)?, restart: false })
}

/// The waits between attempts, or why they cannot be read.
pub fn backoff(retry: &Retry) -> Result<Backoff, Refused> {
    let by_default = Backoff::default();
    let read = |field, text: &str, otherwise| match text {
        "" => Ok(otherwise),
        seconds if seconds.chars().all(|c| c.is_ascii_digit()) => {
            let wrong = |_| Refused::Backoff { field, text: text.to_owned() };
            seconds.parse().map(Duration::from_secs).map_err(wrong)
        }
        text => parse_duration(text).map_err(|_| Refused::Backoff { field, text: text.to_owned() }),
    };
    let given = retry.backoff.clone().unwrap_or_default();
    let factor = |factor: i64| match u32::try_from(factor) {
        Err(_) | Ok(0) => Err(Refused::Factor(factor)),
        Ok(factor) => Ok(factor),
    };
    Ok(Backoff {
        duration: read("duration", &given.duration, by_default.duration)?,
        factor: given.factor.map_or(Ok(by_default.factor), factor)?,
        max: read("maxDuration", &given.max_duration, by_default.max)?,
    })
}

/// How an operation stands, as the engine tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// In one word.
    pub phase: OperationPhase,
    /// In words.
    pub message: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How many times it was tried again.
    pub retry_count: u32,
    /// What became of its objects so far.
    pub resources: Vec<ResourceResult>,
}

impl Progress {
    /// An operation that somebody ended before it began: who, and why, as [`Wisher::text`] has both.
    pub fn terminated(by: &str, now: Timestamp) -> Self {
        let Wisher { by, reason } = Wisher::read(by);
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let message = format!("Operation terminated by {by} before it began{why}");
        Self { phase: OperationPhase::Failed, ..Self::refused(message, now) }
    }

    /// An operation that waits for something before it begins.
    pub fn waiting(message: String, since: Timestamp) -> Self {
        Self { phase: OperationPhase::Running, finished_at: None, ..Self::refused(message, since) }
    }

    /// An operation that ended before it began.
    pub fn refused(message: String, now: Timestamp) -> Self {
        Self {
            phase: OperationPhase::Error,
            message,
            started_at: now,
            finished_at: Some(now),
            retry_count: 0,
            resources: Vec::new(),
        }
    }
}

/// Whether the status says of the operation that is asked for how it goes on, as it does from its beginning. Its id is in the
/// resource before.
pub fn has_begun(application: &Application) -> bool {
    let state = application.status.operation_state.as_ref();
    let asked = application.operation.as_ref().and_then(id);
    match (asked, state.and_then(|state| id(&state.operation))) {
        (Some(asked), told) => told == Some(asked),
        (None, told) => told.is_some(),
    }
}

/// Says of the operation that is asked for, and was not begun yet, that nothing keeps it from that: the status is about no earlier
/// operation any more, and about nothing that is not waited for any more.
pub fn say_it_begins(application: &mut Application, now: Timestamp) {
    if !tells_of_itself(application) {
        wait(application, BEGINS.to_owned(), now);
    }
}

/// Whether the status is about the operation that is asked for, and says of no wait that it waits; also where none is asked for.
pub fn tells_of_itself(application: &Application) -> bool {
    let Some(asked) = &application.operation else { return true };
    let last = application.status.operation_state.as_ref().filter(|last| last.finished_at.is_none());
    match last {
        Some(last) if is_same(&last.operation, asked) => last.message == BEGINS,
        // How it goes on is told from its beginning on.
        Some(last) => id(asked).is_some() && id(&last.operation) == id(asked),
        None => false,
    }
}

/// Says of the operation that is asked for, and was not begun yet, what it waits for.
pub fn wait(application: &mut Application, message: String, now: Timestamp) {
    let last = application.status.operation_state.as_ref();
    let asked = application.operation.as_ref();
    let is_about = |last: &OperationState| asked.is_some_and(|asked| is_same(&last.operation, asked));
    let same = last.filter(|last| last.finished_at.is_none() && is_about(last));
    let started_at = same.map_or(now, |last| last.started_at.moment());
    take_in(application, Progress::waiting(message, started_at));
}

/// Takes the progress of the operation that is asked for into the status. One that is over is no longer asked for, and
/// when it deployed the whole application, it is remembered. What waits for its end is asked for from then on.
pub fn take_in(application: &mut Application, progress: Progress) {
    let Some(mut operation) = application.operation.clone() else { return };
    let next = match progress.finished_at {
        Some(_) => take_next(&mut operation, application.is_deleting(), &progress.message),
        None => None,
    };
    let sync = operation.sync.clone().unwrap_or_default();
    let own = sources(application, &operation).unwrap_or_default().bare();
    let last = application.status.operation_state.as_ref();
    before::remember(&mut operation, last, automated(application).is_some());
    let policy = application.spec.sync_policy.as_ref();
    let state = OperationState {
        phase: progress.phase,
        message: progress.message,
        started_at: progress.started_at.into(),
        finished_at: progress.finished_at.map(Into::into),
        retry_count: progress.retry_count.into(),
        sync_result: Some(SyncOperationResult {
            revision: sync.revision.clone(),
            revisions: sync.revisions.clone(),
            source: own.one(),
            sources: own.several(),
            managed_namespace_metadata: policy.and_then(|policy| policy.managed_namespace_metadata.clone()),
            resources: progress.resources.into_iter().map(result).collect(),
            ..SyncOperationResult::default()
        }),
        operation: operation.clone(),
        rest: tidegate_model::argo::Rest::new(),
    };
    application.status.operation_state = Some(state);
    let Some(finished_at) = progress.finished_at else { return };
    application.operation = next;
    let is_sync = cascade(&operation).is_none();
    if progress.phase == OperationPhase::Succeeded && is_sync && !sync.dry_run && sync.resources.is_empty() {
        let history = &mut application.status.history;
        history.push(RevisionHistory {
            id: history.last().map_or(0, |last| last.id.saturating_add(1)),
            revision: sync.revision,
            revisions: sync.revisions,
            source: own.one(),
            sources: own.several(),
            deploy_started_at: Some(progress.started_at.into()),
            deployed_at: finished_at.into(),
            initiated_by: operation.initiated_by,
            ..RevisionHistory::default()
        });
        let limit = application.spec.revision_history_limit.unwrap_or(HISTORY);
        let surplus = history.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        history.drain(..surplus);
    }
}

fn result(resource: ResourceResult) -> SyncResource {
    let text = |value: Option<String>| value.unwrap_or_default();
    SyncResource {
        group: resource.group,
        version: resource.version,
        kind: resource.kind,
        namespace: resource.namespace,
        name: resource.name,
        status: text(resource.status.map(|status| status.to_string())),
        message: resource.message,
        hook_type: text(resource.hook_type.map(|phase| phase.to_string())),
        hook_phase: text(resource.hook_phase.map(|phase| phase.to_string())),
        sync_phase: resource.sync_phase.to_string(),
        images: resource.images,
        ..SyncResource::default()
    }
}
