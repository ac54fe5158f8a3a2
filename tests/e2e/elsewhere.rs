//! A service on another machine, asked by its API: the same commands, output and exit codes as over the socket here.

use std::net::TcpListener;

use serde_json::json;

use crate::bench::{Bench, Ran, Running};
use crate::fleet::Fleet;

const OPERATOR: &str = "operators-may-have-things-done";
const READER: &str = "readers-may-look-and-no-more";

/// The fleet, served with an API that is secured, and somebody who knows its URL and nothing of its state directory.
struct Elsewhere {
    fleet: Fleet,
    serving: Option<Running>,
    url: String,
    /// Their folder.
    bench: Bench,
}

impl Elsewhere {
    fn new() -> Self {
        let fleet = Fleet::new();
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fleet.bench.write_closed("tokens", format!("ann operator {OPERATOR}\nben read-only {READER}\n"));
        fleet.bench.write_closed("cert.pem", pair.cert.pem());
        fleet.bench.write_closed("key.pem", pair.signing_key.serialize_pem());
        let serve = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
        let mut serving =
            fleet.bench.start(&[&serve[..], &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]].concat());
        let line = serving.await_line("the API is at");
        let port = line.split("https://127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        serving.await_line("serving 3 applications");
        let bench = Bench::new();
        bench.write_closed("ca.pem", pair.cert.pem());
        bench.write_closed("ann", format!("{OPERATOR}\n"));
        bench.write_closed("ben", READER);
        let (fleet, url) = (fleet, format!("https://localhost:{port}"));
        Self { fleet, serving: Some(serving), url, bench }
    }

    /// What a command needs to ask it, as a suggested one has it.
    fn way(&self) -> String {
        format!(" --server {} --token-file ann --ca ca.pem", self.url)
    }

    fn run_as(&self, who: &str, args: &[&str]) -> Ran {
        let there = ["--server", &self.url, "--ca", "ca.pem", "--token-file", who];
        let ran = self.bench.run(&[&["app"], args, &there].concat());
        for secret in [OPERATOR, READER] {
            assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{ran:?}");
        }
        ran
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_as("ann", args)
    }

    /// What both say, as soon as nothing has changed between the two.
    #[track_caller]
    fn same(&self, args: &[&str]) -> Ran {
        let both = || (self.run(args), self.fleet.bench.run(&[&["app"], args].concat()));
        let is_same = |(there, here): &(Ran, Ran)| there.out == here.out;
        let (there, here) = std::iter::repeat_with(both).take(20).find(is_same).unwrap_or_else(both);
        // What is suggested goes the same way.
        let said = there.err.replace(&self.way(), "");
        assert_eq!((there.code(), &there.out, &said), (here.code(), &here.out, &here.err), "{args:?}");
        there
    }
}

