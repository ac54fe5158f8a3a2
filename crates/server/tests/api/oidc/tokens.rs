//! What a provider says of somebody: what lets nobody in, and where names and groups come from.

use std::time::Duration;

use serde_json::json;
use tidegate_server::Limits;

use super::{Change, Visitor, WITH_SECRET, limits, serve, serve_with};
use crate::client::run;
use crate::provider::{Manners, Provider, Signs, now};

/// Under which name somebody is signed in, with which role; nothing where they are not.
type Named = Option<(&'static str, &'static str)>;
/// What it is, what is changed of a good provider, and what somebody is told then.
type Row = (&'static str, Change, &'static str);

const TOKENS: [Row; 28] = [
    (
        "another key of the same curve",
        |m| (m.signs, m.kid) = (Signs::OtherEc, Some("ec")),
        "has a signature that is not right",
    ),
    ("changed after it was signed", |m| m.signs = Signs::Changed, "has a signature that is not right"),
    ("alg none", |m| m.signs = Signs::None, "is signed in a way that is not believed"),
    (
        "HMAC with the public key",
        |m| m.signs = Signs::WithPublicKey,
        "is signed in a way that is not believed",
    ),
    (
        "HMAC with a secret of the set",
        |m| (m.signs, m.keys) = (Signs::WithPublicKey, &["secret"]),
        "is signed in a way that is not believed",
    ),
    ("an unknown algorithm", |m| m.signs = Signs::Unknown, "is signed in a way that is not believed"),
    ("something critical", |m| m.signs = Signs::Critical, "is no signed token"),
    ("no token", |m| m.signs = Signs::Garbage, "is no signed token"),
    ("an unknown key", |m| m.kid = Some("withdrawn"), "is signed with a key that is not among its keys"),
    ("a key of another kind", |m| m.kid = Some("ec"), "is signed with a key that is not among its keys"),
    (
        "no key, and two that it can be",
        |m| (m.signs, m.kid, m.keys) = (Signs::Ec, None, &["ec", "other"]),
        "is signed with a key that is not among its keys",
    ),
    (
        "a key for something else",
        |m| m.keys = &["rsa-for-encryption"],
        "is signed with a key that is not among its keys",
    ),
    ("a key that is too short", |m| m.keys = &["short"], "is signed with a key that is not among its keys"),
    (
        "another issuer",
        |m| m.twist = |claims| drop(claims.insert("iss".to_owned(), json!("https://evil.example"))),
        "is of another issuer",
    ),
    (
        "several issuers",
        |m| {
            m.twist = |claims| {
                let own = claims["iss"].clone();
                claims.insert("iss".to_owned(), json!([own, "https://evil.example"]));
            }
        },
        "is of another issuer",
    ),
    (
        "another audience",
        |m| m.twist = |claims| drop(claims.insert("aud".to_owned(), json!("other"))),
        "is for somebody else",
    ),
    ("no audience", |m| m.twist = |claims| drop(claims.remove("aud")), "is for somebody else"),
    (
        "several audiences and nobody it is given to",
        |m| m.twist = |claims| drop(claims.insert("aud".to_owned(), json!(["tidegate", "other"]))),
        "is for somebody else",
    ),
    (
        "given to somebody else",
        |m| m.twist = |claims| drop(claims.insert("azp".to_owned(), json!("other"))),
        "is for somebody else",
    ),
    (
        "over",
        |m| m.twist = |claims| drop(claims.insert("exp".to_owned(), json!(now() - 120))),
        "was over before it came",
    ),
    ("no end", |m| m.twist = |claims| drop(claims.remove("exp")), "has no time at which it ends"),
    (
        "an end that is a text",
        |m| m.twist = |claims| drop(claims.insert("exp".to_owned(), json!("9999999999"))),
        "has no time at which it ends",
    ),
    (
        "from the future",
        |m| m.twist = |claims| drop(claims.insert("iat".to_owned(), json!(now() + 600))),
        "is from the future",
    ),
    (
        "not yet",
        |m| m.twist = |claims| drop(claims.insert("nbf".to_owned(), json!(now() + 600))),
        "is from the future",
    ),
    (
        "another nonce",
        |m| m.twist = |claims| drop(claims.insert("nonce".to_owned(), json!("x"))),
        "answers another question than ours",
    ),
    ("no nonce", |m| m.twist = |claims| drop(claims.remove("nonce")), "answers another question than ours"),
    (
        "nobody",
        |m| m.twist = |claims| drop(claims.insert("sub".to_owned(), json!(""))),
        "does not say whom it is about",
    ),
    (
        "a name with a line in it",
        |m| m.person = json!({"preferred_username": "ann\nben", "groups": ["platform"]}),
        "characters that cannot be seen",
    ),
];

