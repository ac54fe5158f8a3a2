//! Validation of ID tokens.
//!
//! A library checks the signature. This module strictly checks the required claims, including their types.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Header, Validation, decode, decode_header,
};
use serde::Deserialize;
use serde_json::Value;

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
/// Tolerated clock difference, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 256 << 10;
/// Minimum length of an RSA key's modulus in bytes (2048 bits).
const MODULUS_MIN: usize = 256;
/// Maximum number of keys to consider.
const KEYS_MAX: usize = 64;

/// Public keys of a provider.
#[derive(Default)]
pub(super) struct KeySet(Vec<PublicKey>);

struct PublicKey {
    id: Option<String>,
    algorithm: Option<KeyAlgorithm>,
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
            let is_public = matches!(
                jwk.algorithm,
                AlgorithmParameters::RSA(_)
                    | AlgorithmParameters::EllipticCurve(_)
                    | AlgorithmParameters::OctetKeyPair(_)
            );
            let signs = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
            let key = DecodingKey::from_jwk(&jwk)
                .ok()
                .filter(|key| is_public && signs && has_minimum_length(key))?;
            Some(PublicKey { id: jwk.common.key_id, algorithm: jwk.common.key_algorithm, key })
        };
        Some(Self(written.keys.into_iter().take(KEYS_MAX).filter_map(read).collect()))
    }

    /// Returns the key named in a token's header. Without a name, exactly one key must be suitable.
    fn find_key(&self, header: &Header) -> Option<&PublicKey> {
        let fits = |key: &&PublicKey| {
            key.key.family() == header.alg.family()
                && is_on_curve(&key.key, header.alg)
                && key.algorithm.is_none_or(|algorithm| algorithm == KeyAlgorithm::from(header.alg))
                && header.kid.as_ref().is_none_or(|wanted| key.id.as_ref() == Some(wanted))
        };
        let mut fitting = self.0.iter().filter(fits);
        let first = fitting.next()?;
        (header.kid.is_some() || fitting.next().is_none()).then_some(first)
    }
}

/// Checks that the key is on the algorithm's curve, based on the length of the encoded point.
fn is_on_curve(key: &DecodingKey, algorithm: Algorithm) -> bool {
    let bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    match algorithm {
        Algorithm::ES256 => bytes == 65,
        Algorithm::ES384 => bytes == 97,
        _ => true,
    }
}

fn has_minimum_length(key: &DecodingKey) -> bool {
    match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => {
            n.iter().skip_while(|byte| **byte == 0).count() >= MODULUS_MIN
        }
        DecodingKeyKind::SecretOrDer(_) => key.family() != AlgorithmFamily::Rsa,
    }
}

/// Expected values of a token's claims.
pub(super) struct ExpectedClaims<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// Algorithms advertised by the provider.
    pub algorithms: &'a [String],
}

/// Reason for rejecting a token. The message never includes any part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("is not a signed token")]
    Malformed,
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
    let key = keys.find_key(&header).ok_or(TokenError::UnknownKey)?;
    let mut signature_alone = Validation::new(header.alg);
    signature_alone.required_spec_claims.clear();
    (signature_alone.validate_exp, signature_alone.validate_aud) = (false, false);
    let claims =
        decode::<Claims>(token, &key.key, &signature_alone).map_err(|_| TokenError::InvalidSignature)?.claims;
    check_claims(&claims, expected, now_seconds)?;
    Ok(claims)
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
