//! Copies of an operation log, with its stored plans, from a state directory to PostgreSQL and back.

use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tidegate_executor::{Clock as _, SystemClock, codecs};
use tidegate_oplog::{
    CopyCounts, CopyEnd, CopyScan, Holder, ImpairedStream, LogAccess, LogError, LogKey, OpenOptions,
    OperationLog as _, PostgresLog, PostgresOptions, PostgresTarget, SledLog, check_not_moved, existing_key,
    is_held,
};

use crate::disk::SystemDisk;
use crate::error::ServiceError;
use crate::log;
use crate::notices::Notices;
use crate::state_dir::StateDir;
use crate::stored_plans::StoredPlans;
use crate::user;

/// Interval at which the reasons for a wait are read.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);
const COMMAND: &str = "tidegate log copy";

/// Direction of a copy, and its ends.
#[derive(Clone, Debug)]
pub enum CopyDirection {
    /// From a state directory to a database. Afterward, the log in the directory can't be used any more.
    ToDatabase(StateDir, PostgresTarget),
    /// From a database to a state directory.
    ToDirectory(PostgresTarget, StateDir),
}

/// Options of a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyOptions {
    /// Only checks both logs and counts the content.
    pub is_dry_run: bool,
    /// Copies everything except for damaged operations, rather than nothing.
    pub skip_damaged: bool,
}

/// Result of a copy.
#[derive(Debug, Default)]
pub struct CopyReport {
    /// Amount of content in the source.
    pub counts: CopyCounts,
    /// Number of stored plans.
    pub plans: usize,
    /// Number of streams that the target already contained.
    pub existing: usize,
    /// Damaged streams, which weren't copied.
    pub damaged: Vec<ImpairedStream>,
    /// True if the source was moved to the target earlier, so that there was nothing to do.
    pub is_already_moved: bool,
}

/// Copies an operation log. The processes that use it must have stopped.
///
/// # Errors
///
/// Returns an error if a log is in use, if the target contains anything else, or if the copy can't be verified. The
/// source can then still be used.
pub fn copy_log(
    direction: &CopyDirection,
    options: CopyOptions,
    notices: &dyn Notices,
) -> Result<CopyReport, ServiceError> {
    tokio::task::block_in_place(|| match direction {
        CopyDirection::ToDatabase(from, to) => copy_to_database(from, to, options, notices),
        CopyDirection::ToDirectory(from, to) => copy_to_directory(from, to, options, notices),
    })
}

fn copy_to_database(
    from: &StateDir,
    to: &PostgresTarget,
    options: CopyOptions,
    notices: &dyn Notices,
) -> Result<CopyReport, ServiceError> {
    if !from.has_log()? {
        return Err(no_log_error(from.path().display()));
    }
    let source = open_directory(from, options.is_dry_run, &LogAccess::CopySource(to.to_string()), notices)?;
    let key = source.key().ok_or_else(|| {
        ServiceError::refused(format!(
            "no permission to read the key of {}; run as the directory's owner, or set the key in TIDEGATE_LOG_KEY",
            from.path().display()
        ))
    })?;
    // Detects a wrong URL, password or key before the source is read.
    let existing_log = PostgresLog::open_read_only(postgres_options(to, key.clone()), true)?.map(Arc::new);
    let is_complete = match &existing_log {
        Some(log) => log.incomplete_copy()?.is_none(),
        None => false,
    };
    if source.is_moved()? && is_complete {
        return Ok(CopyReport { is_already_moved: true, ..CopyReport::default() });
    }
    let source = CopyEnd::directory(Arc::new(source));
    let scan = CopyScan::read(&source, options.skip_damaged)?;
    let plans = open_plans(from)?;
    let mut report = report_of(&scan, plans.as_ref())?;
    if options.is_dry_run {
        if let Some(log) = existing_log {
            note_replicas(&log, notices)?;
            report.existing = scan.compare(&CopyEnd::database(Arc::clone(&log)))?;
            compare_plans(plans.as_ref(), &StoredPlans::in_shared_log(log))?;
        }
        return Ok(report);
    }
    drop(existing_log);
    let log = Arc::new(PostgresLog::join_for_copy(postgres_options(to, key))?);
    while_reporting_outages(&log, notices, || {
        claim_alone(&log, notices)?;
        let target = CopyEnd::database(Arc::clone(&log));
        let target_plans = StoredPlans::in_shared_log(Arc::clone(&log));
        compare_plans(plans.as_ref(), &target_plans)?;
        report.existing = scan.run(&source, &target)?;
        if let Some(plans) = &plans {
            report.plans = plans.copy_to(&target_plans, notices)?;
        }
        Ok(scan.finish(&source, &target)?)
    })?;
    log.leave()?;
    Ok(report)
}

