use super::*;

const URL: &str = "https://git.example.com/shop.git";

fn git_inputs() -> FixedInputs {
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
    FixedInputs { files: BTreeMap::from([((URL, "main"), BTreeMap::from(files))]), ..FixedInputs::default() }
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

/// A folder is selected if it matches at least one pattern and no exclusion.
#[test]
fn folders_are_chosen_by_patterns() {
    for (patterns, expected) in [
        (json!([{"path": "apps/*"}]), &["apps/Old_App", "apps/db", "apps/web"][..]),
        (json!([{"path": "*"}]), &["apps", "clusters"]),
        (json!([{"path": "apps/*/*"}]), &["apps/web/base"]),
        (json!([{"path": "apps/*"}, {"path": "apps/web", "exclude": true}]), &["apps/Old_App", "apps/db"]),
        // An exclusion applies in any position.
        (json!([{"path": "apps/web", "exclude": true}, {"path": "apps/*"}]), &["apps/Old_App", "apps/db"]),
        (json!([{"path": "apps/web"}, {"path": "clusters/??"}]), &["apps/web", "clusters/eu", "clusters/us"]),
        (json!([{"path": "nowhere/*"}]), &[]),
    ] {
        let found =
            parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, directories(patterns.clone(), json!({})));
        let paths: Vec<_> = found.iter().map(|set| set["path"]["path"].as_str().unwrap()).collect();
        assert_eq!(paths, expected, "{patterns}");
    }
    let error =
        error_of(&mut git_inputs(), DEFAULT_OPTIONS, directories(json!([{"path": "apps/["}]), json!({})));
    assert!(error.starts_with("generators[0].git: invalid pattern \"apps/[\""), "{error}");
    let never = directories(json!([{"path": "apps/*/"}]), json!({}));
    let error = error_of(&mut git_inputs(), DEFAULT_OPTIONS, never);
    let expected =
        "generators[0].git: pattern \"apps/*/\" can never match: paths must not end with a slash; use apps/*";
    assert_eq!(error, expected);
    let excluded =
        directories(json!([{"path": "apps/web"}, {"path": ".github", "exclude": true}]), json!({}));
    assert_eq!(
        parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, excluded).len(),
        1,
        "an exclusion of hidden folders is allowed"
    );
    let error = error_of(&mut git_inputs(), DEFAULT_OPTIONS, directories(json!([]), json!({"files": []})));
    assert!(error.contains("neither directories nor files is set"), "{error}");
}

#[test]
fn patterns_that_select_or_exclude_nothing_are_errors() {
    let excluding = |pattern: &str| {
        directories(json!([{"path": "apps/*"}, {"path": pattern, "exclude": true}]), json!({}))
    };
    let selecting = |pattern: &str| directories(json!([{"path": "*"}, {"path": pattern}]), json!({}));
    let only = directories(json!([{"path": "apps/web", "exclude": true}]), json!({}));
    for (entry, said) in [
        (
            selecting("/apps/*"),
            "pattern \"/apps/*\" can never match: paths must not begin with a slash; use apps/*",
        ),
        (
            selecting("apps//web"),
            "pattern \"apps//web\" can never match: paths must not contain an empty segment or the segment \".\"; use apps/web",
        ),
        (
            selecting("apps/[a-z]*/"),
            "pattern \"apps/[a-z]*/\" can never match: paths must not end with a slash; use apps/[a-z]*",
        ),
        (
            excluding("apps/web/"),
            "pattern \"apps/web/\" can never match: paths must not end with a slash; use apps/web",
        ),
        (
            excluding("/apps/web"),
            "pattern \"/apps/web\" can never match: paths must not begin with a slash; use apps/web",
        ),
        (
            files(&["*.yaml", "!/a.yaml"]),
            "pattern \"/a.yaml\" can never match: paths must not begin with a slash; use a.yaml",
        ),
        (
            selecting("apps/* "),
            "invalid pattern \"apps/* \": the pattern begins or ends with a space; use apps/*, or [ ] for a space in a name",
        ),
        (
            excluding(" apps/web"),
            "invalid pattern \" apps/web\": the pattern begins or ends with a space; use apps/web, or [ ] for a space in a name",
        ),
        (
            selecting("apps/{web,db}"),
            "invalid pattern \"apps/{web,db}\": braces have no special meaning here; use one entry for each alternative, or [{] for a brace in a name",
        ),
        (
            excluding("./apps/*"),
            "every path in directories is also excluded by an entry with exclude: true, so no path is selected; for each path, remove one of the two entries",
        ),
        (
            files(&["!*.json", "a.yaml", "*.json", "!a.yaml"]),
            "every path in files is also excluded by an entry with exclude: true, so no path is selected; for each path, remove one of the two entries",
        ),
        (
            only,
            "every entry in directories has exclude: true, so no path is selected; add an entry without \
             exclude, such as path: \"*\"",
        ),
        (
            files(&["!config.json"]),
            "every entry in files has exclude: true, so no path is selected; add an entry without exclude, \
             such as path: \"*\"",
        ),
    ] {
        let mut inputs = git_inputs();
        assert_eq!(error_of(&mut inputs, DEFAULT_OPTIONS, entry), format!("generators[0].git: {said}"));
        assert_eq!(inputs.requests, [""; 0], "these patterns are errors for any repository");
    }
}

