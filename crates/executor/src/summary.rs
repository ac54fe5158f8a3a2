//! The line the log keeps about an operation.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Details, Fact, State};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{OperationId, OperationPhase, Phase, Timestamp};
use tidegate_oplog::{Codecs, EntryOf};

/// One line about an operation, kept longer than its facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Id of the operation.
    pub operation: OperationId,
    /// Name of the application that it works on.
    pub application: String,
    /// Where it works, in words.
    pub destination: String,
    /// `Running`, `Terminating`, or what it has ended in.
    pub phase: OperationPhase,
    /// Whether a person holds it.
    pub paused: bool,
    /// What it was doing or waiting for when this was written, or how it has ended.
    pub message: String,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is open.
    pub finished_at: Option<Timestamp>,
    /// Waves passed, and waves in all.
    pub waves: (u32, u32),
    /// The revision of its manifests; empty where it is not known, as of what an earlier program began.
    #[serde(default)]
    pub revision: String,
    /// Who has asked for it; empty where it is not known.
    #[serde(default)]
    pub initiated_by: String,
    /// Nothing is written to the cluster; of what an earlier program began it is not known.
    #[serde(default)]
    pub dry_run: bool,
}

impl From<EntryOf<Fact>> for Summary {
    fn from(entry: EntryOf<Fact>) -> Self {
        let tidegate_oplog::Summary { application, started_at, finished_at, details, .. } = entry.summary;
        let Details { destination, phase, paused, message, waves, revision, initiated_by, dry_run } = details;
        Self {
            operation: entry.stream.into(),
            application: application.unwrap_or_default(),
            destination,
            phase,
            paused,
            message,
            started_at,
            finished_at,
            waves,
            revision,
            initiated_by,
            dry_run,
        }
    }
}

impl From<Summary> for tidegate_oplog::Summary<Details> {
    fn from(summary: Summary) -> Self {
        let Summary { destination, phase, paused, message, waves, revision, initiated_by, dry_run, .. } =
            summary;
        Self {
            application: Some(summary.application),
            set: None,
            started_at: summary.started_at,
            finished_at: summary.finished_at,
            details: Details { destination, phase, paused, message, waves, revision, initiated_by, dry_run },
        }
    }
}

/// The kinds of streams an engine can read.
pub fn codecs() -> Codecs {
    Codecs::of::<Fact>().and::<rollout::Fact>().and::<teardown::Fact>()
}

/// How an operation stands in one line; `None` before it has begun.
pub(crate) fn summary(state: &State) -> Option<Summary> {
    let header = state.header()?;
    let operation = state.operation();
    let outcome = operation.and_then(|operation| operation.outcome.as_ref());
    let waves = operation.map_or((0, 0), |operation| {
        // SyncFail waves count only when they run, as in `explain`.
        let counted = operation
            .plan
            .waves
            .iter()
            .zip(&operation.waves)
            .filter(|(wave, times)| wave.phase != Phase::SyncFail || times.opened_at.is_some());
        let (passed, all) = counted.fold((0_u32, 0_u32), |(passed, all), (_, times)| {
            (passed.saturating_add(u32::from(times.passed_at.is_some())), all.saturating_add(1))
        });
        (passed, all)
    });
    let phase = match (outcome, operation.and_then(|operation| operation.termination.as_ref())) {
        (Some(outcome), _) => outcome.phase,
        (None, Some(_)) => OperationPhase::Terminating,
        (None, None) => OperationPhase::Running,
    };
    Some(Summary {
        operation: header.operation,
        application: header.request.application.clone(),
        destination: header.request.destination.to_string(),
        phase,
        paused: header.paused.is_some(),
        message: state.message(),
        started_at: header.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        waves,
        revision: header.request.revision.clone(),
        initiated_by: header.request.initiated_by.clone(),
        dry_run: header.request.options.dry_run,
    })
}
