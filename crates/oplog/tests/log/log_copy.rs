//! Copies of a log from a directory to a database and back: equality, interruptions, and refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_model::StreamId;
use tidegate_oplog::{
    ApplicationInventory, CopyCounts, CopyEnd, CopyError, CopyScan, Inventory, InventoryChange,
    InventoryUpdate, LogAccess, LogError, LogKey, OpenOptions, PostgresLog, PostgresOptions, SledLog,
};

use crate::files::copy_folder;
use crate::golden::{self, golden_folder, open_golden};
use crate::kinds::all_codecs;
use crate::kit::prelude::*;
use crate::kit::{
    self, Append, Disk, Event, ReopenableLog, State, append_to_shop, finished_summary, open_options,
    operation, operation_summary, waves_passed,
};
use crate::postgres::{lead, options};
use crate::postgres_server::PostgresServer;

/// Log in a directory that moves to a database and to a new directory whenever it is reopened.
pub struct MovingDisk {
    folder: TempDir,
    moves: usize,
    log: Option<SledLog>,
}

/// Log in a database that moves to a directory and to a new database whenever it is reopened.
pub struct MovingDatabase {
    url: String,
    log: Option<PostgresLog>,
}

impl MovingDisk {
    fn path(&self) -> PathBuf {
        self.folder.path().join(self.moves.to_string())
    }
}

impl ReopenableLog for MovingDisk {
    type Log = SledLog;

    fn create() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), moves: 0, log: None }
    }

    fn open(&mut self) -> &SledLog {
        let path = self.path();
        self.log.get_or_insert_with(|| SledLog::open(path, open_options()).unwrap())
    }

    fn reopen(&mut self) -> &SledLog {
        self.open();
        self.log = None;
        let (from, url) = (self.path(), PostgresServer::shared().unwrap().new_log_url());
        self.moves += 1;
        to_database(&from, &url).unwrap();
        to_directory(&url, &self.path()).unwrap();
        self.open()
    }
}

impl ReopenableLog for MovingDatabase {
    type Log = PostgresLog;

    fn create() -> Self {
        Self { url: PostgresServer::shared().unwrap().new_log_url(), log: None }
    }

    fn open(&mut self) -> &PostgresLog {
        let url = self.url.clone();
        self.log.get_or_insert_with(|| lead(PostgresLog::join(options(&url, "first")).unwrap()))
    }

    fn reopen(&mut self) -> &PostgresLog {
        self.open();
        self.log = None;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        to_directory(&self.url, &path).unwrap();
        self.url = PostgresServer::shared().unwrap().new_log_url();
        to_database(&path, &self.url).unwrap();
        self.open()
    }
}

fn all_options(url: &str) -> PostgresOptions {
    PostgresOptions { codecs: all_codecs(), ..options(url, "copy") }
}

fn directory_options() -> OpenOptions {
    OpenOptions { codecs: all_codecs(), ..open_options() }
}

fn open_source(path: &Path, url: &str) -> Result<CopyEnd, CopyError> {
    let access = LogAccess::CopySource(options(url, "").target.to_string());
    Ok(CopyEnd::directory(Arc::new(SledLog::open_with_access(path, directory_options(), &access)?)))
}

fn open_database_target(url: &str) -> Result<CopyEnd, CopyError> {
    let log = PostgresLog::join_for_copy(all_options(url))?;
    log.claim_alone(|_| {})?;
    Ok(CopyEnd::database(Arc::new(log)))
}

fn open_directory_target(path: &Path) -> Result<CopyEnd, CopyError> {
    let log = SledLog::open_with_access(path, directory_options(), &LogAccess::CopyTarget)?;
    Ok(CopyEnd::directory(Arc::new(log)))
}

fn to_database_with(path: &Path, url: &str, skip_damaged: bool) -> Result<(CopyCounts, usize), CopyError> {
    let source = open_source(path, url)?;
    let scan = CopyScan::read(&source, skip_damaged)?;
    let target = open_database_target(url)?;
    let existing = scan.run(&source, &target)?;
    scan.finish(&source, &target)?;
    Ok((scan.counts(), existing))
}

