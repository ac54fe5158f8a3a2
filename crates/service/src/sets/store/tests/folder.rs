//! Sets that are documents of a folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{fs, io};

use serde_json::json;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_model::argo::{API_VERSION, ApplicationSet};

use super::super::{Found, SetEvent, SetStore as _, StoredSet};
use super::bench::{Backing, condition, fleet, spec_of, web};
use crate::applications::store::{AppKey, FolderStore, StoreEvent};
use crate::disk::{Disk, SystemDisk};
use crate::sets::store::FolderSets;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(start_paused = true)]
async fn a_document_that_vanishes_begins_a_deletion_that_is_not_taken_back() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    backing.write(fleet()).await;
    let mut open = backing.open().await;
    let mut set = open.set().await.set;
    set.status.conditions.push(condition("known"));
    open.sets.keep(&set).await.unwrap();
    fs::remove_file(backing.file("fleet.yaml")).unwrap();
    let leaving = open.set().await.set;
    assert!(leaving.metadata.deletion_timestamp.is_some());
    assert_eq!((spec_of(&leaving), &leaving.status), (spec_of(&set), &set.status));
    backing.write(fleet()).await;
    let StoredSet { set: back, problem, .. } = open.set().await;
    assert_eq!(back.metadata.deletion_timestamp, leaving.metadata.deletion_timestamp);
    assert!(problem.unwrap().contains("counts again when its deletion is done"));
    open.sets.forget(&AppKey::of_set(&set)).await.unwrap();
    assert!(matches!(open.events.recv().await.unwrap(), SetEvent::Gone(_)));
    let another = open.set().await.set;
    assert_ne!(another.metadata.uid, set.metadata.uid);
    // What is not being deleted is not forgotten.
    open.sets.forget(&AppKey::of_set(&set)).await.unwrap();
    assert_eq!(backing.open().await.set().await.set.metadata.uid, another.metadata.uid);
    // Nobody looked when it went.
    fs::remove_file(backing.file("fleet.yaml")).unwrap();
    open = backing.open().await;
    let doubted = open.set().await;
    assert!(doubted.problem.unwrap().contains("there is no manifest in it"));
    assert_eq!(doubted.set.metadata.deletion_timestamp, None);
    backing.write_file("other.yaml", "");
    let doubted = open.set().await;
    assert!(doubted.problem.unwrap().contains("it is looked for once more"));
    assert_eq!(doubted.set.metadata.deletion_timestamp, None);
    let gone = open.set().await.set;
    assert!(gone.metadata.deletion_timestamp.is_some());
    assert_eq!(gone.metadata.uid, another.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_never_a_deletion() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    backing.write(fleet()).await;
    let mut open = backing.open().await;
    let uid = open.set().await.set.metadata.uid;
    // Whatever was in the file, this says nothing of it.
    for content in ["kind: [", "", "\t"] {
        backing.write_file("fleet.yaml", content);
        let StoredSet { set, problem, .. } = open.set().await;
        assert!(set.metadata.deletion_timestamp.is_none(), "{content:?}");
        assert!(problem.unwrap().contains("left alone"), "{content:?}");
        backing.write(fleet()).await;
        assert_eq!(open.set().await.problem, None, "{content:?}");
    }
    // It may have moved into a file that cannot be read.
    let mut open = backing.open().await;
    open.set().await;
    backing.write_file("other.yaml", "kind: [");
    assert!(open.problems().await[0].contains("other.yaml"));
    fs::remove_file(backing.file("fleet.yaml")).unwrap();
    let StoredSet { set, problem, .. } = open.set().await;
    assert!(set.metadata.deletion_timestamp.is_none() && set.metadata.uid == uid);
    assert!(problem.unwrap().contains("it is in no file that can be read"));
    // Also for whoever has never looked before.
    let mut again = backing.open().await;
    assert!(again.set().await.set.metadata.deletion_timestamp.is_none());
    // The folder is away for a moment.
    let folder = backing.file("fleet.yaml").parent().unwrap().to_owned();
    let away = folder.with_extension("away");
    fs::rename(&folder, &away).unwrap();
    loop {
        match again.events.recv().await.unwrap() {
            SetEvent::Problems(problems) if problems.join("\n").contains("what was in it before counts") => {
                break;
            }
            SetEvent::Applied(stored) => assert!(stored.set.metadata.deletion_timestamp.is_none()),
            SetEvent::Gone(key) => panic!("{key} is gone"),
            SetEvent::Problems(_) | SetEvent::Settled => {}
        }
    }
    fs::rename(&away, &folder).unwrap();
    backing.write_file("other.yaml", &fleet().to_string());
    loop {
        let StoredSet { set, problem, .. } = again.set().await;
        assert!(set.metadata.deletion_timestamp.is_none() && set.metadata.uid == uid);
        if problem.is_none() {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_known_of_a_set_and_is_damaged_is_put_aside_and_told() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    backing.write(fleet()).await;
    let uid = backing.open().await.set().await.set.metadata.uid;
    let Backing::Folder(folder) = &backing else { return };
    let kept = folder.path().join("state/applicationsets/argocd_fleet.json");
    fs::write(&kept, "{").unwrap();
    let StoredSet { set, lost, .. } = backing.open().await.set().await;
    assert_ne!(set.metadata.uid, uid);
    assert!(lost.unwrap().contains("damaged-1"));
    assert_eq!(fs::read_to_string(kept.with_extension("damaged-1")).unwrap(), "{");
}

#[tokio::test(start_paused = true)]
async fn what_is_generated_is_seen_at_once_and_closed_to_others() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    while open.told.recv().await.unwrap() != StoreEvent::Settled {}
    let began = tokio::time::Instant::now();
    for number in 0..20 {
        open.sets.create(&web(&format!("dev-{number}"))).await.unwrap();
        let mut made = open.application().await;
        made.spec.project = format!("shop-{number}");
        open.sets.update(&made).await.unwrap();
        assert_eq!(open.application().await.spec.project, made.spec.project);
    }
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "nobody waited for the next look: {:?}",
        began.elapsed()
    );
    let Backing::Folder(folder) = &backing else { return };
    let state = folder.path().join("state");
    assert_eq!(mode(&state.join("generated")), 0o700);
    let file = state.join("generated/argocd_dev-0.json");
    assert_eq!(mode(&file), 0o600);
    assert!(fs::read_to_string(file).unwrap().contains("me:pass"), "what opens the repository");
    backing.write(fleet()).await;
    open.set().await;
    assert_eq!(mode(&state.join("applicationsets/argocd_fleet.json")), 0o600);
}

