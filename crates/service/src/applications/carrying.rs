//! Carrying out the operation that an application asks for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::approval;
use tidegate_application::credentials::without_credentials;
use tidegate_application::deletion::is_unfounded;
use tidegate_application::operation::{self, Progress};
use tidegate_application::windows::Held;
use tidegate_executor::{Clock as _, EngineError, GateDefinitions, SystemClock, Targets, WINDOW};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{
    ClaimHolder, Destination, IfTaken, Mandate, ObjectKey, OperationId, ResourceSelector, SafePoint, Window,
};
use tidegate_planner::Target;

use super::admission::{admit, signed};
use super::announcing::announce_refusal;
use super::checking::wrong_options;
use super::made::Unmade;
use super::manifests::Made;
use super::messages::AppMessage;
use super::places::NoPlace;
use super::recorded::{loaded, of_summary, progress};
use super::shared::{Look, Shared};
use super::store::AppKey;
use super::{approving, deleting};

/// How often the status follows an operation, at most.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// How long ending an operation may take.
const TERMINATED_WITHIN: Duration = Duration::from_secs(2);
/// So many resources are named where none is the one that was meant.
const NAMED: usize = 10;
/// How long until the engine is asked again, after a fault of its own.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long until a cluster is asked again that did not answer.
const AWAY_FOR: Duration = Duration::from_secs(5);

/// Why an operation is not carried out.
pub(crate) enum Not {
    /// It cannot be.
    Refused(String),
    /// Its cluster does not answer now.
    Away(String),
    /// The engine ends, and goes on with it next time.
    Stopped,
}

impl From<NoPlace> for Not {
    fn from(none: NoPlace) -> Self {
        match none {
            NoPlace::Wrong(why) => Self::Refused(why),
            NoPlace::Away(why) | NoPlace::Unasked(why) => Self::Away(why),
        }
    }
}

impl From<Unmade> for Not {
    fn from(unmade: Unmade) -> Self {
        if unmade.is_away { Self::Away(unmade.why) } else { Self::Refused(unmade.why) }
    }
}

impl From<EngineError> for Not {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. } => Self::Stopped,
            error => Self::Refused(error.to_string()),
        }
    }
}

/// The revisions an operation deploys, and the id it will have. Nothing is begun.
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    application: &Application,
) -> Result<(Vec<String>, OperationId), String> {
    let asked = application.operation.clone().unwrap_or_default();
    if let Some(why) = is_unfounded(application) {
        return Err(why);
    }
    if operation::cascade(&asked).is_some() {
        return deleting::prepare(shared, application).await;
    }
    if let Some(hash) = approval::plan_of(&asked) {
        return approving::prepare(shared, application, hash).await;
    }
    let (place, mandate) = admit(shared, application).map_err(|none| none.to_string())?;
    let windows = shared.projects.windows(application, &place.target);
    // One that nobody asked for waits in the engine.
    if let Some(held) = windows.held(true, SystemClock.now()).filter(|_| !mandate.is_automated) {
        return Err(held_back(&held));
    }
    check_options(&asked)?;
    let refused = |error: operation::Refused| error.to_string();
    let sources = operation::sources(application, &asked).map_err(refused)?;
    let revisions = operation::revisions(&asked, &sources).map_err(refused)?;
    let names = revisions.clone();
    let revisions = shared.resolve(application, (&sources, revisions), Look::New).await?;
    signed(shared, application, (&sources, &revisions), names).await?;
    if asked.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty()) {
        match shared.manifests_of((application, &place), &sources, &revisions).await {
            Ok(made) => check_selection(application, &asked, &made.targets, &place.namespace)?,
            // It waits for that, as any other.
            Err(unmade) if unmade.is_away => {}
            Err(unmade) => return Err(unmade.why),
        }
    }
    // What cannot be asked of the engine is better told now.
    operation::request(application, &asked, (place.destination, place.namespace), &revisions)
        .map_err(refused)?;
    let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
    Ok((revisions, id))
}

