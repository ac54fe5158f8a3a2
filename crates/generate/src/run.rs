//! A single run: its inputs, its remaining budget, and its generators.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_model::argo::{ApplicationSetGenerator, Generator, LabelSelector};

use crate::budget::{Budget, value_size};
use crate::error::{ErrorLocation, GenerateError, Problem};
use crate::generators;
use crate::inputs::{GeneratorInputs, Reply};
use crate::limits::{APPLICATIONS_MAX, NESTING_MAX};
use crate::parameters::{ParameterSet, Parameters, flatten};
use crate::render_value::render_texts;
use crate::selector::Selector;
use crate::templates::Templates;
use crate::{Options, SkippedGenerator};

/// Reason a generator has no result.
#[derive(Debug)]
pub(crate) enum GenerateStop {
    /// External data isn't available yet.
    NotAvailableYet,
    /// An error occurred.
    Failed(Box<GenerateError>),
}

impl From<GenerateError> for GenerateStop {
    fn from(error: GenerateError) -> Self {
        Self::Failed(Box::new(error))
    }
}

pub(crate) type GenerateResult<T> = Result<T, GenerateStop>;

pub(crate) struct GenerateRun<'r> {
    pub(crate) inputs: &'r mut dyn GeneratorInputs,
    pub(crate) options: &'r Options,
    pub(crate) templates: Templates<'r>,
    pub(crate) budget: Budget,
    pub(crate) skipped: Vec<SkippedGenerator>,
}

/// Location of a generator and its context.
#[derive(Clone, Copy)]
pub(crate) struct GeneratorPosition<'s> {
    /// Path such as `generators[0].list`.
    pub(crate) path: &'s str,
    /// Parameters from outside the generator, e.g. from the first generator of a matrix.
    pub(crate) outer_parameters: Option<&'s Value>,
    /// Nesting depth.
    pub(crate) depth: usize,
}

impl GeneratorPosition<'_> {
    pub(crate) fn error(&self, problem: impl Into<Problem>) -> GenerateStop {
        ErrorLocation::in_generator(self.path).error(problem).into()
    }

    /// Returns the data in a reply, or the reason there isn't any.
    pub(crate) fn resolve_reply<T>(&self, reply: Reply<T>) -> GenerateResult<T> {
        match reply {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(GenerateStop::NotAvailableYet),
            Err(unanswered) => Err(self.error(Problem::QueryFailed { reason: unanswered.reason })),
        }
    }
}

