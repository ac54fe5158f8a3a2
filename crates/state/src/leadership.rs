//! Coordinates services, so that only one at a time is in charge of a control plane or a folder of
//! Applications. A Lease protects a control plane, and a lock protects a folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use tidegate_cluster::{Cluster, ErrorKind};
use tidegate_executor::{
    Fence, HeldLease, LeaseError, LeaseHolder, LeaseLoss, LeaseWait, PeerCheck, ServiceIdentity, ServiceLease,
};
use tidegate_model::{ClaimLocation, Destination};
use uuid::{NoContext, Timestamp, Uuid};

use crate::error::ServiceError;
use crate::files;
use crate::user;

/// Maximum size of the ID file in bytes.
const ID_BYTES_MAX: u64 = 64;
/// File mode of the ID file.
const OWNER_ONLY_MODE: u32 = 0o600;
/// Number of leading UUID digits left out of a state directory's ID, because they only encode a timestamp.
const ID_TIME_DIGITS: usize = 20;
/// File with the locks held by this machine's processes.
const LOCK_TABLE: &str = "/proc/locks";

/// State of a service, which identifies its predecessors.
pub enum LeaseState {
    /// ID of its state directory ([`state_directory_id`]).
    Directory(String),
    /// ID of its shared log.
    SharedLog(String),
    /// Shared log whose replicas share the work. All of them hold the Lease at the same time.
    Replica {
        /// ID of the log.
        log: String,
        /// ID of this replica.
        replica: String,
        /// Check of the other replicas.
        check: PeerCheck,
    },
}

/// Lease held by the service in charge of a control plane.
pub struct Leadership {
    lease: HeldLease,
    location: ClaimLocation,
}

impl Leadership {
    /// Acquires the Lease at `location` for the service with this state. The caller must hold the lock on the
    /// state directory, lead the shared log, or be a replica of it. A standby waits while another service is in charge. `report`
    /// receives the reason for each wait.
    ///
    /// # Errors
    ///
    /// Returns an error if another service is in charge, the API server rejects the Lease, or the state
    /// directory isn't writable.
    pub async fn acquire(
        cluster: Arc<dyn Cluster>,
        destination: &Destination,
        location: ClaimLocation,
        state: LeaseState,
        is_standby: bool,
        mut report: impl FnMut(String),
    ) -> Result<Self, ServiceError> {
        let identity = |state: &str| ServiceIdentity::new(&user::host_name(), process::id(), state);
        let lease = |identity| ServiceLease::new(cluster, location.clone(), identity);
        let wanted = match state {
            LeaseState::Directory(id) => lease(identity(&id)),
            LeaseState::SharedLog(id) => lease(identity(&id).with_shared_state()),
            LeaseState::Replica { log, replica, check } => {
                lease(ServiceIdentity::of_replica(&log, &replica)).with_peer_check(check)
            }
        };
        let acquired =
            wanted.acquire(is_standby, |wait| report(describe_wait(wait, is_standby, &location))).await;
        match acquired {
            Ok(lease) => Ok(Self { lease, location }),
            Err(LeaseError::Held(holder)) => Err(other_leader_error(&holder, &location)),
            Err(LeaseError::Refused(error)) => {
                let advice = match error.kind {
                    ErrorKind::Forbidden => {
                        "; grant access with the role in deploy/; without the Lease, two services could sync \
                         the same Application"
                    }
                    ErrorKind::NamespaceMissing | ErrorKind::NotFound => {
                        "; create the namespace, or set the namespace of the control plane with `tidegate serve --control-namespace`"
                    }
                    _ => "",
                };
                let text = format!("cannot acquire the {location}: {}{advice}", error.message);
                Err(ServiceError::from_cluster_message(destination, &text))
            }
        }
    }

    /// Returns the fence, which blocks writes unless this service holds the Lease.
    pub fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// Waits until this service loses the Lease, and returns the reason. The fence already blocks all writes
    /// by then.
    pub async fn wait_for_loss(&mut self) -> ServiceError {
        let reason = match self.lease.wait_until_lost().await {
            LeaseLoss::Taken(Some(holder)) => format!("{holder} has taken it"),
            LeaseLoss::Taken(None) => "another service held it in the meantime".to_owned(),
            LeaseLoss::Internal => "the renewal failed with an internal error".to_owned(),
        };
        ServiceError::Cluster {
            message: format!(
                "this service is no longer the leader: it lost the {} because {reason}; it has stopped writing and will \
                 exit. The new leader or the next `tidegate serve` continues the unfinished operations",
                self.location
            ),
            is_transient: true,
        }
    }

    /// Releases the Lease. Call this only after all work has finished.
    pub async fn release(self) {
        self.lease.release().await;
    }
}

fn describe_wait(wait: LeaseWait, is_standby: bool, place: &ClaimLocation) -> String {
    match wait {
        LeaseWait::Holder(holder) if is_standby => format!("standby: {holder} is the leader ({place})"),
        LeaseWait::Holder(holder) => {
            format!("waiting to see whether {holder} is still renewing the {place}")
        }
        LeaseWait::Unavailable(reason) => format!("waiting for the API server: {reason}"),
    }
}

