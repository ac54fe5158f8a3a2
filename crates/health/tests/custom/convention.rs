//! The general convention, and what has no health.

use serde_json::json;
use tidegate_health::{HealthRules, Layer, has_rule, observe};
use tidegate_model::annotations::{HEALTH_CONVENTION, HOOK};
use tidegate_model::{Evidence, Gvk, Health, HealthStatus, Object, Observed, Timestamp};

use crate::{object, verdict};

/// 2026-11-21T09:30:00Z.
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
        (".observedGeneration=1; Ready=True", "Progressing Waiting for the controller to see generation 2"),
        (
            ".observedGeneration=\"1\"; Ready=True",
            "Progressing Waiting for the controller to see generation 2",
        ),
        (".observedGeneration=1; Stalled=True", "Progressing Waiting for the controller to see generation 2"),
        (".observedGeneration=2; Ready=True@1", "Healthy Ready is True"),
        ("Ready=True@1", "Progressing Waiting for the controller to see generation 2"),
        ("Ready=True@2", "Healthy Ready is True"),
        (".observedGeneration=2", "Healthy The controller has seen generation 2"),
        (".observedGeneration=2; Synced=True", "Healthy The controller has seen generation 2"),
        ("Ready=Yes", "None"),
        ("Synced=True", "None"),
        (".phase=Ready", "None"),
        (".conditions=Ready", "None"),
        (".conditions=[1, null, {}]", "None"),
        ("", "None"),
    ] {
        assert_eq!(verdict(&widget(items)), expected, "{items}");
    }
}

#[test]
fn kubernetes_own_kinds_are_left_alone() {
    for (group, kind) in [
        ("", "Namespace"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
        ("rbac.authorization.k8s.io", "Role"),
        ("argoproj.io", "Application"),
    ] {
        assert!(!has_rule(&Gvk::new(group, "v1", kind)), "{group}/{kind}");
        assert_eq!(verdict(&object(group, kind, "Ready=False")), "None", "{group}/{kind}");
    }
    assert!(has_rule(&Gvk::new("example.org", "v1", "Widget")));
    assert!(!has_rule(&Gvk::new("metallb.io", "v1beta1", "IPAddressPool")), "the table says so");
}

#[test]
fn the_convention_can_be_switched_off() {
    let ready = widget("Ready=False");
    let off = HealthRules::built_in().with_convention(false);
    assert_eq!(off.assess(&ready, NOW), None);
    assert!(!off.has_rule(&ready.gvk()));
    let mut marked = ready.clone();
    marked.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(HealthRules::built_in().assess(&marked, NOW), None);
    // Neither touches the table.
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

fn seen(object: &Object) -> (Option<HealthStatus>, Evidence) {
    match observe(object, NOW).seen {
        Observed::Present { health, evidence, .. } => (health.map(|health| health.status), evidence),
        gone => panic!("{gone:?}"),
    }
}

/// A kind that may report later is given the time that any weak evidence is given; it is not waited for after that.
#[test]
fn an_object_without_a_status_is_given_a_moment() {
    let weak = (Some(HealthStatus::Healthy), Evidence::None);
    let young = widget("metadata.creationTimestamp=2026-11-21T09:29:58Z");
    assert_eq!(seen(&young), weak);
    assert_eq!(seen(&widget("")), weak, "an object whose age is not known");
    assert_eq!(verdict(&young), "None", "it has no health all the same");
    // Silent since it was made, an hour ago.
    assert_eq!(seen(&widget("metadata.creationTimestamp=2026-11-21T08:30:00Z")).0, None);
    // It has a status, which does not follow the convention.
    assert_eq!(seen(&widget(".phase=Ready")).0, None);
    // What the table knows to be silent, and what is not for the convention.
    assert_eq!(seen(&object("traefik.io", "Middleware", "")).0, None);
    assert_eq!(seen(&object("", "ConfigMap", "")).0, None);
    let mut hook = young.clone();
    hook.set_annotation(HOOK, "PreSync");
    assert_eq!(seen(&hook).0, None, "a hook counts as done once it is created");
    let mut off = young.clone();
    off.set_annotation(HEALTH_CONVENTION, "off");
    assert_eq!(seen(&off).0, None);
}

#[test]
fn a_status_may_be_required() {
    let mut required = widget("metadata.creationTimestamp=2026-11-21T08:30:00Z");
    required.set_annotation(HEALTH_CONVENTION, "required");
    assert_eq!(verdict(&required), "Progressing Waiting for the status to be reported");
    required
        .fields_mut()
        .insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(verdict(&required), "Healthy Ready is True");
}
