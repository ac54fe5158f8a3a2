//! Which Applications a step is about, and how many of them at once.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The labels of an Application.
pub type Labels = BTreeMap<String, String>;

/// How an expression looks at a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// The label is there, and its value is among the values.
    In,
    /// The label is not there, or its value is not among the values.
    NotIn,
}

/// A word that is no operator of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operator {0:?} of a step's matchExpressions is not known; write In or NotIn")]
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
    /// How it is looked at.
    pub operator: Operator,
    /// The values.
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

/// Where an Application belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Its step, counted from 0: the first that selects it. `None`: no step does, and it is left alone.
    pub step: Option<u32>,
    /// Later steps that select it too, and do not get it.
    pub also: Vec<u32>,
}

/// The step of an Application with these labels. A step selects it when all of its expressions are met; one without
/// expressions selects everything.
pub fn assign<'a>(steps: impl IntoIterator<Item = &'a [Expression]>, labels: &Labels) -> Assignment {
    let mut selecting = (0..)
        .zip(steps)
        .filter(|(_, expressions)| expressions.iter().all(|expression| expression.is_met(labels)))
        .map(|(step, _)| step);
    Assignment { step: selecting.next(), also: selecting.collect() }
}

/// How many members of a step may be in flight at once: `maxUpdate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MaxUpdate {
    /// All.
    #[default]
    All,
    /// So many; 0 leaves the step to people.
    Count(u32),
    /// So many in a hundred of the step's members, rounded down, but at least one; 0 leaves the step to people.
    Percent(u32),
}

/// A text that says no number of members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("maxUpdate {0:?} is no number of Applications; write a whole number, or a percentage such as 10%")]
pub struct InvalidMaxUpdate(pub String);

impl MaxUpdate {
    /// So many of a step with this many members.
    pub fn of(self, members: u32) -> u32 {
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

    /// Whether members are left to people, one by one.
    pub fn is_manual(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

impl From<i64> for MaxUpdate {
    /// As in Argo CD, what is below 0 is 0.
    fn from(count: i64) -> Self {
        Self::Count(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for MaxUpdate {
    /// As it is written, if it can be: `10`, `10%`, or `all`.
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

/// How many there are, as facts count them.
pub(crate) fn count<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}
