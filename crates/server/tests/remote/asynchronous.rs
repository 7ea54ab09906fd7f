//! The async handles, under a runtime.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::remote::{self, AsyncDatabase, AsyncInteractive};
use mainstay::{At, CellCommand, Code, Filter, MergeStrategy, Name, Transaction, Ttl};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(server: &Ours) -> AsyncDatabase {
    remote::connect_async(&server.address.to_string()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_futures_at_once() {
    let server = Ours::start();
    let db = connect(&server).await;
    let tasks: Vec<_> = (0..1000_i64)
        .map(|id| {
            let cells = db.cells();
            tokio::spawn(async move {
                let own = format!("own/{id}");
                assert_eq!(cells.set(&own, id).await?, 1);
                assert_eq!(cells.get(&own).await?, Some(id.into()));
                cells.incr("all", 1).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(db.cells().get("all").await.unwrap(), Some(1000.into()));
}

#[tokio::test]
async fn one_thread_is_enough() {
    let server = Ours::start();
    let db = connect(&server).await;
    let cells = db.cells();
    assert_eq!(cells.init("a", 1).await.unwrap(), 1);
    assert_eq!(cells.cas("a", Some(1), 2).await.unwrap(), Some(2));
    assert_eq!(cells.cas("a", Some(1), 3).await.unwrap(), None);
    assert!(cells.expire("a", Ttl::Millis(100_000)).await.unwrap());
    assert_eq!(cells.history("a", 10, None).await.unwrap().len(), 3);
    assert_eq!(cells.list("", None, 10).await.unwrap().names, ["a"]);
    assert!(cells.delete("a").await.unwrap());
    let then = cells.at(At::Revision(2)).await.unwrap();
    assert_eq!(then.get("a").await.unwrap(), Some(2.into()));

    db.fork("dev", "main", At::Revision(1)).await.unwrap();
    let dev = db.branch("dev").await.unwrap();
    dev.cells().set("b", 1).await.unwrap();
    assert_eq!(db.diff("dev", "main").await.unwrap().len(), 2);
    db.merge("dev", "main", MergeStrategy::Theirs).await.unwrap();
    assert_eq!(cells.get("b").await.unwrap(), Some(1.into()));
    assert_eq!(db.branches().await.unwrap().len(), 2);
    db.tag("t", "main", At::Latest).await.unwrap();
    assert_eq!(db.tags().await.unwrap()[0].name, "t");
    assert!(db.stats().await.unwrap().revision >= db.revision().await.unwrap() - 1);
    assert!(db.sync().await.unwrap() > 0);
    assert_eq!(db.branch("none").await.map(drop).unwrap_err().code(), Code::BranchNotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_lose_no_update() {
    let server = Ours::start();
    let db = connect(&server).await;
    let add = async |t: &mut AsyncInteractive| {
        let n = t.get("n").await?.and_then(|n| n.as_i64()).unwrap_or(0);
        t.set("n", n + 1).await
    };
    let all = (0..8).map(|_| async {
        for _ in 0..5 {
            db.transaction(add).await.unwrap();
        }
    });
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert_eq!(db.cells().get("n").await.unwrap(), Some(40.into()));
}

#[tokio::test]
async fn a_future_that_is_dropped_loses_its_answer_and_nothing_else() {
    let server = Ours::start();
    let db = connect(&server).await;
    let cells = db.cells();
    for n in 0..100 {
        let mut set = pin!(cells.set("dropped", n));
        let _ = set.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(cells.set("a", 1).await.unwrap(), 1, "its own answer");
    assert_eq!(cells.get("dropped").await.unwrap(), Some(99.into()), "what was sent is done");

    let mut t = db.begin().await.unwrap();
    {
        let mut get = pin!(t.get("a"));
        let _ = get.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(t.get("dropped").await.unwrap(), Some(99.into()), "not the answer of the other");
    drop(t);
}

#[tokio::test]
async fn a_feed_is_followed_and_a_dropped_wait_misses_nothing() {
    let server = Ours::start();
    let db = connect(&server).await;
    let mut feed = db.watch(Filter::default(), db.revision().await.unwrap()).await.unwrap();
    let short = tokio::time::timeout(Duration::from_millis(30), feed.next(PATIENCE)).await;
    assert!(short.is_err(), "nothing has happened yet");
    for n in 0..10 {
        db.cells().set("k", n).await.unwrap();
    }
    for n in 0..10 {
        let event = feed.next(PATIENCE).await.unwrap().expect("the change");
        assert_eq!(event.value, Some(n.into()));
    }
    assert_eq!(feed.next(Duration::ZERO).await.unwrap(), None);
}

#[tokio::test]
async fn broken_connections_are_made_anew() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect_async().await.unwrap();
    db.cells().set("a", 1).await.unwrap();
    for _ in 0..5 {
        proxy.cut();
        assert_eq!(db.cells().get("a").await.unwrap(), Some(1.into()));
    }
    db.close();
    assert_eq!(db.cells().get("a").await.unwrap_err().code(), Code::Closed);
}

#[tokio::test]
async fn tickets_can_be_awaited_here_and_there() {
    let server = Ours::start();
    let there = remote::connect(&server.address.to_string()).unwrap();
    let name = Name::new("a").unwrap();
    for db in [mainstay::Database::memory().unwrap(), there] {
        let set = |n: i64| Transaction::new().step(CellCommand::set(name.clone(), n));
        let tickets: Vec<_> = (0..100).map(|n| db.submit(set(n))).collect();
        for (n, ticket) in tickets.into_iter().enumerate() {
            assert_eq!(ticket.await.unwrap().revision, n as u64 + 1);
        }
    }
}
