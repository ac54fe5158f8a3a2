//! `tidegate replicas`: lists the services that share an operation log, and asks one of them to hand over.

use std::time::Duration;

use serde::Serialize;
use tidegate_model::{Timestamp, format_duration};
use tidegate_oplog::{DrainRequest, ListedReplica, PostgresTarget, ReplicaState};
use tidegate_state::error::ServiceError;

use super::serve_startup::log_target;
use crate::args::{DrainReplicaArgs, Format, ListReplicasArgs, ReplicasCommand, SharedLogArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{self, Printer};

/// Polling interval while a replica stops.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Length of the abbreviated IDs in the list.
const SHORT_ID_DIGITS: usize = 8;
/// Minimum number of digits that identify a replica.
const ID_DIGITS_MIN: usize = 4;

pub async fn run(command: ReplicasCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        ReplicasCommand::List(args) => list(&args, printer).await,
        ReplicasCommand::Drain(args) => drain(&args, printer).await,
    }
}

async fn list(args: &ListReplicasArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let replicas = read_replicas(&open(&args.location)?).await?;
    match args.output {
        Format::Text => printer.print(&table(&replicas, printer.width()))?,
        format => {
            let documents: Vec<ReplicaDocument<'_>> = replicas.iter().map(ReplicaDocument::new).collect();
            printer.print_value(&documents, format)?;
        }
    }
    Ok(CommandOutcome::Done)
}

async fn drain(args: &DrainReplicaArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let target = open(&args.location)?;
    let replicas = read_replicas(&target).await?;
    let replica = find_replica(&replicas, &args.name)?;
    if replica.state == ReplicaState::Unresponsive || !replica.can_drain {
        return Err(refuse_drain(replica).into());
    }
    match target.request_drain(replica.incarnation).await.map_err(ServiceError::from)? {
        DrainRequest::Requested => {}
        DrainRequest::NoSuccessor => {
            return Err(ServiceError::refused(format!(
                "no other service could take over if {0} stopped; start one with `tidegate serve --standby`, or stop {0} with \
                 SIGTERM",
                replica.name
            ))
            .into());
        }
        DrainRequest::Left => {
            printer.note(&format!("{} has already left the operation log", replica.name));
            return Ok(CommandOutcome::Done);
        }
    }
    if args.waiting.is_async {
        printer.note(&format!("{} was asked to hand over and exit", replica.name));
        return Ok(CommandOutcome::Done);
    }
    let end = wait_for_end(&target, replica);
    let end = match args.waiting.timeout {
        None => Some(end.await?),
        Some(timeout) => tokio::time::timeout(timeout, end).await.ok().transpose()?,
    };
    match end {
        Some(DrainEnd::Left) => {
            printer.note(&format!("{} has handed over and left the operation log", replica.name));
            Ok(CommandOutcome::Done)
        }
        Some(DrainEnd::Replaced) => {
            printer.warn(&format!(
                "{} stopped sending heartbeats, and another service took over; make sure that its process has ended",
                replica.name
            ));
            Ok(CommandOutcome::Done)
        }
        None => {
            printer.warn(&format!(
                "{} has not left the operation log yet; it exits when it has finished its requests to clusters",
                replica.name
            ));
            Ok(CommandOutcome::NotFinished)
        }
    }
}

/// Returns the error for a replica that can't hand over.
fn refuse_drain(replica: &ListedReplica) -> ServiceError {
    let ListedReplica { name, version, last_heartbeat, .. } = replica;
    ServiceError::refused(match replica.can_drain {
        true => format!(
            "{name} has sent no heartbeat for {}, so it cannot hand over; end its process, and a standby takes over automatically",
            format_duration(*last_heartbeat)
        ),
        false => format!("{name} has version {version}, which cannot be drained; stop it with SIGTERM"),
    })
}

/// End of a drain.
enum DrainEnd {
    /// The replica has left the log.
    Left,
    /// Another replica has declared it dead.
    Replaced,
}

