//! Gates that are open by definitions which are kept with the operation.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tidegate_lifecycle::operation::{ASK_AGAIN_AFTER, Verdict};
use tidegate_model::{Opened, Window};

use super::asked::Asked;
use super::cel::{self, CEL, Objects, Way};
use super::definitions::{GateDefinitions, UNDEFINED};
use super::http::{self, HTTP, Web};
use super::window::{self, WINDOW};
use crate::clock::Clock;

/// Why a gate is closed that looks at a cluster which this engine does not reach.
const NO_WAY: &str = "this engine has no connection to the operation's cluster; start it with one";

/// What gates have to do with.
pub(crate) struct Around<'a> {
    /// What time it is.
    pub clock: &'a Arc<dyn Clock>,
    /// The way to endpoints.
    pub web: &'a Web,
    /// The objects that are watched.
    pub objects: &'a Objects,
    /// The way to the cluster of the operation, if there is one.
    pub way: Option<&'a Way>,
}

/// Tells how the gate stands, now and whenever that changes, for as long as this is polled. What cannot be decided is closed, and
/// so is what meets a fault.
pub(crate) async fn keep(
    asked: &Asked,
    definitions: &GateDefinitions,
    around: &Around<'_>,
    tell: impl Fn(Verdict),
) {
    while AssertUnwindSafe(open(asked, definitions, around, &tell)).catch_unwind().await.is_err() {
        tracing::error!(gate = asked.gate, "a gate met a fault");
        tell(Verdict::closed("it met a fault inside the engine, and is asked again"));
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

async fn open(asked: &Asked, definitions: &GateDefinitions, around: &Around<'_>, tell: &impl Fn(Verdict)) {
    let undefined = || tell(Verdict::closed(UNDEFINED));
    if let Some(name) = asked.gate.strip_prefix(WINDOW) {
        match definitions.windows.get(name) {
            Some(windows) => keep_window(name, windows, asked, around.clock, tell).await,
            None => undefined(),
        }
    } else if let Some(name) = asked.gate.strip_prefix(HTTP) {
        match definitions.http.get(name) {
            Some(gate) => http::keep(asked, gate, around.web, tell).await,
            None => undefined(),
        }
    } else if let Some(name) = asked.gate.strip_prefix(CEL) {
        match (definitions.cel.get(name), around.way) {
            (Some(gate), Some(way)) => cel::keep(gate, around.objects, way, tell).await,
            (Some(_), None) => tell(Verdict::closed(NO_WAY)),
            (None, _) => undefined(),
        }
    } else {
        undefined();
    }
}

async fn keep_window(
    name: &str,
    windows: &[Window],
    asked: &Asked,
    clock: &Arc<dyn Clock>,
    tell: &impl Fn(Verdict),
) {
    let windows =
        match windows.iter().map(|window| Opened::of(window, window::zone)).collect::<Result<Vec<_>, _>>() {
            Ok(windows) => windows,
            Err(problem) => return tell(Verdict::closed(problem)),
        };
    let mut told: Option<Verdict> = None;
    loop {
        let (verdict, again) = window::decide(name, &windows, asked.manual, asked.began, clock.now());
        if !told.as_ref().is_some_and(|told| told.says_the_same(&verdict)) {
            tell(verdict.clone());
            told = Some(verdict);
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

    /// A clock that breaks when it is read for the first time.
    #[derive(Default)]
    struct Broken(AtomicBool);

    impl Clock for Broken {
        fn now(&self) -> Timestamp {
            assert!(self.0.swap(true, Ordering::SeqCst), "injected into the clock");
            Timestamp::from_millis(1_700_000_000_000)
        }
    }

    async fn told(gate: &str) -> Vec<Verdict> {
        let window = serde_json::json!({"windows": {"never":
            [{"kind": "deny", "schedule": "* * * * *", "duration": "2m"}]}});
        let definitions: GateDefinitions = serde_json::from_value(window).unwrap();
        let asked = Asked {
            gate: gate.into(),
            operation: OperationId(uuid::Uuid::nil()),
            application: "shop".into(),
            revision: String::new(),
            phase: Phase::Sync,
            wave: 0,
            began: Timestamp::from_millis(0),
            manual: true,
        };
        let clock: Arc<dyn Clock> = Arc::new(Broken::default());
        let around = Around { clock: &clock, web: &Web::default(), objects: &Objects::default(), way: None };
        let told = RefCell::new(Vec::new());
        let keeping = keep(&asked, &definitions, &around, |verdict| told.borrow_mut().push(verdict));
        let _ = tokio::time::timeout(Duration::from_secs(3600), keeping).await;
        told.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_meets_a_fault_is_closed_and_asked_again() {
        let told = told("window:never").await;
        let reasons: Vec<&str> = told
            .iter()
            .map(|verdict| match verdict {
                Verdict::Closed { reason, .. } => reason.as_str(),
                Verdict::Open => "open",
            })
            .collect();
        assert_eq!(reasons[0], "it met a fault inside the engine, and is asked again");
        assert!(reasons[1].starts_with("sync window never denies it") && reasons.len() == 2, "{reasons:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_has_defined_is_closed() {
        for gate in ["window:lost", "http:lost", "cel:lost"] {
            assert_eq!(told(gate).await, [Verdict::closed(UNDEFINED)], "{gate}");
        }
    }
}
