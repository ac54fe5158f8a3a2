//! Content of each view, and its live updates.

use std::fs;

use serde_json::{Value, json};

use crate::decisions::replace;
use crate::service::{ExampleOptions, OPERATOR, READER, Service, example_folder};

const WITHOUT_APPSET: ExampleOptions = ExampleOptions { rollout: None, has_no_appset: true, is_gated: false };

pub fn the_fleet_is_displayed_filtered_and_updated_live() {
    let service = Service::new(&ExampleOptions::default());
    service.wait_until_synced(&[]);
    let mut browser = service.browser(READER);
    browser.wait_for_text("15 Applications");
    browser.wait_until("document.querySelectorAll('.rows .row[data-key]').length === 15");
    browser.save_screenshot("fleet");
    // The ApplicationSet is shown too, with its rollout.
    browser.wait_until("document.querySelector('.card').textContent.includes('shops')");
    // The search becomes part of the address, and opening such an address applies the search.
    browser.type_text("#search", "CART");
    browser.wait_for_text("3 Applications");
    browser.wait_until("location.search === '?name=CART'");
    browser.select_option("#filter-health", "Degraded");
    browser.wait_for_text("No matching Applications.");
    browser.open("/?name=prod&sort=name&reverse=true");
    browser.wait_for_text("4 Applications");
    let names = "[...document.querySelectorAll('.rows .row .name a')].map((one) => one.textContent).join()";
    browser.wait_until(&format!("{names} === 'prod-search,prod-checkout,prod-catalog,prod-cart'"));
    // When an Application changes, only its row is redrawn.
    browser.open("/");
    browser.wait_until("document.querySelectorAll('.rows .row[data-key]').length === 15");
    browser.run("window.row = document.querySelector('[data-key=\"argocd/backend\"]'); window.other = document.querySelector('[data-key=\"argocd/frontend\"] .badge')");
    let path = service.bench.path().join("fleet/repo/backend/backend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("backend:", "backend:next-")).unwrap();
    let migrate = service.bench.path().join("fleet/repo/backend/migrate.yaml");
    let text = fs::read_to_string(&migrate).unwrap();
    fs::write(&migrate, text.replace("ready-after: 3s", "ready-after: 1000h")).unwrap();
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    service.post("/api/v1/applications/argocd/backend/refresh", &json!({}));
    browser.wait_until(
        "document.querySelector('[data-key=\"argocd/backend\"]').textContent.includes('Running')",
    );
    // The list shows the reason for a wait in one line.
    browser.wait_until("document.querySelector('[data-key=\"argocd/backend\"] .why').textContent.length > 5");
    assert_eq!(browser.run("return window.row.isConnected && window.other.isConnected"), json!(true));
    // Errors are also shown, with the message of the condition.
    let path = service.bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("path: frontend"), "{text}");
    fs::write(&path, text.replace("path: frontend", "path: nowhere")).unwrap();
    let why = "document.querySelector('[data-key=\"argocd/frontend\"] .why')";
    browser.wait_until(&format!(
        "{why}.textContent.startsWith('ComparisonError: ') && {why}.textContent.includes('nowhere')"
    ));
    browser.assert_clean();
    service.stop();
}

