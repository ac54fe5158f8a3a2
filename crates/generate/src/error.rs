//! What can be wrong, and where.

use std::fmt;

use crate::limits::{APPLICATIONS_MAX, BYTES_MAX, ERRORS_MAX, NESTING_MAX, STEPS_MAX};

/// Where in an ApplicationSet something is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The generator, such as `generators[1].matrix.generators[0].list`; empty for the set as a whole.
    pub generator: String,
    /// The set of parameters, such as `element 2`, or `element 2, folder apps/web` of a matrix.
    pub element: Option<String>,
    /// The template, such as `template.spec.source.path`.
    pub field: Option<String>,
}

impl Place {
    pub(crate) fn of(generator: &str) -> Self {
        Self { generator: generator.to_owned(), ..Self::default() }
    }

    pub(crate) fn element(self, element: impl Into<String>) -> Self {
        Self { element: Some(element.into()), ..self }
    }

    pub(crate) fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// This is wrong there.
    pub(crate) fn wrong(self, problem: impl Into<Problem>) -> GenerateError {
        GenerateError { place: self, problem: problem.into() }
    }
}

impl fmt::Display for Place {
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

/// Why an ApplicationSet makes no Applications.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct GenerateError {
    /// Where.
    pub place: Place,
    /// What.
    pub problem: Problem,
}

/// All that is wrong, up to a number of errors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct GenerateErrors(pub Vec<GenerateError>);

