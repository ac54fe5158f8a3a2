//! What can be wrong with the input.

use std::io;
use std::path::{Path, PathBuf};

use tidegate_planner::ManifestError;

use crate::output::text::escape;

/// Something that is wrong with the input.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Inside a file.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The path is not there.
    #[error("{}: there is no such file or folder; check the path", shown(path))]
    Missing { path: PathBuf },
    /// A file or folder that the system does not let us read.
    #[error("{}: the {what} cannot be read: {source}; mend that, or leave it out", shown(path))]
    Unreadable {
        path: PathBuf,
        what: &'static str,
        /// The system's words.
        source: io::Error,
    },
    /// A folder without manifests.
    #[error(
        "{}: no manifests in this folder; their names end in .yaml, .yml or .json, and hidden files are skipped{}",
        shown(path),
        if *synced { " (--allow-empty takes it as it is)" } else { "" }
    )]
    EmptyFolder {
        path: PathBuf,
        /// The command syncs what it reads, and may be told to take nothing for what it is.
        synced: bool,
    },
    /// Files without objects.
    #[error(
        "the input holds no objects; give at least one manifest{}",
        if *synced { ", or --allow-empty if the application is to have none" } else { "" }
    )]
    NoObjects {
        /// The command syncs what it reads, and may be told to take nothing for what it is.
        synced: bool,
    },
    /// Objects of which none is applied.
    #[error(
        "a sync applies none of the {objects} objects in the input: their annotations make them hooks of a deletion, or leave them out; give at least one other manifest, or --allow-empty if the application is to have none"
    )]
    AllLeftOut { objects: usize },
    /// A link that leads into itself.
    #[error("{}: the link leads back to a folder it is in; remove the link", shown(path))]
    Loop { path: PathBuf },
    /// A link to somewhere else.
    #[error(
        "{}: the link leads out of the folder that was given; copy what it leads to, or give that path as well",
        shown(path)
    )]
    Outside { path: PathBuf },
    /// A socket, pipe or device in a folder.
    #[error("{}: not a regular file; move it out of the folder", shown(path))]
    NotRegular { path: PathBuf },
    /// A named pipe: nobody may ever write to it.
    #[error(
        "{}: a named pipe, not a regular file; give - as the path and the manifests as standard input",
        shown(path)
    )]
    NamedPipe { path: PathBuf },
    /// More than anybody needs.
    #[error("{}: {what}; give the folders you mean", shown(path))]
    TooMuch {
        /// Where the limit was reached.
        path: PathBuf,
        what: String,
    },
    /// The file of ignored differences.
    #[error("{}: {message}; mend the file of --ignore-differences", shown(path))]
    Ignore { path: PathBuf, message: String },
    /// The file of gates.
    #[error("{}: {message}; mend the file of --gates", shown(path))]
    Gates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Nothing to judge with.
    #[error(
        "{}: no health scripts; give a folder with <group>/<Kind>/health.lua, or a file with a ConfigMap whose keys begin with resource.customizations.health.",
        shown(path)
    )]
    NoScripts {
        /// The folder or file.
        path: PathBuf,
    },
    /// Standard input twice.
    #[error("standard input (-) can be read once only; give - once")]
    StdinTwice,
}

fn shown(path: &Path) -> String {
    escape(&path.to_string_lossy())
}
