//! Memory limit of this process's container, which includes child processes.

use std::fs;
use std::path::Path;

/// Mount point of cgroup v2.
const CGROUP_MOUNT: &str = "/sys/fs/cgroup";
/// File with the memory limit in cgroup v1.
const CGROUP_V1_LIMIT: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
/// Lowest value that means "no limit" in cgroup v1.
const UNLIMITED_FROM: u64 = 1 << 50;

/// Returns the container's memory limit in bytes, if it has one.
pub(super) fn container_memory_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    // The limits of parent cgroups also apply.
    let groups =
        Path::new(own).ancestors().map(|group| Path::new(CGROUP_MOUNT).join(group).join("memory.max"));
    let files = groups.chain([Path::new(CGROUP_V1_LIMIT).to_owned()]);
    let limits = files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.filter(|bytes| *bytes < UNLIMITED_FROM).min()
}
