//! A service at work, seen from outside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::Fleet;

/// How often it is asked how its Applications stand, at most: each time costs it something.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two looks passes so many times what one has taken.
const LOOK_RARELY: u32 = 20;
/// But so often at least, or a service that was busy for once would be looked at too late.
const LOOK_ALWAYS: Duration = Duration::from_secs(2);
/// It is quiet enough by then.
const SETTLED_AFTER: Duration = Duration::from_secs(40);
/// Nothing that is measured takes longer.
const LIMIT: Duration = Duration::from_secs(1800);
const TOKEN: &str = "of-the-benchmark";
/// Of a second, as the kernel counts processor time.
const TICKS: f64 = 100.0;

pub struct Serving {
    child: Child,
    address: String,
    /// From its start to the line that says it is ready.
    pub ready: Duration,
}

/// What a service has done and how its Applications stand, as its metrics tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    pub applications: usize,
    /// Synced and Healthy.
    pub well: usize,
    pub succeeded: usize,
    pub comparisons: usize,
}

/// What a stretch of time has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub elapsed: Duration,
    pub processor: Duration,
}

impl Serving {
    /// Serves the folder of Applications on the simulated cluster.
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
        let begun = Instant::now();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut address = String::new();
        loop {
            let line = lines.next().expect("it ends before it serves").unwrap();
            if let Some(rest) = line.split("the API is at http://").nth(1) {
                rest.split(' ').next().unwrap().clone_into(&mut address);
            }
            if line.contains("serving ") && line.contains(" application") {
                break;
            }
        }
        let ready = begun.elapsed();
        // What it says must not wait for somebody who reads it.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address, ready }
    }

    fn ask(&self, request: &str) -> String {
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
        let text = self.ask(&format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n"));
        assert!(text.starts_with("HTTP/1.0 200"), "{path}: {}", &text[..text.len().min(300)]);
        text
    }

    pub fn shown(&self) -> Shown {
        let mut shown = Shown::default();
        for line in self.get("/metrics").lines() {
            let value = || line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize;
            if line.starts_with("argocd_app_info{") {
                shown.applications += 1;
                let is_well =
                    line.contains("sync_status=\"Synced\"") && line.contains("health_status=\"Healthy\"");
                shown.well += usize::from(is_well);
            } else if line.starts_with("argocd_app_sync_total{") && line.contains("phase=\"Succeeded\"") {
                shown.succeeded += value();
            } else if line.starts_with("argocd_app_reconcile_count{") {
                shown.comparisons += value();
            }
        }
        shown
    }

    /// Waits until it shows what is wanted; what that has cost since `begun`.
    pub fn until(&self, (begun, processor): (Instant, Duration), is_it: impl Fn(&Shown) -> bool) -> Cost {
        loop {
            let asked = Instant::now();
            let shown = self.shown();
            let pause = LOOK_EVERY.max(asked.elapsed() * LOOK_RARELY).min(LOOK_ALWAYS);
            if is_it(&shown) {
                let spent = self.processor().saturating_sub(processor);
                return Cost { elapsed: begun.elapsed(), processor: spent };
            }
            assert!(begun.elapsed() < LIMIT, "it shows {shown:?}");
            thread::sleep(pause);
        }
    }

    /// Waits until nothing happens any more: it spends next to nothing for five seconds. Not for ever: after a storm the log cleans
    /// up for minutes.
    pub fn settle(&self) {
        let begun = Instant::now();
        let mut before = self.processor();
        while begun.elapsed() < SETTLED_AFTER {
            thread::sleep(Duration::from_secs(5));
            let now = self.processor();
            if now.saturating_sub(before) < Duration::from_millis(100) {
                return;
            }
            before = now;
        }
    }

    pub fn begin(&self) -> (Instant, Duration) {
        (Instant::now(), self.processor())
    }

    /// The server of the repository tells of a push, about all of it or about some files.
    pub fn push(&self, fleet: &Fleet, files: &[String]) {
        let body = json!({
            "object_kind": "push", "ref": "refs/heads/main", "before": "1".repeat(40),
            "project": {"web_url": fleet.repository(), "default_branch": "main"},
            "commits": [{"added": [], "modified": files, "removed": []}], "total_commits_count": 1,
        })
        .to_string();
        let text = self.ask(&format!(
            "POST /api/webhook HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             x-gitlab-event: Push Hook\r\nx-gitlab-token: {TOKEN}\r\n\r\n{body}",
            body.len()
        ));
        assert!(text.starts_with("HTTP/1.0 202"), "{text}");
    }

    /// The processor time that it has spent.
    pub fn processor(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // Its name may have spaces; what follows has not.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        Duration::from_secs_f64(ticks / TICKS)
    }

    pub fn resident_kib(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Ends it in order.
    pub fn end(mut self) {
        let told = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap();
    }

    /// Ends it as a kill does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already, but for a measurement that was given up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
