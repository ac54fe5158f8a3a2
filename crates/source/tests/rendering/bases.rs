//! Tests for remote bases and files of kustomizations. Tidegate fetches them, and the real Kustomize renders
//! them without network access. The expected result is Kustomize's output with all files in one repository.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{
    AllowedSources, DependencyFetcher, RemoteAccess, Repositories, RequiredKeys, commit_folder,
};
use tidegate_testkit::git::{self, GitServer, RequestKind, ServerBehavior};
use tidegate_testkit::tools;
use tidegate_testkit::web::{Page, WebServer};

use crate::fixture::{RenderFixture, source};

const DEPLOYMENT: &str =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 1}\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n";
const COMPONENT: &str =
    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {tls: 'on'}\n";

/// The local repository, and servers with remote bases and files.
struct RemoteBaseFixture {
    bench: RenderFixture,
    git: GitServer,
    web: WebServer,
    repositories: Arc<Repositories>,
}

impl RemoteBaseFixture {
    fn new() -> Option<Self> {
        let mut bench = RenderFixture::new();
        bench.making.tools.kustomize = Some(tools::kustomize()?);
        if !git::is_available() {
            return None;
        }
        fs::create_dir(bench.path("root")).unwrap();
        let git = GitServer::start(&bench.path("root"));
        let repositories = Arc::new(Repositories::new(RemoteAccess::new(bench.path("mirrors"))));
        let mut stage = Self { bench, git, web: WebServer::start(), repositories };
        stage.allow(&["http://127.0.0.1"]);
        for (file, content) in [
            ("app/kustomization.yaml", "resources: [deployment.yaml, ../shared]\n"),
            ("app/deployment.yaml", DEPLOYMENT),
            ("shared/kustomization.yaml", "resources: [map.yaml]\n"),
            ("shared/map.yaml", MAP),
            ("tls/kustomization.yaml", COMPONENT),
        ] {
            stage.bench.write(&format!("root/base/{file}"), content);
        }
        stage.commit("base");
        stage.run("base", &["tag", "v1"]);
        Some(stage)
    }

    /// Allows these URL prefixes. Adds the ports of the test servers to prefixes that end with `127.0.0.1`.
    fn allow(&mut self, prefixes: &[&str]) {
        self.allow_with(prefixes, |_| Ok(()), None);
    }

    fn allow_with(
        &mut self,
        prefixes: &[&str],
        permits: fn(&str) -> Result<(), String>,
        signed: Option<(RequiredKeys, Timestamp)>,
    ) {
        let port = |server: &str| server.rsplit(':').next().unwrap().trim_matches('/').to_owned();
        let ports = [port(&self.git.url("")), port(&self.web.host())];
        let with_ports = prefixes.iter().flat_map(|prefix| {
            let all = ports.iter().map(|port| format!("{prefix}:{port}")).collect::<Vec<_>>();
            if prefix.ends_with("127.0.0.1") { all } else { vec![(*prefix).to_owned()] }
        });
        let bases = with_ports.map(|prefix| prefix.parse().unwrap()).collect();
        let allowed = Arc::new(AllowedSources { bases, ..AllowedSources::default() });
        let fetching = DependencyFetcher::new(
            Arc::clone(&self.repositories),
            allowed,
            String::new(),
            Arc::new(permits),
            signed,
        );
        self.bench.making.dependencies = Some(Arc::new(fetching));
    }

    fn root(&self, repository: &str) -> PathBuf {
        self.bench.path("root").join(repository)
    }

    fn commit(&self, repository: &str) -> String {
        commit_folder(&self.root(repository), "change", 1_795_253_400).unwrap().unwrap()
    }

