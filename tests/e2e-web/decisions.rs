//! What people decide about single Applications: the question says what will happen, and the record says who and why.

use std::fs;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::browser::{Browser, key};
use crate::service::{Different, OPERATOR, Service, folder};

pub const NO_SET: Different = Different { rollout: None, has_no_set: true, is_gated: false };
pub const DIALOG: &str = "document.querySelector('dialog[open]')";
const CLOSED: &str = "!document.querySelector('dialog')";
const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
const ENDED: &str = "/api/v1/applications/argocd/backend/terminate";

/// Nobody syncs an Application but people.
pub fn by_hand(bench: &Bench, name: &str) {
    let path = bench.path().join(format!("fleet/{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap();
    let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(automated), "{text}");
    fs::write(&path, text.replace(automated, "")).unwrap();
}

/// Changes a text of the folder.
pub fn replace(bench: &Bench, name: &str, from: &str, to: &str) {
    let path = bench.path().join("fleet").join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name}: {text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

pub fn commit(bench: &Bench) {
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
}

fn config(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n")
}

/// Whoever confirms it has to say why, and does.
#[track_caller]
pub fn confirm_with_a_reason(browser: &Browser, reason: &str) {
    browser.press("confirm");
    let missing =
        browser.run(&format!("return {DIALOG}.querySelector('#field-reason').validity.valueMissing"));
    assert_eq!(missing, json!(true));
    confirm(browser, reason);
}

#[track_caller]
pub fn confirm(browser: &Browser, reason: &str) {
    browser.write("#field-reason", reason);
    browser.press("confirm");
    browser.until(CLOSED);
}

#[track_caller]
pub fn asks(browser: &Browser, words: &str) {
    browser.until(&format!("{DIALOG}.textContent.includes({})", json!(words)));
}

/// What the page asks for from here on is kept, until another one is loaded.
pub fn keep_what_is_sent(browser: &Browser) {
    browser.run(
        "window.asked ??= window.fetch; window.sent = [];
         window.fetch = (path, options) => { window.sent.push([String(path), options?.body]); return window.asked(path, options); }",
    );
}

/// It has asked for something by a path that ends like this, and has said this.
#[track_caller]
pub fn sent(browser: &Browser, path: &str, said: &Value) {
    browser.until(&format!(
        "window.sent.some(([path, body]) => path.endsWith('{path}') && Object.entries({said}).every(([name, value]) => JSON.parse(body)[name] === value))"
    ));
}

/// The operation of an Application that comes after another one, when it is over, as `ops show` tells it.
#[track_caller]
fn over(service: &Service, application: &str, before: Option<&Value>) -> Value {
    let target = format!("/api/v1/operations?application={application}&limit=1");
    let is_it = |found: &Value| {
        let newest = &found["items"][0];
        newest["finishedAt"].is_string() && before.is_none_or(|before| newest["id"] != before["id"])
    };
    let found = service.until(&target, is_it);
    shown(service, found["items"][0]["id"].as_str().unwrap())
}

pub fn shown(service: &Service, id: &str) -> Value {
    service.bench.json(&["ops", "show", id, "-o", "json"])
}

/// What was asked for with an operation, as its first fact says.
fn asked(service: &Service, operation: &Value) -> Value {
    let facts = service.bench.json(&["ops", "log", operation["id"].as_str().unwrap(), "-o", "json"]);
    assert_eq!(facts[0]["kind"], "accepted", "{facts:#}");
    facts[0]["details"].clone()
}

/// An object of an operation.
#[track_caller]
pub fn object<'a>(operation: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut all = operation["resources"].as_array().unwrap().iter();
    all.find(|one| one["kind"] == kind && one["name"] == name).unwrap_or_else(|| panic!("{operation:#}"))
}

/// How each of its waves has ended, in order.
pub fn states(operation: &Value) -> Vec<&str> {
    operation["waves"].as_array().unwrap().iter().map(|wave| wave["state"].as_str().unwrap()).collect()
}

/// How often the cluster was asked to delete an object.
pub fn deletions(bench: &Bench, kind: &str, name: &str) -> usize {
    let writes = bench.writes();
    writes
        .iter()
        .filter(|one| {
            one["verb"] == "delete" && one["kind"] == kind && one["name"] == name && one["code"] == 200
        })
        .count()
}

fn history(service: &Service) -> Vec<Value> {
    let resource = service.bench.json(&["app", "get", "frontend", "-o", "json"]);
    resource["status"]["history"].as_array().unwrap().clone()
}

/// A revision that has one ConfigMap more than the first, and one less.
fn second_revision(service: &Service) -> String {
    let first = history(service)[0]["revision"].as_str().unwrap().to_owned();
    fs::remove_file(service.bench.path().join("fleet/repo/frontend/old.yaml")).unwrap();
    service.bench.write("fleet/repo/frontend/extra.yaml", config("extra"));
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    service.until(FRONTEND, |one| {
        one["status"]["sync"]["revision"].as_str().is_some_and(|revision| revision != first)
    });
    first
}

pub fn what_is_synced_by_hand_is_tried_pruned_and_goes_back() {
    let bench = folder(&NO_SET);
    by_hand(&bench, "frontend");
    bench.write("fleet/repo/frontend/old.yaml", config("old"));
    commit(&bench);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=frontend", |found| found["matching"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let synced = over(&service, "frontend", None);
    service.until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let first = second_revision(&service);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    // What is not asked to be pruned stays, and the question says so.
    browser.press("Sync…");
    asks(
        &browser,
        "As things stand: 2 waves, 0 hooks, 1 to create, 2 to apply, 1 no longer in the manifests, which stays.",
    );
    browser.click("#field-prune");
    asks(&browser, "2 to apply, 1 to prune, but for what asks to stay.");
    browser.click("#field-dryRun");
    asks(&browser, "Nothing of that is written.");
    confirm(&browser, "will it be taken?");
    let tried = over(&service, "frontend", Some(&synced));
    let asked_for = asked(&service, &tried);
    assert_eq!((&asked_for["dryRun"], &asked_for["prune"]), (&json!(true), &json!(true)));
    assert_eq!((&tried["initiatedBy"], &tried["reason"]), (&json!("ann"), &json!("will it be taken?")));
    assert_eq!(
        (&tried["phase"], &object(&tried, "ConfigMap", "old")["status"]),
        (&json!("Succeeded"), &json!("Pruned"))
    );
    assert_eq!(
        (deletions(&service.bench, "ConfigMap", "old"), service.bench.creations("ConfigMap", "extra")),
        (0, 0)
    );
    assert_eq!(history(&service).len(), 1, "what is only tried is no entry of the history");
    // The same, and it is written.
    browser.press("Sync…");
    asks(&browser, "1 no longer in the manifests, which stays.");
    browser.click("#field-prune");
    asks(&browser, "2 to apply, 1 to prune, but for what asks to stay.");
    confirm(&browser, "it was taken");
    let pruned = over(&service, "frontend", Some(&tried));
    let asked_for = asked(&service, &pruned);
    assert_eq!((&asked_for["dryRun"], &asked_for["prune"]), (&json!(false), &json!(true)));
    assert_eq!((&pruned["initiatedBy"], &pruned["reason"]), (&json!("ann"), &json!("it was taken")));
    assert_eq!(
        (deletions(&service.bench, "ConfigMap", "old"), service.bench.creations("ConfigMap", "extra")),
        (1, 1)
    );
    // Back again: what was there is there, and what came since is not.
    browser.press("rollback 0");
    let short = &first[..7];
    browser.until(&format!("{DIALOG}.querySelector('h2').textContent === 'Roll back to {short}'"));
    asks(&browser, &format!("argocd/frontend goes back to {short}, deployed at "));
    asks(&browser, "Created: ConfigMap fleet/old.");
    asks(&browser, "Not there then, and stays: ConfigMap fleet/extra.");
    browser.click("#field-prune");
    asks(&browser, "Deleted, but for what asks to stay: ConfigMap fleet/extra.");
    confirm(&browser, "2.0 breaks the till");
    let back = over(&service, "frontend", Some(&pruned));
    assert_eq!(back["phase"], "Succeeded", "{back:#}");
    assert_eq!((&back["initiatedBy"], &back["reason"]), (&json!("ann"), &json!("2.0 breaks the till")));
    let asked_for = asked(&service, &back);
    assert_eq!(
        (&asked_for["revision"], &asked_for["prune"], &asked_for["skipHooks"]),
        (&json!(first), &json!(true), &json!(true))
    );
    assert_eq!(
        (deletions(&service.bench, "ConfigMap", "extra"), service.bench.creations("ConfigMap", "old")),
        (1, 2)
    );
    service.until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 3));
    let entries = history(&service);
    let revisions: Vec<&str> = entries.iter().map(|one| one["revision"].as_str().unwrap()).collect();
    assert_eq!(
        (revisions[0], revisions[2]),
        (first.as_str(), first.as_str()),
        "the history goes on with the earlier revision"
    );
    assert_ne!(revisions[1], first);
    assert_eq!(entries[2]["initiatedBy"]["username"], "ann");
    // The page says the same, and has no button to go where it is.
    let rows = "[...document.getElementById('history').parentElement.querySelectorAll('tbody tr')].map((row) => [...row.children].map((one) => one.textContent))";
    browser.until(&format!(
        "{rows}.length === 3 && {rows}[0][0] === '2' && {rows}[0][2] === '{short}' && {rows}[0][3] === 'ann'"
    ));
    browser.until("[...document.querySelectorAll('[data-do^=\"rollback \"]')].map((one) => one.dataset.do).join() === 'rollback 1,rollback 0'");
    browser.open(&format!("/operations/{}", tried["id"].as_str().unwrap()));
    browser.until("document.querySelector('.terms').textContent.includes('Optionsprune, dry run')");
    browser.is_clean();
    service.end();
}