async fn wait_for_end(target: &PostgresTarget, replica: &ListedReplica) -> Result<DrainEnd, CliError> {
    loop {
        match target.list_replicas().await {
            Ok(replicas) => {
                let mut replicas = replicas.unwrap_or_default().into_iter();
                match replicas.find(|other| other.incarnation == replica.incarnation) {
                    None => return Ok(DrainEnd::Left),
                    Some(found) if found.state == ReplicaState::Dead => return Ok(DrainEnd::Replaced),
                    Some(_) => {}
                }
            }
            // The replica has the request.
            Err(error) if error.is_outage() => {}
            Err(error) => return Err(ServiceError::from(error).into()),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn open(location: &SharedLogArgs) -> Result<PostgresTarget, CliError> {
    log_target(&location.log, location.log_password.as_deref())
}

async fn read_replicas(target: &PostgresTarget) -> Result<Vec<ListedReplica>, CliError> {
    target.list_replicas().await.map_err(ServiceError::from)?.ok_or_else(|| {
        CliError::usage(format!(
            "{target} does not contain an operation log; `tidegate serve --log` creates one when it first starts"
        ))
    })
}

/// Returns the replica with this name, with this host, or with an ID that starts with these digits.
fn find_replica<'a>(replicas: &'a [ListedReplica], wanted: &str) -> Result<&'a ListedReplica, CliError> {
    let is_wanted = |replica: &&ListedReplica| {
        let id = replica.incarnation.to_string();
        replica.name == wanted
            || replica.name.split_once(" on ").is_some_and(|(_, host)| host == wanted)
            || (wanted.len() >= ID_DIGITS_MIN && id.starts_with(wanted))
    };
    let alive = replicas.iter().filter(|replica| replica.state != ReplicaState::Dead);
    let mut found: Vec<&ListedReplica> = alive.filter(is_wanted).collect();
    // A restarted service may have left an earlier entry.
    if found.iter().any(|replica| replica.state != ReplicaState::Unresponsive) {
        found.retain(|replica| replica.state != ReplicaState::Unresponsive);
    }
    match found.as_slice() {
        [replica] => Ok(replica),
        [] => Err(CliError::usage(format!(
            "no service with the name {wanted:?} uses this operation log; `tidegate replicas list` shows their names"
        ))),
        several => {
            let names: Vec<String> =
                several.iter().map(|one| format!("{} ({})", one.name, short_id(one))).collect();
            Err(CliError::usage(format!(
                "{wanted:?} matches several services: {}; use the beginning of an ID",
                names.join(", ")
            )))
        }
    }
}

fn short_id(replica: &ListedReplica) -> String {
    replica.incarnation.to_string().chars().take(SHORT_ID_DIGITS).collect()
}

/// Replica in JSON or YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaDocument<'a> {
    id: String,
    name: &'a str,
    state: String,
    shards: usize,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    last_heartbeat_seconds: u64,
    joined_at: Timestamp,
}

impl<'a> ReplicaDocument<'a> {
    fn new(replica: &'a ListedReplica) -> Self {
        Self {
            id: replica.incarnation.to_string(),
            name: &replica.name,
            state: replica.state.to_string(),
            shards: replica.shards,
            version: &replica.version,
            address: replica.address.as_deref(),
            last_heartbeat_seconds: replica.last_heartbeat.as_secs(),
            joined_at: replica.joined_at,
        }
    }
}

fn table(replicas: &[ListedReplica], width: Option<u16>) -> output::Text {
    let rows = replicas.iter().map(|replica| {
        [
            short_id(replica),
            replica.name.clone(),
            replica.state.to_string(),
            replica.shards.to_string(),
            replica.version.clone(),
            format!("{} ago", format_duration(replica.last_heartbeat)),
            replica.joined_at.to_string(),
        ]
    });
    output::table(["ID", "NAME", "STATE", "SHARDS", "VERSION", "HEARTBEAT", "JOINED"], rows, width)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn replica(id: u128, name: &str, state: ReplicaState) -> ListedReplica {
        ListedReplica {
            incarnation: Uuid::from_u128(id << 96),
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            state,
            shards: 0,
            last_heartbeat: Duration::ZERO,
            can_drain: true,
            address: None,
            joined_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn a_replica_is_found_by_name_host_or_id() {
        let all = [
            replica(0x7c0e_0001, "pid 41 on node-1", ReplicaState::Leader),
            replica(0x7c0e_0002, "pid 7 on node-2", ReplicaState::Standby),
            replica(0x7c0e_0003, "pid 8 on node-2", ReplicaState::Standby),
            replica(0x7c0e_0004, "pid 9 on node-3", ReplicaState::Dead),
            replica(0x7c0e_0005, "pid 1 on node-4", ReplicaState::Unresponsive),
            replica(0x7c0e_0006, "pid 1 on node-4", ReplicaState::Leader),
            replica(0x7c0e_0007, "pid 1 on node-5", ReplicaState::Unresponsive),
        ];
        for (wanted, found) in [
            ("pid 41 on node-1", Ok(0)),
            ("node-1", Ok(0)),
            ("7c0e0002", Ok(1)),
            ("pid 8 on node-2", Ok(2)),
            ("node-2", Err("several")),
            ("7c0e", Err("several")),
            ("7c0", Err("no service")),
            ("node", Err("no service")),
            ("node-3", Err("no service")),
            ("node-4", Ok(5)),
            ("node-5", Ok(6)),
        ] {
            match (find_replica(&all, wanted), found) {
                (Ok(one), Ok(index)) => assert_eq!(Some(one), all.get(index), "{wanted}"),
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{wanted}: {error}"),
                (found, _) => panic!("{wanted}: {found:?}"),
            }
        }
    }
}
