//! Runs the real `redis-benchmark` for about one slice. It accepts a number of requests and not a duration,
//! so its previous rate determines the number.

use super::process::{PATIENCE, end_within};
use super::wire::Operation;
use crate::context::Outcome;
use crate::harness::Slice;
use crate::workload::VALUE_BYTES;
use mainstay_server::histogram::Histogram;
use std::io::Read;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Assumed rate of a server before its first run, per second and pipelined request.
const FIRST_GUESS: f64 = 10_000.0;
/// Minimum number of bursts per connection: fewer would measure connecting.
const FEWEST_BURSTS: u64 = 16;

/// Parameters of `redis-benchmark`.
pub struct RedisBenchmark {
    /// Address of the server.
    pub address: SocketAddr,
    /// The operation.
    pub operation: Operation,
    /// Number of connections.
    pub connections: u64,
    /// Number of pipelined requests per connection.
    pub depth: u64,
    /// Exclusive upper bound of the keys.
    pub keys: usize,
}

impl RedisBenchmark {
    /// Returns a function that runs it for a slice.
    pub fn side(self) -> impl FnMut(Duration) -> Outcome<Slice> {
        let mut rate = FIRST_GUESS * self.depth as f64;
        move |slice| {
            let operations = requests(rate, slice, self.connections * self.depth);
            rate = self.run(operations)?;
            let seconds = operations as f64 / rate;
            Ok(Slice { operations, seconds, latency: Histogram::new() })
        }
    }

    /// Runs it once. Returns operations per second.
    fn run(&self, requests: u64) -> Outcome<f64> {
        let child = self.command(requests).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| {
            format!("redis-benchmark cannot be started: {error}; it comes with Redis's tools")
        })?;
        let status = end_within(&mut child, PATIENCE)
            .map_err(|error| format!("redis-benchmark: {error}; is the server still there?"))?;
        let (said, complained) = said(&mut child)?;
        match parse(&said, self.operation.name()) {
            Some(rate) if status.success() => Ok(rate),
            _ => Err(format!("redis-benchmark: {status}, it said `{said}{complained}`").into()),
        }
    }

    fn command(&self, requests: u64) -> Command {
        let mut command = Command::new("redis-benchmark");
        let mut flag = |name: &str, value: String| {
            command.args([name, &value]);
        };
        flag("-h", self.address.ip().to_string());
        flag("-p", self.address.port().to_string());
        flag("-c", self.connections.to_string());
        flag("-P", self.depth.to_string());
        flag("-n", requests.to_string());
        flag("-r", self.keys.to_string());
        flag("-d", VALUE_BYTES.to_string());
        flag("-t", self.operation.name().to_lowercase());
        command.args(["-q", "--csv"]);
        command
    }
}

/// Both outputs of a child that has ended. They are a few lines, so the pipe buffers held them.
fn said(child: &mut Child) -> Outcome<(String, String)> {
    let mut output = String::new();
    let mut errors = String::new();
    child.stdout.take().ok_or("redis-benchmark has no output")?.read_to_string(&mut output)?;
    child.stderr.take().ok_or("redis-benchmark has no errors")?.read_to_string(&mut errors)?;
    Ok((output, errors))
}

/// The number of requests that fill the slice at this rate: whole bursts of all connections.
fn requests(rate: f64, slice: Duration, in_flight: u64) -> u64 {
    let wanted = (rate * slice.as_secs_f64()) as u64;
    wanted.div_ceil(in_flight).max(FEWEST_BURSTS) * in_flight
}

/// Parses the operations per second of a test from lines like `"SET","12345.67",…`.
fn parse(said: &str, test: &str) -> Option<f64> {
    let rate = |line: &str| {
        let mut fields = line.split(',').map(|field| field.trim().trim_matches('"'));
        (fields.next()? == test).then(|| fields.next()?.parse::<f64>().ok()).flatten()
    };
    said.lines().find_map(rate).filter(|rate| rate.is_finite() && *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\"\n\
                        \"SET\",\"158730.16\",\"0.322\",\"0.064\"\n\"GET\",\"2.50\",\"1\",\"1\"\n";

    #[test]
    fn the_rate_is_read_by_the_tests_name() {
        assert_eq!(parse(SAID, "SET"), Some(158_730.16));
        assert_eq!(parse(SAID, "GET"), Some(2.5));
        assert_eq!(parse(SAID, "INCR"), None);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for said in ["", "\"SET\"", "\"SET\",\"fast\"", "\"SET\",\"inf\"", "\"SET\",\"0.00\""] {
            assert_eq!(parse(said, "SET"), None, "{said}");
        }
    }

    #[test]
    fn a_slice_is_whole_bursts_and_never_too_few() {
        let slice = Duration::from_millis(500);
        assert_eq!(requests(100_000.0, slice, 64), 50_048);
        assert_eq!(requests(128_000.0, slice, 64), 64_000);
        assert_eq!(requests(1.0, slice, 1_024), 16_384);
    }

    #[test]
    fn it_is_run_as_it_was_agreed() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7379));
        let operation = Operation::Set;
        let tool = RedisBenchmark { address, operation, connections: 64, depth: 16, keys: 1000 };
        let command = tool.command(4096);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let expected = "-h 127.0.0.1 -p 7379 -c 64 -P 16 -n 4096 -r 1000 -d 100 -t set -q --csv";
        assert_eq!(words.join(" "), expected);
    }
}