pub fn a_prune_that_needs_a_confirmation_is_named_and_confirmed() {
    let bench = folder(&NO_SET);
    by_hand(&bench, "frontend");
    let kept = |name: &str, wave: u8| {
        let asks = "argocd.argoproj.io/sync-options: Prune=confirm";
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{asks}, argocd.argoproj.io/sync-wave: \"{wave}\"}}\n"
        )
    };
    let both = format!("{}---\n{}", kept("old", 0), kept("ancient", 5));
    bench.write("fleet/repo/frontend/old.yaml", both);
    commit(&bench);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=frontend", |found| found["matching"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let synced = over(&service, "frontend", None);
    service.until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    second_revision(&service);
    service.post(&format!("{FRONTEND}/sync"), &json!({"prune": true}));
    let newest = "/api/v1/operations?application=frontend&limit=1";
    let found = service.until(newest, |found| found["items"][0]["id"] != synced["id"]);
    let id = found["items"][0]["id"].as_str().unwrap();
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser.press("Confirm prunes…");
    asks(&browser, "These objects are deleted:");
    // The one that its wave waits for, and the one of a later wave that is asked about no more.
    asks(&browser, "ConfigMap fleet/old");
    asks(&browser, "ConfigMap fleet/ancient");
    asks(&browser, " by the same confirmation");
    assert_eq!(deletions(&service.bench, "ConfigMap", "old"), 0);
    confirm(&browser, "nobody reads it");
    let pruned = over(&service, "frontend", Some(&synced));
    assert_eq!((&pruned["id"], &pruned["phase"]), (&json!(id), &json!("Succeeded")));
    assert_eq!(object(&pruned, "ConfigMap", "old")["status"], "Pruned");
    let gone = ["old", "ancient"].map(|name| deletions(&service.bench, "ConfigMap", name));
    assert_eq!(gone, [1, 1]);
    let facts = service.bench.json(&["ops", "log", id, "-o", "json"]);
    let confirmed = facts.as_array().unwrap().iter().find(|fact| fact["kind"] == "prune-confirmed").unwrap();
    assert_eq!(confirmed["details"], json!({"by": "ann", "reason": "nobody reads it"}));
    browser.until("!document.querySelector('[data-do=\"Confirm prunes…\"]')");
    browser.is_clean();
    service.end();
}