pub fn an_application_is_displayed_in_sync_order() {
    let service = Service::new(&WITHOUT_APPSET);
    service.wait_until_synced(&[]);
    let mut browser = service.browser(READER);
    browser.open("/applications/argocd/backend");
    browser.wait_for_text("No differences in 2 objects.");
    let waves = "[...document.querySelectorAll('.phase h3')].map((one) => one.textContent.replace(/ \\d+ objects?$/, '')).join('; ')";
    browser.wait_until(&format!("{waves} === 'PreSync, wave 0; Sync, wave 0; Sync, wave 1'"));
    // A hook is labeled as a hook, and its row shows the reason for its health.
    let of = |wave: usize| format!("document.querySelectorAll('.phase')[{wave}].textContent");
    browser.wait_until(&format!("{}.includes('hook') && {0}.includes('Job fleet/migrate')", of(0)));
    browser.wait_until(&format!("{}.includes('2 of 2 replicas available')", of(2)));
    // The object's health rule is shown, if it has one.
    browser.wait_until(&format!("{}.includes('Health: built-in rule for apps/Deployment')", of(2)));
    browser.wait_until(&format!("{}.includes('no rule; waves do not wait for this object')", of(1)));
    // The next sync can be saved as a picture.
    let picture = browser.read_download("save the next sync");
    for part in [
        "<svg ",
        "Next sync of argocd/backend",
        "PreSync",
        "wave 1",
        "hook Job fleet/migrate",
        "Deployment fleet/backend",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    browser.wait_until(
        "document.querySelector('#history').parentElement.querySelectorAll('tbody tr').length === 1",
    );
    browser.save_screenshot("application");
    // A manual change in the cluster isn't reverted without self-heal.
    let path = service.bench.path().join("fleet/backend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("    automated:\n      prune: true\n      selfHeal: true\n", "")).unwrap();
    service.wait_until("/api/v1/applications/argocd/backend", |one| {
        one["spec"]["syncPolicy"]["automated"].is_null()
    });
    service.bench.run(&["sim", "delete", ":ConfigMap:fleet/backend-settings"]).expect_code(0);
    browser.wait_for_text("1 of 2 objects");
    browser.wait_until(
        "document.querySelector('details.differs').textContent.includes('ConfigMap fleet/backend-settings')",
    );
    browser.wait_until("document.querySelector('.title .states').textContent.includes('OutOfSync')");
    // Follows the link to the operation, and goes back.
    browser.click("#operations ~ .scroll td a");
    browser.wait_until("document.querySelector('h1').textContent === 'Operation of backend'");
    browser.run("history.back()");
    browser.wait_until("document.querySelector('h1').textContent === 'backend'");
    browser.assert_clean();
    service.stop();
}

pub fn a_changed_line_of_a_long_text_is_found() {
    let bench = example_folder(&WITHOUT_APPSET);
    let text = |line: &str| -> String {
        let lines: String = (1..=300)
            .map(|n| if n == 150 { format!("    {line}\n") } else { format!("    line {n}\n") })
            .collect();
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata:\n  app.conf: |\n{lines}"
        )
    };
    bench.write("fleet/repo/frontend/settings.yaml", text("colour = blue"));
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    service.wait_until_synced(&["frontend"]);
    // Automated sync is disabled, so that the Application differs.
    let path = service.bench.path().join("fleet/frontend.yaml");
    let application = fs::read_to_string(&path).unwrap();
    fs::write(&path, application.replace("    automated:\n      prune: true\n      selfHeal: true\n", ""))
        .unwrap();
    service.wait_until("/api/v1/applications/argocd/frontend", |one| {
        one["spec"]["syncPolicy"]["automated"].is_null()
    });
    service.bench.write("fleet/repo/frontend/settings.yaml", text("colour = \u{202e}red"));
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    service.post("/api/v1/applications/argocd/frontend/refresh", &json!({}));
    let mut browser = service.browser(READER);
    browser.open("/applications/argocd/frontend");
    let lines = |what: &str| {
        format!("[...document.querySelectorAll('.lines .{what}')].map((one) => one.textContent).join('|')")
    };
    browser.wait_until(&format!("{} === 'current: −colour = blue'", lines("before")));
    // Bidirectional control characters are visible.
    browser.wait_until(&format!("{} === 'new: +colour = ⟨U+202E⟩red'", lines("after")));
    browser.wait_until("document.querySelectorAll('.lines .same').length === 6");
    browser
        .wait_until(&format!("/^… 146 unchanged lines\\|… 14[78] unchanged lines$/.test({})", lines("left")));
    browser.assert_clean();
    service.stop();
}

pub fn an_operation_is_watched_live_and_read_afterwards() {
    let service = Service::new(&ExampleOptions { is_gated: true, ..WITHOUT_APPSET });
    let id = service.newest_operation("backend");
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    browser.wait_until("document.querySelectorAll('.wave').length === 3");
    // The view updates without a reload, and shows the reason for the wait.
    browser.wait_until("document.querySelector('.awaited')?.textContent.includes('gate approval')");
    browser.wait_until("[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '✓Passed,✓Passed,‖Held'");
    browser.wait_until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('Sync, wave 1: Held') && one.textContent.includes('gate approval'))");
    // The operation waited for the hook, which the wave shows too.
    browser.wait_until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('hook Job fleet/migrate: Progressing'))");
    browser.wait_until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('PreSync, wave 0: AwaitingHealth') && one.textContent.endsWith(': waiting for the completion of hook Job fleet/migrate'))");
    service.post(&format!("/api/v1/operations/{id}/approve"), &json!({"reason": "seen"}));
    browser.wait_until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    let shown = |browser: &crate::browser::Browser| {
        browser.wait_until("[...document.querySelectorAll('.wave .badge')].every((one) => one.textContent.includes('Passed'))");
        browser.wait_until("document.querySelector('.facts tbody tr').textContent.includes('Succeeded: successfully synced')");
        browser.run("document.querySelector('.picture ~ details').open = true");
        browser.wait_until("document.querySelector('.picture ~ details table')");
        // Removes the clock times, which depend on the reader's time zone.
        browser.run(
            "const rows = [...document.querySelectorAll('.picture ~ details table tbody tr')];
             const shapes = [...document.querySelectorAll('.timeline rect')].map((one) => one.querySelector('title').textContent);
             return [rows.map((row) => [...row.children].map((cell) => cell.textContent)), shapes, document.querySelectorAll('.wave small')[0].textContent]",
        )
    };
    let live = shown(&browser);
    // The table matches the picture, including results and user decisions.
    let rows: Vec<Vec<&str>> = live[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect())
        .collect();
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap();
    assert_eq!((row("Operation")[5], row("Sync, wave 1")[5]), ("Succeeded", "Passed"), "{rows:#?}");
    assert!(row("Operation")[7].contains("wave 3 approved by ann: seen"), "{rows:#?}");
    assert!(row("Sync, wave 1")[7].contains("passed"), "{rows:#?}");
    assert!(
        row("Sync, wave 1")[6].contains(" (Held): ") && row("Sync, wave 1")[6].contains("gate approval"),
        "{rows:#?}"
    );
    let hook = row("hook Job fleet/migrate");
    assert!(hook[6].contains(" (Progressing): ") && hook[3] != "–" && hook[5] == "Succeeded", "{rows:#?}");
    browser.wait_until(
        "getComputedStyle(document.querySelector('.picture ~ details table tbody th.of-wave')).display === 'table-cell'",
    );
    browser.wait_until("[...document.querySelectorAll('#results ~ .scroll tbody tr')].every((row) => row.querySelectorAll('td')[4].textContent === '✓Succeeded')");
    let bars: Vec<String> =
        live[1].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    assert!(bars.iter().any(|one| one.starts_with("hook Job fleet/migrate: ")), "{bars:#?}");
    browser.set_color_scheme("light");
    browser.run(
        "document.querySelector('.picture ~ details').open = false; document.getElementById('waves').scrollIntoView()",
    );
    browser.save_screenshot("operation");
    // Later viewers see the same picture.
    browser.open(&format!("/operations/{id}"));
    assert_eq!(shown(&browser), live);
    // Both pictures can be saved.
    let waves = browser.read_download("save the waves");
    for part in
        ["Operation of backend", "✓ Passed", "1 of 1 done", "✓ Deployment fleet/backend", "class=\"good\""]
    {
        assert!(waves.contains(part), "{part}: {waves}");
    }
    let timeline = browser.read_download("save the timeline");
    assert!(
        timeline.contains("wave 3 approved by ann: seen") && timeline.contains("Sync, wave 1"),
        "{timeline}"
    );
    // The picture contains its subject and time, in the reader's time zone.
    let began = service.get(&format!("/api/v1/operations/{id}"))["startedAt"].clone();
    let parts = browser.run(&format!(
        "return new Intl.DateTimeFormat(undefined, {{year: 'numeric', timeZoneName: 'short'}}).formatToParts(new Date({began})).map((one) => one.value)",
    ));
    let is_there = |part: &Value| timeline.contains(part.as_str().unwrap());
    assert!(parts.as_array().unwrap().iter().all(is_there), "{parts}: {timeline}");
    assert!(
        timeline.contains(">Operation of backend</text>") && !timeline.contains("The table below"),
        "{timeline}"
    );
    // The simulated cluster doesn't have claims, so the timeline gets their events directly.
    let held = browser.run_async(
        "import(`${location.origin}/page/timeline-model.js`).then(({ TimelineModel }) => {
           const model = new TimelineModel();
           const event = (sequence, kind, details) => ({ sequence, kind, at: '2026-01-01T00:00:00Z', details });
           const holder = { operation: 'op-1', identity: 'ann@ci', revision: 'abc', since: null };
           model.addEvents([event(1, 'accepted', {}), event(2, 'claim-changed', { change: 'held-by-other', holder })]);
           done(model.operation.openSpan.reason);
         }).catch((error) => done(String(error)))",
    );
    assert_eq!(held, json!("held by operation op-1 of ann@ci"));
    browser.assert_clean();
    service.stop();
}

