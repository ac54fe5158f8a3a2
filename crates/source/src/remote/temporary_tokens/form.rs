//! OAuth requests in form encoding: <https://www.rfc-editor.org/rfc/rfc6749#section-4.4>.

use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use tidegate_web::TokenFailure;

use super::create_headers;
use super::token_response::TokenRequest;
use crate::remote::{Link, Problem};

const FORM: &str = "application/x-www-form-urlencoded";

/// Advice for rejected credentials and for all other failures.
pub(super) struct Hints {
    pub rejected: &'static str,
    pub other: &'static str,
}

/// Sends a form and parses the response as JSON.
pub(super) fn send_form<T: DeserializeOwned>(
    link: &Link,
    url: &str,
    fields: &[(&str, &str)],
    asked: &TokenRequest<'_>,
    hints: &Hints,
) -> Result<T, TokenFailure<Problem>> {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let answer =
        link.send_once(Method::POST, url, &create_headers(&[(CONTENT_TYPE, FORM)]), body.into_bytes());
    let answer = answer.map_err(|problem| asked.connection_error(problem))?;
    if answer.status != StatusCode::OK {
        let is_unknown = [StatusCode::BAD_REQUEST, StatusCode::UNAUTHORIZED].contains(&answer.status);
        return Err(asked.interpret_response(&answer, if is_unknown { hints.rejected } else { "" }));
    }
    serde_json::from_slice(&answer.content)
        .map_err(|_| asked.error("returned a response without a token").with_hint(hints.other).into())
}
