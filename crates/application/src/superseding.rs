//! An operation is under way, and something newer is wanted: a newer revision, or what somebody asks for. Does the operation
//! go on to its end, or does the other one take its place?

use serde::{Deserialize, Serialize};
use tidegate_model::argo::{
    Application, ConditionType, OperationRequest, OperationState, Retry, SyncStatus, SyncStatusCode,
};
use tidegate_model::{ClaimHolder, IfTaken, OperationId, OperationPhase, SafePoint, Timestamp, UNBEGUN};

use crate::operation::{self, Progress};
use crate::sources::{Sources, revisions};
use crate::{approval, automated, automation, running};

/// What becomes of an operation when there is a newer revision: `finish` or `supersede`.
pub const ON_NEW_REVISION: &str = "tidegate.dev/on-new-revision";
/// The remark of an operation that is asked for: what happens while another one is under way.
pub const POLICY_REMARK: &str = "tidegate.dev/policy";
/// The remark of an operation: what takes its place.
pub(crate) const NEXT_REMARK: &str = "tidegate.dev/next";
/// The remark of an operation: whose place it has taken.
pub const SUPERSEDES_REMARK: &str = "tidegate.dev/supersedes";
/// A condition of our own: something newer waits for the operation.
pub const WAITING: &str = "NewRevisionWarning";
/// A condition of our own: what was written into the resource while an operation was under way is not taken.
pub const NOT_TAKEN: &str = "OperationRefusedWarning";
/// How the message of an operation begins whose place another sync of its application has taken.
const SUPERSEDED: &str = "Operation terminated, superseded by ";
/// What the message of an operation says between two attempts.
const RETRIES: &str = " Retrying attempt #";
/// So many letters of a commit are enough for people.
const SHORT: usize = 7;

/// What an application says of newer revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNewRevision {
    /// The operation goes on to its end, retries included.
    Finish,
    /// One that nobody asked for is ended where it waits or has failed, and none of its hooks is stopped for that.
    Supersede,
}

/// What its annotation says; nothing where there is none.
pub fn on_new_revision(application: &Application) -> Result<Option<OnNewRevision>, String> {
    match application.annotation(ON_NEW_REVISION).map(str::trim) {
        None => Ok(None),
        Some("finish") => Ok(Some(OnNewRevision::Finish)),
        Some("supersede") => Ok(Some(OnNewRevision::Supersede)),
        Some(other) => Err(format!(
            "the annotation {ON_NEW_REVISION} says {other:?}, which is neither finish nor supersede; it counts as finish"
        )),
    }
}

/// What takes the place of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// What is asked for.
    pub operation: OperationRequest,
    /// Where the operation under way is ended for it; nowhere: it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<SafePoint>,
    /// It is another attempt: nobody wants it where the operation ends by itself.
    #[serde(default)]
    pub is_retry: bool,
}

/// What takes the place of an operation, if something was asked for.
pub fn next(operation: &OperationRequest) -> Option<Next> {
    serde_json::from_str(operation.remark(NEXT_REMARK)?).ok()
}

fn set_next(operation: &mut OperationRequest, next: &Next) {
    // What was read from JSON can be written as JSON.
    if let Ok(text) = serde_json::to_string(next) {
        operation.set_remark(NEXT_REMARK, text);
    }
}

fn forget_next(operation: &mut OperationRequest) {
    operation.info.retain(|info| info.name != NEXT_REMARK);
}

/// What waits for one operation waits for the other, which is begun instead.
pub(crate) fn hand_over(from: &OperationRequest, to: &mut OperationRequest) {
    from.remark(NEXT_REMARK).into_iter().for_each(|next| to.set_remark(NEXT_REMARK, next));
}

