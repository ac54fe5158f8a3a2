//! Plans of an application's operations: made and kept while the operation waits for an approval, looked at again when the
//! cluster has changed, and carried out as they are.

use std::sync::Arc;

use tidegate_application::approval::{self, Askers, Policy};
use tidegate_application::sources::Sources;
use tidegate_application::{instance_name, operation};
use tidegate_executor::effects::{self, NO_OPERATION, NotPlanned, ObjectDifference};
use tidegate_executor::{Clock as _, KeptPlan, SystemClock, Targets};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Digest, IfTaken, OperationId, Severity, SyncRequest, Warning};
use tidegate_oplog::LogError;

use super::admission::{admit, signed};
use super::carrying::{Not, check_options, check_selection, held_back, held_by, with_fetched};
use super::made::Unmade;
use super::places::{NoPlace, Place};
use super::recorded;
use super::shared::{Look, Shared};
use crate::error::ServiceError;
use crate::plans::{KeptLine, Plans};

/// So many letters of a commit are enough for people.
const SHORT: usize = 7;

/// A kept plan, as the actor of its application knows it.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub line: KeptLine,
    /// What it does, and with which revision, in words.
    pub does: String,
    /// The revisions of its manifests, in the order of its sources.
    pub revisions: Vec<String>,
}

impl Waiting {
    /// One that was kept.
    pub fn of(line: KeptLine, plan: &KeptPlan) -> Self {
        let does = does(&line, plan);
        Self { line, does, revisions: operation::revisions_of(&plan.request) }
    }

    /// Who is behind an operation that is to carry it out.
    pub fn askers<'a>(&'a self, asked: &'a OperationRequest) -> Askers<'a> {
        Askers::of(&self.line.by, asked)
    }
}

/// What a plan does, and with which revision: `3 to create, 1 to prune, 1 of them a hook; revision 3f2a9c4`.
fn does(line: &KeptLine, KeptPlan { plan, request, .. }: &KeptPlan) -> String {
    let hooks = match plan.tasks.iter().filter(|task| task.is_hook()).count() {
        0 => String::new(),
        1 => ", 1 of them a hook".to_owned(),
        hooks => format!(", {hooks} of them hooks"),
    };
    let short = |one: &String| one.chars().take(SHORT).collect::<String>();
    let revisions: Vec<String> = operation::revisions_of(request).iter().map(short).collect();
    format!("{}{hooks}; revision {}", line.summary(), revisions.join(" "))
}

/// What came of a look at the plan of an operation that waits for an approval.
pub(crate) enum Looked {
    /// The plan that is kept is the one that would be made now.
    Same,
    /// This one is kept, in the place of any before.
    Kept(Box<Waiting>),
    /// There is none.
    Not(Unplanned),
}

/// Why there is no plan.
pub(crate) enum Unplanned {
    /// The operation cannot be begun as it is asked for.
    Wrong(String),
    /// It cannot be told now.
    Later(String),
}

impl From<NoPlace> for Unplanned {
    fn from(none: NoPlace) -> Self {
        match none {
            NoPlace::Wrong(why) => Self::Wrong(why),
            NoPlace::Away(why) | NoPlace::Unasked(why) => Self::Later(why),
        }
    }
}

impl From<Unmade> for Unplanned {
    fn from(unmade: Unmade) -> Self {
        if unmade.is_away { Self::Later(unmade.why) } else { Self::Wrong(unmade.why) }
    }
}

impl From<Unplanned> for ServiceError {
    fn from(why: Unplanned) -> Self {
        let (Unplanned::Wrong(why) | Unplanned::Later(why)) = why;
        Self::refused(why)
    }
}

/// What is planned: the operation of an application, at the place of that.
struct Asked {
    request: SyncRequest,
    targets: Targets,
    place: Place,
}

