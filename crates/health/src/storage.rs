//! PersistentVolumeClaim.

use tidegate_model::Object;

use crate::fields::Node;
use crate::verdict::{Verdict, degraded, healthy, progressing, require_version, unknown};

pub(crate) fn claim(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::of(object);
    let volume = match node.text("spec.volumeName")? {
        "" => String::new(),
        name => format!(" {name}"),
    };
    match node.text("status.phase")? {
        "Bound" => healthy(format!("Bound to volume{volume}")),
        "Pending" => progressing("Waiting for a volume"),
        "Lost" => degraded(format!("Volume{volume} is lost")),
        "" => unknown("Claim has no phase"),
        other => unknown(format!("Claim has the unrecognised phase {other:?}")),
    }
}
