//! The log in PostgreSQL: several replicas, fencing, takeover, and failed connections. The tests of all logs run on
//! it, too.

use std::time::Duration;

use tidegate_oplog::{
    Codecs, DrainRequest, KeptKind, LeadAttempt, LogError, LogKey, Lookup, Loss, PostgresLog,
    PostgresOptions, PostgresTarget, ReplicaState, Retention,
};

use crate::kinds::OpenWithCodecs;
use crate::kit::prelude::*;
use crate::kit::{
    Append, Event, ReopenableLog, append_to_shop, finished_summary, loaded_stream, operation, test_codecs,
    waves_passed,
};
use crate::postgres_server::PostgresServer;

/// A log in the PostgreSQL server of this process.
pub struct Postgres {
    url: String,
    log: Option<PostgresLog>,
}

impl Postgres {
    /// Creates an empty log, or returns `None` if PostgreSQL isn't installed.
    pub fn available() -> Option<Self> {
        Some(Self { url: PostgresServer::shared()?.new_log_url(), log: None })
    }
}

impl ReopenableLog for Postgres {
    type Log = PostgresLog;

    fn create() -> Self {
        Self::available().unwrap()
    }

    fn open(&mut self) -> &PostgresLog {
        let url = self.url.clone();
        self.log.get_or_insert_with(|| lead(join(&url, "first")))
    }

    fn reopen(&mut self) -> &PostgresLog {
        self.log = None;
        self.open()
    }
}

impl OpenWithCodecs for Postgres {
    fn open_with_codecs(&mut self, codecs: Codecs) -> &PostgresLog {
        self.log = None;
        let log = PostgresLog::join(PostgresOptions { codecs, ..options(&self.url, "first") }).unwrap();
        self.log.insert(lead(log))
    }
}

pub fn options(url: &str, replica: &str) -> PostgresOptions {
    PostgresOptions {
        target: PostgresTarget::parse(url, None, |_| Err("no TLS on a socket".to_owned())).unwrap(),
        replica: replica.to_owned(),
        address: Some(format!("http://{replica}:8480")),
        key: LogKey::new(&[7; 32]),
        codecs: test_codecs(),
        observer: None,
        shares: false,
    }
}

pub fn join(url: &str, replica: &str) -> PostgresLog {
    PostgresLog::join(options(url, replica)).unwrap()
}

pub fn lead(log: PostgresLog) -> PostgresLog {
    assert_eq!(log.try_lead().unwrap(), LeadAttempt::Leading);
    log
}

/// Calls `try_lead` once a second until the replica leads, and returns the number of calls.
fn lead_after_watching(log: &PostgresLog) -> usize {
    for attempt in 1..=120 {
        if log.try_lead().unwrap() == LeadAttempt::Leading {
            return attempt;
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
    panic!("the standby did not take over within 120 s");
}

#[test]
fn a_second_replica_reads_and_waits() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (first, second) = (lead(join(&url, "first")), join(&url, "second"));
    first.append_all(vec![append_to_shop(1, 1, waves_passed(1..=2))]).unwrap();
    let LeadAttempt::Held { replica: holder, is_alive } = second.try_lead().unwrap() else {
        panic!("two leaders")
    };
    assert_eq!((holder.name.as_str(), holder.shards, is_alive), ("first", 256, false));
    let is_alive = || {
        std::thread::park_timeout(Duration::from_millis(500));
        matches!(second.try_lead().unwrap(), LeadAttempt::Held { is_alive: true, .. })
    };
    assert!((0..40).any(|_| is_alive()), "the heartbeats of the leader must be seen");
    assert!(matches!(
        second.append_all(vec![append_to_shop(2, 1, waves_passed(1..=1))]),
        Err(LogError::NotOwner)
    ));
    assert_eq!(second.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=2), 2));
    let names: Vec<String> = second.replicas().unwrap().into_iter().map(|replica| replica.name).collect();
    assert_eq!(names, ["first", "second"]);
    // A replica that leaves frees its shards at once.
    drop(first);
    let second = lead(second);
    second.append_all(vec![append_to_shop(1, 3, waves_passed(3..=3))]).unwrap();
    assert_eq!(second.replicas().unwrap().len(), 1);
}

