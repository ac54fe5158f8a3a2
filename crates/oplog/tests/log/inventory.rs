//! Inventories never lack a place, whatever becomes of operations and files; at worst they are not there.

use std::fs;

use tidegate_model::Gvk;
use tidegate_oplog::{Inventories, Inventory, InventoryChange, InventoryUpdate, Known};

use crate::kit::prelude::*;
use crate::kit::{self, Append, Disk, Kept, Memory, append, finished, operation, passed, summary};

const CLUSTER: &str = "in-cluster";

fn places(numbers: std::ops::Range<u32>) -> Inventory {
    let place = |number| (Gvk::new("", "v1", "ConfigMap"), "shop".to_owned(), format!("config-{number}"));
    numbers.map(place).collect()
}

fn of(log: &impl Inventories, application: &str) -> Option<Known> {
    log.inventory(CLUSTER, application).unwrap()
}

/// What is known after the whole cluster was searched, or without a search.
fn known(numbers: std::ops::Range<u32>, searched: bool) -> Option<Known> {
    Some(Known { places: places(numbers), searched })
}

fn change(number: u128, first: u64, change: InventoryChange) -> Append {
    update_of("shop", number, first, change)
}

fn update_of(application: &str, number: u128, first: u64, change: InventoryChange) -> Append {
    let update = update(application, change);
    Append { inventory: Some(update), ..append(number, first, passed(1..=1)) }
}

fn update(application: &str, change: InventoryChange) -> InventoryUpdate {
    let (application, cluster) = (application.to_owned(), CLUSTER.to_owned());
    InventoryUpdate { application, cluster, changes: vec![change] }
}

fn grows_and_shrinks(mut kept: impl Kept) {
    let log = kept.open();
    assert_eq!(of(log, "shop"), None);
    log.append_all(vec![change(1, 1, InventoryChange::Extend(places(0..1)))]).unwrap();
    assert_eq!(of(log, "shop"), known(0..1, false), "nobody has searched");
    log.append_all(vec![change(1, 2, InventoryChange::Begin(places(1..3)))]).unwrap();
    // Several in one group, and of two applications.
    let begin = InventoryChange::Begin(places(7..9));
    let other = Append { summary: summary(2, "bank"), ..update_of("bank", 2, 1, begin) };
    let group = vec![
        change(1, 3, InventoryChange::Extend(places(3..5))),
        other,
        change(1, 4, InventoryChange::Forget(places(0..1))),
    ];
    log.append_all(group).unwrap();
    let log = kept.reopen();
    assert_eq!(of(log, "shop"), known(1..5, true));
    assert_eq!(of(log, "bank"), known(7..9, true));
    assert_eq!(log.inventory("elsewhere", "shop").unwrap(), None);
    // As large as it may be, it is a blob.
    log.append_all(vec![change(1, 5, InventoryChange::Extend(places(5..5_000)))]).unwrap();
    assert_eq!(of(kept.reopen(), "shop"), known(1..5_000, true));
}

fn outlives_its_operations(mut kept: impl Kept) {
    let log = kept.open();
    let large = change(1, 1, InventoryChange::Begin(places(0..2_000)));
    log.append_all(vec![Append { summary: finished(1, "shop"), ..large }]).unwrap();
    log.tidy(0).unwrap();
    let log = kept.reopen();
    log.tidy(0).unwrap();
    assert_eq!(of(log, "shop"), known(0..2_000, true));
}

#[test]
fn on_disk_it_grows_and_shrinks() {
    grows_and_shrinks(Disk::fresh());
}

#[test]
fn in_memory_it_grows_and_shrinks() {
    grows_and_shrinks(Memory::fresh());
}

#[test]
fn on_disk_it_outlives_its_operations() {
    outlives_its_operations(Disk::fresh());
}

#[test]
fn in_memory_it_outlives_its_operations() {
    outlives_its_operations(Memory::fresh());
}

#[test]
fn a_refused_group_changes_nothing() {
    let mut disk = Disk::fresh();
    let log = disk.open();
    assert!(log.append_all(vec![change(1, 9, InventoryChange::Begin(places(0..1)))]).is_err());
    assert_eq!(of(log, "shop"), None);
}

#[test]
fn a_damaged_one_is_dropped_and_reported_and_the_operations_go_on() {
    for byte in [0, 5, 9, 30, 40, 60] {
        let mut disk = Disk::fresh();
        disk.open().append_all(vec![change(1, 1, InventoryChange::Begin(places(0..3)))]).unwrap();
        disk.tamper(|db| {
            let (key, value) = db.scan_prefix(b"v").next().unwrap().unwrap();
            let mut value = value.to_vec();
            value[byte] ^= 4;
            db.insert(key, value).unwrap();
        });
        let log = disk.open();
        let reasons: Vec<String> = log.damage().into_iter().map(|damage| damage.reason).collect();
        assert!(reasons.iter().any(|reason| reason.contains("inventory")), "byte {byte}: {reasons:?}");
        assert_eq!(of(log, "shop"), None, "byte {byte}");
        assert_eq!(log.all(operation(1)).unwrap(), passed(1..=1), "byte {byte}");
        log.append_all(vec![change(1, 2, InventoryChange::Begin(places(1..2)))]).unwrap();
        assert_eq!(of(disk.reopen(), "shop"), known(1..2, true), "byte {byte}");
    }
}

#[test]
fn one_whose_blob_is_gone_is_unknown() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![change(1, 1, InventoryChange::Begin(places(0..2_000)))]).unwrap();
    fs::remove_dir_all(disk.path().join("blobs")).unwrap();
    assert_eq!(of(disk.open(), "shop"), None, "while it is open");
    assert_eq!(of(disk.reopen(), "shop"), None, "and when it is opened");
}

/// A salvage finds rows by their bytes, and may find older ones.
#[test]
fn a_salvaged_database_has_none() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![change(1, 1, InventoryChange::Begin(places(0..1)))]).unwrap();
    disk.open().append_all(vec![change(1, 2, InventoryChange::Extend(places(1..2)))]).unwrap();
    disk.close();
    drop(kit::raw(&disk.path()));
    let mut bytes = fs::read(disk.db_file()).unwrap();
    bytes[0] ^= 1;
    fs::write(disk.db_file(), bytes).unwrap();
    let log = disk.open();
    assert_eq!(log.all(operation(1)).unwrap().len(), 2);
    assert_eq!(of(log, "shop"), None);
}

/// It may name what belongs to somebody else, as earlier programs took in all that a search had found.
#[test]
fn one_of_an_earlier_program_is_as_good_as_none() {
    let mut disk = Disk::fresh();
    disk.open().append_all(vec![change(1, 1, InventoryChange::Begin(places(0..3)))]).unwrap();
    disk.tamper(|db| {
        let (key, value) = db.scan_prefix(b"v").next().unwrap().unwrap();
        db.insert(key, kit::of_kind(1, &value)).unwrap();
    });
    let log = disk.open();
    assert_eq!(log.damage(), []);
    assert_eq!(of(log, "shop"), None);
    log.append_all(vec![change(1, 2, InventoryChange::Extend(places(1..2)))]).unwrap();
    assert_eq!(of(disk.reopen(), "shop"), known(1..2, false));
}
