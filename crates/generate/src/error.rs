//! Generation errors and their locations.

use std::fmt;

use crate::limits::{APPLICATIONS_MAX, BYTES_MAX, ERRORS_MAX, NESTING_MAX, STEPS_MAX};

/// Location in an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorLocation {
    /// Generator, such as `generators[1].matrix.generators[0].list`. Empty for the whole ApplicationSet.
    pub generator: String,
    /// Parameter set, such as `element 2`. In a matrix, both parameter sets: `element 2, folder apps/web`.
    pub element: Option<String>,
    /// Field that contains the template, such as `template.spec.source.path`.
    pub field: Option<String>,
}

impl ErrorLocation {
    pub(crate) fn in_generator(generator: &str) -> Self {
        Self { generator: generator.to_owned(), ..Self::default() }
    }

    pub(crate) fn with_element(self, element: impl Into<String>) -> Self {
        Self { element: Some(element.into()), ..self }
    }

    pub(crate) fn with_field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// Creates an error at this location.
    pub(crate) fn error(self, problem: impl Into<Problem>) -> GenerateError {
        GenerateError { place: self, problem: problem.into() }
    }
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [Some(self.generator.as_str()), self.element.as_deref(), self.field.as_deref()];
        let mut is_first = true;
        for part in parts.into_iter().flatten().filter(|part| !part.is_empty()) {
            write!(f, "{}{part}", if is_first { "" } else { ", " })?;
            is_first = false;
        }
        Ok(())
    }
}

/// An error that keeps a generator from producing Applications.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct GenerateError {
    /// Location of the error.
    pub place: ErrorLocation,
    /// Description of the problem.
    pub problem: Problem,
}

/// The errors of a run, up to `ERRORS_MAX`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct GenerateErrors(pub Vec<GenerateError>);

impl fmt::Display for GenerateErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "; " })?;
        }
        if self.0.len() >= ERRORS_MAX { f.write_str("; there may be more errors") } else { Ok(()) }
    }
}

