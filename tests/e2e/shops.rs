//! The ApplicationSet of the example, served, and steered by the command: here, and through its API.

use std::fs;

use serde_json::{Value, json};

use crate::bench::{Bench, Ran, Running};

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";
/// What the ApplicationSet of the example says of its rollout.
const GATED: &str = "tidegate.dev/rollout: \"steps: [{step: 3, gates: [approval]}]\"";
const SHOPS: [&str; 4] = ["cart", "catalog", "checkout", "search"];

/// The example, served with an API.
pub struct Shops {
    pub bench: Bench,
    pub serving: Option<Running>,
    pub url: String,
}

impl Shops {
    /// With what its ApplicationSet says of its rollout.
    pub fn serve(rollout: &str) -> Self {
        let mut bench = Bench::new();
        bench.set("PATH", "");
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
        bench.write_closed("tokens", format!("ann operator {OPERATOR}\nben read-only {READER}\n"));
        bench.write_closed("ann", OPERATOR);
        bench.write_closed("ben", READER);
        let mut serving =
            bench.start(&["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"]);
        let url = format!("http://{}", serving.await_api());
        serving.await_line("serving");
        Self { bench, serving: Some(serving), url }
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.bench.run(&[&["appset"], args].concat())
    }

    pub fn run_as(&self, who: &str, args: &[&str]) -> Ran {
        self.run(&[args, &["--server", &self.url, "--token-file", who]].concat())
    }

    fn status(&self) -> Value {
        self.bench.json(&["appset", "status", "shops", "-o", "json"])
    }

    /// Asks until it stands as it should.
    #[track_caller]
    pub fn until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = std::iter::repeat_with(|| self.status()).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", self.status()))
    }

    /// The numbers of the writes to shops in a namespace, by the audit log of the cluster.
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

    /// When the shops of an environment began to be made, and when each of them was ready.
    fn made(&self, env: &str) -> (Vec<u64>, Vec<u64>) {
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
    status["rollout"]["end"] == "Completed"
}

/// The member of this name.
fn member<'s>(status: &'s Value, name: &str) -> &'s Value {
    let members = status["rollout"]["members"].as_array().unwrap();
    members.iter().find(|one| one["application"] == name).unwrap()
}

#[test]
fn the_example_is_rolled_out_and_deleted_in_its_order() {
    let mut shops = Shops::serve("steps: []");
    let status = shops.until(has_ended);
    assert_eq!(status["rollout"]["members"].as_array().unwrap().len(), 12);
    let [dev, qa, prod] = ["dev", "qa", "prod"].map(|env| shops.made(env));
    for (begun, ready) in [&dev, &qa, &prod] {
        assert_eq!((begun.len(), ready.len()), (4, 4));
    }
    assert!(dev.1.last() < qa.0.first() && qa.1.last() < prod.0.first(), "{dev:?} {qa:?} {prod:?}");
    let one_by_one = prod.1.iter().zip(prod.0.iter().skip(1)).all(|(ready, next)| ready < next);
    assert!(one_by_one, "{prod:?}");
    // What is listed and shown is the resource itself, and the same from elsewhere.
    let list = shops.bench.json(&["appset", "list", "-o", "json"]);
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("List"), &json!("shops")));
    for args in [&["list"][..], &["get", "shops"], &["status", "shops"], &["explain", "shops"]] {
        // Its status follows what is known of its rollout.
        let both = || (shops.run(args).expect_code(0).out, shops.run_as("ben", args).expect_code(0).out);
        let is_same = |(here, there): &(String, String)| here == there && !here.contains("performing");
        let found = std::iter::repeat_with(both).take(500).find(is_same);
        assert!(found.is_some(), "{args:?}: {:?}", both());
    }
    let text = shops.run(&["list"]).out;
    assert!(text.contains("RollingSync, 3 steps") && text.contains("12"), "{text}");
    // Its deletion is known before, and so it happens.
    let plan = shops.bench.json(&["appset", "delete", "shops", "--plan", "-o", "json"]);
    let selects: Vec<&str> = plan["plans"][0]["deletion"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["selects"].as_str().unwrap())
        .collect();
    assert_eq!(selects, ["env in (prod)", "env in (qa)", "env in (dev)"]);
    let ran = shops.run(&["delete", "shops"]).expect_code(2);
    assert!(ran.out.contains("prod-cart") && ran.err.contains("nothing was done; say --yes"), "{ran:?}");
    let ran = shops.run(&["delete", "shops", "--yes", "--timeout", "10m"]).expect_code(0);
    assert!(ran.err.contains("ApplicationSet shops is deleted"), "{ran:?}");
    let [dev, qa, prod] = ["dev", "qa", "prod"].map(|env| shops.writes(env, "Deployment", "delete"));
    assert_eq!([dev.len(), qa.len(), prod.len()], [4, 4, 4]);
    assert!(prod.last() < qa.first() && qa.last() < dev.first(), "{prod:?} {qa:?} {dev:?}");
    assert_eq!(shops.bench.json(&["appset", "list", "-o", "json"])["items"], json!([]));
    let left = shops.bench.json(&["app", "list", "-o", "json"]);
    assert_eq!(left["items"].as_array().unwrap().len(), 3, "the others stay");
    shops.end();
}

