//! Claims from a provider: rejected tokens, and the sources of names and groups.

use std::time::Duration;

use serde_json::json;
use tidegate_server::Limits;

use super::{Browser, ProviderChange, WITH_SECRET, limits, serve, serve_with_provider_settings};
use crate::client::run_test;
use crate::provider::{Provider, ProviderBehavior, Signs, now};

/// Name and role of a signed-in user; `None` if the sign-in fails.
type SignedInAs = Option<(&'static str, &'static str)>;
/// A test case: description, change to a well-behaved provider, and expected message.
type Row = (&'static str, ProviderChange, &'static str);

const TOKENS: [Row; 36] = [
    (
        "another key of the same curve",
        |m| (m.signs, m.kid) = (Signs::OtherEc, Some("ec")),
        "has an invalid signature",
    ),
    ("changed after it was signed", |m| m.signs = Signs::Changed, "has an invalid signature"),
    ("alg none", |m| m.signs = Signs::None, "uses an unsupported signature algorithm"),
    (
        "HMAC with the public key",
        |m| m.signs = Signs::WithPublicKey,
        "uses an unsupported signature algorithm",
    ),
    (
        "HMAC with a secret of the set",
        |m| (m.signs, m.keys) = (Signs::WithPublicKey, &["secret"]),
        "uses an unsupported signature algorithm",
    ),
    ("an unknown algorithm", |m| m.signs = Signs::Unknown, "uses an unsupported signature algorithm"),
    ("something critical", |m| m.signs = Signs::Critical, "is not a signed token"),
    ("no token", |m| m.signs = Signs::Garbage, "is not a signed token"),
    ("an unknown key", |m| m.kid = Some("withdrawn"), "is signed with a key that is not in the key set"),
    ("a key of another kind", |m| m.kid = Some("ec"), "is signed with a key that is not in the key set"),
    (
        "no key, and two that it can be",
        |m| (m.signs, m.kid, m.keys) = (Signs::Ec, None, &["ec", "other"]),
        "is signed with a key that is not in the key set",
    ),
    (
        "a key for something else",
        |m| m.keys = &["rsa-for-encryption"],
        "is signed with a key that is not in the key set",
    ),
    ("a key that is too short", |m| m.keys = &["short"], "is signed with a key that is not in the key set"),
    (
        "two keys with the same name",
        |m| (m.signs, m.kid, m.keys) = (Signs::Ec, Some("ec"), &["ec", "ec-again"]),
        "is signed with a key that is not in the key set",
    ),
    (
        "an Ed25519 key that is too short",
        |m| (m.signs, m.kid, m.keys) = (Signs::Ed, Some("ed"), &["ed-short"]),
        "is signed with a key that is not in the key set",
    ),
    (
        "a key on another curve",
        |m| (m.signs, m.kid, m.keys) = (Signs::Ed, Some("ed"), &["ed-on-another-curve"]),
        "is signed with a key that is not in the key set",
    ),
    ("an access token", |m| m.signs = Signs::Typed("at+jwt"), "is not an ID token"),
    ("a logout token", |m| m.signs = Signs::Typed("application/logout+jwt"), "is not an ID token"),
    ("a token in a token", |m| m.signs = Signs::Nested, "is not an ID token"),
    (
        "another access token",
        // The hash of `another-access-token`.
        |m| m.twist = |claims| drop(claims.insert("at_hash".to_owned(), json!("VPG2zc34_wxAgi9LFKza1A"))),
        "was issued with a different access token",
    ),
    (
        "a hash that is not a text",
        |m| m.twist = |claims| drop(claims.insert("at_hash".to_owned(), json!(null))),
        "was issued with a different access token",
    ),
    (
        "another issuer",
        |m| m.twist = |claims| drop(claims.insert("iss".to_owned(), json!("https://evil.example"))),
        "was not issued by the configured issuer",
    ),
    (
        "several issuers",
        |m| {
            m.twist = |claims| {
                let own = claims["iss"].clone();
                claims.insert("iss".to_owned(), json!([own, "https://evil.example"]));
            }
        },
        "was not issued by the configured issuer",
    ),
    (
        "another audience",
        |m| m.twist = |claims| drop(claims.insert("aud".to_owned(), json!("other"))),
        "is not intended for this service",
    ),
    ("no audience", |m| m.twist = |claims| drop(claims.remove("aud")), "is not intended for this service"),
    (
        "several audiences without an authorized party",
        |m| m.twist = |claims| drop(claims.insert("aud".to_owned(), json!(["tidegate", "other"]))),
        "is not intended for this service",
    ),
    (
        "issued to another client",
        |m| m.twist = |claims| drop(claims.insert("azp".to_owned(), json!("other"))),
        "is not intended for this service",
    ),
    ("over", |m| m.twist = |claims| drop(claims.insert("exp".to_owned(), json!(now() - 120))), "has expired"),
    ("no end", |m| m.twist = |claims| drop(claims.remove("exp")), "has no expiry time"),
    (
        "an end that is a text",
        |m| m.twist = |claims| drop(claims.insert("exp".to_owned(), json!("9999999999"))),
        "has no expiry time",
    ),
    (
        "in the future",
        |m| m.twist = |claims| drop(claims.insert("iat".to_owned(), json!(now() + 600))),
        "in the future",
    ),
    (
        "not yet",
        |m| m.twist = |claims| drop(claims.insert("nbf".to_owned(), json!(now() + 600))),
        "in the future",
    ),
    (
        "another nonce",
        |m| m.twist = |claims| drop(claims.insert("nonce".to_owned(), json!("x"))),
        "has a nonce that does not match the request",
    ),
    (
        "no nonce",
        |m| m.twist = |claims| drop(claims.remove("nonce")),
        "has a nonce that does not match the request",
    ),
    ("nobody", |m| m.twist = |claims| drop(claims.insert("sub".to_owned(), json!(""))), "has no subject"),
    (
        "a name with a line in it",
        |m| m.person = json!({"preferred_username": "ann\nben", "groups": ["platform"]}),
        "invisible characters",
    ),
];

