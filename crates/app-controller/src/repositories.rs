//! Files with Secrets and ConfigMaps for repositories, in the form that Argo CD uses in its namespace.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_model::Object;
use tidegate_planner::manifests::{Limits, parse};
use tidegate_source::Credentials;

use tidegate_state::error::ServiceError;

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// File or folder that contains repository Secrets and related ConfigMaps.
#[derive(Clone, Debug)]
pub struct RepositoryFiles {
    path: PathBuf,
}

impl RepositoryFiles {
    /// Creates a handle for a file or folder. A relative path is resolved once, against the current
    /// directory.
    pub fn new(path: &Path) -> Self {
        Self { path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()) }
    }

    /// Reads the credentials.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read or doesn't have valid content. The error doesn't contain
    /// Secret values.
    pub fn read(&self) -> Result<Credentials, ServiceError> {
        let mut credentials = Credentials::default();
        self.for_each_object(|object| credentials.add(object).map(drop).map_err(|error| error.to_string()))?;
        Ok(credentials)
    }

    /// Calls `take` with each object.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read or `take` returns an error. The error doesn't contain Secret
    /// values.
    pub fn for_each_object(
        &self,
        mut take: impl FnMut(&Object) -> Result<(), String>,
    ) -> Result<(), ServiceError> {
        for file in self.files()? {
            let wrong = |source| ServiceError::Io { action: "read", path: file.clone(), source };
            let place = file.display();
            if fs::metadata(&file).map_err(wrong)?.len() > FILE_BYTES_MAX {
                return Err(ServiceError::refused(format!(
                    "{place} is larger than {} MiB",
                    FILE_BYTES_MAX >> 20
                )));
            }
            let content = fs::read(&file).map_err(wrong)?;
            // The parser's messages may quote Secret values, so report only the lines.
            let unread = |errors: Vec<tidegate_planner::manifests::ManifestError>| {
                let lines: Vec<_> = errors.iter().map(|error| format!("line {}", error.line)).collect();
                let lines = lines.join(", ");
                ServiceError::refused(format!(
                    "{place} must contain valid YAML with Secrets and ConfigMaps; check {lines}"
                ))
            };
            for target in parse(&place.to_string(), &content, &Limits::default()).map_err(unread)? {
                take(&target.object)
                    .map_err(|problem| ServiceError::refused(format!("{place}: {problem}")))?;
            }
        }
        Ok(())
    }

    fn files(&self) -> Result<Vec<PathBuf>, ServiceError> {
        let wrong = |source| ServiceError::Io { action: "read", path: self.path.clone(), source };
        if !fs::metadata(&self.path).map_err(wrong)?.is_dir() {
            return Ok(vec![self.path.clone()]);
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            let is_manifest =
                path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
            // A folder that Kubernetes mounts contains symbolic links.
            if is_manifest && fs::metadata(&path).map_err(wrong)?.is_file() {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_place_and_show_no_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let files = RepositoryFiles::new(folder.path());
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: {argocd.argoproj.io/secret-type: repository}}\n";
        for (content, expected) in [
            (
                format!("{secret}stringData: {{url: 'https://example.com/a', password: [hunter2]}}"),
                "check line 4",
            ),
            (format!("{secret}data: {{password: 'hunter2 ?'}}"), "check line 4"),
            (format!("{secret}stringData: {{password: hunter2}}"), "url is missing"),
            (format!("{secret}stringData: {{password: hunter2"), "check line"),
            (format!("{secret}stringData: hunter2"), "check line 4"),
            ("hunter2".to_owned(), "check line"),
        ] {
            fs::write(&path, &content).unwrap();
            let error = files.read().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("a.yaml"), "{content}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        fs::write(&path, format!("{secret}stringData: {{url: 'https://example.com/a', password: hunter2}}\n---\nkind: Secret\napiVersion: v1\nmetadata: {{name: other}}\ndata: {{a: aGk=}}\n")).unwrap();
        let read = files.read().unwrap();
        assert!(!format!("{read:?}").contains("hunter2"));
        assert_eq!(RepositoryFiles::new(&path).read().unwrap(), read, "the file alone");
        assert!(RepositoryFiles::new(&folder.path().join("none")).read().is_err());
    }
}
