//! What is done to Applications, so that they are what their set generates?

use std::collections::BTreeMap;

use tidegate_lifecycle::teardown::Order;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;

use crate::deletion::Deletion;
use crate::desired::{Stays, Unmergeable, desired};
use crate::guard::{self, Guarded, Permit};
use crate::known::{Invalid, Known, check};
use crate::order::{InvalidOrder, order};
use crate::ownership::{Owner, beside, may_adopt, owner};
use crate::policy::{Allowed, Options, allowed, is_progressive};
use crate::status::{Failure, Reason};

/// What a set has generated, once all of it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// Its Applications, by name.
    pub applications: BTreeMap<String, Application>,
    /// Names under which there is to be no Application, and why: two have it, or it is none. Those that exist under such a
    /// name are left alone.
    pub refused: BTreeMap<String, String>,
    /// Generators that had nothing to say, and why: an Application that is missing need not be unwanted.
    pub silent: Vec<String>,
    /// What is wrong with generators that gave nothing because of it: the same.
    pub failed: Vec<String>,
}

impl Generated {
    /// Why an Application that is missing need not be unwanted.
    fn unsure(&self) -> Option<String> {
        let refused = || self.refused.first_key_value().map(|(name, why)| format!("{name} {why}"));
        // It may be the one that is refused, under a name that is misspelt.
        self.failed.first().or(self.silent.first()).cloned().or_else(refused)
    }

    /// Names that were refused when all was known stay refused while it is not: what they were refused for may be what is
    /// missing, and one of two that have a name would be taken for the only one.
    pub fn keep_refused(&mut self, before: &BTreeMap<String, String>) {
        if self.failed.is_empty() && self.silent.is_empty() {
            return;
        }
        for (name, why) in before {
            if self.applications.remove(name).is_some() {
                self.refused.insert(name.clone(), why.clone());
            }
        }
    }

    /// What the conditions say of generators that have failed.
    fn failure(&self) -> Option<Failure> {
        let all = self.failed.join("; ");
        let message =
            format!("{all}; what its other generators gave is made and changed, and nothing is deleted");
        let reason = Reason::ApplicationGenerationFromParamsError;
        (!self.failed.is_empty()).then_some(Failure { reason, message })
    }
}

/// What is to be done. All in the order of names, and safe to be done again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Applications to be created.
    pub create: Vec<Application>,
    /// Applications to be changed into this, if they are still what they were: each has the version that was looked at.
    pub update: Vec<Application>,
    /// Applications to be deleted.
    pub delete: Vec<Deletion>,
    /// `delete` is done in this order.
    pub order: Order,
    /// By what `delete` is done, where it would be held because they are too many.
    pub permit: Option<Permit>,
    /// Applications that nothing is done to, and why.
    pub left: BTreeMap<String, Left>,
    /// What is wrong with the set itself.
    pub wrong: Vec<Wrong>,
    /// Why nobody knows all that is to be done: generators or templates have failed.
    pub unknown: Option<Failure>,
}

/// Why nothing is done to an Application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Left {
    /// It is as it should be.
    #[error("it is as it should be")]
    Unchanged,
    /// It is being deleted.
    #[error("it is being deleted")]
    Deleting,
    /// Updates are not allowed.
    #[error("it is not as generated, and the policy does not allow to update it")]
    NotUpdated,
    /// Deletions are not allowed.
    #[error("it is not generated any more, and the policy does not allow to delete it")]
    Kept,
    /// It is not sure that it is not wanted.
    #[error("it is not generated at present, but not all that is generated is known or can be: {0}")]
    NotSure(String),
    /// Too many would be deleted at once.
    #[error("it is not generated any more, as are more Applications than may be deleted at once")]
    TooMany,
    /// What is wrong with the set keeps it as it is.
    #[error("it waits until the ApplicationSet is mended")]
    Waits,
    /// It is refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// Why an Application is not made, or not changed. All others are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Whoever generates it refuses it.
    #[error("ApplicationSet {set} {reason}")]
    Generated {
        /// The set.
        set: String,
        /// Why.
        reason: String,
    },
    /// What it refers to is not there.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It is another's.
    #[error(
        "Application {name}, which ApplicationSet {set} generates, belongs to {owner}, and is left alone; give one of the two another name, or take it out of one of them"
    )]
    Owned {
        /// Its name.
        name: String,
        /// The set.
        set: String,
        /// Whose it is.
        owner: String,
    },
    /// Somebody has made it by hand.
    #[error(
        "Application {name}, which ApplicationSet {set} generates, is there already, was made by somebody else, and is left alone; annotate it with {}: {set} to hand it over, or give one of the two another name",
        crate::ownership::SET_ANNOTATION
    )]
    NotOurs {
        /// Its name.
        name: String,
        /// The set.
        set: String,
    },
    /// Its ignored fields do not fit.
    #[error("Application {name}: {cause}")]
    Unmergeable {
        /// Its name.
        name: String,
        /// Why.
        cause: Unmergeable,
    },
}

