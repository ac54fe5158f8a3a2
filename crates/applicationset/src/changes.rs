//! Changes that make Applications match their ApplicationSet's output.

use std::collections::BTreeMap;

use tidegate_lifecycle::fleet::join_names;
use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;

use crate::deletion::MemberDeletion;
use crate::deletion_limit::{self, DeletionPermit, DeletionsBlocked};
use crate::deletion_order::{InvalidOrder, deletion_order};
use crate::desired::{MergeError, PreservedContent, desired_application};
pub use crate::output::AppSetOutput;
use crate::ownership::{Owner, applications_in_namespace, may_adopt, owner_of};
use crate::references::{InvalidReference, References, check_references};
use crate::status::{ConditionReason, ReconcileFailure};
use crate::sync_policy::{AllowedChanges, AppSetRuleOptions, allowed_changes, is_progressive};

/// Changes to make, ordered by name. All are idempotent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppSetChanges {
    /// Applications to create.
    pub create: Vec<Application>,
    /// Applications to update. Each has the resource version that was read, so the update fails after a
    /// concurrent change.
    pub update: Vec<Application>,
    /// Applications to delete.
    pub delete: Vec<MemberDeletion>,
    /// Order in which the Applications are deleted.
    pub order: Order,
    /// Permit for deletions that exceed the limit.
    pub permit: Option<DeletionPermit>,
    /// Applications to leave unchanged, with the reasons.
    pub unchanged: BTreeMap<String, UnchangedReason>,
    /// Problems with the ApplicationSet itself.
    pub problems: Vec<AppSetProblem>,
    /// Generator or template failure that makes the changes incomplete.
    pub generation_failure: Option<ReconcileFailure>,
}

/// Reason an Application is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnchangedReason {
    /// The Application is up to date.
    #[error("the Application is up to date")]
    Unchanged,
    /// The Application is being deleted.
    #[error("the Application is being deleted")]
    Deleting,
    /// Updates are not allowed.
    #[error("the Application differs from the generated one, and the policy does not allow updates")]
    NotUpdated,
    /// Deletions are not allowed.
    #[error("the Application is no longer generated, and the policy does not allow deletions")]
    NotDeleted,
    /// The Application may still be wanted, because the output is incomplete.
    #[error(
        "the ApplicationSet currently does not generate the Application, but might generate it again, so the Application is kept: {0}"
    )]
    Uncertain(String),
    /// The number of deletions exceeds the limit.
    #[error(
        "the Application is no longer generated, but more Applications would be deleted than are allowed at \
         once"
    )]
    DeletionLimit,
    /// A problem with the ApplicationSet blocks the change.
    #[error("the Application will not be changed until the ApplicationSet is fixed")]
    Blocked,
    /// The Application is rejected.
    #[error(transparent)]
    Rejected(#[from] MemberRejection),
}

/// Reason an Application is neither created nor updated. Others aren't affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberRejection {
    /// The generated Application is invalid.
    #[error("ApplicationSet {set} {reason}")]
    Generated {
        /// Name of the ApplicationSet.
        set: String,
        /// Reason for the rejection.
        reason: String,
    },
    /// The Application's project or destination doesn't exist.
    #[error("Application {name}: {cause}")]
    Invalid {
        /// Name of the Application.
        name: String,
        /// The missing reference.
        cause: InvalidReference,
    },
    /// The Application has another owner.
    #[error(
        "ApplicationSet {set} generates Application {name}, but the existing Application belongs to {owner} \
         and will not be changed; rename one of the two Applications, or remove the Application from one of \
         its owners"
    )]
    Owned {
        /// Name of the Application.
        name: String,
        /// Name of the ApplicationSet.
        set: String,
        /// Kind and name of the owner.
        owner: String,
    },
    /// The Application wasn't created by an ApplicationSet.
    #[error(
        "ApplicationSet {set} generates Application {name}, but the existing Application was not created by an \
         ApplicationSet and will not be changed; to hand over the existing Application, annotate it with {}: \
         {set}; otherwise, rename one of the two Applications",
        crate::ownership::APPSET_ANNOTATION
    )]
    NotOwned {
        /// Name of the Application.
        name: String,
        /// Name of the ApplicationSet.
        set: String,
    },
    /// The Application's ignored fields can't be merged.
    #[error("Application {name}: {cause}")]
    Unmergeable {
        /// Name of the Application.
        name: String,
        /// Error from the merge.
        cause: MergeError,
    },
}

