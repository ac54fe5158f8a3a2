//! User actions on the page. A dialog describes the effects before each action, and the actions are recorded.

use serde_json::json;

use crate::browser::{Browser, key};
use crate::decisions::{assert_dialog, assert_sent, confirm_with_a_reason, record_requests};
use crate::service::{ExampleOptions, OPERATOR, READER, Service, example_folder};

const WITHOUT_APPSET: ExampleOptions = ExampleOptions { rollout: None, has_no_appset: true, is_gated: false };
const DIALOG: &str = "document.querySelector('dialog[open]')";
const CLOSED: &str = "!document.querySelector('dialog')";

pub fn an_application_is_synced_and_deleted_after_confirmation() {
    let service = Service::new(&WITHOUT_APPSET);
    service.wait_until_synced(&[]);
    let before = service.newest_operation("frontend");
    let browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.press_button("Sync…");
    browser
        .wait_until(&format!("{DIALOG}.textContent.includes('argocd/frontend are applied to in-cluster')"));
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Preview: ')"));
    // The dialog describes the effects for the selected revision.
    browser.type_text("#field-revision", "nowhere");
    browser.wait_until(&format!(
        "{DIALOG}.querySelector('p.problem:not([hidden])')?.textContent.includes('nowhere')"
    ));
    // Closing the dialog has no effect, and returns the focus.
    browser.press_key(key::ESCAPE);
    browser.wait_until(CLOSED);
    browser.wait_until("document.activeElement.dataset.do === 'Sync…'");
    assert_eq!(service.newest_operation("frontend"), before);
    browser.press_button("Sync…");
    // Syncs only one object from the search results, without hooks, with live progress.
    browser.click("#field-resources summary");
    browser.type_text("#field-resources-find", "deployment");
    browser.wait_until("document.querySelectorAll('.choices li').length === 1");
    browser.click("#field-resources-0");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Only 1 selected object.')"));
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Preview: 1 wave, 0 hooks, 0 to create')"));
    browser.type_text("#field-resources-find", "nothing like that");
    browser.wait_until("document.querySelectorAll('.choices li').length === 0");
    browser.wait_until("document.querySelector('#field-resources').textContent.includes('1 of ')");
    browser.select_option("#field-policy", "queue");
    browser.type_text("#field-reason", "a hotfix");
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
    let target = "/api/v1/operations?application=frontend&limit=1";
    let requested = service.wait_until(target, |found| found["items"][0]["id"] != before.as_str());
    let id = requested["items"][0]["id"].as_str().unwrap();
    // The requester is recorded.
    let events = service
        .wait_until(&format!("/api/v1/operations/{id}/log"), |log| log["items"][0]["kind"] == "accepted");
    let details = &events["items"][0]["details"];
    assert_eq!((&details["initiatedBy"], &details["reason"]), (&json!("ann"), &json!("a hotfix")));
    let selected = details["selection"].as_array().unwrap();
    assert_eq!((selected.len(), &selected[0]["kind"]), (1, &json!("Deployment")));
    service.wait_until_synced(&["frontend"]);
    browser.open(&format!("/operations/{id}"));
    browser.wait_until("document.querySelector('.terms').textContent.includes('Reasona hotfix')");
    browser.wait_until("[...document.querySelectorAll('.timeline .mark title')].some((one) => one.textContent.endsWith('requested by ann: a hotfix'))");
    browser.open("/applications/argocd/frontend");
    browser.wait_for_text("Requested by ann: a hotfix");
    // A partial sync is not in the history.
    let resource = "/api/v1/applications/argocd/frontend";
    service.post(&format!("{resource}/sync"), &json!({}));
    service.wait_until(resource, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
    // There is no button for an action that the service would reject.
    browser.wait_for_text("Rollback is not available with automated sync");
    browser.wait_until("!document.querySelector('[data-do^=\"rollback \"]')");
    check_deletion_view(&browser);
    browser.open("/applications/argocd/frontend");
    browser.press_button("Delete…");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('argocd/frontend is deleted')"));
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('Its manifest is removed from the apps folder.')"
    ));
    browser.wait_until(&format!(
        "{DIALOG}.querySelector('ol').textContent.includes('Deployment fleet/frontend')"
    ));
    browser.select_option("#field-cascade", "orphan");
    browser.wait_until(&format!("/\\d+ objects?: kept/.test({DIALOG}.querySelector('ol').textContent)"));
    browser.select_option("#field-cascade", "foreground");
    browser.wait_until(&format!(
        "{DIALOG}.querySelector('ol').textContent.includes('Deployment fleet/frontend')"
    ));
    browser.type_text("#field-reason", "moved to another cluster");
    browser.press_button("confirm");
    browser.wait_for_text("argocd/frontend has been deleted");
    // The record contains the requester of the deletion and the reason.
    let by_ann = service.get("/api/v1/operations?application=frontend&initiatedBy=ann&limit=1");
    let text = by_ann["items"][0]["initiatedBy"].as_str().unwrap();
    assert!(
        text.starts_with("ann, by the deletion of the application (moved to another cluster), requested at "),
        "{text}"
    );
    let left = service.bench.json(&["sim", "objects", "-o", "json"]);
    let names: Vec<&str> =
        left.as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"frontend") && names.contains(&"backend"), "{names:?}");
    service.stop();
}

