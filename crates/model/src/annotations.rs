//! Names of the annotations, labels and finalizers that Tidegate reads and writes.

pub mod known_keys;

/// Hook phases of an object, comma-separated (Argo CD).
pub const HOOK: &str = "argocd.argoproj.io/hook";
/// Hook delete policies, comma-separated (Argo CD).
pub const HOOK_DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
/// Sync wave within a phase, as a signed integer (Argo CD).
pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
/// Per-resource sync options, comma-separated (Argo CD).
pub const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
/// Per-resource compare options, comma-separated (Argo CD).
pub const COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
/// Tracking ID: the application that owns an object, as `<app>:<group>/<Kind>:<namespace>/<name>` (Argo CD).
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
/// Finalizer that prevents a hook from being removed before its result is recorded (Argo CD).
pub const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";
/// If `"true"`, excludes the object from the application's health (Argo CD).
pub const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";
/// RFC 3339 time at which a user approved prunes that require confirmation (Argo CD).
pub const DELETION_APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// Field manager of earlier client-side applies (Argo CD). Server-side apply takes over its fields.
pub const MIGRATION_MANAGER: &str = "argocd.argoproj.io/client-side-apply-migration-manager";
/// Helm hook types, comma-separated.
pub const HELM_HOOK: &str = "helm.sh/hook";
/// Helm hook delete policies, comma-separated.
pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// Helm hook weight. Used as the wave if the object doesn't have an Argo CD wave.
pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Helm resource policy. `keep` preserves the object when its release is uninstalled.
pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// ID of an Argo CD installation. Distinguishes several installations that share a cluster (Argo CD).
pub const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// Default label that contains the name of an object's application.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// ID of the operation that created or last applied a hook object. Makes hook creation idempotent.
pub const OPERATION_ID: &str = "tidegate.dev/operation-id";
/// Number of the operation attempt that created a hook object, starting at 1.
pub const HOOK_ATTEMPT: &str = "tidegate.dev/hook-attempt";
/// Phase that a hook object was created for. A hook can run in several phases under the same name.
pub const HOOK_PHASE: &str = "tidegate.dev/hook-phase";
/// Marks a hook's Job that its operation created suspended and hasn't started yet.
pub const HOOK_START: &str = "tidegate.dev/hook-start";
/// Deadline for a resource's wave. The longest deadline of the wave's resources applies.
pub const WAVE_TIMEOUT: &str = "tidegate.dev/wave-timeout";
/// Deadline for one hook, measured from its creation.
pub const TIMEOUT: &str = "tidegate.dev/timeout";
/// Requester of an Application's or ApplicationSet's deletion, and the reason. Set by the command line, the
/// API and the web page.
pub const DELETION_REQUESTED_BY: &str = "tidegate.dev/deletion-requested-by";
/// Starting point of a retry: `resume` (at the failed wave, the default) or `restart`. Read from any resource
/// of the application.
pub const RETRY: &str = "tidegate.dev/retry";
/// Names of the gates that must open before the resource's wave starts, comma-separated.
pub const GATE: &str = "tidegate.dev/gate";
/// Objects that must be healthy before this object is applied, comma-separated: `GROUP:KIND:NAMESPACE/NAME`.
/// On an Application: names of Applications.
pub const DEPENDS_ON: &str = "tidegate.dev/depends-on";
/// Operations that run the hook, comma-separated: `sync`, `selfheal`. Defaults to the operations configured
/// for the application.
pub const HOOK_ON: &str = "tidegate.dev/hook-on";
/// Condition for running the hook. With `inputs-changed`, it runs only if its inputs changed since its last
/// run, or if that run failed.
pub const RUN_WHEN: &str = "tidegate.dev/run-when";
/// Inputs of a hook in addition to its manifest, comma-separated: `GROUP:KIND:NAMESPACE/NAME`.
pub const INPUTS: &str = "tidegate.dev/inputs";
/// Name of the registered hook runner that executes a hook. Tidegate does not create the hook in the cluster.
pub const HOOK_RUNNER: &str = "tidegate.dev/hook-runner";
/// Name of the registered health judge that replaces the built-in health rule.
pub const HEALTH_JUDGE: &str = "tidegate.dev/health-judge";
/// Use of the general convention for the status of custom resources. `off` disables it for this object.
/// `required` enables it and treats a missing status as progressing.
pub const HEALTH_CONVENTION: &str = "tidegate.dev/health-convention";
/// Time to wait before a failure that may be temporary makes the object Degraded.
pub const HEALTH_GRACE: &str = "tidegate.dev/health-grace";
/// CEL expression that is true while the object is healthy. Takes precedence over all other rules for this
/// object.
pub const HEALTH_CURRENT: &str = "tidegate.dev/health-current";
/// CEL expression that is true while the object is progressing.
pub const HEALTH_IN_PROGRESS: &str = "tidegate.dev/health-in-progress";
/// CEL expression that is true once the object has failed.
pub const HEALTH_FAILED: &str = "tidegate.dev/health-failed";
/// On a claim Lease: name of the claimed application.
pub const CLAIM_APPLICATION: &str = "tidegate.dev/application";
/// On a claim Lease: user and machine of the operation that holds the claim.
pub const CLAIM_HOLDER: &str = "tidegate.dev/holder";
/// On a claim Lease: unique ID of the engine that runs the operation, or of its replica.
pub const CLAIM_INCARNATION: &str = "tidegate.dev/incarnation";
/// On a claim Lease: revision of the operation that holds the claim.
pub const CLAIM_REVISION: &str = "tidegate.dev/revision";
/// On a claim Lease: ID of the operation that asks the holder to stop.
pub const CLAIM_SUPERSEDE_REQUESTED_BY: &str = "tidegate.dev/end-wanted-by";
/// On a claim Lease: user and machine of the operation that asks the holder to stop.
pub const CLAIM_SUPERSEDE_REQUESTED_BY_HOLDER: &str = "tidegate.dev/end-wanted-by-holder";
/// Prefix of all annotations defined by Tidegate.
pub const TIDEGATE_PREFIX: &str = "tidegate.dev/";

/// Field manager of `kubectl apply`.
pub const KUBECTL_MANAGER: &str = "kubectl-client-side-apply";
/// Field managers of Argo CD's application controller, newest first. Earlier versions used the program name
/// as the manager.
pub const ARGO_CD_MANAGERS: [&str; 2] = ["argocd-controller", "argocd-application-controller"];
/// Last-applied manifest, stored by client-side apply.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Field manager of Tidegate's server-side applies.
pub const FIELD_MANAGER: &str = "tidegate";
/// Field manager for the status, operation and finalizers that the service writes to managed resources.
/// Separate from [`FIELD_MANAGER`], so these fields survive if another Application deploys the Application's
/// manifest.
pub const SERVICE_MANAGER: &str = "tidegate-serve";
/// Field manager for resources that `tidegate app` writes directly, without a service.
pub const COMMAND_MANAGER: &str = "tidegate-app";

/// Finalizer that keeps an Application until its objects are deleted, or an ApplicationSet until its
/// Applications are deleted (Argo CD).
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// Finalizer that keeps an Application until its PreDelete hooks have run (Argo CD).
pub const PRE_DELETE_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io";
/// Finalizer that keeps an Application until its PostDelete hooks have run (Argo CD).
pub const POST_DELETE_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io";

/// Returns true if `finalizer` is `whole` or one of its stages: `whole`, a slash and a suffix.
pub fn is_finalizer_or_stage(finalizer: &str, whole: &str) -> bool {
    finalizer.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
