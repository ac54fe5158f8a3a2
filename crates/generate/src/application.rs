//! A template and a set of parameters make an Application.

use serde_json::{Map, Value, json};
use tidegate_model::argo::{self, API_VERSION, Application, ApplicationSet, ApplicationSetTemplate};

use crate::error::{GenerateError, Place, Problem};
use crate::limits::{APPLICATIONS_MAX, ERRORS_MAX};
use crate::parameters::ParameterSet;
use crate::run::Run;
use crate::walk::walk;
use crate::{Made, patch, yaml};

/// What makes that the objects of an Application are deleted with it.
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// Makes the Applications of one set.
pub(crate) struct Maker<'s> {
    set: &'s ApplicationSet,
    pub(crate) made: Vec<Made>,
}

impl<'s> Maker<'s> {
    pub(crate) fn new(set: &'s ApplicationSet) -> Self {
        Self { set, made: Vec::new() }
    }

    /// An Application for each set of parameters of a generator; its own template goes before that of the set.
    pub(crate) fn make(
        &mut self,
        run: &mut Run<'_>,
        sets: Vec<ParameterSet>,
        own: Option<&ApplicationSetTemplate>,
        place: &str,
        errors: &mut Vec<GenerateError>,
    ) {
        let template = self.template(own);
        for ParameterSet { parameters, origin } in sets {
            let place = Place::of(place).element(origin);
            if self.made.len() >= APPLICATIONS_MAX {
                return errors.push(place.wrong(Problem::TooMany));
            }
            match self.application(run, &template, &Value::Object(parameters), &place) {
                Ok(application) => self.made.push(Made { application, from: place }),
                Err(error) => errors.push(*error),
            }
            if errors.len() >= ERRORS_MAX {
                return;
            }
        }
    }

    /// The Application before anything is filled in.
    fn template(&self, own: Option<&ApplicationSetTemplate>) -> Value {
        let bare = |template: &ApplicationSetTemplate| {
            let metadata = &template.metadata;
            json!({
                "metadata": {
                    "name": metadata.name, "labels": metadata.labels, "annotations": metadata.annotations,
                    "finalizers": metadata.finalizers,
                },
                "spec": template.spec,
            })
        };
        let of_set = bare(&self.set.spec.template);
        let mut template = own.map_or(Value::Null, bare);
        fill_empty(&mut template, &of_set);
        template
    }

    fn application(
        &self,
        run: &mut Run<'_>,
        template: &Value,
        parameters: &Value,
        place: &Place,
    ) -> Result<Application, Box<GenerateError>> {
        let (templates, budget) = (&mut run.templates, &mut run.budget);
        let mut render = |text: &str| templates.render(text, parameters, budget);
        let mut filled = walk(template, "template", &mut render)
            .map_err(|wrong| Box::new(place.clone().field(wrong.path).wrong(wrong.problem)))?;
        let mut gives_finalizers = false;
        if let Some(text) = &self.set.spec.template_patch {
            let wrong = |problem: Problem| Box::new(place.clone().field("templatePatch").wrong(problem));
            let text = render(text).map_err(wrong)?;
            let patch = yaml::read(&text).map_err(|reason| wrong(Problem::Patch { reason }))?;
            gives_finalizers = names_finalizers(&patch);
            apply(&mut filled, &patch).map_err(wrong)?;
        }
        self.finish(&mut filled, gives_finalizers);
        argo::read(&filled).map_err(|error| {
            let problem = Problem::Application { reason: error.to_string() };
            Box::new(place.clone().field("template").wrong(problem))
        })
    }

    /// What holds whatever templates say.
    fn finish(&self, application: &mut Value, gives_finalizers: bool) {
        let Some(fields) = application.as_object_mut() else { return };
        fields.insert("apiVersion".to_owned(), json!(API_VERSION));
        fields.insert("kind".to_owned(), json!("Application"));
        let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        metadata.insert("namespace".to_owned(), json!(self.set.metadata.namespace));
        let preserves =
            self.set.spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
        let has_none = metadata
            .get("finalizers")
            .and_then(Value::as_array)
            .is_none_or(|finalizers| finalizers.is_empty());
        if has_none && !preserves && !gives_finalizers {
            metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
        }
    }
}

/// Fills what is missing, null, an empty text or an empty list; maps get what they do not have.
fn fill_empty(into: &mut Value, from: &Value) {
    let is_empty = match &*into {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if is_empty {
        into.clone_from(from);
    } else if let (Value::Object(into), Value::Object(from)) = (into, from) {
        for (key, value) in from {
            fill_empty(into.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Whether a patch decides about finalizers: it has some, or says that there are none.
fn names_finalizers(patch: &Value) -> bool {
    match patch.pointer("/metadata/finalizers") {
        Some(Value::Array(finalizers)) => !finalizers.is_empty(),
        Some(Value::Null) => true,
        _ => false,
    }
}

/// Patches an Application; its project stays, because whoever writes a patch need not be who may choose one.
fn apply(application: &mut Value, patch: &Value) -> Result<(), Problem> {
    let wrong = |reason: &str| Problem::Patch { reason: reason.to_owned() };
    let patch = match patch {
        Value::Null => return Ok(()),
        Value::Object(patch) => patch,
        other => return Err(wrong(&format!("it is {}, and no object", crate::parameters::kind(other)))),
    };
    let project = application.pointer("/spec/project").cloned().unwrap_or_default();
    let fields = application.as_object_mut().ok_or_else(|| wrong("there is nothing to patch"))?;
    patch::apply(fields, patch).map_err(|reason| Problem::Patch { reason })?;
    for (section, missing) in [("metadata", None), ("spec", Some("destination"))] {
        let section = fields.entry(section).or_insert(Value::Null);
        if section.is_null() {
            *section = Value::Object(Map::new());
        }
        let Some(section) = section.as_object_mut() else {
            return Err(wrong("metadata and spec are objects"));
        };
        if let Some(missing) = missing {
            section.entry(missing).or_insert_with(|| json!({}));
        }
    }
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("project".to_owned(), project);
    }
    Ok(())
}
