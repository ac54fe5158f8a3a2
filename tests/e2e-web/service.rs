//! The example, managed by a service that serves the web page.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::bench::{Bench, Running};
use crate::browser::Browser;
use crate::http::{self, HttpResponse};

pub const OPERATOR: &str = "operators-may-have-things-done";
pub const READER: &str = "readers-may-look-and-no-more";
/// A separate token, so that requests by the tests don't count against the browser's rate limit.
const TESTS: &str = "tests-look-as-often-as-they-like";

/// A folder with the example, and the service that manages it.
pub struct Service {
    pub bench: Bench,
    pub service: Option<Running>,
    /// URL of the service: `http://127.0.0.1:PORT`.
    pub url: String,
}

/// Rollout annotation of the example's ApplicationSet.
const GATED: &str = "tidegate.dev/rollout: \"steps: [{step: 3, gates: [approval]}]\"";

/// Differences from the example.
#[derive(Default)]
pub struct ExampleOptions {
    /// Rollout annotation of the ApplicationSet. If it isn't set, no step waits for an approval.
    pub rollout: Option<&'static str>,
    /// True to remove the ApplicationSet.
    pub has_no_appset: bool,
    /// True to make the last wave of the backend wait for approval.
    pub is_gated: bool,
}

/// Creates the example in a folder and commits it.
pub fn example_folder(different: &ExampleOptions) -> Bench {
    let mut bench = Bench::new();
    // Makes sure that neither git nor any other program is available.
    bench.set_variable("PATH", "");
    bench.run(&["example", "fleet"]).expect_code(0);
    let path = |name: &str| -> PathBuf { bench.path().join("fleet").join(name) };
    let replace = |name: &str, from: &str, to: &str| {
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.contains(from), "{name}: {text}");
        fs::write(path(name), text.replace(from, to)).unwrap();
    };
    if different.has_no_appset {
        fs::remove_file(path("shops.yaml")).unwrap();
    }
    if !different.has_no_appset {
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
    bench.write_private(
        "tokens",
        format!("ann operator {OPERATOR}\nben read-only {READER}\ntests read-only {TESTS}\n"),
    );
    bench
}

impl Service {
    /// Starts the service with tokens.
    pub fn new(different: &ExampleOptions) -> Self {
        Self::in_folder(example_folder(different))
    }

    pub fn in_folder(bench: Bench) -> Self {
        Self::with_options(bench, &["--listen", "0", "--tokens", "tokens"])
    }

    pub fn with_options(bench: Bench, options: &[&str]) -> Self {
        let mut service = bench.start(&[&["serve", "--sim", "--apps", "fleet"], options].concat());
        let url = format!("http://{}", service.wait_for_api());
        service.wait_for_line("managing");
        Self { bench, service: Some(service), url }
    }

    /// Returns a browser in which a user with this token is signed in.
    pub fn browser(&self, token: &str) -> Browser {
        let browser = Browser::new(&self.url);
        browser.open(&format!("/#token={token}"));
        browser.wait_until("document.querySelector('h1')?.textContent === 'Applications'");
        browser
    }

    pub fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[&str],
        body: Option<&Value>,
    ) -> HttpResponse {
        http::send_request(self.url.trim_start_matches("http://"), method, target, headers, body)
    }

    /// Returns the API's response to a user with read-only access.
    #[track_caller]
    pub fn get(&self, target: &str) -> Value {
        let ask = || self.request("GET", target, &[&format!("authorization: Bearer {TESTS}")], None);
        let mut answer = ask();
        while answer.status == 429 {
            let response: Value = serde_json::from_str(&answer.body).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(
                response["retryAfterSeconds"].as_u64().unwrap(),
            ));
            answer = ask();
        }
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Sends an action as the command line does.
    #[track_caller]
    pub fn post(&self, target: &str, body: &Value) -> HttpResponse {
        let answer =
            self.request("POST", target, &[&format!("authorization: Bearer {OPERATOR}")], Some(body));
        assert_eq!(answer.status, 202, "{target}: {}", answer.body);
        answer
    }

    /// Polls until a resource satisfies a predicate.
    #[track_caller]
    pub fn wait_until(&self, target: &str, is_met: impl Fn(&Value) -> bool) -> Value {
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
    pub fn wait_until_synced(&self, names: &[&str]) {
        self.bench.run(&[&["app", "wait", "--timeout", "10m"], names].concat()).expect_code(0);
    }

    /// Returns the number of comparisons so far.
    pub fn comparisons(&self) -> u64 {
        let response =
            self.request("GET", "/metrics", &[&format!("authorization: Bearer {TESTS}")], None).body;
        let counts = response.lines().filter(|line| line.starts_with("argocd_app_reconcile_count{"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Returns the id of the newest operation of an Application.
    pub fn newest_operation(&self, application: &str) -> String {
        let found = self
            .wait_until(&format!("/api/v1/operations?application={application}&limit=1"), |found| {
                !found["items"].as_array().unwrap().is_empty()
            });
        found["items"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Stops the service cleanly.
    pub fn stop(mut self) {
        if let Some(service) = self.service.take() {
            service.signal("TERM");
            service.finish().expect_code(0);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(service) = self.service.take() {
            service.signal("KILL");
        }
    }
}
