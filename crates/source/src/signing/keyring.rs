//! The public keys that signatures are checked with.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gix::ObjectId;
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureConfig, SignatureType, SubpacketData};
use tidegate_model::Timestamp;

use super::certificate::{Signer, signers};
use super::flaw::Flaw;
use super::key_id::KeyId;
use crate::error::plain;

/// The longest signature, as it is written.
const SIGNATURE_MAX: usize = 64 << 10;
/// So many signatures that were found to be good are remembered.
const KNOWN_MAX: usize = 4096;
/// Clocks differ.
const AHEAD_SECONDS: i64 = 300;

/// The public keys that signatures are checked with.
#[derive(Default)]
pub(crate) struct Keyring {
    /// As they are written, by their names.
    written: BTreeMap<String, String>,
    signers: Vec<Signer>,
    /// What is signed, by its id, which says all of it, and for a tag by its name and its commit.
    known: Mutex<BTreeMap<Signed, Good>>,
}

/// What is signed: an object, its name where it is a tag, and the commit that it vouches for.
pub(super) type Signed = (ObjectId, Option<String>, ObjectId);

/// A signature that was good when it was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Good {
    pub key: KeyId,
    /// That of the public key which that belongs to.
    pub primary: KeyId,
    /// When the key expires, and when the signature does, in seconds since 1970.
    key_until: Option<i64>,
    until: Option<i64>,
}

impl Keyring {
    /// The keys of a ConfigMap. One that cannot be used costs those alone whose commits are signed with it; it is told.
    pub fn new(written: BTreeMap<String, String>) -> Self {
        let mut all = Vec::new();
        for (name, armored) in &written {
            match read(name, armored) {
                Ok(signers) => all.extend(signers),
                Err(why) => tracing::warn!(key = name, why, "a key of argocd-gpg-keys-cm cannot be used"),
            }
        }
        Self { written, signers: all, known: Mutex::default() }
    }

