//! One-line explanations of a machine's current position.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Timestamp, format_duration};

use super::Attribution;
use crate::NextAction;
use crate::names::join_names;
use crate::operation::{AwaitedItem, truncate_to_seconds};

/// Explanation of what a rollout or deletion is waiting for, and why. Displayed as one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FleetExplanation")]
pub struct Explanation {
    /// Human-readable current position, such as `step 2 of 3 (env in (qa))`.
    pub position: String,
    /// Progress at this position, such as `3 of 14 Healthy`.
    pub progress: String,
    /// Items that the rollout or deletion is waiting for, longest wait first.
    pub awaited: Vec<AwaitedItem>,
    /// Time left until the step's deadline, in seconds. `None` if there is no deadline or if it has passed.
    #[serde(rename = "secondsUntilDeadline")]
    pub deadline_in_seconds: Option<u64>,
    /// Problems that don't block progress on their own.
    pub warnings: Vec<String>,
    /// User who paused the rollout or deletion, the reason, and the length of the pause.
    #[serde(rename = "pausedBy")]
    pub paused: Option<String>,
    /// Next position, such as `step 3, 6 Applications`.
    #[serde(rename = "nextPosition")]
    pub next: Option<String>,
    /// Next action for the user.
    #[serde(rename = "nextAction", default)]
    pub action: NextAction,
    /// Names of Applications that no step selects.
    #[serde(rename = "unselected")]
    pub outside: Vec<String>,
    /// Time of the explanation.
    pub at: Timestamp,
}

impl Explanation {
    pub(crate) fn new(position: impl Into<String>, at: Timestamp) -> Self {
        Self {
            position: position.into(),
            progress: String::new(),
            awaited: Vec::new(),
            deadline_in_seconds: None,
            warnings: Vec::new(),
            paused: None,
            next: None,
            action: NextAction::default(),
            outside: Vec::new(),
            at,
        }
    }

    /// Explains a finished machine: its outcome, end time, duration and reason.
    pub(crate) fn finished(
        end: impl fmt::Debug,
        message: &str,
        began: Timestamp,
        ended: Timestamp,
        at: Timestamp,
    ) -> Self {
        let (took, ago) = (format_elapsed(ended.since(began)), format_elapsed(at.since(ended)));
        Self { progress: message.to_owned(), ..Self::new(format!("{end:?} {ago} ago after {took}"), at) }
    }

    /// Adds the pause of a paused machine, and removes the deadline, because paused time doesn't count.
    pub(crate) fn set_paused(&mut self, paused: Option<&Attribution>) {
        if let Some(paused) = paused {
            let since = format_elapsed(self.at.since(paused.at));
            self.paused = Some(format!("paused for {since} by {}", paused.display()));
            self.deadline_in_seconds = None;
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.position)?;
        if !self.progress.is_empty() {
            write!(f, ": {}", self.progress)?;
        }
        if let Some(first) = self.awaited.first() {
            write!(f, ", waiting {} for {}", format_elapsed(self.at.since(first.since)), first.what)?;
            if !first.why.is_empty() {
                write!(f, " ({})", first.why)?;
            }
            let others: Vec<&str> = self.awaited.iter().skip(1).map(|other| other.what.as_str()).collect();
            if !others.is_empty() {
                write!(f, " and {}", join_names(&others))?;
            }
        }
        for warning in self.warnings.iter().chain(&self.paused) {
            write!(f, "; {warning}")?;
        }
        if let Some(seconds) = self.deadline_in_seconds {
            write!(f, "; deadline in {}", format_duration(Duration::from_secs(seconds)))?;
        }
        if let Some(next) = &self.next {
            write!(f, "; next: {next}")?;
        }
        if !self.outside.is_empty() {
            let names: Vec<&str> = self.outside.iter().map(String::as_str).collect();
            write!(f, "; not in any step: {}", join_names(&names))?;
        }
        Ok(())
    }
}

/// Lists names grouped by step, such as `step 1: dev-a, dev-b; step 2: qa`. Omits empty groups.
pub(crate) fn join_names_by_place<'a>(places: impl Iterator<Item = (String, Vec<&'a str>)>) -> String {
    let named = places.filter(|(_, names)| !names.is_empty());
    named.map(|(place, names)| format!("{place}: {}", join_names(&names))).collect::<Vec<_>>().join("; ")
}

/// Extends the reason for a request's lack of effect with `others`: the Applications it would affect, grouped
/// by place. `done` is a past participle.
pub(crate) fn append_alternatives(reason: &str, done: &str, others: &str) -> String {
    match others {
        "" => format!("{reason}; no other Application can be {done} now"),
        others => format!("{reason}; these Applications can be {done} now: {others}"),
    }
}

/// Qualifies an Application's name with the namespace of its ApplicationSet, as in `argocd/dev-a`. `set` has
/// the form `namespace/name`.
pub(crate) fn qualify_name(set: &str, name: &str) -> String {
    match set.split_once('/') {
        Some((namespace, _)) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Describes the command that skips an Application.
pub(crate) fn describe_skip(set: &str, name: &str) -> String {
    format!("`tidegate appset skip {set} --app {name} --reason TEXT` continues without the Application")
}

/// Formats a step index, such as `step 2 of 3`.
pub(crate) fn step_name(index: u32, count: usize) -> String {
    format!("step {} of {count}", index.saturating_add(1))
}

/// Formats a step with its size, such as `step 2 of 3, 6 Applications`.
pub(crate) fn describe_step(index: u32, count: usize, members: u32) -> String {
    format!("{}, {}", step_name(index, count), format_application_count(members))
}

/// Formats a count, such as `6 Applications`.
pub(crate) fn format_application_count(count: u32) -> String {
    if count == 1 { "1 Application".to_owned() } else { format!("{count} Applications") }
}

/// Formats an elapsed or remaining time.
pub(crate) fn format_elapsed(duration: Duration) -> String {
    format_duration(truncate_to_seconds(duration))
}

/// Sorts items by waiting time, longest first.
pub(crate) fn sort_by_wait(mut awaited: Vec<AwaitedItem>) -> Vec<AwaitedItem> {
    awaited.sort_by(|one, other| (one.since, &one.what).cmp(&(other.since, &other.what)));
    awaited
}
