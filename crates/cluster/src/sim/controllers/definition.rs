//! A custom resource definition is established a moment after it came, and takes its objects along when it goes.

use std::time::Duration;

use serde_json::json;
use tidegate_model::{ObjectKey, Timestamp};

use crate::Propagation;
use crate::sim::SimState;
use crate::sim::behaviour::{Behaviour, Outcome};
use crate::sim::delete::CLEANUP;
use crate::sim::json::{condition, has_condition};

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?;
    if stored.object.is_deleting() {
        clean_up(state, key);
        return None;
    }
    let behaviour = Behaviour::of(&stored.object);
    // Whoever writes a definition waits for it, and so hears of names that are taken.
    let is_refused = matches!(behaviour.outcome, Some(Outcome::Fail | Outcome::CrashLoop));
    let soon = if is_refused { Duration::ZERO } else { state.config.reaction };
    let at = stored.created_at + behaviour.ready_after.unwrap_or(soon);
    if has_condition(&stored.object, "Established", "True") {
        return None;
    }
    if at > state.now {
        return Some(at);
    }
    let object = stored.object.clone();
    let now = state.timestamp();
    let conditions = match behaviour.outcome {
        Some(Outcome::Fail | Outcome::CrashLoop) => json!([
            condition(
                &object,
                "NamesAccepted",
                "False",
                "KindConflict",
                "the simulation was told to refuse it",
                &now
            ),
            condition(&object, "Established", "False", "NotAccepted", "not all names are accepted", &now),
        ]),
        Some(Outcome::NeverReady) => json!([
            condition(&object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
            condition(
                &object,
                "Established",
                "False",
                "Installing",
                "the initial names have been accepted",
                &now
            ),
        ]),
        _ => json!([
            condition(&object, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now),
            condition(
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

fn clean_up(state: &mut SimState, key: &ObjectKey) {
    let objects: Vec<(ObjectKey, bool)> = state.served_by(key).map_or_else(Vec::new, |kind| {
        state.of_kind(&kind).map(|(key, stored)| (key.clone(), stored.object.is_deleting())).collect()
    });
    if objects.is_empty() {
        state.drop_finalizer(key, CLEANUP);
    }
    for (object, _) in objects.into_iter().filter(|(_, deleting)| !deleting) {
        state.begin_delete(&object, Propagation::Background);
    }
}
