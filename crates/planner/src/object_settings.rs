//! Settings in an object's `tidegate.dev/*` annotations.

use std::time::Duration;

use tidegate_model::{Object, annotations, parse_duration};

use crate::hooks::Remark;
use crate::text::split_list;

/// Settings in an object's `tidegate.dev/*` annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSettings {
    /// Timeout for the object's wave.
    pub wave_timeout: Option<Duration>,
    /// Timeout for the hook.
    pub timeout: Option<Duration>,
    /// Gates that must open before the object's wave starts, sorted and without duplicates.
    pub gates: Vec<String>,
    /// Hook runner that runs the hook outside the cluster.
    pub hook_runner: Option<String>,
    /// Health judge that replaces the health rule (`tidegate.dev/health-judge`).
    pub health_judge: Option<String>,
    /// True if a retry starts from the first wave.
    pub restart_on_retry: bool,
}

/// Annotations that only the engine writes.
pub(crate) const RESERVED_ANNOTATIONS: [&str; 4] =
    [annotations::OPERATION_ID, annotations::HOOK_ATTEMPT, annotations::HOOK_PHASE, annotations::HOOK_START];

/// Parses an object's annotations, adding remarks about them.
pub(crate) fn object_settings(object: &Object, is_hook: bool, remarks: &mut Vec<Remark>) -> ObjectSettings {
    review_reserved(object, remarks);
    let mut requests = ObjectSettings {
        wave_timeout: parse_duration_annotation(object, annotations::WAVE_TIMEOUT, remarks),
        timeout: parse_duration_annotation(object, annotations::TIMEOUT, remarks),
        gates: parse_gates(object, remarks),
        hook_runner: parse_actor_name(object, annotations::HOOK_RUNNER, remarks),
        health_judge: parse_actor_name(object, annotations::HEALTH_JUDGE, remarks),
        restart_on_retry: parse_restart(object, remarks),
    };
    if !is_hook {
        for annotation in [annotations::TIMEOUT, annotations::HOOK_RUNNER] {
            if object.annotation(annotation).is_some() {
                remarks.push((
                    "annotation-without-effect",
                    format!("the {annotation} annotation has no effect on an object that is not a hook"),
                ));
            }
        }
        requests.timeout = None;
        requests.hook_runner = None;
    }
    requests
}

fn review_reserved(object: &Object, remarks: &mut Vec<Remark>) {
    let Some(all) = object.pointer("/metadata/annotations").and_then(|all| all.as_object()) else { return };
    for name in all.keys().filter(|name| name.starts_with(annotations::TIDEGATE_PREFIX)) {
        if RESERVED_ANNOTATIONS.contains(&name.as_str()) {
            remarks.push((
                "reserved-annotation",
                format!(
                    "the {name} annotation is reserved for Tidegate, so it was removed from the manifest"
                ),
            ));
        }
    }
}

fn parse_duration_annotation(
    object: &Object,
    annotation: &str,
    remarks: &mut Vec<Remark>,
) -> Option<Duration> {
    let value = object.annotation(annotation)?;
    match parse_duration(value) {
        Ok(duration) if !duration.is_zero() => return Some(duration),
        Ok(_) => remarks.push((
            "invalid-duration",
            format!(
                "the {annotation} annotation is zero and is ignored; use a positive duration, or remove the \
                 annotation"
            ),
        )),
        Err(error) => {
            remarks.push(("invalid-duration", format!("the {annotation} annotation is ignored: {error}")))
        }
    }
    None
}

/// Returns the gates that an object requests for its wave, sorted and without duplicates.
pub fn gates_of_object(object: &Object) -> Vec<String> {
    let value = object.annotation(annotations::GATE).unwrap_or_default();
    let mut gates: Vec<String> = split_list(value).into_iter().map(str::to_owned).collect();
    gates.sort_unstable();
    gates
}

