use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};
use tidegate_scm::{Policy, RequestContext, Web};

use crate::server::{Page, Server};
use crate::{TestSecrets, branches, branches_by, lines, requests, requests_by};

const SHA: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

/// Returns a repository in the format of `GET /orgs/{org}/repos`.
fn repository(id: u64, name: &str) -> Value {
    json!({
        "id": id, "node_id": "MDEwOlJlcG9zaXRvcnkxMjk2MjY5", "name": name, "full_name": format!("octo-org/{name}"),
        "owner": {"login": "octo-org", "id": 1, "type": "Organization", "site_admin": false},
        "private": false, "html_url": format!("https://github.com/octo-org/{name}"), "fork": false,
        "clone_url": format!("https://github.com/octo-org/{name}.git"), "ssh_url": format!("git@github.com:octo-org/{name}.git"),
        "default_branch": "main", "topics": ["octocat", "api"], "archived": name == "old", "disabled": false,
        "visibility": "public", "permissions": {"admin": false, "push": false, "pull": true},
    })
}

fn branch(name: &str, sha: &str) -> Value {
    json!({"name": name, "commit": {"sha": sha, "url": format!("https://api.github.com/repos/octo-org/x/commits/{sha}")}, "protected": true})
}

fn organization(server: &Server) {
    // The links have a different host and path, which the client must ignore.
    let next = "Link: <https://api.github.example/organizations/1/repos?per_page=100&page=2>; rel=\"next\", <https://api.github.example/organizations/1/repos?per_page=100&page=2>; rel=\"last\"";
    let first = json!([repository(1, "web"), repository(2, "old")]);
    server.put("/api/v3/orgs/octo-org/repos?per_page=100", Page::of(first).with(next));
    server.put("/api/v3/orgs/octo-org/repos?per_page=100&page=2", Page::of(json!([repository(3, "api")])));
    for name in ["web", "old", "api"] {
        let path = format!("/api/v3/repos/octo-org/{name}/branches");
        server.put(&format!("{path}/main"), Page::of(branch("main", SHA)));
        let all =
            json!([branch("main", SHA), branch("feature/x", "aa218f56b14c9653891f9e74264a383fa43fefbd")]);
        server.put(&format!("{path}?per_page=100"), Page::of(all));
    }
}

#[test]
fn repositories_of_all_pages_with_their_default_branch() {
    let server = Server::start();
    organization(&server);
    let github = json!({"organization": "octo-org", "api": server.url(), "tokenRef": {"secretName": "gh", "key": "token"}});
    let found = branches(json!({"github": github, "cloneProtocol": "https"}));
    assert_eq!(
        lines(&found),
        [format!("web main {SHA}"), format!("old main {SHA}"), format!("api main {SHA}")]
    );
    let expected = Branch {
        organization: "octo-org".into(),
        repository: "web".into(),
        repository_id: "1".into(),
        url: "https://github.com/octo-org/web.git".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: vec!["octocat".into(), "api".into()],
        paths: Default::default(),
    };
    assert_eq!(found[0], expected);
    let visits = server.visits();
    assert!(visits.iter().all(|visit| visit.headers["authorization"] == "Bearer hunter2"), "{visits:?}");
}

#[test]
fn all_branches_and_no_archived_repositories_by_ssh() {
    let server = Server::start();
    organization(&server);
    let github = json!({"organization": "octo-org", "api": format!("{}/", server.url()), "allBranches": true, "excludeArchivedRepos": true});
    let found = branches(json!({"github": github}));
    let other = "aa218f56b14c9653891f9e74264a383fa43fefbd";
    let expected = [
        format!("web main {SHA}"),
        format!("web feature/x {other}"),
        format!("api main {SHA}"),
        format!("api feature/x {other}"),
    ];
    assert_eq!(lines(&found), expected);
    assert_eq!(found[0].url, "git@github.com:octo-org/web.git");
    assert!(server.visits().iter().all(|visit| !visit.headers.contains_key("authorization")));
}

