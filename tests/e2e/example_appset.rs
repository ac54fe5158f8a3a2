//! The ApplicationSet of the example, managed by a service. The command controls it locally and through the
//! service's API.

use std::fs;

use serde_json::{Value, json};

use crate::bench::{Bench, CommandOutput, Running};

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";
/// Rollout annotation of the example's ApplicationSet.
const GATED: &str = "tidegate.dev/rollout: \"steps: [{step: 3, gates: [approval]}]\"";
const SHOPS: [&str; 4] = ["cart", "catalog", "checkout", "search"];

/// The example, and a service with an API that manages it.
pub struct Shops {
    pub bench: Bench,
    pub service: Option<Running>,
    pub url: String,
}

impl Shops {
    /// Starts the service. The example's ApplicationSet has this rollout annotation.
    pub fn serve(rollout: &str) -> Self {
        let mut bench = Bench::new();
        bench.set_variable("PATH", "");
        bench.run(&["example", "fleet"]).expect_code(0);
        for shop in SHOPS {
            let path = bench.path().join(format!("fleet/repo/shops/{shop}/{shop}.yaml"));
            let text = fs::read_to_string(&path).unwrap();
            let (head, tail) = text.split_once("ready-after: ").unwrap();
            let (_, tail) = tail.split_once('\n').unwrap();
            fs::write(path, format!("{head}ready-after: 200ms\n{tail}")).unwrap();
        }
        bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
        let path = bench.path().join("fleet/shops.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(GATED));
        fs::write(path, text.replace(GATED, &format!("tidegate.dev/rollout: '{rollout}'"))).unwrap();
        bench.write_private("tokens", format!("ann operator {OPERATOR}\nben read-only {READER}\n"));
        bench.write_private("ann", OPERATOR);
        bench.write_private("ben", READER);
        let mut service =
            bench.start(&["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"]);
        let url = format!("http://{}", service.wait_for_api());
        service.wait_for_line("managing");
        Self { bench, service: Some(service), url }
    }

    pub fn run(&self, args: &[&str]) -> CommandOutput {
        self.bench.run(&[&["appset"], args].concat())
    }

    pub fn run_as(&self, who: &str, args: &[&str]) -> CommandOutput {
        self.run(&[args, &["--server", &self.url, "--token-file", who]].concat())
    }

    fn status(&self) -> Value {
        self.bench.json(&["appset", "status", "shops", "-o", "json"])
    }

    /// Polls until the ApplicationSet satisfies a predicate.
    #[track_caller]
    pub fn wait_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.status()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.status()))
    }

    /// Returns the positions of the writes to shops in a namespace, according to the cluster's audit log.
    fn writes(&self, env: &str, kind: &str, verb: &str) -> Vec<u64> {
        let namespace = format!("shops-{env}");
        let is_meant = |one: &&Value| {
            let code = one["code"].as_u64().unwrap();
            one["namespace"] == *namespace
                && one["kind"] == kind
                && one["verb"] == verb
                && (200..300).contains(&code)
        };
        let writes = self.bench.writes();
        writes.iter().filter(is_meant).map(|one| one["sequence"].as_u64().unwrap()).collect()
    }

    /// Returns the positions of the first creations of an environment's shops, and the positions at which
    /// each shop was ready.
    fn creations(&self, env: &str) -> (Vec<u64>, Vec<u64>) {
        let writes = self.bench.writes();
        let of = |kind: &str| {
            let namespace = format!("shops-{env}");
            let made = writes.iter().filter(|one| one["namespace"] == *namespace && one["code"] == 201);
            made.filter(|one| one["kind"] == kind).map(|one| one["sequence"].as_u64().unwrap()).collect()
        };
        (of("Deployment"), of("Service"))
    }
}

pub fn has_ended(status: &Value) -> bool {
    status["rollout"]["outcome"] == "Completed"
}

/// Returns the member with this name.
fn member<'s>(status: &'s Value, name: &str) -> &'s Value {
    let members = status["rollout"]["members"].as_array().unwrap();
    members.iter().find(|one| one["application"] == name).unwrap()
}

