//! Effects of the steps, and the properties that each step must preserve.

use tidegate_model::OperationPhase;

use super::cluster::{Cluster, Request, Response};
use super::guard::{Guard, RemovedGuards, Violation};
use super::machine::{Machines, NodeCommand, NodeInput};
use super::state::{
    Append, AppendStatus, Bag, Database, Faults, HOOK_SHARD, Replica, Run, Shard, State, Suspect,
};
use super::step::{ReplicaId, Step, list_steps, next_command};

/// Scope of an exploration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    pub faults: Faults,
    pub removed: RemovedGuards,
    /// Property that isn't checked.
    pub ignored: Option<Violation>,
}

/// Result of an append that reaches the database.
enum AppendResult {
    Committed,
    /// The shard has another owner or epoch.
    Fenced,
    /// The log has other events than expected.
    Mismatch,
}

/// Model of the protocol.
pub struct Model {
    pub machines: Machines,
    scope: Scope,
}

impl Model {
    pub fn new(scope: Scope) -> Self {
        Self { machines: Machines::default(), scope }
    }

    /// Returns the first state: A owns the shard of the operation with the hook, and B owns the other one.
    pub fn initial_state(&mut self) -> State {
        let logs = [self.machines.accept_operation(true), self.machines.accept_operation(false)];
        let shards = [Shard { owner: 0, epoch: 1 }, Shard { owner: 1, epoch: 1 }];
        let mut state = State {
            database: Database { shards, logs, evicted: 0 },
            previous: None,
            writers: [(0, 0); 2],
            replicas: [Replica::start(0), Replica::start(1)],
            cluster: Cluster::default(),
            late_requests: Bag::default(),
            late_appends: Bag::default(),
            faults: self.scope.faults,
        };
        self.load(&mut state, 0, 0);
        self.load(&mut state, 1, 1);
        state
    }

    pub fn list_steps(&self, state: &State, steps: &mut Vec<Step>) {
        list_steps(state, &self.machines, self.scope.removed, steps);
    }

    /// Returns true if all operations have ended.
    pub fn is_over(&self, state: &State) -> bool {
        state.database.logs.iter().all(|log| self.machines.outcome(*log).is_some())
    }

