//! Where the binaries are: `scripts/kube-assets` knows.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::KubeError;

/// A folder with etcd, kube-apiserver and kube-controller-manager.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
    /// The minor version of Kubernetes: 20 for 1.20.2.
    minor: u32,
}

impl Assets {
    /// The binaries of this machine. [`KubeError::NoAssets`] says what to do when there are none.
    pub fn find() -> Result<Self, KubeError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kube-assets");
        let failed = |why| KubeError::Program { program: script.display().to_string(), why };
        let output = Command::new(&script).output().map_err(failed)?;
        if !output.status.success() {
            return Err(KubeError::NoAssets(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let minor = minor_version(&folder)?;
        Ok(Self { folder, minor })
    }

    /// The minor version of Kubernetes.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn minor_version(folder: &Path) -> Result<u32, KubeError> {
    let program = folder.join("kube-apiserver");
    let failed = |why| KubeError::Program { program: program.display().to_string(), why };
    let output = Command::new(&program).arg("--version").output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let minor = text.trim().split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.ok_or_else(|| failed(std::io::Error::other(format!("--version says {text:?}"))))
}