const FLAKY: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: flaky
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/fail-times: \"1\"
    sim.tidegate.dev/logs: the schema is locked
    sim.tidegate.dev/ready-after: 200ms
spec:
  template:
    spec:
      containers: [{name: main, image: example.com/flaky:1}]
      restartPolicy: Never
";

pub fn a_failed_operation_shows_its_attempts_and_waits() {
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write("fleet/repo/frontend/flaky.yaml", FLAKY);
    let path = bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let retry = "  syncPolicy:\n    retry:\n      limit: 1\n      backoff: {duration: 1s}\n";
    fs::write(&path, text.replace("  syncPolicy:\n", retry)).unwrap();
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest_operation("frontend");
    service.wait_until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    let response = service.get(&format!("/api/v1/operations/{id}"));
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    let titles = "[...document.querySelectorAll('.timeline title')].map((one) => one.textContent)";
    browser.wait_until(&format!("{titles}.some((one) => /attempt 1 failed/.test(one))"));
    browser.wait_until(&format!("{titles}.some((one) => /AwaitingRetry/.test(one))"));
    browser.wait_until(&format!("{titles}.some((one) => /attempt 2/.test(one))"));
    let wait = browser.run("return document.querySelectorAll('.timeline rect.wait').length");
    assert!(wait.as_u64().unwrap() > 0, "{response:#}");
    // The duration of a wave covers all its attempts, in the picture and in the table.
    browser.run("document.querySelector('.picture ~ details').open = true");
    let columns = "[...document.querySelectorAll('.wave > small:nth-of-type(2)')].map((one) => one.textContent || '–').join()";
    let rows = "[...document.querySelectorAll('.picture ~ details th.of-wave')].map((one) => one.parentElement.cells[2].textContent).join()";
    browser.wait_until(&format!("{rows} !== '' && {columns} === {rows}"));
    // Each attempt of the hook is displayed with its output.
    let hook = "[...document.querySelectorAll('.timeline title')].filter((one) => one.textContent.startsWith('hook Job fleet/flaky: '))";
    browser.wait_until(&format!("{hook}.some((one) => one.textContent.includes('(attempt 2)')) && {hook}.some((one) => !one.textContent.includes('attempt'))"));
    assert_eq!(response["phase"], "Succeeded", "{response:#}");
    let log = "document.querySelector('details.log')";
    browser.wait_until(&format!(
        "{log}?.querySelector('summary').textContent.startsWith('Log of hook Job fleet/flaky, attempt 1: ')"
    ));
    browser.wait_until(&format!("{log}.querySelector('pre').textContent.includes('the schema is locked')"));
    let exported = service.get(&format!("/api/v1/operations/{id}/export"));
    assert_eq!(exported["logs"][0]["attempt"], 1, "{:#}", exported["logs"]);
    assert!(exported["logs"][0]["text"].as_str().unwrap().contains("the schema is locked"));
    browser.assert_clean();
    service.stop();
}

