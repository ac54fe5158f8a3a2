//! Names of the requester and of the running process.

use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;
use std::{env, fs};

use tidegate_kube::KubeCluster;

/// Maximum number of characters in the running process's name.
const WORKER_MAX: usize = 200;

/// Environment variables that may contain the user name.
const USER_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];
/// Maximum length of a user name from a cluster.
const NAME_MAX: usize = 253;
/// File that lists the users of this machine.
const PASSWD_FILE: &str = "/etc/passwd";

/// Name by which a cluster knows the user who runs this process.
static CLUSTER_USER: OnceLock<String> = OnceLock::new();

/// Returns the name of the user who makes requests in this process: from the environment, a cluster or the
/// operating system, in this order.
pub fn user_name() -> String {
    name_from_environment()
        .or_else(|| CLUSTER_USER.get().cloned())
        .or_else(name_from_system)
        .unwrap_or_else(|| "unknown user".to_owned())
}

/// Reads the user name from a cluster, unless the environment provides it.
pub async fn read_cluster_user(cluster: &KubeCluster) {
    if name_from_environment().is_some() || CLUSTER_USER.get().is_some() {
        return;
    }
    if let Some(name) = cluster.user_name().await {
        let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        // A command uses the same user for all its clusters.
        let _ = CLUSTER_USER.set(name);
    }
}

fn name_from_environment() -> Option<String> {
    USER_VARIABLES.iter().filter_map(|name| env::var(name).ok()).find(|name| !name.is_empty())
}

fn name_from_system() -> Option<String> {
    let uid = fs::metadata("/proc/self").ok()?.uid();
    let users = fs::read_to_string(PASSWD_FILE).unwrap_or_default();
    Some(find_name(uid, &users).unwrap_or_else(|| format!("user {uid}")))
}

/// Returns a user's name from a table with lines such as `root:x:0:0:root:/root:/bin/sh`.
fn find_name(uid: u32, users: &str) -> Option<String> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    };
    users.lines().find_map(of_line)
}

/// Returns the user and machine of this process, for messages about its operations.
pub fn worker_name() -> String {
    let text = match host_name().as_str() {
        "" => user_name(),
        host => format!("{} on {host}", user_name()),
    };
    text.chars().filter(|c| !c.is_control()).take(WORKER_MAX).collect()
}

/// Returns the name of this machine or container, or an empty string if it has none.
pub fn host_name() -> String {
    let named = env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = named.or_else(|| fs::read_to_string("/proc/sys/kernel/hostname").ok());
    host.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_user_has_the_name_of_the_passwd_file() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n:x:7:7::/:\nann:x:1000:1000::/home/ann:/bin/sh\n";
        for (uid, name) in [(0, Some("root")), (1000, Some("ann")), (7, None), (65532, None)] {
            assert_eq!(find_name(uid, users).as_deref(), name, "{uid}");
        }
    }
}
