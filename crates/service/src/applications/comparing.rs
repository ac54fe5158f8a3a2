//! Comparing an application with its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tidegate_application::comparison::{Outcome, Resource};
use tidegate_application::operation;
use tidegate_application::refresh::Level;
use tidegate_cluster::ClusterError;
use tidegate_executor::effects::{self, ObjectDifference, ObjectStatus, Question};
use tidegate_executor::{Clock as _, SystemClock, Targets};
use tidegate_health::HealthRules;
use tidegate_model::argo::{
    Application, ApplicationSource, ConditionType, HealthState, ResourceStatus, Rest, SyncStatusCode,
};
use tidegate_model::{
    Action, Gvk, HealthStatus, IgnoreDifference, Object, ObjectKey, Severity, Timestamp, Tracking, Warning,
    annotations,
};
use tidegate_planner::{Comparer, own_wave, unknown_options};
use tidegate_source::{Address, SOURCE_TYPE};

use super::places::Place;
use super::shared::Shared;
use crate::log;

/// The project that every application may be in.
const DEFAULT_PROJECT: &str = "default";

/// The wave in which a resource is pruned, which is not the wave it asks for.
const PRUNE_WAVE: &str = "pruneWave";
/// So many objects are read at once.
const LOOKS: usize = 16;

/// A comparison, and what else it has found.
pub(crate) struct Compared {
    pub outcome: Outcome,
    /// The objects it was about; nothing where it could not be made.
    pub objects: Option<BTreeMap<ObjectKey, Gvk>>,
    /// The repository whose names have moved.
    pub moved: Option<Address>,
}

struct Failed {
    kind: ConditionType,
    revision: String,
    message: String,
}

fn invalid(message: impl Into<String>) -> Failed {
    Failed { kind: ConditionType::InvalidSpecError, revision: String::new(), message: message.into() }
}

/// Why an application cannot be served, whatever its manifests are.
pub(crate) fn check(application: &Application) -> Result<(), String> {
    let spec = &application.spec;
    if !["", DEFAULT_PROJECT].contains(&spec.project.as_str()) {
        return Err(format!(
            "project {:?} is not supported yet: the rules of an AppProject would have no effect; only project {DEFAULT_PROJECT} is served",
            spec.project
        ));
    }
    if spec.rest.contains_key("sourceHydrator") {
        return Err("spec.sourceHydrator is not supported yet".to_owned());
    }
    let wrong = wrong_settings(application);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    match (application.source(), spec.sources.is_empty()) {
        // The whole repository is meant by `.` alone: nothing at all would be read as that, and prune what is not there.
        (Some(source), _) if source.path.is_empty() && source.chart.is_empty() => {
            Err("spec.source.path is missing: it says which folder of the repository; `.` is all of it"
                .to_owned())
        }
        (Some(source), _) if source.path.starts_with('/') => Err(format!(
            "spec.source.path {:?} begins with a slash; write it relative to the root of the repository",
            source.path
        )),
        (Some(_), _) => Ok(()),
        (None, true) => Err("spec.source is missing: it says where the manifests come from".to_owned()),
        (None, false) => Err("several sources (spec.sources) are not supported yet; give it one".to_owned()),
    }
}

/// What is written in its settings and means nothing.
fn wrong_settings(application: &Application) -> Vec<String> {
    let spec = &application.spec;
    let policy = spec.sync_policy.clone().unwrap_or_default();
    let mut wrong: Vec<String> = unknown_options(&policy.sync_options)
        .into_iter()
        .map(|problem| format!("spec.syncPolicy.syncOptions: {problem}"))
        .collect();
    let retry = policy.retry.as_ref().map(operation::backoff).and_then(Result::err);
    wrong.extend(retry.map(|problem| format!("spec.syncPolicy.{problem}")));
    let ignored: Vec<IgnoreDifference> = spec.ignore_differences.iter().map(IgnoreDifference::from).collect();
    let (_, problems) = Comparer::new(&ignored, &Tracking::default());
    wrong.extend(problems.iter().map(|problem| format!("spec.ignoreDifferences: {problem}")));
    let source = application.source();
    let shown = [
        ("spec.source.path", source.map(|source| source.path.as_str())),
        ("spec.source.targetRevision", source.map(|source| source.target_revision.as_str())),
        ("spec.source.repoURL", source.map(|source| source.repo_url.as_str())),
        ("spec.destination.namespace", Some(spec.destination.namespace.as_str())),
    ];
    let has_control = |text: &Option<&str>| text.is_some_and(|text| text.chars().any(char::is_control));
    let controlled = shown.into_iter().filter(|(_, text)| has_control(text));
    wrong.extend(
        controlled.map(|(field, _)| format!("{field} has a line end or another control character in it")),
    );
    wrong
}

