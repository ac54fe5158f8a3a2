//! What an Application of a set should be, and what of one that is there stays.

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
use crate::policy::Options;

/// Annotations of Applications that belong to whoever talks to them, and never to a template.
const PRESERVED: [&str; 4] = [
    "notified.notifications.argoproj.io",
    REFRESH_ANNOTATION,
    "argocd.argoproj.io/hydrate",
    DELETION_APPROVED,
];

/// A specification as it is compared: what is empty is left out, and what is not said is written out.
pub fn normal(spec: &ApplicationSpec) -> ApplicationSpec {
    let mut spec = spec.clone();
    if spec.project.is_empty() {
        DEFAULT_PROJECT.clone_into(&mut spec.project);
    }
    spec.sync_policy = spec.sync_policy.filter(|policy| *policy != Default::default());
    spec.source.iter_mut().chain(&mut spec.sources).for_each(without_empty_blocks);
    spec
}

fn without_empty_blocks(source: &mut ApplicationSource) {
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(|map| map.is_empty());
    source.helm = source.helm.take().filter(|helm| *helm != Default::default());
    source.kustomize = source.kustomize.take().filter(|kustomize| *kustomize != Default::default());
    source.plugin = source.plugin.take().filter(|plugin| !is_empty(plugin));
    if let Some(directory) = &mut source.directory {
        directory.jsonnet = directory.jsonnet.take().filter(|jsonnet| !is_empty(jsonnet));
    }
    source.directory = source.directory.take().filter(|directory| *directory != Default::default());
}

/// What an Application should be: what was generated, in the namespace of its set and owned by it. One that is synced step
/// by step is not synced by itself. Nothing generated asks for an operation or says how it stands.
pub(crate) fn desired(set: &ApplicationSet, generated: &Application, is_progressive: bool) -> Application {
    let given = &generated.metadata;
    let mut metadata = ObjectMeta {
        name: given.name.clone(),
        namespace: set.metadata.namespace.clone(),
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        finalizers: given.finalizers.clone(),
        ..ObjectMeta::default()
    };
    ownership::claim(set, &mut metadata);
    let mut spec = normal(&generated.spec);
    let automated = spec.sync_policy.as_mut().and_then(|policy| policy.automated.as_mut());
    if let Some(automated) = automated.filter(|_| is_progressive) {
        automated.enabled = Some(false);
    }
    Application { metadata, spec, ..Application::default() }
}

/// What of Applications stays, whatever is generated.
pub(crate) struct Stays<'a> {
    set: &'a ApplicationSet,
    annotations: Vec<&'a str>,
    labels: Vec<&'a str>,
    /// Fields that others may change; `None` where there are none.
    ignored: Option<Comparer>,
}

/// An Application that could not be brought together with what is generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("with the fields that ignoreApplicationDifferences keeps, it is no Application: {0}")]
pub struct Unmergeable(String);

impl<'a> Stays<'a> {
    /// What a set and the service say. Rules that cannot be used are named: without them, what they are to keep would be
    /// lost.
    pub fn of(set: &'a ApplicationSet, options: &'a Options) -> Result<Self, Vec<IgnoreError>> {
        let fields = set.spec.preserved_fields.as_ref();
        let annotations = fields.into_iter().flat_map(|fields| &fields.annotations);
        let labels = fields.into_iter().flat_map(|fields| &fields.labels);
        Ok(Self {
            set,
            annotations: annotations
                .chain(&options.preserved_annotations)
                .map(String::as_str)
                .chain(PRESERVED)
                .collect(),
            labels: labels.chain(&options.preserved_labels).map(String::as_str).collect(),
            ignored: comparer(set)?,
        })
    }

    /// An Application that is there, changed into what it should be; `None` where that makes no difference. What is asked
    /// of it and how it stands are not touched.
    pub fn updated(
        &self,
        live: &Application,
        desired: &Application,
    ) -> Result<Option<Application>, Unmergeable> {
        let mut wanted = live.clone();
        wanted.spec.clone_from(&desired.spec);
        let (given, there) = (&desired.metadata, &live.metadata);
        wanted.metadata.annotations =
            with_preserved(&given.annotations, &there.annotations, &self.annotations);
        wanted.metadata.labels = with_preserved(&given.labels, &there.labels, &self.labels);
        wanted.metadata.finalizers.clone_from(&given.finalizers);
        let hooks =
            there.finalizers.iter().filter(|one| is_own_finalizer(one) && !is_resources_finalizer(one));
        for hook in hooks.filter(|hook| !given.finalizers.contains(hook)) {
            wanted.metadata.finalizers.push(hook.clone());
        }
        ownership::claim(self.set, &mut wanted.metadata);
        let is_same =
            |wanted: &Application| wanted.metadata == *there && normal(&wanted.spec) == normal(&live.spec);
        if is_same(&wanted) {
            return Ok(None);
        }
        if let Some(ignored) = &self.ignored {
            wanted = keep_ignored(self.set, ignored, wanted, live)?;
        }
        Ok(Some(wanted).filter(|wanted| !is_same(wanted)))
    }
}

/// What leaves out, or keeps, the fields that others may change; nothing where there are none.
pub(crate) fn comparer(set: &ApplicationSet) -> Result<Option<Comparer>, Vec<IgnoreError>> {
    let rules: Vec<_> = set.spec.ignore_application_differences.iter().map(rule).collect();
    let (comparer, errors) = Comparer::new(&rules, &Tracking::default());
    // A rule without fields keeps nothing, and harms nothing.
    let errors: Vec<_> =
        errors.into_iter().filter(|error| !matches!(error, IgnoreError::NoFields { .. })).collect();
    if errors.is_empty() { Ok((!rules.is_empty()).then_some(comparer)) } else { Err(errors) }
}

fn rule(entry: &IgnoreApplicationDifferences) -> IgnoreDifference {
    IgnoreDifference {
        group: API_VERSION.split('/').next().unwrap_or_default().to_owned(),
        kind: "Application".to_owned(),
        name: entry.name.clone(),
        json_pointers: entry.json_pointers.clone(),
        jq_path_expressions: entry.jq_path_expressions.clone(),
        ..IgnoreDifference::default()
    }
}

fn with_preserved(
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

/// The fields that others may change are as they are.
fn keep_ignored(
    set: &ApplicationSet,
    ignored: &Comparer,
    wanted: Application,
    live: &Application,
) -> Result<Application, Unmergeable> {
    let object = |application: &Application| {
        let value = serde_json::to_value(application).map_err(|error| Unmergeable(error.to_string()))?;
        Object::try_from(value).map_err(|error| Unmergeable(error.to_string()))
    };
    let mut merged = object(&wanted)?;
    ignored.respect(&mut merged, &object(live)?);
    let merged: Application =
        serde_json::from_value(merged.as_value().clone()).map_err(|error| Unmergeable(error.to_string()))?;
    // Whatever a rule says, an Application stays the one it is, and its set answers for it.
    let mut metadata =
        ObjectMeta { name: wanted.metadata.name, rest: wanted.metadata.rest, ..merged.metadata };
    ownership::claim(set, &mut metadata);
    Ok(Application { operation: wanted.operation, status: wanted.status, metadata, ..merged })
}
