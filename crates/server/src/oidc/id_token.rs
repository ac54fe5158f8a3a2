//! Validation of ID tokens.
//!
//! A library checks the signature. This module strictly checks the required claims, including their types.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Header, Validation, decode, decode_header,
};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::identity::Claims;
use crate::tokens::is_same;

/// Accepted algorithms. Symmetric algorithms are excluded, because they would let anyone with the public key
/// sign tokens.
const ACCEPTED_ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// Accepted types of tokens. Providers mark other tokens that they sign with the same keys, for example with
/// `at+jwt` or `logout+jwt`.
const ACCEPTED_TYPES: [&str; 2] = ["jwt", "jose"];
/// Tolerated clock difference, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 256 << 10;
/// Minimum length of an RSA key's modulus in bytes (2048 bits).
const MODULUS_MIN: usize = 256;
/// Length of an Ed25519 key in bytes. The library panics on a shorter key.
const ED25519_LENGTH: usize = 32;
/// Maximum number of keys to consider.
const KEYS_MAX: usize = 64;

/// Public keys of a provider.
#[derive(Default)]
pub(super) struct KeySet(Vec<PublicKey>);

struct PublicKey {
    id: Option<String>,
    /// Algorithms that the key's curve and its `alg` field require.
    required_algorithms: [Option<KeyAlgorithm>; 2],
    key: DecodingKey,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a key set, skipping keys that Tidegate can't use for signatures, such as unknown key types.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let written: KeySetDocument = serde_json::from_slice(text).ok()?;
        let read = |value| -> Option<PublicKey> {
            let jwk: Jwk = serde_json::from_value(value).ok()?;
            let by_curve = match &jwk.algorithm {
                AlgorithmParameters::RSA(_) => None,
                AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                    Some(KeyAlgorithm::ES256)
                }
                AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => {
                    Some(KeyAlgorithm::ES384)
                }
                AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                    Some(KeyAlgorithm::EdDSA)
                }
                _ => return None,
            };
            let signs = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
            let key = DecodingKey::from_jwk(&jwk).ok()?;
            let required_algorithms = [by_curve, jwk.common.key_algorithm];
            (signs && has_valid_length(&key)).then_some(PublicKey {
                id: jwk.common.key_id,
                required_algorithms,
                key,
            })
        };
        Some(Self(written.keys.into_iter().take(KEYS_MAX).filter_map(read).collect()))
    }

    /// Returns the only key that fits a token's header.
    fn find_key(&self, header: &Header) -> Option<&PublicKey> {
        let algorithm = KeyAlgorithm::from(header.alg);
        let fits = |key: &&PublicKey| {
            key.key.family() == header.alg.family()
                && key.required_algorithms.iter().flatten().all(|required| *required == algorithm)
                && header.kid.as_ref().is_none_or(|wanted| key.id.as_ref() == Some(wanted))
        };
        let mut fitting = self.0.iter().filter(fits);
        fitting.next().filter(|_| fitting.next().is_none())
    }
}

fn has_valid_length(key: &DecodingKey) -> bool {
    match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => {
            n.iter().skip_while(|byte| **byte == 0).count() >= MODULUS_MIN
        }
        // The library checks the length of points on other curves.
        DecodingKeyKind::SecretOrDer(bytes) => {
            key.family() != AlgorithmFamily::Ed || bytes.len() == ED25519_LENGTH
        }
    }
}

/// Expected values of a token's claims.
pub(super) struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// Access token that the provider issued together with the token.
    pub access_token: &'a str,
    /// Algorithms advertised by the provider.
    pub algorithms: &'a [String],
}

/// Reason for rejecting a token. The message never includes any part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("is not a signed token")]
    Malformed,
    #[error("is not an ID token, according to the type in its header")]
    WrongType,
    #[error("uses an unsupported signature algorithm, such as `none` or an HMAC")]
    UnsupportedAlgorithm,
    #[error("is signed with a key that is not in the key set")]
    UnknownKey,
    #[error("has an invalid signature")]
    InvalidSignature,
    #[error("was not issued by the configured issuer")]
    WrongIssuer,
    #[error("is not intended for this service")]
    WrongAudience,
    #[error("has no expiry time or has expired")]
    Expired,
    #[error(
        "has no issue time, or its issue time is in the future; synchronize the clocks of the provider and the service"
    )]
    NotYetValid,
    #[error("has a nonce that does not match the request")]
    WrongNonce,
    #[error("was issued with a different access token")]
    WrongAccessToken,
    #[error("has no subject")]
    MissingSubject,
}