/// Takes what comes next out of an operation that has ended with this message; nothing where that is not wanted any more.
pub(crate) fn take_next(
    operation: &mut OperationRequest,
    is_deleting: bool,
    message: &str,
) -> Option<OperationRequest> {
    let next = next(operation);
    forget_next(operation);
    let is_superseded = is_superseded(message);
    let mut next = next.filter(|next| !is_deleting && (is_superseded || !next.is_retry))?.operation;
    operation::disown(&mut next);
    if is_superseded && let Some(id) = operation::id(operation) {
        next.set_remark(SUPERSEDES_REMARK, id.to_string());
    }
    Some(next)
}

fn is_superseded(message: &str) -> bool {
    message.strip_prefix(SUPERSEDED).is_some_and(|by| by.starts_with(UNBEGUN))
}

/// Whether another sync of the application has taken the place of its last operation, which says nothing of its revision then.
pub fn was_superseded(last: &OperationState) -> bool {
    last.phase == OperationPhase::Failed && is_superseded(&last.message)
}

/// Whether an operation is between two attempts, as its message tells.
pub fn awaits_retry(message: &str) -> bool {
    message.contains(RETRIES)
}

/// The word for a policy.
pub fn word(policy: IfTaken) -> &'static str {
    match policy {
        IfTaken::Refuse => "refuse",
        IfTaken::Queue => "queue",
        IfTaken::Supersede => "supersede",
    }
}

/// Why somebody's request is not taken while an operation is under way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// An operation is under way.
    #[error(
        "another operation is already in progress for application {0}; `tidegate app wait {0} --operation` waits for it, and `--policy queue` or `--policy supersede` of `tidegate app sync` has this one follow it"
    )]
    InProgress(String),
    /// The application is about to go.
    #[error("the operation in progress for application {0} deletes it; nothing is synced after that")]
    Deletes(String),
    /// Somebody else was faster.
    #[error(
        "{by} waits for the operation in progress for application {application} already; wait for that, or take its place with `--policy supersede`"
    )]
    Queued {
        /// Which.
        application: String,
        /// What waits.
        by: String,
    },
    /// The remark means nothing.
    #[error("{POLICY_REMARK} {0:?} is neither refuse, queue nor supersede")]
    Policy(String),
}

/// What a request says of an operation that is under way. It is taken out of the request.
pub fn take_policy(asked: &mut OperationRequest) -> Result<IfTaken, Busy> {
    let policy = match asked.remark(POLICY_REMARK) {
        None => IfTaken::Refuse,
        Some(text) => [IfTaken::Refuse, IfTaken::Queue, IfTaken::Supersede]
            .into_iter()
            .find(|policy| word(*policy) == text)
            .ok_or_else(|| Busy::Policy(text.to_owned()))?,
    };
    asked.info.retain(|info| info.name != POLICY_REMARK);
    Ok(policy)
}

/// What a person means who writes an operation into a resource that has one already: much of that one may be in it still, since
/// a patch keeps what it does not name.
pub fn of_writer(mut asked: OperationRequest) -> OperationRequest {
    operation::disown(&mut asked);
    asked.initiated_by.automated = false;
    asked
}

/// Whether somebody asks for an operation that has not been given an id: a sync that is not one of a rollout.
pub fn is_request(asked: &OperationRequest) -> bool {
    operation::id(asked).is_none() && operation::cascade(asked).is_none() && !running::is_of_rollout(asked)
}

/// What waits for the operation of an application, and what is in its way, in words.
pub fn waiting(application: &Application) -> Option<&str> {
    let mut conditions = application.status.conditions.iter();
    let waiting = conditions.find(|one| matches!(&one.kind, ConditionType::Other(kind) if kind == WAITING));
    waiting.map(|one| one.message.as_str())
}

