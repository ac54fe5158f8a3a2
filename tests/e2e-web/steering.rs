//! What people have done by the page: after a question that says what will happen, and on the record.

use serde_json::json;

use crate::browser::{Browser, key};
use crate::decisions::{asks, confirm_with_a_reason, keep_what_is_sent, sent};
use crate::service::{Different, OPERATOR, READER, Service, folder};

const NO_SET: Different = Different { rollout: None, has_no_set: true, is_gated: false };
const DIALOG: &str = "document.querySelector('dialog[open]')";
const CLOSED: &str = "!document.querySelector('dialog')";

pub fn an_application_is_synced_and_deleted_after_a_question() {
    let service = Service::new(&NO_SET);
    service.wait(&[]);
    let before = service.newest("frontend");
    let browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    browser.press("Sync…");
    browser.until(&format!("{DIALOG}.textContent.includes('argocd/frontend are applied to in-cluster')"));
    browser.until(&format!("{DIALOG}.textContent.includes('As things stand: ')"));
    // Of the revision that is chosen.
    browser.write("#field-revision", "nowhere");
    browser.until(&format!(
        "{DIALOG}.querySelector('p.problem:not([hidden])')?.textContent.includes('nowhere')"
    ));
    // Whoever leaves it has nothing done, and is where they were.
    browser.key(key::ESCAPE);
    browser.until(CLOSED);
    browser.until("document.activeElement.dataset.do === 'Sync…'");
    assert_eq!(service.newest("frontend"), before);
    browser.press("Sync…");
    // Only one object of those that are found, without hooks, and what becomes of it meanwhile.
    browser.click("#field-resources summary");
    browser.write("#field-resources-find", "deployment");
    browser.until("document.querySelectorAll('.choices li').length === 1");
    browser.click("#field-resources-0");
    browser.until(&format!("{DIALOG}.textContent.includes('Nothing but 1 chosen object.')"));
    browser.until(&format!("{DIALOG}.textContent.includes('As things stand: 1 wave, 0 hooks, 0 to create')"));
    browser.write("#field-resources-find", "nothing like that");
    browser.until("document.querySelectorAll('.choices li').length === 0");
    browser.until("document.querySelector('#field-resources').textContent.includes('1 of ')");
    browser.choose("#field-policy", "queue");
    browser.write("#field-reason", "a hotfix");
    browser.press("confirm");
    browser.until(CLOSED);
    let target = "/api/v1/operations?application=frontend&limit=1";
    let asked = service.until(target, |found| found["items"][0]["id"] != before.as_str());
    let id = asked["items"][0]["id"].as_str().unwrap();
    // It is recorded who did it.
    let facts =
        service.until(&format!("/api/v1/operations/{id}/log"), |log| log["items"][0]["kind"] == "accepted");
    let details = &facts["items"][0]["details"];
    assert_eq!((&details["initiatedBy"], &details["reason"]), (&json!("ann"), &json!("a hotfix")));
    let selected = details["selection"].as_array().unwrap();
    assert_eq!((selected.len(), &selected[0]["kind"]), (1, &json!("Deployment")));
    service.wait(&["frontend"]);
    browser.open(&format!("/operations/{id}"));
    browser.until("document.querySelector('.terms').textContent.includes('Whya hotfix')");
    browser.until("[...document.querySelectorAll('.timeline .mark title')].some((one) => one.textContent.endsWith('ann asks for it: a hotfix'))");
    browser.open("/applications/argocd/frontend");
    browser.await_text("Asked for by ann: a hotfix");
    // What was synced in part is no entry of the history.
    let resource = "/api/v1/applications/argocd/frontend";
    service.post(&format!("{resource}/sync"), &json!({}));
    service.until(resource, |one| one["status"]["history"].as_array().is_some_and(|all| all.len() == 2));
    // No button is there for what the service would refuse.
    browser.await_text("It is synced by itself, so it cannot go back");
    browser.until("!document.querySelector('[data-do^=\"rollback \"]')");
    while_it_is_deleted(&browser);
    browser.open("/applications/argocd/frontend");
    browser.press("Delete…");
    browser.until(&format!("{DIALOG}.textContent.includes('argocd/frontend is deleted')"));
    browser.until(&format!(
        "{DIALOG}.textContent.includes('Its document is removed from the folder that is served.')"
    ));
    browser.until(&format!("{DIALOG}.querySelector('ol').textContent.includes('Deployment fleet/frontend')"));
    browser.choose("#field-cascade", "orphan");
    browser.until(&format!(
        "/\\d+ objects?: left where they are/.test({DIALOG}.querySelector('ol').textContent)"
    ));
    browser.choose("#field-cascade", "foreground");
    browser.until(&format!("{DIALOG}.querySelector('ol').textContent.includes('Deployment fleet/frontend')"));
    browser.write("#field-reason", "moved to another cluster");
    browser.press("confirm");
    browser.await_text("argocd/frontend is gone");
    // Who has deleted it is in the record, with why.
    let by_ann = service.get("/api/v1/operations?application=frontend&by=ann&limit=1");
    let words = by_ann["items"][0]["initiatedBy"].as_str().unwrap();
    assert!(
        words
            .starts_with("ann, by the deletion of the application (moved to another cluster), asked for at "),
        "{words}"
    );
    let left = service.bench.json(&["sim", "objects", "-o", "json"]);
    let names: Vec<&str> =
        left.as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"frontend") && names.contains(&"backend"), "{names:?}");
    service.end();
}

