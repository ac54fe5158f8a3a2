//! What every store of sets does, and what is one store's own.

mod bench;
mod folder;
mod kubernetes;
mod unchanged;

use serde_json::json;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::ownership::{SET_ANNOTATION, set_of};
use tidegate_applicationset::retry::{self, RETRY_ANNOTATION};
use tidegate_model::argo::{Application, ApplicationSet, ObjectMeta, OperationRequest, SyncStatusCode};

use self::bench::{backings, condition, fleet, spec_of, web};
use super::*;

const FOREIGN: &str = "example.com/kept";

#[tokio::test(start_paused = true)]
async fn a_set_is_told_and_what_is_known_of_it_survives() {
    for backing in backings().await {
        backing.write(fleet()).await;
        let mut open = backing.open().await;
        let StoredSet { mut set, problem, lost } = open.set().await;
        assert_eq!((problem, lost), (None, None));
        assert!(!set.metadata.uid.is_empty() && set.metadata.creation_timestamp.is_some());
        assert_eq!(open.events.recv().await.unwrap(), SetEvent::Settled);
        set.status.conditions.push(condition("first"));
        open.sets.keep(&set).await.unwrap();
        // Others change it meanwhile, and what they write stays.
        let mut changed = fleet();
        changed["spec"]["goTemplate"] = json!(true);
        backing.write(changed).await;
        set.status.conditions[0].message = "second".to_owned();
        open.sets.keep(&set).await.unwrap();
        // That is the only news: a status is our own word.
        let news = open.set().await.set;
        assert!(news.spec.go_template);
        assert_eq!(news.metadata.uid, set.metadata.uid);
        let mut again = backing.open().await;
        let known = again.set().await.set;
        assert_eq!((&known.metadata.uid, &known.status), (&set.metadata.uid, &set.status));
        assert!(known.spec.go_template);
        // One that was made again under its name is another one.
        let other =
            ApplicationSet { metadata: ObjectMeta { uid: "other".into(), ..set.metadata.clone() }, ..set };
        again.sets.keep(&ApplicationSet { status: Default::default(), ..other }).await.unwrap();
        assert_eq!(backing.open().await.set().await.set.status, known.status);
    }
}

