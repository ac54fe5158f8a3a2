//! Lists, a page at a time.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// How many there are on a page, unless somebody asks for another number; and the most that can be asked for.
const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 500;

/// A page of a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// What to ask for as `page` to go on; nothing where this is the last page.
    pub next: Option<String>,
    /// How many there are on all pages, now.
    pub matching: u64,
}

/// How many are wanted.
pub(crate) fn limit(asked: Option<u32>) -> Result<usize, Problem> {
    match asked.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(usize::try_from(limit).unwrap_or(1)),
        _ => Err(Problem::bad(format!("limit is a number from 1 to {LIMIT_MAX}"))),
    }
}

/// A place in a list, as a word that means nothing to anybody else. `of` is what list it is.
pub(crate) fn word(of: &impl Serialize, place: &impl Serialize) -> String {
    let text = serde_json::to_vec(&(of, place)).unwrap_or_default();
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

/// The place that is meant, if it is one in this list.
pub(crate) fn place<T: DeserializeOwned>(of: &impl Serialize, word: &str) -> Result<T, Problem> {
    let foreign =
        || Problem::bad("page is not the `next` of a page of this list in this order; begin without it");
    let text = BASE64_URL_SAFE_NO_PAD.decode(word).map_err(|_| foreign())?;
    let (found, place): (serde_json::Value, T) = serde_json::from_slice(&text).map_err(|_| foreign())?;
    let is_of = serde_json::to_value(of).is_ok_and(|of| of == found);
    is_of.then_some(place).ok_or_else(foreign)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_in_its_own_list_only() {
        let word = word(&("applications", "name"), &("argocd", "shop"));
        let found: (String, String) = place(&("applications", "name"), &word).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str()), ("argocd", "shop"));
        assert!(place::<(String, String)>(&("applications", "health"), &word).is_err());
        for foreign in ["", "x", "e30", "bnVsbA", &"A".repeat(4000), "../../etc", "%00"] {
            assert!(place::<(String, String)>(&("applications", "name"), foreign).is_err(), "{foreign:.20}");
        }
        for (asked, expected) in [
            (None, Some(100)),
            (Some(1), Some(1)),
            (Some(500), Some(500)),
            (Some(0), None),
            (Some(501), None),
        ] {
            assert_eq!(limit(asked).ok(), expected);
        }
    }
}