/// The view of an Application of which the list says that it is being deleted: there is no next sync of it.
fn while_it_is_deleted(browser: &Browser) {
    browser.open("/");
    browser.until("document.querySelector('[data-key=\"argocd/frontend\"] .name a')");
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
    browser.until("document.getElementById('order')?.textContent === 'It is being deleted' && document.querySelector('.lead + .lead')?.textContent === 'It is being deleted.'");
    browser.until("!document.querySelector('[aria-labelledby=order] .phase') && !document.querySelector('[data-do=\"Sync…\"]')");
}

pub fn a_plan_that_waits_is_shown_and_approved() {
    let service = Service::new(&NO_SET);
    service.wait(&[]);
    let file = service.bench.path().join("fleet/backend.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let annotated = "  name: backend\n  annotations: {tidegate.dev/approval: required}\n";
    let by_hand = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(by_hand), "{text}");
    let text = text.replacen("  name: backend\n", annotated, 1).replacen(by_hand, "", 1);
    std::fs::write(&file, text).unwrap();
    let resource = "/api/v1/applications/argocd/backend";
    service.until(resource, |one| !one["metadata"]["annotations"]["tidegate.dev/approval"].is_null());
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
    service.bench.write("fleet/repo/backend/more.yaml", more);
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    service.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    service.post(&format!("{resource}/sync"), &json!({"reason": "a hotfix"}));
    let target = "/api/v1/applications?name=backend&limit=1";
    let line = service.until(target, |found| found["items"][0]["plan"].is_string());
    let hash = line["items"][0]["plan"].as_str().unwrap().to_owned();
    let mut browser = service.browser(OPERATOR);
    // The fleet says in one line what it waits for.
    browser.await_text(&format!("waiting for an approval by somebody of plan {}", &hash[..12]));
    without_the_plan(&browser);
    browser.open("/applications/argocd/backend");
    browser.await_text("Waits for an approval");
    browser.until("document.querySelector('details[open]').textContent.includes('ConfigMap fleet/more')");
    browser.await_text("for ann (a hotfix)");
    browser.until("document.querySelector('[aria-label=\"The plan that waits for an approval\"] details.differs summary').textContent.includes('ConfigMap fleet/more')");
    browser.press("Approve…");
    browser.until(&format!(
        "{DIALOG}.textContent.includes('Plan {} of argocd/backend is carried out on in-cluster: ')",
        &hash[..12]
    ));
    // Whoever leaves it has approved nothing.
    browser.key(key::ESCAPE);
    browser.until(CLOSED);
    assert_eq!(service.get(&format!("/api/v1/plans/{hash}"))["state"], "waiting");
    browser.press("Approve…");
    browser.write("#field-reason", "looked at it");
    browser.press("confirm");
    browser.until(CLOSED);
    let plan = service.until(&format!("/api/v1/plans/{hash}"), |plan| plan["state"] == "taken");
    assert_eq!(
        (&plan["approvals"][0]["by"], &plan["approvals"][0]["reason"]),
        (&json!("ann"), &json!("looked at it"))
    );
    browser.until("!document.getElementById('main').textContent.includes('Waits for an approval')");
    service.wait(&["backend"]);
    // Whoever looks at what was carried out sees who has asked for it and who has approved it, and why.
    browser.open(&format!("/operations/{}", service.newest("backend")));
    let terms = "document.querySelector('.terms').textContent";
    browser.until(&format!("{terms}.includes('Asked for byann') && {terms}.includes('Whya hotfix')"));
    browser.until(&format!("{terms}.includes('Plan{} made ')", &hash[..12]));
    browser.until(&format!("{terms}.includes('Approved byann: looked at it')"));
    browser.is_clean();
    service.end();
}