fn parse_gates(object: &Object, remarks: &mut Vec<Remark>) -> Vec<String> {
    let gates = gates_of_object(object);
    if gates.is_empty() && object.annotation(annotations::GATE).is_some() {
        remarks.push((
            "invalid-gate",
            format!(
                "the {} annotation does not contain a gate; add a gate, or remove the annotation",
                annotations::GATE
            ),
        ));
    }
    gates
}

fn parse_actor_name(object: &Object, annotation: &'static str, remarks: &mut Vec<Remark>) -> Option<String> {
    let name = object.annotation(annotation)?.trim();
    if name.is_empty() {
        remarks.push(("empty-annotation", format!("the {annotation} annotation is empty and is ignored")));
        return None;
    }
    Some(name.to_owned())
}

fn parse_restart(object: &Object, remarks: &mut Vec<Remark>) -> bool {
    match object.annotation(annotations::RETRY).map(str::trim) {
        Some("restart") => true,
        None | Some("resume") => false,
        Some(other) => {
            remarks.push((
                "invalid-retry",
                format!(
                    "invalid value {other:?} in the {} annotation is ignored; use resume or restart",
                    annotations::RETRY
                ),
            ));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_settings(pairs: &[(&str, &str)], is_hook: bool) -> (ObjectSettings, Vec<&'static str>) {
        let mut object =
            Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
                .unwrap();
        for (name, value) in pairs {
            object.set_annotation(name, *value);
        }
        let mut remarks = Vec::new();
        let requests = object_settings(&object, is_hook, &mut remarks);
        (requests, remarks.into_iter().map(|(code, _)| code).collect())
    }

    #[test]
    fn all_settings_are_parsed() {
        let (requests, codes) = parse_settings(
            &[
                (annotations::WAVE_TIMEOUT, "5m"),
                (annotations::TIMEOUT, "90"),
                (annotations::GATE, "soak, approval,soak"),
                (annotations::HOOK_RUNNER, " http "),
                (annotations::HEALTH_JUDGE, "slo"),
                (annotations::RETRY, "restart"),
            ],
            true,
        );
        assert!(codes.is_empty(), "{codes:?}");
        assert_eq!(
            requests,
            ObjectSettings {
                wave_timeout: Some(Duration::from_secs(300)),
                timeout: Some(Duration::from_secs(90)),
                gates: vec!["approval".to_owned(), "soak".to_owned()],
                hook_runner: Some("http".to_owned()),
                health_judge: Some("slo".to_owned()),
                restart_on_retry: true,
            }
        );
    }

    #[test]
    fn invalid_settings_are_reported() {
        for (annotation, value, is_hook, code) in [
            (annotations::WAVE_TIMEOUT, "soon", false, "invalid-duration"),
            (annotations::WAVE_TIMEOUT, "0", false, "invalid-duration"),
            (annotations::TIMEOUT, "-5s", true, "invalid-duration"),
            (annotations::TIMEOUT, "5s", false, "annotation-without-effect"),
            (annotations::HOOK_RUNNER, "http", false, "annotation-without-effect"),
            (annotations::HOOK_RUNNER, "", true, "empty-annotation"),
            (annotations::GATE, " , ", false, "invalid-gate"),
            (annotations::RETRY, "Restart", false, "invalid-retry"),
            (annotations::OPERATION_ID, "x", true, "reserved-annotation"),
        ] {
            let (requests, codes) = parse_settings(&[(annotation, value)], is_hook);
            assert_eq!(codes, [code], "{annotation}={value}");
            assert_eq!(requests, ObjectSettings::default(), "{annotation}={value}");
        }
        for (annotation, value) in [
            ("sim.tidegate.dev/outcome", "fail"),
            (annotations::RETRY, "resume"),
            (annotations::HEALTH_CONVENTION, "off"),
            (annotations::HEALTH_CURRENT, "true"),
            (annotations::HEALTH_IN_PROGRESS, "false"),
            (annotations::HEALTH_FAILED, "false"),
        ] {
            assert!(parse_settings(&[(annotation, value)], false).1.is_empty(), "{annotation}");
        }
    }
}
