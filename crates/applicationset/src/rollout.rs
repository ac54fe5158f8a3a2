//! Rules for starting progressive syncs, and the inputs of running ones.
//!
//! A rollout has a target for each Application that a step selects: its spec and the current revisions of its
//! sources. Different targets make a different rollout. Operations don't affect the targets.

mod annotation;
mod not_running;
mod targets;

use std::collections::BTreeMap;

use tidegate_application::AppKey;
use tidegate_lifecycle::fleet::{Labels, assign_step, join_names};
use tidegate_lifecycle::rollout::{
    DeployedState, End, Input, Member, MemberSpec, MemberStatus as Word, Options as Cases, Progress,
    ProgressingCondition, Request, Rollout, State, Step, Target, UserRequest, advance, apply, decide,
    list_overdue, progressing_condition, view,
};
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSetApplicationStatus, MemberStatus, UnknownFields,
};
use tidegate_model::{OperationId, SyncRequest, Timestamp};
use tidegate_planner::IgnoreError;

use crate::changes::{AppSetChanges, AppSetOutput, UnchangedReason};
use crate::rollout_steps::{InvalidStep, parse_steps};
use crate::status::{ConditionReason, ReconcileFailure, RolloutStatus};
use crate::sync_policy::{AppSetRuleOptions, is_progressive, rolling_steps};
pub use annotation::{InvalidRolloutAnnotation, ROLLOUT_ANNOTATION, RolloutOptions};
pub use not_running::{NoRunningMachine, check_retry, describe_situation, retry_command};
pub use targets::{TargetIdentities, awaited_comparison_message, target_revisions};

/// Requester of rollouts, as recorded in the log and in the Applications.
pub const ROLLOUT_REQUESTER: &str = SyncRequest::ROLLOUT_REQUESTER;

/// State of an Application that rollouts need.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownMember {
    /// Current revisions, one per source: commits rather than branches.
    pub revisions: Vec<String>,
    /// Last deployed state, if any.
    pub deployed: Option<DeployedState>,
    /// Operation that deployed the target, if the Application has remained Synced and Healthy since.
    pub completed_by: Option<OperationId>,
}

/// Reason a progressive sync can't be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RolloutRequestError {
    /// A step is invalid.
    #[error("{0}. No Applications will be synced until this is fixed")]
    InvalidStep(#[from] InvalidStep),
    /// The rollout annotation is invalid.
    #[error("{0}. No Applications will be synced until this is fixed")]
    InvalidAnnotation(#[from] InvalidRolloutAnnotation),
    /// The rules for ignored fields are invalid, so the targets are unknown.
    #[error("spec.ignoreApplicationDifferences: {0}. No Applications will be synced until this is fixed")]
    InvalidIgnoreRules(IgnoreError),
    /// The revisions of some Applications are unknown.
    #[error("the progressive sync starts once the source revisions of these Applications are resolved: {0}")]
    Unresolved(String),
}

impl RolloutRequestError {
    /// Returns the failure to report in the conditions.
    pub fn failure(&self) -> ReconcileFailure {
        ReconcileFailure { reason: ConditionReason::SyncApplicationError, message: self.to_string() }
    }
}

/// Returns the Applications that take part in a progressive sync: those that match the output, or will once
/// the pending changes are made. Rejected and deleted Applications are left out so that they don't block the
/// sync.
pub fn participants<'a>(
    generated: &'a AppSetOutput,
    changes: &'a AppSetChanges,
) -> impl Iterator<Item = &'a Application> {
    generated.applications.iter().filter_map(|(name, application)| {
        matches!(changes.unchanged.get(name), None | Some(UnchangedReason::Unchanged)).then_some(application)
    })
}

/// Checks the steps of the progressive sync and their settings.
///
/// # Errors
///
/// Fails if a step or the annotation is invalid.
pub(crate) fn check_steps(set: &ApplicationSet) -> Result<(), RolloutRequestError> {
    let steps = parse_steps("spec.strategy.rollingSync", rolling_steps(set))?;
    annotation::apply_annotation(set, steps, Cases::default())?;
    Ok(())
}

