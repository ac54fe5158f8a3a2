//! A service on another machine, used through its API. Commands, output and exit codes are the same as over
//! the local socket.

use std::net::TcpListener;

use serde_json::json;

use crate::bench::{Bench, CommandOutput, Running};
use crate::fleet::Fleet;

const OPERATOR: &str = "operators-may-have-things-done";
const READER: &str = "readers-may-look-and-no-more";

/// A fleet with a secured API, and a client that knows only the service's URL, not its state directory.
struct RemoteClient {
    fleet: Fleet,
    service: Option<Running>,
    url: String,
    /// Folder of the client.
    bench: Bench,
}

impl RemoteClient {
    fn new() -> Self {
        let fleet = Fleet::new();
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fleet.bench.write_private("tokens", format!("ann operator {OPERATOR}\nben read-only {READER}\n"));
        fleet.bench.write_private("cert.pem", pair.cert.pem());
        fleet.bench.write_private("key.pem", pair.signing_key.serialize_pem());
        let serve = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
        let mut service =
            fleet.bench.start(&[&serve[..], &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]].concat());
        let line = service.wait_for_line("the API is available");
        let port = line.split("https://127.0.0.1:").nth(1).unwrap().split(';').next().unwrap().to_owned();
        service.wait_for_line("managing 3 applications");
        let bench = Bench::new();
        bench.write_private("ca.pem", pair.cert.pem());
        bench.write_private("ann", format!("{OPERATOR}\n"));
        bench.write_private("ben", READER);
        let (fleet, url) = (fleet, format!("https://localhost:{port}"));
        Self { fleet, service: Some(service), url, bench }
    }

    /// Returns the connection arguments, as in suggested commands.
    fn connection_args(&self) -> String {
        format!(" --server {} --token-file ann --ca ca.pem", self.url)
    }

    fn run_as(&self, who: &str, args: &[&str]) -> CommandOutput {
        let there = ["--server", &self.url, "--ca", "ca.pem", "--token-file", who];
        let ran = self.bench.run(&[&["app"], args, &there].concat());
        for secret in [OPERATOR, READER] {
            assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{ran:?}");
        }
        ran
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.run_as("ann", args)
    }

    /// Returns the output of the local and the remote command, once nothing has changed between the two.
    #[track_caller]
    fn assert_same_output(&self, args: &[&str]) -> CommandOutput {
        let both = || (self.run(args), self.fleet.bench.run(&[&["app"], args].concat()));
        let is_same = |(there, here): &(CommandOutput, CommandOutput)| there.out == here.out;
        let (there, here) = std::iter::repeat_with(both).take(20).find(is_same).unwrap_or_else(both);
        // Suggested commands contain the same arguments.
        let said = there.err.replace(&self.connection_args(), "");
        assert_eq!((there.code(), &there.out, &said), (here.code(), &here.out, &here.err), "{args:?}");
        there
    }
}

