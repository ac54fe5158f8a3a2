//! Two services with separate state directories for one control plane. The service that holds the Lease is
//! the leader.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::kube::Options;

use crate::applications::{
    bench_with_crds, commit_version, commit_waiting_version, complete_job, create, install_crds, is_done,
    is_running, path, serve, wait_until,
};
use crate::bench::Running;
use crate::kube_bench::{KubeBench, Plane};

const ELSEWHERE: [&str; 2] = ["--state-dir", "elsewhere"];

fn start(bench: &KubeBench, more: &[&str]) -> Running {
    let namespace = &bench.namespace;
    let text = ["serve", "--app-namespace", namespace, "--project-namespace", namespace];
    bench.start(&[&text[..], more].concat())
}

fn standby(bench: &KubeBench, more: &[&str]) -> Running {
    start(bench, &[&["--standby"], &ELSEWHERE[..], more].concat())
}

fn stop_service(service: Running) {
    service.signal("TERM");
    service.finish().expect_code(0);
}

/// Returns the status code and body of a probe.
pub fn probe(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (code, answer)
}

async fn lease(bench: &KubeBench) -> Value {
    bench.object("/apis/coordination.k8s.io/v1", "leases", "tidegate").await.unwrap()
}

/// Requests a hard refresh with an annotation. Returns when it is done.
pub async fn hard_refresh(bench: &KubeBench) {
    let annotation = "argocd.argoproj.io/refresh";
    let request = json!({"metadata": {"annotations": {annotation: "hard"}}});
    bench.observer().patch(&format!("{}/shop", path(bench)), &request).await.unwrap();
    wait_until(bench, |app| app["metadata"]["annotations"].get(annotation).is_none() && is_done(app)).await;
}

fn revision(app: &Value) -> Value {
    app["status"]["operationState"]["syncResult"]["revision"].clone()
}

pub async fn two_services_run_a_hook_once() {
    let bench = bench_with_crds().await;
    create(&bench).await;
    let first = serve(&bench);
    wait_until(&bench, is_done).await;
    // The second service reports the leader.
    let ran = start(&bench, &ELSEWHERE).finish().expect_code(4);
    let holder = format!("pid {}", first.pid);
    for text in
        [holder.as_str(), "is the leader", "--standby", &format!("Lease {}/tidegate", bench.namespace)]
    {
        assert!(ran.err.contains(text), "{text}: {}", ran.err);
    }
    // Alternatively, the second service waits, reports the wait, and doesn't write.
    let mut second = standby(&bench, &["--listen", "0"]);
    let address = second.wait_for_api();
    second.wait_for_line("standby: ");
    let (code, body) = probe(&address, "/readyz");
    assert!(code == 503 && body.contains("standby: ") && body.contains(&holder), "{body}");
    assert_eq!(probe(&address, "/healthz").0, 200);
    let before = wait_until(&bench, is_done).await;
    commit_version(&bench, "2");
    hard_refresh(&bench).await;
    let app = wait_until(&bench, |app| is_done(app) && revision(app) != revision(&before)).await;
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each commit");
    // The second service doesn't repeat the work of the first service.
    stop_service(first);
    second.wait_for_line("managing");
    assert_eq!(probe(&address, "/readyz").0, 200);
    hard_refresh(&bench).await;
    let now = wait_until(&bench, is_done).await;
    assert_eq!(now["status"]["operationState"], app["status"]["operationState"]);
    assert_eq!(now["status"]["history"], app["status"]["history"]);
    assert_eq!(bench.creations("Job", "migrate").await, 2, "the second service does not repeat it");
    commit_version(&bench, "3");
    hard_refresh(&bench).await;
    wait_until(&bench, |now| is_done(now) && revision(now) != revision(&app)).await;
    assert_eq!(bench.creations("Job", "migrate").await, 3);
    stop_service(second);
    let lease = lease(&bench).await;
    assert!(lease["spec"]["holderIdentity"].is_null(), "released: {lease}");
    assert_eq!(lease["spec"]["leaseTransitions"], 2);
}

pub async fn a_standby_continues_when_the_first_service_is_killed() {
    let bench = bench_with_crds().await;
    commit_waiting_version(&bench, "2");
    create(&bench).await;
    let first = serve(&bench);
    let mut second = standby(&bench, &[]);
    second.wait_for_line("standby: ");
    let before = wait_until(&bench, is_running).await;
    first.signal("KILL");
    first.finish();
    let killed = Instant::now();
    second.wait_for_line("managing");
    // The Lease lasts 15 s. The rest of the time is for a busy machine.
    assert!(killed.elapsed() < Duration::from_secs(40), "{:?}", killed.elapsed());
    complete_job(&bench, "migrate").await;
    let now = wait_until(&bench, is_done).await;
    let id = |app: &Value| {
        let info = app["status"]["operationState"]["operation"]["info"].as_array().unwrap().clone();
        info.into_iter().find(|one| one["name"] == "tidegate.dev/operation-id").unwrap()["value"].clone()
    };
    assert_eq!(id(&now), id(&before), "it is the same operation");
    bench.assert_created_once("Job", "migrate", "taken over from a service that was killed").await;
    stop_service(second);
}

/// A service that was suspended for longer than its Lease must exit when it is resumed, without writing
/// anything.
pub async fn a_service_that_lost_its_lease_ends() {
    let bench = bench_with_crds().await;
    create(&bench).await;
    let first = serve(&bench);
    wait_until(&bench, is_done).await;
    let mut second = standby(&bench, &[]);
    second.wait_for_line("standby: ");
    first.signal("STOP");
    second.wait_for_line("managing");
    commit_version(&bench, "2");
    first.signal("CONT");
    let ran = first.finish().expect_code(1);
    assert!(ran.err.contains("no longer the leader"), "{}", ran.err);
    hard_refresh(&bench).await;
    let settings = bench.object("/api/v1", "configmaps", "settings").await.unwrap();
    assert_eq!(settings["data"]["version"], "2");
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each commit");
    stop_service(second);
}

/// A service that starts before the API server must wait for it.
pub async fn a_service_waits_for_an_unavailable_api_server() {
    let bench = KubeBench::on_plane(Plane::own(Options::default()), "down").await;
    install_crds(&bench);
    // Port 1 has no listener. The address is corrected later, which has the same effect as a server that
    // starts late.
    let away = bench.changed_kubeconfig("kubeconfig", |config| {
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    });
    let namespace = bench.namespace.clone();
    let text = ["serve", "--app-namespace", &namespace, "--project-namespace", &namespace];
    let more = ["--listen", "0", "--kubeconfig", away.to_str().unwrap()];
    let mut service = bench.start(&[&text[..], &more].concat());
    let address = service.wait_for_api();
    service.wait_for_line("waiting for the API server");
    let (code, body) = probe(&address, "/readyz");
    assert!(code == 503 && body.contains("waiting for the API server"), "{body}");
    assert_eq!(probe(&address, "/healthz").0, 200);
    bench.changed_kubeconfig("kubeconfig", |_| {});
    service.wait_for_line("managing");
    let is_ready = || (probe(&address, "/readyz").0 == 200).then_some(());
    std::iter::repeat_with(is_ready).take(1000).find(Option::is_some).unwrap();
    stop_service(service);
    // A signal stops a waiting service.
    let away = bench.changed_kubeconfig("kubeconfig", |config| {
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    });
    let mut service = bench.start(&[&text[..], &["--kubeconfig", away.to_str().unwrap()]].concat());
    service.wait_for_line("waiting for the API server");
    stop_service(service);
}
