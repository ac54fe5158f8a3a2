//! Stored plans, which are created, approved by authorized users, and executed unchanged.

use std::{fs, iter};

use serde_json::{Value, json};

use super::{Api, HttpResponse, OPERATOR, OTHER, READER};
use crate::fleet::Fleet;

const BACKEND: &str = "/api/v1/applications/argocd/backend";
const SECRET: &str = "hunter2-is-no-password";

fn approve(api: &Api, hash: &str, token: &str) -> HttpResponse {
    api.request("POST", &format!("/api/v1/plans/{hash}/approve"), token, "{\"reason\": \"looked at it\"}")
}

#[track_caller]
fn assert_response(answer: &HttpResponse, status: u16, part: &str) {
    assert!(answer.status == status && answer.body.contains(part), "{}: {}", answer.status, answer.body);
}

/// Returns a managed fleet that is in sync. Its backend now has these annotations and requires approvals.
fn gated_fleet(annotations: &str) -> (Fleet, Api) {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    let annotated = format!("  name: backend\n  annotations: {{{annotations}}}\n");
    fleet.replace("backend.yaml", "  name: backend\n", &annotated);
    fleet.wait_until("backend", |app| !app["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    (fleet, api)
}

/// Returns the backend's waiting plan, which must be different from `but`.
fn waiting_plan(api: &Api, but: &str) -> String {
    let plan = |line: &Value| line["plan"].as_str().filter(|hash| *hash != but).map(str::to_owned);
    let lines = std::iter::repeat_with(|| api.get("/api/v1/applications?name=backend")["items"][0].clone());
    lines.take(3000).find_map(|line| plan(&line)).expect("no plan waits")
}

#[test]
fn a_plan_waits_for_its_approvers_and_is_executed_once() {
    let (fleet, api) =
        gated_fleet("tidegate.dev/approval: required, tidegate.dev/approvers: 'cleo, dan, others'");
    let before = fleet.bench.newest();
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{password: {SECRET}}}\n"
    );
    fs::write(fleet.path("repo/backend/secret.yaml"), secret).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let first = waiting_plan(&api, "");
    let message = fleet.condition("backend", "ApprovalRequired");
    assert!(message.contains("(2 to apply, 2 to create, including 1 hook; "), "{message}");
    assert!(
        message.ends_with(&format!(
            "is waiting for an approval by cleo or dan (required by application backend): \
                                        tidegate app approve backend {}",
            &first[..12]
        )),
        "{message}"
    );
    // A user with read-only access sees the plan's effects, but no Secret values.
    let shown = api.request("GET", &format!("/api/v1/plans/{}", &first[..6]), READER, "");
    let plan = shown.json(200);
    assert_eq!(
        (&plan["state"], &plan["hash"], &plan["initiatedBy"]),
        (&json!("waiting"), &json!(first), &json!("automated sync"))
    );
    let tasks: Vec<&Value> = plan["plan"]["waves"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|wave| wave["tasks"].as_array().unwrap())
        .collect();
    assert!(tasks.iter().any(|task| task["name"] == "login" && task["action"] == "create"), "{plan:#}");
    // The plan also says if the reader may approve it.
    assert_eq!(
        plan["approvalDeniedReason"],
        "ben may not approve the plan: it needs an approval by cleo or dan (required by application backend)"
    );
    let not_yours = |token| {
        let all = api.request("GET", "/api/v1/plans?application=backend", token, "").json(200);
        all["items"][0]["approvalDeniedReason"].clone()
    };
    assert_eq!(
        not_yours(OPERATOR),
        "ann may not approve the plan: it needs an approval by cleo or dan (required by application backend)"
    );
    assert_eq!(not_yours(OTHER), Value::Null);
    // The same is true for requests over the socket.
    let here =
        fleet.bench.json(&["app", "plan", "backend", &first, "-o", "json"])["approvalDeniedReason"].clone();
    assert!(here.as_str().is_some_and(|reason| reason.contains("may not approve the plan")), "{here}");
    let printed = fleet.bench.run(&["app", "plan", "backend", &first[..12]]);
    let whole = api.request("GET", &format!("/api/v1/plans/{first}/whole"), READER, "");
    let all = [shown.body, whole.body, printed.out.clone(), fleet.get("backend").to_string()];
    assert!(!all.iter().any(|text| text.contains(SECRET)), "a value of a Secret is shown");
    assert!(
        printed.out.contains(&format!("tidegate app approve backend {}", &first[..12])),
        "{}",
        printed.out
    );
    let explained = fleet.bench.run(&["app", "explain", "backend"]);
    assert!(explained.err.contains("is waiting for an approval by cleo or dan"), "{}", explained.err);
    assert!(explained.out.contains("next: `tidegate app approve backend "), "{}", explained.out);
    // Requests by unauthorized users, with invalid hashes, or for outdated plans are rejected.
    assert_response(&approve(&api, &first, READER), 403, "operator");
    assert_response(
        &approve(&api, &first, OPERATOR),
        403,
        "ann may not approve the plan: it needs an approval by cleo or dan",
    );
    // The advice doesn't depend on the role.
    let advice = |token| approve(&api, &first, token).json(403)["hint"].as_str().unwrap().to_owned();
    assert!(advice(OPERATOR).contains("approvers named in the message"), "{}", advice(OPERATOR));
    assert!(advice(READER).contains("with the required role"), "{}", advice(READER));
    assert_response(&approve(&api, "0123456789abcdef", OTHER), 404, "cannot find plan");
    assert_response(&approve(&api, &first[..5], OTHER), 404, "use at least the first 6");
    fs::write(fleet.bench.path().join("token"), OTHER).unwrap();
    let url = format!("http://{}", api.address);
    for way in [&[][..], &["--server", &url, "--token-file", "token"]] {
        let unknown = fleet.bench.run(&[&["app", "approve", "backend", "0123456789"], way].concat());
        let words = format!("the plan that is waiting for approval is {}", &first[..12]);
        assert!(unknown.code() == 2 && unknown.err.contains(&words), "{}", unknown.err);
    }
    fleet.replace("repo/backend/secret.yaml", "name: login", "name: entry");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let second = waiting_plan(&api, &first);
    let stale = format!("is not the newest plan for application backend; the newest is {}", &second[..12]);
    assert_response(&approve(&api, &first, OTHER), 409, &stale);
    assert_response(
        &api.request("POST", &format!("/api/v1/plans/{second}/sync"), OPERATOR, "{}"),
        409,
        "needs an approval by cleo",
    );
    assert_eq!(fleet.bench.newest(), before, "no operation has started");
    // An authorized user can also approve.
    let approved = approve(&api, &second[..12], OTHER).json(202);
    assert_eq!(
        (&approved["approvals"][0]["by"], &approved["missingApproval"]),
        (&json!("cleo"), &Value::Null)
    );
    fleet.wait_until_synced(&["backend"]);
    let taken = api.get(&format!("/api/v1/plans/{second}"));
    assert_eq!((&taken["state"], &taken["operation"]), (&json!("executed"), &json!(fleet.bench.newest())));
    let objects = fleet.bench.json(&["sim", "objects", "-o", "json"]);
    let has = |name: &str| objects.as_array().unwrap().iter().any(|one| one["metadata"]["name"] == name);
    assert!(has("entry") && !has("login"), "what was approved was written, and nothing else");
    let log = fleet.bench.run(&["ops", "log", &fleet.bench.newest()]);
    assert!(log.out.contains("approved by cleo (looked at it)"), "{}", log.out);
    assert_response(&approve(&api, &second, OTHER), 409, "was already executed by operation");
    Fleet::stop(api.service);
}

