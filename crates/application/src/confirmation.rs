//! Has somebody confirmed, by an annotation of the application, what its operation waits for before it deletes objects?
//!
//! As in Argo CD, of a sync that counts what is dated from its beginning on, in all of its attempts. Of a deletion its own rule
//! counts ([`is_approved`]).

use tidegate_model::Timestamp;
use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{Application, OperationRequest};

use crate::deletion::is_approved;
use crate::operation;

/// So much is repeated of what is no time.
const REPEATED_MAX: usize = 64;

/// Why what an operation of the application waits for counts as confirmed; `None` where nobody has confirmed that.
pub fn confirmed(application: &Application, operation: &OperationRequest) -> Option<String> {
    let is_confirmed = match operation::cascade(operation) {
        Some(_) => is_approved(application, operation),
        None => approved_at(application)? >= began(application, operation)?,
    };
    let said = application.annotation(DELETION_APPROVED).filter(|_| is_confirmed)?;
    Some(format!("the annotation {DELETION_APPROVED} says {said}"))
}

/// What is wrong with the annotation, so that it confirms nothing.
pub(crate) fn problem(application: &Application) -> Option<String> {
    let said = application.annotation(DELETION_APPROVED)?;
    approved_at(application).is_none().then(|| {
        let said: String = said.chars().take(REPEATED_MAX).collect();
        format!(
            "the annotation {DELETION_APPROVED} confirms nothing: {said:?} is not an RFC 3339 time such as 2026-11-21T09:30:00Z"
        )
    })
}

/// The time that the annotation says, if it is one.
pub(crate) fn approved_at(application: &Application) -> Option<Timestamp> {
    application.annotation(DELETION_APPROVED)?.parse().ok()
}

/// When an operation has begun, as the status says it: at the beginning of a second, as people write times. One that the engine
/// has not begun yet has none.
fn began(application: &Application, operation: &OperationRequest) -> Option<Timestamp> {
    let state = application.status.operation_state.as_ref()?;
    let id = operation::id(operation)?;
    (operation::id(&state.operation) == Some(id)).then(|| state.started_at.moment())
}

#[cfg(test)]
mod tests {
    use tidegate_model::{Cascade, OperationPhase};

    use super::*;
    use crate::deletion;
    use crate::operation::{ID_REMARK, Progress};

    const ID: &str = "0193b6a7-5f80-7000-8000-000000000001";
    const OTHER: &str = "0193b6a7-5f80-7000-8000-000000000002";
    /// Half a second after a whole one.
    const BEGAN: Timestamp = Timestamp::from_millis(1_700_000_000_500);

    fn asked(id: &str) -> OperationRequest {
        let mut asked = OperationRequest::default();
        asked.set_remark(ID_REMARK, id);
        asked
    }

    /// An application whose operation has begun, with this annotation.
    fn at_work(annotation: Option<&str>) -> Application {
        let mut application = Application { operation: Some(asked(ID)), ..Application::default() };
        let began = Progress {
            phase: OperationPhase::Running,
            finished_at: None,
            ..Progress::refused(String::new(), BEGAN)
        };
        operation::take_in(&mut application, began);
        let annotations = &mut application.metadata.annotations;
        annotations.extend(annotation.map(|said| (DELETION_APPROVED.to_owned(), said.to_owned())));
        application
    }

    #[test]
    fn a_sync_is_confirmed_by_what_is_dated_from_its_beginning_on() {
        for (annotation, expected) in [
            (None, false),
            (Some("2023-11-14T22:13:19Z"), false),
            (Some("2023-11-14T22:13:19.999Z"), false),
            // In its second: the status says no more than that, and nor do people.
            (Some("2023-11-14T22:13:20Z"), true),
            (Some("2023-11-14T22:13:21Z"), true),
            (Some("2023-11-15T00:13:20+02:00"), true),
            (Some("2023-11-14T23:13:20+02:00"), false),
            (Some("2033-11-14T22:13:20Z"), true),
            (Some("yes"), false),
            (Some(""), false),
            (Some("1700000000"), false),
        ] {
            let application = at_work(annotation);
            let reason = annotation.map(|said| format!("the annotation {DELETION_APPROVED} says {said}"));
            assert_eq!(confirmed(&application, &asked(ID)), reason.filter(|_| expected), "{annotation:?}");
            let is_time = annotation.is_none_or(|said| said.contains('T'));
            let problem = problem(&application);
            assert_eq!(problem.is_none(), is_time, "{annotation:?}: {problem:?}");
        }
    }

    #[test]
    fn what_is_not_known_to_have_begun_is_not_confirmed() {
        let late = "2033-11-14T22:13:20Z";
        assert_eq!(confirmed(&at_work(Some(late)), &asked(OTHER)), None, "the status is about another one");
        assert_eq!(confirmed(&at_work(Some(late)), &OperationRequest::default()), None, "it has no id yet");
        let mut unknown = at_work(Some(late));
        unknown.status.operation_state = None;
        assert_eq!(confirmed(&unknown, &asked(ID)), None);
    }

    /// It is asked for before it begins.
    #[test]
    fn a_deletion_is_confirmed_by_what_is_dated_from_when_it_was_asked_for() {
        for (annotation, expected) in [("2023-11-14T22:13:09Z", false), ("2023-11-14T22:13:10Z", true)] {
            let mut application = at_work(Some(annotation));
            let at = Timestamp::from_millis(BEGAN.as_millis() - 10_000);
            application.metadata.deletion_timestamp = Some(at.into());
            let deletion = deletion::operation(&application, Cascade::Foreground);
            assert_eq!(confirmed(&application, &deletion).is_some(), expected, "{annotation}");
        }
    }

    #[test]
    fn of_what_is_no_time_a_part_is_repeated() {
        let said = problem(&at_work(Some(&"x".repeat(10_000)))).unwrap_or_default();
        assert!(said.contains("confirms nothing") && said.len() < 300, "{said}");
    }
}
