//! Stored plans: their changes, their validity, and their execution exactly as stored.

use std::fs;

use serde_json::{Value, json};

use crate::browser::{Browser, key};
use crate::decisions::{
    DIALOG, WITHOUT_APPSET, assert_dialog, commit, confirm, disable_automated_sync, get_operation, object,
    replace,
};
use crate::service::{OPERATOR, READER, Service, example_folder};

const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
const PLANS: &str = "/api/v1/plans?application=argocd/frontend";
const KEPT: &str = "document.querySelector('details.stored')";

/// Returns a service whose frontend was synced manually once and has these annotations.
fn synced_frontend(annotations: &str) -> Service {
    let bench = example_folder(&WITHOUT_APPSET);
    disable_automated_sync(&bench, "frontend");
    let service = Service::in_folder(bench);
    // The other Applications create the namespace, so a plan from before that would no longer match.
    service.wait_until_synced(&["backend", "database"]);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    service.wait_until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let path = service.bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let named = "  name: frontend\n";
    fs::write(&path, text.replacen(named, &format!("{named}{annotations}"), 1)).unwrap();
    service
}

/// Commits another image of the frontend, waits until the service has observed it, and returns the revision.
fn commit_image(service: &Service, from: &str, to: &str) -> String {
    let before = service.get(FRONTEND)["status"]["sync"]["revision"].clone();
    replace(&service.bench, "repo/frontend/frontend.yaml", from, to);
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    let found = service.wait_until(FRONTEND, |one| one["status"]["sync"]["revision"] != before);
    found["status"]["sync"]["revision"].as_str().unwrap().to_owned()
}

/// Stores a plan with the command line. Returns the plan's hash.
#[track_caller]
pub fn store_plan(service: &Service, application: &str) -> String {
    let headers = [format!("authorization: Bearer {OPERATOR}")];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let request = json!({"application": application});
    let answer = service.request("POST", "/api/v1/plans", &headers, Some(&request));
    assert_eq!(answer.status, 201, "{}", answer.body);
    let response: Value = serde_json::from_str(&answer.body).unwrap();
    response["hash"].as_str().unwrap().to_owned()
}

/// Returns the live object.
fn live_object(service: &Service, kind: &str, name: &str) -> Value {
    let all = service.bench.json(&["sim", "objects", "-o", "json"]);
    let mut all = all.as_array().unwrap().iter();
    let found = all.find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}")).clone()
}

/// Returns the operation that executed the newest plan, once it has finished.
fn executed_operation(service: &Service) -> Value {
    let plan = service.wait_until(PLANS, |found| found["items"][0]["operation"].is_string());
    let id = plan["items"][0]["operation"].clone();
    let newest = "/api/v1/operations?application=frontend&limit=1";
    // The operation has its ID before it starts.
    service.wait_until(newest, |found| {
        found["items"][0]["id"] == id && found["items"][0]["finishedAt"].is_string()
    });
    get_operation(service, id.as_str().unwrap())
}

/// Expands the details of the newest plan with the keyboard.
fn expand_details(browser: &Browser) {
    browser.wait_until(&format!("({KEPT}.querySelector('summary').focus(), true)"));
    browser.press_key(key::ENTER);
    browser.wait_until(&format!("{KEPT}.open"));
}

pub fn a_plan_is_stored_displayed_and_executed_unchanged() {
    let service = synced_frontend("");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: till}\nstringData: {pin: hunter2}\n";
    service.bench.write("fleet/repo/frontend/till.yaml", secret);
    let second = commit_image(&service, "frontend:1.0", "frontend:2.0");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.wait_until("document.querySelector('#stored-plans + p.empty')?.textContent === 'No stored plans. Create one here, or with tidegate app plan frontend.'");
    browser.press_button("Store a plan…");
    assert_dialog(
        &browser,
        "A sync of argocd/frontend is planned for the current state, and the plan is stored under its hash. Nothing is written to in-cluster.",
    );
    assert_dialog(&browser, "Preview: 2 waves, 0 hooks, 1 to create, 2 to apply, nothing to prune.");
    browser.press_button("confirm");
    let plan = service.wait_until(PLANS, |found| found["total"] == 1)["items"][0].clone();
    let hash = plan["hash"].as_str().unwrap();
    assert_eq!(
        json!([plan["initiatedBy"], plan["state"], plan["revision"], plan["missingApproval"]]),
        json!(["ann", "stored", second, null])
    );
    // A newer commit doesn't affect the plan.
    let third = commit_image(&service, "frontend:2.0", "frontend:3.0");
    browser.wait_until(&format!(
        "{KEPT}.querySelector('summary').textContent.startsWith('○plan: stored {} revision {}: ')",
        &hash[..12],
        &second[..7]
    ));
    expand_details(&browser);
    let text = format!("{KEPT}.textContent");
    browser.wait_until(&format!(
        "{text}.includes('The plan is still valid for the current state of the cluster.')"
    ));
    browser.wait_until(&format!("{text}.includes('fleet/frontend:2.0') && !{text}.includes('frontend:3.0')"));
    browser.wait_until(&format!(
        "{text}.includes('Plan{hash}') && {text}.includes('Requested byann') && {text}.includes('Revision{second}')"
    ));
    // The content of a Secret is hidden.
    browser.wait_until(&format!("[...{KEPT}.querySelectorAll('details summary')].some((one) => one.textContent.includes('Secret fleet/till'))"));
    let whole = browser.run("return document.documentElement.outerHTML");
    assert!(!whole.as_str().unwrap().contains("hunter2") && !whole.as_str().unwrap().contains("aHVudGVyMg"));
    browser.save_screenshot("plan");
    browser.press_button(&format!("Sync plan {}", &hash[..12]));
    browser.wait_until(&format!("{DIALOG}.querySelector('h2').textContent === 'Sync plan {}'", &hash[..12]));
    assert_dialog(
        &browser,
        &format!(
            "Plan {} of argocd/frontend is executed on in-cluster: 2 to apply, 1 to create, revision {}.",
            &hash[..12],
            &second[..7]
        ),
    );
    assert_dialog(&browser, "The plan is still valid ");
    // Closing the dialog doesn't execute the plan.
    browser.press_key(key::ESCAPE);
    browser.wait_until("!document.querySelector('dialog')");
    assert_eq!(service.get(PLANS)["items"][0]["state"], "stored");
    browser.press_button(&format!("Sync plan {}", &hash[..12]));
    confirm(&browser, "2.0 before 3.0");
    let done = executed_operation(&service);
    let id = done["id"].as_str().unwrap();
    assert_eq!(
        json!([done["phase"], done["initiatedBy"], done["reason"], done["plan"]["hash"]]),
        json!(["Succeeded", "ann", "2.0 before 3.0", hash])
    );
    let image = &live_object(&service, "Deployment", "frontend")["spec"]["template"]["spec"]["containers"][0]
        ["image"];
    assert_eq!(image, "example.com/fleet/frontend:2.0");
    assert_ne!(second, third);
    // The plan is shown with its operation, and can't be executed again.
    browser.wait_until(&format!("{KEPT}.querySelector('summary').textContent.startsWith('✓plan: executed') && {KEPT}.querySelector('a[href=\"/operations/{id}\"]')"));
    browser.wait_until("!document.querySelector('[data-do^=\"Sync plan \"]')");
    browser.assert_clean();
    service.stop();
}

