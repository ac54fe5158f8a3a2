//! The record of rollouts and deletions: what was decided is what the tests decided, also after a kill, also when the
//! ApplicationSet is gone, and without a process at work.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::shops::{OPERATOR, Shops, has_ended};

const GATED: &str = "steps: [{step: 1, gates: [approval]}, {step: 3, gates: [approval]}]";

impl Shops {
    fn runs(&self) -> Vec<Value> {
        let list = self.bench.json(&["appset", "runs", "shops", "-o", "json"]);
        list.as_array().unwrap().clone()
    }

    fn shown(&self, id: &str) -> Value {
        self.bench.json(&["appset", "show-run", id, "-o", "json"])
    }

    /// Serves it again, after the process has ended.
    fn again(&mut self, options: &[&str]) {
        let args = ["serve", "--sim", "--apps", "fleet", "--listen", "0", "--tokens", "tokens"];
        let mut serving = self.bench.start(&[&args[..], options].concat());
        self.url = format!("http://{}", serving.await_api());
        serving.await_line("serving");
        self.serving = Some(serving);
    }

    /// What the API says, and its status.
    fn get(&self, target: &str) -> (u16, Value) {
        self.ask("GET", target)
    }

    fn ask(&self, method: &str, target: &str) -> (u16, Value) {
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
        // Whoever has asked often waits for their turn.
        std::iter::repeat_with(ask).take(3000).find(|(status, _)| *status != 429).unwrap()
    }
}

/// Who decided what, and why.
fn decisions(run: &Value) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let decisions = run["decisions"].as_array().unwrap();
    decisions
        .iter()
        .map(|one| (text(&one["kind"]).unwrap(), text(&one["by"]).unwrap(), text(&one["reason"])))
        .collect()
}

fn decided(kind: &str, by: &str, why: Option<&str>) -> (String, String, Option<String>) {
    (kind.to_owned(), by.to_owned(), why.map(str::to_owned))
}

