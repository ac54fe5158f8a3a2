//! The namespace controller, which empties a deleted namespace and then removes it.

use tidegate_model::{ObjectKey, Timestamp};

use crate::Propagation;
use crate::sim::SimState;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    if !state.find(key)?.object.is_deleting() {
        return None;
    }
    if state.index.object_count(&key.name) == 0 {
        let mut object = (*state.find(key)?.object).clone();
        object.section_mut("spec").remove("finalizers");
        state.update(key, object, false);
        state.remove_if_unblocked(key);
        return None;
    }
    let inside =
        state.objects.iter().filter(|other| other.key.namespace == key.name && !other.object.is_deleting());
    let inside: Vec<ObjectKey> = inside.map(|other| other.key.clone()).collect();
    for other in inside {
        state.start_deletion(&other, Propagation::Background);
    }
    None
}
