//! Build logs and the cache index: limits, pages, order.

use cabana_store::{BuildLine, BuildLogQuery, CacheKey, CacheKind, Error, LogLevel, Order, build_log};
use cabana_types::BuildId;

use crate::{TestDatabase, at, build};

fn line(n: i64, level: LogLevel) -> BuildLine {
    BuildLine { at: at(n), level, step: Some("1".into()), message: format!("line {n}") }
}

fn id() -> BuildId {
    build(1).id
}

#[tokio::test]
async fn build_logs_are_paged() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let levels = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Info];
    let lines: Vec<BuildLine> = (0..).zip(levels).map(|(n, level)| line(n, level)).collect();
    store.append_build_log(id(), lines[..2].to_vec()).await.expect("append");
    store.append_build_log(id(), lines[2..].to_vec()).await.expect("append");
    store.append_build_log(id(), vec![]).await.expect("nothing");
    let mut read = vec![];
    loop {
        let offset = u32::try_from(read.len()).expect("few");
        let page = store.build_log(&id(), offset, 2, LogLevel::Debug).await.expect("read");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, lines);
    let from_info = store.build_log(&id(), 1, 9, LogLevel::Info).await.expect("read");
    assert_eq!(from_info, lines[2..], "the offset counts what the level leaves");

    let around = |from: Option<i64>, until: Option<i64>, order, limit| BuildLogQuery {
        build: id(),
        from: from.map(at),
        until: until.map(at),
        order,
        level: LogLevel::Info,
        limit,
    };
    let later = store.build_log_around(&around(Some(2), None, Order::Ascending, 2)).await.expect("read");
    assert_eq!(later, lines[2..4]);
    let earlier = store.build_log_around(&around(None, Some(3), Order::Descending, 9)).await.expect("read");
    assert_eq!(earlier, [lines[3].clone(), lines[2].clone(), lines[1].clone()]);
    let unknown = store.append_build_log(BuildId::from_random([9; 16]), lines).await.expect_err("no such build");
    assert!(matches!(unknown, Error::Query { .. }), "{unknown:?}");
}

#[tokio::test]
async fn build_logs_are_bounded() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let long = "ä".repeat(build_log::MAX_LINE_BYTES);
    let first = BuildLine { message: long.clone(), step: Some(long), ..line(0, LogLevel::Info) };
    store.append_build_log(id(), vec![first]).await.expect("append");
    let kept = store.build_log(&id(), 0, 1, LogLevel::Debug).await.expect("read").remove(0);
    assert_eq!(kept.message.len(), build_log::MAX_LINE_BYTES);
    assert!(kept.step.expect("step").len() <= 64);
    for _ in 0..4 {
        let lines = (0..3000).map(|n| line(n, LogLevel::Info)).collect();
        store.append_build_log(id(), lines).await.expect("append");
    }
    let end = store.build_log(&id(), build_log::MAX_LINES - 1, 100, LogLevel::Debug).await.expect("read");
    assert_eq!(end.len(), 2, "the last line and a note about truncation");
    assert!(end[0].message.starts_with("line ") && end[1].message.contains("left out"), "{end:?}");
    assert_eq!(end[1].level, LogLevel::Warn);
}

#[tokio::test]
async fn cache_entries_are_ordered_by_last_use() {
    let database = TestDatabase::new();
    let store = database.open().await;
    let layers = |keys: &[&str]| keys.iter().map(|key| CacheKey::new(CacheKind::Layer, *key)).collect::<Vec<_>>();
    store.touch_cache(layers(&["a", "b"]), at(1)).await.expect("touch");
    store.touch_cache(layers(&["c", "a"]), at(2)).await.expect("touch");
    store.touch_cache(layers(&["c"]), at(0)).await.expect("a clock that jumps back changes nothing");
    let by_use = store.cache_by_use(CacheKind::Layer).await.expect("list");
    assert_eq!(by_use, [("b".to_owned(), at(1)), ("a".to_owned(), at(2)), ("c".to_owned(), at(2))]);
    store.delete_cache_entries(layers(&["b", "x"])).await.expect("forget");
    assert_eq!(store.cache_by_use(CacheKind::Layer).await.expect("list").len(), 2);

    let image = CacheKey::new(CacheKind::Image, "a");
    assert!(!store.is_cached(&image).await.expect("look"), "kinds are separate");
    store.touch_cache(vec![image.clone()], at(3)).await.expect("touch");
    assert!(store.is_cached(&image).await.expect("look"));
    assert_eq!(store.cache_by_use(CacheKind::Image).await.expect("list"), [("a".to_owned(), at(3))]);
    store.delete_cache_entries(layers(&["a"])).await.expect("forget");
    assert!(store.is_cached(&image).await.expect("look"));
}
