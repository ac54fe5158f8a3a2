//! Comparing an application with its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use tidegate_application::automation::PRUNE_REFUSED;
use tidegate_application::comparison::{self, Outcome, Resource, Version};
use tidegate_application::refresh::Level;
use tidegate_application::sources::{Sources, revisions};
use tidegate_application::{automated, external, operation, superseding};
use tidegate_cluster::{Cluster, ClusterError};
use tidegate_executor::effects::{self, Differences, NO_OPERATION, ObjectDifference, ObjectStatus, Question};
use tidegate_executor::{Clock as _, SystemClock, Targets, WINDOW};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::CallError;
use tidegate_model::argo::{Application, ConditionType, HealthState, ResourceStatus, Rest, SyncStatusCode};
use tidegate_model::{
    Action, Digest, Gvk, HealthStatus, Mandate, Object, ObjectKey, OperationId, Plan, Severity, SyncRequest,
    Timestamp, Warning, annotations,
};
use tidegate_oplog::Known;
use tidegate_planner::{HOOK_KEPT, all_images, own_wave};

use super::admission::{admit, refuse_hooks, refuse_resources, signed};
use super::confirmations::Confirmations;
use super::fetched::For;
use super::manifests::Made;
use super::places::{NoPlace, Place};
use super::projects;
use super::recorded;
use super::remembered::{Asked, Extent, Found, Memory};
use super::shared::{Look, Shared};
use super::store::AppKey;
use super::surprises::{surprises, warning};
use super::view::Viewed;
use super::watching::{Cared, Mark, State};

/// The wave in which a resource is pruned, which is not the wave it asks for.
const PRUNE_WAVE: &str = "pruneWave";
/// So many gates that are not defined are told.
const GATES_MAX: usize = 10;
/// So many objects are read at once.
const LOOKS: usize = 16;

/// A comparison, and what else it has found.
pub(crate) struct Compared {
    pub outcome: Outcome,
    /// The objects it was about; nothing where it could not be made.
    pub objects: Option<BTreeMap<ObjectKey, Cared>>,
    /// They were read after this moment; nothing where none was read.
    pub since: Option<Mark>,
    /// What the next one may go by.
    pub memory: Memory,
    /// The operation under way, where the revisions that were compared have the very manifests that it deploys.
    pub same: Option<OperationId>,
    /// The cluster does not let us see what it is about. Nobody tells when that is permitted.
    pub is_refused: bool,
}

struct Failed {
    kind: ConditionType,
    revisions: Vec<String>,
    message: String,
}

/// A cluster that does not answer is nothing that the application could mend.
fn nowhere(none: NoPlace) -> Failed {
    let kind = match none {
        NoPlace::Wrong(_) => ConditionType::InvalidSpecError,
        NoPlace::Away(_) | NoPlace::Unasked(_) => ConditionType::ComparisonError,
    };
    Failed { kind, revisions: Vec::new(), message: none.to_string() }
}

