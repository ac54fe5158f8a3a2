//! What has ended and is to be begun again is kept with the set until it was begun.

use serde_json::json;
use tidegate_applicationset::retry::{Retry, carried, without};
use tidegate_model::StreamId;

use crate::{at, set};

fn run(number: u8) -> Option<StreamId> {
    Some(format!("01a1fdbf-da23-70f8-b7a6-18e4810d22{number:02}").parse().unwrap())
}

#[test]
fn it_is_kept_with_who_and_why_until_something_newer_has_begun() {
    let plain = set(&json!({}));
    for after in [None, run(1)] {
        let asked = Retry::new("ann", "the database is back", at(0).into(), after);
        assert_eq!(asked.recorded(), "ann, because: the database is back");
        let written = asked.written(&plain);
        assert_eq!(Retry::of(&written, after), Some(asked));
        assert_eq!(Retry::of(&written, run(2)), None, "it was begun");
        assert_eq!(without(&written), Some(plain.clone()));
    }
    assert_eq!((Retry::of(&plain, None), without(&plain)), (None, None));
}

#[test]
fn it_goes_on_to_a_set_that_is_read_anew_and_what_means_nothing_is_none() {
    let plain = set(&json!({}));
    let asked = Retry::new("ann", "", at(0).into(), run(1));
    let written = asked.written(&plain);
    let mut read = plain.clone();
    carried(&written, &mut read);
    assert_eq!(read, written);
    carried(&plain, &mut read);
    assert_eq!(read, written, "nothing is known of another");
    for text in ["", "ann", "{}", r#"{"by": "", "at": "2026-11-26T05:00:00Z"}"#] {
        let mut set = plain.clone();
        set.metadata.annotations.insert("tidegate.dev/retry-requested-by".to_owned(), text.to_owned());
        assert_eq!(Retry::of(&set, None), None, "{text}");
    }
}
