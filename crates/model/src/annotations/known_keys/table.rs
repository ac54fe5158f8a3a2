//! Table of the known annotations.

use super::AnnotationSubject;
use crate::annotations::{
    CLAIM_APPLICATION, CLAIM_HOLDER, CLAIM_INCARNATION, CLAIM_REVISION, CLAIM_SUPERSEDE_REQUESTED_BY,
    CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER, COMPARE_OPTIONS, DELETION_APPROVED, DELETION_REQUESTED_BY,
    DEPENDS_ON, GATE, HEALTH_CONVENTION, HEALTH_CURRENT, HEALTH_FAILED, HEALTH_GRACE, HEALTH_IN_PROGRESS,
    HEALTH_JUDGE, HELM_HOOK, HELM_HOOK_DELETE_POLICY, HELM_HOOK_WEIGHT, HELM_RESOURCE_POLICY, HOOK,
    HOOK_ATTEMPT, HOOK_DELETE_POLICY, HOOK_FINALIZER, HOOK_ON, HOOK_PHASE, HOOK_RUNNER, HOOK_START,
    IGNORE_HEALTHCHECK, INPUTS, INSTALLATION_ID, MIGRATION_MANAGER, OPERATION_ID, RETRY, RUN_WHEN,
    SYNC_OPTIONS, SYNC_WAVE, TIMEOUT, TRACKING_ID, WAVE_TIMEOUT,
};
use crate::argo::support::Support;

/// An annotation known to Tidegate.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    /// Key, including the prefix.
    pub key: &'static str,
    /// Kind of resource that the annotation affects.
    pub subject: AnnotationSubject,
    /// Support level: supported or ignored.
    pub support: Support,
    /// Description for the documentation.
    pub meaning: &'static str,
}

const fn supported(key: &'static str, subject: AnnotationSubject, meaning: &'static str) -> Annotation {
    Annotation { key, subject, support: Support::Supported, meaning }
}

const fn ignored(key: &'static str, meaning: &'static str) -> Annotation {
    Annotation { key, subject: AnnotationSubject::Object, support: Support::Ignored, meaning }
}