#[tokio::test(start_paused = true)]
async fn an_application_of_the_folder_counts_more_than_one_that_is_generated() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    let mut wanted = web("dev");
    wanted.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned()];
    open.sets.create(&wanted).await.unwrap();
    let made = open.application().await;
    let mut authored = web("dev");
    authored.spec.project = "of-its-author".into();
    authored.metadata.rest.clear();
    backing.write_file("dev.yaml", &serde_json::to_string(&authored).unwrap());
    let stored = loop {
        match open.told.recv().await.unwrap() {
            StoreEvent::Applied(stored) => break stored,
            StoreEvent::Gone(key) => panic!("{key} is gone"),
            _ => {}
        }
    };
    assert_eq!(stored.application.spec.project, "of-its-author");
    assert!(stored.problem.unwrap().contains("the one in the folder counts"));
    // What its set does to it then touches nothing of the author's.
    let key = AppKey::of(&made);
    open.sets.delete_application(&key, &made.metadata.uid).await.unwrap();
    let now = open.application().await;
    assert!(!now.is_deleting() && now.spec.project == "of-its-author");
    assert_eq!(open.sets.look(&key, &made.metadata.uid).await.unwrap(), Found::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_generated_one_that_cannot_be_read_is_not_gone() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    let mut open = backing.open().await;
    open.sets.create(&web("dev")).await.unwrap();
    let made = open.application().await;
    let Backing::Folder(folder) = &backing else { return };
    let file = folder.path().join("state/generated/argocd_dev.json");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, "{").unwrap();
    let now = open.application().await;
    assert_eq!((&now.metadata.uid, now.is_deleting()), (&made.metadata.uid, false));
    assert!(open.sets.look(&AppKey::of(&made), &made.metadata.uid).await.is_err());
    fs::write(&file, whole).unwrap();
    assert_eq!(open.application().await.metadata.uid, made.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn a_set_is_removed_from_the_folder_only_where_it_is_alone_in_its_file() {
    let backing = Backing::Folder(tempfile::tempdir().unwrap());
    let shop = json!({
        "apiVersion": API_VERSION, "kind": "AppProject", "metadata": {"name": "shop"}, "spec": {},
    });
    backing.write_file("fleet.yaml", &format!("{}\n---\n{shop}\n", fleet()));
    let mut open = backing.open().await;
    let set = open.set().await.set;
    let refused = open.sets.delete(&set, true).await.unwrap_err().to_string();
    assert!(refused.contains("not all that is in") && backing.file("fleet.yaml").exists(), "{refused}");
    assert!(!open.sets.goes_with_file(&set).await);
    backing.write(fleet()).await;
    assert!(open.sets.goes_with_file(&set).await);
    open.sets.delete(&set, true).await.unwrap();
    assert!(!backing.file("fleet.yaml").exists() && !open.sets.goes_with_file(&set).await);
    let leaving = open.set().await.set;
    assert!(leaving.metadata.deletion_timestamp.is_some());
    assert_eq!(leaving.metadata.finalizers, ["orphan"]);
}

/// Files of a process that dies before one of its changes, and changes nothing any more.
#[derive(Debug)]
struct Dying(AtomicUsize);

impl Dying {
    fn survive(&self) -> io::Result<()> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("this process is dead"))
    }
}

