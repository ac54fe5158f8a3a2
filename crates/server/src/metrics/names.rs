//! The names of all metrics, and what they tell. The names stay: dashboards and alerts go by them.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal $help:literal;)*) => {
        $(pub(crate) const $constant: Metric = Metric { name: $name, kind: Kind::$kind, help: $help };)*
        /// All there are.
        pub(crate) const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    APP_INFO Gauge "argocd_app_info" "Applications and how they stand; always 1.";
    APP_CONDITION Gauge "argocd_app_condition" "Conditions of applications.";
    APP_RECONCILE Histogram "argocd_app_reconcile" "How long comparing an application with its cluster took, in seconds.";
    APP_SYNC_TOTAL Counter "argocd_app_sync_total" "Operations of applications that ended, since the process began.";
    APP_SYNC_SECONDS Counter "argocd_app_sync_duration_seconds_total" "How long they took.";
    SET_INFO Gauge "argocd_appset_info" "ApplicationSets and whether their Applications are as generated; always 1.";
    SET_OWNED Gauge "argocd_appset_owned_applications" "Applications that an ApplicationSet owns.";
    SET_RECONCILE Histogram "argocd_appset_reconcile" "How long looking at an ApplicationSet took, in seconds.";
    GIT_REQUEST Counter "argocd_git_request_total" "Requests to Git repositories over the network.";
    GIT_SECONDS Histogram "argocd_git_request_duration_seconds" "How long they took.";
    LIST_FAILED Counter "argocd_git_lsremote_fail_total" "Those for branches and tags of which nothing came.";
    FETCH_FAILED Counter "argocd_git_fetch_fail_total" "Those for commits and tags of which nothing came.";
    CLUSTER_INFO Gauge "argocd_cluster_info" "Clusters that applications may go to; always 1.";
    CLUSTER_CONNECTED Gauge "argocd_cluster_connection_status" "1 while a cluster answers.";
    CLUSTER_OBJECTS Gauge "argocd_cluster_api_resource_objects" "Objects that applications have in a cluster.";
    CLUSTER_KINDS Gauge "argocd_cluster_api_resources" "Kinds that are watched in a cluster.";
    CLUSTER_EVENTS Counter "argocd_cluster_events_total" "Changes that the watches of a cluster have told of.";
    BLOCKED Counter "tidegate_blocked_seconds_total" "How long operations have waited, by what they waited for.";
    DEADLINES Counter "tidegate_deadlines_passed_total" "Deadlines that passed, by what they were of.";
    ENGINE_UP Gauge "tidegate_engine_up" "1 while the engine works; 0 when its log takes nothing any more.";
    FLUSH Histogram "tidegate_log_flush_seconds" "How long making a group of records durable took.";
    HTTP Counter "tidegate_http_requests_total" "Requests of the API that were answered, by route and status.";
    OPEN Gauge "tidegate_operations_open" "Operations that are not over.";
    OPERATION Histogram "tidegate_operation_duration_seconds" "How long operations took, by how they ended.";
    PHASE Histogram "tidegate_phase_duration_seconds" "How long the phases of operations took.";
    QUEUE Gauge "tidegate_log_queue_depth" "Batches of records that wait to be made durable.";
    RETRIES Counter "tidegate_retries_total" "Attempts after the first.";
    MEMBERS Gauge "tidegate_rollout_members" "Applications of a progressive sync, by their status in it.";
    STEP_WAITING Gauge "tidegate_rollout_step_waiting_seconds" "How long the current step of a progressive sync has waited, by what for.";
    STREAMS Gauge "tidegate_event_streams" "Those who are told events now.";
    TASKS Counter "tidegate_tasks_total" "Objects that operations are done with, by how that ended.";
    WAVE Histogram "tidegate_wave_duration_seconds" "How long waves took, from their opening until they passed.";
}
