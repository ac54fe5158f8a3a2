//! Persisted state of Applications and ApplicationSets: files in the state directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_application::credentials;
use tidegate_model::argo::{Application, ApplicationSet};

use tidegate_application::AppKey;
use tidegate_state::disk::Disk;
use tidegate_state::error::ServiceError;

/// Type that can be persisted as a file.
pub trait StateFile: Clone + Serialize + DeserializeOwned {
    /// Name of the type in messages.
    const NOUN: &'static str;

    /// Returns the key of the Application or ApplicationSet.
    fn key(&self) -> AppKey;
    /// Returns the value in its persisted form.
    fn persisted_form(&self) -> Cow<'_, Self>;
}

impl StateFile for Application {
    const NOUN: &'static str = "application";

    fn key(&self) -> AppKey {
        AppKey::of(self)
    }

    fn persisted_form(&self) -> Cow<'_, Self> {
        Cow::Owned(credentials::application_without_credentials(self))
    }
}

/// Persists the whole ApplicationSet, including credentials, because work may be left after its document is
/// gone.
impl StateFile for ApplicationSet {
    const NOUN: &'static str = "ApplicationSet";

    fn key(&self) -> AppKey {
        AppKey::of_appset(self)
    }

    fn persisted_form(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }
}

/// File mode.
const OWNER_ONLY: u32 = 0o600;
/// Extension of unfinished files.
const TEMPORARY_EXTENSION: &str = "new";

/// Returns the file of an Application or ApplicationSet. Names can't contain `_`, so file names are unique.
pub fn state_path(folder: &Path, key: &AppKey) -> PathBuf {
    folder.join(format!("{}_{}.json", key.namespace, key.name))
}

/// Writes to a temporary file and renames it, so that a crash leaves either the old or the new content.
pub fn write<T: StateFile>(disk: &dyn Disk, folder: &Path, state: &T) -> Result<(), ServiceError> {
    let path = state_path(folder, &state.key());
    let beside = path.with_extension(TEMPORARY_EXTENSION);
    let write = || -> io::Result<()> {
        disk.create_folder(folder)?;
        disk.write(&beside, &serde_json::to_vec(&state.persisted_form())?, OWNER_ONLY)?;
        disk.rename(&beside, &path)?;
        disk.sync_folder(folder)
    };
    write().map_err(|source| ServiceError::Io { action: "write", path: path.clone(), source })
}

/// Removes a file, if it exists. The removal is durable on return.
pub fn remove(disk: &dyn Disk, folder: &Path, key: &AppKey) -> Result<(), ServiceError> {
    let path = state_path(folder, key);
    match disk.remove(&path).and_then(|()| disk.sync_folder(folder)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ServiceError::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// Reads a file. Returns `None` and logs a warning if the file is unreadable.
pub fn read<T: StateFile>(path: &Path) -> Option<T> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "failed to read the stored status of an {}", T::NOUN);
            }
            return None;
        }
    };
    serde_json::from_slice(&content)
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "the stored status of an {} is damaged", T::NOUN),
        )
        .ok()
}

/// Moves damaged files aside to preserve their content. Returns their new paths.
pub fn set_damaged_aside<T: StateFile>(disk: &dyn Disk, folder: &Path) -> BTreeMap<PathBuf, String> {
    let paths = state_paths(folder).unwrap_or_default();
    let damaged = paths.into_iter().filter_map(|path| Some((content_error::<T>(&path)?, path)));
    damaged.map(|(problem, path)| (path.clone(), move_aside(disk, &path, &problem))).collect()
}

/// Removes temporary files left by a crashed process. The caller must have exclusive access to the folder.
pub fn remove_temporary_files(disk: &dyn Disk, folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in
        entries.filter(|path| path.extension().is_some_and(|extension| extension == TEMPORARY_EXTENSION))
    {
        if let Err(error) = disk.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "failed to remove a partially written file");
        }
    }
}

/// Returns an error if a file's content doesn't match its name.
fn content_error<T: StateFile>(path: &Path) -> Option<String> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read,
    };
    match content.map(|content| serde_json::from_slice::<T>(&content)) {
        Err(error) => Some(error.to_string()),
        Ok(Err(error)) => Some(error.to_string()),
        Ok(Ok(state)) if path.file_name() != state_path(parent_folder(path), &state.key()).file_name() => {
            Some(format!("the content belongs to {} {}", T::NOUN, state.key()))
        }
        Ok(Ok(_)) => None,
    }
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn move_aside(disk: &dyn Disk, path: &Path, problem: &str) -> String {
    let free = |number: u32| path.with_extension(format!("damaged-{number}"));
    let to = (1..).map(free).find(|to| fs::symlink_metadata(to).is_err()).unwrap_or_else(|| free(0));
    let outcome = match disk.rename(path, &to) {
        Ok(()) => format!("the file was moved to {}", to.display()),
        Err(error) => format!("the file could not be moved aside: {error}"),
    };
    tracing::warn!(path = %path.display(), problem, told = outcome, "stored status is damaged");
    format!("the stored status was damaged ({problem}); {outcome}")
}

/// Returns the persisted state of all Applications, sorted by name. Doesn't require a running service.
pub fn read_applications(folder: &Path) -> Result<Vec<Application>, ServiceError> {
    read_all(folder)
}

/// Returns the content of all files in a folder, sorted by name.
pub fn read_all<T: StateFile>(folder: &Path) -> Result<Vec<T>, ServiceError> {
    Ok(state_paths(folder)?.iter().filter_map(|path| read(path)).collect())
}

fn state_paths(folder: &Path) -> Result<Vec<PathBuf>, ServiceError> {
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
