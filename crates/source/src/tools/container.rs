//! How much memory the container of this process may have, which counts for all that it starts.

use std::fs;
use std::path::Path;

/// Where the system tells of control groups.
const GROUPS: &str = "/sys/fs/cgroup";
/// The older way to tell, by a folder for each kind of limit.
const OLDER: &str = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
/// More is no limit: the older way has a number for that.
const NONE_FROM: u64 = 1 << 50;

/// In bytes, where there is a limit.
pub(super) fn memory() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    // Those above it count as well.
    let groups = Path::new(own).ancestors().map(|group| Path::new(GROUPS).join(group).join("memory.max"));
    let files = groups.chain([Path::new(OLDER).to_owned()]);
    let told = files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    told.filter(|bytes| *bytes < NONE_FROM).min()
}
