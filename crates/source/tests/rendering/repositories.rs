//! Tests for charts in Helm repositories and OCI registries.

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_model::Object;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{Credentials, Origin, RemoteAccess, RenderInputs, Repositories, SourceError};
use tidegate_testkit::web::{Page, WebServer};

use crate::archives::{Entry, chart, gzip, sha256, tar};
use crate::fixture::{RenderFixture, source};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {value: '{{ .Values.value }}', version: '{{ .Chart.Version }}'}\n";
/// `Authorization` header for the credentials `me:hunter2`.
const ME: &str = "Basic bWU6aHVudGVyMg==";
const CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

struct ChartRepositoryFixture {
    folder: TempDir,
    server: WebServer,
    repositories: Repositories,
    making: RenderInputs,
}

impl ChartRepositoryFixture {
    /// Creates a test setup in which a script replaces Helm and prints the chart.
    fn new() -> Self {
        let mut bench = RenderFixture::new();
        bench.script("cd \"$3\"; for file in Chart.yaml values.yaml templates/*; do while read -r line; do echo \"$line\"; done < $file; done");
        Self::with(bench)
    }

    fn with(bench: RenderFixture) -> Self {
        let RenderFixture { folder, making, .. } = bench;
        let repositories = Repositories::new(RemoteAccess::new(folder.path().join("mirrors")));
        Self { folder, server: WebServer::start(), repositories, making }
    }

    fn origin(&self, source: &ApplicationSource) -> Result<Origin, SourceError> {
        self.repositories.origin(source, self.folder.path())
    }

    fn render(&self, source: &ApplicationSource) -> Result<(String, String), SourceError> {
        let origin = self.origin(source)?;
        let version = origin.resolve(source, &source.target_revision)?;
        let found = origin.locate(source, &version, &self.making)?;
        assert_eq!((found.source_type(), found.is_rendered()), ("Helm", true));
        let files = origin.read_manifests(&found, &self.making)?;
        Ok((version, files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned()).collect()))
    }

    fn error(&self, source: &ApplicationSource) -> String {
        let error = self.render(source).unwrap_err().to_string();
        assert!(!error.contains("hunter") && !error.contains("bWU6"), "{error}");
        error
    }

    fn observe(&self) {
        for origin in self.repositories.open_sources() {
            origin.observe_availability();
        }
    }

    fn secret(&self, fields: Value) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": fields,
            "metadata": {"name": "given", "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        });
        let mut credentials = Credentials::default();
        assert!(credentials.add(&Object::try_from(secret).unwrap()).unwrap());
        self.repositories.set_credentials(credentials);
    }

    /// Publishes a Helm repository with these versions of the chart.
    fn publish(&self, versions: &[&str]) {
        let mut entries = Vec::new();
        for version in versions {
            let archive = packed(version);
            entries.push(json!({"version": version, "urls": [format!("web-{version}.tgz")], "digest": sha256(&archive)}));
            self.server.add_page(&format!("/charts/web-{version}.tgz"), Page::with_body(archive));
        }
        self.index(json!({"web": entries}));
    }

    fn index(&self, entries: Value) {
        let index = json!({"apiVersion": "v1", "entries": entries}).to_string();
        let etag = Some(format!("\"{}\"", &sha256(index.as_bytes())[..8]));
        self.server.add_page("/charts/index.yaml", Page { etag, ..Page::with_body(index) });
    }

    fn web(&self, revision: &str) -> ApplicationSource {
        source(json!({"repoURL": self.server.url("/charts"), "chart": "web", "targetRevision": revision}))
    }
}

fn packed(version: &str) -> Vec<u8> {
    chart(&[
        ("Chart.yaml", &format!("apiVersion: v2\nname: web\nversion: {version}\n")),
        ("values.yaml", "value: chart\n"),
        ("values-prod.yaml", "value: prod\n"),
        ("templates/map.yaml", MAP),
    ])
}

