//! Metrics for requests to Git repositories.

use tidegate_app_controller::{ApplicationService, RepositoryRequests, RequestKind};

use super::definitions::{GIT_DURATION, GIT_FETCH_FAILURES, GIT_LIST_FAILURES, GIT_REQUEST};
use super::text_format::MetricsText;

/// Writes the number and duration of requests, by repository and kind.
pub(super) fn write_repository_metrics(text: &mut MetricsText, service: &ApplicationService) {
    let all = service.git_requests();
    let mut requests = text.start_metric(GIT_REQUEST);
    for one in &all {
        requests.add_count(
            &[("repo", &one.repository), ("request_type", request_type(one.kind))],
            one.durations.count,
        );
    }
    let mut seconds = text.start_metric(GIT_DURATION);
    for one in &all {
        seconds.add_histogram(
            &[("repo", &one.repository), ("request_type", request_type(one.kind))],
            &one.durations,
        );
    }
    for (metric, kind) in
        [(GIT_LIST_FAILURES, RequestKind::ListRefs), (GIT_FETCH_FAILURES, RequestKind::Fetch)]
    {
        let mut failed = text.start_metric(metric);
        let of = |one: &&RepositoryRequests| one.kind == kind && one.failed > 0;
        for one in all.iter().filter(of) {
            failed.add_count(&[("repo", &one.repository)], one.failed);
        }
    }
}

/// Returns Argo CD's name for a request kind.
fn request_type(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::ListRefs => "ls-remote",
        RequestKind::Fetch => "fetch",
    }
}