fn other_leader_error(holder: &LeaseHolder, place: &ClaimLocation) -> ServiceError {
    ServiceError::refused(format!(
        "another service is the leader of this control plane: {holder} ({place}); stop it first, or start \
         this service with `tidegate serve --standby` to take over when it stops. Services that share no \
         Application can use different Leases (--lease)"
    ))
}

/// Returns a state directory's ID: a random number stored in a file (`path`), plus the file's inode, which
/// differs in a copy of the directory.
pub fn state_directory_id(path: &Path) -> Result<String, ServiceError> {
    let failed = |action| move |source| ServiceError::Io { action, path: path.to_path_buf(), source };
    let found = match files::read_text_file(path, ID_BYTES_MAX) {
        Ok(text) => Uuid::try_parse(text.trim()).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // Treat invalid content like a missing file.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        Err(error) => return Err(failed("read")(error)),
    };
    let id = match found {
        Some(id) => id,
        None => {
            // The ID uses only the random digits of the UUID.
            let id = Uuid::new_v7(Timestamp::from_unix(NoContext, 0, 0));
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY_MODE).open(path);
            let written = file.and_then(|mut file| {
                writeln!(file, "{id}")?;
                file.sync_all()
            });
            written.map_err(failed("write"))?;
            id
        }
    };
    let inode = fs::metadata(path).map_err(failed("read"))?.ino();
    let digits = id.simple().to_string();
    Ok(format!("{}-{inode:x}", digits.get(ID_TIME_DIGITS..).unwrap_or_default()))
}

/// Advisory lock on a folder of Applications. The lock is on the folder itself, so it needs no file, and the
/// operating system releases it when the process exits.
pub struct FolderLock {
    _folder: File,
}

/// Another service that has locked a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderHolder {
    folder: PathBuf,
    pid: Option<u32>,
}

impl FolderHolder {
    /// Describes the wait of a standby.
    pub fn describe_wait(&self) -> String {
        format!("standby: {}", self.describe())
    }

    fn describe(&self) -> String {
        let pid = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        format!("another service{pid} is managing the folder {}", self.folder.display())
    }
}

impl From<FolderHolder> for ServiceError {
    fn from(taken: FolderHolder) -> Self {
        Self::refused(format!(
            "{}; stop it first, or start this service with `tidegate serve --standby` to take over when it \
             stops",
            taken.describe()
        ))
    }
}

impl FolderLock {
    /// Locks a folder. Returns `Ok(Err(_))` if another service holds the lock, and an error of kind
    /// [`io::ErrorKind::Unsupported`] if the file system doesn't support locks.
    pub fn try_lock(folder: &Path) -> io::Result<Result<Self, FolderHolder>> {
        let opened = File::open(folder)?;
        match opened.try_lock() {
            Ok(()) => Ok(Ok(Self { _folder: opened })),
            Err(TryLockError::WouldBlock) => {
                let inode = opened.metadata().map(|found| found.ino()).unwrap_or_default();
                let locks = fs::read_to_string(LOCK_TABLE).unwrap_or_default();
                Ok(Err(FolderHolder { folder: folder.to_path_buf(), pid: find_lock_holder(inode, &locks) }))
            }
            Err(TryLockError::Error(error)) => Err(io::Error::new(io::ErrorKind::Unsupported, error)),
        }
    }
}

/// Returns the PID of the process with a lock on the whole file, according to the kernel's lock table
/// (`/proc/locks`).
fn find_lock_holder(inode: u64, locks: &str) -> Option<u32> {
    let held = locks.lines().filter(|line| !line.contains("->")).find_map(|line| {
        let text: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = text.as_slice() else { return None };
        let is_it = place.rsplit(':').next()?.parse() == Ok(inode);
        is_it.then(|| pid.parse().ok()).flatten()
    });
    // Zero represents a process in another container.
    held.filter(|pid| *pid != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_by_one_service_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::try_lock(folder.path()).unwrap().unwrap();
        let taken = FolderLock::try_lock(folder.path()).unwrap().err().unwrap();
        assert_eq!(taken.pid, Some(process::id()));
        let text = ServiceError::from(taken).to_string();
        assert!(text.contains(&format!("pid {}", process::id())) && text.contains("--standby"), "{text}");
        drop(first);
        assert!(FolderLock::try_lock(folder.path()).unwrap().is_ok());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is written there");
    }

    #[test]
    fn the_lock_holder_is_read_from_the_lock_table() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:2f:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 41 00:2f:5 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 42 00:2f:6 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 00:2f:8 0 EOF\n";
        for (inode, pid) in [(5, Some(41)), (6, None), (7, None), (8, None)] {
            assert_eq!(find_lock_holder(inode, locks), pid, "{inode}");
        }
    }

    #[test]
    fn a_state_directory_keeps_its_id_and_a_copy_gets_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (own, copy) = (folder.path().join("service-id"), folder.path().join("copy"));
        let name = state_directory_id(&own).unwrap();
        assert_eq!(state_directory_id(&own).unwrap(), name);
        fs::copy(&own, &copy).unwrap();
        assert_ne!(state_directory_id(&copy).unwrap(), name);
        fs::write(&copy, "not a name").unwrap();
        assert_eq!(state_directory_id(&copy).unwrap(), state_directory_id(&copy).unwrap());
    }
}
