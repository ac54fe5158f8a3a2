//! Three layers of rules; the first that is for an object judges it.

use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Evidence, Health, Object, Observation, Observed, Timestamp};

use crate::builtin::{self, Proof};
use crate::convention::{self, Wish};
use crate::kinds::rule;
use crate::leaving::kept_by;
use crate::text::{MESSAGE_BYTES_MAX, shorten};
use crate::verdict::{Verdict, progressing};
use crate::{HealthError, generation};

/// Who says how well an object does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// A rule of the user.
    User,
    /// A rule that comes with us.
    BuiltIn,
    /// The general convention for the status of custom resources.
    Convention,
}

impl Layer {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::BuiltIn => "built-in",
            Self::Convention => "convention",
        }
    }
}

/// A verdict, and what it rests on.
#[derive(Debug)]
pub(crate) struct Finding {
    pub verdict: Option<Verdict>,
    /// The generation the verdict is about, as far as the conditions tell that it rests on.
    generation: Option<i64>,
    /// The convention was asked and found nothing.
    open: bool,
}

impl Finding {
    fn of(verdict: Option<Verdict>) -> Self {
        Self { verdict, generation: None, open: false }
    }
}

/// Which of the layers after the user's judges a kind. What the table says has no health is not judged at all.
pub(crate) fn layer(group: &str, kind: &str, convention: bool) -> Option<Layer> {
    if rule(group, kind).is_some() {
        return Some(Layer::BuiltIn);
    }
    match builtin::find(group, kind) {
        Some(row) => row.clauses.iter().any(|clause| clause.status.is_some()).then_some(Layer::BuiltIn),
        None => (convention && convention::is_for(group, kind)).then_some(Layer::Convention),
    }
}

/// Whether the convention may judge an object, if nothing else does.
pub(crate) fn may_follow_convention(object: &Object, convention: bool) -> bool {
    convention && convention::is_for(object.group(), object.kind()) && convention::wish(object) != Wish::Off
}

/// Judges an object; the user's rules first.
pub(crate) fn judge(
    object: &Object,
    user: impl FnOnce(&Object) -> Option<Verdict>,
    convention: bool,
) -> Finding {
    let mut finding = if object.is_deleting() && !object.has_finalizer(HOOK_FINALIZER) {
        Finding::of(Some(progressing("Pending deletion")))
    } else if let Some(verdict) = user(object) {
        Finding::of(Some(verdict))
    } else {
        without_user(object, convention)
    };
    if let Some(Ok(health)) = &mut finding.verdict {
        health.message = shorten(std::mem::take(&mut health.message), MESSAGE_BYTES_MAX);
    }
    finding
}

fn without_user(object: &Object, convention: bool) -> Finding {
    if let Some(rule) = rule(object.group(), object.kind()) {
        return Finding::of(Some(rule(object)));
    }
    if let Some(row) = builtin::find(object.group(), object.kind()) {
        let judged = builtin::judge(row, object);
        return Finding { verdict: judged.health.map(Ok), generation: judged.generation, open: false };
    }
    if may_follow_convention(object, convention) {
        let judged = convention::judge(object);
        let open = judged.health.is_none();
        return Finding { verdict: judged.health.map(Ok), generation: judged.generation, open };
    }
    Finding::of(None)
}

/// What proves that the object's status speaks about the newest spec.
///
/// - Kinds whose controllers write the generation they have seen: that generation, 0 while they have written none.
/// - Kinds whose status is about this very object and not about a version of its spec (a Job runs one template, a
///   claim is bound once): identity.
/// - Any other kind: the generation if its status names one; identity while the object has had a single spec
///   (generation 1); else nothing, and only time can settle it.
///
/// Evidence says whether to *believe* a verdict. For a kind without a health rule there is no verdict to believe, and
/// the value returned here means nothing: a gate must not wait for it.
pub fn evidence(object: &Object) -> Evidence {
    evidence_with(object, None)
}

/// `condition`: the generation of the conditions a verdict rests on.
fn evidence_with(object: &Object, condition: Option<i64>) -> Evidence {
    let observed = generation::observed(object).or(condition);
    let proof = match (object.group(), object.kind()) {
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("policy", "PodDisruptionBudget") => Proof::Generation,
        ("batch", "Job" | "CronJob")
        | ("", "Pod" | "PersistentVolumeClaim" | "Service")
        | ("networking.k8s.io" | "extensions", "Ingress")
        | ("argoproj.io", "Workflow") => Proof::Once,
        (group, kind) => builtin::find(group, kind).map(|row| row.proof).unwrap_or_default(),
    };
    match (proof, observed) {
        (Proof::Once, _) => Evidence::Identity,
        (Proof::Generation, observed) => Evidence::ObservedGeneration(observed.unwrap_or(0)),
        (Proof::Found, Some(generation)) => Evidence::ObservedGeneration(generation),
        (Proof::Found, None) if object.generation() == 1 => Evidence::Identity,
        (Proof::Found, None) => Evidence::None,
    }
}

/// An object with its verdict, as the state machine is told.
pub(crate) fn present(object: &Object, at: Timestamp, finding: Finding) -> Observation {
    let unjudged = match &finding.verdict {
        None | Some(Ok(_)) => false,
        Some(Err(error)) => !matches!(error, HealthError::NoStatus { .. }),
    };
    let silent = if finding.open { convention::until_it_speaks(object, at) } else { None };
    let evidence = match silent {
        Some(_) => Evidence::None,
        None => evidence_with(object, finding.generation),
    };
    let seen = Observed::Present {
        uid: object.uid().to_owned(),
        resource_version: object.resource_version().to_owned(),
        generation: object.generation(),
        deleting: object.is_deleting(),
        kept_by: kept_by(object),
        health: finding.verdict.map(|verdict| verdict.unwrap_or_else(Health::from)).or(silent),
        unjudged,
        evidence,
    };
    Observation { at, seen }
}