#[test]
fn the_newest_allowed_version() {
    let stage = ChartRepositoryFixture::new();
    stage.publish(&["1.0.0", "1.2.0", "1.3.0-rc1", "2.0.0"]);
    for (wanted, expected) in [
        ("1.0.0", "1.0.0"),
        ("1.*", "1.2.0"),
        ("^1.0.0", "1.2.0"),
        (">=1.0.0", "2.0.0"),
        ("", "2.0.0"),
        ("1.2", "1.2.0"),
        ("*", "2.0.0"),
    ] {
        let (version, made) = stage.render(&stage.web(wanted)).unwrap();
        assert_eq!(version, expected, "{wanted}");
        assert!(made.contains(&format!("version: {expected}\n")), "{made}");
    }
    // The index is observed once, and each archive is fetched once.
    let mut paths = stage.server.requested_paths();
    paths.sort();
    assert_eq!(
        paths,
        ["/charts/index.yaml", "/charts/web-1.0.0.tgz", "/charts/web-1.2.0.tgz", "/charts/web-2.0.0.tgz"]
    );
    let origin = stage.origin(&stage.web("*")).unwrap();
    assert!(!origin.observe_availability(), "nothing has changed");
    stage.publish(&["1.0.0", "2.1.0"]);
    assert!(origin.observe_availability());
    assert_eq!(stage.render(&stage.web("*")).unwrap().0, "2.1.0");
    // A fetched chart remains available to the next process, even if the server deletes the chart.
    let again = ChartRepositoryFixture {
        repositories: Repositories::new(RemoteAccess::new(stage.folder.path().join("mirrors"))),
        ..stage
    };
    again.server.requests();
    assert_eq!(again.render(&again.web("1.2.0")).unwrap().0, "1.2.0");
    assert_eq!(again.server.requested_paths(), Vec::<String>::new());
    for (wanted, chart, expected) in [
        ("3.*", "web", "no version 3.* of chart \"web\""),
        ("9.9.9", "web", "no version 9.9.9"),
        ("*", "none", "has no chart \"none\"; available charts: web"),
    ] {
        let asked = ApplicationSource { chart: chart.into(), ..again.web(wanted) };
        assert!(again.error(&asked).contains(expected), "{}", again.error(&asked));
    }
}

#[test]
fn a_chart_is_rendered_with_its_values() {
    let Some(bench) = RenderFixture::with_helm() else { return };
    let stage = ChartRepositoryFixture::with(bench);
    stage.publish(&["1.2.0"]);
    let with = |helm: Value| {
        let mut asked = stage.web("1.*");
        asked.helm = serde_json::from_value(helm).unwrap();
        asked
    };
    for (helm, expected) in [
        (json!({}), "value: 'chart', version: '1.2.0'"),
        (json!({"valueFiles": ["values-prod.yaml"]}), "value: 'prod'"),
        (json!({"valueFiles": ["values-*.yaml"], "values": "value: text"}), "value: 'text'"),
    ] {
        let made = stage.render(&with(helm)).unwrap().1;
        assert!(made.contains(expected) && made.contains("name: web"), "{made}");
    }
    let error = stage.error(&with(json!({"valueFiles": ["none.yaml"]})));
    assert!(
        error.contains("chart web 1.2.0 of http://127.0.0.1") && error.contains("no file none.yaml"),
        "{error}"
    );
    let error = stage.error(&with(json!({"valueFiles": ["../none.yaml"]})));
    assert!(error.contains("is outside the repository"), "{error}");
}

#[test]
fn credentials_stay_with_their_server() {
    let stage = ChartRepositoryFixture::new();
    let other = WebServer::start();
    stage.publish(&["1.0.0"]);
    let archive = packed("1.0.0");
    other.add_page("/web.tgz", Page::with_body(archive.clone()));
    stage.index(
        json!({"web": [{"version": "1.0.0", "urls": [other.url("/web.tgz")], "digest": sha256(&archive)}]}),
    );
    let url = stage.server.url("/charts");
    stage.secret(json!({"type": "helm", "url": url, "username": "me", "password": "hunter2"}));
    stage.render(&stage.web("1.0.0")).unwrap();
    assert!(stage.server.requests().iter().all(|visit| visit.authorization.as_deref() == Some(ME)));
    assert!(other.requests().iter().all(|visit| visit.authorization.is_none()));
    // The target of a redirect must not receive the credentials.
    stage.publish(&["2.0.0"]);
    let archive = packed("2.0.0");
    other.add_page("/web-2.tgz", Page::with_body(archive));
    stage.server.add_page("/charts/web-2.0.0.tgz", Page::redirect_to(&other.url("/web-2.tgz")));
    stage.render(&stage.web("2.0.0")).unwrap();
    assert_eq!(other.requests().iter().map(|visit| visit.authorization.clone()).collect::<Vec<_>>(), [None]);
    // A server in the index receives the credentials only if the source allows it.
    let archive = packed("3.0.0");
    other.add_page("/web-3.tgz", Page::with_body(archive.clone()));
    stage.index(
        json!({"web": [{"version": "3.0.0", "urls": [other.url("/web-3.tgz")], "digest": sha256(&archive)}]}),
    );
    let mut passes = stage.web("3.0.0");
    passes.helm = serde_json::from_value(json!({"passCredentials": true})).unwrap();
    stage.render(&passes).unwrap();
    assert_eq!(
        other.requests().iter().map(|visit| visit.authorization.as_deref()).collect::<Vec<_>>(),
        [Some(ME)]
    );
    stage.server.add_page(
        "/charts/index.yaml",
        Page::default().require_authorization("Basic eHg6eA==", "Basic realm=\"a\""),
    );
    stage.observe();
    let error = stage.error(&stage.web("*"));
    assert!(error.contains("does not accept the credentials in Secret given"), "{error}");
    stage.secret(json!({"type": "git", "url": url}));
    stage.observe();
    assert!(stage.error(&stage.web("*")).contains("is for repositories of type git"));
}

