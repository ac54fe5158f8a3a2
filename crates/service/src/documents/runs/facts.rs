//! A recorded fact of a rollout or a deletion, as programs and people read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_lifecycle::fleet::{Assignment, Said};
use tidegate_model::{Timestamp, Wisher};

/// The kind of the first fact.
pub(super) const BEGUN: &str = "begun";

/// A fact with its place in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunFact {
    /// Its number, from 1.
    pub sequence: u64,
    /// What kind of fact it is, as one word.
    pub kind: String,
    /// When it happened, where the fact says so.
    pub at: Option<Timestamp>,
    /// What happened, for people.
    pub text: String,
    /// The Application it is about.
    pub application: Option<String>,
    /// The number of the step it is about, from 1 as the strategy counts them.
    pub step: Option<u32>,
    /// Who has decided it.
    pub by: Option<String>,
    /// Why; `None` where nobody said so.
    pub reason: Option<String>,
    /// What it says besides; which fields there are, the kind says.
    pub details: Value,
}

/// What a fact says, before it has its number.
pub(super) struct Told {
    fact: RunFact,
}

impl Told {
    pub fn new(kind: &str, text: impl Into<String>) -> Self {
        Self {
            fact: RunFact {
                sequence: 0,
                kind: kind.to_owned(),
                at: None,
                text: text.into(),
                application: None,
                step: None,
                by: None,
                reason: None,
                details: json!({}),
            },
        }
    }

    /// About an Application, whose name comes before what happened.
    pub fn about(kind: &str, name: &str, text: impl AsRef<str>) -> Self {
        let mut told = Self::new(kind, format!("{name}: {}", text.as_ref()));
        told.fact.application = Some(name.to_owned());
        told
    }

    /// What a person said: `ann skips prod-cart: moved away`.
    pub fn said(kind: &str, said: &Said, what: impl AsRef<str>) -> Self {
        let text = format!("{} {}", said.by, what.as_ref());
        let mut told = Self::new(kind, because(&text, &said.why)).at(said.at);
        told.fact.by = Some(said.by.clone());
        told.fact.reason = super::word(said.why.clone());
        told
    }

    pub fn at(mut self, at: Timestamp) -> Self {
        self.fact.at = Some(at);
        self
    }

    /// That it has begun, of so many; who has asked for it, and why, is one text in the log.
    pub fn begun(by: &str, what: &str) -> Self {
        let asker = Wisher::read(by);
        let by = Some(asker.by.to_owned()).filter(|by| !by.is_empty());
        let who = by.as_ref().map(|_| format!(" by {}", asker.who())).unwrap_or_default();
        let mut told = Self::new(BEGUN, format!("begun{who}: {what}"));
        (told.fact.by, told.fact.reason) = (by, asker.why());
        told
    }

    pub fn application(mut self, name: &str) -> Self {
        self.fact.application = Some(name.to_owned());
        self
    }

    pub fn step(mut self, number: Option<u32>) -> Self {
        self.fact.step = number;
        self
    }

    pub fn details(mut self, details: Value) -> Self {
        self.fact.details = details;
        self
    }

    pub fn numbered(self, sequence: u64) -> RunFact {
        RunFact { sequence, ..self.fact }
    }
}

/// `ann approves step 2: CHG-7`.
pub(super) fn because(what: &str, why: &str) -> String {
    if why.is_empty() { what.to_owned() } else { format!("{what}: {why}") }
}

/// The number of a step from its index.
pub(super) fn number(step: u32) -> u32 {
    step.saturating_add(1)
}

/// The step of an Application, and those that select it too.
pub(super) fn place(place: &Assignment) -> Option<u32> {
    place.step.map(number)
}