/// Answers to what begins with one of these paths are this one, until another page is loaded.
fn answered(browser: &Browser, paths: &[&str], status: u16) {
    browser.run(&format!(
        "window.asked ??= window.fetch;
         const told = JSON.stringify({{code: 'broken', message: 'it is not to be had', next: 'look later'}});
         window.fetch = (path, ...rest) => {paths}.some((one) => path.startsWith(one))
           ? Promise.resolve(new Response(told, {{status: {status}}})) : window.asked(path, ...rest)",
        paths = json!(paths)
    ));
}

/// The view of an Application whose plan, and what else is asked for, is not to be had: from the list, which it leaves again.
fn without_the_plan(browser: &Browser) {
    let path = "/api/v1/applications/argocd/backend";
    let (resources, diff) = (format!("{path}/resources"), format!("{path}/diff"));
    let all = [resources.as_str(), &diff, "/api/v1/plans/", "/api/v1/operations?"];
    let section = |id: &str| format!("document.getElementById('{id}').parentElement");
    let waiting = "document.querySelector('[aria-label=\"The plan that waits for an approval\"]')";
    for status in [404, 500] {
        answered(browser, &all, status);
        browser.click("[data-key=\"argocd/backend\"] .name a");
        // It waits, and is not gone; each part says by itself what it cannot show, and the others show what they have.
        browser.until(&format!("{waiting}.textContent.includes('cannot be read: it is not to be had: look later') && {waiting}.textContent.includes('terminate the operation and sync once more')"));
        for id in ["differs", "operations"] {
            browser.until(&format!(
                "{}.querySelector('p.problem').textContent === 'it is not to be had: look later'",
                section(id)
            ));
        }
        browser.until("document.querySelector('[aria-labelledby=order] p.problem') && document.querySelectorAll('[aria-labelledby=order] .phase').length === 3");
        browser.until("document.querySelector('#kept + p.empty') && document.querySelector('#history ~ .scroll tbody tr')");
        // In vain it changes nothing. When there are answers again, an event may come before whoever presses it.
        browser.press("read the plan again");
        browser.until(&format!("{waiting}.textContent.includes('cannot be read')"));
        answered(browser, &[], status);
        browser.run("document.querySelector('[data-do=\"read the plan again\"]')?.click()");
        browser.until(&format!("{waiting}.textContent.includes('What it does, and nothing else')"));
        browser.run("history.back()");
        browser.until("document.querySelector('h1').textContent === 'Applications'");
    }
}