/// Compares, and says in the outcome why that was not possible.
pub(crate) async fn compare(
    shared: &Arc<Shared>,
    application: &Application,
    (level, memory): (Level, Memory),
) -> Compared {
    let mut comparison =
        Comparison { shared, application, level, memory, same: None, since: None, is_refused: false };
    let compared = comparison.make().await;
    let Comparison { memory, same, since, is_refused, .. } = comparison;
    match compared {
        Ok((outcome, objects)) => {
            Compared { outcome, objects: Some(objects), since, memory, same, is_refused }
        }
        Err(Failed { kind, revisions, message }) => {
            let seen = match kind {
                ConditionType::ComparisonError => look(shared, application).await,
                _ => Vec::new(),
            };
            let objects = (!seen.is_empty()).then(|| seen.iter().map(cared).collect());
            let outcome = Outcome::Failed { revisions, kind, message, seen };
            Compared { outcome, objects, since: None, memory: Memory::default(), same: None, is_refused }
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

fn cared(resource: &Resource) -> (ObjectKey, Cared) {
    let (object, gvk) = named(&resource.status);
    let state = match (resource.is_live, &resource.version) {
        (false, _) => State::Missing,
        (true, None) => State::Unknown,
        (true, Some(version)) => State::At(version.clone()),
    };
    (object, Cared { gvk, state })
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
    let version = live.as_ref().ok().and_then(|live| Version::of(live.as_ref()?));
    let (is_live, is_healthy_anyway, health) = match live {
        Ok(Some(live)) => (true, ignores_health(&live), health(&live, rules, now)),
        Ok(None) => (false, false, Some(missing())),
        Err(error) => (true, false, Some(unreadable(error))),
    };
    let status = ResourceStatus { status: Some(SyncStatusCode::Unknown), health, ..known };
    Resource { status, is_live, is_healthy_anyway, version, ..Resource::default() }
}

fn ignores_health(object: &Object) -> bool {
    object.annotation(annotations::IGNORE_HEALTHCHECK) == Some("true")
}

/// A comparison that is being made.
struct Comparison<'a> {
    shared: &'a Arc<Shared>,
    application: &'a Application,
    level: Level,
    memory: Memory,
    same: Option<OperationId>,
    /// The moment before it looked at the cluster.
    since: Option<Mark>,
    is_refused: bool,
}

impl Comparison<'_> {
    async fn make(&mut self) -> Result<(Outcome, BTreeMap<ObjectKey, Cared>), Failed> {
        let Self { shared, application, .. } = *self;
        let (place, mandate) = admit(shared, application).map_err(nowhere)?;
        let sources = Sources::of(application);
        let revisions = self.revisions(&sources).await.map_err(|message| wrong(&[], message))?;
        let signed = signed(shared, application, (&sources, &revisions), Vec::new()).await;
        signed.map_err(|message| wrong(&revisions, message))?;
        let found = self.find((place, &mandate), &sources, &revisions).await;
        let found = found.map_err(|message| wrong(&revisions, message))?;
        let errors = found.findings.iter().filter(|one| one.severity == Severity::Error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(wrong(&revisions, errors.join("; ")));
        }
        // The hook of an operation under way is there because that has made it.
        let is_under_way = application.operation.as_ref().and_then(operation::id).is_some();
        let told = found.findings.iter().filter(|one| !is_under_way || one.code != HOOK_KEPT);
        let mut warnings: Vec<(ConditionType, String)> = told.filter_map(warning).collect();
        warnings.extend(surprises(&found.findings));
        warnings.extend(found.refused.iter().cloned());
        warnings.extend(undefined_gates(shared, application, &found.gates).await);
        let mut resources = found.resources.clone();
        let objects = resources.iter().map(cared).collect();
        warnings.extend(refuse_resources(shared, &mandate, &mut resources));
        if let Some(refusals) = refuse_hooks(shared, &mandate, &found.hooks) {
            return Err(wrong(&revisions, refusals));
        }
        let own_rules =
            resources.iter().filter_map(|one| Some((named(&one.status).0, one.own_rule.clone()?)));
        shared.board.judged(&AppKey::of(application), own_rules.collect());
        let (source_types, deletion_hooks) = (found.types.clone(), found.deletion_hooks.clone());
        Ok((Outcome::Compared { revisions, source_types, resources, deletion_hooks, warnings }, objects))
    }

    /// The revisions to compare with.
    async fn revisions(&self, sources: &Sources) -> Result<Vec<String>, String> {
        let sync = self.application.status.sync.as_ref();
        let before = sync.map(|sync| revisions(&sync.revision, &sync.revisions)).unwrap_or_default();
        if self.level == Level::Recent && before.len() == sources.all().len() {
            return Ok(before);
        }
        let look = if self.level >= Level::Forced { Look::ToCompare } else { Look::Last };
        self.shared.resolve(self.application, (sources, sources.wanted()), look).await
    }

    /// What differs; what is remembered where nothing has changed.
    async fn find(
        &mut self,
        (place, mandate): (Place, &Mandate),
        sources: &Sources,
        revisions: &[String],
    ) -> Result<Arc<Found>, String> {
        let Self { shared, application, level, .. } = *self;
        let (destination, namespace) = (place.destination.clone(), place.namespace.clone());
        // In this order: what is told between the two is news.
        self.since = Some(shared.watching.now(&destination));
        let mark = shared.watching.mark(&AppKey::of(application), &destination);
        let request = operation::comparison(application, destination.clone(), namespace.clone());
        let recorded = recorded::inventory(shared, &request).await;
        let keys = |made_for: For| async move {
            let keys = shared.manifests.keys(sources, revisions, made_for.clone()).await?;
            Ok((made_for, keys))
        };
        let (made_for, keys) = shared.make((application, &place), level == Level::Hard, keys).await?;
        self.same = self.deploying(revisions, &keys, &made_for).await;
        let asked = Asked { request: &request, known: None, manifests: &keys, user: &mandate.user };
        let known = self.memory.known(recorded.clone(), level, &asked);
        let asked = Asked { known: known.as_ref(), ..asked };
        if self.memory.may_hold(level, mark.as_ref())
            && let Some(found) = self.memory.found(&asked)
        {
            return Ok(found);
        }
        let made = shared.manifests.targets(sources, revisions, (made_for, level == Level::Hard)).await?;
        let cluster = seen_by(shared, &place, &made, level);
        let differing = differ(cluster.as_ref(), &request, known.as_ref(), &made).await;
        self.is_refused = differing.as_ref().is_err_and(|error| !error.transient && !error.outage);
        let Differences { objects: differences, findings, is_whole } = differing.map_err(uncompared)?;
        if known.as_ref().is_none_or(|known| !known.searched) {
            let extent = match is_whole {
                true => Extent::Whole,
                // It is told by the comparison that has searched: the next one is to tell it too.
                false if findings.iter().any(|one| one.code == effects::NOT_SEARCHED) => Extent::Refused,
                false => Extent::Part,
            };
            self.memory.search(&asked, &differences, extent);
        }
        // With what was searched just now, as the next comparison will know it.
        let known = self.memory.known(recorded, Level::Recent, &asked);
        let asked = Asked { known: known.as_ref(), ..asked };
        // What the server would make of it could not be asked, perhaps only now: it is asked again.
        let is_guessed = |one: &ObjectDifference| one.estimate && one.task.options.take_over.is_some();
        let is_sure = !differences.iter().any(is_guessed);
        let refused = differences.iter().filter_map(refusal).collect();
        let resources = resources(differences, (&request, &made), &shared.rules);
        let found = Found { findings, refused, ..Found::of(&made.targets, made.types, resources) };
        let found = Arc::new(found);
        match is_sure {
            true => self.memory.keep(&asked, mark, &found, &shared.rules),
            false => self.memory.forget(),
        }
        Ok(found)
    }

    /// The operation under way that deploys the manifests with these keys, of other revisions than are compared.
    async fn deploying(&self, compared: &[String], keys: &[Digest], made_for: &For) -> Option<OperationId> {
        let (id, sources, revisions) = superseding::at_stake(self.application)?;
        if revisions == compared {
            return None;
        }
        let deployed = self.shared.manifests.keys(&sources, &revisions, made_for.clone()).await;
        deployed.is_ok_and(|deployed| deployed == keys).then_some(id)
    }
}

fn wrong(revisions: &[String], message: String) -> Failed {
    Failed { kind: ConditionType::ComparisonError, revisions: revisions.to_vec(), message }
}

/// The cluster as a comparison sees it. For one that uses nothing that was kept, as it is.
fn seen_by(shared: &Shared, place: &Place, made: &Made, level: Level) -> Arc<dyn Cluster> {
    let cluster = Arc::clone(&place.cluster);
    if level == Level::Hard {
        return cluster;
    }
    let wanted = made.targets.iter().map(|target| target.object.gvk()).collect();
    Arc::new(Viewed { cluster, view: shared.watching.view(place), wanted })
}

/// How the cluster differs from manifests.
async fn differ(
    cluster: &dyn Cluster,
    request: &SyncRequest,
    known: Option<&Known>,
    made: &Made,
) -> Result<Differences, CallError> {
    let targets = Targets { targets: made.targets.as_ref().clone(), ..Targets::default() };
    effects::diff(cluster, (Question::Manifests, request), targets, SystemClock.now(), known).await
}

fn uncompared(error: CallError) -> String {
    format!("the cluster cannot be compared with: {}", error.message)
}

/// What a sync would change, to the revisions that are named or to those of the application.
pub(crate) async fn differences(
    shared: &Arc<Shared>,
    application: &Application,
    named: Vec<String>,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), String> {
    let OfSync { cluster, request, known, made } = of_sync(shared, application, named).await?;
    let found = differ(cluster.as_ref(), &request, known.as_ref(), &made).await.map_err(uncompared)?;
    Ok((found.objects, found.findings))
}

/// What a sync would do, to the revisions that are named or to those of the application: hooks too.
pub(crate) async fn plan(
    shared: &Arc<Shared>,
    application: &Application,
    named: Vec<String>,
) -> Result<Plan, String> {
    let OfSync { cluster, mut request, known, made } = of_sync(shared, application, named).await?;
    request.options.prune = automated(application).is_some_and(|policy| policy.prune == Some(true));
    let targets = Targets { targets: made.targets.as_ref().clone(), ..Targets::default() };
    let now = SystemClock.now();
    let planning = effects::plan(cluster.as_ref(), NO_OPERATION, &request, targets, now, known.as_ref());
    let planned = planning.await;
    planned.map(|planned| planned.plan).map_err(|error| format!("it cannot be planned: {}", error.message))
}

/// What is asked of the cluster about an application that nobody syncs.
struct OfSync {
    cluster: Arc<dyn Cluster>,
    request: SyncRequest,
    known: Option<Known>,
    made: Made,
}

async fn of_sync(
    shared: &Arc<Shared>,
    application: &Application,
    named: Vec<String>,
) -> Result<OfSync, String> {
    let (place, _) = admit(shared, application).map_err(|none| none.to_string())?;
    let sources = Sources::of(application);
    let revisions = operation::revisions_named(named, &sources).map_err(|error| error.to_string())?;
    let names = revisions.clone();
    let revisions = shared.resolve(application, (&sources, revisions), Look::New).await?;
    signed(shared, application, (&sources, &revisions), names).await?;
    let made = shared.manifests_of((application, &place), &sources, &revisions).await?;
    let Place { destination, cluster, namespace, .. } = place;
    let request = operation::comparison(application, destination, namespace);
    let known = recorded::inventory(shared, &request).await;
    Ok(OfSync { cluster, request, known, made })
}

/// The gates that its manifests name and that never open, because nobody has defined them.
async fn undefined_gates(
    shared: &Shared,
    application: &Application,
    named: &BTreeMap<String, ObjectKey>,
) -> Option<(ConditionType, String)> {
    if named.is_empty() {
        return None;
    }
    let mut known = shared.engine.extension_names();
    known.gates.extend(shared.gates.read().await.names());
    known.gates.insert(format!("{WINDOW}{}", projects::name_of(application)));
    let problem = |(gate, object): (&String, &ObjectKey)| {
        Some(format!("{} of {object} {}", annotations::GATE, known.why_never(gate)?))
    };
    let problems: Vec<String> = named.iter().filter_map(problem).take(GATES_MAX).collect();
    let message = || format!("a sync will wait for ever: {}", problems.join("; "));
    (!problems.is_empty()).then(|| (comparison::undefined_gate(), message()))
}

fn refusal(difference: &ObjectDifference) -> Option<(ConditionType, String)> {
    let why = difference.refused.as_ref()?;
    let message = format!("the cluster refuses {}: {why}", difference.task.key());
    Some((ConditionType::ComparisonError, message))
}

/// How the objects stand that were compared.
fn resources(
    differences: Vec<ObjectDifference>,
    (request, made): (&SyncRequest, &Made),
    rules: &HealthRules,
) -> Vec<Resource> {
    let objects = made.targets.iter().map(|target| &target.object);
    let (confirmations, now) = (Confirmations::of(&request.options, objects), SystemClock.now());
    differences.into_iter().map(|one| resource(one, &confirmations, (rules, now))).collect()
}

fn resource(
    difference: ObjectDifference,
    confirmations: &Confirmations<'_>,
    (rules, now): (&HealthRules, Timestamp),
) -> Resource {
    let ObjectDifference { task, status, ignored, live, .. } = difference;
    let live = live.as_deref();
    let code = if status == ObjectStatus::Same { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
    // What goes, goes in the reverse order of what came.
    let own = live.filter(|_| status == ObjectStatus::Extra).map(own_wave);
    let mut rest = Rest::new();
    if own.is_some() && task.action == Action::Prune {
        rest.insert(PRUNE_WAVE.to_owned(), task.wave.into());
    }
    if own.is_some() && task.action == Action::PruneSkipped {
        rest.insert(PRUNE_REFUSED.to_owned(), true.into());
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
            requires_deletion_confirmation: confirmations.are_asked_for(&task.key(), live),
            sync_wave: own.unwrap_or(task.wave),
            ..ResourceStatus::default()
        },
        is_live: live.is_some(),
        is_ignored: ignored,
        is_healthy_anyway: live.is_some_and(ignores_health),
        images: live.map(all_images).unwrap_or_default(),
        urls: live.map(external::urls).unwrap_or_default(),
        own_rule: live.and_then(|live| own_rule(live, rules)),
        version: live.and_then(Version::of),
    }
}

/// The rule that judges an object, where that is another than its kind has.
fn own_rule(live: &Object, rules: &HealthRules) -> Option<Box<str>> {
    let own = rules.rule_for(live);
    (own != rules.rule_for_kind(&live.gvk())).then(|| own.unwrap_or_default().into())
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
