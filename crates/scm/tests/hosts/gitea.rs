use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};

use crate::server::{Page, Server};
use crate::{branches, lines, requests};

const SHA: &str = "72687815ccba81ef014a96201cc2e846a68789d8";

/// Returns a repository in the format of `GET /orgs/{org}/repos`.
fn repository(id: u64, name: &str, more: Value) -> Value {
    let mut repository = json!({
        "id": id, "owner": {"id": 1, "login": "gitea", "username": "gitea"}, "name": name, "full_name": format!("gitea/{name}"),
        "empty": false, "private": false, "fork": false, "default_branch": "main", "archived": false, "topics": ["preview"],
        "ssh_url": format!("git@gitea.com:gitea/{name}.git"), "clone_url": format!("https://gitea.com/gitea/{name}.git"),
    });
    repository.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    repository
}

fn branch(name: &str) -> Value {
    json!({"name": name, "commit": {"id": SHA, "message": "hello", "url": "https://gitea.com/gitea/x/commit"}, "protected": false})
}

#[test]
fn repositories_of_an_organization() {
    let server = Server::start();
    let found = json!([
        repository(21618, "test", json!({})),
        repository(2, "old", json!({"archived": true})),
        repository(3, "empty", json!({"empty": true})),
    ]);
    let next = "Link: <https://gitea.com/api/v1/orgs/gitea/repos?limit=50&page=2>; rel=\"next\",<https://gitea.com/api/v1/orgs/gitea/repos?limit=50&page=2>; rel=\"last\"";
    server.put("/api/v1/orgs/gitea/repos?limit=50", Page::of(found).with(next));
    server.put(
        "/api/v1/orgs/gitea/repos?limit=50&page=2",
        Page::of(json!([repository(4, "more", json!({"topics": null}))])),
    );
    for name in ["test", "more"] {
        server.put(&format!("/api/v1/repos/gitea/{name}/branches/main"), Page::of(branch("main")));
    }
    let gitea = json!({"owner": "gitea", "api": server.url(), "tokenRef": {"secretName": "g", "key": "token"}, "excludeArchivedRepos": true});
    let found = branches(json!({"gitea": gitea, "cloneProtocol": "https"}));
    let expected = Branch {
        organization: "gitea".into(),
        repository: "test".into(),
        repository_id: "21618".into(),
        url: "https://gitea.com/gitea/test.git".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: vec!["preview".into()],
        paths: Default::default(),
    };
    assert_eq!(found[0], expected);
    assert_eq!(lines(&found), [format!("test main {SHA}"), format!("more main {SHA}")]);
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "token hunter2"));
}

#[test]
fn repositories_of_a_user_with_all_branches_and_paths() {
    let server = Server::start();
    server.put(
        "/api/v1/users/ann/repos?limit=50",
        Page::of(json!([repository(1, "dots", json!({"owner": {"login": "ann"}}))])),
    );
    let all = json!([branch("main"), branch("dev")]);
    server.put("/api/v1/repos/ann/dots/branches?limit=50", Page::of(all));
    server.put(&format!("/api/v1/repos/ann/dots/contents/app/a%20b?ref={SHA}"), Page::of(json!([])));
    let gitea = json!({"owner": "ann", "api": server.url(), "allBranches": true});
    let found = branches(json!({"gitea": gitea, "filters": [{"pathsExist": ["app/a b"]}]}));
    assert_eq!(lines(&found), [format!("dots main {SHA}"), format!("dots dev {SHA}")]);
    assert!(found.iter().all(|one| one.paths.contains("app/a b")));
}

#[test]
fn open_pull_requests() {
    let server = Server::start();
    let pull = json!({
        "id": 33, "number": 1, "title": "add an empty file", "state": "open", "user": {"id": 1, "login": "graytshirt"},
        "labels": [{"id": 12, "name": "preview"}],
        "head": {"label": "test", "ref": "test", "sha": SHA}, "base": {"label": "main", "ref": "main", "sha": "7bbaf62d92ddfafd9cc8b340c619abaec32bc09f"},
    });
    server.put("/api/v1/repos/gitea/test/pulls?state=open&limit=50", Page::of(json!([pull])));
    let expected = PullRequest {
        number: 1,
        title: "add an empty file".into(),
        branch: "test".into(),
        target_branch: "main".into(),
        head_sha: SHA.into(),
        author: "graytshirt".into(),
        labels: vec!["preview".into()],
    };
    let of = |labels: &[&str]| {
        requests(json!({"gitea": {"owner": "gitea", "repo": "test", "api": server.url(), "labels": labels}}))
    };
    assert_eq!(of(&["preview"]), [expected]);
    assert_eq!(of(&["preview", "other"]), []);
}
