use std::fmt;

use serde_json::Value;

/// Step from a value to one of its parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Map field.
    Field(String),
    /// List item.
    Item(usize),
}

/// Path within a value, displayed as a JSON pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(pub Vec<Step>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Field(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))?,
                Step::Item(index) => write!(f, "/{index}")?,
            }
        }
        Ok(())
    }
}

impl Path {
    /// Returns true if this path equals the other or lies inside it.
    pub fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// Returns the value at this path.
    pub fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.0.iter().try_fold(value, |value, step| match step {
            Step::Field(name) => value.as_object()?.get(name),
            Step::Item(index) => value.as_array()?.get(*index),
        })
    }

    /// Removes the value at this path, if present.
    pub fn remove(&self, value: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        let parent = parents.iter().try_fold(value, |value, step| match step {
            Step::Field(name) => value.as_object_mut()?.get_mut(name),
            Step::Item(index) => value.as_array_mut()?.get_mut(*index),
        });
        match (last, parent) {
            (Step::Field(name), Some(Value::Object(fields))) => {
                fields.remove(name);
            }
            (Step::Item(index), Some(Value::Array(items))) if *index < items.len() => {
                items.remove(*index);
            }
            _ => {}
        }
    }

    /// Restores a removed value. A list item goes back to its old position.
    pub fn restore(&self, value: &mut Value, old: Value) {
        let Some((Step::Item(index), parents)) = self.0.split_last() else { return self.set(value, old) };
        let list = Self(parents.to_vec());
        if let Some(Value::Array(items)) = list.get(value) {
            let mut items = items.clone();
            items.insert((*index).min(items.len()), old);
            list.set(value, Value::Array(items));
        }
    }

    /// Sets the value at this path, creating missing fields along the way, but not missing list items.
    pub fn set(&self, value: &mut Value, new: Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        let mut at = value;
        for step in parents {
            let below = match (step, at) {
                (Step::Field(name), Value::Object(fields)) => {
                    Some(fields.entry(name.clone()).or_insert_with(|| Value::Object(serde_json::Map::new())))
                }
                (Step::Item(index), Value::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            let Some(below) = below else { return };
            at = below;
        }
        match (last, at) {
            (Step::Field(name), Value::Object(fields)) => {
                fields.insert(name.clone(), new);
            }
            (Step::Item(index), Value::Array(items)) => match items.get_mut(*index) {
                Some(item) => *item = new,
                None => items.push(new),
            },
            _ => {}
        }
    }
}

/// Removes the values at several paths, later list items first so that the positions of earlier ones stay
/// valid.
pub(super) fn remove_all(value: &mut Value, mut paths: Vec<Path>) {
    paths.sort_unstable();
    paths.dedup();
    for path in paths.iter().rev() {
        path.remove(value);
    }
}

/// Resolves a JSON pointer (RFC 6901) in a value. Returns `None` if the path doesn't exist.
pub(super) fn find_pointer(pointer: &str, value: &Value) -> Option<Path> {
    let mut at = value;
    let mut path = Path::default();
    for segment in pointer.strip_prefix('/')?.split('/') {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let (step, below) = match at {
            Value::Object(fields) => (Step::Field(segment.clone()), fields.get(&segment)?),
            Value::Array(items) => {
                let index: usize = segment.parse().ok()?;
                (Step::Item(index), items.get(index)?)
            }
            _ => return None,
        };
        path.0.push(step);
        at = below;
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_resolved_removed_and_set() {
        let value = json!({"a": {"b/c": [1, 2, 3]}, "d": {"e": 1}});
        for (pointer, found) in
            [("/a/b~1c/1", true), ("/a/b~1c/3", false), ("/a/x", false), ("/d/e/f", false), ("d", false)]
        {
            let path = find_pointer(pointer, &value);
            assert_eq!(path.is_some(), found, "{pointer}");
            if let Some(path) = path {
                assert_eq!(path.to_string(), pointer);
                assert_eq!(path.get(&value), value.pointer(pointer));
            }
        }
        let places = ["/a/b~1c/0", "/a/b~1c/2", "/d"].map(|pointer| find_pointer(pointer, &value).unwrap());
        let mut rest = value.clone();
        remove_all(&mut rest, places.to_vec());
        assert_eq!(rest, json!({"a": {"b/c": [2]}}));
        let field = |names: &[&str]| Path(names.iter().map(|name| Step::Field((*name).to_owned())).collect());
        field(&["x", "y"]).set(&mut rest, json!(7));
        field(&["a", "b/c", "z"]).set(&mut rest, json!(8));
        assert_eq!(rest, json!({"a": {"b/c": [2]}, "x": {"y": 7}}));
    }
}
