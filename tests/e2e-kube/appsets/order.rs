//! Order of the work on members, according to the API server's audit log.

use std::collections::BTreeMap;

use tidegate_testkit::kube::{AuditEvent, User};

use super::Fleet;

/// Work on a member, from the first write to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub member: String,
    /// Time of the first request, according to the server.
    pub started_at: String,
    /// Time of the last response.
    pub ended_at: String,
}

impl Span {
    fn of(member: &str, event: &AuditEvent) -> Self {
        Self {
            member: member.to_owned(),
            started_at: event.received_at.clone(),
            ended_at: end_time(event).to_owned(),
        }
    }

    fn extend(&mut self, event: &AuditEvent) {
        self.started_at = self.started_at.clone().min(event.received_at.clone());
        self.ended_at = self.ended_at.clone().max(end_time(event).to_owned());
    }
}

/// The server may log the failed request of a killed process at any later time.
fn end_time(event: &AuditEvent) -> &str {
    if event.has_succeeded() { &event.responded_at } else { &event.received_at }
}

/// Returns the syncs of all members in the order of their start. Each operation that writes to a member's
/// objects counts as one sync.
pub async fn syncs(fleet: &Fleet) -> Vec<Span> {
    let mut found: BTreeMap<(String, String), (Span, bool)> = BTreeMap::new();
    for event in engine_writes(fleet).await {
        let Some(member) = object_of(fleet, &event) else { continue };
        let operation = event.operation.clone().unwrap_or_else(|| panic!("of no operation: {event:?}"));
        let key = (member.to_owned(), operation);
        let (span, deletes) = found.entry(key).or_insert_with(|| (Span::of(member, &event), false));
        span.extend(&event);
        *deletes |= event.name.starts_with("drain-") || event.kind == "ConfigMap" && event.verb == "delete";
    }
    sort_spans(found.into_values().filter(|(_, deletes)| !deletes).map(|(span, _)| span))
}

/// Returns the deletions of members in the order of their start. A deletion lasts from the deletion of the
/// Application to the last write to it or its objects, which releases it.
pub async fn deletions(fleet: &Fleet) -> Vec<Span> {
    let mut found: BTreeMap<String, Span> = BTreeMap::new();
    for event in engine_writes(fleet).await {
        let of_app = (event.kind == "Application").then_some(event.name.as_str());
        let Some(member) = of_app.or_else(|| object_of(fleet, &event)) else { continue };
        match found.get_mut(member) {
            Some(span) => span.extend(&event),
            None if of_app.is_some() && event.verb == "delete" => {
                found.insert(member.to_owned(), Span::of(member, &event));
            }
            None => {}
        }
    }
    sort_spans(found.into_values())
}

/// Returns the engine's writes, including those with an unknown outcome.
async fn engine_writes(fleet: &Fleet) -> Vec<AuditEvent> {
    let is_change = |event: &AuditEvent| event.is_write() && !event.dry_run;
    let audit_events = fleet.site.audit().await.by_user(User::ENGINE).filter(is_change);
    audit_events.filter(|event| event.has_succeeded() || event.has_unknown_outcome()).0
}

/// Returns the member that an object belongs to.
fn object_of<'e>(fleet: &Fleet, event: &'e AuditEvent) -> Option<&'e str> {
    let is_known = ["ConfigMap", "Job"].contains(&event.kind.as_str());
    let (what, member) = event.name.split_once('-').filter(|_| is_known)?;
    let is_ours =
        ["begin", "work", "end", "drain"].contains(&what) && fleet.names().any(|name| name == member);
    is_ours.then_some(member)
}

fn sort_spans(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_by(|one, other| one.started_at.cmp(&other.started_at));
    spans
}

/// Checks that each step was complete before the next one started, and that the concurrency limits were kept.
#[track_caller]
pub fn assert_steps(spans: &[Span], steps: &[(&[&str], usize)], story: &str) {
    let of = |members: &[&str]| -> Vec<&Span> {
        spans.iter().filter(|span| members.contains(&span.member.as_str())).collect()
    };
    let mut before = String::new();
    for (number, (members, at_once)) in steps.iter().enumerate() {
        let step = of(members);
        let who: Vec<&str> = step.iter().map(|span| span.member.as_str()).collect();
        assert!(members.iter().all(|member| who.contains(member)), "{story}: {members:?} in {spans:#?}");
        let early = step.iter().find(|span| span.started_at <= before);
        assert!(
            early.is_none(),
            "{story}: step {} started before the previous one was done: {spans:#?}",
            number + 1
        );
        let most = max_concurrency(&step);
        assert!(most <= *at_once, "{story}: {most} of step {} at once: {spans:#?}", number + 1);
        before = step.iter().map(|span| span.ended_at.clone()).max().unwrap_or(before);
    }
}

/// Returns the maximum number of concurrent activities.
pub fn max_concurrency(spans: &[&Span]) -> usize {
    let at = |moment: &str| {
        spans
            .iter()
            .filter(|span| span.started_at.as_str() <= moment && moment <= span.ended_at.as_str())
            .count()
    };
    spans.iter().map(|span| at(&span.started_at)).max().unwrap_or_default()
}
