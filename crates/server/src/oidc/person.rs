//! Who somebody is, by the claims of the provider.

use serde_json::{Map, Value};

/// What a provider says of somebody.
pub(super) type Claims = Map<String, Value>;

/// What the name of somebody begins with who came by a provider. No token has such a name: there is no colon in those.
pub(crate) const MARK: &str = "oidc:";
/// Where a name is looked for, unless it is said: the first that is there counts.
const USUAL: [&str; 3] = ["preferred_username", EMAIL, SUBJECT];
const EMAIL: &str = "email";
const EMAIL_VERIFIED: &str = "email_verified";
const SUBJECT: &str = "sub";
const GROUPS: &str = "groups";
/// The longest name, in bytes.
const NAME_MAX: usize = 256;

/// In which claims names and groups are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Naming {
    name: Option<String>,
    groups: String,
}

/// Why nobody can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Nameless {
    #[error("it says no name of you in the claim that the settings name")]
    Missing,
    #[error("it has not verified your e-mail address, which is to be your name here")]
    Unverified,
    #[error("the name that it says of you is empty, too long, or has characters that cannot be seen")]
    Unreadable,
}

impl Naming {
    pub fn new(name: Option<String>, groups: Option<String>) -> Self {
        Self { name, groups: groups.unwrap_or_else(|| GROUPS.to_owned()) }
    }

    /// Whether more has to be asked for than these claims: groups, or a name that people know.
    pub fn lacks(&self, claims: &Claims) -> bool {
        let is_named = match &self.name {
            Some(claim) => claims.contains_key(claim),
            None => USUAL.iter().any(|claim| *claim != SUBJECT && claims.contains_key(*claim)),
        };
        !is_named || !claims.contains_key(&self.groups)
    }

    /// The name of somebody, as the provider has it.
    pub fn name(&self, claims: &Claims) -> Result<String, Nameless> {
        let said = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let is_unverified = match claims.get(EMAIL_VERIFIED) {
            None => false,
            // Some write it as a text.
            Some(value) => value.as_bool() != Some(true) && value.as_str() != Some("true"),
        };
        let name = match &self.name {
            Some(claim) if claim == EMAIL && is_unverified => return Err(Nameless::Unverified),
            Some(claim) => said(claim),
            None => {
                let mut usual = USUAL.iter().filter(|claim| !(**claim == EMAIL && is_unverified));
                usual.find_map(|claim| said(claim))
            }
        };
        let name = name.ok_or(Nameless::Missing)?;
        let is_readable =
            !name.is_empty() && name.len() <= NAME_MAX && name.trim() == name && name.chars().all(is_seen);
        is_readable.then(|| name.to_owned()).ok_or(Nameless::Unreadable)
    }

    /// The groups of somebody: a list, or one alone.
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

/// Whether a character is seen where it stands, and moves no other: a name is to look like no other one.
pub(super) fn is_seen(c: char) -> bool {
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
    fn a_name_is_in_the_claim_that_is_said_or_in_a_usual_one() {
        let named = |claim: Option<&str>| Naming::new(claim.map(str::to_owned), None);
        for (claim, said, expected) in [
            (None, json!({"sub": "1", "email": "a@b", "preferred_username": "ann"}), Ok("ann")),
            (None, json!({"sub": "1", "email": "a@b"}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": true}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": "true"}), Ok("a@b")),
            (None, json!({"sub": "1", "email": "a@b", "email_verified": false}), Ok("1")),
            (None, json!({"sub": "1"}), Ok("1")),
            (None, json!({"sub": 1}), Err(Nameless::Missing)),
            (Some("email"), json!({"sub": "1", "email": "a@b", "preferred_username": "ann"}), Ok("a@b")),
            (
                Some("email"),
                json!({"sub": "1", "email": "a@b", "email_verified": false}),
                Err(Nameless::Unverified),
            ),
            (
                Some("email"),
                json!({"sub": "1", "email": "a@b", "email_verified": "false"}),
                Err(Nameless::Unverified),
            ),
            (Some("email"), json!({"sub": "1", "preferred_username": "ann"}), Err(Nameless::Missing)),
            (Some("upn"), json!({"sub": "1", "upn": ["ann"]}), Err(Nameless::Missing)),
            (Some("upn"), json!({"upn": "Ann Søe"}), Ok("Ann Søe")),
            (Some("upn"), json!({"upn": ""}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": " ann"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "ann\nben"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "ann\u{0}"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "ann\u{1b}[31m"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "ann\u{202e}neb"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "an\u{200b}n"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "ann\u{a0}s"}), Err(Nameless::Unreadable)),
            (Some("upn"), json!({"upn": "x".repeat(NAME_MAX + 1)}), Err(Nameless::Unreadable)),
        ] {
            let found = named(claim).name(&claims(&said));
            assert_eq!(found.as_deref().map_err(|error| *error), expected, "{claim:?} {said}");
        }
    }

    #[test]
    fn groups_are_a_list_or_one_alone_and_more_is_asked_for_where_they_are_missing() {
        let usual = Naming::new(None, None);
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
                (usual.groups(&said), usual.lacks(&said)),
                (groups.iter().map(|g| (*g).to_owned()).collect(), lacks),
                "{said:?}"
            );
        }
        let own = Naming::new(Some("upn".to_owned()), Some("https://example.com/teams".to_owned()));
        let said = claims(&json!({"upn": "ann", "groups": ["a"], "https://example.com/teams": ["b"]}));
        assert_eq!((own.groups(&said), own.lacks(&said)), (vec!["b".to_owned()], false));
    }
}
