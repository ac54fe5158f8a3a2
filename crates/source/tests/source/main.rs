//! Tests for local repositories. The repositories are created and read without a `git` program.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests may panic")]

mod signatures;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tidegate_model::argo::{ApplicationSource, DirectorySource};
use tidegate_source::{
    Limits, LocatedManifests, RenderInputs, Repositories, Repository, SourceError, commit_folder,
};

const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

struct SourceFixture {
    folder: TempDir,
    repositories: Repositories,
}

impl SourceFixture {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), repositories: Repositories::default() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("repo")
    }

    fn write(&self, file: &str, content: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn commit(&self) -> String {
        commit_folder(&self.path(), "change", 1_795_253_400).unwrap().unwrap()
    }

    fn open(&self) -> Arc<Repository> {
        self.repositories.open("./repo", self.folder.path()).unwrap()
    }

    fn locate(&self, source: &ApplicationSource) -> Result<LocatedManifests, SourceError> {
        let repository = self.open();
        repository.observe().unwrap();
        let commit = repository.resolve(&source.target_revision)?;
        repository.locate_manifests(source, &commit, &RenderInputs::default())
    }

    fn files(&self, source: &ApplicationSource) -> Result<Vec<String>, SourceError> {
        let located = self.locate(source)?;
        let files = self.open().read(&located, &RenderInputs::default())?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }
}

fn source(path: &str) -> ApplicationSource {
    ApplicationSource { path: path.into(), ..ApplicationSource::default() }
}

fn directory(path: &str, recurse: bool, include: &str, exclude: &str) -> ApplicationSource {
    let (include, exclude) = (include.to_owned(), exclude.to_owned());
    let directory = DirectorySource { recurse, include, exclude, ..DirectorySource::default() };
    ApplicationSource { directory: Some(Box::new(directory)), ..source(path) }
}

#[test]
fn the_files_of_a_folder() {
    let bench = SourceFixture::new();
    for file in ["a.yaml", "b.yml", "c.json", "notes.txt", "deep/d.yaml", "deep/er/e.yaml"] {
        bench.write(&format!("app/{file}"), MAP);
    }
    bench.write("other.yaml", MAP);
    bench.commit();
    let all = ["app/a.yaml", "app/b.yml", "app/c.json", "app/deep/d.yaml", "app/deep/er/e.yaml"];
    for (source, expected) in [
        (source("app"), &all[..3]),
        (source("./app/"), &all[..3]),
        (source("deep/../app"), &all[..3]),
        (source("."), &["other.yaml"]),
        (source(""), &["other.yaml"]),
        (directory("app", true, "", ""), &all),
        (directory("app", true, "*.yaml", "deep/er/*"), &["app/a.yaml", "app/deep/d.yaml"]),
        (directory("app", true, "{*.yml,*.json}", ""), &all[1..3]),
    ] {
        assert_eq!(bench.files(&source).unwrap(), expected, "{source:?}");
    }
}

#[test]
fn revisions() {
    let bench = SourceFixture::new();
    bench.write("a.yaml", MAP);
    let first = bench.commit();
    bench.write("b.yaml", MAP);
    let second = bench.commit();
    assert_eq!(
        commit_folder(&bench.path(), "nothing", 0).unwrap(),
        None,
        "an unchanged folder isn't committed"
    );
    let refs = bench.path().join(".git/refs");
    for (name, commit) in [("tags/v1", &first), ("heads/release", &first), ("heads/v1", &second)] {
        fs::write(refs.join(name), format!("{commit}\n")).unwrap();
    }
    let repository = bench.open();
    for (revision, expected) in [
        ("", &second),
        ("HEAD", &second),
        ("main", &second),
        ("release", &first),
        ("v1", &second),
        ("1.*", &first),
        (">=1.0.0 <2", &first),
        ("refs/tags/v1", &first),
        (first.as_str(), &first),
        (&first[..8], &first),
    ] {
        assert_eq!(repository.resolve(revision).unwrap(), *expected, "{revision}");
    }
    for revision in ["none", "2.*", "HEAD~1", "main^{tree}", "0000000000000000000000000000000000000000"] {
        let error = repository.resolve(revision).unwrap_err();
        assert!(error.to_string().contains(revision), "{error}");
    }
}

/// All users of a repository share one observation, which reports changes.
#[test]
fn a_repository_is_opened_once_and_observed_on_request() {
    let bench = SourceFixture::new();
    bench.write("a.yaml", MAP);
    let first = bench.commit();
    let repository = bench.open();
    assert!(Arc::ptr_eq(
        &repository,
        &bench.repositories.open("./repo/../repo", bench.folder.path()).unwrap()
    ));
    assert!(!repository.observe().unwrap(), "the first observation is not a change");
    assert!(!repository.observe().unwrap());
    bench.write("a.yaml", "{}");
    let second = bench.commit();
    assert_eq!(repository.resolve("main").unwrap(), first, "the new commit has not been observed");
    assert!(repository.observe().unwrap());
    assert_eq!(repository.resolve("main").unwrap(), second);
}

