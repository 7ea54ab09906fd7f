//! Bodies of the server's fuzz targets: arbitrary bytes for the parsers of client requests and of
//! configuration files. No parser may panic, and the result must not depend on how the bytes are split into
//! reads.

mod commands;
#[cfg(test)]
#[path = "../../../fuzz/feeding.rs"]
mod feeding;
mod requests_of_http;
mod settings;

pub use commands::commands;
pub use requests_of_http::http;
pub use settings::settings;

use crate::http::read_transaction;
use crate::outbox;
use crate::resp::request::{Limits, Parsed, Parser};
use crate::resp::table::{self, Handler};

/// Longer inputs are not fed byte by byte.
const PIECES_LIMIT_BYTES: usize = 2048;
const LIMITS: Limits = Limits { words: 64, word_bytes: 512, request_bytes: 1024, line_bytes: 512 };

/// Parses RESP requests, in one piece and byte by byte, and compares the results. Data commands must become
/// plans or be refused.
pub fn requests(bytes: &[u8]) {
    let whole = read(bytes, bytes.len());
    if bytes.len() <= PIECES_LIMIT_BYTES {
        assert_eq!(read(bytes, 0), whole, "byte by byte");
    }
    for words in whole.iter().flatten() {
        plan(words);
    }
}

/// Parses words as a command. Returns whether the command exists and has a valid plan.
fn plan(words: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match table::find(&words) {
        Ok((_, spec)) => {
            matches!(spec.handler, Handler::Plan(read) | Handler::OwnTransaction(read) if read(&words).is_ok())
        }
        Err(_) => false,
    }
}

/// Parses all requests. The parser sees the first `there` bytes at first, and one more byte whenever a
/// request is incomplete.
fn read(bytes: &[u8], mut there: usize) -> Vec<Result<Vec<Vec<u8>>, String>> {
    let mut parser = Parser::default();
    let mut start = 0;
    let mut found = Vec::new();
    loop {
        let taken = match parser.next(&bytes[start..there], &LIMITS) {
            Ok(Parsed::Request(words, taken)) => {
                found.push(Ok(words.into_iter().map(<[u8]>::to_vec).collect()));
                taken
            }
            Ok(Parsed::Line(words, taken)) => {
                found.push(Ok(words));
                taken
            }
            Ok(Parsed::Unfinished) => continue,
            Ok(Parsed::Incomplete) if there == bytes.len() => return found,
            Ok(Parsed::Incomplete) => {
                there += 1;
                continue;
            }
            Err(error) => {
                found.push(Err(error.to_string()));
                return found;
            }
        };
        assert!(taken > 0 && start + taken <= there, "no more than there was");
        start += taken;
    }
}

/// Parses a transaction from JSON, twice; both results must be equal.
pub fn transaction(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let sent = outbox::Settings::default();
    let Ok(transaction) = read_transaction(text, &sent) else { return };
    let again = read_transaction(text, &sent).expect("what was read is read again");
    assert_eq!(format!("{transaction:?}"), format!("{again:?}"));
}

#[cfg(test)]
mod tests {
    use super::feeding::{changes, check_targets, feed};
    use super::requests_of_http::{answered, fresh};
    use super::*;
    use proptest::prelude::*;

    type Body = fn(&[u8]);

    const TARGETS: [(&str, Body); 5] = [
        ("commands", commands),
        ("http", http),
        ("requests", requests),
        ("settings", settings),
        ("transaction", transaction),
    ];

    #[test]
    fn all_seeds_are_taken_without_a_panic() {
        check_targets("mainstay_server::fuzz", &TARGETS.map(|(name, _)| name));
        for (name, body) in &TARGETS {
            feed(name, body);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// A short fuzzing run with each run of the tests.
        #[test]
        fn changed_seeds_are_taken_without_a_panic(change in changes()) {
            for (name, body) in TARGETS {
                feed(name, |bytes| body(&change.of(bytes)));
            }
        }
    }

    /// Every planned command on records, hashes, runs, the outbox and sessions is among the seeds, in a valid
    /// form.
    #[test]
    fn the_seeds_of_requests_have_all_commands_on_records_runs_and_sessions() {
        let mut taken = std::collections::BTreeSet::new();
        feed("requests", |bytes| {
            let requests = read(bytes, bytes.len()).into_iter().flatten();
            let plans = requests.filter(|words| plan(words));
            taken.extend(plans.map(|words| String::from_utf8_lossy(&words[0]).to_lowercase()));
        });
        use table::Group::{Hashes, Outbox, Records, Runs, Sessions};
        let kinds = [Records, Hashes, Runs, Outbox, Sessions];
        let on_records = table::all().filter(|spec| kinds.contains(&spec.group));
        for spec in on_records
            .filter(|spec| matches!(spec.handler, Handler::Plan(_) | Handler::OwnTransaction(_)))
        {
            assert!(taken.contains(spec.name), "{} of {taken:?}", spec.name);
        }
    }

    /// A seed that is refused at once gives a fuzzer nothing to explore.
    #[test]
    fn the_seeds_of_commands_and_http_are_done() {
        let mut refused = Vec::new();
        feed("commands", |bytes| refused.extend(commands::done(bytes)));
        feed("http", |bytes| refused.extend(answered(&fresh(), bytes)));
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// Every transaction seed is accepted by the parser.
    #[test]
    fn the_seeds_of_transactions_are_transactions() {
        feed("transaction", |bytes| {
            let text = std::str::from_utf8(bytes).unwrap();
            let sent = outbox::Settings::default();
            assert!(read_transaction(text, &sent).is_ok(), "{text}");
        });
    }
}