#[test]
fn the_api_client_behaves_like_the_socket_client() {
    let mut there = RemoteClient::new();
    there.run(&["wait", "--timeout", "10m"]).expect_code(0);
    for args in [
        &["list"][..],
        &["list", "-o", "json"],
        &["get", "backend"],
        &["get", "argocd/backend", "-o", "json"],
        &["get", "backend", "-o", "yaml"],
        &["history", "backend"],
        &["history", "backend", "-o", "json"],
        &["diff", "backend"],
        &["diff", "backend", "-o", "json"],
        &["wait", "backend"],
    ] {
        there.assert_same_output(args).expect_code(0);
    }
    let explained = there.run(&["explain", "backend"]).expect_code(0);
    assert!(explained.out.contains("Succeeded"), "{explained:?}");
    // Errors have the same messages and exit codes.
    for (args, code) in [
        (&["get", "nobody"][..], 2),
        (&["get", "argocd/nobody"], 2),
        (&["get", "elsewhere/backend"], 2),
        (&["wait", "nobody"], 2),
        (&["terminate", "nobody"], 2),
        (&["refresh", "nobody"], 2),
        (&["delete", "backend"], 2),
        (&["diff", "nobody"], 2),
        (&["plan", "backend", "deadbeef00"], 2),
        (&["plan", "backend", "none"], 2),
        (&["sync", "backend", "--plan", "deadbeef00"], 2),
        (&["approve", "backend", "deadbeef00"], 2),
        (&["get", "/backend"], 2),
    ] {
        there.assert_same_output(args).expect_code(code);
    }
    for args in [&["terminate", "backend"][..], &["rollback", "backend"]] {
        assert!(!there.run(args).expect_code(4).err.is_empty());
    }
    // Creates a difference.
    there.fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    there.run(&["wait", "frontend"]).expect_code(0);
    there.fleet.replace("repo/frontend/frontend.yaml", "replicas: 2", "replicas: 3");
    there.fleet.commit();
    let differs = there.run(&["diff", "frontend"]).expect_code(1);
    assert!(differs.out.contains("+  replicas: 3"), "{differs:?}");
    there.run(&["refresh", "frontend"]).expect_code(0);
    there
        .fleet
        .wait_until("frontend", |app| app["status"]["history"].as_array().is_some_and(|all| all.len() > 1));
    // Actions are recorded under the owner of the token.
    let why = ["--reason", "a hotfix"];
    let synced =
        there.run(&[&["sync", "backend", "--prune", "--timeout", "10m"][..], &why].concat()).expect_code(0);
    assert!(synced.out.contains("Succeeded by ann") && synced.out.contains("a hotfix"), "{synced:?}");
    let asked = &there.fleet.get("backend")["status"]["operationState"]["operation"];
    assert_eq!((&asked["initiatedBy"]["username"], &asked["sync"]["prune"]), (&json!("ann"), &json!(true)));
    let asked = there.run(&["sync", "backend", "--dry-run", "--async"]).expect_code(0);
    assert!(
        asked.err.contains(&format!("tidegate app wait backend --operation{}", there.connection_args())),
        "{asked:?}"
    );
    there.run(&["wait", "backend", "--operation"]).expect_code(0);
    // The deletion includes its objects.
    let named = there.assert_same_output(&["delete", "frontend"]).expect_code(2);
    assert!(named.out.contains("to delete: Deployment fleet/frontend"), "{named:?}");
    assert!(named.err.contains("the document will be removed from the apps folder"), "{named:?}");
    // A maximum-length reason of multibyte characters fits into a URL.
    let long = "日".repeat(5_000);
    there.run(&["delete", "frontend", "--yes", "--timeout", "10m", "--reason", &long]).expect_code(0);
    assert!(!there.fleet.path("frontend.yaml").exists());
    there.run(&["get", "frontend"]).expect_code(2);
    Fleet::stop(there.service.take().unwrap());
    let ran = there.run(&["list"]).expect_code(1);
    assert!(ran.err.contains(&there.url), "{ran:?}");
}

#[test]
fn hook_output_is_sent_by_the_api() {
    let mut there = RemoteClient::new();
    there.run(&["wait", "--timeout", "10m"]).expect_code(0);
    there.fleet.set_migration_output("begins\\nends");
    let synced = there.run(&["sync", "backend", "--follow-hooks", "--timeout", "10m"]).expect_code(0);
    let told: Vec<&str> = synced.err.lines().filter(|line| line.contains(" | ")).collect();
    assert_eq!(told, ["migrate | begins", "migrate | ends"], "{synced:?}");
    Fleet::stop(there.service.take().unwrap());
}

#[test]
fn unauthorized_requests_are_explained_and_tokens_do_not_leak() {
    let mut there = RemoteClient::new();
    there.fleet.wait_until_synced(&[]);
    assert!(there.run_as("ben", &["list"]).expect_code(0).out.contains("backend"));
    let refused = there.run_as("ben", &["sync", "backend"]).expect_code(4);
    assert!(refused.err.contains("operator role"), "{refused:?}");
    let refused = there.run_as("ben", &["delete", "backend", "--yes"]).expect_code(4);
    assert!(refused.err.contains("operator role"), "{refused:?}");
    there.bench.write_private("eve", "somebody-elses-token-altogether");
    assert!(there.run_as("eve", &["list"]).expect_code(4).err.contains("invalid token"));
    there.bench.write_private("empty", "\n");
    there.bench.write_private("two", "one\ntwo\n");
    for name in ["empty", "two"] {
        assert!(there.run_as(name, &["list"]).err.contains("exactly one token"));
    }
    let args = ["app", "list", "--token-file", "ann", "--server"];
    let ask = |more: &[&str]| there.bench.run(&[&args[..], more].concat());
    // The server's certificate is not trusted.
    assert!(ask(&[&there.url]).code() != 0);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    there.bench.write_private("other.pem", other.cert.pem());
    assert!(ask(&[&there.url, "--ca", "other.pem"]).expect_code(1).err.contains("certificate"));
    // A token is never sent unencrypted to another machine, and never without a URL.
    for (url, part) in [
        ("http://tidegate.example.com:8480", "use https://"),
        ("http://192.0.2.1:8480", "use https://"),
        ("localhost:8480", "https://"),
        ("ftp://localhost", "https://"),
        ("https://", "https://"),
        ("https://me@localhost", "only a host"),
        ("https://localhost/?a=b", "only a host"),
    ] {
        let ran = ask(&[url]).expect_code(2);
        assert!(ran.err.contains(part), "{url}: {ran:?}");
    }
    // The server doesn't exist, or doesn't speak the protocol.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    assert!(ask(&[&url]).expect_code(1).err.contains(&url));
    Fleet::stop(there.service.take().unwrap());
}