#[test]
fn the_key_depends_on_content_and_parameters() {
    let bench = SourceFixture::new();
    bench.write("app/a.yaml", MAP);
    bench.commit();
    let key = |source: &ApplicationSource| bench.locate(source).unwrap().key;
    let first = key(&source("app"));
    assert_eq!(key(&directory("./app", false, "", "")), first, "a different spelling of the same path");
    for other in [source(""), directory("app", true, "", ""), directory("app", false, "*", "")] {
        assert_ne!(key(&other), first, "{other:?}");
    }
    bench.write("elsewhere/b.yaml", MAP);
    bench.commit();
    assert_eq!(key(&source("app")), first, "files outside the folder don't affect the key");
    bench.write("app/a.yaml", "{}");
    bench.commit();
    assert_ne!(key(&source("app")), first);
}

#[test]
fn links_stay_in_the_repository() {
    let bench = SourceFixture::new();
    bench.write("shared/base.yaml", MAP);
    bench.write("app/a.yaml", MAP);
    let link = |target: &str, at: &str| symlink(target, bench.path().join(at)).unwrap();
    link("../shared/base.yaml", "app/linked.yaml");
    link("linked.yaml", "app/twice.yaml");
    link("../shared", "app/folder.yaml");
    bench.commit();
    let app = source("app");
    assert_eq!(bench.files(&app).unwrap(), ["app/a.yaml", "app/linked.yaml", "app/twice.yaml"]);
    let key = bench.locate(&app).unwrap().key;
    bench.write("shared/base.yaml", "{}");
    bench.commit();
    assert_ne!(bench.locate(&app).unwrap().key, key, "the target of the link has changed");
    for (target, expected) in
        [("../../x.yaml", "outside"), ("/etc/passwd", "outside"), ("gone.yaml", "which does not exist")]
    {
        link(target, "app/bad.yaml");
        bench.commit();
        let error = bench.files(&app).unwrap_err().to_string();
        assert!(error.contains("app/bad.yaml") && error.contains(expected), "{target}: {error}");
        fs::remove_file(bench.path().join("app/bad.yaml")).unwrap();
    }
    link("bad.yaml", "app/bad.yaml");
    bench.commit();
    assert!(matches!(bench.files(&app), Err(SourceError::DeadLink { .. })), "a link to itself");
}

#[test]
fn unsupported_features_are_named() {
    let bench = SourceFixture::new();
    for (file, content) in
        [("sonnet/a.jsonnet", "{}"), ("given/.argocd-source.yaml", "plugin: {name: a}"), ("app/a.yaml", MAP)]
    {
        bench.write(file, content);
    }
    bench.commit();
    let asks = |set: fn(&mut ApplicationSource)| {
        let mut source = source("app");
        set(&mut source);
        source
    };
    for (source, expected) in [
        (source("sonnet"), "Jsonnet"),
        (source("given"), "source.plugin"),
        (asks(|source| source.plugin = Some("{}".into())), "source.plugin"),
        (asks(|source| source.tag_prefix = "v".into()), "source.tagPrefix"),
        (asks(|source| drop(source.rest.insert("oci".into(), true.into()))), "source.oci"),
    ] {
        let error = bench.files(&source).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("not supported yet"), "{error}");
    }
    assert_eq!(bench.files(&directory("sonnet", false, "", "*.jsonnet")).unwrap(), Vec::<String>::new());
}

/// Argo CD ignores empty sections, and various programs write them.
#[test]
fn empty_sections_are_ignored() {
    let bench = SourceFixture::new();
    bench.write("app/a.yaml", MAP);
    bench.write("app/deep/b.yaml", MAP);
    bench.commit();
    for (said, expected) in [
        (json!({"jsonnet": {}}), &["app/a.yaml"][..]),
        (json!({"recurse": true, "jsonnet": {}}), &["app/a.yaml", "app/deep/b.yaml"]),
        (
            json!({"recurse": true, "jsonnet": {"extVars": [], "libs": [], "tlas": []}}),
            &["app/a.yaml", "app/deep/b.yaml"],
        ),
        (json!({"recurse": false}), &["app/a.yaml"]),
        (json!({}), &["app/a.yaml"]),
    ] {
        let directory: DirectorySource = serde_json::from_value(said.clone()).unwrap();
        let mut source = ApplicationSource { directory: Some(Box::new(directory)), ..source("app") };
        assert_eq!(bench.files(&source).unwrap(), expected, "{said}");
        (source.helm, source.kustomize, source.plugin) =
            (Some(Box::default()), Some(Box::default()), Some(json!({})));
        assert_eq!(bench.files(&source).unwrap(), expected, "{said} beside other empty blocks");
    }
}

