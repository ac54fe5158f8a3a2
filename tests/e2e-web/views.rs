//! What each view shows, and that it lives.

use std::fs;

use serde_json::{Value, json};

use crate::decisions::replace;
use crate::service::{Different, OPERATOR, READER, Service, folder};

const NO_SET: Different = Different { rollout: None, has_no_set: true, is_gated: false };

pub fn the_fleet_is_shown_filtered_and_lives() {
    let service = Service::new(&Different::default());
    service.wait(&[]);
    let mut browser = service.browser(READER);
    browser.await_text("15 Applications");
    browser.until("document.querySelectorAll('.rows .row[data-key]').length === 15");
    browser.picture("fleet");
    // The ApplicationSet is there too, with its rollout.
    browser.until("document.querySelector('.card').textContent.includes('shops')");
    // What is looked for is in the address, and an address that is opened looks for it.
    browser.write("#search", "CART");
    browser.await_text("3 Applications");
    browser.until("location.search === '?name=CART'");
    browser.choose("#filter-health", "Degraded");
    browser.await_text("There are no Applications like that.");
    browser.open("/?name=prod&sort=name&reverse=true");
    browser.await_text("4 Applications");
    let names = "[...document.querySelectorAll('.rows .row .name a')].map((one) => one.textContent).join()";
    browser.until(&format!("{names} === 'prod-search,prod-checkout,prod-catalog,prod-cart'"));
    // A row changes when its Application does, and no other is drawn anew for it.
    browser.open("/");
    browser.until("document.querySelectorAll('.rows .row[data-key]').length === 15");
    browser.run("window.row = document.querySelector('[data-key=\"argocd/backend\"]'); window.other = document.querySelector('[data-key=\"argocd/frontend\"] .badge')");
    let path = service.bench.path().join("fleet/repo/backend/backend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("backend:", "backend:next-")).unwrap();
    let migrate = service.bench.path().join("fleet/repo/backend/migrate.yaml");
    let text = fs::read_to_string(&migrate).unwrap();
    fs::write(&migrate, text.replace("ready-after: 3s", "ready-after: 1000h")).unwrap();
    service.bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    service.post("/api/v1/applications/argocd/backend/refresh", &json!({}));
    browser.until("document.querySelector('[data-key=\"argocd/backend\"]').textContent.includes('Running')");
    // Why it is not done, in one line.
    browser.until("document.querySelector('[data-key=\"argocd/backend\"] .why').textContent.length > 5");
    assert_eq!(browser.run("return window.row.isConnected && window.other.isConnected"), json!(true));
    // So is what is wrong, in the words of its condition.
    let path = service.bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("path: frontend"), "{text}");
    fs::write(&path, text.replace("path: frontend", "path: nowhere")).unwrap();
    let why = "document.querySelector('[data-key=\"argocd/frontend\"] .why')";
    browser.until(&format!(
        "{why}.textContent.startsWith('ComparisonError: ') && {why}.textContent.includes('nowhere')"
    ));
    browser.is_clean();
    service.end();
}

