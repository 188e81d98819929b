//! The audit log: appending, what the database refuses, what verifying finds, pruning, and pages of a long log.

use std::time::{Duration, Instant};

use cabana_store::audit::verify_file;
use cabana_store::{AuditQuery, NewAuditEntry, Order, Store};
use cabana_types::audit::{AuditEntry, AuditResult, ProblemKind};
use jiff::{SignedDuration, Timestamp};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};

use crate::{TestDatabase, at, team};

fn act(number: i64) -> NewAuditEntry {
    NewAuditEntry {
        team: Some(team().id),
        at: at(number),
        actor: Some(format!("actor{}", number % 3)),
        action: "create_sandbox".into(),
        target: Some(format!("i{number}")),
        address: Some("127.0.0.1".into()),
        result: AuditResult::Ok,
        status: 201,
        details: [("name".to_owned(), "a \"name\"\n".to_owned())].into(),
    }
}

fn query() -> AuditQuery {
    AuditQuery {
        team: Some(team().id),
        from: None,
        until: None,
        actor: None,
        action: None,
        target: None,
        result: None,
        order: Order::Descending,
        after: None,
        limit: 50,
    }
}

async fn numbers(store: &Store, query: &AuditQuery) -> Vec<u64> {
    store.audit(query).await.expect("page").into_iter().map(|(_, entry)| entry.seq).collect()
}

async fn filled(database: &TestDatabase, entries: i64) -> Store {
    let store = database.populated().await;
    for number in 1..=entries {
        store.record(act(number)).await.expect("record");
    }
    store
}

async fn raw(database: &TestDatabase) -> SqliteConnection {
    SqliteConnectOptions::new().filename(&database.path).connect().await.expect("connect")
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(connection).await.map(drop)
}

#[tokio::test]
async fn entries_are_a_chain_for_each_team() {
    let database = TestDatabase::new();
    let store = filled(&database, 3).await;
    store.record(NewAuditEntry { team: None, ..act(4) }).await.expect("record");
    store.record(NewAuditEntry { target: None, actor: None, address: None, ..act(5) }).await.expect("record");
    let entries: Vec<AuditEntry> = store.audit(&query()).await.expect("page").into_iter().map(|(_, e)| e).collect();
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4, 3, 2, 1]);
    assert_eq!(entries[0].previous_hash, entries[1].hash);
    assert_eq!(entries[1].details["name"], "a \"name\"\n");
    let all = AuditQuery { team: None, ..query() };
    assert_eq!(numbers(&store, &all).await, [4, 1, 3, 2, 1]);
    let report = store.verify_audit(None).await.expect("verify");
    assert_eq!((report.entries, report.chains.len(), report.problems.len()), (5, 2, 0));
    let own = store.verify_audit(Some(&team().id)).await.expect("verify");
    assert_eq!((own.entries, own.chains[0].last_hash), (4, entries[0].hash));
}

#[tokio::test]
async fn filters_and_pages() {
    let database = TestDatabase::new();
    let store = filled(&database, 9).await;
    store
        .record(NewAuditEntry { result: AuditResult::Refused, action: "kill_sandbox".into(), ..act(10) })
        .await
        .expect("x");
    assert_eq!(numbers(&store, &AuditQuery { actor: Some("actor0".into()), ..query() }).await, [9, 6, 3]);
    assert_eq!(numbers(&store, &AuditQuery { target: Some("i4".into()), ..query() }).await, [4]);
    assert_eq!(numbers(&store, &AuditQuery { action: Some("kill_sandbox".into()), ..query() }).await, [10]);
    assert_eq!(numbers(&store, &AuditQuery { result: Some(AuditResult::Refused), ..query() }).await, [10]);
    let times = AuditQuery { from: Some(at(3)), until: Some(at(6)), ..query() };
    assert_eq!(numbers(&store, &times).await, [5, 4, 3]);
    let page = AuditQuery { after: Some(8), limit: 3, ..query() };
    assert_eq!(numbers(&store, &page).await, [7, 6, 5]);
    let onward = AuditQuery { order: Order::Ascending, ..page };
    assert_eq!(numbers(&store, &onward).await, [9, 10]);
    let other = AuditQuery { team: Some("other".parse().expect("id")), ..query() };
    assert!(numbers(&store, &other).await.is_empty());
}

#[tokio::test]
async fn the_database_refuses_changes() {
    let database = TestDatabase::new();
    let store = filled(&database, 3).await;
    let mut connection = raw(&database).await;
    for sql in [
        "update audit set actor = 'x' where seq = 2",
        "delete from audit where seq = 2",
        "delete from audit_chains",
        "update audit_chains set last_seq = 1",
        "update audit_chains set pruned_seq = 9",
    ] {
        let error = execute(&mut connection, sql).await.expect_err(sql);
        assert!(error.to_string().contains("audit log"), "{sql}: {error}");
    }
    assert_eq!(store.verify_audit(None).await.expect("verify").problems, []);
}

