//! Consumer of live events. Reads events from the log if a crashed engine didn't emit them.

use tidegate_lifecycle::operation::{Event, EventEmitter, OperationEvent, State, apply};

/// A consumer, and the emitter of the engine.
#[derive(Default)]
pub struct EventConsumer {
    emitter: EventEmitter,
    /// Events that are emitted once the batch in flight is durable.
    in_flight: Vec<Event>,
    pub received: Vec<Event>,
}

impl EventConsumer {
    pub fn batch_written<'a>(&mut self, events: impl IntoIterator<Item = &'a OperationEvent>) {
        self.in_flight = events.into_iter().filter_map(|event| self.emitter.emit(event)).collect();
    }

    pub fn batch_persisted(&mut self) {
        self.received.append(&mut self.in_flight);
    }

    /// Handles a crash: another engine resumes from the log, and the consumer reads the durable events that
    /// weren't emitted.
    pub fn engine_crashed(&mut self, state: &State, durable: &[OperationEvent]) {
        self.in_flight.clear();
        self.emitter = EventEmitter::from_state(state, durable.len() as u64);
        let seen = self.received.last().map_or(0, |event| event.sequence);
        self.received.extend(replay_events(durable).into_iter().filter(|event| event.sequence > seen));
    }

    /// Checks that the received events equal the events in the log, and that an emitter can continue from the
    /// state at any point.
    pub fn check(&self, durable: &[OperationEvent]) {
        let events = replay_events(durable);
        // The last batch may still be in flight.
        let heard: Vec<&Event> = self.received.iter().chain(&self.in_flight).collect();
        assert!(
            heard.iter().copied().eq(&events),
            "received live: {heard:#?}\nread from the log: {events:#?}"
        );
        let (mut emitter, mut state) = (EventEmitter::default(), State::New);
        let mut states = vec![state.clone()];
        for event in durable {
            emitter.emit(event);
            state = apply(state, event).unwrap();
            assert_eq!(emitter, EventEmitter::from_state(&state, emitter.sequence()));
            states.push(state.clone());
        }
        // The first events are missing from the log, and only a later state is known.
        for (kept, later) in [(durable.len() / 2, durable.len()), (durable.len() / 3, durable.len() / 2)] {
            let recorded = &durable[kept..];
            let mut emitter = EventEmitter::from_later_state(&states[later], kept as u64, recorded);
            let emitted: Vec<Event> = recorded.iter().filter_map(|event| emitter.emit(event)).collect();
            let expected: Vec<Event> =
                events.iter().filter(|event| event.sequence > kept as u64).cloned().collect();
            // Events that refer to the tasks of a replaced plan aren't emitted.
            let replans = |event: &OperationEvent| {
                matches!(event, OperationEvent::ReplanStarted { .. } | OperationEvent::Planned { .. })
            };
            let given_up = recorded.iter().rposition(replans).map_or(0, |at| (kept + at + 1) as u64);
            let (emitted_before, emitted_after) = split_at_sequence(&emitted, given_up);
            let (before, after) = split_at_sequence(&expected, given_up);
            let is_whole =
                emitted_after == after && emitted_before.iter().all(|event| before.contains(event));
            assert!(kept == 0 || is_whole, "{emitted:#?}\n{expected:#?}");
        }
    }
}

/// Splits the events after the event with this sequence number.
fn split_at_sequence(events: &[Event], at: u64) -> (&[Event], &[Event]) {
    events.split_at(events.partition_point(|event| event.sequence <= at))
}

fn replay_events(events: &[OperationEvent]) -> Vec<Event> {
    let mut emitter = EventEmitter::default();
    events.iter().filter_map(|event| emitter.emit(event)).collect()
}
