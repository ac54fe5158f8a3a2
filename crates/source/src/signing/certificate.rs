//! A public key: which keys it is made of, and what they are good for.
//!
//! A key says of itself when it expires, what it is for and that it was revoked, in signatures of its own. Those that are not
//! its own say nothing. The newest that is good counts, as for GnuPG.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, Tag};

use super::key_id::KeyId;

/// One of the keys of a public key.
pub(super) struct Signer {
    pub id: KeyId,
    /// That of the public key it belongs to, as people name it.
    pub primary: KeyId,
    pub key: Key,
    /// In seconds since 1970.
    pub made_at: i64,
    pub expires_at: Option<i64>,
    pub is_revoked: bool,
    pub is_for_signing: bool,
}

pub(super) enum Key {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

impl Signer {
    /// Whether a signature is one with this key of these bytes.
    pub fn has_made(&self, signature: &Signature, of: &[u8]) -> bool {
        let verified = match &self.key {
            Key::Primary(key) => signature.verify(key, of),
            Key::Sub(key) => signature.verify(key, of),
        };
        verified.is_ok()
    }
}

/// The keys of a public key; nothing of one that says nothing of itself.
pub(super) fn signers(certificate: &SignedPublicKey) -> Option<Vec<Signer>> {
    let primary = &certificate.primary_key;
    let own = newest(own(certificate))?;
    let is_revocation = |signature: &&Signature| signature.typ() == Some(SignatureType::KeyRevocation);
    let mut revocations = certificate.details.revocation_signatures.iter().filter(is_revocation);
    let first = Signer {
        id: KeyId::of(primary),
        primary: KeyId::of(primary),
        key: Key::Primary(primary.clone()),
        made_at: made_at(primary),
        expires_at: expires_at(primary, own),
        is_revoked: revocations.any(|signature| signature.verify_key(primary).is_ok()),
        is_for_signing: is_for_signing(own),
    };
    let others = certificate.public_subkeys.iter().filter_map(|sub| subkey(sub, &first));
    let others: Vec<Signer> = others.collect();
    Some(std::iter::once(first).chain(others).collect())
}

/// What a key says of itself: to its user ids that are not revoked, and without any.
fn own(certificate: &SignedPublicKey) -> impl Iterator<Item = &Signature> {
    let primary = &certificate.primary_key;
    let of_users = certificate.details.users.iter().flat_map(move |user| {
        let is_own = move |signature: &&Signature| {
            signature.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        let own: Vec<&Signature> = user.signatures.iter().filter(is_own).collect();
        let is_revocation = |one: &Signature| one.typ() == Some(SignatureType::CertRevocation);
        let revoked =
            newest(own.iter().copied().filter(|one| is_revocation(one))).and_then(Signature::created);
        own.into_iter()
            .filter(move |one| !is_revocation(one) && revoked.is_none_or(|at| one.created() > Some(at)))
    });
    let direct = certificate.details.direct_signatures.iter();
    let is_direct =
        |one: &&Signature| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok();
    of_users.chain(direct.filter(is_direct))
}

fn subkey(sub: &SignedPublicSubKey, primary: &Signer) -> Option<Signer> {
    let Key::Primary(by) = &primary.key else { return None };
    let of = |typ: SignatureType| {
        let is_one =
            move |one: &&Signature| one.typ() == Some(typ) && one.verify_subkey_binding(by, &sub.key).is_ok();
        sub.signatures.iter().filter(is_one)
    };
    let binding = newest(of(SignatureType::SubkeyBinding))?;
    // A key that signs has to say that it belongs there: nobody may take somebody else's for their own.
    let belongs = |back: &Signature| back.verify_primary_key_binding(&sub.key, by).is_ok();
    let expires_at = expires_at(&sub.key, binding).into_iter().chain(primary.expires_at).min();
    Some(Signer {
        id: KeyId::of(&sub.key),
        primary: primary.id,
        key: Key::Sub(sub.key.clone()),
        made_at: made_at(&sub.key),
        expires_at,
        is_revoked: primary.is_revoked || of(SignatureType::SubkeyRevocation).next().is_some(),
        is_for_signing: is_for_signing(binding) && binding.embedded_signature().is_some_and(belongs),
    })
}

fn newest<'s>(signatures: impl Iterator<Item = &'s Signature>) -> Option<&'s Signature> {
    signatures.max_by_key(|signature| signature.created())
}

fn made_at(key: &impl KeyDetails) -> i64 {
    i64::from(key.created_at().as_secs())
}

fn expires_at(key: &impl KeyDetails, said: &Signature) -> Option<i64> {
    let after = said.key_expiration_time().map(|after| i64::from(after.as_secs()));
    // Zero is for ever.
    after.filter(|after| *after > 0).map(|after| made_at(key).saturating_add(after))
}

/// What does not say what it is for is for anything.
fn is_for_signing(said: &Signature) -> bool {
    let mut parts = said.config().into_iter().flat_map(|config| config.hashed_subpackets());
    let says = parts.any(|part| matches!(part.data, SubpacketData::KeyFlags(_)));
    !says || said.key_flags().sign()
}
