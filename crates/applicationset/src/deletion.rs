//! Deletion of ApplicationSets and of Applications that are no longer generated.

use tidegate_application::deletion::{RESOURCES_FINALIZER, is_resources_finalizer};
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet, ObjectMeta};

use crate::deletion_order::{InvalidOrder, deletion_order};
use crate::ownership::{Owner, may_adopt, owned_applications, owner_of, without_owner};
use crate::references::{References, lost_cluster_reason};
use crate::sync_policy::{AppSetRuleOptions, allowed_changes, deletion_refusal};

/// Kubernetes finalizer for a deletion that keeps the dependents.
pub const ORPHAN_FINALIZER: &str = "orphan";
/// Kubernetes finalizer for a deletion that removes the dependents first. The garbage collector deletes all
/// of them at once.
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Maximum number of waiting Applications to list in a message.
const NAMED_MAX: usize = 5;

/// Application to delete.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberDeletion {
    /// The Application as observed. An object recreated under the same name isn't deleted.
    pub application: Application,
    /// Finalizers to set first to keep the objects, and the reason.
    pub orphaning: Option<Orphaning>,
}

/// Settings that keep an Application's objects when it is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphaning {
    /// Finalizers that remain on the Application.
    pub finalizers: Vec<String>,
    /// Reason for keeping the objects.
    pub reason: String,
}

impl MemberDeletion {
    /// Returns the deletion of an Application that belongs to an ApplicationSet.
    pub fn for_member(set: &ApplicationSet, application: &Application, known: &dyn References) -> Self {
        let finalizers = &application.metadata.finalizers;
        let lost = || {
            lost_cluster_reason(application, known).map(|reason| {
                format!(
                    "the Application's cluster no longer exists, so the objects cannot be deleted: {reason}"
                )
            })
        };
        let why = preservation_reason(set)
            .or_else(lost)
            .filter(|_| finalizers.iter().any(|one| is_resources_finalizer(one)));
        let keep = |why| {
            let rest = finalizers.iter().filter(|one| !is_resources_finalizer(one)).cloned();
            Orphaning { finalizers: rest.collect(), reason: why }
        };
        Self { application: application.clone(), orphaning: why.map(keep) }
    }
}

/// Returns the reason for keeping the objects of Applications that were created before
/// `preserveResourcesOnDeletion` was set. Explicit finalizers in the template or a patch take precedence.
pub(crate) fn preservation_reason(set: &ApplicationSet) -> Option<String> {
    let preserves = set.spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
    let is_silent = set.spec.template.metadata.finalizers.is_empty() && set.spec.template_patch.is_none();
    (preserves && is_silent)
        .then(|| "spec.syncPolicy.preserveResourcesOnDeletion keeps its objects".to_owned())
}

/// Next step in the deletion of an ApplicationSet.
#[derive(Clone, Debug, PartialEq)]
pub enum AppSetDeletionStep {
    /// Updates these Applications so that they outlive the ApplicationSet, then decides again.
    Release(Vec<Application>),
    /// Deletes these Applications step by step, in this order, and waits until all of them are gone. Those
    /// already being deleted are included.
    TearDown {
        /// Deletion order.
        order: Order,
        /// Applications to delete.
        members: Vec<MemberDeletion>,
    },
    /// Removes the ApplicationSet's finalizer, which completes its deletion. Kubernetes then garbage-collects
    /// the Applications or, without a garbage collector, Tidegate deletes them. Either way, Tidegate prepares
    /// their deletion first.
    Finish {
        /// Applications to prepare for deletion.
        members: Vec<MemberDeletion>,
    },
    /// The deletion order is invalid. The ApplicationSet is kept until the order is fixed.
    InvalidOrder(InvalidOrder),
}

/// Returns the reason Applications outlive their ApplicationSet, or `None` if they are deleted with it.
pub(crate) fn outlive_reason(set: &ApplicationSet, options: &AppSetRuleOptions) -> Option<String> {
    let is_orphaning = set.metadata.finalizers.iter().any(|one| one == ORPHAN_FINALIZER);
    let by_finalizer =
        || is_orphaning.then(|| format!("the ApplicationSet has the finalizer {ORPHAN_FINALIZER}"));
    deletion_refusal(set, options).or_else(by_finalizer)
}

/// Returns the next step in the deletion of an ApplicationSet. Any other activity, such as a progressive
/// sync, must finish first.
pub fn next_deletion_step(
    set: &ApplicationSet,
    existing: &[Application],
    known: &dyn References,
    options: &AppSetRuleOptions,
) -> AppSetDeletionStep {
    let own = || owned_applications(set, existing);
    if outlive_reason(set, options).is_some() {
        let free: Vec<_> = own().map(|one| without_ownership(set, one)).collect();
        return if free.is_empty() {
            AppSetDeletionStep::Finish { members: Vec::new() }
        } else {
            AppSetDeletionStep::Release(free)
        };
    }
    let order = match deletion_order(set) {
        Ok(order) => order,
        // No Applications are left, so their order doesn't matter.
        Err(_) if own().next().is_none() => Order::AllAtOnce,
        Err(invalid) => return AppSetDeletionStep::InvalidOrder(invalid),
    };
    let all = || own().map(|one| MemberDeletion::for_member(set, one, known));
    if order != Order::AllAtOnce && own().next().is_some() {
        return AppSetDeletionStep::TearDown { order, members: all().collect() };
    }
    let members = all().filter(|one| !one.application.is_deleting());
    AppSetDeletionStep::Finish { members: members.collect() }
}

