use serde_json::{Value, json};
use tidegate_generate::{Branch, PullRequest};
use tidegate_scm::Web;

use crate::server::{Page, Server};
use crate::{branches, branches_by, lines, requests};

const SHA: &str = "a4a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3";
const API: &str = "/contoso/Big%20Shop/_apis/git/repositories";

/// Returns a repository in the format of `GET _apis/git/repositories`.
fn repository(id: &str, name: &str, more: Value) -> Value {
    let mut repository = json!({
        "id": id, "name": name, "project": {"id": "p", "name": "Big Shop"}, "defaultBranch": "refs/heads/main", "isDisabled": false,
        "remoteUrl": format!("https://contoso@dev.azure.com/contoso/Big%20Shop/_git/{name}"),
        "sshUrl": format!("git@ssh.dev.azure.com:v3/contoso/Big%20Shop/{name}"),
    });
    repository.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    repository
}

fn reference(name: &str) -> Value {
    json!({"name": format!("refs/heads/{name}"), "objectId": SHA, "creator": {"displayName": "Ann"}})
}

fn generator(server: &Server, more: Value) -> Value {
    let mut azure = json!({"organization": "contoso", "teamProject": "Big Shop", "api": server.url(), "accessTokenRef": {"secretName": "az", "key": "token"}});
    azure.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    azure
}

#[test]
fn repositories_of_a_team_project() {
    let server = Server::start();
    let all = json!({"count": 3, "value": [
        repository("5feb", "api", json!({})),
        repository("6feb", "empty", json!({"defaultBranch": null})),
        repository("7feb", "off", json!({"isDisabled": true})),
    ]});
    server.put(&format!("{API}?api-version=7.0"), Page::of(all));
    // The name of a branch may start with the name of the default branch.
    let found = json!({"value": [reference("main"), reference("main-2")]});
    server.put(&format!("{API}/5feb/refs?filter=heads%2Fmain&$top=1000&api-version=7.0"), Page::of(found));
    let items = format!(
        "{API}/5feb/items?path=/deploy/base&versionDescriptor.version={SHA}&versionDescriptor.versionType=commit&$format=json&api-version=7.0"
    );
    server.put(&items, Page::of(json!({"path": "/deploy/base"})));
    let filters = json!([{"pathsExist": ["deploy/base"]}]);
    let found = branches(json!({"azureDevOps": generator(&server, json!({})), "filters": filters}));
    let expected = Branch {
        organization: "contoso".into(),
        repository: "api".into(),
        repository_id: "5feb".into(),
        url: "https://contoso@dev.azure.com/contoso/Big%20Shop/_git/api".into(),
        branch: "main".into(),
        sha: SHA.into(),
        labels: Vec::new(),
        paths: ["deploy/base".to_owned()].into(),
    };
    assert_eq!(found, [expected]);
    // The header value is the Base64 form of `:hunter2`.
    assert!(server.visits().iter().all(|visit| visit.headers["authorization"] == "Basic Omh1bnRlcjI="));
}

#[test]
fn all_branches_of_several_pages_and_a_page_to_sign_in_at() {
    let server = Server::start();
    let path = format!("{API}?api-version=7.0");
    server.put(&path, Page::of(json!({"value": [repository("5feb", "api", json!({}))]})));
    let first = format!("{API}/5feb/refs?filter=heads%2F&$top=1000&api-version=7.0");
    server.put(&first, Page::of(json!({"value": [reference("main")]})).with("x-ms-continuationtoken: ab c"));
    server.put(&format!("{first}&continuationToken=ab%20c"), Page::of(json!({"value": [reference("dev")]})));
    let azure = generator(&server, json!({"allBranches": true}));
    let found = branches(json!({"azureDevOps": azure, "cloneProtocol": "ssh"}));
    assert_eq!(lines(&found), [format!("api main {SHA}"), format!("api dev {SHA}")]);
    assert_eq!(found[0].url, "git@ssh.dev.azure.com:v3/contoso/Big%20Shop/api");
    server.put(&path, Page { status: 203, headers: Vec::new(), body: b"<html>".to_vec(), hangs: false });
    let error = branches_by(&Web::default(), json!({"azureDevOps": azure})).unwrap_err();
    assert!(error.reason.contains("the server does not accept key token in Secret az"), "{error:?}");
}

#[test]
fn active_pull_requests_of_several_pages() {
    let server = Server::start();
    let pull = |number: u64, label: &str| {
        json!({
            "pullRequestId": number, "title": "new feature", "status": "active", "sourceRefName": "refs/heads/npaulk/feature", "targetRefName": "refs/heads/main",
            "createdBy": {"displayName": "Ann", "uniqueName": "ann@contoso.example"}, "lastMergeSourceCommit": {"commitId": SHA},
            "labels": [{"id": "1", "name": label, "active": true}],
        })
    };
    let page = |skip: u64| {
        format!("{API}/api/pullrequests?searchCriteria.status=active&$top=100&$skip={skip}&api-version=7.0")
    };
    let first: Vec<_> = (1..=100).map(|number| pull(number, "other")).collect();
    server.put(&page(0), Page::of(json!({"value": first})));
    server.put(&page(100), Page::of(json!({"value": [pull(101, "preview")]})));
    let azure = json!({"organization": "contoso", "project": "Big Shop", "repo": "api", "api": server.url(), "labels": ["preview"]});
    let expected = PullRequest {
        number: 101,
        title: "new feature".into(),
        branch: "npaulk/feature".into(),
        target_branch: "main".into(),
        head_sha: SHA.into(),
        author: "ann".into(),
        labels: vec!["preview".into()],
    };
    assert_eq!(requests(json!({"azuredevops": azure})), [expected]);
}
