//! Applications that are resources of a real control plane, and deploy to it.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_testkit::kube::{Audit, Caller, ControlPlane, Mark, Options, User};
use tokio::runtime::{Builder, Runtime};

use crate::fleet::{Fleet, Policy, name};
use crate::serving::Serving;
use crate::{Line, each, seconds};

const IDLE: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 16;
/// So many pushes are timed, each of another Application.
const PUSHES: usize = 5;

struct Site {
    runtime: Runtime,
    control: ControlPlane,
    observer: Caller,
    namespace: String,
    fleet: Fleet,
}

impl Site {
    /// No controllers and no nodes: config maps need none, and they would take their share of the processors.
    fn start(number: usize) -> Self {
        let options = Options { nodes: false, controllers: false, ..Options::default() };
        let control = ControlPlane::start(options).unwrap_or_else(|error| panic!("{error}"));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let observer = runtime.block_on(async { control.caller(User::OBSERVER) });
        let namespace = runtime.block_on(control.namespace("bench")).unwrap();
        let site = Self { runtime, control, observer, namespace, fleet: Fleet::new(number) };
        site.define();
        site.create();
        site
    }

    /// The definitions of what is served.
    fn define(&self) {
        let mut crds = self.fleet.command();
        let crds = crds.args(["crds", "-o", "json"]).stderr(Stdio::inherit()).output().unwrap();
        let list: Value = serde_json::from_slice(&crds.stdout).unwrap();
        self.runtime.block_on(async {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            for one in list["items"].as_array().unwrap() {
                self.observer.post(path, one).await.unwrap();
                let its = format!("{path}/{}", one["metadata"]["name"].as_str().unwrap());
                let is_there = |one: Option<&Value>| {
                    one.is_some_and(|one| one["status"].to_string().contains("Established"))
                };
                self.observer.until(&its, is_there).await.unwrap();
            }
            self.observer.until(&self.path(), |list| list.is_some()).await.unwrap();
        });
    }

    fn path(&self) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applications", self.namespace)
    }

    fn create(&self) {
        let create = |at: usize| async move {
            let mut one = self.fleet.application(at, &self.namespace, Policy::Automated);
            one["metadata"] = json!({"name": name(at)});
            self.observer.post(&self.path(), &one).await.unwrap();
        };
        let all = futures_util::stream::iter((0..self.fleet.number).map(create));
        self.runtime.block_on(all.buffer_unordered(AT_ONCE).collect::<()>());
    }

    fn serve(&self, every: &str) -> Serving {
        let namespace = &self.namespace;
        let mut command = self.fleet.command();
        command.env("KUBECONFIG", self.control.kubeconfig(User::ENGINE)).args([
            "serve",
            "--state-dir",
            "state",
        ]);
        command.args(["--app-namespace", namespace, "--project-namespace", namespace]);
        command.args(["--secrets-namespace", namespace, "--refresh-every", every]);
        Serving::start(&self.fleet, command)
    }

    fn audit(&self, since: Mark) -> Audit {
        self.runtime.block_on(self.control.audit_since(since)).unwrap().of(User::ENGINE)
    }
}

pub fn measure(number: usize) -> Vec<Line> {
    let site = Site::start(number);
    let serving = site.serve("0s");
    let mark = site.control.mark();
    let begun = (Instant::now().checked_sub(serving.ready).unwrap(), Duration::ZERO);
    let first = serving.until(begun, |shown| shown.well == number && shown.succeeded >= number);
    let requests = site.audit(mark).0.len();
    serving.settle();
    let rate = number as f64 / first.elapsed.as_secs_f64();
    let mut lines = vec![Line::new(
        format!("{number} Applications of the cluster, from the start of the service until all are Synced"),
        format!(
            "{rate:.1} applications/s ({}; {} of processor time and {:.1} requests each)",
            seconds(first.elapsed),
            each(first.processor, number),
            requests as f64 / number as f64
        ),
        "≥ 20 applications/s",
    )];
    lines.push(pushes(&site, &serving));
    lines.push(comparisons(&site, &serving));
    serving.end();
    lines.push(idle(&site));
    lines
}

/// From telling of a push until the cluster has the first write of a manifest.
fn pushes(site: &Site, serving: &Serving) -> Line {
    let number = site.fleet.number;
    let mut took: Vec<Duration> = Vec::new();
    for round in 0..PUSHES {
        let at = round * (number / PUSHES).max(1) % number;
        site.fleet.write(at, 10 + round, "");
        site.fleet.commit();
        let before = serving.shown().succeeded;
        let mark = site.control.mark();
        let told = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        serving.push(&site.fleet, &[format!("{}/all.yaml", name(at))]);
        serving.until(serving.begin(), |shown| shown.succeeded > before && shown.well == number);
        let audit = site.audit(mark);
        let is_first = |one: &&tidegate_testkit::kube::AuditEvent| {
            one.is_write() && !one.dry_run && one.resource == "configmaps"
        };
        let first = audit.0.iter().find(is_first).unwrap();
        let received: Timestamp = first.received_at.parse().unwrap();
        let received = Duration::from_millis(u64::try_from(received.as_millis()).unwrap());
        took.push(received.saturating_sub(told));
        serving.settle();
    }
    took.sort_unstable();
    let millis = |at: usize| took[at].as_millis();
    let figure =
        format!("{} ms (median of {PUSHES}; {} – {})", millis(PUSHES / 2), millis(0), millis(PUSHES - 1));
    Line::new("from a webhook to the first write of a manifest", figure, "≤ 500 ms")
}

/// What comparing all of them again costs, when nothing has changed.
fn comparisons(site: &Site, serving: &Serving) -> Line {
    let number = site.fleet.number;
    let compare = || {
        let before = serving.shown().comparisons;
        let begun = serving.begin();
        serving.push(&site.fleet, &[]);
        let cost = serving.until(begun, |shown| shown.comparisons >= before + number);
        serving.settle();
        cost
    };
    compare();
    compare();
    let mark = site.control.mark();
    let cost = compare();
    let audit = site.audit(mark);
    let is_own = |one: &&tidegate_testkit::kube::AuditEvent| one.verb != "watch" && one.resource != "leases";
    let asked: Vec<_> = audit.0.iter().filter(is_own).collect();
    let writes = asked.iter().filter(|one| one.is_write()).count();
    let figure = format!(
        "{} ({} of processor time each), {} requests, {writes} writes",
        seconds(cost.elapsed),
        each(cost.processor, number),
        asked.len()
    );
    Line::new(format!("{number} unchanged Applications are compared again"), figure, "0 requests")
}

/// With the intervals that it has by itself.
fn idle(site: &Site) -> Line {
    let serving = site.serve("3m");
    serving.until(serving.begin(), |shown| shown.comparisons >= site.fleet.number);
    serving.settle();
    let before = serving.processor();
    thread::sleep(IDLE * 4);
    let spent = serving.processor().saturating_sub(before).as_secs_f64() / (IDLE * 4).as_secs_f64() * 100.0;
    let memory = serving.resident_kib() as f64 / 1024.0;
    serving.end();
    let what = format!(
        "idle with {} Applications for four minutes, compared every three of them",
        site.fleet.number
    );
    Line::new(what, format!("{spent:.2} % of a core, {memory:.0} MiB resident"), "≤ 1 %")
}
