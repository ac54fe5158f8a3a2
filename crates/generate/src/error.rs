//! Errors that occur during generation, and their locations.

use std::fmt;

use crate::limits::{APPLICATIONS_MAX, BYTES_MAX, ERRORS_MAX, NESTING_MAX, STEPS_MAX};

/// Location in an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorLocation {
    /// Generator, such as `generators[1].matrix.generators[0].list`. Empty for the whole ApplicationSet.
    pub generator: String,
    /// Parameter set, such as `element 2`, or `element 2, folder apps/web` in a matrix.
    pub element: Option<String>,
    /// Template, such as `template.spec.source.path`.
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

/// An error that prevents Applications from being generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct GenerateError {
    /// Location of the error.
    pub place: ErrorLocation,
    /// Problem.
    pub problem: Problem,
}

/// All errors, up to a maximum number.
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

/// Problem in an ApplicationSet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// An unknown template option.
    #[error(transparent)]
    Option(#[from] tidegate_gotmpl::InvalidOption),
    /// A string isn't a valid template.
    #[error("failed to parse template {template}: {reason}")]
    Parse {
        /// The string.
        template: String,
        /// Position and reason, in Go's wording.
        reason: String,
    },
    /// A template can't be rendered.
    #[error("failed to execute go template {template}: {reason}")]
    Execute {
        /// The template.
        template: String,
        /// Position and reason, in Go's wording.
        reason: String,
    },
    /// A tag in a `{{name}}` template is not terminated.
    #[error("failed to parse template {template}: a tag begins with {{{{ but has no }}}}")]
    Unclosed {
        /// The template.
        template: String,
    },
    /// A tag in a `{{name}}` template doesn't contain a name.
    #[error(
        "failed to parse template {template}: the tag {{{{{tag}}}}} is empty; add the name of a parameter, as in {{{{name}}}}, or remove the tag"
    )]
    EmptyTag {
        /// The template.
        template: String,
        /// Content of the tag, which is empty or consists of spaces.
        tag: String,
    },
    /// Two keys of a map render to the same text.
    #[error("two keys of this map render to {key:?}; use different keys")]
    EqualKeys {
        /// The key.
        key: String,
    },
    /// The rendered template, with its patch applied, is not a valid Application.
    #[error("Application {name:?} is invalid: {reason}{}", patch_line_text(.line.as_ref()))]
    Application {
        /// Name of the Application. Empty if it doesn't have one.
        name: String,
        /// Line of the patch that sets the field.
        line: Option<PatchLine>,
        /// Reason.
        reason: String,
    },
    /// An invalid patch.
    #[error("invalid templatePatch: {reason}")]
    Patch {
        /// Reason.
        reason: String,
    },
    /// An entry doesn't contain a generator.
    #[error("this entry does not contain a known generator{}", only_fields_text(.fields))]
    NoGenerator {
        /// Fields of the entry.
        fields: Vec<String>,
    },
    /// An entry of a matrix or merge contains several generators.
    #[error(
        "this entry contains more than one generator: {names}; use a separate entry for each",
        names = .names.join(", ")
    )]
    SeveralGenerators {
        /// Names of the generators.
        names: Vec<String>,
    },
    /// Generators are nested too deeply.
    #[error("generators are nested deeper than {NESTING_MAX} levels")]
    Nesting,
    /// A matrix doesn't have exactly two generators.
    #[error("a matrix needs exactly two generators, found {count}; nest another matrix for more")]
    Matrix {
        /// Number of generators.
        count: usize,
    },
    /// A merge has fewer than two generators.
    #[error("a merge needs at least two generators, found {count}")]
    Merge {
        /// Number of generators.
        count: usize,
    },
    /// A merge doesn't have keys.
    #[error("mergeKeys is empty; set at least one parameter that identifies each parameter set")]
    MergeKeys,
    /// A generator in a merge returned duplicate parameter sets.
    #[error(
        "the parameters from a generator were not unique by the given mergeKeys, Duplicate key was {key}"
    )]
    DuplicateKey {
        /// Values of the merge keys, as JSON.
        key: String,
    },
    /// Two parameter sets in a matrix have different values for the same parameter.
    #[error("found duplicate key {key} with different value, {key}: {first} ,{key}: {second}")]
    Contradiction {
        /// The parameter.
        key: String,
        /// Value in the first set.
        first: String,
        /// Value in the second set.
        second: String,
    },
    /// An element isn't an object.
    #[error("{what} must be an object, found {found}")]
    NotAnObject {
        /// The part that must be an object.
        what: &'static str,
        /// Actual type.
        found: String,
    },
    /// A parameter must be a string but isn't.
    #[error("error parsing value as string: {key} is {found}; quote it, or set goTemplate: true")]
    NotAText {
        /// The parameter.
        key: String,
        /// Actual type.
        found: String,
    },
    /// A list of elements is not valid YAML.
    #[error("elementsYaml must be a YAML list of objects: {reason}")]
    ElementsYaml {
        /// Reason.
        reason: String,
    },
    /// An invalid selector.
    #[error("invalid selector: {reason}")]
    Selector {
        /// Reason.
        reason: String,
    },
    /// An invalid path pattern.
    #[error("invalid pattern {pattern:?}: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Reason.
        reason: String,
    },
    /// A pattern can't match any path in any repository.
    #[error("pattern {pattern:?} can never match: {reason}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// The reason, and a suggested alternative.
        reason: String,
    },
    /// An invalid regular expression.
    #[error("invalid regular expression {pattern:?} in {field}: {reason}")]
    Filter {
        /// Field of the filter.
        field: &'static str,
        /// The expression.
        pattern: String,
        /// Reason.
        reason: String,
    },
    /// A list generator has unknown fields but no elements. This is an error, because a misspelled field must
    /// not cause all of the generator's Applications to be deleted.
    #[error(
        "neither elements nor elementsYaml is set, and {fields} is unknown; for an empty list, use elements: []"
    )]
    NoElements {
        /// The unknown fields.
        fields: String,
    },
    /// A Git generator doesn't have patterns.
    #[error("neither directories nor files is set; set one of them to select folders or files")]
    NoPaths,
    /// All patterns of a Git generator are exclusions.
    #[error(
        "every entry of {field} has exclude: true, so none selects a path; add an entry without it, such as path: \"*\""
    )]
    OnlyExclusions {
        /// Name of the list.
        field: &'static str,
    },
    /// Every path that is included by a Git generator's patterns is also excluded.
    #[error(
        "each path in {field} also has an entry with exclude: true, so none is selected; remove one of the two entries"
    )]
    AllExcluded {
        /// Name of the list.
        field: &'static str,
    },
    /// A file can't be parsed.
    #[error("unable to process file '{path}' from repository '{repository}': unable to parse file: {reason}")]
    File {
        /// Path of the file.
        path: String,
        /// Repository of the file, without credentials.
        repository: String,
        /// Reason.
        reason: String,
    },
    /// A generator specifies either no way or two ways to select resources.
    #[error(
        "there is a problem with the definition of the ClusterDecisionResource generator: set either name or labelSelector"
    )]
    Decision,
    /// No resources match.
    #[error("no clusterDecisionResources found")]
    NoDecisions,
    /// A resource's status doesn't match the ConfigMap.
    #[error("the status of {resource} has no list {key:?}; check statusListKey")]
    DecisionList {
        /// Name of the resource.
        resource: String,
        /// Name of the list.
        key: String,
    },
    /// A plugin returned an invalid response.
    #[error("error listing params: error get api 'set': {reason}")]
    Plugin {
        /// Reason.
        reason: String,
    },
    /// The generator can't be queried, or didn't respond.
    #[error("{reason}")]
    QueryFailed {
        /// Reason.
        reason: String,
    },
    /// A generator or selector is invalid after its templates have been rendered.
    #[error("invalid after rendering: {reason}")]
    InvalidAfterRendering {
        /// Reason.
        reason: String,
    },
    /// There are too many parameter sets or Applications.
    #[error("exceeds the limit of {APPLICATIONS_MAX} parameter sets; split the ApplicationSet")]
    TooMany,
    /// Parameter sets or Applications are too large in total.
    #[error("parameters and templates exceed the limit of {} MiB for one ApplicationSet; split the ApplicationSet", BYTES_MAX >> 20)]
    TooManyBytes,
    /// Generation takes too many steps.
    #[error(
        "templates, patterns, selectors and jq expressions exceed the limit of {STEPS_MAX} steps for one ApplicationSet; split the \
         ApplicationSet"
    )]
    TooManySteps,
}

