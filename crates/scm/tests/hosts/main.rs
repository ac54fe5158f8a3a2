//! Tests for generators that send requests to SCM providers and plugins. Local servers respond in the formats
//! of the public APIs.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

mod azure;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod github_apps;
mod gitlab;
mod plugin;
mod request_rules;
mod server;
mod trust;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_generate::{Branch, PullRequest, QueryError};
use tidegate_model::argo::{PullRequestGenerator, ScmGenerator};
use tidegate_scm::{Policy, RequestContext, Secrets, Token, Web};

/// Prefix of every token in these tests. No error message may contain it.
pub const TOKEN: &str = "hunter2";

/// Secrets and ConfigMaps by name and key. Every Secret has the `token` and `password` keys.
#[derive(Default)]
pub struct TestSecrets(pub BTreeMap<(String, String), String>);

impl Secrets for TestSecrets {
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

/// Returns the branches for a generator.
pub fn branches_by(web: &Web, generator: Value) -> Result<Vec<Branch>, QueryError> {
    branches_with(
        RequestContext { web, secrets: &TestSecrets::default(), policy: &Policy::default() },
        generator,
    )
}

/// Returns the branches for a generator, with the given context.
pub fn branches_with(asking: RequestContext<'_>, generator: Value) -> Result<Vec<Branch>, QueryError> {
    let generator: ScmGenerator = serde_json::from_value(generator).unwrap();
    let filters = generator.filters.iter();
    let paths: BTreeSet<String> =
        filters.flat_map(|one| one.paths_exist.iter().chain(&one.paths_do_not_exist)).cloned().collect();
    let found = asking.branches(&generator, &paths);
    let shown = format!("{found:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    found
}

/// Returns the branches for a generator, with the default limits.
pub fn branches(generator: Value) -> Vec<Branch> {
    branches_by(&Web::default(), generator).unwrap()
}

/// Returns the pull requests for a generator.
pub fn requests_by(web: &Web, generator: Value) -> Result<Vec<PullRequest>, QueryError> {
    requests_with(
        RequestContext { web, secrets: &TestSecrets::default(), policy: &Policy::default() },
        generator,
    )
}

/// Returns the pull requests for a generator, with the given context.
pub fn requests_with(asking: RequestContext<'_>, generator: Value) -> Result<Vec<PullRequest>, QueryError> {
    let generator: PullRequestGenerator = serde_json::from_value(generator).unwrap();
    let found = asking.pull_requests(&generator);
    let shown = format!("{found:?}");
    assert!(!shown.contains(TOKEN), "{shown}");
    found
}

/// Returns the pull requests for a generator, with the default limits.
pub fn requests(generator: Value) -> Vec<PullRequest> {
    requests_by(&Web::default(), generator).unwrap()
}

/// Formats each branch as repository, branch and commit.
pub fn lines(branches: &[Branch]) -> Vec<String> {
    branches.iter().map(|one| format!("{} {} {}", one.repository, one.branch, one.sha)).collect()
}
