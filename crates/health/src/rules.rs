use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::layers::{self, Layer};
use crate::script::{Script, ScriptError};
use crate::verdict::Verdict;
use crate::{HealthError, lua};

/// The rules of an engine: those of the user, what is built in, then the general convention for the status of custom
/// resources. Cheap to clone; may be shared between threads.
///
/// A kind gets the script written for exactly this kind, else the first whose pattern means it, in the order of the
/// patterns; else the rule of the next layer.
#[derive(Clone, Debug, Default)]
pub struct HealthRules {
    scripts: Arc<Scripts>,
    without_convention: bool,
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
        Ok(Self { scripts: Arc::new(all), ..Self::default() })
    }

    /// The same rules, without the general convention or with it.
    #[must_use]
    pub fn with_convention(self, convention: bool) -> Self {
        Self { without_convention: !convention, ..self }
    }

    /// Whether the general convention judges what nothing else judges.
    pub fn has_convention(&self) -> bool {
        !self.without_convention
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

    /// Whether a kind may have health. One that has none is never waited for.
    pub fn has_rule(&self, gvk: &Gvk) -> bool {
        self.script(&gvk.group, &gvk.kind).is_some()
            || layers::layer(&gvk.group, &gvk.kind, self.has_convention()).is_some()
    }

    /// Which layer judges an object; none does where nothing is waited for.
    pub fn layer(&self, object: &Object) -> Option<Layer> {
        if self.script(object.group(), object.kind()).is_some() {
            return Some(Layer::User);
        }
        let convention = layers::may_follow_convention(object, self.has_convention());
        layers::layer(object.group(), object.kind(), convention)
    }

    /// Judges an object. Scripts may ask for the time: it is `now`.
    ///
    /// - `None`: the object has no health, and a gate does not wait for it (ConfigMap, Secret, roles, …).
    /// - `Some(Err(_))`: there is a rule, but it gives no verdict; see [`HealthError`] for what that counts as.
    ///
    /// An object that is being deleted is `Progressing`, whatever its kind, unless it carries the hook finalizer: a
    /// hook is kept visible by that finalizer exactly so that its result can still be read.
    pub fn assess(&self, object: &Object, now: Timestamp) -> Option<Result<Health, HealthError>> {
        layers::judge(object, |object| self.by_user(object, now), self.has_convention()).verdict
    }

    /// What the operation's state machine is told of an object seen at a moment.
    pub fn observe(&self, object: &Object, at: Timestamp) -> Observation {
        let found = layers::judge(object, |object| self.by_user(object, at), self.has_convention());
        layers::present(object, at, found)
    }

    fn by_user(&self, object: &Object, now: Timestamp) -> Option<Verdict> {
        let script = self.script(object.group(), object.kind())?;
        Some(match script.fault() {
            Some(fault) => Err(HealthError::ScriptFault { fault: fault.to_string() }),
            None => lua::run(script.name(), script.text(), object, now),
        })
    }
}
