//! Timing of attempts, with a clock under the test's control.

use super::*;
use mainstay::{Answering, Code, Error};
use mainstay_sessions::simulation::{InlineTransport, SimulatedRuntime, Simulation};
use mainstay_sessions::{Client, MessageWaker, Runtime, Transport};
use parking_lot::Mutex;

/// A transport that records the times of requests, and does not answer, or refuses.
struct Diary {
    inner: InlineTransport,
    time: SimulatedRuntime,
    asked_us: Mutex<Vec<u64>>,
    answers: bool,
}

impl Transport for Diary {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            if transaction.session().is_none() {
                return self.inner.execute(transaction).await;
            }
            self.asked_us.lock().push(self.time.now_us());
            if self.answers {
                Err(Error::new(Code::QueueFull, "not now"))
            } else {
                std::future::pending().await
            }
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        self.inner.watch(session)
    }
}

/// The times between attempts.
fn times(answers: bool, settings: Settings) -> (Vec<u64>, Error) {
    let simulation = Simulation::new();
    let runtime = || SimulatedRuntime(simulation.clone());
    let inner = InlineTransport::new(&simulation.database().unwrap());
    let time = runtime();
    let diary = Arc::new(Diary { inner, time, asked_us: Mutex::default(), answers });
    let client = Client::on(diary.clone(), settings, Arc::new(runtime())).unwrap();
    let session = simulation.run(client.open_async(named("s"))).unwrap();
    let error = simulation.run(session.execute(add("n", 1))).unwrap_err();
    let asked_us = diary.asked_us.lock();
    (asked_us.windows(2).map(|two| two[1] - two[0]).collect(), error)
}

#[test]
fn attempts_that_are_refused_come_less_and_less_often_until_the_time_is_over() {
    let settings = Settings {
        deadline: Some(secs(10)),
        first_pause: ms(100),
        longest_pause: ms(800),
        seed: Some(7),
        ..Settings::default()
    };
    let (times, error) = times(true, settings);
    assert_eq!(error.code(), Code::QueueFull, "it was never executed");
    for (time, whole) in times.iter().zip([100, 200, 400, 800, 800, 800]) {
        assert!((whole * 500..=whole * 1_000).contains(time), "{time} us of {whole} ms");
    }
    assert!(times.iter().sum::<u64>() <= 10_000_000 && times.len() >= 12, "{times:?}");
}

#[test]
fn an_attempt_without_an_answer_is_followed_by_another() {
    let settings = Settings {
        deadline: Some(secs(20)),
        attempt: secs(3),
        first_pause: ms(1),
        longest_pause: ms(1),
        ..Settings::default()
    };
    let (times, error) = times(false, settings);
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert_eq!(times.len(), 6);
    assert!(times.iter().all(|time| (3_000_000..=3_001_000).contains(time)), "{times:?}");
}
