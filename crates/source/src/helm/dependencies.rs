//! Charts that a chart needs: those it names, does not have, and that are put into its folder `charts` before Helm runs, as
//! `helm dependency build` does it. Which of them are made, and under which alias, is Helm's business.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use tidegate_model::argo::{ApplicationSource, HelmSource};

use crate::charts::Archive;
use crate::checkout::{Copying, Left};
use crate::fetching::Refusal;
use crate::files::{Files, meant};
use crate::kind::CHART;
use crate::making::Making;
use crate::tools::Workshop;
use crate::tree::{Reader, full, parts};
use crate::{SourceError, versions};

/// Where the charts are that a chart needs.
pub(super) const FOLDER: &str = "charts";
/// How the name of a packed chart ends.
pub(super) const PACKED: &str = ".tgz";
/// Charts that one chart names: more than any.
const CHARTS_MAX: usize = 100;
/// Bytes of all packed charts that are fetched for one.
const BYTES_MAX: u64 = 64 << 20;
/// What says that a repository is a folder of the same one.
const LOCAL: &str = "file://";
/// What says that a repository is named elsewhere.
const ALIASES: [&str; 2] = ["@", "alias:"];
/// Why none is fetched, if nobody has allowed it.
const DENIED: &str = "such are fetched only where `tidegate serve --allow-chart-dependencies` names their repository; allow it, or ";
/// Why these are not fetched.
const NOT_ALLOWED: &str = "none of the addresses in `tidegate serve --allow-chart-dependencies` is the beginning of their repository; add it there, or ";

/// What `Chart.yaml` says of charts, as far as it matters here; so does `requirements.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    api_version: String,
    name: String,
    version: String,
    dependencies: Option<Vec<Dependency>>,
}

/// One chart that is needed, as it is declared or locked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Dependency {
    name: String,
    version: String,
    repository: String,
}

impl Dependency {
    fn is_alias(&self) -> bool {
        ALIASES.iter().any(|sign| self.repository.starts_with(sign))
    }

    fn shown(&self) -> String {
        let repository = crate::kustomize::shown(&self.repository);
        if repository.is_empty() { self.name.clone() } else { format!("{} ({repository})", self.name) }
    }
}

/// The charts that are put beside a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    local: Vec<Local>,
    wanted: Vec<Dependency>,
    packed: Vec<Packed>,
}

/// A folder of the same commit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Local {
    path: String,
    /// What its content is known by.
    content: String,
    /// Where it is put, below the chart.
    to: String,
}

/// An archive that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packed {
    /// For people: which chart, and where from.
    name: String,
    /// Where it is put, below the chart.
    to: String,
    content: Arc<Vec<u8>>,
}

impl Dependencies {
    /// What the chart in a folder needs and does not have. Nothing is fetched yet.
    pub fn of((folder, files): (&str, &dyn Files), chart: &str) -> Result<Self, SourceError> {
        let Some(own) = read::<Named>(files, &full(folder, CHART))? else { return Ok(Self::default()) };
        let is_old = own.api_version == "v1";
        let (declared, lock) = if is_old {
            let requirements = read::<Named>(files, &full(folder, "requirements.yaml"))?;
            (requirements.unwrap_or_default().dependencies, "requirements.lock")
        } else {
            (own.dependencies, "Chart.lock")
        };
        let declared = declared.unwrap_or_default();
        let missing = missing((folder, files), &declared, chart)?;
        if missing.is_empty() {
            return Ok(Self::default());
        }
        if declared.len() > CHARTS_MAX {
            let limit = u64::try_from(CHARTS_MAX).unwrap_or(u64::MAX);
            return Err(SourceError::Limit { path: chart.to_owned(), limit, what: "charts that it needs" });
        }
        let locked = read::<Named>(files, &full(folder, lock))?.and_then(|lock| lock.dependencies);
        let mut found = Self::default();
        for (at, one) in declared.iter().enumerate().filter(|(_, one)| missing.contains(one.name.as_str())) {
            check_name(one, chart)?;
            let version = match &locked {
                Some(locked) => in_lock(locked, &declared, at).map_err(|reason| SourceError::Lock {
                    chart: chart.to_owned(),
                    lock,
                    reason,
                })?,
                None => one.version.clone(),
            };
            let wanted = Dependency { version, ..one.clone() };
            match one.repository.strip_prefix(LOCAL) {
                Some(path) => found.add_local(&wanted, (folder, files), path, chart)?,
                // Helm says that it is not there.
                None if one.repository.is_empty() => {}
                None if !found.wanted.contains(&wanted) => found.wanted.push(wanted),
                None => {}
            }
        }
        Ok(found)
    }

