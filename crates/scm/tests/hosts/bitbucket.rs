use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};
use tidegate_scm::Web;

use crate::server::{Page, Server};
use crate::{branches_by, lines, requests};

const SHA: &str = "dc5d1b9b1d1ed6c5b5f3b4a9a4c3b2e4f5d6a7b8";

/// Returns a repository in the format of `GET /repositories/{workspace}`.
fn repository(slug: &str) -> Value {
    json!({
        "type": "repository", "uuid": "{1b2a3c4d-0000-4000-8000-000000000001}", "slug": slug, "name": slug, "full_name": format!("shop/{slug}"),
        "mainbranch": {"type": "branch", "name": "main"}, "owner": {"type": "team", "nickname": "shop"},
        "links": {"clone": [
            {"href": format!("https://ann@bitbucket.org/shop/{slug}.git"), "name": "https"},
            {"href": format!("git@bitbucket.org:shop/{slug}.git"), "name": "ssh"},
        ]},
    })
}

fn branch(name: &str) -> Value {
    json!({"type": "branch", "name": name, "target": {"type": "commit", "hash": SHA}})
}

#[test]
fn repositories_of_a_workspace() {
    let server = Server::start();
    let next = "https://api.bitbucket.org/2.0/repositories/shop?role=member&pagelen=100&page=2";
    server.put(
        "/repositories/shop?role=member&pagelen=100",
        Page::of(json!({"size": 3, "page": 1, "pagelen": 100, "next": next, "values": [repository("api"), {"uuid": "{2}", "slug": "empty", "mainbranch": null}]})),
    );
    server.put(
        "/repositories/shop?role=member&pagelen=100&page=2",
        Page::of(json!({"values": [repository("web")]})),
    );
    for slug in ["api", "web"] {
        let path = format!("/repositories/shop/{slug}/refs/branches");
        server.put(&format!("{path}/main"), Page::of(branch("main")));
        server.put(
            &format!("{path}?pagelen=100"),
            Page::of(json!({"values": [branch("main"), branch("feature/x")]})),
        );
    }
    server.put(
        &format!("/repositories/shop/api/src/{SHA}/deploy?format=meta"),
        Page::of(json!({"type": "commit_directory"})),
    );
    let web = Web::default().with_bitbucket(server.url());
    let mut bitbucket =
        json!({"owner": "shop", "user": "ann", "appPasswordRef": {"secretName": "bb", "key": "password"}});
    let filters = json!([{"pathsExist": ["deploy"]}]);
    let found = branches_by(&web, json!({"bitbucket": bitbucket, "filters": filters})).unwrap();
    let expected = Branch {
        organization: "shop".into(),
        repository: "api".into(),
        repository_id: "{1b2a3c4d-0000-4000-8000-000000000001}".into(),
        url: "git@bitbucket.org:shop/api.git".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: Vec::new(),
        paths: ["deploy".to_owned()].into(),
    };
    assert_eq!(found[0], expected);
    assert_eq!(lines(&found), [format!("api main {SHA}"), format!("web main {SHA}")]);
    assert!(found[1].paths.is_empty());
    // The header value is the Base64 form of `ann:hunter2`.
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "Basic YW5uOmh1bnRlcjI="));
    bitbucket["allBranches"] = true.into();
    server.put("/repositories/shop/empty/refs/branches?pagelen=100", Page::of(json!({"values": []})));
    let found = branches_by(&web, json!({"bitbucket": bitbucket})).unwrap();
    assert_eq!(found.len(), 4);
}

#[test]
fn open_pull_requests() {
    let server = Server::start();
    let pull = json!({
        "type": "pullrequest", "id": 108, "title": "Feature", "state": "OPEN", "author": {"type": "user", "nickname": "ann", "display_name": "Ann"},
        "source": {"branch": {"name": "feature/x"}, "commit": {"hash": "dc5d1b9b1d1e"}, "repository": {"full_name": "shop/api"}},
        "destination": {"branch": {"name": "main"}, "commit": {"hash": "1a8dd249c04a"}},
    });
    let next =
        "https://api.bitbucket.org/2.0/repositories/shop/api/pullrequests?state=OPEN&pagelen=50&page=2";
    let path = "/repositories/shop/api/pullrequests?state=OPEN&pagelen=50";
    server.put(path, Page::of(json!({"values": [pull], "next": next})));
    let mut gone = pull.clone();
    (gone["id"], gone["source"]["commit"], gone["author"]) = (109.into(), Value::Null, Value::Null);
    server.put(&format!("{path}&page=2"), Page::of(json!({"values": [gone]})));
    let bitbucket = json!({"owner": "shop", "repo": "api", "api": server.url(), "bearerToken": {"tokenRef": {"secretName": "bb", "key": "token"}}});
    let found = requests(json!({"bitbucket": bitbucket}));
    let expected = PullRequest {
        number: 108,
        title: "Feature".into(),
        branch: "feature/x".into(),
        target_branch: "main".into(),
        head_sha: "dc5d1b9b1d1e".into(),
        author: "ann".into(),
        labels: Vec::new(),
    };
    assert_eq!(found[0], expected);
    assert_eq!((found[1].number, found[1].head_sha.as_str()), (109, ""));
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "Bearer hunter2"));
}