    /// Returns the state after a step.
    pub fn apply(&mut self, before: &State, step: Step) -> Result<State, Violation> {
        let mut state = *before;
        match step {
            Step::Restart(id) => {
                state.replicas[id] = Replica::start(state.replicas[id].incarnation + 2);
            }
            Step::Beat(id) => self.beat(&mut state, id),
            Step::Suspect(id, incarnation) => {
                state.replicas[id].suspect = Some(Suspect { incarnation, has_beaten: false });
            }
            Step::Evict(id) => {
                if let Some(suspect) = state.replicas[id].suspect.take()
                    && !(suspect.has_beaten && self.scope.removed.keep(Guard::ConditionalEviction))
                {
                    state.database.evicted |= 1 << suspect.incarnation;
                }
            }
            Step::TakeOver(id) => self.take_over(&mut state, id),
            Step::HandOver(id, shard) => {
                state.faults.handovers -= 1;
                let row = &mut state.database.shards[shard];
                *row = Shard { owner: state.replicas[1 - id].incarnation, epoch: row.epoch + 1 };
                if self.scope.removed.keep(Guard::StopBeforeHandover) {
                    state.replicas[id].runs[shard] = None;
                }
            }
            Step::Adopt(id, shard) => self.load(&mut state, id, shard),
            Step::Replace(id, incarnation) => {
                state.database.evicted |= 1 << incarnation;
                self.take_over(&mut state, id);
            }
            Step::Execute(id) => self.execute(&mut state, id)?,
            Step::Call(id) => {
                if let Some(request) = state.replicas[id].call.take() {
                    let response = state.cluster.execute(request, self.scope.removed)?;
                    self.input(
                        &mut state,
                        id,
                        HOOK_SHARD,
                        NodeInput::Answer(NodeCommand::Write(request), response),
                    );
                }
            }
            Step::Observe(id) => {
                let job = state.cluster.job;
                self.input(&mut state, id, HOOK_SHARD, NodeInput::Observed(job));
            }
            Step::Commit(id, shard) => {
                let append = self.append_of(&state, id, shard);
                match self.commit(&mut state, append)? {
                    AppendResult::Committed => {
                        set_status(&mut state, id, shard, AppendStatus::Idle);
                        self.input(&mut state, id, shard, NodeInput::Persisted);
                    }
                    AppendResult::Fenced => self.stop(&mut state, id),
                    AppendResult::Mismatch => self.load(&mut state, id, shard),
                }
            }
            Step::Settle(id, shard) => self.settle(&mut state, id, shard),
            Step::Flush(id, shard) => self.input(&mut state, id, shard, NodeInput::Flush),
            Step::ReportLoss(id) => self.stop(&mut state, id),
            Step::EndJob => state.cluster.end_job(),
            Step::LateCall(request) => {
                state.late_requests.remove(request);
                state.cluster.execute(request, self.scope.removed)?;
            }
            Step::LateCommit(append) => {
                state.late_appends.remove(append);
                self.commit(&mut state, append)?;
            }
            Step::Crash(id) => {
                state.faults.crashes -= 1;
                self.stop(&mut state, id);
            }
            Step::Pause(id) => {
                state.faults.pauses -= 1;
                state.replicas[id].is_covered = false;
            }
            Step::TimeOut(id) => {
                state.faults.timeouts -= 1;
                if let Some(request) = state.replicas[id].call.take() {
                    state.late_requests.insert(request);
                    let answer = NodeInput::Answer(NodeCommand::Write(request), Response::TimedOut);
                    self.input(&mut state, id, HOOK_SHARD, answer);
                }
            }
            Step::LoseConnection(id, shard) => {
                state.faults.losses -= 1;
                self.detach_append(&mut state, id, shard);
                set_status(&mut state, id, shard, AppendStatus::Doubtful);
            }
            Step::FailOver => {
                state.faults.failovers -= 1;
                state.database = state.previous.take().unwrap_or(state.database);
            }
        }
        let has_failovers = state.faults.failovers > 0;
        if has_failovers && state.database != before.database {
            state.previous = Some(before.database);
        }
        self.remove_obsolete(&mut state);
        Ok(state)
    }

    fn checks(&self, violation: Violation) -> bool {
        self.scope.ignored != Some(violation)
    }

    /// Describes a state for a trace.
    pub fn describe(&self, state: &State) -> String {
        let State { database: Database { shards: [shard, _], logs: [log, _], .. }, cluster, .. } = state;
        let job = match cluster.job {
            Some(job) => format!("Job {} {:?}", job.uid, job.phase),
            None => "no Job".to_owned(),
        };
        let calls = ["A", "B"].iter().zip(&state.replicas).filter_map(|(name, replica)| {
            replica.call.map(|request| format!("; {name} has sent {request:?}"))
        });
        let (calls, operation) = (calls.collect::<String>(), self.machines.describe_log(*log));
        format!("shard 0: incarnation {}, epoch {}; {operation}; {job}{calls}", shard.owner, shard.epoch)
    }

    fn beat(&self, state: &mut State, id: ReplicaId) {
        let incarnation = state.replicas[id].incarnation;
        if state.database.is_evicted(incarnation) {
            return self.stop(state, id);
        }
        state.replicas[id].is_covered = true;
        let other = &mut state.replicas[1 - id];
        if let Some(suspect) = other.suspect.as_mut().filter(|suspect| suspect.incarnation == incarnation) {
            suspect.has_beaten = true;
        }
    }