/// Copies a log from a directory to a database. Returns the amount of content, and the number of streams that the
/// database already contained.
fn to_database(path: &Path, url: &str) -> Result<(CopyCounts, usize), CopyError> {
    to_database_with(path, url, false)
}

fn to_directory(url: &str, path: &Path) -> Result<(CopyCounts, usize), CopyError> {
    let log = PostgresLog::join(all_options(url))?;
    log.claim_alone(|_| {})?;
    let source = CopyEnd::database(Arc::new(log));
    let scan = CopyScan::read(&source, false)?;
    let target = open_directory_target(path)?;
    let existing = scan.run(&source, &target)?;
    scan.finish(&source, &target)?;
    Ok((scan.counts(), existing))
}

/// Returns the rows with framed events and snapshots, as they are in the database.
fn record_rows(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = kit::open_database(path);
    let rows = [b"f", b"n"].into_iter().flat_map(|family| db.scan_prefix(family));
    rows.map(|row| row.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

/// Returns a state directory with a copy of the golden log.
fn golden_disk() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    copy_folder(&golden_folder("layout-1"), &path);
    (folder, path)
}

/// Returns a state directory with this number of finished operations, and an open one.
fn disk_with(finished: u128) -> Disk {
    let mut disk = Disk::create();
    let log = disk.open();
    for number in 1..=finished {
        let summary = finished_summary(number, "shop");
        log.append_all(vec![Append { summary, ..append_to_shop(number, 1, waves_passed(1..=3)) }]).unwrap();
    }
    log.append_all(vec![append_to_shop(finished + 1, 1, waves_passed(1..=2))]).unwrap();
    disk.close();
    disk
}

fn add_trigger(server: &PostgresServer, url: &str, table: &str, condition: &str) {
    server.psql(
        url,
        &format!(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {condition} THEN RAISE \
             EXCEPTION 'interrupted'; END IF; RETURN NEW; END $$; CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON \
             {table} FOR EACH ROW EXECUTE FUNCTION fail()"
        ),
    );
}

/// The golden log contains finished, open, reduced and cut streams, another kind, a taken-over stream, large events,
/// blobs, and small and large inventories.
#[test]
fn a_golden_log_is_the_same_in_a_database_and_back() {
    let Some(server) = PostgresServer::shared() else { return };
    let ((_folder, path), url) = (golden_disk(), server.new_log_url());
    let (counts, existing) = to_database(&path, &url).unwrap();
    assert_eq!((counts.streams, counts.open, counts.inventories, existing), (5, 3, 2, 0));
    let log = lead(PostgresLog::join(all_options(&url)).unwrap());
    golden::read_all(&log);
    drop(log);
    let back = tempfile::tempdir().unwrap();
    let back = back.path().join("state");
    assert_eq!(to_directory(&url, &back).unwrap().0, counts);
    let log = open_golden(&back);
    golden::read_all(&log);
    drop(log);
    assert_eq!(record_rows(&back), record_rows(&path), "records must be copied byte by byte");
    // The copy can be continued.
    let log = open_golden(&back);
    log.append_all(vec![append_to_shop(3, 4, waves_passed(4..=4))]).unwrap();
    assert_eq!(log.all_events(operation(3)).unwrap(), waves_passed(1..=4));
}

#[test]
fn large_records_and_blobs_are_copied_both_ways() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let noise = |seed: u64, length: usize| -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(length).collect()
    };
    let text =
        |seed| noise(seed, 3 << 20).iter().map(|byte| char::from(b'a' + byte % 26)).collect::<String>();
    let event = |seed| Event::Began { name: text(seed), at: kit::NOW };
    let state = |seed| State { waves: vec![1], padding: text(seed) };
    let contents = [noise(1, 5 << 20), noise(2, 9 << 20)];
    let mut disk = Disk::create();
    let log = disk.open();
    let blobs = contents.each_ref().map(|content| log.put_blob(content).unwrap());
    let first = Append {
        blobs: blobs.to_vec(),
        snapshot: Some(state(3)),
        ..append_to_shop(1, 1, vec![event(4), Event::Passed { wave: 1 }])
    };
    log.append_all(vec![first]).unwrap();
    disk.close();
    to_database(&disk.path(), &url).unwrap();
    // The database stores the next large records in its rows rather than in blobs.
    let log = lead(PostgresLog::join(all_options(&url)).unwrap());
    let second = Append { snapshot: Some(state(6)), ..append_to_shop(1, 3, vec![event(5)]) };
    log.append_all(vec![second]).unwrap();
    let expected = (log.load_as::<Event>(operation(1)).unwrap(), log.all_events(operation(1)).unwrap());
    assert_eq!(expected.1, [event(4), Event::Passed { wave: 1 }, event(5)]);
    assert_eq!(expected.0.snapshot, Some((3, state(6))));
    drop(log);
    let back = tempfile::tempdir().unwrap();
    let back = back.path().join("state");
    to_directory(&url, &back).unwrap();
    for _ in 0..2 {
        let log = open_golden(&back);
        assert_eq!(log.damage(), []);
        assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), expected.0);
        assert_eq!(log.all_events(operation(1)).unwrap(), expected.1);
        for (blob, content) in blobs.iter().zip(&contents) {
            assert!(log.blob(*blob).unwrap() == *content);
        }
    }
}

