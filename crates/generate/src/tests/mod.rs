//! The sets of parameters that generators give, in both modes.

mod asked;
mod combined;
mod git;
mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::argo::{
    ApplicationSetGenerator, ApplicationSetSpec, ClusterDecisionResourceGenerator, PluginGenerator,
    PullRequestGenerator, ScmGenerator,
};

use crate::limits::Budget;
use crate::run::{Run, Spot, Stop};
use crate::templates::{Templates, engine};
use crate::{Branch, Cluster, Decisions, GitTree, Options, Passed, PullRequest, Reply, Unanswered, World};

/// A world that is written down.
#[derive(Default)]
struct Written {
    clusters: Vec<Cluster>,
    /// By repository and revision: files and what they hold.
    files: BTreeMap<(&'static str, &'static str), BTreeMap<&'static str, &'static str>>,
    /// Files that have not been fetched yet.
    unknown: BTreeSet<&'static str>,
    decisions: Option<Decisions>,
    answer: Option<Value>,
    branches: Vec<Branch>,
    pull_requests: Option<Vec<PullRequest>>,
    /// What was asked for.
    asked: Vec<String>,
}

impl World for Written {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        Ok(Some(Arc::new(self.clusters.clone())))
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        self.asked.push(format!("{repository} {revision}"));
        let found = self.files.iter().find(|((url, at), _)| *url == repository && *at == revision);
        let Some((_, files)) = found else { return Err(Unanswered::missing(format!("no {repository}"))) };
        let files = files.keys().map(|path| (*path).to_owned()).collect();
        Ok(Some(Arc::new(GitTree { commit: revision.to_owned(), files })))
    }

    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        self.asked.push(path.to_owned());
        if self.unknown.contains(path) {
            return Ok(None);
        }
        let found = self.files.iter().find(|((url, at), _)| *url == repository && *at == commit);
        Ok(found.and_then(|(_, files)| files.get(path)).map(|text| Arc::from(*text)))
    }

    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        self.asked.push(generator.config_map_ref.clone());
        Ok(self.decisions.clone().map(Arc::new))
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        self.asked.push(json!(generator.input.parameters).to_string());
        Ok(self.answer.clone().map(Arc::new))
    }

    fn branches(&mut self, _: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        self.asked.extend(paths.iter().cloned());
        Ok(Some(Arc::new(self.branches.clone())))
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let repository = generator.github.as_ref().map(|github| github.repo.clone()).unwrap_or_default();
        match self.pull_requests.clone() {
            Some(requests) => Ok(Some(Arc::new(requests))),
            None => Err(Unanswered::missing(format!("there is no repository {repository}"))),
        }
    }
}

/// What generators gave.
#[derive(Debug, PartialEq)]
struct Given {
    sets: Vec<Value>,
    origins: Vec<String>,
    passed: Vec<Passed>,
}

const FLAT: &[&str] = &[];
const GO: &[&str] = &["missingkey=default"];
const STRICT: &[&str] = &["missingkey=error"];

/// The sets of one entry of `spec.generators`. Options of templates of Go, if it has any, ask for those.
fn given(world: &mut Written, options: &[&str], entry: &Value) -> Result<Given, String> {
    let entry: ApplicationSetGenerator = serde_json::from_value(entry.clone()).unwrap();
    let spec = ApplicationSetSpec {
        go_template: !options.is_empty(),
        go_template_options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..ApplicationSetSpec::default()
    };
    let engine = engine(&spec, None).unwrap();
    let (options, templates) = (Options::default(), Templates::new(engine.as_ref()));
    let mut run = Run { world, options: &options, templates, budget: Budget::new(), passed: Vec::new() };
    let mut all = Vec::new();
    for generator in entry.generators() {
        let place = format!("generators[0].{}", generator.name());
        let spot = Spot { place: &place, outer: None, depth: 1 };
        match run.sets(generator, entry.selector.as_ref(), spot) {
            Ok(sets) => all.extend(sets),
            Err(Stop::Unknown) => return Err("unknown".to_owned()),
            Err(Stop::Failed(error)) => return Err(error.to_string()),
        }
    }
    let origins = all.iter().map(|set| set.origin.clone()).collect();
    let sets = all.into_iter().map(|set| Value::Object(set.parameters)).collect();
    Ok(Given { sets, origins, passed: run.passed })
}

/// The sets alone.
#[track_caller]
fn sets(world: &mut Written, options: &[&str], entry: Value) -> Vec<Value> {
    given(world, options, &entry).unwrap_or_else(|error| panic!("{entry}: {error}")).sets
}

/// The values of one parameter.
#[track_caller]
fn values(world: &mut Written, options: &[&str], entry: Value, name: &str) -> Vec<String> {
    let sets = sets(world, options, entry);
    sets.iter().map(|set| set[name].as_str().unwrap_or_else(|| panic!("{set}")).to_owned()).collect()
}

/// The error, which there must be.
#[track_caller]
fn refused(world: &mut Written, options: &[&str], entry: Value) -> String {
    match given(world, options, &entry) {
        Err(error) => error,
        Ok(given) => panic!("{entry} gives {given:?}"),
    }
}
