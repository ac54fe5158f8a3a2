//! A service with its own state directory, user, and proxies to the API server and to the database.

use std::fs;
use std::path::PathBuf;

use tidegate_testkit::kube::User;
use tidegate_testkit::tcp_proxy::{Direction, ServerAddress, TcpProxy};

use super::database::Database;
use crate::bench::{CommandOutput, Running};
use crate::kube_bench::KubeBench;
use crate::shared_log::{TOKENS, free_address};

/// Text in the output of a process once it manages the Applications.
const ACTIVE_LINE: &str = "managing";

pub struct Replica {
    /// State directory.
    pub directory: &'static str,
    /// User in the API server's audit log.
    pub user: User,
    pub api: TcpProxy,
    /// URL of the service's own API.
    pub url: String,
    /// Proxies to both servers of the database.
    pub databases: [TcpProxy; 2],
    /// Kubeconfig. Passed as a variable, because operations record the value of the option.
    kubeconfig: PathBuf,
    arguments: Vec<String>,
    running: Option<Running>,
    /// File with the offset of the wall clock.
    clock: PathBuf,
}

impl Replica {
    pub fn new(bench: &KubeBench, database: &Database, directory: &'static str, user: User) -> Self {
        let (_, api) = bench.control.url().rsplit_once('/').unwrap();
        let api = TcpProxy::start(ServerAddress::Tunnel(api.parse().unwrap()));
        let databases = database.addresses().map(TcpProxy::start);
        let kubeconfig = bench.changed_kubeconfig(&format!("kubeconfig-{directory}"), |config| {
            // Operations record the context and the URL of their cluster, so both must be the same in all services.
            config["clusters"][0]["cluster"]["proxy-url"] = format!("http://{}", api.address()).into();
            config["contexts"][0]["context"]["user"] = user.name().into();
        });
        let [first, second] = databases.each_ref().map(TcpProxy::address);
        let schema = database.schema();
        let log = format!("postgres://tidegate@{first},{second}/postgres?sslmode=disable&schema={schema}");
        let namespace = bench.namespace.as_str();
        let address = free_address();
        let url = format!("http://{address}");
        let arguments = [
            ["serve", "--standby"],
            ["--app-namespace", namespace],
            ["--project-namespace", namespace],
            ["--state-dir", directory],
            ["--log", log.as_str()],
            ["--listen", address.as_str()],
            ["--tokens", TOKENS],
            ["--advertise", url.as_str()],
        ];
        let arguments = arguments.concat().into_iter().map(str::to_owned).collect();
        let clock = bench.path().join(format!("clock-{directory}"));
        Self { directory, user, api, url, databases, kubeconfig, arguments, running: None, clock }
    }

    /// Starts the process. Connections of an earlier process are closed first.
    pub fn start(&mut self, bench: &KubeBench) {
        self.start_with(bench, &[]);
    }

    /// Starts the process with a wall clock that is ahead of or behind the real time, for example by `+1h`. Requires
    /// [`fake_clock_library`].
    pub fn start_with_clock(&mut self, bench: &KubeBench, offset: &str) {
        self.set_clock(offset);
        let library = fake_clock_library().expect("the library is installed");
        let clock = self.clock.to_str().unwrap().to_owned();
        let variables = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", clock.as_str()),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        self.start_with(bench, &variables);
    }

    /// Makes the wall clock of a process jump within a second. The process was started with
    /// [`Self::start_with_clock`].
    pub fn set_clock(&self, offset: &str) {
        // The library must not read an empty file.
        let new = self.clock.with_extension("new");
        fs::write(&new, offset).unwrap();
        fs::rename(&new, &self.clock).unwrap();
    }

    fn start_with(&mut self, bench: &KubeBench, variables: &[(&str, &str)]) {
        for proxy in self.databases.iter().chain([&self.api]) {
            proxy.disconnect();
            proxy.release();
        }
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let mut command = bench.command(&arguments);
        command.env("KUBECONFIG", &self.kubeconfig).envs(variables.iter().copied());
        self.running = Some(Running::start(command));
    }

    fn running(&mut self) -> &mut Running {
        self.running.as_mut().expect("the process runs")
    }

    /// Returns false after [`Self::finish`].
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("the process runs").pid
    }

    pub fn wait_until_active(&mut self) {
        self.running().wait_for_line(ACTIVE_LINE);
    }

    /// Returns true if the process has become active, even if another one has replaced it since.
    pub fn has_become_active(&mut self) -> bool {
        self.running().count_lines(ACTIVE_LINE) > 0
    }

    /// Returns the number of lines in the output of the process so far that contain a text.
    pub fn count_lines(&mut self, part: &str) -> usize {
        self.running().count_lines(part)
    }

    pub fn wait_until_standby(&mut self) {
        self.running().wait_for_line("standby: ");
    }

    pub fn signal(&self, name: &str) {
        self.running.as_ref().expect("the process runs").signal(name);
    }

    /// Waits until the process has exited.
    pub fn finish(&mut self) -> CommandOutput {
        self.running.take().expect("the process runs").finish()
    }

    /// Shuts the process down.
    pub fn stop(&mut self) {
        self.signal("TERM");
        self.finish().expect_code(0);
    }

    /// Holds back all bytes to and from the database.
    pub fn hold_database(&self) {
        for proxy in &self.databases {
            proxy.hold(Direction::ToServer);
            proxy.hold(Direction::ToClient);
        }
    }

    /// Ends the faults of the connections to the database.
    pub fn release_database(&self) {
        for proxy in &self.databases {
            proxy.release();
        }
    }

    /// Holds back all bytes to and from the API server.
    pub fn hold_api(&self) {
        self.api.hold(Direction::ToServer);
        self.api.hold(Direction::ToClient);
    }
}

/// Returns the library that changes the wall clock of a process, or `None` if the package `faketime` isn't installed.
pub fn fake_clock_library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists())
}

impl Drop for Replica {
    fn drop(&mut self) {
        // After a failure, the process may still run.
        if let Some(running) = self.running.take() {
            running.signal("KILL");
            let ran = running.finish();
            eprintln!("the output of the service in {}:\n{}", self.directory, ran.err);
        }
    }
}