/// A problem in an ApplicationSet or its external data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// An unknown template option.
    #[error(transparent)]
    Option(#[from] tidegate_gotmpl::InvalidOption),
    /// A string that isn't a valid template.
    #[error("failed to parse template {template}: {reason}")]
    Parse {
        /// Text of the invalid template.
        template: String,
        /// Position and reason, worded as in Go.
        reason: String,
    },
    /// A template that can't be rendered.
    #[error("failed to execute go template {template}: {reason}")]
    Execute {
        /// Text of the template.
        template: String,
        /// Position and reason, worded as in Go.
        reason: String,
    },
    /// An unclosed tag in a `{{name}}` template.
    #[error("failed to parse template {template}: a tag begins with {{{{ but has no }}}}")]
    Unclosed {
        /// Text of the template.
        template: String,
    },
    /// A tag without a name in a `{{name}}` template.
    #[error(
        "failed to parse template {template}: the tag {{{{{tag}}}}} is empty; add the name of a parameter, as in {{{{name}}}}, or remove the tag"
    )]
    EmptyTag {
        /// Text of the template.
        template: String,
        /// Content of the tag: empty, or only spaces.
        tag: String,
    },
    /// Two map keys that render to the same string.
    #[error("two keys in this map render to {key:?}; use different keys")]
    EqualKeys {
        /// The rendered key.
        key: String,
    },
    /// A rendered Application made invalid by its patch.
    #[error("Application {name:?} is invalid: {reason}{}", patch_line_text(.line.as_ref()))]
    Application {
        /// Name of the Application. Empty if it doesn't have one.
        name: String,
        /// Line of the patch that sets the field.
        line: Option<PatchLine>,
        /// Reason the Application is invalid.
        reason: String,
    },
    /// An invalid patch.
    #[error("invalid templatePatch: {reason}")]
    Patch {
        /// Reason the patch is invalid.
        reason: String,
    },
    /// An entry without a generator.
    #[error("this entry does not contain a known generator{}", only_fields_text(.fields))]
    NoGenerator {
        /// Fields of the entry.
        fields: Vec<String>,
    },
    /// An entry of a matrix or merge that contains several generators.
    #[error(
        "this entry contains more than one generator: {names}; use a separate entry for each",
        names = .names.join(", ")
    )]
    SeveralGenerators {
        /// Names of the generators.
        names: Vec<String>,
    },
    /// Generators nested too deeply.
    #[error("generators are nested deeper than {NESTING_MAX} levels")]
    Nesting,
    /// A matrix without exactly two generators.
    #[error("a matrix needs exactly two generators, found {count}; nest another matrix for more")]
    Matrix {
        /// Number of generators.
        count: usize,
    },
    /// A merge with fewer than two generators.
    #[error("a merge needs at least two generators, found {count}")]
    Merge {
        /// Number of generators.
        count: usize,
    },
    /// A merge without keys.
    #[error("mergeKeys is empty; set at least one parameter that identifies each parameter set")]
    MergeKeys,
    /// A generator in a merge that returned two parameter sets with the same keys.
    #[error(
        "the parameters from a generator were not unique by the given mergeKeys, Duplicate key was {key}"
    )]
    DuplicateKey {
        /// Values of the merge keys, as JSON.
        key: String,
    },
    /// Two parameter sets in a matrix with different values for the same parameter.
    #[error("found duplicate key {key} with different value, {key}: {first} ,{key}: {second}")]
    Contradiction {
        /// Name of the parameter.
        key: String,
        /// Value in the first set.
        first: String,
        /// Value in the second set.
        second: String,
    },
    /// A value that must be an object but isn't.
    #[error("{what} must be an object, found {found}")]
    NotAnObject {
        /// The value that must be an object.
        what: &'static str,
        /// Actual type of the value.
        found: String,
    },
    /// A parameter that must be a string but isn't.
    #[error("error parsing value as string: {key} is {found}; quote it, or set goTemplate: true")]
    NotAText {
        /// Name of the parameter.
        key: String,
        /// Actual type of the value.
        found: String,
    },
    /// An `elementsYaml` field that isn't a YAML list of objects.
    #[error("elementsYaml must be a YAML list of objects: {reason}")]
    ElementsYaml {
        /// Reason the field is invalid.
        reason: String,
    },
    /// An invalid selector.
    #[error("invalid selector: {reason}")]
    Selector {
        /// Reason the selector is invalid.
        reason: String,
    },
    /// An invalid path pattern.
    #[error("invalid pattern {pattern:?}: {reason}")]
    Pattern {
        /// The invalid pattern.
        pattern: String,
        /// Reason the pattern is invalid.
        reason: String,
    },
    /// A pattern that can't match any path in any repository.
    #[error("pattern {pattern:?} can never match: {reason}")]
    NoMatch {
        /// The pattern, as written.
        pattern: String,
        /// The reason, and a suggested alternative.
        reason: String,
    },
    /// An invalid regular expression.
    #[error("invalid regular expression {pattern:?} in {field}: {reason}")]
    Filter {
        /// Field of the filter.
        field: &'static str,
        /// The invalid expression.
        pattern: String,
        /// Reason the expression is invalid.
        reason: String,
    },
    /// A list generator with unknown fields but no elements. Treating it as an empty list would delete all
    /// its Applications over a misspelled field.
    #[error(
        "neither elements nor elementsYaml is set, but there are unknown fields: {fields}; for an empty list, use elements: []"
    )]
    NoElements {
        /// The unknown fields.
        fields: String,
    },
    /// A Git generator without patterns.
    #[error("neither directories nor files is set; set one of them to select folders or files")]
    NoPaths,
    /// A Git generator with only exclusions.
    #[error(
        "every entry in {field} has exclude: true, so no path is selected; add an entry without exclude, \
         such as path: \"*\""
    )]
    OnlyExclusions {
        /// Field that contains the patterns.
        field: &'static str,
    },
    /// A Git generator that excludes every pattern it includes.
    #[error(
        "every path in {field} is also excluded by an entry with exclude: true, so no path is selected; for each path, remove one of the two entries"
    )]
    AllExcluded {
        /// Field that contains the patterns.
        field: &'static str,
    },
    /// A file that can't be parsed.
    #[error("unable to process file '{path}' from repository '{repository}': unable to parse file: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// Repository of the file, redacted.
        repository: String,
        /// Error message from the parser.
        reason: String,
    },
    /// A ClusterDecisionResource generator that sets both the name and the selector, or neither.
    #[error(
        "there is a problem with the definition of the ClusterDecisionResource generator: set either name or labelSelector"
    )]
    Decision,
    /// A ClusterDecisionResource generator that doesn't match any resource.
    #[error("no clusterDecisionResources found")]
    NoDecisions,
    /// A resource with a status that lacks the list named in the ConfigMap.
    #[error("the status of {resource} has no list {key:?}; check statusListKey")]
    DecisionList {
        /// Name of the resource.
        resource: String,
        /// Name of the list.
        key: String,
    },
    /// An invalid response from a plugin.
    #[error("error listing params: error get api 'set': {reason}")]
    Plugin {
        /// Reason the response is invalid.
        reason: String,
    },
    /// A failed query for external data.
    #[error("{reason}")]
    QueryFailed {
        /// Reason for the failure.
        reason: String,
    },
    /// A generator or selector made invalid by rendering its templates.
    #[error("invalid after rendering: {reason}")]
    InvalidAfterRendering {
        /// Reason the generator or selector is invalid.
        reason: String,
    },
    /// Too many parameter sets or Applications.
    #[error("exceeds the limit of {APPLICATIONS_MAX} parameter sets; split the ApplicationSet")]
    TooMany,
    /// Parameter sets and rendered templates that exceed the total size limit.
    #[error("parameters and templates exceed the limit of {} MiB for one ApplicationSet; split the ApplicationSet", BYTES_MAX >> 20)]
    TooManyBytes,
    /// A run that needs too many steps.
    #[error(
        "templates, patterns, selectors and jq expressions exceed the limit of {STEPS_MAX} steps for one ApplicationSet; split the \
         ApplicationSet"
    )]
    TooManySteps,
}

