//! Untrusted texts are shown as text, regardless of their content.

use std::fs;

use serde_json::json;

use crate::browser::{Browser, key};
use crate::service::{ExampleOptions, OPERATOR, READER, Service, example_folder};

/// Detects texts that become markup, and addresses that become code.
const MARKUP: &str = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
const BREAKS: &str = "</script></title></textarea>\\\"'><svg onload=window.hit=1>";

/// Checks that no part of a view or a dialog has become markup or code, and that links lead to the web.
#[track_caller]
fn assert_safe(browser: &Browser) {
    let response = browser.run(
        "const bad = [...document.querySelectorAll('main img, main script, main iframe, dialog img, dialog script, dialog iframe, [onerror], [onload]')].length;
         const links = [...document.querySelectorAll('a[href]')].map((one) => one.protocol).filter((one) => !/^https?:$/.test(one));
         return [window.hit ?? null, bad, links]",
    );
    assert_eq!(response, json!([null, 0, []]));
}

pub fn untrusted_texts_are_displayed_as_text() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    let application = format!(
        "apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: hostile
  labels:
    note: {markup}
  annotations:
    link.argocd.argoproj.io/one: \"javascript:window.hit=1\"
    link.argocd.argoproj.io/two: \"data:text/html,{MARKUP}\"
    link.argocd.argoproj.io/three: \"https://example.com/?q=<b>\"
    link.argocd.argoproj.io/four: \" jAvAsCrIpT:window.hit=1\"
    notes: {breaks}
spec:
  project: {markup}
  source:
    repoURL: {markup}
    targetRevision: {breaks}
    path: {markup}
  destination:
    name: {breaks}
    namespace: fleet
",
        markup = json!(MARKUP),
        breaks = json!(BREAKS),
    );
    bench.write("fleet/hostile.yaml", application);
    let configuration = format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: words
  annotations:
    notes: {breaks}
data:
  text: {markup}
---
apiVersion: v1
kind: Secret
metadata:
  name: secret
stringData:
  password: the-canary-of-this-test
",
        markup = json!(MARKUP),
        breaks = json!(BREAKS),
    );
    bench.write("fleet/repo/frontend/words.yaml", configuration);
    // The Application isn't synced, so that it differs.
    let path = bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("    automated:\n      prune: true\n      selfHeal: true\n", "")).unwrap();
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    service.wait_until("/api/v1/applications?name=hostile", |found| found["total"] == 1);
    let mut browser = service.browser(OPERATOR);
    browser.wait_for_text("4 Applications");
    assert_safe(&browser);
    browser.open("/applications/argocd/hostile");
    browser.wait_for_text("<img src=x onerror=window.hit=1>");
    // Links lead to the web, or are plain text.
    let links = "[...document.querySelectorAll('dl.terms a[rel]')].map((one) => one.href).join()";
    browser.wait_until(&format!("{links} === 'https://example.com/?q=%3Cb%3E'"));
    browser.wait_for_text("Conditions");
    assert_safe(&browser);
    // The difference contains the text, unless it is a Secret value.
    browser.open("/applications/argocd/frontend");
    browser.wait_until("document.querySelectorAll('details.differs').length > 1");
    browser.run("document.querySelectorAll('details.differs').forEach((one) => { one.open = true; })");
    browser.wait_for_text(MARKUP);
    assert!(
        !browser
            .run("return document.documentElement.outerHTML")
            .as_str()
            .unwrap()
            .contains("the-canary-of-this-test")
    );
    assert_safe(&browser);
    // User input is shown as text too.
    service
        .post("/api/v1/applications/argocd/frontend/sync", &json!({"reason": format!("{BREAKS} {MARKUP}")}));
    let id = service.newest_operation("frontend");
    service.wait_until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    browser.open(&format!("/operations/{id}"));
    browser.wait_until("document.querySelector('.facts')");
    browser.wait_for_text(MARKUP);
    assert_safe(&browser);
    // The text is also plain text in a saved picture.
    let picture = browser.read_download("save the timeline");
    assert!(
        picture.contains("&lt;img src=x") && !picture.contains("<img") && !picture.contains("<script"),
        "{picture}"
    );
    browser.open("/applications/argocd/frontend");
    browser.press_button("Sync…");
    browser.click("#field-resources summary");
    browser.wait_for_text("Requested by ann: ");
    assert_safe(&browser);
    browser.press_key(key::ESCAPE);
    // Forged addresses have no effect.
    for path in [
        "/applications/argocd/%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E",
        "/operations/%3Cscript%3E",
        "/?name=%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E#%22%3E%3Cimg",
    ] {
        browser.open(path);
        browser.wait_until(
            "document.querySelector('h1') && document.getElementById('main').textContent.length > 20",
        );
        assert_safe(&browser);
    }
    // The browser doesn't run any script except the page's files.
    let refused = browser.run(
        "const script = document.createElement('script');
         try { script.text = 'window.hit = 2'; } catch (error) { return error.name; }
         document.body.append(script); return window.hit ?? null",
    );
    assert_eq!(refused, json!("TypeError"));
    let elsewhere: Vec<String> = browser
        .requested()
        .iter()
        .filter(|url| !url.starts_with(&service.url) && !url.starts_with("data:image/"))
        .cloned()
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    service.stop();
}

