//! What is metered: random lives of sandboxes with crashes, whose sums must agree exactly.

use std::collections::BTreeMap;

use cabana_meter::HOUR;
use cabana_store::{Error, EventQuery, Order, PriceRow, Sandbox, Store, UsageGroup, UsageQuery};
use cabana_types::sandbox::{EndCause, Kept, PauseCause, State, Transition};
use cabana_types::{BillingMode, Micros, SandboxId, UsageKind};
use jiff::Timestamp;
use sqlx::{Connection, Row, SqliteConnection};

use crate::{TestDatabase, at, insert, sandbox, team};

/// Lives that are replayed; more on request.
const LIVES: usize = 1_000;
/// Lives that change at the same time, so that they share transactions.
const AT_ONCE: usize = 500;

fn time(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).expect("time")
}

/// A small generator, so that a seed repeats a run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn micros(&mut self, most: i64) -> i64 {
        i64::try_from(self.roll(most.unsigned_abs())).expect("small")
    }
}

fn random_id(dice: &mut Dice) -> SandboxId {
    SandboxId::from_random(std::array::from_fn(|_| u8::try_from(dice.roll(256)).expect("a byte")))
}

fn events_of(id: &SandboxId, order: Order, limit: u32) -> EventQuery {
    let (team, sandbox) = (team().id, Some(id.clone()));
    EventQuery { team, projects: None, sandbox, kinds: vec![], from: None, until: None, order, offset: 0, limit }
}

/// One transition that a sandbox's state allows, or a resize.
fn next(dice: &mut Dice, state: &State) -> Option<Transition> {
    let idle = || PauseCause::Idle;
    Some(match (state, dice.roll(10)) {
        (State::Ended { .. }, _) => return None,
        (State::Ending { .. }, _) => Transition::Removed,
        (_, 0) => Transition::End(EndCause::Expired),
        (State::Creating | State::Resuming { from: Kept::Ram | Kept::Disk | Kept::Checkpoint { .. }, .. }, _) => {
            Transition::Started
        }
        (State::Running, 1) => Transition::Fail(EndCause::GuestDied),
        (State::Running, 2..5) => Transition::Pause { keep: Kept::Ram, why: idle() },
        (State::Running, 5 | 6) => Transition::Pause { keep: Kept::Disk, why: idle() },
        (State::Pausing { to: Kept::Ram, .. }, 1) => Transition::PauseFailed,
        (State::Pausing { to: Kept::Ram, .. }, 2) => Transition::MemoryLost,
        (State::Pausing { .. }, _) => Transition::Paused,
        (State::Paused { kept: Kept::Disk, .. }, 1..4) => Transition::Archive { whole: true, generation: 1 },
        (State::Paused { .. } | State::Failed { .. }, 4..) => Transition::Resume,
        (State::Archiving { .. }, 1) => Transition::ArchiveFailed,
        (State::Archiving { .. }, _) => Transition::Archived,
        (State::Resuming { from: Kept::Archive { .. }, .. }, _) => Transition::Restored,
        _ => return None,
    })
}

/// Lets a sandbox change once or a few times. An error is a crash of the store: the change was written or not.
async fn live(store: Store, id: SandboxId, seed: u64, mut now: i64) -> Result<(), Error> {
    let mut dice = Dice(seed);
    for _ in 0..=dice.roll(3) {
        let Some(found) = store.sandbox(&id).await? else { return Ok(()) };
        now += dice.micros(20_000_000);
        let at = time(now);
        if dice.roll(3) == 0 {
            store.note_disk(&id, dice.roll(300 << 20));
        }
        // A second event about the size would replace the first one, by which the test knows the size.
        if matches!(found.state, State::Running | State::Paused { .. })
            && dice.roll(8) == 0
            && store.events(&events_of(&id, Order::Descending, 1)).await?[0].kind != cabana_store::event::UPDATED
        {
            let resources = cabana_types::Resources {
                cpu_count: 1 + u32::try_from(dice.roll(4)).expect("small"),
                ..found.resources
            };
            store.resize(id.clone(), resources, at).await?;
            continue;
        }
        let done = match next(&mut dice, &found.state) {
            None => continue,
            Some(Transition::Started) => store.started(id.clone(), at, time(now + HOUR)).await,
            Some(Transition::Archived) => store.archived(id.clone(), "digest".into(), dice.roll(90 << 20), at).await,
            Some(Transition::Removed) => store.removed(id.clone(), at).await,
            Some(Transition::Archive { whole, .. }) => store.archive(id.clone(), whole, at).await,
            Some(transition) => store.apply(id.clone(), transition, at).await,
        };
        done?;
    }
    Ok(())
}

