use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::cel::Expressions;
use crate::layers::{self, Layer};
use crate::script::{Script, ScriptError, matches_pattern};
use crate::verdict::Verdict;
use crate::{HealthError, lua};

/// Health rules of an engine: user rules, then built-in rules, then the general convention for the status of
/// custom resources. They are cheap to clone and can be shared between threads.
///
/// The first rule that matches an object wins, in this order: expressions in the object's annotations, the
/// user rule for exactly its kind, the first user rule with a matching pattern, the built-in rule, and the
/// general convention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthRules {
    user: Arc<UserRules>,
    is_convention_disabled: bool,
}

#[derive(Debug, Default, PartialEq)]
struct UserRules {
    /// User rules for exact kinds, by kind.
    exact: BTreeMap<String, UserRule>,
    patterns: BTreeMap<String, UserRule>,
}

/// Rule defined by the user.
#[derive(Clone, Debug, PartialEq)]
pub enum UserRule {
    /// A Lua script.
    Script(Script),
    /// CEL expressions.
    Expressions(Expressions),
}

impl UserRule {
    /// Returns the rule's target: `group/Kind`, `Kind`, or a pattern for these.
    pub fn target(&self) -> &str {
        match self {
            Self::Script(script) => script.target(),
            Self::Expressions(expressions) => expressions.target(),
        }
    }

    /// Returns the origin of the rule.
    pub fn name(&self) -> &str {
        match self {
            Self::Script(script) => script.name(),
            Self::Expressions(expressions) => expressions.name(),
        }
    }

    /// Returns the reason the rule is invalid.
    pub fn error(&self) -> Option<String> {
        match self {
            Self::Script(script) => script.error().map(ToString::to_string),
            Self::Expressions(expressions) => expressions.error(),
        }
    }

    fn assess(&self, object: &Object, now: Timestamp) -> Verdict {
        match self {
            Self::Script(script) => match script.error() {
                Some(fault) => Err(HealthError::InvalidScript { fault: fault.to_string() }),
                None => lua::run_script(script.name(), script.text(), object, now),
            },
            Self::Expressions(expressions) => expressions.assess(object),
        }
    }
}

impl HealthRules {
    /// Creates a set of only built-in rules.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// Creates rules with scripts that take precedence over the built-in rules. Fails if two scripts have the
    /// same kind or pattern.
    pub fn with_scripts(scripts: impl IntoIterator<Item = Script>) -> Result<Self, ScriptError> {
        Self::with_rules(scripts.into_iter().map(UserRule::Script))
    }

    /// Creates rules with user rules that take precedence over the built-in ones. Fails if two rules have the
    /// same kind or pattern.
    pub fn with_rules(rules: impl IntoIterator<Item = UserRule>) -> Result<Self, ScriptError> {
        let mut own = UserRules::default();
        for rule in rules {
            let map = if is_pattern(rule.target()) { &mut own.patterns } else { &mut own.exact };
            if let Some(first) = map.get(rule.target()) {
                return Err(ScriptError::Duplicate {
                    target: rule.target().to_owned(),
                    first: first.name().to_owned(),
                    second: rule.name().to_owned(),
                });
            }
            map.insert(rule.target().to_owned(), rule);
        }
        Ok(Self { user: Arc::new(own), ..Self::default() })
    }

    /// Works like [`Self::with_rules`], but for independent rules: two rules with the same kind or pattern
    /// affect only the matching objects, which become Unknown.
    pub fn with_rules_lenient(rules: impl IntoIterator<Item = UserRule>) -> Self {
        let mut by_target: BTreeMap<String, UserRule> = BTreeMap::new();
        for rule in rules {
            let rule = match by_target.get(rule.target()) {
                None => rule,
                Some(first) => {
                    let (target, first) = (rule.target().to_owned(), first.name().to_owned());
                    let second = rule.name().to_owned();
                    let twice = ScriptError::Duplicate { target: target.clone(), first, second };
                    UserRule::Script(Script::unavailable(target, rule.name(), twice.to_string()))
                }
            };
            by_target.insert(rule.target().to_owned(), rule);
        }
        let (patterns, exact) = by_target.into_iter().partition(|(target, _)| is_pattern(target));
        Self { user: Arc::new(UserRules { exact, patterns }), ..Self::default() }
    }

    /// Enables or disables the general convention.
    #[must_use]
    pub fn with_convention(self, convention: bool) -> Self {
        Self { is_convention_disabled: !convention, ..self }
    }

    /// Returns true if the general convention is enabled.
    pub fn has_convention(&self) -> bool {
        !self.is_convention_disabled
    }

    /// Returns the user rules, starting with those for exact kinds.
    pub fn user_rules(&self) -> impl Iterator<Item = &UserRule> {
        self.user.exact.values().chain(self.user.patterns.values())
    }

    /// Returns the reasons user rules are invalid. An invalid rule affects only its own kind.
    pub fn rule_errors(&self) -> impl Iterator<Item = String> {
        self.user_rules().filter_map(UserRule::error)
    }

    /// Returns the parts of user rules that will probably never yield a result, with the rule's origin.
    pub fn suspicious_parts(&self) -> impl Iterator<Item = String> {
        let doubts = |rule: &UserRule| match rule {
            UserRule::Script(_) => Vec::new(),
            UserRule::Expressions(rule) => {
                rule.suspicious_parts().into_iter().map(|doubt| format!("{}: {doubt}", rule.name())).collect()
            }
        };
        self.user_rules().flat_map(doubts)
    }

