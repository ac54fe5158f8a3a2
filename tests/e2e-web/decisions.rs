//! User decisions about single Applications. Dialogs describe the effects, and the record contains the person
//! and the reason.

use std::fs;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::browser::{Browser, key};
use crate::service::{ExampleOptions, OPERATOR, Service, example_folder};

pub const WITHOUT_APPSET: ExampleOptions =
    ExampleOptions { rollout: None, has_no_appset: true, is_gated: false };
pub const DIALOG: &str = "document.querySelector('dialog[open]')";
const CLOSED: &str = "!document.querySelector('dialog')";
const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
const ENDED: &str = "/api/v1/applications/argocd/backend/terminate";

/// Disables the automated sync of an Application.
pub fn disable_automated_sync(bench: &Bench, name: &str) {
    let path = bench.path().join(format!("fleet/{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap();
    let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(automated), "{text}");
    fs::write(&path, text.replace(automated, "")).unwrap();
}

/// Replaces a text in a file of the folder.
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

/// Confirms a dialog, which requires a reason.
#[track_caller]
pub fn confirm_with_a_reason(browser: &Browser, reason: &str) {
    browser.press_button("confirm");
    let missing =
        browser.run(&format!("return {DIALOG}.querySelector('#field-reason').validity.valueMissing"));
    assert_eq!(missing, json!(true));
    confirm(browser, reason);
}

#[track_caller]
pub fn confirm(browser: &Browser, reason: &str) {
    browser.type_text("#field-reason", reason);
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
}

#[track_caller]
pub fn assert_dialog(browser: &Browser, text: &str) {
    browser.wait_until(&format!("{DIALOG}.textContent.includes({})", json!(text)));
}

/// Records the requests of the page until another page is loaded.
pub fn record_requests(browser: &Browser) {
    browser.run(
        "window.asked ??= window.fetch; window.sent = [];
         window.fetch = (path, options) => { window.sent.push([String(path), options?.body]); return window.asked(path, options); }",
    );
}

/// Checks that the page has sent this body to a path that ends with `suffix`.
#[track_caller]
pub fn assert_sent(browser: &Browser, path: &str, text: &Value) {
    browser.wait_until(&format!(
        "window.sent.some(([path, body]) => path.endsWith('{path}') && Object.entries({text}).every(([name, value]) => JSON.parse(body)[name] === value))"
    ));
}

/// Waits for the operation that follows another operation of an Application, and for its end. Returns the
/// operation in the format of `ops show`.
#[track_caller]
fn wait_for_next_operation(service: &Service, application: &str, before: Option<&Value>) -> Value {
    let target = format!("/api/v1/operations?application={application}&limit=1");
    let is_it = |found: &Value| {
        let newest = &found["items"][0];
        newest["finishedAt"].is_string() && before.is_none_or(|before| newest["id"] != before["id"])
    };
    let found = service.wait_until(&target, is_it);
    get_operation(service, found["items"][0]["id"].as_str().unwrap())
}

pub fn get_operation(service: &Service, id: &str) -> Value {
    service.bench.json(&["ops", "show", id, "-o", "json"])
}

/// Returns the request of an operation from its first event.
fn operation_request(service: &Service, operation: &Value) -> Value {
    let events = service.bench.json(&["ops", "log", operation["id"].as_str().unwrap(), "-o", "json"]);
    assert_eq!(events[0]["kind"], "accepted", "{events:#}");
    events[0]["details"].clone()
}

/// Returns an object of an operation.
#[track_caller]
pub fn object<'a>(operation: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut all = operation["resources"].as_array().unwrap().iter();
    all.find(|one| one["kind"] == kind && one["name"] == name).unwrap_or_else(|| panic!("{operation:#}"))
}

/// Returns the final state of each wave of the operation, in order.
pub fn wave_states(operation: &Value) -> Vec<&str> {
    operation["waves"].as_array().unwrap().iter().map(|wave| wave["state"].as_str().unwrap()).collect()
}

