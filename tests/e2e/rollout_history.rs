//! History of rollouts and deletions. It contains the decisions that the tests make, even after a crash,
//! after the removal of the ApplicationSet, and without a running process.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::example_appset::{OPERATOR, Shops, has_ended};

const GATED: &str = "steps: [{step: 1, gates: [approval]}, {step: 3, gates: [approval]}]";

impl Shops {
    fn runs(&self) -> Vec<Value> {
        let list = self.bench.json(&["appset", "runs", "shops", "-o", "json"]);
        list.as_array().unwrap().clone()
    }

    fn show_run(&self, id: &str) -> Value {
        self.bench.json(&["appset", "show-run", id, "-o", "json"])
    }

    /// Starts the service again after the previous process has exited.
    fn restart(&mut self, options: &[&str]) {
        let args = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
        let mut service = self.bench.start(&[&args[..], options].concat());
        self.url = format!("http://{}", service.wait_for_api());
        service.wait_for_line("managing");
        self.service = Some(service);
    }

    /// Returns the status code and the content of the API's response.
    fn get(&self, target: &str) -> (u16, Value) {
        self.request("GET", target)
    }

    fn request(&self, method: &str, target: &str) -> (u16, Value) {
        let ask = || {
            let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
            let head = "content-type: application/json\r\ncontent-length: 2";
            let body =
                if method == "GET" { "\r\n\r\n".to_owned() } else { format!("\r\n{head}\r\n\r\n{{}}") };
            write!(stream, "{method} {target} HTTP/1.0\r\nauthorization: Bearer {OPERATOR}{body}").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            (status, serde_json::from_str(body).unwrap())
        };
        // Retries if the rate limit is reached.
        std::iter::repeat_with(ask).take(3000).find(|(status, _)| *status != 429).unwrap()
    }
}

/// Returns the kind of each decision, the person and the reason.
fn decisions(run: &Value) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let decisions = run["decisions"].as_array().unwrap();
    decisions
        .iter()
        .map(|one| (text(&one["kind"]).unwrap(), text(&one["by"]).unwrap(), text(&one["reason"])))
        .collect()
}

fn decision(kind: &str, by: &str, reason: Option<&str>) -> (String, String, Option<String>) {
    (kind.to_owned(), by.to_owned(), reason.map(str::to_owned))
}

