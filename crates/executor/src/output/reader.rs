//! A reader of an operation's output, with its queue, limits and mask.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::{Digest, ObjectKey};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::Output;
use super::queue::Queue;
use crate::effects::Mask;
use crate::engine_context::EngineContext;
use crate::manifests;

/// Maximum number of containers that a reader follows at the same time.
const READER_CONTAINERS_MAX: usize = 16;

/// Reader of an operation's output.
pub(super) struct Reader {
    pub shared: Arc<EngineContext>,
    queue: Arc<Queue>,
    /// Limit on the number of containers that the reader follows.
    container_permits: Arc<Semaphore>,
    /// Mask for the operation's Secrets.
    mask: OnceCell<Arc<Mask>>,
    /// Notes already reported, each about one hook or about all hooks. None is reported twice.
    reported_notes: Mutex<BTreeSet<(Option<ObjectKey>, String)>>,
}

/// Permission to follow one container.
pub(super) struct ContainerPermit {
    _of_reader: OwnedSemaphorePermit,
    _of_engine: OwnedSemaphorePermit,
}

impl Reader {
    pub fn new(shared: Arc<EngineContext>, queue: Arc<Queue>) -> Self {
        Self {
            shared,
            queue,
            container_permits: Arc::new(Semaphore::new(READER_CONTAINERS_MAX)),
            mask: OnceCell::new(),
            reported_notes: Mutex::default(),
        }
    }

    /// Loads the mask. If that fails, returns false, and no output may be shown.
    pub async fn load_mask(&self, targets: Digest) -> bool {
        let read = || async { manifests::read_mask(&self.shared.log, targets).await.ok_or(()) };
        let is_known = self.mask.get_or_try_init(read).await.is_ok();
        if !is_known {
            let reason = "the operation's manifests cannot be read, so its Secret values could not be masked";
            self.queue.push(Output::Note {
                hook: None,
                message: format!("the hook output is not shown: {reason}"),
            });
        }
        is_known
    }

    pub fn mask(&self) -> Arc<Mask> {
        self.mask.get().map(Arc::clone).unwrap_or_default()
    }

    /// Returns permission to follow another container, if the limits allow it.
    pub fn try_acquire_permit(&self) -> Option<ContainerPermit> {
        let mine = Arc::clone(&self.container_permits).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.shared.output_limits.containers).try_acquire_owned().ok()?;
        Some(ContainerPermit { _of_reader: mine, _of_engine: of_all })
    }

    pub fn push_output(&self, output: Output) {
        self.queue.push(output);
    }

    /// Reports a note about one hook or about all hooks, unless it was already reported.
    pub fn note(&self, hook: Option<ObjectKey>, message: &str) {
        let message = self.mask().masked(message.to_owned());
        let mut noted = self.reported_notes.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.insert((hook.clone(), message.clone())) {
            self.queue.push(Output::Note { hook, message });
        }
    }
}
