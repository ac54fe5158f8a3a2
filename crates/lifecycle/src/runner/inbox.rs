//! Arrivals that the runner hasn't processed yet.

use std::collections::BTreeMap;

use crate::machine::Machine;

/// Arrival for a machine or for its effects.
pub enum Arrival<M: Machine, N> {
    /// An observation, a request, or another input that isn't the result of a command in flight.
    Input(M::Input),
    /// The result of a command.
    Answer {
        /// Subject of the command. The next command for this subject may run now.
        subject: M::Subject,
        /// Result, as an input for the machine.
        input: M::Input,
    },
    /// A subscription ended on its own. If it is still outstanding, the runner starts it again.
    SubscriptionEnded(M::Subject),
    /// The alarm fired.
    Alarm,
    /// The batch in flight is durable.
    Persisted,
    /// A message for the effects.
    Message(N),
}

/// Queue of arrivals, in order. Only the newest observation of each object is kept, so even if the runner is
/// slow, the size is bounded by the number of commands in flight and watched objects.
pub struct Inbox<M: Machine, N> {
    /// `None` marks an observation replaced by a newer one.
    arrivals: Vec<Option<Arrival<M, N>>>,
    /// Position of the newest observation of each object.
    observations: BTreeMap<M::ObservationKey, usize>,
    gaps: usize,
}

impl<M: Machine, N> Default for Inbox<M, N> {
    fn default() -> Self {
        Self { arrivals: Vec::new(), observations: BTreeMap::new(), gaps: 0 }
    }
}

impl<M: Machine, N> Inbox<M, N> {
    /// Returns the number of arrivals.
    pub fn len(&self) -> usize {
        self.arrivals.len().saturating_sub(self.gaps)
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an arrival. An observation replaces the queued observation of the same object, unless it is
    /// older.
    pub fn push(&mut self, arrival: Arrival<M, N>) {
        let observation = match &arrival {
            Arrival::Input(input) => M::observation_key(input).map(|key| (key, input)),
            _ => None,
        };
        if let Some((key, input)) = observation {
            let known = self.observations.get(&key).and_then(|at| self.arrivals.get_mut(*at));
            if let Some(known) = known {
                if matches!(known, Some(Arrival::Input(newest)) if M::is_older(input, newest)) {
                    return;
                }
                // The new observation is added at the end, because it may depend on arrivals that came after
                // the replaced observation.
                *known = None;
                self.gaps = self.gaps.saturating_add(1);
            }
            if self.gaps > self.arrivals.len() / 2 {
                self.close_gaps();
            }
            self.observations.insert(key, self.arrivals.len());
        }
        self.arrivals.push(Some(arrival));
    }

    fn close_gaps(&mut self) {
        self.arrivals.retain(Option::is_some);
        self.gaps = 0;
        self.observations.clear();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            if let Some(Arrival::Input(input)) = arrival
                && let Some(key) = M::observation_key(input)
            {
                self.observations.insert(key, at);
            }
        }
    }

    /// Removes and returns all arrivals, in order of arrival.
    pub fn take_all(&mut self) -> Vec<Arrival<M, N>> {
        self.observations.clear();
        self.gaps = 0;
        std::mem::take(&mut self.arrivals).into_iter().flatten().collect()
    }
}
