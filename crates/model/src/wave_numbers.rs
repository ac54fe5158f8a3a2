use std::collections::BTreeMap;

use crate::{Phase, Plan};

/// Wave numbers as shown to users. They match the objects' `sync-wave` annotations.
///
/// They equal the numbers in the plan, except in deletions. A deletion starts with the highest wave, but its
/// plan numbers the waves in execution order, so the highest wave has the lowest number. Records use the
/// plan's numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaveNumbers(BTreeMap<i64, i64>);

impl WaveNumbers {
    /// Returns the number to display for a wave of the plan.
    pub fn displayed(&self, phase: Phase, wave: i64) -> i64 {
        match phase {
            Phase::Sync => self.0.get(&wave).copied().unwrap_or(wave),
            _ => wave,
        }
    }
}

impl Plan {
    /// Returns the wave numbers to display. `is_deletion` is true if the plan is a deletion.
    pub fn wave_numbers(&self, is_deletion: bool) -> WaveNumbers {
        let of_objects = self.waves.iter().filter(|wave| is_deletion && wave.phase == Phase::Sync);
        let mut planned: Vec<i64> = of_objects.map(|wave| wave.wave).collect();
        planned.sort_unstable();
        let own = planned.iter().rev().copied();
        WaveNumbers(planned.iter().copied().zip(own).collect())
    }
}
