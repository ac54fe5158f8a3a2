//! Tracking: marks on cluster objects that identify the application they belong to.
//!
//! As in Argo CD, there are three methods. The first is an annotation that identifies the application and the
//! object. The second adds a label for users and other tools, and the third uses only the label. All code
//! that reads a cluster goes through [`Tracking::owner`], so the simulated cluster, the real one and the
//! planner agree.
//!
//! An application can change its tracking method. Marks of the previous method still count if Tidegate
//! certainly wrote them: an annotation that identifies this very object, or a label that Tidegate wrote.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::annotations::{FIELD_MANAGER, INSTALLATION_ID, INSTANCE_LABEL, TRACKING_ID};

/// Maximum length of a label value, and of a label key's name part.
const LABEL_MAX: usize = 63;
/// Maximum length of a label key's prefix.
const PREFIX_MAX: usize = 253;
/// Field manager of objects created by Kubernetes controllers. Some of these copy labels without an owner
/// reference: Endpoints copy those of their Service, and PersistentVolumeClaims those in their StatefulSet's
/// selector.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Method of marking objects as part of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrackingMethod {
    /// Annotation `argocd.argoproj.io/tracking-id`.
    #[default]
    Annotation,
    /// Annotation, plus a label with the application name, shortened if necessary.
    AnnotationAndLabel,
    /// Only the label.
    Label,
}

impl TrackingMethod {
    /// Returns the name used in Argo CD and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::AnnotationAndLabel => "annotation+label",
            Self::Label => "label",
        }
    }

    /// Returns true if objects get a label.
    pub fn uses_label(self) -> bool {
        self != Self::Annotation
    }

    /// Returns true if objects get the annotation.
    pub fn uses_annotation(self) -> bool {
        self != Self::Label
    }
}

/// An application's tracking settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tracking {
    /// Tracking method.
    pub method: TrackingMethod,
    /// Key of the label.
    pub label: String,
    /// ID of this installation if several share a cluster. Otherwise empty.
    pub installation: String,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            method: TrackingMethod::default(),
            label: INSTANCE_LABEL.to_owned(),
            installation: String::new(),
        }
    }
}

/// Error returned when an application can't be tracked with these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTracking {
    /// Invalid label key.
    #[error(
        "invalid label key {key:?}: use at most {LABEL_MAX} letters, digits, '-', '_' and '.', optionally prefixed with a DNS name and '/', such as {INSTANCE_LABEL}"
    )]
    Key {
        /// The invalid key.
        key: String,
    },
    /// The application name is not a valid label value.
    #[error(
        "application name {application:?} is not a valid value for label {key}: use at most {LABEL_MAX} letters, digits, '-', '_' and '.', with a letter or digit at both ends, or track by annotation"
    )]
    Value {
        /// Name of the application. It is too long or has invalid characters.
        application: String,
        /// Key of the label.
        key: String,
    },
}

/// Objects to read when searching for an application's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackingSelector {
    /// All objects, because some of the application's objects may lack the label.
    All,
    /// Objects with this label.
    Labeled {
        /// Key of the label.
        key: String,
        /// Value of the label.
        value: String,
    },
}

impl Tracking {
    /// Returns the label value for an application, or `None` if the method doesn't use a label.
    ///
    /// If the method also uses the annotation, the name is truncated to the maximum length of a label value.
    /// Otherwise, the whole name must be a valid label value.
    ///
    /// # Errors
    ///
    /// Fails if the name isn't a valid label value.
    pub fn label_value(&self, application: &str) -> Result<Option<String>, InvalidTracking> {
        let value = match self.method {
            TrackingMethod::Annotation => return Ok(None),
            TrackingMethod::Label => application,
            TrackingMethod::AnnotationAndLabel => {
                let end = application.char_indices().nth(LABEL_MAX).map_or(application.len(), |(end, _)| end);
                let cut = application.get(..end).unwrap_or(application);
                cut.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
            }
        };
        if is_label_value(value) {
            return Ok(Some(value.to_owned()));
        }
        Err(InvalidTracking::Value { application: application.to_owned(), key: self.label.clone() })
    }

    /// Checks that an application can be tracked with these settings.
    pub fn check(&self, application: &str) -> Result<(), InvalidTracking> {
        if !is_label_key(&self.label) {
            return Err(InvalidTracking::Key { key: self.label.clone() });
        }
        self.label_value(application).map(|_| ())
    }

    /// Marks a manifest as part of the application, replacing existing marks, for example in a copied
    /// manifest. The label isn't set if [`Tracking::check`] rejects the application.
    pub fn mark_manifest(&self, manifest: &mut Object, application: &str, destination: &str) {
        if self.method.uses_annotation() {
            manifest.set_annotation(TRACKING_ID, tracking_id(application, manifest, destination));
        } else {
            manifest.remove_annotation(TRACKING_ID);
        }
        if self.installation.is_empty() {
            manifest.remove_annotation(INSTALLATION_ID);
        } else {
            manifest.set_annotation(INSTALLATION_ID, self.installation.as_str());
        }
        if let Ok(Some(value)) = self.label_value(application) {
            manifest.set_label(&self.label, value);
        }
    }

