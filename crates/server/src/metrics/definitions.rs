//! Names, labels and help texts of all metrics. The names are stable because dashboards and alerts depend on them.

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only increases while the process is running.
    Counter,
    /// A current value that may increase or decrease.
    Gauge,
    /// Distribution of values in buckets.
    Histogram,
}

impl MetricKind {
    /// Returns the name of the type in the Prometheus text format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name, with the prefix `argocd_` if Argo CD has the same metric.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Names of the labels, in output order.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: Metric = Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*
        /// List of all metrics.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    APP_INFO Gauge "argocd_app_info" ["namespace", "name", "project", "autosync_enabled", "repo", "dest_server", "dest_namespace", "sync_status", "health_status", "operation"] "Managed Applications, one series per Application, with its status in labels; always 1.";
    APP_CONDITION Gauge "argocd_app_condition" ["namespace", "name", "condition"] "Application conditions.";
    APP_RECONCILE Histogram "argocd_app_reconcile" ["namespace", "dest_server"] "Duration of comparisons between applications and their clusters, in seconds.";
    APP_SYNC_TOTAL Counter "argocd_app_sync_total" ["namespace", "name", "project", "dest_server", "phase", "dry_run"] "Completed operations of Applications since the process started.";
    APP_SYNC_SECONDS Counter "argocd_app_sync_duration_seconds_total" ["namespace", "name", "project", "dest_server"] "Total duration of completed operations of Applications, in seconds.";
    APPSET_INFO Gauge "argocd_appset_info" ["namespace", "name", "resource_update_status"] "Managed ApplicationSets, one series per ApplicationSet, with the status of its Applications in a label; always 1.";
    APPSET_OWNED Gauge "argocd_appset_owned_applications" ["namespace", "name"] "Applications owned by an ApplicationSet.";
    APPSET_RECONCILE Histogram "argocd_appset_reconcile" ["namespace", "name"] "Duration of ApplicationSet reconciliations, in seconds.";
    GIT_REQUEST Counter "argocd_git_request_total" ["repo", "request_type"] "Requests to Git repositories over the network.";
    GIT_DURATION Histogram "argocd_git_request_duration_seconds" ["repo", "request_type"] "Duration of requests to Git repositories, in seconds.";
    GIT_LIST_FAILURES Counter "argocd_git_lsremote_fail_total" ["repo"] "Failed requests to list branches and tags.";
    GIT_FETCH_FAILURES Counter "argocd_git_fetch_fail_total" ["repo"] "Failed requests to fetch commits and tags.";
    CLUSTER_INFO Gauge "argocd_cluster_info" ["server", "name"] "Clusters that applications can deploy to, one series per name; always 1.";
    CLUSTER_CONNECTED Gauge "argocd_cluster_connection_status" ["server"] "1 if the cluster responds; otherwise 0.";
    CLUSTER_OBJECTS Gauge "argocd_cluster_api_resource_objects" ["server"] "Objects in the cluster that belong to applications.";
    CLUSTER_KINDS Gauge "argocd_cluster_api_resources" ["server"] "Watched kinds in the cluster.";
    CLUSTER_EVENTS Counter "argocd_cluster_events_total" ["server"] "Changes reported by the cluster's watches.";
    BLOCKED_SECONDS Counter "tidegate_blocked_seconds_total" ["reason"] "Waiting time of operations by reason, in seconds.";
    MISSED_DEADLINES Counter "tidegate_deadlines_passed_total" ["of"] "Missed deadlines of operations, waves and hooks.";
    ENGINE_UP Gauge "tidegate_engine_up" [] "1 while the engine is running; 0 when the log no longer accepts records.";
    LOG_FLUSH Histogram "tidegate_log_flush_seconds" [] "Time to make a group of records durable, in seconds.";
    HTTP_REQUESTS Counter "tidegate_http_requests_total" ["route", "status"] "HTTP requests that the service has answered, by route and status.";
    FORWARDED_REQUESTS Counter "tidegate_http_requests_forwarded_total" ["status"] "HTTP requests that this standby has forwarded to the leader, by status.";
    OPEN_OPERATIONS Gauge "tidegate_operations_open" [] "Unfinished operations.";
    OPERATION_DURATION Histogram "tidegate_operation_duration_seconds" ["phase"] "Duration of operations by outcome, in seconds.";
    PHASE_DURATION Histogram "tidegate_phase_duration_seconds" ["phase"] "Duration of operation phases, in seconds.";
    LOG_QUEUE_DEPTH Gauge "tidegate_log_queue_depth" [] "Batches of records that are waiting to become durable.";
    PLANS Counter "tidegate_plans_total" ["source"] "Plans of comparisons and operations, by source: `computed` if newly computed, `comparison` if an operation reuses the plan of a comparison.";
    RETRIES Counter "tidegate_retries_total" [] "Retries of failed operation attempts.";
    ROLLOUT_MEMBERS Gauge "tidegate_rollout_members" ["namespace", "name", "status"] "Applications in a progressive sync, by status.";
    STEP_WAITING Gauge "tidegate_rollout_step_waiting_seconds" ["namespace", "name", "step", "reason"] "Waiting time of the current step of a progressive sync by reason, in seconds.";
    EVENT_STREAMS Gauge "tidegate_event_streams" [] "Clients that are connected to the event streams.";
    FINISHED_TASKS Counter "tidegate_tasks_total" ["phase"] "Objects that operations have finished processing, by outcome.";
    WAVE_DURATION Histogram "tidegate_wave_duration_seconds" ["phase", "wave"] "Duration of waves, from start to completion, in seconds.";
}