/// Checks the view of an Application that is being deleted, which doesn't have a next sync.
fn check_deletion_view(browser: &Browser) {
    browser.open("/");
    browser.wait_until("document.querySelector('[data-key=\"argocd/frontend\"] .name a')");
    browser.run(
        "window.asked ??= window.fetch;
         window.fetch = async (path, ...rest) => {
           const answer = await window.asked(path, ...rest);
           if (!path.startsWith('/api/v1/applications?')) return answer;
           const told = await answer.json();
           told.items.forEach((one) => { one.deleting = true; });
           return new Response(JSON.stringify(told), {status: 200});
         }",
    );
    browser.click("[data-key=\"argocd/frontend\"] .name a");
    browser.wait_until("document.getElementById('order')?.textContent === 'Deletion in progress' && document.querySelector('.lead + .lead')?.textContent === 'This Application is being deleted.'");
    browser.wait_until("!document.querySelector('[aria-labelledby=order] .phase') && !document.querySelector('[data-do=\"Sync…\"]')");
}

pub fn a_waiting_plan_is_displayed_and_approved() {
    let service = Service::new(&WITHOUT_APPSET);
    service.wait_until_synced(&[]);
    let file = service.bench.path().join("fleet/backend.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let annotated = "  name: backend\n  annotations: {tidegate.dev/approval: required}\n";
    let by_hand = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(by_hand), "{text}");
    let text = text.replacen("  name: backend\n", annotated, 1).replacen(by_hand, "", 1);
    std::fs::write(&file, text).unwrap();
    let resource = "/api/v1/applications/argocd/backend";
    service.wait_until(resource, |one| !one["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
    service.bench.write("fleet/repo/backend/more.yaml", more);
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    service.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    service.post(&format!("{resource}/sync"), &json!({"reason": "a hotfix"}));
    let target = "/api/v1/applications?name=backend&limit=1";
    let line = service.wait_until(target, |found| found["items"][0]["plan"].is_string());
    let hash = line["items"][0]["plan"].as_str().unwrap().to_owned();
    let mut browser = service.browser(OPERATOR);
    // The fleet shows the reason for the wait in one line.
    browser.wait_for_text(&format!("waiting for an approval for plan {}", &hash[..12]));
    check_view_without_plan(&browser);
    browser.open("/applications/argocd/backend");
    browser.wait_for_text("Waiting for approval");
    browser
        .wait_until("document.querySelector('details[open]').textContent.includes('ConfigMap fleet/more')");
    browser.wait_for_text("requested by ann (a hotfix)");
    browser.wait_until("document.querySelector('[aria-label=\"Plan waiting for approval\"] details.differs summary').textContent.includes('ConfigMap fleet/more')");
    browser.press_button("Approve…");
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('Plan {} of argocd/backend is executed on in-cluster: ')",
        &hash[..12]
    ));
    // Closing the dialog doesn't approve the plan.
    browser.press_key(key::ESCAPE);
    browser.wait_until(CLOSED);
    assert_eq!(service.get(&format!("/api/v1/plans/{hash}"))["state"], "waiting");
    browser.press_button("Approve…");
    browser.type_text("#field-reason", "looked at it");
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
    let plan = service.wait_until(&format!("/api/v1/plans/{hash}"), |plan| plan["state"] == "executed");
    assert_eq!(
        (&plan["approvals"][0]["by"], &plan["approvals"][0]["reason"]),
        (&json!("ann"), &json!("looked at it"))
    );
    browser.wait_until("!document.getElementById('main').textContent.includes('Waiting for approval')");
    service.wait_until_synced(&["backend"]);
    // Later viewers see the requester and the approver of the executed plan, and the reason.
    browser.open(&format!("/operations/{}", service.newest_operation("backend")));
    let terms = "document.querySelector('.terms').textContent";
    browser.wait_until(&format!("{terms}.includes('Requested byann') && {terms}.includes('Reasona hotfix')"));
    browser.wait_until(&format!("{terms}.includes('Plan{} created ')", &hash[..12]));
    browser.wait_until(&format!("{terms}.includes('Approved byann: looked at it')"));
    browser.assert_clean();
    service.stop();
}

