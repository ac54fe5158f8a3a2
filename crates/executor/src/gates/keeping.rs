//! Gates that are open by definitions which are kept with the operation.

use std::sync::Arc;

use tidegate_lifecycle::operation::Verdict;
use tidegate_model::Timestamp;

use super::definitions::{GateDefinitions, UNDEFINED, WINDOW};
use super::window::{self, Opened};
use crate::clock::Clock;

/// What is asked about.
pub(crate) struct Asked {
    /// The gate.
    pub gate: String,
    /// When the operation began.
    pub began: Timestamp,
    /// Whether a person began it.
    pub manual: bool,
}

/// Tells how the gate stands, now and whenever that changes, for as long as this is polled. What cannot be decided is closed.
pub(crate) async fn keep(
    asked: Asked,
    definitions: &GateDefinitions,
    clock: Arc<dyn Clock>,
    tell: impl Fn(Verdict),
) {
    let name = asked.gate.strip_prefix(WINDOW).unwrap_or_default();
    let windows = match definitions.windows.get(name) {
        None => Err(UNDEFINED.to_owned()),
        Some(windows) => windows.iter().map(Opened::of).collect::<Result<Vec<_>, _>>(),
    };
    let windows = match windows {
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
