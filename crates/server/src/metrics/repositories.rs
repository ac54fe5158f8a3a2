//! What Git repositories were asked.

use tidegate_service::applications::{RepositoryRequests, RequestKind, Serving};

use super::names::{FETCH_FAILED, GIT_REQUEST, GIT_SECONDS, LIST_FAILED};
use super::text::Text;

/// How often and how long each was asked for what.
pub(super) fn of_repositories(text: &mut Text, serving: &Serving) {
    let all = serving.git_requests();
    let mut requests = text.metric(GIT_REQUEST);
    for one in &all {
        requests.count(&[("repo", &one.repository), ("request_type", sort(one.kind))], one.took.count);
    }
    let mut seconds = text.metric(GIT_SECONDS);
    for one in &all {
        seconds.durations(&[("repo", &one.repository), ("request_type", sort(one.kind))], &one.took);
    }
    for (metric, kind) in [(LIST_FAILED, RequestKind::Names), (FETCH_FAILED, RequestKind::Objects)] {
        let mut failed = text.metric(metric);
        let of = |one: &&RepositoryRequests| one.kind == kind && one.failed > 0;
        for one in all.iter().filter(of) {
            failed.count(&[("repo", &one.repository)], one.failed);
        }
    }
}

/// As Argo CD calls it.
fn sort(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Names => "ls-remote",
        RequestKind::Objects => "fetch",
    }
}