pub fn an_outdated_stored_plan_writes_nothing() {
    let service = synced_frontend("");
    commit_image(&service, "frontend:1.0", "frontend:2.0");
    let hash = store_plan(&service, "argocd/frontend");
    // A user with read-only access sees the plan with its changes, but without buttons.
    let reader = service.browser(READER);
    reader.open("/applications/argocd/frontend");
    expand_details(&reader);
    reader.wait_until(&format!(
        "{KEPT}.textContent.includes('The plan is still valid ') && {KEPT}.textContent.includes('frontend:2.0')"
    ));
    reader.wait_until("!document.querySelector('main button:not([data-do^=save])')");
    service.bench.run(&["sim", "delete", ":Service:fleet/frontend"]).expect_code(0);
    let before = service.bench.writes().len();
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    expand_details(&browser);
    browser.wait_until(&format!(
        "{KEPT}.querySelector('p.problem').textContent.includes('is no longer valid: ')"
    ));
    browser.press_button(&format!("Sync plan {}", &hash[..12]));
    assert_dialog(&browser, "is no longer valid: ");
    assert_dialog(
        &browser,
        "If the plan no longer matches the cluster, the service rejects it and lists the changes.",
    );
    let newest = service.newest_operation("frontend");
    browser.type_text("#field-reason", "let us see");
    browser.press_button("confirm");
    let refused = format!("{DIALOG}.querySelector('p.problem[role=alert]').textContent");
    browser.wait_until(&format!(
        "{refused}.includes('is no longer valid: ') && {refused}.includes('Service fleet/frontend')"
    ));
    // The plan was not executed, and is still stored.
    assert_eq!((service.newest_operation("frontend"), service.bench.writes().len()), (newest, before));
    let plan = service.get(&format!("/api/v1/plans/{hash}"));
    assert_eq!(json!([plan["state"], plan["operation"]]), json!(["stored", null]));
    let complaints = browser.take_console_messages();
    assert!(complaints.len() == 1 && complaints[0].contains("409 (Conflict)"), "{complaints:#?}");
    browser.assert_clean();
    service.stop();
}

pub fn a_stored_plan_that_needs_approval_is_approved_and_executed() {
    let service = synced_frontend("  annotations: {tidegate.dev/approval: required}\n");
    service.wait_until(FRONTEND, |one| !one["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    commit_image(&service, "frontend:1.0", "frontend:2.0");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.wait_until("document.querySelector('#stored-plans + p.empty')");
    // Actions by other users appear without a reload.
    let hash = store_plan(&service, "argocd/frontend");
    let short = &hash[..12];
    expand_details(&browser);
    browser.wait_until(&format!("/Requiresan approval/.test({KEPT}.textContent)"));
    assert_eq!(browser.run("return document.querySelectorAll('[data-do^=\"Sync plan \"]').length"), json!(0));
    browser.press_button(&format!("Approve plan {short}"));
    assert_dialog(&browser, &format!("Plan {short} of argocd/frontend can then be executed on in-cluster: "));
    confirm(&browser, "looked at it");
    browser.wait_until(&format!("{KEPT}.textContent.includes('Approved byann: looked at it')"));
    // Displaying the plan hasn't executed it.
    let plan = service.get(&format!("/api/v1/plans/{hash}"));
    assert_eq!(json!([plan["state"], plan["operation"]]), json!(["stored", null]));
    browser.press_button(&format!("Sync plan {short}"));
    confirm(&browser, "now");
    let done = executed_operation(&service);
    let approval = &done["plan"]["approvals"][0];
    assert_eq!(
        json!([done["phase"], done["reason"], approval["by"], approval["reason"]]),
        json!(["Succeeded", "now", "ann", "looked at it"])
    );
    assert_eq!(object(&done, "Deployment", "frontend")["status"], "Synced");
    browser.assert_clean();
    service.stop();
}