/// A compaction of the copy must not remove the blobs of large records and snapshots.
#[test]
fn blobs_of_copied_records_survive_a_compaction() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let large = Event::Began { name: "large".repeat(20_000), at: kit::NOW };
    let state = State { waves: vec![1], padding: "padding".repeat(20_000) };
    let mut disk = Disk::create();
    let log = disk.open();
    log.append_all(vec![Append {
        snapshot: Some(state.clone()),
        ..append_to_shop(1, 1, vec![large.clone()])
    }])
    .unwrap();
    disk.close();
    to_database(&disk.path(), &url).unwrap();
    let log = lead(PostgresLog::join(all_options(&url)).unwrap());
    log.compact_to_history(0).unwrap();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap().snapshot, Some((1, state)));
    assert_eq!(log.all_events(operation(1)).unwrap(), [large]);
}

#[test]
fn an_interrupted_copy_to_a_database_is_refused_and_completed_by_another() {
    let Some(server) = PostgresServer::shared() else { return };
    for (table, condition) in [
        ("blob", "true".to_owned()),
        ("stream", format!("NEW.id = '{}'", operation(1).0)),
        ("stream", format!("NEW.id = '{}'", operation(290).0)),
        ("reference", "true".to_owned()),
        ("inventory", "true".to_owned()),
        // The source is marked as moved by then.
        ("meta", "NEW.incomplete_copy IS NULL".to_owned()),
    ] {
        let mut disk = disk_with(300);
        let log = disk.open();
        let blob = log.put_blob(b"manifests").unwrap();
        let places = Inventory::new();
        let (application, cluster) = ("shop".to_owned(), "here".to_owned());
        let inventory =
            InventoryUpdate { application, cluster, changes: vec![InventoryChange::Begin(places)] };
        log.append_all(vec![Append {
            blobs: vec![blob],
            inventory: Some(inventory),
            summary: finished_summary(400, "bank"),
            ..append_to_shop(400, 1, waves_passed(1..=1))
        }])
        .unwrap();
        disk.close();
        let url = server.new_log_url();
        // The tables exist before the copy, so that the trigger can be created.
        drop(PostgresLog::join(all_options(&url)).unwrap());
        add_trigger(server, &url, table, &condition);
        let error = to_database(&disk.path(), &url).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{table}: {error}");
        let error = PostgresLog::join(all_options(&url)).unwrap_err();
        let source = disk.path().display().to_string();
        assert!(
            matches!(&error, LogError::IncompleteCopy { source_log, .. } if *source_log == source),
            "{error}"
        );
        let is_moved = disk.path().join("log/layout-2-moved-to-postgres").exists();
        assert_eq!(is_moved, table == "meta", "only a verified log may be marked as moved");
        server.psql(&url, &format!("DROP TRIGGER fail ON {table}"));
        let (counts, existing) = to_database(&disk.path(), &url).unwrap();
        assert_eq!((counts.streams, counts.blobs, counts.inventories), (302, 1, 1));
        let expected = match (table, condition.contains(&operation(290).0.to_string())) {
            ("inventory" | "meta", _) => 302,
            // Groups of 128 streams.
            ("reference", _) | (_, true) => 256,
            _ => 0,
        };
        assert_eq!(existing, expected, "{table} {condition}");
        let log = lead(PostgresLog::join(all_options(&url)).unwrap());
        assert_eq!(log.listing().len(), 302);
        assert_eq!(log.blob(blob).unwrap(), b"manifests");
        let known = ApplicationInventory { places: Inventory::new(), searched: true };
        assert_eq!(log.inventory("here", "shop").unwrap(), Some(known));
    }
}