/// Returns the number of deletion requests for an object.
pub fn count_deletions(bench: &Bench, kind: &str, name: &str) -> usize {
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

/// Commits a second revision, in which one ConfigMap is added and one is removed.
fn commit_second_revision(service: &Service) -> String {
    let first = history(service)[0]["revision"].as_str().unwrap().to_owned();
    fs::remove_file(service.bench.path().join("fleet/repo/frontend/old.yaml")).unwrap();
    service.bench.write("fleet/repo/frontend/extra.yaml", config("extra"));
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    service.wait_until(FRONTEND, |one| {
        one["status"]["sync"]["revision"].as_str().is_some_and(|revision| revision != first)
    });
    first
}

pub fn a_manual_sync_is_tried_pruned_and_rolled_back() {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "frontend");
    bench.write("fleet/repo/frontend/old.yaml", config("old"));
    commit(&bench);
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?name=frontend", |found| found["total"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let synced = wait_for_next_operation(&service, "frontend", None);
    service.wait_until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let first = commit_second_revision(&service);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    // Objects stay if the sync doesn't prune, and the dialog says so.
    browser.press_button("Sync…");
    assert_dialog(
        &browser,
        "Preview: 2 waves, 0 hooks, 1 to create, 2 to apply, 1 no longer in the manifests and kept.",
    );
    browser.click("#field-prune");
    assert_dialog(&browser, "2 to apply, 1 to prune, except objects with Prune=false.");
    browser.click("#field-dryRun");
    assert_dialog(&browser, "Dry run: nothing is written.");
    confirm(&browser, "will it be taken?");
    let tried = wait_for_next_operation(&service, "frontend", Some(&synced));
    let asked_for = operation_request(&service, &tried);
    assert_eq!((&asked_for["dryRun"], &asked_for["prune"]), (&json!(true), &json!(true)));
    assert_eq!((&tried["initiatedBy"], &tried["reason"]), (&json!("ann"), &json!("will it be taken?")));
    assert_eq!(
        (&tried["phase"], &object(&tried, "ConfigMap", "old")["status"]),
        (&json!("Succeeded"), &json!("Pruned"))
    );
    assert_eq!(
        (count_deletions(&service.bench, "ConfigMap", "old"), service.bench.creations("ConfigMap", "extra")),
        (0, 0)
    );
    assert_eq!(history(&service).len(), 1, "a dry run adds no history entry");
    // The same sync, with writes.
    browser.press_button("Sync…");
    assert_dialog(&browser, "1 no longer in the manifests and kept.");
    browser.click("#field-prune");
    assert_dialog(&browser, "2 to apply, 1 to prune, except objects with Prune=false.");
    confirm(&browser, "it was taken");
    let pruned = wait_for_next_operation(&service, "frontend", Some(&tried));
    let asked_for = operation_request(&service, &pruned);
    assert_eq!((&asked_for["dryRun"], &asked_for["prune"]), (&json!(false), &json!(true)));
    assert_eq!((&pruned["initiatedBy"], &pruned["reason"]), (&json!("ann"), &json!("it was taken")));
    assert_eq!(
        (count_deletions(&service.bench, "ConfigMap", "old"), service.bench.creations("ConfigMap", "extra")),
        (1, 1)
    );
    // After the rollback, removed objects exist again, and newer objects don't.
    browser.press_button("rollback 0");
    let short = &first[..7];
    browser.wait_until(&format!("{DIALOG}.querySelector('h2').textContent === 'Roll back to {short}'"));
    assert_dialog(&browser, &format!("argocd/frontend is rolled back to {short}, deployed at "));
    assert_dialog(&browser, "Created: ConfigMap fleet/old.");
    assert_dialog(&browser, "Not in that revision, kept: ConfigMap fleet/extra.");
    browser.click("#field-prune");
    assert_dialog(&browser, "Deleted, except objects with Prune=false: ConfigMap fleet/extra.");
    confirm(&browser, "2.0 breaks the till");
    let back = wait_for_next_operation(&service, "frontend", Some(&pruned));
    assert_eq!(back["phase"], "Succeeded", "{back:#}");
    assert_eq!((&back["initiatedBy"], &back["reason"]), (&json!("ann"), &json!("2.0 breaks the till")));
    let asked_for = operation_request(&service, &back);
    assert_eq!(
        (&asked_for["revision"], &asked_for["prune"], &asked_for["skipHooks"]),
        (&json!(first), &json!(true), &json!(true))
    );
    assert_eq!(
        (count_deletions(&service.bench, "ConfigMap", "extra"), service.bench.creations("ConfigMap", "old")),
        (1, 2)
    );
    service.wait_until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 3));
    let entries = history(&service);
    let revisions: Vec<&str> = entries.iter().map(|one| one["revision"].as_str().unwrap()).collect();
    assert_eq!(
        (revisions[0], revisions[2]),
        (first.as_str(), first.as_str()),
        "the history continues with the earlier revision"
    );
    assert_ne!(revisions[1], first);
    assert_eq!(entries[2]["initiatedBy"]["username"], "ann");
    // The page shows the same, and doesn't have a button for the current revision.
    let rows = "[...document.getElementById('history').parentElement.querySelectorAll('tbody tr')].map((row) => [...row.children].map((one) => one.textContent))";
    browser.wait_until(&format!(
        "{rows}.length === 3 && {rows}[0][0] === '2' && {rows}[0][2] === '{short}' && {rows}[0][3] === 'ann'"
    ));
    browser.wait_until("[...document.querySelectorAll('[data-do^=\"rollback \"]')].map((one) => one.dataset.do).join() === 'rollback 1,rollback 0'");
    browser.open(&format!("/operations/{}", tried["id"].as_str().unwrap()));
    browser.wait_until("document.querySelector('.terms').textContent.includes('Optionsprune, dry run')");
    browser.assert_clean();
    service.stop();
}

