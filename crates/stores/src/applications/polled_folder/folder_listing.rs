//! Content of a folder at a point in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::file_name;
use crate::applications::parsed_file::FileStamp;

/// Files in a folder.
#[derive(PartialEq)]
pub(super) struct FolderListing {
    pub files: BTreeMap<PathBuf, FileStamp>,
    /// Files that exist but are inaccessible.
    pub inaccessible: BTreeSet<PathBuf>,
    /// True if a listed file disappeared before it was read.
    pub is_changing: bool,
    /// Errors about inaccessible files and dangling links.
    pub problems: Vec<String>,
}

pub(super) fn list_folder(folder: &Path) -> std::io::Result<FolderListing> {
    let (mut files, mut inaccessible, mut problems) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut is_changing = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !is_manifest(&path) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {
                let modified = file.modified().unwrap_or(std::time::UNIX_EPOCH);
                files.insert(path, (modified, file.len(), file.ino()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound && !is_link(&entry) => is_changing = true,
            Err(error) => {
                problems.push(format!("{}: {error}", file_name(&path)));
                if error.kind() != ErrorKind::NotFound {
                    inaccessible.insert(path);
                }
            }
        }
    }
    Ok(FolderListing { files, inaccessible, is_changing, problems })
}

fn is_link(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_symlink())
}

pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|one| ["yaml", "yml", "json"].iter().any(|known| one == *known))
}
