//! Preview of a rollout, including Applications that would be added, changed and removed.

use serde_json::{Value, json};

use crate::decisions::{commit, replace};
use crate::service::{ExampleOptions, READER, Service, example_folder};

/// An ApplicationSet that generates an Application for each file in a folder.
const APPSET: &str = "apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: small}
spec:
  goTemplate: true
  generators:
    - git: {repoURL: ./repo, revision: main, files: [{path: small/*.yaml}]}
  strategy:
    type: RollingSync
    rollingSync:
      steps:
        - matchExpressions: [{key: env, operator: In, values: [dev]}]
        - matchExpressions: [{key: env, operator: In, values: [prod]}]
    deletionOrder: Reverse
  template:
    metadata:
      name: '{{ .name }}'
      labels: {env: '{{ .env }}'}
      finalizers: [resources-finalizer.argocd.argoproj.io]
    spec:
      project: default
      source: {repoURL: ./repo, targetRevision: main, path: '{{ .folder }}'}
      destination: {name: in-cluster, namespace: 'small-{{ .name }}'}
      syncPolicy: {syncOptions: [CreateNamespace=true]}
";

const SMALL: &str = "/api/v1/applicationsets/argocd/small";

fn file(service: &crate::bench::Bench, name: &str, env: &str, folder: &str) {
    let text = format!("name: {name}\nenv: {env}\nfolder: {folder}\n");
    service.write(&format!("fleet/repo/small/{name}.yaml"), text);
}

pub fn added_changed_and_removed_members_are_previewed() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    bench.write("fleet/small.yaml", APPSET);
    for (name, env) in [("one", "dev"), ("two", "prod"), ("three", "dev"), ("six", "lab")] {
        file(&bench, name, env, "shops/cart");
    }
    commit(&bench);
    // Disables all automatic refreshes.
    let never = ["--listen", "0", "--tokens", "tokens", "--refresh-every", "0s", "--requeue-after", "1000h"];
    let service = Service::with_options(bench, &never);
    service.wait_until(&format!("{SMALL}/explain"), |explanation| {
        explanation["rollout"]["outcome"] == "Completed"
    });
    let mut browser = service.browser(READER);
    browser.open("/applicationsets/argocd/small");
    browser.press_button("preview-rollout");
    let item = |name: &str| {
        format!("(document.querySelector('#foreseen ~ div li[data-key={name}]')?.textContent ?? '')")
    };
    browser.wait_until(&format!("/^one: already at [0-9a-f]{{7}}$/.test({})", item("one")));
    // One Application changes its folder, one its step, one is removed, and two are added, one of them
    // outside of all steps.
    file(&service.bench, "one", "dev", "shops/catalog");
    file(&service.bench, "three", "prod", "shops/cart");
    file(&service.bench, "four", "prod", "shops/cart");
    file(&service.bench, "five", "lab", "shops/cart");
    std::fs::remove_file(service.bench.path().join("fleet/repo/small/two.yaml")).unwrap();
    std::fs::remove_file(service.bench.path().join("fleet/repo/small/six.yaml")).unwrap();
    commit(&service.bench);
    let applications = |explanation: &Value| explanation["applications"].clone();
    let explanation = service.wait_until(&format!("{SMALL}/plan"), |explanation| {
        !explanation["applications"]["created"].as_array().unwrap().is_empty()
    });
    let explanation = applications(&explanation);
    assert_eq!(explanation["created"], json!([{"application": "five"}, {"application": "four", "step": 2}]));
    assert_eq!(
        explanation["changed"],
        json!([
            {"application": "one", "step": 1, "fields": [{"field": "spec.source.path", "before": "shops/cart", "after": "shops/catalog"}]},
            {"application": "three", "step": 2, "fields": [{"field": "metadata.labels.env", "before": "dev", "after": "prod"}]},
        ])
    );
    assert_eq!(
        explanation["deleted"],
        json!([
            {"application": "six", "keepsObjects": false},
            {"application": "two", "step": 2, "keepsObjects": false},
        ])
    );
    assert_eq!(json!([explanation["withheld"], explanation["problems"]]), json!([{}, []]));
    browser.press_button("preview-rollout");
    let card = |step: usize, name: &str| {
        format!(
            "document.querySelectorAll('.foreseen .card')[{step}].querySelector('li[data-key={name}]').textContent"
        )
    };
    browser.wait_until(&format!("{}.startsWith('four: created; ')", card(1, "four")));
    browser.wait_until(&format!("/^four: created; [0-9a-f]{{7}}, first sync$/.test({})", card(1, "four")));
    // The refresh of the generators has found the commit. Existing Applications may already have been updated
    // to it.
    browser.wait_until(&format!("/^one: [0-9a-f]{{7}} (→ [0-9a-f]{{7}}|again); updatedspec.source.path: shops\\/cart → shops\\/catalog$/.test({})", card(0, "one")));
    browser.wait_until(&format!("{}.endsWith('updatedmetadata.labels.env: dev → prod')", card(1, "three")));
    let goes = "deleted, no longer generated; its objects are deleted as well";
    browser.wait_until(&format!("{} === 'two: {goes}'", card(1, "two")));
    browser.wait_until(&format!(
        "{} === 'six: {goes}' && {}.startsWith('five: created; ')",
        item("six"),
        item("five")
    ));
    browser.wait_until("[...document.querySelectorAll('#foreseen ~ div h3')].map((one) => one.textContent).join() === 'Step 1 1 Application,Step 2 2 Applications,Outside all steps,Deleted, in this order'");
    browser.wait_until("[...document.querySelector('#foreseen ~ div').lastElementChild.children].map((one) => one.textContent).join('|') === 'Step 2 (env in (prod)), 1 at once: two|No step, 1 at once: six'");
    browser.save_screenshot("rollout-preview");
    // The preview didn't change anything.
    let named =
        |name: &str| service.get(&format!("/api/v1/applications?name=argocd/{name}"))["total"].clone();
    assert_eq!((named("four"), named("two")), (json!(0), json!(1)));
    let writes = service.bench.writes();
    assert!(
        !writes.iter().any(|one| one["verb"] == "delete" || one["namespace"] == "small-four"),
        "{writes:#?}"
    );
    // The actual rollout matches the preview.
    service.post(&format!("{SMALL}/refresh"), &json!({}));
    service.wait_until("/api/v1/applications?name=argocd/two", |found| found["total"] == 0);
    service.wait_until("/api/v1/applications?name=argocd/four", |found| found["total"] == 1);
    browser.assert_clean();
    service.stop();
}

pub fn remaining_members_are_previewed_with_their_reason() {
    let bench = example_folder(&ExampleOptions { has_no_appset: true, ..ExampleOptions::default() });
    let annotated = "metadata:\n  name: small\n  annotations: {tidegate.dev/max-deletions: \"1\"}\n";
    bench.write("fleet/small.yaml", APPSET.replace("metadata: {name: small}\n", annotated));
    for name in ["one", "two", "three"] {
        file(&bench, name, "dev", "shops/cart");
    }
    commit(&bench);
    let service = Service::in_folder(bench);
    service.wait_until(&format!("{SMALL}/explain"), |told| told["rollout"]["outcome"] == "Completed");
    for name in ["one", "two"] {
        std::fs::remove_file(service.bench.path().join(format!("fleet/repo/small/{name}.yaml"))).unwrap();
    }
    replace(&service.bench, "repo/small/three.yaml", "three", "four");
    commit(&service.bench);
    service.wait_until(&format!("{SMALL}/plan"), |told| {
        told["applications"]["created"][0]["application"] == "four"
    });
    let mut browser = service.browser(READER);
    browser.open("/applicationsets/argocd/small");
    browser.press_button("preview-rollout");
    let problem = "document.querySelector('#foreseen ~ div p.problem').textContent";
    browser.wait_until(&format!(
        "{problem}.startsWith('3 of its 3 Applications are no longer generated (one, three, two)')"
    ));
    browser.wait_until(
        "[...document.querySelectorAll('#foreseen ~ div h3')].at(-1).textContent === 'Left as they are'",
    );
    for name in ["one", "two", "three"] {
        browser.wait_until(&format!(
            "document.querySelector('#foreseen ~ div li[data-key={name}]').textContent === \
                                '{name}: the Application is no longer generated, but more Applications would \
                                be \
                                deleted than are allowed at once'"
        ));
    }
    browser.assert_clean();
    service.stop();
}