impl Disk for Dying {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.make_folder(path)
    }

    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        self.survive()?;
        SystemDisk.write(path, content, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.remove(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.survive()?;
        SystemDisk.sync_folder(path)
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_deleted_or_not_wherever_the_process_dies_meanwhile() {
    let (mut kept, mut deleted) = (0, 0);
    for changes in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let state = |name: &str| folder.path().join("state").join(name);
        let (apps, known) = (folder.path().join("apps"), state("applicationsets"));
        let dying = {
            fs::create_dir_all(&apps).unwrap();
            fs::create_dir_all(folder.path().join("state")).unwrap();
            fs::write(apps.join("fleet.yaml"), fleet().to_string()).unwrap();
            // It is known before anybody deletes it.
            let store = FolderStore::open(&apps, state("applications"), state("generated")).unwrap();
            let sets = FolderSets::beside(&store, known.clone());
            let set = told(&sets).await;
            let disk = Arc::new(Dying(AtomicUsize::new(changes)));
            let store = FolderStore::open_on(disk, &apps, state("applications"), state("generated")).unwrap();
            FolderSets::beside(&store, known.clone()).delete(&set, true).await
        };
        let store = FolderStore::open(&apps, state("applications"), state("generated")).unwrap();
        let after = told(&FolderSets::beside(&store, known)).await;
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

/// The set, as it is told first when it is sure whether it is there.
async fn told(sets: &FolderSets) -> ApplicationSet {
    let mut events = sets.watch();
    let is_doubted =
        |stored: &StoredSet| stored.problem.as_ref().is_some_and(|why| why.contains("once more"));
    loop {
        match events.recv().await.unwrap() {
            SetEvent::Applied(stored) if !is_doubted(&stored) => return stored.set,
            _ => {}
        }
    }
}