#[tokio::test]
async fn tampering_is_found_and_named() {
    for (sql, expected) in [
        ("update audit set actor = 'x' where seq = 3", vec![(3, ProblemKind::Changed)]),
        ("update audit set details = '{}' where seq = 1", vec![(1, ProblemKind::Changed)]),
        ("update audit set details = 'x' where seq = 2", vec![(2, ProblemKind::Unreadable), (2, ProblemKind::Missing)]),
        ("delete from audit where seq = 2", vec![(2, ProblemKind::Missing)]),
        ("delete from audit where seq >= 4", vec![(4, ProblemKind::Missing)]),
        ("delete from audit", vec![(1, ProblemKind::Missing)]),
        (
            "update audit set seq = case seq when 2 then -3 when 3 then -2 else seq end;
             update audit set seq = -seq where seq < 0",
            vec![(2, ProblemKind::Changed), (2, ProblemKind::Unlinked), (3, ProblemKind::Changed)],
        ),
        ("delete from audit_chains", vec![]),
    ] {
        let database = TestDatabase::new();
        filled(&database, 5).await.close().await;
        let mut connection = raw(&database).await;
        for trigger in ["audit_is_not_changed", "audit_is_not_deleted", "audit_chains_are_not_deleted"] {
            let drop = sqlx::AssertSqlSafe(format!("drop trigger {trigger}"));
            sqlx::query(drop).execute(&mut connection).await.expect("drop");
        }
        sqlx::raw_sql(sql).execute(&mut connection).await.expect(sql);
        let report = verify_file(&database.path).await.expect("verify");
        let mut found: Vec<_> = report.problems.iter().map(|problem| (problem.seq, problem.kind)).collect();
        found.dedup();
        if sql.contains("case seq") {
            found.retain(|(seq, kind)| *seq < 4 && (*kind != ProblemKind::Unlinked || *seq == 2));
        }
        assert_eq!(found, expected, "{sql}: {:?}", report.problems);
    }
}

#[tokio::test]
async fn pruning_keeps_the_chain_verifiable() {
    let database = TestDatabase::new();
    let store = filled(&database, 6).await;
    store.record(NewAuditEntry { team: None, ..act(1) }).await.expect("record");
    let pruned = store.prune_audit(at(4), "operator".into(), at(100)).await.expect("prune");
    assert_eq!((pruned.chains, pruned.entries), (2, 4));
    assert_eq!(numbers(&store, &query()).await, [7, 6, 5, 4]);
    let report = store.verify_audit(None).await.expect("verify");
    assert_eq!((report.problems, report.entries), (vec![], 5));
    let newest = &store.audit(&query()).await.expect("page")[0].1;
    assert_eq!((newest.action.as_str(), newest.actor.as_deref()), ("audit_pruned", Some("operator")));
    assert_eq!((newest.details["through"].as_str(), newest.at), ("3", at(100)));
    // Nothing is left that is older; the chain goes on.
    assert_eq!(store.prune_audit(at(4), "operator".into(), at(101)).await.expect("prune").entries, 0);
    store.record(act(102)).await.expect("record");
    assert_eq!(store.verify_audit(None).await.expect("verify").problems, []);
    // Removing more than that is found: the entry says how many were removed.
    let mut connection = raw(&database).await;
    sqlx::raw_sql(
        "update audit_chains set pruned_seq = 4, pruned_hash = (select hash from audit where team = 'default' and seq = 4)
             where team = 'default';
         delete from audit where team = 'default' and seq <= 4",
    )
    .execute(&mut connection)
    .await
    .expect("tamper");
    let problems = store.verify_audit(Some(&team().id)).await.expect("verify").problems;
    assert_eq!(
        problems.iter().map(|problem| (problem.seq, problem.kind)).collect::<Vec<_>>(),
        [(4, ProblemKind::Missing)]
    );
}

#[tokio::test]
async fn a_long_log_is_paged_quickly() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let entries = (1..=10_000).map(|number| store.record(act(number)));
    futures_all(entries).await;
    let begin = Instant::now();
    let mut page = AuditQuery { limit: 100, ..query() };
    let mut seen = 0;
    loop {
        let rows = store.audit(&page).await.expect("page");
        seen += rows.len();
        let Some((place, _)) = rows.last() else { break };
        page.after = Some(*place);
    }
    let rare = AuditQuery { target: Some("i17".into()), ..query() };
    assert_eq!((seen, numbers(&store, &rare).await), (10_000, vec![17]));
    assert_eq!(store.verify_audit(None).await.expect("verify").problems, []);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let none = Timestamp::now() - SignedDuration::from_hours(24 * 365 * 40);
    assert_eq!(store.prune_audit(none, "x".into(), at(0)).await.expect("prune").entries, 0);
}

/// Runs writes together, so that they share commits.
async fn futures_all(writes: impl Iterator<Item = impl Future<Output = Result<(), cabana_store::Error>>>) {
    let mut writes: Vec<_> = writes.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        writes.retain_mut(|write| match write.as_mut().poll(context) {
            std::task::Poll::Ready(result) => {
                result.expect("record");
                false
            }
            std::task::Poll::Pending => true,
        });
        if writes.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