#[test]
fn paths_are_requested_only_if_a_filter_can_match() {
    let server = Server::start();
    organization(&server);
    let at = |name: &str, path: &str| format!("/api/v3/repos/octo-org/{name}/contents/{path}?ref={SHA}");
    server.put(&at("web", "deploy/base"), Page::of(json!([{"type": "file", "name": "kustomization.yaml"}])));
    let github = json!({"organization": "octo-org", "api": server.url()});
    let filters = json!([{"repositoryMatch": "^(web|api)$", "pathsExist": ["deploy/base"]}]);
    let found = branches(json!({"github": github, "filters": filters}));
    let of = |name: &str| found.iter().find(|one| one.repository == name).unwrap();
    assert_eq!(found.len(), 2, "the repository filter rejects old");
    assert!(of("web").paths.contains("deploy/base") && of("api").paths.is_empty(), "{found:?}");
    assert!(server.visits().iter().all(|visit| !visit.asked.contains("/old/")));
}

#[test]
fn an_empty_repository_has_no_branch() {
    let server = Server::start();
    let mut empty = repository(1, "empty");
    empty["topics"] = Value::Null;
    server.put("/api/v3/orgs/octo-org/repos?per_page=100", Page::of(json!([empty])));
    let github = json!({"organization": "octo-org", "api": server.url()});
    assert_eq!(branches(json!({"github": github})), []);
}

fn pull(number: u64, labels: &[&str]) -> Value {
    let labels: Vec<_> = labels
        .iter()
        .map(|name| json!({"id": 208_045_946, "name": name, "color": "f29513", "default": true}))
        .collect();
    json!({
        "id": 1, "number": number, "state": "open", "locked": true, "title": "Amazing new feature", "labels": labels,
        "user": {"login": "octocat", "id": 1}, "draft": false,
        "head": {"label": "octocat:new-topic", "ref": "new-topic", "sha": SHA, "repo": null},
        "base": {"label": "octocat:master", "ref": "master", "sha": "f95f852bd8fca8fcc58a9a2d6c842781e32a215e"},
    })
}

#[test]
fn open_pull_requests_with_all_labels() {
    let server = Server::start();
    let next = "Link: <http://elsewhere/repositories/1/pulls?state=open&per_page=100&page=2>; rel=\"next\"";
    let path = "/api/v3/repos/octo-org/web/pulls?state=open&per_page=100";
    server.put(path, Page::of(json!([pull(7, &["preview", "bug"]), pull(8, &["bug"])])).with(next));
    server.put(&format!("{path}&page=2"), Page::of(json!([pull(9, &["preview"])])));
    let github = json!({"owner": "octo-org", "repo": "web", "api": server.url(), "tokenRef": {"secretName": "gh", "key": "token"}, "labels": ["preview"]});
    let found = requests(json!({"github": github}));
    let expected = PullRequest {
        number: 7,
        title: "Amazing new feature".into(),
        branch: "new-topic".into(),
        target_branch: "master".into(),
        head_sha: SHA.into(),
        author: "octocat".into(),
        labels: vec!["preview".into(), "bug".into()],
    };
    assert_eq!(found[0], expected);
    assert_eq!(found.iter().map(|one| one.number).collect::<Vec<_>>(), [7, 9]);
}

