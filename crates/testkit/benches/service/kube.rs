//! Applications as resources in a real control plane, which is also their destination.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_testkit::kube::{ApiClient, Audit, ControlPlane, Mark, Options, User};
use tokio::runtime::{Builder, Runtime};

use crate::fleet::{Fleet, Policy, application_name};
use crate::service::RunningService;
use crate::{Line, format_per_item, format_seconds};

const IDLE: Duration = Duration::from_secs(60);
const CONCURRENT_CREATIONS: usize = 16;
/// Number of timed pushes, each for a different Application.
const PUSHES: usize = 5;

struct Environment {
    runtime: Runtime,
    control_plane: ControlPlane,
    observer: ApiClient,
    namespace: String,
    fleet: Fleet,
}

impl Environment {
    /// Starts the control plane without controllers and nodes: ConfigMaps don't need them, and they would use
    /// CPU time.
    fn start(number: usize) -> Self {
        let options = Options { has_nodes: false, has_controllers: false, ..Options::default() };
        let control_plane = ControlPlane::start(options).unwrap_or_else(|error| panic!("{error}"));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let observer = runtime.block_on(async { control_plane.client(User::OBSERVER) });
        let namespace = runtime.block_on(control_plane.create_namespace("bench")).unwrap();
        let environment = Self { runtime, control_plane, observer, namespace, fleet: Fleet::new(number) };
        environment.install_definitions();
        environment.create_applications();
        environment
    }

    /// Installs the custom resource definitions.
    fn install_definitions(&self) {
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
                self.observer.wait_until(&its, is_there).await.unwrap();
            }
            self.observer.wait_until(&self.applications_path(), |list| list.is_some()).await.unwrap();
        });
    }

    fn applications_path(&self) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applications", self.namespace)
    }

    fn create_applications(&self) {
        let create = |at: usize| async move {
            let mut one = self.fleet.application(at, &self.namespace, Policy::Automated);
            one["metadata"] = json!({"name": application_name(at)});
            self.observer.post(&self.applications_path(), &one).await.unwrap();
        };
        let all = futures_util::stream::iter((0..self.fleet.application_count).map(create));
        self.runtime.block_on(all.buffer_unordered(CONCURRENT_CREATIONS).collect::<()>());
    }

    fn start_service(&self, every: &str) -> RunningService {
        let namespace = &self.namespace;
        let mut command = self.fleet.command();
        command.env("KUBECONFIG", self.control_plane.kubeconfig(User::ENGINE)).args([
            "serve",
            "--state-dir",
            "state",
        ]);
        command.args(["--app-namespace", namespace, "--project-namespace", namespace]);
        command.args(["--secrets-namespace", namespace, "--refresh-every", every]);
        RunningService::start(&self.fleet, command)
    }

    fn audit(&self, since: Mark) -> Audit {
        self.runtime.block_on(self.control_plane.audit_since(since)).unwrap().by_user(User::ENGINE)
    }
}

pub fn measure(number: usize) -> Vec<Line> {
    let environment = Environment::start(number);
    let service = environment.start_service("0s");
    let mark = environment.control_plane.audit_mark();
    let started = (Instant::now().checked_sub(service.startup_time).unwrap(), Duration::ZERO);
    let first = service.wait_until(started, |shown| shown.healthy == number && shown.succeeded >= number);
    let requests = environment.audit(mark).0.len();
    service.wait_until_idle();
    let rate = number as f64 / first.cpu_time.as_secs_f64();
    let mut lines = vec![Line::new(
        format!("{number} Applications of the cluster, from the start of the service until all are Synced"),
        format!(
            "{rate:.1} applications/s ({}; {} of processor time and {:.1} requests each)",
            format_seconds(first.cpu_time),
            format_per_item(first.processor, number),
            requests as f64 / number as f64
        ),
        "≥ 20 applications/s",
    )];
    lines.push(measure_pushes(&environment, &service));
    lines.push(measure_comparisons(&environment, &service));
    service.stop();
    lines.push(measure_idle(&environment));
    lines
}

/// Measures the time between a push webhook and the first write of a manifest.
fn measure_pushes(environment: &Environment, service: &RunningService) -> Line {
    let number = environment.fleet.application_count;
    let mut took: Vec<Duration> = Vec::new();
    for round in 0..PUSHES {
        let at = round * (number / PUSHES).max(1) % number;
        environment.fleet.write_manifests(at, 10 + round, "");
        environment.fleet.commit();
        let before = service.metrics().succeeded;
        let mark = environment.control_plane.audit_mark();
        let pushed_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        service.send_push(&environment.fleet, &[format!("{}/all.yaml", application_name(at))]);
        service
            .wait_until(service.start_period(), |shown| shown.succeeded > before && shown.healthy == number);
        let audit = environment.audit(mark);
        let is_first = |one: &&tidegate_testkit::kube::AuditEvent| {
            one.is_write() && !one.dry_run && one.resource == "configmaps"
        };
        let first = audit.0.iter().find(is_first).unwrap();
        let received: Timestamp = first.received_at.parse().unwrap();
        let received = Duration::from_millis(u64::try_from(received.as_millis()).unwrap());
        took.push(received.saturating_sub(pushed_at));
        service.wait_until_idle();
    }
    took.sort_unstable();
    let millis = |at: usize| took[at].as_millis();
    let figure =
        format!("{} ms (median of {PUSHES}; {} – {})", millis(PUSHES / 2), millis(0), millis(PUSHES - 1));
    Line::new("from a webhook to the first write of a manifest", figure, "≤ 500 ms")
}

/// Measures a comparison of all unchanged Applications.
fn measure_comparisons(environment: &Environment, service: &RunningService) -> Line {
    let number = environment.fleet.application_count;
    let compare = || {
        let before = service.metrics().comparisons;
        let started = service.start_period();
        service.send_push(&environment.fleet, &[]);
        let cost = service.wait_until(started, |shown| shown.comparisons >= before + number);
        service.wait_until_idle();
        cost
    };
    compare();
    compare();
    let mark = environment.control_plane.audit_mark();
    let cost = compare();
    let audit = environment.audit(mark);
    let is_own = |one: &&tidegate_testkit::kube::AuditEvent| one.verb != "watch" && one.resource != "leases";
    let requests: Vec<_> = audit.0.iter().filter(is_own).collect();
    let writes = requests.iter().filter(|one| one.is_write()).count();
    let figure = format!(
        "{} ({} of processor time each), {} requests, {writes} writes",
        format_seconds(cost.cpu_time),
        format_per_item(cost.processor, number),
        requests.len()
    );
    Line::new(format!("{number} unchanged Applications are compared again"), figure, "0 requests")
}

/// Measures an idle service with the default intervals.
fn measure_idle(environment: &Environment) -> Line {
    let service = environment.start_service("3m");
    service
        .wait_until(service.start_period(), |shown| shown.comparisons >= environment.fleet.application_count);
    service.wait_until_idle();
    let before = service.cpu_time();
    thread::sleep(IDLE * 4);
    let spent = service.cpu_time().saturating_sub(before).as_secs_f64() / (IDLE * 4).as_secs_f64() * 100.0;
    let memory = service.resident_kib() as f64 / 1024.0;
    service.stop();
    let what = format!(
        "idle with {} Applications for four minutes, compared every three of them",
        environment.fleet.application_count
    );
    Line::new(what, format!("{spent:.2} % of a core, {memory:.0} MiB resident"), "≤ 1 %")
}
