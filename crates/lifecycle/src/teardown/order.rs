//! Order of deletion.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Assignment, Expression, Labels, MaxUpdate, assign_step, step_name};

/// Applications that are deleted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Selector for the Applications. All expressions must match.
    pub expressions: Vec<Expression>,
    /// Maximum number of the selected Applications deleted at once.
    pub max_update: MaxUpdate,
}

/// Order of deletion of an ApplicationSet's Applications: `deletionOrder`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// All Applications in one step.
    #[default]
    AllAtOnce,
    /// The rollout's steps in reverse order. Applications that no step selects come last.
    Reverse {
        /// Steps in rollout order. The first step that selects an Application gets it.
        steps: Vec<Selection>,
        /// Maximum number of a step's Applications deleted at once. Always 1 in Argo CD.
        at_once: MaxUpdate,
    },
    /// Steps that are declared only for deletions. Applications that no step selects come last.
    Custom {
        /// Steps.
        steps: Vec<Selection>,
    },
    /// All Applications at once, as a consequence of the ApplicationSet's deletion. Garbage collection or
    /// another client deletes them, and the teardown only records the result.
    Collected,
    /// No Application is deleted. All Applications are released and outlive the ApplicationSet. The teardown
    /// records the release.
    Orphaned,
}

/// Name of the order of deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionOrder")]
pub enum OrderKind {
    /// All Applications in one step.
    #[default]
    AllAtOnce,
    /// The rollout's steps in reverse order.
    Reverse,
    /// Steps that are declared only for deletions.
    Custom,
    /// No Application is deleted. All Applications outlive the ApplicationSet.
    Orphan,
}

impl Order {
    /// Creates an order that reverses the rollout's steps and deletes Applications one by one.
    pub fn reverse(steps: Vec<Selection>) -> Self {
        Self::Reverse { steps, at_once: MaxUpdate::Count(1) }
    }

    /// Returns the order as a value of `deletionOrder`, or `Orphan` if no Application is deleted.
    pub fn kind(&self) -> OrderKind {
        match self {
            Self::AllAtOnce | Self::Collected => OrderKind::AllAtOnce,
            Self::Reverse { .. } => OrderKind::Reverse,
            Self::Custom { .. } => OrderKind::Custom,
            Self::Orphaned => OrderKind::Orphan,
        }
    }

    /// Returns true if other clients delete or release the Applications, and the teardown only records the
    /// result.
    pub fn is_witnessed(&self) -> bool {
        matches!(self, Self::Collected | Self::Orphaned)
    }

    fn selections(&self) -> &[Selection] {
        match self {
            Self::AllAtOnce | Self::Collected | Self::Orphaned => &[],
            Self::Reverse { steps, .. } | Self::Custom { steps } => steps,
        }
    }

    /// Returns the number of deletion steps. The last step is for Applications that no step selects.
    pub fn step_count(&self) -> u32 {
        u32::try_from(self.selections().len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns the index of a deletion step among the declared steps, or `None` for the last step.
    fn declared_index(&self, step: u32) -> Option<usize> {
        let last = self.step_count().saturating_sub(1);
        let index = match self {
            Self::AllAtOnce | Self::Collected | Self::Orphaned => None,
            Self::Reverse { .. } => last.checked_sub(step)?.checked_sub(1),
            Self::Custom { .. } => Some(step).filter(|step| *step < last),
        };
        usize::try_from(index?).ok()
    }

    /// Returns the number of a deletion step in the strategy, starting at 1. Returns `None` for the step of
    /// Applications that no declared step selects, and for the single step of a witnessed deletion.
    pub fn step_number(&self, step: u32) -> Option<u32> {
        if self.is_witnessed() {
            return (step == 0).then_some(1);
        }
        u32::try_from(self.declared_index(step)?).ok()?.checked_add(1)
    }

    /// Returns the deletion step with the given number.
    pub fn step_with_number(&self, number: u32) -> Option<u32> {
        (0..self.step_count()).find(|step| self.step_number(*step) == Some(number))
    }

    /// Formats a step, such as `step 2 of 3`. If the step doesn't have a number, describes its Applications.
    pub(crate) fn step_name(&self, step: u32) -> String {
        match self.declared_index(step) {
            Some(index) => step_name(u32::try_from(index).unwrap_or(u32::MAX), self.selections().len()),
            None => self.describe_selector(step),
        }
    }

    /// Returns the step that deletes an Application with the given labels.
    pub fn assign_step(&self, labels: &Labels) -> Assignment {
        let written = self.selections().iter().map(|selection| selection.expressions.as_slice());
        let Assignment { step, also } = assign_step(written, labels);
        let last = self.step_count().saturating_sub(1);
        let deleted = |index: u32| match self {
            Self::Reverse { .. } => last.saturating_sub(index).saturating_sub(1),
            _ => index,
        };
        Assignment { step: Some(step.map_or(last, deleted)), also: also.into_iter().map(deleted).collect() }
    }

    /// Returns the maximum number of a step's Applications deleted at once.
    pub fn max_update(&self, step: u32) -> MaxUpdate {
        if let Self::Reverse { at_once, .. } = self {
            return *at_once;
        }
        let selection = self.declared_index(step).and_then(|index| self.selections().get(index));
        selection.map(|selection| selection.max_update).unwrap_or_default()
    }

    /// Describes the selector of a step.
    pub fn describe_selector(&self, step: u32) -> String {
        let selection = self.declared_index(step).and_then(|index| self.selections().get(index));
        match (selection, self) {
            (None, Self::AllAtOnce | Self::Collected | Self::Orphaned) => "all Applications".to_owned(),
            (None, _) => "Applications that no step selects".to_owned(),
            (Some(selection), _) if selection.expressions.is_empty() => "every Application".to_owned(),
            (Some(selection), _) => {
                let text: Vec<String> = selection.expressions.iter().map(Expression::to_string).collect();
                text.join(" and ")
            }
        }
    }
}
