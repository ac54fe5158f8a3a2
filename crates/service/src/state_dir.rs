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
//!   applications/  what is known of each Application that is served
//!   applicationsets/ what is known of each ApplicationSet of a folder
//!   generated/     the Applications that those generate
//!   repositories/  what was fetched of repositories over the network; it can be removed while nobody serves
//!   plans/         plans that are kept under their hash, sealed, and who has approved them
//!   working/       where programs make manifests; empty while nobody serves
//!   notified/      how far those who are notified have seen what happened
//!   traced/        how far a collector has been sent traces
//!   clock          the time that open operations go by, and at which moment of the machine's uptime it was that
//!   control.sock   how other tidegate processes reach the one at work; there only while one is
//! ```

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::ServiceError;
use crate::exposed;
use crate::notices::Notices;

/// Manifests may hold secrets.
const OWNER_ONLY: u32 = 0o700;
/// The bits of a mode: all that can be set, those that let others write, and that of a folder which many share.
const MODE: u32 = 0o7777;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A state directory, there or not.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
    /// As the user named it, where they did so on this command line or in the environment.
    given: Option<PathBuf>,
}

impl StateDir {
    /// The folder that is named, or that of custom.
    pub fn resolve(named: Option<&Path>) -> Result<Self, ServiceError> {
        // An empty variable is one that is not set.
        let given = named.filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf);
        let root = match &given {
            Some(dir) => std::path::absolute(dir).map_err(|source| ServiceError::Io {
                action: "find",
                path: dir.clone(),
                source,
            })?,
            None => custom().ok_or(ServiceError::NoStateDirectory)?,
        };
        let resolved = Self { root, given };
        // All of a process are the same one.
        let _ = HINT.set(resolved.hint());
        Ok(resolved)
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

    /// What is known of the Applications that are served.
    pub fn applications(&self) -> PathBuf {
        self.root.join("applications")
    }

    /// What is known of the ApplicationSets of a folder.
    pub fn application_sets(&self) -> PathBuf {
        self.root.join("applicationsets")
    }

    /// The Applications that the ApplicationSets of a folder generate.
    pub fn generated(&self) -> PathBuf {
        self.root.join("generated")
    }

    /// What was fetched of repositories over the network.
    pub fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    /// The plans that are kept.
    pub fn plans(&self) -> PathBuf {
        self.root.join("plans")
    }

    /// Where programs make manifests.
    pub fn working(&self) -> PathBuf {
        self.root.join("working")
    }

    /// How far those who are notified have seen what happened.
    pub fn notified(&self) -> PathBuf {
        self.root.join("notified")
    }

    /// How far a collector has been sent traces.
    pub fn traced(&self) -> PathBuf {
        self.root.join("traced")
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
    pub fn has_log(&self) -> Result<bool, ServiceError> {
        // The witness knows of operations even when the folder of the log is gone; opening the log then says so.
        Ok(self.has("log")? || self.has("witness")?)
    }

    /// Whether the simulated cluster was ever used here.
    pub fn has_cluster(&self) -> Result<bool, ServiceError> {
        self.has("cluster")
    }

    /// What may not be looked at is not the same as what is not there.
    fn has(&self, name: &str) -> Result<bool, ServiceError> {
        let path = self.root.join(name);
        match path.try_exists() {
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                Err(self.error("use as a state directory", source))
            }
            Err(source) => Err(ServiceError::Io { action: "look at", path, source }),
            Ok(there) => Ok(there),
        }
    }

