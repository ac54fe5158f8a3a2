//! Missing dependencies of charts. Like `helm dependency build`, Tidegate puts them into the chart's `charts`
//! folder before it calls Helm. Helm then decides which to render and under which alias.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::{ApplicationSource, HelmSource};

use crate::charts::Archive;
use crate::checkout::{Budget, CopyTarget};
use crate::file_access::{FileAccess, resolve_path};
use crate::remote_dependencies::FetchRefusal;
use crate::render_inputs::RenderInputs;
use crate::source_type::CHART_FILE;
use crate::tools::WorkingFolder;
use crate::tree::{CommitReader, join_paths, path_segments};
use crate::{SourceError, version_constraints};

/// Dependencies folder within a chart's folder.
pub(super) const DEPENDENCIES_FOLDER: &str = "charts";
/// File extension of a packaged chart.
pub(super) const PACKED_EXTENSION: &str = ".tgz";
/// Maximum number of dependencies declared by a chart.
const CHARTS_MAX: usize = 100;
/// Maximum total size of the packages fetched for one chart, in bytes.
const BYTES_MAX: u64 = 64 << 20;
/// Scheme of dependencies in the same repository.
const LOCAL_SCHEME: &str = "file://";
/// Prefixes that mark a dependency's repository as a name rather than a URL.
const ALIAS_PREFIXES: [&str; 2] = ["@", "alias:"];
/// Reason reported when fetching dependencies is disabled.
const FETCHING_DISABLED: &str = "missing charts are fetched only if `tidegate serve --allow-chart-dependencies` allows their repository; allow the repository, or ";
/// Reason reported when the repository isn't allowed.
const NOT_ALLOWED: &str = "none of the prefixes in `tidegate serve --allow-chart-dependencies` matches their repository; add the repository there, or ";

/// Fields that Tidegate reads from `Chart.yaml`, `requirements.yaml` and the lock files.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChartMetadata {
    api_version: String,
    name: String,
    version: String,
    dependencies: Option<Vec<Dependency>>,
}

/// A dependency declared by a chart or locked in a lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Dependency {
    name: String,
    version: String,
    repository: String,
}

impl Dependency {
    fn is_alias(&self) -> bool {
        ALIAS_PREFIXES.iter().any(|sign| self.repository.starts_with(sign))
    }

    fn display_text(&self) -> String {
        let repository = crate::kustomize::without_secrets(&self.repository);
        if repository.is_empty() { self.name.clone() } else { format!("{} ({repository})", self.name) }
    }
}

/// Missing dependencies of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    local: Vec<LocalDependency>,
    remote: Vec<Dependency>,
    packed: Vec<PackedDependency>,
}

/// A dependency in a folder of the same commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LocalDependency {
    path: String,
    /// ID for the content of the folder.
    content: String,
    /// Destination folder, relative to the chart's folder.
    destination: String,
}

/// A dependency fetched as an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PackedDependency {
    /// Name and repository of the chart, for messages.
    name: String,
    /// Destination path, relative to the chart's folder.
    destination: String,
    content: Arc<Vec<u8>>,
}

impl Dependencies {
    /// Finds a chart's missing dependencies without fetching them.
    pub fn find_missing(folder: &str, files: &dyn FileAccess, chart: &str) -> Result<Self, SourceError> {
        let Some(own) = parse_file::<ChartMetadata>(files, &join_paths(folder, CHART_FILE))? else {
            return Ok(Self::default());
        };
        let is_old = own.api_version == "v1";
        let (declared, lock) = if is_old {
            let requirements = parse_file::<ChartMetadata>(files, &join_paths(folder, "requirements.yaml"))?;
            (requirements.unwrap_or_default().dependencies, "requirements.lock")
        } else {
            (own.dependencies, "Chart.lock")
        };
        let declared = declared.unwrap_or_default();
        let missing = missing_names(folder, files, &declared, chart)?;
        if missing.is_empty() {
            return Ok(Self::default());
        }
        if declared.len() > CHARTS_MAX {
            let limit = u64::try_from(CHARTS_MAX).unwrap_or(u64::MAX);
            return Err(SourceError::Limit { path: chart.to_owned(), limit, what: "dependencies" });
        }
        let locked =
            parse_file::<ChartMetadata>(files, &join_paths(folder, lock))?.and_then(|lock| lock.dependencies);
        let mut found = Self::default();
        for (at, one) in declared.iter().enumerate().filter(|(_, one)| missing.contains(one.name.as_str())) {
            check_name(one, chart)?;
            let version = match &locked {
                Some(locked) => locked_version(locked, &declared, at)
                    .map_err(|reason| SourceError::Lock { chart: chart.to_owned(), lock, reason })?,
                None => one.version.clone(),
            };
            let wanted = Dependency { version, ..one.clone() };
            match one.repository.strip_prefix(LOCAL_SCHEME) {
                Some(path) => found.add_local(&wanted, folder, files, path, chart)?,
                // Helm reports this missing dependency.
                None if one.repository.is_empty() => {}
                None if !found.remote.contains(&wanted) => found.remote.push(wanted),
                None => {}
            }
        }
        Ok(found)
    }