const NOWHERE: &str = "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: nowhere}
spec:
  generators:
    - git: {repoURL: ./nowhere, revision: main, directories: [{path: '*'}]}
  strategy:
    type: RollingSync
    rollingSync: {steps: [{matchExpressions: [{key: env, operator: In, values: [dev]}]}]}
  template:
    metadata: {name: 'none-{{path.basename}}', labels: {env: dev}}
    spec:
      project: default
      source: {repoURL: ./nowhere, targetRevision: main, path: '{{path}}'}
      destination: {name: in-cluster, namespace: none}
";

pub fn failed_and_unstarted_work_is_displayed_as_such() {
    let bench = example_folder(&WITHOUT_APPSET);
    bench.write("fleet/nowhere.yaml", NOWHERE);
    // The operation fails once, instead of five more times over two and a half minutes.
    replace(&bench, "frontend.yaml", "  syncPolicy:\n", "  syncPolicy:\n    retry: {limit: 0}\n");
    let failing = FLAKY.replace("sim.tidegate.dev/fail-times: \"1\"", "sim.tidegate.dev/outcome: fail");
    bench.write(
        "fleet/repo/frontend/flaky.yaml",
        failing.replace("spec:\n  template", "spec:\n  backoffLimit: 0\n  template"),
    );
    bench.write(
        "fleet/repo/frontend/odd.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd, annotations: {argocd.argoproj.io/hook: Sometimes}}\n",
    );
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest_operation("frontend");
    service.wait_until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    // A failed wave isn't done. Only the first application creates the namespace in its wave.
    let wave = "document.querySelector('.wave')";
    browser.wait_until(&format!("{wave}.querySelector('.badge').textContent === '✕Failed'"));
    browser.wait_until(&format!(
        "/^(0 of 1|1 of 2) done, 1 failed$/.test({wave}.querySelector('small').textContent)"
    ));
    browser.wait_until(&format!("{wave}.querySelector('.done.bad').style.height === '100%'"));
    browser.wait_until(&format!("['0%', '50%'].includes({wave}.querySelector('.done.good').style.height)"));
    assert!(browser.read_download("save the waves").contains("done, 1 failed"));
    // The same is true for the hook, which ran and failed.
    let row = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].find((row) => row.textContent.includes('hook Job fleet/flaky'))";
    browser.wait_until(&format!(
        "{row}.cells[3].textContent === 'Failed' && {row}.cells[4].textContent === '✕Failed'"
    ));
    // A finding contains its object and its source, as in the command line.
    let finding = browser.wait_until("[...document.querySelectorAll('#results ~ ul li')].find((one) => one.textContent.includes('Sometimes'))?.textContent");
    let finding = finding.as_str().unwrap();
    assert!(finding.contains("odd.yaml") && finding.contains("ConfigMap"), "{finding}");
    let output = service.bench.run(&["ops", "show", &id]).expect_code(0).out.clone();
    assert!(output.contains(finding), "{finding}: {output}");
    // A progressive sync that couldn't start is shown with the reason.
    browser.open("/applicationsets/argocd/nowhere");
    browser.wait_for_text("no rollout has started yet");
    browser.wait_until("!document.querySelector('main').textContent.includes('No progressive sync')");
    browser.assert_clean();
    service.stop();
}

