//! By whom commits are signed: OpenPGP, as `git commit -S` and `git tag -s` make it.
//!
//! ```text
//! argocd-gpg-keys-cm ─▶ Keyring ── check(signature, what it is of, now) ─▶ Good { key, … } or a Flaw
//! commit, or the tag that names it ─▶ object ─┘                              │
//!                              signatureKeys of a project ─▶ Wanted ◀────────┘
//! ```
//!
//! What a signature is, and whether it is good, is the business of a library (`pgp`); which keys count is ours.

mod certificate;
mod flaw;
mod key_id;
mod keyring;
mod object;
mod wanted;

pub(crate) use keyring::Keyring;
pub use wanted::Wanted;
