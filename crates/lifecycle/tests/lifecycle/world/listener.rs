//! Somebody who is told what happens while it happens, and reads the log for what an engine that died has not told.

use tidegate_lifecycle::operation::{Event, Fact, Narrator, State, evolve};

/// A listener, and the engine's narrator.
#[derive(Default)]
pub struct Listener {
    narrator: Narrator,
    /// Told when the batch on its way is durable.
    on_the_way: Vec<Event>,
    pub heard: Vec<Event>,
}

impl Listener {
    pub fn written<'a>(&mut self, facts: impl IntoIterator<Item = &'a Fact>) {
        self.on_the_way = facts.into_iter().filter_map(|fact| self.narrator.tell(fact)).collect();
    }

    pub fn persisted(&mut self) {
        self.heard.append(&mut self.on_the_way);
    }

    /// Another engine goes on from the log. What is durable and was not told is read there.
    pub fn crashed(&mut self, state: &State, durable: &[Fact]) {
        self.on_the_way.clear();
        self.narrator = Narrator::of(state, durable.len() as u64);
        let seen = self.heard.last().map_or(0, |event| event.sequence);
        self.heard.extend(replay(durable).into_iter().filter(|event| event.sequence > seen));
    }

    /// What was heard is what the log says, and what is known of an operation anywhere is enough to go on telling.
    pub fn check(&self, durable: &[Fact]) {
        let events = replay(durable);
        // The last batch may be on its way.
        let heard: Vec<&Event> = self.heard.iter().chain(&self.on_the_way).collect();
        assert!(heard.iter().copied().eq(&events), "told live: {heard:#?}\nread from the log: {events:#?}");
        let (mut narrator, mut state) = (Narrator::default(), State::New);
        let mut states = vec![state.clone()];
        for fact in durable {
            narrator.tell(fact);
            state = evolve(state, fact).unwrap();
            assert_eq!(narrator, Narrator::of(&state, narrator.sequence()));
            states.push(state.clone());
        }
        // The log begins in the middle, and only a later state is known.
        for (kept, later) in [(durable.len() / 2, durable.len()), (durable.len() / 3, durable.len() / 2)] {
            let facts = &durable[kept..];
            let mut narrator = Narrator::of_later(&states[later], kept as u64, facts);
            let told: Vec<Event> = facts.iter().filter_map(|fact| narrator.tell(fact)).collect();
            let expected: Vec<Event> =
                events.iter().filter(|event| event.sequence > kept as u64).cloned().collect();
            // Events of a plan that was given up by then cannot name its objects, and are not told.
            let replans = |fact: &Fact| matches!(fact, Fact::RetryPlansAnew { .. } | Fact::Planned { .. });
            let given_up = facts.iter().rposition(replans).map_or(0, |at| (kept + at + 1) as u64);
            let (told_before, told_after) = divided(&told, given_up);
            let (before, after) = divided(&expected, given_up);
            let is_whole = told_after == after && told_before.iter().all(|event| before.contains(event));
            assert!(kept == 0 || is_whole, "{told:#?}\n{expected:#?}");
        }
    }
}

/// Events up to the fact with this number, and those that follow.
fn divided(events: &[Event], at: u64) -> (&[Event], &[Event]) {
    events.split_at(events.partition_point(|event| event.sequence <= at))
}

fn replay(facts: &[Fact]) -> Vec<Event> {
    let mut narrator = Narrator::default();
    facts.iter().filter_map(|fact| narrator.tell(fact)).collect()
}
