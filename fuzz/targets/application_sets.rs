//! Fuzz target for ApplicationSets. Generates the Applications from fixed responses to every generator, and
//! calculates the resulting actions.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tidegate_applicationset::change_preview::preview_appset;
use tidegate_applicationset::rollout::{self, TargetIdentities};
use tidegate_applicationset::{changes, deletion_limit, deletion_order, ignored, requeue};
use tidegate_fuzz::checks::check_generation;
use tidegate_fuzz::document;
use tidegate_generate::{
    Branch, Cluster, Decisions, GenerateOutcome, GeneratorInputs, GitTree, Options, PullRequest, Reply,
};
use tidegate_model::argo::{
    ApplicationSet, ClusterDecisionResourceGenerator, PluginGenerator, PullRequestGenerator, ScmGenerator,
};

/// Generator inputs that return the same response to every request.
struct FixedInputs;

impl GeneratorInputs for FixedInputs {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        let cluster = |name: &str, env: &str| Cluster {
            name: name.to_owned(),
            server: format!("https://{name}.example.com"),
            labels: BTreeMap::from([("env".to_owned(), env.to_owned())]),
            ..Cluster::default()
        };
        Ok(Some(Arc::new(vec![cluster("a", "dev"), cluster("b.c", "")])))
    }

    fn git_tree(&mut self, _: &str, _: &str) -> Reply<Arc<GitTree>> {
        let files = ["apps/a/b.yaml", "apps/c/d.json", "apps/ü/e f.yaml", "x"].map(str::to_owned);
        Ok(Some(Arc::new(GitTree { commit: "0123".to_owned(), files: BTreeSet::from(files) })))
    }

    fn git_file(&mut self, _: &str, _: &str, path: &str) -> Reply<Arc<str>> {
        let text = match path {
            "x" => "- {name: b, deep: {er: [1, 2.5, null]}}\n- {name: c}\n",
            _ => r#"{"name": "a", "deep": {"er": true}, "n": 3}"#,
        };
        Ok(Some(Arc::from(text)))
    }

    fn decisions(&mut self, _: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        let resources = BTreeMap::from([("a".to_owned(), json!({"clusters": [{"clusterName": "a"}, 1]}))]);
        let match_key = "clusterName".to_owned();
        Ok(Some(Arc::new(Decisions { status_list_key: "clusters".to_owned(), match_key, resources })))
    }

    fn plugin(&mut self, _: &PluginGenerator) -> Reply<Arc<Value>> {
        Ok(Some(Arc::new(json!({"output": {"parameters": [{"name": "a", "deep": {"er": ["b"]}}, {}]}}))))
    }

    fn branches(&mut self, _: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        let branch = |branch: &str| Branch {
            organization: "org".to_owned(),
            repository: "shop".to_owned(),
            branch: branch.to_owned(),
            sha: "0123456789abcdef".to_owned(),
            labels: vec!["a".to_owned()],
            paths: paths.iter().take(1).cloned().collect(),
            ..Branch::default()
        };
        Ok(Some(Arc::new(vec![branch("main"), branch("Feature/ü_1")])))
    }

    fn pull_requests(&mut self, _: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let request = |number, branch: &str| PullRequest {
            number,
            branch: branch.to_owned(),
            target_branch: "main".to_owned(),
            head_sha: "0".to_owned(),
            ..PullRequest::default()
        };
        Ok(Some(Arc::new(vec![request(1, "a"), request(u64::MAX, "B/💥")])))
    }
}

fuzz_target!(|input: &[u8]| {
    let Some(document) = document(input) else { return };
    let Ok(set) = serde_json::from_value::<ApplicationSet>(document) else { return };
    let written = serde_json::to_value(&set).expect("an ApplicationSet is serializable");
    let again: ApplicationSet = serde_json::from_value(written).expect("serialized data is readable");
    assert_eq!(again, set, "serialization round-trips");
    set.unknown_fields();
    for new_globbing in [true, false] {
        let options = Options { new_globbing, now: Some(0) };
        if let Some(GenerateOutcome::Done(done)) = check_generation(&set, &mut FixedInputs, &options) {
            act(&set, done);
        }
    }
});

/// Calculates the actions for two cases: no generated Application exists yet, and all of them exist.
fn act(set: &ApplicationSet, done: tidegate_generate::GenerateOutput) {
    let options = tidegate_applicationset::sync_policy::AppSetRuleOptions::default();
    let applications =
        done.applications.into_iter().map(|one| (one.application.metadata.name.clone(), one.application));
    let generated = changes::AppSetOutput { applications: applications.collect(), ..Default::default() };
    let first = preview_appset(set, &generated, &[], &BTreeMap::new(), &options);
    assert_eq!(
        first.members.len(),
        generated.applications.len(),
        "each Application has an action or a reason"
    );
    let existing: Vec<_> = generated.applications.values().cloned().collect();
    preview_appset(set, &generated, &existing, &BTreeMap::new(), &options);
    drop((deletion_order::deletion_order(set), deletion_limit::max_deletions(set)));
    ignored::ignored_settings(set, &options);
    requeue::uses_clusters(set);
    let Ok(targets) = TargetIdentities::from_appset(set) else { return };
    let standing = generated.applications.keys().map(|name| (name.clone(), rollout::KnownMember::default()));
    drop(rollout::rollout_request(
        set,
        &targets,
        &existing,
        &standing.collect(),
        tidegate_lifecycle::rollout::Options::default(),
    ));
}
