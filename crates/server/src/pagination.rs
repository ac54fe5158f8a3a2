//! Pagination of lists.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// Default and maximum number of items on a page.
const DEFAULT_LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 500;

/// A page of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}Page")]
pub(crate) struct Page<T> {
    /// Items, in order.
    pub items: Vec<T>,
    /// Value of the `page` parameter for the next page; absent on the last page.
    pub next: Option<String>,
    /// Total number of items on all pages, at the time of the request.
    #[serde(rename = "total")]
    pub matching: u64,
}

/// Adds the bounds of `limit` to its schema.
pub(crate) fn add_limit_bounds(schema: &mut Schema) {
    for (name, value) in [("minimum", 1), ("maximum", LIMIT_MAX), ("default", DEFAULT_LIMIT)] {
        schema.insert(name.to_owned(), value.into());
    }
}

/// Returns the requested number of items on a page, or the default.
pub(crate) fn parse_limit(requested: Option<u32>) -> Result<usize, Problem> {
    match requested.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(usize::try_from(limit).unwrap_or(1)),
        _ => Err(Problem::bad_request(format!("invalid limit: use a number from 1 to {LIMIT_MAX}"))),
    }
}

/// Encodes a position in a list as an opaque token. `of` identifies the list.
pub(crate) fn encode_position(of: &impl Serialize, place: &impl Serialize) -> String {
    let text = serde_json::to_vec(&(of, place)).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// Decodes a position. Returns an error if the position belongs to another list.
pub(crate) fn decode_position<T: DeserializeOwned>(of: &impl Serialize, word: &str) -> Result<T, Problem> {
    let foreign = || {
        Problem::bad_request(
            "invalid page: pass the value of `next` from the previous page of this list, or omit `page` to \
             start with the first page",
        )
    };
    let text = BASE64_URL_SAFE_NO_PAD.decode(word).map_err(|_| foreign())?;
    let (found, place): (serde_json::Value, T) = serde_json::from_slice(&text).map_err(|_| foreign())?;
    let is_of = serde_json::to_value(of).is_ok_and(|of| of == found);
    is_of.then_some(place).ok_or_else(foreign)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_valid_only_in_its_own_list() {
        let word = encode_position(&("applications", "name"), &("argocd", "shop"));
        let found: (String, String) = decode_position(&("applications", "name"), &word).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str()), ("argocd", "shop"));
        assert!(decode_position::<(String, String)>(&("applications", "health"), &word).is_err());
        for foreign in ["", "x", "e30", "bnVsbA", &"A".repeat(4000), "../../etc", "%00"] {
            assert!(
                decode_position::<(String, String)>(&("applications", "name"), foreign).is_err(),
                "{foreign:.20}"
            );
        }
        for (requested, expected) in [
            (None, Some(100)),
            (Some(1), Some(1)),
            (Some(500), Some(500)),
            (Some(0), None),
            (Some(501), None),
        ] {
            assert_eq!(parse_limit(requested).ok(), expected);
        }
    }
}
