//! Why a signature is not good.

use tidegate_model::Timestamp;

use super::key_id::KeyId;

/// Why a signature is not good. Goes on from what is signed: "commit abc …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    #[error("is not signed")]
    Unsigned,
    #[error("has the signature of another tag, {0}: it was given this name afterwards")]
    Renamed(String),
    #[error("is of another commit than the repository says")]
    OfAnother,
    #[error("is signed by {0}; only signatures of OpenPGP are checked")]
    Other(&'static str),
    #[error("has a signature that cannot be read: {0}")]
    Unreadable(String),
    #[error("has several signatures in one, and one is expected")]
    Several,
    #[error(
        "is signed with key {0}, and the ConfigMap argocd-gpg-keys-cm has no such key: put its public key there, under its id"
    )]
    Unknown(KeyId),
    #[error("has a signature that names no key, and it is of none in the ConfigMap argocd-gpg-keys-cm")]
    Nameless,
    #[error(
        "has a bad signature with key {0}: what is signed was changed, or the signature was made for something else"
    )]
    Bad(KeyId),
    #[error(
        "is signed with key {key}, which expired at {at}: extend it, and put it into argocd-gpg-keys-cm again"
    )]
    Expired { key: KeyId, at: Timestamp },
    #[error("is signed with key {0}, which was revoked")]
    Revoked(KeyId),
    #[error("is signed with key {0}, which is not meant for signatures")]
    NotForSigning(KeyId),
    #[error("has a signature with key {key} that was good until {at} only")]
    Over { key: KeyId, at: Timestamp },
    #[error("has a signature with key {0} from a time when there was no such key, or from the future")]
    Untimely(KeyId),
    #[error("has a signature with key {key} that is made with {hash}, which is not safe")]
    Weak { key: KeyId, hash: String },
}