    fn user_rule(&self, group: &str, kind: &str) -> Option<&UserRule> {
        if self.user.exact.is_empty() && self.user.patterns.is_empty() {
            return None;
        }
        let key = if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
        let means = |rule: &&UserRule| matches_pattern(rule.target().as_bytes(), key.as_bytes());
        self.user.exact.get(&key).or_else(|| self.user.patterns.values().find(means))
    }

    /// Returns the user script for a kind, if any.
    pub fn script(&self, group: &str, kind: &str) -> Option<&Script> {
        match self.user_rule(group, kind)? {
            UserRule::Script(script) => Some(script),
            UserRule::Expressions(_) => None,
        }
    }

    /// Returns true if a user rule applies to a kind.
    pub fn has_user_rule(&self, gvk: &Gvk) -> bool {
        self.user_rule(&gvk.group, &gvk.kind).is_some()
    }

    /// Returns true if a kind can have a health status. Operations never wait for any other kind.
    pub fn has_rule(&self, gvk: &Gvk) -> bool {
        self.user_rule(&gvk.group, &gvk.kind).is_some()
            || layers::layer_of_kind(&gvk.group, &gvk.kind, self.has_convention()).is_some()
    }

    /// Returns true if an object's annotations have expressions. Evaluating them takes the complete object.
    pub fn is_annotated(object: &Object) -> bool {
        Expressions::is_annotated(object)
    }

    /// Returns the layer that applies to an object, or `None` without a health status to wait for.
    pub fn layer(&self, object: &Object) -> Option<Layer> {
        if self.user_rule(object.group(), object.kind()).is_some() || Expressions::is_annotated(object) {
            return Some(Layer::User);
        }
        let convention = layers::can_follow_convention(object, self.has_convention());
        layers::layer_of_kind(object.group(), object.kind(), convention)
    }

    /// Describes the rule that applies to an object, or returns `None` without a health status to wait for.
    pub fn rule_for(&self, object: &Object) -> Option<String> {
        let (group, kind) = (object.group(), object.kind());
        match self.layer(object)? {
            Layer::User if Expressions::is_annotated(object) => {
                Some("CEL expressions in the object's annotations".to_owned())
            }
            layer => self.rule_of_layer(layer, group, kind),
        }
    }

    /// Describes the rule that applies to a kind, ignoring annotations.
    pub fn rule_for_kind(&self, gvk: &Gvk) -> Option<String> {
        let (group, kind) = (gvk.group.as_str(), gvk.kind.as_str());
        match self.user_rule(group, kind) {
            Some(_) => self.rule_of_layer(Layer::User, group, kind),
            None => {
                self.rule_of_layer(layers::layer_of_kind(group, kind, self.has_convention())?, group, kind)
            }
        }
    }

    fn rule_of_layer(&self, layer: Layer, group: &str, kind: &str) -> Option<String> {
        Some(match layer {
            Layer::User => match self.user_rule(group, kind)? {
                UserRule::Script(script) => format!("Lua script {}", script.name()),
                UserRule::Expressions(expressions) => format!("CEL expressions in {}", expressions.name()),
            },
            Layer::BuiltIn if group.is_empty() => format!("built-in rule for {kind}"),
            Layer::BuiltIn => format!("built-in rule for {group}/{kind}"),
            Layer::Convention => "general convention for the status of custom resources".to_owned(),
        })
    }

    /// Returns the health of an object at the time `now`. Scripts can read it, and grace periods end by it.
    ///
    /// - `None`: the object has no health status, and gates don't wait for it (ConfigMap, Secret, roles, …).
    /// - `Some(Err(_))`: there is a rule, but it didn't yield a result; see [`HealthError`] for the effects.
    ///
    /// An object that is being deleted is `Progressing`, whatever its kind. Objects with the hook finalizer
    /// are an exception, since that finalizer keeps the hook's result readable.
    pub fn assess(&self, object: &Object, now: Timestamp) -> Option<Result<Health, HealthError>> {
        layers::assess_layers(object, |object| self.assess_by_user(object, now), self.has_convention(), now)
            .verdict
    }

    /// Returns the time when the health changes even if the object doesn't: the end of a grace period.
    pub fn health_changes_at(&self, object: &Object, now: Timestamp) -> Option<Timestamp> {
        if self.layer(object) == Some(Layer::User) {
            return None;
        }
        layers::assess_layers(object, |_| None, self.has_convention(), now).changes_at
    }

    /// Returns the observation of an object at this time, for the operation's state machine.
    pub fn observe(&self, object: &Object, at: Timestamp) -> Observation {
        let found = layers::assess_layers(
            object,
            |object| self.assess_by_user(object, at),
            self.has_convention(),
            at,
        );
        layers::to_observation(object, at, found)
    }

    fn assess_by_user(&self, object: &Object, now: Timestamp) -> Option<Verdict> {
        if let Some(expressions) = Expressions::from_annotations(object) {
            return Some(expressions.assess(object));
        }
        Some(self.user_rule(object.group(), object.kind())?.assess(object, now))
    }
}

fn is_pattern(target: &str) -> bool {
    target.contains(['*', '?'])
}
