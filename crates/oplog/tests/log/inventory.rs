//! Completeness of inventories. If operations or files are lost, an inventory may be missing, but is never
//! incomplete.

use std::fs;

use tidegate_model::Gvk;
use tidegate_oplog::{ApplicationInventory, Inventories, Inventory, InventoryChange, InventoryUpdate};

use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Memory, ReopenableLog, append_to_shop, finished_summary, operation,
    operation_summary, waves_passed,
};
use crate::postgres::Postgres;

const CLUSTER: &str = "in-cluster";

fn places(numbers: std::ops::Range<u32>) -> Inventory {
    let place = |number| (Gvk::new("", "v1", "ConfigMap"), "shop".to_owned(), format!("config-{number}"));
    numbers.map(place).collect()
}

fn inventory_of(log: &impl Inventories, application: &str) -> Option<ApplicationInventory> {
    log.inventory(CLUSTER, application).unwrap()
}

/// Returns the expected inventory, with or without a search of the whole cluster.
fn expected_inventory(numbers: std::ops::Range<u32>, searched: bool) -> Option<ApplicationInventory> {
    Some(ApplicationInventory { places: places(numbers), searched })
}

fn append_change(number: u128, first: u64, change: InventoryChange) -> Append {
    append_change_of("shop", number, first, change)
}

fn append_change_of(application: &str, number: u128, first: u64, change: InventoryChange) -> Append {
    let update = inventory_update(application, change);
    Append { inventory: Some(update), ..append_to_shop(number, first, waves_passed(1..=1)) }
}

fn inventory_update(application: &str, change: InventoryChange) -> InventoryUpdate {
    let (application, cluster) = (application.to_owned(), CLUSTER.to_owned());
    InventoryUpdate { application, cluster, changes: vec![change] }
}

fn inventory_grows_and_shrinks(mut kept: impl ReopenableLog) {
    let log = kept.open();
    assert_eq!(inventory_of(log, "shop"), None);
    log.append_all(vec![append_change(1, 1, InventoryChange::Extend(places(0..1)))]).unwrap();
    assert_eq!(inventory_of(log, "shop"), expected_inventory(0..1, false), "the cluster was not searched");
    log.append_all(vec![append_change(1, 2, InventoryChange::Begin(places(1..3)))]).unwrap();
    // One group with several changes to the inventories of two applications.
    let begin = InventoryChange::Begin(places(7..9));
    let other = Append { summary: operation_summary(2, "bank"), ..append_change_of("bank", 2, 1, begin) };
    let group = vec![
        append_change(1, 3, InventoryChange::Extend(places(3..5))),
        other,
        append_change(1, 4, InventoryChange::Forget(places(0..1))),
    ];
    log.append_all(group).unwrap();
    let log = kept.reopen();
    assert_eq!(inventory_of(log, "shop"), expected_inventory(1..5, true));
    assert_eq!(inventory_of(log, "bank"), expected_inventory(7..9, true));
    assert_eq!(log.inventory("elsewhere", "shop").unwrap(), None);
    // A large inventory is stored in a blob.
    log.append_all(vec![append_change(1, 5, InventoryChange::Extend(places(5..5_000)))]).unwrap();
    assert_eq!(inventory_of(kept.reopen(), "shop"), expected_inventory(1..5_000, true));
}

fn inventory_outlives_its_operations(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let large = append_change(1, 1, InventoryChange::Begin(places(0..2_000)));
    log.append_all(vec![Append { summary: finished_summary(1, "shop"), ..large }]).unwrap();
    log.compact_to_history(0).unwrap();
    let log = kept.reopen();
    log.compact_to_history(0).unwrap();
    assert_eq!(inventory_of(log, "shop"), expected_inventory(0..2_000, true));
}

#[test]
fn on_disk_an_inventory_grows_and_shrinks() {
    inventory_grows_and_shrinks(Disk::create());
}

#[test]
fn in_postgres_an_inventory_grows_and_shrinks() {
    if let Some(kept) = Postgres::available() {
        inventory_grows_and_shrinks(kept);
    }
}

#[test]
fn in_memory_an_inventory_grows_and_shrinks() {
    inventory_grows_and_shrinks(Memory::create());
}

#[test]
fn on_disk_an_inventory_outlives_its_operations() {
    inventory_outlives_its_operations(Disk::create());
}

#[test]
fn in_postgres_an_inventory_outlives_its_operations() {
    if let Some(kept) = Postgres::available() {
        inventory_outlives_its_operations(kept);
    }
}

#[test]
fn in_memory_an_inventory_outlives_its_operations() {
    inventory_outlives_its_operations(Memory::create());
}

#[test]
fn a_refused_group_changes_nothing() {
    let mut disk = Disk::create();
    let log = disk.open();
    assert!(log.append_all(vec![append_change(1, 9, InventoryChange::Begin(places(0..1)))]).is_err());
    assert_eq!(inventory_of(log, "shop"), None);
}

#[test]
fn a_damaged_inventory_is_dropped_and_its_operations_continue() {
    for byte in [0, 5, 9, 30, 40, 60] {
        let mut disk = Disk::create();
        disk.open().append_all(vec![append_change(1, 1, InventoryChange::Begin(places(0..3)))]).unwrap();
        disk.tamper(|db| {
            let (key, value) = db.scan_prefix(b"v").next().unwrap().unwrap();
            let mut value = value.to_vec();
            value[byte] ^= 4;
            db.insert(key, value).unwrap();
        });
        let log = disk.open();
        let reasons: Vec<String> = log.damage().into_iter().map(|damage| damage.reason).collect();
        assert!(reasons.iter().any(|reason| reason.contains("inventory")), "byte {byte}: {reasons:?}");
        assert_eq!(inventory_of(log, "shop"), None, "byte {byte}");
        assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=1), "byte {byte}");
        log.append_all(vec![append_change(1, 2, InventoryChange::Begin(places(1..2)))]).unwrap();
        assert_eq!(inventory_of(disk.reopen(), "shop"), expected_inventory(1..2, true), "byte {byte}");
    }
}

#[test]
fn an_inventory_without_its_blob_is_unknown() {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_change(1, 1, InventoryChange::Begin(places(0..2_000)))]).unwrap();
    fs::remove_dir_all(disk.path().join("blobs")).unwrap();
    assert_eq!(inventory_of(disk.open(), "shop"), None, "in the first opened log");
    assert_eq!(inventory_of(disk.reopen(), "shop"), None, "after reopening the log");
}

/// A salvage searches files for rows and may find outdated ones, so it doesn't restore inventories.
#[test]
fn a_salvaged_database_has_no_inventories() {
    let mut disk = Disk::create();
    disk.open().append_all(vec![append_change(1, 1, InventoryChange::Begin(places(0..1)))]).unwrap();
    disk.open().append_all(vec![append_change(1, 2, InventoryChange::Extend(places(1..2)))]).unwrap();
    disk.close();
    drop(kit::open_database(&disk.path()));
    let mut bytes = fs::read(disk.db_file()).unwrap();
    bytes[0] ^= 1;
    fs::write(disk.db_file(), bytes).unwrap();
    let log = disk.open();
    assert_eq!(log.all_events(operation(1)).unwrap().len(), 2);
    assert_eq!(inventory_of(log, "shop"), None);
}