pub fn what_a_plan_changes_is_shown_and_not_what_differs_besides() {
    let bench = folder(&NO_SET);
    let file = bench.path().join("fleet/frontend.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let annotated = "  name: frontend\n  annotations: {tidegate.dev/approval: required}\n";
    let automated = "    automated:\n      prune: true\n      selfHeal: true\n";
    assert!(text.contains(automated), "{text}");
    std::fs::write(&file, text.replacen("  name: frontend\n", annotated, 1).replace(automated, "")).unwrap();
    let service = Service::in_folder(bench);
    // They make the namespace: a plan that was made before would not fit any more.
    service.wait(&["backend", "database"]);
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
    service
        .until("/api/v1/applications?name=frontend&limit=1", |found| found["items"][0]["plan"].is_string());
    let mut browser = service.browser(OPERATOR);
    browser.open("/applications/argocd/frontend");
    let title = format!("What differs from revision {}", &second[..7]);
    browser.until(&format!("document.getElementById('differs').textContent === '{title}'"));
    let changes =
        "document.querySelector('[aria-label=\"The plan that waits for an approval\"]').textContent";
    browser.until(&format!(
        "{changes}.includes('fleet/frontend:1.0') && !{changes}.includes('fleet/frontend:2.0')"
    ));
    browser.until(
        "document.querySelector('[aria-labelledby=differs]').textContent.includes('fleet/frontend:2.0')",
    );
    // When it is carried out, what differs is that again.
    browser.press("Approve…");
    browser.press("confirm");
    browser.until("document.getElementById('differs').textContent === 'What differs'");
    browser.is_clean();
    service.end();
}

pub fn an_operation_is_held_goes_on_and_is_approved() {
    let service = Service::new(&Different { is_gated: true, ..NO_SET });
    let id = service.newest("backend");
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    browser.press("Pause…");
    // As long as the API records it.
    let reason = format!("the database is being moved,{}", " again".repeat(170));
    let reason = &reason[..1024];
    browser.write("#field-reason", reason);
    browser.press("confirm");
    browser.until("document.querySelector('[data-do=\"Continue…\"]')");
    // It is folded where much else stands, and can be read as a whole.
    let held = "[...document.querySelectorAll('.terms > div')].find((one) => one.querySelector('dt').textContent === 'Held')";
    browser.until(&format!("{held}.offsetHeight < 150"));
    browser.run(&format!("{held}.querySelector('summary').focus()"));
    browser.key(key::ENTER);
    browser.until(&format!(
        "{held}.querySelector('details').open && {held}.innerText.includes({})",
        json!(reason)
    ));
    let held = service.get(&format!("/api/v1/operations/{id}"));
    assert_eq!(held["pausedBy"], "ann");
    let message = held["message"].as_str().unwrap();
    assert!(message.starts_with("paused by ann: the database is being moved"), "{message}");
    browser.until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.includes('held by ann: the database is being moved'))");
    browser.press("Continue…");
    browser.write("#field-reason", "it is moved");
    browser.press("confirm");
    browser.until("document.querySelector('[data-do=\"Pause…\"]')");
    browser.until("[...document.querySelectorAll('.timeline .mark title')].some((one) => one.textContent.endsWith('ann lets it go on: it is moved'))");
    // The table says it too: that it was held, by whom, why and for how long; on a telephone as well.
    browser.size(360, 740);
    browser.run("document.querySelector('.picture ~ details').open = true");
    let table = "document.querySelector('.picture ~ details table')";
    browser.until(&format!("/: waited [^:]+ \\(Paused\\): held by ann: the database is being moved/.test({table}.rows[1].cells[6].textContent)"));
    browser.until(&format!(
        "/: waits [^:]+ \\(Held\\): .*gate approval/.test({table}.rows[1].cells[6].textContent)"
    ));
    browser.until(&format!(
        "{table}.rows[1].cells[7].textContent.includes('ann holds it: the database is being moved')"
    ));
    browser.until(&format!("getComputedStyle({table}.rows[1].cells[6]).display === 'block' && {table}.scrollWidth <= {table}.parentElement.clientWidth"));
    browser.until("document.documentElement.scrollWidth === 360");
    browser.size(1280, 900);
    keep_what_is_sent(&browser);
    browser.press("Approve…");
    browser.until(&format!(
        "{DIALOG}.textContent.includes('The wave of backend that waits for approval begins: wave 3 of 3')"
    ));
    browser.press("confirm");
    // That one and no other.
    sent(&browser, "/approve", &json!({"wave": 3}));
    browser.until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    // Who did what is in the record, for whoever looks later.
    browser.until(
        "document.querySelector('.facts').textContent.includes('ann holds it: the database is being moved')",
    );
    assert_eq!(browser.run("return document.querySelectorAll('main .actions button').length"), json!(0));
    browser.is_clean();
    service.end();
}

