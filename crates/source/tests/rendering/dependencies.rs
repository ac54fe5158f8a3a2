//! Tests for dependencies of charts. Tidegate fetches them, and the real Helm renders them.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::Object;
use tidegate_source::{AllowedSources, Credentials, DependencyFetcher, RemoteAccess, Repositories};
use tidegate_testkit::web::{Page, WebServer};

use crate::archives::{chart as packed_chart, gzip, sha256, tar};
use crate::fixture::{RenderFixture, chart, source};

/// A chart in the source repository, and a server with its dependencies.
struct DependencyFixture {
    bench: RenderFixture,
    server: WebServer,
    repositories: Arc<Repositories>,
}

fn map(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{version: '{{{{ .Chart.Version }}}}', value: '{{{{ .Values.value }}}}'}}\n"
    )
}

fn packed(name: &str, version: &str) -> Vec<u8> {
    packed_chart(&[
        ("Chart.yaml", &format!("apiVersion: v2\nname: {name}\nversion: {version}\n")),
        ("values.yaml", "value: own\n"),
        ("templates/map.yaml", &map(&format!("{name}-{{{{ .Chart.Name }}}}"))),
    ])
}

impl DependencyFixture {
    fn new() -> Option<Self> {
        let bench = RenderFixture::with_helm()?;
        let repositories = Arc::new(Repositories::new(RemoteAccess::new(bench.path("mirrors"))));
        let mut stage = Self { bench, server: WebServer::start(), repositories };
        let here = format!("http://{}", stage.server.host());
        stage.allow(&[&here, &here.replace("http", "oci")]);
        stage.publish("other", &["1.0.0", "1.2.0", "2.0.0"]);
        stage.bench.write("repo/charts/web/templates/map.yaml", &map("web"));
        stage.bench.write(
            "repo/charts/web/values.yaml",
            "value: web\nother: {value: given}\nsecond: {value: second}\n",
        );
        Some(stage)
    }

    fn allow(&mut self, prefixes: &[&str]) {
        self.allow_with(prefixes, |_| Ok(()));
    }

    fn allow_with(&mut self, prefixes: &[&str], permits: fn(&str) -> Result<(), String>) {
        let charts = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
        let allowed = Arc::new(AllowedSources { charts, ..AllowedSources::default() });
        let fetching = DependencyFetcher::new(
            Arc::clone(&self.repositories),
            allowed,
            String::new(),
            Arc::new(permits),
            None,
        );
        self.bench.making.dependencies = Some(Arc::new(fetching));
    }

    fn publish(&self, name: &str, versions: &[&str]) {
        let mut releases = Vec::new();
        for version in versions {
            let archive = packed(name, version);
            let file = format!("{name}-{version}.tgz");
            releases.push(json!({"version": version, "urls": [file], "digest": sha256(&archive)}));
            self.server.add_page(&format!("/charts/{file}"), Page::with_body(archive));
        }
        self.index(json!({name: releases}));
    }

    fn index(&self, entries: Value) {
        let index = json!({"apiVersion": "v1", "entries": entries}).to_string();
        self.server.add_page("/charts/index.yaml", Page::with_body(index));
        self.repositories.open_sources().iter().for_each(|known| {
            known.observe_availability();
        });
    }

    fn url(&self) -> String {
        self.server.url("/charts")
    }

    /// Writes `Chart.yaml` with these dependencies.
    fn write_dependencies(&self, dependencies: Value) {
        let own =
            json!({"apiVersion": "v2", "name": "web", "version": "0.1.0", "dependencies": dependencies});
        self.write("Chart.yaml", &own.to_string());
    }

    fn write(&self, file: &str, content: &str) {
        self.bench.write(&format!("repo/charts/web/{file}"), content);
        let _ = tidegate_source::commit_folder(&self.bench.path("repo"), "change", 1_795_253_400).unwrap();
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.bench.path(&format!("repo/charts/web/{file}"))).unwrap();
    }

    /// Renders the chart, and returns name, version and value of each object.
    fn rendered_objects(&self) -> Vec<String> {
        let objects = self.bench.objects(&chart(json!({}))).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let told = |one: &Value| {
            [&one["metadata"]["name"], &one["data"]["version"], &one["data"]["value"]].map(text).join(" ")
        };
        let mut made: Vec<_> = objects.iter().map(told).collect();
        made.sort();
        made
    }

    fn error(&self) -> String {
        self.bench.error(&chart(json!({})))
    }

    fn other(&self, version: &str) -> Value {
        json!({"name": "other", "version": version, "repository": self.url()})
    }
}

