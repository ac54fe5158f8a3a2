//! What would become of each Application, were this generated? The comparison answers that the service makes, and nothing is
//! done.

mod fields;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_application::credentials::shown;
use tidegate_model::HealthStatus;
use tidegate_model::argo::{Application, ApplicationDestination, ApplicationSet, SyncStatusCode};

use crate::changes::{Changes, Generated, Left, reconcile};
use crate::known::{Known, NoCluster};
use crate::ownership::{Owner, beside, owner};
use crate::policy::Options;

pub use fields::FieldChange;

/// What would become of the Applications of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Foreseen {
    /// Those that are generated, by name.
    pub members: BTreeMap<String, Change>,
    /// Those that would be deleted, because they are not generated any more.
    pub removed: Vec<Application>,
    /// Those that are not generated any more, and stay; with the reason.
    pub held: BTreeMap<String, String>,
    /// What is wrong with the set: it keeps some of this from being done.
    pub wrong: Vec<String>,
}

/// What would become of an Application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// In a word.
    pub what: What,
    /// Why it is left alone; absent where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The fields of it that would change.
    pub fields: Vec<FieldChange>,
    /// How it stands now; absent for one that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<Standing>,
}

/// What would become of an Application, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum What {
    /// It would be made.
    Created,
    /// It would have other fields, or deploy another revision.
    Changed,
    /// It is as it should be.
    Unchanged,
    /// It would be left as it is, though it is not as it should be.
    LeftAlone,
}

/// How an Application stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// The revisions that were deployed last, one a source; none where nothing was.
    pub deployed: Vec<String>,
    /// Whether the cluster is as the manifests want it.
    pub sync: SyncStatusCode,
    /// How well it does; absent where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthStatus>,
    /// `sync` and `outOfSync` are about what it would be brought to, and not about something before.
    pub is_of_target: bool,
    /// So many of its resources are not as its manifests want them.
    pub out_of_sync: usize,
    /// So many are compared.
    pub resources: usize,
}

/// Takes every project and cluster to be there: the service, which knows, refuses those that are not.
struct Any;

impl Known for Any {
    fn has_project(&self, _: &str) -> bool {
        true
    }

    fn destination(&self, _: &ApplicationDestination) -> Result<(), NoCluster> {
        Ok(())
    }
}

/// What would become of the Applications that are there, and of those that are generated. Who shows them has taken the
/// credentials out of their addresses; so it is done here with what is generated, and no change of credentials is seen.
/// `targets`: the revisions that each would deploy, where they are known.
pub fn foresee(
    set: &ApplicationSet,
    generated: &Generated,
    existing: &[Application],
    targets: &BTreeMap<&str, Vec<String>>,
    options: &Options,
) -> Foreseen {
    foresee_with(set, generated, existing, targets, (&Any, options))
}

/// The same, for who knows which projects and clusters there are.
pub fn foresee_with(
    set: &ApplicationSet,
    generated: &Generated,
    existing: &[Application],
    targets: &BTreeMap<&str, Vec<String>>,
    (known, options): (&dyn Known, &Options),
) -> Foreseen {
    let bare = |(name, one): (&String, &Application)| (name.clone(), shown(one));
    let applications: BTreeMap<String, Application> = generated.applications.iter().map(bare).collect();
    let generated = Generated { applications, ..generated.clone() };
    let existing: Vec<Application> = existing.iter().map(shown).collect();
    let changes = reconcile(set, Ok(&generated), &existing, known, options);
    let there: BTreeMap<&str, &Application> =
        beside(set, &existing).map(|one| (one.metadata.name.as_str(), one)).collect();
    let mut foreseen = Foreseen {
        wrong: changes.wrong.iter().map(ToString::to_string).collect(),
        removed: changes.delete.iter().map(|one| one.application.clone()).collect(),
        ..Foreseen::default()
    };
    for name in generated.applications.keys().chain(generated.refused.keys()) {
        let target = targets.get(name.as_str()).map(Vec::as_slice);
        let change = change(&changes, name, there.get(name.as_str()).copied(), target);
        foreseen.members.insert(name.clone(), change);
    }
    let is_member = |name: &&str| there.get(*name).is_some_and(|one| owner(set, one) == Owner::Set);
    for (name, left) in &changes.left {
        if !foreseen.members.contains_key(name) && is_member(&name.as_str()) {
            foreseen.held.insert(name.clone(), left.to_string());
        }
    }
    foreseen
}

fn change(changes: &Changes, name: &str, there: Option<&Application>, target: Option<&[String]>) -> Change {
    let of_name = |one: &&Application| one.metadata.name == name;
    let updated = changes.update.iter().find(of_name);
    let fields = there.zip(updated).map(|(there, updated)| fields::changed(there, updated));
    let is_update = fields.is_some();
    let fields = fields.unwrap_or_default();
    let has_other_spec = fields.iter().any(|one| one.field.starts_with("spec"));
    let now = there.map(|there| standing(there, target.filter(|_| !has_other_spec)));
    let is_other_revision = || now.as_ref().zip(target).is_some_and(|(now, target)| now.deployed != target);
    let (what, why) = match changes.left.get(name) {
        Some(Left::Unchanged) if is_other_revision() => (What::Changed, None),
        Some(Left::Unchanged) => (What::Unchanged, None),
        Some(other) => (What::LeftAlone, Some(other.to_string())),
        None if is_update => (What::Changed, None),
        None => (What::Created, None),
    };
    Change { what, why, fields, now }
}

/// How an Application stands. `target`: what it would be brought to, where its specification stays.
fn standing(application: &Application, target: Option<&[String]>) -> Standing {
    let status = &application.status;
    let of = |revision: &str, revisions: &[String]| match revisions {
        [] if revision.is_empty() => Vec::new(),
        [] => vec![revision.to_owned()],
        several => several.to_vec(),
    };
    let deployed = status.history.last().map(|last| of(&last.revision, &last.revisions));
    let compared = status.sync.as_ref().map(|sync| of(&sync.revision, &sync.revisions));
    let compared_resources = status.resources.iter().filter_map(|one| one.status);
    Standing {
        deployed: deployed.unwrap_or_default(),
        sync: status.sync.as_ref().map(|sync| sync.status).unwrap_or_default(),
        health: status.health.as_ref().map(|health| health.status),
        is_of_target: compared.as_deref().is_some_and(|compared| Some(compared) == target),
        out_of_sync: compared_resources.clone().filter(|one| *one == SyncStatusCode::OutOfSync).count(),
        resources: compared_resources.count(),
    }
}
