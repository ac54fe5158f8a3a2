//! What a folder has in it at a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::name;
use crate::applications::store::reading::Stamp;

/// The files of a folder.
#[derive(PartialEq)]
pub(super) struct Listed {
    pub found: BTreeMap<PathBuf, Stamp>,
    /// Those that are there and cannot be looked at.
    pub unread: BTreeSet<PathBuf>,
    /// One of them was not there any more when it was looked at.
    pub is_in_flux: bool,
    /// What is wrong with those that cannot be looked at, and with links that lead nowhere.
    pub problems: Vec<String>,
}

pub(super) fn list(folder: &Path) -> std::io::Result<Listed> {
    let (mut found, mut unread, mut problems) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut is_in_flux = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !is_manifest(&path) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {
                let modified = file.modified().unwrap_or(std::time::UNIX_EPOCH);
                found.insert(path, (modified, file.len(), file.ino()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound && !is_link(&entry) => is_in_flux = true,
            Err(error) => {
                problems.push(format!("{}: {error}", name(&path)));
                if error.kind() != ErrorKind::NotFound {
                    unread.insert(path);
                }
            }
        }
    }
    Ok(Listed { found, unread, is_in_flux, problems })
}

fn is_link(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_symlink())
}

pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|one| ["yaml", "yml", "json"].iter().any(|known| one == *known))
}
