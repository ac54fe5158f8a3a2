//! Repository names and paths.

use std::path::Path;

use tidegate_application::push_events::PushEvent;
use tidegate_model::argo::{ApplicationSource, DirectorySource};
use tidegate_source::{Address, RenderInputs, Repositories, allows, commit_folder, is_affected};
use tidegate_testkit::fuzz;

use crate::checks::{check_glob, lines};

#[test]
fn fuzz_generate_paths() {
    let seeds: [&[u8]; 3] = [
        b".;../base;/charts/*/values.yaml\napps/shop\napps/shop/a.yaml\ncharts/x/values.yaml",
        b"/[a-c]*/[^x]?\\*;;\n\nb1/c*\n/",
        b"************a;[[]]]][-];[z-a]\na\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\n\\",
    ];
    fuzz::fuzz_bytes("generate-paths", &seeds, &["*", "?", "[^", "-]", ";", "\n"], |input| {
        let [paths, folder, first, second] = lines(input);
        let all = is_affected(&paths, &folder, [first.as_str(), second.as_str()]);
        let either = [&first, &second].map(|file| is_affected(&paths, &folder, [file.as_str()]));
        assert_eq!(all, either.contains(&true), "files match independently");
        check_glob(&paths, &first);
    });
}

#[test]
fn fuzz_addresses_and_revisions() {
    let seeds: [&[u8]; 5] = [
        b"https://me:secret@example.com:8443/org/shop.git?a=b#c\nv1.2.3\n>=1.2, <2 || ~3.x",
        b"git@example.com:org/shop\nrefs/heads/main\n^1.2.3-beta.1",
        b"ssh://git@[::1]:22/~me/shop.git\n1.10\n1.2 - 1.4",
        b"file://localhost/srv/repo\nv18446744073709551615.0.0\n*",
        b"../repo\nHEAD~3\n!=1",
    ];
    fuzz::fuzz_bytes("addresses", &seeds, &["://", "@", ":", "%2e%2e", "||", " - ", ">="], |input| {
        let [url, version, constraint] = lines(input);
        if let Ok(address) = Address::parse(&url, Path::new("/apps")) {
            let shown = address.to_string();
            assert_eq!(Address::parse(&url, Path::new("/apps")).unwrap(), address);
            assert!(!shown.is_empty());
        }
        let source = ApplicationSource { repo_url: url.clone(), ..ApplicationSource::default() };
        let push = PushEvent::new([url.as_str(), version.as_str()]).with_ref(&version, true);
        push.is_to(&source);
        push.can_move(&constraint, allows);
    });
}

/// Regardless of the path, no file outside of the repository may be read.
#[test]
fn fuzz_git_paths() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    write("outside.yaml", "what nobody may read");
    write("repo/apps/shop/a.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    write("repo/apps/shop/deep/b.json", "{}");
    std::os::unix::fs::symlink("../../..", folder.path().join("repo/apps/up")).unwrap();
    std::os::unix::fs::symlink("loop", folder.path().join("repo/apps/loop")).unwrap();
    let commit = commit_folder(&folder.path().join("repo"), "change", 1_795_253_400).unwrap().unwrap();
    let repositories = Repositories::default();
    let repository = repositories.open("./repo", folder.path()).unwrap();
    let seeds: [&[u8]; 3] =
        [b"apps/shop\n{a,deep/b}.*\n*.txt", b"./apps/../apps/up\n**\n", b"apps/loop/x\n[!a]\n{"];
    fuzz::fuzz_bytes("git-paths", &seeds, &["outside.yaml", ".git", "apps/up/", "{a,", "/**/"], |input| {
        let [path, include, exclude] = lines(input);
        let directory = DirectorySource { recurse: true, include, exclude, ..DirectorySource::default() };
        let source =
            ApplicationSource { path, directory: Some(Box::new(directory)), ..ApplicationSource::default() };
        let making = RenderInputs::default();
        let Ok(located) = repository.locate_manifests(&source, &commit, &making) else { return };
        for file in repository.read(&located, &making).unwrap_or_default() {
            assert!(!String::from_utf8_lossy(&file.content).contains("nobody"), "{}", file.path);
        }
    });
}
