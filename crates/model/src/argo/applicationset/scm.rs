//! The `scmProvider` generator and its providers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{UnknownFields, is_false};

/// Generator of one parameter set for each repository of an organization, or for each branch of these
/// repositories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGenerator {
    /// Repositories of an organization on GitHub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<ScmGithub>,
    /// Projects of a group on GitLab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<ScmGitlab>,
    /// Repositories of a user or organization on Gitea.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitea: Option<ScmGitea>,
    /// Repositories of a user or workspace on Bitbucket Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket: Option<ScmBitbucket>,
    /// Repositories of a project on Bitbucket Server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket_server: Option<ScmBitbucketServer>,
    /// Repositories of a team project on Azure DevOps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure_dev_ops: Option<ScmAzureDevOps>,
    /// Repositories of an account on AWS CodeCommit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_code_commit: Option<ScmAwsCodeCommit>,
    /// Repository filters and branch filters. At least one of each kind must match (default: all repositories
    /// and branches).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ScmFilter>,
    /// Protocol for cloning the repositories: `ssh` or `https`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clone_protocol: String,
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

/// Repositories of an organization on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGithub {
    /// Name of the organization.
    pub organization: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// Name of the repository Secret that contains the GitHub App credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_secret_name: String,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// True if archived repositories are excluded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_archived_repos: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Projects of a group on GitLab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGitlab {
    /// Name of the group.
    pub group: String,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// True if projects of subgroups are included.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_subgroups: bool,
    /// True if projects that are shared with the group are included (default: true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_shared_projects: Option<bool>,
    /// True if archived projects are included (default: true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_archived_repos: Option<bool>,
    /// Topic that a project must have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
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

/// Repositories of a user or organization on Gitea.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGitea {
    /// Name of the user or organization.
    pub owner: String,
    /// URL of the API.
    pub api: String,
    /// Reference to the Secret entry that contains the API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// True if archived repositories are excluded.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_archived_repos: bool,
    /// True if the server's TLS certificate is not verified.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repositories of a user or workspace on Bitbucket Cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmBitbucket {
    /// Name of the user or organization.
    pub owner: String,
    /// User name for authentication.
    pub user: String,
    /// Reference to the Secret entry that contains the user's app password.
    pub app_password_ref: SecretKey,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repositories of a project on Bitbucket Server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmBitbucketServer {
    /// Name of the project.
    pub project: String,
    /// URL of the API.
    pub api: String,
    /// Credentials for HTTP basic authentication to the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Bearer token for the API. Used instead of `basicAuth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
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

/// Repositories of a team project on Azure DevOps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmAzureDevOps {
    /// Name of the organization.
    pub organization: String,
    /// Name of the team project.
    pub team_project: String,
    /// Reference to the Secret entry that contains the API token.
    pub access_token_ref: SecretKey,
    /// URL of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Repositories of an account on AWS CodeCommit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmAwsCodeCommit {
    /// AWS region (default: the controller's region).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// ARN of the IAM role to assume.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Repository tags. A repository must have at least one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_filters: Vec<TagFilter>,
    /// True if all branches are included instead of only the default branch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Tag of a repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TagFilter {
    /// Key of the tag.
    pub key: String,
    /// Value of the tag. Empty matches all values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}

/// Filter for repositories and their branches. A repository or branch must match all fields of the filter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmFilter {
    /// Regular expression that the repository name must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_match: Option<String>,
    /// Regular expression that at least one label must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_match: Option<String>,
    /// Regular expression that the branch name must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_match: Option<String>,
    /// Paths that must all exist in the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths_exist: Vec<String>,
    /// Paths that must not exist in the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths_do_not_exist: Vec<String>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub rest: UnknownFields,
}