#[test]
fn an_interrupted_copy_to_a_directory_is_refused_and_completed_by_another() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(300), server.new_log_url());
    to_database(&disk.path(), &url).unwrap();
    let back = tempfile::tempdir().unwrap();
    let back = back.path().join("state");
    {
        let log = PostgresLog::join(all_options(&url)).unwrap();
        log.claim_alone(|_| {}).unwrap();
        let source = CopyEnd::database(Arc::new(log));
        let scan = CopyScan::read(&source, false).unwrap();
        // The source fails in the middle of the copy.
        let stream = operation(200).0;
        server.psql(
            &url,
            &format!(
                "CREATE TABLE saved AS SELECT * FROM batch WHERE stream = '{stream}'; UPDATE batch SET frames = '\\x00' \
                 WHERE stream = '{stream}'"
            ),
        );
        let target = open_directory_target(&back).unwrap();
        assert!(matches!(scan.run(&source, &target), Err(CopyError::Log(LogError::DamagedRows { .. }))));
    }
    let refusals = [
        SledLog::open(&back, directory_options()).unwrap_err(),
        SledLog::open_read_only(&back, None, all_codecs()).unwrap_err(),
    ];
    for error in refusals {
        assert!(matches!(error, LogError::IncompleteCopy { .. }), "{error}");
    }
    server.psql(&url, "UPDATE batch SET frames = saved.frames FROM saved WHERE batch.stream = saved.stream");
    let (counts, existing) = to_directory(&url, &back).unwrap();
    assert_eq!((counts.streams, existing), (301, 128));
    let log = open_golden(&back);
    assert_eq!((log.damage(), log.listing().len()), (vec![], 301));
    drop(log);
    assert_eq!(record_rows(&back), record_rows(&disk.path()));
}

#[test]
fn a_moved_log_is_refused_until_its_mark_is_removed() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(2), server.new_log_url());
    to_database(&disk.path(), &url).unwrap();
    let to = options(&url, "").target.to_string();
    let refusals = [
        SledLog::open(disk.path(), open_options()).unwrap_err(),
        SledLog::open_read_only(disk.path(), None, all_codecs()).unwrap_err(),
        // Another target.
        match open_source(&disk.path(), &server.new_log_url()).unwrap_err() {
            CopyError::Log(error) => error,
            error => panic!("{error}"),
        },
    ];
    for error in refusals {
        assert!(matches!(&error, LogError::LogMoved { to: named, .. } if *named == to), "{error}");
        assert!(error.to_string().contains("log/layout-2-moved-to-postgres"), "{error}");
    }
    // Earlier programs reject all folders in `log`, except for this one.
    let names = fs::read_dir(disk.path().join("log")).unwrap().map(|entry| entry.unwrap());
    let folders: Vec<_> =
        names.filter(|entry| entry.path().is_dir() && entry.file_name() != "blobs").collect();
    assert_eq!(folders.len(), 1);
    // The same copy can be repeated.
    assert_eq!(to_database(&disk.path(), &url).unwrap().1, 3);
    fs::remove_dir_all(disk.path().join("log/layout-2-moved-to-postgres")).unwrap();
    assert_eq!(SledLog::open(disk.path(), open_options()).unwrap().listing().len(), 3);
}