/// The heartbeats of the first replica stop reaching the database, as if its process was suspended.
#[test]
fn a_dead_leader_is_replaced_and_can_never_write_again() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (first, second) = (lead(join(&url, "first")), join(&url, "second"));
    first.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
    // A trigger that discards the heartbeats of one replica, but nothing else.
    let suspended = first.incarnation();
    server.psql(
        &url,
        &format!(
            "CREATE FUNCTION ignore_beat() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.incarnation = \
             '{suspended}' AND NEW.beat > OLD.beat THEN NEW.beat := OLD.beat; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER ignore_beat BEFORE UPDATE ON replica FOR EACH ROW EXECUTE FUNCTION ignore_beat()"
        ),
    );
    let attempts = lead_after_watching(&second);
    assert!(attempts >= 8, "the takeover took only {attempts} s");
    let error = first.append_all(vec![append_to_shop(1, 2, waves_passed(2..=2))]).unwrap_err();
    assert!(matches!(&error, LogError::Evicted { by } if by == "second"), "{error}");
    assert!(first.loss().borrow().is_some());
    second.append_all(vec![append_to_shop(1, 2, waves_passed(9..=9))]).unwrap();
    assert_eq!(second.all_events(operation(1)).unwrap(), [waves_passed(1..=1), waves_passed(9..=9)].concat());
    assert!(matches!(
        first.append_all(vec![append_to_shop(7, 1, waves_passed(1..=1))]),
        Err(LogError::Evicted { .. })
    ));
}

#[test]
fn a_broken_connection_loses_and_doubles_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let log = lead(join(&url, "first"));
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'tidegate %' \
                AND pid <> pg_backend_pid() AND application_name = 'tidegate ";
    let kill = format!("{kill}{}'", log.incarnation());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for sequence in 1..=300_u32 {
                log.append_all(vec![append_to_shop(1, sequence.into(), waves_passed(sequence..=sequence))])
                    .unwrap();
            }
        });
        while !writer.is_finished() {
            server.psql(&url, &kill);
        }
    });
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=300));
    assert_eq!(server.psql(&url, "SELECT count(*), max(last) FROM batch"), "300|300");
    // The epochs rise only after an append whose outcome was unknown.
    assert_eq!(server.psql(&url, "SELECT max(epoch) > 2 FROM shard"), "t", "no append was interrupted");
}

#[test]
fn a_rolled_back_database_is_reported() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let log = lead(join(&url, "first"));
    for sequence in 1..=3 {
        log.append_all(vec![append_to_shop(1, sequence, waves_passed(1..=1))]).unwrap();
    }
    // As after the promotion of a standby that had not received the last two events.
    let head = server
        .psql(&url, "DELETE FROM batch WHERE first > 1; UPDATE stream SET last = 1; SELECT last FROM stream");
    assert_eq!(head, "1");
    // A failover closes all connections.
    let close = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tidegate {}'",
        log.incarnation()
    );
    server.psql(&url, &close);
    // The next heartbeat notices the loss, even if the replica doesn't write anything.
    let mut loss = log.loss();
    let noticed = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let noticed = tokio::time::timeout(Duration::from_secs(600), loss.wait_for(Option::is_some)).await;
        noticed.map(|reason| reason.unwrap().clone())
    });
    assert_eq!(noticed.unwrap(), Some(Loss::Events(operation(1).to_string())));
    let error = log.append_all(vec![append_to_shop(2, 1, waves_passed(1..=1))]).unwrap_err();
    assert!(
        matches!(&error, LogError::LostEnd { streams } if *streams == operation(1).to_string()),
        "{error}"
    );
}

