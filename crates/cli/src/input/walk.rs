//! Finds the manifest files in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_state::files::is_link_outside;

use super::problem::Problem;

/// Maximum folder depth. Manifests are never nested this deeply, so a deeper path is probably wrong, such as
/// `/`.
const DEPTH_MAX: usize = 64;
/// Maximum number of files and folders. Like [`DEPTH_MAX`], this catches a wrong path.
const ENTRIES_MAX: usize = 200_000;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Calls `on_file` for each manifest file below `folder`, sorted by name.
pub fn walk_files(folder: &Path, problems: &mut Vec<Problem>, on_file: &mut dyn FnMut(PathBuf)) {
    let root = fs::canonicalize(folder).unwrap_or_default();
    let mut walk = Walk { problems, on_file, entries: 0, folder_chain: Vec::new(), root };
    walk.visit_folder(folder);
}

struct Walk<'a> {
    problems: &'a mut Vec<Problem>,
    on_file: &'a mut dyn FnMut(PathBuf),
    entries: usize,
    /// Folders from the root to the current one, with links resolved.
    folder_chain: Vec<PathBuf>,
    /// Root folder, with links resolved.
    root: PathBuf,
}

impl Walk<'_> {
    fn visit_folder(&mut self, folder: &Path) {
        let unreadable = |source| Problem::Unreadable { path: folder.to_path_buf(), what: "folder", source };
        let real = match fs::canonicalize(folder) {
            Ok(real) => real,
            Err(error) => return self.problems.push(unreadable(error)),
        };
        if self.folder_chain.contains(&real) {
            return self.problems.push(Problem::LinkLoop { path: folder.to_path_buf() });
        }
        if self.folder_chain.len() >= DEPTH_MAX {
            return self.add_limit_problem(folder, format!("more than {DEPTH_MAX} nested folders"));
        }
        let entries = fs::read_dir(folder).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match entries {
            Ok(names) => names,
            Err(error) => return self.problems.push(unreadable(error)),
        };
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
        names.sort_unstable();
        self.folder_chain.push(real);
        for name in names {
            self.entries = self.entries.saturating_add(1);
            if self.entries > ENTRIES_MAX {
                self.add_limit_problem(folder, format!("more than {ENTRIES_MAX} files and folders"));
                break;
            }
            self.visit_entry(folder.join(name));
        }
        self.folder_chain.pop();
    }

    /// Returns true if a link points outside the root folder. Write access to a folder of manifests must not
    /// give access to other files.
    fn is_outside_root(&self, path: &Path) -> bool {
        is_link_outside(&self.root, path)
    }

    fn add_limit_problem(&mut self, folder: &Path, what: String) {
        self.problems.push(Problem::TooLarge { path: folder.to_path_buf(), what });
    }

    fn visit_entry(&mut self, path: PathBuf) {
        let is_manifest = path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)));
        match fs::metadata(&path) {
            // Links to other files don't matter: those files aren't read.
            Ok(metadata) if (is_manifest || metadata.is_dir()) && self.is_outside_root(&path) => {
                self.problems.push(Problem::LinkOutside { path });
            }
            Ok(metadata) if metadata.is_dir() => self.visit_folder(&path),
            _ if !is_manifest => {}
            Ok(metadata) if metadata.is_file() => (self.on_file)(path),
            Ok(_) => self.problems.push(Problem::NotRegular { path }),
            Err(source) => self.problems.push(Problem::Unreadable { path, what: "file", source }),
        }
    }
}