impl GenerateRun<'_> {
    /// Returns true if the ApplicationSet uses Go templates.
    pub(crate) fn uses_go_templates(&self) -> bool {
        self.templates.uses_go_templates()
    }

    /// Runs a generator and returns the parameter sets that match its selector.
    pub(crate) fn parameter_sets(
        &mut self,
        generator: Generator<'_>,
        selector: Option<&LabelSelector>,
        spot: GeneratorPosition<'_>,
    ) -> GenerateResult<Vec<ParameterSet>> {
        if spot.depth > NESTING_MAX {
            return Err(spot.error(Problem::Nesting));
        }
        let selector = match selector {
            Some(selector) => {
                let selector = self.render_part(selector, spot)?;
                Some(Selector::new(&selector).map_err(|problem| spot.error(problem))?)
            }
            None => None,
        };
        let mut sets = match generator {
            Generator::List(list) => generators::list::list_parameters(self, list, spot),
            Generator::Clusters(clusters) => generators::clusters::cluster_parameters(self, clusters, spot),
            Generator::Git(git) => generators::git::git_parameters(self, git, spot),
            Generator::ScmProvider(scm) => generators::scm::scm_parameters(self, scm, spot),
            Generator::ClusterDecisionResource(decision) => {
                generators::decision::decision_parameters(self, decision, spot)
            }
            Generator::PullRequest(requests) => {
                generators::pull_requests::pull_request_parameters(self, requests, spot)
            }
            Generator::Matrix(matrix) => generators::matrix::matrix_parameters(self, matrix, spot),
            Generator::Merge(merge) => generators::merge::merge_parameters(self, merge, spot),
            Generator::Plugin(plugin) => generators::plugin::plugin_parameters(self, plugin, spot),
        }?;
        if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
            let steps = sets.len().saturating_mul(selector.match_cost());
            self.take_steps(steps, spot)?;
            sets.retain(|set| selector.matches_parameters(&flatten(&set.parameters)));
        }
        Ok(sets)
    }

    /// Returns the parameter sets of a nested generator.
    pub(crate) fn nested_parameter_sets(
        &mut self,
        index: usize,
        entry: &ApplicationSetGenerator,
        outer: Option<&Value>,
        spot: GeneratorPosition<'_>,
    ) -> GenerateResult<Vec<ParameterSet>> {
        let place = format!("{}.generators[{index}]", spot.path);
        let all: Vec<_> = entry.generators().collect();
        let generator = match all.as_slice() {
            [one] => *one,
            [] => {
                let fields = entry.rest.keys().cloned().collect();
                return Err(ErrorLocation::in_generator(&place)
                    .error(Problem::NoGenerator { fields })
                    .into());
            }
            several => {
                let names = several.iter().map(|generator| generator.name().to_owned()).collect();
                return Err(ErrorLocation::in_generator(&place)
                    .error(Problem::SeveralGenerators { names })
                    .into());
            }
        };
        let place = format!("{place}.{}", generator.name());
        self.parameter_sets(
            generator,
            entry.selector.as_ref(),
            GeneratorPosition { path: &place, outer_parameters: outer, depth: spot.depth + 1 },
        )
    }

    /// Renders the strings in a generator, or in a part of it, with the outer parameters. Skips `values`,
    /// which are rendered later, and the template, which has no effect in a nested generator.
    pub(crate) fn render_part<T: Serialize + DeserializeOwned + Clone>(
        &mut self,
        part: &T,
        spot: GeneratorPosition<'_>,
    ) -> GenerateResult<T> {
        let Some(outer) = spot.outer_parameters else { return Ok(part.clone()) };
        let unfillable = |error: serde_json::Error| {
            spot.error(Problem::InvalidAfterRendering { reason: error.to_string() })
        };
        let mut value = serde_json::to_value(part).map_err(unfillable)?;
        let fields = value.as_object_mut();
        let values = fields.and_then(|fields| {
            fields.remove("template");
            fields.remove("values")
        });
        let (templates, budget) = (&mut self.templates, &mut self.budget);
        let mut value =
            render_texts(&value, "", &mut |text| templates.render(text, outer, budget)).map_err(|wrong| {
                let field = wrong.path.trim_start_matches('.').to_owned();
                GenerateStop::from(
                    ErrorLocation::in_generator(spot.path).with_field(field).error(wrong.problem),
                )
            })?;
        if let (Some(fields), Some(values)) = (value.as_object_mut(), values) {
            fields.insert("values".to_owned(), values);
        }
        serde_json::from_value(value).map_err(unfillable)
    }

    /// Takes steps from the budget.
    pub(crate) fn take_steps(&mut self, count: usize, spot: GeneratorPosition<'_>) -> GenerateResult<()> {
        self.budget.take_steps(count).map_err(|problem| spot.error(problem))
    }

    /// Adds a parameter set, charging its size to the budget.
    pub(crate) fn add_parameter_set(
        &mut self,
        sets: &mut Vec<ParameterSet>,
        parameters: Parameters,
        origin: String,
        spot: GeneratorPosition<'_>,
    ) -> GenerateResult<()> {
        if sets.len() >= APPLICATIONS_MAX {
            return Err(spot.error(Problem::TooMany));
        }
        let parameters = Value::Object(parameters);
        self.budget
            .take_bytes(value_size(&parameters).saturating_add(origin.len()))
            .and_then(|()| self.budget.take_steps(1))
            .map_err(|problem| spot.error(problem))?;
        if let Value::Object(parameters) = parameters {
            sets.push(ParameterSet { parameters, origin });
        }
        Ok(())
    }

    /// Adds a generator's `values` to a parameter set. They can use this set and the outer parameters, but
    /// not each other.
    pub(crate) fn add_values<'v>(
        &mut self,
        parameters: &mut Parameters,
        values: impl IntoIterator<Item = (&'v String, &'v String)>,
        origin: &str,
        spot: GeneratorPosition<'_>,
    ) -> GenerateResult<()> {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut data = spot.outer_parameters.and_then(Value::as_object).cloned().unwrap_or_default();
        crate::parameters::add_missing(&mut data, parameters);
        let data = Value::Object(data);
        let mut made = Parameters::new();
        for (name, text) in values {
            let rendered = self.templates.render(text, &data, &mut self.budget).map_err(|problem| {
                GenerateStop::from(
                    ErrorLocation::in_generator(spot.path)
                        .with_element(origin)
                        .with_field(format!("values.{name}"))
                        .error(problem),
                )
            })?;
            made.insert(name.clone(), Value::String(rendered));
        }
        crate::parameters::add_prefixed(parameters, self.uses_go_templates(), "values", made);
        Ok(())
    }
}