/// Problem with an ApplicationSet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppSetProblem {
    /// The rules for ignored fields are invalid, so the fields to preserve are unknown.
    #[error(
        "spec.ignoreApplicationDifferences: {0}; no Applications will be updated until this is fixed, so \
         that no changes are lost"
    )]
    InvalidIgnoreRule(IgnoreError),
    /// The deletion order is invalid.
    #[error(transparent)]
    InvalidOrder(#[from] InvalidOrder),
    /// The number of deletions exceeds the limit.
    #[error(transparent)]
    DeletionsBlocked(#[from] DeletionsBlocked),
}

/// Returns the changes that bring the existing Applications, in all namespaces, in line with the
/// ApplicationSet's output. For a deleted ApplicationSet, use
/// [`next_deletion_step`](crate::deletion::next_deletion_step).
///
/// If some generators or templates fail, nothing is deleted, because a missing Application may still be
/// wanted. If all of them fail, nothing changes at all.
pub fn reconcile(
    set: &ApplicationSet,
    generated: Result<&AppSetOutput, &ReconcileFailure>,
    existing: &[Application],
    known: &dyn References,
    options: &AppSetRuleOptions,
) -> AppSetChanges {
    let mut changes = AppSetChanges::default();
    let generated = match generated {
        Ok(generated) => generated,
        Err(failure) => return AppSetChanges { generation_failure: Some(failure.clone()), ..changes },
    };
    let there: BTreeMap<&str, &Application> =
        applications_in_namespace(set, existing).map(|one| (one.metadata.name.as_str(), one)).collect();
    let stays = match PreservedContent::from_appset(set, options) {
        Ok(stays) => Some(stays),
        Err(errors) => {
            changes.problems.extend(errors.into_iter().map(AppSetProblem::InvalidIgnoreRule));
            None
        }
    };
    let allowed = allowed_changes(set, options);
    changes.generation_failure = generated.failure();
    let is_progressive = is_progressive(set, options);
    let deciding =
        ChangeDecider { appset: set, preserved: stays, references: known, allowed, is_progressive, options };
    for (name, application) in &generated.applications {
        match deciding.decide_generated(name, application, there.get(name.as_str()).copied()) {
            ChangeDecision::Create(new) => changes.create.push(new),
            ChangeDecision::Update(changed) => changes.update.push(changed),
            ChangeDecision::KeepUnchanged(left) => drop(changes.unchanged.insert(name.clone(), left)),
        }
    }
    for (name, reason) in &generated.rejected {
        let refused = MemberRejection::Generated { set: set.metadata.name.clone(), reason: reason.clone() };
        changes.unchanged.insert(name.clone(), refused.into());
    }
    deciding.decide_removed(&mut changes, generated, &there);
    changes
}

struct ChangeDecider<'a> {
    appset: &'a ApplicationSet,
    preserved: Option<PreservedContent<'a>>,
    references: &'a dyn References,
    allowed: AllowedChanges,
    is_progressive: bool,
    options: &'a AppSetRuleOptions,
}

enum ChangeDecision {
    Create(Application),
    Update(Application),
    KeepUnchanged(UnchangedReason),
}

impl From<MemberRejection> for ChangeDecision {
    fn from(refused: MemberRejection) -> Self {
        Self::KeepUnchanged(refused.into())
    }
}

