//! Async sessions on a foreign runtime.

use super::*;
use mainstay::Code;
use mainstay_sessions::{AsyncSession, Client, Faults, Faulty, Local};
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::{AtomicI64, Ordering};

async fn open(db: &Database, faults: Faults) -> (Arc<Faulty>, AsyncSession) {
    let transport = Faulty::new(Local::new(db).unwrap(), faults);
    let client = Client::with(transport.clone(), quick()).unwrap();
    (transport.clone(), client.open_async(named("s")).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_a_session_and_each_request_is_executed_once() {
    let db = Database::memory().unwrap();
    let (transport, session) = open(&db, Faults::many(21)).await;
    let tasks: Vec<_> = (0..200)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { sum(&session.execute(add("n", 1)).await) })
        })
        .collect();
    let mut sums = Vec::new();
    for task in tasks {
        sums.push(task.await.unwrap());
    }
    sums.sort_unstable();
    assert_eq!(sums, (1..=200).collect::<Vec<_>>(), "each got its own answer");
    transport.deliver_delayed().await;
    assert_eq!(value(&db, "n"), 200);
}

#[tokio::test]
async fn a_future_that_is_dropped_gives_its_request_up() {
    let db = Database::memory().unwrap();
    let (transport, session) = open(&db, Faults::default()).await;
    transport.set(Faults { lose_answer: 1.0, silence: 1.0, ..Faults::default() });
    let given_up = tokio::time::timeout(ms(20), session.execute(add("n", 1))).await;
    assert!(given_up.is_err());
    assert_eq!((session.unanswered(), session.stats().given_up), (vec![], 1));
    transport.set(Faults::default());
    assert_eq!(sum(&session.execute(add("m", 1)).await), 1, "its number is not used again");
    assert_eq!(value(&db, "n"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_are_handled_by_a_task() {
    let db = Database::memory().unwrap();
    let (_, session) = open(&db, Faults::many(22)).await;
    let own = session.clone();
    let total = Arc::new(AtomicI64::new(0));
    let seen = total.clone();
    let listening = tokio::spawn(async move {
        let handle = |message: mainstay_sessions::ServerMessage| {
            let seen = seen.clone();
            let own = own.clone();
            async move {
                tokio::task::yield_now().await;
                if seen.load(Ordering::SeqCst) % 3 == 1 {
                    // Requests of the handler in its own session are also executed once.
                    own.execute(add("handled", 1)).await?;
                }
                let before = seen.fetch_add(1, Ordering::SeqCst);
                assert_eq!(message.number, before as u64 + 1);
                Ok(())
            }
        };
        own.listen(handle).await
    });
    for _ in 0..50 {
        db.sessions().send("s", "x").unwrap();
    }
    while total.load(Ordering::SeqCst) < 50 {
        tokio::time::sleep(ms(1)).await;
    }
    session.close().await.unwrap();
    listening.await.unwrap().unwrap();
    assert_eq!(value(&db, "handled"), 17);
}

#[tokio::test]
async fn both_faces_are_one_session() {
    let db = Database::memory().unwrap();
    let (_, session) = open(&db, Faults::default()).await;
    session.execute(add("n", 1)).await.unwrap();
    let blocking = session.to_blocking();
    assert_eq!(sum(&blocking.execute(add("n", 1))), 2);
    let request = blocking.to_async().request(add("n", 1)).await.unwrap();
    assert_eq!((request.number(), sum(&request.answer().await)), (3, 3));
    assert_eq!(request.answer().await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(session.stats().answered, 3);
}
