//! Filter for lists of operations, used by the command line and the API.

use tidegate_application::operation::REVISION_SEPARATOR;
use tidegate_model::{OperationOutcome, Requester, Timestamp};

use super::SummaryDocument;

/// Conditions for operations. All of them must match. An unknown property never matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Outcomes to include; empty for all outcomes.
    pub outcomes: Vec<OperationOutcome>,
    /// Earliest start time (inclusive).
    pub since: Option<Timestamp>,
    /// Latest start time (exclusive).
    pub until: Option<Timestamp>,
    /// Prefix of the revision.
    pub revision: Option<String>,
    /// Person or program that requested the operation.
    pub requester: Option<String>,
}

impl Filter {
    /// Returns true if an operation satisfies the filter.
    pub fn matches(&self, one: &SummaryDocument) -> bool {
        let Self { outcomes, since, until, revision, requester } = self;
        // An operation with several sources has several revisions. A match with any of them is enough.
        let begins_like = |wanted: &String| {
            one.revision.as_ref().is_some_and(|is| {
                is.starts_with(wanted.as_str())
                    || is.split(REVISION_SEPARATOR).any(|one| one.starts_with(wanted.as_str()))
            })
        };
        (outcomes.is_empty() || one.outcome.is_some_and(|is| outcomes.contains(&is)))
            && since.is_none_or(|since| one.started_at >= since)
            && until.is_none_or(|until| one.started_at < until)
            && revision.as_ref().is_none_or(begins_like)
            && requester
                .as_ref()
                .is_none_or(|by| one.initiated_by.as_deref().is_some_and(|is| is_requested_by(is, by)))
    }
}

/// Returns true if `by` requested the operation. For a deletion, the recorded requester also contains the
/// deleted object.
fn is_requested_by(initiated_by: &str, by: &str) -> bool {
    initiated_by == by || Requester::deletion_requester(initiated_by) == Some(by)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use tidegate_executor::Summary;
    use tidegate_model::{OperationId, OperationPhase, SUPERSEDED_PREFIX};
    use tidegate_state::operations::OperationEntry;

    use super::*;

    fn summary_document(revision: &str, by: &str) -> SummaryDocument {
        SummaryDocument::from(&OperationEntry::from_summary(summary(revision, by)))
    }

    fn summary(revision: &str, by: &str) -> Summary {
        let operation: OperationId = "01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap();
        Summary {
            operation,
            application: "shop".to_owned(),
            destination: "simulated cluster".to_owned(),
            phase: OperationPhase::Failed,
            paused: false,
            message: String::new(),
            started_at: Timestamp::from_millis(1_000),
            finished_at: None,
            waves: (0, 0),
            revision: revision.to_owned(),
            initiated_by: by.to_owned(),
            dry_run: false,
        }
    }

    #[test]
    fn a_superseded_operation_does_not_count_as_failed() {
        let with = |message: &str| {
            let known = Summary { message: message.to_owned(), ..summary("4f2a9c", "ann") };
            SummaryDocument::from(&OperationEntry::from_summary(known))
        };
        let only = |outcome| Filter { outcomes: vec![outcome], ..Filter::default() };
        let superseded = with(&format!("{SUPERSEDED_PREFIX}another sync by automated of 5e1"));
        assert_eq!(
            (superseded.phase, superseded.outcome),
            (Some(OperationPhase::Failed), Some(OperationOutcome::Superseded))
        );
        assert!(only(OperationOutcome::Superseded).matches(&superseded));
        assert!(!only(OperationOutcome::Failed).matches(&superseded));
        for message in ["Operation terminated", "one or more objects failed to apply", ""] {
            assert!(only(OperationOutcome::Failed).matches(&with(message)), "{message}");
        }
    }

    #[test]
    fn any_revision_of_several_sources_matches() {
        let known = summary_document("4f2a9c,77aa01", "ann");
        for (wanted, is_taken) in
            [("4f2a", true), ("77", true), ("4f2a9c,77aa01", true), ("a9c", false), ("aa01", false)]
        {
            let filter = Filter { revision: Some(wanted.to_owned()), ..Filter::default() };
            assert_eq!(filter.matches(&known), is_taken, "{wanted}");
        }
    }

    #[test]
    fn an_operation_must_satisfy_all_conditions() {
        let known = summary_document("4f2a9c", "ann");
        let none = Filter::default;
        let at = |millis| Some(Timestamp::from_millis(millis));
        let text = |text: &str| Some(text.to_owned());
        for (filter, is_taken) in [
            (none(), true),
            (Filter { outcomes: vec![OperationOutcome::Failed, OperationOutcome::Error], ..none() }, true),
            (Filter { outcomes: vec![OperationOutcome::Succeeded], ..none() }, false),
            (Filter { since: at(1_000), until: at(1_001), ..none() }, true),
            (Filter { since: at(1_001), ..none() }, false),
            (Filter { until: at(1_000), ..none() }, false),
            (Filter { revision: text("4f2a"), ..none() }, true),
            (Filter { revision: text("f2a9"), ..none() }, false),
            (Filter { requester: text("ann"), ..none() }, true),
            (Filter { requester: text("an"), ..none() }, false),
            (Filter { requester: text("ann"), revision: text("77"), ..none() }, false),
        ] {
            assert_eq!(filter.matches(&known), is_taken, "{filter:?}");
        }
        // Both the outcome and the requester may be unknown.
        let unknown = summary_document("", "");
        assert!(none().matches(&unknown));
        assert!(!Filter { revision: text(""), ..none() }.matches(&unknown));
        assert!(!Filter { requester: text(""), ..none() }.matches(&unknown));
    }

    #[test]
    fn the_requester_of_a_deletion_is_matched_by_name() {
        let filter = |by: &str| Filter { requester: Some(by.to_owned()), ..Filter::default() };
        let deleted =
            summary_document("", "ann, by the deletion of shops, requested at 2026-11-21T09:30:00Z");
        assert!(filter("ann").matches(&deleted) && !filter("an").matches(&deleted));
        let synced = summary_document("", "ann, because: of ben");
        assert!(filter("ann").matches(&synced) && !filter("ben").matches(&synced));
        assert_eq!(synced.reason.as_deref(), Some("of ben"));
        let by_nobody =
            summary_document("", "deletion of the application, requested at 2026-11-21T09:30:00Z");
        assert!(!filter("ann").matches(&by_nobody) && !filter("deletion").matches(&by_nobody));
    }
}
