//! Number of rounds and cases for scalable test suites.

/// Returns true for the long form of the suites, which CI selects with `TIDEGATE_LONG_TESTS=1`. The quick
/// form is a sample of it.
pub fn is_long() -> bool {
    std::env::var_os("TIDEGATE_LONG_TESTS").is_some_and(|value| value == "1")
}

/// Returns the number of rounds from an environment variable or, if that isn't set, the default for the quick
/// or long form.
pub fn rounds(variable: &str, quick: u64, long: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
        Err(_) if is_long() => long,
        Err(_) => quick,
    }
}

/// Runs a function for each item on all cores, and returns the results in order.
pub fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let ends = workers.into_iter().map(|worker| worker.join());
        ends.flat_map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
