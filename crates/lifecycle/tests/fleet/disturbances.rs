//! Disturbances that a simulated machine encounters.

use proptest::prelude::*;

use crate::rng::Rng;

/// Disturbances. All fields are chances in percent, unless their documentation says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Disturbances {
    pub rng: Rng,
    /// Maximum delay of an answer, in milliseconds.
    pub max_delay: u64,
    pub repeat_chance: u64,
    pub old_chance: u64,
    pub busy_chance: u64,
    pub crash_chance: u64,
}

impl Disturbances {
    /// Returns the delay of the next answer, in milliseconds.
    pub fn random_delay(&mut self) -> i64 {
        match self.max_delay {
            0 => 0,
            slow => i64::try_from(self.rng.below(slow)).unwrap(),
        }
    }
}

pub fn disturbances() -> impl Strategy<Value = Disturbances> {
    let percents = (0_u64..300, 0_u64..30, 0_u64..40, 0_u64..30, 0_u64..6);
    (any::<u64>(), percents).prop_map(
        |(seed, (max_delay, repeat_chance, old_chance, busy_chance, crash_chance))| Disturbances {
            rng: Rng(seed),
            max_delay,
            repeat_chance,
            old_chance,
            busy_chance,
            crash_chance,
        },
    )
}