/// Fakes this response for paths with one of these prefixes, until another page is loaded.
fn fake_response(browser: &Browser, paths: &[&str], status: u16) {
    browser.run(&format!(
        "window.asked ??= window.fetch;
         const told = JSON.stringify({{code: 'broken', message: 'it is not to be had', hint: 'look later'}});
         window.fetch = (path, ...rest) => {paths}.some((one) => path.startsWith(one))
           ? Promise.resolve(new Response(told, {{status: {status}}})) : window.asked(path, ...rest)",
        paths = json!(paths)
    ));
}

/// Checks the view of an Application whose plan and other parts are unavailable. The view is opened from the
/// list, and then left again.
fn check_view_without_plan(browser: &Browser) {
    let path = "/api/v1/applications/argocd/backend";
    let (resources, diff) = (format!("{path}/resources"), format!("{path}/diff"));
    let all = [resources.as_str(), &diff, "/api/v1/plans/", "/api/v1/operations?"];
    let section = |id: &str| format!("document.getElementById('{id}').parentElement");
    let waiting = "document.querySelector('[aria-label=\"Plan waiting for approval\"]')";
    for status in [404, 500] {
        fake_response(browser, &all, status);
        browser.click("[data-key=\"argocd/backend\"] .name a");
        // The view waits without disappearing. Each unavailable part reports its own error, and the other
        // parts show their content.
        browser.wait_until(&format!("{waiting}.textContent.includes('cannot be read: it is not to be had: look later') && {waiting}.textContent.includes('terminate the operation and sync again')"));
        for id in ["differs", "operations"] {
            browser.wait_until(&format!(
                "{}.querySelector('p.problem').textContent === 'it is not to be had: look later'",
                section(id)
            ));
        }
        browser.wait_until("document.querySelector('[aria-labelledby=order] p.problem') && document.querySelectorAll('[aria-labelledby=order] .phase').length === 3");
        browser.wait_until("document.querySelector('#stored-plans + p.empty') && document.querySelector('#history ~ .scroll tbody tr')");
        // An unsuccessful retry has no effect. Once the responses work again, an event may update the view
        // before the click.
        browser.press_button("read the plan again");
        browser.wait_until(&format!("{waiting}.textContent.includes('cannot be read')"));
        fake_response(browser, &[], status);
        browser.run("document.querySelector('[data-do=\"read the plan again\"]')?.click()");
        browser.wait_until(&format!("{waiting}.textContent.includes('Actions of the plan')"));
        browser.run("history.back()");
        browser.wait_until("document.querySelector('h1').textContent === 'Applications'");
    }
}

