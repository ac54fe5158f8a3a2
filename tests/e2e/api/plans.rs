//! Kept plans: made, approved by those who may, and carried out as they are.

use std::fs;

use serde_json::{Value, json};

use super::{Answer, Api, OPERATOR, OTHER, READER};
use crate::fleet::Fleet;

const BACKEND: &str = "/api/v1/applications/argocd/backend";
const SECRET: &str = "hunter2-is-no-password";

fn approve(api: &Api, hash: &str, token: &str) -> Answer {
    api.ask("POST", &format!("/api/v1/plans/{hash}/approve"), token, "{\"reason\": \"looked at it\"}")
}

#[track_caller]
fn assert_says(answer: &Answer, status: u16, part: &str) {
    assert!(answer.status == status && answer.body.contains(part), "{}: {}", answer.status, answer.body);
}

/// The plan of the backend that waits, which is another one than that.
fn waiting(api: &Api, but: &str) -> String {
    let plan = |line: &Value| line["plan"].as_str().filter(|hash| *hash != but).map(str::to_owned);
    let lines = std::iter::repeat_with(|| api.get("/api/v1/applications?name=backend")["items"][0].clone());
    lines.take(3000).find_map(|line| plan(&line)).expect("no plan waits")
}

#[test]
fn a_plan_waits_for_those_who_may_approve_it_and_is_carried_out_by_one_operation() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait(&[]);
    fleet.replace(
        "backend.yaml",
        "  name: backend\n",
        "  name: backend\n  annotations: {tidegate.dev/approval: required, tidegate.dev/approvers: 'cleo, dan, others'}\n",
    );
    fleet.until("backend", |app| !app["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    let before = fleet.bench.newest();
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{password: {SECRET}}}\n"
    );
    fs::write(fleet.path("repo/backend/secret.yaml"), secret).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let first = waiting(&api, "");
    let message = fleet.condition("backend", "ApprovalRequired");
    assert!(message.contains("(1 to create"), "{message}");
    assert!(message.ends_with(&format!("waits for an approval by cleo or dan (says application backend): tidegate app approve backend {}", &first[..12])), "{message}");
    // Whoever looks at it sees what it does, and no value of a Secret.
    let shown = api.ask("GET", &format!("/api/v1/plans/{}", &first[..6]), READER, "");
    let plan = shown.json(200);
    assert_eq!(
        (&plan["state"], &plan["hash"], &plan["by"]),
        (&json!("waiting"), &json!(first), &json!("automated sync"))
    );
    let tasks: Vec<&Value> = plan["plan"]["waves"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|wave| wave["tasks"].as_array().unwrap())
        .collect();
    assert!(tasks.iter().any(|task| task["name"] == "login" && task["action"] == "create"), "{plan:#}");
    let printed = fleet.bench.run(&["app", "plan", "backend", &first[..12]]);
    let whole = api.ask("GET", &format!("/api/v1/plans/{first}/whole"), READER, "");
    let all = [shown.body, whole.body, printed.out.clone(), fleet.get("backend").to_string()];
    assert!(!all.iter().any(|text| text.contains(SECRET)), "a value of a Secret is shown");
    assert!(
        printed.out.contains(&format!("tidegate app approve backend {}", &first[..12])),
        "{}",
        printed.out
    );
    let explained = fleet.bench.run(&["app", "explain", "backend"]);
    assert!(explained.err.contains("waits for an approval by cleo or dan"), "{}", explained.err);
    // Who may not, what is none, and what is not the newest.
    assert_says(&approve(&api, &first, READER), 403, "operator");
    assert_says(
        &approve(&api, &first, OPERATOR),
        403,
        "ann may not approve it: it needs an approval by cleo or dan",
    );
    assert_says(&approve(&api, "0123456789abcdef", OTHER), 404, "there is no plan");
    assert_says(&approve(&api, &first[..5], OTHER), 404, "the first 6 may be enough");
    fleet.replace("repo/backend/secret.yaml", "name: login", "name: entry");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let second = waiting(&api, &first);
    let stale = format!("is not the newest of application backend; the newest is {}", &second[..12]);
    assert_says(&approve(&api, &first, OTHER), 409, &stale);
    assert_says(
        &api.ask("POST", &format!("/api/v1/plans/{second}/sync"), OPERATOR, "{}"),
        409,
        "needs an approval by cleo",
    );
    assert_eq!(fleet.bench.newest(), before, "no operation has begun");
    // And who may.
    let approved = approve(&api, &second[..12], OTHER).json(202);
    assert_eq!((&approved["approvals"][0]["by"], &approved["needs"]), (&json!("cleo"), &Value::Null));
    fleet.wait(&["backend"]);
    let taken = api.get(&format!("/api/v1/plans/{second}"));
    assert_eq!((&taken["state"], &taken["operation"]), (&json!("taken"), &json!(fleet.bench.newest())));
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    let has = |name: &str| objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name);
    assert!(has("entry") && !has("login"), "what was approved was written, and nothing else");
    let log = fleet.bench.run(&["ops", "log", &fleet.bench.newest()]);
    assert!(log.out.contains("approved by cleo (looked at it)"), "{}", log.out);
    assert_says(&approve(&api, &second, OTHER), 409, "was carried out by operation");
    Fleet::end(api.serving);
}

