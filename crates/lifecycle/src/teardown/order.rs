//! Who is deleted when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::{Assignment, Expression, Labels, MaxUpdate, assign, step_name};

/// Applications that are deleted together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Whom the step selects: all of these must be met.
    pub expressions: Vec<Expression>,
    /// So many of its Applications at once.
    pub max_update: MaxUpdate,
}

/// In which order the Applications of a set are deleted: `deletionOrder`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// All in one step.
    #[default]
    AllAtOnce,
    /// The steps of the rollout backwards. What no step selects comes last.
    Reverse {
        /// The steps as the rollout has them: the first that selects an Application has it.
        steps: Vec<Selection>,
        /// So many of a step at once. Argo CD deletes one by one.
        at_once: MaxUpdate,
    },
    /// The steps as they are written. What no step selects comes last.
    Custom {
        /// The steps.
        steps: Vec<Selection>,
    },
    /// All at once, by whoever deletes the set or what it has owned: the teardown deletes none, and records what becomes of them.
    Collected,
    /// None of them is deleted: all are let go, and outlive the set. That is recorded in the same way.
    Orphaned,
}

/// An order in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionOrder")]
pub enum OrderWord {
    /// All in one step.
    #[default]
    AllAtOnce,
    /// The steps of the rollout backwards.
    Reverse,
    /// Steps of its own.
    Custom,
    /// None is deleted: all outlive the set.
    Orphan,
}

impl Order {
    /// The steps of the rollout backwards, one Application after the other.
    pub fn reverse(steps: Vec<Selection>) -> Self {
        Self::Reverse { steps, at_once: MaxUpdate::Count(1) }
    }

    /// As `deletionOrder` has it, or that there is none.
    pub fn word(&self) -> OrderWord {
        match self {
            Self::AllAtOnce | Self::Collected => OrderWord::AllAtOnce,
            Self::Reverse { .. } => OrderWord::Reverse,
            Self::Custom { .. } => OrderWord::Custom,
            Self::Orphaned => OrderWord::Orphan,
        }
    }

    /// Whether what becomes of the Applications is others' work, which is only seen and recorded.
    pub fn is_witnessed(&self) -> bool {
        matches!(self, Self::Collected | Self::Orphaned)
    }

    fn selections(&self) -> &[Selection] {
        match self {
            Self::AllAtOnce | Self::Collected | Self::Orphaned => &[],
            Self::Reverse { steps, .. } | Self::Custom { steps } => steps,
        }
    }

    /// How many steps of deletion there are: the last is for those that no step selects.
    pub fn step_count(&self) -> u32 {
        u32::try_from(self.selections().len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The index of a step of deletion among the steps as they are written; `None` for the last one.
    fn written(&self, step: u32) -> Option<usize> {
        let last = self.step_count().saturating_sub(1);
        let index = match self {
            Self::AllAtOnce | Self::Collected | Self::Orphaned => None,
            Self::Reverse { .. } => last.checked_sub(step)?.checked_sub(1),
            Self::Custom { .. } => Some(step).filter(|step| *step < last),
        };
        usize::try_from(index?).ok()
    }

    /// The number of a step of deletion as the strategy counts its steps, from 1; `None` for those that no step selects. What is
    /// only witnessed is one step with all.
    pub fn number(&self, step: u32) -> Option<u32> {
        if self.is_witnessed() {
            return (step == 0).then_some(1);
        }
        u32::try_from(self.written(step)?).ok()?.checked_add(1)
    }

    /// The step of deletion that has this number.
    pub fn numbered(&self, number: u32) -> Option<u32> {
        (0..self.step_count()).find(|step| self.number(*step) == Some(number))
    }

    /// `step 2 of 3`, or who is meant where no step is.
    pub(crate) fn name(&self, step: u32) -> String {
        match self.written(step) {
            Some(index) => step_name(u32::try_from(index).unwrap_or(u32::MAX), self.selections().len()),
            None => self.words(step),
        }
    }

    /// In which step an Application with these labels is deleted.
    pub fn place(&self, labels: &Labels) -> Assignment {
        let written = self.selections().iter().map(|selection| selection.expressions.as_slice());
        let Assignment { step, also } = assign(written, labels);
        let last = self.step_count().saturating_sub(1);
        let deleted = |index: u32| match self {
            Self::Reverse { .. } => last.saturating_sub(index).saturating_sub(1),
            _ => index,
        };
        Assignment { step: Some(step.map_or(last, deleted)), also: also.into_iter().map(deleted).collect() }
    }

    /// How many of a step at once.
    pub fn max_update(&self, step: u32) -> MaxUpdate {
        if let Self::Reverse { at_once, .. } = self {
            return *at_once;
        }
        let selection = self.written(step).and_then(|index| self.selections().get(index));
        selection.map(|selection| selection.max_update).unwrap_or_default()
    }

    /// Whom a step selects, in words.
    pub fn words(&self, step: u32) -> String {
        let selection = self.written(step).and_then(|index| self.selections().get(index));
        match (selection, self) {
            (None, Self::AllAtOnce | Self::Collected | Self::Orphaned) => "all Applications".to_owned(),
            (None, _) => "those that no step selects".to_owned(),
            (Some(selection), _) if selection.expressions.is_empty() => "every Application".to_owned(),
            (Some(selection), _) => {
                let words: Vec<String> = selection.expressions.iter().map(Expression::to_string).collect();
                words.join(" and ")
            }
        }
    }
}
