//! Behavior shared by all ApplicationSet stores, and behavior specific to each one.

mod fixture;
mod folder;
mod kubernetes;

use serde_json::json;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::ownership::{APPSET_ANNOTATION, owning_appset};
use tidegate_applicationset::retry::{self, RETRY_ANNOTATION};
use tidegate_model::argo::{Application, ApplicationSet, ObjectMeta, OperationRequest, SyncStatusCode};

use self::fixture::{all_backends, condition, sample_application, sample_appset, spec_value};
use super::*;

const FOREIGN_FINALIZER: &str = "example.com/kept";

#[tokio::test(start_paused = true)]
async fn an_appset_is_reported_and_its_state_survives() {
    for backing in all_backends().await {
        backing.write_appset(sample_appset()).await;
        let mut open = backing.open().await;
        let StoredAppSet { mut appset, problem, lost } = open.next_appset().await;
        assert_eq!((problem, lost), (None, None));
        assert!(!appset.metadata.uid.is_empty() && appset.metadata.creation_timestamp.is_some());
        assert_eq!(open.events.recv().await.unwrap(), AppSetEvent::Settled);
        appset.status.conditions.push(condition("first"));
        open.sets.write_status(&appset).await.unwrap();
        // A status write keeps concurrent changes by other clients.
        let mut changed = sample_appset();
        changed["spec"]["goTemplate"] = json!(true);
        backing.write_appset(changed).await;
        appset.status.conditions[0].message = "second".to_owned();
        open.sets.write_status(&appset).await.unwrap();
        // The engine's own status writes aren't reported, so the next event is the user's change.
        let news = open.next_appset().await.appset;
        assert!(news.spec.go_template);
        assert_eq!(news.metadata.uid, appset.metadata.uid);
        let mut again = backing.open().await;
        let known = again.next_appset().await.appset;
        assert_eq!((&known.metadata.uid, &known.status), (&appset.metadata.uid, &appset.status));
        assert!(known.spec.go_template);
        // An ApplicationSet that was deleted and recreated with the same name is a different one.
        let other = ApplicationSet {
            metadata: ObjectMeta { uid: "other".into(), ..appset.metadata.clone() },
            ..appset
        };
        again.sets.write_status(&ApplicationSet { status: Default::default(), ..other }).await.unwrap();
        assert_eq!(backing.open().await.next_appset().await.appset.status, known.status);
    }
}

#[tokio::test(start_paused = true)]
async fn our_finalizer_is_set_and_removed_beside_foreign_ones() {
    for backing in all_backends().await {
        let mut authored = sample_appset();
        authored["metadata"]["finalizers"] = json!([FOREIGN_FINALIZER]);
        backing.write_appset(authored).await;
        let mut open = backing.open().await;
        let mut set = open.next_appset().await.appset;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.write_finalizer(&set).await.unwrap();
        open.sets.write_finalizer(&set).await.unwrap();
        let marked = open.next_appset().await.appset;
        assert_eq!(marked.metadata.finalizers, [FOREIGN_FINALIZER, RESOURCES_FINALIZER]);
        assert_eq!(spec_value(&marked), spec_value(&set));
        assert_eq!(
            backing.open().await.next_appset().await.appset.metadata.finalizers,
            [FOREIGN_FINALIZER, RESOURCES_FINALIZER]
        );
        set.metadata.finalizers.clear();
        open.sets.write_finalizer(&set).await.unwrap();
        assert_eq!(open.next_appset().await.appset.metadata.finalizers, [FOREIGN_FINALIZER]);
    }
}

