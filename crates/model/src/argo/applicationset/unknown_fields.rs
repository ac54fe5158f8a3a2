use super::{
    ApplicationSet, ApplicationSetGenerator, ApplicationSetSpec, ApplicationSetStrategy,
    ApplicationSetSyncPolicy, ApplicationSetTemplate, BasicAuth, BearerToken,
    ClusterDecisionResourceGenerator, ClusterGenerator, ConfigMapKey, GitDirectory, GitFile, GitGenerator,
    IgnoreApplicationDifferences, LabelSelector, ListGenerator, MatchExpression, MatrixGenerator,
    MergeGenerator, PluginConfigMap, PluginGenerator, PluginInput, PreservedFields, PullRequestAzureDevOps,
    PullRequestBitbucket, PullRequestBitbucketServer, PullRequestFilter, PullRequestGenerator,
    PullRequestGitea, PullRequestGithub, PullRequestGitlab, RolloutStep, RolloutSteps, ScmAwsCodeCommit,
    ScmAzureDevOps, ScmBitbucket, ScmBitbucketServer, ScmFilter, ScmGenerator, ScmGitea, ScmGithub,
    ScmGitlab, SecretKey, TagFilter, TemplateMetadata,
};
use crate::argo::unknown_fields::{UnknownFieldPaths, parts};

impl ApplicationSet {
    /// Returns the paths of unknown fields in `spec`. They are preserved but have no effect. An unknown field
    /// in an entry of `generators` may be an unsupported generator.
    pub fn unknown_fields(&self) -> Vec<String> {
        UnknownFieldPaths::collect(self)
    }
}

parts! {
    ApplicationSet { "spec": spec }
    ApplicationSetSpec {
        "generators": generators, "template": template, "syncPolicy": sync_policy, "strategy": strategy,
        "preservedFields": preserved_fields,
        "ignoreApplicationDifferences": ignore_application_differences
    }
    ApplicationSetTemplate { "metadata": metadata, "spec": spec }
    TemplateMetadata {}
    ApplicationSetSyncPolicy {}
    PreservedFields {}
    IgnoreApplicationDifferences {}
    ApplicationSetStrategy { "rollingSync": rolling_sync, "deletionSync": deletion_sync }
    RolloutSteps { "steps": steps }
    RolloutStep { "matchExpressions": match_expressions }
    MatchExpression {}
    PullRequestGenerator {
        "github": github, "gitlab": gitlab, "gitea": gitea, "bitbucket": bitbucket,
        "bitbucketServer": bitbucket_server, "azuredevops": azuredevops, "filters": filters,
        "template": template
    }
    PullRequestGithub { "tokenRef": token_ref }
    PullRequestGitlab { "tokenRef": token_ref, "caRef": ca_ref }
    PullRequestGitea { "tokenRef": token_ref }
    PullRequestBitbucket { "basicAuth": basic_auth, "bearerToken": bearer_token }
    PullRequestBitbucketServer { "basicAuth": basic_auth, "bearerToken": bearer_token, "caRef": ca_ref }
    PullRequestAzureDevOps { "tokenRef": token_ref }
    PullRequestFilter {}
    BasicAuth { "passwordRef": password_ref }
    BearerToken { "tokenRef": token_ref }
    SecretKey {}
    ConfigMapKey {}
    ScmGenerator {
        "github": github, "gitlab": gitlab, "gitea": gitea, "bitbucket": bitbucket,
        "bitbucketServer": bitbucket_server, "azureDevOps": azure_dev_ops,
        "awsCodeCommit": aws_code_commit, "filters": filters, "template": template
    }
    ScmGithub { "tokenRef": token_ref }
    ScmGitlab { "tokenRef": token_ref, "caRef": ca_ref }
    ScmGitea { "tokenRef": token_ref }
    ScmBitbucket { "appPasswordRef": app_password_ref }
    ScmBitbucketServer { "basicAuth": basic_auth, "bearerToken": bearer_token, "caRef": ca_ref }
    ScmAzureDevOps { "accessTokenRef": access_token_ref }
    ScmAwsCodeCommit { "tagFilters": tag_filters }
    TagFilter {}
    ScmFilter {}
    ApplicationSetGenerator {
        "list": list, "clusters": clusters, "git": git, "scmProvider": scm_provider,
        "clusterDecisionResource": cluster_decision_resource, "pullRequest": pull_request,
        "matrix": matrix, "merge": merge, "plugin": plugin, "selector": selector
    }
    LabelSelector { "matchExpressions": match_expressions }
    ListGenerator { "template": template }
    ClusterGenerator { "selector": selector, "template": template }
    GitGenerator { "directories": directories, "files": files, "template": template }
    GitDirectory {}
    GitFile {}
    ClusterDecisionResourceGenerator { "labelSelector": label_selector, "template": template }
    MatrixGenerator { "generators": generators, "template": template }
    MergeGenerator { "generators": generators, "template": template }
    PluginGenerator { "configMapRef": config_map_ref, "input": input, "template": template }
    PluginConfigMap {}
    PluginInput {}
}
