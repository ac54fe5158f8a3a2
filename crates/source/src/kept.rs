//! Manifests that were made, kept in memory so that nothing is made twice.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Digest;

use crate::File;

/// What was made, the newest first, up to so many bytes.
pub struct Kept {
    bytes_max: usize,
    made: Mutex<Made>,
}

/// How many bytes, and what they are.
type Made = (usize, VecDeque<(Digest, Arc<Vec<File>>)>);

fn size(files: &[File]) -> usize {
    files.iter().map(|file| file.path.len().saturating_add(file.content.len())).sum()
}

impl Kept {
    /// Keeps up to so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, made: Mutex::default() }
    }

    /// What was made under a key.
    pub fn get(&self, key: Digest) -> Option<Arc<Vec<File>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let at = made.1.iter().position(|(known, _)| *known == key)?;
        let found = made.1.remove(at)?;
        let files = Arc::clone(&found.1);
        made.1.push_front(found);
        Some(files)
    }

    /// Keeps what was made under a key; what was not asked for longest goes.
    pub fn put(&self, key: Digest, files: Arc<Vec<File>>) {
        let new = size(&files);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, all) = &mut *made;
        if let Some((_, old)) = all.iter().position(|(known, _)| *known == key).and_then(|at| all.remove(at))
        {
            *bytes = bytes.saturating_sub(size(&old));
        }
        *bytes = bytes.saturating_add(new);
        all.push_front((key, files));
        while *bytes > self.bytes_max
            && let Some((_, old)) = all.pop_back()
        {
            *bytes = bytes.saturating_sub(size(&old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_longest_goes() {
        let kept = Kept::new(25);
        let key = |number| Digest([number; 32]);
        let files = |size: usize| Arc::new(vec![File { path: String::new(), content: vec![0; size] }]);
        (1..=2).for_each(|number| kept.put(key(number), files(10)));
        assert!(kept.get(key(1)).is_some());
        kept.put(key(3), files(10));
        assert_eq!([1, 2, 3].map(|number| kept.get(key(number)).is_some()), [true, false, true]);
        kept.put(key(3), files(12));
        assert_eq!([1, 3].map(|number| kept.get(key(number)).is_some()), [true, true]);
        kept.put(key(4), files(26));
        assert!((1..=4).all(|number| kept.get(key(number)).is_none()), "what is too large is not kept");
    }
}
