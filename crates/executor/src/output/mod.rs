//! What the hooks of an operation write while they run, for whoever looks.
//!
//! ```text
//!   batches that are durable ─▶ which hooks run?   (following.rs, one task per reader)
//!                                 └─▶ their pods    (hook.rs, one task per hook)
//!                                       └─▶ each container, line by line, masked ─▶ Queue ─▶ HookOutput
//! ```
//!
//! Nothing of an operation depends on it: no call of an operation waits for these, nothing is recorded, and a reader that is slow
//! or goes away keeps nobody waiting.

mod following;
mod hook;
mod queue;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{Destination, Digest, Gvk, ObjectKey, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

pub(crate) use self::following::{Ask, follow};
use self::queue::Queue;

/// Containers that are followed at once, for all readers of an engine together.
const CONTAINERS_OF_ALL: usize = 64;
/// Looks at pods that are on their way at once, for all readers of an engine together.
const LOOKS_OF_ALL: usize = 4;

/// What somebody is told of the output of hooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// A container has written a line.
    Line {
        /// Which.
        source: OutputSource,
        /// When, as the cluster has noted it.
        at: Timestamp,
        /// The line, without its end, and without values of the operation's Secrets. It may hold any sign.
        text: String,
    },
    /// So many lines of a container are not told, because the reader was too slow.
    LeftOut {
        /// Of which.
        source: OutputSource,
        /// How many.
        lines: u64,
    },
    /// Something is not told, and why.
    Note {
        /// Of which hook; `None` where it is about all.
        hook: Option<ObjectKey>,
        /// In words, without values of the operation's Secrets.
        message: String,
    },
}

/// Where a line comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OutputSource {
    /// The hook.
    pub hook: ObjectKey,
    /// Its pod.
    pub pod: String,
    /// The container of the pod.
    pub container: String,
}

/// The output of the hooks of one operation, from now on; of those that run, also what they have written last. Dropped, it ends
/// all that was done for it.
pub struct HookOutput {
    queue: Arc<Queue>,
    following: AbortHandle,
}

impl HookOutput {
    /// What is told next. `None` when nothing will follow: the operation is over, or its engine does nothing more. May be given
    /// up at any moment and asked again.
    pub async fn next(&mut self) -> Option<Output> {
        self.queue.next().await
    }
}

impl Drop for HookOutput {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The hooks of an operation that run now.
#[derive(Clone, Debug)]
pub(crate) struct RunningHooks {
    pub destination: Destination,
    /// The manifests of the operation.
    pub targets: Digest,
    pub hooks: Vec<RunningHook>,
}

/// A hook whose object is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningHook {
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl RunningHook {
    fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }
}

/// What all readers of an engine share.
pub(crate) struct Places {
    containers: Arc<Semaphore>,
    looks: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            containers: Arc::new(Semaphore::new(CONTAINERS_OF_ALL)),
            looks: Arc::new(Semaphore::new(LOOKS_OF_ALL)),
        }
    }
}
