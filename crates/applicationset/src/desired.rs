//! Desired Applications, and the fields to preserve in existing ones.

use serde_json::Value;
use tidegate_application::deletion::{is_own_finalizer, is_resources_finalizer};
use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_application::refresh::REFRESH_ANNOTATION;
use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{
    API_VERSION, Application, ApplicationSet, ApplicationSource, ApplicationSpec,
    IgnoreApplicationDifferences, ObjectMeta,
};
use tidegate_model::{IgnoreDifference, Object, Tracking};
use tidegate_planner::{Comparer, IgnoreError};

use crate::ownership;
use crate::sync_policy::AppSetRuleOptions;

/// Annotations that controllers and users set on Applications. Templates never control them.
const PRESERVED: [&str; 4] = [
    "notified.notifications.argoproj.io",
    REFRESH_ANNOTATION,
    "argocd.argoproj.io/hydrate",
    DELETION_APPROVED,
];

/// Normalizes a spec for comparison: drops empty fields and adds defaults.
pub fn normalize_spec(spec: &ApplicationSpec) -> ApplicationSpec {
    let mut spec = spec.clone();
    if spec.project.is_empty() {
        DEFAULT_PROJECT.clone_into(&mut spec.project);
    }
    spec.sync_policy = spec.sync_policy.filter(|policy| *policy != Default::default());
    spec.source.iter_mut().chain(&mut spec.sources).for_each(remove_empty_blocks);
    spec
}

fn remove_empty_blocks(source: &mut ApplicationSource) {
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(|map| map.is_empty());
    source.helm = source.helm.take().filter(|helm| *helm != Default::default());
    source.kustomize = source.kustomize.take().filter(|kustomize| *kustomize != Default::default());
    source.plugin = source.plugin.take().filter(|plugin| !is_empty(plugin));
    if let Some(directory) = &mut source.directory {
        directory.jsonnet = directory.jsonnet.take().filter(|jsonnet| !is_empty(jsonnet));
    }
    source.directory = source.directory.take().filter(|directory| *directory != Default::default());
}

/// Returns the desired Application: the generated one, owned by the ApplicationSet and in its namespace. In a
/// progressive sync, automated sync is turned off. An operation or a status in the template is ignored.
pub(crate) fn desired_application(
    set: &ApplicationSet,
    generated: &Application,
    is_progressive: bool,
) -> Application {
    let given = &generated.metadata;
    let mut metadata = ObjectMeta {
        name: given.name.clone(),
        namespace: set.metadata.namespace.clone(),
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        finalizers: given.finalizers.clone(),
        ..ObjectMeta::default()
    };
    ownership::set_owner(set, &mut metadata);
    let mut spec = normalize_spec(&generated.spec);
    let automated = spec.sync_policy.as_mut().and_then(|policy| policy.automated.as_mut());
    if let Some(automated) = automated.filter(|_| is_progressive) {
        automated.enabled = Some(false);
    }
    Application { metadata, spec, ..Application::default() }
}

/// Fields of existing Applications that updates preserve.
pub(crate) struct PreservedContent<'a> {
    appset: &'a ApplicationSet,
    annotations: Vec<&'a str>,
    labels: Vec<&'a str>,
    /// Comparer for ignored fields, or `None` if no fields are ignored.
    ignored: Option<Comparer>,
}

/// Error from merging an existing Application with the generated one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid after the fields in ignoreApplicationDifferences are restored: {0}")]
pub struct MergeError(String);

impl<'a> PreservedContent<'a> {
    /// Reads the preserved fields from an ApplicationSet and from the service's options.
    ///
    /// # Errors
    ///
    /// Fails if any rule is invalid, because the fields it preserves would be lost.
    pub fn from_appset(
        set: &'a ApplicationSet,
        options: &'a AppSetRuleOptions,
    ) -> Result<Self, Vec<IgnoreError>> {
        let fields = set.spec.preserved_fields.as_ref();
        let annotations = fields.into_iter().flat_map(|fields| &fields.annotations);
        let labels = fields.into_iter().flat_map(|fields| &fields.labels);
        Ok(Self {
            appset: set,
            annotations: annotations
                .chain(&options.preserved_annotations)
                .map(String::as_str)
                .chain(PRESERVED)
                .collect(),
            labels: labels.chain(&options.preserved_labels).map(String::as_str).collect(),
            ignored: ignore_comparer(set)?,
        })
    }

