//! Public keys for verifying signatures.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gix::ObjectId;
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureConfig, SignatureType, SubpacketData};
use tidegate_model::Timestamp;

use super::certificate::{Signer, signers};
use super::key_id::KeyId;
use super::signature_error::SignatureError;
use crate::error::to_line;

/// Maximum size of an armored signature, in bytes.
const SIGNATURE_MAX: usize = 64 << 10;
/// Maximum number of valid signatures in the cache.
const CACHED_SIGNATURES_MAX: usize = 4096;
/// Maximum clock skew between this machine and the signer, in seconds.
const CLOCK_SKEW_SECONDS: i64 = 300;

/// Public keys for verifying signatures.
#[derive(Default)]
pub(crate) struct Keyring {
    /// Armored keys by key ID.
    armored: BTreeMap<String, String>,
    signers: Vec<Signer>,
    /// Valid signatures by signed object.
    cache: Mutex<BTreeMap<SignedObject, ValidSignature>>,
}

/// A signed object: its ID, its tag name if it is a tag, and the commit that it refers to.
pub(super) type SignedObject = (ObjectId, Option<String>, ObjectId);

/// A valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValidSignature {
    pub key: KeyId,
    /// ID of the certificate's primary key.
    pub primary: KeyId,
    /// Unix time when the key expires, as opposed to the signature itself (`expires_at`).
    key_expires_at: Option<i64>,
    expires_at: Option<i64>,
}

impl Keyring {
    /// Parses the keys in a ConfigMap. Invalid keys are logged and ignored, so that only commits signed with
    /// them are rejected.
    pub fn new(written: BTreeMap<String, String>) -> Self {
        let mut all = Vec::new();
        for (name, armored) in &written {
            match parse_keys(name, armored) {
                Ok(signers) => all.extend(signers),
                Err(reason) => {
                    tracing::warn!(key = name, reason, "ignored an invalid key in argocd-gpg-keys-cm")
                }
            }
        }
        Self { armored: written, signers: all, cache: Mutex::default() }
    }

    /// Returns true if the keyring contains exactly these keys.
    pub fn has_keys(&self, written: &BTreeMap<String, String>) -> bool {
        self.armored == *written
    }

    fn lock_cache(&self) -> MutexGuard<'_, BTreeMap<SignedObject, ValidSignature>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an object's cached signature, or an error if it or its key has expired.
    pub(super) fn cached(
        &self,
        signed: &SignedObject,
        now: Timestamp,
    ) -> Option<Result<ValidSignature, SignatureError>> {
        let good = self.lock_cache().get(signed).copied()?;
        Some(good.check_at(now).map(|()| good))
    }

    pub(super) fn cache(&self, signed: SignedObject, good: ValidSignature) {
        let mut known = self.lock_cache();
        if known.len() >= CACHED_SIGNATURES_MAX {
            known.clear();
        }
        known.insert(signed, good);
    }

    /// Verifies a signature over these bytes. The signature and its key must be valid at `now`.
    pub(super) fn check(
        &self,
        armored: &[u8],
        of: &[u8],
        now: Timestamp,
    ) -> Result<ValidSignature, SignatureError> {
        let signature = parse_one(armored)?;
        let config = signature.config().ok_or_else(|| unreadable_signature("the version is unknown"))?;
        let is_of_bytes = matches!(config.typ, SignatureType::Binary | SignatureType::Text);
        if !is_of_bytes || has_unsupported_critical_part(config) {
            return Err(unreadable_signature(
                "the signature is not a document signature, or has unknown critical subpackets",
            ));
        }
        let named = issuer_key_ids(&signature);
        let is_meant = |signer: &&Signer| named.is_empty() || named.contains(&signer.id);
        let candidates: Vec<&Signer> = self.signers.iter().filter(is_meant).collect();
        let made = candidates.iter().find(|signer| signer.made_signature(&signature, of));
        match (made, named.first()) {
            (Some(signer), _) => check_conditions(signer, &signature, config, now),
            (None, None) => Err(SignatureError::NoIssuer),
            (None, Some(named)) if candidates.is_empty() => Err(SignatureError::Unknown(*named)),
            (None, Some(named)) => Err(SignatureError::Bad(*named)),
        }
    }
}