    fn add_local(
        &mut self,
        wanted: &Dependency,
        (folder, files): (&str, &dyn Files),
        path: &str,
        chart: &str,
    ) -> Result<(), SourceError> {
        let wrong = |reason: String| problem(chart, wanted, reason);
        if path.starts_with('/') {
            return Err(wrong("absolute paths are not followed; write it relative to the chart".to_owned()));
        }
        let path = meant(folder, path)?;
        let content = files.content_of(&path)?;
        let content =
            content.ok_or_else(|| wrong(format!("there is no folder {path} in {}", files.place())))?;
        let there = read::<Named>(files, &full(&path, CHART))?;
        let there = there.ok_or_else(|| wrong(format!("{path} has no {CHART} that can be read")))?;
        if !versions::satisfies(&wanted.version, &there.version) {
            return Err(wrong(format!(
                "it has the version {}, and {} is asked for; change one of them, or run `helm dependency update`",
                there.version, wanted.version
            )));
        }
        if self.local.iter().all(|known| known.path != path) {
            let to = format!("{FOLDER}/fetched-{}-{}", self.local.len(), wanted.name);
            self.local.push(Local { path, content, to });
        }
        Ok(())
    }

    /// Fetches the packed charts. Nobody may be reading the source meanwhile.
    pub fn fetch(
        &mut self,
        chart: &str,
        passes_credentials: bool,
        making: &Making,
    ) -> Result<(), SourceError> {
        let wanted = std::mem::take(&mut self.wanted);
        let Some(fetching) = making.fetching.as_ref().filter(|fetching| fetching.allows_charts()) else {
            return if wanted.is_empty() { Ok(()) } else { Err(denied(chart, &wanted, DENIED)) };
        };
        let (mut refused, mut left) = (Vec::new(), BYTES_MAX);
        for one in wanted {
            let repository = match ALIASES.iter().find_map(|sign| one.repository.strip_prefix(sign)) {
                None => one.repository.clone(),
                Some(name) => fetching.named_charts(name).ok_or_else(|| {
                    problem(chart, &one, format!("no repository Secret of type helm has the name {name:?}"))
                })?,
            };
            if !repository.contains("://") {
                return Err(problem(
                    chart,
                    &one,
                    "its repository has no scheme such as https:// or oci://".to_owned(),
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
            let (version, content) = match fetching.chart(&source) {
                Ok(found) => found,
                Err(Refusal::NotAllowed) => {
                    refused.push(one);
                    continue;
                }
                Err(Refusal::Problem(reason)) => return Err(problem(chart, &one, reason)),
            };
            let fewer = left.checked_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
            left = fewer.ok_or_else(|| SourceError::Limit {
                path: chart.to_owned(),
                limit: BYTES_MAX,
                what: "bytes of packed charts that it needs",
            })?;
            let to = format!("{FOLDER}/fetched-{}-{}{PACKED}", self.packed.len(), one.name);
            let name =
                format!("chart {} {version} of {}", one.name, crate::kustomize::shown(&one.repository));
            self.packed.push(Packed { name, to, content: Arc::new(content) });
        }
        if refused.is_empty() { Ok(()) } else { Err(denied(chart, &refused, NOT_ALLOWED)) }
    }

    /// Writes all of it into a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        for Local { path, content, to } in &self.local {
            hasher.update(format!("{path}\0{content}\0{to}\0"));
        }
        for Packed { to, content, .. } in &self.packed {
            hasher.update(format!("{to}\0"));
            hasher.update(Sha256::digest(content.as_slice()));
        }
    }

    /// Copies the folders of the commit beside the chart in a folder.
    pub fn copy(&self, reader: &Reader<'_>, folder: &str, workshop: &Workshop) -> Result<(), SourceError> {
        for Local { path, to, .. } in &self.local {
            let Some(tree) = reader.find_folder(path)? else { continue };
            let to = full(folder, to);
            reader.copy_to(tree, (path, &to), &Copying::plain(workshop), &mut Left::of(reader.limits))?;
        }
        Ok(())
    }

    /// Puts the packed charts beside the chart in a folder of a workshop. Each was looked into before: Helm unpacks it again.
    pub fn put(&self, chart: &str, folder: &str, workshop: &Workshop) -> Result<(), SourceError> {
        for Packed { name, to, content } in &self.packed {
            Archive::unpack(name.clone(), content).map_err(|problem| SourceError::Dependency {
                chart: chart.to_owned(),
                missing: name.clone(),
                reason: problem.to_string(),
            })?;
            workshop.put(&full(folder, to), content)?;
        }
        Ok(())
    }
}

fn problem(chart: &str, wanted: &Dependency, reason: String) -> SourceError {
    SourceError::Dependency { chart: chart.to_owned(), missing: wanted.shown(), reason }
}

fn denied(chart: &str, refused: &[Dependency], why: &'static str) -> SourceError {
    let missing: Vec<String> = refused.iter().map(Dependency::shown).collect();
    SourceError::Dependencies { chart: chart.to_owned(), missing: missing.join(", "), why }
}

/// What a file says; nothing where it is not there, or says something else, which is then Helm's to tell.
fn read<T: DeserializeOwned>(files: &dyn Files, path: &str) -> Result<Option<T>, SourceError> {
    Ok(files.file(path)?.and_then(|content| serde_saphyr::from_slice(&content).ok()))
}

/// A name that becomes part of the name of a file.
fn check_name(wanted: &Dependency, chart: &str) -> Result<(), SourceError> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !wanted.name.is_empty() && wanted.name.chars().all(is_sign) {
        true => Ok(()),
        false => Err(problem(chart, wanted, "that is no name of a chart".to_owned())),
    }
}