#[test]
fn a_full_disk_is_an_outage_although_heartbeats_succeed() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let log = lead(join(&url, "first"));
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
    // Heartbeats still fit into existing pages.
    server.psql(
        &url,
        "CREATE FUNCTION reject() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$; \
         CREATE TRIGGER reject BEFORE INSERT ON batch EXECUTE FUNCTION reject()",
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut outage = log.outage();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| log.append_all(vec![append_to_shop(1, 2, waves_passed(2..=2))]));
        let reason = runtime.block_on(outage.wait_for(Option::is_some)).unwrap().clone().unwrap();
        assert!(reason.contains("could not extend file"), "{reason}");
        let beats = || server.psql(&url, "SELECT max(beat) FROM replica").parse::<i64>().unwrap();
        let first = beats();
        while beats() < first + 3 {
            assert!(!outage.has_changed().unwrap(), "the outage ended, but the disk is still full");
        }
        server.psql(&url, "DROP TRIGGER reject ON batch");
        writer.join().unwrap().unwrap();
    });
    assert_eq!(*outage.borrow(), None);
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=2));
}

#[test]
fn the_time_of_the_log_is_that_of_the_database() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let log = join(&url, "first");
    let time = || server.psql(&url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint");
    let before = time().parse::<i64>().unwrap();
    let shared = log.time().unwrap().as_millis();
    let after = time().parse::<i64>().unwrap();
    assert!((before..=after).contains(&shared), "{before}, {shared}, {after}");
}

#[test]
fn damaged_rows_are_named_and_affect_only_their_stream() {
    let Some(server) = PostgresServer::shared() else { return };
    for (damage, reason) in [
        (
            "UPDATE batch SET frames = set_byte(frames, 41, 255) WHERE first = 1",
            "event 1: the checksum does not match",
        ),
        ("DELETE FROM batch WHERE first = 1", "event 1 is missing"),
        ("DELETE FROM batch WHERE first = 3", "do not match the recorded end"),
        ("UPDATE stream SET digest = decode(repeat('11', 32), 'hex')", "do not match the recorded end"),
        (
            "UPDATE batch SET frames = b.frames FROM batch b WHERE batch.first = 2 AND b.first = 1",
            "is missing",
        ),
    ] {
        let url = server.new_log_url();
        let log = lead(join(&url, "first"));
        for sequence in 1..=3 {
            log.append_all(vec![append_to_shop(1, sequence, waves_passed(1..=1))]).unwrap();
        }
        server.psql(&url, damage);
        log.append_all(vec![append_to_shop(2, 1, waves_passed(1..=1))]).unwrap();
        let error = log.load_as::<Event>(operation(1)).unwrap_err();
        assert!(
            matches!(error, LogError::DamagedRows { .. }) && error.to_string().contains(reason),
            "{damage}: {error}"
        );
        assert!(log.load_as::<Event>(operation(2)).is_ok());
        assert_eq!(log.listing().len(), 2, "a damaged stream must still be listed");
    }
}

#[test]
fn another_key_and_a_newer_layout_are_refused() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    drop(lead(join(&url, "first")));
    let other = PostgresOptions { key: LogKey::new(&[8; 32]), ..options(&url, "second") };
    assert!(matches!(PostgresLog::join(other), Err(LogError::DatabaseKey { .. })));
    server.psql(&url, "UPDATE meta SET layout = 99");
    assert!(matches!(
        PostgresLog::join(options(&url, "second")),
        Err(LogError::NewerSchema { found: 99, .. })
    ));
    assert_eq!(
        server.psql(&url, "SELECT count(*) FROM replica"),
        "0",
        "a refused replica must leave no trace"
    );
}

