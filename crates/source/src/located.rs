//! From a source and a commit to manifests: what is read, and what is made of it by a program.

use gix::ObjectId;
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tidegate_model::argo::{ApplicationSource, DirectorySource};

use crate::directory::{self, Wanted};
use crate::kind::{self, Kind};
use crate::making::Making;
use crate::overrides;
use crate::purpose::Variables;
use crate::repository::{File, Repository};
use crate::tools::Workshop;
use crate::tree::{Reader, full};
use crate::{SourceError, helm, kustomize};

/// The manifests of a source in a commit, not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The same content, read and made in the same way, has the same key.
    pub key: Digest,
    /// The commit, in hexadecimal.
    pub commit: String,
    folder: ObjectId,
    path: String,
    /// The content of files that Git LFS keeps is read, and not their pointers.
    lfs: bool,
    how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    Directory(Wanted),
    Helm(Box<helm::Plan>),
    Kustomize(Box<kustomize::Plan>),
}

impl Located {
    /// What makes them, as a status names it.
    pub fn source_type(&self) -> &'static str {
        match self.how {
            How::Directory(_) => Kind::Directory.name(),
            How::Helm(_) => Kind::Helm.name(),
            How::Kustomize(_) => Kind::Kustomize.name(),
        }
    }

    /// Whether a program has to make them.
    pub fn is_made(&self) -> bool {
        !matches!(self.how, How::Directory(_))
    }
}

impl Repository {
    /// Finds the manifests of a source in a commit, and refuses what cannot be read.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        commit: &str,
        making: &Making,
    ) -> Result<Located, SourceError> {
        kind::said(source)?;
        let with_lfs = (commit, self.enables_lfs());
        let begun = self.in_commit_as(with_lfs, &making.limits, |reader| locate(reader, source, making))?;
        // Nothing is read meanwhile: what is fetched may be of the same repository.
        begun.complete(making)
    }

    /// Reads or makes the manifests that were located.
    pub fn read(&self, located: &Located, making: &Making) -> Result<Vec<File>, SourceError> {
        let Located { commit, folder, path, lfs, how, .. } = located;
        // As it was located, whatever its Secret says by now: that is what the key is of.
        let commit = (commit.as_str(), *lfs);
        let reading = |using: &dyn Fn(&Reader<'_>) -> Result<(), SourceError>| {
            self.in_commit_as(commit, &making.limits, using)
        };
        match how {
            How::Directory(wanted) => self.in_commit_as(commit, &making.limits, |reader| {
                directory::read(reader, *folder, path, wanted)
            }),
            How::Helm(plan) => {
                let workshop = Workshop::open(&making.tools)?;
                reading(&|reader| {
                    reader.copy(*folder, path, &workshop)?;
                    plan.copy_beside(reader, path, &workshop)
                })?;
                plan.make(&workshop, path, making)
            }
            How::Kustomize(plan) => {
                let workshop = Workshop::open(&making.tools)?;
                reading(&|reader| plan.copy(reader, &workshop))?;
                plan.make(&workshop, making)
            }
        }
    }
}

/// Manifests that are found, and for which something may have to be fetched.
struct Begun {
    hasher: Sha256,
    commit: String,
    folder: ObjectId,
    path: String,
    lfs: bool,
    how: How,
    /// What a kustomization names on servers.
    entries: Vec<kustomize::Entry>,
}

impl Begun {
    /// Fetches what is needed beside the source. Then it is known what the manifests are.
    fn complete(self, making: &Making) -> Result<Located, SourceError> {
        let Self { mut hasher, commit, folder, path, lfs, mut how, entries } = self;
        match &mut how {
            How::Directory(_) => {}
            How::Helm(plan) => {
                plan.fetch(making)?;
                plan.digest(&mut hasher);
            }
            How::Kustomize(plan) => {
                plan.fetch(entries, making)?;
                plan.digest(&mut hasher);
            }
        }
        Ok(Located { key: Digest(hasher.finalize().into()), commit, folder, path, lfs, how })
    }
}

fn locate(reader: &Reader<'_>, source: &ApplicationSource, making: &Making) -> Result<Begun, SourceError> {
    let (path, folder) = reader.folder(&source.path)?;
    let names = reader.names(folder)?;
    let source = &overrides::applied(source, reader, (&path, &names), &making.purpose.name)?;
    let kind = kind::of(source, &names)?;
    let directory = source.directory.clone().unwrap_or_default();
    let recurse = kind != Kind::Directory || directory.recurse;
    let has_links = reader.list(folder, &path, recurse)?.iter().any(|entry| entry.is_link());
    // A link may lead to any other folder of the commit.
    let content = if has_links { reader.root } else { folder };
    let mut hasher = Sha256::new();
    for part in [&content.to_string(), path.as_str(), kind.name()] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let lfs = reader.lfs.is_some();
    hasher.update([u8::from(lfs)]);
    let asked = (source.repo_url.as_str(), path.as_str(), source.target_revision.as_str());
    let variables = Variables::new(&making.purpose, asked, reader.commit);
    let mut entries = Vec::new();
    let how = match kind {
        Kind::Directory => {
            digest(&directory, &mut hasher);
            How::Directory(Wanted::new(&directory)?)
        }
        Kind::Helm => {
            if reader.lookup(&full(&path, kind::CHART))?.is_none() {
                return Err(SourceError::NoChart { path });
            }
            How::Helm(Box::new(helm::Plan::new(source, (&path, reader), (making, &variables))?))
        }
        Kind::Kustomize => {
            let (plan, named) = kustomize::Plan::new(source, &path, reader, (making, &variables))?;
            entries = named;
            How::Kustomize(Box::new(plan))
        }
    };
    Ok(Begun { hasher, commit: reader.commit.to_owned(), folder, path, lfs, how, entries })
}

fn digest(directory: &DirectorySource, hasher: &mut Sha256) {
    let recurse = if directory.recurse { "recurse" } else { "" };
    for part in [recurse, &directory.include, &directory.exclude] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
}
