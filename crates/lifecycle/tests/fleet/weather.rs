//! How rough it is around a machine.

use proptest::prelude::*;

/// Chances in percent, but for the first two.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    pub seed: u64,
    /// Longest way of an answer, in milliseconds.
    pub slow: u64,
    pub twice: u64,
    pub old: u64,
    pub busy: u64,
    pub crashes: u64,
}

pub fn weather() -> impl Strategy<Value = Weather> {
    let percents = (0_u64..300, 0_u64..30, 0_u64..40, 0_u64..30, 0_u64..6);
    (any::<u64>(), percents).prop_map(|(seed, (slow, twice, old, busy, crashes))| Weather {
        seed,
        slow,
        twice,
        old,
        busy,
        crashes,
    })
}
