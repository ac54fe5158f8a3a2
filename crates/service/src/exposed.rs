//! What others may write to in a state directory although they should not. That they may read there is for its owner to
//! say; only the key is kept from them, by the log.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::ServiceError;
use crate::notices::Notices;

/// The bits of a mode that say who may do what.
const RIGHTS: u32 = 0o777;
/// Those that let others write, which are also those that the system takes away where nobody has said otherwise.
const OTHERS_WRITE: u32 = 0o022;

/// Closes what is in a state directory to others who may write there; its own folder is closed already. What this program
/// makes where the system lets it make files for everybody is closed without a word.
pub(crate) fn close(root: &Path, notices: &dyn Notices) -> Result<(), ServiceError> {
    let mut closed = Closed { told: Vec::new(), umask: umask() };
    for path in entries(root) {
        // Of blobs, the folders: what is in a blob is sealed, and somebody else's is found out when it is read.
        closed.close(&path, !path.ends_with("blobs"))?;
    }
    let Some((first, mode)) = closed.told.first() else { return Ok(()) };
    let more = match closed.told.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more in the state directory"),
    };
    notices.warn(&format!(
        "others could write to {} (its mode was {:o}){more}; now only the owner can",
        first.display(),
        mode & RIGHTS
    ));
    Ok(())
}

struct Closed {
    /// What was open to others, and how.
    told: Vec<(PathBuf, u32)>,
    umask: u32,
}

impl Closed {
    /// A folder is closed before what is in it is looked at: from then on nobody else can put a link there.
    fn close(&mut self, path: &Path, with_files: bool) -> Result<(), ServiceError> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if !found.is_dir() && !found.is_file() {
            return Ok(());
        }
        self.close_one(path, &found)?;
        if found.is_dir() {
            for path in entries(path).into_iter().filter(|path| with_files || path.is_dir()) {
                self.close(&path, with_files)?;
            }
        }
        Ok(())
    }

    fn close_one(&mut self, path: &Path, found: &Metadata) -> Result<(), ServiceError> {
        let mode = found.permissions().mode();
        if mode & OTHERS_WRITE == 0 {
            return Ok(());
        }
        let is_told = mode & OTHERS_WRITE & self.umask != 0;
        match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_WRITE)) {
            Ok(()) if is_told => self.told.push((path.to_owned(), mode)),
            Err(source) if is_told => {
                return Err(ServiceError::refused(format!(
                    "others may write to {} (its mode is {:o}), and that cannot be changed: {source}; its owner can: chmod go-w",
                    path.display(),
                    mode & RIGHTS
                )));
            }
            Ok(()) | Err(_) => {}
        }
        Ok(())
    }
}

/// What is in a folder, in order. One that cannot be looked into is named by whoever needs it.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// Which rights the system takes from what this process makes.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(OTHERS_WRITE)
}