impl Problem {
    /// Returns true if the error is caused by a limit of the run, which is shared by all generators.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, Self::TooMany | Self::TooManyBytes | Self::TooManySteps)
    }
}

/// A line of a `templatePatch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchLine {
    /// Line number, starting at 1. If the patch as written contains the same line, the number refers to the
    /// patch as written. Otherwise, it refers to the rendered patch.
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
    if fields.is_empty() { String::new() } else { format!(", only {}", fields.join(", ")) }
}

/// Reason why a single Application is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplicationRejection {
    /// Several Applications have this name. All of them are rejected, because it is unclear which one is
    /// wanted.
    #[error("contains applications with duplicate name: {name}: one from {first}, and one from {second}")]
    Duplicate {
        /// The name.
        name: String,
        /// Location of the first Application.
        first: ErrorLocation,
        /// Location of this Application.
        second: ErrorLocation,
    },
    /// Kubernetes does not accept the name.
    #[error("generates an invalid Application name {name:?}: {reason} (from {from})")]
    Name {
        /// The name.
        name: String,
        /// Reason.
        reason: String,
        /// Location.
        from: ErrorLocation,
    },
    /// The service or the API server would reject the Application.
    #[error("generates Application {name}, which is invalid: {reason}{} (from {from})", patch_line_text(.line.as_ref()))]
    Invalid {
        /// The name.
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