/// Returns the order to record for deleting an ApplicationSet without a deletion order: its Applications are
/// either deleted all at once, or outlive it.
pub fn recorded_order(set: &ApplicationSet, options: &AppSetRuleOptions) -> Order {
    if outlive_reason(set, options).is_some() { Order::Orphaned } else { Order::Collected }
}

/// Returns the Applications to record for a deletion without an order: those that the ApplicationSet owns. If
/// they outlive it, that includes Applications that lost their owner reference before the controller noticed
/// the deletion. `existing` are the Applications in the ApplicationSet's namespace.
pub fn recorded_members<'a>(
    set: &ApplicationSet,
    existing: impl IntoIterator<Item = &'a Application>,
    options: &AppSetRuleOptions,
) -> Vec<&'a Application> {
    let is_outlived = outlive_reason(set, options).is_some();
    let is_departing = |one: &&Application| match owner_of(set, one) {
        Owner::AppSet => true,
        Owner::Unowned => is_outlived && may_adopt(set, one),
        Owner::Other(_) => false,
    };
    existing.into_iter().filter(is_departing).collect()
}

/// Returns the ApplicationSet's finalizers plus Tidegate's, or `None` if there is nothing to add. Without it,
/// the ApplicationSet could disappear and Kubernetes could delete its Applications before the controller
/// preserves them or determines the order. The finalizer stays until the ApplicationSet is deleted, even if
/// the strategy changes.
pub fn with_finalizer(set: &ApplicationSet, options: &AppSetRuleOptions) -> Option<Vec<String>> {
    let needs_one = controls_deletion(set, options);
    let present = &set.metadata.finalizers;
    let is_missing = !present.iter().any(|one| one == RESOURCES_FINALIZER);
    (needs_one && is_missing && set.metadata.deletion_timestamp.is_none())
        .then(|| present.iter().cloned().chain([RESOURCES_FINALIZER.to_owned()]).collect())
}

/// Returns true if the ApplicationSet controls how its Applications are deleted: it has an order or forbids
/// deletion.
pub fn controls_deletion(set: &ApplicationSet, options: &AppSetRuleOptions) -> bool {
    !matches!(deletion_order(set), Ok(Order::AllAtOnce)) || !allowed_changes(set, options).delete
}

/// Returns true if an Application was already being deleted before its ApplicationSet was.
pub fn is_deleted_earlier(set: &ApplicationSet, application: &Application) -> bool {
    let deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.map(|at| at.timestamp());
    deleted(&application.metadata).zip(deleted(&set.metadata)).is_some_and(|(one, all)| one < all)
}

/// Returns true if an ApplicationSet was deleted in the foreground, so that Kubernetes deletes its
/// Applications.
fn is_foreground_deletion(set: &ApplicationSet) -> bool {
    set.metadata.deletion_timestamp.is_some()
        && set.metadata.finalizers.iter().any(|one| one == FOREGROUND_FINALIZER)
}

/// Returns true if the garbage collector deleted an Application because of its ApplicationSet.
fn is_garbage_collected(set: &ApplicationSet, application: &Application) -> bool {
    is_foreground_deletion(set) && application.is_deleting() && !is_deleted_earlier(set, application)
}

/// Returns a copy of an Application that outlives its ApplicationSet. If Kubernetes is already deleting it,
/// only its objects do.
pub fn without_ownership(set: &ApplicationSet, application: &Application) -> Application {
    let mut free = without_owner(set, application);
    if is_garbage_collected(set, application) {
        free.metadata.finalizers.retain(|one| !is_resources_finalizer(one));
    }
    free
}

/// Returns a warning about an ApplicationSet that was deleted in the foreground although it has an order or
/// forbids deletion.
pub fn foreground_warning<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    options: &AppSetRuleOptions,
) -> Option<String> {
    if !is_foreground_deletion(set) || !controls_deletion(set, options) {
        return None;
    }
    let collected: Vec<_> = members.into_iter().filter(|one| is_garbage_collected(set, one)).collect();
    let mut names: Vec<_> = collected.iter().take(NAMED_MAX).map(|one| one.metadata.name.as_str()).collect();
    let more = collected.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    names.extend(more.as_deref());
    let names = if names.is_empty() { String::new() } else { format!(" ({} remain)", names.join(", ")) };
    let (what, instead) = match allowed_changes(set, options).delete {
        true => ("only their objects are deleted in order", "also deletes the Applications in order"),
        false => {
            ("their objects are kept, because the policy does not allow deletions", "keeps the Applications")
        }
    };
    Some(format!(
        "the ApplicationSet was deleted with `kubectl delete --cascade=foreground`, so Kubernetes deletes all of its Applications at once{names}; {what}. Without --cascade=foreground, a deletion {instead}"
    ))
}

/// Returns the remaining finalizers after an ApplicationSet's deletion, or `None` if there is nothing to
/// remove.
pub fn without_finalizer(set: &ApplicationSet) -> Option<Vec<String>> {
    let present = &set.metadata.finalizers;
    let rest: Vec<String> = present.iter().filter(|one| *one != RESOURCES_FINALIZER).cloned().collect();
    (rest.len() < present.len()).then_some(rest)
}
