//! What has arrived and was not taken in yet.

use std::collections::BTreeMap;

use crate::machine::Machine;

/// One thing that arrived for a machine, or for its hands.
pub enum Arrival<M: Machine, N> {
    /// News or a wish, which no command asked for; an answer that nobody waits for comes as this too.
    Input(M::Input),
    /// The answer to a command.
    Answer {
        /// What the command was about: another one about it may now be carried out.
        about: M::Subject,
        /// What the machine is given to decide on.
        input: M::Input,
    },
    /// What was kept up has ended by itself. If it is still owed, it is begun again.
    Ended(M::Subject),
    /// The time that was asked for has come.
    Alarm,
    /// The batch on its way is durable.
    Persisted,
    /// Something for the hands.
    Note(N),
}

/// Where arrivals gather, in order. Of the sights of one object only the newest stays, so what is in it is bounded by the
/// commands on their way and the objects being watched, however slowly it is emptied.
pub struct Inbox<M: Machine, N> {
    /// `None`: a newer sight came.
    arrivals: Vec<Option<Arrival<M, N>>>,
    /// Where the newest sight of each object is.
    sights: BTreeMap<M::Sight, usize>,
    gaps: usize,
}

impl<M: Machine, N> Default for Inbox<M, N> {
    fn default() -> Self {
        Self { arrivals: Vec::new(), sights: BTreeMap::new(), gaps: 0 }
    }
}

impl<M: Machine, N> Inbox<M, N> {
    /// How much it holds.
    pub fn len(&self) -> usize {
        self.arrivals.len().saturating_sub(self.gaps)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts an arrival at the end. A sight takes the place of the earlier one of the same thing, unless it is the
    /// older.
    pub fn push(&mut self, arrival: Arrival<M, N>) {
        let sight = match &arrival {
            Arrival::Input(input) => M::sight(input).map(|sight| (sight, input)),
            _ => None,
        };
        if let Some((sight, input)) = sight {
            let known = self.sights.get(&sight).and_then(|at| self.arrivals.get_mut(*at));
            if let Some(known) = known {
                if matches!(known, Some(Arrival::Input(newest)) if M::is_older(input, newest)) {
                    return;
                }
                // It goes to the end: what arrived in between may be what makes it worth anything.
                *known = None;
                self.gaps = self.gaps.saturating_add(1);
            }
            if self.gaps > self.arrivals.len() / 2 {
                self.close_gaps();
            }
            self.sights.insert(sight, self.arrivals.len());
        }
        self.arrivals.push(Some(arrival));
    }

    fn close_gaps(&mut self) {
        self.arrivals.retain(Option::is_some);
        self.gaps = 0;
        self.sights.clear();
        for (at, arrival) in self.arrivals.iter().enumerate() {
            if let Some(Arrival::Input(input)) = arrival
                && let Some(sight) = M::sight(input)
            {
                self.sights.insert(sight, at);
            }
        }
    }

    /// Takes out all there is, in the order in which it came.
    pub fn take(&mut self) -> Vec<Arrival<M, N>> {
        self.sights.clear();
        self.gaps = 0;
        std::mem::take(&mut self.arrivals).into_iter().flatten().collect()
    }
}
