//! Tests for the parameter sets of generators, with both types of templates.

mod git;
mod list;
mod nested;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::argo::{
    ApplicationSetGenerator, ApplicationSetSpec, ClusterDecisionResourceGenerator, PluginGenerator,
    PullRequestGenerator, ScmGenerator,
};

use crate::budget::Budget;
use crate::run::{GenerateRun, GenerateStop, GeneratorPosition};
use crate::templates::{Templates, go_engine};
use crate::{
    Branch, Cluster, Decisions, GeneratorInputs, GitTree, Options, PullRequest, QueryError, Reply,
    SkippedGenerator,
};

/// Inputs with fixed data.
#[derive(Default)]
struct FixedInputs {
    clusters: Vec<Cluster>,
    /// Files and their content, by repository and revision.
    files: BTreeMap<(&'static str, &'static str), BTreeMap<&'static str, &'static str>>,
    /// Files that haven't been fetched yet.
    unavailable: BTreeSet<&'static str>,
    decisions: Option<Decisions>,
    plugin_response: Option<Value>,
    branches: Vec<Branch>,
    pull_requests: Option<Vec<PullRequest>>,
    /// Requests that the generators made.
    requests: Vec<String>,
}

impl GeneratorInputs for FixedInputs {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        Ok(Some(Arc::new(self.clusters.clone())))
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        self.requests.push(format!("{repository} {revision}"));
        let found = self.files.iter().find(|((url, at), _)| *url == repository && *at == revision);
        let Some((_, files)) = found else { return Err(QueryError::missing(format!("no {repository}"))) };
        let files = files.keys().map(|path| (*path).to_owned()).collect();
        Ok(Some(Arc::new(GitTree { commit: revision.to_owned(), files })))
    }

    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        self.requests.push(path.to_owned());
        if self.unavailable.contains(path) {
            return Ok(None);
        }
        let found = self.files.iter().find(|((url, at), _)| *url == repository && *at == commit);
        Ok(found.and_then(|(_, files)| files.get(path)).map(|text| Arc::from(*text)))
    }

    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        self.requests.push(generator.config_map_ref.clone());
        Ok(self.decisions.clone().map(Arc::new))
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        self.requests.push(json!(generator.input.parameters).to_string());
        Ok(self.plugin_response.clone().map(Arc::new))
    }

    fn branches(&mut self, _: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        self.requests.extend(paths.iter().cloned());
        Ok(Some(Arc::new(self.branches.clone())))
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let repository = generator.github.as_ref().map(|github| github.repo.clone()).unwrap_or_default();
        match self.pull_requests.clone() {
            Some(requests) => Ok(Some(Arc::new(requests))),
            None => Err(QueryError::missing(format!("there is no repository {repository}"))),
        }
    }
}

/// Output of a generator.
#[derive(Debug, PartialEq)]
struct GeneratorOutput {
    sets: Vec<Value>,
    origins: Vec<String>,
    skipped: Vec<SkippedGenerator>,
}

const NO_OPTIONS: &[&str] = &[];
const DEFAULT_OPTIONS: &[&str] = &["missingkey=default"];
const STRICT_OPTIONS: &[&str] = &["missingkey=error"];

/// Runs one entry of `spec.generators` and returns its output. Uses Go templates if `options` isn't empty.
fn output_of(world: &mut FixedInputs, options: &[&str], entry: &Value) -> Result<GeneratorOutput, String> {
    let entry: ApplicationSetGenerator = serde_json::from_value(entry.clone()).unwrap();
    let spec = ApplicationSetSpec {
        go_template: !options.is_empty(),
        go_template_options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..ApplicationSetSpec::default()
    };
    let engine = go_engine(&spec, None).unwrap();
    let (options, templates) = (Options::default(), Templates::new(engine.as_ref()));
    let mut run = GenerateRun {
        inputs: world,
        options: &options,
        templates,
        budget: Budget::new(),
        skipped: Vec::new(),
    };
    let mut all = Vec::new();
    for generator in entry.generators() {
        let place = format!("generators[0].{}", generator.name());
        let spot = GeneratorPosition { path: &place, outer_parameters: None, depth: 1 };
        match run.parameter_sets(generator, entry.selector.as_ref(), spot) {
            Ok(sets) => all.extend(sets),
            Err(GenerateStop::NotAvailableYet) => return Err("unknown".to_owned()),
            Err(GenerateStop::Failed(error)) => return Err(error.to_string()),
        }
    }
    let origins = all.iter().map(|set| set.origin.clone()).collect();
    let sets = all.into_iter().map(|set| Value::Object(set.parameters)).collect();
    Ok(GeneratorOutput { sets, origins, skipped: run.skipped })
}

/// Runs one entry of `spec.generators` and returns its parameter sets.
#[track_caller]
fn parameters_of(world: &mut FixedInputs, options: &[&str], entry: Value) -> Vec<Value> {
    output_of(world, options, &entry).unwrap_or_else(|error| panic!("{entry}: {error}")).sets
}

/// Runs one entry of `spec.generators` and returns the values of one parameter.
#[track_caller]
fn values(world: &mut FixedInputs, options: &[&str], entry: Value, name: &str) -> Vec<String> {
    let sets = parameters_of(world, options, entry);
    sets.iter().map(|set| set[name].as_str().unwrap_or_else(|| panic!("{set}")).to_owned()).collect()
}

/// Runs one entry of `spec.generators` and returns its error. Fails if there is none.
#[track_caller]
fn error_of(world: &mut FixedInputs, options: &[&str], entry: Value) -> String {
    match output_of(world, options, &entry) {
        Err(error) => error,
        Ok(given) => panic!("{entry} gives {given:?}"),
    }
}
