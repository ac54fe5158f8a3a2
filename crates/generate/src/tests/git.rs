use super::*;

const URL: &str = "https://git.example.com/shop.git";

fn world() -> Written {
    let files = [
        ("README.md", ""),
        ("apps/db/kustomization.yaml", ""),
        ("apps/web/base/web.yaml", ""),
        ("apps/.hidden/a.yaml", ""),
        (".github/workflows/ci.yaml", ""),
        ("apps/Old_App/a.yaml", ""),
        (
            "clusters/eu/prod/config.json",
            r#"{"cluster": {"name": "eu", "port": 8080000}, "path": "mine", "on": true}"#,
        ),
        ("clusters/us/list.yaml", "- {name: a}\n- {name: b}\n"),
        ("clusters/us/empty.yaml", "# nothing\n"),
        ("clusters/us/none.yaml", "[]"),
        ("config.json", r#"{"name": "root"}"#),
    ];
    Written { files: BTreeMap::from([((URL, "main"), BTreeMap::from(files))]), ..Written::default() }
}

fn directories(patterns: Value, more: Value) -> Value {
    let mut git = json!({"repoURL": URL, "revision": "main", "directories": patterns});
    git.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"git": git})
}

fn files(patterns: &[&str]) -> Value {
    let patterns: Vec<_> = patterns
        .iter()
        .map(|pattern| match pattern.strip_prefix('!') {
            Some(pattern) => json!({"path": pattern, "exclude": true}),
            None => json!({"path": pattern}),
        })
        .collect();
    json!({"git": {"repoURL": URL, "revision": "main", "files": patterns}})
}

/// Section 4.4.
#[test]
fn folders_are_chosen_by_patterns() {
    for (patterns, expected) in [
        (json!([{"path": "apps/*"}]), &["apps/Old_App", "apps/db", "apps/web"][..]),
        (json!([{"path": "*"}]), &["apps", "clusters"]),
        (json!([{"path": "apps/*/*"}]), &["apps/web/base"]),
        (json!([{"path": "apps/*"}, {"path": "apps/web", "exclude": true}]), &["apps/Old_App", "apps/db"]),
        // An exclusion counts wherever it stands.
        (json!([{"path": "apps/web", "exclude": true}, {"path": "apps/*"}]), &["apps/Old_App", "apps/db"]),
        (json!([{"path": "apps/web"}, {"path": "clusters/??"}]), &["apps/web", "clusters/eu", "clusters/us"]),
        (json!([{"path": "nowhere/*"}]), &[]),
    ] {
        let found = sets(&mut world(), GO, directories(patterns.clone(), json!({})));
        let paths: Vec<_> = found.iter().map(|set| set["path"]["path"].as_str().unwrap()).collect();
        assert_eq!(paths, expected, "{patterns}");
    }
    let error = refused(&mut world(), GO, directories(json!([{"path": "apps/["}]), json!({})));
    assert!(error.starts_with("generators[0].git: pattern \"apps/[\" makes no sense"), "{error}");
    let error = refused(&mut world(), GO, directories(json!([]), json!({"files": []})));
    assert!(error.contains("neither directories nor files"), "{error}");
}

#[test]
fn a_path_becomes_parameters() {
    let patterns = json!([{"path": "apps/Old_App"}]);
    let flat = json!({
        "path": "apps/Old_App", "path.basename": "Old_App", "path.basenameNormalized": "old-app",
        "path[0]": "apps", "path[1]": "Old_App",
    });
    assert_eq!(sets(&mut world(), FLAT, directories(patterns.clone(), json!({}))), [flat]);
    let path = json!({
        "path": "apps/Old_App", "basename": "Old_App", "basenameNormalized": "old-app", "segments": ["apps", "Old_App"],
    });
    assert_eq!(sets(&mut world(), GO, directories(patterns.clone(), json!({}))), [json!({"path": path})]);
    let prefixed = directories(patterns.clone(), json!({"pathParamPrefix": "repo"}));
    assert_eq!(sets(&mut world(), GO, prefixed.clone()), [json!({"repo": {"path": path}})]);
    let flat = &sets(&mut world(), FLAT, prefixed)[0];
    assert_eq!((&flat["repo.path"], &flat["repo.path[1]"]), (&json!("apps/Old_App"), &json!("Old_App")));
    let values = directories(patterns, json!({"values": {"v": "{{ index .path.segments 1 }}"}}));
    assert_eq!(sets(&mut world(), GO, values)[0]["values"], json!({"v": "Old_App"}));
}

