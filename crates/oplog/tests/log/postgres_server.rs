//! A temporary PostgreSQL server for tests.
//!
//! The server uses the programs in `TIDEGATE_POSTGRES` or in Debian's folder, listens on a Unix socket, and stops
//! when the test process exits, however that happens. PostgreSQL refuses to run as root, so a test that runs as root
//! starts the server as the user `postgres` or, if that user doesn't exist, `nobody`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Starts the server, and prints a line. For each signal on the standard input, stops the server with the signal,
/// starts it again, and prints another line. Stops the server when the standard input ends.
const GUARD: &str = r#"
run() { "$@" </dev/null >/dev/null & pid=$!; echo started; }
run "$0" "$@"
while read -r signal; do kill -"$signal" $pid; wait $pid; run "$0" "$@"; done
kill -QUIT $pid; wait $pid; rm -rf "$TIDEGATE_TEST_FOLDER"
"#;

/// Mounts a small disk in the folder `$1` of the data, and runs the rest of the arguments as the user `$2` and the group
/// `$3`. The mount belongs to the namespace of the process, so it disappears with the process.
const SMALL_DISK: &str = r#"
set -e
mv "$1" "$1.saved"
mkdir "$1"
mount -t tmpfs -o size=96m,mode=700,uid="$2",gid="$3" tmpfs "$1"
cp -a "$1.saved/." "$1"
rm -rf "$1.saved"
disk=$1 user=$2 group=$3
shift 3
setpriv --reuid "$user" --regid "$group" --clear-groups "$@" || true
umount "$disk"
rm -rf "$TIDEGATE_TEST_FOLDER"
"#;

/// A running server.
pub struct PostgresServer {
    folder: PathBuf,
    user: String,
    programs: PathBuf,
    guard: Child,
    guard_output: BufReader<ChildStdout>,
    /// File that can fill the small disk, if there is one.
    ballast: Option<PathBuf>,
}

/// Durability of a commit.
#[derive(Clone, Copy)]
enum Durability {
    /// Survives a crash of the server, but not of the machine.
    Fast,
    /// Survives a crash of the machine.
    #[allow(dead_code, reason = "not all users of this module need it")]
    OnDisk,
}

/// Folder of a server's data that can run out of space.
#[allow(dead_code, reason = "not all users of this module need it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallDisk {
    /// Tables and indexes. If it is full, the server rejects writes.
    Tables,
    /// Write-ahead log. If it is full, the server stops.
    WriteAheadLog,
}

impl SmallDisk {
    fn folder(self) -> &'static str {
        match self {
            Self::Tables => "base",
            Self::WriteAheadLog => "pg_wal",
        }
    }
}

/// User that the server runs as, and its IDs if it differs from the current user.
struct ServerUser {
    name: String,
    ids: Option<(u32, u32)>,
}

