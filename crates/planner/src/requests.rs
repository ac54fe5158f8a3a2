//! What do the `tidegate.dev/*` annotations of an object ask for?

use std::time::Duration;

use tidegate_model::{Object, annotations, parse_duration};

use crate::hooks::Remark;
use crate::text::words;

/// What one object asks for with `tidegate.dev/*` annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// Deadline of its wave.
    pub wave_timeout: Option<Duration>,
    /// Deadline of the hook.
    pub timeout: Option<Duration>,
    /// Gates before its wave, sorted, without duplicates.
    pub gates: Vec<String>,
    /// Who carries out the hook.
    pub hook_runner: Option<String>,
    /// Name of the judge that says how healthy it is, in place of the rules (`tidegate.dev/health-judge`).
    pub health_judge: Option<String>,
    /// A retry starts from the first wave.
    pub restart_on_retry: bool,
}

/// Annotations that only the engine writes.
pub(crate) const RESERVED: [&str; 3] =
    [annotations::OPERATION_ID, annotations::HOOK_ATTEMPT, annotations::HOOK_PHASE];
const KNOWN: [&str; 13] = [
    annotations::WAVE_TIMEOUT,
    annotations::TIMEOUT,
    annotations::RETRY,
    annotations::GATE,
    annotations::HOOK_RUNNER,
    annotations::HOOK_ON,
    annotations::RUN_WHEN,
    annotations::INPUTS,
    annotations::HEALTH_JUDGE,
    annotations::HEALTH_CONVENTION,
    annotations::HEALTH_CURRENT,
    annotations::HEALTH_IN_PROGRESS,
    annotations::HEALTH_FAILED,
];

/// Reads the annotations of an object, and notes what is surprising in them.
pub(crate) fn requests(object: &Object, is_hook: bool, remarks: &mut Vec<Remark>) -> Requests {
    review_names(object, remarks);
    let mut requests = Requests {
        wave_timeout: duration(object, annotations::WAVE_TIMEOUT, remarks),
        timeout: duration(object, annotations::TIMEOUT, remarks),
        gates: gates(object, remarks),
        hook_runner: actor(object, annotations::HOOK_RUNNER, remarks),
        health_judge: actor(object, annotations::HEALTH_JUDGE, remarks),
        restart_on_retry: restart(object, remarks),
    };
    if !is_hook {
        for annotation in [annotations::TIMEOUT, annotations::HOOK_RUNNER] {
            if object.annotation(annotation).is_some() {
                remarks.push((
                    "annotation-without-effect",
                    format!("annotation {annotation} has no effect on an object that is not a hook"),
                ));
            }
        }
        requests.timeout = None;
        requests.hook_runner = None;
    }
    requests
}

fn review_names(object: &Object, remarks: &mut Vec<Remark>) {
    let Some(all) = object.pointer("/metadata/annotations").and_then(|all| all.as_object()) else { return };
    for name in all.keys().filter(|name| name.starts_with(annotations::TIDEGATE_PREFIX)) {
        if RESERVED.contains(&name.as_str()) {
            remarks.push((
                "reserved-annotation",
                format!("annotation {name} is written by Tidegate itself and is removed"),
            ));
        } else if !KNOWN.contains(&name.as_str()) {
            remarks.push((
                "unknown-annotation",
                format!("annotation {name:?} is not known and has no effect; known are {}", KNOWN.join(", ")),
            ));
        }
    }
}

fn duration(object: &Object, annotation: &str, remarks: &mut Vec<Remark>) -> Option<Duration> {
    let value = object.annotation(annotation)?;
    match parse_duration(value) {
        Ok(duration) if !duration.is_zero() => return Some(duration),
        Ok(_) => remarks.push((
            "invalid-duration",
            format!("annotation {annotation} is zero and is ignored; leave it out for no deadline"),
        )),
        Err(error) => {
            remarks.push(("invalid-duration", format!("annotation {annotation} is ignored: {error}")))
        }
    }
    None
}

/// The gates that an object names for its wave, sorted, without duplicates.
pub fn gates_of(object: &Object) -> Vec<String> {
    let value = object.annotation(annotations::GATE).unwrap_or_default();
    let mut gates: Vec<String> = words(value).into_iter().map(str::to_owned).collect();
    gates.sort_unstable();
    gates
}

fn gates(object: &Object, remarks: &mut Vec<Remark>) -> Vec<String> {
    let gates = gates_of(object);
    if gates.is_empty() && object.annotation(annotations::GATE).is_some() {
        remarks.push(("invalid-gate", format!("annotation {} names no gate", annotations::GATE)));
    }
    gates
}

fn actor(object: &Object, annotation: &'static str, remarks: &mut Vec<Remark>) -> Option<String> {
    let name = object.annotation(annotation)?.trim();
    if name.is_empty() {
        remarks.push(("empty-annotation", format!("annotation {annotation} names nobody and is ignored")));
        return None;
    }
    Some(name.to_owned())
}

fn restart(object: &Object, remarks: &mut Vec<Remark>) -> bool {
    match object.annotation(annotations::RETRY).map(str::trim) {
        Some("restart") => true,
        None | Some("resume") => false,
        Some(other) => {
            remarks.push((
                "invalid-retry",
                format!("{other:?} in annotation {} is ignored; write resume or restart", annotations::RETRY),
            ));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(pairs: &[(&str, &str)], is_hook: bool) -> (Requests, Vec<&'static str>) {
        let mut object =
            Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
                .unwrap();
        for (name, value) in pairs {
            object.set_annotation(name, *value);
        }
        let mut remarks = Vec::new();
        let requests = requests(&object, is_hook, &mut remarks);
        (requests, remarks.into_iter().map(|(code, _)| code).collect())
    }

    #[test]
    fn everything_is_read() {
        let (requests, codes) = read(
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
            Requests {
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
    fn what_cannot_be_read_is_noticed() {
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
            ("tidegate.dev/wave-timout", "5m", false, "unknown-annotation"),
            ("tidegate.dev/health-conventions", "off", false, "unknown-annotation"),
            ("tidegate.dev/health-inprogress", "true", false, "unknown-annotation"),
        ] {
            let (requests, codes) = read(&[(annotation, value)], is_hook);
            assert_eq!(codes, [code], "{annotation}={value}");
            assert_eq!(requests, Requests::default(), "{annotation}={value}");
        }
        for (annotation, value) in [
            ("sim.tidegate.dev/outcome", "fail"),
            (annotations::RETRY, "resume"),
            (annotations::HEALTH_CONVENTION, "off"),
            (annotations::HEALTH_CURRENT, "true"),
            (annotations::HEALTH_IN_PROGRESS, "false"),
            (annotations::HEALTH_FAILED, "false"),
        ] {
            assert!(read(&[(annotation, value)], false).1.is_empty(), "{annotation}");
        }
    }
}