#[test]
fn the_example_is_rolled_out_and_deleted_in_order() {
    let mut shops = Shops::serve("steps: []");
    let status = shops.wait_until(has_ended);
    assert_eq!(status["rollout"]["members"].as_array().unwrap().len(), 12);
    let [dev, qa, prod] = ["dev", "qa", "prod"].map(|env| shops.creations(env));
    for (started, ready) in [&dev, &qa, &prod] {
        assert_eq!((started.len(), ready.len()), (4, 4));
    }
    assert!(dev.1.last() < qa.0.first() && qa.1.last() < prod.0.first(), "{dev:?} {qa:?} {prod:?}");
    let one_by_one = prod.1.iter().zip(prod.0.iter().skip(1)).all(|(ready, next)| ready < next);
    assert!(one_by_one, "{prod:?}");
    // Lists and details contain the resource itself, both locally and remotely.
    let list = shops.bench.json(&["appset", "list", "-o", "json"]);
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("List"), &json!("shops")));
    for args in [&["list"][..], &["get", "shops"], &["status", "shops"], &["explain", "shops"]] {
        // The status changes with the rollout.
        let both = || (shops.run(args).expect_code(0).out, shops.run_as("ben", args).expect_code(0).out);
        let is_same = |(here, there): &(String, String)| here == there && !here.contains("performing");
        let found = std::iter::repeat_with(both).take(500).find(is_same);
        assert!(found.is_some(), "{args:?}: {:?}", both());
    }
    let text = shops.run(&["list"]).out;
    assert!(text.contains("RollingSync, 3 steps") && text.contains("12"), "{text}");
    // The deletion matches its preview.
    let plan = shops.bench.json(&["appset", "delete", "shops", "--plan", "-o", "json"]);
    let selects: Vec<&str> = plan["plans"][0]["deletion"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["selector"].as_str().unwrap())
        .collect();
    assert_eq!(selects, ["env in (prod)", "env in (qa)", "env in (dev)"]);
    let ran = shops.run(&["delete", "shops"]).expect_code(2);
    assert!(ran.out.contains("prod-cart") && ran.err.contains("nothing was deleted; use --yes"), "{ran:?}");
    let ran = shops.run(&["delete", "shops", "--yes", "--timeout", "10m"]).expect_code(0);
    assert!(ran.err.contains("ApplicationSet shops deleted"), "{ran:?}");
    let [dev, qa, prod] = ["dev", "qa", "prod"].map(|env| shops.writes(env, "Deployment", "delete"));
    assert_eq!([dev.len(), qa.len(), prod.len()], [4, 4, 4]);
    assert!(prod.last() < qa.first() && qa.last() < dev.first(), "{prod:?} {qa:?} {dev:?}");
    assert_eq!(shops.bench.json(&["appset", "list", "-o", "json"])["items"], json!([]));
    let left = shops.bench.json(&["app", "list", "-o", "json"]);
    assert_eq!(left["items"].as_array().unwrap().len(), 3, "the others are kept");
    shops.stop();
}

#[test]
fn users_control_a_rollout_locally_and_remotely() {
    let mut shops = Shops::serve("steps: [{step: 1, gates: [approval]}]");
    let explained = |text: &str| {
        let explain = || shops.run(&["explain", "shops"]).expect_code(0).out;
        let found = std::iter::repeat_with(explain).take(3000).find(|explanation| explanation.contains(text));
        found.unwrap_or_else(|| panic!("{text}: {}", explain()))
    };
    explained("approval");
    assert_eq!(shops.creations("dev").0, Vec::<u64>::new(), "there is no approval");
    // A read-only user can't approve. Approvals are recorded under the approver's name.
    let ran = shops.run_as("ben", &["approve", "shops"]).expect_code(4);
    assert!(ran.err.contains("operator"), "{ran:?}");
    shops.run_as("ann", &["pause", "shops", "--reason", "lunch"]).expect_code(0);
    explained("paused");
    let status = shops.status();
    assert_eq!(status["rollout"]["pausedBy"], "ann (lunch)");
    shops.run(&["resume", "shops"]).expect_code(0);
    // A skip requires a reason.
    let ran = shops.run(&["skip", "shops", "--app", "prod-cart"]).expect_code(2);
    assert!(ran.err.contains("--reason"), "{ran:?}");
    let ran = shops.run(&["skip", "shops", "--reason", "moved"]).expect_code(2);
    assert!(ran.err.contains("--app"), "{ran:?}");
    shops.run_as("ann", &["skip", "shops", "--app", "prod-cart", "--reason", "moved"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--step", "1", "--reason", "seen"]).expect_code(0);
    let status = shops.wait_until(has_ended);
    let skipped = member(&status, "prod-cart");
    assert_eq!(
        (&skipped["status"], &skipped["message"]),
        (&json!("Healthy"), &json!("skipped by ann (moved)"))
    );
    assert_eq!((shops.creations("dev").1.len(), shops.creations("prod").1.len()), (4, 3));
    // The rollout has ended. Errors contain the valid targets.
    let ran = shops.run(&["pause", "shops"]).expect_code(4);
    assert!(ran.err.contains("shops"), "{ran:?}");
    let ran = shops.run(&["get", "shoes"]).expect_code(2);
    assert!(ran.err.contains("ApplicationSet shoes not found; `tidegate appset list`"), "{ran:?}");
    shops.run_as("ann", &["refresh", "shops"]).expect_code(0);
    shops.run(&["delete", "shops", "--orphan", "--yes", "--timeout", "10m"]).expect_code(0);
    assert_eq!(shops.bench.json(&["app", "list", "-o", "json"])["items"].as_array().unwrap().len(), 15);
    shops.stop();
}

impl Shops {
    pub fn stop(&mut self) {
        let service = self.service.take().unwrap();
        service.signal("TERM");
        service.finish().expect_code(0);
    }
}
