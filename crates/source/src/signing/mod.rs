//! Commit signatures: OpenPGP, as created by `git commit -S` and `git tag -s`.
//!
//! ```text
//! argocd-gpg-keys-cm ─▶ Keyring ── check(signature, signed bytes, now) ─▶ Good { key, … } or a Flaw
//! commit, or the tag that names it ─▶ object ─┘                              │
//!                              signatureKeys of a project ─▶ RequiredKeys ◀────────┘
//! ```
//!
//! The `pgp` library parses and verifies signatures, while this module decides which keys are accepted.

mod certificate;
mod key_id;
mod keyring;
mod required_keys;
mod signature_error;
mod signed_object;

pub(crate) use keyring::Keyring;
pub use required_keys::RequiredKeys;