#[test]
fn a_path_becomes_parameters() {
    let patterns = json!([{"path": "apps/Old_App"}]);
    let flat = json!({
        "path": "apps/Old_App", "path.basename": "Old_App", "path.basenameNormalized": "old-app",
        "path[0]": "apps", "path[1]": "Old_App",
    });
    assert_eq!(
        parameters_of(&mut git_inputs(), NO_OPTIONS, directories(patterns.clone(), json!({}))),
        [flat]
    );
    let path = json!({
        "path": "apps/Old_App", "basename": "Old_App", "basenameNormalized": "old-app", "segments": ["apps", "Old_App"],
    });
    assert_eq!(
        parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, directories(patterns.clone(), json!({}))),
        [json!({"path": path})]
    );
    let prefixed = directories(patterns.clone(), json!({"pathParamPrefix": "repo"}));
    assert_eq!(
        parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, prefixed.clone()),
        [json!({"repo": {"path": path}})]
    );
    let flat = &parameters_of(&mut git_inputs(), NO_OPTIONS, prefixed)[0];
    assert_eq!((&flat["repo.path"], &flat["repo.path[1]"]), (&json!("apps/Old_App"), &json!("Old_App")));
    let values = directories(patterns, json!({"values": {"v": "{{ index .path.segments 1 }}"}}));
    assert_eq!(
        parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, values)[0]["values"],
        json!({"v": "Old_App"})
    );
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
    ] {
        let found = parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, files(patterns));
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
    assert_eq!(parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, config.clone()), [nested]);
    let flat = json!({
        "cluster.name": "eu", "cluster.port": "8080000", "on": "true", "path": "clusters/eu/prod",
        "path.basename": "prod", "path.basenameNormalized": "prod", "path.filename": "config.json",
        "path.filenameNormalized": "config.json", "path[0]": "clusters", "path[1]": "eu", "path[2]": "prod",
    });
    assert_eq!(parameters_of(&mut git_inputs(), NO_OPTIONS, config), [flat]);
    let list = output_of(&mut git_inputs(), DEFAULT_OPTIONS, &files(&["clusters/us/list.yaml"])).unwrap();
    assert_eq!(list.origins, ["file clusters/us/list.yaml [0]", "file clusters/us/list.yaml [1]"]);
    assert_eq!((&list.sets[0]["name"], &list.sets[1]["name"]), (&json!("a"), &json!("b")));
    let root = &parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, files(&["config.json"]))[0];
    assert_eq!((&root["path"]["path"], &root["path"]["basename"]), (&json!("."), &json!(".")));
    let empty = &parameters_of(&mut git_inputs(), DEFAULT_OPTIONS, files(&["clusters/us/empty.yaml"]))[0];
    assert_eq!(empty.as_object().unwrap().len(), 1, "only the parameters for the path");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    for (content, words) in [
        ("text", "the content must be an object or a list of objects, found the string \"text\""),
        ("- 3\n", "entry 0 must be an object, found 3"),
        ("a: {", "unable to parse file"),
        ("a: b\n---\nc: d\n", "unable to parse file"),
    ] {
        let url = "https://user:hunter2@git.example.com/shop.git";
        let files = BTreeMap::from([("a.yaml", content)]);
        let mut world =
            FixedInputs { files: BTreeMap::from([((url, "main"), files)]), ..FixedInputs::default() };
        let entry = json!({"git": {"repoURL": url, "revision": "main", "files": [{"path": "*.yaml"}]}});
        let error = error_of(&mut world, DEFAULT_OPTIONS, entry);
        let place = "generators[0].git: unable to process file 'a.yaml' from repository 'https://git.example.com/shop.git': ";
        assert!(error.starts_with(place) && error.contains(words), "{content}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = error_of(&mut FixedInputs::default(), DEFAULT_OPTIONS, files(&["a"]));
    assert_eq!(error, format!("generators[0].git: no {URL}"));
}

/// All files are requested at once, so the number of runs doesn't depend on the number of files.
#[test]
fn files_that_are_not_available_yet_are_requested_together() {
    let mut world = git_inputs();
    world.unavailable = BTreeSet::from(["clusters/us/list.yaml", "clusters/us/empty.yaml"]);
    assert_eq!(error_of(&mut world, DEFAULT_OPTIONS, files(&["clusters/us/*"])), "unknown");
    let asked = ["clusters/us/empty.yaml", "clusters/us/list.yaml", "clusters/us/none.yaml"];
    assert_eq!(world.requests[1..], asked);
}
