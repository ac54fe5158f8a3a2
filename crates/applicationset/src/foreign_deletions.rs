//! Deletions of Applications by other clients. If an ApplicationSet is deleted in the foreground, the
//! Kubernetes garbage collector deletes all of its Applications at once, before the controller knows.

use std::collections::BTreeSet;

use tidegate_lifecycle::teardown::{Progress, Teardown};
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};

use crate::deletion::{foreground_warning, is_deleted_earlier};
use crate::ownership::{Owner, owner_of};
use crate::reconcile_schedule::RETRY_DELAY;
use crate::sync_policy::AppSetRuleOptions;

/// Query about an ApplicationSet's deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionQuery {
    /// No query is needed.
    Unneeded,
    /// A query is needed, but not before this time.
    Wait(Timestamp),
    /// Asks the store whether the ApplicationSet is being deleted. These Applications are.
    Ask(Vec<String>),
}

/// Deletions requested by other clients, by UID of the Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignDeletions {
    /// Deleted Applications that already caused a query about the ApplicationSet's deletion.
    checked: BTreeSet<String>,
    /// Applications deleted independently of the ApplicationSet.
    independent: BTreeSet<String>,
    /// Time of the next attempt after a failed query.
    retry_at: Option<Timestamp>,
    /// True if the warning about a foreground deletion has been emitted.
    is_warned: bool,
}

impl ForeignDeletions {
    /// Returns the UIDs of released Applications: those that the ordered deletion `last` has deleted or left
    /// to users, and those that other clients deleted before the ApplicationSet.
    pub fn released_uids<'a>(
        &self,
        set: &ApplicationSet,
        members: impl IntoIterator<Item = &'a Application>,
        last: Option<&Teardown>,
    ) -> BTreeSet<String> {
        let deleted = last.into_iter().flat_map(|teardown| {
            // The deletion of the ApplicationSet releases a skipped Application after all others.
            let is_due = |progress: &Progress| {
                !matches!(progress, Progress::Waiting | Progress::Condemned | Progress::Left(_))
            };
            let all = teardown.members.values();
            all.filter(move |one| teardown.is_watched(one) || is_due(&one.progress)).map(|one| &one.uid)
        });
        let independent = members
            .into_iter()
            .filter(|one| {
                let is_independent = self.independent.contains(&one.metadata.uid);
                one.is_deleting() && (is_independent || is_deleted_earlier(set, one))
            })
            .map(|one| &one.metadata.uid);
        deleted.chain(independent).cloned().collect()
    }

    /// Decides whether to ask the store if the ApplicationSet is being deleted, because its Applications are.
    /// The cache may be outdated.
    pub fn start_query<'a>(
        &mut self,
        set: &ApplicationSet,
        members: impl IntoIterator<Item = &'a Application>,
        released: &BTreeSet<String>,
        now: Timestamp,
    ) -> DeletionQuery {
        if set.metadata.deletion_timestamp.is_some() {
            return DeletionQuery::Unneeded;
        }
        let is_own = |one: &&Application| one.is_deleting() && owner_of(set, one) == Owner::AppSet;
        let uids = members.into_iter().filter(is_own).map(|one| &one.metadata.uid);
        let new: Vec<String> =
            uids.filter(|uid| !released.contains(*uid) && !self.checked.contains(*uid)).cloned().collect();
        if new.is_empty() {
            return DeletionQuery::Unneeded;
        }
        if let Some(again) = self.retry_at.filter(|again| now < *again) {
            return DeletionQuery::Wait(again);
        }
        self.checked.extend(new.iter().cloned());
        DeletionQuery::Ask(new)
    }

    /// Records the store's answer: true if the ApplicationSet is being deleted. An event then reports its
    /// deletion, and its deletion order applies from then on. Returns the time to repeat a failed query.
    pub fn finish_query<'a, E>(
        &mut self,
        uids: Vec<String>,
        is_deleting: &Result<bool, E>,
        members: impl IntoIterator<Item = &'a Application>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut retry_at = None;
        match is_deleting {
            Ok(false) => self.independent.extend(uids),
            Ok(true) => {}
            Err(_) => {
                self.checked.retain(|uid| !uids.contains(uid));
                retry_at = Some(now + RETRY_DELAY);
                self.retry_at = retry_at;
            }
        }
        let there: BTreeSet<&String> = members.into_iter().map(|one| &one.metadata.uid).collect();
        self.independent.retain(|uid| there.contains(uid));
        self.checked.retain(|uid| there.contains(uid));
        retry_at
    }

    /// Returns the warning about a deletion in the foreground, once.
    pub fn take_warning(&mut self, set: &ApplicationSet, options: &AppSetRuleOptions) -> Option<String> {
        let warning = foreground_warning(set, [], options).filter(|_| !self.is_warned)?;
        self.is_warned = true;
        Some(warning)
    }
}
