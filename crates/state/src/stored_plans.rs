//! Plans in a state directory, stored under their hash for approval and later execution.
//!
//! ```text
//! STATE_DIR/plans/
//!   HASH.json      a plan's metadata: application, time, requester, and approvals; no manifests
//!   lock           held during changes
//!   sealed/        the plans themselves, compressed and sealed in the same way as operations' manifests
//! ```
//!
//! A plan is sealed before its metadata is written, and metadata is replaced atomically, so a crash never
//! loses a confirmed change. Every change holds the folder's lock, both within a process and across
//! processes.

mod plan_copy;
mod plan_files;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_executor::{Clock as _, StoredPlan, SystemClock};
use tidegate_model::{Action, Digest, OperationId, PlanApproval, Timestamp};
use tidegate_oplog::{PostgresLog, SealedFolder, check_not_moved};
use tokio::sync::broadcast;

use self::plan_files::{PlanFiles, PlanFolder};
use crate::disk::{Disk, SystemDisk};
use crate::error::ServiceError;
use crate::log::{self, ProcessQuery};
use crate::notices::Notices;
use crate::state_dir::StateDir;
use crate::summaries::describe_actions;

/// Maximum number of plans per application, not counting those that operations are waiting for. The oldest
/// plans are removed.
const PLANS_PER_APPLICATION_MAX: usize = 50;
/// Maximum age of a plan. The cluster has probably changed by then.
const AGE_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Minimum number of hash digits for identifying a plan.
pub const HASH_DIGITS_MIN: usize = 6;
const OWNER_ONLY_MODE: u32 = 0o600;
/// Maximum lag of a subscriber, in changes.
const CHANGES_MAX: usize = 64;

/// A stored plan's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredPlanMetadata {
    /// Hash that identifies the plan.
    pub hash: Digest,
    /// Name of the application.
    pub application: String,
    /// Revision of the manifests.
    pub revision: String,
    /// Description of the plan's cluster.
    pub destination: String,
    /// Creation time.
    pub made_at: Timestamp,
    /// Requester.
    pub by: String,
    /// Number of objects for each action (create, apply, replace, prune).
    pub actions: BTreeMap<String, usize>,
    /// Approvals, in order.
    #[serde(default)]
    pub approvals: Vec<PlanApproval>,
    /// Operation that is executing or has executed the plan. There is at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// True if Tidegate created the plan for an operation that is waiting for approval, rather than at a
    /// user's request.
    #[serde(default)]
    pub is_by_itself: bool,
    /// True if the plan is obsolete: its operation was stopped before it started, or there was nothing left
    /// to do.
    #[serde(default)]
    pub is_withdrawn: bool,
    /// User who stopped the withdrawn operation, with the reason; absent if no user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_by: Option<PlanApproval>,
    /// Digest of the sealed plan.
    sealed: Digest,
}

impl StoredPlanMetadata {
    fn new(hash: Digest, plan: &StoredPlan, sealed: Digest) -> Self {
        let mut actions = BTreeMap::new();
        for task in plan.plan.tasks.iter().filter(|task| task.action != Action::Unchanged) {
            let count = actions.entry(task.action.as_str().to_owned()).or_insert(0_usize);
            *count = count.saturating_add(1);
        }
        Self {
            hash,
            application: plan.request.application.clone(),
            revision: plan.request.revision.clone(),
            destination: plan.request.destination.to_string(),
            made_at: plan.made_at,
            by: plan.request.initiated_by.clone(),
            actions,
            approvals: Vec::new(),
            operation: None,
            is_by_itself: false,
            is_withdrawn: false,
            withdrawn_by: None,
            sealed,
        }
    }

    /// Returns true if the plan may still be executed.
    fn is_open(&self) -> bool {
        self.operation.is_none() && !self.is_withdrawn
    }

    /// Describes the actions in words, such as `2 to create, 1 to prune`.
    pub fn describe_actions(&self) -> String {
        describe_actions(&self.actions)
    }
}

/// The stored plans of a state directory or of a shared log.
#[derive(Debug)]
pub struct StoredPlans {
    files: PlanFiles,
    changes: broadcast::Sender<StoredPlanMetadata>,
}

impl StoredPlans {
    /// Opens the plans in a state directory. Creates the directory if it doesn't exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be created or used, or if the state directory's key is missing.
    pub async fn open(
        state_dir: &StateDir,
        notices: &dyn Notices,
        is_process_running: ProcessQuery,
    ) -> Result<Self, ServiceError> {
        if let Some(plans) = Self::open_existing(state_dir)? {
            return Ok(plans);
        }
        state_dir.create(notices)?;
        // Opening the log creates the key. If a process is running, the key already exists.
        drop(log::open_locked(state_dir, notices, is_process_running).await?);
        Self::open_existing(state_dir)?.ok_or_else(|| {
            let dir = state_dir.path().display();
            ServiceError::refused(format!(
                "cannot store plans in {dir}: no permission to read the key of the state directory; run as the directory's owner, or set the key in \
                 TIDEGATE_LOG_KEY"
            ))
        })
    }

