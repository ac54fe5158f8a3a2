//! A small deterministic random number generator (SplitMix64). Not suitable for secrets.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rng(u64);

/// Characters that Kubernetes uses in generated names: no vowels, which could form words, and no look-alikes.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.0)
    }

    /// Returns true with the given probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        // An `f64` represents every 32-bit integer exactly. This resolution is finer than any probability in
        // tests.
        let drawn = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        f64::from(drawn) < probability * (f64::from(u32::MAX) + 1.0)
    }

    /// Returns a number below `limit`, or 0 if the limit is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next().checked_rem(limit).unwrap_or(0)
    }

    /// Returns a version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0x0fff,
            (low >> 48) & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// Returns the random suffix of a generated name.
    pub(crate) fn name_suffix(&mut self, length: usize) -> String {
        format_name_letters(self.next(), length)
    }
}

/// Formats a number with the characters of generated names.
pub(crate) fn format_name_letters(mut number: u64, length: usize) -> String {
    let mut text = String::with_capacity(length);
    let count = u64::try_from(NAME_LETTERS.len()).unwrap_or(1);
    for _ in 0..length {
        let position = usize::try_from(number % count).unwrap_or(0);
        text.push(NAME_LETTERS.get(position).copied().map_or('x', char::from));
        number /= count;
    }
    text
}

/// Applies SplitMix64's finalizer: every input bit changes about half of the output bits.
pub(crate) fn mix_bits(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            std::iter::repeat_with({
                let mut rng = Rng::new(seed);
                move || rng.next()
            })
            .take(8)
            .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn chances_match_their_probability() {
        let mut rng = Rng::new(1);
        let hits = (0..10_000).filter(|_| rng.chance(0.3)).count();
        assert!((2800..3200).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }

    #[test]
    fn uuids_look_like_version_4() {
        let id = Rng::new(3).uuid();
        assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4);
    }
}
