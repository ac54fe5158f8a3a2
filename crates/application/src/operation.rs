//! Conversion of operations to engine requests, and of engine progress to status.

use std::time::Duration;

use tidegate_model::argo::{
    Application, ApplicationSource, InvalidRetry, OperationRequest, OperationResource, OperationState, Retry,
    RevisionHistory, Strategy, SyncOperation, SyncOperationResult, SyncResource, SyncStrategy,
};
use tidegate_model::field_handover::MIGRATION_OPTION;
use tidegate_model::{
    ClaimRequest, Destination, IgnoreDifference, OperationPhase, Requester, ResourceResult, ResourceSelector,
    SyncOptions, SyncRequest, Timestamp, annotations, normalize_reason,
};

pub use crate::controller_info::{ID_INFO, deletion_cascade, engine_id, remove_controller_infos};
use crate::controller_info::{REVISION_NAMES_INFO, ROLLOUT_INFO};
use crate::credentials::without_credentials;
use crate::previous_operation;
pub use crate::previous_operation::is_same_request;
use crate::sources::{self, Sources};
use crate::successor::take_successor;
use crate::{automated, instance_name};

/// Operation info item: the reason for the request.
pub(crate) const REASON_INFO: &str = "Reason";
/// Separates the requested revision names in the info item.
const NAME_SEPARATOR: &str = "\n";
/// Requester of automated operations in the log.
pub(crate) const AUTOMATED_REQUESTER: &str = SyncRequest::AUTOMATED_REQUESTER;
/// Separates the revisions of several sources in the log.
pub const REVISION_SEPARATOR: &str = ",";
/// Status message of an operation that is about to start.
const STARTING_MESSAGE: &str = "about to begin";
/// Precision of times in the status.
const STATUS_TIME_PRECISION: Duration = Duration::from_secs(1);
/// Default number of entries in the history.
const HISTORY_LIMIT_DEFAULT: i64 = 10;

/// Reason why an operation can't start as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationRefusal {
    /// The request is empty.
    #[error("Invalid operation request: no operation specified")]
    Empty,
    /// The requested feature is not supported.
    #[error("{0} is not supported yet")]
    Unsupported(&'static str),
    /// The number of revisions does not match the number of sources.
    #[error(
        "the operation has {given} revisions for {sources} sources; set one revision for each source, in \
         order: with `tidegate app sync --revisions` and `--source-positions`, or in \
         operation.sync.revisions"
    )]
    Revisions {
        /// Number of revisions in the operation.
        given: usize,
        /// Number of sources in the application.
        sources: usize,
    },
    /// Automated sync would undo the rollback immediately.
    #[error(
        "rollback cannot be initiated when auto-sync is enabled: auto-sync would sync to the newest revision \
         again; remove spec.syncPolicy.automated first"
    )]
    AutoSync,
    /// Automated sync would undo the sync immediately.
    #[error(
        "Cannot sync to {asked}: auto-sync currently set to {target} and would sync back to it; remove \
         spec.syncPolicy.automated first, or sync to {target}"
    )]
    OtherRevision {
        /// Requested revision.
        asked: String,
        /// Target revision of the application.
        target: String,
    },
    /// The history has no entry with this number to roll back to.
    #[error("the application's history has no sync {0}; `tidegate app history` lists the syncs")]
    NoHistoryEntry(i64),
    /// The history has no earlier sync to roll back to.
    #[error("the application's history has no earlier sync to roll back to")]
    NoEarlierSync,
    /// The retry policy is invalid.
    #[error(transparent)]
    Retry(#[from] InvalidRetry),
}

/// Adds a reason to a request as an info item, like Argo CD's `--info` flag. An empty reason is ignored.
pub fn set_reason(operation: &mut OperationRequest, reason: &str) {
    let reason = normalize_reason(reason);
    if !reason.is_empty() {
        operation.set_info(REASON_INFO, reason);
    }
}

