//! Signatures of commits and tags in OpenPGP format, as created by `git commit -S` and `git tag -s`.
//!
//! ```text
//! argocd-gpg-keys-cm ─▶ Keyring ── check(signature, signed bytes, now) ─▶ ValidSignature or SignatureError
//! commit, or its annotated tag ─▶ signed_object ─┘                            │
//!                     signatureKeys of a project ─▶ RequiredKeys::accepts ◀───┘
//! ```
//!
//! The `pgp` library parses and verifies signatures. This module decides which keys are accepted.

mod certificate;
mod key_id;
mod keyring;
mod required_keys;
mod signature_error;
mod signed_object;

pub(crate) use keyring::Keyring;
pub use required_keys::RequiredKeys;
pub use signed_object::SignatureCheck;
