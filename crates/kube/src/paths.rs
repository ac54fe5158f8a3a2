//! Where objects are on the server.

use std::fmt::Write as _;
use std::sync::Arc;

use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::{Gvk, ObjectKey};

use crate::discovery::catalog::Resource;

/// An object, or all of a kind, at a known place of the server.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) gvk: &'a Gvk,
    pub(crate) resource: Arc<Resource>,
    /// Empty for cluster-scoped objects, and for the objects of all namespaces.
    pub(crate) namespace: &'a str,
    /// Empty for all of a kind.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// All objects of a kind, of one namespace or of all.
    pub(crate) fn all(gvk: &'a Gvk, resource: Arc<Resource>, namespace: Option<&'a str>) -> Self {
        let namespace = namespace.filter(|_| resource.namespaced).unwrap_or_default();
        Self { gvk, resource, namespace, name: "" }
    }

    /// One object. A path without a name or a namespace would mean something else, so both are checked.
    pub(crate) fn one(
        gvk: &'a Gvk,
        resource: Arc<Resource>,
        namespace: &'a str,
        name: &'a str,
    ) -> Result<Self, ClusterError> {
        let this = Self::in_place(gvk, resource, namespace)?;
        let why = match name {
            "" => "name is required".to_owned(),
            "." | ".." => format!("{name:?} cannot be a name"),
            _ if name.contains(['/', '%']) => format!("{name:?} may not contain '/' or '%'"),
            _ => return Ok(Self { name, ..this }),
        };
        Err(ClusterError::new(ErrorKind::Invalid, format!("{gvk}: metadata.name: {why}")))
    }

    /// The place where an object without a name of its own is created.
    pub(crate) fn in_place(
        gvk: &'a Gvk,
        resource: Arc<Resource>,
        namespace: &'a str,
    ) -> Result<Self, ClusterError> {
        if resource.namespaced && namespace.is_empty() {
            let why = format!("{gvk}: metadata.namespace: a namespace is required");
            return Err(ClusterError::new(ErrorKind::Invalid, why));
        }
        let namespace = if resource.namespaced { namespace } else { "" };
        Ok(Self { gvk, resource, namespace, name: "" })
    }

    /// The path of all objects of the kind in the namespace.
    pub(crate) fn collection(&self) -> String {
        let Gvk { group, version, .. } = self.gvk;
        let mut path = String::with_capacity(128);
        if group.is_empty() {
            path.push_str("/api/");
        } else {
            path.push_str("/apis/");
            push_segment(&mut path, group);
            path.push('/');
        }
        push_segment(&mut path, version);
        if !self.namespace.is_empty() {
            path.push_str("/namespaces/");
            push_segment(&mut path, self.namespace);
        }
        path.push('/');
        push_segment(&mut path, &self.resource.plural);
        path
    }

    /// The path of the object.
    pub(crate) fn path(&self) -> String {
        let mut path = self.collection();
        path.push('/');
        push_segment(&mut path, self.name);
        path
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, self.namespace, self.name)
    }
}

/// Adds one segment of a path, with everything escaped that would end it.
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    push_escaped(path, segment, b"-._~:@!$&'()*+,;=");
}

/// Adds a value of a query.
pub(crate) fn push_value(query: &mut String, value: &str) {
    push_escaped(query, value, b"-._~:@!$'()*,/");
}

fn push_escaped(text: &mut String, part: &str, plain: &[u8]) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(plural: &str, namespaced: bool) -> Arc<Resource> {
        Arc::new(Resource { plural: plural.to_owned(), namespaced, listable: true, status_apart: false })
    }

    #[test]
    fn paths_of_core_and_other_groups_in_and_out_of_namespaces() {
        let (pods, roles) =
            (Gvk::new("", "v1", "Pod"), Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole"));
        let pod = Target::one(&pods, resource("pods", true), "shop", "api").unwrap();
        assert_eq!(pod.path(), "/api/v1/namespaces/shop/pods/api");
        assert_eq!(Target::all(&pods, resource("pods", true), None).collection(), "/api/v1/pods");
        let role = Target::one(&roles, resource("clusterroles", false), "shop", "system:a b?#é").unwrap();
        assert_eq!(role.path(), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%20b%3F%23%C3%A9");
        let all = Target::all(&roles, resource("clusterroles", false), Some("shop"));
        assert_eq!(all.collection(), "/apis/rbac.authorization.k8s.io/v1/clusterroles");
    }

    #[test]
    fn no_path_without_what_makes_it_one_object() {
        let gvk = Gvk::new("", "v1", "Pod");
        for (namespace, name) in
            [("", "a"), ("shop", ""), ("shop", ".."), ("shop", "a/status"), ("shop", "%2e")]
        {
            let refused = Target::one(&gvk, resource("pods", true), namespace, name).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Invalid, "{namespace:?} {name:?}");
        }
    }
}
