//! Tests for generators that query clusters, plugins and SCM providers.

use tidegate_model::argo::LabelSelector;

use super::*;

fn cluster(name: &str, server: &str, labels: &[(&str, &str)]) -> Cluster {
    let texts =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Cluster {
        name: name.to_owned(),
        server: server.to_owned(),
        project: String::new(),
        labels: texts(labels),
        annotations: texts(&[]),
    }
}

fn inputs_with_clusters() -> FixedInputs {
    let mut prod = cluster("Prod_1", "https://prod.example.com", &[("env", "prod"), ("a.io/zone", "b")]);
    prod.project = "shop".to_owned();
    prod.annotations.insert("note".to_owned(), "n".to_owned());
    let qa = cluster("qa", "https://qa.example.com", &[]);
    FixedInputs { clusters: vec![qa, prod], ..FixedInputs::default() }
}

/// The parameter sets of the clusters generator are sorted by the name of the cluster.
#[test]
fn clusters_are_sets_in_the_order_of_their_names() {
    let local = json!({
        "name": "in-cluster", "nameNormalized": "in-cluster", "server": "https://kubernetes.default.svc", "project": "",
    });
    let qa = json!({"name": "qa", "nameNormalized": "qa", "server": "https://qa.example.com", "project": ""});
    let flat = json!({
        "name": "Prod_1", "nameNormalized": "prod-1", "server": "https://prod.example.com", "project": "shop",
        "metadata.labels.env": "prod", "metadata.labels.a.io/zone": "b", "metadata.annotations.note": "n",
    });
    let nested = json!({
        "name": "Prod_1", "nameNormalized": "prod-1", "server": "https://prod.example.com", "project": "shop",
        "metadata": {"labels": {"env": "prod", "a.io/zone": "b"}, "annotations": {"note": "n"}},
    });
    let mut world = inputs_with_clusters();
    assert_eq!(
        parameters_of(&mut world, NO_OPTIONS, json!({"clusters": {}})),
        [flat, local.clone(), qa.clone()]
    );
    assert_eq!(
        parameters_of(&mut world, DEFAULT_OPTIONS, json!({"clusters": {}})),
        [nested.clone(), local.clone(), qa]
    );
    let prod = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    assert_eq!(
        parameters_of(&mut world, DEFAULT_OPTIONS, prod),
        [nested],
        "with a selector, the local cluster needs matching labels"
    );
    assert_eq!(parameters_of(&mut FixedInputs::default(), DEFAULT_OPTIONS, json!({"clusters": {}})), [local]);
}

#[test]
fn the_local_cluster_is_there_once() {
    let mut world = inputs_with_clusters();
    world.clusters.push(cluster("home", "https://kubernetes.default.svc", &[]));
    world.clusters.push(cluster("qa", "https://qa2.example.com", &[]));
    assert_eq!(
        values(&mut world, DEFAULT_OPTIONS, json!({"clusters": {}}), "name"),
        ["Prod_1", "home", "qa"]
    );
}

#[test]
fn values_are_rendered_once_and_independently() {
    let mut world = inputs_with_clusters();
    let entry =
        |values: Value| json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}, "values": values}});
    let values = json!({"a": "{{name}}-{{missing}}", "b": "{{values.a}}", "c": "{{ metadata.labels.env }}"});
    let set = &parameters_of(&mut world, NO_OPTIONS, entry(values))[0];
    assert_eq!(set["values.a"], "Prod_1-{{missing}}");
    assert_eq!(set["values.b"], "{{values.a}}");
    assert_eq!(set["values.c"], "prod");
    let values = json!({"a": "{{ .name }}-{{ .missing }}", "b": "{{ .values }}", "c": "{{ .metadata.labels.env | upper }}"});
    let set = &parameters_of(&mut world, DEFAULT_OPTIONS, entry(values.clone()))[0];
    assert_eq!(set["values"], json!({"a": "Prod_1-<no value>", "b": "<no value>", "c": "PROD"}));
    let error = error_of(&mut world, STRICT_OPTIONS, entry(values));
    assert!(
        error.starts_with("generators[0].clusters, cluster Prod_1, values.a: failed to execute go template")
            && error.contains("map has no entry for key \"missing\""),
        "{error}"
    );
}

