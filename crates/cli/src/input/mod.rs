//! From paths to manifests. Everything that is wrong with any of the files is found before anything else happens.

mod content;
mod gates;
mod ignore;
pub mod problem;
mod walk;
pub mod wanted;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tidegate_planner::manifests::{ManifestCause, parse, parse_unnamed};
use tidegate_planner::{Limits, ManifestError, Target, is_left_out};

use crate::error::CliError;

pub use gates::definitions;
pub use ignore::ignored;
pub use problem::Problem;
pub use wanted::Wanted;

use content::{Content, read_file, read_limited};

/// Hexadecimal digits of the manifests' digest that make a revision.
const REVISION_DIGITS: usize = 12;
/// Standard input, in messages.
const STDIN: &str = "stdin";

/// Manifests, ready to plan.
#[derive(Debug)]
pub struct Manifests {
    /// The objects, in the order of the files.
    pub targets: Vec<Target>,
    /// Beginning of a digest of their content: the same objects give the same revision, whatever the files are called
    /// and however they are formatted.
    pub revision: String,
}

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Stdin,
    File(PathBuf),
}

/// Reads all manifests of the paths.
pub fn load(paths: &[PathBuf], wanted: Wanted) -> Result<Manifests, CliError> {
    let mut problems = Vec::new();
    let sources = find(paths, wanted.synced, &mut problems);
    if wanted.empty {
        problems.retain(|problem| !matches!(problem, Problem::EmptyFolder { .. }));
    }
    let limits = Limits::default();
    let mut targets = Vec::new();
    for source in &sources {
        match read(source, &limits, wanted) {
            Ok(found) => targets.extend(found),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() && !wanted.empty {
        let is_nothing = |target: &Target| wanted.synced && is_left_out(&target.object);
        match targets.iter().all(is_nothing) {
            true if targets.is_empty() => problems.push(Problem::NoObjects { synced: wanted.synced }),
            true => problems.push(Problem::AllLeftOut { objects: targets.len() }),
            false => {}
        }
    }
    if !problems.is_empty() {
        return Err(CliError::BadInput { problems });
    }
    let revision = revision(&targets);
    Ok(Manifests { targets, revision })
}

fn find(paths: &[PathBuf], synced: bool, problems: &mut Vec<Problem>) -> Vec<Source> {
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
            walk::files(path, problems, &mut |file| sources.push(Source::File(file)));
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

/// Reading one lasts until somebody writes to it. The pipes a shell makes for `<(command)` and the one that standard
/// input may be have a writer; they are found below these folders.
fn is_named_pipe(path: &Path) -> bool {
    let of_shell = std::path::absolute(path)
        .is_ok_and(|path| ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)));
    !of_shell && fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn read(source: &Source, limits: &Limits, wanted: Wanted) -> Result<Vec<Target>, Vec<Problem>> {
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
        Content::Whole(bytes) => {
            let parse = if wanted.unnamed { parse_unnamed } else { parse };
            parse(&name, &bytes, limits).map_err(|errors| errors.into_iter().map(Problem::from).collect())
        }
        Content::TooLarge(bytes) => {
            let cause = ManifestCause::TooLarge { bytes, limit: limits.bytes };
            Err(vec![ManifestError { file: name, line: 1, document: 0, object: None, cause }.into()])
        }
    }
}

fn revision(targets: &[Target]) -> String {
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
        assert_eq!(revision(&yaml), revision(&json));
        assert_ne!(revision(&yaml), revision(&other));
        assert_eq!(revision(&yaml).len(), REVISION_DIGITS);
    }
}