/// Makes the plan of the operation of an application and keeps it, unless the one that is kept is the same. Writes nothing to
/// the cluster.
pub(crate) async fn look(
    shared: &Arc<Shared>,
    application: &Application,
    before: Option<&KeptLine>,
) -> Looked {
    let asked = match ask(shared, application, if before.is_none() { Look::New } else { Look::Last }).await {
        Ok(asked) => asked,
        // It waits all the same: what is wrong now may be mended.
        Err(Unplanned::Wrong(why)) if before.is_some() => return Looked::Not(Unplanned::Later(why)),
        Err(why) => return Looked::Not(why),
    };
    let known = match before {
        Some(before) => Some(before.clone()),
        None => newest(shared, application).await,
    };
    if let Some(known) = known
        && let Ok((kept, line)) = kept(shared, known.hash).await
        && is_same(&kept, &asked)
    {
        match fits(shared, &asked, kept.clone(), true).await {
            Ok(()) if before.is_some() => return Looked::Same,
            // An earlier process has made it, and somebody may have approved it since.
            Ok(()) => return Looked::Kept(Box::new(Waiting::of(line, &kept))),
            Err(NotPlanned::Moved(_)) => {}
            Err(NotPlanned::Call(error)) => return Looked::Not(of_call(error)),
        }
    }
    match keep(shared, asked, true).await {
        Ok(waiting) => Looked::Kept(Box::new(waiting)),
        Err(why) => Looked::Not(why),
    }
}

/// The newest plan that was made for an operation of an application, and that no operation has carried out.
async fn newest(shared: &Arc<Shared>, application: &Application) -> Option<KeptLine> {
    let name = instance_name(application);
    let all = with_plans(shared, |plans| plans.list()).await.ok()?;
    let line = all.into_iter().find(|line| line.application == name && line.is_by_itself)?;
    if line.is_withdrawn {
        return None;
    }
    let own = application.operation.as_ref().and_then(operation::id);
    match line.operation {
        Some(id) if Some(id) != own && (own.is_some() || recorded::is_known(shared, id).await) => None,
        _ => Some(line),
    }
}

fn of_call(error: CallError) -> Unplanned {
    let words = format!("it cannot be planned: {}", error.message);
    if error.transient { Unplanned::Later(words) } else { Unplanned::Wrong(words) }
}

async fn ask(shared: &Arc<Shared>, application: &Application, look: Look) -> Result<Asked, Unplanned> {
    let wrong = Unplanned::Wrong;
    let refused = |error: operation::Refused| Unplanned::Wrong(error.to_string());
    let asked = application.operation.clone().unwrap_or_default();
    let (place, mandate) = admit(shared, application)?;
    check_options(&asked).map_err(wrong)?;
    let sources = operation::sources(application, &asked).map_err(refused)?;
    let names = operation::revisions(&asked, &sources).map_err(refused)?;
    let revisions = shared.resolve(application, (&sources, names.clone()), look).await.map_err(wrong)?;
    signed(shared, application, (&sources, &revisions), names).await.map_err(wrong)?;
    let made = shared.manifests_of((application, &place), &sources, &revisions).await?;
    check_selection(application, &asked, &made.targets, &place.namespace).map_err(wrong)?;
    let to = (place.destination.clone(), place.namespace.clone());
    let request = shared.request(application, &asked, to, &revisions).map_err(refused)?;
    let request = SyncRequest { initiated_by: approval::author_of(&asked).to_owned(), ..request };
    let windows = shared.projects.windows(application, &place.target).given;
    let held = held_by(shared.gates.read().await, windows, with_fetched(mandate, &made));
    let targets = Targets { targets: made.targets.as_ref().clone(), ..held };
    Ok(Asked { request, targets, place })
}

/// Whether a plan was made of the same: of what was asked, and of manifests that say the same.
fn is_same(kept: &KeptPlan, asked: &Asked) -> bool {
    let (before, now) = (&kept.targets.targets, &asked.targets.targets);
    kept.request == asked.request
        && before.len() == now.len()
        && before.iter().zip(now).all(|(before, now)| before.object == now.object)
}

/// Whether a plan would do the same now.
async fn fits(
    shared: &Arc<Shared>,
    asked: &Asked,
    kept: KeptPlan,
    allows_drift: bool,
) -> Result<(), NotPlanned> {
    let known = recorded::inventory(shared, &asked.request).await;
    let (request, targets) = kept.pin(Vec::new(), allows_drift);
    let (cluster, now) = (asked.place.cluster.as_ref(), SystemClock.now());
    effects::prepare(cluster, NO_OPERATION, &request, targets, now, known.as_ref()).await.map(drop)
}

async fn keep(shared: &Arc<Shared>, asked: Asked, is_by_itself: bool) -> Result<Waiting, Unplanned> {
    let Asked { request, targets, place } = asked;
    let known = recorded::inventory(shared, &request).await;
    let now = SystemClock.now();
    let made = KeptPlan::make(place.cluster.as_ref(), request, targets, now, known.as_ref()).await;
    let (plan, _) = made.map_err(of_call)?;
    let kept = with_plans(shared, move |plans| {
        Ok((if is_by_itself { plans.keep_by_itself(&plan)? } else { plans.keep(&plan)? }, plan))
    })
    .await;
    kept.map(|(line, plan)| Waiting::of(line, &plan)).map_err(|error| Unplanned::Later(error.to_string()))
}