fn copy_to_directory(
    from: &PostgresTarget,
    to: &StateDir,
    options: CopyOptions,
    notices: &dyn Notices,
) -> Result<CopyReport, ServiceError> {
    let key = key_for(to.path())?;
    check_target_directory(to)?;
    let Some(log) = PostgresLog::open_read_only(postgres_options(from, key.clone()), false)? else {
        return Err(no_log_error(from));
    };
    let log = if options.is_dry_run {
        note_replicas(&log, notices)?;
        Arc::new(log)
    } else {
        drop(log);
        Arc::new(PostgresLog::join(postgres_options(from, key))?)
    };
    let report = while_reporting_outages(&log, notices, || {
        if !options.is_dry_run {
            claim_alone(&log, notices)?;
        }
        let source = CopyEnd::database(Arc::clone(&log));
        let scan = CopyScan::read(&source, options.skip_damaged)?;
        let plans = StoredPlans::in_shared_log(Arc::clone(&log));
        let mut report = report_of(&scan, Some(&plans))?;
        if options.is_dry_run {
            if to.has_log()? && check_not_moved(to.path()).is_ok() {
                let existing = open_directory(to, true, &LogAccess::CopyTarget, notices)?;
                report.existing = scan.compare(&CopyEnd::directory(Arc::new(existing)))?;
                open_plans(to)?.map_or(Ok(()), |existing| plans.compare(&existing))?;
            }
            return Ok(report);
        }
        to.create(notices)?;
        let target =
            CopyEnd::directory(Arc::new(open_directory(to, false, &LogAccess::CopyTarget, notices)?));
        let target_plans = StoredPlans::open_on_disk(to, Arc::new(SystemDisk))?
            .ok_or_else(|| ServiceError::refused(format!("cannot store plans in {}", to.path().display())))?;
        plans.compare(&target_plans)?;
        report.existing = scan.run(&source, &target)?;
        report.plans = plans.copy_to(&target_plans, notices)?;
        scan.finish(&source, &target)?;
        Ok(report)
    })?;
    if !options.is_dry_run {
        log.leave()?;
        check_copied_directory(to, report.counts)?;
    }
    Ok(report)
}

/// Opens a copied log as any other command does, which checks all of its files.
fn check_copied_directory(to: &StateDir, counts: CopyCounts) -> Result<(), ServiceError> {
    let log = SledLog::open(to.path(), open_options()?)?;
    if let Some(damage) = log.damage().into_iter().find(|damage| damage.is_new) {
        return Err(ServiceError::refused(format!(
            "the copy in {} is damaged: {}; remove the directory and repeat the copy (the source is unchanged)",
            to.path().display(),
            damage.reason
        )));
    }
    match log.ids()?.len() == counts.streams {
        true => Ok(()),
        false => Err(ServiceError::refused(format!(
            "the copy in {} is incomplete; remove the directory and repeat the copy (the source is unchanged)",
            to.path().display()
        ))),
    }
}

fn report_of(scan: &CopyScan, plans: Option<&StoredPlans>) -> Result<CopyReport, ServiceError> {
    Ok(CopyReport {
        counts: scan.counts(),
        plans: plans.map_or(Ok(0), StoredPlans::count)?,
        damaged: scan.damaged().to_vec(),
        ..CopyReport::default()
    })
}