/// The names of those that are not in the folder `charts`.
fn missing<'d>(
    (folder, files): (&str, &dyn Files),
    declared: &'d [Dependency],
    chart: &str,
) -> Result<BTreeSet<&'d str>, SourceError> {
    let (charts, mut missing) = (full(folder, FOLDER), BTreeSet::new());
    for one in declared {
        if files.file(&format!("{charts}/{}/{CHART}", one.name))?.is_none() {
            missing.insert(one.name.as_str());
        }
    }
    if missing.is_empty() {
        return Ok(missing);
    }
    for path in files.below(&charts)? {
        let below = path.strip_prefix(&format!("{charts}/")).unwrap_or_default();
        let name = match parts(below).collect::<Vec<_>>().as_slice() {
            [file] if file.ends_with(PACKED) => packed_name(files, &path, file, chart)?,
            [_, file] if *file == CHART => read::<Named>(files, &path)?.map(|chart| chart.name),
            _ => None,
        };
        if let Some(name) = name {
            missing.remove(name.as_str());
        }
    }
    Ok(missing)
}

/// The name of a packed chart, as its file is called, or else as it says itself.
fn packed_name(
    files: &dyn Files,
    path: &str,
    file: &str,
    chart: &str,
) -> Result<Option<String>, SourceError> {
    let plain = file.strip_suffix(PACKED).unwrap_or(file);
    let versioned = plain.match_indices('-').find_map(|(at, _)| {
        let (name, version) = plain.split_at_checked(at)?;
        versions::is_whole(version.strip_prefix('-')?).then(|| name.to_owned())
    });
    if versioned.is_some() {
        return Ok(versioned);
    }
    let Some(content) = files.file(path)? else { return Ok(None) };
    let unpacked = Archive::unpack(chart.to_owned(), &content).ok();
    let inside = unpacked.and_then(|archive| archive.file(CHART).ok().flatten());
    Ok(inside.and_then(|content| serde_saphyr::from_slice::<Named>(&content).ok()).map(|chart| chart.name))
}

/// The version that is locked of what is declared at an index.
fn in_lock(locked: &[Dependency], declared: &[Dependency], at: usize) -> Result<String, String> {
    let Some(wanted) = declared.get(at) else { return Ok(String::new()) };
    // With aliases the same chart is there several times, in the same order.
    let before = declared.iter().take(at).filter(|one| one.name == wanted.name).count();
    let found = locked.iter().filter(|one| one.name == wanted.name).nth(before);
    let found = found.ok_or_else(|| format!("it has no {}", wanted.name))?;
    if !versions::satisfies(&wanted.version, &found.version) {
        return Err(format!("it has {} {}, and {} is asked for", found.name, found.version, wanted.version));
    }
    let plain = |one: &Dependency| one.repository.trim_end_matches('/').to_owned();
    match wanted.is_alias() || plain(wanted) == plain(found) {
        true => Ok(found.version.clone()),
        false => Err(format!("it has {} from another repository", found.name)),
    }
}