#[test]
fn a_missing_repository_is_missing_and_a_missing_organization_an_error() {
    let server = Server::start();
    let github = json!({"owner": "octo-org", "repo": "none", "api": server.url()});
    let error = requests_by(&Web::default(), json!({"github": github})).unwrap_err();
    assert!(
        error.is_missing
            && error.reason.contains(
                "returned 404 Not Found for GET /repos/octo-org/none/pulls (Not Found); check the names"
            ),
        "{error:?}"
    );
    let github = json!({"organization": "none", "api": server.url()});
    let error = branches_by(&Web::default(), json!({"github": github})).unwrap_err();
    assert!(error.reason.contains("GitHub at http://127.0.0.1"), "{error:?}");
    // If access is forbidden, the error doesn't say that the repository is missing.
    let path = "/api/v3/repos/octo-org/none/pulls?state=open&per_page=100";
    server.put(path, Page::status(401, json!({"message": "Bad credentials hunter2"})));
    let github = json!({"owner": "octo-org", "repo": "none", "api": server.url(), "tokenRef": {"secretName": "gh", "key": "token"}});
    let error = requests_by(&Web::default(), json!({"github": github})).unwrap_err();
    let expected = "(Bad credentials ***); the server does not accept key token in Secret gh";
    assert!(!error.is_missing && error.reason.ends_with(expected), "{error:?}");
}

#[test]
fn unsupported_options_are_named() {
    let web = Web::default();
    let github = json!({"organization": "o"});
    for (generator, expected) in [
        (json!({"awsCodeCommit": {"region": "eu-west-1"}}), "awsCodeCommit is not supported yet"),
        (json!({}), "no provider is set; set one of github, gitlab"),
        (
            json!({"github": github, "gitlab": {"group": "g"}}),
            "several providers are set: github, gitlab; keep only one of them",
        ),
        (json!({"github": {"organization": "o"}, "cloneProtocol": "git"}), "unknown cloneProtocol \"git\""),
        (
            json!({"github": {"organization": "o", "api": "git.example.com"}}),
            "invalid api: not an http:// or https:// URL",
        ),
        (
            json!({"github": {"organization": "o", "tokenRef": {"secretName": "gh", "key": "none"}}}),
            "Secret gh has no key none",
        ),
        (
            json!({"github": {"organization": "o", "tokenRef": {"secretName": "gh", "key": "empty"}}}),
            "key empty in Secret gh is empty",
        ),
        (
            json!({"github": {"organization": "o", "tokenRef": {"secretName": "gh", "key": "odd"}}}),
            "contains a character that is not allowed in an HTTP header",
        ),
    ] {
        let error = branches_by(&web, generator.clone()).unwrap_err();
        assert!(error.reason.contains(expected), "{generator}: {error:?}");
    }
}

#[test]
fn only_allowed_servers_are_contacted() {
    let server = Server::start();
    let (path, url) = ("/api/v3/repos/o/web/pulls?state=open&per_page=100", server.url());
    server.put(path, Page::of(json!([])));
    let generator =
        serde_json::from_value(json!({"github": {"owner": "o", "repo": "web", "api": url}})).unwrap();
    let ask = |policy: Policy| {
        RequestContext { web: &Web::default(), secrets: &TestSecrets::default(), policy: &policy }
            .pull_requests(&generator)
    };
    let only = |api: &str| Policy { allowed: vec![api.to_owned()], ..Policy::default() };
    // The URL may be spelled differently.
    let (upper, short) = (url.replace("http://", "HTTP://"), url.replace("127.0.0.1:", "0x7f.1:0"));
    for allowed in [&url, &upper, &short, &format!("{url}/")] {
        assert_eq!(ask(only(allowed)), Ok(Vec::new()), "{allowed}");
    }
    server.visits();
    for (policy, expected) in [
        (only("https://git.example.com"), "is not one of the servers that generators may use"),
        (only(&url[..url.len() - 1]), "is not one of the servers that generators may use"),
        (only(&format!("{url}/git")), "is not one of the servers that generators may use"),
        (only(&url.replace("http://", "https://")), "is not one of the servers that generators may use"),
        (only(&url.replace("127.0.0.1", "127.2")), "is not one of the servers that generators may use"),
        (Policy { is_disabled: true, ..Policy::default() }, "SCM providers are disabled"),
    ] {
        let error = ask(policy).unwrap_err();
        assert!(error.reason.contains(expected), "{error:?}");
    }
    assert!(server.visits().is_empty());
}
