//! One run: what it knows, what it may use, and the generators as they are asked.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_model::argo::{ApplicationSetGenerator, Generator, LabelSelector};

use crate::error::{GenerateError, Place, Problem};
use crate::generators;
use crate::limits::{APPLICATIONS_MAX, Budget, NESTING_MAX, size};
use crate::parameters::{ParameterSet, Parameters, flatten};
use crate::selector::Selector;
use crate::templates::Templates;
use crate::walk::walk;
use crate::world::{Reply, World};
use crate::{Options, Passed};

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The world has not answered yet.
    Unknown,
    /// Something is wrong.
    Failed(Box<GenerateError>),
}

impl From<GenerateError> for Stop {
    fn from(error: GenerateError) -> Self {
        Self::Failed(Box::new(error))
    }
}

pub(crate) type Ran<T> = Result<T, Stop>;

pub(crate) struct Run<'r> {
    pub(crate) world: &'r mut dyn World,
    pub(crate) options: &'r Options,
    pub(crate) templates: Templates<'r>,
    pub(crate) budget: Budget,
    pub(crate) passed: Vec<Passed>,
}

/// Where a generator is, and what is known there.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'s> {
    /// Such as `generators[0].list`.
    pub(crate) place: &'s str,
    /// The parameters of the generators before it in a matrix.
    pub(crate) outer: Option<&'s Value>,
    /// How many generators it is in.
    pub(crate) depth: usize,
}

impl Spot<'_> {
    pub(crate) fn wrong(&self, problem: impl Into<Problem>) -> Stop {
        Place::of(self.place).wrong(problem).into()
    }

    /// What the world says.
    pub(crate) fn known<T>(&self, reply: Reply<T>) -> Ran<T> {
        match reply {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Stop::Unknown),
            Err(unanswered) => Err(self.wrong(Problem::Unanswered { reason: unanswered.reason })),
        }
    }
}

