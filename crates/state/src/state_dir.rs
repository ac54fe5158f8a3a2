//! The state directory, and the paths of the files in it.
//!
//! ```text
//! STATE_DIR/
//!   holder         the lock, and the process that holds it
//!   log/           the operation log
//!   blobs/         manifests and plans, compressed and sealed, named by keyed digests
//!   key            key for the sealed content; key-id: its identity
//!   witness        progress of each operation, independent of log/
//!   quarantine/    damaged content, with reasons
//!   cluster/       the simulated cluster
//!   customizations/ health scripts for open operations
//!   applications/  stored state of each managed Application
//!   applicationsets/ stored state of each ApplicationSet in a folder
//!   generated/     Applications that ApplicationSets generate
//!   repositories/  content fetched from repositories; can be removed while no service is running
//!   plans/         stored plans by hash, sealed, with their approvals
//!   working/       work area for rendering programs; empty while no service is running
//!   notified/      log position of each notification receiver
//!   traced/        log position of the trace collector
//!   clock          time for open operations, and the corresponding machine uptime
//!   service-id     ID of this state directory, used in the service's Lease
//!   control-namespace namespace of the control plane of the last service
//!   control.sock   socket for requests to the running process; exists only while the process runs
//! ```

use std::env;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

use tidegate_model::argo::{adopt_control_namespace, control_namespace};

use crate::error::ServiceError;
use crate::file_permissions::{self, OTHERS, WRITE_BY_OTHERS};
use crate::files;
use crate::notices::Notices;
use crate::shell_words::quote_path;

/// Mode of folders that only their owner can access, because manifests may contain secrets.
const OWNER_ONLY_MODE: u32 = 0o700;
/// Masks for file modes: all bits, and the sticky bit of shared folders.
const MODE_BITS: u32 = 0o7777;
const STICKY_BIT: u32 = 0o1000;
/// Maximum size of the file with the control namespace. A namespace name has up to 63 bytes.
const NAMESPACE_BYTES_MAX: u64 = 64;

/// A state directory, which may not exist yet.
#[derive(Clone, Debug)]
pub struct StateDir {
    root: PathBuf,
    /// Path from the command line or the environment.
    specified: Option<PathBuf>,
}

impl StateDir {
    /// Returns this folder, or the default folder if `None`.
    pub fn resolve(named: Option<&Path>) -> Result<Self, ServiceError> {
        let resolved = Self::resolve_for_service(named)?;
        // A missing file means that no service of this version has run here.
        if let Ok(text) = files::read_text_file(&resolved.control_namespace(), NAMESPACE_BYTES_MAX) {
            adopt_control_namespace(text.trim());
        }
        Ok(resolved)
    }

