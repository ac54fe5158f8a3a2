//! Service and Ingress.

use tidegate_model::Object;

use crate::fields::Node;
use crate::verdict::{Verdict, healthy, progressing, require_version};

pub(crate) fn service(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::of(object);
    if node.text("spec.type")? == "LoadBalancer" {
        addresses(node, "Waiting for the load balancer to get an address")
    } else {
        healthy("Service needs no load balancer")
    }
}

pub(crate) fn ingress(object: &Object) -> Verdict {
    addresses(Node::of(object), "Waiting for an ingress controller to give an address")
}

/// Any entry will do; what it contains is not looked at.
fn addresses(node: Node<'_>, waiting: &str) -> Verdict {
    match node.list("status.loadBalancer.ingress")?.len() {
        0 => progressing(waiting),
        1 => healthy("1 address"),
        count => healthy(format!("{count} addresses")),
    }
}