/// What comes from two folders of one repository, and is synced when somebody asks for it.
const TWO: &str = "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: two}
spec:
  project: default
  sources:
    - {repoURL: ./repo, targetRevision: main, path: shops/cart}
    - {repoURL: ./repo, targetRevision: main, path: shops/catalog}
  destination: {name: in-cluster, namespace: two}
  syncPolicy: {syncOptions: [CreateNamespace=true]}
";

pub fn each_of_several_sources_has_its_own_revision() {
    let bench = folder(&NO_SET);
    bench.write("fleet/two.yaml", TWO);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=two", |found| found["matching"] == 1);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/two");
    keep_what_is_sent(&browser);
    // So has a plan that is kept.
    browser.press("Keep a plan…");
    browser.write("#field-revision-0", "main");
    asks(&browser, "As things stand: ");
    browser.until("window.sent.some(([path]) => path.endsWith('/two/plan?revisions=main&revisions='))");
    browser.press("confirm");
    browser.until(CLOSED);
    browser.until("window.sent.some(([path, body]) => path.endsWith('/plans') && JSON.stringify(JSON.parse(body).revisions) === '[\"main\",\"\"]')");
    browser.press("Sync…");
    asks(&browser, "As things stand: ");
    let labels = format!(
        "[...{DIALOG}.querySelectorAll('[for^=field-revision]')].map((one) => one.textContent.split(' (')[0])"
    );
    browser.until(&format!("{labels}.length === 2 && {labels}[1].startsWith('Branch, tag or commit of source 2, ') && {labels}[1].endsWith('shops/catalog')"));
    browser.write("#field-revision-1", "main");
    browser.until("window.sent.some(([path]) => path.endsWith('/two/plan?revisions=&revisions=main'))");
    asks(&browser, "As things stand: ");
    confirm(&browser, "the catalog alone");
    browser.until("window.sent.some(([path, body]) => path.endsWith('/sync') && JSON.stringify(JSON.parse(body).revisions) === '[\"\",\"main\"]')");
    let synced = over(&service, "two", None);
    assert_eq!((&synced["phase"], &synced["reason"]), (&json!("Succeeded"), &json!("the catalog alone")));
    browser.is_clean();
    service.end();
}

