//! Retries, done marks and refreshes by users, for a rollout, a wave, an Application and an ApplicationSet.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::decisions::{
    DIALOG, WITHOUT_APPSET, assert_dialog, commit, confirm, confirm_with_a_reason, count_deletions,
    disable_automated_sync, get_operation, object, replace, wave_states,
};
use crate::service::{ExampleOptions, OPERATOR, Service, example_folder};

const SHOPS: &str = "/api/v1/applicationsets/argocd/shops";
/// Disables all automatic refreshes.
const NEVER: [&str; 8] =
    ["--listen", "0", "--tokens", "tokens", "--refresh-every", "0s", "--requeue-after", "1000h"];

/// Returns a hook of a shop that succeeds in its second attempt.
fn flaky_check(shop: &str) -> String {
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: {shop}-check
  annotations: {{argocd.argoproj.io/hook: PreSync, sim.tidegate.dev/fail-times: \"1\", sim.tidegate.dev/ready-after: 200ms}}
spec:
  backoffLimit: 0
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: example.com/check:1}}]}}
"
    )
}

/// Returns the number of creations of this hook in a namespace.
fn count_checks(service: &Service, namespace: &str, shop: &str) -> usize {
    let name = format!("{shop}-check");
    let writes = service.bench.writes();
    let is_it = |one: &&Value| one["namespace"] == namespace && one["name"] == name && one["code"] == 201;
    writes.iter().filter(is_it).count()
}

fn member(explanation: &Value, name: &str) -> Value {
    let all = explanation["rollout"]["members"].as_array().unwrap();
    all.iter().find(|one| one["application"] == name).unwrap().clone()
}

/// Waits until these Applications of a step have failed, and no other Application of the step is running.
fn wait_until_failed(service: &Service, step: u64, names: &[&str]) {
    let at = step.to_string();
    service.wait_until(&format!("{SHOPS}/explain"), |explanation| {
        let is_at_work =
            |one: &Value| one["step"] == at && one["status"] == "Progressing" && one["outcome"].is_null();
        explanation["rollout"]["step"] == step
            && names.iter().all(|name| member(explanation, name)["outcome"] == "Failed")
            && !explanation["rollout"]["members"].as_array().unwrap().iter().any(is_at_work)
    });
}

/// Checks which retry buttons there are, and in which order.
fn assert_retry_buttons(browser: &Browser, expected: &str) {
    browser.wait_until(&format!(
        "[...document.querySelectorAll('[data-do^=\"Retry \"]')].map((one) => one.dataset.do).join() === '{expected}'"
    ));
}

