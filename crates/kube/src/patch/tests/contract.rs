//! Guarantees of client-side apply, for any manifest and any concurrent change.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tidegate_model::Gvk;

use super::applier::apply_patch;
use crate::patch::schema::{self, Merge, TypeSchema};
use crate::patch::three_way_patch;

static ANY: std::sync::LazyLock<&'static TypeSchema> =
    std::sync::LazyLock::new(|| schema::find_type(&Gvk::new("", "v1", "ConfigMap")).unwrap());

/// Generates a map with a subset of the named fields.
fn field_strategy(of: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let entries: Vec<_> = of
        .into_iter()
        .map(|(name, value)| {
            proptest::option::of(value).prop_map(move |value| value.map(|value| (name.to_owned(), value)))
        })
        .collect();
    entries.prop_map(|entries| Value::Object(entries.into_iter().flatten().collect())).boxed()
}

fn text_strategy(some: &'static [&'static str]) -> BoxedStrategy<Value> {
    proptest::sample::select(some).prop_map(Value::from).boxed()
}

/// Generates items with a few distinct keys, in any order.
fn item_strategy(
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

/// Generates items that the merge key can't tell apart.
fn port_strategy() -> BoxedStrategy<Value> {
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

fn container_strategy() -> BoxedStrategy<Value> {
    field_strategy(vec![
        ("image", text_strategy(&["a", "b"])),
        ("args", proptest::collection::vec(text_strategy(&["-a", "-b"]), 0..3).prop_map(Value::from).boxed()),
        (
            "env",
            item_strategy(
                "name",
                &["A", "B", "C"],
                field_strategy(vec![("value", text_strategy(&["1", "2"]))]),
            ),
        ),
        ("ports", port_strategy()),
        (
            "resources",
            field_strategy(vec![("limits", field_strategy(vec![("cpu", text_strategy(&["1", "2"]))]))]),
        ),
    ])
}

fn deployment_strategy() -> BoxedStrategy<Value> {
    let volume = prop_oneof![
        Just(json!({})),
        text_strategy(&["c", "d"]).prop_map(|name| json!({"configMap": {"name": name}})),
        Just(json!({"emptyDir": {}})),
    ];
    let spec = field_strategy(vec![
        ("containers", item_strategy("name", &["x", "y", "z", "w"], container_strategy())),
        ("volumes", item_strategy("name", &["v1", "v2"], volume.boxed())),
        ("nodeName", text_strategy(&["n", "m"])),
    ]);
    let strategy = prop_oneof![
        Just(json!({"type": "Recreate"})),
        text_strategy(&["10%", "50%"])
            .prop_map(|surge| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}})),
    ];
    let finalizers = proptest::sample::subsequence(&["f/1", "f/2", "f/3"][..], 0..=3).prop_shuffle();
    let metadata = field_strategy(vec![
        (
            "labels",
            field_strategy(vec![
                ("a", text_strategy(&["1", "2"])),
                ("b", text_strategy(&["1", "2"])),
                ("c", text_strategy(&["1", "2"])),
            ]),
        ),
        ("finalizers", finalizers.prop_map(|list| json!(list)).boxed()),
    ]);
    let body = field_strategy(vec![
        ("replicas", (0..3_u8).prop_map(Value::from).boxed()),
        ("strategy", strategy.boxed()),
        ("template", field_strategy(vec![("spec", spec)])),
    ]);
    (metadata, body)
        .prop_map(|(mut metadata, spec)| {
            metadata["name"] = json!("x");
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        })
        .boxed()
}

/// Finds the item of `list` that corresponds to `item`.
fn find_matching_item<'a>(list: &'a [Value], item: &Value, merge: Merge) -> Option<&'a Value> {
    let Merge::KeyedList(rule) = merge else { return list.iter().find(|there| *there == item) };
    let also = |item: &Value| {
        rule.further_field.map(|further| item.get(further.name).cloned().unwrap_or(further.default.into()))
    };
    list.iter().find(|there| there[rule.key] == item[rule.key] && also(there) == also(item))
}

/// Checks that `object` contains each field and item of `manifest`.
fn check_contained(object: &Value, manifest: &Value, merge: Merge, of: &TypeSchema) -> Result<(), String> {
    match (manifest, object, merge) {
        (Value::Object(manifest), Value::Object(object), Merge::Plain | Merge::Union) => {
            for (name, value) in manifest {
                let (merge, of) = of.merge_rule(name);
                let there = object.get(name).ok_or_else(|| format!("{name} is missing"))?;
                check_contained(there, value, merge, of).map_err(|error| format!("{name}: {error}"))?;
            }
            Ok(())
        }
        (Value::Array(manifest), Value::Array(object), Merge::KeyedList(_) | Merge::StringSet) => {
            for item in manifest {
                let there =
                    find_matching_item(object, item, merge).ok_or_else(|| format!("{item} is missing"))?;
                check_contained(there, item, Merge::Plain, of)?;
            }
            Ok(())
        }
        _ if manifest == object => Ok(()),
        _ => Err(format!("{object} is there instead of {manifest}")),
    }
}