/// Returns the progressive sync that an ApplicationSet calls for, based on the generated labels. `cases` are
/// the service's defaults.
pub fn rollout_request<'a>(
    set: &ApplicationSet,
    targets: &TargetIdentities,
    participants: impl IntoIterator<Item = &'a Application>,
    standing: &BTreeMap<String, KnownMember>,
    cases: Cases,
) -> Result<Request, RolloutRequestError> {
    let steps = parse_steps("spec.strategy.rollingSync", rolling_steps(set))?;
    let (steps, options) = annotation::apply_annotation(set, steps, cases)?;
    let mut members = Vec::new();
    let mut unresolved = Vec::new();
    for application in participants {
        let metadata = &application.metadata;
        let known = standing.get(&metadata.name);
        if known.is_none() && is_selected(&steps, &metadata.labels) {
            unresolved.push(metadata.name.as_str());
        }
        let KnownMember { revisions, deployed: before, completed_by: done_by } =
            known.cloned().unwrap_or_default();
        members.push(MemberSpec {
            name: metadata.name.clone(),
            labels: metadata.labels.clone(),
            target: Target { revisions, spec: targets.spec_identity(application) },
            before,
            done_by,
        });
    }
    if !unresolved.is_empty() {
        return Err(RolloutRequestError::Unresolved(join_names(&unresolved)));
    }
    let of_targets = selected_members(&steps, &members).map(|member| (member.name.as_str(), &member.target));
    let identity = targets::targets_identity(of_targets);
    Ok(Request {
        set: qualified_name(set),
        uid: set.metadata.uid.clone(),
        targets: identity,
        by: ROLLOUT_REQUESTER.to_owned(),
        steps,
        members,
        options,
    })
}

/// Returns an ApplicationSet's name in the log: `namespace/name`.
pub fn qualified_name(set: &ApplicationSet) -> String {
    AppKey::of_appset(set).qualified_name()
}

/// Returns the members that a step selects.
fn selected_members<'a>(
    steps: &'a [Step],
    members: &'a [MemberSpec],
) -> impl Iterator<Item = &'a MemberSpec> {
    members.iter().filter(move |member| is_selected(steps, &member.labels))
}

fn is_selected(steps: &[Step], labels: &Labels) -> bool {
    assign_step(steps.iter().map(|step| step.expressions.as_slice()), labels).step.is_some()
}

/// Next action for an ApplicationSet's rollout request.
#[derive(Clone, Debug, PartialEq)]
pub enum RolloutStepDue {
    /// There is nothing to do.
    Nothing,
    /// Starts a new rollout.
    Start(Box<Request>),
    /// Sends inputs to the running rollout.
    SendInputs(Vec<Input>),
}

/// Decides whether to start a new rollout. `last` is the ApplicationSet's newest rollout, finished or not.
/// `is_asked` is true if a user requests a rollout of unchanged targets.
pub fn next_rollout_step(request: Request, last: Option<&State>, is_asked: bool) -> RolloutStepDue {
    let is_done = selected_members(&request.steps, &request.members).all(|member| member.done_by.is_some());
    let begins = match last.and_then(State::rollout) {
        Some(rollout) if last.is_some_and(|state| !state.is_finished()) => {
            return inputs_for_running(request, rollout);
        }
        None => true,
        Some(rollout) => {
            is_asked
                || has_other_targets(rollout, &request)
                || was_interrupted(rollout)
                || has_departed_member(rollout, &request)
        }
    };
    if begins && !is_done { RolloutStepDue::Start(Box::new(request)) } else { RolloutStepDue::Nothing }
}