/// Makes and keeps the plan of an operation that is not asked for yet.
pub(crate) async fn make(
    shared: &Arc<Shared>,
    application: &Application,
    asked: OperationRequest,
) -> Result<KeptLine, ServiceError> {
    let application = Application { operation: Some(asked), ..application.clone() };
    let asked = ask(shared, &application, Look::New).await?;
    Ok(keep(shared, asked, false).await?.line)
}

/// Whether a kept plan would do the same now, also where what has moved is none of its fields, if that is allowed; what has
/// moved, in words, where it would not.
pub(crate) async fn check(
    shared: &Arc<Shared>,
    application: &Application,
    plan: KeptPlan,
    allows_drift: bool,
) -> Result<(), ServiceError> {
    let place = admit(shared, application).map_err(|none| ServiceError::refused(none.to_string()))?.0;
    is_for(&plan, application, &place).map_err(ServiceError::refused)?;
    let asked = Asked { request: plan.request.clone(), targets: Targets::default(), place };
    match fits(shared, &asked, plan, allows_drift).await {
        Ok(()) => Ok(()),
        Err(NotPlanned::Moved(moved)) => Err(ServiceError::refused(moved.to_string())),
        Err(NotPlanned::Call(error)) => {
            Err(ServiceError::refused(format!("the cluster cannot be looked at: {}", error.message)))
        }
    }
}

/// What a kept plan would change now; and what has moved since it was made, so that it is not carried out any more.
pub(crate) async fn differences(
    shared: &Arc<Shared>,
    application: &Application,
    plan: KeptPlan,
) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
    let place = admit(shared, application).map_err(|none| ServiceError::refused(none.to_string()))?.0;
    is_for(&plan, application, &place).map_err(ServiceError::refused)?;
    let unseen = |error: CallError| {
        ServiceError::refused(format!("the cluster cannot be looked at: {}", error.message))
    };
    let known = recorded::inventory(shared, &plan.request).await;
    let objects = plan.differences(place.cluster.as_ref(), known.as_ref()).await.map_err(unseen)?;
    let asked = Asked { request: plan.request.clone(), targets: Targets::default(), place };
    let moved = match fits(shared, &asked, plan, true).await {
        Ok(()) => None,
        Err(NotPlanned::Moved(moved)) => Some(moved.to_string()),
        Err(NotPlanned::Call(error)) => return Err(unseen(error)),
    };
    let warning = |message| Warning {
        severity: Severity::Warning,
        code: "plan-moved".to_owned(),
        object: None,
        origin: None,
        message,
    };
    Ok((objects, moved.map(warning).into_iter().collect()))
}

/// Whether a plan is of this application, for where that goes now.
fn is_for(plan: &KeptPlan, application: &Application, place: &Place) -> Result<(), String> {
    let hash = plan.hash().short();
    let request = &plan.request;
    if request.application != instance_name(application) {
        return Err(format!("plan {hash} is of application {}, and not of this one", request.application));
    }
    if request.destination != place.destination || request.namespace != place.namespace {
        return Err(format!(
            "plan {hash} is for another destination than the application has now; make a new plan"
        ));
    }
    Ok(())
}

/// The revisions that the plan of an operation deploys, and the id that the operation has from then on: a plan is carried out by
/// one operation.
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    application: &Application,
    hash: &str,
) -> Result<(Vec<String>, OperationId), String> {
    let (place, mandate) = admit(shared, application).map_err(|none| none.to_string())?;
    let windows = shared.projects.windows(application, &place.target);
    if let Some(held) = windows.held(true, SystemClock.now()).filter(|_| !mandate.is_automated) {
        return Err(held_back(&held));
    }
    let (plan, line) = kept(shared, digest(hash)?).await.map_err(|error| error.to_string())?;
    is_for(&plan, application, &place)?;
    let revisions = operation::revisions_of(&plan.request);
    let id = match line.operation {
        Some(id) if recorded::is_known(shared, id).await => return Err(carried_out(&line, id)),
        Some(id) => id,
        None => {
            let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
            let taken = with_plans(shared, move |plans| plans.take(line.hash, id)).await;
            taken.map_err(|error| error.to_string())?.operation.unwrap_or(id)
        }
    };
    Ok((revisions, id))
}

