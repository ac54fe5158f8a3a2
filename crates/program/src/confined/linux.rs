//! As Linux does it.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::fmt::Display;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use crate::{Room, RunError, not_started};

/// Programs, libraries and time zones, which every program of the system may need; nothing in them is secret.
const SYSTEM: [&str; 15] = [
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    // A program that does not find its zone reckons with another one, and says nothing.
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/lib/locale/TZ",
    "/etc/zoneinfo",
];
/// Files that everybody may write to, or reads chance from.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/random", "/dev/urandom"];
/// Newer rights are left out by kernels that do not know them.
const RIGHTS: ABI = ABI::V6;
/// How a socket is made, and how one could be made without that.
const SOCKETS: [libc::c_long; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];

/// Whether a confined program reads nothing outside of its room: where the kernel has Landlock (since 5.13, if it is enabled).
pub fn confines_files() -> bool {
    let asked = || matches!(restrict_files(&Room::default()), Ok(true));
    thread::scope(|scope| scope.spawn(asked).join()).unwrap_or(false)
}

pub(crate) fn spawn(command: &mut Command, room: &Room) -> Result<Child, RunError> {
    let start = || {
        restrict_files(room).map_err(|error| not_confined(&error))?;
        deny_sockets()?;
        let child = command.spawn().map_err(|error| not_started(&error))?;
        limit_processor(&child, room.processor);
        Ok(child)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("program-start".to_owned());
        let started = thread.spawn_scoped(scope, start).map_err(|error| not_started(&error))?;
        started.join().unwrap_or_else(|_| Err(RunError::NotStarted("its thread has panicked".to_owned())))
    })
}

fn not_confined(error: &impl Display) -> RunError {
    RunError::NotConfined(error.to_string())
}

/// Whoever has watched it may be killed; what it takes then ends by itself. One that has ended already needs no limit.
fn limit_processor(child: &Child, limit: Duration) {
    if limit.is_zero() {
        return;
    }
    let seconds = Some(limit.as_secs().max(1));
    let _ =
        prlimit(Some(Pid::from_child(child)), Resource::Cpu, Rlimit { current: seconds, maximum: seconds });
}

/// Restricts this thread to a room, where the kernel does that.
fn restrict_files(room: &Room) -> Result<bool, RulesetError> {
    let (reads, writes) = (AccessFs::from_read(RIGHTS), AccessFs::from_all(RIGHTS));
    // What is not there needs no rule.
    let restricted = Ruleset::default()
        .handle_access(writes)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, reads))?
        .add_rules(path_beneath_rules(&room.reads, reads))?
        .add_rules(path_beneath_rules(DEVICES, writes))?
        .add_rules(path_beneath_rules(&room.writes, writes))?
        .restrict_self()?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

/// Lets this thread make no socket: whoever tries is told that it is not permitted.
fn deny_sockets() -> Result<(), RunError> {
    let rules: BTreeMap<_, _> = SOCKETS.into_iter().map(|call| (call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let arch = ARCH.try_into().map_err(|error: seccompiler::BackendError| not_confined(&error))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)
        .map_err(|error| not_confined(&error))?;
    let program: BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| not_confined(&error))?;
    apply_filter(&program).map_err(|error| not_confined(&error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use super::*;
    use crate::{Limits, Ran, run_confined};

    fn ran(program: &str, arguments: &[&str], room: &Room) -> Ran {
        let limits = Limits { memory: 1 << 30, output: 1 << 20 };
        run_confined(Command::new(program).args(arguments), room, &limits, || None).unwrap()
    }

    /// The test asks the shell what it can do, and bash asks the network by itself.
    #[test]
    fn it_has_no_network() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
        let free = crate::run(
            Command::new("bash").args(["-c", &script]),
            &Limits { memory: 1 << 30, output: 1 },
            || None,
        );
        assert!(free.unwrap().status.success(), "somebody listens");
        let confined = ran("bash", &["-c", &script], &Room::default());
        let words = String::from_utf8_lossy(&confined.words).into_owned();
        assert!(!confined.status.success() && words.contains("Permission denied"), "{words}");
    }

    #[test]
    fn it_reads_its_room_and_nothing_else() {
        if !confines_files() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["given", "own", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("file"), name).unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        let room = Room { reads: vec![path("given")], writes: vec![path("own")], ..Room::default() };
        let at = folder.path().display();
        for (script, is_allowed) in [
            (format!("cat {at}/given/file"), true),
            (format!("cat {at}/own/file"), true),
            (format!("echo x > {at}/own/new"), true),
            ("echo x > /dev/null".to_owned(), true),
            (format!("echo x > {at}/given/file"), false),
            (format!("cat {at}/other/file"), false),
            (format!("ls {at}/other"), false),
            (format!("echo x > {at}/other/file"), false),
            (format!("ln {at}/other/file {at}/own/link"), false),
            ("cat /etc/passwd".to_owned(), false),
            ("test ! -e /usr/share/zoneinfo || ls /usr/share/zoneinfo".to_owned(), true),
            ("cat /proc/$PPID/environ".to_owned(), false),
        ] {
            let ran = ran("sh", &["-c", &script], &room);
            assert_eq!(ran.status.success(), is_allowed, "{script}: {}", String::from_utf8_lossy(&ran.words));
        }
        assert_eq!(fs::read(path("other/file")).unwrap(), b"other");
    }

    #[test]
    fn its_processor_time_is_limited_by_the_system() {
        let room = Room { processor: Duration::from_secs(7), ..Room::default() };
        let ran = ran("sh", &["-c", "while [ \"$(ulimit -t)\" = unlimited ]; do :; done; ulimit -t"], &room);
        assert_eq!(ran.output, b"7\n");
    }

    /// Whoever starts it is as free as before.
    #[test]
    fn nobody_else_is_restricted() {
        ran("sh", &["-c", ":"], &Room::default());
        assert!(fs::read("/etc/passwd").is_ok() && TcpListener::bind("127.0.0.1:0").is_ok());
    }
}
