use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::cel::Expressions;
use crate::layers::{self, Layer};
use crate::script::{Script, ScriptError, matches};
use crate::verdict::Verdict;
use crate::{HealthError, lua};

/// The rules of an engine: those of the user, what is built in, then the general convention for the status of custom
/// resources. Cheap to clone; may be shared between threads.
///
/// An object gets the expressions in its annotations, else the rule written for exactly its kind, else the first whose
/// pattern means it, in the order of the patterns; else the rule of the next layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthRules {
    own: Arc<Own>,
    without_convention: bool,
}

#[derive(Debug, Default, PartialEq)]
struct Own {
    /// By what they are for.
    exact: BTreeMap<String, UserRule>,
    patterns: BTreeMap<String, UserRule>,
}

/// A rule of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum UserRule {
    /// In Lua.
    Script(Script),
    /// In CEL.
    Expressions(Expressions),
}

impl UserRule {
    /// What it is for: `group/Kind`, `Kind`, or a pattern of these.
    pub fn target(&self) -> &str {
        match self {
            Self::Script(script) => script.target(),
            Self::Expressions(expressions) => expressions.target(),
        }
    }

    /// Where it was read.
    pub fn name(&self) -> &str {
        match self {
            Self::Script(script) => script.name(),
            Self::Expressions(expressions) => expressions.name(),
        }
    }

    /// What keeps it from being used.
    pub fn fault(&self) -> Option<String> {
        match self {
            Self::Script(script) => script.fault().map(ToString::to_string),
            Self::Expressions(expressions) => expressions.fault(),
        }
    }

    fn judge(&self, object: &Object, now: Timestamp) -> Verdict {
        match self {
            Self::Script(script) => match script.fault() {
                Some(fault) => Err(HealthError::ScriptFault { fault: fault.to_string() }),
                None => lua::run(script.name(), script.text(), object, now),
            },
            Self::Expressions(expressions) => expressions.judge(object),
        }
    }
}

impl HealthRules {
    /// No rules of the user.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Scripts in front of the built-in rules. Two for the same kind or pattern are an error.
    pub fn with_scripts(scripts: impl IntoIterator<Item = Script>) -> Result<Self, ScriptError> {
        Self::with_rules(scripts.into_iter().map(UserRule::Script))
    }

    /// Rules of the user in front of the built-in ones. Two for the same kind or pattern are an error.
    pub fn with_rules(rules: impl IntoIterator<Item = UserRule>) -> Result<Self, ScriptError> {
        let mut own = Own::default();
        for rule in rules {
            let map = if is_pattern(rule.target()) { &mut own.patterns } else { &mut own.exact };
            if let Some(first) = map.get(rule.target()) {
                return Err(ScriptError::Twice {
                    target: rule.target().to_owned(),
                    first: first.name().to_owned(),
                    second: rule.name().to_owned(),
                });
            }
            map.insert(rule.target().to_owned(), rule);
        }
        Ok(Self { own: Arc::new(own), ..Self::default() })
    }