pub fn a_plan_shows_its_changes_and_no_other_differences() {
    let bench = example_folder(&WITHOUT_APPSET);
    let file = bench.path().join("fleet/frontend.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let annotated = "  name: frontend\n  annotations: {tidegate.dev/approval: required}\n";
    let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(automated), "{text}");
    std::fs::write(&file, text.replacen("  name: frontend\n", annotated, 1).replace(automated, "")).unwrap();
    let service = Service::in_folder(bench);
    // The other Applications create the namespace, so a plan from before that would no longer match.
    service.wait_until_synced(&["backend", "database"]);
    let revision = || {
        service.bench.run(&["app", "refresh", "frontend"]).expect_code(0);
        let resource = service.get("/api/v1/applications/argocd/frontend");
        resource["status"]["sync"]["revision"].as_str().map(str::to_owned)
    };
    let first = std::iter::repeat_with(revision).take(3000).flatten().next().unwrap();
    let manifest = service.bench.path().join("fleet/repo/frontend/frontend.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("frontend:1.0", "frontend:2.0")).unwrap();
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let second = std::iter::repeat_with(revision).take(3000).flatten().find(|found| *found != first).unwrap();
    service.post("/api/v1/applications/argocd/frontend/sync", &json!({"revision": first}));
    service.wait_until("/api/v1/applications?name=frontend&limit=1", |found| {
        found["items"][0]["plan"].is_string()
    });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    let title = format!("Differences from revision {}", &second[..7]);
    browser.wait_until(&format!("document.getElementById('differs').textContent === '{title}'"));
    let changes = "document.querySelector('[aria-label=\"Plan waiting for approval\"]').textContent";
    browser.wait_until(&format!(
        "{changes}.includes('fleet/frontend:1.0') && !{changes}.includes('fleet/frontend:2.0')"
    ));
    browser.wait_until(
        "document.querySelector('[aria-labelledby=differs]').textContent.includes('fleet/frontend:2.0')",
    );
    // After the execution, the differences are current again.
    browser.press_button("Approve…");
    browser.press_button("confirm");
    browser.wait_until("document.getElementById('differs').textContent === 'Differences'");
    browser.assert_clean();
    service.stop();
}

pub fn an_operation_is_paused_resumed_and_approved() {
    let service = Service::new(&ExampleOptions { is_gated: true, ..WITHOUT_APPSET });
    let id = service.newest_operation("backend");
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser.press_button("Pause…");
    // Reason with the maximum length that the API records.
    let reason = format!("the database is being moved,{}", " again".repeat(170));
    let reason = &reason[..1024];
    browser.type_text("#field-reason", reason);
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('[data-do=\"Resume…\"]')");
    // The reason is collapsed next to long content, and can be expanded.
    let held = "[...document.querySelectorAll('.terms > div')].find((one) => one.querySelector('dt').textContent === 'Paused')";
    browser.wait_until(&format!("{held}.offsetHeight < 150"));
    browser.run(&format!("{held}.querySelector('summary').focus()"));
    browser.press_key(key::ENTER);
    browser.wait_until(&format!(
        "{held}.querySelector('details').open && {held}.innerText.includes({})",
        json!(reason)
    ));
    let held = service.get(&format!("/api/v1/operations/{id}"));
    assert_eq!(held["pausedBy"], "ann");
    let message = held["message"].as_str().unwrap();
    assert!(message.starts_with("paused by ann: the database is being moved"), "{message}");
    browser.wait_until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.includes('paused by ann: the database is being moved'))");
    browser.press_button("Resume…");
    browser.type_text("#field-reason", "it is moved");
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('[data-do=\"Pause…\"]')");
    browser.wait_until("[...document.querySelectorAll('.timeline .mark title')].some((one) => one.textContent.endsWith('resumed by ann: it is moved'))");
    // The table also contains the pause with the person, the reason and the duration, even on a phone.
    browser.set_size(360, 740);
    browser.run("document.querySelector('.picture ~ details').open = true");
    let table = "document.querySelector('.picture ~ details table')";
    browser.wait_until(&format!("/: waited [^:]+ \\(Paused\\): paused by ann: the database is being moved/.test({table}.rows[1].cells[6].textContent)"));
    browser.wait_until(&format!(
        "/: waiting [^:]+ \\(Held\\): .*gate approval/.test({table}.rows[1].cells[6].textContent)"
    ));
    browser.wait_until(&format!(
        "{table}.rows[1].cells[7].textContent.includes('paused by ann: the database is being moved')"
    ));
    browser.wait_until(&format!("getComputedStyle({table}.rows[1].cells[6]).display === 'block' && {table}.scrollWidth <= {table}.parentElement.clientWidth"));
    browser.wait_until("document.documentElement.scrollWidth === 360");
    browser.set_size(1280, 900);
    record_requests(&browser);
    browser.press_button("Approve…");
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('The wave of backend that is waiting for approval starts: wave 3 of 3')"
    ));
    browser.press_button("confirm");
    // Only this wave is approved.
    assert_sent(&browser, "/approve", &json!({"wave": 3}));
    browser.wait_until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    // Later viewers see the people in the record.
    browser.wait_until(
        "document.querySelector('.facts').textContent.includes('ann paused the operation: the database is being moved')",
    );
    assert_eq!(browser.run("return document.querySelectorAll('main .actions button').length"), json!(0));
    browser.assert_clean();
    service.stop();
}