#[test]
fn the_newest_matching_chart() {
    let Some(stage) = DependencyFixture::new() else { return };
    for (version, expected) in
        [("1.0.0", "1.0.0"), ("1.x.x", "1.2.0"), ("^1.0.0", "1.2.0"), (">=1.0.0", "2.0.0"), ("1", "1.2.0")]
    {
        stage.write_dependencies(json!([stage.other(version)]));
        let made = stage.rendered_objects();
        assert_eq!(made, [format!("other-other {expected} given"), "web 0.1.0 web".to_owned()], "{version}");
    }
    // Helm itself handles conditions and aliases, and two dependencies on the same chart.
    let with = |mut one: Value, more: Value| {
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    stage.write_dependencies(json!([with(stage.other("1.0.0"), json!({"condition": "other.enabled"}))]));
    stage.write("values.yaml", "value: web\nother: {enabled: false}\nsecond: {value: second}\n");
    assert_eq!(stage.rendered_objects(), ["web 0.1.0 web"]);
    stage.write_dependencies(json!([
        stage.other("1.0.0"),
        with(stage.other("2.0.0"), json!({"alias": "second"}))
    ]));
    stage.write("values.yaml", "value: web\nother: {value: given}\nsecond: {value: second}\n");
    assert_eq!(
        stage.rendered_objects(),
        ["other-other 1.0.0 given", "other-second 2.0.0 second", "web 0.1.0 web"]
    );
    // A dependency isn't fetched if the chart already contains it.
    stage.write_dependencies(json!([stage.other("1.0.0")]));
    std::fs::create_dir_all(stage.bench.path("repo/charts/web/charts")).unwrap();
    std::fs::write(stage.bench.path("repo/charts/web/charts/strange.tgz"), packed("other", "1.0.5")).unwrap();
    stage.write("again", "");
    assert_eq!(stage.rendered_objects(), ["other-other 1.0.5 given", "web 0.1.0 web"]);
    let all = stage.server.requested_paths();
    let index = all.iter().filter(|path| path.ends_with("index.yaml")).count();
    assert_eq!((index, all.len()), (1, 4), "each archive is fetched once: {all:?}");
}

#[test]
fn a_new_version_changes_the_manifests() {
    let Some(stage) = DependencyFixture::new() else { return };
    stage.write_dependencies(json!([stage.other("1.x")]));
    let key = || stage.bench.locate(&chart(json!({}))).unwrap().key;
    let before = key();
    assert_eq!(key(), before);
    stage.publish("other", &["1.0.0", "1.3.0"]);
    assert_ne!(key(), before);
    assert!(stage.rendered_objects().contains(&"other-other 1.3.0 given".to_owned()));
    let used = stage.bench.making.dependencies.as_ref().unwrap().used_dependencies();
    assert!(used.iter().all(|used| used.source.repo_url == stage.url()) && !used.is_empty());
}

#[test]
fn the_lock_file_counts() {
    let Some(stage) = DependencyFixture::new() else { return };
    stage.write_dependencies(json!([stage.other("1.x")]));
    let lock = |version: &str, repository: &str| {
        let dependencies = json!([{"name": "other", "version": version, "repository": repository}]);
        stage.write("Chart.lock", &json!({"dependencies": dependencies, "digest": "sha256:0"}).to_string());
    };
    lock("1.0.0", &format!("{}/", stage.url()));
    assert!(stage.rendered_objects().contains(&"other-other 1.0.0 given".to_owned()));
    for (version, repository, expected) in [
        ("2.0.0", stage.url(), "other is locked at 2.0.0, but 1.x is required"),
        ("1.0.0", "https://example.com".to_owned(), "to a different repository"),
    ] {
        lock(version, &repository);
        let error = stage.error();
        assert!(error.contains("Chart.lock is out of sync") && error.contains(expected), "{error}");
    }
    stage.write("Chart.lock", "{dependencies: []}");
    assert!(stage.error().contains("other is missing"));
    stage.remove("Chart.lock");
    // Charts with API version v1 declare their dependencies in a separate file.
    stage.write("Chart.yaml", "{apiVersion: v1, name: web, version: 0.1.0}");
    stage.write("requirements.yaml", &json!({"dependencies": [stage.other("1.x")]}).to_string());
    assert!(stage.rendered_objects().contains(&"other-other 1.2.0 given".to_owned()));
    let locked = json!({"dependencies": [stage.other("1.0.0")]});
    stage.write("requirements.lock", &locked.to_string());
    assert!(stage.rendered_objects().contains(&"other-other 1.0.0 given".to_owned()));
}

#[test]
fn charts_of_the_same_repository() {
    let Some(mut stage) = DependencyFixture::new() else { return };
    stage.allow(&[]);
    for (file, content) in [
        ("Chart.yaml", "{apiVersion: v2, name: other, version: 1.1.0}"),
        ("values.yaml", "value: own\n"),
        ("templates/map.yaml", &map("other")),
    ] {
        stage.bench.write(&format!("repo/shared/other/{file}"), content);
    }
    let local = |version: &str, path: &str| {
        stage.write_dependencies(
            json!([{"name": "other", "version": version, "repository": format!("file://{path}")}]),
        );
    };
    local("1.x", "../../shared/other");
    assert_eq!(stage.rendered_objects(), ["other 1.1.0 given", "web 0.1.0 web"]);
    let key = || stage.bench.locate(&chart(json!({}))).unwrap().key;
    let before = key();
    stage.bench.write("repo/shared/other/values.yaml", "value: changed\n");
    stage.write("again", "1");
    assert_ne!(key(), before);
    for (version, path, expected) in [
        ("2.x", "../../shared/other", "the folder contains version 1.1.0, but 2.x is required"),
        ("1.x", "../../shared/none", "the folder shared/none does not exist"),
        ("1.x", "../../../outside", "is outside the repository"),
        ("1.x", "/etc", "absolute"),
        ("1.x", "../../shared", "shared has no readable Chart.yaml"),
    ] {
        local(version, path);
        let error = stage.error();
        assert!(error.contains(expected), "{path}: {error}");
    }
}

#[test]
fn names_of_repositories_and_registries() {
    let Some(stage) = DependencyFixture::new() else { return };
    let secrets = |fields: &[Value]| {
        let mut credentials = Credentials::default();
        for (at, fields) in fields.iter().enumerate() {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "stringData": fields,
                "metadata": {"name": format!("s{at}"), "labels": {"argocd.argoproj.io/secret-type": "repository"}},
            });
            assert!(credentials.add(&Object::try_from(secret).unwrap()).unwrap());
        }
        stage.repositories.set_credentials(credentials);
    };
    let team = format!("{}/team", stage.server.host());
    secrets(&[
        json!({"type": "helm", "name": "mine", "url": stage.url(), "username": "me", "password": "hunter2"}),
        json!({"type": "helm", "url": team, "enableOCI": "true", "insecureOCIForceHttp": "true"}),
    ]);
    for repository in ["@mine", "alias:mine"] {
        stage.write_dependencies(json!([{"name": "other", "version": "1.0.0", "repository": repository}]));
        assert!(stage.rendered_objects().contains(&"other-other 1.0.0 given".to_owned()));
    }
    let visits = stage.server.requests();
    assert!(visits.iter().all(|visit| visit.authorization.as_deref() == Some("Basic bWU6aHVudGVyMg==")));
    stage.write_dependencies(json!([{"name": "other", "version": "1.0.0", "repository": "@none"}]));
    assert!(stage.error().contains("no repository Secret of type helm is named \"none\""));
    // This dependency is in a registry.
    let archive = packed("other", "1.4.0");
    let digest = format!("sha256:{}", sha256(&archive));
    let layer = json!({"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": digest});
    let v2 = |path: &str, body: Vec<u8>| {
        stage.server.add_page(&format!("/v2/team/other/{path}"), Page::with_body(body))
    };
    v2("tags/list?n=1000", br#"{"tags": ["1.4.0"]}"#.to_vec());
    v2("manifests/1.4.0", json!({"layers": [layer]}).to_string().into_bytes());
    v2(&format!("blobs/{digest}"), archive);
    stage.write_dependencies(
        json!([{"name": "other", "version": "1.x", "repository": format!("oci://{team}")}]),
    );
    assert!(stage.rendered_objects().contains(&"other-other 1.4.0 given".to_owned()));
}

