//! Problems with the input.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_planner::ManifestError;

use crate::output::text::escape;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file has invalid content.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The path doesn't exist.
    #[error("{}: no such file or folder; check the path", format_path(path))]
    Missing { path: PathBuf },
    /// The operating system doesn't permit reading the file or folder.
    #[error(
        "{}: cannot read the {what}: {source}; check the permissions, or omit the {what}",
        format_path(path)
    )]
    Unreadable {
        path: PathBuf,
        what: &'static str,
        /// Error from the operating system.
        source: io::Error,
    },
    /// The folder doesn't contain manifests.
    #[error(
        "{}: no manifests in this folder; manifest file names end in .yaml, .yml or .json, and hidden files are skipped{}",
        format_path(path),
        if *synced { " (use --allow-empty to accept an empty folder)" } else { "" }
    )]
    EmptyFolder {
        path: PathBuf,
        /// True if the command syncs its input and therefore has `--allow-empty`.
        synced: bool,
    },
    /// The files contain no objects.
    #[error(
        "the input contains no objects; pass at least one manifest{}",
        if *synced { ", or use --allow-empty if the application has no objects" } else { "" }
    )]
    NoObjects {
        /// True if the command syncs its input and therefore has `--allow-empty`.
        synced: bool,
    },
    /// A sync would apply none of the objects.
    #[error(
        "a sync would not apply any of the {objects} objects in the input: their annotations make them \
         deletion hooks or exclude them; pass at least one other manifest, or use --allow-empty if the \
         application has no objects"
    )]
    AllExcluded { objects: usize },
    /// A link to a folder that contains it.
    #[error("{}: the link points to one of its parent folders; remove the link", format_path(path))]
    LinkLoop { path: PathBuf },
    /// A link to a target outside the folder.
    #[error(
        "{}: the link points outside the specified folder; replace it with a copy of its target, or pass \
         the target as well",
        format_path(path)
    )]
    LinkOutside { path: PathBuf },
    /// A socket, pipe or device in a folder.
    #[error("{}: not a regular file; move it out of the folder", format_path(path))]
    NotRegular { path: PathBuf },
    /// A named pipe, which may never have a writer.
    #[error(
        "{}: a named pipe, not a regular file; use - as the path and pass the manifests on standard input",
        format_path(path)
    )]
    NamedPipe { path: PathBuf },
    /// The input exceeds a limit.
    #[error("{}: {what}; pass more specific folders", format_path(path))]
    TooLarge {
        /// Path that exceeds the limit.
        path: PathBuf,
        what: String,
    },
    /// The file of ignored differences is invalid.
    #[error("{}: {message}; fix the --ignore-differences file", format_path(path))]
    InvalidIgnoreFile { path: PathBuf, message: String },
    /// The gates file is invalid.
    #[error("{}: {message}; fix the --gates file", format_path(path))]
    InvalidGatesFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        message: String,
    },
    /// No health rules at this path.
    #[error(
        "{}: no health rules; pass a folder with <group>/<Kind>/health.lua, or a file with a ConfigMap whose keys begin with resource.customizations.health.",
        format_path(path)
    )]
    MissingScripts {
        /// Folder or file.
        path: PathBuf,
    },
    /// Standard input is specified twice.
    #[error("standard input (-) can be read only once; pass - once")]
    StdinTwice,
}

fn format_path(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
