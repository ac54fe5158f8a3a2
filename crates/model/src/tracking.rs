//! How objects in a cluster say which application they belong to.
//!
//! Three methods, as in Argo CD: an annotation that names application and object, the same with a label beside it for
//! people and other tools, or the label alone. Whoever reads a cluster for a plan asks [`Tracking::owner`] and nobody
//! else, so that the simulated cluster, the real one and the planner agree.
//!
//! An application may change its method. What the other method left behind still counts, as far as the mark is surely
//! ours: an annotation that names the very object, or a label that Tidegate wrote.

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use crate::Object;
use crate::annotations::{FIELD_MANAGER, INSTALLATION_ID, INSTANCE_LABEL, TRACKING_ID};

/// The longest value of a label, and the longest name in a label's key.
const LABEL_MAX: usize = 63;
/// The longest prefix of a label's key.
const PREFIX_MAX: usize = 253;
/// Who writes the objects that a cluster makes by itself. Some of them copy labels and have no owner: Endpoints take
/// those of their Service, the claims of a StatefulSet those of its selector.
const CONTROLLERS: &str = "kube-controller-manager";

/// How objects are marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TrackingMethod {
    /// By the annotation `argocd.argoproj.io/tracking-id`.
    #[default]
    Annotation,
    /// By the annotation; a label says it too, shortened where it has to be.
    AnnotationAndLabel,
    /// By the label alone.
    Label,
}

impl TrackingMethod {
    /// As Argo CD and the command line write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::AnnotationAndLabel => "annotation+label",
            Self::Label => "label",
        }
    }

    /// Whether objects get a label.
    pub fn labels(self) -> bool {
        self != Self::Annotation
    }

    /// Whether objects get the annotation.
    pub fn annotates(self) -> bool {
        self != Self::Label
    }
}

/// How the objects of an application are told from all others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tracking {
    /// By a label, by an annotation, or by both.
    pub method: TrackingMethod,
    /// Key of the label.
    pub label: String,
    /// Which of several installations that share a cluster; empty where there is one.
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

/// Why an application cannot be tracked in the way that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTracking {
    /// Not the key of a label.
    #[error(
        "{key:?} is not the key of a label; write a name of at most {LABEL_MAX} letters, digits, '-', '_' and '.', with or without a DNS name and '/' before it, such as {INSTANCE_LABEL}"
    )]
    Key {
        /// The text that should be one.
        key: String,
    },
    /// The name of the application is no value for a label.
    #[error(
        "the application name {application:?} cannot be the value of label {key}: at most {LABEL_MAX} letters, digits, '-', '_' and '.', with a letter or digit at both ends; choose another name, or track by annotation"
    )]
    Value {
        /// Name of the application, which is too long or has other characters.
        application: String,
        /// Key of the label.
        key: String,
    },
}

/// Which objects a search of the cluster has to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// All objects: what is looked for bears no label.
    Everything,
    /// Those with this label.
    Labelled {
        /// Key of the label.
        key: String,
        /// Value that the label has.
        value: String,
    },
}

impl Tracking {
    /// The value of the label for an application; `None` where the method has no label.
    ///
    /// With the annotation beside it, the name is cut to the length of a label; alone, it has to fit.
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

    /// Whether an application can be tracked in this way.
    pub fn check(&self, application: &str) -> Result<(), InvalidTracking> {
        if !is_label_key(&self.label) {
            return Err(InvalidTracking::Key { key: self.label.clone() });
        }
        self.label_value(application).map(|_| ())
    }

    /// Marks a manifest as the application's. Marks that came with the manifest, from wherever it was copied, give way.
    /// An application that [`Tracking::check`] refuses gets no label.
    pub fn stamp(&self, manifest: &mut Object, application: &str, destination: &str) {
        if self.method.annotates() {
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

    /// The application a live object belongs to.
    ///
    /// An annotation decides wherever there is one: it names application and object, so a copied object belongs to
    /// nobody. Without one, the label does, if that is the method, or if it was Tidegate that wrote the label.
    /// A definition is never anybody's by its label, since definitions are not labelled and all objects of their kind go
    /// with them; nor is what the cluster made by itself.
    pub fn owner<'o>(&self, live: &'o Object) -> Option<&'o str> {
        if live.annotation(INSTALLATION_ID).unwrap_or_default() != self.installation {
            return None;
        }
        if let Some(id) = live.annotation(TRACKING_ID).and_then(TrackingId::parse) {
            return id.names(live).then_some(id.application);
        }
        let label = live.label(&self.label).filter(|label| !label.is_empty())?;
        let mut writers = live.writers("labels", &self.label).peekable();
        let counts = match self.method {
            TrackingMethod::Label => writers.peek().is_none() || writers.any(|writer| writer != CONTROLLERS),
            TrackingMethod::Annotation | TrackingMethod::AnnotationAndLabel => self.wrote_label(live),
        };
        (counts && !is_definition(live)).then_some(label)
    }

