//! Is a progressive sync to be begun, and what is one that is under way to be told?
//!
//! A rollout is about targets: of each Application that a step selects, the revisions that its sources mean now, and its
//! specification. Other targets are another rollout; what an Application does by itself is none.

mod extras;
mod idle;
mod targets;

use std::collections::BTreeMap;

use tidegate_lifecycle::fleet::{Labels, assign, enumerate};
use tidegate_lifecycle::rollout::{
    Deployed, End, Input, MemberSpec, MemberStatus as Word, Options as Cases, Progress, Request, Rollout,
    State, Step, Target, condition, decide, evolve, follow, overdue, view,
};
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSetApplicationStatus, MemberStatus, Rest,
};
use tidegate_model::{OperationId, SyncRequest, Timestamp};
use tidegate_planner::IgnoreError;

use crate::changes::{Changes, Generated, Left};
use crate::policy::rolling_steps;
use crate::status::{Failure, Reason, Rollout as Told};
use crate::steps::{InvalidStep, steps};
pub use extras::{InvalidExtras, OwnCases, ROLLOUT_ANNOTATION};
pub use idle::{Idle, again, how, why_not_again};
pub use targets::Targets;

/// Who begins rollouts, as the log and the Applications have it.
pub const BY: &str = SyncRequest::ROLLOUT;

/// How an Application stands, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The revisions that its sources mean now, one a source: commits, and no branches.
    pub revisions: Vec<String>,
    /// What it has.
    pub before: Option<Deployed>,
    /// The operation that has brought it to its target, where it was seen Synced and Healthy since.
    pub done_by: Option<OperationId>,
}

/// Why no progressive sync can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    /// A step means nothing.
    #[error("{0}. No Application is synced before that is mended")]
    Step(#[from] InvalidStep),
    /// What is said beside the steps means nothing.
    #[error("{0}. No Application is synced before that is mended")]
    Extras(#[from] InvalidExtras),
    /// Nobody knows which fields are no part of a target.
    #[error("spec.ignoreApplicationDifferences: {0}. No Application is synced before that is mended")]
    Ignore(IgnoreError),
    /// It is not known what it would be about.
    #[error(
        "the progressive sync begins when it is known which revisions the sources of these Applications mean: {0}"
    )]
    Unresolved(String),
}

impl NotAsked {
    /// What the conditions say of it.
    pub fn failure(&self) -> Failure {
        Failure { reason: Reason::SyncApplicationError, message: self.to_string() }
    }
}

/// The Applications that a progressive sync is about: those that are as they are generated, or are about to be. What is
/// refused or goes is no part of it, and holds nobody up.
pub fn participants<'a>(
    generated: &'a Generated,
    changes: &'a Changes,
) -> impl Iterator<Item = &'a Application> {
    generated.applications.iter().filter_map(|(name, application)| {
        matches!(changes.left.get(name), None | Some(Left::Unchanged)).then_some(application)
    })
}

/// The progressive sync that a set asks for, with the labels that were generated. `cases`: what the service decides for
/// cases of which a set says nothing.
pub fn request<'a>(
    set: &ApplicationSet,
    targets: &Targets,
    participants: impl IntoIterator<Item = &'a Application>,
    standing: &BTreeMap<String, Standing>,
    cases: Cases,
) -> Result<Request, NotAsked> {
    let steps = steps("spec.strategy.rollingSync", rolling_steps(set))?;
    let (steps, options) = extras::apply(set, steps, cases)?;
    let mut members = Vec::new();
    let mut unresolved = Vec::new();
    for application in participants {
        let metadata = &application.metadata;
        let known = standing.get(&metadata.name);
        if known.is_none() && is_selected(&steps, &metadata.labels) {
            unresolved.push(metadata.name.as_str());
        }
        let Standing { revisions, before, done_by } = known.cloned().unwrap_or_default();
        members.push(MemberSpec {
            name: metadata.name.clone(),
            labels: metadata.labels.clone(),
            target: Target { revisions, spec: targets.spec(application) },
            before,
            done_by,
        });
    }
    if !unresolved.is_empty() {
        return Err(NotAsked::Unresolved(enumerate(&unresolved)));
    }
    let of_targets = selected(&steps, &members).map(|member| (member.name.as_str(), &member.target));
    let identity = targets::identity(of_targets);
    Ok(Request {
        set: full_name(set),
        uid: set.metadata.uid.clone(),
        targets: identity,
        by: BY.to_owned(),
        steps,
        members,
        options,
    })
}

/// A set as the log names it: `namespace/name`.
pub fn full_name(set: &ApplicationSet) -> String {
    format!("{}/{}", set.metadata.home(), set.metadata.name)
}

/// The members that some step selects.
fn selected<'a>(steps: &'a [Step], members: &'a [MemberSpec]) -> impl Iterator<Item = &'a MemberSpec> {
    members.iter().filter(move |member| is_selected(steps, &member.labels))
}

fn is_selected(steps: &[Step], labels: &Labels) -> bool {
    assign(steps.iter().map(|step| step.expressions.as_slice()), labels).step.is_some()
}

