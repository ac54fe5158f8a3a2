//! Where the state is kept.
//!
//! ```text
//! STATE_DIR/
//!   holder         the lock, and which process has it
//!   log/           the operation log
//!   blobs/         manifests and plans, compressed and sealed, named by keyed digests
//!   key            what they are sealed with; key-id: which key that is
//!   witness        how far each operation got, independent of log/
//!   quarantine/    what was found damaged, with reasons
//!   cluster/       the simulated cluster
//!   customizations/ the health scripts operations began with
//!   clock          the time that open operations go by, and at which moment of the machine's uptime it was that
//!   control.sock   how other tidegate processes reach the one at work; there only while one is
//! ```

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::args::StateArgs;
use crate::error::CliError;

/// Manifests may hold secrets.
const OWNER_ONLY: u32 = 0o700;

/// A state directory, there or not.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
    /// As the user named it, where they did so on this command line or in the environment.
    given: Option<PathBuf>,
}

impl StateDir {
    /// The folder named by the argument, the environment, or custom.
    pub fn resolve(args: &StateArgs) -> Result<Self, CliError> {
        // An empty variable is one that is not set.
        let given = args.state_dir.clone().filter(|dir| !dir.as_os_str().is_empty());
        let root = match &given {
            Some(dir) => std::path::absolute(dir).map_err(|source| CliError::Io {
                action: "find",
                path: dir.clone(),
                source,
            })?,
            None => custom().ok_or(CliError::NoStateDirectory)?,
        };
        Ok(Self { root, given })
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The simulated cluster.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    /// The health scripts of open operations.
    pub fn customizations(&self) -> PathBuf {
        self.root.join("customizations")
    }

    /// The time that operations go by.
    pub fn clock(&self) -> PathBuf {
        self.root.join("clock")
    }

    /// The socket of the process at work.
    pub fn socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// Whether an operation was ever begun here.
    pub fn has_log(&self) -> Result<bool, CliError> {
        // The witness knows of operations even when the folder of the log is gone; opening the log then says so.
        Ok(self.has("log")? || self.has("witness")?)
    }

    /// Whether the simulated cluster was ever used here.
    pub fn has_cluster(&self) -> Result<bool, CliError> {
        self.has("cluster")
    }

    /// What may not be looked at is not the same as what is not there.
    fn has(&self, name: &str) -> Result<bool, CliError> {
        let path = self.root.join(name);
        match path.try_exists() {
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                Err(self.error("use as a state directory", source))
            }
            Err(source) => Err(CliError::Io { action: "look at", path, source }),
            Ok(there) => Ok(there),
        }
    }

    /// Makes the folder, readable by its owner only.
    pub fn create(&self) -> Result<(), CliError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(OWNER_ONLY)
            .create(&self.root)
            .map_err(|source| self.error("make the state directory", source))
    }

    fn error(&self, action: &'static str, source: io::Error) -> CliError {
        CliError::Io { action, path: self.root.clone(), source }
    }

    /// What a suggested command needs to find this folder again: ` --state-dir DIR`, or nothing.
    pub fn hint(&self) -> String {
        let from_environment = env::var_os("TIDEGATE_STATE_DIR").map(PathBuf::from);
        match &self.given {
            Some(dir) if from_environment.as_ref() != Some(dir) => format!(" --state-dir {}", dir.display()),
            _ => String::new(),
        }
    }
}

/// `$XDG_STATE_HOME/tidegate` or `~/.local/state/tidegate`.
fn custom() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("tidegate"))
}
