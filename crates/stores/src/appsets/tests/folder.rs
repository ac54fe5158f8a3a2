//! ApplicationSets as documents in a folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io};

use serde_json::json;
use tidegate_application::AppKey;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_model::argo::{API_VERSION, ApplicationSet};
use tidegate_state::disk::{Disk, SystemDisk};

use super::super::{AppSetEvent, AppSetStore as _, Existence, StoredAppSet};
use super::fixture::{StoreBackend, condition, sample_application, sample_appset, spec_value};
use crate::applications::{FolderStore, StoreEvent};
use crate::appsets::FolderAppSetStore;

fn file_mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(start_paused = true)]
async fn a_vanished_document_starts_a_deletion_that_is_not_withdrawn() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    backing.write_appset(sample_appset()).await;
    let mut open = backing.open().await;
    let mut set = open.next_appset().await.appset;
    set.status.conditions.push(condition("known"));
    open.sets.write_status(&set).await.unwrap();
    fs::remove_file(backing.file_path("fleet.yaml")).unwrap();
    let deleting = open.next_appset().await.appset;
    assert!(deleting.metadata.deletion_timestamp.is_some());
    assert_eq!((spec_value(&deleting), &deleting.status), (spec_value(&set), &set.status));
    backing.write_appset(sample_appset()).await;
    let StoredAppSet { appset: back, problem, .. } = open.next_appset().await;
    assert_eq!(back.metadata.deletion_timestamp, deleting.metadata.deletion_timestamp);
    assert!(problem.unwrap().contains("is ignored until the deletion of the ApplicationSet is complete"));
    open.sets.remove_state(&AppKey::of_appset(&set)).await.unwrap();
    assert!(matches!(open.events.recv().await.unwrap(), AppSetEvent::Gone(_)));
    let another = open.next_appset().await.appset;
    assert_ne!(another.metadata.uid, set.metadata.uid);
    // An ApplicationSet's state can be removed only during its deletion.
    open.sets.remove_state(&AppKey::of_appset(&set)).await.unwrap();
    assert_eq!(backing.open().await.next_appset().await.appset.metadata.uid, another.metadata.uid);
    // The document was removed while no process was running.
    fs::remove_file(backing.file_path("fleet.yaml")).unwrap();
    open = backing.open().await;
    let doubted = open.next_appset().await;
    assert!(doubted.problem.unwrap().contains("the folder contains no manifests"));
    assert_eq!(doubted.appset.metadata.deletion_timestamp, None);
    backing.write_file("other.yaml", "");
    let doubted = open.next_appset().await;
    assert!(doubted.problem.unwrap().contains("the folder will be read again"));
    assert_eq!(doubted.appset.metadata.deletion_timestamp, None);
    let gone = open.next_appset().await.appset;
    assert!(gone.metadata.deletion_timestamp.is_some());
    assert_eq!(gone.metadata.uid, another.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_document_is_never_a_deletion() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    backing.write_appset(sample_appset()).await;
    let mut open = backing.open().await;
    let uid = open.next_appset().await.appset.metadata.uid;
    // Unreadable content doesn't prove that a document was removed.
    for content in ["kind: [", "", "\t"] {
        backing.write_file("fleet.yaml", content);
        let StoredAppSet { appset, problem, .. } = open.next_appset().await;
        assert!(appset.metadata.deletion_timestamp.is_none(), "{content:?}");
        assert!(problem.unwrap().contains("its last valid version remains in effect"), "{content:?}");
        backing.write_appset(sample_appset()).await;
        assert_eq!(open.next_appset().await.problem, None, "{content:?}");
    }
    // The document may have moved to an unreadable file.
    let mut open = backing.open().await;
    open.next_appset().await;
    backing.write_file("other.yaml", "kind: [");
    assert!(open.next_problems().await[0].contains("other.yaml"));
    fs::remove_file(backing.file_path("fleet.yaml")).unwrap();
    let StoredAppSet { appset, problem, .. } = open.next_appset().await;
    assert!(appset.metadata.deletion_timestamp.is_none() && appset.metadata.uid == uid);
    assert!(problem.unwrap().contains("the ApplicationSet is not in any readable file"));
    // A new process doesn't take the missing document for a deletion either.
    let mut again = backing.open().await;
    assert!(again.next_appset().await.appset.metadata.deletion_timestamp.is_none());
    // The folder is temporarily missing.
    let folder = backing.file_path("fleet.yaml").parent().unwrap().to_owned();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    loop {
        match again.events.recv().await.unwrap() {
            AppSetEvent::Problems(problems)
                if problems.join("\n").contains("its previous contents remain in effect") =>
            {
                break;
            }
            AppSetEvent::Applied(stored) => assert!(stored.appset.metadata.deletion_timestamp.is_none()),
            AppSetEvent::Gone(key) => panic!("{key} is gone"),
            AppSetEvent::OtherReplica(_) | AppSetEvent::OwnedShards(_) => panic!("a folder has one owner"),
            AppSetEvent::Problems(_) | AppSetEvent::Settled => {}
        }
    }
    fs::rename(&away, &folder).unwrap();
    backing.write_file("other.yaml", &sample_appset().to_string());
    loop {
        let StoredAppSet { appset, problem, .. } = again.next_appset().await;
        assert!(appset.metadata.deletion_timestamp.is_none() && appset.metadata.uid == uid);
        if problem.is_none() {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_is_moved_aside_and_reported() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    backing.write_appset(sample_appset()).await;
    let uid = backing.open().await.next_appset().await.appset.metadata.uid;
    let StoreBackend::Folder(folder) = &backing else { return };
    let state_file = folder.path().join("state/applicationsets/argocd_fleet.json");
    fs::write(&state_file, "{").unwrap();
    let StoredAppSet { appset, lost, .. } = backing.open().await.next_appset().await;
    assert_ne!(appset.metadata.uid, uid);
    assert!(lost.unwrap().contains("damaged-1"));
    assert_eq!(fs::read_to_string(state_file.with_extension("damaged-1")).unwrap(), "{");
}

#[tokio::test(start_paused = true)]
async fn generated_applications_are_visible_at_once_and_private() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    while open.application_events.recv().await.unwrap() != StoreEvent::Settled {}
    let began = tokio::time::Instant::now();
    for number in 0..20 {
        open.sets.create(&sample_application(&format!("dev-{number}"))).await.unwrap();
        let mut created = open.next_application().await;
        created.spec.project = format!("shop-{number}");
        open.sets.update(&created).await.unwrap();
        assert_eq!(open.next_application().await.spec.project, created.spec.project);
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "no caller waited for the next read: {:?}",
        began.elapsed()
    );
    let StoreBackend::Folder(folder) = &backing else { return };
    let state = folder.path().join("state");
    assert_eq!(file_mode(&state.join("generated")), 0o700);
    let file = state.join("generated/argocd_dev-0.json");
    assert_eq!(file_mode(&file), 0o600);
    assert!(fs::read_to_string(file).unwrap().contains("me:pass"), "what opens the repository");
    backing.write_appset(sample_appset()).await;
    open.next_appset().await;
    assert_eq!(file_mode(&state.join("applicationsets/argocd_fleet.json")), 0o600);
}

#[tokio::test(start_paused = true)]
async fn an_application_of_the_folder_wins_over_a_generated_one() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    let mut desired = sample_application("dev");
    desired.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
    open.sets.create(&desired).await.unwrap();
    let created = open.next_application().await;
    let mut authored = sample_application("dev");
    authored.spec.project = "of-its-author".into();
    authored.metadata.rest.clear();
    backing.write_file("dev.yaml", &serde_json::to_string(&authored).unwrap());
    let stored = loop {
        match open.application_events.recv().await.unwrap() {
            StoreEvent::Applied(stored) => break stored,
            StoreEvent::Gone(key) => panic!("{key} is gone"),
            _ => {}
        }
    };
    assert_eq!(stored.application.spec.project, "of-its-author");
    assert!(stored.problem.unwrap().contains("the application in the folder takes precedence"));
    // If the ApplicationSet deletes its Application, the user's own Application isn't affected.
    let key = AppKey::of(&created);
    open.sets.delete_application(&key, &created.metadata.uid).await.unwrap();
    let now = open.next_application().await;
    assert!(!now.is_deleting() && now.spec.project == "of-its-author");
    assert_eq!(open.sets.application_existence(&key, &created.metadata.uid).await.unwrap(), Existence::Gone);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_generated_application_is_not_gone() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    open.sets.create(&sample_application("dev")).await.unwrap();
    let created = open.next_application().await;
    let StoreBackend::Folder(folder) = &backing else { return };
    let file = folder.path().join("state/generated/argocd_dev.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, "{").unwrap();
    let now = open.next_application().await;
    assert_eq!((&now.metadata.uid, now.is_deleting()), (&created.metadata.uid, false));
    assert!(open.sets.application_existence(&AppKey::of(&created), &created.metadata.uid).await.is_err());
    fs::write(&file, whole).unwrap();
    assert_eq!(open.next_application().await.metadata.uid, created.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn only_an_appset_alone_in_its_file_is_removed_from_the_folder() {
    let backing = StoreBackend::Folder(tempfile::tempdir().unwrap());
    let shop = json!({
        "apiVersion": API_VERSION, "kind": "AppProject", "metadata": {"name": "shop"}, "spec": {},
    });
    backing.write_file("fleet.yaml", &format!("{}\n---\n{shop}\n", sample_appset()));
    let mut open = backing.open().await;
    let set = open.next_appset().await.appset;
    let refused = open.sets.delete(&set, true).await.unwrap_err().to_string();
    assert!(
        refused.contains("contains other documents besides") && backing.file_path("fleet.yaml").exists(),
        "{refused}"
    );
    assert!(!open.sets.has_removable_file(&set).await);
    backing.write_appset(sample_appset()).await;
    assert!(open.sets.has_removable_file(&set).await);
    open.sets.delete(&set, true).await.unwrap();
    assert!(!backing.file_path("fleet.yaml").exists() && !open.sets.has_removable_file(&set).await);
    let deleting = open.next_appset().await.appset;
    assert!(deleting.metadata.deletion_timestamp.is_some());
    assert_eq!(deleting.metadata.finalizers, ["orphan"]);
}

/// Disk of a process that is killed before a given change. All later changes fail.
#[derive(Debug)]
struct CrashingDisk(AtomicUsize);

impl CrashingDisk {
    fn check_alive(&self) -> io::Result<()> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("this process is dead"))
    }
}

impl Disk for CrashingDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.check_alive()?;
        SystemDisk.create_folder(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.check_alive()?;
        SystemDisk.write(path, content, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check_alive()?;
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_alive()?;
        SystemDisk.remove(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.check_alive()?;
        SystemDisk.sync_folder(path)
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_complete_or_absent_after_a_crash_at_any_point() {
    let (mut kept, mut deleted) = (0, 0);
    for changes in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let state = |name: &str| folder.path().join("state").join(name);
        let (apps, known) = (folder.path().join("apps"), state("applicationsets"));
        let dying = {
            fs::create_dir_all(&apps).unwrap();
            fs::create_dir_all(folder.path().join("state")).unwrap();
            fs::write(apps.join("fleet.yaml"), sample_appset().to_string()).unwrap();
            // Load the ApplicationSet before deleting it.
            let store = FolderStore::open(&apps, state("applications"), state("generated")).unwrap();
            let sets = FolderAppSetStore::open(&store, known.clone());
            let set = first_certain_appset(&sets).await;
            let disk = Arc::new(CrashingDisk(AtomicUsize::new(changes)));
            let store =
                FolderStore::open_with_disk(disk, &apps, state("applications"), state("generated")).unwrap();
            FolderAppSetStore::open(&store, known.clone()).delete(&set, true).await
        };
        let store = FolderStore::open(&apps, state("applications"), state("generated")).unwrap();
        let after = first_certain_appset(&FolderAppSetStore::open(&store, known)).await;
        let has = |finalizer: &str| after.metadata.finalizers.iter().any(|one| one == finalizer);
        let is_there = apps.join("fleet.yaml").exists();
        assert_eq!(after.metadata.deletion_timestamp.is_some(), !is_there, "{changes}");
        assert_eq!(has("orphan"), !is_there, "{changes}: {:?}", after.metadata.finalizers);
        *(if is_there { &mut kept } else { &mut deleted }) += 1;
        if dying.is_ok() {
            assert!(!is_there);
            break;
        }
    }
    assert!(kept > 1 && deleted > 1, "{kept} {deleted}");
}

/// Returns the ApplicationSet from the first event that is certain of its existence.
async fn first_certain_appset(sets: &FolderAppSetStore) -> ApplicationSet {
    let mut events = sets.watch();
    let is_doubted =
        |stored: &StoredAppSet| stored.problem.as_ref().is_some_and(|reason| reason.contains("read again"));
    loop {
        match events.recv().await.unwrap() {
            AppSetEvent::Applied(stored) if !is_doubted(&stored) => return stored.appset,
            _ => {}
        }
    }
}
