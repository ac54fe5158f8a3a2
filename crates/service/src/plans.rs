//! Plans that are kept in a state directory under their hash, to be approved and carried out later.
//!
//! ```text
//! STATE_DIR/plans/
//!   HASH.json      what is known of a plan: for which application, when, by whom, and who has approved it; no manifests
//!   lock           held by whoever changes something
//!   sealed/        the plans themselves, compressed and sealed as the manifests of operations are
//! ```
//!
//! A plan is sealed before its line is written, and a line is replaced as a whole, so a kill costs nothing that was told to be
//! kept. Whoever changes something holds the lock of the folder meanwhile, of this process or of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_executor::{Clock as _, KeptPlan, SystemClock};
use tidegate_model::{Action, Digest, OperationId, PlanApproval, Timestamp};
use tidegate_oplog::SealedFolder;
use tokio::sync::broadcast;

use crate::disk::{Disk, SystemDisk};
use crate::error::ServiceError;
use crate::files;
use crate::log;
use crate::notices::Notices;
use crate::state_dir::StateDir;

/// So many plans of one application are kept beside those that are awaited; the oldest go.
const EACH_MAX: usize = 50;
/// A plan is kept for so long: the cluster has moved since.
const KEPT_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// So many digits of a hash name a plan at least.
pub const DIGITS_MIN: usize = 6;
/// What is known of one plan.
const LINE_BYTES_MAX: u64 = 1 << 20;
const OWNER_ONLY: u32 = 0o600;
const LOCK: &str = "lock";
/// So many changes whoever listens may be behind.
const CHANGES_KEPT: usize = 64;

/// What is known of a kept plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptLine {
    /// What names it.
    pub hash: Digest,
    /// Name of the application.
    pub application: String,
    /// Revision of its manifests.
    pub revision: String,
    /// The cluster it was made for, in words.
    pub destination: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// Who asked for it.
    pub by: String,
    /// How many objects it would create, apply, replace and prune, by these words.
    pub actions: BTreeMap<String, usize>,
    /// Who has approved it, in order.
    #[serde(default)]
    pub approvals: Vec<PlanApproval>,
    /// The operation that carries it out, or has: there is one at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
    /// It was made for an operation that waits for an approval, and not because somebody wanted a plan.
    #[serde(default)]
    pub is_by_itself: bool,
    /// Nobody wants it any more: the operation that it was made for was taken back.
    #[serde(default)]
    pub is_withdrawn: bool,
    /// Who has ended that operation, where somebody has, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_by: Option<PlanApproval>,
    /// Where the plan itself is kept.
    sealed: Digest,
}

impl KeptLine {
    fn of(hash: Digest, plan: &KeptPlan, sealed: Digest) -> Self {
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

    /// Whether it may still be carried out.
    fn is_open(&self) -> bool {
        self.operation.is_none() && !self.is_withdrawn
    }

    /// `2 to create, 1 to prune`.
    pub fn summary(&self) -> String {
        in_words(&self.actions)
    }
}

/// The plans of a state directory.
#[derive(Debug)]
pub struct Plans {
    folder: PathBuf,
    sealed: SealedFolder,
    disk: Arc<dyn Disk>,
    changes: broadcast::Sender<KeptLine>,
}

impl Plans {
    /// The plans of a state directory, whether there are any or not.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or used, or the key of the state directory is not there.
    pub async fn open(state_dir: &StateDir, notices: &dyn Notices) -> Result<Self, ServiceError> {
        if let Some(plans) = Self::look(state_dir)? {
            return Ok(plans);
        }
        state_dir.create(notices)?;
        // The log makes the key. Where a process is at work, there is one.
        drop(log::lock(state_dir, notices).await?);
        Self::look(state_dir)?.ok_or_else(|| {
            let dir = state_dir.path().display();
            ServiceError::refused(format!(
                "the key of the state directory {dir} may not be read, so no plan can be kept there; become its owner, or give the key in TIDEGATE_LOG_KEY"
            ))
        })
    }

    /// The plans of a state directory; `None` where nothing was ever kept in it, or its key may not be read.
    pub fn look(state_dir: &StateDir) -> Result<Option<Self>, ServiceError> {
        Self::on(state_dir, Arc::new(SystemDisk))
    }

    /// The same, for whoever changes files in another way.
    pub fn on(state_dir: &StateDir, disk: Arc<dyn Disk>) -> Result<Option<Self>, ServiceError> {
        if !state_dir.has_log()? {
            return Ok(None);
        }
        let folder = state_dir.plans();
        disk.make_folder(&folder).map_err(|source| io_error("make", &folder, source))?;
        let sealed = SealedFolder::open(state_dir.path(), "plans/sealed", log::given_key()?)?;
        let changes = broadcast::Sender::new(CHANGES_KEPT);
        Ok(sealed.map(|sealed| Self { folder, sealed, disk, changes }))
    }

