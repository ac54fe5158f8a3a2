//! Annotations on an object or its pod template that control how the object behaves in the simulation.

use std::time::Duration;

use serde_json::Value;
use tidegate_model::{Object, parse_duration};

use super::json::field;

/// Prefix of all annotations used by the simulation.
pub const PREFIX: &str = "sim.tidegate.dev/";
/// Time until each pod becomes ready, or until a Job's pod completes. For kinds without pods, the time until
/// the object itself becomes ready.
pub const READY_AFTER: &str = "sim.tidegate.dev/ready-after";
/// Outcome of the object: `fail`, `never-ready`, `crashloop` or `stuck-deleting`.
pub const OUTCOME: &str = "sim.tidegate.dev/outcome";
/// Number of creations of the object that fail. Later creations have the configured `outcome`, or succeed by
/// default.
pub const FAIL_TIMES: &str = "sim.tidegate.dev/fail-times";

/// Lines that a pod's containers write, spread evenly over the pod's running time. Set on the pod or on its
/// owner.
pub const LOGS: &str = "sim.tidegate.dev/logs";

/// Outcome of an object that does not become healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object fails in a way typical of its kind. For example, a Job fails and a PersistentVolumeClaim is
    /// lost.
    Fail,
    /// The object runs but never becomes ready.
    NeverReady,
    /// The object crashes after every start.
    CrashLoop,
    /// The deletion of the object starts but never finishes.
    StuckDeleting,
}

const OUTCOMES: [(&str, Outcome); 4] = [
    ("fail", Outcome::Fail),
    ("never-ready", Outcome::NeverReady),
    ("crashloop", Outcome::CrashLoop),
    ("stuck-deleting", Outcome::StuckDeleting),
];

/// Behavior configured by the annotations of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behavior {
    /// Time until the object is ready.
    pub ready_after: Option<Duration>,
    /// Outcome, or `None` for success.
    pub outcome: Option<Outcome>,
    /// Number of creations that fail.
    pub fail_times: u32,
}

/// Locations of the annotations, in order of precedence.
const ANNOTATION_PATHS: [&[&str]; 4] = [
    &["metadata", "annotations"],
    &["spec", "template", "metadata", "annotations"],
    &["spec", "jobTemplate", "metadata", "annotations"],
    &["spec", "jobTemplate", "spec", "template", "metadata", "annotations"],
];

impl Behavior {
    /// Reads the annotations. An error message contains the invalid value and lists the valid values.
    pub fn parse(object: &Object) -> Result<Self, String> {
        let mut behavior = Self::default();
        for place in ANNOTATION_PATHS.iter().rev() {
            let Some(annotations) = field(object, place).and_then(Value::as_object) else { continue };
            for (name, value) in annotations.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
                let value = value.as_str().unwrap_or_default();
                behavior.set_annotation(name, value).map_err(|reason| {
                    format!("{}[{name}]: Invalid value: {value:?}: {reason}", place.join("."))
                })?;
            }
        }
        Ok(behavior)
    }

    /// Reads the annotations of a stored object, which were validated when the object was written.
    pub fn from_object(object: &Object) -> Self {
        Self::parse(object).unwrap_or_default()
    }

    fn set_annotation(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            READY_AFTER => self.ready_after = Some(parse_duration(value).map_err(|error| error.to_string())?),
            OUTCOME => {
                let known = OUTCOMES.iter().find(|(word, _)| *word == value.trim());
                let text = "must be fail, never-ready, crashloop or stuck-deleting";
                self.outcome = Some(known.ok_or(text)?.1);
            }
            FAIL_TIMES => {
                self.fail_times =
                    value.trim().parse().map_err(|_| "must be a whole number of creations, such as 2")?;
            }
            LOGS => {}
            _ => {
                return Err(format!(
                    "the simulation supports only {READY_AFTER}, {OUTCOME}, {FAIL_TIMES} and {LOGS}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the annotations that make a child behave like its owner. A stuck deletion is not inherited,
    /// because it concerns only the owner itself.
    pub(crate) fn child_annotations(self) -> impl Iterator<Item = (&'static str, String)> {
        let ready = self.ready_after.map(|time| (READY_AFTER, format!("{}ms", time.as_millis())));
        let outcome = self.outcome.filter(|outcome| *outcome != Outcome::StuckDeleting).and_then(|outcome| {
            OUTCOMES
                .iter()
                .find(|(_, known)| *known == outcome)
                .map(|(word, _)| (OUTCOME, (*word).to_owned()))
        });
        ready.into_iter().chain(outcome)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(annotations: Value) -> Object {
        Object::try_from(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": annotations}}))
            .unwrap()
    }

    #[test]
    fn valid_annotations_are_read_and_invalid_ones_refused() {
        let good =
            Behavior::parse(&pod(json!({READY_AFTER: "3s", OUTCOME: "fail", FAIL_TIMES: "2", "other": "x"})));
        let expected = Behavior {
            ready_after: Some(Duration::from_secs(3)),
            outcome: Some(Outcome::Fail),
            fail_times: 2,
        };
        assert_eq!(good.unwrap(), expected);
        for (name, value, reason) in [
            (READY_AFTER, "soon", "invalid duration"),
            (OUTCOME, "explode", "must be fail, never-ready, crashloop or stuck-deleting"),
            (FAIL_TIMES, "-1", "must be a whole number"),
            ("sim.tidegate.dev/outcom", "fail", "the simulation supports only"),
        ] {
            let error = Behavior::parse(&pod(json!({name: value}))).unwrap_err();
            assert!(error.contains(reason) && error.starts_with("metadata.annotations["), "{error}");
        }
    }

    #[test]
    fn object_annotations_override_those_of_the_template() {
        let object = Object::try_from(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {READY_AFTER: "1s"}},
            "spec": {"template": {"metadata": {"annotations": {READY_AFTER: "9s", OUTCOME: "crashloop"}}}},
        }));
        let behavior = Behavior::from_object(&object.unwrap());
        assert_eq!(behavior.ready_after, Some(Duration::from_secs(1)));
        assert_eq!(behavior.outcome, Some(Outcome::CrashLoop));
    }
}