    /// Whether it was Tidegate that labelled a live object.
    pub fn wrote_label(&self, live: &Object) -> bool {
        live.writers("labels", &self.label).any(|writer| writer == FIELD_MANAGER)
    }

    /// Whether a live object belongs to an application.
    pub fn is_owner(&self, application: &str, live: &Object) -> bool {
        self.owner(live) == Some(application)
    }

    /// The application that may prune a live object once nobody wants it any more: it belongs to the application, and not to
    /// another object.
    pub fn root_owner<'o>(&self, live: &'o Object) -> Option<&'o str> {
        (!live.has_owner()).then(|| self.owner(live))?
    }

    /// Whether an application may prune a live object.
    pub fn is_root(&self, application: &str, live: &Object) -> bool {
        self.root_owner(live) == Some(application)
    }

    /// What a search for the objects of an application has to look at, given those that its manifests name.
    ///
    /// Where one of them still bears only the annotation, the application comes from that method, and so may what it
    /// left behind.
    pub fn search(&self, application: &str, mut named: impl Iterator<Item: Borrow<Object>>) -> Search {
        let Ok(Some(value)) = self.label_value(application) else { return Search::Everything };
        let is_labelled = |live: &Object| live.label(&self.label) == Some(value.as_str());
        let moves =
            |live: &Object| self.is_owner(application, live) && !is_labelled(live) && !is_definition(live);
        if named.any(|live| moves(live.borrow())) {
            return Search::Everything;
        }
        Search::Labelled { key: self.label.clone(), value }
    }
}

impl Search {
    /// Whether the search comes across an object.
    pub fn meets(&self, live: &Object) -> bool {
        match self {
            Self::Everything => true,
            Self::Labelled { key, value } => live.label(key) == Some(value),
        }
    }
}

/// A tracking id, taken apart.
#[derive(Debug, PartialEq, Eq)]
struct TrackingId<'o> {
    application: &'o str,
    group: &'o str,
    kind: &'o str,
    namespace: &'o str,
    name: &'o str,
}

impl<'o> TrackingId<'o> {
    /// Reads `<app>:<group>/<Kind>:<namespace>/<name>`. Names may hold `:`.
    fn parse(text: &'o str) -> Option<Self> {
        let (application, rest) = text.split_once(':')?;
        let (kind, object) = rest.split_once(':')?;
        let (group, kind) = kind.split_once('/')?;
        let (namespace, name) = object.split_once('/')?;
        let whole = !kind.contains('/') && !name.contains('/');
        whole.then_some(Self { application, group, kind, namespace, name })
    }

    /// Whether the id was written for this very object, and not copied from another one. Objects of the cluster scope
    /// carry the destination namespace in their id.
    fn names(&self, object: &Object) -> bool {
        self.group == object.group()
            && self.kind == object.kind()
            && self.name == object.name()
            && (object.namespace().is_empty() || self.namespace == object.namespace())
    }
}

/// The application that the tracking id of a manifest names, whatever object it was written for.
pub fn claimed_by(manifest: &Object) -> Option<&str> {
    manifest.annotation(TRACKING_ID).and_then(TrackingId::parse).map(|id| id.application)
}

/// `APPLICATION:GROUP/KIND:NAMESPACE/NAME`, as Argo CD writes it.
fn tracking_id(application: &str, object: &Object, destination: &str) -> String {
    let namespace = if object.namespace().is_empty() { destination } else { object.namespace() };
    format!("{application}:{}/{}:{namespace}/{}", object.group(), object.kind(), object.name())
}

fn is_definition(object: &Object) -> bool {
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
