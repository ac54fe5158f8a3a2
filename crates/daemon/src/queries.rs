//! Queries and requests for operations. A running engine answers them on its control socket. Otherwise, the
//! answers come directly from the log.

mod damage;
mod operation_actions;
mod replies;
mod runs;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_executor::{Clock as _, Engine, EngineError, HookOutput, Replay, SystemClock, replay};
use tidegate_lifecycle::operation::{OperationEvent, RETRYING};
use tidegate_model::OperationId;
use tidegate_oplog::{History, Log, LogError, Lookup, TypedLog as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use self::damage::{affects_only_details, damage_warning, details_from_summary, find_damage, read_status};
pub(crate) use self::replies::refusal_reply;
use tidegate_state::clusters::ConnectionAttempt;
use tidegate_state::error::ServiceError;
use tidegate_state::operations::{self, OperationEntry};

use tidegate_app_controller::ApplicationService;
use tidegate_appset_controller::AppSetService;
use tidegate_views::ExplanationDocument;
use tidegate_views::protocol::{EventPage, OperationDetails};

/// The log, and the engine that uses it, if any.
pub struct Queries {
    log: Log,
    engine: OnceLock<Engine>,
    /// Operations to resume, if the process doesn't have an engine yet.
    pending_resume: Option<PendingResume>,
    /// Managed Applications, if any.
    applications: watch::Sender<ApplicationsState>,
    /// Managed ApplicationSets, if any.
    appsets: OnceLock<AppSetService>,
    /// True if another process's engine may be using the log.
    has_other_process: bool,
    /// Permits for clients that wait for events or stream hook output. Other requests are answered right away
    /// and don't need any.
    follower_permits: Arc<Semaphore>,
}

/// State of the managed Applications.
enum ApplicationsState {
    Unmanaged,
    /// The process hasn't observed the Applications yet.
    Pending,
    Ready(ApplicationService),
}

/// Maximum time that a query for Applications waits for the first observation.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(25);

/// Recorded events of an operation.
#[derive(Debug)]
pub struct RecordedEvents {
    /// Events that were not compacted.
    pub events: Vec<OperationEvent>,
    /// Sequence number of the first event. If all events were compacted, the next sequence number.
    pub first_sequence: u64,
    /// Damage to the operation's log.
    pub damage: Option<String>,
}

/// Operations to resume after a process has connected to their clusters.
pub struct PendingResume {
    /// The operations.
    pub operations: BTreeSet<OperationId>,
    /// The attempt to connect to the operations' clusters.
    pub attempt: Arc<ConnectionAttempt>,
}

/// Maximum number of clients that wait for events or stream hook output.
const FOLLOWERS_MAX: usize = 16;
/// Maximum wait for an event before a client gets an empty response.
const EVENT_WAIT_MAX: Duration = Duration::from_secs(10);

impl Queries {
    fn new(log: Log, pending_resume: Option<PendingResume>, has_other_process: bool) -> Self {
        let follower_permits = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        let (applications, _) = watch::channel(ApplicationsState::Unmanaged);
        Self {
            log,
            engine: OnceLock::new(),
            pending_resume,
            applications,
            appsets: OnceLock::new(),
            has_other_process,
            follower_permits,
        }
    }

    /// Creates queries answered from a log that no process uses.
    pub fn without_engine(log: Log) -> Self {
        Self::new(log, None, false)
    }

    /// Creates queries answered from a log that another process may use.
    pub fn with_other_process(log: Log) -> Self {
        Self::new(log, None, true)
    }

    /// Creates queries answered by an engine or, for operations it doesn't have, from the log.
    pub fn with_engine(log: Log, engine: Engine) -> Self {
        let queries = Self::new(log, None, false);
        queries.set_engine(engine);
        queries
    }

    /// Creates queries answered from the log until there is an engine.
    pub fn before_engine(log: Log, ahead: PendingResume) -> Self {
        Self::new(log, Some(ahead), false)
    }

    /// Sets the engine that answers queries from now on.
    pub fn set_engine(&self, engine: Engine) {
        // A process has only one engine.
        let _ = self.engine.set(engine);
    }

    /// Makes queries for Applications wait for [`Self::set_applications`].
    pub fn expect_applications(&self) {
        self.applications.send_replace(ApplicationsState::Pending);
    }

    /// Enables queries for these Applications.
    pub fn set_applications(&self, serving: ApplicationService) {
        self.applications.send_replace(ApplicationsState::Ready(serving));
    }

    /// Enables queries for these ApplicationSets. Must be called before [`Self::set_applications`], so that
    /// clients waiting for the Applications find the ApplicationSets as well.
    pub fn set_appsets(&self, sets: AppSetService) {
        // A process sets its ApplicationSets only once.
        let _ = self.appsets.set(sets);
    }

    /// Returns the ApplicationSets, if they are already managed.
    pub fn appsets_if_ready(&self) -> Option<&AppSetService> {
        self.appsets.get()
    }

    /// Returns the managed ApplicationSets.
    pub async fn appsets(&self) -> Result<&AppSetService, ServiceError> {
        self.applications().await?;
        let none = || {
            ServiceError::refused(
                "the running process does not manage ApplicationSets; start a newer `tidegate serve`",
            )
        };
        self.appsets.get().ok_or_else(none)
    }

    /// Returns true unless the process is still waiting for its first observation of the Applications.
    pub fn has_observed_applications(&self) -> bool {
        !matches!(*self.applications.borrow(), ApplicationsState::Pending)
    }

    /// Returns the Applications, if they are already managed.
    pub fn applications_if_ready(&self) -> Option<ApplicationService> {
        match &*self.applications.borrow() {
            ApplicationsState::Ready(serving) => Some(serving.clone()),
            ApplicationsState::Pending | ApplicationsState::Unmanaged => None,
        }
    }

    /// Returns the Applications once they are managed, or `None` if the process shuts down first.
    pub fn wait_for_applications(
        &self,
    ) -> impl Future<Output = Option<ApplicationService>> + Send + 'static + use<> {
        let mut changes = self.applications.subscribe();
        async move {
            let serves =
                changes.wait_for(|serves| matches!(serves, ApplicationsState::Ready(_))).await.ok()?;
            match &*serves {
                ApplicationsState::Ready(serving) => Some(serving.clone()),
                ApplicationsState::Pending | ApplicationsState::Unmanaged => None,
            }
        }
    }

    /// Returns the managed Applications.
    pub async fn applications(&self) -> Result<ApplicationService, ServiceError> {
        let mut changes = self.applications.subscribe();
        let is_known = changes.wait_for(|serves| !matches!(serves, ApplicationsState::Pending));
        let Ok(Ok(serves)) = tokio::time::timeout(OBSERVATION_TIMEOUT, is_known).await else {
            let busy = "the running process is still loading its applications; try again";
            return Err(ServiceError::refused(busy));
        };
        match &*serves {
            ApplicationsState::Ready(serving) => Ok(serving.clone()),
            ApplicationsState::Pending | ApplicationsState::Unmanaged => Err(ServiceError::refused(
                "the process using this state directory does not manage applications; wait for it to exit, then start `tidegate serve`",
            )),
        }
    }

    /// Returns an operation's recorded events.
    pub async fn recorded_events(&self, operation: OperationId) -> Result<RecordedEvents, ServiceError> {
        let read = move |log: &Log| {
            let damage = find_damage(log, operation);
            match log.events_as(operation) {
                Err(reason @ LogError::Compacted { .. }) => {
                    let entry = log.entry_as::<OperationEvent>(operation)?.ok_or(reason)?;
                    let first_sequence = entry.sequence.saturating_add(1);
                    Ok(RecordedEvents { events: Vec::new(), first_sequence, damage })
                }
                history => {
                    let History { first_sequence, events, .. } = history?;
                    Ok(RecordedEvents { events, first_sequence, damage })
                }
            }
        };
        self.explain_missing_operation(operation, self.run_blocking(read).await).await
    }

    /// Returns the matching operations, oldest first.
    pub async fn list_operations(&self, lookup: Lookup) -> Result<Vec<OperationEntry>, ServiceError> {
        self.list_entries(move |log| operations::list_operations(log, &lookup)).await
    }

    /// Returns an operation's events after a sequence number. If there are none yet and `wait` is set, waits
    /// for a limited time.
    pub async fn events(
        &self,
        operation: OperationId,
        after: u64,
        wait: bool,
    ) -> Result<EventPage, ServiceError> {
        self.check_other_replica(operation).await?;
        self.explain_missing_operation(operation, self.read_events(operation, after, wait).await).await
    }

    async fn read_events(
        &self,
        operation: OperationId,
        after: u64,
        wait: bool,
    ) -> Result<EventPage, ServiceError> {
        let read = || self.run_blocking(move |log| Ok(replay(log.as_ref(), operation, after)?));
        let at_work = self.running_operations().await?;
        let mut found = read().await?;
        let is_there = |found: &Replay| found.is_over || !found.events.is_empty() || found.missing.is_some();
        if let Some(engine) = self.engine.get().filter(|_| wait && !found.as_ref().is_some_and(is_there))
            && at_work.as_ref().is_some_and(|at_work| at_work.contains(&operation))
            && let Ok(_place) = self.follower_permits.try_acquire()
        {
            let mut events = engine.events(operation, after).await?;
            // The log is read next, even if no event arrived.
            let _ = tokio::time::timeout(EVENT_WAIT_MAX, events.next()).await;
            found = read().await?;
        }
        let is_over = found.as_ref().is_some_and(|found| found.is_over);
        let is_running = is_running(at_work.as_ref(), operation, is_over);
        match found {
            Some(found) => {
                let missed = found.event_gap(operation, after).map(|missed| missed.to_string());
                Ok(EventPage { events: found.events, missed, last: found.last, is_over, is_running })
            }
            // The operation is running but isn't in the log yet.
            None if is_running == Some(true) => {
                Ok(EventPage { events: Vec::new(), missed: None, last: after, is_over, is_running })
            }
            None => Err(EngineError::UnknownOperation { operation }.into()),
        }
    }

    /// Streams the output of an operation's running hooks, if this process runs it.
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutput, ServiceError> {
        self.check_other_replica(operation).await?;
        if let Some(engine) = self.engine.get() {
            let followed = engine.follow_output(operation).await.map_err(ServiceError::from);
            return self.explain_missing_operation(operation, followed).await;
        }
        let OperationDetails { operation: view, .. } = self.inspect(operation).await?;
        Err(match view.finished_at {
            Some(_) => EngineError::AlreadyFinished { operation, message: view.message },
            None => EngineError::NotRunning { operation },
        }
        .into())
    }

    /// Returns a permit for a long-lived stream, if available.
    pub fn try_follower_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.follower_permits).try_acquire_owned().ok()
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Log) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let log = self.log.clone();
        match tokio::task::spawn_blocking(move || call(&log)).await {
            Ok(result) => result,
            Err(_) => Err(LogError::Poisoned.into()),
        }
    }

    /// Returns the operations that this process is running, or `None` if unknown.
    async fn running_operations(&self) -> Result<Option<BTreeSet<OperationId>>, ServiceError> {
        Ok(match (self.engine.get(), &self.pending_resume) {
            (Some(engine), _) => Some(engine.running_operations().await?),
            (None, Some(ahead)) => Some(ahead.operations.clone()),
            (None, None) => (!self.has_other_process).then(BTreeSet::new),
        })
    }

    /// Checks that no other replica runs an open operation. Only the replica that runs an operation knows its exact
    /// state, and receives its requests.
    async fn check_other_replica(&self, operation: OperationId) -> Result<(), ServiceError> {
        let Some(service) = self.applications_if_ready().filter(ApplicationService::shares_work) else {
            return Ok(());
        };
        if self.running_operations().await?.is_some_and(|running| running.contains(&operation)) {
            return Ok(());
        }
        // The caller reports errors of the log.
        let read = move |log: &Log| Ok(log.entry_as::<OperationEvent>(operation).ok().flatten());
        match self.run_blocking(read).await?.filter(|entry| entry.summary.is_open()) {
            Some(open) => service.check_operation(operation, open.shard),
            None => Ok(()),
        }
    }

    async fn list_entries(
        &self,
        read: impl FnOnce(&Log) -> Result<Vec<OperationEntry>, ServiceError> + Send + 'static,
    ) -> Result<Vec<OperationEntry>, ServiceError> {
        // Ask the engine before the log: an operation that starts in between appears in the next list, and an
        // operation that finishes in between is shown as finished.
        let at_work = self.running_operations().await?;
        let mut listed = self.run_blocking(read).await?;
        let is_shared = self.applications_if_ready().is_some_and(|service| service.shares_work());
        for one in &mut listed {
            let is_over = one.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some());
            let at_work = is_running(at_work.as_ref(), one.operation, is_over);
            // Another replica may run the operation.
            let is_known = is_over || !is_shared || at_work == Some(true);
            one.at_work = at_work.filter(|_| one.unknown_kind.is_none() && is_known);
        }
        Ok(listed)
    }

    /// Returns an operation's status with its reasons.
    pub async fn inspect(&self, operation: OperationId) -> Result<OperationDetails, ServiceError> {
        self.check_other_replica(operation).await?;
        let at_work = self.running_operations().await?;
        let inspected = match self.engine.get() {
            Some(engine) => engine.inspect(operation).await.map_err(ServiceError::from),
            None => self.run_blocking(move |log| read_status(log, operation)).await,
        };
        match inspected {
            Ok((mut view, mut explanation)) => {
                if let Some(trouble) =
                    self.connection_trouble(operation).filter(|_| view.finished_at.is_none())
                {
                    explanation.add_outage(trouble);
                }
                let damage = self.run_blocking(move |log| Ok(find_damage(log, operation))).await?;
                view.warnings.extend(damage.map(damage_warning));
                let at_work = is_running(at_work.as_ref(), operation, view.finished_at.is_some());
                let serving = self.applications_if_ready().filter(|_| view.finished_at.is_none());
                let waiting = serving.and_then(|serving| serving.waiting_request(&view.app, operation));
                let explanation = ExplanationDocument::new(&view, explanation, at_work).with_waiting(waiting);
                Ok(OperationDetails { operation: view, explanation, summary: None })
            }
            Err(ServiceError::Log(reason) | ServiceError::Engine(EngineError::Log(reason)))
                if affects_only_details(&reason) =>
            {
                let found = self.run_blocking(move |log| operations::find_operation(log, operation)).await?;
                let found = found.ok_or(EngineError::UnknownOperation { operation })?;
                if let Some(kind) = &found.unknown_kind {
                    return Err(operations::not_an_operation_error(operation, kind));
                }
                let summary = found.into_summary()?;
                let at_work = is_running(at_work.as_ref(), operation, summary.finished_at.is_some());
                Ok(details_from_summary(&summary, &reason, at_work))
            }
            Err(
                unknown @ (ServiceError::Log(LogError::UnknownStream { .. })
                | ServiceError::Engine(
                    EngineError::UnknownOperation { .. } | EngineError::Log(LogError::UnknownStream { .. }),
                )),
            ) => {
                match self.not_started_error(operation).or_else(|| self.foreign_operation_error(operation)) {
                    Some(known) => Err(known),
                    None => self.explain_missing_operation(operation, Err(unknown)).await,
                }
            }
            Err(error) => self.explain_missing_operation(operation, Err(error)).await,
        }
    }

    /// Passes on a lookup result. If the operation doesn't exist, the error describes the item with this ID
    /// and the command that shows it.
    async fn explain_missing_operation<T>(
        &self,
        operation: OperationId,
        found: Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        use LogError::{Compacted, KindMismatch, UnknownStream};
        match found {
            Err(
                error @ (ServiceError::Log(KindMismatch { .. } | UnknownStream { .. } | Compacted { .. })
                | ServiceError::Engine(
                    EngineError::UnknownOperation { .. }
                    | EngineError::Log(KindMismatch { .. } | UnknownStream { .. } | Compacted { .. }),
                )),
            ) => {
                let known = self.run_blocking(move |log| operations::find_operation(log, operation)).await?;
                let kind = known.and_then(|known| known.unknown_kind);
                Err(kind.map_or(error, |kind| operations::not_an_operation_error(operation, &kind)))
            }
            found => found,
        }
    }

    /// Returns the error for an operation in its Application's status but not in the log, because a service
    /// with another state directory recorded it.
    fn foreign_operation_error(&self, operation: OperationId) -> Option<ServiceError> {
        let (key, is_over) = self.applications_if_ready()?.application_with_status_of(operation)?;
        let next = match is_over {
            true => "nothing to do: the application's status contains the result".to_owned(),
            false => format!("if the operation does not end, sync again with `tidegate app sync {key}`"),
        };
        Some(ServiceError::refused(format!(
            "operation {operation} for application {key} is not in this service's log because a service with \
             another state directory recorded it; {next}"
        )))
    }

    /// Returns the error for an operation in its Application's resource but not yet in the log.
    fn not_started_error(&self, operation: OperationId) -> Option<ServiceError> {
        let key = self.applications_if_ready()?.application_of_operation(operation)?;
        Some(ServiceError::refused(format!(
            "operation {operation} for application {key} has not started yet; `tidegate app explain {key}` \
             shows what it is waiting for"
        )))
    }

    /// Describes what delays an operation before there is an engine.
    fn connection_trouble(&self, operation: OperationId) -> Option<String> {
        let ahead = self.pending_resume.as_ref().filter(|_| self.engine.get().is_none())?;
        let strain = ahead.attempt.backpressure().filter(|_| ahead.operations.contains(&operation))?;
        Some(format!("{}{RETRYING}", strain.describe(SystemClock.now())))
    }
}

/// Returns true if an operation is running. A finished operation is never running.
fn is_running(
    at_work: Option<&BTreeSet<OperationId>>,
    operation: OperationId,
    is_over: bool,
) -> Option<bool> {
    if is_over { Some(false) } else { at_work.map(|at_work| at_work.contains(&operation)) }
}