    fn take_over(&mut self, state: &mut State, id: ReplicaId) {
        let incarnation = state.replicas[id].incarnation;
        for shard in [0, 1] {
            let owner = state.database.shards[shard].owner;
            if owner != incarnation && state.database.is_evicted(owner) {
                let epoch = state.database.shards[shard].epoch + 1;
                state.database.shards[shard] = Shard { owner: incarnation, epoch };
                // An earlier tenure may have left an append in flight.
                self.detach_append(state, id, shard);
                state.replicas[id].runs[shard] = None;
                self.load(state, id, shard);
            }
        }
    }

    /// Recovers the operation of a shard from the log. Its call in flight has lost its sender.
    fn load(&mut self, state: &mut State, id: ReplicaId, shard: usize) {
        if shard == HOOK_SHARD
            && let Some(request) = state.replicas[id].call.take()
        {
            state.late_requests.insert(request);
        }
        let node = self.machines.recover(state.database.logs[shard]);
        let run = state.replicas[id].runs[shard];
        let epoch = run.map_or(state.database.shards[shard].epoch, |run| run.epoch);
        let append = self.initial_status(node);
        state.replicas[id].runs[shard] = Some(Run { node, epoch, append });
    }

    fn initial_status(&self, node: u16) -> AppendStatus {
        match self.machines.node(node).writing {
            Some(_) => AppendStatus::InFlight,
            None => AppendStatus::Idle,
        }
    }

    /// Passes an input to a driver, and sends the append that the driver requests.
    fn input(&mut self, state: &mut State, id: ReplicaId, shard: usize, input: NodeInput) {
        if let Some(run) = &mut state.replicas[id].runs[shard] {
            run.node = self.machines.advance(run.node, input);
            if run.append == AppendStatus::Idle {
                run.append = self.initial_status(run.node);
            }
        }
    }

    fn execute(&mut self, state: &mut State, id: ReplicaId) -> Result<(), Violation> {
        let Some(run) = state.replicas[id].runs[HOOK_SHARD] else { return Ok(()) };
        match next_command(self.machines.node(run.node), self.scope.removed) {
            Some(NodeCommand::Clear) => {
                let response = match state.cluster.read_job() {
                    Response::Missing => Response::Clear,
                    exists => exists,
                };
                self.input(state, id, HOOK_SHARD, NodeInput::Answer(NodeCommand::Clear, response));
            }
            Some(NodeCommand::Write(request)) => {
                let owner = state.database.shards[HOOK_SHARD].owner;
                if self.checks(Violation::WriteAfterLoss) && owner != state.replicas[id].incarnation {
                    return Err(Violation::WriteAfterLoss);
                }
                state.replicas[id].call = Some(request);
            }
            None => {}
        }
        Ok(())
    }

    fn append_of(&self, state: &State, id: ReplicaId, shard: usize) -> Append {
        let Replica { incarnation, runs, .. } = state.replicas[id];
        let run = runs[shard].expect("only a running operation appends");
        let node = self.machines.node(run.node);
        let child = node.writing.expect("the append is in flight");
        Append { shard, incarnation, epoch: run.epoch, parent: node.durable, child, is_settled: false }
    }

    /// Compares an append with the shard and the log, as its transaction does.
    fn check_append(&self, database: &Database, append: Append) -> AppendResult {
        let Shard { owner, epoch } = database.shards[append.shard];
        let removed = self.scope.removed;
        if removed.keep(Guard::EpochFence) && append.epoch != epoch
            || removed.keep(Guard::IncarnationFence) && append.incarnation != owner
        {
            return AppendResult::Fenced;
        }
        match database.logs[append.shard] == append.parent {
            true => AppendResult::Committed,
            false => AppendResult::Mismatch,
        }
    }