pub fn skipped_work_of_an_operation_does_not_count_as_done() {
    let service = Service::new(&ExampleOptions { is_gated: true, ..WITHOUT_APPSET });
    let id = service.newest_operation("backend");
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    // First skips a single object before its wave starts, then cancels the dialog. A task that is waiting for
    // its wave can't be retried.
    browser.press_button("Skip Deployment fleet/backend");
    assert_dialog(&browser, "Application backend, wave Sync/1.");
    browser.press_button("leave");
    browser.wait_until("!document.querySelector('[data-do=\"Retry Deployment fleet/backend\"]')");
    service.post(&format!("/api/v1/operations/{id}/pause"), &json!({}));
    browser.press_button("Skip Deployment fleet/backend");
    confirm_with_a_reason(&browser, "perhaps not");
    browser.press_button("Retry Deployment fleet/backend");
    browser.type_text("#field-reason", "after all");
    browser.press_button("confirm");
    let own = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].find((row) => row.textContent.includes('Deployment fleet/backend'))";
    browser.wait_until(&format!("{own}?.textContent.split('after all').length === 2 && !{own}.querySelector('[data-do^=\"Retry \"]') && {own}.querySelector('[data-do^=\"Skip \"]')"));
    service.post(&format!("/api/v1/operations/{id}/unpause"), &json!({}));
    browser.press_button("Skip unfinished tasks of wave Sync/1");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('The operation continues without')"));
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Application backend, wave Sync/1, 1 object: Deployment fleet/backend.')"));
    browser.type_text("#field-reason", "not today");
    browser.press_button("confirm");
    let wave = "[...document.querySelectorAll('.wave')].at(-1)";
    browser.wait_until(&format!("/0 of \\d+ done, \\d+ skipped/.test({wave}.textContent)"));
    browser.wait_until(&format!("{wave}.querySelector('.done.dull').style.height === '100%' && {wave}.querySelector('.done.good').style.height === '0%'"));
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')]";
    browser.wait_until(&format!("{rows}.some((row) => row.querySelectorAll('td')[4].textContent === '»Skipped' && row.textContent.includes('not today'))"));
    browser.wait_until(&format!(
        "{rows}.some((row) => row.querySelectorAll('td')[4].textContent === '✓Succeeded')"
    ));
    browser.assert_clean();
    service.stop();
}

