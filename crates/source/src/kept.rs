//! What was made of sources, kept in memory so that nothing is made twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::Digest;

/// What was made, up to so many bytes of it.
pub struct Kept<T> {
    bytes_max: usize,
    all: Mutex<All<T>>,
}

struct All<T> {
    made: HashMap<Digest, Made<T>>,
    /// When each was asked for last, by a clock that counts.
    asked: BTreeMap<u64, Digest>,
    clock: u64,
    /// What the clock showed when it was last looked which are used.
    looked: u64,
    bytes: usize,
}

struct Made<T> {
    asked: u64,
    bytes: usize,
    what: Arc<T>,
}

impl<T> All<T> {
    /// The newest of all.
    fn ask(&mut self, key: Digest) -> u64 {
        self.clock = self.clock.wrapping_add(1);
        self.asked.insert(self.clock, key);
        self.clock
    }

    fn remove(&mut self, key: Digest) {
        if let Some(old) = self.made.remove(&key) {
            self.asked.remove(&old.asked);
            self.bytes = self.bytes.saturating_sub(old.bytes);
        }
    }
}

impl<T> Kept<T> {
    /// Keeps up to so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        let all = All { made: HashMap::new(), asked: BTreeMap::new(), clock: 0, looked: 0, bytes: 0 };
        Self { bytes_max, all: Mutex::new(all) }
    }

    fn all(&self) -> MutexGuard<'_, All<T>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was made under a key.
    pub fn get(&self, key: Digest) -> Option<Arc<T>> {
        let mut all = self.all();
        let before = all.made.get(&key)?.asked;
        all.asked.remove(&before);
        let asked = all.ask(key);
        let found = all.made.get_mut(&key)?;
        found.asked = asked;
        Some(Arc::clone(&found.what))
    }

    /// Keeps what was made under a key, which is of so many bytes; what was not asked for longest goes.
    pub fn put(&self, key: Digest, what: Arc<T>, bytes: usize) {
        let mut all = self.all();
        all.remove(key);
        all.bytes = all.bytes.saturating_add(bytes);
        let asked = all.ask(key);
        all.made.insert(key, Made { asked, bytes, what });
        while all.bytes > self.bytes_max
            && let Some(oldest) = all.asked.first_key_value().map(|(_, key)| *key)
        {
            all.remove(oldest);
        }
    }

    /// What nobody has asked for since the last time this was called goes.
    pub fn forget_unused(&self) {
        let mut all = self.all();
        let looked = all.looked.wrapping_add(1);
        let used = all.asked.split_off(&looked);
        for key in std::mem::replace(&mut all.asked, used).into_values() {
            all.remove(key);
        }
        all.looked = all.clock;
        all.made.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_goes() {
        let kept = Kept::new(25);
        let key = |number| Digest([number; 32]);
        (1..=2).for_each(|number| kept.put(key(number), Arc::new(number), 10));
        assert!(kept.get(key(1)).is_some());
        kept.put(key(3), Arc::new(3), 10);
        assert_eq!([1, 2, 3].map(|number| kept.get(key(number)).is_some()), [true, false, true]);
        kept.put(key(3), Arc::new(4), 12);
        assert_eq!([1, 2, 3].map(|number| kept.get(key(number)).is_some()), [true, false, true]);
        assert_eq!(kept.get(key(3)).as_deref(), Some(&4));
        // What is larger than all there may be is not kept.
        kept.put(key(4), Arc::new(5), 26);
        assert_eq!([1, 3, 4].map(|number| kept.get(key(number)).is_some()), [false; 3]);
    }

    #[test]
    fn what_nobody_asks_for_goes() {
        let kept = Kept::new(25);
        let key = |number| Digest([number; 32]);
        let is_there = |number| kept.all().made.contains_key(&key(number));
        (1..=2).for_each(|number| kept.put(key(number), Arc::new(number), 10));
        kept.forget_unused();
        assert!(kept.get(key(1)).is_some());
        kept.forget_unused();
        assert_eq!([1, 2].map(is_there), [true, false]);
        kept.put(key(3), Arc::new(3), 10);
        kept.forget_unused();
        assert_eq!([1, 3].map(is_there), [false, true]);
        // There is room for as much as before.
        kept.put(key(4), Arc::new(4), 15);
        assert_eq!([3, 4].map(is_there), [true, true]);
    }
}
