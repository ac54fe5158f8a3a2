//! What client-side apply promises, for any manifests and whatever others did in between.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_model::Gvk;

use super::applier::apply;
use crate::patch::schema::{self, Merge, Type};
use crate::patch::three_way;

static ANY: std::sync::LazyLock<&'static Type> =
    std::sync::LazyLock::new(|| schema::of(&Gvk::new("", "v1", "ConfigMap")).unwrap());

/// A map of some of the named fields.
fn fields(of: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let entries: Vec<_> = of
        .into_iter()
        .map(|(name, value)| {
            proptest::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
        })
        .collect();
    entries.prop_map(|entries| Value::Object(entries.into_iter().flatten().collect())).boxed()
}

fn texts(some: &'static [&'static str]) -> BoxedStrategy<Value> {
    proptest::sample::select(some).prop_map(Value::from).boxed()
}

/// Items with keys of a few, in any order, without repetition.
fn keyed(
    key: &'static str,
    keys: &'static [&'static str],
    item: BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    let keys = proptest::sample::subsequence(keys, 0..=keys.len()).prop_shuffle();
    (keys, proptest::collection::vec(item, 4))
        .prop_map(move |(keys, items)| {
            let with_key = |(name, mut item): (&str, Value)| {
                item[key] = name.into();
                item
            };
            keys.into_iter().zip(items).map(with_key).collect()
        })
        .boxed()
}

/// Items that the merge key does not tell apart.
fn ports() -> BoxedStrategy<Value> {
    let port = (1..4_u8, any::<bool>(), proptest::option::of(1..3_u8)).prop_map(|(port, udp, host)| {
        let mut item = json!({"containerPort": port});
        if udp {
            item["protocol"] = json!("UDP");
        }
        if let Some(host) = host {
            item["hostPort"] = host.into();
        }
        item
    });
    proptest::collection::vec(port, 0..4)
        .prop_map(|mut ports| {
            let mut seen = Vec::new();
            ports.retain(|port| {
                let identity = (port["containerPort"].clone(), port.get("protocol").cloned());
                let new = !seen.contains(&identity);
                seen.push(identity);
                new
            });
            Value::Array(ports)
        })
        .boxed()
}

fn container() -> BoxedStrategy<Value> {
    fields(vec![
        ("image", texts(&["a", "b"])),
        ("args", proptest::collection::vec(texts(&["-a", "-b"]), 0..3).prop_map(Value::from).boxed()),
        ("env", keyed("name", &["A", "B", "C"], fields(vec![("value", texts(&["1", "2"]))]))),
        ("ports", ports()),
        ("resources", fields(vec![("limits", fields(vec![("cpu", texts(&["1", "2"]))]))])),
    ])
}

fn deployment() -> BoxedStrategy<Value> {
    let volume = prop_oneof![
        Just(json!({})),
        texts(&["c", "d"]).prop_map(|name| json!({"configMap": {"name": name}})),
        Just(json!({"emptyDir": {}})),
    ];
    let spec = fields(vec![
        ("containers", keyed("name", &["x", "y", "z", "w"], container())),
        ("volumes", keyed("name", &["v1", "v2"], volume.boxed())),
        ("nodeName", texts(&["n", "m"])),
    ]);
    let strategy = prop_oneof![
        Just(json!({"type": "Recreate"})),
        texts(&["10%", "50%"])
            .prop_map(|surge| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}})),
    ];
    let finalizers = proptest::sample::subsequence(&["f/1", "f/2", "f/3"][..], 0..=3).prop_shuffle();
    let metadata = fields(vec![
        (
            "labels",
            fields(vec![("a", texts(&["1", "2"])), ("b", texts(&["1", "2"])), ("c", texts(&["1", "2"]))]),
        ),
        ("finalizers", finalizers.prop_map(|list| json!(list)).boxed()),
    ]);
    let body = fields(vec![
        ("replicas", (0..3_u8).prop_map(Value::from).boxed()),
        ("strategy", strategy.boxed()),
        ("template", fields(vec![("spec", spec)])),
    ]);
    (metadata, body)
        .prop_map(|(mut metadata, spec)| {
            metadata["name"] = json!("x");
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        })
        .boxed()
}

/// Whether an item of `list` is the same as `item`.
fn same<'a>(list: &'a [Value], item: &Value, merge: Merge) -> Option<&'a Value> {
    let Merge::Items(rule) = merge else { return list.iter().find(|there| *there == item) };
    let also =
        |item: &Value| rule.also.map(|(field, default)| item.get(field).cloned().unwrap_or(default.into()));
    list.iter().find(|there| there[rule.key] == item[rule.key] && also(there) == also(item))
}

