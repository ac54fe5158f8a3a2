//! Assignment of Applications to steps, and limits on concurrent updates.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Labels of an Application.
pub type Labels = BTreeMap<String, String>;

/// Operator of a label expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// The label exists, and its value is in the list.
    In,
    /// The label doesn't exist, or its value is not in the list.
    NotIn,
}

/// Error for an invalid operator in a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid operator {0:?} in a step's matchExpressions: use In or NotIn")]
pub struct InvalidOperator(pub String);

impl FromStr for Operator {
    type Err = InvalidOperator;

    fn from_str(text: &str) -> Result<Self, InvalidOperator> {
        match text {
            "In" => Ok(Self::In),
            "NotIn" => Ok(Self::NotIn),
            other => Err(InvalidOperator(other.to_owned())),
        }
    }
}

/// One of a step's `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expression {
    /// Name of the label.
    pub key: String,
    /// Operator to apply to the label.
    pub operator: Operator,
    /// Values to compare the label with.
    pub values: Vec<String>,
}

impl Expression {
    fn is_met(&self, labels: &Labels) -> bool {
        let is_among = labels.get(&self.key).map(|value| self.values.contains(value));
        match self.operator {
            Operator::In => is_among == Some(true),
            Operator::NotIn => is_among != Some(true),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::In => "in",
            Operator::NotIn => "not in",
        };
        write!(f, "{} {operator} ({})", self.key, self.values.join(", "))
    }
}

/// Step that an Application is assigned to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Index of the first step that selects the Application, starting at 0. `None` if no step does; the
    /// rollout then leaves the Application alone.
    pub step: Option<u32>,
    /// Later steps that also select the Application. They leave it alone.
    pub also: Vec<u32>,
}

/// Returns the step of an Application with the given labels. A step selects the Application if all of the
/// step's expressions match. A step without expressions selects every Application.
pub fn assign_step<'a>(steps: impl IntoIterator<Item = &'a [Expression]>, labels: &Labels) -> Assignment {
    let mut selecting = (0..)
        .zip(steps)
        .filter(|(_, expressions)| expressions.iter().all(|expression| expression.is_met(labels)))
        .map(|(step, _)| step);
    Assignment { step: selecting.next(), also: selecting.collect() }
}

/// Maximum number of a step's Applications in flight at once: `maxUpdate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxUpdate {
    /// All Applications.
    #[default]
    All,
    /// A number of Applications. With 0, users update the step's Applications themselves.
    Count(u32),
    /// A percentage of the step's Applications, rounded down, but at least one Application. With 0, users
    /// update the step's Applications themselves.
    Percent(u32),
}

/// Error for an invalid `maxUpdate`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid maxUpdate {0:?}: use a whole number, or a percentage such as 10%")]
pub struct InvalidMaxUpdate(pub String);

impl MaxUpdate {
    /// Returns the limit for a step with the given number of Applications.
    pub fn limit_for(self, members: u32) -> u32 {
        match self {
            Self::All => u32::MAX,
            Self::Count(count) => count,
            Self::Percent(0) => 0,
            Self::Percent(percent) => {
                let share = u64::from(members) * u64::from(percent) / 100;
                u32::try_from(share).unwrap_or(u32::MAX).max(1)
            }
        }
    }

    /// Returns true if users update the Applications one by one.
    pub fn is_manual(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

impl From<i64> for MaxUpdate {
    /// Converts a limit from the specification. As in Argo CD, a negative value counts as 0.
    fn from(count: i64) -> Self {
        Self::Count(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for MaxUpdate {
    /// Formats the limit as users write it: `10`, `10%`, or `all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl FromStr for MaxUpdate {
    type Err = InvalidMaxUpdate;

    fn from_str(text: &str) -> Result<Self, InvalidMaxUpdate> {
        let number = text.strip_suffix('%').unwrap_or(text);
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 =
            number.parse().ok().filter(|_| is_number).ok_or_else(|| InvalidMaxUpdate(text.to_owned()))?;
        Ok(if text.ends_with('%') { Self::Percent(number) } else { Self::Count(number) })
    }
}

/// Counts items as `u32`, the type of counts in events.
pub(crate) fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}
