//! Plans that are kept: what each would change, whether it still holds, and that exactly that is carried out.

use std::fs;

use serde_json::{Value, json};

use crate::browser::{Browser, key};
use crate::decisions::{DIALOG, NO_SET, asks, by_hand, commit, confirm, object, replace, shown};
use crate::service::{OPERATOR, READER, Service, folder};

const FRONTEND: &str = "/api/v1/applications/argocd/frontend";
const PLANS: &str = "/api/v1/plans?application=argocd/frontend";
const KEPT: &str = "document.querySelector('details.kept')";

/// The frontend, synced when somebody asks for it, once; with these annotations.
fn synced(annotations: &str) -> Service {
    let bench = folder(&NO_SET);
    by_hand(&bench, "frontend");
    let service = Service::in_folder(bench);
    // They make the namespace: a plan that was made before would not fit any more.
    service.wait(&["backend", "database"]);
    service.post(&format!("{FRONTEND}/sync"), &json!({}));
    service.until(FRONTEND, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 1));
    let path = service.bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let named = "  name: frontend\n";
    fs::write(&path, text.replacen(named, &format!("{named}{annotations}"), 1)).unwrap();
    service
}

/// Commits another image of the frontend, and waits until that is known; its revision.
fn image(service: &Service, from: &str, to: &str) -> String {
    let before = service.get(FRONTEND)["status"]["sync"]["revision"].clone();
    replace(&service.bench, "repo/frontend/frontend.yaml", from, to);
    commit(&service.bench);
    service.post(&format!("{FRONTEND}/refresh"), &json!({}));
    let found = service.until(FRONTEND, |one| one["status"]["sync"]["revision"] != before);
    found["status"]["sync"]["revision"].as_str().unwrap().to_owned()
}

/// Keeps a plan, as the command line has it; its hash.
#[track_caller]
pub fn keep(service: &Service, application: &str) -> String {
    let headers = [format!("authorization: Bearer {OPERATOR}")];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let asked = json!({"application": application});
    let answer = service.ask("POST", "/api/v1/plans", &headers, Some(&asked));
    assert_eq!(answer.status, 201, "{}", answer.body);
    let told: Value = serde_json::from_str(&answer.body).unwrap();
    told["hash"].as_str().unwrap().to_owned()
}

/// What the cluster has.
fn live(service: &Service, kind: &str, name: &str) -> Value {
    let all = service.bench.json(&["sim", "objects", "-o", "json"]);
    let mut all = all.as_array().unwrap().iter();
    let found = all.find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}")).clone()
}

/// The operation that has carried out the newest plan, when it is over.
fn carried_out(service: &Service) -> Value {
    let plan = service.until(PLANS, |found| found["items"][0]["operation"].is_string());
    let id = plan["items"][0]["operation"].clone();
    let newest = "/api/v1/operations?application=frontend&limit=1";
    // It has its id before it begins.
    service
        .until(newest, |found| found["items"][0]["id"] == id && found["items"][0]["finishedAt"].is_string());
    shown(service, id.as_str().unwrap())
}

/// Opens what is said of the newest plan, by the keyboard.
fn unfold(browser: &Browser) {
    browser.until(&format!("({KEPT}.querySelector('summary').focus(), true)"));
    browser.key(key::ENTER);
    browser.until(&format!("{KEPT}.open"));
}

pub fn a_plan_is_kept_looked_at_and_carried_out_as_it_is() {
    let service = synced("");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: till}\nstringData: {pin: hunter2}\n";
    service.bench.write("fleet/repo/frontend/till.yaml", secret);
    let second = image(&service, "frontend:1.0", "frontend:2.0");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.until("document.querySelector('#kept + p.empty')?.textContent === 'There is none. One is kept here, or by tidegate app plan frontend.'");
    browser.press("Keep a plan…");
    asks(
        &browser,
        "A sync of argocd/frontend is planned as things stand, and the plan is kept under its hash. Nothing is written to in-cluster.",
    );
    asks(&browser, "As things stand: 2 waves, 0 hooks, 1 to create, 2 to apply, nothing to prune.");
    browser.press("confirm");
    let kept = service.until(PLANS, |found| found["matching"] == 1)["items"][0].clone();
    let hash = kept["hash"].as_str().unwrap();
    assert_eq!(
        json!([kept["by"], kept["state"], kept["revision"], kept["needs"]]),
        json!(["ann", "kept", second, null])
    );
    // A newer commit is nothing to it.
    let third = image(&service, "frontend:2.0", "frontend:3.0");
    browser.until(&format!(
        "{KEPT}.querySelector('summary').textContent.startsWith('○plan: kept {} revision {}: ')",
        &hash[..12],
        &second[..7]
    ));
    unfold(&browser);
    let text = format!("{KEPT}.textContent");
    browser.until(&format!("{text}.includes('It holds: as the cluster is now, it would do what it says.')"));
    browser.until(&format!("{text}.includes('fleet/frontend:2.0') && !{text}.includes('frontend:3.0')"));
    browser.until(&format!(
        "{text}.includes('Plan{hash}') && {text}.includes('Byann') && {text}.includes('Revision{second}')"
    ));
    // What is in a Secret is not told.
    browser.until(&format!("[...{KEPT}.querySelectorAll('details summary')].some((one) => one.textContent.includes('Secret fleet/till'))"));
    let whole = browser.run("return document.documentElement.outerHTML");
    assert!(!whole.as_str().unwrap().contains("hunter2") && !whole.as_str().unwrap().contains("aHVudGVyMg"));
    browser.picture("kept");
    browser.press(&format!("Sync plan {}", &hash[..12]));
    browser.until(&format!("{DIALOG}.querySelector('h2').textContent === 'Sync plan {}'", &hash[..12]));
    asks(
        &browser,
        &format!(
            "Plan {} of argocd/frontend is carried out on in-cluster: 2 to apply, 1 to create, revision {}.",
            &hash[..12],
            &second[..7]
        ),
    );
    asks(&browser, "It holds: as the cluster is now");
    // Whoever leaves it has carried out nothing.
    browser.key(key::ESCAPE);
    browser.until("!document.querySelector('dialog')");
    assert_eq!(service.get(PLANS)["items"][0]["state"], "kept");
    browser.press(&format!("Sync plan {}", &hash[..12]));
    confirm(&browser, "2.0 before 3.0");
    let done = carried_out(&service);
    let id = done["id"].as_str().unwrap();
    assert_eq!(
        json!([done["phase"], done["initiatedBy"], done["reason"], done["plan"]["hash"]]),
        json!(["Succeeded", "ann", "2.0 before 3.0", hash])
    );
    let image =
        &live(&service, "Deployment", "frontend")["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "example.com/fleet/frontend:2.0");
    assert_ne!(second, third);
    // It is shown with its operation, and cannot be carried out again.
    browser.until(&format!("{KEPT}.querySelector('summary').textContent.startsWith('✓plan: taken') && {KEPT}.querySelector('a[href=\"/operations/{id}\"]')"));
    browser.until("!document.querySelector('[data-do^=\"Sync plan \"]')");
    browser.is_clean();
    service.end();
}