/// What the events of a sandbox say that it used of its CPUs, in units times microseconds, and until when: an account of its own, from
/// rows that the meters never read. While the machine was down, nothing ran.
fn expected_vcpu(events: &[(i64, serde_json::Value, String)], first_cpus: i64, downs: &[(i64, i64)], now: i64) -> i128 {
    let (mut running, mut cpus, mut since, mut sum) = (false, first_cpus, 0i64, 0i128);
    let up = |from: i64, until: i64| {
        let down: i64 = downs.iter().map(|(a, b)| (until.min(*b) - from.max(*a)).max(0)).sum();
        until - from - down
    };
    for (at, data, kind) in events {
        if running {
            sum += i128::from(up(since, *at)) * i128::from(cpus);
        }
        since = *at;
        if kind == cabana_store::event::UPDATED {
            cpus = data["cpuCount"].as_i64().unwrap_or(cpus);
        } else if let Some(state) = data["state"].as_str() {
            running = state == "running";
        }
    }
    if running {
        sum += i128::from(up(since, now)) * i128::from(cpus);
    }
    sum
}

async fn scalar(connection: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query(sql).fetch_one(connection).await.expect(sql).get(0)
}

/// Sums of amounts by kind, in two parts: SQLite's integers are too small.
async fn by_kind(connection: &mut SqliteConnection, sql: &'static str) -> BTreeMap<String, i128> {
    let rows = sqlx::query(sql).fetch_all(connection).await.expect(sql);
    rows.iter()
        .map(|row| (row.get(0), i128::from(row.get::<i64, _>(1)) * 1_000_000 + i128::from(row.get::<i64, _>(2))))
        .collect()
}

fn price(kind: UsageKind, micros: i64, from: i64) -> PriceRow {
    PriceRow { kind, price: Micros(micros), effective_from: time(from) }
}