pub fn an_application_is_shown_in_the_order_of_its_next_sync() {
    let service = Service::new(&NO_SET);
    service.wait(&[]);
    let mut browser = service.browser(READER);
    browser.open("/applications/argocd/backend");
    browser.await_text("Nothing: 2 objects as in the manifests.");
    let waves = "[...document.querySelectorAll('.phase h3')].map((one) => one.textContent.replace(/ \\d+ objects?$/, '')).join('; ')";
    browser.until(&format!("{waves} === 'PreSync, wave 0; Sync, wave 0; Sync, wave 1'"));
    // A hook is called one, and health says why.
    let of = |wave: usize| format!("document.querySelectorAll('.phase')[{wave}].textContent");
    browser.until(&format!("{}.includes('hook') && {0}.includes('Job fleet/migrate')", of(0)));
    browser.until(&format!("{}.includes('2 of 2 replicas available')", of(2)));
    // By which rule, too, or that there is none.
    browser.until(&format!("{}.includes('Health: built-in rule for apps/Deployment')", of(2)));
    browser.until(&format!("{}.includes('no rule judges it, so nothing waits for it')", of(1)));
    // The same can be kept as a picture.
    let picture = browser.saved("save the next sync");
    for part in [
        "<svg ",
        "The next sync of argocd/backend",
        "PreSync",
        "wave 1",
        "hook Job fleet/migrate",
        "Deployment fleet/backend",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    browser
        .until("document.querySelector('#history').parentElement.querySelectorAll('tbody tr').length === 1");
    browser.picture("application");
    // Somebody changes it in the cluster, where nobody puts it right.
    let path = service.bench.path().join("fleet/backend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("    automated:\n      prune: true\n      selfHeal: true\n", "")).unwrap();
    service
        .until("/api/v1/applications/argocd/backend", |one| one["spec"]["syncPolicy"]["automated"].is_null());
    service.bench.run(&["sim", "delete", ":ConfigMap:fleet/backend-settings"]).expect_code(0);
    browser.await_text("1 of 2 objects");
    browser.until(
        "document.querySelector('details.differs').textContent.includes('ConfigMap fleet/backend-settings')",
    );
    browser.until("document.querySelector('.title .states').textContent.includes('OutOfSync')");
    // From here to its operation, and back.
    browser.click("#operations ~ .scroll td a");
    browser.until("document.querySelector('h1').textContent === 'Operation of backend'");
    browser.run("history.back()");
    browser.until("document.querySelector('h1').textContent === 'backend'");
    browser.is_clean();
    service.end();
}

pub fn a_line_that_differs_in_a_long_text_is_found() {
    let bench = folder(&NO_SET);
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
    service.wait(&["frontend"]);
    // Nobody syncs it any more, so that it differs.
    let path = service.bench.path().join("fleet/frontend.yaml");
    let application = fs::read_to_string(&path).unwrap();
    fs::write(&path, application.replace("    automated:\n      prune: true\n      selfHeal: true\n", ""))
        .unwrap();
    service.until("/api/v1/applications/argocd/frontend", |one| {
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
    browser.until(&format!("{} === 'now: −colour = blue'", lines("before")));
    // What would turn the text around is seen.
    browser.until(&format!("{} === 'then: +colour = ⟨U+202E⟩red'", lines("after")));
    browser.until("document.querySelectorAll('.lines .same').length === 6");
    browser.until(&format!(
        "/^… 146 lines that are the same\\|… 14[78] lines that are the same$/.test({})",
        lines("left")
    ));
    browser.is_clean();
    service.end();
}

pub fn an_operation_is_watched_and_read_afterwards() {
    let service = Service::new(&Different { is_gated: true, ..NO_SET });
    let id = service.newest("backend");
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    browser.until("document.querySelectorAll('.wave').length === 3");
    // It fills while somebody looks, and says what it waits for.
    browser.until("document.querySelector('.awaited')?.textContent.includes('gate approval')");
    browser.until("[...document.querySelectorAll('.wave .badge')].map((one) => one.textContent).join() === '✓Passed,✓Passed,‖Held'");
    browser.until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('Sync, wave 1: Held') && one.textContent.includes('gate approval'))");
    // The hook has been waited for, which the wave says too.
    browser.until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('hook Job fleet/migrate: Progressing'))");
    browser.until("[...document.querySelectorAll('.timeline rect.wait title')].some((one) => one.textContent.startsWith('PreSync, wave 0: AwaitingHealth') && one.textContent.endsWith(': waits for the end of hook Job fleet/migrate'))");
    service.post(&format!("/api/v1/operations/{id}/approve"), &json!({"reason": "seen"}));
    browser.until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    let shown = |browser: &crate::browser::Browser| {
        browser.until("[...document.querySelectorAll('.wave .badge')].every((one) => one.textContent.includes('Passed'))");
        browser.until("document.querySelector('.facts tbody tr').textContent.includes('Succeeded: successfully synced')");
        browser.run("document.querySelector('.picture ~ details').open = true");
        browser.until("document.querySelector('.picture ~ details table')");
        // Without the clock times, which are those of the reader.
        browser.run(
            "const rows = [...document.querySelectorAll('.picture ~ details table tbody tr')];
             const shapes = [...document.querySelectorAll('.timeline rect')].map((one) => one.querySelector('title').textContent);
             return [rows.map((row) => [...row.children].map((cell) => cell.textContent)), shapes, document.querySelectorAll('.wave small')[0].textContent]",
        )
    };
    let live = shown(&browser);
    // In words as in the picture: how each has ended, and who has said what.
    let rows: Vec<Vec<&str>> = live[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect())
        .collect();
    let row = |name: &str| rows.iter().find(|row| row[0] == name).unwrap();
    assert_eq!((row("Operation")[5], row("Sync, wave 1")[5]), ("Succeeded", "Passed"), "{rows:#?}");
    assert!(row("Operation")[7].contains("ann approves wave 3: seen"), "{rows:#?}");
    assert!(row("Sync, wave 1")[7].contains("passed"), "{rows:#?}");
    assert!(
        row("Sync, wave 1")[6].contains(" (Held): ") && row("Sync, wave 1")[6].contains("gate approval"),
        "{rows:#?}"
    );
    let hook = row("hook Job fleet/migrate");
    assert!(hook[6].contains(" (Progressing): ") && hook[3] != "–" && hook[5] == "Succeeded", "{rows:#?}");
    browser.until(
        "getComputedStyle(document.querySelector('.picture ~ details table tbody th.of-wave')).display === 'table-cell'",
    );
    browser.until("[...document.querySelectorAll('#results ~ .scroll tbody tr')].every((row) => row.querySelectorAll('td')[4].textContent === '✓Succeeded')");
    let bars: Vec<String> =
        live[1].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect();
    assert!(bars.iter().any(|one| one.starts_with("hook Job fleet/migrate: ")), "{bars:#?}");
    browser.scheme("light");
    browser.run(
        "document.querySelector('.picture ~ details').open = false; document.getElementById('waves').scrollIntoView()",
    );
    browser.picture("operation");
    // A reader who comes later sees the same.
    browser.open(&format!("/operations/{id}"));
    assert_eq!(shown(&browser), live);
    // Both pictures can be kept.
    let waves = browser.saved("save the waves");
    for part in
        ["Operation of backend", "✓ Passed", "1 of 1 done", "✓ Deployment fleet/backend", "class=\"good\""]
    {
        assert!(waves.contains(part), "{part}: {waves}");
    }
    let timeline = browser.saved("save the timeline");
    assert!(
        timeline.contains("ann approves wave 3: seen") && timeline.contains("Sync, wave 1"),
        "{timeline}"
    );
    // It says by itself what it is of, and when that was, in the zone of the reader.
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
    browser.is_clean();
    service.end();
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
    let bench = folder(&NO_SET);
    bench.write("fleet/repo/frontend/flaky.yaml", FLAKY);
    let path = bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let retry = "  syncPolicy:\n    retry:\n      limit: 1\n      backoff: {duration: 1s}\n";
    fs::write(&path, text.replace("  syncPolicy:\n", retry)).unwrap();
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest("frontend");
    service.until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    let told = service.get(&format!("/api/v1/operations/{id}"));
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    let titles = "[...document.querySelectorAll('.timeline title')].map((one) => one.textContent)";
    browser.until(&format!("{titles}.some((one) => /attempt 1 failed/.test(one))"));
    browser.until(&format!("{titles}.some((one) => /AwaitingRetry/.test(one))"));
    browser.until(&format!("{titles}.some((one) => /attempt 2/.test(one))"));
    let wait = browser.run("return document.querySelectorAll('.timeline rect.wait').length");
    assert!(wait.as_u64().unwrap() > 0, "{told:#}");
    // A wave took as long as all its attempts, in its column as in the table.
    browser.run("document.querySelector('.picture ~ details').open = true");
    let columns = "[...document.querySelectorAll('.wave > small:nth-of-type(2)')].map((one) => one.textContent || '–').join()";
    let rows = "[...document.querySelectorAll('.picture ~ details th.of-wave')].map((one) => one.parentElement.cells[2].textContent).join()";
    browser.until(&format!("{rows} !== '' && {columns} === {rows}"));
    // Each attempt of the hook is there, and so is what it wrote.
    let hook = "[...document.querySelectorAll('.timeline title')].filter((one) => one.textContent.startsWith('hook Job fleet/flaky: '))";
    browser.until(&format!("{hook}.some((one) => one.textContent.includes('(attempt 2)')) && {hook}.some((one) => !one.textContent.includes('attempt'))"));
    assert_eq!(told["phase"], "Succeeded", "{told:#}");
    let log = "document.querySelector('details.log')";
    browser.until(&format!(
        "{log}?.querySelector('summary').textContent.startsWith('Log of hook Job fleet/flaky, attempt 1: ')"
    ));
    browser.until(&format!("{log}.querySelector('pre').textContent.includes('the schema is locked')"));
    let exported = service.get(&format!("/api/v1/operations/{id}/export"));
    assert_eq!(exported["logs"][0]["attempt"], 1, "{:#}", exported["logs"]);
    assert!(exported["logs"][0]["text"].as_str().unwrap().contains("the schema is locked"));
    browser.is_clean();
    service.end();
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

pub fn what_has_failed_or_was_not_begun_is_said_as_that() {
    let bench = folder(&NO_SET);
    bench.write("fleet/nowhere.yaml", NOWHERE);
    // It fails once, and not five times more over two minutes and a half.
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
    let id = service.newest("frontend");
    service.until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    // What has failed is not done; whether the namespace is made with it depends on which application comes first.
    let wave = "document.querySelector('.wave')";
    browser.until(&format!("{wave}.querySelector('.badge').textContent === '✕Failed'"));
    browser.until(&format!(
        "/^(0 of 1|1 of 2) done, 1 failed$/.test({wave}.querySelector('small').textContent)"
    ));
    browser.until(&format!("{wave}.querySelector('.done.bad').style.height === '100%'"));
    browser.until(&format!("['0%', '50%'].includes({wave}.querySelector('.done.good').style.height)"));
    assert!(browser.saved("save the waves").contains("done, 1 failed"));
    // So is the hook: it ran, and failed.
    let row = "[...document.querySelectorAll('#results ~ .scroll tbody tr')].find((row) => row.textContent.includes('hook Job fleet/flaky'))";
    browser.until(&format!(
        "{row}.cells[3].textContent === 'Failed' && {row}.cells[4].textContent === '✕Failed'"
    ));
    // What is surprising says of which object, and where it was read, as the command line does.
    let finding = browser.until("[...document.querySelectorAll('#results ~ ul li')].find((one) => one.textContent.includes('Sometimes'))?.textContent");
    let finding = finding.as_str().unwrap();
    assert!(finding.contains("odd.yaml") && finding.contains("ConfigMap"), "{finding}");
    let told = service.bench.run(&["ops", "show", &id]).expect_code(0).out.clone();
    assert!(told.contains(finding), "{finding}: {told}");
    // A progressive sync that could not begin is one all the same.
    browser.open("/applicationsets/argocd/nowhere");
    browser.await_text("no rollout was begun yet");
    browser.until("!document.querySelector('main').textContent.includes('there is no progressive sync')");
    browser.is_clean();
    service.end();
}

pub fn a_rollout_is_shown_step_by_step() {
    let service = Service::new(&Different {
        rollout: Some("steps: [{step: 2, gates: [approval]}]"),
        ..Different::default()
    });
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/shops");
    browser.until("document.querySelectorAll('.step').length === 3");
    let status =
        |step: usize| format!("document.querySelectorAll('.step')[{step}].querySelector('h3').textContent");
    browser.until(&format!("{}.includes('Held')", status(1)));
    browser.until(&format!("{}.includes('Passed')", status(0)));
    browser.until("document.querySelectorAll('.step')[1].getAttribute('aria-current') === 'step'");
    // Who blocks, and why; how many may be on their way; which gates there are.
    browser.until("document.querySelector('.awaited').textContent.includes('approval')");
    browser.until("document.querySelectorAll('.step')[1].textContent.includes('0 of 2 on the way at once')");
    browser.until("document.querySelectorAll('.step')[2].textContent.includes('0 of 1 on the way at once')");
    browser.until("document.querySelectorAll('.step')[0].querySelectorAll('.tile.good').length === 4");
    browser.picture("rollout");
    // What it would do, were it begun now: who is in which step, what each gets, and what opens it.
    browser.press("preview-rollout");
    let step = |step: usize| format!("document.querySelectorAll('.foreseen .card')[{step}].textContent");
    browser.until("document.querySelectorAll('.foreseen .card').length === 3");
    browser.until(&format!("/dev-cart: has [0-9a-f]{{7}} already/.test({})", step(0)));
    browser.until(&format!("{}.includes('Begins byapproval') && {0}.includes('At once2')", step(1)));
    browser.until(&format!("/prod-cart: [0-9a-f]{{7}}, its first/.test({})", step(2)));
    // Its conditions have their messages.
    browser.click("details summary");
    browser.await_text("ResourcesUpToDate: ");
    browser.until("/RolloutProgressing: ApplicationSet is performing rollout of step 2/.test(document.getElementById('main').textContent)");
    // An Application that waits for its turn says so, and leads there.
    browser.open("/");
    browser.until("document.querySelector('[data-key=\"argocd/qa-cart\"] .why')?.textContent === 'waits for step 2 of shops: approval'");
    browser.until("document.querySelector('[data-key=\"argocd/prod-cart\"] .why')?.textContent === 'waits for step 3 of shops; step 2 waits for: approval'");
    browser.click("[data-key=\"argocd/qa-cart\"] .name a");
    browser.await_text("It waits for step 2 of shops: approval.");
    browser.until("!document.getElementById('main').textContent.includes('never synced')");
    browser.click("p.lead a[href='/applicationsets/argocd/shops']");
    browser.until("document.querySelectorAll('.step').length === 3");
    service.post("/api/v1/applicationsets/argocd/shops/approve", &json!({"reason": "looks well"}));
    browser.until(&format!("{}.includes('Passed')", status(2)));
    browser.until("document.querySelector('.lead').textContent.startsWith('Completed')");
    // Before it is deleted, in which order that would be.
    browser.press("preview");
    browser.await_text("Step 3 (env in (prod)), 1 at once: prod-cart");
    browser.is_clean();
    service.end();
}