pub fn what_is_skipped_of_an_operation_is_not_taken_for_done() {
    let service = Service::new(&Different { is_gated: true, ..NO_SET });
    let id = service.newest("backend");
    let mut browser = service.browser(OPERATOR);
    browser.open(&format!("/operations/{id}"));
    // One object alone, before its wave begins; and after all not. What waits for its wave is not to be tried.
    browser.press("Skip Deployment fleet/backend");
    asks(&browser, "Application backend, wave Sync/1.");
    browser.press("leave");
    browser.until("!document.querySelector('[data-do=\"Retry Deployment fleet/backend\"]')");
    service.post(&format!("/api/v1/operations/{id}/pause"), &json!({}));
    browser.press("Skip Deployment fleet/backend");
    confirm_with_a_reason(&browser, "perhaps not");
    browser.press("Retry Deployment fleet/backend");
    browser.write("#field-reason", "after all");
    browser.press("confirm");
    let own = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].find((row) => row.textContent.includes('Deployment fleet/backend'))";
    browser.until(&format!("{own}?.textContent.split('after all').length === 2 && !{own}.querySelector('[data-do^=\"Retry \"]') && {own}.querySelector('[data-do^=\"Skip \"]')"));
    service.post(&format!("/api/v1/operations/{id}/unpause"), &json!({}));
    browser.press("Skip what is not done of wave Sync/1");
    browser.until(&format!("{DIALOG}.textContent.includes('The operation goes on without')"));
    browser.until(&format!("{DIALOG}.textContent.includes('Application backend, wave Sync/1, 1 object: Deployment fleet/backend.')"));
    browser.write("#field-reason", "not today");
    browser.press("confirm");
    let wave = "[...document.querySelectorAll('.wave')].at(-1)";
    browser.until(&format!("/0 of \\d+ done, \\d+ skipped/.test({wave}.textContent)"));
    browser.until(&format!("{wave}.querySelector('.done.dull').style.height === '100%' && {wave}.querySelector('.done.good').style.height === '0%'"));
    let rows = "[...document.querySelectorAll('#results ~ .scroll tbody tr')]";
    browser.until(&format!("{rows}.some((row) => row.querySelectorAll('td')[4].textContent === '»Skipped' && row.textContent.includes('not today'))"));
    browser
        .until(&format!("{rows}.some((row) => row.querySelectorAll('td')[4].textContent === '✓Succeeded')"));
    browser.is_clean();
    service.end();
}

