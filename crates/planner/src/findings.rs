//! Findings about problems in the input.
//!
//! Codes are stable: programs match on them, and each is explained in the documentation.

use std::collections::BTreeMap;

use tidegate_model::{ObjectKey, Severity, Warning};

use crate::manifests::Origin;
use crate::text::escape;

/// Subject of a finding. Rendered only when needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FindingSubject {
    /// Position in the input, used to order findings. The request is 0, followed by the targets.
    pub position: usize,
    /// The object; `None` for findings about the request.
    pub key: Option<ObjectKey>,
    /// Prefix of the object's generated name.
    pub prefix: String,
    /// Location of the object's manifest.
    pub origin: Option<Origin>,
}

impl FindingSubject {
    /// Creates the subject for an object that the request refers to.
    pub fn for_requested(key: ObjectKey) -> Self {
        Self { key: Some(key), ..Self::default() }
    }

    /// Creates the subject for a live object. Findings about live objects come last.
    pub fn for_live(key: ObjectKey) -> Self {
        Self { position: usize::MAX, ..Self::for_requested(key) }
    }

    /// Returns the object as text, such as `Deployment shop/api`, or `Job shop/migrate-*` for a generated
    /// name.
    pub fn object_text(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let prefix = if key.name.is_empty() { format!("{}*", self.prefix) } else { String::new() };
        Some(escape(&format!("{key}{prefix}")))
    }

    /// Returns the manifest's location as text, such as `shop/api.yaml:12`.
    pub fn origin_text(&self) -> Option<String> {
        self.origin.as_ref().map(ToString::to_string)
    }
}

/// Findings of one plan.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    warnings: Vec<(usize, Warning)>,
}

impl Findings {
    /// Adds a warning, which doesn't block the operation.
    pub fn warn(&mut self, code: &'static str, subject: &FindingSubject, message: impl Into<String>) {
        self.add(Severity::Warning, code, subject, message.into());
    }

    /// Adds an error, which blocks the operation.
    pub fn error(&mut self, code: &'static str, subject: &FindingSubject, message: impl Into<String>) {
        self.add(Severity::Error, code, subject, message.into());
    }

    /// Adds a finding about a subject.
    pub fn add(&mut self, severity: Severity, code: &'static str, subject: &FindingSubject, message: String) {
        let warning = Warning {
            severity,
            code: code.to_owned(),
            object: subject.object_text(),
            origin: subject.origin_text(),
            message: escape(&message),
        };
        self.warnings.push((subject.position, warning));
    }

    /// Returns the errors that make the plan invalid, grouped by their subject's position.
    pub fn errors_by_position(&self) -> BTreeMap<usize, String> {
        let mut errors: BTreeMap<usize, String> = BTreeMap::new();
        // The request itself, and objects that exist only in the cluster, have special positions.
        let placed = self.warnings.iter().filter(|(place, _)| (1..usize::MAX).contains(place));
        for (place, error) in placed.filter(|(_, found)| found.severity == Severity::Error) {
            let text = errors.entry(*place).or_default();
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&error.message);
        }
        errors
    }

    /// Returns the findings in input order.
    pub fn into_warnings(mut self) -> Vec<Warning> {
        self.warnings.sort_by_key(|(place, _)| *place);
        self.warnings.into_iter().map(|(_, warning)| warning).collect()
    }
}
