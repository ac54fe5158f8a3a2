//! What a provider says of somebody, signed: whether it counts.
//!
//! The signature is checked by a library; what has to be in the token, here, and strictly: a claim of another type than it
//! has to have counts for nothing.

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, Header, Validation, decode, decode_header,
};
use serde::Deserialize;
use serde_json::Value;

use super::person::Claims;
use crate::tokens::is_same;

/// What is believed. None of them has a secret that both sides know, as then whoever has the public key could sign.
const BELIEVED: [Algorithm; 9] = [
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
/// How much the clocks of both may differ.
const LEEWAY_SECONDS: u64 = 60;
/// The longest token that is looked at, in bytes.
const TOKEN_MAX: usize = 256 << 10;
/// The shortest modulus of an RSA key, in bytes: 2048 bits.
const MODULUS_MIN: usize = 256;
/// The most keys that are looked at.
const KEYS_MAX: usize = 64;

/// The public keys of a provider.
#[derive(Default)]
pub(super) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    algorithm: Option<KeyAlgorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct WrittenKeys {
    keys: Vec<Value>,
}

impl Keys {
    /// Reads a set of keys. Those that nobody could sign with here are left out, also for what is newer than this program.
    pub fn read(text: &[u8]) -> Option<Self> {
        let written: WrittenKeys = serde_json::from_slice(text).ok()?;
        let read = |value| -> Option<Key> {
            let jwk: Jwk = serde_json::from_value(value).ok()?;
            let is_public = matches!(
                jwk.algorithm,
                AlgorithmParameters::RSA(_)
                    | AlgorithmParameters::EllipticCurve(_)
                    | AlgorithmParameters::OctetKeyPair(_)
            );
            let signs = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
            let key = DecodingKey::from_jwk(&jwk).ok().filter(|key| is_public && signs && is_long(key))?;
            Some(Key { id: jwk.common.key_id, algorithm: jwk.common.key_algorithm, key })
        };
        Some(Self(written.keys.into_iter().take(KEYS_MAX).filter_map(read).collect()))
    }

    /// The key that a token names. One that names none is believed where there is but one that it can be.
    fn of(&self, header: &Header) -> Option<&Key> {
        let fits = |key: &&Key| {
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

/// The curve of an algorithm on curves is that of the key: a point is so many bytes.
fn is_on_curve(key: &DecodingKey, algorithm: Algorithm) -> bool {
    let bytes = key.try_get_as_bytes().map_or(0, <[u8]>::len);
    match algorithm {
        Algorithm::ES256 => bytes == 65,
        Algorithm::ES384 => bytes == 97,
        _ => true,
    }
}

fn is_long(key: &DecodingKey) -> bool {
    match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => {
            n.iter().skip_while(|byte| **byte == 0).count() >= MODULUS_MIN
        }
        DecodingKeyKind::SecretOrDer(_) => key.family() != AlgorithmFamily::Rsa,
    }
}

/// What a token has to say.
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    pub client_id: &'a str,
    pub nonce: &'a str,
    /// What the provider says it signs with.
    pub algorithms: &'a [String],
}

/// Why a token does not count. Shows nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untrue {
    #[error("is no signed token")]
    Form,
    #[error("is signed in a way that is not believed, such as `none` or with a secret")]
    Algorithm,
    #[error("is signed with a key that is not among its keys")]
    Key,
    #[error("has a signature that is not right")]
    Signature,
    #[error("is of another issuer")]
    Issuer,
    #[error("is for somebody else than this service")]
    Audience,
    #[error("has no time at which it ends, or was over before it came")]
    Expired,
    #[error("is from the future, or does not say when it was made; the clocks of both are to agree")]
    Early,
    #[error("answers another question than ours")]
    Nonce,
    #[error("does not say whom it is about")]
    Subject,
}

/// What a token says, if it is right in all.
pub(super) fn check(
    token: &str,
    keys: &Keys,
    expected: &Expected<'_>,
    now_seconds: u64,
) -> Result<Claims, Untrue> {
    if token.len() > TOKEN_MAX {
        return Err(Untrue::Form);
    }
    // Algorithms that are not known, `none` among them, are not read at all.
    let header = decode_header(token).map_err(|error| match error.kind() {
        jsonwebtoken::errors::ErrorKind::Json(_) => Untrue::Algorithm,
        _ => Untrue::Form,
    })?;
    let name = format!("{:?}", header.alg);
    if !BELIEVED.contains(&header.alg) || !expected.algorithms.contains(&name) {
        return Err(Untrue::Algorithm);
    }
    // What has to be understood is something that we do not know.
    if header.crit.is_some() {
        return Err(Untrue::Form);
    }
    let key = keys.of(&header).ok_or(Untrue::Key)?;
    let mut signature_alone = Validation::new(header.alg);
    signature_alone.required_spec_claims.clear();
    (signature_alone.validate_exp, signature_alone.validate_aud) = (false, false);
    let claims = decode::<Claims>(token, &key.key, &signature_alone).map_err(|_| Untrue::Signature)?.claims;
    right(&claims, expected, now_seconds)?;
    Ok(claims)
}

fn right(claims: &Claims, expected: &Expected<'_>, now_seconds: u64) -> Result<(), Untrue> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(Untrue::Issuer);
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
        return Err(Untrue::Audience);
    }
    let moment = |claim: &str| claims.get(claim).and_then(seconds);
    let soon = now_seconds.saturating_add(LEEWAY_SECONDS);
    if moment("exp").is_none_or(|exp| exp.saturating_add(LEEWAY_SECONDS) <= now_seconds) {
        return Err(Untrue::Expired);
    }
    let is_early = |claim: &str| moment(claim).is_none_or(|moment| moment > soon);
    if is_early("iat") || (claims.contains_key("nbf") && is_early("nbf")) {
        return Err(Untrue::Early);
    }
    if !text("nonce").is_some_and(|nonce| is_same(nonce, expected.nonce)) {
        return Err(Untrue::Nonce);
    }
    match text("sub") {
        Some(subject) if !subject.is_empty() => Ok(()),
        _ => Err(Untrue::Subject),
    }
}

/// A moment, of which providers may write parts of a second.
fn seconds(value: &Value) -> Option<u64> {
    let parts = || value.as_f64()?.trunc().to_string().parse().ok();
    value.as_u64().or_else(parts)
}
