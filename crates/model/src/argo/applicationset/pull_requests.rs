//! The `pullRequest` generator and its providers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::structs::generator_structs;
use super::{ApplicationSetTemplate, BasicAuth, BearerToken, ConfigMapKey, SecretKey};
use crate::argo::{UnknownFields, is_false};

generator_structs! {
    /// Generator of one parameter set for each open pull request of a repository.
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
        ..values,
        ..requeue_after_seconds,
        ..template,
    }

    /// Repository on GitHub.
    pub struct PullRequestGithub {
        /// Name of the user or organization.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        ..api,
        ..token_ref,
        ..app_secret_name,
        ..labels,
    }

    /// Project on GitLab.
    pub struct PullRequestGitlab {
        /// Path or ID of the project.
        pub project: String,
        ..api,
        ..token_ref,
        ..labels,
        /// State that a merge request must have. Empty matches all states.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub pull_request_state: String,
        ..insecure,
        ..ca_ref,
    }

    /// Repository on Gitea.
    pub struct PullRequestGitea {
        /// Name of the user or organization.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the API.
        pub api: String,
        ..token_ref,
        ..labels,
        ..insecure,
    }

    /// Repository on Bitbucket Cloud.
    pub struct PullRequestBitbucket {
        /// Name of the user or organization.
        pub owner: String,
        /// Name of the repository.
        pub repo: String,
        ..api,
        ..basic_auth,
        ..bearer_token,
    }

    /// Repository on Bitbucket Server.
    pub struct PullRequestBitbucketServer {
        /// Name of the project.
        pub project: String,
        /// Name of the repository.
        pub repo: String,
        /// URL of the API.
        pub api: String,
        ..basic_auth,
        ..bearer_token,
        ..insecure,
        ..ca_ref,
    }

    /// Repository on Azure DevOps.
    pub struct PullRequestAzureDevOps {
        /// Name of the organization.
        pub organization: String,
        /// Name of the project.
        pub project: String,
        /// Name of the repository.
        pub repo: String,
        ..api,
        ..token_ref,
        ..labels,
    }

    /// Filter for pull requests. A pull request must match all fields of the filter.
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
    }
}
