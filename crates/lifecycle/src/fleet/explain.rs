//! Why it is where it is, in one line.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tidegate_model::{Timestamp, format_duration};

use crate::operation::Awaited;

/// So many names are spelled out where there may be thousands.
const NAMES_MAX: usize = 5;

/// The answer to "why is it waiting, and for what?". Prints as one line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
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
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.position)?;
        if !self.progress.is_empty() {
            write!(f, ": {}", self.progress)?;
        }
        if let Some(first) = self.awaited.first() {
            let whole = Duration::from_secs(self.at.since(first.since).as_secs());
            write!(f, ", waiting {} for {}", format_duration(whole), first.what)?;
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
pub(crate) fn enumerate(names: &[&str]) -> String {
    let named = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// `step 2 of 3`, from the index.
pub(crate) fn step_name(index: u32, count: usize) -> String {
    format!("step {} of {count}", index.saturating_add(1))
}
