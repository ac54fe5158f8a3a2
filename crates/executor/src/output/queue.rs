//! Bounded queue of output for a reader.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Output, OutputSource};

/// Maximum number of lines waiting for a reader. Beyond it, the oldest lines are dropped.
pub(super) const LINES_MAX: usize = 1024;
/// Maximum total size of the waiting lines in bytes. Beyond it, the oldest lines are dropped.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    ready: Notify,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Output>,
    bytes: usize,
    /// Number of dropped lines per source. They are older than all waiting lines.
    dropped_lines: BTreeMap<OutputSource, u64>,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No code between the parts of a change can panic, so a panic can't leave a partial change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends output without waiting for the reader.
    pub fn push(&self, item: Output) {
        let mut waiting = self.lock();
        waiting.bytes = waiting.bytes.saturating_add(output_bytes(&item));
        waiting.items.push_back(item);
        while waiting.items.len() > LINES_MAX || waiting.bytes > BYTES_MAX {
            let Some(oldest) = waiting.items.pop_front() else { break };
            waiting.bytes = waiting.bytes.saturating_sub(output_bytes(&oldest));
            if let Output::Line { source, .. } = oldest {
                let left_out = waiting.dropped_lines.entry(source).or_default();
                *left_out = left_out.saturating_add(1);
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Marks the end of the output.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.ready.notify_one();
    }

    /// Returns the next item, or `None` at the end. Cancel safe.
    pub async fn next(&self) -> Option<Output> {
        loop {
            {
                let mut waiting = self.lock();
                if let Some((source, lines)) = waiting.dropped_lines.pop_first() {
                    return Some(Output::Dropped { source, lines });
                }
                if let Some(item) = waiting.items.pop_front() {
                    waiting.bytes = waiting.bytes.saturating_sub(output_bytes(&item));
                    return Some(item);
                }
                if waiting.is_over {
                    return None;
                }
            }
            self.ready.notified().await;
        }
    }
}

fn output_bytes(item: &Output) -> usize {
    match item {
        Output::Line { text, .. } => text.len(),
        Output::Dropped { .. } => 0,
        Output::Note { message, .. } => message.len(),
    }
}
