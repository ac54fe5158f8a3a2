//! A PostgreSQL server and its standby.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidegate_testkit::tcp_proxy::ServerAddress;

use super::replica::Replica;
use crate::postgres_server::{PostgresServer, SmallDisk};

/// Maximum time until the standby has stopped replicating, and until the services' transactions have ended.
const STOP_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of the newest event of each stream, by ID.
pub type Streams = BTreeMap<String, i64>;

/// Replication from the primary to the standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Each commit waits for the standby.
    Synchronous,
    /// The standby may lag, so a failover can lose commits.
    Asynchronous,
}

pub struct Database {
    servers: [PostgresServer; 2],
    primary: usize,
    /// URL of the log, without a proxy.
    url: String,
    replication: Replication,
}

impl Database {
    /// Returns `None` if PostgreSQL isn't installed.
    pub fn start(replication: Replication) -> Option<Self> {
        Some(Self::with_primary(PostgresServer::start_separate()?, replication))
    }

    /// Starts a primary whose disk can be filled. Returns `None` if PostgreSQL isn't installed, or if this requires more
    /// permissions.
    pub fn start_on_small_disk(disk: SmallDisk) -> Option<Self> {
        Some(Self::with_primary(PostgresServer::start_on_small_disk(disk)?, Replication::Synchronous))
    }

    fn with_primary(first: PostgresServer, replication: Replication) -> Self {
        let second = PostgresServer::start_standby(&first);
        let url = first.new_log_url();
        let database = Self { servers: [first, second], primary: 0, url, replication };
        database.await_standby();
        database
    }

    /// Returns the schema of the log.
    pub fn schema(&self) -> &str {
        self.url.rsplit_once("schema=").unwrap().1
    }

    /// Returns the addresses of both servers.
    pub fn addresses(&self) -> [ServerAddress; 2] {
        [0, 1].map(|index| self.address(index))
    }

    fn address(&self, index: usize) -> ServerAddress {
        ServerAddress::Unix(self.servers[index].socket())
    }

    /// Runs SQL on the primary.
    pub fn query(&self, sql: &str) -> String {
        self.servers[self.primary].psql(&self.url, sql)
    }

    /// Returns the primary.
    pub fn primary(&self) -> &PostgresServer {
        &self.servers[self.primary]
    }

    /// Fills the disk of the primary until it rejects writes or stops.
    pub fn fill_disk(&self, disk: SmallDisk) {
        self.primary().fill_disk();
        if disk == SmallDisk::WriteAheadLog {
            // The server has already reserved space for some segments.
            wait_for(|| self.primary().try_psql(&self.url, "SELECT pg_switch_wal()").is_err());
        }
    }

    fn query_standby(&self, sql: &str) -> String {
        self.servers[1 - self.primary].psql(&self.url, sql)
    }

    /// Stops the replication to the standby, which keeps what it has.
    pub fn stop_replication(&self) {
        self.query_standby("ALTER SYSTEM SET primary_conninfo = ''");
        self.query_standby("SELECT pg_reload_conf()");
        wait_for(|| self.query("SELECT count(*) FROM pg_stat_replication") == "0");
    }

    /// Returns the streams in the primary and in the standby. The services must not send anything, so that no
    /// transaction begins.
    pub fn read_streams(&self) -> [Streams; 2] {
        const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'tidegate %' AND state = 'active'";
        const STREAMS: &str = "SELECT id, last FROM stream";
        wait_for(|| self.query(RUNNING) == "0");
        [self.query(STREAMS), self.query_standby(STREAMS)].map(|rows| {
            let rows = rows.lines().map(|row| row.split_once('|').unwrap());
            rows.map(|(id, last)| (id.to_owned(), last.parse().unwrap())).collect()
        })
    }

    /// Restarts the primary in immediate mode.
    pub fn restart(&mut self) {
        self.servers[self.primary].restart_immediately();
    }

    /// Restarts the primary after a full disk has stopped it, with a new standby. The old standby may have received the
    /// beginning of a record that the primary couldn't complete.
    pub fn restart_with_new_standby(&mut self, replicas: &[Replica]) {
        self.restart();
        // Commits must not wait for the old standby.
        self.query("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.query("SELECT pg_reload_conf()");
        let (index, new) = (1 - self.primary, PostgresServer::start_standby(self.primary()));
        std::mem::replace(&mut self.servers[index], new).destroy();
        for replica in replicas {
            replica.databases[index].set_server(self.address(index));
        }
        self.await_standby();
    }

    /// Destroys the primary, promotes the standby, and starts a new standby in place of the old primary.
    pub fn fail_over(self, replicas: &[Replica], when_promoted: impl FnOnce()) -> Self {
        let Self { servers: [first, second], primary, url, replication } = self;
        let (old, new) = if primary == 0 { (first, second) } else { (second, first) };
        old.destroy();
        new.psql(&url, "SELECT pg_promote()");
        // Until there is a new standby, commits must not wait for one.
        new.psql(&url, "ALTER SYSTEM SET synchronous_standby_names = ''");
        new.psql(&url, "SELECT pg_reload_conf()");
        when_promoted();
        let standby = PostgresServer::start_standby(&new);
        let servers = if primary == 0 { [standby, new] } else { [new, standby] };
        let database = Self { servers, primary: 1 - primary, url, replication };
        for replica in replicas {
            replica.databases[primary].set_server(database.address(primary));
        }
        database.await_standby();
        database
    }

    /// Waits until the standby has caught up. With synchronous replication, all commits wait for it from now on.
    fn await_standby(&self) {
        self.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.query("SELECT pg_reload_conf()");
        // This commit shows that the standby has caught up.
        self.query("COMMENT ON DATABASE postgres IS 'replicated'");
        if self.replication == Replication::Asynchronous {
            self.query("ALTER SYSTEM SET synchronous_standby_names = ''");
            self.query("SELECT pg_reload_conf()");
        }
    }
}

fn wait_for(is_done: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < STOP_TIMEOUT, "the database is still busy");
        std::thread::park_timeout(POLL_INTERVAL);
    }
}
