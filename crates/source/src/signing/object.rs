//! What is signed: a commit, or the tag that names it.

use gix::ObjectId;
use gix::objs::signature::Format;
use gix::objs::{CommitRefIter, Kind, TagRefIter};
use tidegate_model::Timestamp;

use super::flaw::Flaw;
use super::keyring::{Good, Keyring, Signed};
use super::wanted::Wanted;
use crate::SourceError;
use crate::repository::{Repository, Tag};

impl Repository {
    /// Refuses a commit that is not signed with a key that is wanted. Where one of `names` is an annotated tag of it, that is
    /// what has to be signed, as for Argo CD.
    pub(crate) fn check_signed(
        &self,
        (commit, names): (&str, &[&str]),
        keyring: &Keyring,
        (wanted, now): (&Wanted, Timestamp),
    ) -> Result<(), SourceError> {
        let tag = self.annotated(commit, names)?;
        let of = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.no_commit(commit))?;
        let (what, signed): (String, Signed) = match &tag {
            Some(Tag { name, id }) => {
                (format!("the tag {name} of commit {commit}"), (*id, Some(name.clone()), of))
            }
            None => (format!("commit {commit}"), (of, None, of)),
        };
        let checked = match keyring.remembered(&signed, now) {
            Some(known) => known,
            None => self.with_object(commit, tag.as_ref(), |git| {
                // What a server says of its tags is no proof.
                if tag.is_some() && !leads(git, signed.0, of) {
                    return Ok(Err(Flaw::OfAnother));
                }
                let found =
                    git.find_object(signed.0).ok().and_then(|found| parts(&found, signed.1.as_deref()));
                let (signature, bytes) = match found.ok_or_else(|| self.no_commit(commit))? {
                    Ok(parts) => parts,
                    Err(flaw) => return Ok(Err(flaw)),
                };
                let checked = keyring.check(&signature, &bytes, now);
                if let Ok(good) = &checked {
                    keyring.remember(signed.clone(), *good);
                }
                Ok(checked)
            })?,
        };
        let reason = match checked {
            Ok(good) if wanted.has(&good) => return Ok(()),
            Ok(good) => format!("has a good signature with key {}, but {}", key(&good), wanted.told()),
            Err(flaw) => format!("{flaw}; {}", wanted.told()),
        };
        Err(SourceError::Signature { repository: self.address().to_string(), what, reason })
    }
}

/// Whether a tag is of a commit, by what the tag itself says.
fn leads(git: &gix::Repository, tag: ObjectId, of: ObjectId) -> bool {
    git.find_object(tag).is_ok_and(|tag| tag.peel_to_commit().is_ok_and(|found| found.id() == of))
}

/// Names what has signed, and what that belongs to.
fn key(Good { key, primary, .. }: &Good) -> String {
    if key == primary { key.to_string() } else { format!("{key} of {primary}") }
}

/// A signature, and the bytes it is of.
type Parts = (Vec<u8>, Vec<u8>);

/// The signature of a commit, or of a tag of this name, and the bytes it is of; nothing where it is no such thing.
fn parts(found: &gix::Object<'_>, tag: Option<&str>) -> Option<Result<Parts, Flaw>> {
    let (signature, of) = match (found.kind, tag) {
        (Kind::Tag, Some(name)) => {
            let own = found.try_to_tag_ref().ok()?.name.to_string();
            if own != name {
                return Some(Err(Flaw::Renamed(own)));
            }
            let Some((signature, of)) = TagRefIter::signature(&found.data) else {
                return Some(Err(Flaw::Unsigned));
            };
            (signature.data.to_vec(), of.to_bstring())
        }
        (Kind::Commit, None) => match CommitRefIter::signature(&found.data, found.id.kind()).ok()? {
            Some((signature, of)) => (signature.to_vec(), of.to_bstring()),
            None => return Some(Err(Flaw::Unsigned)),
        },
        _ => return None,
    };
    Some(match Format::from_signature(&signature) {
        Some(Format::OpenPgp) => Ok((signature, of.into())),
        Some(Format::Ssh) => Err(Flaw::Other("SSH")),
        Some(Format::X509) => Err(Flaw::Other("X.509")),
        None => Err(Flaw::Other("something that is not known")),
    })
}
