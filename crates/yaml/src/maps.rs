use std::collections::{HashMap, HashSet};

use super::Problem;
use super::ProblemCause;
use super::node::Node;

/// A key and its value. Keys from a merge (`<<`) may be repeated without an error.
pub(super) struct Entry {
    pub key: String,
    pub line: u64,
    pub node: Node,
    pub is_merged: bool,
}

/// Returns the fields of a map without duplicate keys. Adds a problem to `duplicates` for each repeated key.
pub(super) fn unique_fields(entries: Vec<Entry>, duplicates: &mut Vec<Problem>) -> Vec<(String, Node)> {
    if !entries.iter().any(|entry| entry.is_merged) {
        let entries = entries.into_iter().map(|Entry { key, line, node, .. }| (key, line, node)).collect();
        return remove_duplicates(entries, duplicates);
    }
    // As in kubectl's parser, the last occurrence of a key wins, whether merged or written directly. Only a
    // key written directly twice keeps its first value.
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut fields: Vec<(String, Node)> = Vec::new();
    let mut own = HashMap::new();
    for Entry { key, line, node, is_merged: merged } in entries {
        if !merged && let Some(first) = own.insert(key.clone(), line) {
            duplicates.push(duplicate_key(&key, first, line));
            continue;
        }
        match places.get(&key).and_then(|place| fields.get_mut(*place)) {
            Some(field) => field.1 = node,
            None => {
                places.insert(key.clone(), fields.len());
                fields.push((key, node));
            }
        }
    }
    fields
}

fn duplicate_key(key: &str, first: u64, line: u64) -> Problem {
    Problem::new(line, ProblemCause::DuplicateKey { key: key.to_owned(), first, second: line })
}

/// Removes all but the first occurrence of each key. Adds a problem to `duplicates` for each removed entry.
pub(super) fn remove_duplicates(
    entries: Vec<(String, u64, Node)>,
    duplicates: &mut Vec<Problem>,
) -> Vec<(String, Node)> {
    let mut order: Vec<(&str, usize, u64)> =
        entries.iter().enumerate().map(|(place, (key, line, _))| (key.as_str(), place, *line)).collect();
    order.sort_unstable();
    let mut repeated = HashSet::new();
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        let Some(((key, _, first), others)) = same.split_first() else { continue };
        for (_, place, line) in others {
            repeated.insert(*place);
            duplicates.push(duplicate_key(key, *first, *line));
        }
    }
    let fields = entries.into_iter().enumerate().filter(|(place, _)| !repeated.contains(place));
    fields.map(|(_, (key, _, node))| (key, node)).collect()
}
