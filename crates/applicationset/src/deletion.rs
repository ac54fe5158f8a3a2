//! What becomes of Applications that go, and what is done when their set goes?

use tidegate_application::deletion::{RESOURCES_FINALIZER, is_resources_finalizer};
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet, ObjectMeta};

use crate::known::{Known, lost_cluster};
use crate::order::{InvalidOrder, order};
use crate::ownership::{Owner, may_adopt, members, owner, released};
use crate::policy::{Options, allowed, why_kept};

/// Kubernetes' own word for a set whose Applications are to outlive it.
pub const ORPHAN: &str = "orphan";
/// And for one that goes after them: its garbage collector deletes all of them at once.
const FOREGROUND: &str = "foregroundDeletion";
/// So many Applications are named that wait for their turn.
const NAMED_MAX: usize = 5;

/// An Application that is to be deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// It, as it was looked at: no other of its name is meant.
    pub application: Application,
    /// Before that it is to have these finalizers, so that its objects stay, and why.
    pub before: Option<Orphaned>,
}

/// An Application whose objects stay when it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphaned {
    /// The finalizers it keeps.
    pub finalizers: Vec<String>,
    /// Why its objects stay.
    pub why: String,
}

impl Deletion {
    /// The deletion of an Application of a set.
    pub fn of(set: &ApplicationSet, application: &Application, known: &dyn Known) -> Self {
        let finalizers = &application.metadata.finalizers;
        let lost = || {
            lost_cluster(application, known).map(|reason| {
                format!("its cluster is not there any more, and its objects cannot be deleted: {reason}")
            })
        };
        let why =
            preserved(set).or_else(lost).filter(|_| finalizers.iter().any(|one| is_resources_finalizer(one)));
        let keep = |why| {
            let rest = finalizers.iter().filter(|one| !is_resources_finalizer(one)).cloned();
            Orphaned { finalizers: rest.collect(), why }
        };
        Self { application: application.clone(), before: why.map(keep) }
    }
}

/// Whether objects stay though an Application may still say otherwise: one that was made before the set said so. What a
/// template or a patch says itself of finalizers counts more.
pub(crate) fn preserved(set: &ApplicationSet) -> Option<String> {
    let preserves = set.spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
    let is_silent = set.spec.template.metadata.finalizers.is_empty() && set.spec.template_patch.is_none();
    (preserves && is_silent)
        .then(|| "spec.syncPolicy.preserveResourcesOnDeletion keeps its objects".to_owned())
}

/// What is done next for a set that is being deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// These Applications are to outlive the set: they are written like this, and then it is looked at again.
    Release(Vec<Application>),
    /// These go step after step, in this order; nothing else happens before all of them are gone. Those that are on their way already are among them.
    TearDown {
        /// The order.
        order: Order,
        /// The Applications.
        members: Vec<Deletion>,
    },
    /// The finalizer of the set goes, and the set with it. Kubernetes deletes then what the set has owned; where nobody
    /// does, these are deleted. What is to be done before their deletion is done before in any case.
    Finish {
        /// The Applications.
        members: Vec<Deletion>,
    },
    /// The set stays, until somebody mends it.
    Stay(InvalidOrder),
}

/// Why the Applications of a set outlive it; `None` where they go with it.
pub(crate) fn why_outlived(set: &ApplicationSet, options: &Options) -> Option<String> {
    let is_orphaning = set.metadata.finalizers.iter().any(|one| one == ORPHAN);
    let by_finalizer = || is_orphaning.then(|| format!("the set has the finalizer {ORPHAN}"));
    why_kept(set, options).or_else(by_finalizer)
}

/// What is done next for a set that is being deleted. Whatever else is done for it, such as a progressive sync, ends first.
pub fn deleting(
    set: &ApplicationSet,
    existing: &[Application],
    known: &dyn Known,
    options: &Options,
) -> Next {
    let own = || members(set, existing);
    if why_outlived(set, options).is_some() {
        let free: Vec<_> = own().map(|one| outliving(set, one)).collect();
        return if free.is_empty() { Next::Finish { members: Vec::new() } } else { Next::Release(free) };
    }
    let order = match order(set) {
        Ok(order) => order,
        // There is nothing left to be put into an order.
        Err(_) if own().next().is_none() => Order::AllAtOnce,
        Err(invalid) => return Next::Stay(invalid),
    };
    let all = || own().map(|one| Deletion::of(set, one, known));
    if order != Order::AllAtOnce && own().next().is_some() {
        return Next::TearDown { order, members: all().collect() };
    }
    let members = all().filter(|one| !one.application.is_deleting());
    Next::Finish { members: members.collect() }
}

