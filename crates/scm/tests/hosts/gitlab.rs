use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};

use crate::server::{Page, Server};
use crate::{branches, lines, requests};

const SHA: &str = "7b5c3cc8be40ee161ae89a06bba6229da1032a0c";

/// Returns a project in the format of `GET /groups/:id/projects`.
fn project(id: u64, group: &str, path: &str) -> Value {
    json!({
        "id": id, "description": null, "name": path, "path": path, "path_with_namespace": format!("{group}/{path}"),
        "default_branch": "main", "tag_list": ["example", "old"], "topics": ["example"], "archived": false,
        "ssh_url_to_repo": format!("git@gitlab.example.com:{group}/{path}.git"),
        "http_url_to_repo": format!("https://gitlab.example.com/{group}/{path}.git"),
        "namespace": {"id": 3, "name": "Diaspora", "path": "diaspora", "kind": "group", "full_path": group},
    })
}

fn branch(name: &str) -> Value {
    json!({"name": name, "merged": false, "protected": true, "default": true, "commit": {"id": SHA, "short_id": "7b5c3cc", "title": "add projects API"}})
}

#[test]
fn projects_of_a_group_and_of_those_in_it() {
    let server = Server::start();
    let path = "/api/v4/groups/shop%2Fbackend/projects?per_page=100&include_subgroups=true&with_shared=false&archived=false&topic=a%20b";
    let next = "Link: <https://gitlab.example.com/api/v4/groups/9/projects?page=2&per_page=100&topic=a+b>; rel=\"next\"";
    server.put(path, Page::of(json!([project(4, "shop/backend", "api")])).with(next));
    server.put(
        "/api/v4/groups/shop%2Fbackend/projects?page=2&per_page=100&topic=a+b",
        Page::of(json!([project(5, "shop/backend/deep", "db"), {"id": 6, "path": "empty", "namespace": {"full_path": "shop"}, "default_branch": null}])),
    );
    for id in [4, 5] {
        server.put(&format!("/api/v4/projects/{id}/repository/branches/main"), Page::of(branch("main")));
    }
    let gitlab = json!({
        "group": "shop/backend", "api": server.url(), "tokenRef": {"secretName": "gl", "key": "token"},
        "includeSubgroups": true, "includeSharedProjects": false, "includeArchivedRepos": false, "topic": "a b",
    });
    let found = branches(json!({"gitlab": gitlab}));
    let expected = Branch {
        organization: "shop/backend".into(),
        repository: "api".into(),
        repository_id: "4".into(),
        url: "git@gitlab.example.com:shop/backend/api.git".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: vec!["example".into()],
        paths: Default::default(),
    };
    assert_eq!(found[0], expected);
    assert_eq!(lines(&found), [format!("api main {SHA}"), format!("db main {SHA}")]);
    let visits = server.visits();
    assert!(visits.iter().all(|visit| visit.headers["private-token"] == "hunter2"), "{visits:?}");
}

#[test]
fn branches_and_paths_of_a_project() {
    let server = Server::start();
    let path = "/api/v4/groups/shop/projects?per_page=100&include_subgroups=false&with_shared=true";
    server.put(path, Page::of(json!([project(4, "shop", "api"), project(5, "shop", "empty")])));
    let all = json!([branch("main"), branch("release/1")]);
    server.put("/api/v4/projects/4/repository/branches?per_page=100", Page::of(all));
    let tree = "/api/v4/projects/4/repository";
    server.put(
        &format!("{tree}/files/charts%2Fapi%2FChart.yaml?ref={SHA}"),
        Page::of(json!({"file_name": "Chart.yaml"})),
    );
    server.put(
        &format!("{tree}/tree?path=charts&ref={SHA}&per_page=1"),
        Page::of(json!([{"type": "tree", "path": "charts/api"}])),
    );
    server.put(&format!("{tree}/tree?path=none&ref={SHA}&per_page=1"), Page::of(json!([])));
    let gitlab = json!({"group": "shop", "api": format!("{}/api/v4", server.url()), "allBranches": true});
    let filters = json!([{"branchMatch": "^main$", "pathsExist": ["charts/api/Chart.yaml", "/charts/"], "pathsDoNotExist": ["none", "gone"]}]);
    let found = branches(json!({"gitlab": gitlab, "filters": filters}));
    assert_eq!(lines(&found), [format!("api main {SHA}")]);
    assert_eq!(found[0].paths.iter().collect::<Vec<_>>(), ["/charts/", "charts/api/Chart.yaml"]);
}

#[test]
fn merge_requests_in_a_state_and_with_labels() {
    let server = Server::start();
    let merge = json!({
        "id": 1, "iid": 14, "project_id": 3, "title": "test1", "state": "opened", "target_branch": "main", "source_branch": "test1",
        "author": {"id": 1, "name": "Administrator", "username": "admin"}, "labels": ["preview"], "draft": false, "sha": SHA,
    });
    server.put(
        "/api/v4/projects/shop%2Fapi/merge_requests?per_page=100&state=opened&labels=preview%2Ca%20b",
        Page::of(json!([merge])),
    );
    let mut gitlab = json!({"project": "shop/api", "api": server.url(), "labels": ["preview", "a b"], "pullRequestState": "opened"});
    let expected = PullRequest {
        number: 14,
        title: "test1".into(),
        branch: "test1".into(),
        target_branch: "main".into(),
        head_sha: SHA.into(),
        author: "admin".into(),
        labels: vec!["preview".into()],
    };
    assert_eq!(requests(json!({"gitlab": gitlab})), [expected]);
    // If the generator doesn't specify a state, merge requests in all states are returned.
    server.put("/api/v4/projects/4711/merge_requests?per_page=100", Page::of(json!([])));
    gitlab = json!({"project": "4711", "api": server.url()});
    assert_eq!(requests(json!({"gitlab": gitlab})), []);
}