/// Normalizes the reason in an operation written by another client, as [`set_reason`] does: a single line of
/// bounded length.
pub fn bound_reason(operation: &mut OperationRequest) {
    if let Some(reason) = operation.info_value(REASON_INFO).map(str::to_owned) {
        operation.info.retain(|info| info.name != REASON_INFO);
        set_reason(operation, &reason);
    }
}

/// Returns the reason for an operation request. Empty if there is none.
pub fn request_reason(operation: &OperationRequest) -> &str {
    let is_said = !operation.initiated_by.automated;
    operation.info_value(REASON_INFO).filter(|_| is_said).unwrap_or_default()
}

/// Returns the sources of an operation: its own if it has any, otherwise the application's.
pub fn operation_sources(
    application: &Application,
    operation: &OperationRequest,
) -> Result<Sources, OperationRefusal> {
    let sync = operation.sync.as_ref().ok_or(OperationRefusal::Empty)?;
    if !sync.manifests.is_empty() {
        return Err(OperationRefusal::Unsupported("a sync of local manifests (operation.sync.manifests)"));
    }
    let own = Sources::from_application(application);
    // The request stores its sources without credentials; the application's sources for the same repositories
    // have them.
    let asked = Sources::from_fields(sync.source.as_ref(), &sync.sources);
    Ok(asked.filter(|asked| asked.without_credentials() != own.without_credentials()).unwrap_or(own))
}

/// Returns the revisions of an operation: its own, or else the target revisions of its sources.
pub fn operation_revisions(
    operation: &OperationRequest,
    of: &Sources,
) -> Result<Vec<String>, OperationRefusal> {
    let sync = operation.sync.as_ref().ok_or(OperationRefusal::Empty)?;
    resolve_named_revisions(sources::revisions_of_fields(&sync.revision, &sync.revisions), of)
}

/// Resolves the revisions named in a request to those to deploy: one per source, or none if the request
/// doesn't name any.
pub fn resolve_named_revisions(named: Vec<String>, of: &Sources) -> Result<Vec<String>, OperationRefusal> {
    let (given, sources) = (named.len(), of.as_slice().len());
    match given {
        0 => Ok(of.target_revisions()),
        _ if given == sources => {
            // An empty revision selects the source's target revision.
            let both = named.into_iter().zip(of.target_revisions());
            Ok(both.map(|(named, wanted)| if named.is_empty() { wanted } else { named }).collect())
        }
        _ => Err(OperationRefusal::Revisions { given, sources }),
    }
}

/// Returns the revisions that a logged operation deployed.
pub fn deployed_revisions(request: &SyncRequest) -> Vec<String> {
    let all = request.revision.split(REVISION_SEPARATOR).filter(|revision| !revision.is_empty());
    all.map(str::to_owned).collect()
}

/// Records the resolved revisions of the application's operation, along with the names that were requested.
pub fn set_revisions(application: &mut Application, revisions: &[String]) {
    let Some(asked) = &application.operation else { return };
    let of = operation_sources(application, asked).unwrap_or_default();
    if let Some(asked) = &mut application.operation {
        let sync = asked.sync.get_or_insert_default();
        let names = sources::revisions_of_fields(&sync.revision, &sync.revisions);
        (sync.revision, sync.revisions) = of.revision_fields(revisions);
        let is_name = |(name, revision): (&String, &String)| !name.is_empty() && name != revision;
        if names.iter().zip(revisions).any(is_name) {
            asked.set_info(REVISION_NAMES_INFO, names.join(NAME_SEPARATOR));
        }
    }
}

/// Returns the revision names that were requested for an operation, in source order. Empty if the target
/// revisions were requested.
pub fn revision_names(operation: &OperationRequest) -> Vec<String> {
    let names = operation.info_value(REVISION_NAMES_INFO);
    names.map(|names| names.split(NAME_SEPARATOR).map(str::to_owned).collect()).unwrap_or_default()
}

/// Prefix of chart names in the log, where a chart is recorded instead of a folder.
pub(crate) const CHART_PREFIX: &str = "chart:";

