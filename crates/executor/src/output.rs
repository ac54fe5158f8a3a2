//! Live output of an operation's hooks.
//!
//! ```text
//!   durable batches ─────────▶ running hooks     (operation_follower.rs, one task per reader)
//!                                 └─▶ their pods    (hook_follower.rs, one task per hook)
//!                                       └─▶ each container, line by line, masked ─▶ Queue ─▶ HookOutput
//! ```
//!
//! The operation doesn't depend on its output. Its calls never wait for a reader, output isn't recorded, and
//! a slow or missing reader never delays other work.

mod hook_follower;
mod operation_follower;
mod queue;
mod reader;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{Destination, Digest, Gvk, ObjectKey, Timestamp};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

pub(crate) use self::operation_follower::{RunningHooksSource, follow_operation};
use self::queue::Queue;

/// Maximum number of containers that all readers of an engine can follow at the same time.
const ENGINE_CONTAINERS_MAX: usize = 64;
/// Maximum number of concurrent pod searches for all readers of an engine.
const POD_SEARCHES_MAX: usize = 4;

/// Hook output delivered to a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// A line from a container.
    Line {
        /// The container.
        source: OutputSource,
        /// Time when the cluster recorded the line.
        at: Timestamp,
        /// Line without its line ending, with Secret values masked. May contain any character.
        text: String,
    },
    /// Number of lines from a container that were dropped because the reader was too slow.
    Dropped {
        /// The container.
        source: OutputSource,
        /// Number of dropped lines.
        lines: u64,
    },
    /// Notice that output is unavailable, with the reason.
    Note {
        /// The hook, or `None` for all hooks.
        hook: Option<ObjectKey>,
        /// The reason, with Secret values masked.
        message: String,
    },
}

/// Source of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OutputSource {
    /// The hook.
    pub hook: ObjectKey,
    /// The hook's pod.
    pub pod: String,
    /// The pod's container.
    pub container: String,
}

/// Output of one operation's hooks from now on, preceded by the last lines of the running hooks. Dropping it
/// stops all work for the reader.
pub struct HookOutput {
    queue: Arc<Queue>,
    task: AbortHandle,
}

impl HookOutput {
    /// Returns the next output, or `None` once the operation has finished or its engine has stopped. Cancel
    /// safe.
    pub async fn next(&mut self) -> Option<Output> {
        self.queue.next().await
    }
}

impl Drop for HookOutput {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Running hooks of an operation.
#[derive(Clone, Debug)]
pub(crate) struct RunningHooks {
    pub destination: Destination,
    /// Manifests of the operation.
    pub targets: Digest,
    pub hooks: Vec<RunningHook>,
}

/// A hook with an object in the cluster.
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

/// Limits shared by all readers of an engine.
pub(crate) struct OutputLimits {
    containers: Arc<Semaphore>,
    pod_searches: Arc<Semaphore>,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            containers: Arc::new(Semaphore::new(ENGINE_CONTAINERS_MAX)),
            pod_searches: Arc::new(Semaphore::new(POD_SEARCHES_MAX)),
        }
    }
}