    /// Opens the plans in a state directory. Returns `None` if it was never used or its key isn't accessible.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory's log was moved to a database, which then contains the plans.
    pub fn open_existing(state_dir: &StateDir) -> Result<Option<Self>, ServiceError> {
        check_not_moved(state_dir.path())?;
        Self::open_on_disk(state_dir, Arc::new(SystemDisk))
    }

    /// Opens the plans, making changes through the given disk.
    pub fn open_on_disk(state_dir: &StateDir, disk: Arc<dyn Disk>) -> Result<Option<Self>, ServiceError> {
        if !state_dir.has_log()? {
            return Ok(None);
        }
        let folder = state_dir.plans();
        disk.create_folder(&folder).map_err(|source| io_error("make", &folder, source))?;
        let sealed = SealedFolder::open(state_dir.path(), "plans/sealed", log::key_from_environment()?)?;
        Ok(sealed.map(|sealed| Self::with_files(PlanFiles::Folder(PlanFolder { folder, sealed, disk }))))
    }

    /// Opens the plans in a shared log.
    pub fn in_shared_log(log: Arc<PostgresLog>) -> Self {
        Self::with_files(PlanFiles::Shared(log, Mutex::default()))
    }

    fn with_files(files: PlanFiles) -> Self {
        Self { files, changes: broadcast::Sender::new(CHANGES_MAX) }
    }

    /// Subscribes to new plans and to decisions about plans. A change is sent once it is durable.
    pub fn subscribe(&self) -> broadcast::Receiver<StoredPlanMetadata> {
        self.changes.subscribe()
    }

    /// Stores a plan durably. If already stored, the plan keeps its approvals.
    pub fn store(&self, plan: &StoredPlan) -> Result<StoredPlanMetadata, ServiceError> {
        self.store_as(plan, false)
    }

    /// Stores a plan that was created automatically for an operation waiting for approval.
    pub fn store_automatic(&self, plan: &StoredPlan) -> Result<StoredPlanMetadata, ServiceError> {
        self.store_as(plan, true)
    }

    fn store_as(&self, plan: &StoredPlan, is_by_itself: bool) -> Result<StoredPlanMetadata, ServiceError> {
        let hash = plan.hash();
        let _alone = self.files.lock()?;
        if let Some(line) = self.read_metadata(hash)? {
            return Ok(line);
        }
        let text = plan.to_json().map_err(|error| serialization_error(&error))?;
        let sealed = self.files.put_content(&text)?;
        let line = StoredPlanMetadata { is_by_itself, ..StoredPlanMetadata::new(hash, plan, sealed) };
        self.write_metadata(&line)?;
        self.remove_excess(&line.application)?;
        Ok(line)
    }

    /// Returns the plan with this hash or hash prefix.
    pub fn find(&self, text: &str) -> Result<StoredPlanMetadata, ServiceError> {
        let prefix = text.to_ascii_lowercase();
        if !is_hash(&prefix) {
            return Err(unknown_plan_error(
                text,
                format!("a hash has 64 hexadecimal digits; use at least the first {HASH_DIGITS_MIN}"),
            ));
        }
        let mut found: Vec<StoredPlanMetadata> = self.list()?;
        found.retain(|line| line.hash.to_string().starts_with(&prefix));
        match found.len() {
            0 => Err(unknown_plan_error(
                text,
                format!(
                    "no plan in {} has this prefix; only the newest {PLANS_PER_APPLICATION_MAX} plans of each application are kept, for at most {} days",
                    self.files,
                    AGE_MAX.as_secs() / 86_400
                ),
            )),
            1 => Ok(found.swap_remove(0)),
            more => {
                let reason = format!("this prefix matches {more} plans; use more digits");
                Err(unknown_plan_error(text, reason))
            }
        }
    }

    /// Returns a plan's content.
    pub fn read_plan(&self, line: &StoredPlanMetadata) -> Result<StoredPlan, ServiceError> {
        let text = self.files.content(line.sealed)?;
        let damaged = |reason: String| {
            ServiceError::refused(format!("plan {} cannot be used: {reason}", line.hash.short()))
        };
        let plan = StoredPlan::from_json(&text).map_err(|error| damaged(error.to_string()))?;
        if plan.hash() == line.hash {
            Ok(plan)
        } else {
            Err(damaged("its file contains a different plan".to_owned()))
        }
    }

    /// Returns all plans, newest first. Skips unreadable metadata and logs a warning.
    pub fn list(&self) -> Result<Vec<StoredPlanMetadata>, ServiceError> {
        let mut lines = Vec::new();
        for hash in self.files.hashes()? {
            match self.read_metadata(hash) {
                Ok(line) => lines.extend(line),
                Err(error) => tracing::warn!(%error, "failed to read a stored plan"),
            }
        }
        lines
            .sort_by(|a: &StoredPlanMetadata, b| b.made_at.cmp(&a.made_at).then_with(|| a.hash.cmp(&b.hash)));
        Ok(lines)
    }

