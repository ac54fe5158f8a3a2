//! Workloads become healthy, or fail as configured.

use serde_json::{Value, json};
use tidegate_model::HealthStatus::{self, Degraded, Healthy, Progressing};
use tidegate_model::Object;

use super::{World, manifest, ms, with_value, workload};

/// Applies an object, and checks its health at several times.
fn assert_health_over_time(object: &Object, times: &[(u64, HealthStatus)]) -> World {
    let mut world = World::new();
    world.apply(object);
    let mut before = 0;
    for (time, expected) in times {
        world.advance(ms(time - before));
        before = *time;
        assert_eq!(world.health(object.kind(), object.name()), *expected, "{object} after {time} ms");
    }
    world
}

#[test]
fn workloads_become_healthy_after_their_delay() {
    for kind in ["Deployment", "DaemonSet", "ReplicaSet", "Pod"] {
        assert_health_over_time(
            &workload(kind, "api", "api:1", json!({})),
            &[(50, Progressing), (150, Progressing), (300, Healthy)],
        );
        assert_health_over_time(
            &workload(kind, "api", "api:1", json!({"ready-after": "3s"})),
            &[(300, Progressing), (2900, Progressing), (3100, Healthy)],
        );
    }
    // A StatefulSet starts its pods one by one.
    assert_health_over_time(
        &workload("StatefulSet", "db", "db:1", json!({"ready-after": "1s"})),
        &[(1500, Progressing), (2500, Progressing), (3300, Healthy)],
    );
    let parallel = with_value(
        &workload("StatefulSet", "db", "db:1", json!({"ready-after": "1s"})),
        "/spec/podManagementPolicy",
        json!("Parallel"),
    );
    assert_health_over_time(&parallel, &[(900, Progressing), (1100, Healthy)]);
}

#[test]
fn workloads_fail_as_their_annotations_say() {
    let crash = json!({"outcome": "crashloop"});
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
        let mut world = assert_health_over_time(
            &workload(kind, "api", "api:1", crash.clone()),
            &[(300, Progressing), (60_000, Progressing)],
        );
        let pod = world.pods().into_iter().next().unwrap();
        assert_eq!(pod.text("/status/containerStatuses/0/state/waiting/reason"), "CrashLoopBackOff");
        assert_eq!(world.health("Pod", pod.name()), Progressing);
        world.advance(ms(300_000));
        assert_eq!(world.health("Pod", pod.name()), Degraded, "its grace period is over");
    }
    let deadline = assert_health_over_time(
        &workload("Deployment", "api", "api:1", crash),
        &[(590_000, Progressing), (601_000, Degraded)],
    );
    assert_eq!(deadline.state.next_due(), None, "a crash loop does not keep the cluster busy");
    assert_health_over_time(
        &workload("Deployment", "api", "api:1", json!({"outcome": "fail"})),
        &[(150, Progressing), (300, Degraded)],
    );
    assert_health_over_time(
        &workload("ReplicaSet", "api", "api:1", json!({"outcome": "fail"})),
        &[(100, Progressing), (301_000, Degraded)],
    );
    assert_health_over_time(
        &workload("Pod", "once", "api:1", json!({"outcome": "fail"})),
        &[(150, Progressing), (300, Degraded)],
    );
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"] {
        assert_health_over_time(
            &workload(kind, "api", "api:1", json!({"outcome": "never-ready"})),
            &[(300, Progressing), (500_000, Progressing)],
        );
    }
}

#[test]
fn the_first_creations_fail_as_annotated() {
    let job = with_value(
        &workload("Job", "migrate", "m:1", json!({"fail-times": "2"})),
        "/spec/backoffLimit",
        json!(0),
    );
    let mut world = World::new();
    for expected in [Degraded, Degraded, Healthy, Healthy] {
        world.apply(&job);
        world.run_until_idle();
        assert_eq!(world.health("Job", "migrate"), expected);
        world.delete("Job", "migrate", tidegate_cluster::Propagation::Background).unwrap();
        world.run_until_idle();
    }
}

