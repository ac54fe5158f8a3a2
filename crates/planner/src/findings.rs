//! What is surprising in the input.
//!
//! Codes are stable: programs match on them, the documentation explains each.

use tidegate_model::{Severity, Warning};

use crate::text::escape;

/// What a finding is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Place in the input, for the order of the findings: 0 is the request, then the targets.
    pub place: usize,
    /// `Deployment shop/api`.
    pub object: Option<String>,
    /// `shop/api.yaml:12`.
    pub origin: Option<String>,
}

impl Subject {
    /// The live objects come after everything in the request.
    pub fn live(object: &impl ToString) -> Self {
        Self { place: usize::MAX, object: Some(escape(&object.to_string())), origin: None }
    }
}

/// The findings of one plan.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<(usize, Warning)>,
}

impl Findings {
    /// Adds a warning.
    pub fn warn(&mut self, code: &'static str, subject: &Subject, message: impl Into<String>) {
        self.add(Severity::Warning, code, subject, message.into());
    }

    /// Adds an error: the operation cannot run.
    pub fn error(&mut self, code: &'static str, subject: &Subject, message: impl Into<String>) {
        self.add(Severity::Error, code, subject, message.into());
    }

    /// Adds a finding.
    pub fn add(&mut self, severity: Severity, code: &'static str, subject: &Subject, message: String) {
        let warning = Warning {
            severity,
            code: code.to_owned(),
            object: subject.object.clone(),
            origin: subject.origin.clone(),
            message: escape(&message),
        };
        self.found.push((subject.place, warning));
    }

    /// The findings in the order of the input.
    pub fn into_warnings(mut self) -> Vec<Warning> {
        self.found.sort_by_key(|(place, _)| *place);
        self.found.into_iter().map(|(_, warning)| warning).collect()
    }
}
