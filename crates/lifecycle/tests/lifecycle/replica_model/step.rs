//! Steps of the model, and the conditions under which they can occur.

use std::fmt;

use super::cluster::{JobPhase, Request};
use super::guard::{Guard, RemovedGuards};
use super::machine::{Machines, Node, NodeCommand};
use super::state::{Append, AppendStatus, HOOK_SHARD, Incarnation, Replica, Run, State};

/// Number of a replica: 0 or 1.
pub type ReplicaId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The replica starts with a new incarnation.
    Restart(ReplicaId),
    /// The replica counts a heartbeat, or learns that it was evicted.
    Beat(ReplicaId),
    /// The replica has seen a heartbeat count stand still for so long that it considers the incarnation dead.
    Suspect(ReplicaId, Incarnation),
    /// The replica evicts the incarnation that it considers dead.
    Evict(ReplicaId),
    /// The replica takes over the shards of evicted incarnations.
    TakeOver(ReplicaId),
    /// The replica hands over a shard to the other one.
    HandOver(ReplicaId, usize),
    /// The replica continues the operation of a shard that it got from the other one.
    Adopt(ReplicaId, usize),
    /// The replica evicts an incarnation that has stopped, and takes over its shards. No other step can come
    /// between, because the incarnation can't count another heartbeat.
    Replace(ReplicaId, Incarnation),
    /// The replica executes the outstanding command of the operation with the hook.
    Execute(ReplicaId),
    /// The replica's request reaches the cluster, and the replica receives the response.
    Call(ReplicaId),
    /// The replica observes the hook's Job.
    Observe(ReplicaId),
    /// The replica's append reaches the database, and the replica receives the response. A commit whose response
    /// arrives later or never is equivalent to a late append.
    Commit(ReplicaId, usize),
    /// The replica finds out whether an append in doubt was written.
    Settle(ReplicaId, usize),
    /// The replica finds that the database has lost durable events, and stops.
    ReportLoss(ReplicaId),
    /// The replica writes lazy events.
    Flush(ReplicaId, usize),
    /// The hook's Job ends.
    EndJob,
    /// A request reaches the cluster after its sender has given up.
    LateCall(Request),
    /// An append reaches the database after its sender has given up.
    LateCommit(Append),
    Crash(ReplicaId),
    Pause(ReplicaId),
    TimeOut(ReplicaId),
    LoseConnection(ReplicaId, usize),
    FailOver,
}

impl Step {
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Crash(_) | Self::Pause(_) | Self::TimeOut(_) | Self::LoseConnection(..) | Self::FailOver
        )
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |replica: &ReplicaId| ['A', 'B'][*replica];
        match self {
            Self::Restart(it) => write!(f, "{} restarts with a new incarnation", name(it)),
            Self::Beat(it) => write!(f, "{} records a heartbeat", name(it)),
            Self::Suspect(it, dead) => write!(f, "{} considers incarnation {dead} dead", name(it)),
            Self::Evict(it) => write!(f, "{} evicts the incarnation", name(it)),
            Self::TakeOver(it) => write!(f, "{} takes over the shards of evicted incarnations", name(it)),
            Self::HandOver(it, shard) => write!(f, "{} hands over shard {shard}", name(it)),
            Self::Adopt(it, shard) => write!(f, "{} continues the operation of shard {shard}", name(it)),
            Self::Replace(it, dead) => {
                write!(f, "{} evicts incarnation {dead}, and takes over its shards", name(it))
            }
            Self::Execute(it) => write!(f, "{} executes its outstanding command", name(it)),
            Self::Call(it) => write!(f, "{}'s request reaches the cluster and is answered", name(it)),
            Self::Observe(it) => write!(f, "{} observes the Job", name(it)),
            Self::Commit(it, shard) => {
                write!(f, "{}'s append to shard {shard} reaches the database", name(it))
            }
            Self::Settle(it, shard) => write!(f, "{} settles its append to shard {shard}", name(it)),
            Self::ReportLoss(it) => write!(f, "{} finds lost events, and stops", name(it)),
            Self::Flush(it, shard) => write!(f, "{} writes lazy events to shard {shard}", name(it)),
            Self::EndJob => f.write_str("the Job ends"),
            Self::LateCall(request) => write!(f, "a late request reaches the cluster: {request:?}"),
            Self::LateCommit(append) => {
                let Append { incarnation, epoch, shard, .. } = append;
                write!(f, "a late append of incarnation {incarnation} in epoch {epoch} reaches shard {shard}")
            }
            Self::Crash(it) => write!(f, "{} crashes", name(it)),
            Self::Pause(it) => write!(f, "{} is paused until its coverage has lapsed", name(it)),
            Self::TimeOut(it) => write!(f, "{}'s request times out", name(it)),
            Self::LoseConnection(it, shard) => {
                write!(f, "the connection for {}'s append to shard {shard} fails", name(it))
            }
            Self::FailOver => f.write_str("the database fails over and loses its last transaction"),
        }
    }
}

/// Returns the command that a replica executes next for the operation with the hook.
pub fn next_command(node: &Node, removed: RemovedGuards) -> Option<NodeCommand> {
    let early_start = node.early_start.filter(|_| !removed.keep(Guard::RecordBeforeStart));
    node.command.or(early_start)
}