/// Checks everything else about a verified signature, such as the purpose and expiry of its key.
fn check_conditions(
    signer: &Signer,
    signature: &Signature,
    config: &SignatureConfig,
    now: Timestamp,
) -> Result<ValidSignature, SignatureError> {
    let key = signer.id;
    use HashAlgorithm as Hash;
    let is_safe = matches!(
        config.hash_alg,
        Hash::Sha224 | Hash::Sha256 | Hash::Sha384 | Hash::Sha512 | Hash::Sha3_256 | Hash::Sha3_512
    );
    if !is_safe {
        return Err(SignatureError::Weak { key, hash: config.hash_alg.to_string() });
    }
    if signer.is_revoked {
        return Err(SignatureError::Revoked(key));
    }
    if !signer.is_for_signing {
        return Err(SignatureError::NotForSigning(key));
    }
    let made = signature.created().map(|at| i64::from(at.as_secs()));
    let Some(made) = made
        .filter(|at| *at >= signer.created_at && *at <= now.as_seconds().saturating_add(CLOCK_SKEW_SECONDS))
    else {
        return Err(SignatureError::NotYetValid(key));
    };
    let lasts = signature.signature_expiration_time().map(|lasts| i64::from(lasts.as_secs()));
    let until = lasts.filter(|lasts| *lasts > 0).map(|lasts| made.saturating_add(lasts));
    let good =
        ValidSignature { key, primary: signer.primary, key_expires_at: signer.expires_at, expires_at: until };
    good.check_at(now).map(|()| good)
}

impl ValidSignature {
    /// Fails if the signature or its key has expired at `now`.
    fn check_at(&self, now: Timestamp) -> Result<(), SignatureError> {
        let over = |until: Option<i64>| {
            let until = until.filter(|until| *until <= now.as_seconds())?;
            Some(Timestamp::from_millis(until.saturating_mul(1000)))
        };
        match (over(self.key_expires_at), over(self.expires_at)) {
            (Some(at), _) => Err(SignatureError::Expired { key: self.key, at }),
            (None, Some(at)) => Err(SignatureError::SignatureExpired { key: self.key, at }),
            (None, None) => Ok(()),
        }
    }
}

fn unreadable_signature(reason: &str) -> SignatureError {
    SignatureError::Unreadable(to_line(reason))
}

/// Parses armored data that contains exactly one signature.
fn parse_one(armored: &[u8]) -> Result<Signature, SignatureError> {
    if armored.len() > SIGNATURE_MAX {
        return Err(unreadable_signature(&format!(
            "the signature is longer than {} KiB",
            SIGNATURE_MAX >> 10
        )));
    }
    let wrong = |error: pgp::errors::Error| unreadable_signature(&error.to_string());
    let (mut found, _) = DetachedSignature::from_armor_many_buf(armored).map_err(wrong)?;
    let first = found.next().ok_or_else(|| unreadable_signature("there is no signature"))?.map_err(wrong)?;
    match found.next() {
        Some(_) => Err(SignatureError::MultipleSignatures),
        None => Ok(first.signature),
    }
}

/// Returns true if the signature has an unsupported critical part.
fn has_unsupported_critical_part(config: &SignatureConfig) -> bool {
    config.hashed_subpackets().any(|part| {
        let is_unknown = matches!(
            part.data,
            SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_)
        );
        part.is_critical && is_unknown
    })
}

/// Returns the issuer key IDs in the signature.
fn issuer_key_ids(signature: &Signature) -> Vec<KeyId> {
    let ids = signature.issuer_key_id().into_iter().map(KeyId::from);
    let fingerprints = signature.issuer_fingerprint();
    fingerprints.into_iter().filter_map(KeyId::from_fingerprint).chain(ids).collect()
}

/// Parses the keys in a ConfigMap entry, which must be named after one of their IDs.
fn parse_keys(name: &str, armored: &str) -> Result<Vec<Signer>, String> {
    let named = KeyId::parse(name)
        .ok_or("the entry's name must be the key ID, with at least 16 hexadecimal digits")?;
    let wrong = |error: pgp::errors::Error| to_line(&error.to_string());
    let (found, _) = SignedPublicKey::from_armor_many_buf(armored.as_bytes()).map_err(wrong)?;
    let mut all = Vec::new();
    for certificate in found {
        let certificate = certificate.map_err(wrong)?;
        all.extend(signers(&certificate).ok_or("the key has no valid self-signature")?);
    }
    if all.iter().any(|signer| signer.id == named || signer.primary == named) {
        Ok(all)
    } else {
        let ids: Vec<String> = all.iter().map(|signer| signer.id.to_string()).collect();
        Err(format!("the entry contains a different key: {}", ids.join(", ")))
    }
}
