//! Generation of Applications from an ApplicationSet. Generators return parameter sets for rendering the
//! templates.
//!
//! ```text
//! ApplicationSet ─ generators ─▶ parameter sets ─ selector ─▶ ─ template ─▶ ─ templatePatch ─▶ Applications
//!                     │  ▲
//!                     ▼  │
//!                    GeneratorInputs: clusters, files, responses of services
//! ```
//!
//! Generation is pure: all external data comes from [`GeneratorInputs`], which may report that data isn't
//! available yet. The same ApplicationSet and the same data always result in the same Applications, in the
//! same order.
//!
//! Modules: `run` executes the generators. Each generator has a file in `generators`. `templates` renders
//! strings (`simple_templates` renders those of the form `{{name}}`), `render_value` renders all strings in a
//! value, and `application` renders the whole template. `patch` applies strategic merge patches. `limits`
//! defines the resource limits of a run, and `budget` tracks the remaining resources.

mod application;
mod budget;
mod error;
mod generators;
mod inputs;
mod limits;
mod name_rules;
mod parameters;
mod patch;
mod path_patterns;
mod render_value;
mod run;
mod selector;
mod simple_templates;
mod templates;
#[cfg(test)]
mod tests;
mod unknown_tags;
mod validation;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::argo::{Application, ApplicationSet};

pub use error::{ApplicationRejection, ErrorLocation, GenerateError, GenerateErrors, PatchLine, Problem};
pub use inputs::{
    Branch, Cluster, Decisions, GeneratorInputs, GitTree, NoInputs, PullRequest, QueryError, Reply,
};
pub use limits::{APPLICATIONS_MAX, BYTES_MAX, ERRORS_MAX, NESTING_MAX, STEPS_MAX};
pub use selector::Selector;
pub use unknown_tags::UnknownTag;

use crate::application::{ApplicationDraft, ApplicationRenderer};
use crate::budget::Budget;
use crate::run::{GenerateRun, GenerateStop, GeneratorPosition};
use crate::templates::{Templates, go_engine};
use crate::validation::Defect;

/// Service-wide options for ApplicationSets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True if `*` doesn't match slashes and `**` does in patterns for Git files ("new Git file globbing" in
    /// Argo CD).
    pub new_globbing: bool,
    /// Current Unix time for templates. If `None`, the `now` function fails.
    pub now: Option<i64>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum GenerateOutcome {
    /// Some external data isn't available yet. Generate again when it is.
    Incomplete,
    /// All external data was available.
    Done(GenerateOutput),
}

/// Output for one ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOutput {
    /// Applications with unique names, in the order of the generators.
    pub applications: Vec<GeneratedApplication>,
    /// Rejected Applications. Existing ones with these names must be left alone.
    pub rejected: Vec<ApplicationRejection>,
    /// Generators without output because the resource they query doesn't exist. If there are any, don't
    /// delete Applications just because they are missing from the output.
    pub skipped: Vec<SkippedGenerator>,
    /// Errors of failed generators, if others succeeded. If there are any, don't delete Applications just
    /// because they are missing from the output.
    pub errors: Vec<GenerateError>,
    /// Tags left in generated and rejected Applications because no such parameters exist.
    pub unknown_tags: Vec<UnknownTag>,
}

impl GenerateOutput {
    /// Returns the output if no generator failed.
    ///
    /// # Errors
    ///
    /// Returns the errors of the failed generators.
    pub fn into_complete(self) -> Result<Self, GenerateErrors> {
        if self.errors.is_empty() { Ok(self) } else { Err(GenerateErrors(self.errors)) }
    }
}

/// A generated Application.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratedApplication {
    /// The Application.
    pub application: Application,
    /// Generator and parameter set that produced the Application.
    pub location: ErrorLocation,
}

/// A generator without output because the resource it queries doesn't exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedGenerator {
    /// Location of the generator.
    pub place: ErrorLocation,
    /// Reason the generator has no output.
    pub reason: String,
}

