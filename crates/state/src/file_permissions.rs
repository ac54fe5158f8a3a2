//! Revokes other users' access to files in a state directory. Earlier versions of Tidegate relied on the
//! umask, and Kubernetes volumes may grant access to their group.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::ServiceError;
use crate::notices::Notices;
use crate::shell_words::quote_path;

/// Permission bits of a file mode.
const PERMISSION_BITS: u32 = 0o777;
/// Permission bits for group and other users.
pub const OTHERS: u32 = 0o077;
/// Permission bits for writing by group and other users.
pub const WRITE_BY_OTHERS: u32 = 0o022;

/// Revokes other users' access to the content of a state directory. The caller has already restricted the
/// directory itself. `was_open` is true if others had access to it. Reports only files that they could
/// modify.
pub fn remove_access_of_others(
    root: &Path,
    was_open: bool,
    notices: &dyn Notices,
) -> Result<(), ServiceError> {
    let mut closed = PermissionFix::default();
    for path in list_entries(root) {
        // There may be many blobs. Skip them if a folder above was closed to other users, who then never had
        // access.
        closed.fix_tree(&path, was_open || !path.ends_with("blobs"))?;
    }
    let Some((first, mode)) = closed.reported.first() else { return Ok(()) };
    let more = match closed.reported.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more in the state directory"),
    };
    notices.warn(&format!(
        "other users could write to {} (mode {:o}){more}; their access has been revoked",
        first.display(),
        mode & PERMISSION_BITS
    ));
    Ok(())
}

#[derive(Default)]
struct PermissionFix {
    /// Restricted paths to report, each with its previous mode.
    reported: Vec<(PathBuf, u32)>,
}

impl PermissionFix {
    /// Restricts a path, then a folder's content. The folder comes first, so that no other user can place a
    /// link in it in the meantime.
    fn fix_tree(&mut self, path: &Path, with_files: bool) -> Result<(), ServiceError> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if !found.is_dir() && !found.is_file() {
            return Ok(());
        }
        self.fix_path(path, &found)?;
        if found.is_dir() {
            let with_files = with_files || found.permissions().mode() & OTHERS != 0;
            for path in list_entries(path).into_iter().filter(|path| with_files || path.is_dir()) {
                self.fix_tree(&path, with_files)?;
            }
        }
        Ok(())
    }

    fn fix_path(&mut self, path: &Path, found: &Metadata) -> Result<(), ServiceError> {
        let mode = found.permissions().mode();
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let is_writable = mode & WRITE_BY_OTHERS != 0;
        match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) if is_writable => self.reported.push((path.to_owned(), mode)),
            // Another process has removed the file or folder.
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) if is_writable => {
                return Err(ServiceError::refused(format!(
                    "other users can write to {} (mode {:o}), and changing the mode failed: {source}; run `chmod go-rwx {}` as its owner",
                    path.display(),
                    mode & PERMISSION_BITS,
                    quote_path(path)
                )));
            }
            // Either the fix isn't worth reporting, or this process can't change the mode: the file belongs
            // to another user, or the file system is read-only.
            Ok(()) | Err(_) => {}
        }
        Ok(())
    }
}

/// Returns a folder's content, sorted. Skips an unreadable folder, because whatever uses it reports the
/// error.
fn list_entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}