impl Problem {
    /// Returns true if the run exceeded a limit shared by all generators.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, Self::TooMany | Self::TooManyBytes | Self::TooManySteps)
    }
}

/// A line of a `templatePatch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchLine {
    /// 1-based line number in the patch as written, if exactly one line there has the same text, or else in
    /// the rendered patch.
    pub number: usize,
    /// True if the number refers to the rendered patch.
    pub is_rendered: bool,
    /// Rendered text of the line.
    pub text: String,
}

impl fmt::Display for PatchLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.is_rendered { "the rendered templatePatch" } else { "templatePatch" };
        write!(f, "line {} of {of}, {:?}", self.number, self.text)
    }
}

fn patch_line_text(line: Option<&PatchLine>) -> String {
    line.map(|line| format!(" ({line})")).unwrap_or_default()
}

fn only_fields_text(fields: &[String]) -> String {
    if fields.is_empty() { String::new() } else { format!(" (unknown fields: {})", fields.join(", ")) }
}

/// Reason an Application is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationRejection {
    /// Several Applications with this name. All are rejected, because it is unclear which one is right.
    #[error("contains applications with duplicate name: {name}: one from {first}, and one from {second}")]
    Duplicate {
        /// The duplicate name.
        name: String,
        /// Location of the first Application.
        first: ErrorLocation,
        /// Location of this Application.
        second: ErrorLocation,
    },
    /// The name is invalid in Kubernetes.
    #[error("generates an invalid Application name {name:?}: {reason} (from {from})")]
    Name {
        /// The invalid name.
        name: String,
        /// Reason the name is invalid.
        reason: String,
        /// Location of the Application.
        from: ErrorLocation,
    },
    /// The service or the API server would reject the Application.
    #[error("generates invalid Application {name}: {reason}{} (from {from})", patch_line_text(.line.as_ref()))]
    Invalid {
        /// Name of the Application.
        name: String,
        /// The field, its problem, and how to fix it.
        reason: String,
        /// Line of the patch that sets the field.
        line: Option<PatchLine>,
        /// Generator and element that produced the Application.
        from: ErrorLocation,
    },
}

impl ApplicationRejection {
    /// Returns the name of the rejected Application.
    pub fn name(&self) -> &str {
        match self {
            Self::Duplicate { name, .. } | Self::Name { name, .. } | Self::Invalid { name, .. } => name,
        }
    }
}