#[test]
fn an_id_token_that_is_wrong_in_anything_lets_nobody_in() {
    run(async {
        let provider = Provider::new(Manners::default());
        for (what, change, part) in TOKENS {
            provider.change(|manners| {
                *manners = Manners::default();
                change(manners);
            });
            // One that knows no keys yet.
            let served = serve(&provider, WITH_SECRET, limits()).await;
            let mut visitor = Visitor::new(&served);
            let told = visitor.sign_in("").await;
            assert!(told.body.contains(part) && matches!(told.status, 502 | 403), "{what}: {told:?}");
            assert!(!told.body.contains("eyJ") && !told.body.contains("an-access-token"), "{what}: {told:?}");
            assert_eq!(
                (visitor.who().await["role"].clone(), visitor.cookies.len()),
                (json!(null), 0),
                "{what}"
            );
        }
        let right: [(&str, Change); 7] = [
            ("on a curve", |m| (m.signs, m.kid) = (Signs::Ec, Some("ec"))),
            ("no key, and one that it can be", |m| m.kid = None),
            ("a key without a name", |m| (m.kid, m.keys) = (None, &["rsa-nameless", "ec"])),
            ("keys that mean nothing here", |m| m.keys = &["newer", "short", "secret", "rsa"]),
            ("several audiences, given to us", |m| {
                m.twist = |claims| {
                    claims.insert("aud".to_owned(), json!(["other", "tidegate"]));
                    claims.insert("azp".to_owned(), json!("tidegate"));
                }
            }),
            ("clocks that differ a little", |m| {
                m.twist = |claims| {
                    claims.insert("iat".to_owned(), json!(now() + 30));
                    claims.insert("exp".to_owned(), json!(now() - 30));
                }
            }),
            ("parts of a second", |m| {
                m.twist = |claims| drop(claims.insert("iat".to_owned(), json!(1_700_000_000.5)))
            }),
        ];
        for (what, change) in right {
            provider.change(|manners| {
                *manners = Manners::default();
                change(manners);
            });
            let served = serve(&provider, WITH_SECRET, limits()).await;
            let told = Visitor::new(&served).sign_in("").await;
            assert_eq!(told.status, 303, "{what}: {told:?}");
        }
    });
}

#[test]
fn keys_are_fetched_again_for_one_that_is_new_and_not_too_often() {
    run(async {
        let provider = Provider::new(Manners::default());
        let often = serve(&provider, WITH_SECRET, limits()).await;
        let seldom = serve(
            &provider,
            WITH_SECRET,
            Limits { provider_keys_again: Duration::from_secs(3600), ..limits() },
        )
        .await;
        for served in [&often, &seldom] {
            assert_eq!(Visitor::new(served).sign_in("").await.status, 303);
        }
        let signs = |signs, kid| provider.change(|manners| (manners.signs, manners.kid) = (signs, Some(kid)));
        provider.change(|manners| manners.keys = &["other"]);
        signs(Signs::OtherEc, "other");
        assert_eq!(Visitor::new(&often).sign_in("").await.status, 303);
        // The old key counts no more.
        signs(Signs::Rsa, "rsa");
        assert!(Visitor::new(&often).sign_in("").await.body.contains("not among its keys"));
        signs(Signs::OtherEc, "other");
        let before = provider.count("/keys");
        for _ in 0..3 {
            assert!(Visitor::new(&seldom).sign_in("").await.body.contains("not among its keys"));
        }
        assert_eq!(provider.count("/keys"), before);
    });
}

#[test]
fn names_and_groups_come_from_where_they_are() {
    run(async {
        let rows: [(&str, Change, Named); 7] = [
            (
                "",
                |m| {
                    (m.person, m.userinfo) = (
                        json!({}),
                        Some(json!({"sub": "0001", "email": "ann@example.com", "groups": ["developers"]})),
                    )
                },
                Some(("oidc:ann@example.com", "read-only")),
            ),
            // What is signed counts more than what is not.
            (
                "",
                |m| {
                    (m.person, m.userinfo) = (
                        json!({"groups": ["developers"]}),
                        Some(json!({"sub": "0001", "preferred_username": "ann", "groups": ["platform"]})),
                    )
                },
                Some(("oidc:ann", "read-only")),
            ),
            (
                "",
                |m| {
                    (m.person, m.userinfo) = (json!({}), Some(json!({"sub": "0002", "groups": ["platform"]})))
                },
                None,
            ),
            ("", |m| (m.person, m.userinfo) = (json!({"preferred_username": "ann"}), None), None),
            (
                "nameClaim: upn\ngroupsClaim: https://example.com/teams\n",
                |m| m.person = json!({"upn": "Ann", "https://example.com/teams": ["platform"], "groups": ["developers"]}),
                Some(("oidc:Ann", "operator")),
            ),
            (
                "nameClaim: email\n",
                |m| {
                    m.person =
                        json!({"email": "ann@example.com", "email_verified": false, "groups": ["platform"]})
                },
                None,
            ),
            ("", |m| m.person = json!({"groups": ["platform"], "preferred_username": "\u{202e}nna"}), None),
        ];
        for (more, change, expected) in rows {
            let mut manners = Manners::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let served = serve(&provider, &format!("{WITH_SECRET}{more}"), limits()).await;
            let mut visitor = Visitor::new(&served);
            let told = visitor.sign_in("").await;
            let who = visitor.who().await;
            let found = who["role"].as_str().map(|role| (who["name"].as_str().unwrap(), role));
            assert_eq!(found, expected, "{more}: {told:?}");
        }
        // A single person has a role by the name that the provider gives to nobody else.
        let provider = Provider::new(Manners {
            person: json!({"email": "ann@example.com", "groups": []}),
            ..Manners::default()
        });
        let people = provider.settings(&format!("{WITH_SECRET}nameClaim: email\n"));
        let people = people.replace("}}", "}, people: {ann@example.com: operator}}");
        let served = serve_with(&people, limits()).await;
        let mut visitor = Visitor::new(&served);
        visitor.sign_in("").await;
        assert_eq!(visitor.who().await["role"], json!("operator"));
    });
}
