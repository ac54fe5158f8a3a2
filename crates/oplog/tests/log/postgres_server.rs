//! A temporary PostgreSQL server for tests.
//!
//! The server uses the programs in `TIDEGATE_POSTGRES` or in Debian's folder, listens on a Unix socket, and stops
//! when the test process exits, however that happens. PostgreSQL refuses to run as root, so a test that runs as root
//! starts the server as the user `postgres` or, if that user doesn't exist, `nobody`.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Starts the server, prints its PID, and stops it when the standard input ends.
const GUARD: &str = r#""$0" "$@" </dev/null & pid=$!; echo $pid; cat >/dev/null; kill -QUIT $pid; wait $pid; rm -rf "$TIDEGATE_TEST_FOLDER""#;

/// A running server.
pub struct PostgresServer {
    folder: PathBuf,
    user: String,
    _guard: Child,
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
        let server = SERVER.get_or_init(|| Some(Self::start(&programs()?)));
        if server.is_none() {
            assert!(
                std::env::var_os("TIDEGATE_REQUIRE_POSTGRES").is_none(),
                "PostgreSQL is required, but it is not installed (package postgresql)"
            );
            eprintln!("skipped: PostgreSQL is not installed");
        }
        server.as_ref()
    }

    fn start(programs: &Path) -> Self {
        let user = server_user();
        let folder = tempfile::tempdir().unwrap().keep();
        let data = folder.join("data");
        if let Some((uid, gid)) = user.ids {
            chown(&folder, Some(uid), Some(gid)).unwrap();
        }
        let run = |program: &str| {
            let mut command = Command::new(programs.join(program));
            command.current_dir(&folder);
            if let Some((uid, gid)) = user.ids {
                command.uid(uid).gid(gid);
            }
            command
        };
        let made = run("initdb")
            .args([
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--no-locale",
                "--username=tidegate",
                "--pgdata",
            ])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD]).arg(programs.join("postgres")).arg("-D").arg(&data);
        guard.args(["-c", "fsync=off", "-c", "max_connections=300", "-c", "listen_addresses=", "-c"]);
        guard.arg(format!("unix_socket_directories={}", folder.display()));
        guard.env("TIDEGATE_TEST_FOLDER", &folder).current_dir(&folder);
        if let Some((uid, gid)) = user.ids {
            guard.uid(uid).gid(gid);
        }
        let log = fs::File::create(folder.join("log")).unwrap();
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self { folder, user: user.name, _guard: guard };
        server.wait_until_ready(programs);
        server
    }

    fn wait_until_ready(&self, programs: &Path) {
        let started = Instant::now();
        loop {
            let ready =
                Command::new(programs.join("pg_isready")).arg("-q").arg("-h").arg(&self.folder).status();
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
        let schema = url.rsplit_once("schema=").unwrap().1;
        let sql = format!("SET search_path = {schema}; {sql}");
        let output = Command::new(programs().unwrap().join("psql"))
            .args(["-qAt", "-v", "ON_ERROR_STOP=1", "-U", "tidegate", "-d", "postgres", "-c", &sql, "-h"])
            .arg(&self.folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
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