/// If a named pipe were opened, the call would wait for a writer forever.
#[test]
fn a_missing_repository_does_not_delay_others() {
    let bench = SourceFixture::new();
    bench.write("app/a.yaml", MAP);
    bench.commit();
    for name in ["HEAD", "config"] {
        let odd = bench.folder.path().join(name);
        fs::create_dir_all(odd.join("app")).unwrap();
        fs::write(odd.join("app/a.yaml"), MAP).unwrap();
        commit_folder(&odd, "change", 1).unwrap();
        let file = odd.join(".git").join(name);
        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        let error = bench.repositories.open(&format!("./{name}"), bench.folder.path()).err().unwrap();
        assert!(error.to_string().contains(&format!("{name} is not a file")), "{error}");
    }
    assert_eq!(bench.files(&source("app")).unwrap(), ["app/a.yaml"]);
}

/// Argo CD's documentation calls source overrides "parameter overrides in Git".
#[test]
fn override_files_change_the_source() {
    let bench = SourceFixture::new();
    for file in ["a.yaml", "b.yaml", "c.yaml", "deep/d.yaml"] {
        bench.write(&format!("app/{file}"), MAP);
    }
    // In this test, the Application has no name, so a file for a named Application has no effect.
    bench.write("app/.argocd-source-other.yaml", "directory: {exclude: '*'}");
    for (content, expected) in [
        ("", &["app/a.yaml", "app/b.yaml", "app/c.yaml"][..]),
        ("directory: {recurse: true}", &["app/a.yaml", "app/b.yaml", "app/c.yaml", "app/deep/d.yaml"]),
        ("directory: {exclude: 'b*'}", &["app/a.yaml", "app/c.yaml"]),
        // Overrides can't change the location of the source.
        (
            "path: other\nrepoURL: https://example.com/x\ntargetRevision: gone",
            &["app/a.yaml", "app/b.yaml", "app/c.yaml"],
        ),
    ] {
        bench.write("app/.argocd-source.yaml", content);
        bench.commit();
        assert_eq!(bench.files(&source("app")).unwrap(), expected, "{content}");
    }
    // Fields in the overrides take precedence over the same fields in the source.
    bench.write("app/.argocd-source.yaml", "directory: {include: '[ab]*'}");
    bench.commit();
    let said = directory("app", false, "c*", "a*");
    assert_eq!(bench.files(&said).unwrap(), ["app/b.yaml"]);
    for content in ["directory: [a]", "[", "helm: {releaseName: a}\nkustomize: {namePrefix: a}"] {
        bench.write("app/.argocd-source.yaml", content);
        bench.commit();
        assert!(bench.files(&source("app")).is_err(), "{content}");
    }
}

#[test]
fn missing_paths_are_named() {
    let bench = SourceFixture::new();
    fs::create_dir_all(bench.path()).unwrap();
    let open = |url: &str| bench.repositories.open(url, bench.folder.path()).err().unwrap().to_string();
    assert!(open("./repo").contains("cannot open a Git repository"), "an empty folder");
    assert!(open("./gone").contains("gone"));
    bench.write("app/a.yaml", MAP);
    bench.commit();
    for (path, expected) in [("none", "missing"), ("app/a.yaml", "a file"), ("../out", "outside")] {
        let error = bench.files(&source(path)).unwrap_err().to_string();
        assert!(error.contains(path) && error.contains(expected), "{error}");
    }
}

#[test]
fn limits() {
    let bench = SourceFixture::new();
    for at in 0..5 {
        bench.write(&format!("app/{at}/{at}/a.yaml"), MAP);
    }
    bench.commit();
    let limits = Limits::default();
    for (limits, expected) in [
        (Limits { entries: 10, ..limits }, "more than 10 files"),
        (Limits { depth: 2, ..limits }, "more than 2 nested folders"),
        (Limits { bytes: 200, ..limits }, "more than 200 bytes"),
        (Limits { bytes: 20, ..limits }, "more than 20 bytes"),
    ] {
        let with = RenderInputs { limits, ..RenderInputs::default() };
        let repository = bench.open();
        let commit = repository.resolve("HEAD").unwrap();
        let located = repository.locate_manifests(&directory("app", true, "", ""), &commit, &with);
        let error = located.and_then(|located| repository.read(&located, &with)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("path \"app"), "{error}");
    }
    assert!(Path::new(&bench.path()).exists());
}
