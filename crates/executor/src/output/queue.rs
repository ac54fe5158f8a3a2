//! What waits for its reader: no more than so much of it, whatever the hooks write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Output, OutputSource};

/// Lines, and bytes of them, that wait for a reader. Of more than that the oldest are left out.
pub(super) const LINES_MAX: usize = 1024;
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Default)]
struct Waiting {
    items: VecDeque<Output>,
    bytes: usize,
    /// How many lines were left out, all of which came before those that wait.
    left_out: BTreeMap<OutputSource, u64>,
    is_over: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Each change is complete before anything could panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is told. Nobody ever waits for the reader.
    pub fn push(&self, item: Output) {
        let mut waiting = self.lock();
        waiting.bytes = waiting.bytes.saturating_add(bytes(&item));
        waiting.items.push_back(item);
        while waiting.items.len() > LINES_MAX || waiting.bytes > BYTES_MAX {
            let Some(oldest) = waiting.items.pop_front() else { break };
            waiting.bytes = waiting.bytes.saturating_sub(bytes(&oldest));
            if let Output::Line { source, .. } = oldest {
                let left_out = waiting.left_out.entry(source).or_default();
                *left_out = left_out.saturating_add(1);
            }
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Nothing follows what waits.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.ready.notify_one();
    }

    /// The next item; nothing where none will follow. May be given up at any moment and asked again.
    pub async fn next(&self) -> Option<Output> {
        loop {
            {
                let mut waiting = self.lock();
                if let Some((source, lines)) = waiting.left_out.pop_first() {
                    return Some(Output::LeftOut { source, lines });
                }
                if let Some(item) = waiting.items.pop_front() {
                    waiting.bytes = waiting.bytes.saturating_sub(bytes(&item));
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

fn bytes(item: &Output) -> usize {
    match item {
        Output::Line { text, .. } => text.len(),
        Output::LeftOut { .. } => 0,
        Output::Note { message, .. } => message.len(),
    }
}