#[test]
fn pods_of_a_template_are_not_counted_again() {
    let first = with_value(
        &workload("Deployment", "api", "api:1", json!({})),
        "/spec/template/metadata/annotations",
        json!({"sim.tidegate.dev/fail-times": "1"}),
    );
    let mut world = assert_health_over_time(&first, &[(300, Degraded)]);
    world.delete("Deployment", "api", tidegate_cluster::Propagation::Background).unwrap();
    world.run_until_idle();
    world.apply(&first);
    world.run_until_idle();
    assert_eq!(world.health("Deployment", "api"), Healthy);
    world.apply(&with_value(&first, "/spec/template/spec/containers/0/image", json!("api:2")));
    world.run_until_idle();
    assert_eq!(world.health("Deployment", "api"), Healthy);
}

#[test]
fn jobs_complete_or_fail() {
    assert_health_over_time(&workload("Job", "m", "m:1", json!({})), &[(100, Progressing), (250, Healthy)]);
    assert_health_over_time(
        &workload("Job", "m", "m:1", json!({"outcome": "never-ready"})),
        &[(900_000, Progressing)],
    );
    let failing = workload("Job", "m", "m:1", json!({"outcome": "fail"}));
    let mut world = assert_health_over_time(
        &with_value(&failing, "/spec/backoffLimit", json!(2)),
        &[(500, Progressing), (700, Degraded)],
    );
    let job = world.get("Job", "m").unwrap();
    assert_eq!((world.pods().len(), job.integer("/status/failed")), (3, Some(3)));
    assert_eq!(job.text("/status/conditions/1/reason"), "BackoffLimitExceeded");

    let late = with_value(
        &workload("Job", "m", "m:1", json!({"ready-after": "1h"})),
        "/spec/activeDeadlineSeconds",
        json!(30),
    );
    let mut world = assert_health_over_time(&late, &[(29_000, Progressing), (30_500, Degraded)]);
    assert!(world.get("Job", "m").unwrap().text("/status/conditions/1/message").contains("deadline"));
    assert!(world.pods().is_empty(), "the pods of a failed job are stopped");

    let many = with_value(
        &with_value(&workload("Job", "m", "m:1", json!({})), "/spec/completions", json!(4)),
        "/spec/parallelism",
        json!(2),
    );
    assert_health_over_time(&many, &[(250, Progressing), (450, Healthy)]);

    let brief =
        with_value(&workload("Job", "m", "m:1", json!({})), "/spec/ttlSecondsAfterFinished", json!(5));
    let mut world = assert_health_over_time(&brief, &[(300, Healthy)]);
    world.run_until_idle();
    assert!(world.get("Job", "m").is_none() && world.pods().is_empty());
}

#[test]
fn a_suspended_job_starts_no_pods() {
    let job = workload("Job", "m", "m:1", json!({}));
    let mut world = assert_health_over_time(
        &with_value(&job, "/spec/suspend", json!(true)),
        &[(5000, HealthStatus::Suspended)],
    );
    assert!(world.pods().is_empty());
    world.apply(&with_value(&job, "/spec/suspend", json!(false)));
    world.run_until_idle();
    assert_eq!(world.get("Job", "m").unwrap().integer("/status/succeeded"), Some(1));
}

fn images(world: &mut World) -> Vec<String> {
    let mut images: Vec<String> =
        world.pods().iter().map(|pod| pod.text("/spec/containers/0/image").to_owned()).collect();
    images.sort();
    images
}

#[test]
fn an_update_replaces_pods_without_a_gap() {
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        let mut world =
            assert_health_over_time(&workload(kind, "api", "api:1", json!({})), &[(1000, Healthy)]);
        world.apply(&workload(kind, "api", "api:2", json!({})));
        assert_eq!(world.health(kind, "api"), Progressing, "{kind}: the status is older than the spec");
        let deadline = world.now + ms(10_000);
        while world.now < deadline {
            world.advance(ms(5));
            let ready = world
                .pods()
                .iter()
                .filter(|pod| pod.pointer("/status/conditions/3/status") == Some(&json!("True")))
                .count();
            assert!(kind != "Deployment" || (3..=4).contains(&ready), "{ready} pods serve");
        }
        assert_eq!(world.health(kind, "api"), Healthy);
        assert!(images(&mut world).iter().all(|image| image == "api:2"), "{kind}");
    }
}