#[test]
fn random_lives_are_metered_exactly() {
    let lives = std::env::var("CABANA_TEST_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(LIVES);
    let seed = std::env::var("CABANA_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(2026);
    println!("CABANA_TEST_SEED={seed} CABANA_TEST_LIVES={lives}");
    let mut dice = Dice(seed);
    let database = TestDatabase::in_memory();
    let mut now = 1_700_000_000_000_000;
    let mut downs = Vec::new();
    let mut open: Vec<SandboxId> = Vec::new();
    let mut made: Vec<SandboxId> = Vec::new();
    let mut first = true;
    while made.len() < lives || !open.is_empty() {
        // One server's life. Dropping its runtime ends it wherever it is: also within a transaction.
        let runtime = tokio::runtime::Runtime::new().expect("runtime");
        let crash_after =
            if dice.roll(2) == 0 { None } else { Some(std::time::Duration::from_micros(dice.roll(30_000))) };
        let store = runtime.block_on(async {
            let store = if std::mem::take(&mut first) { database.populated().await } else { database.open().await };
            store.set_billing(BillingMode::Postpaid);
            store
        });
        if downs.is_empty() || dice.roll(6) == 0 {
            // The machine was down as well: it was last known to be up some time ago.
            runtime.block_on(async {
                store.alive(time(now)).await.expect("alive");
                let up = now + 1 + dice.micros(3 * HOUR);
                store.machine_died(time(up)).await.expect("closed");
                for sandbox in store.live_sandboxes().await.expect("sandboxes") {
                    if sandbox.state == State::Running {
                        store.apply(sandbox.id, Transition::Fail(EndCause::Lost), time(up)).await.expect("failed");
                    }
                }
                store.settle_all(time(up)).await.expect("settled");
                downs.push((now, up));
                now = up;
            });
        }
        for _ in 0..=dice.roll(4) {
            let mut new = Vec::new();
            while open.len() < AT_ONCE && made.len() < lives {
                let id = random_id(&mut dice);
                let row = Sandbox { id: id.clone(), created_at: time(now), since: time(now), ..sandbox(1) };
                let store = store.clone();
                new.push(runtime.spawn(async move { insert(&store, row).await }));
                open.push(id.clone());
                made.push(id);
            }
            runtime.block_on(async {
                for task in new {
                    task.await.expect("inserted");
                }
            });
            let tasks: Vec<_> = open
                .iter()
                .map(|id| runtime.spawn(live(store.clone(), id.clone(), dice.roll(u64::MAX), now)))
                .collect();
            if let Some(after) = crash_after.filter(|_| dice.roll(2) == 0) {
                runtime.block_on(async { tokio::time::sleep(after).await });
                now += 120_000_000;
                break;
            }
            runtime.block_on(async {
                for task in tasks {
                    task.await.expect("a change that the state allows").expect("written");
                }
            });
            // Later than everything that was written so far.
            now += 120_000_000 + dice.micros(HOUR / 2);
            let rated = store.clone();
            let (limit, until) = (100 + u32::try_from(dice.roll(1000)).expect("small"), time(now));
            let rating = runtime.spawn(async move {
                if limit % 5 == 0 {
                    let prices = vec![
                        price(UsageKind::Vcpu, i64::from(limit) * 777, until.as_microsecond()),
                        price(UsageKind::DiskMib, 3, until.as_microsecond()),
                    ];
                    rated.set_prices(prices, "test".into(), until).await?;
                }
                rated.write_measured(until).await?;
                while rated.rate(until, limit).await?.more {}
                Ok::<_, Error>(())
            });
            if let Some(after) = crash_after {
                runtime.block_on(async { tokio::time::sleep(after).await });
                break;
            }
            runtime.block_on(rating).expect("no panic").expect("rated");
        }
        runtime.shutdown_background();
        drop(store);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let mut connection =
                SqliteConnection::connect(&format!("sqlite:{}", database.path.display())).await.expect("open");
            let mut left = Vec::new();
            for id in open.drain(..) {
                let state: String = sqlx::query("select state from sandboxes where id = $1")
                    .bind(id.as_str())
                    .fetch_one(&mut connection)
                    .await
                    .expect("state")
                    .get(0);
                if state != "ended" {
                    left.push(id);
                }
            }
            open = left;
            let wrong = "select count(*) from intervals i join sandboxes s on s.id = i.subject
                where closed_at is null and kind in ('vcpu', 'memory_mib') and s.state <> 'running'";
            assert_eq!(scalar(&mut connection, wrong).await, 0, "intervals of sandboxes that do not run");
        });
    }
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    runtime.block_on(async {
        let store = database.open().await;
        store.set_billing(BillingMode::Postpaid);
        while store.rate(time(now), 1000).await.expect("rated").more {}
        check(&store, &database, &made, &downs, now).await;
    });
}

