//! Locates, reads and renders a source's manifests: in a commit of a Git repository, or in a chart of a chart
//! repository. Plain manifests are read here; `helm` and `kustomize` render the others.

use gix::ObjectId;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::{ApplicationSource, DirectorySource};
use tidegate_model::{Digest, Glob};

use crate::located_chart::LocatedChart;
use crate::origin::Origin;
use crate::render_inputs::RenderInputs;
use crate::render_target::Variables;
use crate::repository::{File, Repository};
use crate::source_overrides;
use crate::source_type::{self, SourceType};
use crate::tools::WorkingFolder;
use crate::tree::{CommitReader, join_paths};
use crate::{SourceError, helm, kustomize};

/// A source's manifests in a revision, located but not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocatedSource {
    /// A folder in a commit of a Git repository.
    Git(LocatedManifests),
    /// A version of a chart.
    Chart(Box<LocatedChart>),
}

impl LocatedSource {
    /// Returns the digest of the content and the parameters. Equal keys mean equal manifests.
    pub fn key(&self) -> Digest {
        match self {
            Self::Git(located) => located.key,
            Self::Chart(located) => located.key,
        }
    }

    /// Returns the type of the source, as shown in an Application's status.
    pub fn source_type(&self) -> &'static str {
        match self {
            Self::Git(located) => located.source_type(),
            Self::Chart(_) => "Helm",
        }
    }

    /// Returns true if Helm or Kustomize must render the manifests.
    pub fn is_rendered(&self) -> bool {
        match self {
            Self::Git(located) => located.is_rendered(),
            Self::Chart(_) => true,
        }
    }
}

impl Origin {
    /// Locates a source's manifests in a revision: a commit, or a version of a chart.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        revision: &str,
        making: &RenderInputs,
    ) -> Result<LocatedSource, SourceError> {
        match self {
            Self::Git(repository) => {
                repository.locate_manifests(source, revision, making).map(LocatedSource::Git)
            }
            Self::Charts(repository) => repository
                .locate(source, revision, making)
                .map(|located| LocatedSource::Chart(Box::new(located))),
        }
    }

    /// Reads the manifests, rendering them if necessary.
    pub fn read_manifests(
        &self,
        found: &LocatedSource,
        making: &RenderInputs,
    ) -> Result<Vec<File>, SourceError> {
        match (self, found) {
            (Self::Git(repository), LocatedSource::Git(located)) => repository.read(located, making),
            (Self::Charts(repository), LocatedSource::Chart(located)) => repository.render(located, making),
            _ => Err(SourceError::NotHelm),
        }
    }
}

/// A source's manifests in a commit, located but not yet rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedManifests {
    /// Digest of the content and the parameters. Equal keys mean equal manifests.
    pub key: Digest,
    /// ID of the commit, in hexadecimal.
    pub commit: String,
    folder: ObjectId,
    path: String,
    /// True if Git LFS pointers are replaced with the content of their objects.
    has_lfs: bool,
    content: LocatedContent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LocatedContent {
    Directory(FileSelection),
    Helm(Box<helm::HelmPlan>),
    Kustomize(Box<kustomize::KustomizePlan>),
}

impl LocatedManifests {
    /// Returns the type of the source, as shown in an Application's status.
    pub fn source_type(&self) -> &'static str {
        match self.content {
            LocatedContent::Directory(_) => SourceType::Directory.name(),
            LocatedContent::Helm(_) => SourceType::Helm.name(),
            LocatedContent::Kustomize(_) => SourceType::Kustomize.name(),
        }
    }

    /// Returns true if Helm or Kustomize must render the manifests.
    pub fn is_rendered(&self) -> bool {
        !matches!(self.content, LocatedContent::Directory(_))
    }
}

impl Repository {
    /// Locates the manifests of a source in a commit. Returns an error if they can't be rendered.
    pub fn locate_manifests(
        &self,
        source: &ApplicationSource,
        commit: &str,
        making: &RenderInputs,
    ) -> Result<LocatedManifests, SourceError> {
        source_type::explicit_type(source)?;
        let started =
            self.with_reader(commit, &making.limits, |reader| locate_manifests(reader, source, making))?;
        // Dependencies may be in the same repository. Fetching them modifies its mirror, which must not be in
        // use here.
        started.complete(making)
    }

    /// Reads the manifests, rendering them if necessary.
    pub fn read(&self, located: &LocatedManifests, making: &RenderInputs) -> Result<Vec<File>, SourceError> {
        let LocatedManifests { commit, folder, path, has_lfs, content: how, .. } = located;
        // The key covers the Git LFS setting, so read with the setting it was computed with.
        let reading = |using: &dyn Fn(&CommitReader<'_>) -> Result<(), SourceError>| {
            self.with_reader_and_lfs(commit, *has_lfs, &making.limits, using)
        };
        match how {
            LocatedContent::Directory(wanted) => {
                self.with_reader_and_lfs(commit, *has_lfs, &making.limits, |reader| {
                    read_selected(reader, *folder, path, wanted)
                })
            }
            LocatedContent::Helm(plan) => {
                let workshop = WorkingFolder::create(&making.tools)?;
                reading(&|reader| {
                    reader.copy(*folder, path, &workshop)?;
                    plan.copy_local_dependencies(reader, path, &workshop)
                })?;
                plan.render(&workshop, path, making)
            }
            LocatedContent::Kustomize(plan) => {
                let workshop = WorkingFolder::create(&making.tools)?;
                reading(&|reader| plan.copy(reader, &workshop))?;
                plan.build(&workshop, making)
            }
        }
    }
}

