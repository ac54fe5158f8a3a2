//! A PostgreSQL server and its synchronous standby.

use tidegate_testkit::tcp_proxy::ServerAddress;

use super::replica::Replica;
use crate::postgres_server::PostgresServer;

pub struct Database {
    servers: [PostgresServer; 2],
    primary: usize,
    /// URL of the log, without a proxy.
    url: String,
}

impl Database {
    /// Returns `None` if PostgreSQL isn't installed.
    pub fn start() -> Option<Self> {
        let first = PostgresServer::start_separate()?;
        let second = PostgresServer::start_standby(&first);
        let url = first.new_log_url();
        let database = Self { servers: [first, second], primary: 0, url };
        database.await_standby();
        Some(database)
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

    /// Restarts the primary in immediate mode.
    pub fn restart(&mut self) {
        self.servers[self.primary].restart_immediately();
    }

    /// Destroys the primary, promotes the standby, and starts a new standby in place of the old primary.
    pub fn fail_over(self, replicas: &[Replica]) -> Self {
        let Self { servers: [first, second], primary, url } = self;
        let (old, new) = if primary == 0 { (first, second) } else { (second, first) };
        old.destroy();
        new.psql(&url, "SELECT pg_promote()");
        // Until there is a new standby, commits must not wait for one.
        new.psql(&url, "ALTER SYSTEM SET synchronous_standby_names = ''");
        new.psql(&url, "SELECT pg_reload_conf()");
        let standby = PostgresServer::start_standby(&new);
        let servers = if primary == 0 { [standby, new] } else { [new, standby] };
        let database = Self { servers, primary: 1 - primary, url };
        for replica in replicas {
            replica.databases[primary].set_server(database.address(primary));
        }
        database.await_standby();
        database
    }

    /// Makes all commits wait for the standby.
    fn await_standby(&self) {
        self.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.query("SELECT pg_reload_conf()");
        // This commit shows that the standby has caught up.
        self.query("COMMENT ON DATABASE postgres IS 'replicated'");
    }
}
