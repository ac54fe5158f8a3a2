//! Which application does a live object belong to?

use tidegate_model::{Object, annotations};

/// Distinguishes installations of Argo CD that share a cluster; ours has none.
const INSTALLATION_ID: &str = "argocd.argoproj.io/installation-id";

/// A tracking id, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TrackingId<'o> {
    pub application: &'o str,
    pub group: &'o str,
    pub kind: &'o str,
    pub namespace: &'o str,
    pub name: &'o str,
}

impl<'o> TrackingId<'o> {
    /// Reads `<app>:<group>/<Kind>:<namespace>/<name>`. Names may hold `:`.
    pub fn parse(text: &'o str) -> Option<Self> {
        let (application, rest) = text.split_once(':')?;
        let (kind, object) = rest.split_once(':')?;
        let (group, kind) = kind.split_once('/')?;
        let (namespace, name) = object.split_once('/')?;
        let whole = !kind.contains('/') && !name.contains('/');
        whole.then_some(Self { application, group, kind, namespace, name })
    }

    /// Whether the id was written for this very object, and not copied from another one. Objects of the cluster scope
    /// carry the destination namespace in their id.
    pub fn names(&self, object: &Object) -> bool {
        self.group == object.group()
            && self.kind == object.kind()
            && self.name == object.name()
            && (object.namespace().is_empty() || self.namespace == object.namespace())
    }
}

/// The tracking id of an object of an application.
pub(crate) fn tracking_id(application: &str, object: &Object, destination: &str) -> String {
    let namespace = if object.namespace().is_empty() { destination } else { object.namespace() };
    format!("{application}:{}/{}:{namespace}/{}", object.group(), object.kind(), object.name())
}

/// The id on a live object, if it was written for that object.
pub(crate) fn own_id(live: &Object) -> Option<TrackingId<'_>> {
    let foreign_installation = live.annotation(INSTALLATION_ID).is_some_and(|id| !id.is_empty());
    let id = TrackingId::parse(live.annotation(annotations::TRACKING_ID)?)?;
    (!foreign_installation && id.names(live)).then_some(id)
}

/// Whether a live object belongs to an application.
pub(crate) fn belongs_to(live: &Object, application: &str) -> bool {
    own_id(live).is_some_and(|id| id.application == application)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_written_and_read() {
        for (api_version, kind, namespace, name, id) in [
            ("apps/v1", "Deployment", "shop", "api", "app:apps/Deployment:shop/api"),
            ("v1", "ConfigMap", "other", "c", "app:/ConfigMap:other/c"),
            ("rbac/v1", "ClusterRole", "", "system:x", "app:rbac/ClusterRole:shop/system:x"),
        ] {
            let metadata = json!({"namespace": namespace, "name": name});
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            let object = Object::try_from(object).unwrap();
            assert_eq!(tracking_id("app", &object, "shop"), id);
            let read = TrackingId::parse(id).unwrap();
            assert!(read.names(&object) && read.application == "app", "{id}");
        }
        for text in ["", "app", "app:Pod:ns/n", "app:/Pod:n", "app:a/b/Pod:ns/n", "app:/Pod:ns/a/b"] {
            assert_eq!(TrackingId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn copies_belong_to_nobody() {
        let live = |name: &str, namespace: &str, installation: &str| {
            let mut object = Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace}}))
            .unwrap();
            object.set_annotation(annotations::TRACKING_ID, "app:/ConfigMap:shop/c");
            object.set_annotation(INSTALLATION_ID, installation);
            object
        };
        assert!(belongs_to(&live("c", "shop", ""), "app"));
        assert!(!belongs_to(&live("c", "shop", ""), "other"));
        assert!(!belongs_to(&live("copy", "shop", ""), "app"));
        assert!(!belongs_to(&live("c", "elsewhere", ""), "app"));
        assert!(!belongs_to(&live("c", "shop", "second"), "app"));
    }
}
