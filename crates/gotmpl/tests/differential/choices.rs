//! Random choices that are remembered, so that a failing case can be made again from fewer and smaller ones.

/// Made from a seed, or repeated; when those to repeat are used up, every further choice is the first.
#[derive(Clone, Debug)]
pub struct Choices {
    made: Vec<u32>,
    next: usize,
    state: Option<u64>,
}

impl Choices {
    pub fn from_seed(seed: u64) -> Self {
        Self { made: Vec::new(), next: 0, state: Some(seed) }
    }

    pub fn again(made: Vec<u32>) -> Self {
        Self { made, next: 0, state: None }
    }

    /// Those that were made so far.
    pub fn into_made(mut self) -> Vec<u32> {
        self.made.truncate(self.next);
        self.made
    }

    fn draw(&mut self) -> u32 {
        if self.next == self.made.len() {
            self.made.push(self.state.as_mut().map_or(0, split_mix));
        }
        let choice = self.made[self.next];
        self.next += 1;
        choice
    }

    /// One of `0..count`; what is made smaller tends to 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.draw() as usize % count
    }

    /// True once in so many; what is made smaller tends to false.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    /// One for which that is true; the first of them, where it was another.
    pub fn one_that<'t, T: ?Sized>(&mut self, all: &[&'t T], is_good: impl Fn(&T) -> bool) -> &'t T {
        let one = self.one(all);
        if is_good(one) { one } else { all.iter().find(|one| is_good(one)).unwrap_or(&one) }
    }

    pub fn one<'t, T: ?Sized>(&mut self, all: &[&'t T]) -> &'t T {
        all[self.below(all.len())]
    }
}

/// SplitMix64: every seed gives a good sequence.
fn split_mix(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

/// Fewer and smaller choices that still fail, as far as so many attempts lead.
pub fn smallest(mut made: Vec<u32>, attempts: usize, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
    let mut left = attempts;
    let mut attempt = |candidate: Vec<u32>, made: &mut Vec<u32>| {
        if left == 0 {
            return false;
        }
        left -= 1;
        let still = fails(&candidate);
        if still {
            *made = candidate;
        }
        still
    };
    loop {
        let before = made.clone();
        let mut size = made.len().next_power_of_two();
        while size > 0 {
            let mut at = 0;
            while at < made.len() {
                let end = (at + size).min(made.len());
                let without = [&made[..at], &made[end..]].concat();
                if !attempt(without, &mut made) {
                    at += size;
                }
            }
            size /= 2;
        }
        for at in 0..made.len() {
            // A choice counts by its remainder, so that what is near 0 is tried one by one.
            for smaller in 0..8.min(made.get(at).copied().unwrap_or_default()) {
                let mut with = made.clone();
                with[at] = smaller;
                if attempt(with, &mut made) {
                    break;
                }
            }
        }
        if made == before {
            return made;
        }
    }
}
