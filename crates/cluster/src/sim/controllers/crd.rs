//! The controller for custom resource definitions. It establishes a definition shortly after its creation.
//! When a definition is deleted, it also deletes all objects of the defined kind.

use std::time::Duration;

use serde_json::json;
use tidegate_model::{ObjectKey, Timestamp};

use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behavior::{Behavior, Outcome};
use crate::sim::delete::CLEANUP_FINALIZER;
use crate::sim::json::{build_condition, has_condition};

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    if stored.object.is_deleting() {
        delete_custom_objects(state, key);
        return None;
    }
    let behavior = Behavior::from_object(&stored.object);
    // Report a name conflict immediately. Clients that wait for the definition notice it, too.
    let is_refused = matches!(behavior.outcome, Some(Outcome::Fail | Outcome::CrashLoop));
    let soon = if is_refused { Duration::ZERO } else { state.config.reaction };
    let at = stored.created_at + behavior.ready_after.unwrap_or(soon);
    if has_condition(&stored.object, "Established", "True") {
        return None;
    }
    if at > state.now {
        return Some(at);
    }
    let object = stored.object.clone();
    let now = state.timestamp();
    let conditions = match behavior.outcome {
        Some(Outcome::Fail | Outcome::CrashLoop) => json!([
            build_condition(
                &object,
                "NamesAccepted",
                "False",
                "KindConflict",
                "the simulation is configured to refuse this definition",
                &now
            ),
            build_condition(
                &object,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                &now
            ),
        ]),
        Some(Outcome::NeverReady) => json!([
            build_condition(&object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
            build_condition(
                &object,
                "Established",
                "False",
                "Installing",
                "the initial names have been accepted",
                &now
            ),
        ]),
        _ => json!([
            build_condition(&object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
            build_condition(
                &object,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                &now
            ),
        ]),
    };
    let names = object.pointer("/spec/names").cloned();
    state.set_status(
        key,
        json!({"conditions": conditions, "acceptedNames": names, "storedVersions": stored_versions(&object)}),
    );
    None
}

fn stored_versions(definition: &tidegate_model::Object) -> Vec<serde_json::Value> {
    let versions = crate::sim::json::list_at(definition, "/spec/versions");
    versions
        .iter()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect()
}

fn delete_custom_objects(state: &mut SimState, key: &ObjectKey) {
    let objects: Vec<(ObjectKey, bool)> = state.kinds.kind_served_by(key).map_or_else(Vec::new, |kind| {
        state.objects_of_kind(&kind).map(|(key, stored)| (key.clone(), stored.object.is_deleting())).collect()
    });
    if objects.is_empty() {
        state.drop_finalizer(key, CLEANUP_FINALIZER);
    }
    for (object, _) in objects.into_iter().filter(|(_, deleting)| !deleting) {
        state.start_deletion(&object, Propagation::Background);
    }
}
