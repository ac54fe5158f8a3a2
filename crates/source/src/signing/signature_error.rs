//! Reasons for rejecting a signature.

use tidegate_model::Timestamp;

use super::key_id::KeyId;

/// Reason a signature isn't valid. Continues a sentence that starts with the signed object, such as "commit
/// abc …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignatureError {
    #[error("is not signed")]
    Unsigned,
    #[error("has the signature of a different tag, {0}; the tag was renamed after signing")]
    TagRenamed(String),
    #[error("refers to a different commit than the repository reports")]
    OfOtherCommit,
    #[error("is signed with {0}; only OpenPGP signatures are supported")]
    Other(&'static str),
    #[error("has a signature that cannot be read: {0}")]
    Unreadable(String),
    #[error("has several signatures, but exactly one is expected")]
    MultipleSignatures,
    #[error(
        "is signed with key {0}, but the argocd-gpg-keys-cm ConfigMap has no such key; add the public key \
         to the ConfigMap, under its ID"
    )]
    Unknown(KeyId),
    #[error("has a signature without a key ID, and no key in the argocd-gpg-keys-cm ConfigMap matches it")]
    NoIssuer,
    #[error(
        "has a bad signature from key {0}: the content was changed, or the signature is for different content"
    )]
    Bad(KeyId),
    #[error(
        "is signed with key {key}, which expired at {at}; extend the key, then add it to argocd-gpg-keys-cm \
         again"
    )]
    Expired { key: KeyId, at: Timestamp },
    #[error("is signed with key {0}, which was revoked")]
    Revoked(KeyId),
    #[error("is signed with key {0}, which is not a signing key")]
    NotForSigning(KeyId),
    #[error("is signed with key {key}, but the signature expired at {at}")]
    SignatureExpired { key: KeyId, at: Timestamp },
    #[error("is signed with key {0}, but the signature is older than the key or dated in the future")]
    NotYetValid(KeyId),
    #[error("is signed with key {key} using {hash}, which is not secure")]
    Weak { key: KeyId, hash: String },
}