#[test]
fn the_same_is_said_and_done_as_over_the_socket() {
    let mut there = Elsewhere::new();
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
        there.same(args).expect_code(0);
    }
    let explained = there.run(&["explain", "backend"]).expect_code(0);
    assert!(explained.out.contains("Succeeded"), "{explained:?}");
    // What is wrong is said in the same words, and ends in the same way.
    for (args, code) in [
        (&["get", "nobody"][..], 2),
        (&["get", "argocd/nobody"], 2),
        (&["get", "elsewhere/backend"], 2),
        (&["wait", "nobody"], 2),
        (&["terminate", "nobody"], 4),
        (&["refresh", "nobody"], 4),
        (&["delete", "backend"], 2),
        (&["diff", "nobody"], 2),
        (&["plan", "backend", "deadbeef00"], 2),
        (&["plan", "backend", "none"], 2),
        (&["sync", "backend", "--plan", "deadbeef00"], 2),
        (&["approve", "backend", "deadbeef00"], 2),
        (&["get", "/backend"], 2),
    ] {
        there.same(args).expect_code(code);
    }
    for args in [&["terminate", "backend"][..], &["rollback", "backend"]] {
        assert!(!there.run(args).expect_code(4).err.is_empty());
    }
    // A difference.
    there.fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    there.run(&["wait", "frontend"]).expect_code(0);
    there.fleet.replace("repo/frontend/frontend.yaml", "replicas: 2", "replicas: 3");
    there.fleet.commit();
    let differs = there.run(&["diff", "frontend"]).expect_code(1);
    assert!(differs.out.contains("+  replicas: 3"), "{differs:?}");
    there.run(&["refresh", "frontend"]).expect_code(0);
    there.fleet.until("frontend", |app| app["status"]["history"].as_array().is_some_and(|all| all.len() > 1));
    // What is done is done by whose token it is.
    let why = ["--reason", "a hotfix"];
    let synced =
        there.run(&[&["sync", "backend", "--prune", "--timeout", "10m"][..], &why].concat()).expect_code(0);
    assert!(synced.out.contains("Succeeded by ann") && synced.out.contains("a hotfix"), "{synced:?}");
    let asked = &there.fleet.get("backend")["status"]["operationState"]["operation"];
    assert_eq!((&asked["initiatedBy"]["username"], &asked["sync"]["prune"]), (&json!("ann"), &json!(true)));
    let asked = there.run(&["sync", "backend", "--dry-run", "--async"]).expect_code(0);
    assert!(
        asked.err.contains(&format!("tidegate app wait backend --operation{}", there.way())),
        "{asked:?}"
    );
    there.run(&["wait", "backend", "--operation"]).expect_code(0);
    // It is deleted with what it has.
    let named = there.same(&["delete", "frontend"]).expect_code(2);
    assert!(named.out.contains("to be deleted: Deployment fleet/frontend"), "{named:?}");
    assert!(named.err.contains("its document is removed from the folder"), "{named:?}");
    // Whatever is said of why fits, in letters that are long in an address too.
    let long = "日".repeat(5_000);
    there.run(&["delete", "frontend", "--yes", "--timeout", "10m", "--reason", &long]).expect_code(0);
    assert!(!there.fleet.path("frontend.yaml").exists());
    there.run(&["get", "frontend"]).expect_code(2);
    Fleet::end(there.serving.take().unwrap());
    let ran = there.run(&["list"]).expect_code(1);
    assert!(ran.err.contains(&there.url), "{ran:?}");
}

#[test]
fn what_hooks_write_is_told_by_the_api() {
    let mut there = Elsewhere::new();
    there.run(&["wait", "--timeout", "10m"]).expect_code(0);
    there.fleet.migration_writes("begins\\nends");
    let synced = there.run(&["sync", "backend", "--follow-hooks", "--timeout", "10m"]).expect_code(0);
    let told: Vec<&str> = synced.err.lines().filter(|line| line.contains(" | ")).collect();
    assert_eq!(told, ["migrate | begins", "migrate | ends"], "{synced:?}");
    Fleet::end(there.serving.take().unwrap());
}

#[test]
fn who_may_not_ask_is_told_and_no_token_goes_astray() {
    let mut there = Elsewhere::new();
    there.fleet.wait(&[]);
    assert!(there.run_as("ben", &["list"]).expect_code(0).out.contains("backend"));
    let refused = there.run_as("ben", &["sync", "backend"]).expect_code(4);
    assert!(refused.err.contains("role operator"), "{refused:?}");
    let refused = there.run_as("ben", &["delete", "backend", "--yes"]).expect_code(4);
    assert!(refused.err.contains("role operator"), "{refused:?}");
    there.bench.write_closed("eve", "somebody-elses-token-altogether");
    assert!(there.run_as("eve", &["list"]).expect_code(4).err.contains("token does not count"));
    there.bench.write_closed("empty", "\n");
    there.bench.write_closed("two", "one\ntwo\n");
    for name in ["empty", "two"] {
        assert!(there.run_as(name, &["list"]).err.contains("no token"));
    }
    let args = ["app", "list", "--token-file", "ann", "--server"];
    let ask = |more: &[&str]| there.bench.run(&[&args[..], more].concat());
    // Nobody vouches for the other side.
    assert!(ask(&[&there.url]).code() != 0);
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    there.bench.write_closed("other.pem", other.cert.pem());
    assert!(ask(&[&there.url, "--ca", "other.pem"]).expect_code(1).err.contains("certificate"));
    // A token is not sent in clear to another machine, and not at all where there is no URL.
    for (url, part) in [
        ("http://tidegate.example.com:8480", "use https://"),
        ("http://192.0.2.1:8480", "use https://"),
        ("localhost:8480", "https://"),
        ("ftp://localhost", "https://"),
        ("https://", "https://"),
        ("https://me@localhost", "more than a host"),
        ("https://localhost/?a=b", "more than a host"),
    ] {
        let ran = ask(&[url]).expect_code(2);
        assert!(ran.err.contains(part), "{url}: {ran:?}");
    }
    // Who is there does not speak our language, or is not there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    assert!(ask(&[&url]).expect_code(1).err.contains(&url));
    Fleet::end(there.serving.take().unwrap());
}