/// Returns the expected result of the patch.
fn expected_result(
    original: &Value,
    modified: &Value,
    current: &Value,
    merge: Merge,
    of: &TypeSchema,
) -> Value {
    match (modified, current, merge) {
        (Value::Object(new), Value::Object(there), Merge::Plain | Merge::Union) => {
            let mut result = Map::new();
            for (name, value) in new {
                let (merge, of) = of.merge_rule(name);
                let there = there.get(name).unwrap_or(&Value::Null);
                result.insert(name.clone(), expected_result(&original[name], value, there, merge, of));
            }
            for (name, value) in there {
                if !new.contains_key(name) && original.get(name).is_none() {
                    result.insert(name.clone(), value.clone());
                }
            }
            // The first change to a union removes the mutually exclusive fields.
            if matches!(merge, Merge::Union) && result != *there {
                result.retain(|name, _| new.contains_key(name));
            }
            Value::Object(result)
        }
        (Value::Array(new), Value::Array(there), Merge::KeyedList(_) | Merge::StringSet) => {
            let old = original.as_array().map_or(&[][..], Vec::as_slice);
            let union = matches!(merge, Merge::KeyedList(rule) if rule.is_union);
            let inner = if union { Merge::Union } else { Merge::Plain };
            let item = |item: &Value| match find_matching_item(there, item, merge) {
                Some(live) => expected_result(
                    find_matching_item(old, item, merge).unwrap_or(&Value::Null),
                    item,
                    live,
                    inner,
                    of,
                ),
                None => item.clone(),
            };
            let others = |item: &&Value| {
                find_matching_item(new, item, merge).is_none()
                    && find_matching_item(old, item, merge).is_none()
            };
            new.iter().map(item).chain(there.iter().filter(others).cloned()).collect()
        }
        _ => modified.clone(),
    }
}

/// Returns the value with the lists sorted that may have items of other managers.
fn sort_lists(value: &Value, merge: Merge, of: &TypeSchema) -> Value {
    match (value, merge) {
        (Value::Object(fields), _) => fields
            .iter()
            .map(|(name, value)| {
                let (merge, of) = of.merge_rule(name);
                (name.clone(), sort_lists(value, merge, of))
            })
            .collect(),
        (Value::Array(items), Merge::KeyedList(_) | Merge::StringSet) => {
            let mut items: Vec<Value> = items.iter().map(|item| sort_lists(item, Merge::Plain, of)).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        _ => value.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn built_in_kinds_match_the_manifest_after_the_patch(
        original in proptest::option::of(deployment_strategy()), modified in deployment_strategy(), current in deployment_strategy(),
    ) {
        let gvk = Gvk::new("apps", "v1", "Deployment");
        let of = schema::find_type(&gvk).unwrap();
        let patch = three_way_patch(&gvk, original.as_ref(), &modified, &current).unwrap();
        let result = patch.as_ref().map_or_else(|| current.clone(), |patch| apply_patch(&current, patch, &gvk));
        let shown = patch.map(|patch| patch.body);
        prop_assert_eq!(check_contained(&result, &modified, Merge::Plain, of), Ok(()), "{:?}", shown);
        let wanted = expected_result(&original.unwrap_or(Value::Null), &modified, &current, Merge::Plain, of);
        let (result_sorted, wanted) = (sort_lists(&result, Merge::Plain, of), sort_lists(&wanted, Merge::Plain, of));
        prop_assert_eq!(result_sorted, wanted, "{:?}", shown);
        prop_assert_eq!(three_way_patch(&gvk, Some(&modified), &modified, &result).unwrap(), None, "{:?}", shown);
    }

    #[test]
    fn custom_resources_match_the_manifest_after_the_patch(
        original in proptest::option::of(deployment_strategy()), modified in deployment_strategy(), current in deployment_strategy(),
    ) {
        let gvk = Gvk::new("example.org", "v1", "Deployment");
        let patch = three_way_patch(&gvk, original.as_ref(), &modified, &current).unwrap();
        let result = patch.map_or_else(|| current.clone(), |patch| apply_patch(&current, &patch, &gvk));
        // A JSON merge patch treats every list as atomic, so the expected result uses a type without lists at
        // the compared paths.
        let parts = |value: &Value| json!({"spec": value["spec"], "labels": value["metadata"]["labels"]});
        let original = original.as_ref().map_or(Value::Null, parts);
        let wanted = expected_result(&original, &parts(&modified), &parts(&current), Merge::Plain, &ANY);
        prop_assert_eq!(&result["spec"], &wanted["spec"]);
        if modified["metadata"].get("labels").is_some() {
            prop_assert_eq!(&result["metadata"]["labels"], &wanted["labels"]);
        }
        prop_assert_eq!(three_way_patch(&gvk, Some(&modified), &modified, &result).unwrap(), None);
    }
}
