//! Whom the generator `scmProvider` asks, and how.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{Rest, is_false};

/// A set of parameters for each repository of an organisation, or for each branch of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGenerator {
    /// Repositories of an organisation on GitHub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<ScmGithub>,
    /// Projects of a group on GitLab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<ScmGitlab>,
    /// Repositories of a user or organisation on Gitea.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitea: Option<ScmGitea>,
    /// Repositories of a user or workspace on Bitbucket Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket: Option<ScmBitbucket>,
    /// Repositories of a project on a Bitbucket server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket_server: Option<ScmBitbucketServer>,
    /// Repositories of a team project on Azure DevOps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure_dev_ops: Option<ScmAzureDevOps>,
    /// Repositories of an account on AWS CodeCommit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_code_commit: Option<ScmAwsCodeCommit>,
    /// Which repositories and branches count: what one of them lets pass; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<ScmFilter>,
    /// How it is cloned: `ssh` or `https`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clone_protocol: String,
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

/// Repositories of an organisation on GitHub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGithub {
    /// Name of the organisation.
    pub organization: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// The repository Secret with the GitHub App that is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_secret_name: String,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Archived repositories do not count.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_archived_repos: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Projects of a group on GitLab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGitlab {
    /// Name of the group.
    pub group: String,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Projects of groups in the group count too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_subgroups: bool,
    /// Projects that are shared with the group count too; they do if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_shared_projects: Option<bool>,
    /// Archived projects count too; they do if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_archived_repos: Option<bool>,
    /// Only projects of this topic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
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

/// Repositories of a user or organisation on Gitea.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmGitea {
    /// Name of the user or organisation.
    pub owner: String,
    /// Address of the API.
    pub api: String,
    /// Where the token is that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_ref: Option<SecretKey>,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// Archived repositories do not count.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_archived_repos: bool,
    /// The certificate of the server is not checked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Repositories of a user or workspace on Bitbucket Cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmBitbucket {
    /// Name of the user or organisation.
    pub owner: String,
    /// Name of the user whose password it is.
    pub user: String,
    /// Where the app password of that user is.
    pub app_password_ref: SecretKey,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Repositories of a project on a Bitbucket server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmBitbucketServer {
    /// Name of the project.
    pub project: String,
    /// Address of the API.
    pub api: String,
    /// User and password that the API is asked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A token that the API is asked with, instead of user and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_token: Option<BearerToken>,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
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

/// Repositories of a team project on Azure DevOps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmAzureDevOps {
    /// Name of the organisation.
    pub organization: String,
    /// Name of the team project.
    pub team_project: String,
    /// Where the token is that the API is asked with.
    pub access_token_ref: SecretKey,
    /// Address of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Repositories of an account on AWS CodeCommit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmAwsCodeCommit {
    /// The region; that of the program if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// The role to take on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Only repositories with one of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tag_filters: Vec<TagFilter>,
    /// All branches, and not only the default one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_branches: bool,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A tag of repositories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TagFilter {
    /// Key of the tag.
    pub key: String,
    /// Its value; any if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}

/// What lets a repository, and a branch of it, pass: all that is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScmFilter {
    /// Name of the repository, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository_match: Option<String>,
    /// One of its labels, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_match: Option<String>,
    /// Name of the branch, a regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_match: Option<String>,
    /// Paths that must all be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths_exist: Vec<String>,
    /// Paths none of which may be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths_do_not_exist: Vec<String>,
    /// What this program does not know, kept as it is.
    #[serde(flatten)]
    pub rest: Rest,
}