#[tokio::test(start_paused = true)]
async fn user_requests_survive_and_other_annotations_are_unchanged() {
    for backing in all_backends().await {
        let mut document = sample_appset();
        document["metadata"]["annotations"]["example.com/own"] = json!("1");
        backing.write_appset(document).await;
        let mut open = backing.open().await;
        let mut set = open.next_appset().await.appset;
        let annotations = &mut set.metadata.annotations;
        annotations.insert(RETRY_ANNOTATION.to_owned(), "asked".to_owned());
        annotations.remove("example.com/own").unwrap();
        open.sets.write_annotations(&set, &retry::ANNOTATIONS).await.unwrap();
        let mut again = backing.open().await;
        let mut known = again.next_appset().await.appset;
        let of = |set: &ApplicationSet, name: &str| set.metadata.annotations.get(name).cloned();
        assert_eq!(of(&known, RETRY_ANNOTATION).as_deref(), Some("asked"));
        assert_eq!(of(&known, "example.com/own").as_deref(), Some("1"));
        known.metadata.annotations.remove(RETRY_ANNOTATION);
        again.sets.write_annotations(&known, &retry::ANNOTATIONS).await.unwrap();
        let gone = backing.open().await.next_appset().await.appset;
        assert_eq!(of(&gone, RETRY_ANNOTATION), None);
        assert_eq!(of(&gone, "example.com/own").as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_appset_keeps_its_previous_state() {
    for backing in all_backends().await {
        backing.write_appset(sample_appset()).await;
        let mut open = backing.open().await;
        let before = open.next_appset().await.appset;
        let mut broken = sample_appset();
        broken["spec"]["goTemplate"] = json!("perhaps");
        backing.write_appset(broken.clone()).await;
        let StoredAppSet { appset, problem, .. } = open.next_appset().await;
        let problem = problem.unwrap();
        assert!(problem.contains("its last valid version remains in effect"), "{problem}");
        assert_eq!((spec_value(&appset), &appset.metadata.uid), (spec_value(&before), &before.metadata.uid));
        // A fixed ApplicationSet takes effect immediately and keeps its identity.
        let mut mended = sample_appset();
        mended["spec"]["goTemplate"] = json!(true);
        backing.write_appset(mended).await;
        let StoredAppSet { appset, problem, .. } = open.next_appset().await;
        assert_eq!(
            (appset.spec.go_template, &appset.metadata.uid, problem),
            (true, &before.metadata.uid, None)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_was_never_readable_is_only_a_problem() {
    for backing in all_backends().await {
        let mut broken = sample_appset();
        broken["spec"]["goTemplate"] = json!("perhaps");
        backing.write_appset(broken).await;
        let mut open = backing.open().await;
        let problems = open.next_problems().await.join("\n");
        assert!(
            problems.contains("fleet") && problems.contains("goTemplate") || problems.contains("perhaps"),
            "{problems}"
        );
        backing.write_appset(sample_appset()).await;
        assert_eq!(open.next_appset().await.problem, None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_is_created_once_and_managed() {
    for backing in all_backends().await {
        let mut open = backing.open().await;
        let mut desired = sample_application("dev");
        desired.status.source_type = "never written".into();
        desired.operation = Some(OperationRequest::default());
        assert_eq!(open.sets.create(&desired).await.unwrap(), WriteResult::Done);
        let created = open.next_application().await;
        assert_eq!((&created.spec, &created.metadata.labels), (&desired.spec, &desired.metadata.labels));
        assert_eq!(created.metadata.rest["ownerReferences"], desired.metadata.rest["ownerReferences"]);
        assert!(created.status.is_empty() && created.operation.is_none());
        let metadata = &created.metadata;
        assert!(!metadata.uid.is_empty() && !metadata.resource_version.is_empty());
        assert!(metadata.creation_timestamp.is_some());
        let again = open.sets.create(&desired).await.unwrap();
        assert!(matches!(again, WriteResult::Outdated(_)), "{again:?}");
        let key = AppKey::of(&created);
        assert_eq!(open.sets.application_existence(&key, &metadata.uid).await.unwrap(), Existence::Exists);
        assert_eq!(open.sets.application_existence(&key, "another").await.unwrap(), Existence::Gone);
        // The next process also finds the Application.
        assert_eq!(backing.open().await.next_application().await.metadata.uid, metadata.uid);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_observed_version_is_changed_and_never_its_status() {
    for backing in all_backends().await {
        let mut open = backing.open().await;
        open.sets.create(&sample_application("dev")).await.unwrap();
        let application = open.next_application().await;
        // Frequent status writes aren't reported as changes.
        let mut unchanged = application.clone();
        unchanged.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
        unchanged.operation = Some(OperationRequest::default());
        open.applications.persist(&unchanged).await.unwrap();
        let mut desired = application.clone();
        desired.spec.project = "shop".into();
        desired.metadata.labels = [("env".to_owned(), "prod".to_owned())].into();
        desired.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        desired.status.source_type = "never written".into();
        assert_eq!(open.sets.update(&desired).await.unwrap(), WriteResult::Done);
        let now = open.next_application().await;
        assert_eq!(now.spec.project, "shop");
        assert_eq!(
            (&now.metadata.labels, &now.metadata.finalizers),
            (&desired.metadata.labels, &desired.metadata.finalizers)
        );
        assert_ne!(now.metadata.resource_version, application.metadata.resource_version);
        // An update based on outdated state is rejected.
        let late = open
            .sets
            .update(&Application { spec: application.spec.clone(), ..desired.clone() })
            .await
            .unwrap();
        assert!(matches!(late, WriteResult::Outdated(_)), "{late:?}");
        let known = backing.open().await.next_application().await;
        assert_eq!((known.spec.project.as_str(), &known.status), ("shop", &unchanged.status));
        assert_eq!(known.operation, unchanged.operation);
        // An update affects neither a missing Application nor a different one with the same name.
        for name in ["dev", "none"] {
            let mut none = now.clone();
            (none.metadata.name, none.metadata.uid) = (name.into(), "another".into());
            let written = open.sets.update(&none).await.unwrap();
            assert!(matches!(written, WriteResult::Outdated(_)), "{name}: {written:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_decide_when_an_application_is_deleted() {
    for backing in all_backends().await {
        let mut open = backing.open().await;
        open.sets.create(&sample_application("dev")).await.unwrap();
        let plain = open.next_application().await;
        let key = AppKey::of(&plain);
        assert_eq!(open.sets.delete_application(&key, "another").await.unwrap(), Existence::Gone);
        assert_eq!(
            open.sets.application_existence(&key, &plain.metadata.uid).await.unwrap(),
            Existence::Exists,
            "it was not requested"
        );
        open.sets.delete_application(&key, &plain.metadata.uid).await.unwrap();
        open.await_application_removal(&key).await;
        assert_eq!(
            open.sets.application_existence(&key, &plain.metadata.uid).await.unwrap(),
            Existence::Gone
        );
        assert_eq!(open.sets.delete_application(&key, &plain.metadata.uid).await.unwrap(), Existence::Gone);
        open.applications.delete_state(&key).await.unwrap();
        let mut desired = sample_application("dev");
        desired.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.create(&desired).await.unwrap();
        let application = open.next_application().await;
        assert_ne!(application.metadata.uid, plain.metadata.uid);
        let uid = application.metadata.uid.clone();
        assert_eq!(open.sets.delete_application(&key, &uid).await.unwrap(), Existence::Exists);
        assert_eq!(open.sets.delete_application(&key, &uid).await.unwrap(), Existence::Exists);
        let mut deleting = open.next_application().await;
        assert!(deleting.is_deleting());
        // The next process also finds the deletion in progress.
        assert!(backing.open().await.next_application().await.is_deleting());
        deleting.metadata.finalizers.clear();
        open.applications.release(&deleting).await.unwrap();
        open.await_application_removal(&key).await;
        assert_eq!(open.sets.application_existence(&key, &uid).await.unwrap(), Existence::Gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_appset_stays_until_its_finalizer_is_removed() {
    for backing in all_backends().await {
        backing.write_appset(sample_appset()).await;
        let mut open = backing.open().await;
        let mut set = open.next_appset().await.appset;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.write_finalizer(&set).await.unwrap();
        open.next_appset().await;
        open.sets.delete(&set, false).await.unwrap();
        let deleting = open.next_appset().await.appset;
        assert!(deleting.metadata.deletion_timestamp.is_some());
        assert_eq!(deleting.metadata.finalizers, [RESOURCES_FINALIZER]);
        assert!(backing.open().await.next_appset().await.appset.metadata.deletion_timestamp.is_some());
        set.metadata.finalizers.clear();
        open.sets.write_finalizer(&set).await.unwrap();
        open.sets.remove_state(&AppKey::of_appset(&set)).await.unwrap();
        open.await_appset_removal().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_an_appset_is_read_past_the_cache() {
    for backing in all_backends().await {
        backing.write_appset(sample_appset()).await;
        let mut open = backing.open().await;
        let mut set = open.next_appset().await.appset;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.write_finalizer(&set).await.unwrap();
        open.next_appset().await;
        assert!(!open.sets.is_being_deleted(&set).await.unwrap());
        open.sets.delete(&set, false).await.unwrap();
        // No event has reported the deletion yet.
        assert!(open.sets.is_being_deleted(&set).await.unwrap());
        // An ApplicationSet with a different UID is ignored, and one that doesn't exist isn't being deleted.
        let other = ApplicationSet {
            metadata: ObjectMeta { uid: "other".into(), ..set.metadata.clone() },
            ..set.clone()
        };
        assert!(!open.sets.is_being_deleted(&other).await.unwrap());
        set.metadata.finalizers.clear();
        open.sets.write_finalizer(&set).await.unwrap();
        open.sets.remove_state(&AppKey::of_appset(&set)).await.unwrap();
        open.await_appset_removal().await;
        assert!(!open.sets.is_being_deleted(&set).await.unwrap());
    }
}

/// An Application's owner and annotation are stored unchanged. The annotation identifies an Application
/// without its owner.
#[tokio::test(start_paused = true)]
async fn an_application_keeps_its_annotation_when_its_owner_is_removed() {
    for backing in all_backends().await {
        let mut open = backing.open().await;
        let mut desired = sample_application("dev");
        desired.metadata.annotations.insert(APPSET_ANNOTATION.to_owned(), "fleet".to_owned());
        assert_eq!(open.sets.create(&desired).await.unwrap(), WriteResult::Done);
        let created = open.next_application().await;
        assert_eq!(created.annotation(APPSET_ANNOTATION), Some("fleet"));
        assert_eq!(owning_appset(&created), Some("fleet"));
        let mut lost = created.clone();
        lost.metadata.rest.remove("ownerReferences");
        assert_eq!(open.sets.update(&lost).await.unwrap(), WriteResult::Done);
        let lost = open.next_application().await;
        assert_eq!((owning_appset(&lost), lost.annotation(APPSET_ANNOTATION)), (None, Some("fleet")));
        let mut back = lost.clone();
        back.metadata.rest.clone_from(&created.metadata.rest);
        assert_eq!(open.sets.update(&back).await.unwrap(), WriteResult::Done);
        let back = open.next_application().await;
        assert_eq!((owning_appset(&back), &back.metadata.uid), (Some("fleet"), &created.metadata.uid));
    }
}