    fn run(&self, repository: &str, arguments: &[&str]) {
        let ran = Command::new("git").arg("-C").arg(self.root(repository)).args(arguments).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    fn base(&self, rest: &str) -> String {
        format!("{}{rest}", self.git.url("base"))
    }

    /// Writes the kustomization of the local repository and commits it.
    fn write(&self, kustomization: &str) {
        self.bench.write("repo/overlay/kustomization.yaml", kustomization);
        let _ = commit_folder(&self.bench.path("repo"), "change", 1_795_253_400).unwrap();
    }

    fn objects(&self, kustomization: &str) -> Vec<Value> {
        self.write(kustomization);
        self.bench.objects(&overlay()).unwrap_or_else(|error| panic!("{kustomization}: {error}"))
    }

    fn error(&self, kustomization: &str) -> String {
        self.write(kustomization);
        let error = self.bench.error(&overlay());
        assert!(!error.contains("hunter2"), "{error}");
        error
    }

    fn key(&self) -> tidegate_model::Digest {
        self.bench.locate(&overlay()).unwrap().key
    }

    /// Observes all used repositories. Returns true for each repository that has changed.
    fn observe(&self) -> Vec<bool> {
        self.repositories.open_sources().iter().map(|known| known.observe_availability()).collect()
    }
}

fn overlay() -> ApplicationSource {
    source(json!({"repoURL": "./repo", "path": "overlay"}))
}

#[test]
fn a_remote_base_is_built_like_a_local_one() {
    let Some(stage) = RemoteBaseFixture::new() else { return };
    // The local repository contains a copy of the bases.
    let copy = Command::new("cp").arg("-r").arg(stage.root("base")).arg(stage.bench.path("repo")).status();
    assert!(copy.unwrap().success());
    fs::remove_dir_all(stage.bench.path("repo/.git")).unwrap();
    // A base may refer to a base in another repository.
    let nested = format!("namePrefix: deep-\nresources: ['{}']\n", stage.base("//app?ref=main"));
    stage.bench.write("root/nested/deep/er/kustomization.yaml", &nested);
    stage.commit("nested");
    stage.bench.write("repo/deep/kustomization.yaml", "namePrefix: deep-\nresources: [../app]\n");
    let url = |rest: &str| stage.base(rest);
    let nested = stage.git.url("nested");
    for (remote, local) in [
        (format!("resources: ['{}']", url("//app?ref=v1")), "resources: [../app]".to_owned()),
        (format!("resources: ['{}']", url("//app")), "resources: [../app]".to_owned()),
        (format!("resources: ['git::{}']", url("//app?ref=main")), "resources: [../app]".to_owned()),
        (
            format!("bases: ['{}']\nnamePrefix: x-", url("//app?version=v1")),
            "bases: [../app]\nnamePrefix: x-".to_owned(),
        ),
        (
            format!("resources: ['{}']\ncomponents: ['{}']", url("//app?ref=v1"), url("//tls?ref=v1")),
            "resources: [../app]\ncomponents: [../tls]".to_owned(),
        ),
        (format!("resources: ['{nested}//deep/er?ref=main']"), "resources: [../deep]".to_owned()),
        (
            format!(
                "resources: ['{}', own.yaml]\nimages: [{{name: a, newTag: '2'}}]",
                url("//shared?ref=v1")
            ),
            "resources: [../shared, own.yaml]\nimages: [{name: a, newTag: '2'}]".to_owned(),
        ),
    ] {
        stage.bench.write("repo/overlay/own.yaml", DEPLOYMENT);
        let built = stage.objects(&remote);
        assert!(!built.is_empty());
        assert_eq!(built, stage.objects(&local), "{remote}");
    }
    // The source itself may add a remote component.
    stage.write("resources: [../app]\n");
    let mut said = overlay();
    said.kustomize = serde_json::from_value(json!({"components": [url("//tls?ref=v1")]})).unwrap();
    let built = stage.bench.objects(&said).unwrap();
    assert!(built.iter().all(|one| one["metadata"]["annotations"]["tls"] == "on"), "{built:?}");
}

#[test]
fn a_moved_base_is_observed_with_one_request() {
    let Some(stage) = RemoteBaseFixture::new() else { return };
    let entries = |one: &str, other: &str| {
        format!(
            "resources: ['{}', '{}']\n",
            stage.base(&format!("//app{one}")),
            stage.base(&format!("//tls{other}"))
        )
    };
    stage.bench.write("root/base/tls/kustomization.yaml", "namePrefix: t-\nresources: [../shared]\n");
    stage.commit("base");
    stage.objects(&format!("resources: ['{}']\n", stage.base("//app?ref=v1")));
    let fixed = stage.key();
    let built = stage.objects(&entries("?ref=main", "?ref=main"));
    assert_eq!(built.len(), 3);
    let (key, _) = (stage.key(), stage.git.request_kinds());
    assert_eq!(stage.observe(), [false], "no ref has changed");
    assert_eq!(stage.git.request_kinds(), [RequestKind::Refs], "one request for all bases of a repository");
    // The key must not change if only unused files change.
    stage.bench.write("root/base/elsewhere/a.yaml", MAP);
    stage.commit("base");
    assert_eq!((stage.observe(), stage.key()), (vec![true], key));
    stage.bench.write("root/base/app/deployment.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 2"));
    stage.commit("base");
    assert_eq!(stage.key(), key, "the latest observation determines the key");
    assert_eq!(stage.observe(), [true]);
    assert_ne!(stage.key(), key);
    assert_eq!(
        stage.bench.objects(&overlay()).unwrap().iter().filter(|one| one["spec"]["replicas"] == 2).count(),
        1
    );
    stage.write(&format!("resources: ['{}']\n", stage.base("//app?ref=v1")));
    assert_eq!(stage.key(), fixed, "a tag still refers to the same commit");
    stage.run("base", &["branch", "v1", "main"]);
    assert_eq!(
        (stage.observe(), stage.key()),
        (vec![true], fixed),
        "a tag takes precedence over a branch with the same name"
    );
    // A base is used even if it can't be resolved, so its repository is observed.
    let used = || stage.bench.making.dependencies.as_ref().unwrap().used_dependencies();
    stage.write(&format!("resources: ['{}']\n", stage.base("//app?ref=none")));
    assert!(stage.bench.locate(&overlay()).is_err());
    assert!(used().iter().any(|used| used.source.target_revision == "none"), "{:?}", used());
}