#[test]
fn requesters_and_approvers_are_recorded_with_the_operation() {
    let (fleet, api) = gated_fleet("tidegate.dev/approval: required");
    api.request("POST", &format!("{BACKEND}/sync"), OPERATOR, "{\"reason\": \"a hotfix\"}").json(202);
    let hash = waiting_plan(&api, "");
    // The approver sees the reason.
    assert_eq!(api.get(&format!("/api/v1/plans/{hash}"))["reason"], "a hotfix");
    let shown = fleet.bench.run(&["app", "plan", "backend", &hash[..12]]);
    assert!(shown.out.contains("requested by ann: a hotfix"), "{}", shown.out);
    approve(&api, &hash, OTHER).json(202);
    let operation = || api.get(&format!("/api/v1/plans/{hash}"))["operation"].as_str().map(str::to_owned);
    let id = std::iter::repeat_with(operation).take(3000).find_map(|id| id).expect("nothing is carried out");
    fleet.wait_until_synced(&["backend"]);
    let shown = fleet.bench.run(&["ops", "show", &id]).out;
    let field = |name: &str| {
        let found = shown.lines().find_map(|line| line.strip_prefix(&format!("{name:<10}")));
        found.unwrap_or_else(|| panic!("{name}: {shown}")).to_owned()
    };
    assert_eq!((field("requester"), field("reason")), ("ann".to_owned(), "a hotfix".to_owned()));
    assert!(field("plan").starts_with(&hash[..12]), "{shown}");
    assert!(field("approved").starts_with("by cleo (looked at it) at 20"), "{shown}");
    let there = api.get(&format!("/api/v1/operations/{id}"));
    for told in [there, fleet.bench.json(&["ops", "show", &id, "-o", "json"])] {
        assert_eq!((&told["initiatedBy"], &told["reason"]), (&json!("ann"), &json!("a hotfix")));
        let given = &told["plan"]["approvals"][0];
        assert_eq!((&told["plan"]["hash"], &given["by"]), (&json!(hash), &json!("cleo")));
        assert_eq!(given["reason"], "looked at it");
    }
    // The approval is also in the exported file.
    let page = fleet.bench.run(&["ops", "export", &id, "--format", "html"]).expect_code(0).out;
    for part in [
        "<dt>Requested by</dt><dd>ann</dd>",
        "<dt>Reason</dt><dd>a hotfix</dd>",
        "<dd>cleo (looked at it) at ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    Fleet::stop(api.service);
}

#[test]
fn a_plan_shows_its_changes_and_no_other_differences() {
    let fleet = Fleet::new();
    fleet.replace("frontend.yaml", "    automated:\n      prune: true\n      selfHeal: true\n", "");
    let api = Api::serve(&fleet);
    let key = format!("password: {SECRET}-0");
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData: {{{key}, user: shop}}\n"
    );
    fs::write(fleet.path("repo/frontend/secret.yaml"), secret).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    // The plan is for an outdated commit.
    fleet.replace("repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    fleet.replace("repo/frontend/secret.yaml", &key, &format!("password: {SECRET}-1"));
    let committed = fleet.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let revision = committed.err.trim().rsplit(' ').next().unwrap().to_owned();
    fleet.replace("repo/frontend/frontend.yaml", "frontend:2.0", "frontend:3.0");
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
    let body = json!({"application": "frontend", "revision": revision}).to_string();
    let made = api.request("POST", "/api/v1/plans", OPERATOR, &body).json(201);
    let hash = made["hash"].as_str().unwrap();
    let told = api.request("GET", &format!("/api/v1/plans/{}/diff", &hash[..12]), READER, "");
    let document = told.json(200);
    let changes = |name: &str| -> Vec<String> {
        let found = document["objects"].as_array().unwrap().iter().filter(|one| one["name"] == name);
        let all = found.flat_map(|one| one["changes"].as_array().unwrap());
        all.map(|one| format!("{}: {} to {}", one["path"].as_str().unwrap(), one["before"], one["after"]))
            .collect()
    };
    let image = "/spec/template/spec/containers/0/image";
    let expected =
        format!("{image}: \"example.com/fleet/frontend:1.0\" to \"example.com/fleet/frontend:2.0\"");
    assert!(changes("frontend").contains(&expected), "{document:#}");
    // The output says that a Secret value changes, and which values don't change, but it doesn't contain the
    // values.
    assert_eq!(changes("login"), ["/data/password: \"++++++++\" to \"+++++++++\""], "{document:#}");
    assert!(!told.body.contains(SECRET) && document["warnings"] == json!([]), "{}", told.body);
    let differs = api.get("/api/v1/applications/argocd/frontend/diff").to_string();
    assert!(differs.contains("frontend:3.0") && !differs.contains("frontend:2.0"), "{differs}");
    // The command line prints the same output, locally and remotely.
    fs::write(fleet.bench.path().join("token"), OPERATOR).unwrap();
    let url = format!("http://{}", api.address);
    let there = ["--server", &url, "--token-file", "token"];
    for way in [&[][..], &there] {
        let ran = fleet.bench.run(&[&["app", "diff", "frontend", "--plan", &hash[..12]], way].concat());
        assert!(ran.code() == 1 && ran.out.contains("frontend:2.0"), "{}", ran.out);
        assert!(!ran.out.contains("frontend:3.0") && !ran.out.contains(SECRET), "{}", ran.out);
        let none = fleet.bench.run(&[&["app", "diff", "frontend", "--plan", "0123456789"], way].concat());
        assert!(none.code() == 2 && none.err.contains("cannot find plan"), "{}", none.err);
    }
    let shown = fleet.bench.run(&["app", "plan", "frontend", &hash[..12]]);
    assert!(
        shown.out.contains(&format!("tidegate app diff frontend --plan {}", &hash[..12])),
        "{}",
        shown.out
    );
    // A change of the cluster that invalidates the plan is also reported.
    fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/frontend"]).expect_code(0);
    let moved = api.get(&format!("/api/v1/plans/{hash}/diff"));
    let text = moved["warnings"][0]["message"].as_str().unwrap();
    assert!(text.contains("is no longer valid: ") && text.contains("it no longer exists"), "{text}");
    fleet.bench.run(&["app", "sync", "frontend"]).expect_code(0);
    // Subscribers are notified when the plan is created and executed.
    let mut events = api.subscribe("?application=argocd/frontend", None);
    let mut told = || {
        iter::repeat_with(|| events.next_event()).find(|(kind, _)| kind == "plan").unwrap().1["plan"].clone()
    };
    let made = api.request("POST", "/api/v1/plans", OPERATOR, &body).json(201);
    let hash = made["hash"].as_str().unwrap();
    let name = json!({"namespace": "argocd", "name": "frontend", "hash": hash});
    assert_eq!(told(), name);
    api.post(&format!("/api/v1/plans/{hash}/sync"), &json!({}));
    assert_eq!(told(), name);
    fleet.wait_until("frontend", |_| api.get(&format!("/api/v1/plans/{hash}"))["state"] == "executed");
    let over = api.request("GET", &format!("/api/v1/plans/{hash}/diff"), READER, "");
    assert_response(&over, 409, "was already executed by operation");
    Fleet::stop(api.service);
}

#[test]
fn a_reason_is_recorded_as_one_line_of_bounded_length() {
    let fleet = Fleet::new();
    fleet.replace(
        "frontend.yaml",
        "  name: frontend\n",
        "  name: frontend\n  annotations: {tidegate.dev/approval: required}\n",
    );
    fleet.replace("frontend.yaml", "    automated:\n      prune: true\n      selfHeal: true\n", "");
    let api = Api::serve(&fleet);
    // The other Applications create the namespace, so a plan from before that would no longer match.
    fleet.wait_until_synced(&["backend", "database"]);
    let long = format!(" so\nit {}\n", "is".repeat(100_000));
    let recorded = |said: &Value| {
        let said = said.as_str().unwrap().to_owned();
        assert!(said.starts_with("so it is") && said.chars().count() == 1024, "{said:.60}");
    };
    api.post("/api/v1/applications/argocd/frontend/sync", &json!({"reason": long}));
    let line = || api.get("/api/v1/applications?name=frontend")["items"][0].clone();
    let mut lines = std::iter::repeat_with(line).take(3000);
    let waits = lines.find(|line| line["plan"].is_string()).expect("no plan waits");
    recorded(&waits["operation"]["reason"]);
    let hash = waits["plan"].as_str().unwrap();
    let approved = api.post(&format!("/api/v1/plans/{hash}/approve"), &json!({"reason": long}));
    recorded(&approved["approvals"][0]["reason"]);
    fleet.wait_until_synced(&["frontend"]);
    recorded(&api.get("/api/v1/operations?application=frontend&limit=1")["items"][0]["reason"]);
    let whole = api.get("/api/v1/applications").to_string();
    assert!(whole.len() < 20_000, "{}", whole.len());
    Fleet::stop(api.service);
}

#[test]
fn a_plan_made_here_or_elsewhere_is_executed_unchanged() {
    let fleet = Fleet::new();
    let api = Api::serve(&fleet);
    fleet.wait_until_synced(&[]);
    assert_response(
        &api.request("POST", "/api/v1/plans", READER, "{\"application\": \"frontend\"}"),
        403,
        "operator",
    );
    for unknown in [
        api.request("POST", "/api/v1/plans", OPERATOR, "{\"application\": \"nobody\"}"),
        api.request("GET", "/api/v1/plans?application=nobody", READER, ""),
    ] {
        assert_response(&unknown, 404, "application \\\"nobody\\\" not found");
    }
    let made = api
        .request("POST", "/api/v1/plans", OPERATOR, "{\"application\": \"argocd/frontend\", \"prune\": true}")
        .json(201);
    assert_eq!(
        (&made["state"], &made["initiatedBy"], &made["missingApproval"]),
        (&json!("stored"), &json!("ann"), &Value::Null)
    );
    let hash = made["hash"].as_str().unwrap();
    fs::write(fleet.bench.path().join("token"), OPERATOR).unwrap();
    let url = format!("http://{}", api.address);
    let there = ["--server", &url, "--token-file", "token"];
    let run = |command: &[&str], is_there: bool| {
        fleet.bench.run(&[command, if is_there { &there } else { &[] }].concat())
    };
    for is_there in [false, true] {
        let listed = run(&["app", "plans", "frontend"], is_there);
        assert!(listed.out.contains(&hash[..12]) && listed.out.contains("stored"), "{}", listed.out);
        let shown = run(&["app", "plan", "frontend", &hash[..12], "-o", "json"], is_there);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        assert_eq!(shown, api.get(&format!("/api/v1/plans/{hash}")));
        let other = run(&["app", "plan", "backend", &hash[..12]], is_there);
        assert!(other.code() != 0 && other.err.contains("cannot find plan"), "{}", other.err);
        assert!(!other.err.contains("try again"), "nothing is wrong with the service: {}", other.err);
        // The plan doesn't need an approval.
        let needless = run(&["app", "approve", "frontend", &hash[..12]], is_there);
        assert!(needless.err.contains("needs no approval"), "{}", needless.err);
        let own = run(&["app", "plan", "frontend"], is_there);
        let line = own.out.lines().find(|line| line.starts_with("to execute it: ")).unwrap().to_owned();
        let own = line.rsplit(' ').next().unwrap();
        run(&["app", "sync", "frontend", "--plan", own, "--timeout", "10m"], is_there).expect_code(0);
        let again = run(&["app", "sync", "frontend", "--plan", own], is_there);
        assert!(again.err.contains("a plan can be executed only once"), "{}", again.err);
    }
    let status = api.get(BACKEND)["status"]["conditions"].to_string();
    assert!(!status.contains("Approval"), "{status}");
    Fleet::stop(api.service);
}

#[test]
fn each_of_several_sources_is_planned_at_its_own_revision() {
    let fleet = Fleet::new();
    let commit = |value: &str| {
        for name in ["left", "right"] {
            let map = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: {value}}}\n"
            );
            fs::create_dir_all(fleet.path(&format!("repo/{name}"))).unwrap();
            fs::write(fleet.path(&format!("repo/{name}/map.yaml")), map).unwrap();
        }
        let committed = fleet.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
        committed.err.trim().rsplit(' ').next().unwrap().to_owned()
    };
    let older = commit("older");
    let newer = commit("newer");
    let source = |name: &str| json!({"repoURL": "./repo", "path": name, "targetRevision": "main"});
    let pair = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "pair"},
        "spec": {
            "project": "default", "sources": [source("left"), source("right")],
            "destination": {"name": "in-cluster", "namespace": "default"},
        },
    });
    let api = Api::serve(&fleet);
    fs::write(fleet.path("pair.yaml"), pair.to_string()).unwrap();
    let is_there = || fleet.bench.run(&["app", "get", "pair"]).code() == 0;
    assert!(iter::repeat_with(is_there).take(3000).any(|is_there| is_there));
    fleet.wait_until("pair", |app| app["status"]["reconciledAt"].is_string());
    let own = "/api/v1/applications/argocd/pair";
    let values = |whole: &Value| -> Vec<Value> {
        let maps = whole["objects"].as_array().unwrap().iter();
        maps.map(|one| one.pointer("/difference/after/data/value").unwrap().clone()).collect()
    };
    let response = api.get(&format!("{own}/diff/objects?revisions=&revisions={older}"));
    assert_eq!(values(&response), ["newer", "older"], "{response:#}");
    let response = api.get(&format!("{own}/diff/objects?revisions={older}&revisions="));
    assert_eq!(values(&response), ["older", "newer"], "{response:#}");
    assert!(api.get(&format!("{own}/plan?revisions=&revisions={older}"))["waves"].is_array());
    let both =
        api.request("GET", &format!("{own}/plan?revision=main&revisions=&revisions={older}"), READER, "");
    assert_response(&both, 400, "revision and revisions cannot be combined");
    for few in ["revision=main", "revisions=a&revisions=b&revisions=c"] {
        let refused = api.request("GET", &format!("{own}/plan?{few}"), READER, "");
        assert_response(&refused, 409, "revisions for 2 sources");
    }
    let body = json!({"application": "pair", "revisions": ["", older]}).to_string();
    let made = api.request("POST", "/api/v1/plans", OPERATOR, &body).json(201);
    assert_eq!(made["revision"], json!(format!("{newer},{older}")));
    let body = json!({"application": "pair", "revision": "main", "revisions": ["", older]}).to_string();
    assert_response(&api.request("POST", "/api/v1/plans", OPERATOR, &body), 400, "cannot be combined");
    // The command line sends the same request, locally and remotely.
    fs::write(fleet.bench.path().join("token"), OPERATOR).unwrap();
    let url = format!("http://{}", api.address);
    for way in [&[][..], &["--server", &url, "--token-file", "token"]] {
        let named = [&["pair", "--revisions", &older, "--source-positions", "1"], way].concat();
        let planned = fleet.bench.run(&[&["app", "plan", "-o", "json"], &named[..]].concat()).expect_code(0);
        let planned: Value = serde_json::from_str(&planned.out).unwrap();
        assert_eq!(planned["revision"], json!(format!("{older},{newer}")));
        let differs = fleet.bench.run(&[&["app", "diff"], &named[..]].concat()).expect_code(1).out;
        assert!(differs.contains("older") && differs.contains("newer"), "{differs}");
        let synced =
            fleet.bench.run(&[&["app", "sync", "-o", "json"], &named[..]].concat()).expect_code(0).out;
        let synced: Value = serde_json::from_str(&synced).unwrap();
        assert_eq!(synced["status"]["operationState"]["syncResult"]["revisions"], json!([older, newer]));
        fleet.bench.run(&["app", "sync", "pair"]).expect_code(0);
    }
    Fleet::stop(api.service);
}
