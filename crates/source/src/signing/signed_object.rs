//! Signed objects: commits, and annotated tags of commits.

use gix::ObjectId;
use gix::objs::signature::Format;
use gix::objs::{CommitRefIter, Kind, TagRefIter};
use tidegate_model::Timestamp;

use super::keyring::{Keyring, SignedObject, ValidSignature};
use super::required_keys::RequiredKeys;
use super::signature_error::SignatureError;
use crate::SourceError;
use crate::repository::{Repository, Tag};

/// Commit whose signature is checked, and the keys that may have signed it.
#[derive(Clone, Copy, Debug)]
pub struct SignatureCheck<'c> {
    /// Hash of the commit.
    pub commit: &'c str,
    /// Revisions resolved to the commit. As in Argo CD, if an annotated tag of the commit is among them, the
    /// tag must be signed instead.
    pub names: &'c [&'c str],
    /// Keys that the project accepts.
    pub keys: &'c RequiredKeys,
    /// Time for checking the keys' expiry.
    pub now: Timestamp,
}

impl Repository {
    /// Fails unless a commit is signed with an accepted key.
    pub(crate) fn check_signed(
        &self,
        check: SignatureCheck<'_>,
        keyring: &Keyring,
    ) -> Result<(), SourceError> {
        let SignatureCheck { commit, names, keys: wanted, now } = check;
        let tag = self.find_annotated_tag(commit, names)?;
        let of = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.commit_not_found(commit))?;
        let (what, signed): (String, SignedObject) = match &tag {
            Some(Tag { name, id }) => {
                (format!("the tag {name} of commit {commit}"), (*id, Some(name.clone()), of))
            }
            None => (format!("commit {commit}"), (of, None, of)),
        };
        let checked = match keyring.cached(&signed, now) {
            Some(known) => known,
            None => self.with_object(commit, tag.as_ref(), |git| {
                // Don't trust the server's list of tags; look at the tag object itself.
                if tag.is_some() && !refers_to(git, signed.0, of) {
                    return Ok(Err(SignatureError::OfOtherCommit));
                }
                let found = git
                    .find_object(signed.0)
                    .ok()
                    .and_then(|found| signature_parts(&found, signed.1.as_deref()));
                let (signature, bytes) = match found.ok_or_else(|| self.commit_not_found(commit))? {
                    Ok(parts) => parts,
                    Err(flaw) => return Ok(Err(flaw)),
                };
                let checked = keyring.check(&signature, &bytes, now);
                if let Ok(good) = &checked {
                    keyring.cache(signed.clone(), *good);
                }
                Ok(checked)
            })?,
        };
        let reason = match checked {
            Ok(good) if wanted.accepts(&good) => return Ok(()),
            Ok(good) => {
                format!("has a good signature from key {}, but {}", key_text(&good), wanted.describe())
            }
            Err(flaw) => format!("{flaw}; {}", wanted.describe()),
        };
        Err(SourceError::Signature { repository: self.address().to_string(), what, reason })
    }
}

/// Returns true if a tag object refers to a commit.
fn refers_to(git: &gix::Repository, tag: ObjectId, of: ObjectId) -> bool {
    git.find_object(tag).is_ok_and(|tag| tag.peel_to_commit().is_ok_and(|found| found.id() == of))
}

/// Describes a signature's key and certificate.
fn key_text(ValidSignature { key, primary, .. }: &ValidSignature) -> String {
    if key == primary { key.to_string() } else { format!("{key} of {primary}") }
}

/// A signature and the signed bytes.
type SignatureParts = (Vec<u8>, Vec<u8>);

/// Returns the signature and the signed bytes of a commit or tag, or `None` for other types of objects.
fn signature_parts(
    found: &gix::Object<'_>,
    tag: Option<&str>,
) -> Option<Result<SignatureParts, SignatureError>> {
    let (signature, of) = match (found.kind, tag) {
        (Kind::Tag, Some(name)) => {
            let own = found.try_to_tag_ref().ok()?.name.to_string();
            if own != name {
                return Some(Err(SignatureError::TagRenamed(own)));
            }
            let Some((signature, of)) = TagRefIter::signature(&found.data) else {
                return Some(Err(SignatureError::Unsigned));
            };
            (signature.data.to_vec(), of.to_bstring())
        }
        (Kind::Commit, None) => match CommitRefIter::signature(&found.data, found.id.kind()).ok()? {
            Some((signature, of)) => (signature.to_vec(), of.to_bstring()),
            None => return Some(Err(SignatureError::Unsigned)),
        },
        _ => return None,
    };
    Some(match Format::from_signature(&signature) {
        Some(Format::OpenPgp) => Ok((signature, of.into())),
        Some(Format::Ssh) => Err(SignatureError::Other("SSH")),
        Some(Format::X509) => Err(SignatureError::Other("X.509")),
        None => Err(SignatureError::Other("an unknown format")),
    })
}
