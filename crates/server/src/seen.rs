//! How far somebody who is told of operations has seen what happened, on the disk.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tidegate_executor::{Engine, EngineError, Event, Seen};

/// How far somebody has seen what happened.
pub(crate) struct Kept {
    path: PathBuf,
    seen: Seen,
}

impl Kept {
    /// As it was written down. Whoever is new has seen all that was recorded before; so has one whose file cannot be
    /// read, which is said.
    pub async fn open(folder: &Path, name: &str, engine: &Engine) -> Result<Self, EngineError> {
        let recorded = engine.recorded().await?;
        let path = folder.join(format!("{name}.json"));
        let read = fs::read(&path).and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other));
        let seen = match read {
            Ok(seen) => Seen::among(seen, &recorded),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(target = name, %error, "how far somebody was told of operations is lost; they are told from now on");
                }
                recorded
            }
        };
        let kept = Self { path, seen };
        // From now on it is not new any more.
        kept.write().await;
        Ok(kept)
    }

    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    pub fn note(&mut self, event: &Event) {
        self.seen.note(event);
    }

    /// Writes it down: all of it or nothing.
    pub async fn write(&self) {
        let (path, seen) = (self.path.clone(), self.seen.clone());
        let written = tokio::task::spawn_blocking(move || write(&path, &seen)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "how far somebody was told of operations cannot be written down; they are told again");
        }
    }
}

/// Forgets how far those were told who are not named.
pub(crate) fn forget_others(folder: &Path, named: BTreeSet<&str>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_kept = path.extension().is_some_and(|extension| extension == "json");
        let is_named =
            path.file_stem().and_then(|name| name.to_str()).is_some_and(|name| named.contains(name));
        if is_kept
            && !is_named
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "somebody who is told no more cannot be forgotten");
        }
    }
}

fn write(path: &Path, seen: &Seen) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(seen)?)?;
    file.sync_all()?;
    fs::rename(new, path)
}