    /// Whether it is made of these.
    pub fn is_of(&self, written: &BTreeMap<String, String>) -> bool {
        self.written == *written
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Signed, Good>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The signature of an object that was good before, if it still is.
    pub(super) fn remembered(&self, signed: &Signed, now: Timestamp) -> Option<Result<Good, Flaw>> {
        let good = self.known().get(signed).copied()?;
        Some(good.at(now).map(|()| good))
    }

    pub(super) fn remember(&self, signed: Signed, good: Good) {
        let mut known = self.known();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(signed, good);
    }

    /// By whom these bytes are signed, if all is well with the signature and with the key, now.
    pub(super) fn check(&self, armored: &[u8], of: &[u8], now: Timestamp) -> Result<Good, Flaw> {
        let signature = one(armored)?;
        let config = signature.config().ok_or_else(|| unreadable("its version is not known"))?;
        let is_of_bytes = matches!(config.typ, SignatureType::Binary | SignatureType::Text);
        if !is_of_bytes || asks_too_much(config) {
            return Err(unreadable("it is no signature of a text, or it asks for what is not known"));
        }
        let named = names(&signature);
        let is_meant = |signer: &&Signer| named.is_empty() || named.contains(&signer.id);
        let meant: Vec<&Signer> = self.signers.iter().filter(is_meant).collect();
        let made = meant.iter().find(|signer| signer.has_made(&signature, of));
        match (made, named.first()) {
            (Some(signer), _) => judged(signer, &signature, config, now),
            (None, None) => Err(Flaw::Nameless),
            (None, Some(named)) if meant.is_empty() => Err(Flaw::Unknown(*named)),
            (None, Some(named)) => Err(Flaw::Bad(*named)),
        }
    }
}

/// Whether all else is well, where the signature is the key's.
fn judged(
    signer: &Signer,
    signature: &Signature,
    config: &SignatureConfig,
    now: Timestamp,
) -> Result<Good, Flaw> {
    let key = signer.id;
    use HashAlgorithm as Hash;
    let is_safe = matches!(
        config.hash_alg,
        Hash::Sha224 | Hash::Sha256 | Hash::Sha384 | Hash::Sha512 | Hash::Sha3_256 | Hash::Sha3_512
    );
    if !is_safe {
        return Err(Flaw::Weak { key, hash: config.hash_alg.to_string() });
    }
    if signer.is_revoked {
        return Err(Flaw::Revoked(key));
    }
    if !signer.is_for_signing {
        return Err(Flaw::NotForSigning(key));
    }
    let made = signature.created().map(|at| i64::from(at.as_secs()));
    let Some(made) =
        made.filter(|at| *at >= signer.made_at && *at <= now.as_seconds().saturating_add(AHEAD_SECONDS))
    else {
        return Err(Flaw::Untimely(key));
    };
    let lasts = signature.signature_expiration_time().map(|lasts| i64::from(lasts.as_secs()));
    let until = lasts.filter(|lasts| *lasts > 0).map(|lasts| made.saturating_add(lasts));
    let good = Good { key, primary: signer.primary, key_until: signer.expires_at, until };
    good.at(now).map(|()| good)
}

impl Good {
    /// Whether it is good at a time.
    fn at(&self, now: Timestamp) -> Result<(), Flaw> {
        let over = |until: Option<i64>| {
            let until = until.filter(|until| *until <= now.as_seconds())?;
            Some(Timestamp::from_millis(until.saturating_mul(1000)))
        };
        match (over(self.key_until), over(self.until)) {
            (Some(at), _) => Err(Flaw::Expired { key: self.key, at }),
            (None, Some(at)) => Err(Flaw::Over { key: self.key, at }),
            (None, None) => Ok(()),
        }
    }
}

fn unreadable(why: &str) -> Flaw {
    Flaw::Unreadable(plain(why))
}

/// The only signature that is written there.
fn one(armored: &[u8]) -> Result<Signature, Flaw> {
    if armored.len() > SIGNATURE_MAX {
        return Err(unreadable(&format!("it is longer than {} KiB", SIGNATURE_MAX >> 10)));
    }
    let wrong = |error: pgp::errors::Error| unreadable(&error.to_string());
    let (mut found, _) = DetachedSignature::from_armor_many_buf(armored).map_err(wrong)?;
    let first = found.next().ok_or_else(|| unreadable("there is none in it"))?.map_err(wrong)?;
    match found.next() {
        Some(_) => Err(Flaw::Several),
        None => Ok(first.signature),
    }
}

/// Whether it says something that has to be understood and is not.
fn asks_too_much(config: &SignatureConfig) -> bool {
    config.hashed_subpackets().any(|part| {
        let is_unknown = matches!(
            part.data,
            SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_)
        );
        part.is_critical && is_unknown
    })
}

/// The keys that a signature names as its own.
fn names(signature: &Signature) -> Vec<KeyId> {
    let ids = signature.issuer_key_id().into_iter().map(KeyId::from);
    let fingerprints = signature.issuer_fingerprint();
    fingerprints.into_iter().filter_map(KeyId::in_fingerprint).chain(ids).collect()
}

/// The keys of one entry, which is named after one of them.
fn read(name: &str, armored: &str) -> Result<Vec<Signer>, String> {
    let named = KeyId::parse(name).ok_or("it is to be under its id, of 16 hexadecimal digits or more")?;
    let wrong = |error: pgp::errors::Error| plain(&error.to_string());
    let (found, _) = SignedPublicKey::from_armor_many_buf(armored.as_bytes()).map_err(wrong)?;
    let mut all = Vec::new();
    for certificate in found {
        let certificate = certificate.map_err(wrong)?;
        all.extend(signers(&certificate).ok_or("it does not say itself that it is one")?);
    }
    if all.iter().any(|signer| signer.id == named || signer.primary == named) {
        Ok(all)
    } else {
        let ids: Vec<String> = all.iter().map(|signer| signer.id.to_string()).collect();
        Err(format!("it is another key: {}", ids.join(", ")))
    }
}
