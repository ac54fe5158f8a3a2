//! Gate definitions from the file passed with `--gates`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::GateDefinitions;

use crate::error::ServiceError;
use crate::files::read_text_file;

/// Maximum file size in bytes. No handwritten file should be this large.
const BYTES_MAX: u64 = 1 << 20;

/// Parses definitions from YAML. Reports all invalid definitions, not only the first.
pub fn parse_gates(text: &str) -> Result<GateDefinitions, Vec<String>> {
    let definitions: GateDefinitions = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        vec![format!("invalid gate definitions (see docs/guides/gates-and-approvals.md): {first}")]
    })?;
    let wrong = definitions.check();
    if wrong.is_empty() {
        return Ok(definitions);
    }
    Err(wrong.iter().map(ToString::to_string).collect())
}

/// Gate definitions of a long-lived process, if any. The file is read again on each use.
#[derive(Clone, Debug, Default)]
pub struct GateFile {
    path: Option<PathBuf>,
    /// Most recent valid definitions.
    last_valid: Arc<Mutex<GateDefinitions>>,
}

impl GateFile {
    /// Opens the definitions at a path. A relative path is resolved once, so it survives a change of the
    /// current directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is unreadable or invalid.
    pub fn open(path: &Path) -> Result<Self, ServiceError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let known = read_gates(&path).map_err(|problem| ServiceError::Refused {
            message: format!("{}: {problem}; fix the --gates file", path.display()),
        })?;
        Ok(Self { path: Some(path), last_valid: Arc::new(Mutex::new(known)) })
    }

    /// Returns the current definitions. If the file has become invalid, logs a warning and returns the last
    /// valid ones.
    pub async fn read(&self) -> GateDefinitions {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read_blocking()).await.unwrap_or_default()
    }

    fn read_blocking(&self) -> GateDefinitions {
        let mut known = self.last_valid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.path {
            match read_gates(path) {
                Ok(definitions) => *known = definitions,
                Err(problem) => {
                    tracing::warn!(path = %path.display(), problem, "invalid gate definitions; using the previous definitions");
                }
            }
        }
        known.clone()
    }
}

fn read_gates(path: &Path) -> Result<GateDefinitions, String> {
    let text = read_text_file(path, BYTES_MAX).map_err(|error| error.to_string())?;
    parse_gates(&text).map_err(|problems| problems.join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_invalid_file_leaves_the_previous_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gates.yaml");
        assert!(GateFile::open(&path).is_err(), "it does not exist");
        assert!(GateFile::open(folder.path()).is_err(), "it is a folder");
        fs::write(&path, "concurrency: {db: {limit: 0}}").unwrap();
        let refused = GateFile::open(&path).unwrap_err().to_string();
        assert!(refused.contains("gates.yaml: gate concurrency:db: limit"), "{refused}");
        fs::write(&path, "concurrency: {db: {limit: 1}}").unwrap();
        let gates = GateFile::open(&path).unwrap();
        let names = || gates.read_blocking().names().collect::<Vec<_>>();
        assert_eq!(names(), ["concurrency:db"]);
        fs::write(&path, "concurrency: {web: {limit: 1}}").unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        fs::write(&path, "concurrency: [").unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        assert_eq!(GateFile::default().read_blocking(), GateDefinitions::default());
    }
}