/// Compares, and says in the outcome why that was not possible.
pub(crate) async fn compare(shared: &Arc<Shared>, application: &Application, level: Level) -> Compared {
    let mut moved = None;
    match try_compare(shared, application, level, &mut moved).await {
        Ok((outcome, objects)) => Compared { outcome, objects: Some(objects), moved },
        Err(Failed { kind, revision, message }) => {
            let seen = match kind {
                ConditionType::ComparisonError => look(shared, application).await,
                _ => Vec::new(),
            };
            let objects = (!seen.is_empty()).then(|| seen.iter().map(|one| named(&one.status)).collect());
            Compared { outcome: Outcome::Failed { revision, kind, message, seen }, objects, moved }
        }
    }
}

/// How the resources do that are known from before, where it cannot be told what is wanted of them.
async fn look(shared: &Arc<Shared>, application: &Application) -> Vec<Resource> {
    let Ok(Place { cluster, .. }) = shared.places.resolve(&application.spec.destination) else {
        return Vec::new();
    };
    let (cluster, now) = (cluster.as_ref(), SystemClock.now());
    let looks = application.status.resources.clone().into_iter().map(|known| async move {
        let (key, gvk) = named(&known);
        let live = cluster.get(&gvk, &key.namespace, &key.name).await;
        seen(known, live, &shared.rules, now)
    });
    futures_util::stream::iter(looks).buffered(LOOKS).collect().await
}

fn named(resource: &ResourceStatus) -> (ObjectKey, Gvk) {
    let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
    (ObjectKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name), gvk)
}

fn seen(
    known: ResourceStatus,
    live: Result<Option<Object>, ClusterError>,
    rules: &HealthRules,
    now: Timestamp,
) -> Resource {
    let unreadable = |error: ClusterError| HealthState {
        status: HealthStatus::Unknown,
        message: error.to_string(),
        ..missing()
    };
    let (is_live, is_healthy_anyway, health) = match live {
        Ok(Some(live)) => (true, ignores_health(&live), health(&live, rules, now)),
        Ok(None) => (false, false, Some(missing())),
        Err(error) => (true, false, Some(unreadable(error))),
    };
    let status = ResourceStatus { status: Some(SyncStatusCode::Unknown), health, ..known };
    Resource { status, is_live, is_healthy_anyway, ..Resource::default() }
}

fn ignores_health(object: &Object) -> bool {
    object.annotation(annotations::IGNORE_HEALTHCHECK) == Some("true")
}

async fn try_compare(
    shared: &Arc<Shared>,
    application: &Application,
    level: Level,
    moved: &mut Option<Address>,
) -> Result<(Outcome, BTreeMap<ObjectKey, Gvk>), Failed> {
    check(application).map_err(invalid)?;
    let place = shared.places.resolve(&application.spec.destination).map_err(invalid)?;
    let source = application.source().cloned().unwrap_or_default();
    let before = application.status.sync.as_ref().map(|sync| sync.revision.clone()).unwrap_or_default();
    let wrong = |revision: &str, message| Failed {
        kind: ConditionType::ComparisonError,
        revision: revision.to_owned(),
        message,
    };
    let revision = if level == Level::Recent && !before.is_empty() {
        before
    } else {
        let (wanted, look) = (source.target_revision.clone(), level >= Level::Forced);
        let resolving = shared.manifests.resolve(source.clone(), wanted, look).await;
        let resolved = resolving.map_err(|message| wrong("", message))?;
        *moved = resolved.moved;
        resolved.commit
    };
    let of = (source, revision.clone(), level == Level::Hard);
    let (differences, findings) =
        differ(shared, application, place, of).await.map_err(|message| wrong(&revision, message))?;
    let now = SystemClock.now();
    let errors: Vec<String> =
        findings.iter().filter(|one| one.severity == Severity::Error).map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err(wrong(&revision, errors.join("; ")));
    }
    let mut warnings: Vec<(ConditionType, String)> = findings.iter().filter_map(warning).collect();
    warnings.extend(differences.iter().filter_map(refusal));
    let objects = differences.iter().map(|one| (one.task.key(), one.task.gvk.clone())).collect();
    let resources = differences.into_iter().map(|one| resource(one, &shared.rules, now)).collect();
    let source_type = SOURCE_TYPE.to_owned();
    Ok((Outcome::Compared { revision, source_type, resources, warnings }, objects))
}

