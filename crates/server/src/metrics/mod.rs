//! Metrics: what Prometheus reads. Under Argo CD's names where it has them, so that dashboards go on.
//!
//! ```text
//! Engine::all_events ──▶ Tally: waits, waves, phases ──┐
//! Board::changes ──▶ Syncs: operations that ended ─────┼──▶ page
//! Boards, Engine, Front: how it stands now ─────────────┘
//! ```
//!
//! Labels are names of applications, and words of ours; nothing else that somebody may choose costs memory.

mod clusters;
mod names;
mod page;
mod repositories;
mod sets;
mod syncs;
mod tally;
mod text;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_executor::{Engine, EngineError, Seen};
use tidegate_model::Timestamp;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

use self::syncs::Syncs;
use self::tally::Tally;

pub(crate) use page::page;
pub(crate) use text::MEDIA;

/// The names of all metrics.
pub fn metric_names() -> Vec<&'static str> {
    names::ALL.iter().map(|metric| metric.name).collect()
}

/// What is counted while the process works.
pub(crate) struct Metrics {
    tally: Mutex<Tally>,
    syncs: Mutex<Syncs>,
    /// Answered requests, by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
}

fn open<T>(locked: &Mutex<T>) -> MutexGuard<'_, T> {
    locked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Nothing has happened since then.
    pub fn new(now: Timestamp) -> Self {
        let (tally, syncs) = (Mutex::new(Tally::new(now)), Mutex::new(Syncs::new(now)));
        Self { tally, syncs, requests: Mutex::default() }
    }

    /// A request was answered.
    pub fn answered(&self, route: &'static str, status: u16) {
        let mut requests = open(&self.requests);
        let count = requests.entry((route, status)).or_default();
        *count = count.saturating_add(1);
    }

    /// How an application stands now; nothing where it is gone.
    pub fn stands(&self, key: &AppKey, line: Option<(&ApplicationLine, bool)>) {
        open(&self.syncs).stands(key, line);
    }

    /// Counts what happens to operations, until the engine has stopped. What happened to open ones before is known, so that
    /// their waits are.
    pub async fn listen(&self, engine: &Engine) -> Result<(), EngineError> {
        let recorded = engine.recorded().await?;
        let mut seen = Seen::default();
        for known in engine.list().await? {
            if known.finished_at.is_some() {
                seen.pass(known.operation, recorded.of(known.operation));
            }
        }
        let mut events = engine.all_events(seen);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => open(&self.tally).hear(&event),
                Err(missed) => tracing::debug!(%missed, "not all is counted"),
            }
        }
        Ok(())
    }
}