#[test]
fn who_has_asked_and_who_has_approved_and_why_is_with_the_operation() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait(&[]);
    fleet.replace(
        "backend.yaml",
        "  name: backend\n",
        "  name: backend\n  annotations: {tidegate.dev/approval: required}\n",
    );
    fleet.until("backend", |app| !app["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    api.ask("POST", &format!("{BACKEND}/sync"), OPERATOR, "{\"reason\": \"a hotfix\"}").json(202);
    let hash = waiting(&api, "");
    // Whoever is to approve it is told why.
    assert_eq!(api.get(&format!("/api/v1/plans/{hash}"))["reason"], "a hotfix");
    let shown = fleet.bench.run(&["app", "plan", "backend", &hash[..12]]);
    assert!(shown.out.contains("asked for by ann: a hotfix"), "{}", shown.out);
    approve(&api, &hash, OTHER).json(202);
    let operation = || api.get(&format!("/api/v1/plans/{hash}"))["operation"].as_str().map(str::to_owned);
    let id = std::iter::repeat_with(operation).take(3000).find_map(|id| id).expect("nothing is carried out");
    fleet.wait(&["backend"]);
    let shown = fleet.bench.run(&["ops", "show", &id]).out;
    let field = |name: &str| {
        let found = shown.lines().find_map(|line| line.strip_prefix(&format!("{name:<10}")));
        found.unwrap_or_else(|| panic!("{name}: {shown}")).to_owned()
    };
    assert_eq!((field("asked by"), field("why")), ("ann".to_owned(), "a hotfix".to_owned()));
    assert!(field("plan").starts_with(&hash[..12]), "{shown}");
    assert!(field("approved").starts_with("by cleo (looked at it) at 20"), "{shown}");
    let there = api.get(&format!("/api/v1/operations/{id}"));
    for told in [there, fleet.bench.json(&["ops", "show", &id, "-o", "json"])] {
        assert_eq!((&told["initiatedBy"], &told["reason"]), (&json!("ann"), &json!("a hotfix")));
        let given = &told["plan"]["approvals"][0];
        assert_eq!((&told["plan"]["hash"], &given["by"]), (&json!(hash), &json!("cleo")));
        assert_eq!(given["reason"], "looked at it");
    }
    // And in the file that is passed on.
    let page = fleet.bench.run(&["ops", "export", &id, "--format", "html"]).expect_code(0).out;
    for part in
        ["<dt>Asked for by</dt><dd>ann</dd>", "<dt>Why</dt><dd>a hotfix</dd>", "<dd>cleo (looked at it) at "]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    Fleet::end(api.serving);
}

#[test]
fn a_plan_is_made_here_and_elsewhere_and_carried_out_as_it_is() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait(&[]);
    assert_says(
        &api.ask("POST", "/api/v1/plans", READER, "{\"application\": \"frontend\"}"),
        403,
        "operator",
    );
    assert_says(
        &api.ask("POST", "/api/v1/plans", OPERATOR, "{\"application\": \"nobody\"}"),
        409,
        "there is no application nobody",
    );
    let made = api
        .ask("POST", "/api/v1/plans", OPERATOR, "{\"application\": \"argocd/frontend\", \"prune\": true}")
        .json(201);
    assert_eq!((&made["state"], &made["by"], &made["needs"]), (&json!("kept"), &json!("ann"), &Value::Null));
    let hash = made["hash"].as_str().unwrap();
    fs::write(fleet.bench.path().join("token"), OPERATOR).unwrap();
    let url = format!("http://{}", api.address);
    let there = ["--server", &url, "--token-file", "token"];
    let run = |command: &[&str], is_there: bool| {
        fleet.bench.run(&[command, if is_there { &there } else { &[] }].concat())
    };
    for is_there in [false, true] {
        let listed = run(&["app", "plans", "frontend"], is_there);
        assert!(listed.out.contains(&hash[..12]) && listed.out.contains("kept"), "{}", listed.out);
        let shown = run(&["app", "plan", "frontend", &hash[..12], "-o", "json"], is_there);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(shown, api.get(&format!("/api/v1/plans/{hash}")));
        let other = run(&["app", "plan", "backend", &hash[..12]], is_there);
        assert!(other.code() != 0 && other.err.contains("there is no plan"), "{}", other.err);
        // Nothing needs an approval.
        let needless = run(&["app", "approve", "frontend", &hash[..12]], is_there);
        assert!(needless.err.contains("needs no approval"), "{}", needless.err);
        let own = run(&["app", "plan", "frontend"], is_there);
        let line = own.out.lines().find(|line| line.starts_with("to carry it out: ")).unwrap().to_owned();
        let own = line.rsplit(' ').next().unwrap();
        run(&["app", "sync", "frontend", "--plan", own, "--timeout", "10m"], is_there).expect_code(0);
        let again = run(&["app", "sync", "frontend", "--plan", own], is_there);
        assert!(again.err.contains("a plan is carried out once"), "{}", again.err);
    }
    let status = api.get(BACKEND)["status"]["conditions"].to_string();
    assert!(!status.contains("Approval"), "{status}");
    Fleet::end(api.serving);
}
