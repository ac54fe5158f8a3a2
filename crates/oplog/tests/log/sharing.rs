//! Replicas that share the shards of a log in PostgreSQL.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidegate_oplog::{LeadAttempt, LogError, Lookup, Ownership, PostgresLog, PostgresOptions, Shard};

use crate::kit::prelude::*;
use crate::kit::{Append, operation, operation_summary, waves_passed};
use crate::postgres::{join, options};
use crate::postgres_server::PostgresServer;

/// Joins as a replica that shares the work.
fn join_to_share(url: &str, replica: &str) -> PostgresLog {
    PostgresLog::join(PostgresOptions { shares: true, ..options(url, replica) }).unwrap()
}

/// Lets replicas get shards of others at once, as if they had joined a minute ago.
fn settle(server: &PostgresServer, url: &str) {
    server.psql(url, "UPDATE replica SET joined_at = joined_at - interval '1 minute'");
}

fn share(log: &PostgresLog) -> Ownership {
    log.share_shards().unwrap()
}

/// Returns the owned shards after handing over all requested ones, as if no work had to be stopped.
fn share_and_hand_over(log: &PostgresLog) -> BTreeSet<Shard> {
    let Ownership { owned, requested, .. } = share(log);
    let kept = owned.difference(&requested).copied().collect();
    if !requested.is_empty() {
        log.hand_over(requested).unwrap();
    }
    kept
}

/// Lets replicas share until nothing changes anymore. Returns the number of shards of each.
fn share_until_stable(logs: &[&PostgresLog]) -> Vec<usize> {
    let mut before = Vec::new();
    for _ in 0..100 {
        let owned: Vec<_> = logs.iter().map(|log| share_and_hand_over(log)).collect();
        if owned == before {
            return owned.iter().map(BTreeSet::len).collect();
        }
        before = owned;
    }
    panic!("the shards keep moving");
}

/// Returns the name of an Application in a shard.
fn application_in(shard: Shard) -> String {
    (0..).map(|number| format!("app-{number}")).find(|name| Shard::of_key(name) == shard).unwrap()
}

/// Returns an append to the stream of an Application.
fn append_to(application: &str, number: u128, first_sequence: u64) -> Append {
    let summary = operation_summary(number, application);
    Append::new(operation(number), first_sequence, waves_passed(1..=1), summary)
}

#[test]
fn a_replica_asks_for_its_part_and_gets_it_when_the_owner_has_stopped_working() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (first, second) = (join_to_share(&url, "first"), join_to_share(&url, "second"));
    assert_eq!(share(&second).unowned, share(&first).owned.len(), "each takes the shards that prefer it");
    assert_eq!(share(&second).unowned, 0);
    drop(second);
    let all = share(&first);
    assert_eq!((all.owned.len(), all.unowned), (256, 0));
    let second = join_to_share(&url, "second");
    assert_eq!(
        share(&second),
        Ownership::default(),
        "a replica that has just joined gets no shard of another"
    );
    assert_eq!(share(&first).requested.len(), 0);
    settle(server, &url);
    assert_eq!(share(&second).owned.len(), 0);
    let requested = share(&first).requested;
    assert_eq!(requested.len(), 16, "only a part moves at a time");
    let moved = *requested.first().unwrap();
    let application = application_in(moved);
    // The owner works on the shard until it hands it over.
    first.append_all(vec![append_to(&application, 1, 1)]).unwrap();
    assert!(matches!(second.append_all(vec![append_to(&application, 1, 2)]), Err(LogError::NotOwner)));
    first.hand_over(requested.clone()).unwrap();
    let refused = first.append_all(vec![append_to(&application, 1, 2)]).unwrap_err();
    assert!(matches!(refused, LogError::OtherReplica { .. }), "{refused}");
    assert!(first.loss().borrow().is_none(), "the other shards are not affected");
    let elsewhere = all.owned.difference(&requested).next().copied().unwrap();
    first.append_all(vec![append_to(&application_in(elsewhere), 2, 1)]).unwrap();
    assert_eq!(share(&second).owned, requested);
    second.append_all(vec![append_to(&application, 1, 2)]).unwrap();
    assert_eq!(first.all_events(operation(1)).unwrap().len(), 2);
    let counts = share_until_stable(&[&first, &second]);
    assert!(counts.iter().sum::<usize>() == 256 && counts.iter().all(|count| *count > 90), "{counts:?}");
    // A replica that leaves frees its shards, and the others take them at once.
    drop(first);
    assert_eq!(share(&second).owned.len(), 256);
    second.append_all(vec![append_to(&application_in(elsewhere), 2, 2)]).unwrap();
}

/// The operations of an ApplicationSet's Applications belong to the shard of the ApplicationSet.
#[test]
fn an_application_can_have_the_shard_of_its_applicationset() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let (first, second) = (join_to_share(&url, "first"), join_to_share(&url, "second"));
    share_until_stable(&[&first, &second]);
    let is_first = |key: &str| share(&first).owned.contains(&Shard::of_key(key));
    let owner_of = |key: &str| if is_first(key) { (&first, &second) } else { (&second, &first) };
    // The shards of the Application's name and of its ApplicationSet have different owners.
    let mut sets = (0..).map(|number| format!("argocd/fleet-{number}"));
    let set = sets.find(|set| is_first(set) != is_first("web")).unwrap();
    let shard = Shard::of_key(&set);
    let begin = || vec![Append { shard: Some(shard), ..append_to("web", 1, 1) }];
    let (owner, other) = owner_of(&set);
    assert!(matches!(other.append_all(begin()), Err(LogError::OtherReplica { .. })));
    owner.append_all(begin()).unwrap();
    // The list shows the stored shard, because the Application may belong to another ApplicationSet by now.
    let open = other.find(&Lookup::of_application("web").and_open()).unwrap();
    assert_eq!(open.iter().map(|entry| entry.shard).collect::<Vec<_>>(), [shard]);
    // Later events follow the stream.
    owner.append_all(vec![append_to("web", 1, 2)]).unwrap();
    let (owner, other) = owner_of("db");
    assert!(matches!(other.append_all(vec![append_to("db", 2, 1)]), Err(LogError::OtherReplica { .. })));
    owner.append_all(vec![append_to("db", 2, 1)]).unwrap();
}

