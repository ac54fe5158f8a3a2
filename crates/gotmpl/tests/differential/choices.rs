//! Random choices, recorded so that a failing case can be repeated with fewer and smaller ones.

/// A source of choices: a seed or a recording. At the end of a recording, the source always chooses the first
/// option.
#[derive(Clone, Debug)]
pub struct Choices {
    recorded: Vec<u32>,
    next: usize,
    state: Option<u64>,
}

impl Choices {
    pub fn from_seed(seed: u64) -> Self {
        Self { recorded: Vec::new(), next: 0, state: Some(seed) }
    }

    pub fn replay(made: Vec<u32>) -> Self {
        Self { recorded: made, next: 0, state: None }
    }

    /// Returns the choices made so far.
    pub fn into_choices(mut self) -> Vec<u32> {
        self.recorded.truncate(self.next);
        self.recorded
    }

    fn draw(&mut self) -> u32 {
        if self.next == self.recorded.len() {
            self.recorded.push(self.state.as_mut().map_or(0, split_mix));
        }
        let choice = self.recorded[self.next];
        self.next += 1;
        choice
    }

    /// Returns a number in `0..count`. Minimization prefers smaller numbers.
    pub fn next_below(&mut self, count: usize) -> usize {
        self.draw() as usize % count
    }

    /// Returns true with a probability of 1/count. Minimization prefers false.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.next_below(count) == count - 1
    }

    /// Returns a valid item. If the chosen item is invalid, returns the first valid item instead.
    pub fn choose_where<'t, T: ?Sized>(&mut self, all: &[&'t T], is_good: impl Fn(&T) -> bool) -> &'t T {
        let one = self.choose(all);
        if is_good(one) { one } else { all.iter().find(|one| is_good(one)).unwrap_or(&one) }
    }

    pub fn choose<'t, T: ?Sized>(&mut self, all: &[&'t T]) -> &'t T {
        all[self.next_below(all.len())]
    }
}

/// Returns the next random number of SplitMix64, which produces a good sequence for every seed.
fn split_mix(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 32) as u32
}

/// Minimizes the choices of a failing case. Stops after `attempts` attempts.
pub fn minimize(mut made: Vec<u32>, attempts: usize, mut fails: impl FnMut(&[u32]) -> bool) -> Vec<u32> {
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
            // Only the remainder of a choice matters, so it is enough to try values near 0.
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