pub fn a_rollout_is_approved_paused_and_skipped_with_a_reason() {
    let gates = "steps: [{step: 1, gates: [approval]}, {step: 3, gates: [approval]}]";
    let service = Service::new(&Different { rollout: Some(gates), ..Different::default() });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    let status =
        |step: usize| format!("document.querySelectorAll('.step')[{step}].querySelector('h3').textContent");
    browser.until(&format!("{}.includes('Held')", status(0)));
    browser.press("Approve…");
    browser.until(&format!(
        "{DIALOG}.textContent.includes('Step 1 (env in (dev)) may begin with its 4 Applications')"
    ));
    browser.press("confirm");
    browser.until(&format!("{}.includes('Held')", status(2)));
    // A button that has looked the same since the first step is about the step of now.
    browser.press("Skip step…");
    browser.until(&format!("{DIALOG}.textContent.includes('without the Applications of step 3')"));
    browser.until(&format!("{DIALOG}.textContent.includes('4 Applications: prod-cart, prod-catalog, prod-checkout, prod-search.')"));
    browser.key(key::ESCAPE);
    browser.until(CLOSED);
    browser.press("Pause…");
    browser.write("#field-reason", "lunch");
    browser.press("confirm");
    browser.until("document.querySelector('[data-do=\"Resume…\"]')");
    browser.until("document.getElementById('main').textContent.includes('lunch')");
    browser.press("Resume…");
    browser.press("confirm");
    browser.until("document.querySelector('[data-do=\"Pause…\"]')");
    // Whoever goes on without somebody has to say why.
    browser.press("Skip prod-cart");
    browser.until(&format!("{DIALOG}.textContent.includes('The rollout goes on without prod-cart')"));
    browser.press("confirm");
    assert_eq!(
        browser.run(&format!("return {DIALOG}.querySelector('#field-reason').validity.valueMissing")),
        json!(true)
    );
    browser.write("#field-reason", "moved to another cluster");
    browser.press("confirm");
    browser.until(
        "document.querySelector('[data-key=\"prod-cart\"]').textContent.includes('moved to another cluster')",
    );
    browser.until("[...document.querySelectorAll('[data-do^=\"Retry \"]')].map((one) => one.dataset.do).join() === 'Retry prod-cart'");
    // It is not taken for one that is well.
    let tile = "document.querySelector('[data-key=\"prod-cart\"]')";
    browser.until(&format!(
        "{tile}.querySelector('.badge').textContent === '»Skipped' && {tile}.classList.contains('dull')"
    ));
    browser.press("Approve…");
    browser.press("confirm");
    browser.until("document.querySelector('.lead').textContent.startsWith('Completed')");
    browser.until(
        "document.querySelectorAll('.step')[2].textContent.includes('3 of 4 Applications done, 1 skipped')",
    );
    let told = service.get("/api/v1/applicationsets/argocd/shops/explain");
    let members = told["rollout"]["members"].as_array().unwrap();
    let skipped = members.iter().find(|one| one["application"] == "prod-cart").unwrap();
    assert!(skipped["message"].as_str().unwrap().contains("moved to another cluster"), "{skipped:#}");
    assert!(skipped["operation"].is_null(), "it was never synced: {skipped:#}");
    // All of that is in its record, which has an address.
    browser.until(
        "document.querySelector('#runs ~ div tbody tr')?.children[4].textContent === '11 of 12, 1 skipped'",
    );
    browser.click("#runs ~ div a");
    browser.until("document.querySelector('h1').textContent === 'Rollout of shops'");
    browser.until("/^\\/applicationsets\\/argocd\\/shops\\/runs\\/[0-9a-f-]{36}$/.test(location.pathname)");
    browser.until(
        "[...document.querySelectorAll('dd')].some((one) => one.textContent === '11 of 12 Healthy, 1 skipped')",
    );
    let rows = |id: &str| {
        format!(
            "[...document.querySelectorAll('#{id} + .scroll tbody tr')].map((row) => [...row.children].slice(1).map((one) => one.textContent).join('|')).join()"
        )
    };
    let decided = "ann|approves step 1|–,ann|holds it|lunch,ann|lets it go on|–,ann|skips prod-cart|moved to another cluster,ann|approves step 3|–";
    browser.until(&format!("{} === '{decided}'", rows("decisions")));
    browser.until(&format!("{}.includes('|the rollout|held by ann: lunch')", rows("waits")));
    let ended = "[...document.querySelectorAll('.step h3 .badge')].map((one) => one.textContent).join() === '✓Passed,✓Passed,✓Passed'";
    browser.until(ended);
    browser.until(&format!("{tile}.querySelector('.badge').textContent === '»Skipped' && !document.querySelector('main button:not([data-do=facts])')"));
    browser.until("document.querySelector('.facts').textContent.includes('ann skips prod-cart: moved to another cluster')");
    browser.run("location.reload()");
    browser.until(ended);
    browser.until(&format!("{} === '{decided}'", rows("decisions")));
    browser.until("document.querySelectorAll('a[download]').length === 2");
    let fetched = browser.run_async(
        "fetch(document.querySelector('a[download]').href).then(async (one) => done([await one.text(), one.headers.get('content-disposition')]))",
    );
    assert!(fetched[0].as_str().unwrap().contains("ann skips prod-cart: moved to another cluster"));
    assert!(fetched[1].as_str().unwrap().starts_with("attachment; filename=\"rollout-"), "{fetched}");
    // Lists count it apart too.
    browser.open("/applicationsets");
    browser.until(
        "document.querySelector('.rows [role=img]')?.getAttribute('aria-label') === '11 Healthy, 1 Skipped'",
    );
    let lines = service.get("/api/v1/applicationsets");
    assert_eq!(lines["items"][0]["rollout"]["skipped"], 1, "{lines:#}");
    // One that was gone on without is synced after all when the rollout begins again.
    browser.open("/applicationsets/argocd/shops");
    browser.press("Begin again…");
    browser.until(&format!(
        "{DIALOG}.textContent.includes('It has not brought this Application to its target: prod-cart.')"
    ));
    browser.write("#field-reason", "it is back");
    browser.press("confirm");
    browser.until(&format!("{}.includes('Held')", status(2)));
    browser.press("Approve…");
    browser.press("confirm");
    browser.until(&format!("{tile}.querySelector('.badge').textContent === '✓Healthy'"));
    // All are at their targets, and nothing is left to begin again.
    browser.until(
        "document.querySelector('.lead').textContent.startsWith('Completed') && !document.querySelector('[data-do=\"Begin again…\"]')",
    );
    browser.until("[...document.querySelectorAll('dd')].some((one) => one.textContent === 'it is back')");
    assert_eq!(service.get("/api/v1/applications/argocd/prod-cart")["status"]["sync"]["status"], "Synced");
    browser.is_clean();
    service.end();
}