#[test]
fn hostile_archives_are_refused() {
    let stage = ChartRepositoryFixture::new();
    let chart_yaml: Entry<'_> = ("web/Chart.yaml", b'0', b"name: web");
    let bomb = vec![b'0'; 200 << 20];
    // The name is unique, so the test can check that no such file is created.
    let outside = format!("tidegate-outside-{}", std::process::id());
    let leads_out = format!("web/../../{outside}");
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (gzip(&tar(&[chart_yaml, (&leads_out, b'0', b"x")])), "is outside the chart"),
        (gzip(&tar(&[chart_yaml, ("/etc/passwd", b'0', b"x")])), "is outside the chart"),
        (gzip(&tar(&[chart_yaml, ("alone", b'0', b"x")])), "is outside the chart"),
        (gzip(&tar(&[chart_yaml, ("web/link", b'2', b"")])), "contains a link"),
        (gzip(&tar(&[chart_yaml, ("web/link", b'1', b"")])), "contains a link"),
        (gzip(&tar(&[chart_yaml, ("web/device", b'3', b"")])), "neither a file nor a folder"),
        (gzip(&tar(&[chart_yaml, ("web/a\nb", b'0', b"x")])), "rename the file"),
        (gzip(&tar(&[("web/values.yaml", b'0', b"")])), "it has no Chart.yaml"),
        (gzip(&tar(&[chart_yaml, ("web/bomb", b'0', &bomb)])), "larger than 128 MiB"),
        (gzip(&bomb), "larger than 128 MiB"),
        (gzip(&tar(&[chart_yaml])[..515]), "damaged"),
        (packed("1.0.0")[..200].to_vec(), "damaged"),
        (b"no archive".to_vec(), "damaged"),
        (Vec::new(), "damaged"),
    ];
    for (at, (archive, expected)) in cases.into_iter().enumerate() {
        let version = format!("1.0.{at}");
        stage.index(json!({"web": [{"version": version, "urls": ["hostile.tgz"]}]}));
        stage.server.add_page("/charts/hostile.tgz", Page::with_body(archive));
        let error = stage.error(&stage.web(&version));
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!std::env::temp_dir().join(&outside).exists());
    }
}

#[test]
fn misbehaving_servers() {
    let stage = ChartRepositoryFixture::new();
    stage.publish(&["1.0.0"]);
    let archive = packed("1.0.0");
    let with = |urls: Value, digest: &str| {
        stage.index(json!({"web": [{"version": "1.0.0", "urls": urls, "digest": digest}]}))
    };
    for (urls, digest, expected) in [
        (json!(["web-1.0.0.tgz"]), "00", "digest of the received archive does not match"),
        (json!([]), "", "has no URL for this version"),
        (json!(["file:///etc/passwd"]), "", "does not use https://"),
        (json!(["http://169.254.169.254/web.tgz"]), "", "link-local"),
        (json!(["gone.tgz"]), "", "404"),
        (json!(["endless.tgz"]), "", "response is too large"),
    ] {
        with(urls, digest);
        stage.server.add_page("/charts/endless.tgz", Page { is_endless: true, ..Page::default() });
        stage.observe();
        let error = stage.error(&stage.web("1.0.0"));
        assert!(error.contains(expected), "{error}");
    }
    for (index, expected) in [
        ("entries: [", "cannot read index.yaml"),
        ("<html>", "cannot read index.yaml"),
        ("{}", "available charts: none"),
    ] {
        stage.server.add_page("/charts/index.yaml", Page::with_body(index));
        stage.observe();
        let error = stage.error(&stage.web("*"));
        assert!(error.contains(expected), "{index}: {error}");
    }
    drop(archive);
    let gone = source(json!({"repoURL": "http://127.0.0.1:9/charts", "chart": "web", "targetRevision": "*"}));
    assert!(stage.error(&gone).contains("cannot be reached"));
}