pub fn a_rollout_is_approved_paused_and_skipped_with_a_reason() {
    let gates = "steps: [{step: 1, gates: [approval]}, {step: 3, gates: [approval]}]";
    let service = Service::new(&ExampleOptions { rollout: Some(gates), ..ExampleOptions::default() });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    let status =
        |step: usize| format!("document.querySelectorAll('.step')[{step}].querySelector('h3').textContent");
    browser.wait_until(&format!("{}.includes('Held')", status(0)));
    browser.press_button("Approve…");
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('Step 1 (env in (dev)) with 4 Applications is approved')"
    ));
    browser.press_button("confirm");
    browser.wait_until(&format!("{}.includes('Held')", status(2)));
    // A button that hasn't changed since the first step acts on the current step.
    browser.press_button("Skip step…");
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('without the unfinished Applications of step 3')"
    ));
    browser.wait_until(&format!("{DIALOG}.textContent.includes('4 Applications: prod-cart, prod-catalog, prod-checkout, prod-search.')"));
    browser.press_key(key::ESCAPE);
    browser.wait_until(CLOSED);
    browser.press_button("Pause…");
    browser.type_text("#field-reason", "lunch");
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('[data-do=\"Resume…\"]')");
    browser.wait_until("document.getElementById('main').textContent.includes('lunch')");
    browser.press_button("Resume…");
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('[data-do=\"Pause…\"]')");
    // A skip requires a reason.
    browser.press_button("Skip prod-cart");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('The rollout continues without prod-cart')"));
    browser.press_button("confirm");
    assert_eq!(
        browser.run(&format!("return {DIALOG}.querySelector('#field-reason').validity.valueMissing")),
        json!(true)
    );
    browser.type_text("#field-reason", "moved to another cluster");
    browser.press_button("confirm");
    browser.wait_until(
        "document.querySelector('[data-key=\"prod-cart\"]').textContent.includes('moved to another cluster')",
    );
    browser.wait_until("[...document.querySelectorAll('[data-do^=\"Retry \"]')].map((one) => one.dataset.do).join() === 'Retry prod-cart'");
    // The skipped Application doesn't look healthy.
    let tile = "document.querySelector('[data-key=\"prod-cart\"]')";
    browser.wait_until(&format!(
        "{tile}.querySelector('.badge').textContent === '»Skipped' && {tile}.classList.contains('dull')"
    ));
    browser.press_button("Approve…");
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('.lead').textContent.startsWith('Completed')");
    browser.wait_until(
        "document.querySelectorAll('.step')[2].textContent.includes('3 of 4 Applications done, 1 skipped')",
    );
    let explanation = service.get("/api/v1/applicationsets/argocd/shops/explain");
    let members = explanation["rollout"]["members"].as_array().unwrap();
    let skipped = members.iter().find(|one| one["application"] == "prod-cart").unwrap();
    assert!(skipped["message"].as_str().unwrap().contains("moved to another cluster"), "{skipped:#}");
    assert!(skipped["operation"].is_null(), "it was never synced: {skipped:#}");
    // The record contains all of this, and has its own address.
    browser.wait_until(
        "document.querySelector('#runs ~ div tbody tr')?.children[4].textContent === '11 of 12, 1 skipped'",
    );
    browser.click("#runs ~ div a");
    browser.wait_until("document.querySelector('h1').textContent === 'Rollout of shops'");
    browser
        .wait_until("/^\\/applicationsets\\/argocd\\/shops\\/runs\\/[0-9a-f-]{36}$/.test(location.pathname)");
    browser.wait_until(
        "[...document.querySelectorAll('dd')].some((one) => one.textContent === '11 of 12 Healthy, 1 skipped')",
    );
    let rows = |id: &str| {
        format!(
            "[...document.querySelectorAll('#{id} + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|')).join()"
        )
    };
    let decided = "ann|approved step 1|–,ann|paused the rollout|lunch,ann|resumed the rollout|–,ann|skipped prod-cart|moved to another cluster,ann|approved step 3|–";
    browser.wait_until(&format!("{} === '{decided}'", rows("decisions")));
    browser.wait_until(&format!("{}.includes('|the rollout|paused by ann: lunch')", rows("waits")));
    let ended = "[...document.querySelectorAll('.step h3 .badge')].map((one) => one.textContent).join() === '✓Passed,✓Passed,✓Passed'";
    browser.wait_until(ended);
    browser.wait_until(&format!("{tile}.querySelector('.badge').textContent === '»Skipped' && !document.querySelector('main button:not([data-do=facts])')"));
    browser.wait_until("document.querySelector('.facts').textContent.includes('ann skipped prod-cart: moved to another cluster')");
    browser.run("location.reload()");
    browser.wait_until(ended);
    browser.wait_until(&format!("{} === '{decided}'", rows("decisions")));
    browser.wait_until("document.querySelectorAll('a[download]').length === 2");
    let fetched = browser.run_async(
        "fetch(document.querySelector('a[download]').href).then(async (one) => done([await one.text(), one.headers.get('content-disposition')]))",
    );
    assert!(fetched[0].as_str().unwrap().contains("ann skipped prod-cart: moved to another cluster"));
    assert!(fetched[1].as_str().unwrap().starts_with("attachment; filename=\"rollout-"), "{fetched}");
    // Lists also count skipped Applications separately.
    browser.open("/applicationsets");
    browser.wait_until(
        "document.querySelector('.rows [role=img]')?.getAttribute('aria-label') === '11 Healthy, 1 Skipped'",
    );
    let lines = service.get("/api/v1/applicationsets");
    assert_eq!(lines["items"][0]["rollout"]["skipped"], 1, "{lines:#}");
    // When the rollout starts again, a skipped member is synced after all.
    browser.open("/applicationsets/argocd/shops");
    browser.press_button("Restart rollout…");
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('This Application has not reached its target: prod-cart.')"
    ));
    browser.type_text("#field-reason", "it is back");
    browser.press_button("confirm");
    browser.wait_until(&format!("{}.includes('Held')", status(2)));
    browser.press_button("Approve…");
    browser.press_button("confirm");
    browser.wait_until(&format!("{tile}.querySelector('.badge').textContent === '✓Healthy'"));
    // All members have reached their targets, so there is nothing to start again.
    browser.wait_until(
        "document.querySelector('.lead').textContent.startsWith('Completed') && !document.querySelector('[data-do=\"Restart rollout…\"]')",
    );
    browser
        .wait_until("[...document.querySelectorAll('dd')].some((one) => one.textContent === 'it is back')");
    assert_eq!(service.get("/api/v1/applications/argocd/prod-cart")["status"]["sync"]["status"], "Synced");
    browser.assert_clean();
    service.stop();
}

