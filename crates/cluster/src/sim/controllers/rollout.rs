//! How many pods of the new and the old template a rolling update wants next. Plain arithmetic.

use serde_json::Value;

/// How many pods a ReplicaSet wants, and how many of them serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) replicas: i64,
    pub(crate) available: i64,
}

/// What a rolling update may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) wanted: i64,
    /// So many pods more than wanted may be there.
    pub(crate) surge: i64,
    /// So many pods fewer than wanted may serve.
    pub(crate) unavailable: i64,
}

/// Reads `maxSurge` or `maxUnavailable`: a number, or a share of the wanted pods.
pub(crate) fn share(value: Option<&Value>, wanted: i64, round_up: bool) -> i64 {
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

impl Limits {
    /// An update that may neither add nor remove a pod would never move; the server lets one be missing.
    pub(crate) fn new(wanted: i64, surge: i64, unavailable: i64) -> Self {
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { wanted, surge, unavailable }
    }

    /// How many pods the new set and each old one should have next.
    pub(crate) fn next(self, new: Set, old: &[Set]) -> (i64, Vec<i64>) {
        let total = new.replicas + old.iter().map(|set| set.replicas).sum::<i64>();
        let room = (self.wanted + self.surge - total).max(0);
        let up =
            if new.replicas < self.wanted { (new.replicas + room).min(self.wanted) } else { self.wanted };
        (up, self.shrink(new, old, total))
    }

    /// Old pods that do not serve go first; those that serve go as far as enough others do.
    fn shrink(self, new: Set, old: &[Set], total: i64) -> Vec<i64> {
        let least = self.wanted - self.unavailable;
        let mut room = (total - least - (new.replicas - new.available)).max(0);
        let mut next: Vec<Set> = old.to_vec();
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

    fn set(replicas: i64, available: i64) -> Set {
        Set { replicas, available }
    }

    #[test]
    fn shares_round_as_kubernetes_does() {
        for (value, wanted, up, down) in
            [(json!("25%"), 3, 1, 0), (json!("25%"), 4, 1, 1), (json!(2), 9, 2, 2), (json!("100%"), 5, 5, 5)]
        {
            assert_eq!(
                (share(Some(&value), wanted, true), share(Some(&value), wanted, false)),
                (up, down),
                "{value}"
            );
        }
    }

    #[test]
    fn a_first_rollout_is_not_held_back() {
        assert_eq!(Limits::new(3, 1, 0).next(set(0, 0), &[]), (3, vec![]));
    }

    #[test]
    fn an_update_moves_within_its_limits() {
        let limits = Limits::new(4, 1, 1);
        assert_eq!(limits.next(set(0, 0), &[set(4, 4)]), (1, vec![3]));
        assert_eq!(limits.next(set(1, 0), &[set(3, 3)]), (2, vec![3]));
        assert_eq!(limits.next(set(2, 2), &[set(3, 3)]), (2, vec![1]));
        assert_eq!(limits.next(set(4, 4), &[set(1, 1)]), (4, vec![0]));
    }

    #[test]
    fn broken_old_pods_make_room_and_good_ones_stay_while_the_new_are_broken() {
        let limits = Limits::new(3, 1, 0);
        assert_eq!(limits.next(set(1, 0), &[set(3, 3)]), (1, vec![3]));
        assert_eq!(limits.next(set(1, 0), &[set(3, 0)]), (1, vec![3]));
        assert_eq!(limits.next(set(1, 1), &[set(3, 0)]), (1, vec![2]));
    }
}