#[test]
fn a_rollout_and_a_deletion_are_looked_at_afterwards_whatever_died_in_between() {
    let mut shops = Shops::serve(GATED);
    shops.until(|status| status["rollout"]["steps"][0]["status"] == "Held");
    shops.run_as("ann", &["pause", "shops", "--reason", "lunch"]).expect_code(0);
    shops.run(&["resume", "shops"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--reason", "CHG-7"]).expect_code(0);
    shops.until(|status| status["rollout"]["steps"][2]["status"] == "Held");
    // What is under way is in the list, and says what it waits for.
    let under_way = shops.shown("shops");
    assert_eq!((&under_way["end"], &under_way["finishedAt"]), (&Value::Null, &Value::Null));
    assert!(
        under_way["explanation"]["awaited"][0]["what"].as_str().unwrap().contains("approval"),
        "{under_way:#}"
    );
    let killed = shops.serving.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    // Nobody is at work, and the log is read.
    assert_eq!(shops.runs().len(), 1);
    shops.again(&[]);
    shops.run_as("ann", &["skip", "shops", "--app", "prod-cart", "--reason", " moved\n"]).expect_code(0);
    shops.run_as("ann", &["approve", "shops", "--step", "3"]).expect_code(0);
    shops.until(has_ended);
    let [line] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    let id = line["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&line["kind"], &line["end"], &line["set"]),
        (&json!("rollout"), &json!("Completed"), &json!("argocd/shops"))
    );
    assert_eq!((&line["stepsPassed"], &line["steps"]), (&json!(3), &json!(3)));
    let counted = (&line["done"], &line["skipped"], &line["applications"]);
    assert_eq!(counted, (&json!(11), &json!(1), &json!(12)), "who was skipped is not done");
    let list = shops.run(&["runs", "shops"]).expect_code(0).out;
    assert!(list.contains("11 of 12, 1 skipped"), "{list}");
    let revision = fs::read_to_string(shops.bench.path().join("fleet/repo/.git/refs/heads/main")).unwrap();
    assert_eq!(line["revisions"], json!([revision.trim()]), "what the branch means");

    let run = shops.shown(&id[..18]);
    let expected = [
        decided("paused", "ann", Some("lunch")),
        decided("resumed", "tester", None),
        decided("approved", "ann", Some("CHG-7")),
        decided("skipped", "ann", Some("moved")),
        decided("approved", "ann", None),
    ];
    assert_eq!(decisions(&run), expected);
    let waits: Vec<(&str, &str)> = run["waits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["what"].as_str().unwrap(), one["why"].as_str().unwrap()))
        .collect();
    let waited = [
        ("step 1", "approval, given by ann (CHG-7)"),
        ("the rollout", "held by ann: lunch"),
        ("step 3", "approval, given by ann"),
    ];
    assert_eq!(waits, waited);
    assert!(run["waits"].as_array().unwrap().iter().all(|one| one["until"].is_string()), "{run:#}");
    // Each Application with its end, by the operation that the list of operations has too.
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
    // The same by the API, and as files.
    assert_eq!(
        shops.run_as("ben", &["show-run", &id, "-o", "json"]).expect_code(0).out,
        shops.run(&["show-run", &id, "-o", "json"]).out
    );
    let text = shops.run(&["show-run", &id]).expect_code(0).out;
    assert_eq!(shops.run_as("ben", &["show-run", "shops"]).expect_code(0).out, text);
    for words in ["ann approves step 1: CHG-7", "held by ann: lunch", "skipped by ann (moved)", "Completed"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let row = |name: &str| text.lines().find(|row| row.starts_with(name)).unwrap();
    assert!(text.contains("11 of 12, 1 skipped") && text.contains("3/4, 1 skipped"), "{text}");
    assert!(row("prod-cart").contains("Skipped") && !row("prod-cart").contains("Healthy"), "{text}");
    assert!(row("prod-search").contains("Healthy"), "{text}");
    let (status, page) = shops.get(&format!("/api/v1/runs/{id}/log?limit=2"));
    assert_eq!((status, &page["next"], &page["items"][0]["kind"]), (200, &json!(2), &json!("begun")));
    let export = ["appset", "export-run", "shops", "-o", "rollout.html"];
    shops.bench.run(&export).expect_code(0);
    let page = fs::read_to_string(shops.bench.path().join("rollout.html")).unwrap();
    assert!(
        page.contains("Rollout of argocd/shops")
            && page.contains("ann approves step 1: CHG-7")
            && page.contains("11 of 12 Healthy, 1 skipped")
            && !page.contains("<script")
    );
    let record = shops.bench.json(&["appset", "export-run", &id]);
    assert_eq!((&record["record"], &record["run"]["id"]), (&json!("tidegate.dev/run/v1"), &json!(id)));
    let log = shops.bench.json(&["appset", "show-run", &id, "--log", "-o", "json"]);
    assert_eq!(record["facts"], log);

    // Lists count who was skipped apart, whichever process is asked.
    let skipped = |shops: &Shops| {
        shops.get("/api/v1/applicationsets?limit=1").1["items"][0]["rollout"]["skipped"].clone()
    };
    assert_eq!(skipped(&shops), 1);
    let killed = shops.serving.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    shops.again(&[]);
    let told = || skipped(&shops);
    assert!(std::iter::repeat_with(told).take(3000).any(|number| number == 1), "{}", skipped(&shops));

    // The set goes, and what was recorded of it stays.
    let why = "moved to another cluster";
    let delete = ["delete", "shops", "--yes", "--timeout", "10m", "--reason", why];
    shops.run_as("ann", &delete).expect_code(0);
    assert_eq!(shops.bench.json(&["appset", "list", "-o", "json"])["items"], json!([]));
    let [rollout, deletion] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    assert_eq!(
        (&rollout["id"], &deletion["kind"], &deletion["end"]),
        (&json!(id), &json!("deletion"), &json!("Completed"))
    );
    let run = shops.shown("shops");
    assert_eq!(run["id"], deletion["id"], "the name of a set means the newest");
    assert_eq!((&run["by"], &run["reason"]), (&json!("ann"), &json!(why)));
    assert_eq!((&rollout["reason"], &deletion["reason"]), (&Value::Null, &json!(why)), "in the list too");
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    assert!(text.contains(&format!("begun by ann ({why}): 12 Applications are to be deleted")), "{text}");
    let export = ["appset", "export-run", "shops", "-o", "deletion.html"];
    shops.bench.run(&export).expect_code(0);
    let page = fs::read_to_string(shops.bench.path().join("deletion.html")).unwrap();
    assert!(page.contains("Asked for by") && page.contains("Why") && page.contains(why), "{page}");
    let members = run["deletion"]["members"].as_array().unwrap();
    assert!(members.len() == 12 && members.iter().all(|one| one["status"] == "Gone"), "{run:#}");
    let (status, list) = shops.get("/api/v1/runs?applicationSet=argocd/shops&limit=1");
    assert_eq!((status, &list["matching"], &list["items"][0]["id"]), (200, &json!(2), &deletion["id"]));
    let (_, rest) = shops.get(&format!(
        "/api/v1/runs?applicationSet=argocd/shops&limit=1&page={}",
        list["next"].as_str().unwrap()
    ));
    assert_eq!((&rest["items"][0]["id"], &rest["next"]), (&json!(id), &Value::Null));
    assert_eq!(shops.get("/api/v1/runs?kind=deletion").1["items"].as_array().unwrap().len(), 1);
    assert_eq!(shops.get("/api/v1/runs?applicationSet=argocd/other").1["matching"], 0);
    let as_it_was = shops.run(&["show-run", &id, "--log"]).out;
    shops.end();
    // Long after, without a process: the same.
    assert_eq!(shops.run(&["show-run", &id, "--log"]).expect_code(0).out, as_it_was);
    let refused = shops.bench.run(&["ops", "show", &id]).expect_code(4);
    assert!(refused.err.contains(&format!("tidegate appset show-run {id}")), "{}", refused.err);
}

#[test]
fn who_has_an_ended_rollout_begun_again_is_in_its_record_and_is_kept_by_a_kill() {
    let mut shops = Shops::serve("steps: [{step: 1, gates: [approval]}]");
    let is_held = |status: &Value| status["rollout"]["steps"][0]["status"] == "Held";
    let is_over = |status: &Value| status["rollout"]["end"] == "Terminated";
    let terminate = ["terminate", "shops", "--reason", "stop"];
    shops.until(is_held);
    shops.run_as("ann", &terminate).expect_code(0);
    shops.until(is_over);
    shops.run_as("ann", &["retry", "shops", "--reason", "the window is open"]).expect_code(0);
    let killed = shops.serving.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    shops.again(&[]);
    let status = shops.until(is_held);
    let asked = (json!("ann"), json!("the window is open"));
    assert_eq!((&status["rollout"]["by"], &status["rollout"]["reason"]), (&asked.0, &asked.1));
    let [first, second] = &shops.runs()[..] else { panic!("{:#?}", shops.runs()) };
    assert_eq!((&first["by"], &first["reason"]), (&json!("applicationset-controller"), &Value::Null));
    assert_eq!((&second["by"], &second["reason"]), (&asked.0, &asked.1));
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    assert!(text.contains("begun by ann (the window is open): 12 Applications"), "{text}");
    let facts = shops.bench.json(&["appset", "show-run", "shops", "--log", "-o", "json"]);
    assert_eq!((&facts[0]["by"], &facts[0]["reason"]), (&asked.0, &asked.1));
    // It was begun, and nobody waits for it any more.
    let noted = || {
        let set = shops.bench.json(&["appset", "get", "shops", "-o", "json"]);
        set["metadata"]["annotations"]["tidegate.dev/retry-requested-by"].clone()
    };
    assert!(std::iter::repeat_with(noted).take(3000).any(|noted| noted.is_null()), "{}", noted());

    // What a process has written down and not begun before it died, the next one begins.
    shops.run_as("ann", &terminate).expect_code(0);
    shops.until(is_over);
    shops.end();
    let path = shops.bench.path().join("fleet/shops.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let asked = json!({"by": "ben", "reason": "CHG-8", "at": "2026-11-26T05:00:00Z", "after": second["id"]});
    let annotations = format!("  annotations:\n    tidegate.dev/retry-requested-by: '{asked}'\n");
    fs::write(&path, text.replacen("  annotations:\n", &annotations, 1)).unwrap();
    shops.again(&[]);
    let status = shops.until(|status| is_held(status) && status["rollout"]["by"] == "ben");
    assert_eq!(status["rollout"]["reason"], "CHG-8");
    // And once: what is said after it has begun is about the rollout before.
    shops.run_as("ann", &terminate).expect_code(0);
    shops.until(is_over);
    shops.end();
    shops.again(&[]);
    shops.run_as("ann", &["retry", "shops"]).expect_code(0);
    shops.until(is_held);
    let by: Vec<Value> = shops.runs().iter().map(|run| run["by"].clone()).collect();
    assert_eq!(by, ["applicationset-controller", "ann", "ben", "ann"]);
    shops.end();
}

#[test]
fn what_is_older_than_history_has_its_line_and_what_never_was_is_not_there() {
    let mut shops = Shops::serve("steps: []");
    shops.until(has_ended);
    let id = shops.runs()[0]["id"].as_str().unwrap().to_owned();
    let facts =
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
    let two = || shops.runs().len() == 2 && shops.runs()[1]["end"] == "Completed";
    let is_over = std::iter::repeat_with(two).take(3000).any(|both| both);
    assert!(is_over, "{:#?}\n{:?}", shops.runs(), shops.run(&["explain", "shops"]));
    let before = shops.runs();
    shops.end();
    shops.again(&["--history", "1"]);
    shops.end();
    shops.again(&["--history", "1"]);
    assert_eq!(shops.runs(), before, "lines stay");
    let ran = shops.run(&["show-run", &id]).expect_code(0);
    assert!(ran.err.contains("were compacted") && ran.err.contains("--history"), "{}", ran.err);
    assert!(ran.out.contains("Completed") && !ran.out.contains("APPLICATION"), "{}", ran.out);
    let (status, told) = shops.get(&format!("/api/v1/runs/{id}"));
    assert_eq!((status, &told["compacted"], &told["rollout"]), (200, &json!(facts), &Value::Null));
    assert_eq!(told["by"], before[0]["by"]);
    let (status, problem) = shops.get(&format!("/api/v1/runs/{id}/log"));
    assert_eq!((status, &problem["code"]), (410, &json!("gone")));
    let nobody = "01a1fdbf-da23-70f8-b7a6-18e4810d225a";
    for target in
        [format!("/api/v1/runs/{nobody}"), format!("/api/v1/runs/{nobody}/log"), "/api/v1/runs/x".to_owned()]
    {
        let (status, problem) = shops.get(&target);
        assert_eq!((status, &problem["code"]), (404, &json!("not-found")), "{target}");
    }
    // A rollout is no operation, and neither is a deletion: whoever takes one for that is told what it is.
    let parts = ["", "/explain", "/events", "/log", "/logs", "/output", "/export", "/export.html"];
    let steps = ["terminate", "pause", "unpause", "confirm", "approve"];
    for run in shops.runs() {
        let (id, kind) = (run["id"].as_str().unwrap(), run["kind"].as_str().unwrap());
        let looks = parts.map(|part| ("GET", format!("/api/v1/operations/{id}{part}")));
        let steers = steps.map(|step| ("POST", format!("/api/v1/operations/{id}/{step}")));
        for (method, target) in looks.into_iter().chain(steers) {
            let (status, problem) = shops.ask(method, &target);
            assert_eq!((status, &problem["code"]), (404, &json!("not-found")), "{target}: {problem}");
            let message = problem["message"].as_str().unwrap();
            assert!(message.contains(&format!("{kind} of an ApplicationSet and no operation")), "{message}");
            assert!(message.contains(&format!("tidegate appset show-run {id}")), "{message}");
            assert_eq!(problem["next"], format!("ask for /api/v1/runs/{id}"), "{target}");
        }
    }
    // An operation is no rollout.
    let operation = shops.bench.json(&["ops", "list", "-o", "json"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(shops.get(&format!("/api/v1/runs/{operation}")).0, 404);
    for (args, code) in
        [(&["show-run", nobody][..], 2), (&["show-run", "shoes"], 2), (&["export-run", &operation], 2)]
    {
        let ran = shops.run(args).expect_code(code);
        assert!(ran.err.contains("`tidegate appset runs`"), "{}", ran.err);
    }
    // Both begin alike.
    let both = &id[..1];
    let ran = shops.run(&["show-run", both]).expect_code(2);
    assert!(ran.err.contains("write more of the id"), "{}", ran.err);
    let none = shops.run(&["runs", "shoes"]).expect_code(0);
    assert!(
        none.out.is_empty() && none.err.contains("no rollout and no deletion of shoes is recorded"),
        "{}",
        none.err
    );
    shops.end();
}

impl Shops {
    /// The example without an order of deletion, all of it rolled out.
    fn without_order() -> Self {
        let shops = Self::serve("steps: []");
        shops.until(has_ended);
        let path = shops.bench.path().join("fleet/shops.yaml");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("    deletionOrder: Reverse\n"));
        fs::write(&path, text.replace("    deletionOrder: Reverse\n", "")).unwrap();
        let is_read = || is_without_order(&shops.bench.json(&["appset", "get", "shops", "-o", "json"]));
        assert!(std::iter::repeat_with(is_read).take(3000).any(|is_read| is_read));
        shops
    }

    /// The deletion of the set, once that is in the record as it should be.
    #[track_caller]
    fn deletion(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let found = || {
            let line = self.runs().into_iter().find(|one| one["kind"] == "deletion")?;
            let run = self.shown(line["id"].as_str().unwrap());
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

fn has_status(run: &Value, status: &str) -> usize {
    let members = run["deletion"]["members"].as_array().unwrap();
    members.iter().filter(|one| one["status"] == status).count()
}

#[test]
fn a_deletion_all_at_once_is_in_the_record_whoever_dies() {
    let mut shops = Shops::without_order();
    let why = "moved to another cluster";
    shops.run_as("ann", &["delete", "shops", "--yes", "--async", "--reason", why]).expect_code(0);
    let under_way = shops.deletion(|_| true);
    assert_eq!((&under_way["by"], &under_way["reason"]), (&json!("ann"), &json!(why)));
    assert_eq!(under_way["applications"], 12, "all of them from the beginning");
    let killed = shops.serving.take().unwrap();
    killed.signal("KILL");
    killed.finish();
    // Nobody is at work, and the log is read.
    let left = shops.deletion(|_| true);
    assert_eq!((&left["id"], &left["applications"]), (&under_way["id"], &json!(12)));
    shops.again(&[]);
    let run = shops.deletion(|run| run["finishedAt"].is_string());
    assert_eq!((&run["id"], &run["end"], &run["done"]), (&under_way["id"], &json!("Completed"), &json!(12)));
    assert_eq!((&run["deletion"]["order"], has_status(&run, "Gone")), (&json!("AllAtOnce"), 12), "{run:#}");
    let steps = json!([{"step": 1, "selects": "all Applications", "members": 12, "maxUpdate": null}]);
    assert_eq!(run["deletion"]["steps"], steps);
    assert_eq!(run["message"], "12 Applications are gone");
    let sets = || shops.bench.json(&["appset", "list", "-o", "json"])["items"] == json!([]);
    assert!(std::iter::repeat_with(sets).take(3000).any(|is_gone| is_gone));
    assert_eq!(shops.runs().len(), 2, "one rollout, and one deletion");
    let text = shops.run(&["show-run", "shops", "--log"]).expect_code(0).out;
    let begun =
        format!("begun by ann ({why}): 12 Applications are deleted with their ApplicationSet, all at once");
    assert!(text.contains(&begun) && text.contains("prod-cart: is gone"), "{text}");
    assert_eq!(shops.get("/api/v1/runs?kind=deletion").1["items"][0]["id"], run["id"]);
    shops.end();
    assert_eq!(shops.run(&["show-run", "shops", "--log"]).expect_code(0).out, text);
}

#[test]
fn that_applications_outlive_their_set_is_in_the_record() {
    let mut shops = Shops::without_order();
    let delete = ["delete", "shops", "--yes", "--orphan", "--timeout", "10m", "--reason", "kept"];
    shops.run_as("ann", &delete).expect_code(0);
    let run = shops.deletion(|run| run["finishedAt"].is_string());
    assert_eq!((&run["by"], &run["reason"]), (&json!("ann"), &json!("kept")));
    assert_eq!((&run["end"], &run["message"]), (&json!("Completed"), &json!("12 Applications are let go")));
    assert_eq!((&run["deletion"]["order"], has_status(&run, "Released")), (&json!("Orphan"), 12), "{run:#}");
    let list = shops.run(&["runs", "shops"]).expect_code(0).out;
    assert!(list.contains("12 of 12") && list.contains("are let go"), "{list}");
    let text = shops.run(&["show-run", "shops"]).expect_code(0).out;
    assert!(text.contains("LET GO") && text.contains("12/12") && text.contains("Released"), "{text}");
    let applications = shops.bench.json(&["app", "list", "-o", "json"]);
    let names = applications["items"].as_array().unwrap().iter();
    assert!(
        names
            .filter(|one| one["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("prod-")))
            .count()
            >= 4,
        "{applications:#}"
    );
    shops.end();
}