#[test]
fn the_shards_of_a_dead_replica_are_taken_over_and_it_never_writes_again() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let logs = ["first", "second", "third"].map(|name| join_to_share(&url, name));
    let [first, second, third] = &logs;
    let counts = share_until_stable(&[first, second, third]);
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    let lost = share(first).owned;
    let application = application_in(*lost.first().unwrap());
    first.append_all(vec![append_to(&application, 1, 1)]).unwrap();
    server.psql(
        &url,
        &format!(
            "CREATE FUNCTION ignore_beat() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.incarnation = '{}' AND \
             NEW.beat > OLD.beat THEN NEW.beat := OLD.beat; END IF; RETURN NEW; END $$; CREATE TRIGGER ignore_beat BEFORE \
             UPDATE ON replica FOR EACH ROW EXECUTE FUNCTION ignore_beat()",
            first.incarnation()
        ),
    );
    let kept = [share(second).owned, share(third).owned];
    let began = Instant::now();
    while share(second).owned.len() + share(third).owned.len() < 256 {
        assert!(began.elapsed() < Duration::from_secs(120), "the shards were not taken over");
        std::thread::park_timeout(Duration::from_secs(1));
    }
    assert!(began.elapsed() > Duration::from_secs(5), "taken over after {:?}", began.elapsed());
    assert!(kept[0].is_subset(&share(second).owned) && kept[1].is_subset(&share(third).owned));
    let error = first.append_all(vec![append_to(&application, 1, 2)]).unwrap_err();
    assert!(matches!(&error, LogError::Evicted { .. }), "{error}");
    assert!(matches!(first.share_shards(), Err(LogError::Evicted { .. })));
    let owner = if share(second).owned.is_superset(&BTreeSet::from([Shard::of_key(&application)])) {
        second
    } else {
        third
    };
    owner.append_all(vec![append_to(&application, 1, 2)]).unwrap();
    assert_eq!(owner.all_events(operation(1)).unwrap().len(), 2);
}

#[test]
fn a_leader_of_the_whole_log_is_never_asked_for_shards() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let leader = crate::postgres::lead(join(&url, "leader"));
    let sharing = join_to_share(&url, "sharing");
    settle(server, &url);
    assert_eq!(share(&sharing), Ownership::default());
    assert_eq!(server.psql(&url, "SELECT count(*) FROM shard WHERE requested_by IS NOT NULL"), "0");
    drop(leader);
    assert_eq!(share(&sharing).owned.len(), 256);
    let second = join(&url, "second");
    assert!(
        matches!(second.try_lead().unwrap(), LeadAttempt::Held { replica, .. } if replica.name == "sharing")
    );
}

/// Replicas join, leave and hand over shards while all of them write. Each stream must contain every acknowledged
/// event once, in order.
#[test]
fn moves_during_writes_lose_and_double_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let applications: Vec<String> = (0..24).map(|number| format!("app-{number}")).collect();
    let last_of = |log: &PostgresLog, number: u128| match log.all_events(operation(number)) {
        Ok(events) => u64::try_from(events.len()).unwrap(),
        Err(LogError::UnknownStream { .. }) => 0,
        Err(error) => panic!("{error}"),
    };
    let acknowledged = std::thread::scope(|scope| {
        let replica = |name: String, lives: usize| {
            let (url, applications) = (&url, &applications);
            scope.spawn(move || {
                let mut acknowledged: BTreeMap<u128, usize> = BTreeMap::new();
                for _ in 0..lives {
                    let log = join_to_share(url, &name);
                    settle(server, url);
                    let mut last: BTreeMap<u128, u64> = BTreeMap::new();
                    for _ in 0..25 {
                        let owned = share_and_hand_over(&log);
                        last.retain(|number, _| {
                            owned.contains(&Shard::of_key(&applications[usize::try_from(*number).unwrap()]))
                        });
                        for (number, application) in (0..).zip(applications) {
                            if !owned.contains(&Shard::of_key(application)) {
                                continue;
                            }
                            let next =
                                last.get(&number).copied().unwrap_or_else(|| last_of(&log, number)) + 1;
                            log.append_all(vec![append_to(application, number, next)]).unwrap();
                            last.insert(number, next);
                            *acknowledged.entry(number).or_default() += 1;
                        }
                    }
                }
                acknowledged
            })
        };
        let threads =
            [("first", 2), ("second", 4), ("third", 6)].map(|(name, lives)| replica(name.to_owned(), lives));
        let mut total: BTreeMap<u128, usize> = BTreeMap::new();
        for thread in threads {
            for (number, count) in thread.join().unwrap() {
                *total.entry(number).or_default() += count;
            }
        }
        total
    });
    let reader = join(&url, "reader");
    for (number, count) in &acknowledged {
        assert_eq!(reader.all_events(operation(*number)).unwrap().len(), *count, "stream {number}");
    }
    assert_eq!(acknowledged.len(), applications.len());
    let epochs = server.psql(&url, "SELECT max(epoch) > 3 FROM shard");
    assert_eq!(epochs, "t", "no shard has moved");
}
