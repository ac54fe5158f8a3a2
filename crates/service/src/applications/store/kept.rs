//! What is known of applications and of sets, as files in the state directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_application::credentials;
use tidegate_model::argo::{Application, ApplicationSet};

use super::AppKey;
use crate::disk::Disk;
use crate::error::ServiceError;

/// Something that is kept as a file.
pub(crate) trait Kept: Clone + Serialize + DeserializeOwned {
    /// What it is called in messages.
    const NOUN: &'static str;
    /// The mode of its files, as far as the system lets it: who may read them.
    const MODE: u32;

    /// Its name.
    fn key(&self) -> AppKey;
    /// What of it is written down.
    fn written(&self) -> Cow<'_, Self>;
}

impl Kept for Application {
    const NOUN: &'static str = "application";
    const MODE: u32 = 0o666;

    fn key(&self) -> AppKey {
        AppKey::of(self)
    }

    fn written(&self) -> Cow<'_, Self> {
        Cow::Owned(credentials::shown(self))
    }
}

/// The whole of a set is kept, for what is to be done when its document is gone: also credentials in it.
impl Kept for ApplicationSet {
    const NOUN: &'static str = "ApplicationSet";
    const MODE: u32 = 0o600;

    fn key(&self) -> AppKey {
        AppKey::of_set(self)
    }

    fn written(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }
}

/// Ends the name of what is being written.
const BESIDE: &str = "new";

/// The file of an application, or of a set. Names hold no `_`, so no two have the same.
pub(crate) fn file(folder: &Path, key: &AppKey) -> PathBuf {
    folder.join(format!("{}_{}.json", key.namespace, key.name))
}

/// Writes beside, and then in the place of what was there: a crash leaves the one or the other.
pub(crate) fn write<T: Kept>(disk: &dyn Disk, folder: &Path, kept: &T) -> Result<(), ServiceError> {
    let path = file(folder, &kept.key());
    let beside = path.with_extension(BESIDE);
    let write = || -> io::Result<()> {
        disk.make_folder(folder)?;
        disk.write(&beside, &serde_json::to_vec(&kept.written())?, T::MODE)?;
        disk.rename(&beside, &path)?;
        disk.sync_folder(folder)
    };
    write().map_err(|source| ServiceError::Io { action: "write", path: path.clone(), source })
}

/// Removes what is kept under a name; it need not be there. When this returns that is durable.
pub(crate) fn remove(disk: &dyn Disk, folder: &Path, key: &AppKey) -> Result<(), ServiceError> {
    let path = file(folder, key);
    match disk.remove(&path).and_then(|()| disk.sync_folder(folder)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ServiceError::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// What is kept in a file; nothing where that cannot be read, which is told.
pub(crate) fn read<T: Kept>(path: &Path) -> Option<T> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "what is known of an {} cannot be read", T::NOUN);
            }
            return None;
        }
    };
    serde_json::from_slice(&content)
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "what is known of an {} is damaged", T::NOUN),
        )
        .ok()
}

/// Puts aside what cannot be read, so that nothing of it is lost; says of each file where it is now.
pub(crate) fn set_aside<T: Kept>(disk: &dyn Disk, folder: &Path) -> BTreeMap<PathBuf, String> {
    let paths = paths(folder).unwrap_or_default();
    let damaged = paths.into_iter().filter_map(|path| Some((problem::<T>(&path)?, path)));
    damaged.map(|(problem, path)| (path.clone(), put(disk, &path, &problem))).collect()
}

/// Removes what a process has begun to write that then died: nothing of it counts, and nobody would come back to it. For whoever
/// has the folder for himself.
pub(crate) fn tidy(disk: &dyn Disk, folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.filter(|path| path.extension().is_some_and(|extension| extension == BESIDE)) {
        if let Err(error) = disk.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "what was half written cannot be removed");
        }
    }
}

/// Why a file does not say what is known of what it is named by.
fn problem<T: Kept>(path: &Path) -> Option<String> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read,
    };
    match content.map(|content| serde_json::from_slice::<T>(&content)) {
        Err(error) => Some(error.to_string()),
        Ok(Err(error)) => Some(error.to_string()),
        Ok(Ok(kept)) if path.file_name() != file(folder_of(path), &kept.key()).file_name() => {
            Some(format!("it is about {} {}", T::NOUN, kept.key()))
        }
        Ok(Ok(_)) => None,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn put(disk: &dyn Disk, path: &Path, problem: &str) -> String {
    let free = |number: u32| path.with_extension(format!("damaged-{number}"));
    let to = (1..).map(free).find(|to| fs::symlink_metadata(to).is_err()).unwrap_or_else(|| free(0));
    let told = match disk.rename(path, &to) {
        Ok(()) => format!("it is kept as {}", to.display()),
        Err(error) => format!("it cannot be put aside: {error}"),
    };
    tracing::warn!(path = %path.display(), problem, told, "what is kept is damaged");
    format!("its status was damaged ({problem}); {told}")
}

/// Everything that is known of applications, by name: also when nobody serves them.
pub fn kept_applications(folder: &Path) -> Result<Vec<Application>, ServiceError> {
    all(folder)
}

/// Everything that is kept in a folder, by name.
pub(crate) fn all<T: Kept>(folder: &Path) -> Result<Vec<T>, ServiceError> {
    Ok(paths(folder)?.iter().filter_map(|path| read(path)).collect())
}

fn paths(folder: &Path) -> Result<Vec<PathBuf>, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(wrong)?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}