#[test]
fn replicas_are_listed_and_asked_to_hand_over() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let target = options(&url, "list").target;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let list = || runtime.block_on(target.list_replicas()).unwrap();
    assert_eq!(list(), None, "nobody has created the log");
    let (first, second) = (lead(join(&url, "first")), join(&url, "second"));
    let states = || {
        let replicas = list().unwrap().into_iter();
        replicas.map(|one| (one.name, one.state, one.shards)).collect::<Vec<_>>()
    };
    let (first_name, second_name) = ("first".to_owned(), "second".to_owned());
    assert_eq!(
        states(),
        [(first_name.clone(), ReplicaState::Leader, 256), (second_name.clone(), ReplicaState::Standby, 0)]
    );
    // A replica of an earlier version, which was killed before the migration.
    server.psql(
        &url,
        "INSERT INTO replica (incarnation, name, version, layout, joined_at) VALUES \
         ('00000000-0000-0000-0000-000000000007', 'old', '0.1.0', 2, now() - interval '9 s')",
    );
    let old = list().unwrap().into_iter().find(|one| one.name == "old").unwrap();
    assert_eq!((old.state, old.can_drain), (ReplicaState::Unresponsive, false));
    let drain = |incarnation| runtime.block_on(target.request_drain(incarnation)).unwrap();
    assert_eq!(drain(old.incarnation), DrainRequest::Left);
    server.psql(&url, "DELETE FROM replica WHERE name = 'old'");
    assert_eq!(list().unwrap().remove(0).address.as_deref(), Some("http://first:8480"));
    assert_eq!(drain(first.incarnation()), DrainRequest::Requested);
    assert_eq!(states().remove(0), (first_name, ReplicaState::Draining, 256));
    let mut request = first.drain_request();
    let requested = runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(600), request.wait_for(|is_requested| *is_requested))
            .await
            .is_ok()
    });
    assert!(requested, "the next heartbeat must notice the request");
    assert!(!*second.drain_request().borrow());
    assert_eq!(drain(second.incarnation()), DrainRequest::NoSuccessor);
    server.psql(&url, "UPDATE replica SET drain_requested_at = NULL");
    // Of two requests at the same time, only one can count on the other replica.
    let both = std::thread::scope(|scope| {
        let asking =
            [&first, &second].map(|log| scope.spawn(|| drain(log.incarnation()) == DrainRequest::Requested));
        asking.map(|thread| thread.join().unwrap())
    });
    assert!(both[0] != both[1], "{both:?}");
    server.psql(&url, "UPDATE replica SET drain_requested_at = NULL");
    // A replica that has left or was declared dead can't be asked.
    let left = first.incarnation();
    drop(first);
    assert_eq!(drain(left), DrainRequest::Left);
    assert_eq!(drain(second.incarnation()), DrainRequest::NoSuccessor);
    server.psql(&url, "UPDATE replica SET evicted_by = 'third', evicted_at = now()");
    assert_eq!(states(), [(second_name, ReplicaState::Dead, 0)]);
    assert_eq!(drain(second.incarnation()), DrainRequest::Left);
    server.psql(&url, "UPDATE meta SET layout = 2");
    assert!(matches!(
        runtime.block_on(target.list_replicas()),
        Err(LogError::OlderSchema { found: 2, wanted: 4, .. })
    ));
}

/// A user who can write to the database, but has no key, must not receive the requests of clients.
#[test]
fn only_a_service_with_the_key_can_advertise_an_address() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (_first, second) = (lead(join(&url, "first")), join(&url, "second"));
    let leader_address = || match second.try_lead().unwrap() {
        LeadAttempt::Held { replica, .. } => replica.address,
        LeadAttempt::Leading => panic!("there are two leaders"),
    };
    assert_eq!(leader_address().as_deref(), Some("http://first:8480"));
    for change in [
        "address = 'http://mallory:8480'",
        "(address, address_digest) = (SELECT address, address_digest FROM replica WHERE name = 'second')",
        "address_digest = NULL",
    ] {
        server.psql(&url, &format!("UPDATE replica SET {change} WHERE name = 'first'"));
        assert_eq!(leader_address(), None, "{change}");
    }
}

#[test]
fn a_takeover_removes_replicas_that_died_long_ago() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let first = lead(join(&url, "first"));
    let _standby = join(&url, "standby");
    for (name, joined, beat) in [("killed", "2 hours", "61 minutes"), ("suspended", "2 hours", "59 minutes")]
    {
        server.psql(
            &url,
            &format!(
                "INSERT INTO replica (incarnation, name, version, layout, joined_at, beat_at) VALUES (gen_random_uuid(), \
                 '{name}', '0.1.0', 4, now() - interval '{joined}', now() - interval '{beat}')"
            ),
        );
    }
    drop(first);
    let _second = lead(join(&url, "second"));
    let names = server.psql(&url, "SELECT string_agg(name, ' ' ORDER BY name) FROM replica");
    assert_eq!(names, "second standby suspended");
}

