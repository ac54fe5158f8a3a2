//! Confirmation of deletions by annotating the application while its operation waits.
//!
//! As in Argo CD, an annotation confirms all attempts of a sync if its time isn't earlier than the start of
//! the sync. The same goes for a running deletion, even if the Application is recreated later. Before a
//! deletion starts, a different rule applies ([`is_approved`]).

use tidegate_model::Timestamp;
use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{Application, OperationRequest};

use crate::deletion::{approved_at, is_approved};
use crate::operation;

/// Maximum number of characters of an invalid time to quote in messages.
const SHOWN_CHARACTERS_MAX: usize = 64;

/// Returns the reason an operation that waits for confirmation may continue, or `None` if it isn't confirmed.
pub fn confirmation_reason(application: &Application, operation: &OperationRequest) -> Option<String> {
    // Once an application's file is deleted, the annotation can only be set by restoring the file, and then
    // the application is no longer being deleted.
    let is_since = || Some(approved_at(application)? >= operation_start(application, operation)?);
    let deletes = operation::deletion_cascade(operation).is_some();
    let is_confirmed = (deletes && is_approved(application, operation)) || is_since() == Some(true);
    let said = application.annotation(DELETION_APPROVED).filter(|_| is_confirmed)?;
    Some(format!("the {DELETION_APPROVED} annotation is set to {said}"))
}

/// Describes an annotation that has no effect because it is invalid.
pub(crate) fn invalid_annotation_message(application: &Application) -> Option<String> {
    let said = application.annotation(DELETION_APPROVED)?;
    approved_at(application).is_none().then(|| {
        let said: String = said.chars().take(SHOWN_CHARACTERS_MAX).collect();
        format!(
            "the {DELETION_APPROVED} annotation has no effect: {said:?} is not an RFC 3339 time such as \
             2026-11-21T09:30:00Z"
        )
    })
}

/// Returns the start time of an operation according to the status, to the second. Returns `None` if the
/// engine hasn't started it.
fn operation_start(application: &Application, operation: &OperationRequest) -> Option<Timestamp> {
    let state = application.status.operation_state.as_ref()?;
    let id = operation::engine_id(operation)?;
    (operation::engine_id(&state.operation) == Some(id)).then(|| state.started_at.timestamp())
}

#[cfg(test)]
mod tests {
    use tidegate_model::{Cascade, OperationPhase};

    use super::*;
    use crate::deletion;
    use crate::operation::{EngineProgress, ID_INFO};

    const ID: &str = "0193b6a7-5f80-7000-8000-000000000001";
    const OTHER: &str = "0193b6a7-5f80-7000-8000-000000000002";
    /// A time half a second after a full second.
    const BEGAN: Timestamp = Timestamp::from_millis(1_700_000_000_500);

    fn operation_request(id: &str) -> OperationRequest {
        let mut asked = OperationRequest::default();
        asked.set_info(ID_INFO, id);
        asked
    }

    /// Returns an application with a running operation and the given annotation.
    fn running_application(annotation: Option<&str>) -> Application {
        let mut application =
            Application { operation: Some(operation_request(ID)), ..Application::default() };
        let began = EngineProgress {
            phase: OperationPhase::Running,
            finished_at: None,
            ..EngineProgress::rejected(String::new(), BEGAN)
        };
        operation::apply_progress(&mut application, began);
        let annotations = &mut application.metadata.annotations;
        annotations.extend(annotation.map(|said| (DELETION_APPROVED.to_owned(), said.to_owned())));
        application
    }

    #[test]
    fn a_sync_is_confirmed_by_a_time_after_its_start() {
        for (annotation, expected) in [
            (None, false),
            (Some("2023-11-14T22:13:19Z"), false),
            (Some("2023-11-14T22:13:19.999Z"), false),
            // The same second counts: times in the status and times written by users are only precise to the
            // second.
            (Some("2023-11-14T22:13:20Z"), true),
            (Some("2023-11-14T22:13:21Z"), true),
            (Some("2023-11-15T00:13:20+02:00"), true),
            (Some("2023-11-14T23:13:20+02:00"), false),
            (Some("2033-11-14T22:13:20Z"), true),
            (Some("yes"), false),
            (Some(""), false),
            (Some("1700000000"), false),
        ] {
            let application = running_application(annotation);
            let reason =
                annotation.map(|said| format!("the {DELETION_APPROVED} annotation is set to {said}"));
            assert_eq!(
                confirmation_reason(&application, &operation_request(ID)),
                reason.filter(|_| expected),
                "{annotation:?}"
            );
            let is_time = annotation.is_none_or(|said| said.contains('T'));
            let problem = invalid_annotation_message(&application);
            assert_eq!(problem.is_none(), is_time, "{annotation:?}: {problem:?}");
        }
    }

    #[test]
    fn an_operation_without_a_known_start_is_not_confirmed() {
        let late = "2033-11-14T22:13:20Z";
        assert_eq!(
            confirmation_reason(&running_application(Some(late)), &operation_request(OTHER)),
            None,
            "the status belongs to another application"
        );
        assert_eq!(
            confirmation_reason(&running_application(Some(late)), &OperationRequest::default()),
            None,
            "the operation has no ID yet"
        );
        let mut unknown = running_application(Some(late));
        unknown.status.operation_state = None;
        assert_eq!(confirmation_reason(&unknown, &operation_request(ID)), None);
    }

    /// A deletion is requested before its operation starts.
    #[test]
    fn a_deletion_is_confirmed_by_a_time_after_its_request() {
        for (annotation, expected) in [("2023-11-14T22:13:09Z", false), ("2023-11-14T22:13:10Z", true)] {
            let mut application = running_application(Some(annotation));
            let at = Timestamp::from_millis(BEGAN.as_millis() - 10_000);
            application.metadata.deletion_timestamp = Some(at.into());
            let deletion = deletion::deletion_operation(&application, Cascade::Foreground);
            assert_eq!(confirmation_reason(&application, &deletion).is_some(), expected, "{annotation}");
        }
    }

    /// The user restores the application's file with the annotation, and may then remove it again.
    #[test]
    fn a_waiting_deletion_stays_confirmed_after_its_application_is_written_again() {
        let asked_at = Timestamp::from_millis(BEGAN.as_millis() - 10_000);
        for (annotation, expected) in [("2023-11-14T22:13:10Z", false), ("2023-11-14T22:13:20Z", true)] {
            let mut application = running_application(Some(annotation));
            application.metadata.deletion_timestamp = Some(asked_at.into());
            let mut deletion = deletion::deletion_operation(&application, Cascade::Foreground);
            deletion.set_info(ID_INFO, ID);
            let again = Timestamp::from_millis(BEGAN.as_millis() + 3_600_000);
            for deleted in [None, Some(again.into())] {
                application.metadata.deletion_timestamp = deleted;
                let found = confirmation_reason(&application, &deletion).is_some();
                assert_eq!(found, expected, "{annotation}, {deleted:?}");
            }
        }
    }

    #[test]
    fn an_invalid_time_is_shown_truncated() {
        let said =
            invalid_annotation_message(&running_application(Some(&"x".repeat(10_000)))).unwrap_or_default();
        assert!(said.contains("has no effect") && said.len() < 300, "{said}");
    }
}
