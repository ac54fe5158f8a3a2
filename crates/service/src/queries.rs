//! Answers questions about operations and takes wishes for them: for the control socket where an engine is at work,
//! straight from the log where none is.

mod answering;
mod damaged;
mod runs;
mod wishes;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_executor::{Clock as _, Engine, EngineError, HookOutput, Replay, SystemClock, replay};
use tidegate_lifecycle::operation::{Fact, TRYING_AGAIN};
use tidegate_model::OperationId;
use tidegate_oplog::{History, Log, LogError, Lookup, TypedLog as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use self::answering::refusal;
use self::damaged::{costs_details, damage_of, damaged, of_summary, read};
use crate::applications::Serving;
use crate::clusters::Approach;
use crate::control::protocol::{Inspected, Told};
use crate::documents::ExplanationDocument;
use crate::error::ServiceError;
use crate::operations::{self, Listed};
use crate::sets::SetServing;

/// The log, and the engine that works on it, if one does.
pub struct Queries {
    log: Log,
    engine: OnceLock<Engine>,
    /// Of a process that has no engine yet.
    ahead: Option<Ahead>,
    /// The applications that are served, where any are.
    serving: watch::Sender<Serves>,
    /// The ApplicationSets that are served, where any are.
    sets: OnceLock<SetServing>,
    /// There may be another engine at work on it.
    beside: bool,
    /// A place for each who waits for events, or follows the output of hooks. Others are answered at once, so that they keep nobody else waiting.
    followers: Arc<Semaphore>,
}

/// Whether applications are served.
enum Serves {
    Nothing,
    /// The process has not looked at them yet.
    Soon,
    These(Serving),
}

/// How long whoever asks for applications waits for the process to have looked at them.
const LOOKED_WITHIN: Duration = Duration::from_secs(25);

/// What a process is about to go on with, when it has reached the clusters.
pub struct Ahead {
    /// The operations.
    pub operations: BTreeSet<OperationId>,
    /// The way to their clusters.
    pub approach: Arc<Approach>,
}

/// So many wait for events at once, or follow the output of hooks.
const FOLLOWERS_MAX: usize = 16;
/// How long whoever follows an operation waits for an event, before it is told that there is none.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);

impl Queries {
    fn new(log: Log, ahead: Option<Ahead>, beside: bool) -> Self {
        let followers = Arc::new(Semaphore::new(FOLLOWERS_MAX));
        let (serving, _) = watch::channel(Serves::Nothing);
        Self { log, engine: OnceLock::new(), ahead, serving, sets: OnceLock::new(), beside, followers }
    }

    /// Answers from the log alone; nobody works on it.
    pub fn without_engine(log: Log) -> Self {
        Self::new(log, None, false)
    }

    /// Answers from a log that somebody else may work on.
    pub fn beside_another(log: Log) -> Self {
        Self::new(log, None, true)
    }

    /// Answers from the engine, and from the log where the engine does not know.
    pub fn with_engine(log: Log, engine: Engine) -> Self {
        let queries = Self::new(log, None, false);
        queries.begin(engine);
        queries
    }

    /// Answers from the log until there is an engine.
    pub fn ahead_of_engine(log: Log, ahead: Ahead) -> Self {
        Self::new(log, Some(ahead), false)
    }

    /// From now on, answers from the engine.
    pub fn begin(&self, engine: Engine) {
        // There is one engine in a process.
        let _ = self.engine.set(engine);
    }

    /// Whoever asks for applications waits for [`Self::serve`].
    pub fn expect(&self) {
        self.serving.send_replace(Serves::Soon);
    }

    /// From now on, answers about these applications too.
    pub fn serve(&self, serving: Serving) {
        self.serving.send_replace(Serves::These(serving));
    }

    /// From now on, answers about these ApplicationSets too. Said before [`Self::serve`], so that nobody who waits for that is
    /// told that there are none.
    pub fn serve_sets(&self, sets: SetServing) {
        // They are served once in a process.
        let _ = self.sets.set(sets);
    }

    /// The ApplicationSets, where they are served already.
    pub fn sets_now(&self) -> Option<&SetServing> {
        self.sets.get()
    }

    /// The ApplicationSets that are served.
    pub async fn sets(&self) -> Result<&SetServing, ServiceError> {
        self.serving().await?;
        let none = || {
            ServiceError::refused(
                "the process at work serves no ApplicationSets; start a newer `tidegate serve`",
            )
        };
        self.sets.get().ok_or_else(none)
    }

    /// Whether nobody waits for the first look at the applications.
    pub fn has_looked(&self) -> bool {
        !matches!(*self.serving.borrow(), Serves::Soon)
    }

    /// The applications, where they are served already.
    pub fn serving_now(&self) -> Option<Serving> {
        match &*self.serving.borrow() {
            Serves::These(serving) => Some(serving.clone()),
            Serves::Soon | Serves::Nothing => None,
        }
    }

    /// The applications, as soon as they are served; nothing where the process ends before.
    pub fn served(&self) -> impl Future<Output = Option<Serving>> + Send + 'static + use<> {
        let mut told = self.serving.subscribe();
        async move {
            let serves = told.wait_for(|serves| matches!(serves, Serves::These(_))).await.ok()?;
            match &*serves {
                Serves::These(serving) => Some(serving.clone()),
                Serves::Soon | Serves::Nothing => None,
            }
        }
    }

    /// The applications that are served.
    pub async fn serving(&self) -> Result<Serving, ServiceError> {
        let mut told = self.serving.subscribe();
        let is_known = told.wait_for(|serves| !matches!(serves, Serves::Soon));
        let Ok(Ok(serves)) = tokio::time::timeout(LOOKED_WITHIN, is_known).await else {
            let busy = "the process at work still looks at its applications for the first time; ask again";
            return Err(ServiceError::refused(busy));
        };
        match &*serves {
            Serves::These(serving) => Ok(serving.clone()),
            Serves::Soon | Serves::Nothing => Err(ServiceError::refused(
                "the process at work in this state directory serves no applications; wait for its end, and start `tidegate serve`",
            )),
        }
    }

    /// Everything recorded about an operation, the number of the first fact, and what is damaged. Where all facts were
    /// compacted there are none, and the number is that after the last one.
    pub async fn facts(
        &self,
        operation: OperationId,
    ) -> Result<(Vec<Fact>, u64, Option<String>), ServiceError> {
        let read = move |log: &Log| {
            let damage = damage_of(log, operation);
            match log.facts_as(operation) {
                Err(why @ LogError::Compacted { .. }) => {
                    let entry = log.entry_as::<Fact>(operation)?.ok_or(why)?;
                    Ok((Vec::new(), entry.sequence.saturating_add(1), damage))
                }
                history => {
                    let History { first_sequence, facts, .. } = history?;
                    Ok((facts, first_sequence, damage))
                }
            }
        };
        self.or_what_it_is(operation, self.blocking(read).await).await
    }

    /// The operations that are looked for, oldest first.
    pub async fn operations(&self, lookup: Lookup) -> Result<Vec<Listed>, ServiceError> {
        self.list(move |log| operations::listed(log, &lookup)).await
    }

    /// The events of an operation after a number; where there are none yet, some wait for a while.
    pub async fn events(&self, operation: OperationId, after: u64, wait: bool) -> Result<Told, ServiceError> {
        self.or_what_it_is(operation, self.told(operation, after, wait).await).await
    }

    async fn told(&self, operation: OperationId, after: u64, wait: bool) -> Result<Told, ServiceError> {
        let read = || self.blocking(move |log| Ok(replay(log.as_ref(), operation, after)?));
        let at_work = self.at_work().await?;
        let mut found = read().await?;
        let is_there = |found: &Replay| found.is_over || !found.events.is_empty() || found.gone.is_some();
        if let Some(engine) = self.engine.get().filter(|_| wait && !found.as_ref().is_some_and(is_there))
            && at_work.as_ref().is_some_and(|at_work| at_work.contains(&operation))
            && let Ok(_place) = self.followers.try_acquire()
        {
            let mut events = engine.events(operation, after).await?;
            // Whatever comes, or does not, is in the log.
            let _ = tokio::time::timeout(FOLLOWED_WITHIN, events.next()).await;
            found = read().await?;
        }
        let is_over = found.as_ref().is_some_and(|found| found.is_over);
        let at_work = is_at_work(at_work.as_ref(), operation, is_over);
        match found {
            Some(found) => {
                let missed = found.missed(operation, after).map(|missed| missed.to_string());
                Ok(Told { events: found.events, missed, last: found.last, is_over, at_work })
            }
            // It is on its way to the log.
            None if at_work == Some(true) => {
                Ok(Told { events: Vec::new(), missed: None, last: after, is_over, at_work })
            }
            None => Err(EngineError::Unknown { operation }.into()),
        }
    }

    /// What the hooks of an operation write while they run, as far as it is at work here.
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutput, ServiceError> {
        if let Some(engine) = self.engine.get() {
            let followed = engine.follow_output(operation).await.map_err(ServiceError::from);
            return self.or_what_it_is(operation, followed).await;
        }
        let Inspected { operation: view, .. } = self.inspect(operation).await?;
        Err(match view.finished_at {
            Some(_) => EngineError::AlreadyFinished { operation, message: view.message },
            None => EngineError::NotRunning { operation },
        }
        .into())
    }

    /// A place for one who follows something for long, if there is one.
    pub fn follower_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.followers).try_acquire_owned().ok()
    }

    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Log) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let log = self.log.clone();
        match tokio::task::spawn_blocking(move || call(&log)).await {
            Ok(result) => result,
            Err(_) => Err(LogError::Poisoned.into()),
        }
    }

    /// The operations that are at work here; `None` where that cannot be told.
    async fn at_work(&self) -> Result<Option<BTreeSet<OperationId>>, ServiceError> {
        Ok(match (self.engine.get(), &self.ahead) {
            (Some(engine), _) => Some(engine.at_work().await?),
            (None, Some(ahead)) => Some(ahead.operations.clone()),
            (None, None) => (!self.beside).then(BTreeSet::new),
        })
    }

    async fn list(
        &self,
        read: impl FnOnce(&Log) -> Result<Vec<Listed>, ServiceError> + Send + 'static,
    ) -> Result<Vec<Listed>, ServiceError> {
        // In this order: one that begins in between is listed next time, one that ends is over.
        let at_work = self.at_work().await?;
        let mut listed = self.blocking(read).await?;
        for one in &mut listed {
            let is_over = one.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some());
            let at_work = is_at_work(at_work.as_ref(), one.operation, is_over);
            one.at_work = at_work.filter(|_| one.unknown_kind.is_none());
        }
        Ok(listed)
    }

    /// How an operation stands, and why.
    pub async fn inspect(&self, operation: OperationId) -> Result<Inspected, ServiceError> {
        let at_work = self.at_work().await?;
        let inspected = match self.engine.get() {
            Some(engine) => engine.inspect(operation).await.map_err(ServiceError::from),
            None => self.blocking(move |log| read(log, operation)).await,
        };
        match inspected {
            Ok((mut view, mut explanation)) => {
                if let Some(trouble) = self.trouble_ahead(operation).filter(|_| view.finished_at.is_none()) {
                    explanation.trouble = Some(trouble);
                }
                let damage = self.blocking(move |log| Ok(damage_of(log, operation))).await?;
                view.warnings.extend(damage.map(damaged));
                let at_work = is_at_work(at_work.as_ref(), operation, view.finished_at.is_some());
                let serving = self.serving_now().filter(|_| view.finished_at.is_none());
                let waiting = serving.and_then(|serving| serving.waiting(&view.app, operation));
                let explanation = ExplanationDocument::new(&view, explanation, at_work).while_waits(waiting);
                Ok(Inspected { operation: view, explanation, kept: None })
            }
            Err(ServiceError::Log(why) | ServiceError::Engine(EngineError::Log(why)))
                if costs_details(&why) =>
            {
                let found = self.blocking(move |log| operations::known(log, operation)).await?;
                let found = found.ok_or(EngineError::Unknown { operation })?;
                if let Some(kind) = &found.unknown_kind {
                    return Err(operations::no_operation(operation, kind));
                }
                let summary = found.known()?;
                let at_work = is_at_work(at_work.as_ref(), operation, summary.finished_at.is_some());
                Ok(of_summary(&summary, &why, at_work))
            }
            Err(
                unknown @ (ServiceError::Log(LogError::UnknownStream { .. })
                | ServiceError::Engine(
                    EngineError::Unknown { .. } | EngineError::Log(LogError::UnknownStream { .. }),
                )),
            ) => match self.not_begun(operation) {
                Some(not_begun) => Err(not_begun),
                None => self.or_what_it_is(operation, Err(unknown)).await,
            },
            Err(error) => self.or_what_it_is(operation, Err(error)).await,
        }
    }

    /// What was found of an operation. Where there is none, because its id is that of something else: what that is, and where
    /// to look.
    async fn or_what_it_is<T>(
        &self,
        operation: OperationId,
        found: Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        use LogError::{Compacted, OtherKind, UnknownStream};
        match found {
            Err(
                error @ (ServiceError::Log(OtherKind { .. } | UnknownStream { .. } | Compacted { .. })
                | ServiceError::Engine(
                    EngineError::Unknown { .. }
                    | EngineError::Log(OtherKind { .. } | UnknownStream { .. } | Compacted { .. }),
                )),
            ) => {
                let known = self.blocking(move |log| operations::known(log, operation)).await?;
                let kind = known.and_then(|known| known.unknown_kind);
                Err(kind.map_or(error, |kind| operations::no_operation(operation, &kind)))
            }
            found => found,
        }
    }

    /// An operation is in the resource of its application before the log has it.
    fn not_begun(&self, operation: OperationId) -> Option<ServiceError> {
        let key = self.serving_now()?.asking(operation)?;
        Some(ServiceError::refused(format!(
            "operation {operation} of application {key} has not begun yet; `tidegate app explain {key}` says what it waits for"
        )))
    }

    /// What keeps an operation from going on before there is an engine.
    fn trouble_ahead(&self, operation: OperationId) -> Option<String> {
        let ahead = self.ahead.as_ref().filter(|_| self.engine.get().is_none())?;
        let strain = ahead.approach.strain().filter(|_| ahead.operations.contains(&operation))?;
        Some(format!("{}{TRYING_AGAIN}", strain.words(SystemClock.now())))
    }
}

/// Nobody works on what is over.
fn is_at_work(
    at_work: Option<&BTreeSet<OperationId>>,
    operation: OperationId,
    is_over: bool,
) -> Option<bool> {
    if is_over { Some(false) } else { at_work.map(|at_work| at_work.contains(&operation)) }
}
