//! The `scmProvider` generator and its providers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::structs::generator_structs;
use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{UnknownFields, is_false};

generator_structs! {
    /// Generator of one parameter set for each repository of an organization, or for each branch of these
    /// repositories.
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
        /// Repository filters and branch filters. At least one of each kind must match (default: all repositories and branches).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub filters: Vec<ScmFilter>,
        /// Protocol for cloning the repositories: `ssh` or `https`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub clone_protocol: String,
        ..values,
        ..requeue_after_seconds,
        ..template,
    }

    /// Repositories of an organization on GitHub.
    pub struct ScmGithub {
        /// Name of the organization.
        pub organization: String,
        ..api,
        ..token_ref,
        ..app_secret_name,
        ..all_branches,
        /// True if archived repositories are excluded.
        #[serde(default, skip_serializing_if = "is_false")]
        pub exclude_archived_repos: bool,
    }

    /// Projects of a group on GitLab.
    pub struct ScmGitlab {
        /// Name of the group.
        pub group: String,
        ..api,
        ..token_ref,
        ..all_branches,
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
        ..insecure,
        ..ca_ref,
    }

    /// Repositories of a user or organization on Gitea.
    pub struct ScmGitea {
        /// Name of the user or organization.
        pub owner: String,
        /// URL of the API.
        pub api: String,
        ..token_ref,
        ..all_branches,
        /// True if archived repositories are excluded.
        #[serde(default, skip_serializing_if = "is_false")]
        pub exclude_archived_repos: bool,
        ..insecure,
    }

    /// Repositories of a user or workspace on Bitbucket Cloud.
    pub struct ScmBitbucket {
        /// Name of the user or organization.
        pub owner: String,
        /// User name for authentication.
        pub user: String,
        /// Reference to the Secret entry that contains the user's app password.
        pub app_password_ref: SecretKey,
        ..all_branches,
    }

    /// Repositories of a project on Bitbucket Server.
    pub struct ScmBitbucketServer {
        /// Name of the project.
        pub project: String,
        /// URL of the API.
        pub api: String,
        ..basic_auth,
        ..bearer_token,
        ..all_branches,
        ..insecure,
        ..ca_ref,
    }

    /// Repositories of a team project on Azure DevOps.
    pub struct ScmAzureDevOps {
        /// Name of the organization.
        pub organization: String,
        /// Name of the team project.
        pub team_project: String,
        /// Reference to the Secret entry that contains the API token.
        pub access_token_ref: SecretKey,
        ..api,
        ..all_branches,
    }

    /// Repositories of an account on AWS CodeCommit.
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
        ..all_branches,
    }

    /// Tag of a repository.
    pub struct TagFilter {
        /// Key of the tag.
        pub key: String,
        /// Value of the tag. Empty matches all values.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub value: String,
    }

    /// Filter for repositories and their branches. A repository or branch must match all fields of the
    /// filter.
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
    }
}
