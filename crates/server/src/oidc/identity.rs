//! A user's identity, derived from the provider's claims.

use serde_json::{Map, Value};

/// A provider's claims about a user.
pub(super) type Claims = Map<String, Value>;

/// Prefix for the names of users who signed in with a provider. Token names can't contain a colon.
pub(crate) const MARK: &str = "oidc:";
/// Default claims for the user name, in order of preference.
const DEFAULT_NAME_CLAIMS: [&str; 3] = ["preferred_username", EMAIL_CLAIM, SUBJECT_CLAIM];
const EMAIL_CLAIM: &str = "email";
const EMAIL_VERIFIED_CLAIM: &str = "email_verified";
const SUBJECT_CLAIM: &str = "sub";
const GROUPS_CLAIM: &str = "groups";
/// Maximum length of a name in bytes.
const NAME_MAX: usize = 256;

/// Names of the claims for the user name and the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimNames {
    name: Option<String>,
    groups: String,
}

/// Reason why a user has no usable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("the ID token lacks the configured name claim")]
    Missing,
    #[error("your e-mail address, which is used as your name, is not verified")]
    Unverified,
    #[error("your name is empty, too long, or contains invisible characters")]
    Invalid,
}

impl ClaimNames {
    pub fn new(name: Option<String>, groups: Option<String>) -> Self {
        Self { name, groups: groups.unwrap_or_else(|| GROUPS_CLAIM.to_owned()) }
    }

    /// Returns true if the claims lack the groups or a readable name.
    pub fn needs_more_claims(&self, claims: &Claims) -> bool {
        let is_named = match &self.name {
            Some(claim) => claims.contains_key(claim),
            None => {
                DEFAULT_NAME_CLAIMS.iter().any(|claim| *claim != SUBJECT_CLAIM && claims.contains_key(*claim))
            }
        };
        !is_named || !claims.contains_key(&self.groups)
    }

    /// Returns the user's name.
    pub fn name(&self, claims: &Claims) -> Result<String, NameError> {
        let said = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let is_unverified = match claims.get(EMAIL_VERIFIED_CLAIM) {
            None => false,
            // Some providers send the value as a string.
            Some(value) => value.as_bool() != Some(true) && value.as_str() != Some("true"),
        };
        let name = match &self.name {
            Some(claim) if claim == EMAIL_CLAIM && is_unverified => return Err(NameError::Unverified),
            Some(claim) => said(claim),
            None => {
                let mut usual =
                    DEFAULT_NAME_CLAIMS.iter().filter(|claim| !(**claim == EMAIL_CLAIM && is_unverified));
                usual.find_map(|claim| said(claim))
            }
        };
        let name = name.ok_or(NameError::Missing)?;
        let is_readable =
            !name.is_empty() && name.len() <= NAME_MAX && name.trim() == name && name.chars().all(is_visible);
        is_readable.then(|| name.to_owned()).ok_or(NameError::Invalid)
    }

    /// Returns the user's groups. The claim may be a list or a single value.
    pub fn groups(&self, claims: &Claims) -> Vec<String> {
        match claims.get(&self.groups) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(|group| group.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Returns true if a character is visible and doesn't affect the position of others. Otherwise, different
/// names could look alike.
pub(super) fn is_visible(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_format && (!c.is_whitespace() || c == ' ')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: &Value) -> Claims {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_name_is_in_the_configured_claim_or_a_default_one() {
        let named = |claim: Option<&str>| ClaimNames::new(claim.map(str::to_owned), None);
        for (claim, value, expected) in [
            (None, json!({"sub": "1", "email": "a@b", "preferred_username": "ann"}), Ok("ann")),
            (None, json!({"sub": "1", "email": "a@b"}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": true}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": "true"}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": false}), Ok("1")),
            (None, json!({"sub": "1"}), Ok("1")),
            (None, json!({"sub": 1}), Err(NameError::Missing)),
            (Some("email"), json!({"sub": "1", "email": "a@b", "preferred_username": "ann"}), Ok("a@b")),
            (
                Some("email"),
                json!({"sub": "1", "email": "a@b", "email_verified": false}),
                Err(NameError::Unverified),
            ),
            (
                Some("email"),
                json!({"sub": "1", "email": "a@b", "email_verified": "false"}),
                Err(NameError::Unverified),
            ),
            (Some("email"), json!({"sub": "1", "preferred_username": "ann"}), Err(NameError::Missing)),
            (Some("upn"), json!({"sub": "1", "upn": ["ann"]}), Err(NameError::Missing)),
            (Some("upn"), json!({"upn": "Ann Søe"}), Ok("Ann Søe")),
            (Some("upn"), json!({"upn": ""}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": " ann"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "ann\nben"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "ann\u{0}"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "ann\u{1b}[31m"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "ann\u{202e}neb"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "an\u{200b}n"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "ann\u{a0}s"}), Err(NameError::Invalid)),
            (Some("upn"), json!({"upn": "x".repeat(NAME_MAX + 1)}), Err(NameError::Invalid)),
        ] {
            let found = named(claim).name(&claims(&value));
            assert_eq!(found.as_deref().map_err(|error| *error), expected, "{claim:?} {value}");
        }
    }

    #[test]
    fn groups_are_a_list_or_one_value_and_are_requested_if_missing() {
        let usual = ClaimNames::new(None, None);
        for (said, groups, lacks) in [
            (json!({"preferred_username": "ann", "groups": ["a", 7, "b"]}), &["a", "b"][..], false),
            (json!({"email": "a@b", "groups": "a"}), &["a"][..], false),
            (json!({"email": "a@b", "groups": []}), &[][..], false),
            (json!({"email": "a@b", "groups": {"a": true}}), &[][..], false),
            (json!({"sub": "1", "groups": ["a"]}), &["a"][..], true),
            (json!({"preferred_username": "ann"}), &[][..], true),
        ] {
            let said = claims(&said);
            assert_eq!(
                (usual.groups(&said), usual.needs_more_claims(&said)),
                (groups.iter().map(|g| (*g).to_owned()).collect(), lacks),
                "{said:?}"
            );
        }
        let own = ClaimNames::new(Some("upn".to_owned()), Some("https://example.com/teams".to_owned()));
        let said = claims(&json!({"upn": "ann", "groups": ["a"], "https://example.com/teams": ["b"]}));
        assert_eq!((own.groups(&said), own.needs_more_claims(&said)), (vec!["b".to_owned()], false));
    }
}
