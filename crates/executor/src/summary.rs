//! Summary of an operation, as stored in the log.

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::{Details, OperationEvent, State};
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{OperationId, OperationPhase, Phase, Timestamp};
use tidegate_oplog::{Codecs, EntryOf};

/// Summary of an operation. It outlives the operation's records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// ID of the operation.
    pub operation: OperationId,
    /// Name of the operation's application.
    pub application: String,
    /// Destination as text.
    pub destination: String,
    /// `Running`, `Terminating`, or the final phase.
    pub phase: OperationPhase,
    /// True if a user paused the operation.
    pub paused: bool,
    /// Activity of the operation when the summary was written, or its final message.
    pub message: String,
    /// Time when the operation was accepted.
    pub started_at: Timestamp,
    /// End time, or `None` while the operation is open.
    pub finished_at: Option<Timestamp>,
    /// Number of completed waves, and total number of waves.
    pub waves: (u32, u32),
    /// Revision of the manifests, empty if unknown.
    #[serde(default)]
    pub revision: String,
    /// Requester, empty if unknown.
    #[serde(default)]
    pub initiated_by: String,
    /// True if the operation doesn't write to the cluster.
    #[serde(default)]
    pub dry_run: bool,
}

impl From<EntryOf<OperationEvent>> for Summary {
    fn from(entry: EntryOf<OperationEvent>) -> Self {
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

/// Returns the codecs for the stream kinds that an engine reads.
pub fn codecs() -> Codecs {
    Codecs::for_kind::<OperationEvent>().with_kind::<rollout::Event>().with_kind::<teardown::Event>()
}

/// Returns the summary of an operation, or `None` before it has started.
pub(crate) fn summarize(state: &State) -> Option<Summary> {
    let header = state.header()?;
    let operation = state.operation();
    let outcome = operation.and_then(|operation| operation.outcome.as_ref());
    let waves = operation.map_or((0, 0), |operation| {
        // As in `explain`, count SyncFail waves only if they run.
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