#[test]
fn a_rollout_and_a_deletion_are_inspected_afterwards_despite_kills() {
    let mut shops = Shops::serve(GATED);
    shops.wait_until(|status| status["rollout"]["steps"][0]["status"] == "Held");
    shops.run_as("ann", &["pause", "shops", "--reason", "lunch"]).expect_code(0);
    shops.run(&["resume", "shops"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--reason", "CHG-7"]).expect_code(0);
    shops.wait_until(|status| status["rollout"]["steps"][2]["status"] == "Held");
    // A running rollout is listed with the reason for its wait.
    let under_way = shops.show_run("shops");
    assert_eq!((&under_way["outcome"], &under_way["finishedAt"]), (&Value::Null, &Value::Null));
    assert!(
        under_way["explanation"]["awaited"][0]["subject"].as_str().unwrap().contains("approval"),
        "{under_way:#}"
    );
    let killed = shops.service.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    // If no process is running, the command reads the log.
    assert_eq!(shops.runs().len(), 1);
    shops.restart(&[]);
    shops.run_as("ann", &["skip", "shops", "--app", "prod-cart", "--reason", " moved\n"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--step", "3"]).expect_code(0);
    shops.wait_until(has_ended);
    let [line] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    let id = line["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&line["kind"], &line["outcome"], &line["applicationSet"]),
        (&json!("rollout"), &json!("Completed"), &json!("argocd/shops"))
    );
    assert_eq!((&line["stepsPassed"], &line["steps"]), (&json!(3), &json!(3)));
    let counted = (&line["done"], &line["skipped"], &line["applications"]);
    assert_eq!(counted, (&json!(11), &json!(1), &json!(12)), "a skipped Application is not finished");
    let list = shops.run(&["runs", "shops"]).expect_code(0).out;
    assert!(list.contains("11 of 12, 1 skipped"), "{list}");
    let revision = fs::read_to_string(shops.bench.path().join("fleet/repo/.git/refs/heads/main")).unwrap();
    assert_eq!(line["revisions"], json!([revision.trim()]), "the commit of the branch");

    let run = shops.show_run(&id[..18]);
    let expected = [
        decision("paused", "ann", Some("lunch")),
        decision("resumed", "tester", None),
        decision("approved", "ann", Some("CHG-7")),
        decision("skipped", "ann", Some("moved")),
        decision("approved", "ann", None),
    ];
    assert_eq!(decisions(&run), expected);
    let waits: Vec<(&str, &str)> = run["waits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["subject"].as_str().unwrap(), one["reason"].as_str().unwrap()))
        .collect();
    let waited = [
        ("step 1", "approval, given by ann (CHG-7)"),
        ("the rollout", "paused by ann: lunch"),
        ("step 3", "approval, given by ann"),
    ];
    assert_eq!(waits, waited);
    assert!(run["waits"].as_array().unwrap().iter().all(|one| one["until"].is_string()), "{run:#}");
    // Each Application has a result, and its operation also appears in the list of operations.
    for member in run["rollout"]["members"].as_array().unwrap() {
        let name = member["application"].as_str().unwrap();
        let all = shops.bench.json(&["ops", "list", "--app", name, "-o", "json"]);
        match name {
            "prod-cart" => {
                assert_eq!((&member["outcome"], all.as_array().unwrap().len()), (&json!("Skipped"), 0))
            }
            _ => assert_eq!((&member["status"], &member["operation"]), (&json!("Healthy"), &all[0]["id"])),
        }
    }
    // The API and the exports have the same content.
    assert_eq!(
        shops.run_as("ben", &["show-run", &id, "-o", "json"]).expect_code(0).out,
        shops.run(&["show-run", &id, "-o", "json"]).out
    );
    let text = shops.run(&["show-run", &id]).expect_code(0).out;
    assert_eq!(shops.run_as("ben", &["show-run", "shops"]).expect_code(0).out, text);
    for words in ["ann approved step 1: CHG-7", "paused by ann: lunch", "skipped by ann (moved)", "Completed"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let row = |name: &str| text.lines().find(|row| row.starts_with(name)).unwrap();
    assert!(text.contains("11 of 12, 1 skipped") && text.contains("3/4, 1 skipped"), "{text}");
    assert!(row("prod-cart").contains("Skipped") && !row("prod-cart").contains("Healthy"), "{text}");
    assert!(row("prod-search").contains("Healthy"), "{text}");
    let (status, page) = shops.get(&format!("/api/v1/runs/{id}/log?limit=2"));
    assert_eq!((status, &page["next"], &page["items"][0]["kind"]), (200, &json!(2), &json!("created")));
    let export = ["appset", "export-run", "shops", "-o", "rollout.html"];
    shops.bench.run(&export).expect_code(0);
    let page = fs::read_to_string(shops.bench.path().join("rollout.html")).unwrap();
    assert!(
        page.contains("Rollout of argocd/shops")
            && page.contains("ann approved step 1: CHG-7")
            && page.contains("11 of 12 Healthy, 1 skipped")
            && !page.contains("<script")
    );
    let record = shops.bench.json(&["appset", "export-run", &id]);
    assert_eq!((&record["record"], &record["run"]["id"]), (&json!("tidegate.dev/run/v1"), &json!(id)));
    let log = shops.bench.json(&["appset", "show-run", &id, "--log", "-o", "json"]);
    assert_eq!(record["events"], log);

    // Lists count skipped members separately, in any process.
    let skipped = |shops: &Shops| {
        shops.get("/api/v1/applicationsets?limit=1").1["items"][0]["rollout"]["skipped"].clone()
    };
    assert_eq!(skipped(&shops), 1);
    let killed = shops.service.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    shops.restart(&[]);
    let told = || skipped(&shops);
    assert!(std::iter::repeat_with(told).take(3000).any(|number| number == 1), "{}", skipped(&shops));

    // The record still exists after the ApplicationSet was deleted.
    let why = "moved to another cluster";
    let delete = ["delete", "shops", "--yes", "--timeout", "10m", "--reason", why];
    shops.run_as("ann", &delete).expect_code(0);
    assert_eq!(shops.bench.json(&["appset", "list", "-o", "json"])["items"], json!([]));
    let [rollout, deletion] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    assert_eq!(
        (&rollout["id"], &deletion["kind"], &deletion["outcome"]),
        (&json!(id), &json!("deletion"), &json!("Completed"))
    );
    let run = shops.show_run("shops");
    assert_eq!(run["id"], deletion["id"], "the name of an ApplicationSet selects the newest run");
    assert_eq!((&run["initiatedBy"], &run["reason"]), (&json!("ann"), &json!(why)));
    assert_eq!((&rollout["reason"], &deletion["reason"]), (&Value::Null, &json!(why)), "in the list too");
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    assert!(text.contains(&format!("started by ann ({why}): 12 Applications will be deleted")), "{text}");
    let export = ["appset", "export-run", "shops", "-o", "deletion.html"];
    shops.bench.run(&export).expect_code(0);
    let page = fs::read_to_string(shops.bench.path().join("deletion.html")).unwrap();
    assert!(page.contains("Requested by") && page.contains("Reason") && page.contains(why), "{page}");
    let members = run["deletion"]["members"].as_array().unwrap();
    assert!(members.len() == 12 && members.iter().all(|one| one["status"] == "Deleted"), "{run:#}");
    let (status, list) = shops.get("/api/v1/runs?applicationSet=argocd/shops&limit=1");
    assert_eq!((status, &list["total"], &list["items"][0]["id"]), (200, &json!(2), &deletion["id"]));
    let (_, rest) = shops.get(&format!(
        "/api/v1/runs?applicationSet=argocd/shops&limit=1&page={}",
        list["next"].as_str().unwrap()
    ));
    assert_eq!((&rest["items"][0]["id"], &rest["next"]), (&json!(id), &Value::Null));
    assert_eq!(shops.get("/api/v1/runs?kind=deletion").1["items"].as_array().unwrap().len(), 1);
    assert_eq!(shops.get("/api/v1/runs?applicationSet=argocd/other").1["total"], 0);
    let as_it_was = shops.run(&["show-run", &id, "--log"]).out;
    shops.stop();
    // Much later, without a running process, the output is still the same.
    assert_eq!(shops.run(&["show-run", &id, "--log"]).expect_code(0).out, as_it_was);
    let refused = shops.bench.run(&["ops", "show", &id]).expect_code(4);
    assert!(refused.err.contains(&format!("tidegate appset show-run {id}")), "{}", refused.err);
}

#[test]
fn the_user_who_restarted_a_rollout_is_recorded_despite_a_kill() {
    let mut shops = Shops::serve("steps: [{step: 1, gates: [approval]}]");
    let is_held = |status: &Value| status["rollout"]["steps"][0]["status"] == "Held";
    let is_over = |status: &Value| status["rollout"]["outcome"] == "Terminated";
    let terminate = ["terminate", "shops", "--reason", "stop"];
    shops.wait_until(is_held);
    shops.run_as("ann", &terminate).expect_code(0);
    shops.wait_until(is_over);
    shops.run_as("ann", &["retry", "shops", "--reason", "the window is open"]).expect_code(0);
    let killed = shops.service.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    shops.restart(&[]);
    let status = shops.wait_until(is_held);
    let request = (json!("ann"), json!("the window is open"));
    assert_eq!((&status["rollout"]["initiatedBy"], &status["rollout"]["reason"]), (&request.0, &request.1));
    let [first, second] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    assert_eq!(
        (&first["initiatedBy"], &first["reason"]),
        (&json!("applicationset-controller"), &Value::Null)
    );
    assert_eq!((&second["initiatedBy"], &second["reason"]), (&request.0, &request.1));
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    assert!(text.contains("started by ann (the window is open): 12 Applications"), "{text}");
    let events = shops.bench.json(&["appset", "show-run", "shops", "--log", "-o", "json"]);
    assert_eq!((&events[0]["by"], &events[0]["reason"]), (&request.0, &request.1));
    // The start is recorded, and the command no longer waits.
    let noted = || {
        let set = shops.bench.json(&["appset", "get", "shops", "-o", "json"]);
        set["metadata"]["annotations"]["tidegate.dev/retry-requested-by"].clone()
    };
    assert!(std::iter::repeat_with(noted).take(3000).any(|noted| noted.is_null()), "{}", noted());

    // If a process recorded a request but was killed before it started the rollout, the next process starts
    // it.
    shops.run_as("ann", &terminate).expect_code(0);
    shops.wait_until(is_over);
    shops.stop();
    let path = shops.bench.path().join("fleet/shops.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let request =
        json!({"by": "ben", "reason": "CHG-8", "at": "2026-11-26T05:00:00Z", "after": second["id"]});
    let annotations = format!("  annotations:\n    tidegate.dev/retry-requested-by: '{request}'\n");
    fs::write(&path, text.replacen("  annotations:\n", &annotations, 1)).unwrap();
    shops.restart(&[]);
    let status = shops.wait_until(|status| is_held(status) && status["rollout"]["initiatedBy"] == "ben");
    assert_eq!(status["rollout"]["reason"], "CHG-8");
    // The next process starts the rollout only once, because later requests concern the previous rollout.
    shops.run_as("ann", &terminate).expect_code(0);
    shops.wait_until(is_over);
    shops.stop();
    shops.restart(&[]);
    shops.run_as("ann", &["retry", "shops"]).expect_code(0);
    shops.wait_until(is_held);
    let by: Vec<Value> = shops.runs().iter().map(|run| run["initiatedBy"].clone()).collect();
    assert_eq!(by, ["applicationset-controller", "ann", "ben", "ann"]);
    shops.stop();
}

#[test]
fn runs_beyond_the_history_have_a_summary_and_unknown_ones_are_missing() {
    let mut shops = Shops::serve("steps: []");
    shops.wait_until(has_ended);
    let id = shops.runs()[0]["id"].as_str().unwrap().to_owned();
    let events =
        shops.bench.json(&["appset", "show-run", &id, "--log", "-o", "json"]).as_array().unwrap().len();
    let path = shops.bench.path().join("fleet/repo/shops/cart/cart.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("ready-after: 200ms", "ready-after: 100ms")).unwrap();
    shops.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    for env in ["dev", "qa", "prod"] {
        for shop in ["cart", "catalog", "checkout", "search"] {
            shops.bench.run(&["app", "refresh", &format!("{env}-{shop}")]).expect_code(0);
        }
    }
    let two = || shops.runs().len() == 2 && shops.runs()[1]["outcome"] == "Completed";
    let is_over = std::iter::repeat_with(two).take(3000).any(|both| both);
    assert!(is_over, "{:#?}\n{:?}", shops.runs(), shops.run(&["explain", "shops"]));
    let before = shops.runs();
    shops.stop();
    shops.restart(&["--history", "1"]);
    shops.stop();
    shops.restart(&["--history", "1"]);
    assert_eq!(shops.runs(), before, "the lines are kept");
    let ran = shops.run(&["show-run", &id]).expect_code(0);
    assert!(ran.err.contains("were compacted") && ran.err.contains("--history"), "{}", ran.err);
    assert!(ran.out.contains("Completed") && !ran.out.contains("APPLICATION"), "{}", ran.out);
    let (status, told) = shops.get(&format!("/api/v1/runs/{id}"));
    assert_eq!((status, &told["compactedEvents"], &told["rollout"]), (200, &json!(events), &Value::Null));
    assert_eq!(told["initiatedBy"], before[0]["initiatedBy"]);
    let (status, problem) = shops.get(&format!("/api/v1/runs/{id}/log"));
    assert_eq!((status, &problem["code"]), (410, &json!("gone")));
    let nobody = "01a1fdbf-da23-70f8-b7a6-18e4810d225a";
    for target in
        [format!("/api/v1/runs/{nobody}"), format!("/api/v1/runs/{nobody}/log"), "/api/v1/runs/x".to_owned()]
    {
        let (status, problem) = shops.get(&target);
        assert_eq!((status, &problem["code"]), (404, &json!("not-found")), "{target}");
    }
    // Commands for operations must report that the ID belongs to a rollout or a deletion.
    let parts = ["", "/explain", "/events", "/log", "/logs", "/output", "/export", "/export.html"];
    let steps = ["terminate", "pause", "unpause", "confirm", "approve"];
    for run in shops.runs() {
        let (id, kind) = (run["id"].as_str().unwrap(), run["kind"].as_str().unwrap());
        let looks = parts.map(|part| ("GET", format!("/api/v1/operations/{id}{part}")));
        let steers = steps.map(|step| ("POST", format!("/api/v1/operations/{id}/{step}")));
        for (method, target) in looks.into_iter().chain(steers) {
            let (status, problem) = shops.request(method, &target);
            assert_eq!((status, &problem["code"]), (404, &json!("not-found")), "{target}: {problem}");
            let message = problem["message"].as_str().unwrap();
            assert!(message.contains(&format!("{kind} of an ApplicationSet, not an operation")), "{message}");
            assert!(message.contains(&format!("tidegate appset show-run {id}")), "{message}");
            assert_eq!(problem["hint"], format!("use /api/v1/runs/{id}"), "{target}");
        }
    }
    // An operation's ID isn't accepted as a rollout's.
    let operation = shops.bench.json(&["ops", "list", "-o", "json"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(shops.get(&format!("/api/v1/runs/{operation}")).0, 404);
    for (args, code) in
        [(&["show-run", nobody][..], 2), (&["show-run", "shoes"], 2), (&["export-run", &operation], 2)]
    {
        let ran = shops.run(args).expect_code(code);
        assert!(ran.err.contains("`tidegate appset runs`"), "{}", ran.err);
    }
    // Both IDs have the same prefix.
    let both = &id[..1];
    let ran = shops.run(&["show-run", both]).expect_code(2);
    assert!(ran.err.contains("use more digits of the ID"), "{}", ran.err);
    let none = shops.run(&["runs", "shoes"]).expect_code(0);
    assert!(
        none.out.is_empty() && none.err.contains("no rollouts or deletions of shoes are recorded"),
        "{}",
        none.err
    );
    shops.stop();
}

impl Shops {
    /// Starts the example without a deletion order, and waits until it is completely rolled out.
    fn without_order() -> Self {
        let shops = Self::serve("steps: []");
        shops.wait_until(has_ended);
        let path = shops.bench.path().join("fleet/shops.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("    deletionOrder: Reverse\n"));
        fs::write(&path, text.replace("    deletionOrder: Reverse\n", "")).unwrap();
        let is_read = || is_without_order(&shops.bench.json(&["appset", "get", "shops", "-o", "json"]));
        assert!(std::iter::repeat_with(is_read).take(3000).any(|is_read| is_read));
        shops
    }

    /// Waits until the recorded deletion of the ApplicationSet satisfies a predicate.
    #[track_caller]
    fn wait_for_deletion(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = || {
            let line = self.runs().into_iter().find(|one| one["kind"] == "deletion")?;
            let run = self.show_run(line["id"].as_str().unwrap());
            is_met(&run).then_some(run)
        };
        std::iter::repeat_with(found)
            .take(3000)
            .flatten()
            .next()
            .unwrap_or_else(|| panic!("{:#?}", self.runs()))
    }
}

fn is_without_order(set: &Value) -> bool {
    set["spec"]["strategy"]["deletionOrder"].as_str().unwrap_or_default().is_empty()
}

fn count_with_status(run: &Value, status: &str) -> usize {
    let members = run["deletion"]["members"].as_array().unwrap();
    members.iter().filter(|one| one["status"] == status).count()
}

#[test]
fn an_unordered_deletion_is_recorded_despite_kills() {
    let mut shops = Shops::without_order();
    let why = "moved to another cluster";
    shops.run_as("ann", &["delete", "shops", "--yes", "--async", "--reason", why]).expect_code(0);
    let under_way = shops.wait_for_deletion(|_| true);
    assert_eq!((&under_way["initiatedBy"], &under_way["reason"]), (&json!("ann"), &json!(why)));
    assert_eq!(under_way["applications"], 12, "all events from the first");
    let killed = shops.service.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    // If no process is running, the command reads the log.
    let left = shops.wait_for_deletion(|_| true);
    assert_eq!((&left["id"], &left["applications"]), (&under_way["id"], &json!(12)));
    shops.restart(&[]);
    let run = shops.wait_for_deletion(|run| run["finishedAt"].is_string());
    assert_eq!(
        (&run["id"], &run["outcome"], &run["done"]),
        (&under_way["id"], &json!("Completed"), &json!(12))
    );
    assert_eq!(
        (&run["deletion"]["order"], count_with_status(&run, "Deleted")),
        (&json!("AllAtOnce"), 12),
        "{run:#}"
    );
    let steps = json!([{"step": 1, "selector": "all Applications", "members": 12, "maxUpdate": null}]);
    assert_eq!(run["deletion"]["steps"], steps);
    assert_eq!(run["message"], "12 Applications are gone");
    let sets = || shops.bench.json(&["appset", "list", "-o", "json"])["items"] == json!([]);
    assert!(std::iter::repeat_with(sets).take(3000).any(|is_gone| is_gone));
    assert_eq!(shops.runs().len(), 2, "one rollout and one deletion");
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    let begun = format!(
        "started by ann ({why}): 12 Applications will be deleted with their ApplicationSet, all at once"
    );
    assert!(text.contains(&begun) && text.contains("prod-cart: was deleted"), "{text}");
    assert_eq!(shops.get("/api/v1/runs?kind=deletion").1["items"][0]["id"], run["id"]);
    shops.stop();
    assert_eq!(shops.run(&["show-run", "shops", "--log"]).expect_code(0).out, text);
}

#[test]
fn applications_that_outlive_their_appset_are_recorded() {
    let mut shops = Shops::without_order();
    let delete = ["delete", "shops", "--yes", "--orphan", "--timeout", "10m", "--reason", "kept"];
    shops.run_as("ann", &delete).expect_code(0);
    let run = shops.wait_for_deletion(|run| run["finishedAt"].is_string());
    assert_eq!((&run["initiatedBy"], &run["reason"]), (&json!("ann"), &json!("kept")));
    assert_eq!(
        (&run["outcome"], &run["message"]),
        (&json!("Completed"), &json!("12 Applications are released"))
    );
    assert_eq!(
        (&run["deletion"]["order"], count_with_status(&run, "Released")),
        (&json!("Orphan"), 12),
        "{run:#}"
    );
    let list = shops.run(&["runs", "shops"]).expect_code(0).out;
    assert!(list.contains("12 of 12") && list.contains("are released"), "{list}");
    let text = shops.run(&["show-run", "shops"]).expect_code(0).out;
    assert!(text.contains("RELEASED") && text.contains("12/12") && text.contains("Released"), "{text}");
    let applications = shops.bench.json(&["app", "list", "-o", "json"]);
    let names = applications["items"].as_array().unwrap().iter();
    assert!(
        names
            .filter(|one| one["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("prod-")))
            .count()
            >= 4,
        "{applications:#}"
    );
    shops.stop();
}