pub fn a_member_and_a_step_of_a_rollout_are_retried() {
    let rollout = Some("steps: [{step: 3, gates: [approval]}]");
    let bench = example_folder(&ExampleOptions { rollout, ..ExampleOptions::default() });
    for shop in ["cart", "catalog"] {
        bench.write(&format!("fleet/repo/shops/{shop}/check.yaml"), flaky_check(shop));
    }
    let once = "      syncPolicy:\n        retry: {limit: 0}\n";
    replace(&bench, "shops.yaml", "      syncPolicy:\n", once);
    commit(&bench);
    let service = Service::in_folder(bench);
    wait_until_failed(&service, 1, &["dev-cart", "dev-catalog"]);
    let before = service.newest_operation("dev-cart");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    // Healthy members don't have a retry button.
    assert_retry_buttons(&browser, "Retry step…,Retry dev-cart,Retry dev-catalog");
    browser.press_button("Retry dev-cart");
    browser.wait_until(&format!("{DIALOG}.querySelector('h2').textContent === 'Retry dev-cart'"));
    assert_dialog(&browser, "dev-cart is synced to its target again.");
    assert_eq!(count_checks(&service, "shops-dev", "cart"), 1);
    confirm(&browser, "the lock is gone");
    service.wait_until(&format!("{SHOPS}/explain"), |explanation| {
        member(explanation, "dev-cart")["status"] == "Healthy"
    });
    // Only the selected Application was retried.
    assert_eq!(
        (count_checks(&service, "shops-dev", "cart"), count_checks(&service, "shops-dev", "catalog")),
        (2, 1)
    );
    let explanation = service.get(&format!("{SHOPS}/explain"));
    assert_eq!(member(&explanation, "dev-catalog")["outcome"], "Failed", "{explanation:#}");
    let again = get_operation(&service, &service.newest_operation("dev-cart"));
    assert!(again["id"] != before && again["phase"] == "Succeeded", "{again:#}");
    browser.wait_until("document.querySelector('[data-key=\"dev-cart\"] .badge').textContent === '✓Healthy'");
    assert_retry_buttons(&browser, "Retry step…,Retry dev-catalog");
    browser.press_button("Retry dev-catalog");
    confirm(&browser, "");
    // In the next step, two Applications may run at once. Both fail, and the other two haven't started.
    wait_until_failed(&service, 2, &["qa-cart", "qa-catalog"]);
    browser.press_button("Retry step…");
    assert_dialog(&browser, "Unfinished Applications of step 2 are synced to their targets again.");
    assert_dialog(&browser, "4 Applications: qa-cart, qa-catalog, qa-checkout, qa-search.");
    confirm(&browser, "the network is back");
    let explanation = service.wait_until(&format!("{SHOPS}/explain"), |explanation| {
        explanation["rollout"]["step"] == 3 && explanation["rollout"]["steps"][1]["status"] == "Passed"
    });
    for (namespace, shop) in
        [("shops-dev", "cart"), ("shops-dev", "catalog"), ("shops-qa", "cart"), ("shops-qa", "catalog")]
    {
        assert_eq!(count_checks(&service, namespace, shop), 2, "{namespace} {shop}");
    }
    assert_eq!(count_checks(&service, "shops-prod", "cart"), 0);
    // The record contains the requester and the reason.
    let run = explanation["rolloutId"].as_str().unwrap();
    let record = service.bench.json(&["appset", "show-run", run, "-o", "json"]);
    let decisions = record["decisions"].as_array().unwrap().iter();
    let decisions: Vec<&str> = decisions.map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(
        decisions,
        [
            "ann retried dev-cart: the lock is gone",
            "ann retried dev-catalog",
            "ann retried qa-cart: the network is back",
            "ann retried qa-catalog: the network is back",
        ]
    );
    let rows = "[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|'))";
    let all = format!(
        "{rows}.join() === 'ann|retried dev-cart|the lock is gone,ann|retried dev-catalog|–,ann|retried qa-cart|the network is back,ann|retried qa-catalog|the network is back'"
    );
    // The retry appears next to the steps and in the record.
    browser.wait_until(&all);
    browser.open(&format!("/applicationsets/argocd/shops/runs/{run}"));
    browser.wait_until(&all);
    browser.assert_clean();
    service.stop();
}

/// Additional objects in the first wave of the frontend: a hook that doesn't end, and a hook that succeeds immediately.
const EXTRA_OBJECTS: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: warm-up
  annotations: {argocd.argoproj.io/hook: Sync, sim.tidegate.dev/ready-after: 1000h}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: example.com/warm-up:1}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
";

