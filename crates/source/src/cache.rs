//! In-memory cache of rendered manifests.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::Digest;

/// An LRU cache bounded by size in bytes.
pub struct Cache<T> {
    bytes_max: usize,
    state: Mutex<CacheState<T>>,
}

struct CacheState<T> {
    entries: HashMap<Digest, CacheEntry<T>>,
    /// Keys ordered by last use, in logical time.
    by_last_use: BTreeMap<u64, Digest>,
    clock: u64,
    /// Logical time of the last call to `forget_unused`.
    last_cleanup: u64,
    bytes: usize,
}

struct CacheEntry<T> {
    last_use: u64,
    bytes: usize,
    value: Arc<T>,
}

impl<T> CacheState<T> {
    /// Marks `key` as just used and returns the logical time.
    fn record_use(&mut self, key: Digest) -> u64 {
        self.clock = self.clock.wrapping_add(1);
        self.by_last_use.insert(self.clock, key);
        self.clock
    }

    fn remove(&mut self, key: Digest) {
        if let Some(old) = self.entries.remove(&key) {
            self.by_last_use.remove(&old.last_use);
            self.bytes = self.bytes.saturating_sub(old.bytes);
        }
    }
}

impl<T> Cache<T> {
    /// Creates a cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let all = CacheState {
            entries: HashMap::new(),
            by_last_use: BTreeMap::new(),
            clock: 0,
            last_cleanup: 0,
            bytes: 0,
        };
        Self { bytes_max, state: Mutex::new(all) }
    }

    fn lock_state(&self) -> MutexGuard<'_, CacheState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value for a key and marks it as used.
    pub fn get(&self, key: Digest) -> Option<Arc<T>> {
        let mut all = self.lock_state();
        let before = all.entries.get(&key)?.last_use;
        all.by_last_use.remove(&before);
        let asked = all.record_use(key);
        let found = all.entries.get_mut(&key)?;
        found.last_use = asked;
        Some(Arc::clone(&found.value))
    }

    /// Adds an entry of `bytes` bytes, evicting the least recently used entries to make room.
    pub fn put(&self, key: Digest, what: Arc<T>, bytes: usize) {
        let mut all = self.lock_state();
        all.remove(key);
        all.bytes = all.bytes.saturating_add(bytes);
        let asked = all.record_use(key);
        all.entries.insert(key, CacheEntry { last_use: asked, bytes, value: what });
        while all.bytes > self.bytes_max
            && let Some(oldest) = all.by_last_use.first_key_value().map(|(_, key)| *key)
        {
            all.remove(oldest);
        }
    }

    /// Removes all entries unused since the last call.
    pub fn forget_unused(&self) {
        let mut all = self.lock_state();
        let looked = all.last_cleanup.wrapping_add(1);
        let used = all.by_last_use.split_off(&looked);
        for key in std::mem::replace(&mut all.by_last_use, used).into_values() {
            all.remove(key);
        }
        all.last_cleanup = all.clock;
        all.entries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let kept = Cache::new(25);
        let key = |number| Digest([number; 32]);
        (1..=2).for_each(|number| kept.put(key(number), Arc::new(number), 10));
        assert!(kept.get(key(1)).is_some());
        kept.put(key(3), Arc::new(3), 10);
        assert_eq!([1, 2, 3].map(|number| kept.get(key(number)).is_some()), [true, false, true]);
        kept.put(key(3), Arc::new(4), 12);
        assert_eq!([1, 2, 3].map(|number| kept.get(key(number)).is_some()), [true, false, true]);
        assert_eq!(kept.get(key(3)).as_deref(), Some(&4));
        // Entries larger than the cache itself aren't stored.
        kept.put(key(4), Arc::new(5), 26);
        assert_eq!([1, 3, 4].map(|number| kept.get(key(number)).is_some()), [false; 3]);
    }

    #[test]
    fn unused_entries_are_removed() {
        let kept = Cache::new(25);
        let key = |number| Digest([number; 32]);
        let is_there = |number| kept.lock_state().entries.contains_key(&key(number));
        (1..=2).for_each(|number| kept.put(key(number), Arc::new(number), 10));
        kept.forget_unused();
        assert!(kept.get(key(1)).is_some());
        kept.forget_unused();
        assert_eq!([1, 2].map(is_there), [true, false]);
        kept.put(key(3), Arc::new(3), 10);
        kept.forget_unused();
        assert_eq!([1, 3].map(is_there), [false, true]);
        // The cleanup doesn't change the maximum size.
        kept.put(key(4), Arc::new(4), 15);
        assert_eq!([3, 4].map(is_there), [true, true]);
    }
}