#[test]
fn a_target_with_other_content_is_left_unchanged() {
    let Some(server) = PostgresServer::shared() else { return };
    let content = |url: &str| {
        server.psql(
            url,
            "SELECT md5(string_agg(s::text || encode(b.frames, 'hex'), '' ORDER BY s.id, b.first)) \
             FROM stream s JOIN batch b ON b.stream = s.id",
        )
    };
    let summary = || finished_summary(1, "shop");
    for (append, is_same_stream) in [
        // The stream is longer, shorter, different, or unknown in the source.
        (Append { summary: summary(), ..append_to_shop(1, 1, waves_passed(1..=4)) }, true),
        (Append { summary: summary(), ..append_to_shop(1, 1, waves_passed(1..=2)) }, true),
        (Append { summary: summary(), ..append_to_shop(1, 1, waves_passed(2..=4)) }, true),
        (Append { summary: finished_summary(1, "bank"), ..append_to_shop(1, 1, waves_passed(1..=3)) }, true),
        (append_to_shop(77, 1, waves_passed(1..=3)), false),
    ] {
        let (disk, url) = (disk_with(2), server.new_log_url());
        let stream = append.stream;
        lead(PostgresLog::join(all_options(&url)).unwrap()).append_all(vec![append]).unwrap();
        let before = content(&url);
        let error = to_database(&disk.path(), &url).unwrap_err();
        let is_named = match &error {
            CopyError::Different { stream: named, .. } => is_same_stream && named.id == stream,
            CopyError::Unrelated { stream: named, .. } => !is_same_stream && named.id == stream,
            _ => false,
        };
        assert!(is_named && error.to_string().contains(&stream.to_string()), "{error}");
        assert_eq!(content(&url), before);
        assert_eq!(SledLog::open(disk.path(), open_options()).unwrap().listing().len(), 3);
        // The target can still be used.
        drop(PostgresLog::join(all_options(&url)).unwrap());
    }
}

#[test]
fn two_open_operations_of_an_application_are_refused_before_anything_is_written() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let mut disk = Disk::create();
    let log = disk.open();
    log.append_all(vec![
        append_to_shop(1, 1, waves_passed(1..=1)),
        append_to_shop(2, 1, waves_passed(1..=1)),
        Append { summary: operation_summary(3, "bank"), ..append_to_shop(3, 1, waves_passed(1..=1)) },
    ])
    .unwrap();
    disk.close();
    let error = to_database(&disk.path(), &url).unwrap_err();
    let (first, second) = (operation(1), operation(2));
    assert!(
        matches!(&error, CopyError::TwoOpenOperations { application, first: a, second: b }
            if application == "shop" && (*a, *b) == (first, second)),
        "{error}"
    );
    assert!(error.to_string().contains(&format!("`tidegate ops terminate {first}`")), "{error}");
    assert!(
        PostgresLog::open_read_only(all_options(&url), true).unwrap().is_none(),
        "nothing may be created"
    );
}

#[test]
fn damaged_streams_are_named_and_only_skipped_on_request() {
    let Some(server) = PostgresServer::shared() else { return };
    let mut disk = disk_with(4);
    let log = disk.open();
    let blob = log.put_blob(b"lost").unwrap();
    log.append_all(vec![Append {
        blobs: vec![blob],
        summary: finished_summary(9, "bank"),
        ..append_to_shop(9, 1, waves_passed(1..=1))
    }])
    .unwrap();
    let name = blob.to_string();
    disk.tamper(|tree| {
        let key = [b"f".as_slice(), operation(2).0.as_bytes(), &2_u64.to_be_bytes()].concat();
        tree.remove(key).unwrap();
    });
    fs::remove_file(disk.path().join("blobs").join(&name[..2]).join(&name[2..])).unwrap();
    let url = server.new_log_url();
    let error = to_database(&disk.path(), &url).unwrap_err();
    let CopyError::Damaged { streams } = &error else { panic!("{error}") };
    let named: Vec<StreamId> = streams.iter().map(|damaged| damaged.stream).collect();
    assert_eq!(named, [operation(2), operation(9)]);
    assert!(error.to_string().contains("--skip-damaged"), "{error}");
    assert!(error.to_string().contains(&operation(9).to_string()), "{error}");
    assert!(
        PostgresLog::open_read_only(all_options(&url), true).unwrap().is_none(),
        "nothing may be created"
    );
    let (counts, _) = to_database_with(&disk.path(), &url, true).unwrap();
    assert_eq!(counts.streams, 4);
    let log = lead(PostgresLog::join(all_options(&url)).unwrap());
    let listed: Vec<StreamId> = log.listing().into_iter().map(|(stream, _)| stream).collect();
    assert_eq!(listed, [1, 3, 4, 5].map(operation));
}