/// Like most registries, this registry requires a token.
#[test]
fn charts_of_registries() {
    let stage = ChartRepositoryFixture::new();
    let host = stage.server.host();
    stage.secret(json!({
        "type": "helm", "url": host, "enableOCI": "true", "insecureOCIForceHttp": "true",
        "username": "me", "password": "hunter2",
    }));
    let of = |repo_url: String, revision: &str| {
        source(json!({"repoURL": repo_url, "chart": "web", "targetRevision": revision}))
    };
    // The Secret's address must be the folder of the charts. The registry's own address isn't sufficient, so
    // this Secret doesn't apply.
    let error = stage.error(&of(format!("oci://{host}/team"), "*"));
    assert!(error.contains("cannot list tags"), "{error}");
    stage.secret(json!({
        "type": "helm", "url": format!("{host}/team"), "enableOCI": "true", "insecureOCIForceHttp": "true",
        "username": "me", "password": "hunter2",
    }));
    let challenge =
        format!("Bearer realm=\"{}\",service=\"registry\",scope=\"x\"", stage.server.url("/token"));
    let only = |page: Page| page.require_authorization("Bearer t0ken", &challenge);
    let archive = packed("1.2.0+build");
    let digest = format!("sha256:{}", sha256(&archive));
    let manifest = json!({"layers": [{"mediaType": CHART_TYPE, "digest": digest, "size": archive.len()}]});
    let token = "/token?scope=repository:team/web:pull&service=registry";
    stage.server.add_page(
        token,
        Page::with_body(r#"{"token": "t0ken"}"#).require_authorization(ME, "Basic realm=\"a\""),
    );
    let next = "Link: </v2/team/web/tags/list?n=1000&last=1.0.0>; rel=\"next\"".to_owned();
    stage.server.add_page(
        "/v2/team/web/tags/list?n=1000",
        only(Page { headers: vec![next], ..Page::with_body(r#"{"tags": ["1.0.0", "latest"]}"#) }),
    );
    stage.server.add_page(
        "/v2/team/web/tags/list?n=1000&last=1.0.0",
        only(Page::with_body(r#"{"tags": ["1.2.0_build"]}"#)),
    );
    stage.server.add_page("/v2/team/web/manifests/1.2.0_build", only(Page::with_body(manifest.to_string())));
    let elsewhere = WebServer::start();
    elsewhere.add_page("/blob", Page::with_body(archive));
    stage
        .server
        .add_page(&format!("/v2/team/web/blobs/{digest}"), only(Page::redirect_to(&elsewhere.url("/blob"))));
    stage.observe();
    for repo_url in [format!("oci://{host}/team"), format!("{host}/team")] {
        let (version, made) = stage.render(&of(repo_url, "1.*")).unwrap();
        assert_eq!(version, "1.2.0+build");
        assert!(made.contains("version: 1.2.0+build"), "{made}");
    }
    let whole = source(
        json!({"repoURL": format!("oci://{host}/team/web"), "path": ".", "targetRevision": "1.2.0+build"}),
    );
    assert_eq!(stage.render(&whole).unwrap().0, "1.2.0+build");
    assert!(elsewhere.requests().iter().all(|visit| visit.authorization.is_none()));
    // The downloaded archive must match the digest in the manifest.
    stage.server.add_page(&format!("/v2/team/web/blobs/{digest}"), only(Page::with_body("something else")));
    stage.server.add_page("/v2/team/web/manifests/1.2.1", only(Page::with_body(manifest.to_string())));
    assert!(
        stage
            .error(&of(format!("oci://{host}/team"), "1.2.1"))
            .contains("digest of the received archive does not match")
    );
    stage.server.add_page("/v2/team/web/manifests/1.2.2", only(Page::with_body(r#"{"layers": []}"#)));
    assert!(stage.error(&of(format!("oci://{host}/team"), "1.2.2")).contains("not a Helm chart"));
}