    /// As [`Self::with_rules`], for rules that others do not depend on: two for the same kind or pattern cost that kind, which
    /// counts as Unknown.
    pub fn with_any(rules: impl IntoIterator<Item = UserRule>) -> Self {
        let mut by_target: BTreeMap<String, UserRule> = BTreeMap::new();
        for rule in rules {
            let rule = match by_target.get(rule.target()) {
                None => rule,
                Some(first) => {
                    let (target, first) = (rule.target().to_owned(), first.name().to_owned());
                    let second = rule.name().to_owned();
                    let twice = ScriptError::Twice { target: target.clone(), first, second };
                    UserRule::Script(Script::unusable(target, rule.name(), twice.to_string()))
                }
            };
            by_target.insert(rule.target().to_owned(), rule);
        }
        let (patterns, exact) = by_target.into_iter().partition(|(target, _)| is_pattern(target));
        Self { own: Arc::new(Own { exact, patterns }), ..Self::default() }
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

    /// The rules of the user, those for one kind first.
    pub fn user_rules(&self) -> impl Iterator<Item = &UserRule> {
        self.own.exact.values().chain(self.own.patterns.values())
    }

    /// What keeps rules of the user from being used. Each costs its own kind and no other.
    pub fn faults(&self) -> impl Iterator<Item = String> {
        self.user_rules().filter_map(UserRule::fault)
    }

    /// What in rules of the user probably never gives an answer, with where it was read.
    pub fn doubts(&self) -> impl Iterator<Item = String> {
        let doubts = |rule: &UserRule| match rule {
            UserRule::Script(_) => Vec::new(),
            UserRule::Expressions(rule) => {
                rule.doubts().into_iter().map(|doubt| format!("{}: {doubt}", rule.name())).collect()
            }
        };
        self.user_rules().flat_map(doubts)
    }

    fn user_rule(&self, group: &str, kind: &str) -> Option<&UserRule> {
        if self.own.exact.is_empty() && self.own.patterns.is_empty() {
            return None;
        }
        let key = if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
        let means = |rule: &&UserRule| matches(rule.target().as_bytes(), key.as_bytes());
        self.own.exact.get(&key).or_else(|| self.own.patterns.values().find(means))
    }

    /// The script for a kind.
    pub fn script(&self, group: &str, kind: &str) -> Option<&Script> {
        match self.user_rule(group, kind)? {
            UserRule::Script(script) => Some(script),
            UserRule::Expressions(_) => None,
        }
    }

    /// Whether a kind may have health. One that has none is never waited for.
    pub fn has_rule(&self, gvk: &Gvk) -> bool {
        self.user_rule(&gvk.group, &gvk.kind).is_some()
            || layers::layer(&gvk.group, &gvk.kind, self.has_convention()).is_some()
    }

    /// Whether an object brings expressions of its own. To judge it by them takes all of it.
    pub fn is_annotated(object: &Object) -> bool {
        Expressions::are_in(object)
    }

    /// Which layer judges an object; none does where nothing is waited for.
    pub fn layer(&self, object: &Object) -> Option<Layer> {
        if self.user_rule(object.group(), object.kind()).is_some() || Expressions::are_in(object) {
            return Some(Layer::User);
        }
        let convention = layers::may_follow_convention(object, self.has_convention());
        layers::layer(object.group(), object.kind(), convention)
    }

    /// Which rule judges an object, in words; `None` where nothing does, and so nothing is waited for.
    pub fn rule_for(&self, object: &Object) -> Option<String> {
        let (group, kind) = (object.group(), object.kind());
        match self.layer(object)? {
            Layer::User if Expressions::are_in(object) => {
                Some("CEL expressions in its annotations".to_owned())
            }
            layer => self.rule_in(layer, group, kind),
        }
    }

    /// The same of a kind, whatever its objects say in their annotations.
    pub fn rule_for_kind(&self, gvk: &Gvk) -> Option<String> {
        let (group, kind) = (gvk.group.as_str(), gvk.kind.as_str());
        match self.user_rule(group, kind) {
            Some(_) => self.rule_in(Layer::User, group, kind),
            None => self.rule_in(layers::layer(group, kind, self.has_convention())?, group, kind),
        }
    }

    fn rule_in(&self, layer: Layer, group: &str, kind: &str) -> Option<String> {
        Some(match layer {
            Layer::User => match self.user_rule(group, kind)? {
                UserRule::Script(script) => format!("Lua script {}", script.name()),
                UserRule::Expressions(expressions) => format!("CEL expressions of {}", expressions.name()),
            },
            Layer::BuiltIn if group.is_empty() => format!("built-in rule for {kind}"),
            Layer::BuiltIn => format!("built-in rule for {group}/{kind}"),
            Layer::Convention => "general convention for the status of custom resources".to_owned(),
        })
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
        if let Some(expressions) = Expressions::of(object) {
            return Some(expressions.judge(object));
        }
        Some(self.user_rule(object.group(), object.kind())?.judge(object, now))
    }
}

fn is_pattern(target: &str) -> bool {
    target.contains(['*', '?'])
}