impl Run<'_> {
    /// Whether templates are those of Go.
    pub(crate) fn of_go(&self) -> bool {
        self.templates.are_of_go()
    }

    /// The sets of parameters of one generator, as far as its selector lets them pass.
    pub(crate) fn sets(
        &mut self,
        generator: Generator<'_>,
        selector: Option<&LabelSelector>,
        spot: Spot<'_>,
    ) -> Ran<Vec<ParameterSet>> {
        if spot.depth > NESTING_MAX {
            return Err(spot.wrong(Problem::Nesting));
        }
        let selector = match selector {
            Some(selector) => {
                let selector = self.filled(selector, spot)?;
                Some(Selector::new(&selector).map_err(|problem| spot.wrong(problem))?)
            }
            None => None,
        };
        let mut sets = match generator {
            Generator::List(list) => generators::list::sets(self, list, spot),
            Generator::Clusters(clusters) => generators::clusters::sets(self, clusters, spot),
            Generator::Git(git) => generators::git::sets(self, git, spot),
            Generator::ScmProvider(scm) => generators::scm::sets(self, scm, spot),
            Generator::ClusterDecisionResource(decision) => generators::decision::sets(self, decision, spot),
            Generator::PullRequest(requests) => generators::pull_requests::sets(self, requests, spot),
            Generator::Matrix(matrix) => generators::matrix::sets(self, matrix, spot),
            Generator::Merge(merge) => generators::merge::sets(self, merge, spot),
            Generator::Plugin(plugin) => generators::plugin::sets(self, plugin, spot),
        }?;
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            let steps = sets.len().saturating_mul(selector.steps());
            self.steps(steps, spot)?;
            sets.retain(|set| selector.matches_parameters(&flatten(&set.parameters)));
        }
        Ok(sets)
    }

    /// The sets of a generator within another one.
    pub(crate) fn nested(
        &mut self,
        index: usize,
        entry: &ApplicationSetGenerator,
        outer: Option<&Value>,
        spot: Spot<'_>,
    ) -> Ran<Vec<ParameterSet>> {
        let place = format!("{}.generators[{index}]", spot.place);
        let all: Vec<_> = entry.generators().collect();
        let generator = match all.as_slice() {
            [one] => *one,
            [] => {
                let fields = entry.rest.keys().cloned().collect();
                return Err(Place::of(&place).wrong(Problem::NoGenerator { fields }).into());
            }
            several => {
                let names = several.iter().map(|generator| generator.name().to_owned()).collect();
                return Err(Place::of(&place).wrong(Problem::SeveralGenerators { names }).into());
            }
        };
        let place = format!("{place}.{}", generator.name());
        self.sets(generator, entry.selector.as_ref(), Spot { place: &place, outer, depth: spot.depth + 1 })
    }

    /// A generator, or a part of it, whose texts are filled by the parameters before it. Its `values` are not: what they
    /// are made of comes later. Its template has no effect here.
    pub(crate) fn filled<T: Serialize + DeserializeOwned + Clone>(
        &mut self,
        part: &T,
        spot: Spot<'_>,
    ) -> Ran<T> {
        let Some(outer) = spot.outer else { return Ok(part.clone()) };
        let unfillable =
            |error: serde_json::Error| spot.wrong(Problem::Unfillable { reason: error.to_string() });
        let mut value = serde_json::to_value(part).map_err(unfillable)?;
        let fields = value.as_object_mut();
        let values = fields.and_then(|fields| {
            fields.remove("template");
            fields.remove("values")
        });
        let (templates, budget) = (&mut self.templates, &mut self.budget);
        let mut value =
            walk(&value, "", &mut |text| templates.render(text, outer, budget)).map_err(|wrong| {
                let field = wrong.path.trim_start_matches('.').to_owned();
                Stop::from(Place::of(spot.place).field(field).wrong(wrong.problem))
            })?;
        if let (Some(fields), Some(values)) = (value.as_object_mut(), values) {
            fields.insert("values".to_owned(), values);
        }
        serde_json::from_value(value).map_err(unfillable)
    }

    /// Counts work in.
    pub(crate) fn steps(&mut self, count: usize, spot: Spot<'_>) -> Ran<()> {
        self.budget.steps(count).map_err(|problem| spot.wrong(problem))
    }

    /// Counts a set in, and adds it.
    pub(crate) fn add(
        &mut self,
        sets: &mut Vec<ParameterSet>,
        parameters: Parameters,
        origin: String,
        spot: Spot<'_>,
    ) -> Ran<()> {
        if sets.len() >= APPLICATIONS_MAX {
            return Err(spot.wrong(Problem::TooMany));
        }
        let parameters = Value::Object(parameters);
        self.budget
            .bytes(size(&parameters).saturating_add(origin.len()))
            .and_then(|()| self.budget.steps(1))
            .map_err(|problem| spot.wrong(problem))?;
        if let Value::Object(parameters) = parameters {
            sets.push(ParameterSet { parameters, origin });
        }
        Ok(())
    }

    /// Adds the `values` of a generator to a set of parameters. They are made of that set and of those before it, and not
    /// of each other.
    pub(crate) fn add_values<'v>(
        &mut self,
        parameters: &mut Parameters,
        values: impl IntoIterator<Item = (&'v String, &'v String)>,
        origin: &str,
        spot: Spot<'_>,
    ) -> Ran<()> {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut data = spot.outer.and_then(Value::as_object).cloned().unwrap_or_default();
        crate::parameters::fill(&mut data, parameters);
        let data = Value::Object(data);
        let mut made = Parameters::new();
        for (name, text) in values {
            let rendered = self.templates.render(text, &data, &mut self.budget).map_err(|problem| {
                Stop::from(
                    Place::of(spot.place).element(origin).field(format!("values.{name}")).wrong(problem),
                )
            })?;
            made.insert(name.clone(), Value::String(rendered));
        }
        crate::parameters::put(parameters, self.of_go(), "values", made);
        Ok(())
    }
}
