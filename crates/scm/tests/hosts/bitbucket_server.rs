use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};
use tidegate_scm::Web;

use crate::server::{Page, Server};
use crate::{branches, lines, requests, requests_by};

const SHA: &str = "8d51122def5632836d1cb1026e879069e10a1e13";
const API: &str = "/rest/api/1.0/projects/PROJECT";

/// Returns a repository in the format of `GET /projects/{key}/repos`.
fn repository(id: u64, slug: &str) -> Value {
    json!({
        "slug": slug, "id": id, "name": slug, "scmId": "git", "state": "AVAILABLE", "project": {"key": "PROJECT", "id": 2, "type": "NORMAL"},
        "links": {"clone": [
            {"href": format!("https://mycompany.bitbucket.org/scm/PROJECT/{slug}.git"), "name": "http"},
            {"href": format!("ssh://git@mycompany.bitbucket.org/PROJECT/{slug}.git"), "name": "ssh"},
        ]},
    })
}

fn branch(name: &str, is_default: bool) -> Value {
    json!({"id": format!("refs/heads/{name}"), "displayId": name, "type": "BRANCH", "latestCommit": SHA, "isDefault": is_default})
}

fn page(values: Value, next: Option<u64>) -> Page {
    Page::of(
        json!({"size": 1, "limit": 100, "isLastPage": next.is_none(), "values": values, "start": 0, "nextPageStart": next}),
    )
}

#[test]
fn repositories_of_a_project_of_older_and_newer_servers() {
    let server = Server::start();
    server.put(&format!("{API}/repos?limit=100"), page(json!([repository(1, "older")]), Some(100)));
    let rest = json!([repository(2, "newer"), repository(3, "empty"), repository(4, "bare")]);
    server.put(&format!("{API}/repos?limit=100&start=100"), page(rest, None));
    server.put(&format!("{API}/repos/older/branches/default"), Page::of(branch("main", true)));
    let all = json!([branch("dev", false), branch("main", true)]);
    server.put(&format!("{API}/repos/newer/branches?limit=100"), page(all, None));
    server.put(&format!("{API}/repos/empty/branches?limit=100"), page(json!([]), None));
    server.put(&format!("{API}/repos/bare/branches/default"), Page::status(204, Value::Null));
    server.put(&format!("{API}/repos/bare/branches?limit=100"), page(json!([]), None));
    server.put(
        &format!("{API}/repos/older/browse/deploy?at={SHA}&type=true"),
        Page::of(json!({"type": "DIRECTORY"})),
    );
    let basic = json!({"username": "ann", "passwordRef": {"secretName": "bb", "key": "password"}});
    let bitbucket = json!({"project": "PROJECT", "api": server.url(), "basicAuth": basic});
    let filters = json!([{"pathsExist": ["deploy"]}]);
    let found = branches(json!({"bitbucketServer": bitbucket, "cloneProtocol": "https", "filters": filters}));
    let expected = Branch {
        organization: "PROJECT".into(),
        repository: "older".into(),
        repository_id: "1".into(),
        url: "https://mycompany.bitbucket.org/scm/PROJECT/older.git".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: Vec::new(),
        paths: ["deploy".to_owned()].into(),
    };
    assert_eq!(found[0], expected);
    assert_eq!(lines(&found), [format!("older main {SHA}"), format!("newer main {SHA}")]);
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "Basic YW5uOmh1bnRlcjI="));
}

#[test]
fn all_branches_below_a_path_of_its_own() {
    let server = Server::start();
    server.put(&format!("{API}/repos?limit=100"), page(json!([repository(1, "api")]), None));
    server.put(&format!("{API}/repos/api/branches?limit=100"), page(json!([branch("main", true)]), Some(1)));
    server.put(
        &format!("{API}/repos/api/branches?limit=100&start=1"),
        page(json!([branch("release/1", false)]), None),
    );
    let bitbucket =
        json!({"project": "PROJECT", "api": format!("{}/rest/", server.url()), "allBranches": true});
    let found = branches(json!({"bitbucketServer": bitbucket}));
    assert_eq!(lines(&found), [format!("api main {SHA}"), format!("api release/1 {SHA}")]);
    assert_eq!(found[0].url, "ssh://git@mycompany.bitbucket.org/PROJECT/api.git");
}

#[test]
fn open_pull_requests() {
    let server = Server::start();
    let pull = json!({
        "id": 101, "version": 1, "title": "feat(ABC) : 123", "state": "OPEN", "open": true,
        "fromRef": {"id": "refs/heads/feature-ABC-123", "displayId": "feature-ABC-123", "latestCommit": "cb3cf2e4d1517c83e720d2585b9402dbef71f992"},
        "toRef": {"id": "refs/heads/main", "displayId": "main", "latestCommit": SHA},
        "author": {"user": {"name": "testName", "displayName": "Test"}, "role": "AUTHOR", "approved": false},
    });
    server.put(&format!("{API}/repos/api/pull-requests?state=OPEN&limit=100"), page(json!([pull]), None));
    let mut bitbucket = json!({"project": "PROJECT", "repo": "api", "api": server.url(), "bearerToken": {"tokenRef": {"secretName": "bb", "key": "token"}}});
    let expected = PullRequest {
        number: 101,
        title: "feat(ABC) : 123".into(),
        branch: "feature-ABC-123".into(),
        target_branch: "main".into(),
        head_sha: "cb3cf2e4d1517c83e720d2585b9402dbef71f992".into(),
        author: "testName".into(),
        labels: Vec::new(),
    };
    assert_eq!(requests(json!({"bitbucketServer": bitbucket})), [expected]);
    let missing = json!({"errors": [{"context": null, "message": "Repository PROJECT/none does not exist.", "exceptionName": "NoSuchRepositoryException"}]});
    server.put(&format!("{API}/repos/none/pull-requests?state=OPEN&limit=100"), Page::status(404, missing));
    bitbucket["repo"] = "none".into();
    let error = requests_by(&Web::default(), json!({"bitbucketServer": bitbucket})).unwrap_err();
    assert!(
        error.is_missing && error.reason.contains("Repository PROJECT/none does not exist."),
        "{error:?}"
    );
    bitbucket["basicAuth"] =
        json!({"username": "ann", "passwordRef": {"secretName": "bb", "key": "password"}});
    let error = requests_by(&Web::default(), json!({"bitbucketServer": bitbucket})).unwrap_err();
    assert!(error.reason.contains("both basicAuth and bearerToken"), "{error:?}");
}