/// Takes a request in: it is what is asked for now, or comes next. `may_replace`: an operation that has no id yet is sure not
/// to get one meanwhile.
pub fn receive(
    application: &mut Application,
    mut asked: OperationRequest,
    (policy, may_replace): (IfTaken, bool),
    now: Timestamp,
) -> Result<(), Busy> {
    // Nobody says but here what follows an operation.
    forget_next(&mut asked);
    let name = application.metadata.name.clone();
    let Some(current) = &mut application.operation else {
        application.operation = Some(asked);
        return Ok(());
    };
    if operation::cascade(current).is_some() {
        return Err(Busy::Deletes(name));
    }
    let queued = next(current).filter(|next| !next.is_retry);
    let when = match (policy, queued) {
        (IfTaken::Refuse, _) => return Err(Busy::InProgress(name)),
        (IfTaken::Queue, Some(queued)) => {
            let by = holder(&queued.operation).to_string();
            return Err(Busy::Queued { application: name, by });
        }
        (IfTaken::Queue, None) => None,
        (IfTaken::Supersede, _) => Some(SafePoint::Waiting),
    };
    if when.is_some() && may_replace && operation::id(current).is_none() {
        let message = format!("{SUPERSEDED}{} before it began", holder(&asked));
        let ended = Progress { phase: OperationPhase::Failed, ..Progress::refused(message, now) };
        operation::take_in(application, ended);
        application.operation = Some(asked);
        return Ok(());
    }
    set_next(current, &Next { operation: asked, when, is_retry: false });
    Ok(())
}

/// Whoever takes the place of an operation.
fn holder(asked: &OperationRequest) -> ClaimHolder {
    let by = &asked.initiated_by;
    let sync = asked.sync.as_ref();
    ClaimHolder {
        who: if by.automated { String::new() } else { by.username.clone() },
        revision: sync.map(|sync| revisions(&sync.revision, &sync.revisions).join(" ")).unwrap_or_default(),
        ..ClaimHolder::default()
    }
}

/// What becomes of the operation under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing waits for it.
    GoOn,
    /// It goes on, and this waits for its end.
    Finish(String),
    /// It is ended where that does no harm.
    Supersede {
        /// What takes its place.
        by: ClaimHolder,
        /// Where it may be ended.
        when: SafePoint,
        /// In words.
        why: String,
    },
}

/// What a decision goes by besides the application.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// Sync windows let nothing begin now that nobody asked for.
    pub is_held: bool,
    /// The newest revisions have the very manifests that the operation deploys: what differs is not the application's.
    pub is_same: bool,
}

/// What becomes of the operation under way, after a comparison, whose outcome is in the status.
pub fn decide(application: &Application, given: Given, now: Timestamp) -> Decision {
    let Some(current) = &application.operation else { return Decision::GoOn };
    if operation::id(current).is_none() || operation::cascade(current).is_some() || application.is_deleting()
    {
        return Decision::GoOn;
    }
    let next = next(current);
    if let Some(next) = next.as_ref().filter(|next| !next.is_retry) {
        return of_person(next);
    }
    let decided = of_newer(application, current, given, now);
    match (decided, next) {
        (decided @ Decision::Supersede { .. }, _) => decided,
        // It would begin by itself.
        (decided, Some(retry)) if given.is_held && retry.operation.initiated_by.automated => decided,
        (_, Some(retry)) => {
            let by = holder(&retry.operation);
            let why = format!("{by} takes its place if this attempt fails (retry.refresh)");
            Decision::Supersede { by, when: SafePoint::Failed, why }
        }
        (decided, None) => decided,
    }
}

fn of_person(next: &Next) -> Decision {
    let by = holder(&next.operation);
    match next.when {
        Some(when) => {
            let why = format!("{by} is to take its place");
            Decision::Supersede { by, when, why }
        }
        None => Decision::Finish(format!("{by} waits until the operation at work is over")),
    }
}

/// The newest revisions, as a comparison has found them, where the operation deploys others.
fn newer<'a>(application: &'a Application, current: &OperationRequest) -> Option<&'a SyncStatus> {
    let newest = application.status.sync.as_ref();
    let newest = newest.filter(|newest| newest.status != SyncStatusCode::Unknown)?;
    let sync = current.sync.as_ref()?;
    let found = revisions(&newest.revision, &newest.revisions);
    let is_other = found != revisions(&sync.revision, &sync.revisions);
    (is_other && found.iter().all(|revision| !revision.is_empty()) && !found.is_empty()).then_some(newest)
}

