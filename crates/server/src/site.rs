//! What the API is about: the parts of the process, as soon as they are there.

use std::sync::{Arc, OnceLock};

use tidegate_executor::{Clock as _, Engine, SystemClock};
use tidegate_service::queries::Queries;
use tidegate_service::sets::SetServing;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::bulletin::Bulletin;
use crate::following::follow;

use crate::limits::Limits;
use crate::metrics::{Metrics, page};
use crate::problem::{Code, Problem};

/// The parts of the process that questions are passed on to.
struct Parts {
    queries: Arc<Queries>,
    engine: Engine,
}

/// What the API is about. It can be asked before the process has its parts, and says then that they are missing.
pub struct Site {
    parts: OnceLock<Parts>,
    ending: watch::Sender<bool>,
    bulletin: Arc<Bulletin>,
    pub(crate) metrics: Arc<Metrics>,
    /// Places of those who are told events.
    streams: Arc<Semaphore>,
    streams_max: usize,
}

impl Default for Site {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl Site {
    /// Nothing is there yet.
    pub fn new(limits: &Limits) -> Self {
        let now = SystemClock.now();
        // No two processes of a state directory begin in the same millisecond.
        let process = u64::try_from(now.as_millis()).unwrap_or_default();
        Self {
            parts: OnceLock::new(),
            ending: watch::Sender::new(false),
            bulletin: Arc::new(Bulletin::new(process, now)),
            metrics: Arc::new(Metrics::new(now)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            streams_max: limits.streams,
        }
    }

    /// The log is open, and the engine at work.
    pub fn begin(&self, queries: Arc<Queries>, engine: Engine) {
        // Both end with the engine.
        let (bulletin, metrics) = (Arc::clone(&self.bulletin), Arc::clone(&self.metrics));
        tokio::spawn(follow(engine.clone(), Arc::clone(&queries), bulletin, metrics));
        let (metrics, counted) = (Arc::clone(&self.metrics), engine.clone());
        tokio::spawn(async move {
            if let Err(error) = metrics.listen(&counted).await {
                tracing::error!(%error, "nothing can be counted of operations");
            }
        });
        // There is one of each in a process.
        let _ = self.parts.set(Parts { queries, engine });
    }

    /// Nobody is told anything from now on but what was asked before.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Becomes true when the process ends.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// What happens.
    pub(crate) fn bulletin(&self) -> &Arc<Bulletin> {
        &self.bulletin
    }

    /// All metrics, as text.
    pub(crate) fn page(&self) -> String {
        let parts = self.parts.get();
        let serving = parts.and_then(|parts| parts.queries.serving_now());
        let listening = self.streams_max.saturating_sub(self.streams.available_permits());
        let listening = u64::try_from(listening).unwrap_or(u64::MAX);
        let sets = parts.and_then(|parts| parts.queries.sets_now());
        page(&self.metrics, parts.map(|parts| &parts.engine), (serving.as_ref(), sets), listening)
    }

    /// A place to be told events, if there is one.
    pub(crate) fn stream_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }

    /// Who answers.
    pub(crate) fn queries(&self) -> Result<&Arc<Queries>, Problem> {
        let missing = || Problem::new(Code::NotReady, "the operation log is not open yet");
        self.parts.get().map(|parts| &parts.queries).ok_or_else(missing)
    }

    /// Why nothing is done any more.
    pub(crate) fn failure(&self) -> Option<String> {
        let parts = self.parts.get()?;
        let serving = parts.queries.serving_now();
        let sets = || parts.queries.sets_now().and_then(SetServing::failure);
        let failure = serving.and_then(|serving| serving.failure()).or_else(sets);
        let failure = failure.or_else(|| parts.engine.failure());
        Some(failure?.to_string())
    }

    /// What is missing before all questions can be answered.
    pub(crate) fn missing(&self) -> Option<String> {
        if *self.ending.borrow() {
            return Some("the process ends".to_owned());
        }
        match self.queries() {
            Err(problem) => Some(problem.message),
            Ok(queries) if !queries.has_looked() => {
                Some("the applications are being looked at for the first time".to_owned())
            }
            Ok(_) => self.failure(),
        }
    }
}