#[test]
fn a_flat_list_is_one_set() {
    let mut world = inputs_with_clusters();
    let entry = json!({"clusters": {"flatList": true, "values": {"v": "{{ .name }}"}}});
    let sets = parameters_of(&mut world, DEFAULT_OPTIONS, entry);
    assert_eq!(sets.len(), 1);
    let all = sets[0]["clusters"].as_array().unwrap();
    let names: Vec<_> =
        all.iter().map(|one| (one["name"].as_str().unwrap(), one["values"]["v"].as_str().unwrap())).collect();
    assert_eq!(names, [("Prod_1", "Prod_1"), ("in-cluster", "in-cluster"), ("qa", "qa")]);
}

/// The status of the resources selects among the declared clusters.
#[test]
fn resources_decide_for_clusters() {
    let decision = |status: Value| FixedInputs {
        decisions: Some(Decisions {
            status_list_key: "decisions".to_owned(),
            match_key: "clusterName".to_owned(),
            resources: BTreeMap::from([("quak".to_owned(), status)]),
        }),
        ..inputs_with_clusters()
    };
    let entry = |fields: Value| {
        let mut entry = json!({"configMapRef": "placement", "values": {"v": "{{name}}"}});
        entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"clusterDecisionResource": entry})
    };
    let by_name = || entry(json!({"name": "quak"}));
    let mut world = decision(json!({"decisions": [
        {"clusterName": "qa", "weight": 0, "reason": ""}, {"clusterName": "unheard-of"}, {"clusterName": "Prod_1"},
        {"other": "qa"},
    ]}));
    let qa = json!({
        "clusterName": "qa", "weight": "0", "reason": "", "name": "qa", "server": "https://qa.example.com",
        "values.v": "{{name}}",
    });
    let found = parameters_of(&mut world, NO_OPTIONS, by_name());
    assert_eq!(found[0], qa);
    assert_eq!(found.len(), 2);
    assert_eq!(
        parameters_of(&mut world, DEFAULT_OPTIONS, by_name())[1]["values"],
        json!({"v": "{{name}}"}),
        "values of this generator are not rendered"
    );
    for status in [json!({}), json!(null), json!({"decisions": []})] {
        assert_eq!(
            parameters_of(&mut decision(status.clone()), NO_OPTIONS, by_name()),
            Vec::<Value>::new(),
            "{status}"
        );
    }
    let error = error_of(&mut decision(json!({"other": []})), NO_OPTIONS, by_name());
    assert!(error.contains("the status of quak has no list \"decisions\""), "{error}");
    let selector: Value = serde_json::to_value(LabelSelector::default()).unwrap();
    for fields in [json!({}), json!({"name": "quak", "labelSelector": selector})] {
        let error = error_of(&mut world, NO_OPTIONS, entry(fields));
        assert!(
            error.contains("there is a problem with the definition of the ClusterDecisionResource generator")
        );
    }
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, entry(json!({"labelSelector": selector}))).len(), 2);
    let mut none = FixedInputs { decisions: Some(Decisions::default()), ..inputs_with_clusters() };
    assert!(error_of(&mut none, NO_OPTIONS, by_name()).ends_with("no clusterDecisionResources found"));
    assert_eq!(
        error_of(&mut inputs_with_clusters(), NO_OPTIONS, by_name()),
        "unknown",
        "the data is not available yet"
    );
}

