//! Which folders a kustomization needs. All of them have to be in the commit: nothing is fetched.

use std::collections::BTreeSet;

use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::Value;

use super::{Found, find, wrong};
use crate::SourceError;
use crate::files::meant;
use crate::tree::Reader;

/// More folders than kustomizations have.
const FOLDERS_MAX: usize = 1_000;
/// Fields that name files or folders.
const NAMED: [&str; 6] = ["resources", "bases", "components", "generators", "transformers", "validators"];
/// Fields that name files alone.
const FILES: [&str; 3] = ["crds", "configurations", "patchesStrategicMerge"];
/// Lists whose entries have a field `path` that names a file.
const WITH_PATH: [&str; 4] = ["patches", "patchesJson6902", "replacements", "patchesStrategicMerge"];
/// Lists whose entries have fields that name files, as `file` or `key=file`.
const GENERATORS: [&str; 2] = ["configMapGenerator", "secretGenerator"];

/// The folders, none inside another, with their trees.
pub(super) fn folders(
    reader: &Reader<'_>,
    path: &str,
    root: Found,
) -> Result<Vec<(String, ObjectId)>, SourceError> {
    let mut known = BTreeSet::from([path.to_owned()]);
    let mut waiting = vec![(path.to_owned(), root)];
    while let Some((folder, found)) = waiting.pop() {
        for named in needed(reader, &folder, &found)? {
            if !known.insert(named.clone()) {
                continue;
            }
            if known.len() > FOLDERS_MAX {
                let limit = u64::try_from(FOLDERS_MAX).unwrap_or(u64::MAX);
                return Err(SourceError::Limit {
                    path: path.to_owned(),
                    limit,
                    what: "folders of kustomizations",
                });
            }
            // One without a kustomization is told by Kustomize.
            if let Some(found) = find(reader, &named)? {
                waiting.push((named, found));
            }
        }
    }
    let is_inside = |one: &String| {
        known.iter().any(|other| other != one && (other.is_empty() || one.starts_with(&format!("{other}/"))))
    };
    let outer: Vec<&String> = known.iter().filter(|one| !is_inside(one)).collect();
    let mut folders = Vec::new();
    for one in outer {
        if let Some(tree) = reader.find_folder(one)? {
            let has_links = reader.list(tree, one, true)?.iter().any(|entry| entry.is_link());
            // Where a link leads to is as much a part of it, and may be anywhere.
            folders.push((one.clone(), tree));
            if has_links {
                folders.push((String::new(), reader.root));
                break;
            }
        }
    }
    Ok(if folders.iter().any(|(path, _)| path.is_empty()) {
        vec![(String::new(), reader.root)]
    } else {
        folders
    })
}

/// The folders that one kustomization names.
fn needed(reader: &Reader<'_>, folder: &str, found: &Found) -> Result<Vec<String>, SourceError> {
    let mut needed = Vec::new();
    for text in texts(&found.value, &NAMED) {
        // It may be written out on the spot.
        if text.contains('\n') {
            continue;
        }
        let path = local(folder, text, &found.file)?;
        match reader.lookup(&path)?.map(|entry| reader.follow(&path, &entry)).transpose()? {
            Some((at, entry)) if entry.kind == EntryKind::Tree => needed.push(at),
            Some(_) => {}
            None if looks_remote(text) => return Err(remote(&found.file, text)),
            None => {
                return Err(wrong(
                    &found.file,
                    format!("it names {text}, and there is no {path} in the commit"),
                ));
            }
        }
    }
    let paths = entries(&found.value, &WITH_PATH).filter_map(|entry| entry.get("path")?.as_str());
    let generated = entries(&found.value, &GENERATORS).flat_map(|entry| {
        let lists = ["files", "envs"].into_iter().filter_map(|name| entry.get(name)?.as_array());
        lists.flatten().chain(entry.get("env")).filter_map(Value::as_str)
    });
    let open_api = found.value.pointer("/openapi/path").and_then(Value::as_str);
    for text in texts(&found.value, &FILES).chain(paths).chain(generated).chain(open_api) {
        let file = text.split_once('=').map_or(text, |(_, file)| file);
        if !text.contains('\n') && (file.contains("://") || text.contains("://")) {
            return Err(remote(&found.file, text));
        }
    }
    Ok(needed)
}

fn local(folder: &str, text: &str, file: &str) -> Result<String, SourceError> {
    if text.contains("://") {
        return Err(remote(file, text));
    }
    if text.starts_with('/') {
        return Err(wrong(
            file,
            format!("it names {text}, and absolute paths are not followed; write it relative to the folder"),
        ));
    }
    meant(folder, text)
}

fn remote(file: &str, text: &str) -> SourceError {
    SourceError::RemoteBase { file: file.to_owned(), base: shown(text) }
}

/// An address without what may be secret in it.
fn shown(text: &str) -> String {
    match text.split_once('@') {
        Some((before, after)) => match before.rsplit_once("://") {
            Some((scheme, _)) => format!("{scheme}://***@{after}"),
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

/// Whether what is not there looks as if it were on a server.
fn looks_remote(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    ["git@", "git::", "?ref=", ".git", "//"].iter().any(|part| text.contains(part))
        || (host.contains('.') && !host.starts_with('.') && text.contains('/'))
}

fn entries<'v>(value: &'v Value, names: &'v [&str]) -> impl Iterator<Item = &'v Value> {
    let list = |name: &&str| value.get(*name).and_then(Value::as_array);
    names.iter().filter_map(list).flatten()
}

fn texts<'v>(value: &'v Value, names: &'v [&str]) -> impl Iterator<Item = &'v str> {
    entries(value, names).filter_map(Value::as_str)
}