/// Validates a token and returns its claims.
pub(super) fn validate_token(
    token: &str,
    keys: &KeySet,
    expected: &ExpectedClaims<'_>,
    now_seconds: u64,
) -> Result<Claims, TokenError> {
    if token.len() > TOKEN_MAX {
        return Err(TokenError::Malformed);
    }
    // The library fails to parse the header if the algorithm is unknown or `none`.
    let header = decode_header(token).map_err(|error| match error.kind() {
        jsonwebtoken::errors::ErrorKind::Json(_) => TokenError::UnsupportedAlgorithm,
        _ => TokenError::Malformed,
    })?;
    let name = format!("{:?}", header.alg);
    if !ACCEPTED_ALGORITHMS.contains(&header.alg) || !expected.algorithms.contains(&name) {
        return Err(TokenError::UnsupportedAlgorithm);
    }
    // Tidegate doesn't support any critical extensions.
    if header.crit.is_some() {
        return Err(TokenError::Malformed);
    }
    // A content type announces a nested token.
    if !header.typ.as_deref().is_none_or(is_accepted_type) || header.cty.is_some() {
        return Err(TokenError::WrongType);
    }
    let key = keys.find_key(&header).ok_or(TokenError::UnknownKey)?;
    let mut signature_alone = Validation::new(header.alg);
    signature_alone.required_spec_claims.clear();
    (signature_alone.validate_exp, signature_alone.validate_aud) = (false, false);
    let claims =
        decode::<Claims>(token, &key.key, &signature_alone).map_err(|_| TokenError::InvalidSignature)?.claims;
    check_claims(&claims, expected, now_seconds)?;
    if let Some(hash) = claims.get("at_hash")
        && hash.as_str() != Some(access_token_hash(expected.access_token, header.alg).as_str())
    {
        return Err(TokenError::WrongAccessToken);
    }
    Ok(claims)
}

fn is_accepted_type(written: &str) -> bool {
    let name = written.to_ascii_lowercase();
    ACCEPTED_TYPES.contains(&name.strip_prefix("application/").unwrap_or(&name))
}

/// Returns the left half of an access token's digest, computed with the hash function of the ID token's
/// algorithm.
fn access_token_hash(access_token: &str, algorithm: Algorithm) -> String {
    let digest = match algorithm {
        Algorithm::RS256 | Algorithm::PS256 | Algorithm::ES256 => Sha256::digest(access_token).to_vec(),
        Algorithm::RS384 | Algorithm::PS384 | Algorithm::ES384 => Sha384::digest(access_token).to_vec(),
        _ => Sha512::digest(access_token).to_vec(),
    };
    BASE64_URL_SAFE_NO_PAD.encode(digest.split_at(digest.len() / 2).0)
}

fn check_claims(claims: &Claims, expected: &ExpectedClaims<'_>, now_seconds: u64) -> Result<(), TokenError> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(TokenError::WrongIssuer);
    }
    let (is_for_us, is_for_others) = match claims.get("aud") {
        Some(Value::String(one)) => (one == expected.client_id, false),
        Some(Value::Array(all)) => {
            (all.iter().any(|one| one.as_str() == Some(expected.client_id)), all.len() > 1)
        }
        _ => (false, false),
    };
    let is_given_to_us = match claims.get("azp") {
        None => !is_for_others,
        Some(azp) => azp.as_str() == Some(expected.client_id),
    };
    if !is_for_us || !is_given_to_us {
        return Err(TokenError::WrongAudience);
    }
    let moment = |claim: &str| claims.get(claim).and_then(timestamp_seconds);
    let soon = now_seconds.saturating_add(LEEWAY_SECONDS);
    if moment("exp").is_none_or(|exp| exp.saturating_add(LEEWAY_SECONDS) <= now_seconds) {
        return Err(TokenError::Expired);
    }
    let is_early = |claim: &str| moment(claim).is_none_or(|moment| moment > soon);
    if is_early("iat") || (claims.contains_key("nbf") && is_early("nbf")) {
        return Err(TokenError::NotYetValid);
    }
    if !text("nonce").is_some_and(|nonce| is_same(nonce, expected.nonce)) {
        return Err(TokenError::WrongNonce);
    }
    match text("sub") {
        Some(subject) if !subject.is_empty() => Ok(()),
        _ => Err(TokenError::MissingSubject),
    }
}

/// Returns a timestamp in seconds. Some providers send fractions.
fn timestamp_seconds(value: &Value) -> Option<u64> {
    let parts = || value.as_f64()?.trunc().to_string().parse().ok();
    value.as_u64().or_else(parts)
}