/// How the cluster differs from the manifests of a source in a commit.
async fn differ(
    shared: &Arc<Shared>,
    application: &Application,
    place: Place,
    (source, commit, anew): (ApplicationSource, String, bool),
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), String> {
    let targets = shared.manifests.targets(source, commit, anew).await?;
    let Place { destination, cluster, namespace } = place;
    let request = operation::comparison(application, destination, namespace);
    let known = log::inventory(&shared.state_dir, Some(&shared.log), &request);
    let targets = Targets { targets: targets.as_ref().clone(), ..Targets::default() };
    let comparing = effects::diff(
        cluster.as_ref(),
        (Question::Manifests, &request),
        targets,
        SystemClock.now(),
        known.as_ref(),
    )
    .await;
    comparing.map_err(|error| format!("the cluster cannot be compared with: {}", error.message))
}

/// What a sync would change, to the revision that is named or to that of the application.
pub(crate) async fn differences(
    shared: &Arc<Shared>,
    application: &Application,
    revision: Option<String>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), String> {
    check(application)?;
    let place = shared.places.resolve(&application.spec.destination)?;
    let source = application.source().cloned().unwrap_or_default();
    let revision = revision.unwrap_or_else(|| source.target_revision.clone());
    let commit = shared.manifests.resolve(source.clone(), revision, true).await?.commit;
    differ(shared, application, place, (source, commit, false)).await
}

fn warning(finding: &Warning) -> Option<(ConditionType, String)> {
    let kind = match finding.code.as_str() {
        "shared-resource" => ConditionType::SharedResourceWarning,
        "repeated-resource" => ConditionType::RepeatedResourceWarning,
        _ => return None,
    };
    Some((kind, finding.to_string()))
}

fn refusal(difference: &ObjectDifference) -> Option<(ConditionType, String)> {
    let why = difference.refused.as_ref()?;
    let message = format!("the cluster refuses {}: {why}", difference.task.key());
    Some((ConditionType::ComparisonError, message))
}

fn resource(difference: ObjectDifference, rules: &HealthRules, now: Timestamp) -> Resource {
    let ObjectDifference { task, status, ignored, live, .. } = difference;
    let live = live.as_deref();
    let code = if status == ObjectStatus::Same { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
    // What goes, goes in the reverse order of what came.
    let own = live.filter(|_| status == ObjectStatus::Extra).map(own_wave);
    let mut rest = Rest::new();
    if own.is_some() && task.action == Action::Prune {
        rest.insert(PRUNE_WAVE.to_owned(), task.wave.into());
    }
    Resource {
        status: ResourceStatus {
            rest,
            group: task.gvk.group.clone(),
            version: task.gvk.version.clone(),
            kind: task.gvk.kind.clone(),
            namespace: task.namespace.clone(),
            name: task.name.clone(),
            status: Some(code),
            health: live.map_or_else(|| Some(missing()), |live| health(live, rules, now)),
            requires_pruning: status == ObjectStatus::Extra,
            sync_wave: own.unwrap_or(task.wave),
            ..ResourceStatus::default()
        },
        is_live: live.is_some(),
        is_ignored: ignored,
        is_healthy_anyway: live.is_some_and(ignores_health),
        images: task.images,
    }
}

fn missing() -> HealthState {
    HealthState {
        status: HealthStatus::Missing,
        message: String::new(),
        last_transition_time: None,
        rest: Rest::new(),
    }
}

fn health(live: &Object, rules: &HealthRules, now: Timestamp) -> Option<HealthState> {
    let (status, message) = match rules.assess(live, now)? {
        Ok(health) => (health.status, health.message),
        Err(error) => (HealthStatus::Unknown, error.to_string()),
    };
    Some(HealthState { status, message, ..missing() })
}
