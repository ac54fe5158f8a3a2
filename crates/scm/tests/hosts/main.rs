//! Generators and the servers they ask: servers on this machine that answer in the shapes of the public documentation of
//! each API.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

mod apps;
mod azure;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod gitlab;
mod manners;
mod plugin;
mod server;
mod trust;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_generate::{Branch, PullRequest, Unanswered};
use tidegate_model::argo::{PullRequestGenerator, ScmGenerator};
use tidegate_scm::{Asking, Policy, Secrets, Token, Web};

/// What every token of these tests is, or begins with. No error may hold it.
pub const TOKEN: &str = "hunter2";

/// Secrets and ConfigMaps by name and key. Of every Secret `token` and `password` are there.
#[derive(Default)]
pub struct Known(pub BTreeMap<(String, String), String>);

impl Secrets for Known {
    fn secret(&self, name: &str, key: &str) -> Result<Token, String> {
        match key {
            "token" | "password" => Ok(Token::new(format!("{TOKEN}\n"))),
            "odd" => Ok(Token::new(format!("{TOKEN}\u{7f}\u{1}x"))),
            "empty" => Ok(Token::default()),
            _ => Err(format!("Secret {name} has no key {key}")),
        }
    }

    fn app_secret(&self, name: &str, _: &[&str]) -> Result<BTreeMap<String, Token>, String> {
        Err(format!("there is no Secret {name}"))
    }

    fn config_map(&self, name: &str, key: &str) -> Result<String, String> {
        let found = self.0.get(&(name.to_owned(), key.to_owned())).cloned();
        found.ok_or_else(|| format!("there is no key {key} in ConfigMap {name}"))
    }
}

/// The branches that a generator finds; `paths` are those that its filters name.
pub fn branches_by(web: &Web, generator: Value) -> Result<Vec<Branch>, Unanswered> {
    branches_with(Asking { web, secrets: &Known::default(), policy: &Policy::default() }, generator)
}

/// The same, with other Secrets.
pub fn branches_with(asking: Asking<'_>, generator: Value) -> Result<Vec<Branch>, Unanswered> {
    let generator: ScmGenerator = serde_json::from_value(generator).unwrap();
    let filters = generator.filters.iter();
    let paths: BTreeSet<String> =
        filters.flat_map(|one| one.paths_exist.iter().chain(&one.paths_do_not_exist)).cloned().collect();
    let found = asking.branches(&generator, &paths);
    let shown = format!("{found:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    found
}

/// The branches that a generator finds, with the usual patience.
pub fn branches(generator: Value) -> Vec<Branch> {
    branches_by(&Web::default(), generator).unwrap()
}

/// The pull requests that a generator finds.
pub fn requests_by(web: &Web, generator: Value) -> Result<Vec<PullRequest>, Unanswered> {
    requests_with(Asking { web, secrets: &Known::default(), policy: &Policy::default() }, generator)
}

/// The same, with other Secrets.
pub fn requests_with(asking: Asking<'_>, generator: Value) -> Result<Vec<PullRequest>, Unanswered> {
    let generator: PullRequestGenerator = serde_json::from_value(generator).unwrap();
    let found = asking.pull_requests(&generator);
    let shown = format!("{found:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    found
}

/// The pull requests that a generator finds, with the usual patience.
pub fn requests(generator: Value) -> Vec<PullRequest> {
    requests_by(&Web::default(), generator).unwrap()
}

/// `repository branch sha` of each.
pub fn lines(branches: &[Branch]) -> Vec<String> {
    branches.iter().map(|one| format!("{} {} {}", one.repository, one.branch, one.sha)).collect()
}