    /// Records an approval durably. A user can approve a plan only once.
    pub fn approve(&self, hash: Digest, approval: PlanApproval) -> Result<StoredPlanMetadata, ServiceError> {
        let _alone = self.files.lock()?;
        let Some(mut line) = self.read_metadata(hash)? else { return self.find(&hash.to_string()) };
        if !line.approvals.iter().any(|given| given.by == approval.by) {
            line.approvals.push(approval);
            self.write_metadata(&line)?;
        }
        Ok(line)
    }

    /// Durably records the operation that executes a plan, before it starts. If another operation was
    /// recorded earlier, the returned metadata contains that one.
    pub fn take(&self, hash: Digest, operation: OperationId) -> Result<StoredPlanMetadata, ServiceError> {
        let _alone = self.files.lock()?;
        let Some(mut line) = self.read_metadata(hash)? else { return self.find(&hash.to_string()) };
        if line.operation.is_none() {
            line.operation = Some(operation);
            self.write_metadata(&line)?;
        }
        Ok(line)
    }

    /// Durably records that an operation won't execute a plan because it was rejected before it started.
    pub fn release(&self, hash: Digest, operation: OperationId) -> Result<(), ServiceError> {
        let _alone = self.files.lock()?;
        let line = self.read_metadata(hash)?.filter(|line| line.operation == Some(operation));
        line.map_or(Ok(()), |line| self.write_metadata(&StoredPlanMetadata { operation: None, ..line }))
    }

    /// Durably records that a plan without an operation is obsolete, and who decided this.
    pub fn withdraw(&self, hash: Digest, by: Option<PlanApproval>) -> Result<(), ServiceError> {
        let _alone = self.files.lock()?;
        let line = self.read_metadata(hash)?.filter(|line| line.operation.is_none() && !line.is_withdrawn);
        line.map_or(Ok(()), |line| {
            self.write_metadata(&StoredPlanMetadata { is_withdrawn: true, withdrawn_by: by, ..line })
        })
    }

    fn read_metadata(&self, hash: Digest) -> Result<Option<StoredPlanMetadata>, ServiceError> {
        let Some(text) = self.files.read(hash)? else { return Ok(None) };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| self.files.invalid_metadata_error(hash, &error))
    }

    fn write_metadata(&self, line: &StoredPlanMetadata) -> Result<(), ServiceError> {
        let text = serde_json::to_vec_pretty(line).map_err(|error| serialization_error(&error))?;
        self.files.write(line.hash, &text)?;
        // Fails without subscribers.
        let _ = self.changes.send(line.clone());
        Ok(())
    }

    /// Removes an application's plans that are too old or exceed the limit.
    fn remove_excess(&self, application: &str) -> Result<(), ServiceError> {
        let now = SystemClock.now();
        let all = self.list()?;
        let mut retained = BTreeSet::new();
        let (mut of_application, mut has_newest) = (0_usize, false);
        for line in all {
            let is_old = now.since(line.made_at) > AGE_MAX;
            let is_ours = line.application == application;
            // The newest automatically created plan replaces all earlier ones.
            let is_newest = is_ours && line.is_by_itself && !std::mem::replace(&mut has_newest, true);
            let is_awaited = line.is_open() && (is_newest || !line.approvals.is_empty());
            let is_counted = is_ours && !is_awaited;
            of_application = of_application.saturating_add(usize::from(is_counted));
            if is_old || (is_counted && of_application > PLANS_PER_APPLICATION_MAX) {
                self.files.remove(line.hash)?;
            } else {
                retained.insert(line.sealed);
            }
        }
        self.files.retain_content(&retained)
    }
}

fn unknown_plan_error(text: &str, reason: String) -> ServiceError {
    ServiceError::UnknownPlan { text: text.to_owned(), why: reason }
}

/// Returns true if the text is a possible hash or hash prefix.
pub fn is_hash(text: &str) -> bool {
    (HASH_DIGITS_MIN..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Atomically writes a file that only its owner can access.
pub fn write_file(disk: &dyn Disk, path: &Path, content: &[u8]) -> Result<(), ServiceError> {
    let temporary = path.with_extension("tmp");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = disk
        .write(&temporary, content, OWNER_ONLY_MODE)
        .and_then(|()| disk.rename(&temporary, path))
        .and_then(|()| disk.sync_folder(folder));
    written.map_err(|source| io_error("write", path, source))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> ServiceError {
    ServiceError::Io { action, path: path.to_path_buf(), source }
}

fn serialization_error(error: &serde_json::Error) -> ServiceError {
    ServiceError::refused(format!("the plan cannot be encoded as JSON: {error}"))
}

#[cfg(test)]
mod tests;
