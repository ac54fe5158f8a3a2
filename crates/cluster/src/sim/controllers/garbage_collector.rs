//! Garbage collection. Removes the dependents of deleted owners, and fully deleted objects.

use tidegate_model::{ObjectKey, Timestamp};

use crate::Propagation;
use crate::sim::SimState;
use crate::sim::delete::{FOREGROUND_FINALIZER, ORPHAN_FINALIZER};

/// Removes the object if necessary. If a finalizer or a dependent still blocks the removal, returns the time
/// of the next check.
pub(crate) fn collect_object(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    if stored.object.is_deleting() {
        if stored.object.has_finalizer(FOREGROUND_FINALIZER) {
            let uid = stored.object.uid().to_owned();
            delete_children(state, key, &uid);
        }
        if let Some(stored) = state.find(key).filter(|stored| stored.object.has_finalizer(ORPHAN_FINALIZER)) {
            let uid = stored.object.uid().to_owned();
            state.orphan_dependents(&uid);
            state.drop_finalizer(key, ORPHAN_FINALIZER);
        }
        state.remove_if_unblocked(key);
        return state.find(key).and_then(|stored| stored.held_until).filter(|until| *until > state.now);
    }
    if is_orphaned(state, key) {
        state.start_deletion(key, Propagation::Background);
    }
    None
}

/// Deletes the dependents first, and then releases the owner.
fn delete_children(state: &mut SimState, key: &ObjectKey, uid: &str) {
    let children: Vec<(ObjectKey, bool)> =
        state.children(uid).map(|(key, stored)| (key.clone(), stored.object.is_deleting())).collect();
    if children.is_empty() {
        state.drop_finalizer(key, FOREGROUND_FINALIZER);
    }
    for (child, _) in children.into_iter().filter(|(_, deleting)| !deleting) {
        state.start_deletion(&child, Propagation::Foreground);
    }
}

/// Returns true if an object has owner references but no owner still exists.
fn is_orphaned(state: &SimState, key: &ObjectKey) -> bool {
    let Some(stored) = state.find(key) else { return false };
    let owners = state.owners(&stored.object);
    let alive = |owner: &crate::sim::read::OwnerReference| {
        state.find(&owner.key).is_some_and(|found| found.object.uid() == owner.uid)
    };
    !owners.is_empty() && !owners.iter().any(alive)
}