#[test]
fn an_invalid_id_token_is_rejected() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        for (what, change, part) in TOKENS {
            provider.change(|manners| {
                *manners = ProviderBehavior::default();
                change(manners);
            });
            // This service has not fetched any keys yet.
            let server = serve(&provider, WITH_SECRET, limits()).await;
            let mut visitor = Browser::new(&server);
            let response = visitor.sign_in("").await;
            assert!(
                response.body.contains(part) && matches!(response.status, 502 | 403),
                "{what}: {response:?}"
            );
            assert!(
                !response.body.contains("eyJ") && !response.body.contains("an-access-token"),
                "{what}: {response:?}"
            );
            assert_eq!(
                (visitor.session().await["role"].clone(), visitor.cookies.len()),
                (json!(null), 0),
                "{what}"
            );
        }
        let right: [(&str, ProviderChange); 12] = [
            ("on a curve", |m| (m.signs, m.kid) = (Signs::Ec, Some("ec"))),
            ("on an Edwards curve", |m| (m.signs, m.kid, m.keys) = (Signs::Ed, Some("ed"), &["rsa", "ed"])),
            ("a media type", |m| m.signs = Signs::Typed("application/jwt")),
            ("a general type", |m| m.signs = Signs::Typed("JOSE")),
            ("the access token, hashed with SHA-256", |m| {
                m.twist = |claims| drop(claims.insert("at_hash".to_owned(), json!("YiHPD2T9DaX5B837XJXtow")))
            }),
            ("the access token, hashed with SHA-512", |m| {
                (m.signs, m.kid, m.keys) = (Signs::Ed, Some("ed"), &["ed"]);
                m.twist = |claims| {
                    claims.insert("at_hash".to_owned(), json!("nM_8k04LoVPQDh1346b6eHC5pCiIJeMDBg3Dhz6Pbt4"));
                }
            }),
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
                *manners = ProviderBehavior::default();
                change(manners);
            });
            let server = serve(&provider, WITH_SECRET, limits()).await;
            let response = Browser::new(&server).sign_in("").await;
            assert_eq!(response.status, 303, "{what}: {response:?}");
        }
    });
}

#[test]
fn keys_are_refetched_for_an_unknown_key_but_not_too_often() {
    run_test(async {
        let provider = Provider::new(ProviderBehavior::default());
        let often = serve(&provider, WITH_SECRET, limits()).await;
        let seldom = serve(
            &provider,
            WITH_SECRET,
            Limits { provider_keys_interval: Duration::from_secs(3600), ..limits() },
        )
        .await;
        for server in [&often, &seldom] {
            assert_eq!(Browser::new(server).sign_in("").await.status, 303);
        }
        let signs = |signs, kid| provider.change(|manners| (manners.signs, manners.kid) = (signs, Some(kid)));
        provider.change(|manners| manners.keys = &["other"]);
        signs(Signs::OtherEc, "other");
        assert_eq!(Browser::new(&often).sign_in("").await.status, 303);
        // The old key is no longer valid.
        signs(Signs::Rsa, "rsa");
        assert!(Browser::new(&often).sign_in("").await.body.contains("not in the key set"));
        signs(Signs::OtherEc, "other");
        let before = provider.count("/keys");
        for _ in 0..3 {
            assert!(Browser::new(&seldom).sign_in("").await.body.contains("not in the key set"));
        }
        assert_eq!(provider.count("/keys"), before);
    });
}

#[test]
fn names_and_groups_come_from_the_configured_claims() {
    run_test(async {
        let rows: [(&str, ProviderChange, SignedInAs); 7] = [
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
            // Signed claims take precedence over unsigned ones.
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
            let mut manners = ProviderBehavior::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let server = serve(&provider, &format!("{WITH_SECRET}{more}"), limits()).await;
            let mut visitor = Browser::new(&server);
            let response = visitor.sign_in("").await;
            let who = visitor.session().await;
            let found = who["role"].as_str().map(|role| (who["name"].as_str().unwrap(), role));
            assert_eq!(found, expected, "{more}: {response:?}");
        }
        // A single user receives a role by the unique name from the provider.
        let provider = Provider::new(ProviderBehavior {
            person: json!({"email": "ann@example.com", "groups": []}),
            ..ProviderBehavior::default()
        });
        let people = provider.settings(&format!("{WITH_SECRET}nameClaim: email\n"));
        let people = people.replace("}}", "}, people: {ann@example.com: operator}}");
        let server = serve_with_provider_settings(&people, limits()).await;
        let mut visitor = Browser::new(&server);
        visitor.sign_in("").await;
        assert_eq!(visitor.session().await["role"], json!("operator"));
    });
}
