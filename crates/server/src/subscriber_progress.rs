//! Durable progress of an event subscriber.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tidegate_executor::{Engine, EngineError, Event, EventCursor};

/// A subscriber's progress.
pub(crate) struct SubscriberProgress {
    path: PathBuf,
    cursor: EventCursor,
}

impl SubscriberProgress {
    /// Loads the progress. A new subscriber starts after all recorded events. If the file can't be read, logs
    /// a warning and starts there, too.
    pub async fn open(folder: &Path, name: &str, engine: &Engine) -> Result<Self, EngineError> {
        let recorded = engine.log_end().await?;
        let path = folder.join(format!("{name}.json"));
        let read = fs::read(&path).and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other));
        let cursor = match read {
            Ok(seen) => EventCursor::retain_logged(seen, &recorded),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(target = name, %error, "failed to read a subscriber's progress; the subscriber continues with new events");
                }
                recorded
            }
        };
        let progress = Self { path, cursor };
        // Create the file now, or the subscriber would count as new again after a restart.
        progress.write().await;
        Ok(progress)
    }

    pub fn cursor(&self) -> EventCursor {
        self.cursor.clone()
    }

    pub fn record_event(&mut self, event: &Event) {
        self.cursor.record(event);
    }

    /// Writes the progress atomically.
    pub async fn write(&self) {
        let (path, seen) = (self.path.clone(), self.cursor.clone());
        let written = tokio::task::spawn_blocking(move || write_file(&path, &seen)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "failed to write a subscriber's progress; events may be delivered again");
        }
    }
}

/// Removes the progress of all subscribers that aren't in `named`.
pub(crate) fn remove_other_progress(folder: &Path, named: BTreeSet<&str>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_kept = path.extension().is_some_and(|extension| extension == "json");
        let is_named =
            path.file_stem().and_then(|name| name.to_str()).is_some_and(|name| named.contains(name));
        if is_kept
            && !is_named
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove a former subscriber's progress");
        }
    }
}

fn write_file(path: &Path, seen: &EventCursor) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(seen)?)?;
    file.sync_all()?;
    fs::rename(new, path)
}