#[test]
fn remote_files_are_resources() {
    let Some(stage) = RemoteBaseFixture::new() else { return };
    let page =
        |content: &str| Page { etag: Some(format!("\"{}\"", content.len())), ..Page::with_body(content) };
    stage.web.add_page("/a.yaml", page(MAP));
    let url = stage.web.url("/a.yaml");
    let built = stage.objects(&format!("namePrefix: x-\nresources: ['{url}']\n"));
    assert_eq!(built.iter().map(|one| one["metadata"]["name"].clone()).collect::<Vec<_>>(), ["x-shared"]);
    let key = stage.key();
    assert_eq!(stage.web.requested_paths().len(), 1, "the file is requested once");
    assert_eq!(stage.observe(), [false]);
    stage.web.add_page("/a.yaml", page(&MAP.replace("shared", "other")));
    assert_eq!((stage.observe(), stage.key() == key), (vec![true], false));
    stage.web.add_page("/a.yaml", Page { is_endless: true, ..Page::default() });
    assert_eq!(stage.observe(), [true]);
    assert!(stage.error(&format!("resources: ['{url}']")).contains("response is too large"));
    stage.web.add_page("/a.yaml", Page { status: 404, ..Page::default() });
    stage.observe();
    assert!(stage.error(&format!("resources: ['{url}']")).contains("404"));
    let error = stage.error(&format!("resources: ['{url}?token=hunter2']"));
    assert!(error.contains("with a query"), "{error}");
}

#[test]
fn only_allowed_addresses_are_fetched() {
    let Some(mut stage) = RemoteBaseFixture::new() else { return };
    let kustomization = format!("resources: ['{}']\n", stage.base("//app?ref=v1"));
    let is_asked = |stage: &RemoteBaseFixture| !stage.git.request_kinds().is_empty();
    stage.allow(&[]);
    let error = stage.error(&kustomization);
    assert!(
        error.contains("--allow-remote-bases` allows them") && error.contains("/base//app?ref=v1"),
        "{error}"
    );
    stage.bench.making.dependencies = None;
    assert!(stage.error(&kustomization).contains("--allow-remote-bases` allows them"));
    for prefix in ["https://127.0.0.1", "*", "https://example.com"] {
        stage.allow(&[prefix]);
        assert!(stage.error(&kustomization).contains("none of the prefixes in"), "{prefix}");
    }
    stage.allow_with(&["http://127.0.0.1"], |url| Err(format!("project team does not permit {url}")), None);
    assert!(stage.error(&kustomization).contains("project team does not permit http://127.0.0.1"));
    assert!(!is_asked(&stage));
    // The commits of bases must be signed with the same keys as the commits of the source.
    let wanted = RequiredKeys::new("team", ["4AEE18F83AFDEB23"]).unwrap();
    let now = Timestamp::from_millis(1_795_253_400_000);
    stage.allow_with(&["http://127.0.0.1"], |_| Ok(()), Some((wanted, now)));
    let error = stage.error(&kustomization);
    assert!(error.contains("is not signed"), "{error}");
    let error = stage.error(&format!("resources: ['{}']", stage.web.url("/a.yaml")));
    assert!(error.contains("cannot be verified"), "{error}");
}