    fn add_local(
        &mut self,
        wanted: &Dependency,
        folder: &str,
        files: &dyn FileAccess,
        path: &str,
        chart: &str,
    ) -> Result<(), SourceError> {
        let wrong = |reason: String| dependency_error(chart, wanted, reason);
        if path.starts_with('/') {
            return Err(wrong("absolute paths are not allowed; use a path relative to the chart".to_owned()));
        }
        let path = resolve_path(folder, path)?;
        let content = files.folder_content_id(&path)?;
        let content = content
            .ok_or_else(|| wrong(format!("the folder {path} does not exist in {}", files.location_text())))?;
        let there = parse_file::<ChartMetadata>(files, &join_paths(&path, CHART_FILE))?;
        let there = there.ok_or_else(|| wrong(format!("{path} has no readable {CHART_FILE}")))?;
        if !version_constraints::satisfies(&wanted.version, &there.version) {
            return Err(wrong(format!(
                "the folder contains version {}, but {} is required; change one of them, or run `helm dependency update`",
                there.version, wanted.version
            )));
        }
        if self.local.iter().all(|known| known.path != path) {
            let to = format!("{DEPENDENCIES_FOLDER}/fetched-{}-{}", self.local.len(), wanted.name);
            self.local.push(LocalDependency { path, content, destination: to });
        }
        Ok(())
    }

    /// Fetches the packaged charts. The caller must not hold the source repository open for reading.
    pub fn fetch(
        &mut self,
        chart: &str,
        passes_credentials: bool,
        making: &RenderInputs,
    ) -> Result<(), SourceError> {
        let wanted = std::mem::take(&mut self.remote);
        let Some(fetching) = making.dependencies.as_ref().filter(|fetching| fetching.allows_charts()) else {
            return if wanted.is_empty() {
                Ok(())
            } else {
                Err(dependencies_denied(chart, &wanted, FETCHING_DISABLED))
            };
        };
        let (mut refused, mut left) = (Vec::new(), BYTES_MAX);
        for one in wanted {
            let repository = match ALIAS_PREFIXES.iter().find_map(|sign| one.repository.strip_prefix(sign)) {
                None => one.repository.clone(),
                Some(name) => fetching.find_chart_repository(name).ok_or_else(|| {
                    dependency_error(
                        chart,
                        &one,
                        format!("no repository Secret of type helm is named {name:?}"),
                    )
                })?,
            };
            if !repository.contains("://") {
                return Err(dependency_error(
                    chart,
                    &one,
                    "the repository has no scheme such as https:// or oci://".to_owned(),
                ));
            }
            let helm = HelmSource { pass_credentials: passes_credentials, ..HelmSource::default() };
            let source = ApplicationSource {
                repo_url: repository,
                chart: one.name.clone(),
                target_revision: one.version.clone(),
                helm: Some(Box::new(helm)),
                ..ApplicationSource::default()
            };
            let (version, content) = match fetching.fetch_chart(&source) {
                Ok(found) => found,
                Err(FetchRefusal::NotAllowed) => {
                    refused.push(one);
                    continue;
                }
                Err(FetchRefusal::Problem(reason)) => return Err(dependency_error(chart, &one, reason)),
            };
            let fewer = left.checked_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
            left = fewer.ok_or_else(|| SourceError::Limit {
                path: chart.to_owned(),
                limit: BYTES_MAX,
                what: "bytes of packed dependencies",
            })?;
            let to =
                format!("{DEPENDENCIES_FOLDER}/fetched-{}-{}{PACKED_EXTENSION}", self.packed.len(), one.name);
            let name = format!(
                "chart {} {version} of {}",
                one.name,
                crate::kustomize::without_secrets(&one.repository)
            );
            self.packed.push(PackedDependency { name, destination: to, content: Arc::new(content) });
        }
        if refused.is_empty() { Ok(()) } else { Err(dependencies_denied(chart, &refused, NOT_ALLOWED)) }
    }

    /// Adds the dependencies to a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        for LocalDependency { path, content, destination: to } in &self.local {
            hasher.update(format!("{path}\0{content}\0{to}\0"));
        }
        for PackedDependency { destination: to, content, .. } in &self.packed {
            hasher.update(format!("{to}\0"));
            hasher.update(Sha256::digest(content.as_slice()));
        }
    }

    /// Copies dependencies from the same commit into the chart's dependencies folder.
    pub fn copy_local(
        &self,
        reader: &CommitReader<'_>,
        folder: &str,
        workshop: &WorkingFolder,
    ) -> Result<(), SourceError> {
        for LocalDependency { path, destination: to, .. } in &self.local {
            let Some(tree) = reader.find_folder(path)? else { continue };
            let to = join_paths(folder, to);
            reader.copy_to(
                tree,
                path,
                &to,
                &CopyTarget::unchanged(workshop),
                &mut Budget::from_limits(reader.limits),
            )?;
        }
        Ok(())
    }

    /// Writes the packaged charts to the chart's dependencies folder. Checks each archive first, because Helm
    /// unpacks it without the same limits.
    pub fn write_packed(
        &self,
        chart: &str,
        folder: &str,
        workshop: &WorkingFolder,
    ) -> Result<(), SourceError> {
        for PackedDependency { name, destination: to, content } in &self.packed {
            Archive::unpack(name.clone(), content).map_err(|problem| SourceError::Dependency {
                chart: chart.to_owned(),
                missing: name.clone(),
                reason: problem.to_string(),
            })?;
            workshop.write_source_file(&join_paths(folder, to), content)?;
        }
        Ok(())
    }
}

