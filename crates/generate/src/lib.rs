//! The Applications of an ApplicationSet: sets of parameters, and what its templates make of them.
//!
//! ```text
//! ApplicationSet ─ generators ─▶ sets of parameters ─ selector ─▶ ─ template ─▶ ─ templatePatch ─▶ Applications
//!                     │  ▲
//!                     ▼  │
//!                    World: clusters, files, answers of others
//! ```
//!
//! Pure: what the world has to say comes in through [`World`], which may not know it yet. The same ApplicationSet and the
//! same answers make the same Applications, in the same order.
//!
//! Where to look: `run` asks one generator after the other, each of which has a file in `generators`; `templates` fills
//! texts (`fast` those of the form `{{name}}`), `walk` all texts of a value, `application` the template as a whole, and
//! `patch` is a strategic merge. What one run may use is in `limits`.

mod application;
mod error;
mod fast;
mod generators;
mod limits;
mod names;
mod parameters;
mod patch;
mod paths;
mod run;
mod selector;
mod templates;
#[cfg(test)]
mod tests;
mod walk;
mod world;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::argo::{Application, ApplicationSet};

pub use error::{GenerateError, GenerateErrors, Place, Problem, Refusal};
pub use limits::{APPLICATIONS_MAX, BYTES_MAX, ERRORS_MAX, NESTING_MAX, STEPS_MAX};
pub use selector::Selector;
pub use world::{Branch, Cluster, Decisions, GitTree, NoWorld, PullRequest, Reply, Unanswered, World};

use crate::application::Maker;
use crate::limits::Budget;
use crate::run::{Run, Spot, Stop};
use crate::templates::{Templates, engine};

/// What whoever runs ApplicationSets decides for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `*` in patterns of Git files stays between slashes, and `**` does not: Argo CD's "new Git file globbing".
    pub new_globbing: bool,
    /// What time templates see, in seconds since 1970; without, `now` is an error.
    pub now: Option<i64>,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The world has still to answer something; generate again when it can.
    Unknown,
    /// All there is to say.
    Done(Generated),
}

/// What an ApplicationSet makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// Its Applications, in the order of its generators; no two of them have the same name.
    pub applications: Vec<Made>,
    /// Applications that are not to be, and why. Those that exist under such a name are neither to be changed nor deleted.
    pub refused: Vec<Refusal>,
    /// Generators that had nothing to say because what they asked for is gone, and that was to be no error. While there
    /// are any, an Application that is missing here need not be unwanted.
    pub passed: Vec<Passed>,
    /// What is wrong with generators that gave nothing because of it, while others gave theirs. While there is anything, an
    /// Application that is missing here need not be unwanted.
    pub failed: Vec<GenerateError>,
}

impl Generated {
    /// All of it, for those who have no use for a part.
    ///
    /// # Errors
    /// What is wrong with the generators that gave nothing.
    pub fn whole(self) -> Result<Self, GenerateErrors> {
        if self.failed.is_empty() { Ok(self) } else { Err(GenerateErrors(self.failed)) }
    }
}

/// An Application.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Itself.
    pub application: Application,
    /// Where it is from.
    pub from: Place,
}

/// A generator that had nothing to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Where it is.
    pub place: Place,
    /// Why.
    pub reason: String,
}

/// Generates the Applications of a set.
///
/// A generator of the set is one whole: with anything wrong in it, in those within it, or in what templates make of its sets of
/// parameters, it gives no Application, and [`Generated::failed`] says why. The others give theirs.
///
/// An error means that nothing is known of any Application: whoever gets it changes and deletes nothing.
///
/// # Errors
/// Whatever is wrong with generators, templates and patches, or what the world could not answer, with the place of each: where
/// no generator gives anything, a limit of the run is reached, or there is more wrong than is told at once.
pub fn generate(
    set: &ApplicationSet,
    world: &mut dyn World,
    options: &Options,
) -> Result<Outcome, GenerateErrors> {
    let spec = &set.spec;
    let option =
        |problem: Problem| GenerateErrors(vec![Place::default().field("goTemplateOptions").wrong(problem)]);
    let engine = engine(spec, options.now).map_err(option)?;
    let templates = Templates::new(engine.as_ref());
    let mut run = Run { world, options, templates, budget: Budget::new(), passed: Vec::new() };
    let mut maker = Maker::new(set);
    let mut failed = Vec::new();
    let (mut is_unknown, mut is_any_well) = (false, spec.generators.is_empty());
    for (index, entry) in spec.generators.iter().enumerate() {
        let place = format!("generators[{index}]");
        if entry.generators().next().is_none() {
            let fields = entry.rest.keys().cloned().collect();
            failed.push(Place::of(&place).wrong(Problem::NoGenerator { fields }));
        }
        for generator in entry.generators() {
            let place = format!("{place}.{}", generator.name());
            let spot = Spot { place: &place, outer: None, depth: 1 };
            let before = (maker.made.len(), failed.len());
            match run.sets(generator, entry.selector.as_ref(), spot) {
                Ok(sets) => maker.make(&mut run, sets, generator.template(), &place, &mut failed),
                Err(Stop::Unknown) => is_unknown = true,
                Err(Stop::Failed(error)) => failed.push(*error),
            }
            if failed.len() > before.1 {
                maker.made.truncate(before.0);
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
        return Ok(Outcome::Unknown);
    }
    let (applications, refused) = sorted_out(maker.made);
    Ok(Outcome::Done(Generated { applications, refused, passed: run.passed, failed }))
}

/// Applications that can be, and those that cannot.
fn sorted_out(made: Vec<Made>) -> (Vec<Made>, Vec<Refusal>) {
    let mut places: BTreeMap<&str, Vec<&Place>> = BTreeMap::new();
    for one in &made {
        places.entry(one.application.metadata.name.as_str()).or_default().push(&one.from);
    }
    let mut refused = Vec::new();
    for (name, places) in places {
        if let (Some(reason), Some(from)) = (names::unusable(name), places.first()) {
            refused.push(Refusal::Name { name: name.to_owned(), reason, from: (*from).clone() });
        } else if let [first, others @ ..] = places.as_slice() {
            refused.extend(others.iter().map(|second| Refusal::Duplicate {
                name: name.to_owned(),
                first: (*first).clone(),
                second: (*second).clone(),
            }));
        }
    }
    let out: BTreeSet<&str> = refused.iter().map(Refusal::name).collect();
    let can_be = |one: &Made| !out.contains(one.application.metadata.name.as_str());
    let applications = made.into_iter().filter(can_be).collect();
    (applications, refused)
}