#[test]
fn damaged_streams_in_a_database_are_named() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(3), server.new_log_url());
    to_database(&disk.path(), &url).unwrap();
    let stream = operation(2).0;
    server.psql(
        &url,
        &format!("UPDATE batch SET frames = set_byte(frames, 50, 255) WHERE stream = '{stream}'"),
    );
    let back = tempfile::tempdir().unwrap();
    let error = to_directory(&url, &back.path().join("state")).unwrap_err();
    let CopyError::Damaged { streams } = &error else { panic!("{error}") };
    assert_eq!(streams.iter().map(|damaged| damaged.stream).collect::<Vec<_>>(), [operation(2)]);
    assert!(!back.path().join("state").exists());
}

#[test]
fn another_key_is_refused() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(1), server.new_log_url());
    let key = LogKey::new(&[8; 32]);
    drop(PostgresLog::join(PostgresOptions { key: key.clone(), ..all_options(&url) }).unwrap());
    let error = to_database(&disk.path(), &url).unwrap_err();
    assert!(matches!(error, CopyError::Log(LogError::DatabaseKey { .. })), "{error}");
    // The other way round.
    let other = tempfile::tempdir().unwrap();
    drop(SledLog::open(other.path(), OpenOptions { key: Some(key), ..directory_options() }).unwrap());
    let error = open_directory_target(other.path()).unwrap_err();
    assert!(matches!(error, CopyError::Log(LogError::WrongKey { .. })), "{error}");
}

#[test]
fn a_directory_in_use_is_refused_and_its_holder_named() {
    let Some(server) = PostgresServer::shared() else { return };
    let mut disk = disk_with(1);
    disk.open();
    let error = to_database(&disk.path(), &server.new_log_url()).unwrap_err();
    assert!(matches!(error, CopyError::Log(LogError::Locked { .. })), "{error}");
    assert!(error.to_string().contains("pid 41 (tidegate sync shop)"), "{error}");
}

#[test]
fn a_database_in_use_is_refused_and_its_replica_named() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(1), server.new_log_url());
    let leader = lead(PostgresLog::join(options(&url, "leader")).unwrap());
    let standby = PostgresLog::join(options(&url, "standby")).unwrap();
    for expected in ["leader", "standby"] {
        let error = to_database(&disk.path(), &url).unwrap_err();
        let named = match &error {
            CopyError::Log(LogError::ReplicaJoined { replica, .. }) => replica.clone(),
            error => panic!("{error}"),
        };
        assert!(named == expected || named == "standby", "{error}");
        let folder = tempfile::tempdir().unwrap();
        let error = to_directory(&url, &folder.path().join("state")).unwrap_err();
        assert!(matches!(error, CopyError::Log(LogError::ReplicaJoined { .. })), "{error}");
        if expected == "leader" {
            leader.leave().unwrap();
        }
    }
    standby.leave().unwrap();
    // As left behind by a replica that was killed.
    server.psql(
        &url,
        "INSERT INTO replica (incarnation, name, version, layout) VALUES (gen_random_uuid(), 'killed', '1', 2)",
    );
    to_database(&disk.path(), &url).unwrap();
}

#[test]
fn a_reader_changes_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let (disk, url) = (disk_with(3), server.new_log_url());
    to_database(&disk.path(), &url).unwrap();
    let content = || {
        server.psql(
            &url,
            "SELECT (SELECT count(*) FROM replica), (SELECT sum(epoch) FROM shard), (SELECT m::text FROM meta m), \
             (SELECT count(*) FROM stream)",
        )
    };
    let before = content();
    let log = PostgresLog::open_read_only(all_options(&url), false).unwrap().unwrap();
    assert_eq!(log.listing().len(), 4);
    assert!(log.append_all(vec![append_to_shop(4, 3, waves_passed(3..=3))]).is_err());
    drop(log);
    assert_eq!(content(), before);
}