pub fn a_prune_that_needs_confirmation_is_named_and_confirmed() {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "frontend");
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
    service.wait_until("/api/v1/applications?name=frontend", |found| found["total"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let synced = wait_for_next_operation(&service, "frontend", None);
    service.wait_until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    commit_second_revision(&service);
    service.post(&format!("{FRONTEND}/sync"), &json!({"prune": true}));
    let newest = "/api/v1/operations?application=frontend&limit=1";
    let found = service.wait_until(newest, |found| found["items"][0]["id"] != synced["id"]);
    let id = found["items"][0]["id"].as_str().unwrap();
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser.press_button("Confirm prunes…");
    assert_dialog(&browser, "These objects are deleted:");
    // Asks for the confirmation that the wave is waiting for, and for a confirmation in a later wave, which
    // is no longer needed afterwards.
    assert_dialog(&browser, "ConfigMap fleet/old");
    assert_dialog(&browser, "ConfigMap fleet/ancient");
    assert_dialog(&browser, "the same confirmation covers it");
    assert_eq!(count_deletions(&service.bench, "ConfigMap", "old"), 0);
    confirm(&browser, "nobody reads it");
    let pruned = wait_for_next_operation(&service, "frontend", Some(&synced));
    assert_eq!((&pruned["id"], &pruned["phase"]), (&json!(id), &json!("Succeeded")));
    assert_eq!(object(&pruned, "ConfigMap", "old")["status"], "Pruned");
    let gone = ["old", "ancient"].map(|name| count_deletions(&service.bench, "ConfigMap", name));
    assert_eq!(gone, [1, 1]);
    let events = service.bench.json(&["ops", "log", id, "-o", "json"]);
    let confirmed =
        events.as_array().unwrap().iter().find(|event| event["kind"] == "prune-confirmed").unwrap();
    assert_eq!(confirmed["details"], json!({"by": "ann", "reason": "nobody reads it"}));
    browser.wait_until("!document.querySelector('[data-do=\"Confirm prunes…\"]')");
    browser.assert_clean();
    service.stop();
}

/// An Application with objects from two folders of one repository, synced manually.
const TWO_SOURCES: &str = "apiVersion: argoproj.io/v1alpha1
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
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write("fleet/two.yaml", TWO_SOURCES);
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?name=two", |found| found["total"] == 1);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/two");
    record_requests(&browser);
    // The dialog for a stored plan offers the same choices.
    browser.press_button("Store a plan…");
    browser.type_text("#field-revision-0", "main");
    assert_dialog(&browser, "Preview: ");
    browser.wait_until("window.sent.some(([path]) => path.endsWith('/two/plan?revisions=main&revisions='))");
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
    browser.wait_until("window.sent.some(([path, body]) => path.endsWith('/plans') && JSON.stringify(JSON.parse(body).revisions) === '[\"main\",\"\"]')");
    browser.press_button("Sync…");
    assert_dialog(&browser, "Preview: ");
    let labels = format!(
        "[...{DIALOG}.querySelectorAll('[for^=field-revision]')].map((one) => one.textContent.split(' (')[0])"
    );
    browser.wait_until(&format!("{labels}.length === 2 && {labels}[1].startsWith('Branch, tag or commit of source 2, ') && {labels}[1].endsWith('shops/catalog')"));
    browser.type_text("#field-revision-1", "main");
    browser.wait_until("window.sent.some(([path]) => path.endsWith('/two/plan?revisions=&revisions=main'))");
    assert_dialog(&browser, "Preview: ");
    confirm(&browser, "the catalog alone");
    browser.wait_until("window.sent.some(([path, body]) => path.endsWith('/sync') && JSON.stringify(JSON.parse(body).revisions) === '[\"\",\"main\"]')");
    let synced = wait_for_next_operation(&service, "two", None);
    assert_eq!((&synced["phase"], &synced["reason"]), (&json!("Succeeded"), &json!("the catalog alone")));
    browser.assert_clean();
    service.stop();
}

