//! Services that share an operation log in PostgreSQL. One leads, and the others are standbys.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::tcp_proxy::{ServerAddress, TcpProxy};

use crate::applications::{
    bench_with_crds, commit_version, commit_waiting_version, complete_job, create, is_done, is_running,
    wait_until,
};
use crate::bench::{CommandOutput, Running};
use crate::kube_bench::KubeBench;
use crate::leadership::{hard_refresh, probe};
use crate::postgres_server::PostgresServer;

pub const KEY: &str = "7f3d2c1b0a99887766554433221100ffeeddccbbaa99887766554433221100ff";
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const OPERATOR: &str = "operators-may-have-things-done";
/// File with the tokens that the services accept.
pub const TOKENS: &str = "tokens";
/// File with a token.
pub const TOKEN: &str = "ann";
const OTHER_MACHINE: [&str; 3] = ["--standby", "--state-dir", "elsewhere"];

/// Returns a bench whose services share a new log, or `None` if PostgreSQL isn't installed.
async fn bench_with_shared_log() -> Option<(KubeBench, String)> {
    let url = PostgresServer::shared()?.new_log_url();
    let mut bench = bench_with_crds().await;
    bench.bench.set_variable("TIDEGATE_LOG_URL", &url);
    bench.bench.set_variable("TIDEGATE_LOG_KEY", KEY);
    Some((bench, url))
}

fn start(bench: &KubeBench, more: &[&str]) -> Running {
    let namespace = &bench.namespace;
    bench.start(&[&["serve", "--app-namespace", namespace, "--project-namespace", namespace], more].concat())
}

/// Starts a leader and a standby, which has its own state directory, as on another machine.
fn start_both(bench: &KubeBench) -> (Running, Running) {
    let mut first = start(bench, &[]);
    first.wait_for_line("managing");
    let mut second = start(bench, &OTHER_MACHINE);
    second.wait_for_line("standby: ");
    (first, second)
}

fn operation_id(app: &Value) -> Value {
    let info = app["status"]["operationState"]["operation"]["info"].as_array().unwrap().clone();
    info.into_iter().find(|one| one["name"] == "tidegate.dev/operation-id").unwrap()["value"].clone()
}

pub async fn a_standby_continues_an_operation_when_the_leader_is_killed() {
    let Some((bench, url)) = bench_with_shared_log().await else { return };
    commit_waiting_version(&bench, "2");
    create(&bench).await;
    let (first, mut second) = start_both(&bench);
    let before = wait_until(&bench, is_running).await;
    first.signal("KILL");
    first.finish();
    let killed = Instant::now();
    second.wait_for_line("managing");
    // The standby watches the leader's heartbeats for 8 s. The rest of the time is for a busy machine.
    assert!(killed.elapsed() < Duration::from_secs(40), "{:?}", killed.elapsed());
    eprintln!("the takeover took {:?}", killed.elapsed());
    complete_job(&bench, "migrate").await;
    let now = wait_until(&bench, is_done).await;
    assert_eq!(operation_id(&now), operation_id(&before), "it must be the same operation");
    bench.assert_created_once("Job", "migrate", "taken over from a leader that was killed").await;
    // The standby has only the events in the database.
    let server = PostgresServer::shared().unwrap();
    let id = operation_id(&now);
    let id = id.as_str().unwrap();
    let open =
        format!("SELECT count(*) FROM stream WHERE id = '{id}' AND finished_at IS NOT NULL AND last > 5");
    assert_eq!(server.psql(&url, &open), "1");
    second.signal("TERM");
    second.finish().expect_code(0);
    assert_eq!(server.psql(&url, "SELECT count(*) FROM shard WHERE owner IS NOT NULL"), "0");
}

pub async fn a_suspended_leader_writes_nothing_after_a_takeover() {
    let Some((bench, _)) = bench_with_shared_log().await else { return };
    create(&bench).await;
    let (first, mut second) = start_both(&bench);
    wait_until(&bench, is_done).await;
    first.signal("STOP");
    second.wait_for_line("managing");
    commit_version(&bench, "2");
    hard_refresh(&bench).await;
    first.signal("CONT");
    let ran = first.finish().expect_code(1);
    assert!(
        ran.err.contains("taken over the operation log") || ran.err.contains("no longer the leader"),
        "{}",
        ran.err
    );
    wait_until(&bench, |app| {
        is_done(app) && app["status"]["history"].as_array().is_some_and(|all| all.len() == 2)
    })
    .await;
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each commit");
    second.signal("TERM");
    second.finish().expect_code(0);
}

