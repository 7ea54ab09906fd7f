//! The honest client: a fixed schedule of small requests over RESP and HTTP.
//!
//! Latency counts from the scheduled start, not from the send: a server that stalls for a second delays all rounds of that second,
//! and all of them are in the histogram (no coordinated omission).

use super::server::{HONEST, Server};
use super::wire::{Http, Resp, line};
use crate::drill::Outcome;
use crate::soak::{Histogram, Latencies};
use mainstay::{Clock, SystemClock};
use std::thread;
use std::time::Duration;

/// The time between two rounds.
const ROUND_US: u64 = 10_000;
/// The number of cells that are written round-robin.
const CELLS: u64 = 500;

/// The client and the writes that the server has acknowledged.
pub(super) struct Honest {
    resp: Resp,
    http: Http,
    clock: SystemClock,
    histogram: Histogram,
    /// Every round up to this one was acknowledged; round n wrote n.
    rounds: u64,
}

impl Honest {
    pub fn connect(server: &Server) -> Outcome<Honest> {
        Ok(Honest {
            resp: Resp::login(server.resp, HONEST.name, HONEST.password)?,
            http: Http::connect(server.http, HONEST.name, HONEST.password)?,
            clock: SystemClock::new(),
            histogram: Histogram::new(),
            rounds: 0,
        })
    }

    /// Runs rounds for this many seconds. Any error or wrong answer ends the run, because the honest
    /// client must not notice the others.
    pub fn run(&mut self, seconds: u64) -> Outcome<Latencies> {
        let start_us = self.clock.monotonic_us();
        for round in 0..seconds * 1_000_000 / ROUND_US {
            let scheduled_us = start_us + round * ROUND_US;
            let ahead_us = scheduled_us.saturating_sub(self.clock.monotonic_us());
            thread::sleep(Duration::from_micros(ahead_us));
            self.round(scheduled_us)?;
        }
        Ok(self.histogram.take())
    }

    /// A durable write, a read of it over RESP, and a read over HTTP.
    fn round(&mut self, scheduled_us: u64) -> Outcome<()> {
        let number = self.rounds + 1;
        let cell = cell(number);
        let answer = self.resp.call(&line(&format!("SET {cell} {number}")))?;
        expect("SET", &answer, "+OK")?;
        self.rounds = number;
        self.done(scheduled_us);
        let answer = self.resp.call(&line(&format!("GET {cell}")))?;
        expect("GET", &answer, &number.to_string())?;
        self.done(scheduled_us);
        let answer = self.http.call("GET", &format!("/v1/cells/{cell}"), b"")?;
        if !answer.contains(&format!("\"value\":\"{number}\"")) {
            return Err(format!("HTTP GET of {cell}: {answer}, {number} was written"));
        }
        self.done(scheduled_us);
        Ok(())
    }

    fn done(&self, scheduled_us: u64) {
        self.histogram.add(self.clock.monotonic_us().saturating_sub(scheduled_us));
    }

    /// Reads every cell after a restart. Returns the number of acknowledged writes.
    pub fn verify(&mut self, server: &Server) -> Outcome<u64> {
        let mut resp = Resp::login(server.resp, HONEST.name, HONEST.password)?;
        for number in (1..=self.rounds).rev().take(CELLS as usize) {
            let answer = resp.call(&line(&format!("GET {}", cell(number))))?;
            expect("after kill -9: GET", &answer, &number.to_string())?;
        }
        Ok(self.rounds)
    }
}

fn cell(number: u64) -> String {
    format!("honest:{}", number % CELLS)
}

fn expect(command: &str, answer: &str, expected: &str) -> Outcome<()> {
    if answer == expected {
        Ok(())
    } else {
        Err(format!("{command} answered {answer} instead of {expected}"))
    }
}