pub fn deletions_that_are_held_are_named_and_approved() {
    let bench = folder(&Different::default());
    let file = bench.path().join("fleet/shops.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let limit = "  annotations:\n    tidegate.dev/max-deletions: \"2\"\n";
    std::fs::write(&file, text.replacen("  annotations:\n", limit, 1)).unwrap();
    let service = Service::in_folder(bench);
    service.wait(&[]);
    // Somebody has moved a folder.
    let repository = service.bench.path().join("fleet/repo");
    std::fs::rename(repository.join("shops/cart"), repository.join("cart")).unwrap();
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press("Refresh…");
    browser.press("confirm");
    browser.until(CLOSED);
    browser.press("Approve deletions…");
    browser.until(&format!("{DIALOG}.textContent.includes('3 of its 12 Applications are not generated any more, and no more than 2 may be deleted at once')"));
    browser.until(&format!(
        "{DIALOG}.textContent.includes('Deleted with their objects: dev-cart, prod-cart, qa-cart.')"
    ));
    // Whoever leaves it has deleted nothing.
    browser.key(key::ESCAPE);
    browser.until(CLOSED);
    let shops = "/api/v1/applicationsets/argocd/shops";
    let told = service.get(&format!("{shops}/explain"));
    assert_eq!(told["held"]["applications"], json!(["dev-cart", "prod-cart", "qa-cart"]));
    assert!(service.get(shops)["metadata"]["annotations"]["tidegate.dev/deletions-approval"].is_null());
    // Whoever may look alone is told, and has no button.
    let reader = service.browser(READER);
    reader.open("/applicationsets/argocd/shops");
    reader.await_text("3 of its 12 Applications are not generated any more");
    reader.until("!document.querySelector('main .actions button')");
    browser.press("Approve deletions…");
    browser.write("#field-reason", "the shop is closed");
    browser.press("confirm");
    browser.until(CLOSED);
    let is_left = |found: &serde_json::Value| {
        let names = found["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap());
        names.filter(|name| name.ends_with("-cart")).count()
    };
    service.until("/api/v1/applications?limit=100", |found| is_left(found) == 0);
    browser.until("!document.querySelector('[data-do=\"Approve deletions…\"]')");
    browser.await_text("Deletions approved byann: the shop is closed");
    // What has become of it is written after they are gone.
    let set = service.until(shops, |set| set["status"]["resourcesCount"] == 9);
    let annotation = set["metadata"]["annotations"]["tidegate.dev/deletions-approval"].as_str().unwrap();
    let approval: serde_json::Value = serde_json::from_str(annotation).unwrap();
    assert_eq!((&approval["by"], &approval["reason"]), (&json!("ann"), &json!("the shop is closed")));
    browser.is_clean();
    service.end();
}

pub fn a_set_is_deleted_in_its_order() {
    let service = Service::new(&Different::default());
    service.wait(&[]);
    let browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.press("Delete…");
    browser.until(&format!("{DIALOG}.textContent.includes('Step 3 (env in (prod)), 1 at once: prod-cart, prod-catalog, prod-checkout, prod-search')"));
    // Also where nothing else goes.
    browser.click("#field-orphan");
    browser.until(&format!("{DIALOG}.textContent.includes('Its Applications stay')"));
    asks(&browser, "Its document is removed from the folder that is served.");
    browser.click("#field-orphan");
    browser.until(&format!("{DIALOG}.querySelector('ol')"));
    asks(&browser, "Its document is removed from the folder that is served.");
    assert_eq!(service.get("/api/v1/applicationsets/argocd/shops/deletion")["removesFile"], true);
    browser.press("confirm");
    browser.until("document.querySelector('#steps').textContent === 'Deletion, step by step'");
    browser.until("document.querySelectorAll('.step')[0].textContent.includes('Step 3')");
    browser.await_text("argocd/shops is gone");
    browser.until("document.getElementById('said').textContent === 'argocd/shops is gone'");
    // What was shown last says how all has ended, and nobody asks for what is gone.
    browser.until("[...document.querySelectorAll('.tile .badge')].every((one) => one.textContent === '✓Gone') && document.querySelectorAll('.tile').length === 12");
    browser.until(
        "[...document.querySelectorAll('.step h3')].map((one) => one.textContent).join() === 'Step 3 ✓Passed,Step 2 ✓Passed,Step 1 ✓Passed'",
    );
    browser
        .until("!document.querySelector('.step[aria-current]') && !document.querySelector('.tile button')");
    // It may have gone between two looks, once: each asks for the set, and for where it stands.
    let complaints = browser.complaints();
    assert!(complaints.len() <= 2, "{complaints:#?}");
    // Whoever comes later finds what was recorded of it.
    browser.open("/applicationsets/argocd/shops");
    browser.await_text("argocd/shops is gone.");
    browser.until("[...document.querySelectorAll('#runs ~ div tbody tr')].map((row) => row.children[1].textContent + row.children[6].textContent).join().startsWith('Deletionann,Rollout')");
    browser.click("#runs ~ div a");
    browser.until("document.querySelector('h1').textContent === 'Deletion of shops'");
    browser.until("[...document.querySelectorAll('.step h3')].map((one) => one.textContent.replace(/[^0-9]/g, '')).join('') === '321'");
    browser.until("[...document.querySelectorAll('.tile .badge')].every((one) => one.textContent === '✓Gone') && document.querySelectorAll('.tile').length === 12");
    // Where its view is left while it still asks for them, what comes of that changes nothing of the next view.
    browser.run(
        "const ask = window.fetch;
         window.fetch = (path, options) => {
           if (!path.includes('/api/v1/runs?')) return ask(path, options);
           window.isAsked = true;
           return new Promise((_, fail) => options.signal.addEventListener('abort', () => fail(options.signal.reason)));
         };",
    );
    browser.click("h1 a");
    browser.until("window.isAsked");
    browser.click("nav a[href='/operations']");
    browser.until("document.querySelector('h1').textContent === 'Operations'");
    browser.open("/applicationsets/argocd/shops/runs/01a1fdbf-da23-70f8-b7a6-18e4810d225a");
    browser.await_text(
        "There is no rollout and no deletion 01a1fdbf-da23-70f8-b7a6-18e4810d225a of argocd/shops",
    );
    // Who has deleted the set has deleted its Applications.
    let by_ann = service.get("/api/v1/operations?by=ann&limit=500");
    let deleted = by_ann["items"].as_array().unwrap();
    let of_set = |one: &&serde_json::Value| {
        one["initiatedBy"].as_str().unwrap().starts_with("ann, by the deletion of shops, asked for at ")
    };
    assert_eq!(deleted.iter().filter(of_set).count(), 12, "{by_ann:#}");
    // What was written says the same: prod first.
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
    service.end();
}