fn carried_out(line: &KeptLine, by: OperationId) -> String {
    format!(
        "plan {} was carried out by operation {by}, and a plan is carried out once; make a new plan",
        line.hash.short()
    )
}

fn digest(hash: &str) -> Result<Digest, String> {
    hash.parse().map_err(|_| format!("{hash:?} is no hash of a plan"))
}

/// Does something with the plans that are kept, where it keeps nobody waiting.
pub(crate) async fn with_plans<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&Plans) -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    let Some(plans) = shared.plans.clone() else {
        return Err(ServiceError::refused(
            "no plans can be kept: the key of the state directory may not be read; become its owner, or give the key in TIDEGATE_LOG_KEY",
        ));
    };
    match tokio::task::spawn_blocking(move || work(&plans)).await {
        Ok(done) => done,
        Err(_) => Err(LogError::Poisoned.into()),
    }
}

/// A plan, and what is known of it.
pub(crate) async fn kept(shared: &Shared, hash: Digest) -> Result<(KeptPlan, KeptLine), ServiceError> {
    let read = move |plans: &Plans| {
        let line = plans.find(&hash.to_string())?;
        Ok((plans.get(&line)?, line))
    };
    with_plans(shared, read).await
}

/// What needs an approval and has none is not begun, whoever asks for that.
pub(crate) fn refuse_unapproved(policy: &Policy, asked: &OperationRequest) -> Result<(), String> {
    if policy.is_required() && approval::is_about(asked) && approval::plan_of(asked).is_none() {
        return Err(UNAPPROVED.to_owned());
    }
    Ok(())
}

/// What an operation ends with that was to begin before it was known that it needs an approval.
pub(crate) const UNAPPROVED: &str = "it needs an approval of its plan, and has none; nothing was written";

/// Has the engine carry out the plan of an operation, as that was kept. Where it is refused before the engine has it, the plan is
/// not taken any more.
pub(crate) async fn begin(
    shared: &Arc<Shared>,
    application: &Application,
    (asked, operation): (&OperationRequest, OperationId),
    hash: &str,
) -> Result<(), Not> {
    let hash = digest(hash).map_err(Not::Refused)?;
    let begun = begin_taken(shared, application, (asked, operation), hash).await;
    if matches!(&begun, Err(Not::Refused(_))) && !recorded::is_known(shared, operation).await {
        let released = with_plans(shared, move |plans| plans.release(hash, operation)).await;
        if let Err(error) = released {
            tracing::warn!(%error, "a plan that was not carried out stays taken");
        }
    }
    begun
}

async fn begin_taken(
    shared: &Arc<Shared>,
    application: &Application,
    (asked, operation): (&OperationRequest, OperationId),
    hash: Digest,
) -> Result<(), Not> {
    let failed = |error: ServiceError| Not::Refused(error.to_string());
    let (plan, line) = kept(shared, hash).await.map_err(failed)?;
    let (place, mandate) = admit(shared, application)?;
    is_for(&plan, application, &place).map_err(Not::Refused)?;
    let policy = shared.approvals(application).map_err(Not::Refused)?;
    if let Some(who) = policy.missing(Askers::of(&line.by, asked), &line.approvals) {
        return Err(Not::Refused(format!("plan {} is not carried out: it needs {who}", line.hash.short())));
    }
    let revisions = operation::revisions_of(&plan.request);
    let sources: Sources =
        operation::sources(application, asked).map_err(|error| Not::Refused(error.to_string()))?;
    let names = operation::names(asked);
    signed(shared, application, (&sources, &revisions), names).await.map_err(Not::Refused)?;
    let taken = with_plans(shared, move |plans| plans.take(line.hash, operation)).await.map_err(failed)?;
    if let Some(other) = taken.operation.filter(|other| *other != operation) {
        return Err(Not::Refused(carried_out(&taken, other)));
    }
    let to = (place.destination.clone(), place.namespace.clone());
    let fresh = operation::request(application, asked, to, &revisions)
        .map_err(|error| Not::Refused(error.to_string()))?;
    let (request, pinned) = plan.pin(taken.approvals, approval::allows_drift(asked));
    let SyncRequest { initiated_by, retry, claim, .. } = fresh;
    let request = SyncRequest { initiated_by, retry, claim, ..request };
    let windows = shared.projects.windows(application, &place.target).given;
    let held = held_by(shared.gates.read().await, windows, mandate);
    let targets = Targets { targets: pinned.targets, pinned: pinned.pinned, ..held };
    Ok(shared.engine.ensure_when(operation, request, targets, IfTaken::Queue).await?)
}
