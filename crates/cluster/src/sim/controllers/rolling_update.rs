//! Arithmetic of rolling updates: computes the next number of pods for the new template and for each old
//! template.

use serde_json::Value;

/// Desired and available number of pods of a ReplicaSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaCounts {
    pub(crate) replicas: i64,
    pub(crate) available: i64,
}

/// Limits of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RolloutLimits {
    pub(crate) desired: i64,
    /// Maximum number of pods in excess of the desired number.
    pub(crate) max_surge: i64,
    /// Maximum number of unavailable pods.
    pub(crate) max_unavailable: i64,
}

/// Reads `maxSurge` or `maxUnavailable`, which is either a number or a percentage of the desired pods.
pub(crate) fn parse_int_or_percent(value: Option<&Value>, wanted: i64, round_up: bool) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0).max(0),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(25);
            let parts = wanted.saturating_mul(percent.clamp(0, 100));
            if round_up { (parts + 99) / 100 } else { parts / 100 }
        }
        _ => 0,
    }
}

impl RolloutLimits {
    /// Creates the limits. As on a real server, both limits at 0 mean one unavailable pod, because the update
    /// could otherwise never progress.
    pub(crate) fn new(desired: i64, max_surge: i64, unavailable: i64) -> Self {
        let max_unavailable = if max_surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { desired, max_surge, max_unavailable }
    }

    /// Returns the next number of pods for the new ReplicaSet and for each old ReplicaSet.
    pub(crate) fn next_counts(self, new: ReplicaCounts, old: &[ReplicaCounts]) -> (i64, Vec<i64>) {
        let total = new.replicas + old.iter().map(|set| set.replicas).sum::<i64>();
        let room = (self.desired + self.max_surge - total).max(0);
        let up =
            if new.replicas < self.desired { (new.replicas + room).min(self.desired) } else { self.desired };
        (up, self.scale_down_old(new, old, total))
    }

    /// Scales down unavailable old pods first. Removes available pods only while enough other pods are
    /// available.
    fn scale_down_old(self, new: ReplicaCounts, old: &[ReplicaCounts], total: i64) -> Vec<i64> {
        let least = self.desired - self.max_unavailable;
        let mut room = (total - least - (new.replicas - new.available)).max(0);
        let mut next: Vec<ReplicaCounts> = old.to_vec();
        for set in &mut next {
            let broken = (set.replicas - set.available).clamp(0, room);
            set.replicas -= broken;
            room -= broken;
        }
        let serving = new.available + next.iter().map(|set| set.available).sum::<i64>();
        let mut spare = (serving - least).clamp(0, room);
        for set in &mut next {
            let gone = spare.min(set.replicas);
            set.replicas -= gone;
            spare -= gone;
        }
        next.iter().map(|set| set.replicas).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn counts(replicas: i64, available: i64) -> ReplicaCounts {
        ReplicaCounts { replicas, available }
    }

    #[test]
    fn percentages_round_as_in_kubernetes() {
        for (value, wanted, up, down) in
            [(json!("25%"), 3, 1, 0), (json!("25%"), 4, 1, 1), (json!(2), 9, 2, 2), (json!("100%"), 5, 5, 5)]
        {
            assert_eq!(
                (
                    parse_int_or_percent(Some(&value), wanted, true),
                    parse_int_or_percent(Some(&value), wanted, false)
                ),
                (up, down),
                "{value}"
            );
        }
    }

    #[test]
    fn a_first_rollout_ignores_the_limits() {
        assert_eq!(RolloutLimits::new(3, 1, 0).next_counts(counts(0, 0), &[]), (3, vec![]));
    }

    #[test]
    fn an_update_stays_within_its_limits() {
        let limits = RolloutLimits::new(4, 1, 1);
        assert_eq!(limits.next_counts(counts(0, 0), &[counts(4, 4)]), (1, vec![3]));
        assert_eq!(limits.next_counts(counts(1, 0), &[counts(3, 3)]), (2, vec![3]));
        assert_eq!(limits.next_counts(counts(2, 2), &[counts(3, 3)]), (2, vec![1]));
        assert_eq!(limits.next_counts(counts(4, 4), &[counts(1, 1)]), (4, vec![0]));
    }

    #[test]
    fn broken_old_pods_go_first_and_available_ones_stay() {
        let limits = RolloutLimits::new(3, 1, 0);
        assert_eq!(limits.next_counts(counts(1, 0), &[counts(3, 3)]), (1, vec![3]));
        assert_eq!(limits.next_counts(counts(1, 0), &[counts(3, 0)]), (1, vec![3]));
        assert_eq!(limits.next_counts(counts(1, 1), &[counts(3, 0)]), (1, vec![2]));
    }
}