    /// Returns the application that a live object belongs to.
    ///
    /// The annotation takes precedence. It identifies both the application and the object, so a copied object
    /// belongs to no application. Without it, the label counts if labels are the tracking method or if
    /// Tidegate wrote the label. A CustomResourceDefinition never belongs to an application by its label
    /// alone: Tidegate doesn't label definitions, and deleting one deletes all objects of its kind. The label
    /// is also ignored on objects created by Kubernetes controllers.
    pub fn owner<'o>(&self, live: &'o Object) -> Option<&'o str> {
        if live.annotation(INSTALLATION_ID).unwrap_or_default() != self.installation {
            return None;
        }
        if let Some(id) = live.annotation(TRACKING_ID).and_then(TrackingId::parse) {
            return id.matches_object(live).then_some(id.application);
        }
        let label = live.label(&self.label).filter(|label| !label.is_empty())?;
        let mut writers = live.field_managers_of("labels", &self.label).peekable();
        let counts = match self.method {
            TrackingMethod::Label => {
                writers.peek().is_none() || writers.any(|writer| writer != CONTROLLER_MANAGER)
            }
            TrackingMethod::Annotation | TrackingMethod::AnnotationAndLabel => self.wrote_label(live),
        };
        (counts && !is_crd(live)).then_some(label)
    }

    /// Returns true if Tidegate wrote the label of a live object.
    pub fn wrote_label(&self, live: &Object) -> bool {
        live.field_managers_of("labels", &self.label).any(|writer| writer == FIELD_MANAGER)
    }

    /// Returns true if a live object belongs to an application.
    pub fn is_owner(&self, application: &str, live: &Object) -> bool {
        self.owner(live) == Some(application)
    }

    /// Returns the application that may prune a live object once no manifest contains it. The object must
    /// belong to the application and have no owner reference.
    pub fn prune_owner<'o>(&self, live: &'o Object) -> Option<&'o str> {
        (!live.has_owner()).then(|| self.owner(live))?
    }

    /// Returns true if an application may prune a live object.
    pub fn can_prune(&self, application: &str, live: &Object) -> bool {
        self.prune_owner(live) == Some(application)
    }

    /// Returns the objects to read when searching for an application's own. `named` are the live objects in
    /// the application's manifests.
    ///
    /// If any of these has only the annotation, the application previously used the annotation method.
    /// Objects that are no longer in the manifests may then have only the annotation too.
    pub fn search_selector(
        &self,
        application: &str,
        mut named: impl Iterator<Item: Borrow<Object>>,
    ) -> TrackingSelector {
        let Ok(Some(value)) = self.label_value(application) else { return TrackingSelector::All };
        let is_labelled = |live: &Object| live.label(&self.label) == Some(value.as_str());
        let moves = |live: &Object| self.is_owner(application, live) && !is_labelled(live) && !is_crd(live);
        if named.any(|live| moves(live.borrow())) {
            return TrackingSelector::All;
        }
        TrackingSelector::Labeled { key: self.label.clone(), value }
    }
}

impl TrackingSelector {
    /// Returns true if the selector matches an object.
    pub fn matches(&self, live: &Object) -> bool {
        match self {
            Self::All => true,
            Self::Labeled { key, value } => live.label(key) == Some(value),
        }
    }
}

/// Parsed tracking ID.
#[derive(Debug, PartialEq, Eq)]
struct TrackingId<'o> {
    application: &'o str,
    group: &'o str,
    kind: &'o str,
    namespace: &'o str,
    name: &'o str,
}

impl<'o> TrackingId<'o> {
    /// Parses `<app>:<group>/<Kind>:<namespace>/<name>`. Names may contain `:`.
    fn parse(text: &'o str) -> Option<Self> {
        let (application, rest) = text.split_once(':')?;
        let (kind, object) = rest.split_once(':')?;
        let (group, kind) = kind.split_once('/')?;
        let (namespace, name) = object.split_once('/')?;
        let whole = !kind.contains('/') && !name.contains('/');
        whole.then_some(Self { application, group, kind, namespace, name })
    }

    /// Returns true if the ID was written for this object rather than copied from another. The ID of a
    /// cluster-scoped object contains the destination namespace.
    fn matches_object(&self, object: &Object) -> bool {
        self.group == object.group()
            && self.kind == object.kind()
            && self.name == object.name()
            && (object.namespace().is_empty() || self.namespace == object.namespace())
    }
}

/// Returns the application in a manifest's tracking ID, even if the ID was written for another object.
pub fn annotated_application(manifest: &Object) -> Option<&str> {
    manifest.annotation(TRACKING_ID).and_then(TrackingId::parse).map(|id| id.application)
}

/// Returns the tracking ID `APPLICATION:GROUP/KIND:NAMESPACE/NAME`, as in Argo CD.
fn tracking_id(application: &str, object: &Object, destination: &str) -> String {
    let namespace = if object.namespace().is_empty() { destination } else { object.namespace() };
    format!("{application}:{}/{}:{namespace}/{}", object.group(), object.kind(), object.name())
}

fn is_crd(object: &Object) -> bool {
    object.group() == "apiextensions.k8s.io" && object.kind() == "CustomResourceDefinition"
}

fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_MAX
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(text.chars().next())
        && edge(text.chars().last())
}

fn is_label_key(key: &str) -> bool {
    let is_prefix = |prefix: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let part = |part: &str| {
            part.chars().all(plain) && !part.is_empty() && !part.starts_with('-') && !part.ends_with('-')
        };
        prefix.len() <= PREFIX_MAX && prefix.split('.').all(part)
    };
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_label_value(name),
        None => is_label_value(key),
    }
}

#[cfg(test)]
mod tests;
