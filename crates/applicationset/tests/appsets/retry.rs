//! Retry requests, which stay with the ApplicationSet until the retry starts.

use serde_json::json;
use tidegate_applicationset::retry::{RetryAnnotation, carry_over_retry, without_retry};
use tidegate_model::StreamId;

use crate::{appset, at};

fn run(number: u8) -> Option<StreamId> {
    Some(format!("01a1fdbf-da23-70f8-b7a6-18e4810d22{number:02}").parse().unwrap())
}

#[test]
fn a_retry_request_is_stored_until_a_newer_run_starts() {
    let plain = appset(&json!({}));
    for after in [None, run(1)] {
        let asked = RetryAnnotation::new("ann", "the database is back", at(0).into(), after);
        assert_eq!(asked.requester_text(), "ann, because: the database is back");
        let written = asked.write_to(&plain);
        assert_eq!(RetryAnnotation::from_appset(&written, after), Some(asked));
        assert_eq!(RetryAnnotation::from_appset(&written, run(2)), None, "the retry was started");
        assert_eq!(without_retry(&written), Some(plain.clone()));
    }
    assert_eq!((RetryAnnotation::from_appset(&plain, None), without_retry(&plain)), (None, None));
}

#[test]
fn a_retry_request_survives_a_new_read_and_invalid_ones_are_ignored() {
    let plain = appset(&json!({}));
    let asked = RetryAnnotation::new("ann", "", at(0).into(), run(1));
    let written = asked.write_to(&plain);
    let mut read = plain.clone();
    carry_over_retry(&written, &mut read);
    assert_eq!(read, written);
    carry_over_retry(&plain, &mut read);
    assert_eq!(read, written, "a different rollout is unknown");
    for text in ["", "ann", "{}", r#"{"by": "", "at": "2026-11-26T05:00:00Z"}"#] {
        let mut set = plain.clone();
        set.metadata.annotations.insert("tidegate.dev/retry-requested-by".to_owned(), text.to_owned());
        assert_eq!(RetryAnnotation::from_appset(&set, None), None, "{text}");
    }
}