/// Generates the Applications of an ApplicationSet.
///
/// A top-level generator succeeds or fails as a whole. It fails if there is an error in the generator, in its
/// nested generators, or in a template rendered with its parameter sets. This function then adds the error to
/// [`GenerateOutput::errors`] and omits all Applications of that generator. Other generators aren't affected.
///
/// After an error, the output is unknown, so the caller must not change or delete any Application.
///
/// # Errors
///
/// Returns an error if no generator succeeds, if the run exceeds a limit, or if there are too many errors.
/// The error contains the problems with generators, templates, patches and external data, each with its
/// location.
pub fn generate(
    set: &ApplicationSet,
    world: &mut dyn GeneratorInputs,
    options: &Options,
) -> Result<GenerateOutcome, GenerateErrors> {
    let spec = &set.spec;
    let option = |problem: Problem| {
        GenerateErrors(vec![ErrorLocation::default().with_field("goTemplateOptions").error(problem)])
    };
    let engine = go_engine(spec, options.now).map_err(option)?;
    let templates = Templates::new(engine.as_ref());
    let mut run =
        GenerateRun { inputs: world, options, templates, budget: Budget::new(), skipped: Vec::new() };
    let mut maker = ApplicationRenderer::new(set);
    let mut failed = Vec::new();
    let (mut is_unknown, mut is_any_well) = (false, spec.generators.is_empty());
    for (index, entry) in spec.generators.iter().enumerate() {
        let place = format!("generators[{index}]");
        if entry.generators().next().is_none() {
            let fields = entry.rest.keys().cloned().collect();
            failed.push(ErrorLocation::in_generator(&place).error(Problem::NoGenerator { fields }));
        }
        for generator in entry.generators() {
            let place = format!("{place}.{}", generator.name());
            let spot = GeneratorPosition { path: &place, outer_parameters: None, depth: 1 };
            let before = (maker.drafts.len(), failed.len());
            match run.parameter_sets(generator, entry.selector.as_ref(), spot) {
                Ok(sets) => {
                    maker.render_applications(&mut run, sets, generator.template(), &place, &mut failed)
                }
                Err(GenerateStop::NotAvailableYet) => is_unknown = true,
                Err(GenerateStop::Failed(error)) => failed.push(*error),
            }
            if failed.len() > before.1 {
                maker.drafts.truncate(before.0);
            } else {
                is_any_well = true;
            }
            if failed.len() >= ERRORS_MAX || failed.iter().any(|error| error.problem.is_limit()) {
                return Err(GenerateErrors(failed));
            }
        }
    }
    if !failed.is_empty() && (is_unknown || !is_any_well) {
        return Err(GenerateErrors(failed));
    }
    if is_unknown {
        return Ok(GenerateOutcome::Incomplete);
    }
    let tags = maker.drafts.iter_mut().flat_map(|draft| std::mem::take(&mut draft.unknown_tags));
    let unknown_tags = unknown_tags::combine(tags);
    let (applications, refused) = partition_drafts(maker.drafts);
    Ok(GenerateOutcome::Done(GenerateOutput {
        applications,
        rejected: refused,
        skipped: run.skipped,
        errors: failed,
        unknown_tags,
    }))
}

/// Separates valid Applications from rejected ones, such as those with a duplicate name.
fn partition_drafts(drafts: Vec<ApplicationDraft>) -> (Vec<GeneratedApplication>, Vec<ApplicationRejection>) {
    let mut by_name: BTreeMap<&str, Vec<&ApplicationDraft>> = BTreeMap::new();
    for draft in &drafts {
        by_name.entry(draft.generated.application.metadata.name.as_str()).or_default().push(draft);
    }
    let mut refused = Vec::new();
    for (name, drafts) in by_name {
        let name = name.to_owned();
        let Some((first, others)) = drafts.split_first() else { continue };
        let from = first.generated.location.clone();
        match &first.defect {
            Some(Defect::Name { reason }) => {
                refused.push(ApplicationRejection::Name { name, reason: reason.clone(), from });
            }
            Some(Defect::Field { reason, line, .. }) if others.is_empty() => {
                refused.push(ApplicationRejection::Invalid {
                    name,
                    reason: reason.clone(),
                    line: line.clone(),
                    from,
                });
            }
            _ => refused.extend(others.iter().map(|second| ApplicationRejection::Duplicate {
                name: name.clone(),
                first: from.clone(),
                second: second.generated.location.clone(),
            })),
        }
    }
    let out: BTreeSet<&str> = refused.iter().map(ApplicationRejection::name).collect();
    let can_be = |made: &GeneratedApplication| !out.contains(made.application.metadata.name.as_str());
    let applications = drafts.into_iter().map(|draft| draft.generated).filter(can_be).collect();
    (applications, refused)
}
