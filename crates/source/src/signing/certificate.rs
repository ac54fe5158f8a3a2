//! OpenPGP certificates: their keys and the permitted purposes of each key.
//!
//! Self-signatures define a key's expiry, purposes and revocation; signatures by other keys are ignored. As
//! in GnuPG, the newest valid self-signature counts.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, Tag};

use super::key_id::KeyId;

/// A key in a certificate.
pub(super) struct Signer {
    pub id: KeyId,
    /// ID of the certificate's primary key.
    pub primary: KeyId,
    pub key: Key,
    /// Creation time in seconds since 1970.
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub is_revoked: bool,
    pub is_for_signing: bool,
}

pub(super) enum Key {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

impl Signer {
    /// Returns true if this key made the signature of these bytes.
    pub fn made_signature(&self, signature: &Signature, of: &[u8]) -> bool {
        let verified = match &self.key {
            Key::Primary(key) => signature.verify(key, of),
            Key::Sub(key) => signature.verify(key, of),
        };
        verified.is_ok()
    }
}

/// Returns the keys in a certificate, or `None` without a valid self-signature.
pub(super) fn signers(certificate: &SignedPublicKey) -> Option<Vec<Signer>> {
    let primary = &certificate.primary_key;
    let own = newest_signature(self_signatures(certificate))?;
    let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::KeyRevocation);
    let mut revocations = certificate.details.revocation_signatures.iter().filter(is_revocation);
    let first = Signer {
        id: KeyId::from_key(primary),
        primary: KeyId::from_key(primary),
        key: Key::Primary(primary.clone()),
        created_at: created_at(primary),
        expires_at: expires_at(primary, own),
        is_revoked: revocations.any(|signature| signature.verify_key(primary).is_ok()),
        is_for_signing: is_for_signing(own),
    };
    let others = certificate.public_subkeys.iter().filter_map(|sub| signer_of_subkey(sub, &first));
    let others: Vec<Signer> = others.collect();
    Some(std::iter::once(first).chain(others).collect())
}

/// Returns the self-signatures: direct signatures, and those on user IDs that haven't been revoked.
fn self_signatures(certificate: &SignedPublicKey) -> impl Iterator<Item = &Signature> {
    let primary = &certificate.primary_key;
    let of_users = certificate.details.users.iter().flat_map(move |user| {
        let is_own = move |signature: &&Signature| {
            signature.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        let own: Vec<&Signature> = user.signatures.iter().filter(is_own).collect();
        let is_revocation = |one: &Signature| one.typ() == Some(SignatureType::CertRevocation);
        let revoked = newest_signature(own.iter().copied().filter(|one| is_revocation(one)))
            .and_then(Signature::created);
        own.into_iter()
            .filter(move |one| !is_revocation(one) && revoked.is_none_or(|at| one.created() > Some(at)))
    });
    let direct = certificate.details.direct_signatures.iter();
    let is_direct =
        |one: &&Signature| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok();
    of_users.chain(direct.filter(is_direct))
}

fn signer_of_subkey(sub: &SignedPublicSubKey, primary: &Signer) -> Option<Signer> {
    let Key::Primary(by) = &primary.key else { return None };
    let of = |typ: SignatureType| {
        let is_one =
            move |one: &&Signature| one.typ() == Some(typ) && one.verify_subkey_binding(by, &sub.key).is_ok();
        sub.signatures.iter().filter(is_one)
    };
    let binding = newest_signature(of(SignatureType::SubkeyBinding))?;
    // A subkey must also have signed the primary key, or anyone could claim someone else's key as a subkey.
    let belongs = |back: &Signature| back.verify_primary_key_binding(&sub.key, by).is_ok();
    let expires_at = expires_at(&sub.key, binding).into_iter().chain(primary.expires_at).min();
    Some(Signer {
        id: KeyId::from_key(&sub.key),
        primary: primary.id,
        key: Key::Sub(sub.key.clone()),
        created_at: created_at(&sub.key),
        expires_at,
        is_revoked: primary.is_revoked || of(SignatureType::SubkeyRevocation).next().is_some(),
        is_for_signing: is_for_signing(binding) && binding.embedded_signature().is_some_and(belongs),
    })
}

fn newest_signature<'s>(signatures: impl Iterator<Item = &'s Signature>) -> Option<&'s Signature> {
    signatures.max_by_key(|signature| signature.created())
}

fn created_at(key: &impl KeyDetails) -> i64 {
    i64::from(key.created_at().as_secs())
}

fn expires_at(key: &impl KeyDetails, said: &Signature) -> Option<i64> {
    let after = said.key_expiration_time().map(|after| i64::from(after.as_secs()));
    // Zero means that the key doesn't expire.
    after.filter(|after| *after > 0).map(|after| created_at(key).saturating_add(after))
}

/// Returns true if the key may be used for signing. Without usage flags, it may be used for anything.
fn is_for_signing(said: &Signature) -> bool {
    let mut parts = said.config().into_iter().flat_map(|config| config.hashed_subpackets());
    let says = parts.any(|part| matches!(part.data, SubpacketData::KeyFlags(_)));
    !says || said.key_flags().sign()
}
