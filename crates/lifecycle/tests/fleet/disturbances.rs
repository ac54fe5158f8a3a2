//! Disturbances that a simulated machine encounters.

use proptest::prelude::*;

/// Disturbances. All fields are chances in percent, unless their documentation says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Disturbances {
    pub seed: u64,
    /// Maximum delay of an answer, in milliseconds.
    pub max_delay: u64,
    pub repeat_chance: u64,
    pub old_chance: u64,
    pub busy_chance: u64,
    pub crash_chance: u64,
}

pub fn disturbances() -> impl Strategy<Value = Disturbances> {
    let percents = (0_u64..300, 0_u64..30, 0_u64..40, 0_u64..30, 0_u64..6);
    (any::<u64>(), percents).prop_map(
        |(seed, (max_delay, repeat_chance, old_chance, busy_chance, crash_chance))| Disturbances {
            seed,
            max_delay,
            repeat_chance,
            old_chance,
            busy_chance,
            crash_chance,
        },
    )
}
