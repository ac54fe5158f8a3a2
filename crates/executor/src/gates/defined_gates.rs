//! Evaluation of gates according to the definitions stored with the operation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tidegate_lifecycle::operation::{GATE_RETRY_INTERVAL, Verdict};
use tidegate_model::{ParsedWindow, Window};

use super::cel::{self, CEL_PREFIX, ClusterConnection, ObjectWatches};
use super::definitions::{GateDefinitions, UNDEFINED};
use super::gate_subject::GateSubject;
use super::http::{self, HTTP_PREFIX, HttpClient};
use super::window::{self, WINDOW_PREFIX};
use crate::clock::Clock;

/// Reason for keeping a gate closed without a connection to the cluster it needs.
const NO_CONNECTION: &str = "this engine has no connection to the operation's cluster; start the engine with a connection to that \
     cluster";

/// Environment for evaluating gates.
pub(crate) struct GateEnvironment<'a> {
    /// Source of time.
    pub clock: &'a Arc<dyn Clock>,
    /// HTTP client for endpoints.
    pub http_client: &'a HttpClient,
    /// Watched objects.
    pub object_watches: &'a ObjectWatches,
    /// Connection to the operation's cluster, if any.
    pub connection: Option<&'a ClusterConnection>,
}

/// Reports the state of a gate, now and after each change, until the future is dropped. A gate that panics or
/// can't be evaluated is closed.
pub(crate) async fn watch_defined_gate(
    subject: &GateSubject,
    definitions: &GateDefinitions,
    environment: &GateEnvironment<'_>,
    tell: impl Fn(Verdict),
) {
    while AssertUnwindSafe(watch_gate(subject, definitions, environment, &tell)).catch_unwind().await.is_err()
    {
        tracing::error!(gate = subject.gate, "a gate panicked");
        tell(Verdict::closed("internal error; the gate will be evaluated again"));
        tokio::time::sleep(GATE_RETRY_INTERVAL).await;
    }
}

async fn watch_gate(
    subject: &GateSubject,
    definitions: &GateDefinitions,
    environment: &GateEnvironment<'_>,
    tell: &impl Fn(Verdict),
) {
    let undefined = || tell(Verdict::closed(UNDEFINED));
    if let Some(name) = subject.gate.strip_prefix(WINDOW_PREFIX) {
        match definitions.windows.get(name) {
            Some(windows) => watch_window(name, windows, subject, environment.clock, tell).await,
            None => undefined(),
        }
    } else if let Some(name) = subject.gate.strip_prefix(HTTP_PREFIX) {
        match definitions.http.get(name) {
            Some(gate) => http::poll_gate(subject, gate, environment.http_client, tell).await,
            None => undefined(),
        }
    } else if let Some(name) = subject.gate.strip_prefix(CEL_PREFIX) {
        match (definitions.cel.get(name), environment.connection) {
            (Some(gate), Some(connection)) => {
                cel::watch_gate(gate, environment.object_watches, connection, tell).await
            }
            (Some(_), None) => tell(Verdict::closed(NO_CONNECTION)),
            (None, _) => undefined(),
        }
    } else {
        undefined();
    }
}

async fn watch_window(
    name: &str,
    windows: &[Window],
    subject: &GateSubject,
    clock: &Arc<dyn Clock>,
    tell: &impl Fn(Verdict),
) {
    let windows = match windows
        .iter()
        .map(|window| ParsedWindow::parse(window, window::load_time_zone))
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(windows) => windows,
        Err(problem) => return tell(Verdict::closed(problem)),
    };
    let mut last_verdict: Option<Verdict> = None;
    loop {
        let (verdict, again) =
            window::evaluate_windows(name, &windows, subject.is_manual, subject.started_at, clock.now());
        if !last_verdict.as_ref().is_some_and(|last| last.is_same_as(&verdict)) {
            tell(verdict.clone());
            last_verdict = Some(verdict);
        }
        tokio::time::sleep(again).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use tidegate_model::{OperationId, Phase, Timestamp};

    use super::*;

    /// A clock that panics on its first read.
    #[derive(Default)]
    struct PanickingClock(AtomicBool);

    impl Clock for PanickingClock {
        fn now(&self) -> Timestamp {
            assert!(self.0.swap(true, Ordering::SeqCst), "injected into the clock");
            Timestamp::from_millis(1_700_000_000_000)
        }
    }

    async fn verdicts_of(gate: &str) -> Vec<Verdict> {
        let window = serde_json::json!({"windows": {"never":
            [{"kind": "deny", "schedule": "* * * * *", "duration": "2m"}]}});
        let definitions: GateDefinitions = serde_json::from_value(window).unwrap();
        let subject = GateSubject {
            gate: gate.into(),
            operation: OperationId(uuid::Uuid::nil()),
            application: "shop".into(),
            revision: String::new(),
            phase: Phase::Sync,
            wave: 0,
            started_at: Timestamp::from_millis(0),
            is_manual: true,
        };
        let clock: Arc<dyn Clock> = Arc::new(PanickingClock::default());
        let environment = GateEnvironment {
            clock: &clock,
            http_client: &HttpClient::default(),
            object_watches: &ObjectWatches::default(),
            connection: None,
        };
        let verdicts = RefCell::new(Vec::new());
        let keeping = watch_defined_gate(&subject, &definitions, &environment, |verdict| {
            verdicts.borrow_mut().push(verdict)
        });
        let _ = tokio::time::timeout(Duration::from_secs(3600), keeping).await;
        verdicts.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_whose_evaluation_panics_is_closed_and_evaluated_again() {
        let verdicts = verdicts_of("window:never").await;
        let reasons: Vec<&str> = verdicts
            .iter()
            .map(|verdict| match verdict {
                Verdict::Closed { reason, .. } => reason.as_str(),
                Verdict::Open => "open",
            })
            .collect();
        assert_eq!(reasons[0], "internal error; the gate will be evaluated again");
        assert!(
            reasons[1].starts_with("sync window never denies syncs") && reasons.len() == 2,
            "{reasons:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_undefined_gate_is_closed() {
        for gate in ["window:lost", "http:lost", "cel:lost"] {
            assert_eq!(verdicts_of(gate).await, [Verdict::closed(UNDEFINED)], "{gate}");
        }
    }
}
