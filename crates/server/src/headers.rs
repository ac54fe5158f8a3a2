//! Helpers for request headers.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::problem::Problem;

/// Returns a header that must not occur more than once.
pub(crate) fn single_header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the header {name} occurs more than once")));
    }
    let read = |value: &HeaderValue| value.to_str().map(str::to_owned);
    value.map(read).transpose().map_err(|_| Problem::bad_request(format!("the header {name} is not text")))
}