#[test]
fn many_replicas_join_an_empty_database_at_once() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let logs: Vec<PostgresLog> = std::thread::scope(|scope| {
        let joining: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn({
                    let url = &url;
                    move || join(url, &format!("replica {number}"))
                })
            })
            .collect();
        joining.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let leaders = std::thread::scope(|scope| {
        let trying: Vec<_> = logs.iter().map(|log| scope.spawn(|| log.try_lead().unwrap())).collect();
        trying
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .filter(|attempt| *attempt == LeadAttempt::Leading)
            .count()
    });
    assert_eq!(leaders, 1);
    assert_eq!(server.psql(&url, "SELECT count(DISTINCT owner), count(owner) FROM shard"), "1|256");
}

/// Statements of the log never read a large table from start to end.
/// A trigger in the database records the setting that applies to the transaction of an append.
#[test]
fn a_commit_is_durable_whatever_the_settings_of_the_database() {
    let Some(server) = PostgresServer::shared() else { return };
    for (setting, expected) in
        [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
    {
        let url = server.new_log_url();
        let log = lead(join(&format!("{url}&options=-c%20synchronous_commit%3D{setting}"), "first"));
        server.psql(
            &url,
            "CREATE TABLE seen (setting text); \
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$; \
             CREATE TRIGGER note BEFORE INSERT ON batch FOR EACH ROW EXECUTE FUNCTION note()",
        );
        log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
        assert_eq!(server.psql(&url, "SELECT setting FROM seen"), expected, "{setting}");
    }
}

#[test]
fn lookups_use_indexes() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let log = lead(join(&url, "first"));
    for number in 0..400_u128 {
        let summary = finished_summary(number, &format!("app-{}", number % 100));
        log.append_all(vec![Append { summary, ..append_to_shop(number, 1, waves_passed(1..=1)) }]).unwrap();
    }
    let statements = [
        "SELECT s.id, d.content FROM stream s JOIN details d ON d.stream = s.id WHERE s.application = 'app-1' ORDER BY s.id",
        "SELECT s.id FROM stream s WHERE s.appset = 'fleet' ORDER BY s.id",
        "SELECT s.id FROM stream s WHERE s.finished_at IS NULL ORDER BY s.id",
        "SELECT s.id FROM stream s WHERE s.kind = 2 ORDER BY s.id",
        "SELECT frames FROM batch WHERE stream = '01900000-0000-7000-8000-000000000001' AND last > 0 ORDER BY first",
        "DELETE FROM blob_hold WHERE incarnation = '01900000-0000-7000-8000-000000000001'",
        "SELECT 1 FROM reference r WHERE r.digest = '\\x00'",
    ];
    for statement in statements {
        // Small tables are read as a whole unless that is made expensive.
        let plan = server.psql(&url, &format!("SET enable_seqscan = off; ANALYZE; EXPLAIN {statement}"));
        assert!(!plan.contains("Seq Scan"), "{statement}\n{plan}");
    }
    let found = log.ids_of(&Lookup::of_application("app-7"));
    assert_eq!(found, [7, 107, 207, 307].map(operation));
    assert_eq!(log.compact(&Retention::with_history(1), crate::kit::NOW).unwrap().streams, 300);
}

#[test]
fn kept_values_belong_to_the_leader_and_survive_it() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (first, second) = (lead(join(&url, "first")), join(&url, "second"));
    first.keep(KeptKind::PlanMetadata, "a", b"one").unwrap();
    first.keep(KeptKind::PlanMetadata, "a", b"two").unwrap();
    let secret = b"password: hunter2, password: hunter2";
    let name = first.keep_sealed(KeptKind::PlanContent, secret).unwrap();
    assert!(matches!(second.keep(KeptKind::PlanMetadata, "a", b"three"), Err(LogError::NotOwner)));
    assert_eq!(second.kept(KeptKind::PlanMetadata, "a").unwrap(), Some(b"two".to_vec()));
    drop(first);
    let second = lead(second);
    assert_eq!(second.kept_sealed(KeptKind::PlanContent, name).unwrap(), secret);
    assert_eq!(
        server.psql(&url, "SELECT count(*) FROM kept WHERE position('hunter2'::bytea IN content) > 0"),
        "0"
    );
    second.discard(KeptKind::PlanMetadata, "a").unwrap();
    assert_eq!(second.list_kept(KeptKind::PlanMetadata).unwrap(), Vec::<String>::new());
}
