//! What the names of gates stand for. Written by people, and kept with the operation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::{Opened, Window};

use super::cel::{CEL, CelGate};
use super::concurrency::{CONCURRENCY, Concurrency};
use super::http::{HTTP, HttpGate};
use super::window::{WINDOW, zone};

/// What the names of gates stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateDefinitions {
    /// Sync windows, for `window:NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, Vec<Window>>,
    /// Groups of operations, for `concurrency:GROUP`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub concurrency: BTreeMap<String, Concurrency>,
    /// Endpoints that are asked, for `http:NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub http: BTreeMap<String, HttpGate>,
    /// Expressions over objects of the cluster, for `cel:NAME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cel: BTreeMap<String, CelGate>,
}

/// Why a gate is closed whose name stands for nothing.
pub(crate) const UNDEFINED: &str =
    "nobody has defined it; end the operation, and begin it with a file of --gates that does";

/// A definition that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gate {gate}: {problem}")]
pub struct InvalidGate {
    /// Its name with what it begins with, such as `window:night`.
    pub gate: String,
    /// What is wrong, and what to write.
    pub problem: String,
}

impl GateDefinitions {
    /// All that is wrong with them.
    pub fn check(&self) -> Vec<InvalidGate> {
        let mut wrong = Vec::new();
        for (name, windows) in &self.windows {
            note(&mut wrong, WINDOW, name, check_windows(windows));
        }
        for (name, group) in &self.concurrency {
            note(&mut wrong, CONCURRENCY, name, group.check().err());
        }
        for (name, gate) in &self.http {
            note(&mut wrong, HTTP, name, gate.check());
        }
        for (name, gate) in &self.cel {
            note(&mut wrong, CEL, name, gate.check());
        }
        wrong
    }

    /// The gates that are defined.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let windows = self.windows.keys().map(|name| format!("{WINDOW}{name}"));
        let groups = self.concurrency.keys().map(|name| format!("{CONCURRENCY}{name}"));
        let endpoints = self.http.keys().map(|name| format!("{HTTP}{name}"));
        let expressions = self.cel.keys().map(|name| format!("{CEL}{name}"));
        windows.chain(groups).chain(endpoints).chain(expressions)
    }

    /// How many operations of a group may be at work at once. The error says why a gate of it is closed.
    pub(crate) fn limit(&self, group: &str) -> Result<usize, String> {
        let group = self.concurrency.get(group).ok_or(UNDEFINED)?;
        group.check().map(|()| group.limit)
    }

    /// Whether a gate opens by definitions that somebody keeps, by the look of its name.
    pub(crate) fn concerns(gate: &str) -> bool {
        [WINDOW, HTTP, CEL].iter().any(|kind| gate.starts_with(kind))
    }
}

/// Whether a file of gates can say what a gate stands for, by the look of its name.
pub(crate) fn is_defined_by_name(gate: &str) -> bool {
    GateDefinitions::concerns(gate) || gate.starts_with(CONCURRENCY)
}

/// Adds what is wrong with a gate, and with its name.
fn note(wrong: &mut Vec<InvalidGate>, kind: &str, name: &str, problems: impl IntoIterator<Item = String>) {
    let is_wrong = name.is_empty() || name.contains(|c: char| c == ',' || c.is_whitespace());
    let name_problem = is_wrong.then(|| "write a name without spaces and commas".to_owned());
    let gate = format!("{kind}{name}");
    let problems = name_problem.into_iter().chain(problems);
    wrong.extend(problems.map(|problem| InvalidGate { gate: gate.clone(), problem }));
}

fn check_windows(windows: &[Window]) -> Vec<String> {
    if windows.is_empty() {
        return vec!["it has no windows; write at least one with kind, schedule and duration".to_owned()];
    }
    let numbered = (1_usize..).zip(windows);
    let problem = |(number, window)| {
        let problem = Opened::of(window, zone).err()?;
        Some(format!("window {number}: {problem}"))
    };
    numbered.filter_map(problem).collect()
}