pub fn a_rollout_is_displayed_step_by_step() {
    let service = Service::new(&ExampleOptions {
        rollout: Some("steps: [{step: 2, gates: [approval]}]"),
        ..ExampleOptions::default()
    });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.wait_until("document.querySelectorAll('.step').length === 3");
    let status =
        |step: usize| format!("document.querySelectorAll('.step')[{step}].querySelector('h3').textContent");
    browser.wait_until(&format!("{}.includes('Held')", status(1)));
    browser.wait_until(&format!("{}.includes('Passed')", status(0)));
    browser.wait_until("document.querySelectorAll('.step')[1].getAttribute('aria-current') === 'step'");
    // The view shows the blocking members with their reasons, the concurrency limits, and the gates.
    browser.wait_until("document.querySelector('.awaited').textContent.includes('approval')");
    browser.wait_until(
        "document.querySelectorAll('.step')[1].textContent.includes('0 of at most 2 in progress')",
    );
    browser.wait_until(
        "document.querySelectorAll('.step')[2].textContent.includes('0 of at most 1 in progress')",
    );
    browser.wait_until("document.querySelectorAll('.step')[0].querySelectorAll('.tile.good').length === 4");
    browser.save_screenshot("rollout");
    // The preview of a rollout shows the members of each step, their changes, and the gates.
    browser.press_button("preview-rollout");
    let step = |step: usize| format!("document.querySelectorAll('.foreseen .card')[{step}].textContent");
    browser.wait_until("document.querySelectorAll('.foreseen .card').length === 3");
    browser.wait_until(&format!("/dev-cart: already at [0-9a-f]{{7}}/.test({})", step(0)));
    browser
        .wait_until(&format!("{}.includes('Starts afterapproval') && {0}.includes('Max at once2')", step(1)));
    browser.wait_until(&format!("/prod-cart: [0-9a-f]{{7}}, first sync/.test({})", step(2)));
    // The conditions are shown with their messages.
    browser.click("details summary");
    browser.wait_for_text("ResourcesUpToDate: ");
    browser.wait_until("/RolloutProgressing: ApplicationSet is performing rollout of step 2/.test(document.getElementById('main').textContent)");
    // An Application that is waiting for its step links to the rollout.
    browser.open("/");
    browser.wait_until("document.querySelector('[data-key=\"argocd/qa-cart\"] .why')?.textContent === 'waiting for step 2 of shops: approval'");
    browser.wait_until("document.querySelector('[data-key=\"argocd/prod-cart\"] .why')?.textContent === 'waiting for step 3 of shops; step 2 is waiting for: approval'");
    browser.click("[data-key=\"argocd/qa-cart\"] .name a");
    browser.wait_for_text("This Application is waiting for step 2 of shops: approval.");
    browser.wait_until("!document.getElementById('main').textContent.includes('never been synced')");
    browser.click("p.lead a[href='/applicationsets/argocd/shops']");
    browser.wait_until("document.querySelectorAll('.step').length === 3");
    service.post("/api/v1/applicationsets/argocd/shops/approve", &json!({"reason": "looks well"}));
    browser.wait_until(&format!("{}.includes('Passed')", status(2)));
    browser.wait_until("document.querySelector('.lead').textContent.startsWith('Completed')");
    // Opens a preview of the deletion order.
    browser.press_button("preview");
    browser.wait_for_text("Step 3 (env in (prod)), 1 at once: prod-cart");
    browser.assert_clean();
    service.stop();
}