    /// Returns the updated Application, or `None` if nothing changes. The operation and the status are kept.
    pub fn update_application(
        &self,
        live: &Application,
        desired: &Application,
    ) -> Result<Option<Application>, MergeError> {
        let mut wanted = live.clone();
        wanted.spec.clone_from(&desired.spec);
        let (given, there) = (&desired.metadata, &live.metadata);
        wanted.metadata.annotations =
            merge_preserved(&given.annotations, &there.annotations, &self.annotations);
        // Comparisons remove the refresh annotation. If an update restored it, the Application would be
        // compared forever.
        if !there.annotations.contains_key(REFRESH_ANNOTATION) {
            wanted.metadata.annotations.remove(REFRESH_ANNOTATION);
        }
        wanted.metadata.labels = merge_preserved(&given.labels, &there.labels, &self.labels);
        // Comparisons manage the finalizers for deletion hooks. If updates changed them too, the two would
        // overwrite each other forever.
        let is_hook = |one: &&String| is_own_finalizer(one) && !is_resources_finalizer(one);
        let is_given = |one: &&String| !is_hook(one) || there.finalizers.contains(one);
        let others = there.finalizers.iter().filter(is_hook).filter(|one| !given.finalizers.contains(one));
        wanted.metadata.finalizers =
            given.finalizers.iter().filter(is_given).chain(others).cloned().collect();
        ownership::set_owner(self.appset, &mut wanted.metadata);
        let is_same = |wanted: &Application| {
            wanted.metadata == *there && normalize_spec(&wanted.spec) == normalize_spec(&live.spec)
        };
        if is_same(&wanted) {
            return Ok(None);
        }
        if let Some(ignored) = &self.ignored {
            wanted = restore_ignored(self.appset, ignored, wanted, live)?;
        }
        Ok(Some(wanted).filter(|wanted| !is_same(wanted)))
    }
}

/// Returns the comparer for ignored fields, or `None` if no fields are ignored.
pub(crate) fn ignore_comparer(set: &ApplicationSet) -> Result<Option<Comparer>, Vec<IgnoreError>> {
    let rules: Vec<_> = set.spec.ignore_application_differences.iter().map(to_ignore_difference).collect();
    let (comparer, errors) = Comparer::new(&rules, &Tracking::default());
    // A rule without fields has no effect, so it isn't an error here.
    let errors: Vec<_> =
        errors.into_iter().filter(|error| !matches!(error, IgnoreError::NoFields { .. })).collect();
    if errors.is_empty() { Ok((!rules.is_empty()).then_some(comparer)) } else { Err(errors) }
}

fn to_ignore_difference(entry: &IgnoreApplicationDifferences) -> IgnoreDifference {
    IgnoreDifference {
        group: API_VERSION.split('/').next().unwrap_or_default().to_owned(),
        kind: "Application".to_owned(),
        name: entry.name.clone(),
        json_pointers: entry.json_pointers.clone(),
        jq_path_expressions: entry.jq_path_expressions.clone(),
        ..IgnoreDifference::default()
    }
}

fn merge_preserved(
    given: &std::collections::BTreeMap<String, String>,
    there: &std::collections::BTreeMap<String, String>,
    preserved: &[&str],
) -> std::collections::BTreeMap<String, String> {
    let mut all = given.clone();
    for name in preserved {
        if let Some(value) = there.get(*name) {
            all.insert((*name).to_owned(), value.clone());
        }
    }
    all
}

/// Restores the ignored fields from the live object.
fn restore_ignored(
    set: &ApplicationSet,
    ignored: &Comparer,
    wanted: Application,
    live: &Application,
) -> Result<Application, MergeError> {
    let object = |application: &Application| {
        let value = serde_json::to_value(application).map_err(|error| MergeError(error.to_string()))?;
        Object::try_from(value).map_err(|error| MergeError(error.to_string()))
    };
    let mut merged = object(&wanted)?;
    ignored.preserve_ignored(&mut merged, &object(live)?);
    let merged: Application =
        serde_json::from_value(merged.as_value().clone()).map_err(|error| MergeError(error.to_string()))?;
    // Rules can't ignore an Application's identity or owner.
    let mut metadata =
        ObjectMeta { name: wanted.metadata.name, rest: wanted.metadata.rest, ..merged.metadata };
    ownership::set_owner(set, &mut metadata);
    Ok(Application { operation: wanted.operation, status: wanted.status, metadata, ..merged })
}
