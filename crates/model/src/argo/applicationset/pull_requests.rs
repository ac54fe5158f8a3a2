//! Whom the generator `pullRequest` asks, and how.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{Rest, is_false};

/// A set of parameters for each open pull request of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGenerator {
    /// Pull requests of a repository on GitHub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<PullRequestGithub>,
    /// Merge requests of a project on GitLab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<PullRequestGitlab>,
    /// Pull requests of a repository on Gitea.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitea: Option<PullRequestGitea>,
    /// Pull requests of a repository on Bitbucket Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket: Option<PullRequestBitbucket>,
    /// Pull requests of a repository on a Bitbucket server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket_server: Option<PullRequestBitbucketServer>,
    /// Pull requests of a repository on Azure DevOps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azuredevops: Option<PullRequestAzureDevOps>,
    /// Which pull requests count: what one of them lets pass; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<PullRequestFilter>,
    /// A repository that is not there has no pull requests, instead of being an error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continue_on_repo_not_found_error: bool,
    /// Further parameters, by name: `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// How often it is asked, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i64>,
    /// What it says of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A repository on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGithub {
    /// Name of the user or organisation.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// The repository Secret with the GitHub App that is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_secret_name: String,
    /// Only pull requests with all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A project on GitLab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGitlab {
    /// Its path or number.
    pub project: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Only pull requests with all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Only merge requests in this state; all if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pull_request_state: String,
    /// The certificate of the server is not checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Authorities that the server may be certified by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<ConfigMapKey>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A repository on Gitea.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGitea {
    /// Name of the user or organisation.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// Address of the API.
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Only pull requests with all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The certificate of the server is not checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A repository on Bitbucket Cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestBitbucket {
    /// Name of the user or organisation.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// User and password that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A token that the API is asked with, instead of user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A repository on a Bitbucket server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestBitbucketServer {
    /// Name of the project.
    pub project: String,
    /// Name of the repository.
    pub repo: String,
    /// Address of the API.
    pub api: String,
    /// User and password that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A token that the API is asked with, instead of user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// The certificate of the server is not checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Authorities that the server may be certified by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<ConfigMapKey>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A repository on Azure DevOps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestAzureDevOps {
    /// Name of the organisation.
    pub organization: String,
    /// Name of the project.
    pub project: String,
    /// Name of the repository.
    pub repo: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Only pull requests with all of these labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What lets a pull request pass: all that is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestFilter {
    /// Name of the branch, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_match: Option<String>,
    /// Name of the branch it is for, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_branch_match: Option<String>,
    /// Its title, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_match: Option<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
