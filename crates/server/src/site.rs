//! What the API is about: the parts of the process, as soon as they are there.

use std::sync::{Arc, OnceLock};

use tidegate_executor::Engine;
use tidegate_service::queries::Queries;
use tokio::sync::watch;

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
}

impl Default for Site {
    fn default() -> Self {
        Self { parts: OnceLock::new(), ending: watch::Sender::new(false) }
    }
}

impl Site {
    /// The log is open, and the engine at work.
    pub fn begin(&self, queries: Arc<Queries>, engine: Engine) {
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

    /// Who answers.
    pub(crate) fn queries(&self) -> Result<&Arc<Queries>, Problem> {
        let missing = || Problem::new(Code::NotReady, "the operation log is not open yet");
        self.parts.get().map(|parts| &parts.queries).ok_or_else(missing)
    }

    /// Why nothing is done any more.
    pub(crate) fn failure(&self) -> Option<String> {
        Some(self.parts.get()?.engine.failure()?.to_string())
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