#[test]
fn files_are_chosen_by_patterns_of_git() {
    for (patterns, expected) in [
        (&["clusters/*.json"][..], &["config.json"][..]),
        (&["**/config.json"], &["config.json"]),
        (&["*config.json"], &["config.json", "config.json"]),
        (&["clusters/us"], &["empty.yaml", "list.yaml", "list.yaml"]),
        (&["clusters/us/*", "!*/empty.yaml"], &["list.yaml", "list.yaml"]),
        (&["clusters/us/none.yaml"], &[]),
        (&["!config.json"], &[]),
    ] {
        let found = sets(&mut world(), GO, files(patterns));
        let names: Vec<_> = found.iter().map(|set| set["path"]["filename"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{patterns:?}");
    }
}

#[test]
fn objects_in_files_become_parameters() {
    let config = files(&["clusters/eu/prod/config.json"]);
    let path = json!({
        "path": "clusters/eu/prod", "basename": "prod", "basenameNormalized": "prod",
        "segments": ["clusters", "eu", "prod"], "filename": "config.json", "filenameNormalized": "config.json",
    });
    let nested = json!({"cluster": {"name": "eu", "port": 8_080_000}, "path": path, "on": true});
    assert_eq!(sets(&mut world(), GO, config.clone()), [nested]);
    let flat = json!({
        "cluster.name": "eu", "cluster.port": "8080000", "on": "true", "path": "clusters/eu/prod",
        "path.basename": "prod", "path.basenameNormalized": "prod", "path.filename": "config.json",
        "path.filenameNormalized": "config.json", "path[0]": "clusters", "path[1]": "eu", "path[2]": "prod",
    });
    assert_eq!(sets(&mut world(), FLAT, config), [flat]);
    let list = given(&mut world(), GO, &files(&["clusters/us/list.yaml"])).unwrap();
    assert_eq!(list.origins, ["file clusters/us/list.yaml [0]", "file clusters/us/list.yaml [1]"]);
    assert_eq!((&list.sets[0]["name"], &list.sets[1]["name"]), (&json!("a"), &json!("b")));
    let root = &sets(&mut world(), GO, files(&["config.json"]))[0];
    assert_eq!((&root["path"]["path"], &root["path"]["basename"]), (&json!("."), &json!(".")));
    let empty = &sets(&mut world(), GO, files(&["clusters/us/empty.yaml"]))[0];
    assert_eq!(empty.as_object().unwrap().len(), 1, "the parameters of the path alone");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    for (content, words) in [
        ("text", "it is the text \"text\""),
        ("- 3\n", "entry 0 is 3, and no object"),
        ("a: {", "unable to parse file"),
        ("a: b\n---\nc: d\n", "unable to parse file"),
    ] {
        let url = "https://user:hunter2@git.example.com/shop.git";
        let files = BTreeMap::from([("a.yaml", content)]);
        let mut world = Written { files: BTreeMap::from([((url, "main"), files)]), ..Written::default() };
        let entry = json!({"git": {"repoURL": url, "revision": "main", "files": [{"path": "*.yaml"}]}});
        let error = refused(&mut world, GO, entry);
        let place = "generators[0].git: unable to process file 'a.yaml' from repository 'https://git.example.com/shop.git': ";
        assert!(error.starts_with(place) && error.contains(words), "{content}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = refused(&mut Written::default(), GO, files(&["a"]));
    assert_eq!(error, format!("generators[0].git: no {URL}"));
}

/// All files are asked for at once, so that their number is not the number of rounds.
#[test]
fn files_that_are_not_known_yet_are_asked_for_together() {
    let mut world = world();
    world.unknown = BTreeSet::from(["clusters/us/list.yaml", "clusters/us/empty.yaml"]);
    assert_eq!(refused(&mut world, GO, files(&["clusters/us/*"])), "unknown");
    let asked = ["clusters/us/empty.yaml", "clusters/us/list.yaml", "clusters/us/none.yaml"];
    assert_eq!(world.asked[1..], asked);
}
