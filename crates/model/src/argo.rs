//! Custom resources of `argoproj.io/v1alpha1`, as users write them.
//!
//! Field names match Argo CD's. Unknown fields are preserved, so a round trip loses nothing.
//! [`Application::unknown_fields`] and [`ApplicationSet::unknown_fields`] list them. Fields that aren't
//! interpreted yet (plugins) are stored as raw values.

mod api_version;
mod application;
mod applicationset;
mod control_namespace;
mod crds;
mod destination;
mod ignore;
mod meta;
mod operation;
mod policy;
mod project;
mod read;
mod rendering;
mod schema_overrides;
mod source;
mod spec_problem;
mod status;
pub mod support;
mod time;
mod unknown_fields;

pub use api_version::{API_VERSION, GROUP, ResourceVersion};
pub use application::{Application, ApplicationKind, ApplicationSpec};
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
pub use control_namespace::{
    ControlNamespaceInUse, DEFAULT_CONTROL_NAMESPACE, adopt_control_namespace, control_namespace,
    display_name, instance_name, set_control_namespace,
};
pub use crds::all_crds;
pub use destination::ApplicationDestination;
pub use ignore::ResourceIgnoreDifferences;
pub use meta::ObjectMeta;
pub use operation::{
    Info, OperationInitiator, OperationRequest, OperationResource, Strategy, SyncOperation, SyncStrategy,
};
pub use policy::{Automated, InvalidRetry, ManagedNamespaceMetadata, Retry, RetryBackoff, SyncPolicy};
pub use project::{
    AppProject, AppProjectKind, AppProjectSpec, ClusterResource, DestinationServiceAccount,
    NamespaceResource, ProjectDestination, SignatureKey, SyncWindow,
};
pub use read::{InvalidResource, Resource, read_resource};
pub use rendering::{
    HelmFileParameter, HelmParameter, HelmSource, KustomizePatch, KustomizeReplicas, KustomizeSelector,
    KustomizeSource,
};
pub use source::{ApplicationSource, DirectorySource};
pub use spec_problem::SpecProblem;
pub use status::{
    ApplicationCondition, ApplicationStatus, ApplicationSummary, ComparedTo, ConditionType, HealthState,
    OperationState, ResourceStatus, RevisionHistory, SyncOperationResult, SyncResource, SyncStatus,
    SyncStatusCode,
};
pub use time::Time;

/// Unknown fields, preserved unchanged.
pub type UnknownFields = serde_json::Map<String, serde_json::Value>;

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}
