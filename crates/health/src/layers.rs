//! Layers of rules. The first layer with a rule for an object wins.

use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Evidence, Health, Object, Observation, ObservedState, Timestamp};

use crate::builtin::{self, EvidenceKind};
use crate::code_rules::code_rule;
use crate::deletion_blockers::deletion_blockers;
use crate::status_convention::{self, ConventionSetting};
use crate::text::{MESSAGE_BYTES_MAX, shorten};
use crate::verdict::{Verdict, progressing};
use crate::{HealthError, generation, grace_period};

/// Origin of the rule for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Rule defined by the user.
    User,
    /// Built-in rule.
    BuiltIn,
    /// General convention for the status of custom resources.
    Convention,
}

impl Layer {
    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::BuiltIn => "built-in",
            Self::Convention => "convention",
        }
    }
}

/// Health of an object, and the data behind its evidence.
#[derive(Debug)]
pub(crate) struct LayeredHealth {
    pub verdict: Option<Verdict>,
    /// Generation of the conditions behind the health.
    generation: Option<i64>,
    /// True if the convention applies but couldn't determine the health.
    is_undetermined: bool,
    /// True if the object turns Degraded only after the grace period.
    has_grace_period: bool,
    /// Time when the health changes even if the object doesn't.
    pub changes_at: Option<Timestamp>,
}

impl LayeredHealth {
    fn from_verdict(verdict: Option<Verdict>) -> Self {
        Self { verdict, generation: None, is_undetermined: false, has_grace_period: false, changes_at: None }
    }
}

/// Returns the layer for a kind without a user rule, or `None` if the table says that the kind has no health
/// status.
pub(crate) fn layer_of_kind(group: &str, kind: &str, convention: bool) -> Option<Layer> {
    if code_rule(group, kind).is_some() {
        return Some(Layer::BuiltIn);
    }
    match builtin::find_row(group, kind) {
        Some(row) => row.clauses.iter().any(|clause| clause.status.is_some()).then_some(Layer::BuiltIn),
        None => (convention && status_convention::applies_to_kind(group, kind)).then_some(Layer::Convention),
    }
}

/// Returns true if the convention may apply to an object without any other rule.
pub(crate) fn can_follow_convention(object: &Object, convention: bool) -> bool {
    convention
        && status_convention::applies_to_kind(object.group(), object.kind())
        && status_convention::convention_setting(object) != ConventionSetting::Off
}

/// Returns the health of an object. User rules take precedence.
pub(crate) fn assess_layers(
    object: &Object,
    user: impl FnOnce(&Object) -> Option<Verdict>,
    convention: bool,
    now: Timestamp,
) -> LayeredHealth {
    let mut finding = if object.is_deleting() && !object.has_finalizer(HOOK_FINALIZER) {
        LayeredHealth::from_verdict(Some(progressing("Pending deletion")))
    } else if let Some(verdict) = user(object) {
        LayeredHealth::from_verdict(Some(verdict))
    } else {
        assess_without_user_rules(object, convention)
    };
    if let Some(Ok(health)) = &mut finding.verdict {
        if finding.has_grace_period {
            finding.changes_at = grace_period::apply_grace_period(object, health, now);
        }
        health.message = shorten(std::mem::take(&mut health.message), MESSAGE_BYTES_MAX);
    }
    finding
}

fn assess_without_user_rules(object: &Object, convention: bool) -> LayeredHealth {
    if let Some(rule) = code_rule(object.group(), object.kind()) {
        return LayeredHealth {
            has_grace_period: grace_period::has_grace_period(object),
            ..LayeredHealth::from_verdict(Some(rule(object)))
        };
    }
    if let Some(row) = builtin::find_row(object.group(), object.kind()) {
        let judged = builtin::assess_row(row, object);
        let (generation, late) = (judged.generation, judged.has_grace_period);
        return LayeredHealth {
            generation,
            has_grace_period: late,
            ..LayeredHealth::from_verdict(judged.health.map(Ok))
        };
    }
    if can_follow_convention(object, convention) {
        let judged = status_convention::assess_by_convention(object);
        let (generation, open) = (judged.generation, judged.health.is_none());
        return LayeredHealth {
            generation,
            is_undetermined: open,
            ..LayeredHealth::from_verdict(judged.health.map(Ok))
        };
    }
    LayeredHealth::from_verdict(None)
}

/// Returns the evidence that the object's status is about the newest spec.
///
/// - For kinds with controllers that always write the observed generation: that generation, or 0 if it is
///   missing.
/// - For kinds with a status about the whole object rather than a version of its spec: identity. For example,
///   a Job runs only one template, and a claim is bound only once.
/// - For all other kinds: the generation if the status has it, or identity if the object has only ever had
///   one spec (generation 1). Otherwise there is no evidence, so operations just wait for some time.
///
/// The evidence shows whether a health result can be *trusted*. For kinds without a health rule,
/// the value is meaningless, and gates must not wait for it.
pub fn evidence(object: &Object) -> Evidence {
    evidence_for_condition(object, None)
}

/// Returns the evidence. `condition` is the generation of the conditions behind the health.
fn evidence_for_condition(object: &Object, condition: Option<i64>) -> Evidence {
    let observed = generation::observed_generation(object).or(condition);
    let proof = match (object.group(), object.kind()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("policy", "PodDisruptionBudget") => EvidenceKind::Generation,
        ("batch", "Job" | "CronJob")
        | ("", "Pod" | "PersistentVolumeClaim" | "Service")
        | ("networking.k8s.io" | "extensions", "Ingress")
        | ("argoproj.io", "Workflow") => EvidenceKind::Once,
        (group, kind) => builtin::find_row(group, kind).map(|row| row.evidence).unwrap_or_default(),
    };
    match (proof, observed) {
        (EvidenceKind::Once, _) => Evidence::Identity,
        (EvidenceKind::Generation, observed) => Evidence::ObservedGeneration(observed.unwrap_or(0)),
        (EvidenceKind::IfPresent, Some(generation)) => Evidence::ObservedGeneration(generation),
        (EvidenceKind::IfPresent, None) if object.generation() == 1 => Evidence::Identity,
        (EvidenceKind::IfPresent, None) => Evidence::None,
    }
}

/// Returns the observation of an object, with its health, for the state machine.
pub(crate) fn to_observation(object: &Object, at: Timestamp, finding: LayeredHealth) -> Observation {
    let unjudged = match &finding.verdict {
        None | Some(Ok(_)) => false,
        Some(Err(error)) => !matches!(error, HealthError::NoStatus { .. }),
    };
    let silent =
        if finding.is_undetermined { status_convention::provisional_health(object, at) } else { None };
    let evidence = match silent {
        Some(_) => Evidence::None,
        None => evidence_for_condition(object, finding.generation),
    };
    let seen = ObservedState::Present {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        generation: object.generation(),
        deleting: object.is_deleting(),
        kept_by: deletion_blockers(object),
        health: finding.verdict.map(|verdict| verdict.unwrap_or_else(Health::from)).or(silent),
        unjudged,
        evidence,
    };
    Observation { at, seen }
}
