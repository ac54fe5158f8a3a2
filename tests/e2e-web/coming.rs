//! What a rollout would do before it begins: also who would come, change and go by then.

use serde_json::{Value, json};

use crate::decisions::{commit, replace};
use crate::service::{Different, READER, Service, folder};

/// An ApplicationSet of an Application for each file of a folder.
const SET: &str = "apiVersion: argoproj.io/v1alpha1
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

pub fn who_would_come_change_and_go_is_told_before_a_rollout_begins() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    bench.write("fleet/small.yaml", SET);
    for (name, env) in [("one", "dev"), ("two", "prod"), ("three", "dev"), ("six", "lab")] {
        file(&bench, name, env, "shops/cart");
    }
    commit(&bench);
    // Nothing is looked at but what somebody asks for.
    let never = ["--listen", "0", "--tokens", "tokens", "--refresh-every", "0s", "--requeue-after", "1000h"];
    let service = Service::with(bench, &never);
    service.until(&format!("{SMALL}/explain"), |told| told["rollout"]["end"] == "Completed");
    let mut browser = service.browser(READER);
    browser.open("/applicationsets/argocd/small");
    browser.press("preview-rollout");
    let item = |name: &str| {
        format!("(document.querySelector('#foreseen ~ div li[data-key={name}]')?.textContent ?? '')")
    };
    browser.until(&format!("/^one: has [0-9a-f]{{7}} already$/.test({})", item("one")));
    // One changes its folder, one its step, one goes, and two come, of which no step selects one.
    file(&service.bench, "one", "dev", "shops/catalog");
    file(&service.bench, "three", "prod", "shops/cart");
    file(&service.bench, "four", "prod", "shops/cart");
    file(&service.bench, "five", "lab", "shops/cart");
    std::fs::remove_file(service.bench.path().join("fleet/repo/small/two.yaml")).unwrap();
    std::fs::remove_file(service.bench.path().join("fleet/repo/small/six.yaml")).unwrap();
    commit(&service.bench);
    let applications = |told: &Value| told["applications"].clone();
    let told = service.until(&format!("{SMALL}/plan"), |told| {
        !told["applications"]["created"].as_array().unwrap().is_empty()
    });
    let told = applications(&told);
    assert_eq!(told["created"], json!([{"application": "five"}, {"application": "four", "step": 2}]));
    assert_eq!(
        told["changed"],
        json!([
            {"application": "one", "step": 1, "fields": [{"field": "spec.source.path", "before": "shops/cart", "after": "shops/catalog"}]},
            {"application": "three", "step": 2, "fields": [{"field": "metadata.labels.env", "before": "dev", "after": "prod"}]},
        ])
    );
    assert_eq!(
        told["deleted"],
        json!([
            {"application": "six", "keepsObjects": false},
            {"application": "two", "step": 2, "keepsObjects": false},
        ])
    );
    assert_eq!(json!([told["left"], told["problems"]]), json!([{}, []]));
    browser.press("preview-rollout");
    let card = |step: usize, name: &str| {
        format!(
            "document.querySelectorAll('.foreseen .card')[{step}].querySelector('li[data-key={name}]').textContent"
        )
    };
    browser.until(&format!("{}.startsWith('four: it is made; ')", card(1, "four")));
    browser.until(&format!("/^four: it is made; [0-9a-f]{{7}}, its first$/.test({})", card(1, "four")));
    // Whoever has asked the generators has found the commit, which those there are may be brought to meanwhile.
    browser.until(&format!("/^one: [0-9a-f]{{7}} (→ [0-9a-f]{{7}}|once more); it is changedspec.source.path: shops\\/cart → shops\\/catalog$/.test({})", card(0, "one")));
    browser.until(&format!("{}.endsWith('it is changedmetadata.labels.env: dev → prod')", card(1, "three")));
    let goes = "it is deleted, because it is not generated any more; its objects go with it";
    browser.until(&format!("{} === 'two: {goes}'", card(1, "two")));
    browser.until(&format!(
        "{} === 'six: {goes}' && {}.startsWith('five: it is made; ')",
        item("six"),
        item("five")
    ));
    browser.until("[...document.querySelectorAll('#foreseen ~ div h3')].map((one) => one.textContent).join() === 'Step 1 1 Application,Step 2 2 Applications,In no step,What is deleted, in this order'");
    browser.until("[...document.querySelector('#foreseen ~ div').lastElementChild.children].map((one) => one.textContent).join('|') === 'Step 2 (env in (prod)), 1 at once: two|Those of no step, 1 at once: six'");
    browser.picture("coming");
    // Nothing of that was done.
    let named =
        |name: &str| service.get(&format!("/api/v1/applications?name=argocd/{name}"))["matching"].clone();
    assert_eq!((named("four"), named("two")), (json!(0), json!(1)));
    let writes = service.bench.writes();
    assert!(
        !writes.iter().any(|one| one["verb"] == "delete" || one["namespace"] == "small-four"),
        "{writes:#?}"
    );
    // And when it is, it is that.
    service.post(&format!("{SMALL}/refresh"), &json!({}));
    service.until("/api/v1/applications?name=argocd/two", |found| found["matching"] == 0);
    service.until("/api/v1/applications?name=argocd/four", |found| found["matching"] == 1);
    browser.is_clean();
    service.end();
}

pub fn what_would_stay_and_why_is_told_before_a_rollout_begins() {
    let bench = folder(&Different { has_no_set: true, ..Different::default() });
    let annotated = "metadata:\n  name: small\n  annotations: {tidegate.dev/max-deletions: \"1\"}\n";
    bench.write("fleet/small.yaml", SET.replace("metadata: {name: small}\n", annotated));
    for name in ["one", "two", "three"] {
        file(&bench, name, "dev", "shops/cart");
    }
    commit(&bench);
    let service = Service::in_folder(bench);
    service.until(&format!("{SMALL}/explain"), |told| told["rollout"]["end"] == "Completed");
    for name in ["one", "two"] {
        std::fs::remove_file(service.bench.path().join(format!("fleet/repo/small/{name}.yaml"))).unwrap();
    }
    replace(&service.bench, "repo/small/three.yaml", "three", "four");
    commit(&service.bench);
    service
        .until(&format!("{SMALL}/plan"), |told| told["applications"]["created"][0]["application"] == "four");
    let mut browser = service.browser(READER);
    browser.open("/applicationsets/argocd/small");
    browser.press("preview-rollout");
    let problem = "document.querySelector('#foreseen ~ div p.problem').textContent";
    browser.until(&format!(
        "{problem}.startsWith('3 of its 3 Applications are not generated any more (one, three, two)')"
    ));
    browser.until(
        "[...document.querySelectorAll('#foreseen ~ div h3')].at(-1).textContent === 'What stays as it is'",
    );
    for name in ["one", "two", "three"] {
        browser.until(&format!("document.querySelector('#foreseen ~ div li[data-key={name}]').textContent === '{name}: it is not generated any more, as are more Applications than may be deleted at once'"));
    }
    browser.is_clean();
    service.end();
}