#[test]
fn only_allowed_charts_are_fetched() {
    let Some(mut stage) = DependencyFixture::new() else { return };
    stage.write_dependencies(
        json!([stage.other("1.x"), {"name": "b", "version": "1", "repository": "oci://example.com/b"}]),
    );
    stage.allow(&[]);
    let error = stage.error();
    assert!(error.contains("--allow-chart-dependencies` allows their repository"), "{error}");
    assert!(
        error.contains("other (http://127.0.0.1") && error.contains("b (oci://example.com/b)"),
        "{error}"
    );
    stage.bench.making.dependencies = None;
    assert!(stage.error().contains("--allow-chart-dependencies` allows their repository"));
    stage.allow(&["*"]);
    stage.write_dependencies(json!([stage.other("1.x")]));
    assert!(stage.error().contains("none of the prefixes in `tidegate serve --allow-chart-dependencies`"));
    let here = format!("http://{}", stage.server.host());
    stage.allow_with(&[&here], |_| Err("project team does not permit it".to_owned()));
    assert!(
        stage.error().contains("depends on the chart other") && stage.error().contains("does not permit it")
    );
    assert_eq!(stage.server.requested_paths(), Vec::<String>::new());
}

#[test]
fn hostile_dependencies() {
    let Some(mut stage) = DependencyFixture::new() else { return };
    let bomb = vec![b'0'; 200 << 20];
    let own: crate::archives::Entry<'_> = ("other/Chart.yaml", b'0', b"name: other\nversion: 9.0.0");
    let archives = [
        (gzip(&tar(&[own, ("other/bomb", b'0', &bomb)])), "larger than 128 MiB"),
        (gzip(&tar(&[own, ("other/../../out", b'0', b"x")])), "is outside the chart"),
        (gzip(&tar(&[own, ("other/link", b'2', b"")])), "contains a link"),
        (b"nothing".to_vec(), "damaged or is not a chart"),
    ];
    for (at, (archive, expected)) in archives.into_iter().enumerate() {
        let version = format!("9.0.{at}");
        stage.server.add_page(&format!("/charts/{at}.tgz"), Page::with_body(archive));
        stage.index(json!({"other": [{"version": version, "urls": [format!("{at}.tgz")]}]}));
        stage.write_dependencies(json!([stage.other(&version)]));
        let error = stage.error();
        assert!(error.contains(expected), "{error}");
    }
    stage.server.add_page("/charts/away.tgz", Page::redirect_to("http://169.254.169.254/a.tgz"));
    stage.index(json!({"other": [
        {"version": "8.0.0", "urls": ["away.tgz"]},
        {"version": "8.0.1", "urls": ["http://169.254.169.254/a.tgz"]},
        {"version": "8.0.2", "urls": ["a.tgz"], "digest": "00"},
    ]}));
    stage.server.add_page("/charts/a.tgz", Page::with_body(packed("other", "8.0.2")));
    for (dependency, expected) in [
        (stage.other("8.0.0"), "link-local"),
        (stage.other("8.0.1"), "link-local"),
        (stage.other("8.0.2"), "digest of the received archive does not match"),
        (stage.other("7.x"), "no version 7.x"),
        (json!({"name": "../other", "version": "1", "repository": stage.url()}), "not a valid chart name"),
        (json!({"name": "other", "version": "1", "repository": "example.com/a"}), "has no scheme"),
        (json!({"name": "other", "version": "1", "repository": ""}), "depends on the charts other"),
    ] {
        stage.write_dependencies(json!([dependency]));
        let error = stage.error();
        assert!(error.contains(expected), "{dependency}: {error}");
    }
    stage.allow(&["*"]);
    stage
        .write_dependencies(json!([{"name": "other", "version": "1", "repository": "https://127.1/charts"}]));
    assert!(stage.error().contains("is a loopback address"), "{}", stage.error());
    let many: Vec<Value> = (0..101)
        .map(|at| json!({"name": format!("c{at}"), "version": "1", "repository": stage.url()}))
        .collect();
    stage.write_dependencies(Value::from(many));
    assert!(stage.error().contains("more than 100 dependencies"));
}

