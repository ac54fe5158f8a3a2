//! Sandbox on Linux: Landlock for files and seccomp for the network.

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

use crate::{RunError, Sandbox, not_started_error};

/// Programs, libraries and time zones that any program may need. They contain no secrets.
const SYSTEM_PATHS: [&str; 15] = [
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
    // A program that can't find its time zone silently uses a different one.
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/usr/lib/locale/TZ",
    "/etc/zoneinfo",
];
/// Devices that discard writes or provide random bytes.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/random", "/dev/urandom"];
/// Landlock version. Older kernels ignore unsupported rights.
const LANDLOCK_ABI: ABI = ABI::V6;
/// System calls that create a socket, directly or through io_uring.
const SOCKET_CALLS: [libc::c_long; 2] = [libc::SYS_socket, libc::SYS_io_uring_setup];

/// Returns true if the kernel restricts file access to the sandbox: Landlock is available (Linux 5.13 and
/// later) and enabled.
pub fn confines_files() -> bool {
    // Use a separate thread, because the restriction is permanent.
    let probe = || matches!(restrict_files(&Sandbox::default()), Ok(true));
    thread::scope(|scope| scope.spawn(probe).join()).unwrap_or(false)
}

/// Starts the command from a new thread that has restricted itself.
pub(crate) fn spawn(command: &mut Command, sandbox: &Sandbox) -> Result<Child, RunError> {
    let start = || {
        restrict_files(sandbox).map_err(|error| not_confined_error(&error))?;
        deny_sockets()?;
        let child = command.spawn().map_err(|error| not_started_error(&error))?;
        limit_processor(&child, sandbox.cpu_time);
        Ok(child)
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("program-start".to_owned());
        let started = thread.spawn_scoped(scope, start).map_err(|error| not_started_error(&error))?;
        started
            .join()
            .unwrap_or_else(|_| Err(RunError::NotStarted("the thread starting it panicked".to_owned())))
    })
}

/// Converts an error from setting up the system call filter or Landlock.
fn not_confined_error(error: &impl Display) -> RunError {
    RunError::NotConfined(error.to_string())
}

/// Sets a kernel limit on CPU time, so that the program ends even if its supervisor is killed. Ignores
/// errors, because the program may already have exited.
fn limit_processor(child: &Child, limit: Duration) {
    if limit.is_zero() {
        return;
    }
    let seconds = Some(limit.as_secs().max(1));
    let _ =
        prlimit(Some(Pid::from_child(child)), Resource::Cpu, Rlimit { current: seconds, maximum: seconds });
}

/// Restricts the current thread to the sandbox. Returns false if the kernel doesn't support this.
fn restrict_files(sandbox: &Sandbox) -> Result<bool, RulesetError> {
    let (read_access, full_access) = (AccessFs::from_read(LANDLOCK_ABI), AccessFs::from_all(LANDLOCK_ABI));
    // Skip nonexistent paths, which need no rule.
    let restricted = Ruleset::default()
        .handle_access(full_access)?
        .scope(Scope::from_all(LANDLOCK_ABI))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM_PATHS, read_access))?
        .add_rules(path_beneath_rules(&sandbox.readable, read_access))?
        .add_rules(path_beneath_rules(DEVICES, full_access))?
        .add_rules(path_beneath_rules(&sandbox.writable, full_access))?
        .restrict_self()?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

/// Makes socket creation fail with EACCES in the current thread and its child processes.
fn deny_sockets() -> Result<(), RunError> {
    let rules: BTreeMap<_, _> = SOCKET_CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let arch = ARCH.try_into().map_err(|error: seccompiler::BackendError| not_confined_error(&error))?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, arch)
        .map_err(|error| not_confined_error(&error))?;
    let program: BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| not_confined_error(&error))?;
    apply_filter(&program).map_err(|error| not_confined_error(&error))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use super::*;
    use crate::{Limits, ProgramOutput, run_confined};

    fn run_in(program: &str, arguments: &[&str], sandbox: &Sandbox) -> ProgramOutput {
        let limits = Limits { memory: 1 << 30, output: 1 << 20 };
        run_confined(Command::new(program).args(arguments), sandbox, &limits, || None).unwrap()
    }

    /// The test opens the connection with bash's `/dev/tcp`.
    #[test]
    fn a_confined_program_has_no_network() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
        let free = crate::run(
            Command::new("bash").args(["-c", &script]),
            &Limits { memory: 1 << 30, output: 1 },
            || None,
        );
        assert!(free.unwrap().status.success(), "the server is reachable without the sandbox");
        let confined = run_in("bash", &["-c", &script], &Sandbox::default());
        let stderr = String::from_utf8_lossy(&confined.stderr).into_owned();
        assert!(!confined.status.success() && stderr.contains("Permission denied"), "{stderr}");
    }

    #[test]
    fn a_confined_program_accesses_only_its_sandbox() {
        if !confines_files() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["given", "own", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("file"), name).unwrap();
        }
        let path = |name: &str| folder.path().join(name);
        let sandbox =
            Sandbox { readable: vec![path("given")], writable: vec![path("own")], ..Sandbox::default() };
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
            let output = run_in("sh", &["-c", &script], &sandbox);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_allowed, "{script}: {stderr}");
        }
        assert_eq!(fs::read(path("other/file")).unwrap(), b"other");
    }

    #[test]
    fn the_kernel_limits_processor_time() {
        let sandbox = Sandbox { cpu_time: Duration::from_secs(7), ..Sandbox::default() };
        let output =
            run_in("sh", &["-c", "while [ \"$(ulimit -t)\" = unlimited ]; do :; done; ulimit -t"], &sandbox);
        assert_eq!(output.stdout, b"7\n");
    }

    #[test]
    fn the_calling_thread_is_not_restricted() {
        run_in("sh", &["-c", ":"], &Sandbox::default());
        assert!(fs::read("/etc/passwd").is_ok() && TcpListener::bind("127.0.0.1:0").is_ok());
    }
}
