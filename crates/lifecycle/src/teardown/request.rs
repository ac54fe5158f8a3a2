//! What is asked for, in plain types.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::order::Order;
use super::state::Approval;
use crate::fleet::{Labels, Said};

/// An ordered deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The ApplicationSet: `namespace/name`.
    pub set: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// Who asks, and why, as one text ([`Wisher`](tidegate_model::Wisher)).
    pub by: String,
    /// In which order.
    pub order: Order,
    /// The Applications that are to be deleted.
    pub members: Vec<MemberSpec>,
    /// Those of them that a person has kept from an earlier deletion, by their names: they stay, and it is recorded who has kept
    /// them and why.
    pub kept: BTreeMap<String, Said>,
    /// What is to be done in cases.
    pub options: Options,
    /// Who has let these deletions be done, where they were held because they are too many.
    pub approved: Option<Approval>,
}

/// An Application that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpec {
    /// Its name, in its namespace where that is not the set's: unique in the set.
    pub name: String,
    /// Its `metadata.uid`: no other of this name is deleted.
    pub uid: String,
    /// Its labels, as they are in the cluster.
    pub labels: Labels,
}

/// What is to be done in cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// So long a step may take. `None`: as long as it takes.
    pub deadline: Option<Duration>,
    /// What follows when it takes longer.
    pub on_late: OnLate,
}

/// What follows when a step takes too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnLate {
    /// It is awaited, with a warning.
    #[default]
    Hold,
    /// The teardown ends, and deletes no more.
    Abort,
}
