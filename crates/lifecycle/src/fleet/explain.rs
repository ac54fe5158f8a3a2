//! Why it is where it is, in one line.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Timestamp, format_duration};

use super::Said;
use crate::operation::{Awaited, whole_seconds};

/// So many names are spelled out where there may be thousands.
const NAMES_MAX: usize = 5;

/// The answer to "why is it waiting, and for what?". Prints as one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FleetExplanation")]
pub struct Explanation {
    /// Where it stands, in words: `step 2 of 3 (env in (qa))`.
    pub position: String,
    /// What is going on there: `3 of 14 Healthy`.
    pub progress: String,
    /// What is awaited, the longest wait first.
    pub awaited: Vec<Awaited>,
    /// Time left to the step's deadline, in seconds; absent without one, and once it has passed.
    pub deadline_in_seconds: Option<u64>,
    /// What is not as it should be, but holds nothing up by itself.
    pub warnings: Vec<String>,
    /// Who holds it, and why.
    pub paused: Option<String>,
    /// What comes next: `step 3, 6 Applications`.
    pub next: Option<String>,
    /// Applications that no step selects, by name.
    pub outside: Vec<String>,
    /// When this was true.
    pub at: Timestamp,
}

impl Explanation {
    pub(crate) fn blank(position: impl Into<String>, at: Timestamp) -> Self {
        Self {
            position: position.into(),
            progress: String::new(),
            awaited: Vec::new(),
            deadline_in_seconds: None,
            warnings: Vec::new(),
            paused: None,
            next: None,
            outside: Vec::new(),
            at,
        }
    }

    /// Of what is over: how it ended, when, after what time, and why.
    pub(crate) fn over(
        end: impl fmt::Debug,
        message: &str,
        (began, ended): (Timestamp, Timestamp),
        at: Timestamp,
    ) -> Self {
        let (took, ago) = (words(ended.since(began)), words(at.since(ended)));
        Self { progress: message.to_owned(), ..Self::blank(format!("{end:?} {ago} ago after {took}"), at) }
    }

    /// Who holds it, if anybody does: its clocks stand still then.
    pub(crate) fn hold(&mut self, paused: Option<&Said>) {
        if let Some(paused) = paused {
            let since = words(self.at.since(paused.at));
            self.paused = Some(format!("paused for {since} by {}", paused.words()));
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
            write!(f, ", waiting {} for {}", words(self.at.since(first.since)), first.what)?;
            if !first.why.is_empty() {
                write!(f, " ({})", first.why)?;
            }
            let others: Vec<&str> = self.awaited.iter().skip(1).map(|other| other.what.as_str()).collect();
            if !others.is_empty() {
                write!(f, " and {}", enumerate(&others))?;
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
            write!(f, "; in no step: {}", enumerate(&names))?;
        }
        Ok(())
    }
}

/// The names in a row; of many the first few, and how many more there are.
pub fn enumerate(names: &[&str]) -> String {
    let named = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Names by their places, where there are any: `step 1: dev-a, dev-b; step 2: qa`.
pub(crate) fn by_place<'a>(places: impl Iterator<Item = (String, Vec<&'a str>)>) -> String {
    let named = places.filter(|(_, names)| !names.is_empty());
    named.map(|(place, names)| format!("{place}: {}", enumerate(&names))).collect::<Vec<_>>().join("; ")
}

/// Why nothing is done to those that were named, and to which others it can be: by their places, or empty.
pub(crate) fn or_others(why: &str, done: &str, others: &str) -> String {
    match others {
        "" => format!("{why}; and no other can be {done} now either"),
        others => format!("{why}; what can be {done} now: {others}"),
    }
}

/// `step 2 of 3`, from the index.
pub(crate) fn step_name(index: u32, count: usize) -> String {
    format!("step {} of {count}", index.saturating_add(1))
}

/// `step 2 of 3, 6 Applications`.
pub(crate) fn step_of(index: u32, count: usize, members: u32) -> String {
    format!("{}, {}", step_name(index, count), applications(members))
}

/// `6 Applications`.
pub(crate) fn applications(count: u32) -> String {
    if count == 1 { "1 Application".to_owned() } else { format!("{count} Applications") }
}

/// Time that has passed, or is left, in words.
pub(crate) fn words(duration: Duration) -> String {
    format_duration(whole_seconds(duration))
}

/// In order of the wait.
pub(crate) fn longest_first(mut awaited: Vec<Awaited>) -> Vec<Awaited> {
    awaited.sort_by(|one, other| (one.since, &one.what).cmp(&(other.since, &other.what)));
    awaited
}
