//! Which operations of a list are wanted: the same for the command line and the API.

use tidegate_application::operation::BETWEEN;
use tidegate_model::{OperationPhase, Timestamp, Wisher};

use super::SummaryDocument;

/// Those that are all that is said here. What is not known of an operation is none of what is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// They stand like one of these; empty: however they stand.
    pub phases: Vec<OperationPhase>,
    /// They began at this moment, or later.
    pub since: Option<Timestamp>,
    /// They began before this moment.
    pub until: Option<Timestamp>,
    /// Their revision begins like this.
    pub revision: Option<String>,
    /// This person, or program, has asked for them.
    pub by: Option<String>,
}

impl Filter {
    /// Whether an operation is wanted.
    pub fn takes(&self, one: &SummaryDocument) -> bool {
        let Self { phases, since, until, revision, by } = self;
        // Of several sources there are several.
        let begins_like = |wanted: &String| {
            one.revision.as_ref().is_some_and(|is| {
                is.starts_with(wanted.as_str())
                    || is.split(BETWEEN).any(|one| one.starts_with(wanted.as_str()))
            })
        };
        (phases.is_empty() || one.phase.is_some_and(|is| phases.contains(&is)))
            && since.is_none_or(|since| one.started_at >= since)
            && until.is_none_or(|until| one.started_at < until)
            && revision.as_ref().is_none_or(begins_like)
            && by.as_ref().is_none_or(|by| one.initiated_by.as_deref().is_some_and(|is| is_by(is, by)))
    }
}

/// Who deletes something is named with what that was.
fn is_by(initiated_by: &str, by: &str) -> bool {
    initiated_by == by || Wisher::deleting(initiated_by) == Some(by)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use tidegate_executor::Summary;
    use tidegate_model::OperationId;

    use super::*;
    use crate::operations::Listed;

    fn one(revision: &str, by: &str) -> SummaryDocument {
        let operation: OperationId = "01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap();
        let summary = Summary {
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
        };
        SummaryDocument::from(&Listed::whole(summary))
    }

    #[test]
    fn any_of_the_revisions_of_several_sources_will_do() {
        let known = one("4f2a9c,77aa01", "ann");
        for (wanted, is_taken) in
            [("4f2a", true), ("77", true), ("4f2a9c,77aa01", true), ("a9c", false), ("aa01", false)]
        {
            let filter = Filter { revision: Some(wanted.to_owned()), ..Filter::default() };
            assert_eq!(filter.takes(&known), is_taken, "{wanted}");
        }
    }

    #[test]
    fn an_operation_is_taken_by_all_that_is_asked_for() {
        let known = one("4f2a9c", "ann");
        let none = Filter::default;
        let at = |millis| Some(Timestamp::from_millis(millis));
        let text = |text: &str| Some(text.to_owned());
        for (filter, is_taken) in [
            (none(), true),
            (Filter { phases: vec![OperationPhase::Failed, OperationPhase::Error], ..none() }, true),
            (Filter { phases: vec![OperationPhase::Succeeded], ..none() }, false),
            (Filter { since: at(1_000), until: at(1_001), ..none() }, true),
            (Filter { since: at(1_001), ..none() }, false),
            (Filter { until: at(1_000), ..none() }, false),
            (Filter { revision: text("4f2a"), ..none() }, true),
            (Filter { revision: text("f2a9"), ..none() }, false),
            (Filter { by: text("ann"), ..none() }, true),
            (Filter { by: text("an"), ..none() }, false),
            (Filter { by: text("ann"), revision: text("77"), ..none() }, false),
        ] {
            assert_eq!(filter.takes(&known), is_taken, "{filter:?}");
        }
        // Of one that an earlier program began, neither is known.
        let earlier = one("", "");
        assert!(none().takes(&earlier));
        assert!(!Filter { revision: text(""), ..none() }.takes(&earlier));
        assert!(!Filter { by: text(""), ..none() }.takes(&earlier));
    }

    #[test]
    fn who_has_deleted_something_is_found_by_name() {
        let wanted = |by: &str| Filter { by: Some(by.to_owned()), ..Filter::default() };
        let deleted = one("", "ann, by the deletion of shops, asked for at 2026-11-21T09:30:00Z");
        assert!(wanted("ann").takes(&deleted) && !wanted("an").takes(&deleted));
        let synced = one("", "ann, because: of ben");
        assert!(wanted("ann").takes(&synced) && !wanted("ben").takes(&synced));
        assert_eq!(synced.reason.as_deref(), Some("of ben"));
        let by_nobody = one("", "deletion of the application, asked for at 2026-11-21T09:30:00Z");
        assert!(!wanted("ann").takes(&by_nobody) && !wanted("deletion").takes(&by_nobody));
    }
}
