//! Names of the annotations, labels and finalizers Tidegate reads and writes.

/// Hook phases of an object, comma-separated (Argo CD).
pub const HOOK: &str = "argocd.argoproj.io/hook";
/// Hook delete policies, comma-separated (Argo CD).
pub const HOOK_DELETE_POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
/// Signed wave inside a phase (Argo CD).
pub const SYNC_WAVE: &str = "argocd.argoproj.io/sync-wave";
/// Per-resource sync options, comma-separated (Argo CD).
pub const SYNC_OPTIONS: &str = "argocd.argoproj.io/sync-options";
/// Per-resource compare options, comma-separated (Argo CD).
pub const COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
/// Which application owns an object: `<app>:<group>/<Kind>:<namespace>/<name>` (Argo CD).
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";
/// Keeps a hook visible until its result is recorded (Argo CD).
pub const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";
/// `"true"` leaves the object out of the application's health (Argo CD).
pub const IGNORE_HEALTHCHECK: &str = "argocd.argoproj.io/ignore-healthcheck";
/// RFC 3339 time at which a person approved confirmed prunes (Argo CD).
pub const DELETION_APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// Whose client-side applied fields a server-side apply takes over (Argo CD).
pub const MIGRATION_MANAGER: &str = "argocd.argoproj.io/client-side-apply-migration-manager";
/// Helm hook types, comma-separated.
pub const HELM_HOOK: &str = "helm.sh/hook";
/// Helm hook delete policies, comma-separated.
pub const HELM_HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// Helm hook weight, read as a wave when no Argo CD wave is given.
pub const HELM_HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// Helm's word for objects that outlive their release: `keep`.
pub const HELM_RESOURCE_POLICY: &str = "helm.sh/resource-policy";
/// Tells the installations that share a cluster apart (Argo CD).
pub const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";
/// The label that says which application an object is part of, unless another is chosen.
pub const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// The operation that created (or last applied) a hook object. It makes hook creation idempotent.
pub const OPERATION_ID: &str = "tidegate.dev/operation-id";
/// The attempt of the operation for which a hook object was created, counted from 1.
pub const HOOK_ATTEMPT: &str = "tidegate.dev/hook-attempt";
/// The phase for which a hook object was created: a hook may run in several, under one name.
pub const HOOK_PHASE: &str = "tidegate.dev/hook-phase";
/// Deadline of the wave a resource is in; the longest of a wave wins.
pub const WAVE_TIMEOUT: &str = "tidegate.dev/wave-timeout";
/// Deadline of one hook, from its creation.
pub const TIMEOUT: &str = "tidegate.dev/timeout";
/// On an Application or ApplicationSet that was deleted by a command, the API or the page: who asked for that, and why.
pub const DELETION_REQUESTED_BY: &str = "tidegate.dev/deletion-requested-by";
/// `resume` (default) or `restart`: where a retry begins. Read from any resource of the application.
pub const RETRY: &str = "tidegate.dev/retry";
/// Names of the gates that must open before the resource's wave starts, comma-separated.
pub const GATE: &str = "tidegate.dev/gate";
/// In which operations a hook runs, comma-separated: `sync`, `selfheal`; those of the whole application if not said.
pub const HOOK_ON: &str = "tidegate.dev/hook-on";
/// `inputs-changed`: a hook runs only when its inputs are others than when it ran last, or when it has not succeeded then.
pub const RUN_WHEN: &str = "tidegate.dev/run-when";
/// What a hook's inputs are besides its manifest, comma-separated: `GROUP:KIND:NAMESPACE/NAME`.
pub const INPUTS: &str = "tidegate.dev/inputs";
/// Name of the registered hook runner that carries out a hook instead of the cluster.
pub const HOOK_RUNNER: &str = "tidegate.dev/hook-runner";
/// Name of the registered health judge that replaces the built-in health rule.
pub const HEALTH_JUDGE: &str = "tidegate.dev/health-judge";
/// `off`: the general convention for the status of custom resources does not judge the object; `required`: it does, and
/// an object without a status is waited for.
pub const HEALTH_CONVENTION: &str = "tidegate.dev/health-convention";
/// An expression (CEL) that is true while the object does well. It judges this object before all other rules.
pub const HEALTH_CURRENT: &str = "tidegate.dev/health-current";
/// An expression that is true while the object is on its way.
pub const HEALTH_IN_PROGRESS: &str = "tidegate.dev/health-in-progress";
/// An expression that is true once the object has failed.
pub const HEALTH_FAILED: &str = "tidegate.dev/health-failed";
/// On a claim: name of the application that is claimed.
pub const CLAIM_APPLICATION: &str = "tidegate.dev/application";
/// On a claim: who works on the operation that holds it, and where.
pub const CLAIM_HOLDER: &str = "tidegate.dev/holder";
/// On a claim: the revision of the operation that holds it.
pub const CLAIM_REVISION: &str = "tidegate.dev/revision";
/// On a claim: the operation that asks the holder to end.
pub const CLAIM_END_WANTED_BY: &str = "tidegate.dev/end-wanted-by";
/// On a claim: who works on that operation.
pub const CLAIM_END_WANTED_BY_HOLDER: &str = "tidegate.dev/end-wanted-by-holder";
/// Every annotation of our own starts with this.
pub const TIDEGATE_PREFIX: &str = "tidegate.dev/";

/// Name under which `kubectl apply` owns fields.
pub const KUBECTL_MANAGER: &str = "kubectl-client-side-apply";
/// Name under which Tidegate owns fields in server-side apply.
pub const FIELD_MANAGER: &str = "tidegate";
/// Name under which it owns what it writes into the resources that it serves: their status, operation and finalizers. It is
/// another one, so that an Application which is a manifest of another Application keeps them.
pub const SERVICE_MANAGER: &str = "tidegate-serve";
/// Name under which `tidegate app` owns what a person writes with it into such a resource, without asking a service.
pub const COMMAND_MANAGER: &str = "tidegate-app";

/// Keeps an Application until its objects are deleted, and an ApplicationSet until its Applications are (Argo CD).
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// Keeps an Application until the hooks before its deletion have run (Argo CD).
pub const PRE_DELETE_FINALIZER: &str = "pre-delete-finalizer.argocd.argoproj.io";
/// Keeps an Application until the hooks after its deletion have run (Argo CD).
pub const POST_DELETE_FINALIZER: &str = "post-delete-finalizer.argocd.argoproj.io";

/// Whether a finalizer is this one, or a stage of it, which is written behind a slash.
pub fn is_stage_of(finalizer: &str, whole: &str) -> bool {
    finalizer.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