/// Returns the request that ends the running rollout of an ApplicationSet without a progressive sync, or
/// pauses it while operations are running: nothing else would sync their Applications.
pub fn unwanted_rollout_request(
    set: &ApplicationSet,
    rollout: &Rollout,
    options: &AppSetRuleOptions,
) -> Option<UserRequest> {
    if is_progressive(set, options) || rollout.terminated.is_some() {
        return None;
    }
    let is_at_work = |member: &Member| matches!(member.progress, Progress::Running { .. });
    match rollout.members.values().any(is_at_work) {
        false => Some(UserRequest::Terminate),
        true => rollout.paused.is_none().then_some(UserRequest::Pause),
    }
}

/// Returns true if any Application has a target that is new to the rollout.
fn has_other_targets(rollout: &Rollout, request: &Request) -> bool {
    selected_members(&request.steps, &request.members).any(|member| {
        let known = rollout.members.get(&member.name).filter(|known| known.progress != Progress::Gone);
        known.is_none_or(|known| known.place.step.is_none() || known.target != member.target)
    })
}

/// Returns true if the rollout stopped because the targets changed. They may have changed back since.
fn was_interrupted(rollout: &Rollout) -> bool {
    rollout.outcome.as_ref().is_some_and(|outcome| outcome.end == End::Superseded)
}

/// Returns true if an Application has left the target that the rollout deployed. Applications that never
/// reached their targets don't count, because users have already decided what to do with them.
fn has_departed_member(rollout: &Rollout, request: &Request) -> bool {
    selected_members(&request.steps, &request.members).filter(|member| member.done_by.is_none()).any(
        |member| {
            let last = rollout.members.get(&member.name);
            last.is_some_and(|last| {
                matches!(last.progress, Progress::Healthy { .. }) && last.target == member.target
            })
        },
    )
}

/// Returns the inputs that a running rollout hasn't received yet.
fn inputs_for_running(request: Request, rollout: &Rollout) -> RolloutStepDue {
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
    if news.is_empty() { RolloutStepDue::Nothing } else { RolloutStepDue::SendInputs(news) }
}

/// Returns the status of an ApplicationSet whose first progressive sync has nothing to do.
pub fn completed_status(request: &Request, now: Timestamp) -> RolloutStatus {
    let mut state = State::New;
    let mut events = decide(&state, &Input::Begin(Box::new(request.clone())), now).unwrap_or_default();
    while !events.is_empty() {
        for event in &events {
            match apply(state, event) {
                Ok(next) => state = next,
                Err(_) => return RolloutStatus::Unknown,
            }
        }
        events = advance(&state, now);
    }
    rollout_status(&state).0
}

/// Returns the status of an ApplicationSet's newest rollout, and its failure if it has failed.
pub fn rollout_status(state: &State) -> (RolloutStatus, Option<ReconcileFailure>) {
    let Some((rollout, view)) = state.rollout().zip(view(state)) else {
        return (RolloutStatus::Unknown, None);
    };
    let ProgressingCondition { is_progressing, message, reason } = progressing_condition(rollout);
    let failure = rollout
        .outcome
        .as_ref()
        .filter(|outcome| matches!(outcome.end, End::Failed | End::RolledBack | End::Error));
    let failure = failure.map(|outcome| ReconcileFailure {
        reason: ConditionReason::SyncApplicationError,
        message: outcome.message.clone(),
    });
    let members = view.members.into_iter().map(|member| ApplicationSetApplicationStatus {
        application: member.application,
        status: match member.status {
            Word::Waiting => MemberStatus::Waiting,
            Word::Pending => MemberStatus::Pending,
            Word::Progressing => MemberStatus::Progressing,
            Word::Healthy => MemberStatus::Healthy,
            Word::RolledBack => MemberStatus::RolledBack,
        },
        message: member.message,
        step: member.step,
        target_revisions: member.target_revisions,
        last_transition_time: Some(member.last_transition_time.into()),
        rest: UnknownFields::new(),
    });
    let (reason, members, warning) = (reason.to_owned(), members.collect(), list_overdue(rollout));
    let status = RolloutStatus::Known { is_progressing, reason, message, warning, members };
    (status, failure)
}