/// Located manifests, except for their remote dependencies.
struct PendingLocate {
    hasher: Sha256,
    commit: String,
    folder: ObjectId,
    path: String,
    has_lfs: bool,
    content: LocatedContent,
    /// Remote entries of the kustomizations.
    entries: Vec<kustomize::RemoteEntry>,
}

impl PendingLocate {
    /// Fetches the remote dependencies and adds them to the key.
    fn complete(self, making: &RenderInputs) -> Result<LocatedManifests, SourceError> {
        let Self { mut hasher, commit, folder, path, has_lfs: lfs, content: mut how, entries } = self;
        match &mut how {
            LocatedContent::Directory(_) => {}
            LocatedContent::Helm(plan) => {
                plan.fetch(making)?;
                plan.digest(&mut hasher);
            }
            LocatedContent::Kustomize(plan) => {
                plan.fetch(entries, making)?;
                plan.digest(&mut hasher);
            }
        }
        Ok(LocatedManifests {
            key: Digest(hasher.finalize().into()),
            commit,
            folder,
            path,
            has_lfs: lfs,
            content: how,
        })
    }
}

fn locate_manifests(
    reader: &CommitReader<'_>,
    source: &ApplicationSource,
    making: &RenderInputs,
) -> Result<PendingLocate, SourceError> {
    let (path, folder) = reader.folder(&source.path)?;
    let names = reader.names(folder)?;
    let source = &source_overrides::apply_overrides(source, reader, &path, &names, &making.purpose.name)?;
    let kind = source_type::detect_type(source, &names)?;
    let directory = source.directory.clone().unwrap_or_default();
    let recurse = kind != SourceType::Directory || directory.recurse;
    let has_links = reader.list(folder, &path, recurse)?.iter().any(|entry| entry.is_link());
    // Links may point to any file in the commit, so include all of it.
    let content = if has_links { reader.root } else { folder };
    let mut hasher = Sha256::new();
    for part in [&content.to_string(), path.as_str(), kind.name()] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let lfs = reader.lfs.is_some();
    hasher.update([u8::from(lfs)]);
    let variables = Variables::new(&making.purpose, source, &path, reader.commit);
    let mut entries = Vec::new();
    let how = match kind {
        SourceType::Directory => {
            digest_directory(&directory, &mut hasher);
            LocatedContent::Directory(FileSelection::new(&directory)?)
        }
        SourceType::Helm => {
            if reader.lookup(&join_paths(&path, source_type::CHART_FILE))?.is_none() {
                return Err(SourceError::NoChart { path });
            }
            LocatedContent::Helm(Box::new(helm::HelmPlan::new(source, &path, reader, making, &variables)?))
        }
        SourceType::Kustomize => {
            let (plan, named) = kustomize::KustomizePlan::new(source, &path, reader, making, &variables)?;
            entries = named;
            LocatedContent::Kustomize(Box::new(plan))
        }
    };
    Ok(PendingLocate {
        hasher,
        commit: reader.commit.to_owned(),
        folder,
        path,
        has_lfs: lfs,
        content: how,
        entries,
    })
}

fn digest_directory(directory: &DirectorySource, hasher: &mut Sha256) {
    let recurse = if directory.recurse { "recurse" } else { "" };
    for part in [recurse, &directory.include, &directory.exclude] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
}

/// Selection of the files to read in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileSelection {
    recurse: bool,
    include: Option<Glob>,
    exclude: Option<Glob>,
}

impl FileSelection {
    fn new(directory: &DirectorySource) -> Result<Self, SourceError> {
        let pattern = |text: &str| (!text.is_empty()).then(|| Glob::parse(text)).transpose();
        let include = pattern(&directory.include)?;
        Ok(Self { recurse: directory.recurse, include, exclude: pattern(&directory.exclude)? })
    }

    fn matches(&self, path: &str) -> bool {
        !self.exclude.as_ref().is_some_and(|exclude| exclude.matches(path))
            && self.include.as_ref().is_none_or(|include| include.matches(path))
    }
}

/// Reads the selected files of a folder.
fn read_selected(
    reader: &CommitReader<'_>,
    folder: ObjectId,
    path: &str,
    wanted: &FileSelection,
) -> Result<Vec<File>, SourceError> {
    let mut files = Vec::new();
    let mut bytes = 0_u64;
    for entry in reader.list(folder, path, wanted.recurse)? {
        let is_jsonnet = entry.path.ends_with(".jsonnet");
        let is_manifest = [".yaml", ".yml", ".json"].iter().any(|ending| entry.path.ends_with(ending));
        if !(is_jsonnet || is_manifest)
            || source_overrides::is_overrides_file(&entry.path)
            || !wanted.matches(&entry.path)
        {
            continue;
        }
        let place = join_paths(path, &entry.path);
        if is_jsonnet {
            return Err(SourceError::Unsupported {
                what: "Jsonnet".to_owned(),
                why: format!("; exclude {place} with source.directory.exclude"),
            });
        }
        let Some(content) = reader.content(&place, &entry)? else { continue };
        bytes = bytes.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
        if bytes > reader.limits.bytes {
            let limit = reader.limits.bytes;
            return Err(SourceError::Limit { path: path.to_owned(), limit, what: "bytes of manifests" });
        }
        files.push(File { path: place, content });
    }
    Ok(files)
}