pub async fn a_leader_that_stops_hands_over_at_once_with_its_plans() {
    let Some((bench, _)) = bench_with_shared_log().await else { return };
    create(&bench).await;
    let (first, mut second) = start_both(&bench);
    wait_until(&bench, is_done).await;
    commit_version(&bench, "2");
    let planned = bench.run(&["app", "plan", "shop", "-o", "json"]).expect_code(0);
    let planned: Value = serde_json::from_str(&planned.out).unwrap();
    let hash = planned["hash"].as_str().unwrap_or_else(|| panic!("no hash in {planned}")).to_owned();
    first.signal("TERM");
    first.finish().expect_code(0);
    let stopped = Instant::now();
    second.wait_for_line("managing");
    // Less than a takeover after a crash would take on a busy machine.
    assert!(stopped.elapsed() < Duration::from_secs(25), "{:?}", stopped.elapsed());
    let plans = bench.run(&["app", "plans", "shop", "-o", "json", "--state-dir", "elsewhere"]).expect_code(0);
    assert!(plans.out.contains(&hash), "{hash}: {}", plans.out);
    second.signal("TERM");
    second.finish().expect_code(0);
}

pub async fn a_drained_leader_hands_over_at_once() {
    let Some((bench, url)) = bench_with_shared_log().await else { return };
    commit_waiting_version(&bench, "2");
    create(&bench).await;
    let mut first = start(&bench, &[]);
    first.wait_for_line("managing");
    let first_name = format!("pid {}", first.pid);
    let list = || {
        let listed = bench.run(&["replicas", "list", "--log", &url, "-o", "json"]).expect_code(0);
        let replicas: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
        let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        replicas.iter().map(|one| (word(one, "name"), word(one, "state"))).collect::<Vec<_>>()
    };
    let leader = list().remove(0).0;
    assert!(leader.starts_with(&first_name), "{leader}");
    // Without another service, the command changes nothing.
    let refused = bench.run(&["replicas", "drain", &leader]).expect_code(4);
    assert!(refused.err.contains("no other service could take over"), "{}", refused.err);
    let mut second = start(&bench, &OTHER_MACHINE);
    second.wait_for_line("standby: ");
    let before = wait_until(&bench, is_running).await;
    let states: Vec<String> = list().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["leader", "standby"]);
    let drained = Instant::now();
    bench.run(&["replicas", "drain", &leader]).expect_code(0);
    eprintln!("the command took {:?}", drained.elapsed());
    let ran = first.finish().expect_code(0);
    assert!(ran.err.contains("shutting down after `tidegate replicas drain`"), "{}", ran.err);
    second.wait_for_line("managing");
    complete_job(&bench, "migrate").await;
    let now = wait_until(&bench, is_done).await;
    assert_eq!(operation_id(&now), operation_id(&before), "it must be the same operation");
    bench.assert_created_once("Job", "migrate", "handed over").await;
    // A standby can be drained, too.
    let mut third = start(&bench, &["--standby", "--state-dir", "third"]);
    third.wait_for_line("standby: ");
    let (standby, state) = list().remove(1);
    assert_eq!(state, "standby");
    bench.run(&["replicas", "drain", &standby]).expect_code(0);
    third.finish().expect_code(0);
    second.signal("TERM");
    second.finish().expect_code(0);
    assert_eq!(list(), []);
}

pub async fn a_second_leader_is_refused() {
    let Some((bench, _)) = bench_with_shared_log().await else { return };
    create(&bench).await;
    let mut first = start(&bench, &[]);
    first.wait_for_line("managing");
    let ran = start(&bench, &["--state-dir", "elsewhere"]).finish().expect_code(4);
    assert!(ran.err.contains(&format!("pid {}", first.pid)) && ran.err.contains("--standby"), "{}", ran.err);
    first.signal("TERM");
    first.finish().expect_code(0);
}