/// What is wrong with a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Nobody knows which fields are to stay.
    #[error(
        "spec.ignoreApplicationDifferences: {0}; no Application is updated before that is mended, so that nothing is lost"
    )]
    Ignore(IgnoreError),
    /// Nobody knows what is deleted first.
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    /// More would be deleted at once than may.
    #[error(transparent)]
    Guarded(#[from] Guarded),
}

/// What is done to the Applications there are, in whatever namespaces, so that they are what the set generates. For a set
/// that is not being deleted; [`deleting`](crate::deletion::deleting) is for others.
///
/// Where generators or templates have failed, what is missing need not be unwanted, and nothing is deleted; where all of them
/// have, nothing at all is done.
pub fn reconcile(
    set: &ApplicationSet,
    generated: Result<&Generated, &Failure>,
    existing: &[Application],
    known: &dyn Known,
    options: &Options,
) -> Changes {
    let mut changes = Changes::default();
    let generated = match generated {
        Ok(generated) => generated,
        Err(failure) => return Changes { unknown: Some(failure.clone()), ..changes },
    };
    let there: BTreeMap<&str, &Application> =
        beside(set, existing).map(|one| (one.metadata.name.as_str(), one)).collect();
    let stays = match Stays::of(set, options) {
        Ok(stays) => Some(stays),
        Err(errors) => {
            changes.wrong.extend(errors.into_iter().map(Wrong::Ignore));
            None
        }
    };
    let allowed = allowed(set, options);
    changes.unknown = generated.failure();
    let is_progressive = is_progressive(set, options);
    let deciding = Deciding { set, stays, known, allowed, is_progressive, options };
    for (name, application) in &generated.applications {
        match deciding.wanted(name, application, there.get(name.as_str()).copied()) {
            Decided::Create(new) => changes.create.push(new),
            Decided::Update(changed) => changes.update.push(changed),
            Decided::Leave(left) => drop(changes.left.insert(name.clone(), left)),
        }
    }
    for (name, reason) in &generated.refused {
        let refused = Refused::Generated { set: set.metadata.name.clone(), reason: reason.clone() };
        changes.left.insert(name.clone(), refused.into());
    }
    deciding.unwanted(&mut changes, generated, &there);
    changes
}

struct Deciding<'a> {
    set: &'a ApplicationSet,
    stays: Option<Stays<'a>>,
    known: &'a dyn Known,
    allowed: Allowed,
    is_progressive: bool,
    options: &'a Options,
}

enum Decided {
    Create(Application),
    Update(Application),
    Leave(Left),
}

impl From<Refused> for Decided {
    fn from(refused: Refused) -> Self {
        Self::Leave(refused.into())
    }
}