pub fn the_rest_of_a_wave_is_marked_as_done() {
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write("fleet/repo/frontend/besides.yaml", EXTRA_OBJECTS);
    let never = "sim.tidegate.dev/outcome: never-ready";
    replace(&bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", never);
    commit(&bench);
    let service = Service::in_folder(bench);
    let id = service.newest_operation("frontend");
    let operation = format!("/api/v1/operations/{id}");
    let runs = |one: &Value, kind: &str, name: &str| {
        let mut all = one["resources"].as_array().unwrap().iter();
        all.any(|one| one["kind"] == kind && one["name"] == name && one["hookPhase"] == "Running")
    };
    service.wait_until(&operation, |one| runs(one, "Deployment", "frontend") && runs(one, "Job", "warm-up"));
    assert_eq!(service.bench.creations("Service", "frontend"), 0);
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    let name = "unfinished tasks of wave Sync/0";
    browser.press_button(&format!("Mark as done {name}"));
    browser.wait_until(&format!("{DIALOG}.querySelector('h2').textContent === 'Mark as done: {name}'"));
    assert_dialog(&browser, &format!("Counted as done, regardless of the state in the cluster: {name}."));
    assert_dialog(&browser, "2 objects: ");
    assert_dialog(&browser, "Deployment fleet/frontend");
    assert_dialog(&browser, "Job fleet/warm-up");
    confirm_with_a_reason(&browser, "warm enough for today");
    service.wait_until(&operation, |one| one["finishedAt"].is_string());
    let ended = get_operation(&service, &id);
    assert_eq!(ended["phase"], "Succeeded", "{ended:#}");
    for (kind, name) in [("Deployment", "frontend"), ("Job", "warm-up")] {
        let one = object(&ended, kind, name);
        let decision = &one["override"];
        assert_eq!(
            json!([one["status"], decision["action"], decision["by"], decision["reason"]]),
            json!(["MarkedDone", "MarkDone", "ann", "warm enough for today"]),
            "{one:#}"
        );
    }
    // A task that had already finished isn't listed as a decision.
    let done = object(&ended, "ConfigMap", "settings");
    assert!(done["override"].is_null() && done["status"] == "Synced", "{done:#}");
    let events = service.bench.json(&["ops", "log", &id, "-o", "json"]);
    let events = events.as_array().unwrap().iter().filter(|event| event["kind"] == "overridden");
    let events: Vec<&str> = events.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(
        events,
        [
            "ann marked Deployment fleet/frontend as done: warm enough for today",
            "ann marked Sync hook Job fleet/warm-up as done: warm enough for today",
        ]
    );
    // The next wave started afterwards, no write was repeated, and the hook is still running.
    assert_eq!(
        (
            service.bench.creations("Service", "frontend"),
            service.bench.creations("Job", "warm-up"),
            count_deletions(&service.bench, "Job", "warm-up"),
        ),
        (1, 1, 0)
    );
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].map((row) => row.textContent)";
    for named in ["Deployment fleet/frontend", "Job fleet/warm-up"] {
        browser.wait_until(&format!("{rows}.some((row) => row.includes('{named}') && row.includes('✓Marked as done') && row.includes('warm enough for today'))"));
    }
    // The first of the three applications creates the namespace in an earlier wave of its plan.
    let waves = wave_states(&ended);
    assert!([2, 3].contains(&waves.len()) && waves.iter().all(|state| *state == "Passed"), "{waves:?}");
    let badges = vec!["✓Passed"; waves.len()].join(",");
    browser.wait_until(&format!(
        "[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '{badges}'"
    ));
    browser.wait_until("!document.querySelector('main .actions button')");
    browser.assert_clean();
    service.stop();
}

/// An object that stays in the cluster when it is no longer in the manifests.
const STAYS: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: old
  annotations: {argocd.argoproj.io/sync-options: Prune=false}
";

pub fn objects_that_a_wave_leaves_alone_are_not_listed() {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "frontend");
    bench.write("fleet/repo/frontend/old.yaml", STAYS);
    commit(&bench);
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?name=frontend", |found| found["total"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let explanation = service
        .wait_until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let (first, revision) =
        (service.newest_operation("frontend"), explanation["status"]["history"][0]["revision"].clone());
    std::fs::remove_file(service.bench.path().join("fleet/repo/frontend/old.yaml")).unwrap();
    let gated = "sim.tidegate.dev/ready-after: 500ms\n    tidegate.dev/gate: approval";
    replace(&service.bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", gated);
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    service.wait_until(FRONTEND, |one| {
        one["status"]["sync"]["revision"].is_string() && one["status"]["sync"]["revision"] != revision
    });
    service.post(&format!("{FRONTEND}/sync"), &json!({"prune": true}));
    let found = service.wait_until("/api/v1/operations?application=frontend&limit=1", |found| {
        found["items"][0]["id"] != first.as_str()
    });
    let id = found["items"][0]["id"].as_str().unwrap();
    let held = service.wait_until(&format!("/api/v1/operations/{id}"), |one| {
        one["waves"].as_array().unwrap().iter().any(|wave| wave["state"] == "Held")
    });
    let wave = held["waves"].as_array().unwrap().iter().find(|wave| wave["state"] == "Held").unwrap();
    assert!(
        wave["wave"] == 0 && wave["tasks"].as_u64() > Some(1),
        "kept objects are in their wave: {held:#}"
    );
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser
        .wait_until("document.querySelector('[data-key=\"Sync 0\"] small')?.textContent === '0 of 1 done'");
    browser.press_button("Skip unfinished tasks of wave Sync/0");
    assert_dialog(&browser, "Application frontend, wave Sync/0, 1 object: Deployment fleet/frontend.");
    confirm_with_a_reason(&browser, "not today");
    service.wait_until(&format!("/api/v1/operations/{id}"), |one| one["finishedAt"].is_string());
    browser.wait_until(
        "document.querySelector('[data-key=\"Sync 0\"] small')?.textContent === '0 of 1 done, 1 skipped'",
    );
    assert_eq!(count_deletions(&service.bench, "ConfigMap", "old"), 0);
    browser.assert_clean();
    service.stop();
}

