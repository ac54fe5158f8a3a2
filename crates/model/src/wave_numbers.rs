use std::collections::BTreeMap;

use crate::{Phase, Plan};

/// By which number people know a wave: that of the `sync-wave` annotations of its objects.
///
/// It is the one that the plan has, but for the objects of an application that is deleted. They go in the reverse order of
/// their waves, the highest first, and the plan numbers waves in the order in which they come: it has the smallest number
/// for the highest, and so on. Records keep the numbers of the plan; whatever a person reads has these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaveNumbers(BTreeMap<i64, i64>);

impl WaveNumbers {
    /// The number of a wave that has another one in the plan.
    pub fn shown(&self, phase: Phase, wave: i64) -> i64 {
        match phase {
            Phase::Sync => self.0.get(&wave).copied().unwrap_or(wave),
            _ => wave,
        }
    }
}

impl Plan {
    /// By which numbers people know its waves, where it is the plan of a deletion, and where it is not.
    pub fn wave_numbers(&self, is_deletion: bool) -> WaveNumbers {
        let of_objects = self.waves.iter().filter(|wave| is_deletion && wave.phase == Phase::Sync);
        let mut planned: Vec<i64> = of_objects.map(|wave| wave.wave).collect();
        planned.sort_unstable();
        let own = planned.iter().rev().copied();
        WaveNumbers(planned.iter().copied().zip(own).collect())
    }
}