pub fn an_operation_is_terminated_where_it_is_looked_at() {
    let bench = folder(&NO_SET);
    by_hand(&bench, "backend");
    replace(&bench, "repo/backend/migrate.yaml", "ready-after: 3s", "ready-after: 1000h");
    commit(&bench);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=backend", |found| found["matching"] == 1);
    let mut browser = service.browser(OPERATOR);
    let application = "/applications/argocd/backend".to_owned();
    let mut before = None;
    for (number, reason) in [(1, "the wrong branch"), (2, "the wrong day")] {
        service.post("/api/v1/applications/argocd/backend/sync", &json!({}));
        let found = service.until("/api/v1/operations?application=backend&limit=1", |found| {
            found["items"][0]["id"].is_string() && Some(&found["items"][0]["id"]) != before.as_ref()
        });
        let id = found["items"][0]["id"].as_str().unwrap().to_owned();
        let older = before.replace(json!(id));
        let operation = format!("/api/v1/operations/{id}");
        let is_running = |one: &Value| {
            let all = one["resources"].as_array().unwrap();
            all.iter().any(|one| one["name"] == "migrate" && one["hookPhase"] == "Running")
        };
        service.until(&operation, is_running);
        let own = format!("/operations/{id}");
        let (view, question) = if number == 1 {
            (
                &application,
                "The operation of argocd/backend that is under way ends: hooks that run are stopped, and later waves do not begin.",
            )
        } else {
            (&own, "The operation of backend ends: hooks that run are stopped, and later waves do not begin.")
        };
        browser.open(view);
        browser.press("Terminate…");
        asks(&browser, question);
        // Whoever leaves it has ended nothing.
        browser.key(key::ESCAPE);
        browser.until(CLOSED);
        let told = service.get(&operation);
        assert!(is_running(&told) && told["phase"] == "Running", "{told:#}");
        // Who means the one before ends nothing of this one.
        if let Some(older) = older {
            let body = json!({"operation": older, "reason": "late"});
            let refused =
                service.ask("POST", ENDED, &[&format!("authorization: Bearer {OPERATOR}")], Some(&body));
            assert_eq!((refused.status, refused.body.contains(&id)), (409, true), "{}", refused.body);
            assert!(is_running(&service.get(&operation)));
        }
        keep_what_is_sent(&browser);
        browser.press("Terminate…");
        confirm(&browser, reason);
        if number == 1 {
            sent(&browser, "/terminate", &json!({"operation": id}));
        }
        service.until(&operation, |one| one["finishedAt"].is_string());
        let ended = shown(&service, &id);
        assert_eq!(
            (&ended["phase"], &ended["terminatedBy"]),
            (&json!("Failed"), &json!(format!("ann: {reason}")))
        );
        assert_eq!(states(&ended), ["Failed", "Skipped", "Skipped"]);
        // The hook is stopped, and no later wave has begun.
        assert_eq!(object(&ended, "Job", "migrate")["message"], "Terminated");
        assert_eq!(
            (service.bench.creations("Job", "migrate"), deletions(&service.bench, "Job", "migrate")),
            (number, number)
        );
        assert_eq!(service.bench.creations("ConfigMap", "backend-settings"), 0);
        browser.until("document.querySelector('.lead').textContent.startsWith('Operation terminated') && !document.querySelector('[data-do=\"Terminate…\"]')");
    }
    browser.until("document.querySelector('.facts').textContent.includes('ann ends it: the wrong day')");
    browser.until("[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '✕Failed,○Not reached,○Not reached'");
    browser.is_clean();
    service.end();
}
