//! The general convention, and kinds without a health status.

use serde_json::json;
use tidegate_health::{HealthRules, Layer, has_rule, observe};
use tidegate_model::annotations::{HEALTH_CONVENTION, HOOK};
use tidegate_model::{Evidence, Gvk, Health, HealthStatus, Object, ObservedState, Timestamp};

use crate::{object, verdict_text};

/// The time 2026-11-21T09:30:00Z.
const NOW: Timestamp = Timestamp::from_millis(1_795_253_400_000);

fn widget(items: &str) -> Object {
    object("example.org", "Widget", items)
}

#[test]
fn the_convention_in_its_order() {
    for (items, expected) in [
        ("Ready=True \"all well\"", "Healthy all well"),
        ("Ready=True", "Healthy Ready is True"),
        ("Ready=False:Starting", "Progressing Ready is False: Starting"),
        ("Ready=Unknown", "Progressing Ready is Unknown"),
        ("Available=True", "Healthy Available is True"),
        ("Available=False \"0 of 3\"", "Progressing 0 of 3"),
        ("Available=True; Ready=False", "Progressing Ready is False"),
        ("Stalled=True \"stuck\"; Ready=True", "Degraded stuck"),
        ("Failed=True \"over\"; Ready=True", "Degraded over"),
        ("Reconciling=True \"rolling\"; Ready=True", "Progressing rolling"),
        ("Reconciling=False; Stalled=False; Ready=True", "Healthy Ready is True"),
        (
            ".observedGeneration=1; Ready=True",
            "Progressing Waiting for the controller to observe generation 2",
        ),
        (
            ".observedGeneration=\"1\"; Ready=True",
            "Progressing Waiting for the controller to observe generation 2",
        ),
        (
            ".observedGeneration=1; Stalled=True",
            "Progressing Waiting for the controller to observe generation 2",
        ),
        (".observedGeneration=2; Ready=True@1", "Healthy Ready is True"),
        ("Ready=True@1", "Progressing Waiting for the controller to observe generation 2"),
        ("Ready=True@2", "Healthy Ready is True"),
        ("Degraded=True \"no quorum\"; Available=True", "Degraded no quorum"),
        ("Degraded=False; Available=True", "Healthy Available is True"),
        (".observedGeneration=2; .phase=Pending", "Progressing phase is Pending"),
        (".observedGeneration=2; .state=In Progress", "Progressing state is In Progress"),
        (".observedGeneration=2; .status=ERROR, no such secret", "Degraded status is ERROR, no such secret"),
        (".observedGeneration=2; .phase=Active", "Healthy The controller has observed generation 2"),
        (".observedGeneration=2; .phase=Pending; Ready=True", "Healthy Ready is True"),
        (".phase=Pending", "None"),
        (".observedGeneration=2", "Healthy The controller has observed generation 2"),
        (".observedGeneration=2; Synced=True", "Healthy The controller has observed generation 2"),
        ("Ready=Yes", "None"),
        ("Synced=True", "None"),
        (".phase=Ready", "None"),
        (".conditions=Ready", "None"),
        (".conditions=[1, null, {}]", "None"),
        ("", "None"),
    ] {
        assert_eq!(verdict_text(&widget(items)), expected, "{items}");
    }
}

#[test]
fn the_convention_excludes_kubernetes_kinds() {
    for (group, kind) in [
        ("", "Namespace"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("rbac.authorization.k8s.io", "Role"),
        ("argoproj.io", "Application"),
    ] {
        assert!(!has_rule(&Gvk::new(group, "v1", kind)), "{group}/{kind}");
        assert_eq!(verdict_text(&object(group, kind, "Ready=False")), "None", "{group}/{kind}");
    }
    assert!(has_rule(&Gvk::new("example.org", "v1", "Widget")));
    assert!(!has_rule(&Gvk::new("metallb.io", "v1beta1", "IPAddressPool")), "the table decides");
}

#[test]
fn the_convention_can_be_disabled() {
    let ready = widget("Ready=False");
    let off = HealthRules::built_in().with_convention(false);
    assert_eq!(off.assess(&ready, NOW), None);
    assert!(!off.has_rule(&ready.gvk()));
    let mut marked = ready.clone();
    marked.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(HealthRules::built_in().assess(&marked, NOW), None);
    // Neither setting affects a kind in the table.
    let mut certificate = object("cert-manager.io", "Certificate", "Ready=True \"issued\"");
    certificate.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(off.assess(&certificate, NOW), Some(Ok(Health::new(HealthStatus::Healthy, "issued"))));
}

#[test]
fn the_layer_of_an_object() {
    let rules = HealthRules::built_in();
    let mut widget = widget("");
    for (object, layer) in [
        (object("apps", "Deployment", ""), Some(Layer::BuiltIn)),
        (object("cert-manager.io", "Certificate", ""), Some(Layer::BuiltIn)),
        (object("traefik.io", "Middleware", ""), None),
        (object("", "ConfigMap", ""), None),
        (widget.clone(), Some(Layer::Convention)),
    ] {
        assert_eq!(rules.layer(&object), layer, "{}", object.gvk());
    }
    widget.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(rules.layer(&widget), None);
}

fn health_and_evidence(object: &Object) -> (Option<HealthStatus>, Evidence) {
    match observe(object, NOW).seen {
        ObservedState::Present { health, evidence, .. } => (health.map(|health| health.status), evidence),
        gone => panic!("{gone:?}"),
    }
}

/// If a kind may report a status later, operations wait as long as for any other health without evidence.
#[test]
fn an_object_without_a_status_is_progressing_for_a_minute() {
    let weak = (Some(HealthStatus::Healthy), Evidence::None);
    let young = widget("metadata.creationTimestamp=2026-11-21T09:29:58Z");
    assert_eq!(health_and_evidence(&young), weak);
    assert_eq!(health_and_evidence(&widget("")), weak, "an object of unknown age");
    assert_eq!(verdict_text(&young), "None", "the object still has no health");
    // An hour after its creation, the object still has no status.
    assert_eq!(health_and_evidence(&widget("metadata.creationTimestamp=2026-11-21T08:30:00Z")).0, None);
    // This object's status doesn't follow the convention.
    assert_eq!(health_and_evidence(&widget(".phase=Ready")).0, None);
    // The first kind has no health status according to the table, and the convention doesn't apply to the
    // second.
    assert_eq!(health_and_evidence(&object("traefik.io", "Middleware", "")).0, None);
    assert_eq!(health_and_evidence(&object("", "ConfigMap", "")).0, None);
    let mut hook = young.clone();
    hook.set_annotation(HOOK, "PreSync");
    assert_eq!(health_and_evidence(&hook).0, None, "a hook counts as done once it is created");
    let mut off = young.clone();
    off.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(health_and_evidence(&off).0, None);
}

#[test]
fn a_status_may_be_required() {
    let mut required = widget("metadata.creationTimestamp=2026-11-21T08:30:00Z");
    required.set_annotation(HEALTH_CONVENTION, "required");
    assert_eq!(verdict_text(&required), "Progressing Waiting for the status to be reported");
    required
        .fields_mut()
        .insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(verdict_text(&required), "Healthy Ready is True");
}
