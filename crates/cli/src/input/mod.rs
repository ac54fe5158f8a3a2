//! From paths to manifests. Everything that is wrong with any of the files is found before anything else happens.

mod ignore;
mod walk;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tidegate_health::ScriptError;
use tidegate_planner::manifests::{ManifestCause, parse, parse_unnamed};
use tidegate_planner::{Limits, ManifestError, Target};

use crate::error::CliError;
use crate::output::escape;

pub use ignore::ignored;
pub use walk::leads_out;

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

/// Something that is wrong with the input.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Inside a file.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The path is not there.
    #[error("{}: there is no such file or folder; check the path", shown(path))]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A file or folder that the system does not let us read.
    #[error("{}: the {what} cannot be read: {source}; mend that, or leave it out", shown(path))]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// File or folder.
        what: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// A folder without manifests.
    #[error(
        "{}: no manifests in this folder; their names end in .yaml, .yml or .json, and hidden files are skipped (--allow-empty takes it as it is)",
        shown(path)
    )]
    EmptyFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Files without objects.
    #[error(
        "the input holds no objects; give at least one manifest, or --allow-empty if the application is to have none"
    )]
    NoObjects,
    /// A link that leads into itself.
    #[error("{}: the link leads back to a folder it is in; remove the link", shown(path))]
    Loop {
        /// The link.
        path: PathBuf,
    },
    /// A link to somewhere else.
    #[error(
        "{}: the link leads out of the folder that was given; copy what it leads to, or give that path as well",
        shown(path)
    )]
    Outside {
        /// The link.
        path: PathBuf,
    },
    /// A socket, pipe or device in a folder.
    #[error("{}: not a regular file; move it out of the folder", shown(path))]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// A named pipe: nobody may ever write to it.
    #[error(
        "{}: a named pipe, not a regular file; give - as the path and the manifests as standard input",
        shown(path)
    )]
    NamedPipe {
        /// The path.
        path: PathBuf,
    },
    /// More than anybody needs.
    #[error("{}: {what}; give the folders you mean", shown(path))]
    TooMuch {
        /// Where the limit was reached.
        path: PathBuf,
        /// Which limit.
        what: String,
    },
    /// The file of ignored differences.
    #[error("{}: {message}; mend the file of --ignore-differences", shown(path))]
    Ignore {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A health script.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Nothing to judge with.
    #[error(
        "{}: no health scripts; give a folder with <group>/<Kind>/health.lua, or a file with a ConfigMap whose keys begin with resource.customizations.health.",
        shown(path)
    )]
    NoScripts {
        /// The folder or file.
        path: PathBuf,
    },
    /// Customisations that cannot be read.
    #[error("{name}: not a map of kinds to customisations: {reason}; mend the YAML in this key")]
    Customizations {
        /// File, ConfigMap and key.
        name: String,
        /// The parser's words.
        reason: String,
    },
    /// Standard input twice.
    #[error("standard input (-) can be read once only; give - once")]
    StdinTwice,
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}

/// One thing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Stdin,
    File(PathBuf),
}

/// What is asked of the input besides being readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// It may hold no objects at all.
    pub empty: bool,
    /// Its objects need no names, because they are only looked at.
    pub unnamed: bool,
}

/// Reads all manifests of the paths.
pub fn load(paths: &[PathBuf], wanted: Wanted) -> Result<Manifests, CliError> {
    let mut problems = Vec::new();
    let sources = find(paths, &mut problems);
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
    if problems.is_empty() && targets.is_empty() && !wanted.empty {
        problems.push(Problem::NoObjects);
    }
    if !problems.is_empty() {
        return Err(CliError::BadInput { problems });
    }
    let revision = revision(&targets);
    Ok(Manifests { targets, revision })
}

fn find(paths: &[PathBuf], problems: &mut Vec<Problem>) -> Vec<Source> {
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
                problems.push(Problem::EmptyFolder { path: path.clone() });
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
            Err(vec![ManifestError { file: name, line: 1, object: None, cause }.into()])
        }
    }
}

enum Content {
    Whole(Vec<u8>),
    TooLarge(u64),
}

/// Looks at the size first: a file that is too large is not read at all.
fn read_file(path: &Path, limit: u64) -> io::Result<Content> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > limit { Ok(Content::TooLarge(size)) } else { read_limited(file, limit) }
}

fn read_limited(reader: impl Read, limit: u64) -> io::Result<Content> {
    let mut bytes = Vec::new();
    reader.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(if size > limit { Content::TooLarge(size) } else { Content::Whole(bytes) })
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

    #[test]
    fn more_than_the_limit_is_not_kept() {
        assert!(matches!(read_limited(&b"12345"[..], 5), Ok(Content::Whole(bytes)) if bytes.len() == 5));
        assert!(matches!(read_limited(&b"123456"[..], 5), Ok(Content::TooLarge(6))));
    }
}