/// Opens a log in a directory, read-only for a dry run. A dry run doesn't need the lock.
fn open_directory(
    state_dir: &StateDir,
    is_dry_run: bool,
    access: &LogAccess,
    notices: &dyn Notices,
) -> Result<SledLog, ServiceError> {
    if is_dry_run {
        if is_held(state_dir.path()) == Some(true) {
            notices.note(&format!(
                "a process is using {}; stop it before the actual copy",
                state_dir.path().display()
            ));
        }
        return Ok(SledLog::open_read_only(state_dir.path(), log::key_from_environment()?, codecs())?);
    }
    Ok(SledLog::open_with_access(state_dir.path(), open_options()?, access)?)
}

fn open_options() -> Result<OpenOptions, ServiceError> {
    // The arguments may contain a password.
    let holder = Holder { pid: process::id(), command: COMMAND.to_owned(), since: SystemClock.now() };
    Ok(OpenOptions { holder, key: log::key_from_environment()?, codecs: codecs() })
}

/// Opens the plans in a directory, if it contains any. Doesn't create anything.
fn open_plans(state_dir: &StateDir) -> Result<Option<StoredPlans>, ServiceError> {
    let folder = state_dir.plans().join("sealed");
    let exists = folder.try_exists();
    match exists.map_err(|source| ServiceError::Io { action: "read", path: folder, source })? {
        true => StoredPlans::open_on_disk(state_dir, Arc::new(SystemDisk)),
        false => Ok(None),
    }
}

/// Checks that a target contains no plans that are missing in the source.
fn compare_plans(source: Option<&StoredPlans>, target: &StoredPlans) -> Result<(), ServiceError> {
    match source {
        Some(source) => source.compare(target),
        None if target.count()? > 0 => Err(ServiceError::refused(
            "the target contains stored plans, but the source does not; choose an empty target; nothing was copied",
        )),
        None => Ok(()),
    }
}

fn postgres_options(target: &PostgresTarget, key: LogKey) -> PostgresOptions {
    PostgresOptions {
        target: target.clone(),
        replica: format!("{COMMAND} (pid {} on {})", process::id(), user::host_name()),
        address: None,
        key,
        codecs: codecs(),
        observer: None,
        shares: false,
    }
}

fn claim_alone(log: &PostgresLog, notices: &dyn Notices) -> Result<(), ServiceError> {
    let mut is_reported = false;
    log.claim_alone(|replica| {
        if !std::mem::replace(&mut is_reported, true) {
            notices.note(&format!("waiting to see whether {replica} is still using the database"));
        }
    })?;
    Ok(())
}

fn note_replicas(log: &PostgresLog, notices: &dyn Notices) -> Result<(), ServiceError> {
    for replica in log.replicas()? {
        notices
            .note(&format!("{replica} has joined the log in the database; stop it before the actual copy"));
    }
    Ok(())
}

/// Returns the key for the copy of a log in a database: the key in the environment, or that of an existing target.
fn key_for(directory: &Path) -> Result<LogKey, ServiceError> {
    if let Some(key) = log::key_from_environment()? {
        return Ok(key);
    }
    existing_key(directory)?.ok_or_else(|| {
        ServiceError::refused("set TIDEGATE_LOG_KEY to the key of the log in the database, and try again")
    })
}

/// Rejects a target directory whose log was moved to a database.
fn check_target_directory(to: &StateDir) -> Result<(), ServiceError> {
    match check_not_moved(to.path()) {
        Err(error @ LogError::LogMoved { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}

fn no_log_error(location: impl std::fmt::Display) -> ServiceError {
    ServiceError::BadInput { message: format!("{location} does not contain an operation log; check --from") }
}

/// Runs a copy, and reports while it waits for the database.
fn while_reporting_outages<T>(
    log: &PostgresLog,
    notices: &dyn Notices,
    copy: impl FnOnce() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    let outage = log.outage();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Dropped at the end of the copy, even if the copy panics.
        let _done = done;
        scope.spawn(move || {
            let mut reported = false;
            while is_done.recv_timeout(WAIT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let reason = outage.borrow().clone();
                if let Some(reason) = &reason
                    && !reported
                {
                    notices.note(&format!("waiting for the database: {reason}"));
                }
                reported = reason.is_some();
            }
        });
        copy()
    })
}