/// If a chart from a Helm repository depends on another chart, the latter must be fetched and rendered, too.
#[test]
fn a_packed_chart_that_needs_another() {
    let Some(stage) = DependencyFixture::new() else { return };
    let needs =
        json!({"apiVersion": "v2", "name": "app", "version": "1.0.0", "dependencies": [stage.other("1.x")]});
    let archive = packed_chart(&[("Chart.yaml", &needs.to_string()), ("templates/map.yaml", &map("app"))]);
    stage.server.add_page("/charts/app.tgz", Page::with_body(archive));
    let other = packed("other", "1.0.0");
    stage.index(json!({
        "app": [{"version": "1.0.0", "urls": ["app.tgz"]}],
        "other": [{"version": "1.0.0", "urls": ["other-1.0.0.tgz"], "digest": sha256(&other)}],
    }));
    let asked = source(json!({"repoURL": stage.url(), "chart": "app", "targetRevision": "1.0.0"}));
    let origin = stage.repositories.origin(&asked, stage.bench.folder.path()).unwrap();
    let found = origin.locate(&asked, "1.0.0", &stage.bench.making).unwrap();
    let files = origin.read_manifests(&found, &stage.bench.making).unwrap();
    let paths: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["app/charts/other/templates/map.yaml", "app/templates/map.yaml"]);
}
