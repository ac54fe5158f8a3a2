//! Loads manifests from paths. Reports the problems in all files together.

mod content;
mod gates;
mod ignore;
pub mod problem;
pub mod requirements;
mod walk;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tidegate_planner::manifests::{ManifestCause, parse, parse_without_names};
use tidegate_planner::{Limits, ManifestError, Target, is_excluded_from_sync};

use crate::error::CliError;

pub use gates::load_definitions;
pub use ignore::load_ignore_rules;
pub use problem::Problem;
pub use requirements::InputRequirements;

use content::{FileContent, read_file, read_limited};

/// Number of hex digits of the manifests' digest in a revision.
const REVISION_DIGITS: usize = 12;
/// Name of standard input in messages.
const STDIN: &str = "stdin";

/// Manifests, ready to plan.
#[derive(Debug)]
pub struct Manifests {
    /// Objects, in the order of the files.
    pub targets: Vec<Target>,
    /// Prefix of a digest of the objects' content. The same objects always have the same revision, whatever
    /// the file names and formatting.
    pub revision: String,
}

/// An input to read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Stdin,
    File(PathBuf),
}

/// Checks that a file or folder exists.
pub fn check_exists(path: &Path) -> Result<(), CliError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(CliError::InvalidInput { problems: vec![Problem::Missing { path: path.to_owned() }] })
        }
        _ => Ok(()),
    }
}

/// Reads all manifests at the given paths.
pub fn load(paths: &[PathBuf], wanted: InputRequirements) -> Result<Manifests, CliError> {
    let mut problems = Vec::new();
    let sources = find_sources(paths, wanted.is_synced, &mut problems);
    if wanted.can_be_empty {
        problems.retain(|problem| !matches!(problem, Problem::EmptyFolder { .. }));
    }
    let limits = Limits::default();
    let mut targets = Vec::new();
    for source in &sources {
        match read_source(source, &limits, wanted) {
            Ok(found) => targets.extend(found),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() && !wanted.can_be_empty {
        let is_nothing = |target: &Target| wanted.is_synced && is_excluded_from_sync(&target.object);
        match targets.iter().all(is_nothing) {
            true if targets.is_empty() => problems.push(Problem::NoObjects { synced: wanted.is_synced }),
            true => problems.push(Problem::AllExcluded { objects: targets.len() }),
            false => {}
        }
    }
    if !problems.is_empty() {
        return Err(CliError::InvalidInput { problems });
    }
    let revision = manifest_revision(&targets);
    Ok(Manifests { targets, revision })
}

fn find_sources(paths: &[PathBuf], synced: bool, problems: &mut Vec<Problem>) -> Vec<Source> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            if sources.contains(&Source::Stdin) {
                problems.push(Problem::StdinTwice);
            } else {
                sources.push(Source::Stdin);
            }
        } else if path.is_dir() {
            let before = (sources.len(), problems.len());
            walk::walk_files(path, problems, &mut |file| sources.push(Source::File(file)));
            if before == (sources.len(), problems.len()) {
                problems.push(Problem::EmptyFolder { path: path.clone(), synced });
            }
        } else if is_named_pipe(path) {
            problems.push(Problem::NamedPipe { path: path.clone() });
        } else {
            sources.push(Source::File(path.clone()));
        }
    }
    sources
}

/// Returns true for a named pipe, which could block forever without a writer. Standard input and the shell's
/// pipes for `<(command)` have a writer, so their folders are excluded.
fn is_named_pipe(path: &Path) -> bool {
    let of_shell = std::path::absolute(path)
        .is_ok_and(|path| ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)));
    !of_shell && fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn read_source(
    source: &Source,
    limits: &Limits,
    wanted: InputRequirements,
) -> Result<Vec<Target>, Vec<Problem>> {
    let (name, content) = match source {
        Source::Stdin => (STDIN.to_owned(), read_limited(io::stdin().lock(), limits.bytes)),
        Source::File(path) => (path.to_string_lossy().into_owned(), read_file(path, limits.bytes)),
    };
    let unreadable = |error: io::Error| match source {
        Source::File(path) if error.kind() == io::ErrorKind::NotFound => {
            Problem::Missing { path: path.clone() }
        }
        _ => Problem::Unreadable { path: PathBuf::from(&name), what: "file", source: error },
    };
    match content.map_err(|error| vec![unreadable(error)])? {
        FileContent::Whole(bytes) => {
            let parse = if wanted.can_be_unnamed { parse_without_names } else { parse };
            parse(&name, &bytes, limits).map_err(|errors| errors.into_iter().map(Problem::from).collect())
        }
        FileContent::TooLarge(bytes) => {
            let cause = ManifestCause::TooLarge { bytes, limit: limits.bytes };
            Err(vec![ManifestError { file: name, line: 1, document: 0, object: None, cause }.into()])
        }
    }
}

fn manifest_revision(targets: &[Target]) -> String {
    let mut hasher = Sha256::new();
    for target in targets {
        hasher.update(target.object.as_value().to_string());
        hasher.update([0]);
    }
    let digits: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(REVISION_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_depends_on_content_only() {
        let read = |text: &str| parse("x", text.as_bytes(), &Limits::default()).unwrap();
        let yaml = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
        let json = read(r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}"#);
        let other = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n");
        assert_eq!(manifest_revision(&yaml), manifest_revision(&json));
        assert_ne!(manifest_revision(&yaml), manifest_revision(&other));
        assert_eq!(manifest_revision(&yaml).len(), REVISION_DIGITS);
    }
}