/// Each field and item of `manifest`, with what stands in the same place of `object`.
fn contained(object: &Value, manifest: &Value, merge: Merge, of: &Type) -> Result<(), String> {
    match (manifest, object, merge) {
        (Value::Object(manifest), Value::Object(object), Merge::Plain | Merge::Union) => {
            for (name, value) in manifest {
                let (merge, of) = of.field(name);
                let there = object.get(name).ok_or_else(|| format!("{name} is missing"))?;
                contained(there, value, merge, of).map_err(|error| format!("{name}: {error}"))?;
            }
            Ok(())
        }
        (Value::Array(manifest), Value::Array(object), Merge::Items(_) | Merge::Values) => {
            for item in manifest {
                let there = same(object, item, merge).ok_or_else(|| format!("{item} is missing"))?;
                contained(there, item, Merge::Plain, of)?;
            }
            Ok(())
        }
        _ if manifest == object => Ok(()),
        _ => Err(format!("{object} is there instead of {manifest}")),
    }
}

/// What must be there after the patch, and nothing else.
fn expected(original: &Value, modified: &Value, current: &Value, merge: Merge, of: &Type) -> Value {
    match (modified, current, merge) {
        (Value::Object(new), Value::Object(there), Merge::Plain | Merge::Union) => {
            let mut result = Map::new();
            for (name, value) in new {
                let (merge, of) = of.field(name);
                let there = there.get(name).unwrap_or(&Value::Null);
                result.insert(name.clone(), expected(&original[name], value, there, merge, of));
            }
            for (name, value) in there {
                if !new.contains_key(name) && original.get(name).is_none() {
                    result.insert(name.clone(), value.clone());
                }
            }
            // Fields that exclude each other go with the first change.
            if matches!(merge, Merge::Union) && result != *there {
                result.retain(|name, _| new.contains_key(name));
            }
            Value::Object(result)
        }
        (Value::Array(new), Value::Array(there), Merge::Items(_) | Merge::Values) => {
            let old = original.as_array().map_or(&[][..], Vec::as_slice);
            let union = matches!(merge, Merge::Items(rule) if rule.union);
            let inner = if union { Merge::Union } else { Merge::Plain };
            let item = |item: &Value| match same(there, item, merge) {
                Some(live) => expected(same(old, item, merge).unwrap_or(&Value::Null), item, live, inner, of),
                None => item.clone(),
            };
            let others = |item: &&Value| same(new, item, merge).is_none() && same(old, item, merge).is_none();
            new.iter().map(item).chain(there.iter().filter(others).cloned()).collect()
        }
        _ => modified.clone(),
    }
}

/// The same, whatever the order of lists in which others may have items.
fn sorted(value: &Value, merge: Merge, of: &Type) -> Value {
    match (value, merge) {
        (Value::Object(fields), _) => fields
            .iter()
            .map(|(name, value)| {
                let (merge, of) = of.field(name);
                (name.clone(), sorted(value, merge, of))
            })
            .collect(),
        (Value::Array(items), Merge::Items(_) | Merge::Values) => {
            let mut items: Vec<Value> = items.iter().map(|item| sorted(item, Merge::Plain, of)).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        _ => value.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn built_in_kinds_become_what_the_manifest_says(
        original in proptest::option::of(deployment()), modified in deployment(), current in deployment(),
    ) {
        let gvk = Gvk::new("apps", "v1", "Deployment");
        let of = schema::of(&gvk).unwrap();
        let patch = three_way(&gvk, original.as_ref(), &modified, &current).unwrap();
        let result = patch.as_ref().map_or_else(|| current.clone(), |patch| apply(&current, patch, &gvk));
        let shown = patch.map(|patch| patch.body);
        prop_assert_eq!(contained(&result, &modified, Merge::Plain, of), Ok(()), "{:?}", shown);
        let wanted = expected(&original.unwrap_or(Value::Null), &modified, &current, Merge::Plain, of);
        let (result_sorted, wanted) = (sorted(&result, Merge::Plain, of), sorted(&wanted, Merge::Plain, of));
        prop_assert_eq!(result_sorted, wanted, "{:?}", shown);
        prop_assert_eq!(three_way(&gvk, Some(&modified), &modified, &result).unwrap(), None, "{:?}", shown);
    }

    #[test]
    fn custom_resources_become_what_the_manifest_says(
        original in proptest::option::of(deployment()), modified in deployment(), current in deployment(),
    ) {
        let gvk = Gvk::new("example.org", "v1", "Deployment");
        let patch = three_way(&gvk, original.as_ref(), &modified, &current).unwrap();
        let result = patch.map_or_else(|| current.clone(), |patch| apply(&current, &patch, &gvk));
        // Every list is one value, so the expectation uses a type with no lists in the places looked at.
        let parts = |value: &Value| json!({"spec": value["spec"], "labels": value["metadata"]["labels"]});
        let original = original.as_ref().map_or(Value::Null, parts);
        let wanted = expected(&original, &parts(&modified), &parts(&current), Merge::Plain, &ANY);
        prop_assert_eq!(&result["spec"], &wanted["spec"]);
        if modified["metadata"].get("labels").is_some() {
            prop_assert_eq!(&result["metadata"]["labels"], &wanted["labels"]);
        }
        prop_assert_eq!(three_way(&gvk, Some(&modified), &modified, &result).unwrap(), None);
    }
}
