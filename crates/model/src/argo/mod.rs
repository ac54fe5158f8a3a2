//! The custom resources of `argoproj.io/v1alpha1`, as their users write them.
//!
//! Field names are Argo CD's. Fields that are not known here are kept as they are, so that reading and writing a
//! resource loses nothing; [`Application::unknown_fields`] and [`ApplicationSet::unknown_fields`] name them. Of what is
//! not read yet (plugins) the value itself is kept.

mod application;
mod applicationset;
mod definitions;
mod ignore;
mod meta;
mod operation;
mod policy;
mod project;
mod read;
mod rendering;
mod schemas;
mod source;
mod status;
mod time;
mod unknown;

pub use application::{
    API_VERSION, Application, ApplicationDestination, ApplicationKind, ApplicationSpec, CONTROL_NAMESPACE,
    GROUP, ResourceVersion,
};
pub use applicationset::{
    ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetCondition, ApplicationSetGenerator,
    ApplicationSetKind, ApplicationSetSpec, ApplicationSetStatus, ApplicationSetStrategy,
    ApplicationSetSyncPolicy, ApplicationSetTemplate, ApplicationsSync, BasicAuth, BearerToken,
    ClusterDecisionResourceGenerator, ClusterGenerator, ConfigMapKey, Generator, GitDirectory, GitFile,
    GitGenerator, IgnoreApplicationDifferences, IntOrString, LabelSelector, ListGenerator, MatchExpression,
    MatrixGenerator, MemberStatus, MergeGenerator, PluginConfigMap, PluginGenerator, PluginInput,
    PreservedFields, PullRequestAzureDevOps, PullRequestBitbucket, PullRequestBitbucketServer,
    PullRequestFilter, PullRequestGenerator, PullRequestGitea, PullRequestGithub, PullRequestGitlab,
    RolloutStep, RolloutSteps, ScmAwsCodeCommit, ScmAzureDevOps, ScmBitbucket, ScmBitbucketServer, ScmFilter,
    ScmGenerator, ScmGitea, ScmGithub, ScmGitlab, SecretKey, TagFilter, TemplateMetadata,
};
pub use definitions::definitions;
pub use ignore::ResourceIgnoreDifferences;
pub use meta::ObjectMeta;
pub use operation::{
    Info, OperationInitiator, OperationRequest, OperationResource, Strategy, SyncOperation, SyncStrategy,
};
pub use policy::{Automated, ManagedNamespaceMetadata, Retry, RetryBackoff, SyncPolicy};
pub use project::{
    AppProject, AppProjectKind, AppProjectSpec, ClusterResource, DestinationServiceAccount,
    NamespaceResource, ProjectDestination, SignatureKey, SyncWindow,
};
pub use read::{Resource, Unreadable, read};
pub use rendering::{
    HelmFileParameter, HelmParameter, HelmSource, KustomizePatch, KustomizeReplicas, KustomizeSelector,
    KustomizeSource,
};
pub use source::{ApplicationSource, DirectorySource};
pub use status::{
    ApplicationCondition, ApplicationStatus, ApplicationSummary, ComparedTo, ConditionType, HealthState,
    OperationState, ResourceStatus, RevisionHistory, SyncOperationResult, SyncResource, SyncStatus,
    SyncStatusCode,
};
pub use time::Time;

/// Fields that are not known here, kept as they are.
pub type Rest = serde_json::Map<String, serde_json::Value>;

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}