    /// Those that are kept from now on, and those about which something is decided, each as it is on the disk then.
    pub fn changes(&self) -> broadcast::Receiver<KeptLine> {
        self.changes.subscribe()
    }

    /// Keeps a plan, durably. One that is kept already stays as it is, with its approvals.
    pub fn keep(&self, plan: &KeptPlan) -> Result<KeptLine, ServiceError> {
        self.keep_as(plan, false)
    }

    /// The same, for a plan that is made for an operation which waits for an approval.
    pub fn keep_by_itself(&self, plan: &KeptPlan) -> Result<KeptLine, ServiceError> {
        self.keep_as(plan, true)
    }

    fn keep_as(&self, plan: &KeptPlan, is_by_itself: bool) -> Result<KeptLine, ServiceError> {
        let hash = plan.hash();
        let _alone = self.alone()?;
        if let Some(line) = self.line(hash)? {
            return Ok(line);
        }
        let text = plan.to_json().map_err(|error| unwritable(&error))?;
        let sealed = self.sealed.put(&text)?;
        let line = KeptLine { is_by_itself, ..KeptLine::of(hash, plan, sealed) };
        self.write(&line)?;
        self.tidy(&line.application)?;
        Ok(line)
    }

    /// The plan with this hash, or whose hash begins like this.
    pub fn find(&self, text: &str) -> Result<KeptLine, ServiceError> {
        let wanted = text.to_ascii_lowercase();
        if !is_hash(&wanted) {
            return Err(unknown(
                text,
                format!("a hash has 64 hexadecimal digits, of which the first {DIGITS_MIN} may be enough"),
            ));
        }
        let mut found: Vec<KeptLine> = self.list()?;
        found.retain(|line| line.hash.to_string().starts_with(&wanted));
        match found.len() {
            0 => Err(unknown(
                text,
                format!(
                    "none like that is kept in {}; plans are kept for {} days, and of an application the newest {EACH_MAX}",
                    self.folder.display(),
                    KEPT_FOR.as_secs() / 86_400
                ),
            )),
            1 => Ok(found.swap_remove(0)),
            more => Err(unknown(text, format!("it is the beginning of {more} plans; write more of it"))),
        }
    }

    /// The plan itself.
    pub fn get(&self, line: &KeptLine) -> Result<KeptPlan, ServiceError> {
        let text = self.sealed.get(line.sealed)?;
        let damaged =
            |why: String| ServiceError::refused(format!("plan {} cannot be used: {why}", line.hash.short()));
        let plan = KeptPlan::from_json(&text).map_err(|error| damaged(error.to_string()))?;
        if plan.hash() == line.hash {
            Ok(plan)
        } else {
            Err(damaged("another plan is in its place".to_owned()))
        }
    }

