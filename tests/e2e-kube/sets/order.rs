//! In which order members were worked on, by the audit log of the API server.

use std::collections::BTreeMap;

use tidegate_testkit::kube::{AuditEvent, User};

use super::Fleet;

/// Something that was done about a member, from its first write to its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub member: String,
    /// When the first write came, as the server tells the time.
    pub began: String,
    /// When the last one was answered.
    pub ended: String,
}

impl Span {
    fn of(member: &str, event: &AuditEvent) -> Self {
        Self { member: member.to_owned(), began: event.received_at.clone(), ended: end(event).to_owned() }
    }

    fn goes_on(&mut self, event: &AuditEvent) {
        self.began = self.began.clone().min(event.received_at.clone());
        self.ended = self.ended.clone().max(end(event).to_owned());
    }
}

/// Of what a killed process has asked for, the server may note the failure at any later time.
fn end(event: &AuditEvent) -> &str {
    if event.succeeded() { &event.answered_at } else { &event.received_at }
}

/// The syncs of all members, in the order of their beginnings: one for each operation that wrote something of theirs.
pub async fn syncs(fleet: &Fleet) -> Vec<Span> {
    let mut found: BTreeMap<(String, String), (Span, bool)> = BTreeMap::new();
    for event in asked(fleet).await {
        let Some(member) = object_of(fleet, &event) else { continue };
        let operation = event.operation.clone().unwrap_or_else(|| panic!("of no operation: {event:?}"));
        let key = (member.to_owned(), operation);
        let (span, deletes) = found.entry(key).or_insert_with(|| (Span::of(member, &event), false));
        span.goes_on(&event);
        *deletes |= event.name.starts_with("drain-") || event.kind == "ConfigMap" && event.verb == "delete";
    }
    in_order(found.into_values().filter(|(_, deletes)| !deletes).map(|(span, _)| span))
}

/// How members were deleted, in the order of their beginnings: from the deletion of the Application to the last write to it and
/// its objects, which is what lets it go.
pub async fn deletions(fleet: &Fleet) -> Vec<Span> {
    let mut found: BTreeMap<String, Span> = BTreeMap::new();
    for event in asked(fleet).await {
        let of_app = (event.kind == "Application").then_some(event.name.as_str());
        let Some(member) = of_app.or_else(|| object_of(fleet, &event)) else { continue };
        match found.get_mut(member) {
            Some(span) => span.goes_on(&event),
            None if of_app.is_some() && event.verb == "delete" => {
                found.insert(member.to_owned(), Span::of(member, &event));
            }
            None => {}
        }
    }
    in_order(found.into_values())
}

/// What the engine has changed, or may have.
async fn asked(fleet: &Fleet) -> Vec<AuditEvent> {
    let is_change = |event: &AuditEvent| event.is_write() && !event.dry_run;
    let asked = fleet.site.audit().await.of(User::ENGINE).only(is_change);
    asked.only(|event| event.succeeded() || event.is_cut_off()).0
}

/// Whose object it is.
fn object_of<'e>(fleet: &Fleet, event: &'e AuditEvent) -> Option<&'e str> {
    let is_known = ["ConfigMap", "Job"].contains(&event.kind.as_str());
    let (what, member) = event.name.split_once('-').filter(|_| is_known)?;
    let is_ours =
        ["begin", "work", "end", "drain"].contains(&what) && fleet.names().any(|name| name == member);
    is_ours.then_some(member)
}

fn in_order(spans: impl Iterator<Item = Span>) -> Vec<Span> {
    let mut spans: Vec<Span> = spans.collect();
    spans.sort_by(|one, other| one.began.cmp(&other.began));
    spans
}

/// Fails unless all of a step was done before anything of the next one began, and no more of each at once than may be.
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
        let early = step.iter().find(|span| span.began <= before);
        assert!(
            early.is_none(),
            "{story}: step {} began before the one before was done: {spans:#?}",
            number + 1
        );
        let most = most_at_once(&step);
        assert!(most <= *at_once, "{story}: {most} of step {} at once: {spans:#?}", number + 1);
        before = step.iter().map(|span| span.ended.clone()).max().unwrap_or(before);
    }
}

/// So many were at work at one moment.
pub fn most_at_once(spans: &[&Span]) -> usize {
    let at = |moment: &str| {
        spans.iter().filter(|span| span.began.as_str() <= moment && moment <= span.ended.as_str()).count()
    };
    spans.iter().map(|span| at(&span.began)).max().unwrap_or_default()
}