#[test]
fn hostile_bases() {
    let Some(mut stage) = RemoteBaseFixture::new() else { return };
    let host = stage.git.url("");
    stage.bench.write("root/loop/kustomization.yaml", &format!("resources: ['{host}loop//.?ref=main']\n"));
    stage.commit("loop");
    symlink("/etc/hostname", {
        stage.bench.write("root/link/app/kustomization.yaml", "resources: [a.yaml]\n");
        stage.root("link").join("app/a.yaml")
    })
    .unwrap();
    stage.commit("link");
    stage.bench.write("root/out/app/kustomization.yaml", "resources: [../../base/app]\n");
    stage.bench.write("root/out/charts/kustomization.yaml", "helmCharts: [{name: a}]\n");
    stage.commit("out");
    for number in 0..12 {
        let next = format!("resources: ['{host}deep{}//.?ref=main']\n", number + 1);
        stage.bench.write(&format!("root/deep{number}/kustomization.yaml"), &next);
        stage.commit(&format!("deep{number}"));
    }
    let many: Vec<String> =
        (0..101).map(|number| format!("'{}'", stage.base(&format!("//app?ref=v{number}")))).collect();
    stage.run("base", &["tag", "v0"]);
    for number in 2..101 {
        stage.run("base", &["tag", &format!("v{number}")]);
    }
    stage.git.set_behavior(ServerBehavior {
        redirect: Some(("/away".to_owned(), "http://169.254.169.254/latest".to_owned())),
        ..ServerBehavior::default()
    });
    stage.web.add_page("/away.yaml", Page::redirect_to("http://169.254.169.254/latest/a.yaml"));
    for (entry, expected) in [
        (format!("{host}away//app"), "link-local"),
        (stage.web.url("/away.yaml"), "link-local"),
        (stage.base("//../../etc"), "outside the repository"),
        (stage.base("//app/../../x"), "outside the repository"),
        (format!("{host}%2e%2e/x//app"), "%2e"),
        (format!("{host}x%2Fy//app"), "%2f"),
        (stage.base("//none?ref=v1"), "missing"),
        (stage.base("//app/deployment.yaml?ref=v1"), "a file"),
        (stage.base("//.?ref=v1"), "no kustomization.yaml"),
        (stage.base("//app?ref=none"), "no branch, tag or commit"),
        (stage.base("//app?ref=--upload-pack=x"), "no branch, tag or commit"),
        (format!("{host}none//app"), "404"),
        (format!("{host}loop//."), "cycle detected"),
        (format!("{host}link//app"), "outside the repository"),
        (format!("{host}out//app"), "is outside the repository"),
        (format!("{host}out//charts"), "helmCharts"),
        (format!("{host}deep0//."), "more than 8 nested remote bases"),
        ("https://me:hunter2@127.0.0.1/a/b".to_owned(), "password"),
        ("file:///etc//x".to_owned(), "a local repository"),
    ] {
        let error = stage.error(&format!("resources: ['{entry}']\n"));
        assert!(error.contains(expected), "{entry}: {error}");
    }
    let error = stage.error(&format!("resources: [{}]\n", many.join(", ")));
    assert!(error.contains("more than 100 remote bases"), "{error}");
    // Loopback and link-local addresses remain blocked in every spelling, unless an allowed prefix explicitly
    // contains such an address.
    stage.allow(&["*", "https://169.254.169.254"]);
    for (entry, expected) in [
        ("https://127.0.0.1:1/a/b", "is a loopback address"),
        ("https://[::1]:1/a/b", "is a loopback address"),
        ("https://0.0.0.0/a/b", "is a loopback address"),
        ("https://127.1/a/b", "is a loopback address"),
        ("https://2130706433/a.yaml", "is a loopback address"),
        ("https://a.localhost/a/b", "is a loopback address"),
        ("https://169.254.169.254/a/b", "link-local"),
        ("ssh://git@127.0.0.1/a/b", "is a loopback address"),
        ("git@127.1:a/b", "is a loopback address"),
    ] {
        let error = stage.error(&format!("resources: ['{entry}']\n"));
        assert!(error.contains(expected), "{entry}: {error}");
    }
}