/// What follows from what a set asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A new rollout is begun.
    Begin(Box<Request>),
    /// The rollout that is under way is told this.
    Tell(Vec<Input>),
}

/// Whether a new rollout is due. `last`: the newest rollout of the set, over or not. `is_asked`: a person wants one, though
/// the targets are no others.
pub fn due(request: Request, last: Option<&State>, is_asked: bool) -> Due {
    let is_done = selected(&request.steps, &request.members).all(|member| member.done_by.is_some());
    let begins = match last.and_then(State::rollout) {
        Some(rollout) if last.is_some_and(|state| !state.is_finished()) => return told(request, rollout),
        None => true,
        Some(rollout) => {
            is_asked
                || has_other_targets(rollout, &request)
                || was_cut_short(rollout)
                || has_left(rollout, &request)
        }
    };
    if begins && !is_done { Due::Begin(Box::new(request)) } else { Due::Nothing }
}

/// Whether Applications are to be brought to what it was not begun for, and was not told of while it was under way.
fn has_other_targets(rollout: &Rollout, request: &Request) -> bool {
    selected(&request.steps, &request.members).any(|member| {
        let known = rollout.members.get(&member.name).filter(|known| known.progress != Progress::Gone);
        known.is_none_or(|known| known.place.step.is_none() || known.target != member.target)
    })
}

/// Other targets have ended it, which are none any more.
fn was_cut_short(rollout: &Rollout) -> bool {
    rollout.outcome.as_ref().is_some_and(|outcome| outcome.end == End::Superseded)
}

/// An Application that it has brought to its target was brought to another one since. Those it has never brought there are
/// left to people, who have decided about them.
fn has_left(rollout: &Rollout, request: &Request) -> bool {
    selected(&request.steps, &request.members).filter(|member| member.done_by.is_none()).any(|member| {
        let last = rollout.members.get(&member.name);
        last.is_some_and(|last| {
            matches!(last.progress, Progress::Healthy { .. }) && last.target == member.target
        })
    })
}

/// What a rollout that is under way does not know yet.
fn told(request: Request, rollout: &Rollout) -> Due {
    let mut news = Vec::new();
    let mut is_other = false;
    let now: BTreeMap<&str, &MemberSpec> =
        request.members.iter().map(|one| (one.name.as_str(), one)).collect();
    for (name, member) in &rollout.members {
        if member.progress == Progress::Gone {
            continue;
        }
        match now.get(name.as_str()) {
            None => news.push(Input::Gone { member: name.clone() }),
            Some(now) => is_other |= member.place.step.is_some() && now.target != member.target,
        }
    }
    let targets = request.targets;
    if is_other {
        let is_known = rollout.new_targets.is_some_and(|known| known.targets == targets);
        news.extend((!is_known).then_some(Input::NewTargets { targets }));
    } else {
        let is_new = |one: &MemberSpec| {
            rollout.members.get(&one.name).is_none_or(|old| old.progress == Progress::Gone)
        };
        let joined = request.members.into_iter().filter(is_new);
        news.extend(joined.map(|member| Input::Joined { member: Box::new(member) }));
    }
    if news.is_empty() { Due::Nothing } else { Due::Tell(news) }
}

/// What the status of a set says that asks for a progressive sync in which nothing is to be done, and had none before.
pub fn settled(request: &Request, now: Timestamp) -> Told {
    let mut state = State::New;
    let mut facts = decide(&state, &Input::Begin(Box::new(request.clone())), now).unwrap_or_default();
    while !facts.is_empty() {
        for fact in &facts {
            match evolve(state, fact) {
                Ok(next) => state = next,
                Err(_) => return Told::Unknown,
            }
        }
        facts = follow(&state, now);
    }
    status(&state).0
}

/// What the status of the set says of its newest rollout, and what went wrong with it.
pub fn status(state: &State) -> (Told, Option<Failure>) {
    let Some((rollout, view)) = state.rollout().zip(view(state)) else { return (Told::Unknown, None) };
    let (is_progressing, message, reason) = condition(rollout);
    let failure = rollout
        .outcome
        .as_ref()
        .filter(|outcome| matches!(outcome.end, End::Failed | End::RolledBack | End::Error));
    let failure = failure
        .map(|outcome| Failure { reason: Reason::SyncApplicationError, message: outcome.message.clone() });
    let members = view.members.into_iter().map(|member| ApplicationSetApplicationStatus {
        application: member.application,
        status: match member.status {
            Word::Waiting => MemberStatus::Waiting,
            Word::Pending => MemberStatus::Pending,
            Word::Progressing => MemberStatus::Progressing,
            Word::Healthy => MemberStatus::Healthy,
        },
        message: member.message,
        step: member.step,
        target_revisions: member.target_revisions,
        last_transition_time: Some(member.last_transition_time.into()),
        rest: Rest::new(),
    });
    let (reason, members, warning) = (reason.to_owned(), members.collect(), overdue(rollout));
    let told = Told::Known { is_progressing, reason, message, warning, members };
    (told, failure)
}