impl Deciding<'_> {
    fn wanted(&self, name: &str, generated: &Application, there: Option<&Application>) -> Decided {
        let (name, set) = (name.to_owned(), self.set.metadata.name.clone());
        if let Some(there) = there {
            match owner(self.set, there) {
                Owner::Other(owner) => return Refused::Owned { name, set, owner }.into(),
                Owner::Nobody if !may_adopt(self.set, there) => return Refused::NotOurs { name, set }.into(),
                Owner::Set | Owner::Nobody => {}
            }
        }
        let desired = desired(self.set, generated, self.is_progressive);
        if let Err(invalid) = check(&desired.spec, self.known) {
            return Refused::from(invalid).into();
        }
        let Some(there) = there else { return Decided::Create(desired) };
        if there.is_deleting() {
            return Decided::Leave(Left::Deleting);
        }
        let Some(stays) = &self.stays else { return Decided::Leave(Left::Waits) };
        match stays.updated(there, &desired) {
            Ok(None) => Decided::Leave(Left::Unchanged),
            Ok(Some(changed)) if self.allowed.update => Decided::Update(changed),
            Ok(Some(_)) => Decided::Leave(Left::NotUpdated),
            Err(cause) => Refused::Unmergeable { name, cause }.into(),
        }
    }

    /// What is done to those that are not generated any more.
    fn unwanted(&self, changes: &mut Changes, generated: &Generated, there: &BTreeMap<&str, &Application>) {
        let is_wanted =
            |name: &str| generated.applications.contains_key(name) || generated.refused.contains_key(name);
        let order = order(self.set);
        for (name, application) in there.iter().filter(|(name, _)| !is_wanted(name)) {
            if owner(self.set, application) != Owner::Set {
                continue;
            }
            let left = if application.is_deleting() {
                Left::Deleting
            } else if !self.allowed.delete {
                Left::Kept
            } else if let Some(why) = generated.unsure() {
                Left::NotSure(why)
            } else if order.is_err() {
                Left::Waits
            } else {
                changes.delete.push(Deletion::of(self.set, application, self.known));
                continue;
            };
            changes.left.insert((*name).to_owned(), left);
        }
        self.guard(changes, generated, there);
        match order {
            Ok(order) if !changes.delete.is_empty() => changes.order = order,
            Ok(_) => {}
            Err(invalid) => changes.wrong.push(invalid.into()),
        }
    }

    /// Nothing is deleted where more would be than may.
    fn guard(&self, changes: &mut Changes, generated: &Generated, there: &BTreeMap<&str, &Application>) {
        let going: Vec<&str> =
            changes.delete.iter().map(|one| one.application.metadata.name.as_str()).collect();
        let members = there.values().filter(|one| owner(self.set, one) == Owner::Set).count();
        let guarded = match guard::check(self.set, generated, (&going, members), self.options) {
            Ok(permit) => {
                changes.permit = permit;
                return;
            }
            Err(guarded) => guarded,
        };
        let kept = going.into_iter().map(|name| (name.to_owned(), Left::TooMany));
        let kept: Vec<_> = kept.collect();
        changes.delete.clear();
        changes.left.extend(kept);
        changes.wrong.push(guarded.into());
    }
}

impl Changes {
    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }

    /// Why Applications are not made or not changed, by their names.
    pub fn refused(&self) -> impl DoubleEndedIterator<Item = (&str, &Refused)> {
        self.left.iter().filter_map(|(name, left)| match left {
            Left::Refused(refused) => Some((name.as_str(), refused)),
            _ => None,
        })
    }

    /// Why Applications stay as they are though they are not as they are generated, and nothing is wrong, by their names.
    pub fn left_alone(&self) -> impl Iterator<Item = (&str, &Left)> {
        let stays = |left: &Left| matches!(left, Left::NotUpdated | Left::Kept | Left::NotSure(_));
        self.left.iter().filter(move |(_, left)| stays(left)).map(|(name, left)| (name.as_str(), left))
    }

    /// What the conditions of the set say of it: why nothing was generated, or what is wrong with the set, or else with the
    /// last of its Applications that are refused, and how many more there are.
    pub fn failure(&self) -> Option<Failure> {
        if self.unknown.is_some() {
            return self.unknown.clone();
        }
        if let Some(wrong) = self.wrong.first() {
            let reason = match wrong {
                Wrong::Ignore(_) => Reason::UpdateApplicationError,
                Wrong::Order(_) | Wrong::Guarded(_) => Reason::DeleteApplicationError,
            };
            return Some(Failure { reason, message: wrong.to_string() });
        }
        let mut refused = self.refused();
        let (_, last) = refused.next_back()?;
        let more = refused.count();
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        Some(Failure { reason: Reason::ApplicationValidationError, message: format!("{last}{more}") })
    }
}
