//! Layouts that earlier programs have written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::Timestamp;

use super::fact::Fact;
use super::order::Order;
use super::request::Options;
use super::state::{Member, Outcome, Stage, State, StepState, Teardown};
use crate::fleet::Said;

/// What keeps an Application, as programs wrote it that kept no time of it.
#[derive(Clone, Debug, Deserialize)]
pub enum FactOfKind5 {
    // These hold its place among all facts: no other was of this kind.
    Before0(Nothing),
    Before1(Nothing),
    Before2(Nothing),
    Before3(Nothing),
    KeptBy { member: String, kept_by: String },
}

/// What is never written.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Nothing {}

impl From<FactOfKind5> for Fact {
    fn from(earlier: FactOfKind5) -> Self {
        match earlier {
            FactOfKind5::KeptBy { member, kept_by } => Self::KeptBy { member, kept_by, at: None },
            FactOfKind5::Before0(nothing)
            | FactOfKind5::Before1(nothing)
            | FactOfKind5::Before2(nothing)
            | FactOfKind5::Before3(nothing) => match nothing {},
        }
    }
}

/// A state as programs wrote it that did not keep who approved deletions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum StateOfKind1 {
    New,
    Running(Box<TeardownOfKind1>),
    Finished(Box<TeardownOfKind1>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeardownOfKind1 {
    set: String,
    uid: String,
    by: String,
    order: Order,
    options: Options,
    started_at: Timestamp,
    steps: Vec<StepState>,
    members: BTreeMap<String, Member>,
    stage: Stage,
    paused: Option<Said>,
    terminated: Option<Said>,
    outcome: Option<Outcome>,
}

impl From<StateOfKind1> for State {
    fn from(earlier: StateOfKind1) -> Self {
        match earlier {
            StateOfKind1::New => Self::New,
            StateOfKind1::Running(teardown) => Self::Running(Box::new((*teardown).into())),
            StateOfKind1::Finished(teardown) => Self::Finished(Box::new((*teardown).into())),
        }
    }
}

impl From<TeardownOfKind1> for Teardown {
    fn from(earlier: TeardownOfKind1) -> Self {
        let TeardownOfKind1 {
            set,
            uid,
            by,
            order,
            options,
            started_at,
            steps,
            members,
            stage,
            paused,
            terminated,
            outcome,
        } = earlier;
        Self {
            set,
            uid,
            by,
            order,
            options,
            started_at,
            steps,
            members,
            stage,
            paused,
            terminated,
            outcome,
            approvals: Vec::new(),
        }
    }
}