/// A newer revision supersedes what was begun without being asked, if nobody says otherwise.
fn of_newer(application: &Application, current: &OperationRequest, given: Given, now: Timestamp) -> Decision {
    let newest = newer(application, current).filter(|_| !given.is_same);
    let Some(newest) = newest else { return Decision::GoOn };
    if automated(application).is_none() || running::is_of_rollout(current) {
        return Decision::GoOn;
    }
    let found = revisions(&newest.revision, &newest.revisions);
    let newer = format!("revision {}", short(&found));
    let waits =
        |why: &str| Decision::Finish(format!("{newer} waits until the operation at work is over: {why}"));
    match on_new_revision(application) {
        Err(problem) => return waits(&problem),
        Ok(Some(OnNewRevision::Finish)) => return waits(&format!("{ON_NEW_REVISION} says finish")),
        // Somebody may have chosen an older one.
        Ok(_) if !current.initiated_by.automated => return waits("somebody asked for that"),
        // And nobody has approved the newer one.
        Ok(None) if approval::plan_of(current).is_some() => {
            return waits("somebody has approved the plan of that");
        }
        Ok(_) => {}
    }
    if given.is_held {
        return waits("sync windows keep it from being synced by itself");
    }
    // Where the newest changes nothing, the older one is not wanted either, and the hooks are to run all the same.
    if let Some(error) = automation::wanted(application, now).error {
        return waits(&error);
    }
    let by = ClaimHolder { revision: found.join(" "), ..ClaimHolder::default() };
    Decision::Supersede { by, when: SafePoint::Waiting, why: format!("{newer} is to take its place") }
}

fn short(revisions: &[String]) -> String {
    let short = |one: &String| one.chars().take(SHORT).collect::<String>();
    revisions.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// The sources and revisions that an operation deploys which a newer revision may supersede.
pub fn at_stake(application: &Application) -> Option<(OperationId, Sources, Vec<String>)> {
    let current = application.operation.as_ref().filter(|current| current.initiated_by.automated)?;
    let id = operation::id(current)?;
    let of = operation::sources(application, current).ok()?;
    let revisions = operation::revisions(current, &of).ok()?;
    Some((id, of, revisions))
}

/// Another attempt of an operation whose policy says `retry.refresh` takes the newest revision of the same sources: it comes
/// next where a comparison has found one.
pub fn refresh_retry(application: &mut Application) {
    let Some(current) = application.operation.as_ref() else { return };
    let queued = next(current);
    if queued.as_ref().is_some_and(|queued| !queued.is_retry) {
        return;
    }
    let wanted = newest_attempt(application, current).map(|operation| Next {
        operation,
        when: Some(SafePoint::Failed),
        is_retry: true,
    });
    if wanted == queued {
        return;
    }
    let Some(current) = &mut application.operation else { return };
    match wanted {
        Some(wanted) => set_next(current, &wanted),
        None => forget_next(current),
    }
}

fn newest_attempt(application: &Application, current: &OperationRequest) -> Option<OperationRequest> {
    let retry = current.retry.as_ref().filter(|retry| retry.refresh)?;
    if operation::id(current).is_none()
        || operation::cascade(current).is_some()
        || running::is_of_rollout(current)
        || application.is_deleting()
    {
        return None;
    }
    let newest = newer(application, current)?;
    // What was compared are the sources of the application; the operation keeps those it began with.
    let own = Sources::of(application).bare();
    let of = operation::sources(application, current).ok().filter(|of| of.bare() == own)?;
    let state = application.status.operation_state.as_ref();
    let retried = state.map_or(0, |state| state.retry_count);
    let mut again = current.clone();
    operation::disown(&mut again);
    forget_next(&mut again);
    let limit = if retry.limit < 0 { retry.limit } else { retry.limit.saturating_sub(retried + 1).max(0) };
    again.retry = Some(Retry { limit, ..retry.clone() });
    let sync = again.sync.get_or_insert_default();
    (sync.revision, sync.revisions) = of.revisions(&revisions(&newest.revision, &newest.revisions));
    Some(again)
}
