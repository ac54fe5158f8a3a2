//! Push webhooks. They immediately sync only the affected applications. Polling is disabled.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tidegate_testkit::web::{Page, WebServer};

use crate::bench::{Bench, Running};
use crate::fleet::Fleet;

const TOKEN: &str = "hunter2-of-the-webhook";

struct WebhookService {
    fleet: Fleet,
    address: String,
    service: Running,
}

/// Sends an event as GitLab does. Returns the response.
fn send_event(address: &str, event: &str, token: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /api/webhook HTTP/1.0\r\nhost: example.com\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         x-gitlab-event: {event}\r\nx-gitlab-token: {token}\r\n\r\n{body}"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

impl WebhookService {
    fn serve() -> Self {
        let fleet = Fleet::new();
        for name in ["backend", "database", "frontend"] {
            let labels = "  labels:\n    fleet: demo\n";
            let paths = "  annotations:\n    argocd.argoproj.io/manifest-generate-paths: .;/shared\n";
            fleet.replace(&format!("{name}.yaml"), labels, &format!("{labels}{paths}"));
        }
        fleet.bench.write_private("hooks", format!("webhook.gitlab.secret: {TOKEN}\n"));
        let options = ["--refresh-every", "0s", "--listen", "0", "--webhook-secrets", "hooks"];
        let mut service = fleet.bench.start(&[&["serve", "--sim", "--apps", "fleet"], &options[..]].concat());
        let address = service.wait_for_api();
        service.wait_for_line("managing 3 applications");
        fleet.wait_until_synced(&[]);
        Self { fleet, address, service }
    }

    /// Sends a push event. Returns the response.
    fn send_push_event(&self, token: &str, body: &str) -> (u16, Value) {
        send_event(&self.address, "Push Hook", token, body)
    }

    /// Sends a push of one commit with these files to a branch. Returns the number of affected applications.
    fn push(&self, branch: &str, files: &[&str]) -> u64 {
        let body = json!({
            "object_kind": "push", "ref": format!("refs/heads/{branch}"), "before": "1".repeat(40),
            "project": {"web_url": "./repo", "default_branch": "main"},
            "commits": [{"added": files, "modified": [], "removed": []}], "total_commits_count": 1,
        });
        let (status, told) = self.send_push_event(TOKEN, &body.to_string());
        assert_eq!((status, &told["event"]), (202, &json!("Push Hook")), "{told}");
        told["applications"].as_u64().unwrap()
    }

    fn revision(&self, name: &str) -> Value {
        self.fleet.get(name)["status"]["sync"]["revision"].clone()
    }
}

#[test]
fn a_push_is_synced_at_once_by_affected_applications() {
    let hooked = WebhookService::serve();
    let fleet = &hooked.fleet;
    let before = hooked.revision("frontend");
    fleet.replace("repo/frontend/frontend.yaml", "replicas: 2", "replicas: 3");
    fleet.commit();
    // Pushes to other branches or files, and unauthenticated events, have no effect.
    assert_eq!(hooked.push("other", &["frontend/frontend.yaml"]), 0);
    assert_eq!(hooked.push("main", &["docs/readme.md", "frontend-2/a.yaml"]), 0);
    let body = json!({"ref": "refs/heads/main", "before": "1".repeat(40), "project": {"web_url": "./other"}});
    assert_eq!(
        hooked.send_push_event(TOKEN, &body.to_string()),
        (202, json!({"event": "Push Hook", "applications": 0}))
    );
    let repo = body.to_string().replace("./other", "./repo");
    let (status, refused) = hooked.send_push_event("somebody-else", &repo);
    assert_eq!((status, &refused["code"]), (401, &json!("unauthorized")));
    for body in ["{", "{\"ref\": 1}", "[]"] {
        assert_eq!(hooked.send_push_event(TOKEN, body).0, 400, "{body}");
    }
    assert_eq!(hooked.revision("frontend"), before);
    // A push of relevant files syncs one application.
    let writes = fleet.bench.writes().len();
    assert_eq!(hooked.push("main", &["frontend/frontend.yaml", "docs/readme.md"]), 1);
    let is_written = |number: &usize| *number > writes;
    std::iter::repeat_with(|| fleet.bench.writes().len()).take(3000).find(is_written).unwrap();
    let synced = fleet.wait_until("frontend", |app| app["status"]["sync"]["revision"] != before);
    let after = &synced["status"]["sync"]["revision"];
    fleet.wait_until_synced(&["frontend"]);
    assert_eq!(hooked.revision("backend"), before, "it was not compared");
    // Pushes of common files, and pushes without a list of files, affect all applications.
    assert_eq!(hooked.push("main", &["shared/a.yaml"]), 3);
    for name in ["backend", "database"] {
        fleet.wait_until(name, |app| app["status"]["sync"]["revision"] == *after);
    }
    assert_eq!(hooked.push("main", &[]), 3);
    let ended = Fleet::stop(hooked.service);
    assert!(!ended.err.contains(TOKEN), "{}", ended.err);
}

/// An ApplicationSet for merge requests with a polling interval of half an hour.
const PREVIEWS: &str = "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: NAME}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators: [GENERATOR]
  template:
    metadata: {name: 'NAME-{{ .number }}'}
    spec:
      project: default
      source: {repoURL: ./repo, targetRevision: main, path: web}
      destination: {name: in-cluster, namespace: default}
";

fn merge_requests(numbers: &[u64]) -> Page {
    let one = |number: &u64| {
        json!({
            "iid": number, "title": "a", "state": "opened", "target_branch": "main", "source_branch": format!("b{number}"),
            "author": {"username": "ann"}, "labels": [], "sha": "7b5c3cc8be40ee161ae89a06bba6229da1032a0c",
        })
    };
    Page::with_body(json!(numbers.iter().map(one).collect::<Vec<_>>()).to_string())
}

#[test]
fn generators_refresh_only_on_events_of_their_repository() {
    let gitlab = WebServer::start();
    let path = |project: &str| format!("/api/v4/projects/org%2F{project}/merge_requests?per_page=100");
    for project in ["shop", "other"] {
        gitlab.add_page(&path(project), merge_requests(&[1]));
    }
    let bench = Bench::new();
    bench.write("apps/repo/web/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n");
    bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let api = gitlab.url("");
    let of = |project: &str| format!("pullRequest: {{gitlab: {{project: org/{project}, api: '{api}'}}}}");
    let both = format!("matrix: {{generators: [{{list: {{elements: [{{}}]}}}}, {{{}}}]}}", of("shop"));
    let generators = [("shop", format!("{{{both}}}")), ("other", format!("{{{}}}", of("other")))];
    for (name, generator) in generators {
        let text = PREVIEWS.replace("NAME", name).replace("GENERATOR", &generator);
        bench.write(&format!("apps/{name}.yaml"), text);
    }
    bench.write_private("hooks", format!("webhook.gitlab.secret: {TOKEN}\n"));
    let options = ["--refresh-every", "0s", "--listen", "0", "--webhook-secrets", "hooks"];
    let mut service = bench.start(&[&["serve", "--sim", "--apps", "apps"], &options[..]].concat());
    let address = service.wait_for_api();
    service.wait_for_line("managing");
    let names = || -> Vec<String> {
        let all = bench.json(&["app", "list", "-o", "json"]);
        let all = all["items"].as_array().unwrap().iter();
        all.map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let until = |expected: &[&str]| {
        let is_met = std::iter::repeat_with(names).take(3000).any(|names| names == expected);
        assert!(is_met, "expected {expected:?}, got {:?}", names());
    };
    until(&["other-1", "shop-1"]);
    gitlab.add_page(&path("shop"), merge_requests(&[1, 2]));
    gitlab.add_page(&path("other"), merge_requests(&[1, 3]));
    gitlab.requested_paths();
    let opened = |project: &str, action: &str| {
        let body = json!({
            "object_kind": "merge_request", "object_attributes": {"iid": 2, "action": action},
            "project": {"id": 1, "web_url": format!("https://example.com/org/{project}"), "path_with_namespace": format!("org/{project}")},
        });
        let (status, told) = send_event(&address, "Merge Request Hook", TOKEN, &body.to_string());
        assert_eq!((status, &told["event"]), (202, &json!("Merge Request Hook")), "{told}");
    };
    // Irrelevant events, and events that don't change the list.
    opened("third", "open");
    opened("other", "approved");
    opened("shop", "open");
    until(&["other-1", "shop-1", "shop-2"]);
    let audit_events = gitlab.requested_paths();
    assert!(
        !audit_events.is_empty() && audit_events.iter().all(|audit_events| *audit_events == path("shop")),
        "{audit_events:?}"
    );
    opened("other", "open");
    until(&["other-1", "other-3", "shop-1", "shop-2"]);
    Fleet::stop(service);
}
