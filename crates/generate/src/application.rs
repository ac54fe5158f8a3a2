//! Renders Applications from a template and parameter sets.

use serde_json::{Map, Value, json};
use tidegate_model::argo::{self, API_VERSION, Application, ApplicationSet, ApplicationSetTemplate};
use tidegate_planner::SpecChecker;

use crate::error::{ErrorLocation, GenerateError, Problem};
use crate::limits::{APPLICATIONS_MAX, ERRORS_MAX, EXPRESSION_STEPS};
use crate::parameters::ParameterSet;
use crate::render_value::render_texts;
use crate::run::GenerateRun;
use crate::unknown_tags::{UnknownTag, find_unknown_tags};
use crate::validation::{self, Defect};
use crate::{GeneratedApplication, patch, yaml};

/// Sections that an Application must have.
const SECTIONS: [&str; 2] = ["metadata", "spec"];

/// Finalizer that deletes an Application's objects before the Application is removed.
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// A generated Application, before the check for duplicate names.
pub(crate) struct ApplicationDraft {
    pub(crate) generated: GeneratedApplication,
    /// Reason the service or the API server would reject the Application.
    pub(crate) defect: Option<Defect>,
    /// Tags left in the Application because no such parameters exist.
    pub(crate) unknown_tags: Vec<UnknownTag>,
}

/// Renderer for the Applications of one ApplicationSet.
pub(crate) struct ApplicationRenderer<'s> {
    appset: &'s ApplicationSet,
    spec_checker: SpecChecker,
    pub(crate) drafts: Vec<ApplicationDraft>,
}

impl<'s> ApplicationRenderer<'s> {
    pub(crate) fn new(set: &'s ApplicationSet) -> Self {
        Self { appset: set, spec_checker: SpecChecker::default(), drafts: Vec::new() }
    }

    /// Renders an Application for each of a generator's parameter sets. The generator's own template, if any,
    /// takes precedence over the ApplicationSet's, field by field.
    pub(crate) fn render_applications(
        &mut self,
        run: &mut GenerateRun<'_>,
        sets: Vec<ParameterSet>,
        own: Option<&ApplicationSetTemplate>,
        place: &str,
        errors: &mut Vec<GenerateError>,
    ) {
        let template = self.effective_template(own);
        for ParameterSet { parameters, origin } in sets {
            let place = ErrorLocation::in_generator(place).with_element(origin);
            if self.drafts.len() >= APPLICATIONS_MAX {
                return errors.push(place.error(Problem::TooMany));
            }
            match self.render_application(run, &template, &Value::Object(parameters), &place) {
                Ok((application, flaw, unknown_tags)) => {
                    self.drafts.push(ApplicationDraft {
                        generated: GeneratedApplication { application, location: place },
                        defect: flaw,
                        unknown_tags,
                    });
                }
                Err(error) => errors.push(*error),
            }
            if errors.len() >= ERRORS_MAX {
                return;
            }
        }
    }

    /// Returns the ApplicationSet's template, merged with a generator's own.
    fn effective_template(&self, own: Option<&ApplicationSetTemplate>) -> Value {
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
        let of_set = bare(&self.appset.spec.template);
        let mut template = own.map_or(Value::Null, bare);
        fill_empty(&mut template, &of_set);
        template
    }