/// Returns an ApplicationSet with one Application in each step, one outside of all steps, and one with an
/// invalid name.
fn hostile_appset() -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata:
  name: hostile
  labels:
    note: {markup}
  annotations:
    notes: {breaks}
    tidegate.dev/rollout: |
      steps: [{{step: 1, gates: [approval]}}, {{step: 2, gates: [\"cel:office\", {gate}]}}]
spec:
  goTemplate: true
  generators:
    - list:
        elements:
          - {{name: one, env: dev}}
          - {{name: two, env: qa}}
          - {{name: three, env: other}}
          - {{name: {markup}, env: qa}}
  strategy:
    type: RollingSync
    rollingSync:
      steps:
        - matchExpressions: [{{key: env, operator: In, values: [dev, {markup}]}}]
        - matchExpressions: [{{key: env, operator: In, values: [qa, {address}]}}]
    deletionOrder: Reverse
  template:
    metadata:
      name: '{{{{ .name }}}}'
      labels:
        env: '{{{{ .env }}}}'
    spec:
      project: default
      source: {{repoURL: ./repo, targetRevision: main, path: shops/cart}}
      destination: {{name: in-cluster, namespace: hostile}}
      syncPolicy: {{syncOptions: [CreateNamespace=true]}}
",
        markup = json!(MARKUP),
        breaks = json!(BREAKS),
        gate = json!(UNDEFINED_GATE),
        address = json!(ADDRESS),
    )
}

/// Returns a gate that is closed for a misleading reason.
fn hostile_gate() -> String {
    let message = json!(format!("'{MARKUP}'"));
    format!(
        "cel:\n  office:\n    apiVersion: v1\n    kind: Namespace\n    name: hostile\n    expression: \"false\"\n    message: {message}\n"
    )
}

/// Name of an undefined gate.
const UNDEFINED_GATE: &str = "<img src=x onerror=window.hit=1>";
const ADDRESS: &str = "javascript:window.hit=1";

pub fn texts_of_an_appset_and_its_rollout_are_displayed_as_text() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    bench.write("fleet/hostile.yaml", hostile_appset());
    bench.write("gates.yaml", hostile_gate());
    let service =
        Service::with_options(bench, &["--listen", "0", "--tokens", "tokens", "--gates", "gates.yaml"]);
    let set = "/api/v1/applicationsets/argocd/hostile";
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/hostile");
    // Shows the selectors of the steps, rejected Applications, and Applications outside of all steps.
    let step = |step: usize| format!("document.querySelectorAll('.step')[{step}].textContent");
    browser.wait_until(&format!("{}.includes('Held') && {0}.includes({})", step(0), json!(MARKUP)));
    browser.wait_until(&format!(
        "{}.includes({})",
        step(1),
        json!(format!("Gatescel:office, {UNDEFINED_GATE}"))
    ));
    browser.wait_until("document.querySelector('.outside .tile').dataset.key === 'three'");
    browser.wait_for_text("Not created or not updated");
    browser.wait_for_text(&format!("invalid Application name {}", json!(MARKUP)));
    assert_safe(&browser);
    // This text is entered by a user.
    let reason = format!("{BREAKS} {MARKUP}");
    browser.press_button("Pause…");
    browser.type_text("#field-reason", &reason);
    browser.press_button("confirm");
    browser.wait_for_text(&reason);
    assert_safe(&browser);
    service.post(&format!("{set}/resume"), &json!({"reason": reason}));
    browser.press_button("Approve…");
    browser.wait_until(&format!(
        "document.querySelector('dialog').textContent.includes({})",
        json!(format!("Step 1 (env in (dev, {MARKUP}))"))
    ));
    assert_safe(&browser);
    browser.type_text("#field-reason", &reason);
    browser.press_button("confirm");
    // Shows the message and the name of a gate.
    let awaited = "document.querySelector('ul.awaited').textContent";
    browser.wait_until(&format!(
        "{awaited}.includes({}) && {awaited}.includes({})",
        json!(format!("Namespace hostile: {MARKUP}")),
        json!(format!("gate {UNDEFINED_GATE}"))
    ));
    assert_safe(&browser);
    // The Application isn't waiting for an approval.
    browser.wait_until("!document.querySelector('[data-do=\"Approve…\"]')");
    // Shows previews of the rollout and of the deletion, in the view and in the dialog.
    let selects = json!(format!("env in (qa, {ADDRESS})"));
    browser.press_button("preview-rollout");
    browser.wait_until(&format!(
        "document.querySelectorAll('.foreseen .card')[1].textContent.includes({selects})"
    ));
    browser.press_button("preview");
    browser.wait_until(&format!(
        "document.querySelector('[aria-labelledby=preview] ol').textContent.includes({})",
        json!(format!("Step 1 (env in (dev, {MARKUP}))"))
    ));
    assert_safe(&browser);
    browser.press_button("Delete…");
    browser.wait_until(&format!("document.querySelector('dialog ol').textContent.includes({selects})"));
    assert_safe(&browser);
    browser.press_key(key::ESCAPE);
    // The list shows the error of the ApplicationSet, and its waiting Applications.
    browser.open("/");
    browser.wait_until(&format!("document.querySelector('.card').textContent.includes({})", json!(MARKUP)));
    browser.wait_until("document.querySelector('[data-key=\"argocd/two\"] .why').textContent === 'waiting for step 2 of hostile: gate'");
    assert_safe(&browser);
    browser.open("/applications/argocd/two");
    browser.wait_for_text("This Application is waiting for step 2 of hostile: ");
    browser.wait_for_text("env=qa");
    assert_safe(&browser);
    browser.open("/applicationsets");
    browser.wait_until("document.querySelectorAll('.rows .row[data-key]').length === 1");
    assert_safe(&browser);
    // The rollout continues without the waiting Application, and the record contains all messages.
    browser.open("/applicationsets/argocd/hostile");
    browser.press_button("Skip two");
    browser.type_text("#field-reason", &reason);
    browser.press_button("confirm");
    browser.wait_until("document.querySelector('.lead').textContent.startsWith('Completed')");
    browser.wait_for_text(&format!("skipped by ann ({reason})"));
    browser.wait_until("document.querySelector('#runs ~ div tbody tr').textContent.includes('Completed')");
    assert_safe(&browser);
    browser.click("#runs ~ div a");
    browser.wait_until("document.querySelector('h1').textContent === 'Rollout of hostile'");
    let decided = "[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => row.children[3].textContent)";
    browser.wait_until(&format!(
        "{decided}.length === 4 && {decided}.every((one) => one === {})",
        json!(reason)
    ));
    browser.wait_until(&format!(
        "document.querySelector('#waits + .scroll').textContent.includes({})",
        json!(MARKUP)
    ));
    browser.wait_until(&format!("document.querySelector('.facts').textContent.includes({})", json!(reason)));
    assert_safe(&browser);
    browser.assert_clean();
    service.stop();
}

/// A hook that writes one misleading line per second.
const TALKING_HOOK: &str = "apiVersion: batch/v1
kind: Job
metadata:
  name: talks
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/ready-after: LASTS
    sim.tidegate.dev/logs: LOGS
spec:
  template:
    spec:
      containers: [{name: main, image: example.com/talks:1}]
      restartPolicy: Never
";

/// The output must appear in order while the hook is running, without a reload, and it must stay text.
pub fn hook_output_is_displayed_as_text_while_the_hook_runs() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    let mut lines = vec![MARKUP.to_owned(), BREAKS.to_owned(), "it is \u{202e}enod".to_owned()];
    lines.extend((0..37).map(|number| format!("step {number}")));
    let talks = TALKING_HOOK.replace("LASTS", "41s").replace("LOGS", &json!(lines.join("\n")).to_string());
    bench.write("fleet/repo/frontend/talks.yaml", talks);
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest_operation("frontend");
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    let said = "[...document.querySelectorAll('[role=log] .said')].map((one) => one.textContent.replace(/^\\S+(\\s[AP]M)? /, ''))";
    browser.wait_until(&format!("{said}.length > 4"));
    // The operation is still running.
    let running = browser.run("return document.querySelector('h1 ~ .badge').textContent");
    assert!(running.as_str().unwrap().contains("Running"), "{running}");
    let shown = browser.run(&format!("return {said}"));
    let shown: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    // Bidirectional control characters are shown as their code.
    assert_eq!(shown[..4], [MARKUP, BREAKS, "it is ⟨U+202E⟩enod", "step 0"]);
    assert_eq!(
        browser.run(
            "return [window.hit ?? null, document.querySelectorAll('main img, main script, main [onload], main [onerror]').length,
             document.querySelector('[role=log]').getAttribute('aria-label')]"
        ),
        json!([null, 0, "Output of hook Job fleet/talks"])
    );
    // Screen readers skip bursts of lines, as they occur on a busy machine. The next single line is
    // announced.
    browser.wait_until("document.querySelector('[role=log]').getAttribute('aria-live') === 'polite'");
    browser.save_screenshot("output");
    // In the end, each line is shown once, and no line was recorded.
    browser.wait_until(&format!("{said}.length === 40"));
    browser.wait_until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    let shown = browser.run(&format!("return {said}"));
    let lines: Vec<String> = lines.iter().map(|line| line.replace('\u{202e}', "⟨U+202E⟩")).collect();
    assert_eq!(shown, json!(lines));
    let logs = service.get(&format!("/api/v1/operations/{id}/logs"));
    assert_eq!(logs["items"], json!([]));
    browser.assert_clean();
    service.stop();
}
