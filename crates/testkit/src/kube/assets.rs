//! Where the binaries are: `scripts/kube-assets` knows.

use std::io;
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

/// What this machine has of the versions that the tests are meant for.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// What is here, the oldest version first.
    pub here: Vec<Assets>,
    /// The minor versions that are not.
    pub absent: Vec<u32>,
    /// What to do about it, when none is here.
    pub advice: String,
}

impl Assets {
    /// The oldest binaries of this machine. [`KubeError::NoAssets`] says what to do when there are none.
    pub fn find() -> Result<Self, KubeError> {
        let Inventory { here, advice, .. } = Inventory::take()?;
        here.into_iter().next().ok_or(KubeError::NoAssets(advice))
    }

    /// The minor version of Kubernetes.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Inventory {
    /// Looks for binaries.
    pub fn take() -> Result<Self, KubeError> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kube-assets");
        let failed = |why| KubeError::Program { program: script.display().to_string(), why };
        let output = Command::new(&script).output().map_err(failed)?;
        let advice = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // 1: there are none. Anything else is a mistake.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(failed(io::Error::other(advice)));
        }
        let mut found = Self { here: Vec::new(), absent: Vec::new(), advice };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (minor, folder) = read(line).ok_or_else(|| failed(io::Error::other(line.to_owned())))?;
            match folder {
                "-" => found.absent.push(minor),
                folder => found.here.push(Assets { folder: folder.into(), minor }),
            }
        }
        Ok(found)
    }
}

/// `1.20 /its/folder`
fn read(line: &str) -> Option<(u32, &str)> {
    let (version, folder) = line.split_once(' ')?;
    Some((version.strip_prefix("1.")?.parse().ok()?, folder))
}