pub fn write_tokens(bench: &KubeBench) {
    bench.write_private(TOKENS, format!("ann operator {OPERATOR}\n"));
    bench.write_private(TOKEN, OPERATOR);
}

/// Returns an address of this machine with a free port.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// API of a service, as seen by a client on another machine.
struct Api {
    url: String,
}

impl Api {
    /// Starts a service on a free port of this machine.
    fn start(bench: &KubeBench, more: &[&str]) -> (Self, Running) {
        let address = free_address();
        let url = format!("http://{address}");
        let options = ["--listen", &address, "--tokens", TOKENS, "--advertise", &url];
        (Self { url: url.clone() }, start(bench, &[&options, more].concat()))
    }

    fn run(&self, bench: &KubeBench, args: &[&str]) -> CommandOutput {
        bench.run(&[&["app"], args, &["--server", &self.url, "--token-file", TOKEN]].concat())
    }
}

pub async fn a_standby_answers_like_the_leader() {
    let Some((bench, _)) = bench_with_shared_log().await else { return };
    write_tokens(&bench);
    commit_waiting_version(&bench, "2");
    create(&bench).await;
    let (leader, mut first) = Api::start(&bench, &[]);
    first.wait_for_line("managing");
    let (standby, mut second) = Api::start(&bench, &OTHER_MACHINE);
    second.wait_for_line("standby: ");
    wait_until(&bench, is_running).await;
    for args in [&["list"][..], &["get", "shop"], &["explain", "shop"], &["get", "shop", "-o", "json"]] {
        // Times and ages may change between the two responses.
        let both = || (leader.run(&bench, args), standby.run(&bench, args));
        let is_same = |(here, there): &(CommandOutput, CommandOutput)| here.out == there.out;
        let (here, there) = std::iter::repeat_with(both).take(20).find(is_same).unwrap_or_else(both);
        assert_eq!((here.code(), &here.out), (0, &there.out), "{args:?}: {}", there.err);
    }
    // A request through the standby takes effect once.
    complete_job(&bench, "migrate").await;
    wait_until(&bench, is_done).await;
    commit_waiting_version(&bench, "3");
    standby.run(&bench, &["sync", "shop", "--async"]).expect_code(0);
    let before = wait_until(&bench, is_running).await;
    // No request fails while the leader hands over.
    let is_over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let mut answered = 0;
            while !is_over.load(Ordering::SeqCst) {
                standby.run(&bench, &["get", "shop"]).expect_code(0);
                answered += 1;
            }
            answered
        });
        first.signal("TERM");
        first.finish().expect_code(0);
        second.wait_for_line("managing");
        is_over.store(true, Ordering::SeqCst);
        clients.join().unwrap()
    });
    assert!(answered > 0);
    complete_job(&bench, "migrate").await;
    let now = wait_until(&bench, is_done).await;
    assert_eq!(operation_id(&now), operation_id(&before), "it must be the same operation");
    assert_eq!(bench.creations("Job", "migrate").await, 2, "once for each commit");
    second.signal("TERM");
    second.finish().expect_code(0);
}

pub async fn an_unavailable_database_is_reported() {
    let Some((mut bench, url)) = bench_with_shared_log().await else { return };
    let database = TcpProxy::start(ServerAddress::Unix(PostgresServer::shared().unwrap().socket()));
    let (_, schema) = url.rsplit_once("schema=").unwrap();
    let url = format!("postgres://tidegate@{}/postgres?sslmode=disable&schema={schema}", database.address());
    bench.bench.set_variable("TIDEGATE_LOG_URL", &url);
    create(&bench).await;
    let mut service = start(&bench, &["--listen", "0"]);
    let address = service.wait_for_api();
    service.wait_for_line("managing");
    wait_until(&bench, is_done).await;
    let wait_for_code = async |code: u16| {
        loop {
            let (found, body) = probe(&address, "/readyz");
            if found == code {
                return body;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    wait_for_code(200).await;
    database.cut();
    let body = wait_for_code(503).await;
    assert!(body.contains("waiting for the operation log's database"), "{body}");
    // The service stopped renewing its Lease, but no other service has taken it.
    database.release();
    wait_for_code(200).await;
    service.signal("TERM");
    service.finish().expect_code(0);
}
