//! Texts that others have written are shown as texts, whatever is in them.

use std::fs;

use serde_json::json;

use crate::browser::{Browser, key};
use crate::service::{Different, OPERATOR, READER, Service, folder};

/// What would run, if any text became markup or an address became code.
const MARKUP: &str = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
const BREAKS: &str = "</script></title></textarea>\\\"'><svg onload=window.hit=1>";

/// Nothing of a view, or of a question, has become markup or code, and links lead to the web.
#[track_caller]
fn is_safe(browser: &Browser) {
    let told = browser.run(
        "const bad = [...document.querySelectorAll('main img, main script, main iframe, dialog img, dialog script, dialog iframe, [onerror], [onload]')].length;
         const links = [...document.querySelectorAll('a[href]')].map((one) => one.protocol).filter((one) => !/^https?:$/.test(one));
         return [window.hit ?? null, bad, links]",
    );
    assert_eq!(told, json!([null, 0, []]));
}

pub fn texts_of_others_are_texts() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
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
    // Nobody syncs it, so that it differs.
    let path = bench.path().join("fleet/frontend.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("    automated:\n      prune: true\n      selfHeal: true\n", "")).unwrap();
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    service.until("/api/v1/applications?name=hostile", |found| found["matching"] == 1);
    let mut browser = service.browser(OPERATOR);
    browser.await_text("4 Applications");
    is_safe(&browser);
    browser.open("/applications/argocd/hostile");
    browser.await_text("<img src=x onerror=window.hit=1>");
    // Links lead to the web or are none.
    let links = "[...document.querySelectorAll('dl.terms a[rel]')].map((one) => one.href).join()";
    browser.until(&format!("{links} === 'https://example.com/?q=%3Cb%3E'"));
    browser.await_text("Conditions");
    is_safe(&browser);
    // A difference shows the text, and of a Secret nothing.
    browser.open("/applications/argocd/frontend");
    browser.until("document.querySelectorAll('details.differs').length > 1");
    browser.run("document.querySelectorAll('details.differs').forEach((one) => { one.open = true; })");
    browser.await_text(MARKUP);
    assert!(
        !browser
            .run("return document.documentElement.outerHTML")
            .as_str()
            .unwrap()
            .contains("the-canary-of-this-test")
    );
    is_safe(&browser);
    // What a person says is a text as well.
    service
        .post("/api/v1/applications/argocd/frontend/sync", &json!({"reason": format!("{BREAKS} {MARKUP}")}));
    let id = service.newest("frontend");
    service.until(&format!("/api/v1/operations/{id}"), |one| !one["finishedAt"].is_null());
    browser.open(&format!("/operations/{id}"));
    browser.until("document.querySelector('.facts')");
    browser.await_text(MARKUP);
    is_safe(&browser);
    // In a picture that is kept, too.
    let picture = browser.saved("save the timeline");
    assert!(
        picture.contains("&lt;img src=x") && !picture.contains("<img") && !picture.contains("<script"),
        "{picture}"
    );
    browser.open("/applications/argocd/frontend");
    browser.press("Sync…");
    browser.click("#field-resources summary");
    browser.await_text("Asked for by ann: ");
    is_safe(&browser);
    browser.key(key::ESCAPE);
    // Addresses that nobody made lead nowhere.
    for path in [
        "/applications/argocd/%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E",
        "/operations/%3Cscript%3E",
        "/?name=%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E#%22%3E%3Cimg",
    ] {
        browser.open(path);
        browser
            .until("document.querySelector('h1') && document.getElementById('main').textContent.length > 20");
        is_safe(&browser);
    }
    // Nor may anything be run that is not a file of the page.
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
    service.end();
}

/// An ApplicationSet of whose Applications one is in each step, one in none, and one has no name that an Application may have.
fn hostile_set() -> String {
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
          - {{name: one, env: {markup}}}
          - {{name: two, env: {address}}}
          - {{name: three, env: {breaks}}}
          - {{name: {markup}, env: {address}}}
  strategy:
    type: RollingSync
    rollingSync:
      steps:
        - matchExpressions: [{{key: env, operator: In, values: [{markup}]}}]
        - matchExpressions: [{{key: env, operator: In, values: [{address}]}}]
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
        gate = json!(GATE),
        address = json!(ADDRESS),
    )
}

