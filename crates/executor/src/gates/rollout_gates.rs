//! Gates of progressive syncs. A step can use the same gates as a wave.

use tidegate_lifecycle::operation::{GATE_RETRY_INTERVAL, Verdict, concurrency_group};
use tidegate_model::{Destination, OperationId, Phase, Timestamp};

use super::defined_gates::GateEnvironment;
use super::definitions::GateDefinitions;
use super::gate_subject::GateSubject;
use super::{ClusterConnection, poll_registered_gate, watch_defined_gate};
use crate::engine_context::EngineContext;
use crate::extensions::GateRequest;

/// A step of a progressive sync, and the gate that blocks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepGateRequest {
    /// Name of the gate, such as `window:night`.
    pub gate: String,
    /// ID of the rollout.
    pub rollout: OperationId,
    /// ApplicationSet as `namespace/name`.
    pub appset: String,
    /// Number of the step, starting at 1.
    pub step: u32,
    /// Start time of the rollout.
    pub started_at: Timestamp,
    /// Cluster, for gates that need one.
    pub destination: Destination,
}

/// Evaluates a gate for a step according to the gate definitions, and reports all verdicts while the future
/// is polled. Returns once no more can follow, because the name is undefined or the gate never opens for a
/// step. Sync windows treat a step as automated.
pub(crate) async fn evaluate_step_gate(
    shared: &EngineContext,
    question: &StepGateRequest,
    definitions: &GateDefinitions,
    tell: impl Fn(Verdict),
) {
    let StepGateRequest { gate, rollout, appset, step, started_at, destination } = question.clone();
    let wave = i64::from(step);
    let closed = |reason: String| Verdict::Closed { reason, ask_again_after: GATE_RETRY_INTERVAL };
    if concurrency_group(&gate).is_some() {
        return tell(closed(format!(
            "gate {gate} limits operations, not steps; set it on the Applications' resources, and use maxUpdate to limit a step"
        )));
    }
    let registered = shared.extensions.gates.get(&gate);
    if registered.is_some() || !GateDefinitions::can_evaluate(&gate) {
        let ask_it = |reply| {
            let (application, objects) = (appset.clone(), Vec::new());
            GateRequest { operation: rollout, application, phase: Phase::Sync, wave, objects, reply }
        };
        return poll_registered_gate(&gate, registered, ask_it, tell).await;
    }
    if !definitions.names().any(|name| name == gate) {
        return tell(closed(format!(
            "gate {gate} is not defined; define it in the file passed to `tidegate serve --gates`"
        )));
    }
    let connection = shared.clusters.get(&destination).map(|cluster| ClusterConnection {
        destination: destination.clone(),
        cluster: cluster.connection_with_timeouts(),
        permits: cluster.permits(),
    });
    let environment = GateEnvironment {
        clock: &shared.clock,
        http_client: &shared.http_client,
        object_watches: &shared.object_watches,
        connection: connection.as_ref(),
    };
    let subject = GateSubject {
        gate,
        operation: rollout,
        application: appset,
        revision: String::new(),
        phase: Phase::Sync,
        wave,
        started_at,
        is_manual: false,
    };
    watch_defined_gate(&subject, definitions, &environment, tell).await;
}
