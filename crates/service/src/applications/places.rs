//! Which cluster a destination means.

use std::sync::Arc;

use tidegate_cluster::Cluster;
use tidegate_model::argo::ApplicationDestination;
use tidegate_model::{DeployTarget, Destination};

/// The name and the address under which applications know the cluster that a control plane works on.
const IN_CLUSTER: &str = "in-cluster";
const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";

/// The cluster that is served.
#[derive(Clone)]
pub struct Places {
    destination: Destination,
    cluster: Arc<dyn Cluster>,
    /// Where objects go that name no namespace.
    namespace: String,
}

/// Where the objects of an application go.
#[derive(Clone)]
pub(crate) struct Place {
    pub destination: Destination,
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    /// The same, as the rules of projects name it.
    pub target: DeployTarget,
}

impl Places {
    /// One cluster, and the namespace of what names none.
    pub fn new(destination: Destination, cluster: Arc<dyn Cluster>, namespace: String) -> Self {
        Self { destination, cluster, namespace }
    }

    pub(crate) fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.cluster
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.destination == Destination::Simulated
    }

    /// The place that is meant, or why there is none.
    pub(crate) fn resolve(&self, wanted: &ApplicationDestination) -> Result<Place, String> {
        let own = match &self.destination {
            Destination::Simulated => IN_CLUSTER_SERVER,
            Destination::Kubernetes { server, .. } => server.as_str(),
        };
        let is_meant = match (wanted.name.as_str(), wanted.server.trim_end_matches('/')) {
            ("", "") => {
                return Err("spec.destination names no cluster; give it a server or a name".to_owned());
            }
            (name, "") => name == IN_CLUSTER,
            ("", server) => server == IN_CLUSTER_SERVER || server == own.trim_end_matches('/'),
            _ => return Err("spec.destination has both a name and a server; give it one of them".to_owned()),
        };
        if !is_meant {
            let asked = if wanted.name.is_empty() { &wanted.server } else { &wanted.name };
            return Err(format!(
                "the cluster {asked} of spec.destination is not known here; this process serves the {} only, which is called {IN_CLUSTER} or {IN_CLUSTER_SERVER}",
                self.destination
            ));
        }
        let namespace = if wanted.namespace.is_empty() { &self.namespace } else { &wanted.namespace };
        let (destination, cluster) = (self.destination.clone(), Arc::clone(&self.cluster));
        let mut servers = vec![IN_CLUSTER_SERVER.to_owned()];
        servers.extend((own != IN_CLUSTER_SERVER).then(|| own.to_owned()));
        let target = DeployTarget {
            servers,
            name: IN_CLUSTER.to_owned(),
            namespace: namespace.clone(),
            ..DeployTarget::default()
        };
        Ok(Place { destination, cluster, namespace: namespace.clone(), target })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;
    use crate::simulated;

    fn resolve(
        destination: Destination,
        name: &str,
        server: &str,
        namespace: &str,
    ) -> Result<String, String> {
        let places = Places::new(destination, Arc::new(simulated::empty()), "default".to_owned());
        let (name, server, namespace) = (name.to_owned(), server.to_owned(), namespace.to_owned());
        let wanted = ApplicationDestination { name, server, namespace, ..ApplicationDestination::default() };
        places.resolve(&wanted).map(|place| place.namespace)
    }

    fn real() -> Destination {
        Destination::Kubernetes {
            context: "staging".to_owned(),
            server: "https://10.0.0.1:6443".to_owned(),
            kubeconfig: None,
            impersonate: Default::default(),
            uid: String::new(),
        }
    }

    #[test]
    fn only_the_cluster_that_is_served_is_meant() {
        for (name, server, namespace, expected) in [
            (IN_CLUSTER, "", "shop", Ok("shop")),
            (IN_CLUSTER, "", "", Ok("default")),
            ("", IN_CLUSTER_SERVER, "", Ok("default")),
            ("", "https://kubernetes.default.svc/", "", Ok("default")),
            ("", "", "shop", Err("names no cluster")),
            (IN_CLUSTER, IN_CLUSTER_SERVER, "", Err("both")),
            ("staging", "", "", Err("staging")),
            ("", "https://10.0.0.2:6443", "", Err("10.0.0.2")),
        ] {
            for destination in [Destination::Simulated, real()] {
                let found = resolve(destination, name, server, namespace);
                match expected {
                    Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{name} {server}"),
                    Err(part) => assert!(found.unwrap_err().contains(part), "{name} {server}"),
                }
            }
        }
        assert!(resolve(real(), "", "https://10.0.0.1:6443/", "").is_ok());
        assert!(resolve(Destination::Simulated, "", "https://10.0.0.1:6443", "").is_err());
    }
}