    /// Resolves the folder like [`Self::resolve`], but for a service, which chooses the control namespace.
    pub fn resolve_for_service(named: Option<&Path>) -> Result<Self, ServiceError> {
        // An empty variable is treated as unset.
        let given = named.filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf);
        let root = match &given {
            Some(dir) => std::path::absolute(dir).map_err(|source| ServiceError::Io {
                action: "find",
                path: dir.clone(),
                source,
            })?,
            None => default_folder().ok_or(ServiceError::NoStateDirectory)?,
        };
        let resolved = Self { root, specified: given };
        // A process uses only one state directory.
        let _ = STATE_ARGUMENTS.set(resolved.command_arguments());
        Ok(resolved)
    }

    /// Returns the path of the folder itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the folder for the simulated cluster.
    pub fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    /// Returns the folder for the health rules of open operations.
    pub fn customizations(&self) -> PathBuf {
        self.root.join("customizations")
    }

    /// Returns the folder for the stored state of managed Applications.
    pub fn applications(&self) -> PathBuf {
        self.root.join("applications")
    }

    /// Returns the folder for the stored state of ApplicationSets.
    pub fn application_sets(&self) -> PathBuf {
        self.root.join("applicationsets")
    }

    /// Returns the folder for Applications that ApplicationSets generate.
    pub fn generated(&self) -> PathBuf {
        self.root.join("generated")
    }

    /// Returns the folder for content that is fetched from repositories.
    pub fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    /// Returns the folder for stored plans.
    pub fn plans(&self) -> PathBuf {
        self.root.join("plans")
    }

    /// Returns the work area for rendering programs.
    pub fn work_area(&self) -> PathBuf {
        self.root.join("working")
    }

    /// Returns the folder that contains each notification receiver's log position.
    pub fn notification_positions(&self) -> PathBuf {
        self.root.join("notified")
    }

    /// Returns the folder with the trace collector's log position.
    pub fn trace_position(&self) -> PathBuf {
        self.root.join("traced")
    }

    /// Returns the path of the file with this state directory's ID, which identifies the service in its
    /// Lease.
    pub fn service_id(&self) -> PathBuf {
        self.root.join("service-id")
    }

    /// Returns the path of the file from which clients read the control namespace.
    fn control_namespace(&self) -> PathBuf {
        self.root.join("control-namespace")
    }

    /// Records the control namespace of this process for clients. The caller must hold the lock on the state
    /// directory.
    pub fn record_control_namespace(&self) -> Result<(), ServiceError> {
        let path = self.control_namespace();
        files::replace_file(&path, &format!("{}\n", control_namespace())).map_err(|source| ServiceError::Io {
            action: "write",
            path,
            source,
        })
    }

    /// Returns the path of the file with the operation time.
    pub fn clock(&self) -> PathBuf {
        self.root.join("clock")
    }

    /// Returns the path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// Returns true if an operation has ever been started here.
    pub fn has_log(&self) -> Result<bool, ServiceError> {
        // If the log folder was deleted, the witness still knows the operations, and opening the log reports
        // the loss.
        Ok(self.has_entry("log")? || self.has_entry("witness")?)
    }

    /// Returns true if the simulated cluster has ever been used here.
    pub fn has_cluster(&self) -> Result<bool, ServiceError> {
        self.has_entry("cluster")
    }

    /// Returns true if an entry exists. Fails if access is denied.
    fn has_entry(&self, name: &str) -> Result<bool, ServiceError> {
        let path = self.root.join(name);
        match path.try_exists() {
            Err(source) if source.kind() == io::ErrorKind::NotADirectory => {
                Err(self.io_error("use as the state directory", source))
            }
            Err(source) => Err(ServiceError::Io { action: "read", path, source }),
            Ok(there) => Ok(there),
        }
    }

    /// Creates the folder for its owner only. If it exists, revokes other users' access.
    pub fn create(&self, notices: &dyn Notices) -> Result<(), ServiceError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(OWNER_ONLY_MODE)
            .create(&self.root)
            .map_err(|source| self.io_error("create the state directory", source))?;
        self.restrict_to_owner(notices)
    }

    /// Revokes other users' access to the folder and its content. Otherwise, they could read its manifests or
    /// replace its log, key or socket. Rejects a folder that has files but isn't a state directory.
    pub fn restrict_to_owner(&self, notices: &dyn Notices) -> Result<(), ServiceError> {
        let found = fs::metadata(&self.root).map_err(|source| self.io_error("read", source))?;
        if !found.is_dir() {
            return Ok(());
        }
        // `log` alone doesn't make a state directory: `/var` has a `log` folder, too.
        let is_used = self.has_entry("holder")? || self.has_entry("log/db")?;
        self.restrict_folder(&found, is_used, notices)?;
        let was_open = found.permissions().mode() & OTHERS != 0;
        if is_used {
            file_permissions::remove_access_of_others(&self.root, was_open, notices)
        } else {
            Ok(())
        }
    }

    fn restrict_folder(
        &self,
        found: &Metadata,
        is_used: bool,
        notices: &dyn Notices,
    ) -> Result<(), ServiceError> {
        let mode = found.permissions().mode();
        if mode & OTHERS == 0 {
            return Ok(());
        }
        let path = self.root.display();
        let is_ours = is_used || is_empty(&self.root);
        let closed = mode & MODE_BITS & !OTHERS;
        let close = || fs::set_permissions(&self.root, Permissions::from_mode(closed));
        let is_closed = (mode & STICKY_BIT == 0 && is_ours).then(close);
        if let Some(Ok(())) = is_closed {
            notices.warn(&format!(
                "other users had access to the state directory {path} (its mode was {:o}); its mode is now {closed:o}",
                mode & MODE_BITS
            ));
            return Ok(());
        }
        let is_read_only = |error: &io::Error| error.kind() == io::ErrorKind::ReadOnlyFilesystem;
        let is_fixed = is_closed.is_some_and(|closed| closed.is_err_and(|error| is_read_only(&error)));
        if mode & WRITE_BY_OTHERS == 0 && (is_fixed || !is_owned_by_user(found)) {
            // A mounted backup's permissions can't be changed, and another user's folder only by its owner.
            if !is_fixed {
                // A process opens the folder several times but should only warn once.
                FOREIGN_FOLDER_WARNING.call_once(|| {
                    let advice = match is_used {
                        true => format!("run as its owner: chmod go-rwx {}", quote_path(&self.root)),
                        false => "use a folder that you own".to_owned(),
                    };
                    notices.warn(&format!(
                        "the state directory {path} belongs to another user, and others have access to it (its mode is {:o}); {advice}",
                        mode & MODE_BITS
                    ));
                });
            }
            return Ok(());
        }
        Err(ServiceError::refused(format!(
            "other users have access to {path} (its mode is {:o}), so it cannot be a state directory; use a \
             new folder in it, which only you can access, or restrict access: chmod go-rwx {}",
            mode & MODE_BITS,
            quote_path(&self.root)
        )))
    }

    fn io_error(&self, action: &'static str, source: io::Error) -> ServiceError {
        ServiceError::Io { action, path: self.root.clone(), source }
    }

    /// Returns the arguments with which a suggested command finds this folder: ` --state-dir DIR`, or
    /// nothing.
    pub fn command_arguments(&self) -> String {
        let from_environment = env::var_os("TIDEGATE_STATE_DIR").map(PathBuf::from);
        match &self.specified {
            Some(dir) if from_environment.as_ref() != Some(dir) => {
                format!(" --state-dir {}", quote_path(dir))
            }
            _ => String::new(),
        }
    }
}

