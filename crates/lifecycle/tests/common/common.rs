//! Code shared by the tests of all machines.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

/// Scheduled events of a simulation, in the order of their times, and the alarm of its machine.
pub struct EventQueue<E> {
    events: BTreeMap<(i64, u32), E>,
    scheduled_count: u32,
    alarm_count: u32,
}

impl<E> EventQueue<E> {
    pub fn new() -> Self {
        Self { events: BTreeMap::new(), scheduled_count: 0, alarm_count: 0 }
    }

    pub fn schedule(&mut self, millis: i64, event: E) {
        self.scheduled_count += 1;
        self.events.insert((millis, self.scheduled_count), event);
    }

    /// Sets the alarm, replacing any earlier setting. `None` cancels it.
    pub fn set_alarm(&mut self, now: i64, after: Option<Duration>, event: fn(u32) -> E) {
        self.alarm_count += 1;
        if let Some(after) = after {
            assert!(!after.is_zero(), "woken up at {now}, which is now");
            let after = i64::try_from(after.as_millis()).unwrap();
            self.schedule(now.saturating_add(after), event(self.alarm_count));
        }
    }

    /// Returns true if the alarm with this number was neither canceled nor set again.
    pub fn is_current_alarm(&self, number: u32) -> bool {
        number == self.alarm_count
    }

    pub fn next_time(&self) -> Option<i64> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes the next event with its time, unless the event is later than the limit.
    pub fn pop_until(&mut self, millis: i64) -> Option<(i64, E)> {
        self.next_time().filter(|next| *next <= millis)?;
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }

    /// Removes all events with their times.
    pub fn take_events(&mut self) -> Vec<(i64, E)> {
        std::mem::take(&mut self.events).into_iter().map(|((at, _), event)| (at, event)).collect()
    }
}

/// Returns the variant name at the start of an enum's `Debug` output.
pub fn variant_name(value: &impl Debug) -> String {
    format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}
