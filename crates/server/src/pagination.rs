//! Pagination of lists.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// Default and maximum number of items on a page.
const DEFAULT_LIMIT: i64 = 100;
const LIMIT_MAX: i64 = 500;

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

/// Query parameters that select a page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PageQuery {
    /// Maximum number of items, from 1 to 500 (default: 100).
    #[schemars(with = "Option<u32>", transform = add_limit_bounds)]
    limit: Option<i64>,
    /// Value of `next` in the previous page.
    page: Option<String>,
}

impl PageQuery {
    /// Parses the parameters. `list` identifies the list.
    pub fn parse<L: Serialize, P: DeserializeOwned>(&self, list: L) -> Result<PageRequest<L, P>, Problem> {
        let limit = parse_limit(self.limit)?;
        let after = self.page.as_deref().map(|word| decode_position(&list, word)).transpose()?;
        Ok(PageRequest { list, limit, after })
    }
}

/// Requested page of a list.
pub(crate) struct PageRequest<L, P> {
    /// Identity of the list.
    pub list: L,
    /// Maximum number of items on the page.
    pub limit: usize,
    /// Position of the last item on the previous page; `None` for the first page.
    pub after: Option<P>,
}

impl<L: Serialize, P: Serialize + Ord> PageRequest<L, P> {
    /// Returns the requested page of `items`, the whole list sorted by position.
    pub fn select<T>(&self, mut items: Vec<T>, position: impl Fn(&T) -> P) -> Page<T> {
        let matching = u64::try_from(items.len()).unwrap_or(u64::MAX);
        items.retain(|one| self.after.as_ref().is_none_or(|after| position(one) > *after));
        let has_more = items.len() > self.limit;
        items.truncate(self.limit);
        let last = items.last().filter(|_| has_more);
        let next = last.map(|last| encode_position(&self.list, &position(last)));
        Page { items, next, matching }
    }
}

/// Adds the bounds of `limit` to its schema.
pub(crate) fn add_limit_bounds(schema: &mut Schema) {
    for (name, value) in [("minimum", 1), ("maximum", LIMIT_MAX), ("default", DEFAULT_LIMIT)] {
        schema.insert(name.to_owned(), value.into());
    }
}

/// Validates the requested page size, or returns the default.
pub(crate) fn parse_limit(requested: Option<i64>) -> Result<usize, Problem> {
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

/// Decodes a position. Fails if it is from another list.
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