/// Refuses options that nobody knows: what was meant by them would not be done.
pub(crate) fn check_options(asked: &OperationRequest) -> Result<(), String> {
    let options = asked.sync.as_ref().map(|sync| sync.sync_options.as_slice()).unwrap_or_default();
    let wrong = wrong_options("operation.sync.syncOptions", options);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// Refuses a selective sync that names what there is not.
pub(crate) fn check_selection(
    application: &Application,
    asked: &OperationRequest,
    targets: &[Target],
    namespace: &str,
) -> Result<(), String> {
    let wanted = asked.sync.iter().flat_map(|sync| &sync.resources);
    let wanted: Vec<ResourceSelector> = wanted.map(operation::selector).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let there = there(application, targets, namespace);
    match wanted.iter().find(|one| !there.iter().any(|key| one.matches(key))) {
        Some(unknown) => Err(nothing_matches(application, unknown, targets)),
        None => Ok(()),
    }
}

/// What a sync may be about: what is wanted, and what is known from before.
fn there(application: &Application, targets: &[Target], namespace: &str) -> BTreeSet<ObjectKey> {
    let wanted = targets.iter().flat_map(|target| {
        let key = target.object.key();
        // Whether its kind has namespaces is not asked for here.
        let placed = ObjectKey { namespace: namespace.to_owned(), ..key.clone() };
        let placed = key.namespace.is_empty().then_some(placed);
        std::iter::once(key).chain(placed)
    });
    wanted.chain(known(application)).collect()
}

/// The same, each once.
fn shown(application: &Application, targets: &[Target]) -> BTreeSet<ObjectKey> {
    let known = known(application);
    let is_same = |one: &ObjectKey, key: &ObjectKey| {
        (&one.group, &one.kind, &one.name) == (&key.group, &key.kind, &key.name)
            && (key.namespace.is_empty() || one.namespace == key.namespace)
    };
    let wanted = targets.iter().map(|target| target.object.key());
    let others: Vec<_> = wanted.filter(|key| !known.iter().any(|one| is_same(one, key))).collect();
    known.into_iter().chain(others).collect()
}

fn known(application: &Application) -> BTreeSet<ObjectKey> {
    let known = application.status.resources.iter();
    known.map(|one| ObjectKey::new(&one.group, &one.kind, &one.namespace, &one.name)).collect()
}

fn nothing_matches(application: &Application, unknown: &ResourceSelector, targets: &[Target]) -> String {
    let there = shown(application, targets);
    let of_kind = there.iter().filter(|key| key.kind == unknown.kind && key.group == unknown.group);
    let of_kind: Vec<String> = of_kind.map(selecting).collect();
    let all = || there.iter().map(selecting).collect::<Vec<_>>();
    let mut names = if of_kind.is_empty() { all() } else { of_kind };
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let ResourceSelector { group, kind, namespace, name } = unknown;
    let unknown = ObjectKey::new(group, kind, namespace, name);
    format!(
        "application {} has no resource {}; it has {}{more}",
        application.metadata.name,
        selecting(&unknown),
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    )
}

/// An object as `--resource` selects it: `apps:Deployment:shop/api`.
fn selecting(key: &ObjectKey) -> String {
    let ObjectKey { group, kind, namespace, name, .. } = key;
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{group}:{kind}:{namespace}{slash}{name}")
}

/// Sees to it that the operation is carried out, and tells the actor how it stands until it is over.
pub(crate) async fn carry(
    shared: Arc<Shared>,
    mut application: Arc<Application>,
    operation: OperationId,
    actor: ActorRef<AppMessage>,
) {
    let tell =
        |progress| drop(actor.send_message(AppMessage::Moved { operation, progress: Box::new(progress) }));
    // One that is at work on a cluster that is away is gone on with when that is back; the application may be for another one
    // by now.
    match began_on(&shared, operation).await {
        Some((there, view)) if !shared.places.is_there(&there) => {
            let message = format!("waiting for the {there}, where it is at work: it cannot be used now");
            tell(Progress { message, ..progress(view) });
            shared.places.is_back(&there).await;
        }
        Some(_) => {}
        None => shared.places.reached(&application.spec.destination).await,
    }
    loop {
        match begin(&shared, &application, operation).await {
            Ok(()) => return follow(&shared, operation, tell).await,
            Err(Not::Away(why)) => {
                let why = format!("waiting for its cluster: {why}");
                drop(actor.send_message(AppMessage::Waits { operation, why }));
                tokio::time::sleep(AWAY_FOR).await;
                // It may be for another cluster by now.
                let now = shared.board.get(&AppKey::of(&application));
                let is_same = |now: &Arc<Application>| {
                    now.operation.as_ref().and_then(operation::id) == Some(operation)
                };
                application = now.filter(is_same).unwrap_or(application);
            }
            Err(Not::Refused(message)) => {
                tell(Progress::refused(message.clone(), SystemClock.now()));
                return announce_refusal(&shared, &application, &message).await;
            }
            Err(Not::Stopped) => return,
        }
    }
}

/// The cluster on which an operation was begun that is not over, and how it stands.
async fn began_on(shared: &Arc<Shared>, operation: OperationId) -> Option<(Destination, OperationView)> {
    let log = Arc::clone(&shared.log);
    let looking = tokio::task::spawn_blocking(move || loaded(&log, operation)).await;
    let (request, view) = looking.ok()?.ok()??;
    view.finished_at.is_none().then_some((request.destination, view))
}

/// Has the engine end an operation, and says whether it knows it. Returns when that is durable.
pub(crate) async fn terminate(
    shared: &Arc<Shared>,
    operation: OperationId,
    by: &str,
) -> Result<bool, String> {
    let ending = async {
        match shared.engine.terminate(operation, by).await {
            // It lies in the log, and is ended when it is at work again.
            Err(EngineError::NotRunning { .. }) => match shared.engine.resume(operation).await {
                Ok(()) => shared.engine.terminate(operation, by).await,
                other => other,
            },
            other => other,
        }
    };
    match tokio::time::timeout(TERMINATED_WITHIN, ending).await {
        Ok(Ok(()) | Err(EngineError::AlreadyFinished { .. })) => Ok(true),
        Ok(Err(EngineError::Unknown { .. })) => Ok(false),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            Err("the engine does not answer; try again, or end the process and start it again".to_owned())
        }
    }
}

