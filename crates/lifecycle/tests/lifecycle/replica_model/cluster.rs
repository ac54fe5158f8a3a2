//! Cluster of the model: at most one Job under the hook's name, and one resource.

use super::guard::{Guard, RemovedGuards, Violation};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobPhase {
    Suspended,
    Running,
    Ended,
}

/// Job of the hook. The number stands for its UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    pub uid: u8,
    pub phase: JobPhase,
}

/// Write to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Create the hook's Job.
    Create,
    /// Start the Job with this UID.
    Start(u8),
    /// Remove the finalizer from the Job with this UID. The model has no finalizers.
    Release(u8),
    /// Delete the Job with this UID.
    Delete(u8),
    /// Apply the resource in the wave after the hook.
    ApplyResource,
}

/// Response of the cluster, as the effects report it to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// The name of the hook is free.
    Clear,
    /// The Job exists.
    Exists(Job),
    /// The Job doesn't exist.
    Missing,
    /// The write succeeded.
    Written,
    /// The request timed out. It may still arrive.
    TimedOut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cluster {
    pub job: Option<Job>,
    /// Number of Jobs created so far.
    created: u8,
    /// Number of starts of the hook.
    pub starts: u8,
    /// True once a Job of the hook has ended.
    has_ended: bool,
    pub is_applied: bool,
}

impl Cluster {
    pub fn execute(&mut self, request: Request, removed: RemovedGuards) -> Result<Response, Violation> {
        match request {
            Request::Create => {
                // The effects read an existing Job and adopt it, because the operation created it.
                if let Some(job) = self.job {
                    return Ok(Response::Exists(job));
                }
                self.created += 1;
                self.job = Some(Job { uid: self.created, phase: JobPhase::Suspended });
                if !removed.keep(Guard::SuspendedCreation) {
                    self.start()?;
                }
            }
            Request::Start(uid) => match self.job {
                Some(job) if job.uid == uid || !removed.keep(Guard::UidBinding) => {
                    if job.phase == JobPhase::Suspended {
                        self.start()?;
                    }
                }
                _ => return Ok(Response::Missing),
            },
            Request::Delete(uid) => {
                self.job = self.job.filter(|job| job.uid != uid);
                return Ok(Response::Written);
            }
            Request::Release(_) => return Ok(Response::Written),
            Request::ApplyResource => {
                if !self.has_ended || self.job.is_some_and(|job| job.phase == JobPhase::Running) {
                    return Err(Violation::WaveOrder);
                }
                self.is_applied = true;
                return Ok(Response::Written);
            }
        }
        Ok(self.read_job())
    }

    pub fn read_job(&self) -> Response {
        self.job.map_or(Response::Missing, Response::Exists)
    }

    fn start(&mut self) -> Result<(), Violation> {
        if let Some(job) = &mut self.job {
            job.phase = JobPhase::Running;
        }
        self.starts += 1;
        if self.starts > 1 { Err(Violation::SecondStart) } else { Ok(()) }
    }

    pub fn end_job(&mut self) {
        if let Some(job) = &mut self.job {
            job.phase = JobPhase::Ended;
            self.has_ended = true;
        }
    }

    /// Returns true if a request that arrives later can still change the cluster.
    pub fn can_change(&self, request: Request, removed: RemovedGuards) -> bool {
        let is_present = |uid| self.job.is_some_and(|job| job.uid == uid);
        match request {
            Request::Create => true,
            Request::Start(_) if !removed.keep(Guard::UidBinding) => true,
            Request::Start(uid) => {
                is_present(uid) && self.job.is_some_and(|job| job.phase == JobPhase::Suspended)
            }
            Request::Delete(uid) => is_present(uid),
            Request::Release(_) => false,
            Request::ApplyResource => !self.is_applied,
        }
    }
}
