//! What people have tried again, marked as done and looked at again: of a rollout, of a wave, of an Application and of an
//! ApplicationSet.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::decisions::{
    DIALOG, NO_SET, asks, by_hand, commit, confirm, confirm_with_a_reason, deletions, object, replace, shown,
    states,
};
use crate::service::{Different, OPERATOR, Service, folder};

const SHOPS: &str = "/api/v1/applicationsets/argocd/shops";
/// Nothing is looked at but what somebody asks for.
const NEVER: [&str; 8] =
    ["--listen", "0", "--tokens", "tokens", "--refresh-every", "0s", "--requeue-after", "1000h"];

/// A hook of a shop that succeeds when it is tried a second time.
fn check(shop: &str) -> String {
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

/// How often the cluster has made this hook in a namespace.
fn checks(service: &Service, namespace: &str, shop: &str) -> usize {
    let name = format!("{shop}-check");
    let writes = service.bench.writes();
    let is_it = |one: &&Value| one["namespace"] == namespace && one["name"] == name && one["code"] == 201;
    writes.iter().filter(is_it).count()
}

fn member(told: &Value, name: &str) -> Value {
    let all = told["rollout"]["members"].as_array().unwrap();
    all.iter().find(|one| one["application"] == name).unwrap().clone()
}

/// Waits until these Applications of a step have failed, and no other of it is at work.
fn failed(service: &Service, step: u64, names: &[&str]) {
    let at = step.to_string();
    service.until(&format!("{SHOPS}/explain"), |told| {
        let is_at_work =
            |one: &Value| one["step"] == at && one["status"] == "Progressing" && one["outcome"].is_null();
        told["rollout"]["step"] == step
            && names.iter().all(|name| member(told, name)["outcome"] == "Failed")
            && !told["rollout"]["members"].as_array().unwrap().iter().any(is_at_work)
    });
}

/// The buttons that try something again, in their order.
fn retries(browser: &Browser, expected: &str) {
    browser.until(&format!(
        "[...document.querySelectorAll('[data-do^=\"Retry \"]')].map((one) => one.dataset.do).join() === '{expected}'"
    ));
}

pub fn a_member_and_a_step_of_a_rollout_are_retried() {
    let rollout = Some("steps: [{step: 3, gates: [approval]}]");
    let bench = folder(&Different { rollout, ..Different::default() });
    for shop in ["cart", "catalog"] {
        bench.write(&format!("fleet/repo/shops/{shop}/check.yaml"), check(shop));
    }
    let once = "      syncPolicy:\n        retry: {limit: 0}\n";
    replace(&bench, "shops.yaml", "      syncPolicy:\n", once);
    commit(&bench);
    let service = Service::in_folder(bench);
    failed(&service, 1, &["dev-cart", "dev-catalog"]);
    let before = service.newest("dev-cart");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    // What is well has nothing to be tried again.
    retries(&browser, "Retry step…,Retry dev-cart,Retry dev-catalog");
    browser.press("Retry dev-cart");
    browser.until(&format!("{DIALOG}.querySelector('h2').textContent === 'Retry dev-cart'"));
    asks(&browser, "dev-cart is brought to its target once more.");
    assert_eq!(checks(&service, "shops-dev", "cart"), 1);
    confirm(&browser, "the lock is gone");
    service.until(&format!("{SHOPS}/explain"), |told| member(told, "dev-cart")["status"] == "Healthy");
    // That one was, and nobody else.
    assert_eq!((checks(&service, "shops-dev", "cart"), checks(&service, "shops-dev", "catalog")), (2, 1));
    let told = service.get(&format!("{SHOPS}/explain"));
    assert_eq!(member(&told, "dev-catalog")["outcome"], "Failed", "{told:#}");
    let again = shown(&service, &service.newest("dev-cart"));
    assert!(again["id"] != before && again["phase"] == "Succeeded", "{again:#}");
    browser.until("document.querySelector('[data-key=\"dev-cart\"] .badge').textContent === '✓Healthy'");
    retries(&browser, "Retry step…,Retry dev-catalog");
    browser.press("Retry dev-catalog");
    confirm(&browser, "");
    // In the next step two may be on their way, both fail, and the two others have not begun.
    failed(&service, 2, &["qa-cart", "qa-catalog"]);
    browser.press("Retry step…");
    asks(&browser, "Applications of step 2 that are not done are brought to their targets once more.");
    asks(&browser, "4 Applications: qa-cart, qa-catalog, qa-checkout, qa-search.");
    confirm(&browser, "the network is back");
    let told = service.until(&format!("{SHOPS}/explain"), |told| {
        told["rollout"]["step"] == 3 && told["rollout"]["steps"][1]["status"] == "Passed"
    });
    for (namespace, shop) in
        [("shops-dev", "cart"), ("shops-dev", "catalog"), ("shops-qa", "cart"), ("shops-qa", "catalog")]
    {
        assert_eq!(checks(&service, namespace, shop), 2, "{namespace} {shop}");
    }
    assert_eq!(checks(&service, "shops-prod", "cart"), 0);
    // Who has had it tried again, and why, is in the record.
    let run = told["rolloutId"].as_str().unwrap();
    let record = service.bench.json(&["appset", "show-run", run, "-o", "json"]);
    let decisions = record["decisions"].as_array().unwrap().iter();
    let decisions: Vec<&str> = decisions.map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(
        decisions,
        [
            "ann has dev-cart tried again: the lock is gone",
            "ann has dev-catalog tried again",
            "ann has qa-cart tried again: the network is back",
            "ann has qa-catalog tried again: the network is back",
        ]
    );
    let rows = "[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|'))";
    let all = format!(
        "{rows}.join() === 'ann|has dev-cart tried again|the lock is gone,ann|has dev-catalog tried again|–,ann|has qa-cart tried again|the network is back,ann|has qa-catalog tried again|the network is back'"
    );
    // It is beside the steps as it is decided, and in the record.
    browser.until(&all);
    browser.open(&format!("/applicationsets/argocd/shops/runs/{run}"));
    browser.until(&all);
    browser.is_clean();
    service.end();
}

/// What is in the first wave of the frontend besides: a hook that does not end, and what is done at once.
const BESIDES: &str = "apiVersion: batch/v1
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

pub fn what_is_not_done_of_a_wave_is_marked_as_done() {
    let bench = folder(&NO_SET);
    bench.write("fleet/repo/frontend/besides.yaml", BESIDES);
    let never = "sim.tidegate.dev/outcome: never-ready";
    replace(&bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", never);
    commit(&bench);
    let service = Service::in_folder(bench);
    let id = service.newest("frontend");
    let operation = format!("/api/v1/operations/{id}");
    let runs = |one: &Value, kind: &str, name: &str| {
        let mut all = one["resources"].as_array().unwrap().iter();
        all.any(|one| one["kind"] == kind && one["name"] == name && one["hookPhase"] == "Running")
    };
    service.until(&operation, |one| runs(one, "Deployment", "frontend") && runs(one, "Job", "warm-up"));
    assert_eq!(service.bench.creations("Service", "frontend"), 0);
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    let name = "what is not done of wave Sync/0";
    browser.press(&format!("Mark as done {name}"));
    browser.until(&format!("{DIALOG}.querySelector('h2').textContent === 'Mark as done: {name}'"));
    asks(&browser, &format!("{name} counts as done, whatever the cluster says of it."));
    asks(&browser, "2 objects: ");
    asks(&browser, "Deployment fleet/frontend");
    asks(&browser, "Job fleet/warm-up");
    confirm_with_a_reason(&browser, "warm enough for today");
    service.until(&operation, |one| one["finishedAt"].is_string());
    let ended = shown(&service, &id);
    assert_eq!(ended["phase"], "Succeeded", "{ended:#}");
    for (kind, name) in [("Deployment", "frontend"), ("Job", "warm-up")] {
        let one = object(&ended, kind, name);
        let decision = &one["overridden"];
        assert_eq!(
            json!([one["status"], decision["what"], decision["by"], decision["reason"]]),
            json!(["MarkedDone", "MarkDone", "ann", "warm enough for today"]),
            "{one:#}"
        );
    }
    // What was done already is nothing that anybody has decided.
    let done = object(&ended, "ConfigMap", "settings");
    assert!(done["overridden"].is_null() && done["status"] == "Synced", "{done:#}");
    let facts = service.bench.json(&["ops", "log", &id, "-o", "json"]);
    let facts = facts.as_array().unwrap().iter().filter(|fact| fact["kind"] == "overridden");
    let facts: Vec<&str> = facts.map(|fact| fact["text"].as_str().unwrap()).collect();
    assert_eq!(
        facts,
        [
            "ann marks Deployment fleet/frontend as done: warm enough for today",
            "ann marks Sync hook Job fleet/warm-up as done: warm enough for today",
        ]
    );
    // The next wave came after that, nothing was written twice, and the hook runs on.
    assert_eq!(
        (
            service.bench.creations("Service", "frontend"),
            service.bench.creations("Job", "warm-up"),
            deletions(&service.bench, "Job", "warm-up"),
        ),
        (1, 1, 0)
    );
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].map((row) => row.textContent)";
    for named in ["Deployment fleet/frontend", "Job fleet/warm-up"] {
        browser.until(&format!("{rows}.some((row) => row.includes('{named}') && row.includes('✓Marked as done') && row.includes('warm enough for today'))"));
    }
    // Whether the namespace is made in a wave before depends on which application comes first: its plan says so.
    let waves = states(&ended);
    assert!([2, 3].contains(&waves.len()) && waves.iter().all(|state| *state == "Passed"), "{waves:?}");
    let badges = vec!["✓Passed"; waves.len()].join(",");
    browser.until(&format!(
        "[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '{badges}'"
    ));
    browser.until("!document.querySelector('main .actions button')");
    browser.is_clean();
    service.end();
}

/// What stays when it is no longer in the manifests.
const STAYS: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: old
  annotations: {argocd.argoproj.io/sync-options: Prune=false}
";

pub fn what_a_wave_leaves_alone_is_neither_named_nor_counted() {
    let bench = folder(&NO_SET);
    by_hand(&bench, "frontend");
    bench.write("fleet/repo/frontend/old.yaml", STAYS);
    commit(&bench);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=frontend", |found| found["matching"] == 1);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    let told =
        service.until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let (first, revision) = (service.newest("frontend"), told["status"]["history"][0]["revision"].clone());
    std::fs::remove_file(service.bench.path().join("fleet/repo/frontend/old.yaml")).unwrap();
    let gated = "sim.tidegate.dev/ready-after: 500ms\n    tidegate.dev/gate: approval";
    replace(&service.bench, "repo/frontend/frontend.yaml", "sim.tidegate.dev/ready-after: 500ms", gated);
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    service.until(FRONTEND, |one| {
        one["status"]["sync"]["revision"].is_string() && one["status"]["sync"]["revision"] != revision
    });
    service.post(&format!("{FRONTEND}/sync"), &json!({"prune": true}));
    let found = service.until("/api/v1/operations?application=frontend&limit=1", |found| {
        found["items"][0]["id"] != first.as_str()
    });
    let id = found["items"][0]["id"].as_str().unwrap();
    let held = service.until(&format!("/api/v1/operations/{id}"), |one| {
        one["waves"].as_array().unwrap().iter().any(|wave| wave["state"] == "Held")
    });
    let wave = held["waves"].as_array().unwrap().iter().find(|wave| wave["state"] == "Held").unwrap();
    assert!(wave["wave"] == 0 && wave["tasks"].as_u64() > Some(1), "what stays is in its wave: {held:#}");
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser.until("document.querySelector('[data-key=\"Sync 0\"] small')?.textContent === '0 of 1 done'");
    browser.press("Skip what is not done of wave Sync/0");
    asks(&browser, "Application frontend, wave Sync/0, 1 object: Deployment fleet/frontend.");
    confirm_with_a_reason(&browser, "not today");
    service.until(&format!("/api/v1/operations/{id}"), |one| one["finishedAt"].is_string());
    browser.until(
        "document.querySelector('[data-key=\"Sync 0\"] small')?.textContent === '0 of 1 done, 1 skipped'",
    );
    assert_eq!(deletions(&service.bench, "ConfigMap", "old"), 0);
    browser.is_clean();
    service.end();
}

const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
/// The other Applications of the example, whose repository is the same.
const OTHERS: [&str; 2] = ["backend", "database"];

pub fn an_application_is_looked_at_when_somebody_asks_for_it() {
    let bench = folder(&NO_SET);
    by_hand(&bench, "frontend");
    let service = Service::with(bench, &NEVER);
    // Whoever deploys looks at the repository too, and tells all who use it.
    service.wait(&OTHERS);
    let compared = |one: &Value| one["status"]["sync"]["revision"].as_str().map(str::to_owned);
    let first = service.until(FRONTEND, |one| compared(one).is_some());
    let first = compared(&first).unwrap();
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    // The view has looked at the repository itself by then, and does not do so again before something changes.
    browser.until("document.querySelectorAll('.phase').length === 2 && document.querySelector('#differs + div details')");
    replace(&service.bench, "repo/frontend/frontend.yaml", "frontend:1.0", "frontend:2.0");
    commit(&service.bench);
    let revision = "[...document.querySelectorAll('.terms > div')].find((one) => one.querySelector('dt').textContent === 'Compared with').querySelector('dd').textContent";
    browser.until(&format!("{revision} === '{}'", &first[..7]));
    browser.press("Refresh…");
    asks(
        &browser,
        "The repository of argocd/frontend is looked at, and its objects are compared. Nothing is written.",
    );
    browser.press("confirm");
    browser.until("!document.querySelector('dialog')");
    let second = service.until(FRONTEND, |one| compared(one).is_some_and(|found| found != first));
    let second = compared(&second).unwrap();
    browser.until(&format!("{revision} === '{}'", &second[..7]));
    // As it was said: it was looked at, and nothing was written.
    let writes = service.bench.writes();
    assert!(!writes.iter().any(|one| one["name"] == "frontend"), "{writes:#?}");
    assert_eq!(service.get("/api/v1/operations?application=frontend")["matching"], 0);
    // Also where nothing has changed, and all is read anew. By then the others have seen what has moved, too.
    for other in OTHERS {
        service.until(&format!("/api/v1/applications/argocd/{other}"), |one| {
            compared(one).as_ref() == Some(&second)
        });
    }
    let before = service.comparisons();
    browser.press("Refresh…");
    browser.click("#field-hard");
    browser.press("confirm");
    browser.until("!document.querySelector('dialog')");
    assert_eq!(service.comparisons(), before + 1);
    browser.is_clean();
    service.end();
}

pub fn a_set_is_looked_at_when_somebody_asks_for_it() {
    let service = Service::with(folder(&Different::default()), &NEVER);
    service.wait(&[]);
    let backend = "/api/v1/applications/argocd/backend";
    let before = service.get(backend)["status"]["sync"]["revision"].clone();
    let basket =
        std::fs::read_to_string(service.bench.path().join("fleet/repo/shops/cart/cart.yaml")).unwrap();
    service.bench.write("fleet/repo/shops/basket/basket.yaml", basket.replace("cart", "basket"));
    commit(&service.bench);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press("Refresh…");
    asks(
        &browser,
        "The generators of shops are asked now. Where that changes its Applications, they are changed.",
    );
    assert_eq!(service.get("/api/v1/applications?name=basket")["matching"], 0);
    browser.press("confirm");
    service.until("/api/v1/applications?name=basket", |found| found["matching"] == 3);
    // They are rolled out like the others, and the page shows it.
    browser.until("['dev', 'qa', 'prod'].every((env) => document.querySelector(`[data-key=\"${env}-basket\"] .badge`)?.textContent === '✓Healthy')");
    let made: Vec<Value> = service
        .bench
        .writes()
        .iter()
        .filter(|one| one["kind"] == "Deployment" && one["name"] == "basket" && one["code"] == 201)
        .map(|one| one["namespace"].clone())
        .collect();
    assert_eq!(made, ["shops-dev", "shops-qa", "shops-prod"]);
    // The look has found that the repository has moved, which another Application of it is told.
    service.until(backend, |one| one["status"]["sync"]["revision"] != before);
    browser.is_clean();
    service.end();
}