const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
/// The other Applications of the example, which use the same repository.
const OTHER_APPS: [&str; 2] = ["backend", "database"];

pub fn an_application_is_refreshed_on_request() {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "frontend");
    let service = Service::with_options(bench, &NEVER);
    // A deployment also refreshes the repository, for all Applications that use it.
    service.wait_until_synced(&OTHER_APPS);
    let compared = |one: &Value| one["status"]["sync"]["revision"].as_str().map(str::to_owned);
    let first = service.wait_until(FRONTEND, |one| compared(one).is_some());
    let first = compared(&first).unwrap();
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    // The view has already refreshed the repository, and doesn't refresh it again before a change.
    browser.wait_until("document.querySelectorAll('.phase').length === 2 && document.querySelector('#differs + div details')");
    replace(&service.bench, "repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    commit(&service.bench);
    let revision = "[...document.querySelectorAll('.terms > div')].find((one) => one.querySelector('dt').textContent === 'Compared with').querySelector('dd').textContent";
    browser.wait_until(&format!("{revision} === '{}'", &first[..7]));
    browser.press_button("Refresh…");
    assert_dialog(
        &browser,
        "The repository of argocd/frontend is fetched, and the manifests are compared with the cluster. Nothing is written.",
    );
    browser.press_button("confirm");
    browser.wait_until("!document.querySelector('dialog')");
    let second = service.wait_until(FRONTEND, |one| compared(one).is_some_and(|found| found != first));
    let second = compared(&second).unwrap();
    browser.wait_until(&format!("{revision} === '{}'", &second[..7]));
    // As the dialog says, the refresh doesn't write anything.
    let writes = service.bench.writes();
    assert!(!writes.iter().any(|one| one["name"] == "frontend"), "{writes:#?}");
    assert_eq!(service.get("/api/v1/operations?application=frontend")["total"], 0);
    // A refresh also works without changes, and as a hard refresh. By then, the other Applications have also
    // observed the new commit.
    for other in OTHER_APPS {
        service.wait_until(&format!("/api/v1/applications/argocd/{other}"), |one| {
            compared(one).as_ref() == Some(&second)
        });
    }
    let before = service.comparisons();
    browser.press_button("Refresh…");
    browser.click("#field-hard");
    browser.press_button("confirm");
    browser.wait_until("!document.querySelector('dialog')");
    assert_eq!(service.comparisons(), before + 1);
    browser.assert_clean();
    service.stop();
}

pub fn an_appset_is_refreshed_on_request() {
    let service = Service::with_options(example_folder(&ExampleOptions::default()), &NEVER);
    service.wait_until_synced(&[]);
    let backend = "/api/v1/applications/argocd/backend";
    let before = service.get(backend)["status"]["sync"]["revision"].clone();
    let basket =
        std::fs::read_to_string(service.bench.path().join("fleet/repo/shops/cart/cart.yaml")).unwrap();
    service.bench.write("fleet/repo/shops/basket/basket.yaml", basket.replace("cart", "basket"));
    commit(&service.bench);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press_button("Refresh…");
    assert_dialog(
        &browser,
        "The generators of shops run now. If their output has changed, the Applications are updated.",
    );
    assert_eq!(service.get("/api/v1/applications?name=basket")["total"], 0);
    browser.press_button("confirm");
    service.wait_until("/api/v1/applications?name=basket", |found| found["total"] == 3);
    // The new Applications are rolled out like the others, and the page shows them.
    browser.wait_until("['dev', 'qa', 'prod'].every((env) => document.querySelector(`[data-key=\"${env}-basket\"] .badge`)?.textContent === '✓Healthy')");
    let made: Vec<Value> = service
        .bench
        .writes()
        .iter()
        .filter(|one| one["kind"] == "Deployment" && one["name"] == "basket" && one["code"] == 201)
        .map(|one| one["namespace"].clone())
        .collect();
    assert_eq!(made, ["shops-dev", "shops-qa", "shops-prod"]);
    // The refresh has found a new commit, which also reaches another Application that uses the repository.
    service.wait_until(backend, |one| one["status"]["sync"]["revision"] != before);
    browser.assert_clean();
    service.stop();
}
