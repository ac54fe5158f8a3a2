//! What goes because something else went: dependents of deleted owners, objects whose deletion is complete.

use tidegate_model::{ObjectKey, Timestamp};

use crate::Propagation;
use crate::sim::SimState;
use crate::sim::delete::{FOREGROUND, ORPHAN};

/// Removes the object if it has to go. Returns when to look again while something keeps it.
pub(crate) fn collect(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    if stored.object.is_deleting() {
        if stored.object.has_finalizer(FOREGROUND) {
            let uid = stored.object.uid().to_owned();
            delete_children(state, key, &uid);
        }
        if let Some(stored) = state.find(key).filter(|stored| stored.object.has_finalizer(ORPHAN)) {
            let uid = stored.object.uid().to_owned();
            state.orphan(&uid);
            state.drop_finalizer(key, ORPHAN);
        }
        state.finish_if_done(key);
        return state.find(key).and_then(|stored| stored.held_until).filter(|until| *until > state.now);
    }
    if is_abandoned(state, key) {
        state.begin_delete(key, Propagation::Background);
    }
    None
}

/// The dependents go first; then the owner is let go.
fn delete_children(state: &mut SimState, key: &ObjectKey, uid: &str) {
    let children: Vec<(ObjectKey, bool)> =
        state.children(uid).map(|(key, stored)| (key.clone(), stored.object.is_deleting())).collect();
    if children.is_empty() {
        state.drop_finalizer(key, FOREGROUND);
    }
    for (child, _) in children.into_iter().filter(|(_, deleting)| !deleting) {
        state.begin_delete(&child, Propagation::Foreground);
    }
}

/// Whether an object names owners, and none of them is there any more.
fn is_abandoned(state: &SimState, key: &ObjectKey) -> bool {
    let Some(stored) = state.find(key) else { return false };
    let owners = state.owners(&stored.object);
    let alive = |owner: &crate::sim::read::Owner| {
        state.find(&owner.key).is_some_and(|found| found.object.uid() == owner.uid)
    };
    !owners.is_empty() && !owners.iter().any(alive)
}
