//! Who asks, and who works here.

use std::env;
use std::os::unix::fs::MetadataExt as _;

/// So much is told of who works here.
const WORKER_MAX: usize = 200;

/// Who is at the keyboard.
pub fn user() -> String {
    ["USER", "LOGNAME"]
        .iter()
        .filter_map(|name| env::var(name).ok())
        .find(|name| !name.is_empty())
        .or_else(|| std::fs::metadata("/proc/self").ok().map(|process| format!("user {}", process.uid())))
        .unwrap_or_else(|| "somebody".to_owned())
}

/// Who works here, and where: what other operations are told about ours.
pub fn worker() -> String {
    let named = env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host =
        named.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok()).unwrap_or_default();
    let words = match host.trim() {
        "" => user(),
        host => format!("{} on {host}", user()),
    };
    words.chars().filter(|c| !c.is_control()).take(WORKER_MAX).collect()
}
