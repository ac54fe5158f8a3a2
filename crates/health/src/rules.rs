use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::assess::{judge, rule};
use crate::observe::present;
use crate::script::{Script, ScriptError};
use crate::{HealthError, lua};

/// The rules of an engine: scripts first, then what is built in. Cheap to clone; may be shared between threads.
///
/// A kind gets the script written for exactly this kind, else the first whose pattern means it, in the order of the
/// patterns; else the built-in rule.
#[derive(Clone, Debug, Default)]
pub struct HealthRules {
    scripts: Arc<Scripts>,
}

#[derive(Debug, Default)]
struct Scripts {
    /// By what they are for.
    exact: BTreeMap<String, Script>,
    patterns: BTreeMap<String, Script>,
}

impl HealthRules {
    /// No scripts.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Scripts in front of the built-in rules. Two scripts for the same kind or pattern are an error.
    pub fn with_scripts(scripts: impl IntoIterator<Item = Script>) -> Result<Self, ScriptError> {
        let mut all = Scripts::default();
        for script in scripts {
            let map = if script.is_pattern() { &mut all.patterns } else { &mut all.exact };
            if let Some(first) = map.get(script.target()) {
                return Err(ScriptError::Twice {
                    target: script.target().to_owned(),
                    first: first.name().to_owned(),
                    second: script.name().to_owned(),
                });
            }
            map.insert(script.target().to_owned(), script);
        }
        Ok(Self { scripts: Arc::new(all) })
    }

    /// The scripts, those for one kind first.
    pub fn scripts(&self) -> impl Iterator<Item = &Script> {
        self.scripts.exact.values().chain(self.scripts.patterns.values())
    }

    /// What keeps scripts from being used. Each costs its own kind and no other.
    pub fn faults(&self) -> impl Iterator<Item = &ScriptError> {
        self.scripts().filter_map(Script::fault)
    }

    /// The script for a kind.
    pub fn script(&self, group: &str, kind: &str) -> Option<&Script> {
        if self.scripts.exact.is_empty() && self.scripts.patterns.is_empty() {
            return None;
        }
        let key = if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
        let by_pattern = || self.scripts.patterns.values().find(|script| script.is_for(&key));
        self.scripts.exact.get(&key).or_else(by_pattern)
    }

    /// Whether a kind has a health rule. One that has none is never waited for.
    pub fn has_rule(&self, gvk: &Gvk) -> bool {
        self.script(&gvk.group, &gvk.kind).is_some() || rule(&gvk.group, &gvk.kind).is_some()
    }

    /// Judges an object. Scripts may ask for the time: it is `now`.
    ///
    /// - `None`: the kind has no health rule, and a gate does not wait for it (ConfigMap, Secret, roles, …).
    /// - `Some(Err(_))`: there is a rule, but it gives no verdict; see [`HealthError`] for what that counts as.
    ///
    /// An object that is being deleted is `Progressing`, whatever its kind, unless it carries the hook finalizer: a
    /// hook is kept visible by that finalizer exactly so that its result can still be read.
    pub fn assess(&self, object: &Object, now: Timestamp) -> Option<Result<Health, HealthError>> {
        judge(object, |object| match self.script(object.group(), object.kind()) {
            Some(script) => Some(match script.fault() {
                Some(fault) => Err(HealthError::ScriptFault { fault: fault.to_string() }),
                None => lua::run(script.name(), script.text(), object, now),
            }),
            None => rule(object.group(), object.kind()).map(|rule| rule(object)),
        })
    }

    /// What the operation's state machine is told of an object seen at a moment.
    pub fn observe(&self, object: &Object, at: Timestamp) -> Observation {
        present(object, at, self.assess(object, at))
    }
}