    fn render_application(
        &mut self,
        run: &mut GenerateRun<'_>,
        template: &Value,
        parameters: &Value,
        place: &ErrorLocation,
    ) -> Result<(Application, Option<Defect>, Vec<UnknownTag>), Box<GenerateError>> {
        let (templates, budget) = (&mut run.templates, &mut run.budget);
        let mut render = |text: &str| templates.render(text, parameters, budget);
        let mut filled = render_texts(template, "template", &mut render)
            .map_err(|wrong| Box::new(place.clone().with_field(wrong.path).error(wrong.problem)))?;
        let mut gives_finalizers = false;
        let mut rendered_patch = String::new();
        if let Some(text) = &self.appset.spec.template_patch {
            let wrong = |problem: Problem| Box::new(place.clone().with_field("templatePatch").error(problem));
            rendered_patch = render(text).map_err(wrong)?;
            let text = &rendered_patch;
            let patch = yaml::read(text).map_err(|reason| wrong(Problem::Patch { reason }))?;
            gives_finalizers = sets_finalizers(&patch);
            apply_patch(&mut filled, &patch).map_err(wrong)?;
        }
        self.set_fixed_fields(&mut filled, gives_finalizers);
        let written_patch = self.appset.spec.template_patch.as_deref().unwrap_or_default();
        let line = |path: &[&str]| patch::find_patch_line(written_patch, &rendered_patch, path);
        let application: Application = argo::read_resource(&filled).map_err(|error| {
            let name = filled.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let path: Vec<&str> = error.field.split('.').collect();
            let problem =
                Problem::Application { name: name.to_owned(), line: line(&path), reason: error.to_string() };
            Box::new(place.clone().with_field("template").error(problem))
        })?;
        let expressions = self.spec_checker.expressions_to_compile(&application.spec);
        run.budget
            .take_steps(expressions.saturating_mul(EXPRESSION_STEPS))
            .map_err(|problem| Box::new(place.clone().error(problem)))?;
        let spec_problems = self.spec_checker.problems(&application.spec);
        let flaw = validation::find_defect(&application, spec_problems, line).map(|flaw| match flaw {
            Defect::Name { reason } => {
                let name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
                Defect::Name {
                    reason: reason
                        + &validation::missing_parameter_hint(name, parameters, run.uses_go_templates()),
                }
            }
            other => other,
        });
        // With Go templates, `goTemplateOptions` decides about missing parameters, so no warning is needed.
        let unknown_tags = match run.uses_go_templates() {
            true => Vec::new(),
            false => find_unknown_tags(&filled, parameters),
        };
        Ok((application, flaw, unknown_tags))
    }

    /// Sets the default finalizer and the fields that templates can't control.
    fn set_fixed_fields(&self, application: &mut Value, gives_finalizers: bool) {
        let Some(fields) = application.as_object_mut() else { return };
        fields.insert("apiVersion".to_owned(), json!(API_VERSION));
        fields.insert("kind".to_owned(), json!("Application"));
        let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        metadata.insert("namespace".to_owned(), json!(self.appset.metadata.namespace));
        let preserves =
            self.appset.spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
        let has_none = metadata
            .get("finalizers")
            .and_then(Value::as_array)
            .is_none_or(|finalizers| finalizers.is_empty());
        if has_none && !preserves && !gives_finalizers {
            metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
        }
    }
}

/// Fills in empty values (null, or an empty string, list or map) from another value. Merges maps recursively.
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

/// Returns true if a patch sets the finalizers, to a nonempty list or to null.
fn sets_finalizers(patch: &Value) -> bool {
    match patch.pointer("/metadata/finalizers") {
        Some(Value::Array(finalizers)) => !finalizers.is_empty(),
        Some(Value::Null) => true,
        _ => false,
    }
}

/// Applies a patch to an Application. Keeps the project, because the patch's author may not be permitted to
/// choose it.
fn apply_patch(application: &mut Value, patch: &Value) -> Result<(), Problem> {
    let wrong = |reason: &str| Problem::Patch { reason: reason.to_owned() };
    let patch = match patch {
        Value::Null => return Ok(()),
        Value::Object(patch) => patch,
        other => {
            return Err(wrong(&format!(
                "the patch must be an object, found {}",
                crate::parameters::describe_kind(other)
            )));
        }
    };
    // Both sections are required, so ignore nulls: a condition in the template may leave an empty `spec:`.
    let is_said = |(name, value): &(&String, &Value)| !(value.is_null() && SECTIONS.contains(&name.as_str()));
    let patch: Map<String, Value> =
        patch.iter().filter(is_said).map(|(name, value)| (name.clone(), value.clone())).collect();
    let project = application.pointer("/spec/project").cloned().unwrap_or_default();
    let fields = application.as_object_mut().ok_or_else(|| wrong("the template has no fields to patch"))?;
    patch::apply_patch(fields, &patch).map_err(|reason| Problem::Patch { reason })?;
    for (section, missing) in [("metadata", None), ("spec", Some("destination"))] {
        let section = fields.entry(section).or_insert(Value::Null);
        if section.is_null() {
            *section = Value::Object(Map::new());
        }
        let Some(section) = section.as_object_mut() else {
            return Err(wrong("metadata and spec must be objects"));
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
