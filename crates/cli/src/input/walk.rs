//! Which files of a folder are manifests.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_service::files::leads_out;

use super::problem::Problem;

/// Folders inside each other. Nobody keeps manifests deeper; a wrong path such as `/` stops here.
const DEPTH_MAX: usize = 64;
/// Files and folders looked at. As above.
const ENTRIES_MAX: usize = 200_000;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Calls `found` with each manifest file below `folder`, sorted by name.
pub fn files(folder: &Path, problems: &mut Vec<Problem>, found: &mut dyn FnMut(PathBuf)) {
    let root = fs::canonicalize(folder).unwrap_or_default();
    let mut walk = Walk { problems, found, entries: 0, inside: Vec::new(), root };
    walk.folder(folder);
}

struct Walk<'a> {
    problems: &'a mut Vec<Problem>,
    found: &'a mut dyn FnMut(PathBuf),
    entries: usize,
    /// The folders we are in, without links.
    inside: Vec<PathBuf>,
    /// Where all of them are, without links.
    root: PathBuf,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path) {
        let unreadable = |source| Problem::Unreadable { path: folder.to_path_buf(), what: "folder", source };
        let real = match fs::canonicalize(folder) {
            Ok(real) => real,
            Err(error) => return self.problems.push(unreadable(error)),
        };
        if self.inside.contains(&real) {
            return self.problems.push(Problem::Loop { path: folder.to_path_buf() });
        }
        if self.inside.len() >= DEPTH_MAX {
            return self.too_much(folder, format!("more than {DEPTH_MAX} folders inside each other"));
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
        self.inside.push(real);
        for name in names {
            self.entries = self.entries.saturating_add(1);
            if self.entries > ENTRIES_MAX {
                self.too_much(folder, format!("more than {ENTRIES_MAX} files and folders"));
                break;
            }
            self.entry(folder.join(name));
        }
        self.inside.pop();
    }

    /// Whether a link leads to somewhere else than below the folder that was given. Whoever may change a folder of
    /// manifests may not thereby have other files read.
    fn leaves(&self, path: &Path) -> bool {
        leads_out(&self.root, path)
    }

    fn too_much(&mut self, folder: &Path, what: String) {
        self.problems.push(Problem::TooMuch { path: folder.to_path_buf(), what });
    }

    fn entry(&mut self, path: PathBuf) {
        let is_manifest = path
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)));
        match fs::metadata(&path) {
            // Of the files only manifests are read.
            Ok(metadata) if (is_manifest || metadata.is_dir()) && self.leaves(&path) => {
                self.problems.push(Problem::Outside { path });
            }
            Ok(metadata) if metadata.is_dir() => self.folder(&path),
            _ if !is_manifest => {}
            Ok(metadata) if metadata.is_file() => (self.found)(path),
            Ok(_) => self.problems.push(Problem::NotRegular { path }),
            Err(source) => self.problems.push(Problem::Unreadable { path, what: "file", source }),
        }
    }
}