impl fmt::Display for GenerateErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if index == 0 { "" } else { "; " })?;
        }
        if self.0.len() >= ERRORS_MAX { f.write_str("; and maybe more") } else { Ok(()) }
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// An option of templates that there is not.
    #[error(transparent)]
    Option(#[from] tidegate_gotmpl::InvalidOption),
    /// A text that is no template.
    #[error("failed to parse template {template}: {reason}")]
    Parse {
        /// The text.
        template: String,
        /// Where it is wrong, in the words of Go.
        reason: String,
    },
    /// A template that could not be filled.
    #[error("failed to execute go template {template}: {reason}")]
    Execute {
        /// The text.
        template: String,
        /// Where it is wrong, in the words of Go.
        reason: String,
    },
    /// A tag of a `{{name}}` template that has no end.
    #[error("failed to parse template {template}: a tag that begins with {{{{ has no end }}}}")]
    Unclosed {
        /// The text.
        template: String,
    },
    /// Two keys of a map became one.
    #[error("two keys of this map become {key:?}; one would be lost")]
    Keys {
        /// Which.
        key: String,
    },
    /// What a template or a patch made is no Application.
    #[error("what it makes is no Application: {reason}")]
    Application {
        /// Why not.
        reason: String,
    },
    /// A patch that cannot be read.
    #[error("invalid templatePatch: {reason}")]
    Patch {
        /// Why not.
        reason: String,
    },
    /// An entry without a generator.
    #[error("there is no generator in it that is known here{}", only(.fields))]
    NoGenerator {
        /// What is in it.
        fields: Vec<String>,
    },
    /// An entry of a matrix or merge with several generators.
    #[error("there can be one generator only, and there are {names}; give each an entry of its own", names = .names.join(", "))]
    SeveralGenerators {
        /// Which.
        names: Vec<String>,
    },
    /// Too many generators within generators.
    #[error("generators can be nested {NESTING_MAX} deep, and no deeper")]
    Nesting,
    /// A matrix of not two generators.
    #[error("a matrix has two generators, not {count}; nest another matrix for more")]
    Matrix {
        /// How many it has.
        count: usize,
    },
    /// A merge of fewer than two generators.
    #[error("a merge has two generators or more, not {count}")]
    Merge {
        /// How many it has.
        count: usize,
    },
    /// A merge without keys.
    #[error("mergeKeys names no parameter; name at least one that tells the sets apart")]
    MergeKeys,
    /// A generator of a merge whose sets are not told apart.
    #[error("its sets must be told apart by the mergeKeys. Duplicate key was {key}")]
    DuplicateKey {
        /// The values of the keys, as JSON.
        key: String,
    },
    /// Two sets of a matrix that do not agree.
    #[error("found duplicate key {key} with different value, {key}: {first} ,{key}: {second}")]
    Contradiction {
        /// The parameter.
        key: String,
        /// Its value in the first set.
        first: String,
        /// Its value in the second set.
        second: String,
    },
    /// An element that is no object.
    #[error("{what} is no object, but {found}")]
    NoObject {
        /// What should be one.
        what: &'static str,
        /// What it is.
        found: String,
    },
    /// A parameter that is no text, where only texts can be.
    #[error("error parsing value as string: {key} is {found}; quote it, or set goTemplate: true")]
    NoText {
        /// The parameter.
        key: String,
        /// What it is.
        found: String,
    },
    /// A list in YAML that cannot be read.
    #[error("elementsYaml is no YAML list of objects: {reason}")]
    ElementsYaml {
        /// Why not.
        reason: String,
    },
    /// A selector that means nothing.
    #[error("the selector makes no sense: {reason}")]
    Selector {
        /// Why not.
        reason: String,
    },
    /// A pattern of paths that means nothing.
    #[error("pattern {pattern:?} makes no sense: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// A regular expression that means nothing.
    #[error("{field} {pattern:?} is no regular expression: {reason}")]
    Filter {
        /// Which field of a filter.
        field: &'static str,
        /// The expression.
        pattern: String,
        /// Why not.
        reason: String,
    },
    /// A list generator without elements, with fields that are not known: a misspelling must not delete all that it had made.
    #[error(
        "it has neither elements nor elementsYaml, and {fields} is not known; for no elements, write elements: []"
    )]
    NoElements {
        /// What it has instead.
        fields: String,
    },
    /// A Git generator without patterns.
    #[error("it has neither directories nor files; say which folders or files make a set of parameters")]
    NoPaths,
    /// A file that cannot be read.
    #[error("unable to process file '{path}' from repository '{repository}': unable to parse file: {reason}")]
    File {
        /// The file.
        path: String,
        /// Its repository, without credentials.
        repository: String,
        /// What is wrong.
        reason: String,
    },
    /// A generator that says of no resource, or twice, which it asks.
    #[error(
        "there is a problem with the definition of the ClusterDecisionResource generator: it needs name, or labelSelector, and not both"
    )]
    Decision,
    /// No resource that decides.
    #[error("no clusterDecisionResources found")]
    NoDecisions,
    /// A resource whose status is not as the ConfigMap says.
    #[error("the status of {resource} has no list {key:?}; check statusListKey")]
    DecisionList {
        /// Its name.
        resource: String,
        /// The name of the list.
        key: String,
    },
    /// A program that answered something else.
    #[error("error listing params: error get api 'set': {reason}")]
    Plugin {
        /// What.
        reason: String,
    },
    /// The generator cannot be asked, or did not answer.
    #[error("{reason}")]
    Unanswered {
        /// Why.
        reason: String,
    },
    /// A generator, or its selector, that is none any more once its texts are filled.
    #[error("it cannot be filled: {reason}")]
    Unfillable {
        /// Why.
        reason: String,
    },
    /// Too many sets of parameters, or Applications.
    #[error("more than {APPLICATIONS_MAX} sets of parameters, which is the limit; divide the ApplicationSet")]
    TooMany,
    /// Too much of them.
    #[error("parameters and templates take more than {} MiB, which is the limit of one ApplicationSet", BYTES_MAX >> 20)]
    TooManyBytes,
    /// Too much work.
    #[error(
        "templates, patterns and selectors take more than {STEPS_MAX} steps, which is the limit of one ApplicationSet"
    )]
    TooManySteps,
}

impl Problem {
    /// Whether it is a limit of the run, which all of its generators have in common.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, Self::TooMany | Self::TooManyBytes | Self::TooManySteps)
    }
}

fn only(fields: &[String]) -> String {
    if fields.is_empty() { String::new() } else { format!(", only {}", fields.join(", ")) }
}

/// Why one Application is not to be, where all others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another one has its name: both are refused, because nobody knows which is meant.
    #[error("contains applications with duplicate name: {name}: one of {first}, and one of {second}")]
    Duplicate {
        /// The name.
        name: String,
        /// Where the first of them is from.
        first: Place,
        /// Where this one is from.
        second: Place,
    },
    /// Kubernetes takes no such name.
    #[error("{name:?} is no name of an Application: {reason} (from {from})")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
        /// Where it is from.
        from: Place,
    },
}

impl Refusal {
    /// The name of the Application that is not to be.
    pub fn name(&self) -> &str {
        match self {
            Self::Duplicate { name, .. } | Self::Name { name, .. } => name,
        }
    }
}