/// Adds the steps that can occur in a state. Faults come last.
pub fn list_steps(state: &State, machines: &Machines, removed: RemovedGuards, steps: &mut Vec<Step>) {
    steps.clear();
    for (id, replica) in state.replicas.iter().enumerate() {
        if replica.is_up {
            list_replica_steps(state, machines, removed, (id, replica), steps);
        } else {
            steps.push(Step::Restart(id));
        }
    }
    if state.cluster.job.is_some_and(|job| job.phase == JobPhase::Running) {
        steps.push(Step::EndJob);
    }
    steps.extend(state.late_requests.items().map(Step::LateCall));
    steps.extend(state.late_appends.items().map(Step::LateCommit));
    for (id, replica) in state.replicas.iter().enumerate().filter(|(_, replica)| replica.is_up) {
        list_faults(state, (id, replica), steps);
    }
    if state.faults.failovers > 0 && state.previous.is_some() {
        steps.push(Step::FailOver);
    }
}

fn list_replica_steps(
    state: &State,
    machines: &Machines,
    removed: RemovedGuards,
    (id, replica): (ReplicaId, &Replica),
    steps: &mut Vec<Step>,
) {
    let database = &state.database;
    let other = &state.replicas[1 - id];
    let is_suspected = other
        .suspect
        .is_some_and(|suspect| suspect.incarnation == replica.incarnation && !suspect.has_beaten);
    if !replica.is_covered || database.is_evicted(replica.incarnation) || is_suspected {
        steps.push(Step::Beat(id));
    }
    match replica.suspect {
        Some(_) => steps.push(Step::Evict(id)),
        // The verdict takes longer than the coverage, so an incarnation that is considered dead isn't covered.
        None => {
            let is_dead = |owner: Incarnation| {
                let is_covered = other.is_up && other.is_covered && other.incarnation == owner;
                owner != replica.incarnation && !is_covered && !database.is_evicted(owner)
            };
            let step = |owner: Incarnation| match other.is_up && other.incarnation == owner {
                false if state.faults.failovers == 0 => Step::Replace(id, owner),
                _ => Step::Suspect(id, owner),
            };
            let [first, second] = database.shards.map(|shard| shard.owner);
            if is_dead(first) {
                steps.push(step(first));
            }
            if first != second && is_dead(second) {
                steps.push(step(second));
            }
        }
    }
    let is_free = |owner: Incarnation| owner != replica.incarnation && database.is_evicted(owner);
    if database.shards.iter().any(|shard| is_free(shard.owner)) {
        steps.push(Step::TakeOver(id));
    }
    for (shard, run) in replica.runs.iter().enumerate() {
        let is_owner = database.shards[shard].owner == replica.incarnation;
        let can_give = other.is_up && !database.is_evicted(other.incarnation);
        let is_writing = run.is_some_and(|run| run.append != AppendStatus::Idle);
        let has_call = shard == HOOK_SHARD && replica.call.is_some();
        match run {
            None if is_owner => steps.push(Step::Adopt(id, shard)),
            Some(_) if is_owner && can_give && !is_writing && !has_call && state.faults.handovers > 0 => {
                steps.push(Step::HandOver(id, shard));
            }
            _ => {}
        }
        let Some(Run { node, append, .. }) = run else { continue };
        if machines.has_lost_events(database.logs[shard], machines.node(*node).durable) {
            steps.push(Step::ReportLoss(id));
        }
        match append {
            AppendStatus::Idle if machines.node(*node).has_lazy_events => steps.push(Step::Flush(id, shard)),
            AppendStatus::Idle => {}
            AppendStatus::InFlight => steps.push(Step::Commit(id, shard)),
            AppendStatus::Doubtful => steps.push(Step::Settle(id, shard)),
        }
    }
    let Some(run) = &replica.runs[HOOK_SHARD] else { return };
    let node = machines.node(run.node);
    if node.is_observing {
        steps.push(Step::Observe(id));
    }
    if replica.call.is_some() {
        steps.push(Step::Call(id));
        return;
    }
    match next_command(node, removed) {
        Some(NodeCommand::Clear) => steps.push(Step::Execute(id)),
        Some(NodeCommand::Write(_)) if replica.is_covered || !removed.keep(Guard::Coverage) => {
            steps.push(Step::Execute(id));
        }
        _ => {}
    }
}

fn list_faults(state: &State, (id, replica): (ReplicaId, &Replica), steps: &mut Vec<Step>) {
    if state.faults.crashes > 0 {
        steps.push(Step::Crash(id));
    }
    if state.faults.pauses > 0 && replica.is_covered {
        steps.push(Step::Pause(id));
    }
    if state.faults.timeouts > 0 && replica.call.is_some() {
        steps.push(Step::TimeOut(id));
    }
    if state.faults.losses > 0 {
        let can_fail = |run: &Run| run.append == AppendStatus::InFlight;
        let shards = (0..).zip(&replica.runs).filter(|(_, run)| run.as_ref().is_some_and(can_fail));
        steps.extend(shards.map(|(shard, _)| Step::LoseConnection(id, shard)));
    }
}
