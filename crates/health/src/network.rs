//! Service and Ingress.

use tidegate_model::Object;

use crate::fields::Node;
use crate::verdict::{Verdict, healthy, progressing, require_version};

pub(crate) fn service(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::for_object(object);
    if node.text("spec.type")? == "LoadBalancer" {
        load_balancer_health(node, "Waiting for the load balancer to get an address")
    } else {
        healthy("Service needs no load balancer")
    }
}

pub(crate) fn ingress(object: &Object) -> Verdict {
    load_balancer_health(Node::for_object(object), "Waiting for an ingress controller to assign an address")
}

/// Returns Healthy if the load balancer status has any entry, whatever it says.
fn load_balancer_health(node: Node<'_>, waiting: &str) -> Verdict {
    match node.list("status.loadBalancer.ingress")?.len() {
        0 => progressing(waiting),
        1 => healthy("1 address"),
        count => healthy(format!("{count} addresses")),
    }
}