fn dependency_error(chart: &str, wanted: &Dependency, reason: String) -> SourceError {
    SourceError::Dependency { chart: chart.to_owned(), missing: wanted.display_text(), reason }
}

fn dependencies_denied(chart: &str, refused: &[Dependency], why: &'static str) -> SourceError {
    let missing: Vec<String> = refused.iter().map(Dependency::display_text).collect();
    SourceError::Dependencies { chart: chart.to_owned(), missing: missing.join(", "), why }
}

/// Parses a file. Returns `None` if it is missing or invalid, for Helm to report.
fn parse_file<T: DeserializeOwned>(files: &dyn FileAccess, path: &str) -> Result<Option<T>, SourceError> {
    Ok(files.read_file(path)?.and_then(|content| serde_saphyr::from_slice(&content).ok()))
}

/// Fails if the dependency's name is unsafe in a file name.
fn check_name(wanted: &Dependency, chart: &str) -> Result<(), SourceError> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !wanted.name.is_empty() && wanted.name.chars().all(is_sign) {
        true => Ok(()),
        false => {
            let reason = "the dependency's name is not a valid chart name".to_owned();
            Err(dependency_error(chart, wanted, reason))
        }
    }
}

/// Returns the names of dependencies missing from the `charts` folder.
fn missing_names<'d>(
    folder: &str,
    files: &dyn FileAccess,
    declared: &'d [Dependency],
    chart: &str,
) -> Result<BTreeSet<&'d str>, SourceError> {
    let (charts, mut missing) = (join_paths(folder, DEPENDENCIES_FOLDER), BTreeSet::new());
    for one in declared {
        if files.read_file(&format!("{charts}/{}/{CHART_FILE}", one.name))?.is_none() {
            missing.insert(one.name.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(missing);
    }
    for path in files.list_files(&charts)? {
        let below = path.strip_prefix(&format!("{charts}/")).unwrap_or_default();
        let name = match path_segments(below).collect::<Vec<_>>().as_slice() {
            [file] if file.ends_with(PACKED_EXTENSION) => packed_chart_name(files, &path, file, chart)?,
            [_, file] if *file == CHART_FILE => {
                parse_file::<ChartMetadata>(files, &path)?.map(|chart| chart.name)
            }
            _ => None,
        };
        if let Some(name) = name {
            missing.remove(name.as_str());
        }
    }
    Ok(missing)
}

/// Returns the name of a packaged chart, read from the archive if the file name has no version.
fn packed_chart_name(
    files: &dyn FileAccess,
    path: &str,
    file: &str,
    chart: &str,
) -> Result<Option<String>, SourceError> {
    let plain = file.strip_suffix(PACKED_EXTENSION).unwrap_or(file);
    let versioned = plain.match_indices('-').find_map(|(at, _)| {
        let (name, version) = plain.split_at_checked(at)?;
        version_constraints::is_full_version(version.strip_prefix('-')?).then(|| name.to_owned())
    });
    if versioned.is_some() {
        return Ok(versioned);
    }
    let Some(content) = files.read_file(path)? else { return Ok(None) };
    let unpacked = Archive::unpack(chart.to_owned(), &content).ok();
    let inside = unpacked.and_then(|archive| archive.read_file(CHART_FILE).ok().flatten());
    Ok(inside
        .and_then(|content| serde_saphyr::from_slice::<ChartMetadata>(&content).ok())
        .map(|chart| chart.name))
}

/// Returns the locked version of the dependency declared at index `at`.
fn locked_version(locked: &[Dependency], declared: &[Dependency], at: usize) -> Result<String, String> {
    let Some(wanted) = declared.get(at) else { return Ok(String::new()) };
    // Aliases allow a chart to be declared several times. Locked dependencies are in the same order.
    let before = declared.iter().take(at).filter(|one| one.name == wanted.name).count();
    let found = locked.iter().filter(|one| one.name == wanted.name).nth(before);
    let found = found.ok_or_else(|| format!("{} is missing", wanted.name))?;
    if !version_constraints::satisfies(&wanted.version, &found.version) {
        return Err(format!(
            "{} is locked at {}, but {} is required",
            found.name, found.version, wanted.version
        ));
    }
    let plain = |one: &Dependency| one.repository.trim_end_matches('/').to_owned();
    match wanted.is_alias() || plain(wanted) == plain(found) {
        true => Ok(found.version.clone()),
        false => Err(format!("{} is locked to a different repository", found.name)),
    }
}
