//! Questions by a form, as OAuth asks them: <https://www.rfc-editor.org/rfc/rfc6749#section-4.4>.

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tidegate_web::Refused;

use super::answer::Asked;
use super::headers;
use crate::remote::{Link, Problem};

const FORM: &str = "application/x-www-form-urlencoded";

/// What to do about an answer that brings nothing: where it is not known who asks, and where it is of another kind.
pub(super) struct Hints {
    pub unknown: &'static str,
    pub other: &'static str,
}

/// Asks, and reads what comes.
pub(super) fn ask<T: DeserializeOwned>(
    link: &Link,
    url: &str,
    fields: &[(&str, &str)],
    (asked, hints): (&Asked<'_>, &Hints),
) -> Result<T, Refused<Problem>> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let answer = link.exchange(Method::POST, url, &headers(&[(CONTENT_TYPE, FORM)]), body.into_bytes());
    let answer = answer.map_err(|problem| asked.unreached(problem))?;
    if answer.status != StatusCode::OK {
        let is_unknown = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED].contains(&answer.status);
        return Err(asked.judge(&answer, if is_unknown { hints.unknown } else { "" }));
    }
    serde_json::from_slice(&answer.content)
        .map_err(|_| asked.wrong("answers with what is no token").hint(hints.other).into())
}
