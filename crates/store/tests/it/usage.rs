//! Sums of usage: what they answer, how fast, and that every transaction of the rater counts once.

use std::time::Instant;

use cabana_store::{NewEntry, UsageGroup, UsageQuery};
use cabana_types::{BillingMode, EntryKind, Micros, UsageKind};
use sqlx::{Connection, SqliteConnection};

use crate::{TestDatabase, at, insert, other_team, sandbox, sandbox_id, team};

fn query(group: UsageGroup) -> UsageQuery {
    UsageQuery { team: team().id, from: 0, until: i64::MAX, group, subject: None, projects: None, limit: 1000 }
}

#[tokio::test]
async fn sums_are_grouped_and_belong_to_a_team() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=2 {
        insert(&store, sandbox(n)).await;
        store.started(sandbox_id(n), at(0), at(9000)).await.expect("started");
    }
    // Across the border of an hour, which is 2800 s later.
    store.rate(at(4000), 100).await.expect("rated");
    let cpus = i128::from(sandbox(1).resources.cpu_count);
    let by_hour =
        store.usage(&query(UsageGroup { period: Some(1), kind: true, ..UsageGroup::default() })).await.expect("usage");
    let vcpu: Vec<_> = by_hour.iter().filter(|row| row.kind == UsageKind::Vcpu).map(|row| row.amount).collect();
    assert_eq!(vcpu, [2 * 2800 * 1_000_000 * cpus, 2 * 1200 * 1_000_000 * cpus]);
    let by_sandbox =
        store.usage(&query(UsageGroup { kind: true, subject: true, ..UsageGroup::default() })).await.expect("usage");
    let rows: Vec<_> = by_sandbox.iter().filter(|row| row.kind == UsageKind::Vcpu).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.amount == 4000 * 1_000_000 * cpus));
    let one = UsageQuery {
        subject: Some(sandbox_id(1).to_string()),
        ..query(UsageGroup { kind: true, ..UsageGroup::default() })
    };
    assert_eq!(store.usage(&one).await.expect("usage")[0].kind, UsageKind::MemoryMib);
    assert_eq!(store.usage(&UsageQuery { team: other_team(), ..one }).await.expect("usage"), []);
    let none = UsageQuery { projects: Some(vec![]), ..query(UsageGroup::default()) };
    assert_eq!(store.usage(&none).await.expect("usage"), []);
}

#[tokio::test]
async fn rating_twice_changes_nothing() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    store.set_billing(BillingMode::Postpaid);
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(0), at(9000)).await.expect("started");
    for _ in 0..3 {
        store.rate(at(100), 100).await.expect("rated");
    }
    let rows = store.usage(&query(UsageGroup::default())).await.expect("usage");
    let cpus = i128::from(sandbox(1).resources.cpu_count);
    assert_eq!(rows.iter().find(|row| row.kind == UsageKind::Vcpu).expect("vcpu").amount, 100 * 1_000_000 * cpus);
    assert_eq!(store.rated_until().await.expect("time"), at(100));
}

#[tokio::test]
async fn an_entry_is_written_once() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let entry = NewEntry {
        team: team().id,
        kind: EntryKind::TopUp,
        account: "manual".into(),
        amount: Micros(5_000_000),
        reference: "manual:invoice-17".into(),
        memo: None,
    };
    assert!(store.write_entry(entry.clone(), at(1)).await.expect("written"));
    assert!(!store.write_entry(entry.clone(), at(2)).await.expect("known"));
    assert_eq!(store.wallet_balance(&team().id).await.expect("balance"), Micros(5_000_000));
    let too_much = NewEntry { amount: Micros(i64::MAX), reference: "manual:2".into(), ..entry.clone() };
    store.write_entry(too_much, at(3)).await.expect_err("an overflow");
    let nobody = NewEntry { team: other_team(), reference: "manual:3".into(), ..entry };
    store.write_entry(nobody, at(3)).await.expect_err("no such team");
    let entries = store.wallet_entries(&team().id, None, 10).await.expect("entries");
    assert_eq!(
        entries.iter().map(|e| (e.amount, e.balance_after)).collect::<Vec<_>>(),
        [(Micros(5_000_000), Micros(5_000_000))]
    );
}

/// A year of 1,000 sandboxes a day: `cargo test --release -p cabana-store --test it -- --ignored a_year`.
#[tokio::test]
#[ignore = "makes two million rows"]
async fn a_year_is_answered_fast() {
    let database = TestDatabase::in_memory();
    let store = database.populated().await;
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", database.path.display())).await.expect("open");
    // Each sandbox lives for two hours and uses three kinds.
    sqlx::query(
        "with recursive days(day) as (select 0 union all select day + 1 from days where day < 364),
            ids(n) as (select 0 union all select n + 1 from ids where n < 999)
         insert into usage_hourly select 'default', 480000 + day * 24 + n % 24 + part, 'i' || day || 'x' || n, kind, '', 'default',
            'sandbox', 3600000000, 11 from days, ids, (select 0 as part union all select 1),
            (select 'vcpu' as kind union all select 'memory_mib' union all select 'disk_mib')",
    )
    .execute(&mut connection)
    .await
    .expect("rows");
    sqlx::query(
        "insert into usage_total select team, hour, kind, model, project, sum(amount), sum(micros) from usage_hourly
         group by team, hour, kind, model, project",
    )
    .execute(&mut connection)
    .await
    .expect("sums");
    let day = UsageGroup { period: Some(24), kind: true, ..UsageGroup::default() };
    let year = UsageQuery { from: 480_000, until: 480_000 + 366 * 24, limit: 20_000, ..query(day) };
    let mut slowest = 0;
    for group in [day, UsageGroup { project: true, ..day }, UsageGroup { model: true, ..day }] {
        let begun = Instant::now();
        let rows = store.usage(&UsageQuery { group, ..year.clone() }).await.expect("usage");
        slowest = slowest.max(begun.elapsed().as_millis());
        assert!(rows.len() >= 3 * 365);
        assert_eq!(rows.iter().map(|row| row.amount).sum::<i128>(), 365_000 * 6 * 3_600_000_000);
    }
    println!("a year by day: {slowest} ms at most");
    assert!(slowest < 300, "{slowest} ms");
    let month = UsageQuery {
        until: 480_000 + 31 * 24,
        group: UsageGroup { subject: true, kind: true, ..UsageGroup::default() },
        ..year
    };
    let begun = Instant::now();
    store.usage(&month).await.expect("usage");
    println!("31 days by sandbox: {} ms", begun.elapsed().as_millis());
}