pub fn held_deletions_are_named_and_approved() {
    let bench = example_folder(&ExampleOptions::default());
    let file = bench.path().join("fleet/shops.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let limit = "  annotations:\n    tidegate.dev/max-deletions: \"2\"\n";
    std::fs::write(&file, text.replacen("  annotations:\n", limit, 1)).unwrap();
    let service = Service::in_folder(bench);
    service.wait_until_synced(&[]);
    // Simulates a user who has moved a folder.
    let repository = service.bench.path().join("fleet/repo");
    std::fs::rename(repository.join("shops/cart"), repository.join("cart")).unwrap();
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press_button("Refresh…");
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
    browser.press_button("Approve deletions…");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('3 of its 12 Applications are no longer generated. Deleting more than 2 at once requires approval.')"));
    browser.wait_until(&format!(
        "{DIALOG}.textContent.includes('Deleted with their objects: dev-cart, prod-cart, qa-cart.')"
    ));
    // Closing the dialog doesn't delete anything.
    browser.press_key(key::ESCAPE);
    browser.wait_until(CLOSED);
    let shops = "/api/v1/applicationsets/argocd/shops";
    let explanation = service.get(&format!("{shops}/explain"));
    assert_eq!(explanation["heldDeletions"]["applications"], json!(["dev-cart", "prod-cart", "qa-cart"]));
    assert!(service.get(shops)["metadata"]["annotations"]["tidegate.dev/deletions-approval"].is_null());
    // A user with read-only access sees the state, without a button.
    let reader = service.browser(READER);
    reader.open("/applicationsets/argocd/shops");
    reader.wait_for_text("3 of its 12 Applications are no longer generated");
    reader.wait_until("!document.querySelector('main .actions button')");
    browser.press_button("Approve deletions…");
    browser.type_text("#field-reason", "the shop is closed");
    browser.press_button("confirm");
    browser.wait_until(CLOSED);
    let is_left = |found: &serde_json::Value| {
        let names = found["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
        names.filter(|name| name.ends_with("-cart")).count()
    };
    service.wait_until("/api/v1/applications?limit=100", |found| is_left(found) == 0);
    browser.wait_until("!document.querySelector('[data-do=\"Approve deletions…\"]')");
    browser.wait_for_text("Deletions approved byann: the shop is closed");
    // The outcome is written after the Applications have been deleted.
    let set = service.wait_until(shops, |set| set["status"]["resourcesCount"] == 9);
    let annotation = set["metadata"]["annotations"]["tidegate.dev/deletions-approval"].as_str().unwrap();
    let approval: serde_json::Value = serde_json::from_str(annotation).unwrap();
    assert_eq!((&approval["by"], &approval["reason"]), (&json!("ann"), &json!("the shop is closed")));
    browser.assert_clean();
    service.stop();
}

pub fn an_appset_is_deleted_in_order() {
    let service = Service::new(&ExampleOptions::default());
    service.wait_until_synced(&[]);
    let browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press_button("Delete…");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Step 3 (env in (prod)), 1 at once: prod-cart, prod-catalog, prod-checkout, prod-search')"));
    // The action is also available without other deletions.
    browser.click("#field-orphan");
    browser.wait_until(&format!("{DIALOG}.textContent.includes('Its Applications are kept')"));
    assert_dialog(&browser, "Its manifest is removed from the apps folder.");
    browser.click("#field-orphan");
    browser.wait_until(&format!("{DIALOG}.querySelector('ol')"));
    assert_dialog(&browser, "Its manifest is removed from the apps folder.");
    assert_eq!(service.get("/api/v1/applicationsets/argocd/shops/deletion")["removesFile"], true);
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('#steps').textContent === 'Deletion steps'");
    browser.wait_until("document.querySelectorAll('.step')[0].textContent.includes('Step 3')");
    // A late response that describes the ApplicationSet as it was before its deletion doesn't change the
    // view.
    browser.run(
        "const ask = window.fetch;
         const said = document.getElementById('said');
         window.fetch = async (path, options) => {
           const response = await ask(path, options);
           while (path.includes('/explain') && said.textContent !== 'argocd/shops has been deleted') await new Promise((go) => setTimeout(go, 20));
           window.haveArrived ||= path.includes('/explain');
           return response;
         };",
    );
    browser.wait_for_text("argocd/shops has been deleted");
    browser.wait_until("window.haveArrived");
    browser.wait_until("document.getElementById('said').textContent === 'argocd/shops has been deleted'");
    browser.wait_until("document.querySelector('p.lead').textContent === 'argocd/shops has been deleted.'");
    // The last view shows the results of all Applications, and deleted resources aren't requested again.
    browser.wait_until("[...document.querySelectorAll('.tile .badge')].every((one) => one.textContent === '✓Deleted') && document.querySelectorAll('.tile').length === 12");
    browser.wait_until(
        "[...document.querySelectorAll('.step h3')].map((one) => one.textContent).join() === 'Step 3 ✓Passed,Step 2 ✓Passed,Step 1 ✓Passed'",
    );
    browser.wait_until(
        "!document.querySelector('.step[aria-current]') && !document.querySelector('.tile button')",
    );
    // The ApplicationSet may be deleted between two requests, but only once: each view requests the
    // ApplicationSet and its status.
    let complaints = browser.take_console_messages();
    assert!(complaints.len() <= 2, "{complaints:#?}");
    // Later viewers find the record of the ApplicationSet.
    browser.open("/applicationsets/argocd/shops");
    browser.wait_for_text("argocd/shops has been deleted.");
    browser.wait_until("[...document.querySelectorAll('#runs ~ div tbody tr')].map((row) => row.children[1].textContent + row.children[6].textContent).join().startsWith('Deletionann,Rollout')");
    browser.click("#runs ~ div a");
    browser.wait_until("document.querySelector('h1').textContent === 'Deletion of shops'");
    browser.wait_until("[...document.querySelectorAll('.step h3')].map((one) => one.textContent.replace(/[^0-9]/g, '')).join('') === '321'");
    browser.wait_until("[...document.querySelectorAll('.tile .badge')].every((one) => one.textContent === '✓Deleted') && document.querySelectorAll('.tile').length === 12");
    // If a user leaves the view while its requests are running, their responses don't change the next view.
    browser.run(
        "const ask = window.fetch;
         window.fetch = (path, options) => {
           if (!path.includes('/api/v1/runs?')) return ask(path, options);
           window.isAsked = true;
           return new Promise((_, fail) => options.signal.addEventListener('abort', () => fail(options.signal.reason)));
         };",
    );
    browser.click("h1 a");
    browser.wait_until("window.isAsked");
    browser.click("nav a[href='/operations']");
    browser.wait_until("document.querySelector('h1').textContent === 'Operations'");
    browser.open("/applicationsets/argocd/shops/runs/01a1fdbf-da23-70f8-b7a6-18e4810d225a");
    browser.wait_for_text("No rollout or deletion 01a1fdbf-da23-70f8-b7a6-18e4810d225a of argocd/shops");
    // The person who requested the deletion of the ApplicationSet is also the requester of its Applications'
    // deletion.
    let by_ann = service.get("/api/v1/operations?initiatedBy=ann&limit=500");
    let deleted = by_ann["items"].as_array().unwrap();
    let of_set = |one: &&serde_json::Value| {
        one["initiatedBy"].as_str().unwrap().starts_with("ann, by the deletion of shops, requested at ")
    };
    assert_eq!(deleted.iter().filter(of_set).count(), 12, "{by_ann:#}");
    // The writes confirm the order: prod is deleted first.
    let gone: Vec<String> = service
        .bench
        .writes()
        .iter()
        .filter(|one| one["verb"] == "delete")
        .filter_map(|one| one["namespace"].as_str().unwrap().strip_prefix("shops-").map(str::to_owned))
        .collect();
    let first_of = |env: &str| gone.iter().position(|one| one == env).unwrap();
    let last_of = |env: &str| gone.iter().rposition(|one| one == env).unwrap();
    assert!(last_of("prod") < first_of("qa") && last_of("qa") < first_of("dev"), "{gone:?}");
    service.stop();
}