impl PostgresServer {
    /// Returns the server of this process, or `None` if PostgreSQL isn't installed. Fails instead if
    /// `TIDEGATE_REQUIRE_POSTGRES` is set.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        SERVER.get_or_init(Self::start_separate).as_ref()
    }

    /// Starts a server that no other test uses, under the same conditions as [`Self::shared`].
    pub fn start_separate() -> Option<Self> {
        Self::start_if_installed(Durability::Fast)
    }

    /// Starts a server that no other test uses, and that writes each commit to disk.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn start_durable() -> Option<Self> {
        Self::start_if_installed(Durability::OnDisk)
    }

    fn start_if_installed(durability: Durability) -> Option<Self> {
        Self::start_with_options(durability, None)
    }

    /// Starts a server that no other test uses. A folder of its data is on a small disk. Returns `None` if this requires
    /// more permissions.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn start_on_small_disk(disk: SmallDisk) -> Option<Self> {
        const TRIAL: &str = "mount -t tmpfs tmpfs /mnt";
        let trial = Command::new("unshare").args(["--mount", "sh", "-c", TRIAL]).output();
        if server_user().ids.is_none() || !trial.is_ok_and(|trial| trial.status.success()) {
            eprintln!("skipped: only root can mount a small disk");
            return None;
        }
        Self::start_with_options(Durability::Fast, Some(disk))
    }

    fn start_with_options(durability: Durability, disk: Option<SmallDisk>) -> Option<Self> {
        let server = programs().map(|programs| Self::start(&programs, durability, disk));
        if server.is_none() {
            assert!(
                std::env::var_os("TIDEGATE_REQUIRE_POSTGRES").is_none(),
                "PostgreSQL is required, but it is not installed (package postgresql)"
            );
            eprintln!("skipped: PostgreSQL is not installed");
        }
        server
    }

    fn start(programs: &Path, durability: Durability, disk: Option<SmallDisk>) -> Self {
        let arguments =
            ["--auth=trust", "--no-sync", "--encoding=UTF8", "--no-locale", "--username=tidegate"];
        Self::start_with_data(programs, "initdb", &arguments, durability, disk)
    }

    /// Starts a server that replicates another one.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn start_standby(primary: &Self) -> Self {
        let host = format!("--host={}", primary.folder.display());
        let arguments =
            [host.as_str(), "--username=tidegate", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"];
        Self::start_with_data(&primary.programs, "pg_basebackup", &arguments, Durability::Fast, None)
    }

    /// Creates the data with a program, and starts the server.
    fn start_with_data(
        programs: &Path,
        program: &str,
        arguments: &[&str],
        durability: Durability,
        disk: Option<SmallDisk>,
    ) -> Self {
        let user = server_user();
        let folder = tempfile::tempdir().unwrap().keep();
        let data = folder.join("data");
        if let Some((uid, gid)) = user.ids {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let mut create = Command::new(programs.join(program));
        create.current_dir(&folder).args(arguments).arg("--pgdata").arg(&data);
        if let Some((uid, gid)) = user.ids {
            create.uid(uid).gid(gid);
        }
        let made = create.output().unwrap();
        assert!(made.status.success(), "{program}: {}", String::from_utf8_lossy(&made.stderr));
        let small = disk.map(|disk| data.join(disk.folder()));
        let mut guard = match (&small, user.ids) {
            (Some(folder), Some((uid, gid))) => {
                let mut guard = Command::new("unshare");
                guard.args(["--mount", "sh", "-c", SMALL_DISK, "sh"]).arg(folder);
                guard.args([&uid.to_string(), &gid.to_string(), "sh"]);
                guard
            }
            _ => {
                let mut guard = Command::new("sh");
                if let Some((uid, gid)) = user.ids {
                    guard.uid(uid).gid(gid);
                }
                guard
            }
        };
        guard.args(["-c", GUARD]).arg(programs.join("postgres")).arg("-D").arg(&data);
        let fsync = match durability {
            Durability::Fast => "fsync=off",
            Durability::OnDisk => "fsync=on",
        };
        guard.args(["-c", fsync, "-c", "max_connections=300", "-c", "listen_addresses=", "-c"]);
        guard.arg(format!("unix_socket_directories={}", folder.display()));
        // A standby must not wait for seconds after a restart of the primary.
        guard.args(["-c", "wal_retrieve_retry_interval=100ms"]);
        guard.env("TIDEGATE_TEST_FOLDER", &folder).current_dir(&folder);
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut guard = guard.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let guard_output = BufReader::new(guard.stdout.take().unwrap());
        // The disk is only visible to processes in its namespace.
        let ballast = small.map(|folder| {
            let inside = folder.strip_prefix("/").unwrap().join("ballast");
            PathBuf::from(format!("/proc/{}/root", guard.id())).join(inside)
        });
        let mut server =
            Self { folder, user: user.name, programs: programs.to_owned(), guard, guard_output, ballast };
        server.wait_until_ready();
        server
    }

    /// Restarts the server in immediate mode, as if it had crashed, and waits until it is ready.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn restart_immediately(&mut self) {
        writeln!(self.guard.stdin.as_ref().unwrap(), "QUIT").unwrap();
        self.wait_until_ready();
    }

    /// Fills the small disk.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn fill_disk(&self) {
        let mut ballast = fs::File::create(self.ballast.as_ref().unwrap()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if ballast.write_all(&vec![0; size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Frees space on the small disk.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn free_disk(&self) {
        fs::remove_file(self.ballast.as_ref().unwrap()).unwrap();
    }

    /// Stops the server in immediate mode, as if it had crashed, and deletes its data.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn destroy(mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().unwrap();
    }

    /// Returns the path of the server's socket.
    #[allow(dead_code, reason = "not all users of this module need it")]
    pub fn socket(&self) -> PathBuf {
        self.folder.join(".s.PGSQL.5432")
    }

    /// Waits until a server that was just started accepts connections.
    fn wait_until_ready(&mut self) {
        self.guard_output.read_line(&mut String::new()).unwrap();
        let started = Instant::now();
        loop {
            let ready =
                Command::new(self.programs.join("pg_isready")).arg("-q").arg("-h").arg(&self.folder).status();
            if ready.is_ok_and(|status| status.success()) {
                return;
            }
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "PostgreSQL does not start as {}: {log}",
                self.user
            );
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Returns the URL of a new, empty log.
    pub fn new_log_url(&self) -> String {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let host = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://tidegate@{host}/postgres?schema=log_{number}")
    }

    /// Runs SQL with `psql` in the schema of a log, and returns the output without headers.
    pub fn psql(&self, url: &str, sql: &str) -> String {
        self.try_psql(url, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL as [`Self::psql`] does. Returns the error if it fails.
    pub fn try_psql(&self, url: &str, sql: &str) -> Result<String, String> {
        let schema = url.rsplit_once("schema=").unwrap().1;
        let search_path = format!("SET search_path = {schema}");
        let output = Command::new(self.programs.join("psql"))
            .args(["-qAt", "-v", "ON_ERROR_STOP=1", "-U", "tidegate", "-d", "postgres"])
            .args(["-c", &search_path, "-c", sql, "-h"])
            .arg(&self.folder)
            .output()
            .unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

/// Returns the folder with PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("TIDEGATE_POSTGRES") {
        return Some(PathBuf::from(folder));
    }
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .collect();
    versions.retain(|folder| folder.join("initdb").exists() && folder.join("postgres").exists());
    versions.sort();
    versions.pop()
}

fn server_user() -> ServerUser {
    let uid = fs::metadata("/proc/self").map(|found| std::os::unix::fs::MetadataExt::uid(&found)).unwrap();
    if uid != 0 {
        return ServerUser { name: "the current user".to_owned(), ids: None };
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields[2].parse().ok()?, fields[3].parse().ok()?))
    };
    let (name, ids) = ["postgres", "nobody"].iter().find_map(|name| Some((*name, find(name)?))).unwrap();
    ServerUser { name: name.to_owned(), ids: Some(ids) }
}