    fn commit(&self, state: &mut State, append: Append) -> Result<AppendResult, Violation> {
        let result = self.check_append(&state.database, append);
        if !matches!(result, AppendResult::Committed) {
            return Ok(result);
        }
        let Append { shard, incarnation, epoch, child, .. } = append;
        let (last_epoch, last_writer) = state.writers[shard];
        if last_epoch == epoch && last_writer != incarnation {
            return Err(Violation::SharedEpoch);
        }
        if state.database.shards[shard] != (Shard { owner: incarnation, epoch }) {
            return Err(Violation::LostTenure);
        }
        if append.is_settled && self.checks(Violation::SettledAppend) {
            return Err(Violation::SettledAppend);
        }
        let has_succeeded = self.machines.outcome(child) == Some(OperationPhase::Succeeded);
        if shard == HOOK_SHARD && has_succeeded && state.cluster.starts == 0 {
            return Err(Violation::SkippedHook);
        }
        state.database.logs[shard] = child;
        state.writers[shard] = (epoch, incarnation);
        Ok(result)
    }

    /// Finds out whether an append in doubt was written.
    fn settle(&mut self, state: &mut State, id: ReplicaId, shard: usize) {
        let append = self.append_of(state, id, shard);
        let row = &mut state.database.shards[shard];
        if row.owner != append.incarnation {
            return self.stop(state, id);
        }
        if self.scope.removed.keep(Guard::EpochRaise) {
            row.epoch += 1;
        }
        let epoch = row.epoch;
        if let Some(run) = &mut state.replicas[id].runs[shard] {
            run.epoch = epoch;
        }
        match state.database.logs[shard] {
            log if log == append.child => {
                set_status(state, id, shard, AppendStatus::Idle);
                self.input(state, id, shard, NodeInput::Persisted);
            }
            log if log == append.parent => {
                if state.late_appends.items().any(|late| late == append) {
                    state.late_appends.remove(append);
                    state.late_appends.insert(Append { is_settled: true, ..append });
                }
                set_status(state, id, shard, AppendStatus::InFlight);
            }
            // The database has lost its end, or another writer has changed the log.
            _ => self.load(state, id, shard),
        }
    }

    /// Leaves an append in flight to the network.
    fn detach_append(&self, state: &mut State, id: ReplicaId, shard: usize) {
        if state.replicas[id].runs[shard].is_some_and(|run| run.append == AppendStatus::InFlight) {
            state.late_appends.insert(self.append_of(state, id, shard));
        }
    }

    /// Stops a replica, and leaves its messages in flight to the network.
    fn stop(&self, state: &mut State, id: ReplicaId) {
        if let Some(request) = state.replicas[id].call {
            state.late_requests.insert(request);
        }
        for shard in [0, 1] {
            self.detach_append(state, id, shard);
        }
        state.replicas[id].stop();
    }

    /// Removes messages that can't have an effect anymore, and marks that don't matter anymore.
    fn remove_obsolete(&self, state: &mut State) {
        let (cluster, database) = (state.cluster, state.database);
        state.late_requests.retain(|request: Request| cluster.can_change(request, self.scope.removed));
        if state.faults.failovers > 0 {
            return;
        }
        state.previous = None;
        state
            .late_appends
            .retain(|append: Append| matches!(self.check_append(&database, append), AppendResult::Committed));
        for incarnation in (0..16)
            .take_while(|_| database.evicted != 0)
            .filter(|incarnation| database.is_evicted(*incarnation))
        {
            let is_running = |replica: &Replica| replica.is_up && replica.incarnation == incarnation;
            if !database.is_owner(incarnation) && !state.replicas.iter().any(is_running) {
                state.database.evicted &= !(1 << incarnation);
            }
        }
        for replica in &mut state.replicas {
            let is_open = |suspect: &Suspect| {
                database.is_owner(suspect.incarnation) && !database.is_evicted(suspect.incarnation)
            };
            replica.suspect = replica.suspect.filter(is_open);
        }
    }
}

fn set_status(state: &mut State, id: ReplicaId, shard: usize, append: AppendStatus) {
    if let Some(run) = &mut state.replicas[id].runs[shard] {
        run.append = append;
    }
}