/// The response of a plugin contains the parameter sets.
#[test]
fn plugins_answer_with_sets() {
    let entry = json!({"plugin": {
        "configMapRef": {"name": "my-plugin"}, "input": {"parameters": {"key": ["x", 1]}}, "values": {"v": "{{ .a }}"},
    }});
    let answer = |parameters: Value| FixedInputs {
        plugin_response: Some(json!({"output": {"parameters": parameters}})),
        ..FixedInputs::default()
    };
    let mut world = answer(json!([{"a": "b", "n": 1, "deep": {"c": [true]}}]));
    assert_eq!(
        parameters_of(&mut world, DEFAULT_OPTIONS, entry.clone()),
        [json!({
            "a": "b", "n": 1, "deep": {"c": [true]}, "generator": {"input": {"parameters": {"key": ["x", 1]}}},
            "values": {"v": "b"},
        })]
    );
    assert_eq!(world.requests, [r#"{"key":["x",1]}"#]);
    assert_eq!(
        parameters_of(&mut world, NO_OPTIONS, entry.clone()),
        [json!({
            "a": "b", "n": "1", "deep.c.0": "true", "generator.input.parameters.key.0": "x",
            "generator.input.parameters.key.1": "1", "values.v": "{{ .a }}",
        })]
    );
    assert_eq!(
        parameters_of(&mut answer(json!([])), DEFAULT_OPTIONS, entry.clone()),
        Vec::<Value>::new(),
        "every response is handled"
    );
    for wrong in [json!({}), json!({"output": {}}), json!({"output": {"parameters": {}}}), json!("no")] {
        let mut world = FixedInputs { plugin_response: Some(wrong.clone()), ..FixedInputs::default() };
        let error = error_of(&mut world, DEFAULT_OPTIONS, entry.clone());
        assert!(
            error.starts_with(
                "generators[0].plugin: error listing params: error get api 'set': output.parameters"
            ),
            "{wrong}: {error}"
        );
    }
    let error = error_of(&mut answer(json!([{}, 3])), DEFAULT_OPTIONS, entry);
    assert!(error.contains("entry 1 of output.parameters must be an object, found 3"), "{error}");
}

fn branch(repository: &str, branch: &str, labels: &[&str], paths: &[&str]) -> Branch {
    Branch {
        organization: "shop".to_owned(),
        repository: repository.to_owned(),
        repository_id: "7".to_owned(),
        url: format!("https://git.example.com/shop/{repository}.git"),
        branch: branch.to_owned(),
        sha: "0123456789abcdef".to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    }
}

/// The parameter set of a branch contains the fields of the branch and its repository.
#[test]
fn branches_are_sets_with_what_is_known_of_them() {
    let mut world =
        FixedInputs { branches: vec![branch("web", "feat/A", &["x", "y"], &[])], ..FixedInputs::default() };
    let entry = json!({"scmProvider": {"github": {"organization": "shop"}, "values": {"v": "{{branch}}"}}});
    let expected = json!({
        "organization": "shop", "repository": "web", "repository_id": "7",
        "url": "https://git.example.com/shop/web.git", "branch": "feat/A", "branchNormalized": "feat-a",
        "sha": "0123456789abcdef", "short_sha": "01234567", "short_sha_7": "0123456", "labels": "x,y",
        "values.v": "feat/A",
    });
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, entry), [expected]);
}

#[test]
fn repository_and_branch_filters_must_both_match() {
    let branches = vec![
        branch("web", "main", &["deploy"], &["k8s"]),
        branch("web", "feature", &["deploy"], &[]),
        branch("db", "main", &["deploy-late"], &["k8s", "old"]),
        branch("docs", "main", &[], &["k8s"]),
    ];
    for (filters, expected) in [
        (json!([]), &["db main", "docs main", "web feature", "web main"][..]),
        (json!([{"repositoryMatch": "^web$"}]), &["web feature", "web main"]),
        (
            json!([{"repositoryMatch": "eb"}, {"repositoryMatch": "db"}]),
            &["db main", "web feature", "web main"],
        ),
        (json!([{"repositoryMatch": "web", "labelMatch": "late"}]), &[]),
        (json!([{"labelMatch": "deploy$"}]), &["web feature", "web main"]),
        (json!([{"branchMatch": "main"}]), &["db main", "docs main", "web main"]),
        (json!([{"pathsExist": ["k8s", "old"]}]), &["db main"]),
        (json!([{"pathsExist": ["k8s"], "pathsDoNotExist": ["old"]}]), &["docs main", "web main"]),
        (json!([{"pathsDoNotExist": ["k8s"]}]), &["web feature"]),
        // There is a filter for repositories and a filter for branches, so both must match.
        (json!([{"repositoryMatch": "web"}, {"branchMatch": "main"}]), &["web main"]),
        (json!([{"repositoryMatch": "web"}, {"repositoryMatch": "db", "branchMatch": "main"}]), &[]),
    ] {
        let mut world = FixedInputs { branches: branches.clone(), ..FixedInputs::default() };
        let entry = json!({"scmProvider": {"github": {"organization": "shop"}, "filters": filters}});
        let found = parameters_of(&mut world, NO_OPTIONS, entry);
        let names: Vec<_> = found
            .iter()
            .map(|set| format!("{} {}", set["repository"].as_str().unwrap(), set["branch"].as_str().unwrap()))
            .collect();
        assert_eq!(names, expected, "{filters}");
    }
    let mut world = FixedInputs { branches, ..FixedInputs::default() };
    let entry = json!({"scmProvider": {"filters": [{"pathsExist": ["a"], "pathsDoNotExist": ["b"]}, {"pathsExist": ["c"]}]}});
    parameters_of(&mut world, NO_OPTIONS, entry);
    assert_eq!(world.requests, ["a", "b", "c"], "the inputs receive the paths from all filters");
    let error = error_of(&mut world, NO_OPTIONS, json!({"scmProvider": {"filters": [{"branchMatch": "("}]}}));
    assert!(
        error.starts_with("generators[0].scmProvider: invalid regular expression \"(\" in branchMatch"),
        "{error}"
    );
}

