//! The file of `--gates`: what the names of gates stand for.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_executor::GateDefinitions;

use crate::error::ServiceError;
use crate::files::read_text;

/// More than anybody writes by hand.
const BYTES_MAX: u64 = 1 << 20;

/// What a text of YAML defines; or all that is wrong with it.
pub fn parse(text: &str) -> Result<GateDefinitions, Vec<String>> {
    let definitions: GateDefinitions = serde_saphyr::from_str(text).map_err(|error| {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        vec![format!("it does not define gates as docs/gates.md shows: {first}")]
    })?;
    let wrong = definitions.check();
    if wrong.is_empty() {
        return Ok(definitions);
    }
    Err(wrong.iter().map(ToString::to_string).collect())
}

/// What is defined for operations that a process begins in a long life: a file, which is read again by whoever needs it, or nothing.
#[derive(Clone, Debug, Default)]
pub struct GateFile {
    path: Option<PathBuf>,
    /// As it could be used last.
    known: Arc<Mutex<GateDefinitions>>,
}

impl GateFile {
    /// The definitions at a path. A relative one is that of the current folder, now and later.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or what is in it cannot be used.
    pub fn open(path: &Path) -> Result<Self, ServiceError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let known = read(&path).map_err(|problem| ServiceError::Refused {
            message: format!("{}: {problem}; mend the file of --gates", path.display()),
        })?;
        Ok(Self { path: Some(path), known: Arc::new(Mutex::new(known)) })
    }

    /// What is defined now. A file that cannot be used leaves what was defined before, and a warning.
    pub(crate) async fn read(&self) -> GateDefinitions {
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.now()).await.unwrap_or_default()
    }

    fn now(&self) -> GateDefinitions {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.path {
            match read(path) {
                Ok(definitions) => *known = definitions,
                Err(problem) => {
                    tracing::warn!(path = %path.display(), problem, "gates are those that were defined before");
                }
            }
        }
        known.clone()
    }
}

fn read(path: &Path) -> Result<GateDefinitions, String> {
    let text = read_text(path, BYTES_MAX).map_err(|error| error.to_string())?;
    parse(&text).map_err(|problems| problems.join("; "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_again_and_one_that_is_wrong_leaves_what_was_defined_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gates.yaml");
        assert!(GateFile::open(&path).is_err(), "it is not there");
        assert!(GateFile::open(folder.path()).is_err(), "it is a folder");
        fs::write(&path, "concurrency: {db: {limit: 0}}").unwrap();
        let refused = GateFile::open(&path).unwrap_err().to_string();
        assert!(refused.contains("gates.yaml: gate concurrency:db: limit"), "{refused}");
        fs::write(&path, "concurrency: {db: {limit: 1}}").unwrap();
        let gates = GateFile::open(&path).unwrap();
        let names = || gates.now().names().collect::<Vec<_>>();
        assert_eq!(names(), ["concurrency:db"]);
        fs::write(&path, "concurrency: {web: {limit: 1}}").unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        fs::write(&path, "concurrency: [").unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        fs::remove_file(&path).unwrap();
        assert_eq!(names(), ["concurrency:web"]);
        assert_eq!(GateFile::default().now(), GateDefinitions::default());
    }
}