impl ChangeDecider<'_> {
    fn decide_generated(
        &self,
        name: &str,
        generated: &Application,
        there: Option<&Application>,
    ) -> ChangeDecision {
        let (name, set) = (name.to_owned(), self.appset.metadata.name.clone());
        if let Some(there) = there {
            match owner_of(self.appset, there) {
                Owner::Other(owner) => return MemberRejection::Owned { name, set, owner }.into(),
                Owner::Unowned if !may_adopt(self.appset, there) => {
                    return MemberRejection::NotOwned { name, set }.into();
                }
                Owner::AppSet | Owner::Unowned => {}
            }
        }
        let desired = desired_application(self.appset, generated, self.is_progressive);
        if let Err(cause) = check_references(&desired.spec, self.references) {
            return MemberRejection::Invalid { name, cause }.into();
        }
        let Some(there) = there else { return ChangeDecision::Create(desired) };
        if there.is_deleting() {
            return ChangeDecision::KeepUnchanged(UnchangedReason::Deleting);
        }
        let Some(stays) = &self.preserved else {
            return ChangeDecision::KeepUnchanged(UnchangedReason::Blocked);
        };
        match stays.update_application(there, &desired) {
            Ok(None) => ChangeDecision::KeepUnchanged(UnchangedReason::Unchanged),
            Ok(Some(changed)) if self.allowed.update => ChangeDecision::Update(changed),
            Ok(Some(_)) => ChangeDecision::KeepUnchanged(UnchangedReason::NotUpdated),
            Err(cause) => MemberRejection::Unmergeable { name, cause }.into(),
        }
    }

    /// Decides what becomes of Applications that are no longer generated.
    fn decide_removed(
        &self,
        changes: &mut AppSetChanges,
        generated: &AppSetOutput,
        there: &BTreeMap<&str, &Application>,
    ) {
        let is_wanted =
            |name: &str| generated.applications.contains_key(name) || generated.rejected.contains_key(name);
        let order = deletion_order(self.appset);
        for (name, application) in there.iter().filter(|(name, _)| !is_wanted(name)) {
            if owner_of(self.appset, application) != Owner::AppSet {
                continue;
            }
            let left = if application.is_deleting() {
                UnchangedReason::Deleting
            } else if !self.allowed.delete {
                UnchangedReason::NotDeleted
            } else if let Some(reason) = generated.uncertainty_reason() {
                UnchangedReason::Uncertain(reason)
            } else if order.is_err() {
                UnchangedReason::Blocked
            } else {
                changes.delete.push(MemberDeletion::for_member(self.appset, application, self.references));
                continue;
            };
            changes.unchanged.insert((*name).to_owned(), left);
        }
        self.check_deletion_limit(changes, generated, there);
        match order {
            Ok(order) if !changes.delete.is_empty() => changes.order = order,
            Ok(_) => {}
            Err(invalid) => changes.problems.push(invalid.into()),
        }
    }

    /// Blocks all deletions if there are more than the limit allows.
    fn check_deletion_limit(
        &self,
        changes: &mut AppSetChanges,
        generated: &AppSetOutput,
        there: &BTreeMap<&str, &Application>,
    ) {
        let going: Vec<&str> =
            changes.delete.iter().map(|one| one.application.metadata.name.as_str()).collect();
        let members = there.values().filter(|one| owner_of(self.appset, one) == Owner::AppSet).count();
        let guarded =
            match deletion_limit::check_deletions(self.appset, generated, &going, members, self.options) {
                Ok(permit) => {
                    changes.permit = permit;
                    return;
                }
                Err(guarded) => guarded,
            };
        let kept = going.into_iter().map(|name| (name.to_owned(), UnchangedReason::DeletionLimit));
        let kept: Vec<_> = kept.collect();
        changes.delete.clear();
        changes.unchanged.extend(kept);
        changes.problems.push(guarded.into());
    }
}

impl AppSetChanges {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }

    /// Returns the name of each rejected Application, along with the reason.
    pub fn rejected_applications(&self) -> impl DoubleEndedIterator<Item = (&str, &MemberRejection)> {
        self.unchanged.iter().filter_map(|(name, left)| match left {
            UnchangedReason::Rejected(refused) => Some((name.as_str(), refused)),
            _ => None,
        })
    }

    /// Returns the name of each Application that differs from the output but is intentionally left unchanged,
    /// along with the reason.
    pub fn retained_applications(&self) -> impl Iterator<Item = (&str, &UnchangedReason)> {
        let stays = |left: &UnchangedReason| {
            matches!(
                left,
                UnchangedReason::NotUpdated | UnchangedReason::NotDeleted | UnchangedReason::Uncertain(_)
            )
        };
        self.unchanged.iter().filter(move |(_, left)| stays(left)).map(|(name, left)| (name.as_str(), left))
    }

    /// Returns the failure to report in the conditions: a generation failure first, then a problem with the
    /// ApplicationSet, then the last rejected Application along with the names of the others.
    pub fn failure(&self) -> Option<ReconcileFailure> {
        if self.generation_failure.is_some() {
            return self.generation_failure.clone();
        }
        if let Some(wrong) = self.problems.first() {
            let reason = match wrong {
                AppSetProblem::InvalidIgnoreRule(_) => ConditionReason::UpdateApplicationError,
                AppSetProblem::InvalidOrder(_) | AppSetProblem::DeletionsBlocked(_) => {
                    ConditionReason::DeleteApplicationError
                }
            };
            return Some(ReconcileFailure { reason, message: wrong.to_string() });
        }
        let mut refused = self.rejected_applications();
        let (_, last) = refused.next_back()?;
        let others: Vec<&str> = refused.map(|(name, _)| name).collect();
        let more = match others.len() {
            0 => String::new(),
            more => format!(" (and {more} more: {})", join_names(&others)),
        };
        Some(ReconcileFailure {
            reason: ConditionReason::ApplicationValidationError,
            message: format!("{last}{more}"),
        })
    }
}