/// Returns the text that identifies a source in the log.
pub(crate) fn source_text(source: &ApplicationSource) -> String {
    let url = without_credentials(&source.repo_url);
    if source.chart.is_empty() {
        format!("{url} {}", source.path)
    } else {
        format!("{url} {CHART_PREFIX}{}", source.chart)
    }
}

/// Checks that a user may sync an application to these revisions. With automated sync, only the target
/// revisions are allowed.
///
/// # Errors
///
/// Returns [`OperationRefusal::OtherRevision`] for a different revision, and [`OperationRefusal::Revisions`]
/// if the number of revisions doesn't match the number of sources.
pub fn check_named_revisions(
    application: &Application,
    asked: &OperationRequest,
) -> Result<(), OperationRefusal> {
    const HEAD: &str = "HEAD";
    let Some(sync) = asked.sync.as_ref() else { return Ok(()) };
    if sync.source.is_none() && sync.sources.is_empty() {
        // This fails if the number of revisions doesn't match the number of sources.
        operation_revisions(asked, &Sources::from_application(application))?;
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
    other.map_or(Ok(()), |(asked, target)| {
        Err(OperationRefusal::OtherRevision { asked: asked.clone(), target })
    })
}

/// Returns the operation that rolls back to a sync in the history, by default the second-to-last. As in Argo
/// CD, a rollback doesn't run hooks.
pub fn rollback_operation(
    application: &Application,
    id: Option<i64>,
    prune: bool,
) -> Result<OperationRequest, OperationRefusal> {
    if automated(application).is_some() {
        return Err(OperationRefusal::AutoSync);
    }
    let history = &application.status.history;
    let entry = match id {
        Some(id) => history.iter().find(|one| one.id == id).ok_or(OperationRefusal::NoHistoryEntry(id))?,
        None => history.iter().rev().nth(1).ok_or(OperationRefusal::NoEarlierSync)?,
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

/// Returns the engine request that runs an operation at a destination.
pub fn sync_request(
    application: &Application,
    operation: &OperationRequest,
    destination: Destination,
    namespace: String,
    revisions: &[String],
) -> Result<SyncRequest, OperationRefusal> {
    let sync = operation.sync.as_ref().ok_or(OperationRefusal::Empty)?;
    let sources = operation_sources(application, operation)?;
    let by = &operation.initiated_by;
    let initiated_by = match by.automated {
        true if operation.info_value(ROLLOUT_INFO).is_some() => SyncRequest::ROLLOUT_REQUESTER.to_owned(),
        true => AUTOMATED_REQUESTER.to_owned(),
        false => Requester { name: &by.username, reason: request_reason(operation) }.to_text(),
    };
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    let base = SyncRequest::new(instance_name(application), namespace, destination);
    Ok(SyncRequest {
        revision: revisions.join(REVISION_SEPARATOR),
        options: build_sync_options(application, sync),
        selection: sync.resources.iter().map(to_selector).collect(),
        retry: operation.retry.as_ref().map(Retry::to_policy).transpose()?.unwrap_or_default(),
        initiated_by,
        sources: sources.as_slice().iter().map(source_text).collect(),
        ignore_differences: ignored_differences(application),
        claim: (is_shared && !sync.dry_run).then(ClaimRequest::default),
        ..base
    })
}

/// Returns a request for planning a comparison of the application. It is never executed.
pub fn comparison_request(
    application: &Application,
    destination: Destination,
    namespace: String,
) -> SyncRequest {
    let policy = application.spec.sync_policy.as_ref();
    let mut flags = policy.map(|policy| policy.sync_options.clone()).unwrap_or_default();
    // If another application shares an object, a comparison only warns, whereas an operation fails.
    flags.retain(|flag| flag != "FailOnSharedResource=true");
    let sync = SyncOperation { sync_options: flags, ..SyncOperation::default() };
    SyncRequest {
        options: build_sync_options(application, &sync),
        ignore_differences: ignored_differences(application),
        ..SyncRequest::new(instance_name(application), namespace, destination)
    }
}

fn ignored_differences(application: &Application) -> Vec<IgnoreDifference> {
    application.spec.ignore_differences.iter().map(IgnoreDifference::from).collect()
}

fn build_sync_options(application: &Application, sync: &SyncOperation) -> SyncOptions {
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
        flags: sync_flags(application, sync),
        namespace_labels: metadata.labels.into_iter().collect(),
        namespace_annotations: metadata.annotations.into_iter().collect(),
        ..SyncOptions::default()
    }
}

/// Returns the sync options, including the manager in the application's annotation.
fn sync_flags(application: &Application, sync: &SyncOperation) -> Vec<String> {
    let named = application.metadata.annotations.get(annotations::MIGRATION_MANAGER);
    let named = named.filter(|name| !name.is_empty());
    let flag = named.map(|name| format!("{MIGRATION_OPTION}={name}"));
    let flag = flag.filter(|flag| !sync.sync_options.contains(flag));
    sync.sync_options.iter().cloned().chain(flag).collect()
}

/// Converts a resource of a selective sync to a selector.
pub fn to_selector(resource: &OperationResource) -> ResourceSelector {
    ResourceSelector {
        group: resource.group.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
    }
}

/// Converts a selector to a resource of a selective sync.
pub fn from_selector(selector: &ResourceSelector) -> OperationResource {
    OperationResource {
        group: selector.group.clone(),
        kind: selector.kind.clone(),
        namespace: selector.namespace.clone(),
        name: selector.name.clone(),
        ..OperationResource::default()
    }
}

/// Progress of an operation, as reported by the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineProgress {
    /// Current or final phase.
    pub phase: OperationPhase,
    /// Human-readable progress or result.
    pub message: String,
    /// Start time.
    pub started_at: Timestamp,
    /// End time, or `None` while the operation is running.
    pub finished_at: Option<Timestamp>,
    /// Number of retries so far.
    pub retry_count: u32,
    /// Results for the operation's resources so far.
    pub resources: Vec<ResourceResult>,
}

impl EngineProgress {
    /// Creates the progress of an operation that was terminated before it started. `by` is the requester and
    /// the reason, from [`Requester::to_text`].
    pub fn terminated(by: &str, now: Timestamp) -> Self {
        let Requester { name: by, reason } = Requester::parse(by);
        let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let message = format!("Operation terminated by {by} before it began{why}");
        Self { phase: OperationPhase::Failed, ..Self::rejected(message, now) }
    }

    /// Creates the progress of an operation that is waiting to start.
    pub fn waiting(message: String, since: Timestamp) -> Self {
        Self { phase: OperationPhase::Running, finished_at: None, ..Self::rejected(message, since) }
    }

    /// Creates the progress of an operation that failed before it started.
    pub fn rejected(message: String, now: Timestamp) -> Self {
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

/// Returns true if the current operation has started, so that the status describes its progress. The resource
/// has the operation's ID even before that.
pub fn has_started(application: &Application) -> bool {
    let state = application.status.operation_state.as_ref();
    let asked = application.operation.as_ref().and_then(engine_id);
    match (asked, state.and_then(|state| engine_id(&state.operation))) {
        (Some(asked), shown) => shown == Some(asked),
        (None, shown) => shown.is_some(),
    }
}

/// Records that the current operation is about to start. From then on, the status no longer describes an
/// earlier operation or the wait before the start.
pub fn set_starting(application: &mut Application, now: Timestamp) {
    if !describes_current_operation(application) {
        set_waiting(application, STARTING_MESSAGE.to_owned(), now);
    }
}

/// Records that the running operation is terminating. It stays in this phase until it has finished.
pub fn set_terminating(application: &mut Application) {
    let asked = application.operation.as_ref().and_then(engine_id);
    let state = application.status.operation_state.as_mut();
    let own = state.filter(|state| engine_id(&state.operation) == asked && state.finished_at.is_none());
    if let Some(state) = own.filter(|state| state.phase == OperationPhase::Running) {
        state.phase = OperationPhase::Terminating;
    }
}

/// Returns true if there is no current operation, or if the status describes it and it isn't waiting.
pub fn describes_current_operation(application: &Application) -> bool {
    let Some(asked) = &application.operation else { return true };
    let last = application.status.operation_state.as_ref().filter(|last| last.finished_at.is_none());
    match last {
        Some(last) if is_same_request(&last.operation, asked) => last.message == STARTING_MESSAGE,
        // The status describes an operation's progress only once it has started.
        Some(last) => engine_id(asked).is_some() && engine_id(&last.operation) == engine_id(asked),
        None => false,
    }
}

/// Records why the current operation hasn't started yet.
pub fn set_waiting(application: &mut Application, message: String, now: Timestamp) {
    let last = application.status.operation_state.as_ref();
    let asked = application.operation.as_ref();
    let is_about = |last: &OperationState| asked.is_some_and(|asked| is_same_request(&last.operation, asked));
    let same = last.filter(|last| last.finished_at.is_none() && is_about(last));
    let started_at = same.map_or(now, |last| last.started_at.timestamp());
    apply_progress(application, EngineProgress::waiting(message, started_at));
}

/// Updates the status with the progress of the current operation. A finished operation is removed, and added
/// to the history if it deployed the whole application; its successor, if any, becomes the current operation.
pub fn apply_progress(application: &mut Application, progress: EngineProgress) {
    let Some(mut operation) = application.operation.clone() else { return };
    let next = match progress.finished_at {
        Some(_) => take_successor(&mut operation, application.is_deleting(), &progress.message),
        None => None,
    };
    let sync = operation.sync.clone().unwrap_or_default();
    let own = operation_sources(application, &operation).unwrap_or_default().without_credentials();
    let last = application.status.operation_state.as_ref();
    previous_operation::store_previous(&mut operation, last, automated(application).is_some());
    let policy = application.spec.sync_policy.as_ref();
    // A stale report must not turn a terminating operation back into a running one.
    let is_ending = last.is_some_and(|last| {
        last.phase == OperationPhase::Terminating
            && last.finished_at.is_none()
            && engine_id(&last.operation).is_some()
            && engine_id(&last.operation) == engine_id(&operation)
    });
    let phase = match progress.phase {
        OperationPhase::Running if is_ending => OperationPhase::Terminating,
        phase => phase,
    };
    let state = OperationState {
        phase,
        message: progress.message,
        started_at: progress.started_at.into(),
        finished_at: progress.finished_at.map(Into::into),
        retry_count: progress.retry_count.into(),
        sync_result: Some(SyncOperationResult {
            revision: sync.revision.clone(),
            revisions: sync.revisions.clone(),
            source: own.single_field(),
            sources: own.list_field(),
            managed_namespace_metadata: policy.and_then(|policy| policy.managed_namespace_metadata.clone()),
            resources: progress.resources.into_iter().map(to_sync_resource).collect(),
            ..SyncOperationResult::default()
        }),
        operation: operation.clone(),
        rest: tidegate_model::argo::UnknownFields::new(),
    };
    application.status.operation_state = Some(state);
    let Some(finished_at) = progress.finished_at else { return };
    // Times are only precise to the second. A comparison in the same second as the end of the operation must
    // not count as a later one.
    if let Some(compared) = &mut application.status.reconciled_at {
        *compared = compared.timestamp().min(finished_at - STATUS_TIME_PRECISION).into();
    }
    application.operation = next;
    let is_sync = deletion_cascade(&operation).is_none();
    if progress.phase == OperationPhase::Succeeded && is_sync && !sync.dry_run && sync.resources.is_empty() {
        let history = &mut application.status.history;
        history.push(RevisionHistory {
            id: history.last().map_or(0, |last| last.id.saturating_add(1)),
            revision: sync.revision,
            revisions: sync.revisions,
            source: own.single_field(),
            sources: own.list_field(),
            deploy_started_at: Some(progress.started_at.into()),
            deployed_at: finished_at.into(),
            initiated_by: operation.initiated_by,
            ..RevisionHistory::default()
        });
        let limit = application.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT_DEFAULT);
        let surplus = history.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        history.drain(..surplus);
    }
}

fn to_sync_resource(resource: ResourceResult) -> SyncResource {
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