#[test]
fn people_steer_a_rollout_here_and_from_elsewhere() {
    let mut shops = Shops::serve("steps: [{step: 1, gates: [approval]}]");
    let explained = |words: &str| {
        let explain = || shops.run(&["explain", "shops"]).expect_code(0).out;
        let found = std::iter::repeat_with(explain).take(3000).find(|told| told.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {}", explain()))
    };
    explained("approval");
    assert_eq!(shops.made("dev").0, Vec::<u64>::new(), "nobody has approved");
    // Who may only look approves nothing; who has done what is known by name.
    let ran = shops.run_as("ben", &["approve", "shops"]).expect_code(4);
    assert!(ran.err.contains("operator"), "{ran:?}");
    shops.run_as("ann", &["pause", "shops", "--reason", "lunch"]).expect_code(0);
    explained("paused");
    let status = shops.status();
    assert_eq!(status["rollout"]["paused"], "ann (lunch)");
    shops.run(&["resume", "shops"]).expect_code(0);
    // To go on without somebody needs a reason.
    let ran = shops.run(&["skip", "shops", "--app", "prod-cart"]).expect_code(2);
    assert!(ran.err.contains("--reason"), "{ran:?}");
    let ran = shops.run(&["skip", "shops", "--reason", "moved"]).expect_code(2);
    assert!(ran.err.contains("--app"), "{ran:?}");
    shops.run_as("ann", &["skip", "shops", "--app", "prod-cart", "--reason", "moved"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--step", "1", "--reason", "seen"]).expect_code(0);
    let status = shops.until(has_ended);
    let skipped = member(&status, "prod-cart");
    assert_eq!(
        (&skipped["status"], &skipped["message"]),
        (&json!("Healthy"), &json!("skipped by ann (moved)"))
    );
    assert_eq!((shops.made("dev").1.len(), shops.made("prod").1.len()), (4, 3));
    // Nothing is under way any more; what cannot be meant is named.
    let ran = shops.run(&["pause", "shops"]).expect_code(4);
    assert!(ran.err.contains("shops"), "{ran:?}");
    let ran = shops.run(&["get", "shoes"]).expect_code(2);
    assert!(ran.err.contains("there is no ApplicationSet shoes; `tidegate appset list`"), "{ran:?}");
    shops.run_as("ann", &["refresh", "shops"]).expect_code(0);
    shops.run(&["delete", "shops", "--orphan", "--yes", "--timeout", "10m"]).expect_code(0);
    assert_eq!(shops.bench.json(&["app", "list", "-o", "json"])["items"].as_array().unwrap().len(), 15);
    shops.end();
}

impl Shops {
    pub fn end(&mut self) {
        let serving = self.serving.take().unwrap();
        serving.signal("TERM");
        serving.finish().expect_code(0);
    }
}
