//! What the deletion of an application would do, for whoever is about to ask for it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_application::hook_finalizers;
use tidegate_model::argo::ResourceStatus;

use super::applications::{named, one};
use crate::problem::Problem;
use crate::route::{Call, Route, look};

/// The row of the table that is about it.
pub(super) fn routes() -> Vec<Route> {
    vec![look(
        (
            "/api/v1/applications/{namespace}/{name}/deletion",
            "planApplicationDeletion",
            "What would be deleted with an application, in which order, as far as is known",
        ),
        preview,
    )]
}

/// What the deletion of an application would do.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApplicationDeletion {
    /// The document that it is written down in is removed from the folder that is served.
    removes_file: bool,
    /// Hooks of these phases run, where its objects do not stay alone: `PreDelete` before all, `PostDelete` after all.
    hooks: Vec<String>,
    /// Its objects, by wave, in the order in which they go.
    waves: Vec<DeletedWave>,
}

/// Objects that go at once.
#[derive(Debug, Serialize, JsonSchema)]
struct DeletedWave {
    /// The number of the wave.
    wave: i64,
    /// The objects.
    objects: Vec<DeletedObject>,
}

/// An object that goes.
#[derive(Debug, Serialize, JsonSchema)]
struct DeletedObject {
    /// API group, empty for the core API.
    group: String,
    /// `kind` of the object.
    kind: String,
    /// Its namespace, empty for cluster-scoped objects.
    namespace: String,
    /// Its name.
    name: String,
}

async fn preview(call: Call) -> Result<ApplicationDeletion, Problem> {
    let (serving, application) = one(&call).await?;
    let mut waves: BTreeMap<i64, Vec<DeletedObject>> = BTreeMap::new();
    for ResourceStatus { group, kind, namespace, name, hook, sync_wave, .. } in application.status.resources {
        if !hook {
            let object = DeletedObject { group, kind, namespace, name };
            waves.entry(sync_wave).or_default().push(object);
        }
    }
    let waves = waves.into_iter().rev().map(|(wave, objects)| DeletedWave { wave, objects }).collect();
    let hooks = hook_finalizers::asked(&application.metadata.finalizers);
    Ok(ApplicationDeletion {
        removes_file: serving.is_in_file(&named(&call))?,
        hooks: hooks.iter().map(ToString::to_string).collect(),
        waves,
    })
}