/// Compares the sums with each other, with the ledger, and with what the events say.
async fn check(store: &Store, database: &TestDatabase, made: &[SandboxId], downs: &[(i64, i64)], now: i64) {
    let mut connection = SqliteConnection::connect(&format!("sqlite:{}", database.path.display())).await.expect("open");
    assert_eq!(scalar(&mut connection, "select count(*) from intervals where closed_at is null").await, 0);
    assert_eq!(
        scalar(
            &mut connection,
            "select count(*) from intervals where closed_at <= opened_at or rated_until <> closed_at"
        )
        .await,
        0
    );
    let intervals = by_kind(
        &mut connection,
        "select kind, sum((closed_at - opened_at) * quantity / 1000000), sum((closed_at - opened_at) * quantity % 1000000)
            from intervals group by kind",
    )
    .await;
    for sql in [
        "select kind, sum(amount / 1000000), sum(amount % 1000000) from usage_hourly group by kind",
        "select kind, sum(amount / 1000000), sum(amount % 1000000) from usage_total group by kind",
    ] {
        assert_eq!(by_kind(&mut connection, sql).await, intervals);
    }
    let group = UsageGroup { kind: true, ..UsageGroup::default() };
    let query =
        UsageQuery { team: team().id, from: 0, until: i64::MAX, group, subject: None, projects: None, limit: 100 };
    let answered = store.usage(&query).await.expect("usage").into_iter().map(|row| (row.kind.to_string(), row.amount));
    assert_eq!(answered.collect::<BTreeMap<_, _>>(), intervals);
    assert!(
        ["vcpu", "memory_mib", "paused_memory_mib", "disk_mib", "cold_mib"].iter().all(|kind| intervals[*kind] > 0)
    );

    let mut vcpu = 0;
    for id in made {
        let events = store.events(&events_of(id, Order::Ascending, 200)).await.expect("events").into_iter();
        let events: Vec<_> = events.map(|event| (event.at.as_microsecond(), event.data, event.kind)).collect();
        assert!(events.len() < 200, "no event was forgotten");
        vcpu += expected_vcpu(&events, i64::from(sandbox(1).resources.cpu_count), downs, now);
    }
    assert_eq!(intervals["vcpu"], vcpu, "what the events say");

    let paid = scalar(&mut connection, "select sum(amount) from wallet_entries").await;
    assert!(paid < 0);
    assert_eq!(scalar(&mut connection, "select sum(micros) from usage_hourly").await, -paid);
    assert_eq!(scalar(&mut connection, "select sum(micros) from usage_total").await, -paid);
    assert_eq!(scalar(&mut connection, "select sum(balance) from wallets").await, paid);
    assert_eq!(
        scalar(&mut connection, "select (select sum(balance) from wallets) + (select sum(balance) from accounts)")
            .await,
        0
    );
    assert_eq!(store.wallet_balance(&team().id).await.expect("wallet"), Micros(paid));
}

#[tokio::test]
async fn a_clock_that_is_set_back_counts_nothing_twice() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let id = crate::sandbox_id(1);
    insert(&store, sandbox(1)).await;
    let second = |seconds: i64| at(seconds);
    store.started(id.clone(), second(100), second(9000)).await.expect("started");
    store.rate(second(200), 100).await.expect("rated");
    let pause = Transition::Pause { keep: Kept::Ram, why: PauseCause::Idle };
    // The clock was set back by an hour.
    store.apply(id.clone(), pause, second(-3500)).await.expect("pausing");
    store.apply(id.clone(), Transition::Paused, second(-3400)).await.expect("paused");
    store.apply(id.clone(), Transition::Resume, second(-3300)).await.expect("resuming");
    store.started(id.clone(), second(-3200), second(9000)).await.expect("started");
    store.rate(second(-3000), 100).await.expect("rated");
    store.end(id.clone(), EndCause::Expired, second(260)).await.expect("ending");
    store.rate(second(300), 100).await.expect("rated");
    let intervals = store.intervals(&team().id, id.as_str(), second(0), 100).await.expect("intervals");
    let mut vcpu: Vec<_> = intervals.iter().filter(|interval| interval.kind == UsageKind::Vcpu).collect();
    vcpu.reverse();
    let spans: Vec<_> = vcpu.iter().map(|i| (i.opened_at, i.closed_at.expect("closed"))).collect();
    assert_eq!(spans, [(second(100), second(200)), (second(200), second(260))]);
    let group = UsageGroup { kind: true, subject: true, ..UsageGroup::default() };
    let query =
        UsageQuery { team: team().id, from: 0, until: i64::MAX, group, subject: None, projects: None, limit: 100 };
    let rows = store.usage(&query).await.expect("usage");
    let cpus = i128::from(sandbox(1).resources.cpu_count);
    let row = rows.iter().find(|row| row.kind == UsageKind::Vcpu).expect("vcpu");
    assert_eq!(row.amount, 160 * 1_000_000 * cpus);
}