/// All known annotations, including ignored ones.
pub const KNOWN_KEYS: [Annotation; 69] = {
    use AnnotationSubject::{Application, ApplicationSet, Internal, Object};
    [
        // Argo CD, `docs/user-guide/annotations-and-labels.md` and `common/common.go`.
        supported(HOOK, Object, "Phases in which the object runs as a hook, comma-separated."),
        supported(HOOK_DELETE_POLICY, Object, "Conditions under which a hook is deleted, comma-separated."),
        supported(SYNC_WAVE, Object, "Wave of the object within its phase, as a signed number [default: 0]."),
        supported(SYNC_OPTIONS, Object, "Sync options for the object, comma-separated."),
        supported(COMPARE_OPTIONS, Object, "Comparison options for the object, comma-separated."),
        supported(TRACKING_ID, Object, "Application that owns the object. Written by each sync."),
        supported(
            IGNORE_HEALTHCHECK,
            Object,
            "`true`: the object does not affect the health of the Application.",
        ),
        supported(
            DELETION_APPROVED,
            Object,
            "On an Application: RFC 3339 time at which a user confirmed pruning or a deletion.",
        ),
        supported(
            MIGRATION_MANAGER,
            Object,
            "Field manager of earlier client-side applies. Server-side apply takes over its fields.",
        ),
        supported(
            INSTALLATION_ID,
            Object,
            "Installation that owns the object, if several installations share a cluster. Written by each sync.",
        ),
        ignored(HOOK_FINALIZER, "Finalizer on hooks. Has no effect as an annotation."),
        supported(
            "argocd.argoproj.io/application-set-refresh",
            Object,
            "On an ApplicationSet: requests an immediate run of its generators.",
        ),
        ignored(
            "argocd.argoproj.io/auto-label-cluster-info",
            "On a cluster Secret: Argo CD adds labels with the cluster's version.",
        ),
        ignored(
            "argocd.argoproj.io/hydrate",
            "Request to hydrate an Application. ApplicationSets preserve it on their Applications.",
        ),
        ignored(
            "argocd.argoproj.io/ignore-default-links",
            "`true`: the Argo CD user interface does not show the object's default links.",
        ),
        ignored(
            "argocd.argoproj.io/ignore-resource-updates",
            "`true`: changes to the object do not trigger a comparison in Argo CD.",
        ),
        ignored(
            "argocd.argoproj.io/kubernetes-version",
            "On a cluster Secret: Kubernetes version of the cluster.",
        ),
        ignored("argocd.argoproj.io/managed-by", "On a namespace: Argo CD instance that manages it."),
        ignored(
            "argocd.argoproj.io/managed-by-url",
            "On an Application: URL of the Argo CD instance that manages it.",
        ),
        supported(
            "argocd.argoproj.io/manifest-generate-paths",
            Object,
            "On an Application: semicolon-separated paths. A push that changes any of them triggers a comparison.",
        ),
        supported(
            "argocd.argoproj.io/refresh",
            Object,
            "On an Application: `normal` or `hard` requests a comparison. The controller then removes the annotation.",
        ),
        ignored(
            "argocd.argoproj.io/secret-type",
            "Label on Secrets that declare clusters and repositories. Has no effect as an annotation.",
        ),
        supported(
            "argocd.argoproj.io/skip-reconcile",
            Object,
            "On an Application: `true` excludes the Application from comparison, sync and deletion.",
        ),
        // Helm.
        supported(HELM_HOOK, Object, "Types of a Helm hook, comma-separated."),
        supported(HELM_HOOK_WEIGHT, Object, "Wave of a Helm hook that has no Argo CD wave."),
        supported(
            HELM_HOOK_DELETE_POLICY,
            Object,
            "Conditions under which a Helm hook is deleted, comma-separated.",
        ),
        supported(
            HELM_RESOURCE_POLICY,
            Object,
            "`keep`: the object is never pruned or deleted with its application.",
        ),
        ignored("helm.sh/chart", "Name and version of the chart."),
        ignored("helm.sh/hook-output-log-policy", "Hook outcomes after which Helm prints the hook's logs."),
        ignored("helm.sh/readiness-failure", "Condition under which Helm treats an object as failed."),
        ignored("helm.sh/readiness-success", "Condition under which Helm treats an object as ready."),
        ignored("meta.helm.sh/release-name", "Helm release that owns the object."),
        ignored("meta.helm.sh/release-namespace", "Namespace of the Helm release that owns the object."),
        // Tidegate.
        supported(
            WAVE_TIMEOUT,
            Object,
            "Deadline of the object's wave, such as `5m`. The longest deadline in a wave applies.",
        ),
        supported(TIMEOUT, Object, "Maximum duration of a hook after its creation, such as `5m`."),
        supported(
            RETRY,
            Object,
            "Starting point of retries: the failed wave (`resume`, default) or the beginning (`restart`). May \
             be on any object.",
        ),
        supported(
            GATE,
            Object,
            "Names of the gates that must open before the object's wave starts, comma-separated.",
        ),
        supported(
            DEPENDS_ON,
            Object,
            "Objects that must be healthy first: `GROUP:KIND:NAMESPACE/NAME`, comma-separated. On an Application: \
             Applications (`NAME` or `NAMESPACE/NAME`).",
        ),
        supported(HOOK_ON, Object, "Operations that run the hook, comma-separated: `sync`, `selfheal`."),
        supported(
            RUN_WHEN,
            Object,
            "`inputs-changed`: the hook runs only if its inputs changed or its last run failed.",
        ),
        supported(
            INPUTS,
            Object,
            "Inputs of a hook in addition to its manifest: `GROUP:KIND:NAMESPACE/NAME`, comma-separated.",
        ),
        supported(
            HOOK_RUNNER,
            Object,
            "Registered hook runner that executes the hook. Tidegate does not create the hook in the cluster.",
        ),
        supported(HEALTH_JUDGE, Object, "Registered health judge that replaces the built-in health rule."),
        supported(
            HEALTH_CONVENTION,
            Object,
            "Use of the kstatus conventions for the health of the object: `off`, `on`, or `required` (a missing status means Progressing).",
        ),
        supported(
            HEALTH_GRACE,
            Object,
            "Time after which a possibly temporary failure makes the object Degraded, such as `10m`.",
        ),
        supported(HEALTH_CURRENT, Object, "CEL expression that is true while the object is healthy."),
        supported(HEALTH_IN_PROGRESS, Object, "CEL expression that is true while the object is progressing."),
        supported(HEALTH_FAILED, Object, "CEL expression that is true once the object has failed."),
        supported(
            "tidegate.dev/approval",
            Application,
            "`required`: a user must approve the plan of each sync.",
        ),
        supported(
            "tidegate.dev/approvers",
            Application,
            "Names of the users who may approve plans, comma-separated.",
        ),
        supported(
            "tidegate.dev/on-new-revision",
            Application,
            "Effect of a newer revision on a running operation: `supersede` or `finish`.",
        ),
        supported(
            "tidegate.dev/application-set",
            Application,
            "Name of the ApplicationSet that generated the Application. Written by the controller.",
        ),
        supported(
            "tidegate.dev/rollout",
            ApplicationSet,
            "Additional settings for progressive sync steps, as YAML.",
        ),
        supported(
            "tidegate.dev/deletion-sync",
            ApplicationSet,
            "Steps of an ordered deletion, as YAML, for clusters whose ApplicationSet CRD lacks `spec.strategy.deletionSync`.",
        ),
        supported(
            "tidegate.dev/max-deletions",
            ApplicationSet,
            "Maximum number or percentage of Applications that one reconciliation may delete.",
        ),
        supported(
            "tidegate.dev/deletions-approved",
            ApplicationSet,
            "Token that approves all deletions that are waiting for approval.",
        ),
        supported(
            "tidegate.dev/deletions-approval",
            ApplicationSet,
            "Approver, time and reason of approved deletions. Written by the controller.",
        ),
        supported(
            "tidegate.dev/retry-requested-by",
            Internal,
            "On an ApplicationSet: requester of a retry that has not started yet.",
        ),
        supported(
            DELETION_REQUESTED_BY,
            Internal,
            "On a deleted Application or ApplicationSet: requester and reason of the deletion.",
        ),
        supported(OPERATION_ID, Internal, "Operation that created or last applied a hook."),
        supported(
            HOOK_ATTEMPT,
            Internal,
            "Attempt of the operation for which a hook was created, numbered from 1.",
        ),
        supported(HOOK_PHASE, Internal, "Phase for which a hook was created."),
        supported(
            HOOK_START,
            Internal,
            "On a hook's Job that was created suspended and has not started yet.",
        ),
        supported(CLAIM_APPLICATION, Internal, "On a claim Lease: name of the claimed application."),
        supported(
            CLAIM_HOLDER,
            Internal,
            "On a claim Lease: user and machine of the operation that holds the claim.",
        ),
        supported(
            CLAIM_INCARNATION,
            Internal,
            "On a claim Lease: unique ID of the engine that runs the operation.",
        ),
        supported(
            CLAIM_REVISION,
            Internal,
            "On a claim Lease: revision of the operation that holds the claim.",
        ),
        supported(
            CLAIM_SUPERSEDE_REQUESTED_BY,
            Internal,
            "On a claim Lease: ID of the operation that asks the current holder to stop.",
        ),
        supported(
            CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER,
            Internal,
            "On a claim Lease: user and machine of the operation that asks the holder to stop.",
        ),
    ]
};