    /// Makes the folder, readable by its owner only. In one that is there nobody else may write.
    pub fn create(&self, notices: &dyn Notices) -> Result<(), ServiceError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(OWNER_ONLY)
            .create(&self.root)
            .map_err(|source| self.error("make the state directory", source))?;
        self.close_to_others(notices)
    }

    /// Whoever may write there may put another log, key or socket in the place of ours. A folder that is a state
    /// directory, or empty, is closed to them; any other is not ours to close.
    pub fn close_to_others(&self, notices: &dyn Notices) -> Result<(), ServiceError> {
        let found = fs::metadata(&self.root).map_err(|source| self.error("look at", source))?;
        if !found.is_dir() {
            return Ok(());
        }
        let is_used = self.has("holder")? || self.has("log")?;
        self.close_folder(found.permissions().mode(), is_used, notices)?;
        if is_used { exposed::close(&self.root, notices) } else { Ok(()) }
    }

    fn close_folder(&self, mode: u32, is_used: bool, notices: &dyn Notices) -> Result<(), ServiceError> {
        if mode & OTHERS_WRITE == 0 {
            return Ok(());
        }
        let path = self.root.display();
        let is_ours = is_used || is_empty(&self.root);
        let closed = mode & MODE & !OTHERS_WRITE;
        if mode & STICKY == 0
            && is_ours
            && fs::set_permissions(&self.root, Permissions::from_mode(closed)).is_ok()
        {
            notices.warn(&format!(
                "others could write to the state directory {path} (its mode was {:o}); now only its owner can",
                mode & MODE
            ));
            return Ok(());
        }
        Err(ServiceError::refused(format!(
            "others may write to {path} (its mode is {:o}), so it cannot be a state directory; name a folder in it, which is then made for you alone, or allow its owner only: chmod go-w",
            mode & MODE
        )))
    }

    fn error(&self, action: &'static str, source: io::Error) -> ServiceError {
        ServiceError::Io { action, path: self.root.clone(), source }
    }

    /// What a suggested command needs to find this folder again: ` --state-dir DIR`, or nothing.
    pub fn hint(&self) -> String {
        let from_environment = env::var_os("TIDEGATE_STATE_DIR").map(PathBuf::from);
        match &self.given {
            Some(dir) if from_environment.as_ref() != Some(dir) => format!(" --state-dir {}", quoted(dir)),
            _ => String::new(),
        }
    }
}

/// What a suggested command needs to find the state directory of this process again.
static HINT: OnceLock<String> = OnceLock::new();
/// What it needs to ask the same service elsewhere.
static ELSEWHERE: OnceLock<String> = OnceLock::new();
/// Commands that can ask one elsewhere.
const WITH_SERVER: [&str; 2] = ["app", "appset"];

/// Has suggested commands ask a service elsewhere, by these arguments.
pub fn ask_elsewhere(arguments: String) {
    // All of a process ask the same one.
    let _ = ELSEWHERE.set(arguments);
}

/// Commands that have a state directory.
const WITH_STATE: [&str; 10] =
    ["app", "appset", "diff", "explain", "ops", "plan", "resume", "serve", "sim", "sync"];

/// The same text, in which the commands that are suggested (`` `tidegate resume ID` ``) name the state directory, or the service
/// elsewhere.
pub fn with_hints(text: &str) -> String {
    let (elsewhere, here) = (ELSEWHERE.get(), HINT.get().filter(|hint| !hint.is_empty()));
    let hint = |command: &str| match elsewhere {
        Some(elsewhere) if WITH_SERVER.contains(&command) => Some(elsewhere),
        _ => here.filter(|_| WITH_STATE.contains(&command)),
    };
    let hinted = text.split('`').enumerate().map(|(at, part)| {
        let mut words = part.split(' ');
        let is_command = at % 2 == 1 && words.next() == Some("tidegate");
        let is_led = ["--state-dir", "--server", "--kube"].iter().any(|way| part.contains(way));
        match words.next().filter(|_| is_command && !is_led).and_then(hint) {
            Some(hint) => format!("{part}{hint}"),
            None => part.to_owned(),
        }
    });
    hinted.collect::<Vec<_>>().join("`")
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// A text as a shell takes it for one word, in a command that is suggested.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+:,@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// `$XDG_STATE_HOME/tidegate` or `~/.local/state/tidegate`.
fn custom() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("tidegate"))
}