/// Guard for showing the warning about another user's folder only once per process.
static FOREIGN_FOLDER_WARNING: Once = Once::new();

/// Arguments with which suggested commands find this process's state directory.
static STATE_ARGUMENTS: OnceLock<String> = OnceLock::new();
/// Arguments with which suggested commands reach this process's remote service.
static REMOTE_ARGUMENTS: OnceLock<String> = OnceLock::new();
/// Commands that may query a remote service.
const REMOTE_COMMANDS: [&str; 2] = ["app", "appset"];

/// Sets the arguments with which suggested commands reach a remote service.
pub fn suggest_remote(arguments: String) {
    // All requests from a process go to the same service.
    let _ = REMOTE_ARGUMENTS.set(arguments);
}

/// Commands that use a state directory.
const STATE_COMMANDS: [&str; 10] =
    ["app", "appset", "diff", "explain", "ops", "plan", "resume", "serve", "sim", "sync"];

/// Adds the arguments for the state directory or the remote service to commands that `text` suggests (``
/// `tidegate resume ID` ``).
pub fn with_command_arguments(text: &str) -> String {
    let (elsewhere, here) = (REMOTE_ARGUMENTS.get(), STATE_ARGUMENTS.get().filter(|hint| !hint.is_empty()));
    let hint = |command: &str| match elsewhere {
        Some(elsewhere) if REMOTE_COMMANDS.contains(&command) => Some(elsewhere),
        _ => here.filter(|_| STATE_COMMANDS.contains(&command)),
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

/// Returns true if a file is owned by the user who runs this process.
fn is_owned_by_user(found: &Metadata) -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == found.uid())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns `$XDG_STATE_HOME/tidegate` or `~/.local/state/tidegate`.
fn default_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("tidegate"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;
    use std::sync::Mutex;

    use super::*;
    use crate::notices::NoNotices;

    /// `/var` is such a folder, and other programs must still be able to read it.
    #[test]
    fn a_folder_with_logs_of_others_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (root, log) = (folder.path().join("var"), folder.path().join("var/log"));
        let paths = [&root, &log, &log.join("messages")];
        fs::create_dir_all(&log).unwrap();
        fs::write(paths[2], "of another program").unwrap();
        for path in paths {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let state_dir = StateDir { root: root.clone(), specified: None };
        let refused = state_dir.restrict_to_owner(&NoNotices).unwrap_err().to_string();
        assert!(refused.contains("chmod go-rwx "), "{refused}");
        let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & MODE_BITS;
        assert_eq!(paths.map(mode), [0o755; 3]);
    }

    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl Notices for Warnings {
        fn warn(&self, message: &str) {
            self.0.lock().unwrap().push(message.to_owned());
        }

        fn note(&self, _: &str) {}
    }

    #[test]
    fn an_open_folder_of_another_user_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes"), "of another user").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        // Only root can change a folder's owner. Other users test the root folder, which they don't own.
        let root = match chown(folder.path(), Some(65_534), None) {
            Ok(()) => folder.path().to_owned(),
            Err(_) => PathBuf::from("/"),
        };
        let warnings = Warnings::default();
        let state_dir = StateDir { root, specified: None };
        state_dir.restrict_to_owner(&warnings).unwrap();
        let warnings = warnings.0.into_inner().unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains("belongs to another user"), "{warnings:?}");
    }
}
