//! The example, served with its page.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::bench::{Bench, Running};
use crate::browser::Browser;
use crate::wire::{self, Answer};

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";
/// What the tests ask is not counted among what a browser does.
const TESTS: &str = "tests-look-as-often-as-they-like";

/// A folder with the example, and what serves it.
pub struct Service {
    pub bench: Bench,
    pub serving: Option<Running>,
    /// `http://127.0.0.1:PORT`.
    pub url: String,
}

/// What the ApplicationSet of the example says of its rollout.
const GATED: &str = "tidegate.dev/rollout: \"steps: [{step: 3, gates: [approval]}]\"";

/// What is different from the example.
#[derive(Default)]
pub struct Different {
    /// What the annotation of its ApplicationSet says of its rollout; without it, no step waits for anybody.
    pub rollout: Option<&'static str>,
    /// Without its ApplicationSet.
    pub has_no_set: bool,
    /// The last wave of the backend waits for approval.
    pub is_gated: bool,
}

/// The example in a folder, committed.
pub fn folder(different: &Different) -> Bench {
    let mut bench = Bench::new();
    // Nothing but the command: there is no git program, nor any other.
    bench.set("PATH", "");
    bench.run(&["example", "fleet"]).expect_code(0);
    let path = |name: &str| -> PathBuf { bench.path().join("fleet").join(name) };
    let replace = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.contains(from), "{name}: {text}");
        fs::write(path(name), text.replace(from, to)).unwrap();
    };
    if different.has_no_set {
        fs::remove_file(path("shops.yaml")).unwrap();
    }
    if !different.has_no_set {
        let rollout = different.rollout.unwrap_or("steps: []");
        replace("shops.yaml", GATED, &format!("tidegate.dev/rollout: '{rollout}'"));
    }
    if different.is_gated {
        let wave = "    argocd.argoproj.io/sync-wave: \"1\"\n";
        replace("repo/backend/backend.yaml", wave, &format!("{wave}    tidegate.dev/gate: approval\n"));
    }
    for shop in ["cart", "catalog", "checkout", "search"] {
        let name = format!("repo/shops/{shop}/{shop}.yaml");
        let text = fs::read_to_string(path(&name)).unwrap();
        let (head, tail) = text.split_once("ready-after: ").unwrap();
        let (_, tail) = tail.split_once('\n').unwrap();
        fs::write(path(&name), format!("{head}ready-after: 200ms\n{tail}")).unwrap();
    }
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    bench.write_closed(
        "tokens",
        format!("ann operator {OPERATOR}\nben read-only {READER}\ntests read-only {TESTS}\n"),
    );
    bench
}

impl Service {
    /// With tokens.
    pub fn new(different: &Different) -> Self {
        Self::in_folder(folder(different))
    }

    pub fn in_folder(bench: Bench) -> Self {
        Self::with(bench, &["--listen", "0", "--tokens", "tokens"])
    }

    pub fn with(bench: Bench, options: &[&str]) -> Self {
        let mut serving = bench.start(&[&["serve", "--sim", "--apps", "fleet"], options].concat());
        let url = format!("http://{}", serving.await_api());
        serving.await_line("serving");
        Self { bench, serving: Some(serving), url }
    }

    /// A browser in which somebody has signed in.
    pub fn browser(&self, token: &str) -> Browser {
        let browser = Browser::new(&self.url);
        browser.open(&format!("/#token={token}"));
        browser.until("document.querySelector('h1')?.textContent === 'Applications'");
        browser
    }

    pub fn ask(&self, method: &str, target: &str, headers: &[&str], body: Option<&Value>) -> Answer {
        wire::ask(self.url.trim_start_matches("http://"), method, target, headers, body)
    }

    /// What the API says to those who may look.
    #[track_caller]
    pub fn get(&self, target: &str) -> Value {
        let ask = || self.ask("GET", target, &[&format!("authorization: Bearer {TESTS}")], None);
        let mut answer = ask();
        while answer.status == 429 {
            let told: Value = serde_json::from_str(&answer.body).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(told["retryAfterSeconds"].as_u64().unwrap()));
            answer = ask();
        }
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Has something done, as the command line has it.
    #[track_caller]
    pub fn post(&self, target: &str, body: &Value) -> Answer {
        let answer = self.ask("POST", target, &[&format!("authorization: Bearer {OPERATOR}")], Some(body));
        assert_eq!(answer.status, 202, "{target}: {}", answer.body);
        answer
    }

    /// Asks until something stands as it should.
    #[track_caller]
    pub fn until(&self, target: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(300);
        loop {
            let found = self.get(target);
            if is_met(&found) {
                return found;
            }
            assert!(std::time::Instant::now() < limit, "{target}: {found:#}");
        }
    }

    /// Waits until these Applications are Synced and Healthy.
    pub fn wait(&self, names: &[&str]) {
        self.bench.run(&[&["app", "wait", "--timeout", "10m"], names].concat()).expect_code(0);
    }

    /// How many comparisons there have been.
    pub fn comparisons(&self) -> u64 {
        let told = self.ask("GET", "/metrics", &[&format!("authorization: Bearer {TESTS}")], None).body;
        let counts = told.lines().filter(|line| line.starts_with("argocd_app_reconcile_count{"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// The id of the newest operation of an Application.
    pub fn newest(&self, application: &str) -> String {
        let found = self.until(&format!("/api/v1/operations?application={application}&limit=1"), |found| {
            !found["items"].as_array().unwrap().is_empty()
        });
        found["items"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Ends what serves, in order.
    pub fn end(mut self) {
        if let Some(serving) = self.serving.take() {
            serving.signal("TERM");
            serving.finish().expect_code(0);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.signal("KILL");
        }
    }
}
