//! Header names and helpers.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::problem::Problem;

/// Response header with the namespace of the control plane, for authenticated callers only.
pub(crate) const CONTROL_NAMESPACE: HeaderName = HeaderName::from_static("x-tidegate-control-namespace");

/// Returns the value of a header. Rejects repeated headers.
pub(crate) fn single_header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the {name} header occurs more than once")));
    }
    let read = |value: &HeaderValue| value.to_str().map(str::to_owned);
    value.map(read).transpose().map_err(|_| Problem::bad_request(format!("the {name} header is not text")))
}