fn request(number: u64, branch: &str, title: &str) -> PullRequest {
    PullRequest {
        number,
        title: title.to_owned(),
        branch: branch.to_owned(),
        target_branch: "release_1".to_owned(),
        head_sha: "fedcba9876543210".to_owned(),
        author: "ann".to_owned(),
        labels: vec!["preview".to_owned()],
    }
}

/// The parameter sets of pull requests are sorted by number.
#[test]
fn pull_requests_are_sets_in_the_order_of_their_numbers() {
    let requests = vec![request(12, "feat/Shop_Window", "Window"), request(3, "fix", "Fix")];
    let mut world = FixedInputs { pull_requests: Some(requests), ..FixedInputs::default() };
    let entry = |fields: Value| {
        let mut entry = json!({"github": {"owner": "shop", "repo": "web"}});
        entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"pullRequest": entry})
    };
    let mut expected = json!({
        "number": "12", "title": "Window", "branch": "feat/Shop_Window", "branch_slug": "feat-shop-window",
        "target_branch": "release_1", "target_branch_slug": "release-1", "head_sha": "fedcba9876543210",
        "head_short_sha": "fedcba98", "head_short_sha_7": "fedcba9", "author": "ann",
    });
    assert_eq!(parameters_of(&mut world, NO_OPTIONS, entry(json!({})))[1], expected);
    expected["labels"] = json!(["preview"]);
    assert_eq!(parameters_of(&mut world, DEFAULT_OPTIONS, entry(json!({})))[1], expected);
    for (filters, numbers) in [
        (json!([{"branchMatch": "^feat"}]), &["12"][..]),
        (json!([{"branchMatch": "^feat", "titleMatch": "Fix"}]), &[]),
        (json!([{"branchMatch": "^feat"}, {"titleMatch": "Fix"}]), &["3", "12"]),
        (json!([{"targetBranchMatch": "release"}]), &["3", "12"]),
        (json!([{"targetBranchMatch": "^main$"}]), &[]),
    ] {
        assert_eq!(
            values(&mut world, NO_OPTIONS, entry(json!({"filters": filters})), "number"),
            numbers,
            "{filters}"
        );
    }
}

/// If the repository is missing, the generator is reported as skipped so that the caller keeps its
/// Applications.
#[test]
fn a_missing_repository_is_an_error_or_skipped() {
    let mut world = FixedInputs::default();
    let github = json!({"owner": "shop", "repo": "web"});
    let error = error_of(&mut world, NO_OPTIONS, json!({"pullRequest": {"github": github}}));
    assert_eq!(error, "generators[0].pullRequest: there is no repository web");
    let entry = json!({"pullRequest": {"github": github, "continueOnRepoNotFoundError": true}});
    let given = output_of(&mut world, NO_OPTIONS, &entry).unwrap();
    assert_eq!(given.sets, Vec::<Value>::new());
    assert_eq!(given.skipped.len(), 1);
    assert_eq!(given.skipped[0].place.to_string(), "generators[0].pullRequest");
    assert_eq!(given.skipped[0].reason, "there is no repository web");
}