/// What is recorded of the deletion of a set that waits for no order: its Applications go with it all at once, or outlive it.
pub fn witnessed(set: &ApplicationSet, options: &Options) -> Order {
    if why_outlived(set, options).is_some() { Order::Orphaned } else { Order::Collected }
}

/// The Applications of which that tells, of those of its namespace: its own; and of those that outlive it also what Kubernetes has
/// taken from it before it was seen to go.
pub fn departing<'a>(
    set: &ApplicationSet,
    existing: impl IntoIterator<Item = &'a Application>,
    options: &Options,
) -> Vec<&'a Application> {
    let is_outlived = why_outlived(set, options).is_some();
    let is_departing = |one: &&Application| match owner(set, one) {
        Owner::Set => true,
        Owner::Nobody => is_outlived && may_adopt(set, one),
        Owner::Other(_) => false,
    };
    existing.into_iter().filter(is_departing).collect()
}

/// The finalizers of a set, where it needs one more: without it the set would be gone, and Kubernetes delete its
/// Applications, before anybody could keep them or their order. It stays until the set is deleted, whatever becomes of the
/// strategy.
pub fn finalizers(set: &ApplicationSet, options: &Options) -> Option<Vec<String>> {
    let needs_one = is_ordered(set, options);
    let present = &set.metadata.finalizers;
    let is_missing = !present.iter().any(|one| one == RESOURCES_FINALIZER);
    (needs_one && is_missing && set.metadata.deletion_timestamp.is_none())
        .then(|| present.iter().cloned().chain([RESOURCES_FINALIZER.to_owned()]).collect())
}

/// Whether it is the set that says when its Applications are deleted: it has an order, or does not allow it.
pub fn is_ordered(set: &ApplicationSet, options: &Options) -> bool {
    !matches!(order(set), Ok(Order::AllAtOnce)) || !allowed(set, options).delete
}

/// Whether an Application was being deleted before its set was.
pub fn was_before(set: &ApplicationSet, application: &Application) -> bool {
    let deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.map(|at| at.moment());
    deleted(&application.metadata).zip(deleted(&set.metadata)).is_some_and(|(one, all)| one < all)
}

/// Whether a set was deleted in the foreground, by which Kubernetes deletes its Applications.
fn is_in_foreground(set: &ApplicationSet) -> bool {
    set.metadata.deletion_timestamp.is_some() && set.metadata.finalizers.iter().any(|one| one == FOREGROUND)
}

/// Whether an Application was deleted because its set was, though that does not say so.
fn is_collected(set: &ApplicationSet, application: &Application) -> bool {
    is_in_foreground(set) && application.is_deleting() && !was_before(set, application)
}

/// An Application that outlives its set; or, where Kubernetes has deleted it all the same, whose objects do.
pub fn outliving(set: &ApplicationSet, application: &Application) -> Application {
    let mut free = released(set, application);
    if is_collected(set, application) {
        free.metadata.finalizers.retain(|one| !is_resources_finalizer(one));
    }
    free
}

/// What is said of a set that was deleted in the foreground though it has an order, or does not allow deletions.
pub fn warning<'a>(
    set: &ApplicationSet,
    members: impl IntoIterator<Item = &'a Application>,
    options: &Options,
) -> Option<String> {
    if !is_in_foreground(set) || !is_ordered(set, options) {
        return None;
    }
    let collected: Vec<_> = members.into_iter().filter(|one| is_collected(set, one)).collect();
    let mut names: Vec<_> = collected.iter().take(NAMED_MAX).map(|one| one.metadata.name.as_str()).collect();
    let more = collected.len().saturating_sub(NAMED_MAX);
    let more = (more > 0).then(|| format!("{more} more"));
    names.extend(more.as_deref());
    let names = if names.is_empty() { String::new() } else { format!(" ({} are left)", names.join(", ")) };
    let (what, instead) = match allowed(set, options).delete {
        true => ("the objects of each go when its turn in the order has come", "keeps their order, too"),
        false => ("their objects stay, as the policy allows no deletion", "keeps them"),
    };
    Some(format!(
        "it was deleted with --cascade=foreground, so Kubernetes deletes all of its Applications at once{names}; {what}. Without --cascade=foreground, a deletion {instead}"
    ))
}

/// The finalizers of a set that is done with, where one of them goes.
pub fn finished(set: &ApplicationSet) -> Option<Vec<String>> {
    let present = &set.metadata.finalizers;
    let rest: Vec<String> = present.iter().filter(|one| *one != RESOURCES_FINALIZER).cloned().collect();
    (rest.len() < present.len()).then_some(rest)
}