/// Has the engine end an operation for another sync, where that does no harm; or says what is in the way. Returns when that is
/// durable.
pub(crate) async fn supersede(
    shared: &Arc<Shared>,
    operation: OperationId,
    by: ClaimHolder,
    when: SafePoint,
) -> Result<(), String> {
    let ending = shared.engine.supersede(operation, by, when);
    match tokio::time::timeout(TERMINATED_WITHIN, ending).await {
        Ok(Ok(()) | Err(EngineError::AlreadyFinished { .. })) => Ok(()),
        Ok(Err(EngineError::Unknown { .. } | EngineError::NotRunning { .. })) => {
            Err("it has not begun yet".to_owned())
        }
        Ok(Err(EngineError::Refused { reason, .. })) => Err(reason),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the engine does not answer".to_owned()),
    }
}

async fn begin(shared: &Arc<Shared>, application: &Application, operation: OperationId) -> Result<(), Not> {
    match shared.engine.resume(operation).await {
        Ok(()) | Err(EngineError::AlreadyFinished { .. }) => return Ok(()),
        Err(EngineError::Unknown { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let asked = application.operation.clone().unwrap_or_default();
    if let Some(why) = is_unfounded(application) {
        return Err(Not::Refused(why));
    }
    if operation::cascade(&asked).is_some() {
        let (request, targets) = deleting::work(shared, application).await.map_err(Not::Refused)?;
        return Ok(shared.engine.ensure_when(operation, request, targets, IfTaken::Queue).await?);
    }
    if let Some(hash) = approval::plan_of(&asked) {
        return approving::begin(shared, application, (&asked, operation), hash).await;
    }
    let policy = shared.approvals(application).map_err(Not::Refused)?;
    approving::refuse_unapproved(&policy, &asked).map_err(Not::Refused)?;
    let refused = |error: operation::Refused| Not::Refused(error.to_string());
    let sources = operation::sources(application, &asked).map_err(refused)?;
    let revisions = operation::revisions(&asked, &sources).map_err(refused)?;
    // What is asked for is permitted still, and what is written is asked about again.
    let (place, mandate) = admit(shared, application)?;
    let windows = shared.projects.windows(application, &place.target).given;
    let names = operation::names(&asked);
    signed(shared, application, (&sources, &revisions), names).await.map_err(Not::Refused)?;
    let made = shared.manifests_of((application, &place), &sources, &revisions).await?;
    let to = (place.destination, place.namespace);
    let request = shared.request(application, &asked, to, &revisions).map_err(refused)?;
    let held = held_by(shared.gates.read().await, windows, with_fetched(mandate, &made));
    let targets = Targets { targets: made.targets.as_ref().clone(), ..held };
    // Another operation of the application, such as one of `tidegate sync`, is finished first.
    Ok(shared.engine.ensure_when(operation, request, targets, IfTaken::Queue).await?)
}

/// What was fetched beside the sources has to be permitted as they are, for as long as the operation writes.
pub(crate) fn with_fetched(mut mandate: Mandate, made: &Made) -> Mandate {
    let fetched = made.fetched.iter().map(|used| without_credentials(&used.source.repo_url));
    let all: BTreeSet<String> = mandate.repositories.into_iter().chain(fetched).collect();
    mandate.repositories = all.into_iter().collect();
    mandate
}

/// An operation waits at each wave for the windows that it began with, which outlive the process as it does. Those of its
/// project go by the name of the project, whatever else is defined by that name.
pub(crate) fn held_by(definitions: GateDefinitions, windows: Vec<Window>, mandate: Mandate) -> Targets {
    let mut targets = Targets { definitions, ..Targets::default() };
    if !windows.is_empty() {
        targets.gates.push(format!("{WINDOW}{}", mandate.project));
        targets.definitions.windows.insert(mandate.project.clone(), windows);
    }
    Targets { mandate: Some(mandate), ..targets }
}

/// What whoever asks for a sync is told that windows keep back.
pub(crate) fn held_back(held: &Held) -> String {
    format!("cannot sync: blocked by sync window: {}", held.reason)
}

/// Tells how the operation stands when something has happened, and not more often than anybody looks.
async fn follow(shared: &Arc<Shared>, operation: OperationId, tell: impl Fn(Progress)) {
    let engine = &shared.engine;
    loop {
        let ended = engine.wait(operation);
        tokio::pin!(ended);
        let mut events = engine.events(operation, 0).await.ok();
        let ended = loop {
            if let Ok((view, _)) = engine.inspect(operation).await {
                tell(progress(view));
            }
            let happens = async {
                tokio::time::sleep(TOLD_EVERY).await;
                match &mut events {
                    Some(events) => drop(events.next().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ended = &mut ended => break ended,
                () = happens => {}
            }
        };
        match ended {
            Ok(view) => return tell(progress(view)),
            Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => return,
            Err(error) => {
                tracing::warn!(%operation, %error, "an operation is not at work, and is gone on with");
                tokio::time::sleep(AGAIN_AFTER).await;
                match engine.resume(operation).await {
                    // Of one that was over long ago, only a line may be left.
                    Err(EngineError::AlreadyFinished { .. }) => {
                        if let Some(over) = summed_up(shared, operation).await {
                            return tell(over);
                        }
                    }
                    Err(error) => tracing::warn!(%operation, %error, "an operation cannot be gone on with"),
                    Ok(()) => {}
                }
            }
        }
    }
}

async fn summed_up(shared: &Arc<Shared>, operation: OperationId) -> Option<Progress> {
    let all = shared.engine.list().await.ok()?;
    all.into_iter().find(|summary| summary.operation == operation).map(of_summary)
}