/// A gate that is closed for a reason that looks otherwise than it is.
fn hostile_gate() -> String {
    let message = json!(format!("'{MARKUP}'"));
    format!(
        "cel:\n  office:\n    apiVersion: v1\n    kind: Namespace\n    name: hostile\n    expression: \"false\"\n    message: {message}\n"
    )
}

/// The name of a gate that nobody has defined.
const GATE: &str = "<img src=x onerror=window.hit=1>";
const ADDRESS: &str = "javascript:window.hit=1";

pub fn texts_of_a_set_and_its_rollout_are_texts() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    bench.write("fleet/hostile.yaml", hostile_set());
    bench.write("gates.yaml", hostile_gate());
    let service = Service::with(bench, &["--listen", "0", "--tokens", "tokens", "--gates", "gates.yaml"]);
    let set = "/api/v1/applicationsets/argocd/hostile";
    let mut browser = service.browser(OPERATOR);
    browser.open("/applicationsets/argocd/hostile");
    // What its steps select, who is refused, and who is in no step.
    let step = |step: usize| format!("document.querySelectorAll('.step')[{step}].textContent");
    browser.until(&format!("{}.includes('Held') && {0}.includes({})", step(0), json!(MARKUP)));
    browser.until(&format!("{}.includes({})", step(1), json!(format!("Gatescel:office, {GATE}"))));
    browser.until("document.querySelector('.outside .tile').dataset.key === 'three'");
    browser.await_text("Not made or not changed");
    browser.await_text(&format!("{} is no name of an Application", json!(MARKUP)));
    is_safe(&browser);
    // What people say.
    let reason = format!("{BREAKS} {MARKUP}");
    browser.press("Pause…");
    browser.write("#field-reason", &reason);
    browser.press("confirm");
    browser.await_text(&reason);
    is_safe(&browser);
    service.post(&format!("{set}/resume"), &json!({"reason": reason}));
    browser.press("Approve…");
    browser.until(&format!(
        "document.querySelector('dialog').textContent.includes({})",
        json!(format!("Step 1 (env in ({MARKUP}))"))
    ));
    is_safe(&browser);
    browser.write("#field-reason", &reason);
    browser.press("confirm");
    // What a gate says, and what it is called.
    let awaited = "document.querySelector('ul.awaited').textContent";
    browser.until(&format!(
        "{awaited}.includes({}) && {awaited}.includes({})",
        json!(format!("Namespace hostile: {MARKUP}")),
        json!(format!("gate {GATE}"))
    ));
    is_safe(&browser);
    // An approval is not what it waits for.
    browser.until("!document.querySelector('[data-do=\"Approve…\"]')");
    // What would be: a rollout, and the deletion, in the view and in the question.
    let selects = json!(format!("env in ({ADDRESS})"));
    browser.press("preview-rollout");
    browser
        .until(&format!("document.querySelectorAll('.foreseen .card')[1].textContent.includes({selects})"));
    browser.press("preview");
    browser.until(&format!(
        "document.querySelector('[aria-labelledby=preview] ol').textContent.includes({})",
        json!(format!("Step 1 (env in ({MARKUP}))"))
    ));
    is_safe(&browser);
    browser.press("Delete…");
    browser.until(&format!("document.querySelector('dialog ol').textContent.includes({selects})"));
    is_safe(&browser);
    browser.key(key::ESCAPE);
    // The list of all says what is wrong with the set, and who waits for it.
    browser.open("/");
    browser.until(&format!("document.querySelector('.card').textContent.includes({})", json!(MARKUP)));
    browser.until("document.querySelector('[data-key=\"argocd/two\"] .why').textContent === 'waits for step 2 of hostile: gate'");
    is_safe(&browser);
    browser.open("/applications/argocd/two");
    browser.await_text("It waits for step 2 of hostile: ");
    browser.await_text(&format!("env={ADDRESS}"));
    is_safe(&browser);
    browser.open("/applicationsets");
    browser.until("document.querySelectorAll('.rows .row[data-key]').length === 1");
    is_safe(&browser);
    // It goes on without the one that waits, and is recorded with all that was said.
    browser.open("/applicationsets/argocd/hostile");
    browser.press("Skip two");
    browser.write("#field-reason", &reason);
    browser.press("confirm");
    browser.until("document.querySelector('.lead').textContent.startsWith('Completed')");
    browser.await_text(&format!("skipped by ann ({reason})"));
    browser.until("document.querySelector('#runs ~ div tbody tr').textContent.includes('Completed')");
    is_safe(&browser);
    browser.click("#runs ~ div a");
    browser.until("document.querySelector('h1').textContent === 'Rollout of hostile'");
    let decided = "[...document.querySelectorAll('#decisions + .scroll tbody tr')].map((row) => row.children[3].textContent)";
    browser.until(&format!("{decided}.length === 4 && {decided}.every((one) => one === {})", json!(reason)));
    browser.until(&format!(
        "document.querySelector('#waits + .scroll').textContent.includes({})",
        json!(MARKUP)
    ));
    browser.until(&format!("document.querySelector('.facts').textContent.includes({})", json!(reason)));
    is_safe(&browser);
    browser.is_clean();
    service.end();
}