pub fn an_operation_is_terminated_on_its_own_view() {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "backend");
    replace(&bench, "repo/backend/migrate.yaml", "ready-after: 3s", "ready-after: 1000h");
    commit(&bench);
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?name=backend", |found| found["total"] == 1);
    let mut browser = service.browser(OPERATOR);
    let application = "/applications/argocd/backend".to_owned();
    let mut before = None;
    for (number, reason) in [(1, "the wrong branch"), (2, "the wrong day")] {
        service.post("/api/v1/applications/argocd/backend/sync", &json!({}));
        let found = service.wait_until("/api/v1/operations?application=backend&limit=1", |found| {
            found["items"][0]["id"].is_string() && Some(&found["items"][0]["id"]) != before.as_ref()
        });
        let id = found["items"][0]["id"].as_str().unwrap().to_owned();
        let older = before.replace(json!(id));
        let operation = format!("/api/v1/operations/{id}");
        let is_running = |one: &Value| {
            let all = one["resources"].as_array().unwrap();
            all.iter().any(|one| one["name"] == "migrate" && one["hookPhase"] == "Running")
        };
        service.wait_until(&operation, is_running);
        let own = format!("/operations/{id}");
        let (view, question) = if number == 1 {
            (
                &application,
                "The current operation of argocd/backend is terminated: running hooks are stopped, and later waves do not start.",
            )
        } else {
            (
                &own,
                "The operation of backend is terminated: running hooks are stopped, and later waves do not start.",
            )
        };
        browser.open(view);
        browser.press_button("Terminate…");
        assert_dialog(&browser, question);
        // Closing the dialog doesn't terminate the operation.
        browser.press_key(key::ESCAPE);
        browser.wait_until(CLOSED);
        let response = service.get(&operation);
        assert!(is_running(&response) && response["phase"] == "Running", "{response:#}");
        // A request that was meant for the previous operation doesn't end this operation.
        if let Some(older) = older {
            let body = json!({"operation": older, "reason": "late"});
            let refused =
                service.request("POST", ENDED, &[&format!("authorization: Bearer {OPERATOR}")], Some(&body));
            assert_eq!((refused.status, refused.body.contains(&id)), (409, true), "{}", refused.body);
            assert!(is_running(&service.get(&operation)));
        }
        record_requests(&browser);
        browser.press_button("Terminate…");
        confirm(&browser, reason);
        if number == 1 {
            assert_sent(&browser, "/terminate", &json!({"operation": id}));
        }
        service.wait_until(&operation, |one| one["finishedAt"].is_string());
        let ended = get_operation(&service, &id);
        assert_eq!(
            (&ended["phase"], &ended["terminatedBy"]),
            (&json!("Failed"), &json!(format!("ann: {reason}")))
        );
        assert_eq!(wave_states(&ended), ["Failed", "Skipped", "Skipped"]);
        // The hook is stopped, and no later wave has started.
        assert_eq!(object(&ended, "Job", "migrate")["message"], "Terminated");
        assert_eq!(
            (service.bench.creations("Job", "migrate"), count_deletions(&service.bench, "Job", "migrate")),
            (number, number)
        );
        assert_eq!(service.bench.creations("ConfigMap", "backend-settings"), 0);
        browser.wait_until("document.querySelector('.lead').textContent.startsWith('Operation terminated') && !document.querySelector('[data-do=\"Terminate…\"]')");
    }
    browser.wait_until(
        "document.querySelector('.facts').textContent.includes('ann terminated the operation: the wrong day')",
    );
    browser.wait_until("[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '✕Failed,○Not reached,○Not reached'");
    browser.assert_clean();
    service.stop();
}