pub fn a_kept_plan_that_does_not_fit_any_more_writes_nothing() {
    let service = synced("");
    image(&service, "frontend:1.0", "frontend:2.0");
    let hash = keep(&service, "argocd/frontend");
    // Whoever may look sees it, and what it would change, and has no buttons.
    let reader = service.browser(READER);
    reader.open("/applications/argocd/frontend");
    unfold(&reader);
    reader.until(&format!(
        "{KEPT}.textContent.includes('It holds: ') && {KEPT}.textContent.includes('frontend:2.0')"
    ));
    reader.until("!document.querySelector('main button:not([data-do^=save])')");
    service.bench.run(&["sim", "delete", ":Service:fleet/frontend"]).expect_code(0);
    let before = service.bench.writes().len();
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    unfold(&browser);
    browser
        .until(&format!("{KEPT}.querySelector('p.problem').textContent.includes('does not fit any more: ')"));
    browser.press(&format!("Sync plan {}", &hash[..12]));
    asks(&browser, "does not fit any more: ");
    asks(&browser, "Where it does not fit the cluster any more, it is refused, which says what has moved.");
    let newest = service.newest("frontend");
    browser.write("#field-reason", "let us see");
    browser.press("confirm");
    let refused = format!("{DIALOG}.querySelector('p.problem[role=alert]').textContent");
    browser.until(&format!(
        "{refused}.includes('does not fit any more: ') && {refused}.includes('Service fleet/frontend')"
    ));
    // It was not begun, and is kept.
    assert_eq!((service.newest("frontend"), service.bench.writes().len()), (newest, before));
    let plan = service.get(&format!("/api/v1/plans/{hash}"));
    assert_eq!(json!([plan["state"], plan["operation"]]), json!(["kept", null]));
    let complaints = browser.complaints();
    assert!(complaints.len() == 1 && complaints[0].contains("409 (Conflict)"), "{complaints:#?}");
    browser.is_clean();
    service.end();
}

pub fn a_kept_plan_that_needs_an_approval_is_approved_and_then_carried_out() {
    let service = synced("  annotations: {tidegate.dev/approval: required}\n");
    service.until(FRONTEND, |one| !one["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    image(&service, "frontend:1.0", "frontend:2.0");
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.until("document.querySelector('#kept + p.empty')");
    // What others do is shown as it happens.
    let hash = keep(&service, "argocd/frontend");
    let short = &hash[..12];
    unfold(&browser);
    browser.until(&format!("/Needsan approval by/.test({KEPT}.textContent)"));
    assert_eq!(browser.run("return document.querySelectorAll('[data-do^=\"Sync plan \"]').length"), json!(0));
    browser.press(&format!("Approve plan {short}"));
    asks(&browser, &format!("Plan {short} of argocd/frontend may be carried out then on in-cluster: "));
    confirm(&browser, "looked at it");
    browser.until(&format!("{KEPT}.textContent.includes('Approved byann: looked at it')"));
    // That alone has carried out nothing.
    let plan = service.get(&format!("/api/v1/plans/{hash}"));
    assert_eq!(json!([plan["state"], plan["operation"]]), json!(["kept", null]));
    browser.press(&format!("Sync plan {short}"));
    confirm(&browser, "now");
    let done = carried_out(&service);
    let approval = &done["plan"]["approvals"][0];
    assert_eq!(
        json!([done["phase"], done["reason"], approval["by"], approval["reason"]]),
        json!(["Succeeded", "now", "ann", "looked at it"])
    );
    assert_eq!(object(&done, "Deployment", "frontend")["status"], "Synced");
    browser.is_clean();
    service.end();
}