/// A hook that writes a line each second, of which each looks otherwise than it is.
const TALKS: &str = "apiVersion: batch/v1
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

/// It is shown while the hook runs, in order, without a reload; and it stays text.
pub fn what_a_hook_writes_is_text_and_shown_while_it_runs() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    let mut lines = vec![MARKUP.to_owned(), BREAKS.to_owned(), "it is \u{202e}enod".to_owned()];
    lines.extend((0..37).map(|number| format!("step {number}")));
    let talks = TALKS.replace("LASTS", "41s").replace("LOGS", &json!(lines.join("\n")).to_string());
    bench.write("fleet/repo/frontend/talks.yaml", talks);
    bench.run(&["example", "commit", "fleet/repo"]).expect_code(0);
    let service = Service::in_folder(bench);
    let id = service.newest("frontend");
    let mut browser = service.browser(READER);
    browser.open(&format!("/operations/{id}"));
    let said = "[...document.querySelectorAll('[role=log] .said')].map((one) => one.textContent.replace(/^\\S+(\\s[AP]M)? /, ''))";
    browser.until(&format!("{said}.length > 4"));
    // It runs still.
    let running = browser.run("return document.querySelector('h1 ~ .badge').textContent");
    assert!(running.as_str().unwrap().contains("Running"), "{running}");
    let shown = browser.run(&format!("return {said}"));
    let shown: Vec<&str> = shown.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    // What turns the direction around is shown by its number.
    assert_eq!(shown[..4], [MARKUP, BREAKS, "it is ⟨U+202E⟩enod", "step 0"]);
    assert_eq!(
        browser.run(
            "return [window.hit ?? null, document.querySelectorAll('main img, main script, main [onload], main [onerror]').length,
             document.querySelector('[role=log]').getAttribute('aria-label')]"
        ),
        json!([null, 0, "Output of hook Job fleet/talks"])
    );
    // Many lines at once, as on a machine that is busy, are not read aloud; the next one is.
    browser.until("document.querySelector('[role=log]').getAttribute('aria-live') === 'polite'");
    browser.picture("output");
    // All of it is there at the end, each line once, and nothing of it was recorded.
    browser.until(&format!("{said}.length === 40"));
    browser.until("document.querySelector('h1 ~ .badge').textContent.includes('Succeeded')");
    let shown = browser.run(&format!("return {said}"));
    let lines: Vec<String> = lines.iter().map(|line| line.replace('\u{202e}', "⟨U+202E⟩")).collect();
    assert_eq!(shown, json!(lines));
    let logs = service.get(&format!("/api/v1/operations/{id}/logs"));
    assert_eq!(logs["items"], json!([]));
    browser.is_clean();
    service.end();
}