#[test]
fn a_bad_update_keeps_the_old_pods_and_a_good_one_repairs_it() {
    let mut world =
        assert_health_over_time(&workload("Deployment", "api", "api:1", json!({})), &[(1000, Healthy)]);
    world.apply(&workload("Deployment", "api", "api:2", json!({"outcome": "crashloop"})));
    world.advance(ms(5000));
    assert_eq!(images(&mut world), ["api:1", "api:1", "api:1", "api:2"]);
    assert_eq!(world.health("Deployment", "api"), Progressing);
    world.apply(&workload("Deployment", "api", "api:3", json!({})));
    world.advance(ms(5000));
    assert_eq!(images(&mut world), ["api:3", "api:3", "api:3"]);
    assert_eq!(world.health("Deployment", "api"), Healthy);
}

#[test]
fn recreate_stops_the_old_pods_first() {
    let recreate = |image| {
        with_value(
            &workload("Deployment", "api", image, json!({})),
            "/spec/strategy",
            json!({"type": "Recreate"}),
        )
    };
    let mut world = assert_health_over_time(&recreate("api:1"), &[(1000, Healthy)]);
    world.apply(&recreate("api:2"));
    for _ in 0..200 {
        world.advance(ms(5));
        let images = images(&mut world);
        assert!(images.windows(2).all(|pair| pair[0] == pair[1]), "{images:?}");
    }
    assert_eq!(world.health("Deployment", "api"), Healthy);
}

#[test]
fn workloads_scale() {
    for kind in ["Deployment", "StatefulSet", "ReplicaSet"] {
        let mut world =
            assert_health_over_time(&workload(kind, "api", "api:1", json!({})), &[(1000, Healthy)]);
        for replicas in [5_usize, 1, 0] {
            world.apply(&with_value(
                &workload(kind, "api", "api:1", json!({})),
                "/spec/replicas",
                json!(replicas),
            ));
            world.run_until_idle();
            assert_eq!((world.pods().len(), world.health(kind, "api")), (replicas, Healthy), "{kind}");
        }
    }
}

#[test]
fn a_deleted_pod_is_replaced() {
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
        let mut world =
            assert_health_over_time(&workload(kind, "api", "api:1", json!({})), &[(1000, Healthy)]);
        let (pod, count) = (world.pods()[0].name().to_owned(), world.pods().len());
        world.delete("Pod", &pod, tidegate_cluster::Propagation::Background).unwrap();
        world.run_until_idle();
        assert_eq!((world.pods().len(), world.health(kind, "api")), (count, Healthy), "{kind}");
    }
}

#[test]
fn other_kinds_become_healthy_after_their_delay() {
    let claim =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let balancer = json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let scaler = json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "api"}}});
    let api = json!({"metadata": {"namespace": null}, "spec": {"group": "x.io", "version": "v1"}});
    let cases: [(&str, Value); 6] = [
        ("PersistentVolumeClaim", claim),
        ("Service", balancer),
        ("Ingress", json!({"spec": {"rules": [{"host": "shop"}]}})),
        ("PodDisruptionBudget", json!({"spec": {"minAvailable": 1}})),
        ("HorizontalPodAutoscaler", scaler),
        ("APIService", api),
    ];
    for (kind, rest) in cases {
        let course_of = |annotations: Value, times: &[(u64, HealthStatus)]| {
            let mut object = manifest(kind, "it", rest.clone());
            object.metadata_mut().insert("annotations".to_owned(), annotations);
            assert_health_over_time(&object, times);
        };
        // A PodDisruptionBudget remains healthy while there are too few pods.
        let early = if kind == "PodDisruptionBudget" { Healthy } else { Progressing };
        course_of(json!({}), &[(100, early), (300, Healthy)]);
        course_of(json!({"sim.tidegate.dev/outcome": "never-ready"}), &[(900_000, early)]);
    }
}

#[test]
fn a_cron_job_creates_jobs() {
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let cron =
        manifest("CronJob", "tick", json!({"spec": {"schedule": "*/10 * * * *", "jobTemplate": template}}));
    let mut world = assert_health_over_time(&cron, &[(1000, Healthy)]);
    assert!(world.names("Job").is_empty());
    for jobs in [1, 2, 3, 3] {
        world.advance(ms(600_000));
        assert_eq!((world.names("Job").len(), world.health("CronJob", "tick")), (jobs, Healthy));
    }
    world.apply(&with_value(&cron, "/spec/suspend", json!(true)));
    world.run_until_idle();
    assert_eq!(world.state.next_due(), None);
}
