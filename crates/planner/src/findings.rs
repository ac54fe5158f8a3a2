//! What is surprising in the input.
//!
//! Codes are stable: programs match on them, the documentation explains each.

use std::collections::BTreeMap;

use tidegate_model::{ObjectKey, Severity, Warning};

use crate::manifests::Origin;
use crate::text::escape;

/// What a finding is about. Its words are made when there is something to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Place in the input, for the order of the findings: 0 is the request, then the targets.
    pub place: usize,
    /// The object; `None` for findings about the request.
    pub key: Option<ObjectKey>,
    /// What its name begins with, where it is generated.
    pub prefix: String,
    /// Where it was read.
    pub origin: Option<Origin>,
}

impl Subject {
    /// An object the request means.
    pub fn requested(key: ObjectKey) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// The live objects come after everything in the request.
    pub fn live(key: ObjectKey) -> Self {
        Self { place: usize::MAX, ..Self::requested(key) }
    }

    /// For people: `Deployment shop/api`, `Job shop/migrate-*` where the name is generated.
    pub fn object(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let prefix = if key.name.is_empty() { format!("{}*", self.prefix) } else { String::new() };
        Some(escape(&format!("{key}{prefix}")))
    }

    /// `shop/api.yaml:12`.
    pub fn origin(&self) -> Option<String> {
        self.origin.as_ref().map(ToString::to_string)
    }
}

/// The findings of one plan.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<(usize, Warning)>,
}

impl Findings {
    /// Adds a warning: the operation runs all the same.
    pub fn warn(&mut self, code: &'static str, subject: &Subject, message: impl Into<String>) {
        self.add(Severity::Warning, code, subject, message.into());
    }

    /// Adds an error: the operation cannot run.
    pub fn error(&mut self, code: &'static str, subject: &Subject, message: impl Into<String>) {
        self.add(Severity::Error, code, subject, message.into());
    }

    /// Adds a finding, about the subject as people name it.
    pub fn add(&mut self, severity: Severity, code: &'static str, subject: &Subject, message: String) {
        let warning = Warning {
            severity,
            code: code.to_owned(),
            object: subject.object(),
            origin: subject.origin(),
            message: escape(&message),
        };
        self.found.push((subject.place, warning));
    }

    /// What makes the plan invalid, by the place of what is to blame.
    pub fn errors_by_place(&self) -> BTreeMap<usize, String> {
        let mut errors: BTreeMap<usize, String> = BTreeMap::new();
        // The request and what is only in the cluster have no place of their own.
        let placed = self.found.iter().filter(|(place, _)| (1..usize::MAX).contains(place));
        for (place, error) in placed.filter(|(_, found)| found.severity == Severity::Error) {
            let words = errors.entry(*place).or_default();
            if !words.is_empty() {
                words.push_str("; ");
            }
            words.push_str(&error.message);
        }
        errors
    }

    /// The findings in the order of the input.
    pub fn into_warnings(mut self) -> Vec<Warning> {
        self.found.sort_by_key(|(place, _)| *place);
        self.found.into_iter().map(|(_, warning)| warning).collect()
    }
}
