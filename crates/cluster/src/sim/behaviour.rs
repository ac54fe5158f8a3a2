//! How a user tells the simulation what an object will do: annotations on the object or on its pod template.

use std::time::Duration;

use serde_json::Value;
use tidegate_model::{Object, parse_duration};

use super::json::field;

/// Every annotation of the simulation starts with this.
pub const PREFIX: &str = "sim.tidegate.dev/";
/// How long each pod takes to become ready, or a Job's pod to complete; for other kinds, the object itself.
pub const READY_AFTER: &str = "sim.tidegate.dev/ready-after";
/// What becomes of the object: `fail`, `never-ready`, `crashloop`, `stuck-deleting`.
pub const OUTCOME: &str = "sim.tidegate.dev/outcome";
/// The first so many creations of the object fail; later ones do what `outcome` says, or succeed.
pub const FAIL_TIMES: &str = "sim.tidegate.dev/fail-times";

/// What the containers of a pod write, line by line, evenly over the time that it takes; on the pod, or on what it belongs to.
pub const LOGS: &str = "sim.tidegate.dev/logs";

/// What becomes of an object that does not do well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ends badly, as objects of its kind do: a Job fails, a PersistentVolumeClaim is lost.
    Fail,
    /// It runs and never becomes ready.
    NeverReady,
    /// It crashes whenever it starts.
    CrashLoop,
    /// It can be deleted, and never goes.
    StuckDeleting,
}

const OUTCOMES: [(&str, Outcome); 4] = [
    ("fail", Outcome::Fail),
    ("never-ready", Outcome::NeverReady),
    ("crashloop", Outcome::CrashLoop),
    ("stuck-deleting", Outcome::StuckDeleting),
];

/// What the annotations of an object say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it takes.
    pub ready_after: Option<Duration>,
    /// What becomes of it, if not what is wanted.
    pub outcome: Option<Outcome>,
    /// How many of its creations fail.
    pub fail_times: u32,
}

/// Where annotations may stand, the strongest first.
const PLACES: [&[&str]; 4] = [
    &["metadata", "annotations"],
    &["spec", "template", "metadata", "annotations"],
    &["spec", "jobTemplate", "metadata", "annotations"],
    &["spec", "jobTemplate", "spec", "template", "metadata", "annotations"],
];

impl Behaviour {
    /// Reads the annotations; an error says which value is wrong and what would be right.
    pub fn read(object: &Object) -> Result<Self, String> {
        let mut behaviour = Self::default();
        for place in PLACES.iter().rev() {
            let Some(annotations) = field(object, place).and_then(Value::as_object) else { continue };
            for (name, value) in annotations.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
                let value = value.as_str().unwrap_or_default();
                behaviour
                    .set(name, value)
                    .map_err(|why| format!("{}[{name}]: Invalid value: {value:?}: {why}", place.join(".")))?;
            }
        }
        Ok(behaviour)
    }

    /// What the annotations of an object already in the cluster say; they were checked when it was written.
    pub fn of(object: &Object) -> Self {
        Self::read(object).unwrap_or_default()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            READY_AFTER => self.ready_after = Some(parse_duration(value).map_err(|error| error.to_string())?),
            OUTCOME => {
                let known = OUTCOMES.iter().find(|(word, _)| *word == value.trim());
                let words = "must be fail, never-ready, crashloop or stuck-deleting";
                self.outcome = Some(known.ok_or(words)?.1);
            }
            FAIL_TIMES => {
                self.fail_times =
                    value.trim().parse().map_err(|_| "must be a whole number of creations, such as 2")?;
            }
            LOGS => {}
            _ => {
                return Err(format!(
                    "the simulation knows {READY_AFTER}, {OUTCOME}, {FAIL_TIMES} and {LOGS}"
                ));
            }
        }
        Ok(())
    }

    /// The annotations that make a child do the same. Being stuck is not inherited: it is about the object itself.
    pub(crate) fn annotations(self) -> impl Iterator<Item = (&'static str, String)> {
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
    fn reads_annotations_and_refuses_wrong_ones() {
        let good =
            Behaviour::read(&pod(json!({READY_AFTER: "3s", OUTCOME: "fail", FAIL_TIMES: "2", "other": "x"})));
        let expected = Behaviour {
            ready_after: Some(Duration::from_secs(3)),
            outcome: Some(Outcome::Fail),
            fail_times: 2,
        };
        assert_eq!(good.unwrap(), expected);
        for (name, value, why) in [
            (READY_AFTER, "soon", "is not a duration"),
            (OUTCOME, "explode", "must be fail, never-ready, crashloop or stuck-deleting"),
            (FAIL_TIMES, "-1", "must be a whole number"),
            ("sim.tidegate.dev/outcom", "fail", "the simulation knows"),
        ] {
            let error = Behaviour::read(&pod(json!({name: value}))).unwrap_err();
            assert!(error.contains(why) && error.starts_with("metadata.annotations["), "{error}");
        }
    }

    #[test]
    fn the_object_is_stronger_than_its_template() {
        let object = Object::try_from(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {READY_AFTER: "1s"}},
            "spec": {"template": {"metadata": {"annotations": {READY_AFTER: "9s", OUTCOME: "crashloop"}}}},
        }));
        let behaviour = Behaviour::of(&object.unwrap());
        assert_eq!(behaviour.ready_after, Some(Duration::from_secs(1)));
        assert_eq!(behaviour.outcome, Some(Outcome::CrashLoop));
    }
}