    /// All plans, the newest first. A line that cannot be read is left out, and told.
    pub fn list(&self) -> Result<Vec<KeptLine>, ServiceError> {
        let entries =
            std::fs::read_dir(&self.folder).map_err(|source| io_error("read", &self.folder, source))?;
        let mut lines = Vec::new();
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let hash =
                path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<Digest>().ok());
            let is_line = path.extension().is_some_and(|extension| extension == "json");
            if let Some(hash) = hash.filter(|_| is_line) {
                match self.line(hash) {
                    Ok(line) => lines.extend(line),
                    Err(error) => tracing::warn!(%error, "what is known of a kept plan cannot be read"),
                }
            }
        }
        lines.sort_by(|a: &KeptLine, b| b.made_at.cmp(&a.made_at).then_with(|| a.hash.cmp(&b.hash)));
        Ok(lines)
    }

    /// Records that somebody approves a plan; durable when it returns. Whoever has approved it already approves it once.
    pub fn approve(&self, hash: Digest, approval: PlanApproval) -> Result<KeptLine, ServiceError> {
        let _alone = self.alone()?;
        let Some(mut line) = self.line(hash)? else { return self.find(&hash.to_string()) };
        if !line.approvals.iter().any(|given| given.by == approval.by) {
            line.approvals.push(approval);
            self.write(&line)?;
        }
        Ok(line)
    }

    /// Records which operation carries out a plan, before that is begun; durable when it returns. The first one counts, and is
    /// in the answer.
    pub fn take(&self, hash: Digest, operation: OperationId) -> Result<KeptLine, ServiceError> {
        let _alone = self.alone()?;
        let Some(mut line) = self.line(hash)? else { return self.find(&hash.to_string()) };
        if line.operation.is_none() {
            line.operation = Some(operation);
            self.write(&line)?;
        }
        Ok(line)
    }

    /// Records that an operation does not carry out a plan after all, because it was refused before it had begun; durable when it
    /// returns.
    pub fn release(&self, hash: Digest, operation: OperationId) -> Result<(), ServiceError> {
        let _alone = self.alone()?;
        let line = self.line(hash)?.filter(|line| line.operation == Some(operation));
        line.map_or(Ok(()), |line| self.write(&KeptLine { operation: None, ..line }))
    }

    /// Records that nobody wants a plan any more that no operation has carried out, and who has said so; durable when it returns.
    pub fn withdraw(&self, hash: Digest, by: Option<PlanApproval>) -> Result<(), ServiceError> {
        let _alone = self.alone()?;
        let line = self.line(hash)?.filter(|line| line.operation.is_none() && !line.is_withdrawn);
        line.map_or(Ok(()), |line| self.write(&KeptLine { is_withdrawn: true, withdrawn_by: by, ..line }))
    }

    /// Nobody else changes anything until what is returned is dropped.
    fn alone(&self) -> Result<File, ServiceError> {
        let path = self.folder.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(OWNER_ONLY).open(&path);
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
        lock.map_err(|source| io_error("lock", &path, source))
    }

    fn path(&self, hash: Digest) -> PathBuf {
        self.folder.join(format!("{hash}.json"))
    }

    fn line(&self, hash: Digest) -> Result<Option<KeptLine>, ServiceError> {
        let path = self.path(hash);
        match files::read(&path, LINE_BYTES_MAX) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(line) => Ok(Some(line)),
                Err(error) => Err(io_error("read", &path, io::Error::other(error.to_string()))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("read", &path, source)),
        }
    }

    fn write(&self, line: &KeptLine) -> Result<(), ServiceError> {
        let text = serde_json::to_vec_pretty(line).map_err(|error| unwritable(&error))?;
        put(self.disk.as_ref(), &self.path(line.hash), &text)?;
        // Nobody listening is fine.
        let _ = self.changes.send(line.clone());
        Ok(())
    }

    /// Removes what is too much or too old of an application.
    fn tidy(&self, application: &str) -> Result<(), ServiceError> {
        let now = SystemClock.now();
        let all = self.list()?;
        let mut kept = BTreeSet::new();
        let (mut of_application, mut has_newest) = (0_usize, false);
        for line in all {
            let is_old = now.since(line.made_at) > KEPT_FOR;
            let is_ours = line.application == application;
            // Of those that were made for operations, the newest has taken the place of the others.
            let is_newest = is_ours && line.is_by_itself && !std::mem::replace(&mut has_newest, true);
            let is_awaited = line.is_open() && (is_newest || !line.approvals.is_empty());
            let is_counted = is_ours && !is_awaited;
            of_application = of_application.saturating_add(usize::from(is_counted));
            if is_old || (is_counted && of_application > EACH_MAX) {
                let path = self.path(line.hash);
                self.disk.remove(&path).map_err(|source| io_error("remove", &path, source))?;
            } else {
                kept.insert(line.sealed);
            }
        }
        Ok(self.sealed.retain(&kept)?)
    }
}

/// What a plan does, of how many objects for each word: `2 to create, 1 to prune`.
pub(crate) fn in_words<C: fmt::Display>(actions: &BTreeMap<String, C>) -> String {
    if actions.is_empty() {
        return "nothing to do".to_owned();
    }
    let all = actions.iter().map(|(action, count)| match action.as_str() {
        "prune-skipped" => format!("{count} left alone"),
        action => format!("{count} to {action}"),
    });
    all.collect::<Vec<_>>().join(", ")
}

fn unknown(text: &str, why: String) -> ServiceError {
    ServiceError::UnknownPlan { text: text.to_owned(), why }
}

/// Whether a text could be the beginning of a hash.
pub fn is_hash(text: &str) -> bool {
    (DIGITS_MIN..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a file for its owner alone, whole or not at all.
pub fn put(disk: &dyn Disk, path: &Path, content: &[u8]) -> Result<(), ServiceError> {
    let temporary = path.with_extension("tmp");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = disk
        .write(&temporary, content, OWNER_ONLY)
        .and_then(|()| disk.rename(&temporary, path))
        .and_then(|()| disk.sync_folder(folder));
    written.map_err(|source| io_error("write", path, source))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> ServiceError {
    ServiceError::Io { action, path: path.to_path_buf(), source }
}

fn unwritable(error: &serde_json::Error) -> ServiceError {
    ServiceError::refused(format!("the plan cannot be written as JSON: {error}"))
}

#[cfg(test)]
mod tests;
