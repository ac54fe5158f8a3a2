//! Location of the Kubernetes binaries, from `scripts/kube-assets`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::KubeError;

/// Folder with etcd, kube-apiserver and kube-controller-manager.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
    /// Minor version of Kubernetes, such as 20 for 1.20.2.
    minor: u32,
}

/// Tested Kubernetes versions, and their availability on this machine.
#[derive(Clone, Debug)]
pub struct AssetInventory {
    /// Available versions, oldest first.
    pub available: Vec<Assets>,
    /// Missing minor versions.
    pub missing: Vec<u32>,
    /// Instructions if no version is available.
    pub instructions: String,
}

impl Assets {
    /// Finds the oldest version on this machine. Without any, fails with [`KubeError::NoAssets`], which
    /// contains instructions.
    pub fn find() -> Result<Self, KubeError> {
        let AssetInventory { available, instructions: advice, .. } = AssetInventory::find()?;
        available.into_iter().next().ok_or(KubeError::NoAssets(advice))
    }

    /// Returns the minor version of Kubernetes.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn program_path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl AssetInventory {
    /// Finds the binaries of all tested versions.
    pub fn find() -> Result<Self, KubeError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kube-assets");
        let failed = |why| KubeError::Program { program: script.display().to_string(), why };
        let output = Command::new(&script).output().map_err(failed)?;
        let instructions = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The script exits with 1 if it found no version. Any other code is an error.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(failed(io::Error::other(instructions)));
        }
        let mut found = Self { available: Vec::new(), missing: Vec::new(), instructions };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (minor, folder) =
                parse_line(line).ok_or_else(|| failed(io::Error::other(line.to_owned())))?;
            match folder {
                "-" => found.missing.push(minor),
                folder => found.available.push(Assets { folder: folder.into(), minor }),
            }
        }
        Ok(found)
    }
}

/// Parses `1.20 /its/folder`.
fn parse_line(line: &str) -> Option<(u32, &str)> {
    let (version, folder) = line.split_once(' ')?;
    Some((version.strip_prefix("1.")?.parse().ok()?, folder))
}
