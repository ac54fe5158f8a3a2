//! Running service, measured from outside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::Fleet;

/// Minimum polling interval, because each poll costs the service time.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(250);
/// Minimum ratio of the interval to the duration of a poll.
const POLL_INTERVAL_RATIO: u32 = 20;
/// Maximum polling interval, so that a briefly busy service is still polled in time.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Maximum time to wait until the service is idle.
const IDLE_PERIOD: Duration = Duration::from_secs(40);
/// Time limit of all measurements.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(1800);
const TOKEN: &str = "of-the-benchmark";
/// Ticks per second of the kernel's CPU time.
const TICKS: f64 = 100.0;

pub struct RunningService {
    child: Child,
    address: String,
    /// Time from its start to its readiness message.
    pub startup_time: Duration,
}

/// State of a service according to its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceMetrics {
    pub applications: usize,
    /// Number of Synced and Healthy Applications.
    pub healthy: usize,
    pub succeeded: usize,
    pub comparisons: usize,
}

/// Resources used during a period.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub cpu_time: Duration,
    pub processor: Duration,
}

impl RunningService {
    /// Starts a service for the folder of Applications on the simulated cluster.
    pub fn simulated(fleet: &Fleet, options: &[&str]) -> Self {
        let mut command = fleet.command();
        command.args(["serve", "--sim", "--apps", "apps", "--state-dir", "state"]).args(options);
        Self::start(fleet, command)
    }

    pub fn start(fleet: &Fleet, mut command: Command) -> Self {
        let hooks = fleet.path().join("hooks");
        fs::write(&hooks, format!("webhook.gitlab.secret: {TOKEN}\n")).unwrap();
        fs::set_permissions(&hooks, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        command.args(["--listen", "0", "--webhook-secrets", "hooks"]);
        let started = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut address = String::new();
        loop {
            let line = lines.next().expect("it ended before it was ready").unwrap();
            if line.contains("the API is available")
                && let Some(rest) = line.split("http://").nth(1)
            {
                rest.split(';').next().unwrap().clone_into(&mut address);
            }
            if line.contains("managing ") && line.contains(" application") {
                break;
            }
        }
        let startup_time = started.elapsed();
        // Drain the service's output so that it doesn't block.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address, startup_time }
    }

    fn send_request(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn get(&self, path: &str) -> String {
        let text = self.send_request(&format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n"));
        assert!(text.starts_with("HTTP/1.0 200"), "{path}: {}", &text[..text.len().min(300)]);
        text
    }

    pub fn metrics(&self) -> ServiceMetrics {
        let mut shown = ServiceMetrics::default();
        for line in self.get("/metrics").lines() {
            let value = || line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize;
            if line.starts_with("argocd_app_info{") {
                shown.applications += 1;
                let is_well =
                    line.contains("sync_status=\"Synced\"") && line.contains("health_status=\"Healthy\"");
                shown.healthy += usize::from(is_well);
            } else if line.starts_with("argocd_app_sync_total{") && line.contains("phase=\"Succeeded\"") {
                shown.succeeded += value();
            } else if line.starts_with("argocd_app_reconcile_count{") {
                shown.comparisons += value();
            }
        }
        shown
    }

    /// Waits for a state, and returns the cost since the start of the period.
    pub fn wait_until(
        &self,
        (started, processor): (Instant, Duration),
        is_it: impl Fn(&ServiceMetrics) -> bool,
    ) -> Cost {
        loop {
            let asked = Instant::now();
            let shown = self.metrics();
            let pause = POLL_INTERVAL_MIN.max(asked.elapsed() * POLL_INTERVAL_RATIO).min(POLL_INTERVAL_MAX);
            if is_it(&shown) {
                let spent = self.cpu_time().saturating_sub(processor);
                return Cost { cpu_time: started.elapsed(), processor: spent };
            }
            assert!(started.elapsed() < MEASUREMENT_TIMEOUT, "it contains {shown:?}");
            thread::sleep(pause);
        }
    }

    /// Waits until the service is idle, using almost no CPU time for five seconds. The wait is limited,
    /// because log cleanup takes minutes after a storm.
    pub fn wait_until_idle(&self) {
        let started = Instant::now();
        let mut before = self.cpu_time();
        while started.elapsed() < IDLE_PERIOD {
            thread::sleep(Duration::from_secs(5));
            let now = self.cpu_time();
            if now.saturating_sub(before) < Duration::from_millis(100) {
                return;
            }
            before = now;
        }
    }

    pub fn start_period(&self) -> (Instant, Duration) {
        (Instant::now(), self.cpu_time())
    }

    /// Sends a push webhook for the repository, with all files or only some of them.
    pub fn send_push(&self, fleet: &Fleet, files: &[String]) {
        let body = json!({
            "object_kind": "push", "ref": "refs/heads/main", "before": "1".repeat(40),
            "project": {"web_url": fleet.repository(), "default_branch": "main"},
            "commits": [{"added": [], "modified": files, "removed": []}], "total_commits_count": 1,
        })
        .to_string();
        let text = self.send_request(&format!(
            "POST /api/webhook HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             x-gitlab-event: Push Hook\r\nx-gitlab-token: {TOKEN}\r\n\r\n{body}",
            body.len()
        ));
        assert!(text.starts_with("HTTP/1.0 202"), "{text}");
    }

    /// Returns the service's CPU time.
    pub fn cpu_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The process name may contain spaces, but the rest of the line doesn't.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        Duration::from_secs_f64(ticks / TICKS)
    }

    pub fn resident_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Stops the service with a signal and waits for it to exit.
    pub fn stop(mut self) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(kill.success());
        self.child.wait().unwrap();
    }

    /// Kills the service.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        // An error means that the service has already exited. It still runs only after an aborted
        // measurement.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
