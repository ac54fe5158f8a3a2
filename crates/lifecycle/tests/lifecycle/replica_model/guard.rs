//! Guards of the protocol, and violations of its properties.

use std::fmt;

/// A check or an order of steps that protects the protocol. An exploration can remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// An append commits only if the shard still has the epoch of the writer's tenure.
    EpochFence,
    /// An append commits only if the shard still belongs to the writer's incarnation.
    IncarnationFence,
    /// A start affects only the Job with the recorded UID, not any Job with the hook's name.
    UidBinding,
    /// A start is sent only after the Job's UID is durable in the log.
    RecordBeforeStart,
    /// A hook's Job is created suspended.
    SuspendedCreation,
    /// A replica raises the shard's epoch before it reads the outcome of an append in doubt.
    EpochRaise,
    /// A replica is evicted only if its heartbeat count is still the observed one.
    ConditionalEviction,
    /// A replica sends a write to the cluster only while a recent heartbeat covers it.
    Coverage,
    /// A replica stops the operation before it hands over the shard.
    StopBeforeHandover,
}

impl Guard {
    const ALL: [Self; 9] = [
        Self::EpochFence,
        Self::IncarnationFence,
        Self::UidBinding,
        Self::RecordBeforeStart,
        Self::SuspendedCreation,
        Self::EpochRaise,
        Self::ConditionalEviction,
        Self::Coverage,
        Self::StopBeforeHandover,
    ];
}

/// Guards that an exploration removes, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedGuards(u16);

impl RemovedGuards {
    pub fn new(guards: &[Guard]) -> Self {
        Self(guards.iter().fold(0, |bits, guard| bits | 1 << *guard as u8))
    }

    /// Returns true if the guard is in force.
    pub fn keep(self, guard: Guard) -> bool {
        self.0 & 1 << guard as u8 == 0
    }
}

impl fmt::Debug for RemovedGuards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Guard::ALL.iter().filter(|guard| !self.keep(**guard))).finish()
    }
}

/// Violation of a property of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A hook started twice in the same attempt of an operation.
    SecondStart,
    /// An operation succeeded although its hook never started.
    SkippedHook,
    /// A resource was applied before the hook in the wave before it had ended.
    WaveOrder,
    /// An append committed under a lost tenure.
    LostTenure,
    /// Two incarnations wrote in the same epoch of a shard.
    SharedEpoch,
    /// An append committed after its writer had found that it was not written, and never would be.
    SettledAppend,
    /// A replica sent a write to the cluster after it had lost the shard.
    WriteAfterLoss,
    /// An operation can't end, even if no more faults occur.
    Stuck,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecondStart => "the hook started twice",
            Self::SkippedHook => "the operation succeeded, but its hook never started",
            Self::WaveOrder => "the resource was applied before the hook had ended",
            Self::LostTenure => "an append committed under a lost tenure",
            Self::SharedEpoch => "two incarnations wrote in the same epoch of a shard",
            Self::SettledAppend => "an append committed after its writer had found that it was not written",
            Self::WriteAfterLoss => "a replica sent a write to the cluster after it had lost the shard",
            Self::Stuck => "an operation cannot end, even if no more faults occur",
        })
    }
}
