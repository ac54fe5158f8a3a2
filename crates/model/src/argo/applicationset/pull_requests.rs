//! The `pullRequest` generator and its providers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{UnknownFields, is_false};

/// Generator of one parameter set for each open pull request of a repository.
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
    /// Pull requests of a repository on Bitbucket Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket_server: Option<PullRequestBitbucketServer>,
    /// Pull requests of a repository on Azure DevOps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azuredevops: Option<PullRequestAzureDevOps>,
    /// Pull request filters. A pull request must match at least one (default: all pull requests).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<PullRequestFilter>,
    /// True if a missing repository yields no pull requests instead of an error.
    #[serde(default, skip_serializing_if = "is_false")]
    pub continue_on_repo_not_found_error: bool,
    /// Additional parameters by name, available as `values.NAME` in templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Polling interval in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeue_after_seconds: Option<i64>,
    /// Fields that override those of `spec.template`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<ApplicationSetTemplate>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repository on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGithub {
    /// Name of the user or organization.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Name of the repository Secret that contains the GitHub App credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_secret_name: String,
    /// Labels that a pull request must have. All of them are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Project on GitLab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGitlab {
    /// Path or ID of the project.
    pub project: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Labels that a pull request must have. All of them are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// State that a merge request must have. Empty matches all states.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pull_request_state: String,
    /// True if the server's TLS certificate is not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Reference to the ConfigMap entry that contains the trusted CA certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<ConfigMapKey>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repository on Gitea.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestGitea {
    /// Name of the user or organization.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// URL of the API.
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Labels that a pull request must have. All of them are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// True if the server's TLS certificate is not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repository on Bitbucket Cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestBitbucket {
    /// Name of the user or organization.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Credentials for HTTP basic authentication to the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Bearer token for the API. Used instead of `basicAuth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repository on Bitbucket Server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestBitbucketServer {
    /// Name of the project.
    pub project: String,
    /// Name of the repository.
    pub repo: String,
    /// URL of the API.
    pub api: String,
    /// Credentials for HTTP basic authentication to the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Bearer token for the API. Used instead of `basicAuth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// True if the server's TLS certificate is not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Reference to the ConfigMap entry that contains the trusted CA certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<ConfigMapKey>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repository on Azure DevOps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestAzureDevOps {
    /// Name of the organization.
    pub organization: String,
    /// Name of the project.
    pub project: String,
    /// Name of the repository.
    pub repo: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Labels that a pull request must have. All of them are required.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Filter for pull requests. A pull request must match all fields of the filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestFilter {
    /// Regular expression that the branch name must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_match: Option<String>,
    /// Regular expression that the target branch's name must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_branch_match: Option<String>,
    /// Regular expression that the title must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title_match: Option<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
