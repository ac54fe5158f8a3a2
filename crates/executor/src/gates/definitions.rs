//! Gate definitions by name, written by users and stored with the operation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::{ParsedWindow, Window};

use super::cel::{CEL_PREFIX, CelGate};
use super::concurrency::{CONCURRENCY_PREFIX, ConcurrencyGroup};
use super::http::{HTTP_PREFIX, HttpGate};
use super::window::{WINDOW_PREFIX, load_time_zone};

/// Gate definitions by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateDefinitions {
    /// Sync windows, for `window:NAME` gates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, Vec<Window>>,
    /// Groups of operations, for `concurrency:GROUP` gates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub concurrency: BTreeMap<String, ConcurrencyGroup>,
    /// Endpoints, for `http:NAME` gates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub http: BTreeMap<String, HttpGate>,
    /// Expressions over objects in the cluster, for `cel:NAME` gates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cel: BTreeMap<String, CelGate>,
}

/// Reason for keeping an undefined gate closed.
pub(crate) const UNDEFINED: &str = "the gate is not defined; define it in the file passed to `tidegate serve --gates`, or terminate the operation and sync again with `tidegate sync --gates FILE`";

/// An invalid definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("gate {gate}: {problem}")]
pub struct InvalidGate {
    /// Name with prefix, such as `window:night`.
    pub gate: String,
    /// The problem, and how to fix it.
    pub problem: String,
}

impl GateDefinitions {
    /// Returns all invalid definitions.
    pub fn check(&self) -> Vec<InvalidGate> {
        let mut wrong = Vec::new();
        for (name, windows) in &self.windows {
            add_problems(&mut wrong, WINDOW_PREFIX, name, check_windows(windows));
        }
        for (name, group) in &self.concurrency {
            add_problems(&mut wrong, CONCURRENCY_PREFIX, name, group.check().err());
        }
        for (name, gate) in &self.http {
            add_problems(&mut wrong, HTTP_PREFIX, name, gate.check());
        }
        for (name, gate) in &self.cel {
            add_problems(&mut wrong, CEL_PREFIX, name, gate.check());
        }
        wrong
    }

    /// Returns the names of all defined gates.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let windows = self.windows.keys().map(|name| format!("{WINDOW_PREFIX}{name}"));
        let groups = self.concurrency.keys().map(|name| format!("{CONCURRENCY_PREFIX}{name}"));
        let endpoints = self.http.keys().map(|name| format!("{HTTP_PREFIX}{name}"));
        let expressions = self.cel.keys().map(|name| format!("{CEL_PREFIX}{name}"));
        windows.chain(groups).chain(endpoints).chain(expressions)
    }

    /// Returns the maximum number of concurrent operations in a group, or the reason why its gate is closed.
    pub(crate) fn concurrency_limit(&self, group: &str) -> Result<usize, String> {
        let group = self.concurrency.get(group).ok_or(UNDEFINED)?;
        group.check().map(|()| group.limit)
    }

    /// Returns true if gates with this name are evaluated through the gate definitions.
    pub(crate) fn can_evaluate(gate: &str) -> bool {
        [WINDOW_PREFIX, HTTP_PREFIX, CEL_PREFIX].iter().any(|kind| gate.starts_with(kind))
    }
}

/// Returns true if a gate with this name can be defined in a file.
pub(crate) fn is_defined_by_name(gate: &str) -> bool {
    GateDefinitions::can_evaluate(gate) || gate.starts_with(CONCURRENCY_PREFIX)
}

/// Adds the problems with a gate's name and definition.
fn add_problems(
    wrong: &mut Vec<InvalidGate>,
    kind: &str,
    name: &str,
    problems: impl IntoIterator<Item = String>,
) {
    let is_wrong = name.is_empty() || name.contains(|c: char| c == ',' || c.is_whitespace());
    let name_problem = is_wrong.then(|| "use a name without spaces or commas".to_owned());
    let gate = format!("{kind}{name}");
    let problems = name_problem.into_iter().chain(problems);
    wrong.extend(problems.map(|problem| InvalidGate { gate: gate.clone(), problem }));
}

fn check_windows(windows: &[Window]) -> Vec<String> {
    if windows.is_empty() {
        return vec![
            "the gate has no windows; add at least one window with kind, schedule and duration".to_owned(),
        ];
    }
    let numbered = (1_usize..).zip(windows);
    let problem = |(number, window)| {
        let problem = ParsedWindow::parse(window, load_time_zone).err()?;
        Some(format!("window {number}: {problem}"))
    };
    numbered.filter_map(problem).collect()
}
