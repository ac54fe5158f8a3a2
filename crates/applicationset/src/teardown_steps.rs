//! Rules for starting ordered deletions of Applications, and the inputs of running ones.

use std::collections::BTreeMap;

use tidegate_application::deletion::DeletionRequester;
use tidegate_lifecycle::fleet::Attribution;
use tidegate_lifecycle::teardown::{
    Approval, End, Input, Member, MemberSpec, Options, Order, Progress, Request, Teardown,
};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::changes::AppSetOutput;
use crate::deletion::MemberDeletion;
use crate::deletion_limit::{DELETIONS_APPROVED_ANNOTATION, DeletionPermit};
use crate::retry::RetryAnnotation;
use crate::rollout::{ROLLOUT_REQUESTER, qualified_name};

/// An ApplicationSet's newest ordered deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewestTeardown<'a> {
    /// The deletion, running or finished. It may belong to a deleted ApplicationSet of the same name.
    pub teardown: Option<&'a Teardown>,
    /// True if it is running.
    pub is_running: bool,
}

impl<'a> NewestTeardown<'a> {
    /// Returns the deletion if it belongs to this ApplicationSet.
    pub fn of_appset(self, set: &ApplicationSet) -> Option<&'a Teardown> {
        self.teardown.filter(|teardown| teardown.uid == set.metadata.uid)
    }

    /// Returns true if the running deletion will finish on its own: it isn't paused, and all Applications
    /// that it is waiting for are gone. `exists` looks up an Application by name and UID.
    pub fn will_end(self, exists: impl Fn(&str, &str) -> bool) -> bool {
        let Some(teardown) = self.teardown.filter(|_| self.is_running) else { return false };
        let mut open = teardown.members.iter().filter(|(_, member)| !member.progress.is_settled());
        teardown.paused.is_none() && open.all(|(name, member)| !exists(name, &member.uid))
    }
}

/// Applications to delete in order.
#[derive(Clone, Debug)]
pub struct OrderedDeletions<'a> {
    /// Order of the deletions.
    pub order: Order,
    /// Applications to delete.
    pub deletions: &'a [MemberDeletion],
    /// Permit for deletions that exceed the limit.
    pub permit: Option<DeletionPermit>,
}

/// Next action for an ordered deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum TeardownStepDue {
    /// There is nothing to do.
    Nothing,
    /// Starts a new deletion.
    Start(Box<Request>),
    /// Sends inputs to the running deletion.
    SendInputs(Vec<Input>),
}

/// Returns the member spec of an Application to delete or orphan.
pub fn member_spec(application: &Application) -> MemberSpec {
    let metadata = &application.metadata;
    MemberSpec { name: metadata.name.clone(), uid: metadata.uid.clone(), labels: metadata.labels.clone() }
}

/// Decides whether to start a new deletion. One that a user terminated or that missed its deadline restarts
/// only on request: `retry`.
pub fn next_teardown_step(
    set: &ApplicationSet,
    wanted: OrderedDeletions<'_>,
    newest: NewestTeardown<'_>,
    retry: Option<&RetryAnnotation>,
    now: Timestamp,
) -> TeardownStepDue {
    let approved = wanted.permit.map(|permit| deletion_approval(permit, now));
    let mut members: Vec<MemberSpec> =
        wanted.deletions.iter().map(|one| member_spec(&one.application)).collect();
    if newest.is_running {
        let is_new = |one: &MemberSpec| {
            let known = newest.teardown.and_then(|known| known.members.get(&one.name));
            known.is_none_or(|old| old.uid != one.uid)
        };
        members.retain(is_new);
        if members.is_empty() {
            return TeardownStepDue::Nothing;
        }
        let joined = members.into_iter().map(|member| Input::Joined { member: Box::new(member) });
        return TeardownStepDue::SendInputs(
            approved.map(Input::Approved).into_iter().chain(joined).collect(),
        );
    }
    let kept_members: BTreeMap<String, Attribution> = match (retry, newest.of_appset(set)) {
        (None, Some(last)) => members
            .iter()
            .filter_map(|one| Some((one.name.clone(), kept_by(last, &one.name, &one.uid)?)))
            .collect(),
        // A retry also deletes the Applications that an earlier deletion kept.
        _ => BTreeMap::new(),
    };
    if kept_members.len() == members.len() {
        return TeardownStepDue::Nothing;
    }
    let by = match (retry, DeletionRequester::from_metadata(&set.metadata)) {
        (Some(retry), _) => retry.requester_text(),
        (None, Some(requester)) => requester.to_log_text(),
        // The store doesn't record who deleted the ApplicationSet.
        (None, None) if set.metadata.deletion_timestamp.is_some() => String::new(),
        (None, None) => ROLLOUT_REQUESTER.to_owned(),
    };
    TeardownStepDue::Start(Box::new(Request {
        set: qualified_name(set),
        uid: set.metadata.uid.clone(),
        by,
        order: wanted.order,
        members,
        kept_members,
        options: Options::default(),
        approved,
    }))
}

/// Returns the attribution for an Application that a deletion kept: the user who skipped it or terminated the
/// deletion, or else the deletion that ended early. The members of the newest deletion include the
/// Applications that earlier ones kept.
pub fn kept_by(last: &Teardown, name: &str, uid: &str) -> Option<Attribution> {
    let member = last.members.get(name).filter(|member| member.uid == uid)?;
    if let Some(skipped) = skipped_by(member) {
        return Some(skipped.clone());
    }
    let outcome = last.outcome.as_ref().filter(|outcome| outcome.end != End::Completed)?;
    let by_itself = || Attribution {
        by: "the previous deletion".to_owned(),
        why: outcome.message.clone(),
        at: outcome.at,
    };
    Some(last.terminated.clone().unwrap_or_else(by_itself))
}

/// Returns true if a user skipped an Application.
pub fn is_skipped(last: &Teardown, application: &Application) -> bool {
    let member = last.members.get(&application.metadata.name);
    member.is_some_and(|member| member.uid == application.metadata.uid && skipped_by(member).is_some())
}

/// Returns the Applications that are generated again and whose deletion hasn't started.
pub fn regenerated_members<'a>(teardown: &'a Teardown, generated: &AppSetOutput) -> Vec<&'a str> {
    let is_kept = |(name, member): &(&String, &Member)| {
        matches!(member.progress, Progress::Waiting) && generated.applications.contains_key(*name)
    };
    teardown.members.iter().filter(is_kept).map(|(name, _)| name.as_str()).collect()
}

/// Returns the user who skipped a member. Returns `None` if the member was kept because it is generated
/// again, since a later deletion may delete it.
fn skipped_by(member: &Member) -> Option<&Attribution> {
    match &member.progress {
        Progress::Left(said) if said.by != ROLLOUT_REQUESTER => Some(said),
        _ => None,
    }
}

/// Returns the approval of deletions. The author of an annotation that a user wrote directly is unknown.
fn deletion_approval(permit: DeletionPermit, now: Timestamp) -> Approval {
    let by_hand = || Attribution {
        by: format!("the {DELETIONS_APPROVED_ANNOTATION} annotation"),
        why: String::new(),
        at: now,
    };
    let said = permit.approval.map(|given| Attribution {
        by: given.by,
        why: given.reason,
        at: given.at.timestamp(),
    });
    Approval { token: permit.token, said: said.unwrap_or_else(by_hand) }
}