#[tokio::test(start_paused = true)]
async fn our_finalizer_is_put_on_and_taken_off_beside_those_of_others() {
    for backing in backings().await {
        let mut authored = fleet();
        authored["metadata"]["finalizers"] = json!([FOREIGN]);
        backing.write(authored).await;
        let mut open = backing.open().await;
        let mut set = open.set().await.set;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.mark(&set).await.unwrap();
        open.sets.mark(&set).await.unwrap();
        let marked = open.set().await.set;
        assert_eq!(marked.metadata.finalizers, [FOREIGN, RESOURCES_FINALIZER]);
        assert_eq!(spec_of(&marked), spec_of(&set));
        assert_eq!(backing.open().await.set().await.set.metadata.finalizers, [FOREIGN, RESOURCES_FINALIZER]);
        set.metadata.finalizers.clear();
        open.sets.mark(&set).await.unwrap();
        assert_eq!(open.set().await.set.metadata.finalizers, [FOREIGN]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_people_have_asked_for_survives_and_no_other_annotation_is_touched() {
    for backing in backings().await {
        let mut document = fleet();
        document["metadata"]["annotations"]["example.com/own"] = json!("1");
        backing.write(document).await;
        let mut open = backing.open().await;
        let mut set = open.set().await.set;
        let annotations = &mut set.metadata.annotations;
        annotations.insert(RETRY_ANNOTATION.to_owned(), "asked".to_owned());
        annotations.remove("example.com/own").unwrap();
        open.sets.annotate(&set, &retry::ANNOTATIONS).await.unwrap();
        let mut again = backing.open().await;
        let mut known = again.set().await.set;
        let of = |set: &ApplicationSet, name: &str| set.metadata.annotations.get(name).cloned();
        assert_eq!(of(&known, RETRY_ANNOTATION).as_deref(), Some("asked"));
        assert_eq!(of(&known, "example.com/own").as_deref(), Some("1"));
        known.metadata.annotations.remove(RETRY_ANNOTATION);
        again.sets.annotate(&known, &retry::ANNOTATIONS).await.unwrap();
        let gone = backing.open().await.set().await.set;
        assert_eq!(of(&gone, RETRY_ANNOTATION), None);
        assert_eq!(of(&gone, "example.com/own").as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_cannot_be_read_is_what_it_was_before() {
    for backing in backings().await {
        backing.write(fleet()).await;
        let mut open = backing.open().await;
        let before = open.set().await.set;
        let mut broken = fleet();
        broken["spec"]["goTemplate"] = json!("perhaps");
        backing.write(broken.clone()).await;
        let StoredSet { set, problem, .. } = open.set().await;
        let problem = problem.unwrap();
        assert!(problem.contains("left alone, as it was"), "{problem}");
        assert_eq!((spec_of(&set), &set.metadata.uid), (spec_of(&before), &before.metadata.uid));
        // It counts again as soon as it is mended, and is the same.
        let mut mended = fleet();
        mended["spec"]["goTemplate"] = json!(true);
        backing.write(mended).await;
        let StoredSet { set, problem, .. } = open.set().await;
        assert_eq!((set.spec.go_template, &set.metadata.uid, problem), (true, &before.metadata.uid, None));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_could_never_be_read_is_a_problem_and_nothing_else() {
    for backing in backings().await {
        let mut broken = fleet();
        broken["spec"]["goTemplate"] = json!("perhaps");
        backing.write(broken).await;
        let mut open = backing.open().await;
        let problems = open.problems().await.join("\n");
        assert!(
            problems.contains("fleet") && problems.contains("goTemplate") || problems.contains("perhaps"),
            "{problems}"
        );
        backing.write(fleet()).await;
        assert_eq!(open.set().await.problem, None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_is_made_once_and_served() {
    for backing in backings().await {
        let mut open = backing.open().await;
        let mut wanted = web("dev");
        wanted.status.source_type = "never written".into();
        wanted.operation = Some(OperationRequest::default());
        assert_eq!(open.sets.create(&wanted).await.unwrap(), Written::Done);
        let made = open.application().await;
        assert_eq!((&made.spec, &made.metadata.labels), (&wanted.spec, &wanted.metadata.labels));
        assert_eq!(made.metadata.rest["ownerReferences"], wanted.metadata.rest["ownerReferences"]);
        assert!(made.status.is_empty() && made.operation.is_none());
        let metadata = &made.metadata;
        assert!(!metadata.uid.is_empty() && !metadata.resource_version.is_empty());
        assert!(metadata.creation_timestamp.is_some());
        let again = open.sets.create(&wanted).await.unwrap();
        assert!(matches!(again, Written::Outdated(_)), "{again:?}");
        let key = AppKey::of(&made);
        assert_eq!(open.sets.look(&key, &metadata.uid).await.unwrap(), Found::There);
        assert_eq!(open.sets.look(&key, "another").await.unwrap(), Found::Gone);
        // It is there for whoever serves them next, too.
        assert_eq!(backing.open().await.application().await.metadata.uid, metadata.uid);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_version_that_was_looked_at_is_changed_and_never_its_status() {
    for backing in backings().await {
        let mut open = backing.open().await;
        open.sets.create(&web("dev")).await.unwrap();
        let told = open.application().await;
        // How it stands is written all the time, and makes it no other one.
        let mut standing = told.clone();
        standing.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
        standing.operation = Some(OperationRequest::default());
        open.applications.keep(&standing).await.unwrap();
        let mut wanted = told.clone();
        wanted.spec.project = "shop".into();
        wanted.metadata.labels = [("env".to_owned(), "prod".to_owned())].into();
        wanted.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        wanted.status.source_type = "never written".into();
        assert_eq!(open.sets.update(&wanted).await.unwrap(), Written::Done);
        let now = open.application().await;
        assert_eq!(now.spec.project, "shop");
        assert_eq!(
            (&now.metadata.labels, &now.metadata.finalizers),
            (&wanted.metadata.labels, &wanted.metadata.finalizers)
        );
        assert_ne!(now.metadata.resource_version, told.metadata.resource_version);
        // As it was looked at before that.
        let late =
            open.sets.update(&Application { spec: told.spec.clone(), ..wanted.clone() }).await.unwrap();
        assert!(matches!(late, Written::Outdated(_)), "{late:?}");
        let known = backing.open().await.application().await;
        assert_eq!((known.spec.project.as_str(), &known.status), ("shop", &standing.status));
        assert_eq!(known.operation, standing.operation);
        // One that is not there, or is another one.
        for name in ["dev", "none"] {
            let mut none = now.clone();
            (none.metadata.name, none.metadata.uid) = (name.into(), "another".into());
            let written = open.sets.update(&none).await.unwrap();
            assert!(matches!(written, Written::Outdated(_)), "{name}: {written:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_decide_when_an_application_goes() {
    for backing in backings().await {
        let mut open = backing.open().await;
        open.sets.create(&web("dev")).await.unwrap();
        let plain = open.application().await;
        let key = AppKey::of(&plain);
        assert_eq!(open.sets.delete_application(&key, "another").await.unwrap(), Found::Gone);
        assert_eq!(
            open.sets.look(&key, &plain.metadata.uid).await.unwrap(),
            Found::There,
            "it was not meant"
        );
        open.sets.delete_application(&key, &plain.metadata.uid).await.unwrap();
        open.application_is_gone(&key).await;
        assert_eq!(open.sets.look(&key, &plain.metadata.uid).await.unwrap(), Found::Gone);
        assert_eq!(open.sets.delete_application(&key, &plain.metadata.uid).await.unwrap(), Found::Gone);
        open.applications.forget(&key).await.unwrap();
        let mut wanted = web("dev");
        wanted.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.create(&wanted).await.unwrap();
        let kept = open.application().await;
        assert_ne!(kept.metadata.uid, plain.metadata.uid);
        let uid = kept.metadata.uid.clone();
        assert_eq!(open.sets.delete_application(&key, &uid).await.unwrap(), Found::There);
        assert_eq!(open.sets.delete_application(&key, &uid).await.unwrap(), Found::There);
        let mut leaving = open.application().await;
        assert!(leaving.is_deleting());
        // Also for whoever serves them next.
        assert!(backing.open().await.application().await.is_deleting());
        leaving.metadata.finalizers.clear();
        open.applications.release(&leaving).await.unwrap();
        open.application_is_gone(&key).await;
        assert_eq!(open.sets.look(&key, &uid).await.unwrap(), Found::Gone);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_deleted_stays_until_it_is_let_go() {
    for backing in backings().await {
        backing.write(fleet()).await;
        let mut open = backing.open().await;
        let mut set = open.set().await.set;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.mark(&set).await.unwrap();
        open.set().await;
        open.sets.delete(&set, false).await.unwrap();
        let leaving = open.set().await.set;
        assert!(leaving.metadata.deletion_timestamp.is_some());
        assert_eq!(leaving.metadata.finalizers, [RESOURCES_FINALIZER]);
        assert!(backing.open().await.set().await.set.metadata.deletion_timestamp.is_some());
        set.metadata.finalizers.clear();
        open.sets.mark(&set).await.unwrap();
        open.sets.forget(&AppKey::of_set(&set)).await.unwrap();
        open.set_is_gone().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whether_a_set_is_being_deleted_is_asked_past_what_was_told() {
    for backing in backings().await {
        backing.write(fleet()).await;
        let mut open = backing.open().await;
        let mut set = open.set().await.set;
        set.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
        open.sets.mark(&set).await.unwrap();
        open.set().await;
        assert!(!open.sets.is_going(&set).await.unwrap());
        open.sets.delete(&set, false).await.unwrap();
        // Nobody has been told of it yet.
        assert!(open.sets.is_going(&set).await.unwrap());
        // Another one of its name is not meant, and one that is gone is on no way.
        let other = ApplicationSet {
            metadata: ObjectMeta { uid: "other".into(), ..set.metadata.clone() },
            ..set.clone()
        };
        assert!(!open.sets.is_going(&other).await.unwrap());
        set.metadata.finalizers.clear();
        open.sets.mark(&set).await.unwrap();
        open.sets.forget(&AppKey::of_set(&set)).await.unwrap();
        open.set_is_gone().await;
        assert!(!open.sets.is_going(&set).await.unwrap());
    }
}

/// Whose an Application is, and its mark, are kept as they are given: by the mark it is taken back when its owner was lost.
#[tokio::test(start_paused = true)]
async fn an_application_keeps_its_mark_when_its_owner_is_taken_off_and_gets_it_back() {
    for backing in backings().await {
        let mut open = backing.open().await;
        let mut wanted = web("dev");
        wanted.metadata.annotations.insert(SET_ANNOTATION.to_owned(), "fleet".to_owned());
        assert_eq!(open.sets.create(&wanted).await.unwrap(), Written::Done);
        let made = open.application().await;
        assert_eq!(made.annotation(SET_ANNOTATION), Some("fleet"));
        assert_eq!(set_of(&made), Some("fleet"));
        let mut lost = made.clone();
        lost.metadata.rest.remove("ownerReferences");
        assert_eq!(open.sets.update(&lost).await.unwrap(), Written::Done);
        let lost = open.application().await;
        assert_eq!((set_of(&lost), lost.annotation(SET_ANNOTATION)), (None, Some("fleet")));
        let mut back = lost.clone();
        back.metadata.rest.clone_from(&made.metadata.rest);
        assert_eq!(open.sets.update(&back).await.unwrap(), Written::Done);
        let back = open.application().await;
        assert_eq!((set_of(&back), &back.metadata.uid), (Some("fleet"), &made.metadata.uid));
    }
}
