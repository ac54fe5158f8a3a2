//! What is known of applications, as files in the state directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tidegate_application::credentials;
use tidegate_model::argo::Application;

use super::AppKey;
use crate::error::ServiceError;

/// The file of an application. Names hold no `_`, so no two have the same.
pub fn file(folder: &Path, key: &AppKey) -> PathBuf {
    folder.join(format!("{}_{}.json", key.namespace, key.name))
}

/// Writes beside, and then in the place of what was there: a crash leaves the one or the other.
pub fn write(folder: &Path, application: &Application) -> Result<(), ServiceError> {
    let path = file(folder, &AppKey::of(application));
    let beside = path.with_extension("new");
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec(&credentials::shown(application))?)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|source| ServiceError::Io { action: "write", path: path.clone(), source })
}

/// What is known of an application; nothing where that cannot be read, which is told.
pub fn read(path: &Path) -> Option<Application> {
    let content = match fs::read(path) {
        Ok(content) => content,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "what is known of an application cannot be read");
            }
            return None;
        }
    };
    serde_json::from_slice(&content)
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "what is known of an application is damaged"))
        .ok()
}

/// Puts aside what cannot be read, so that nothing of it is lost; says of each file where it is now.
pub fn set_aside(folder: &Path) -> BTreeMap<PathBuf, String> {
    let paths = paths(folder).unwrap_or_default();
    let damaged = paths.into_iter().filter_map(|path| Some((problem(&path)?, path)));
    damaged.map(|(problem, path)| (path.clone(), put(&path, &problem))).collect()
}

/// Why a file does not say what is known of its application.
fn problem(path: &Path) -> Option<String> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        read => read,
    };
    match content.map(|content| serde_json::from_slice::<Application>(&content)) {
        Err(error) => Some(error.to_string()),
        Ok(Err(error)) => Some(error.to_string()),
        Ok(Ok(application))
            if path.file_name() != file(folder_of(path), &AppKey::of(&application)).file_name() =>
        {
            Some(format!("it is about application {}", AppKey::of(&application)))
        }
        Ok(Ok(_)) => None,
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn put(path: &Path, problem: &str) -> String {
    let free = |number: u32| path.with_extension(format!("damaged-{number}"));
    let to = (1..).map(free).find(|to| fs::symlink_metadata(to).is_err()).unwrap_or_else(|| free(0));
    let told = match fs::rename(path, &to) {
        Ok(()) => format!("it is kept as {}", to.display()),
        Err(error) => format!("it cannot be put aside: {error}"),
    };
    tracing::warn!(path = %path.display(), problem, told, "what is known of an application is damaged");
    format!("its status was damaged ({problem}); {told}")
}

/// Everything that is known of applications, by name: also when nobody serves them.
pub fn kept_applications(folder: &Path) -> Result<Vec<Application>, ServiceError> {
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
