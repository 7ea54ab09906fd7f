//! Executes RESP commands: their handlers parse the arguments, and the Rust client decodes the replies.

use super::read;
use crate::resp::reply::Protocol;
use crate::resp::{ConnectionState, Reply, Settings, Shared};
use mainstay::{Options, remote};

/// Commands that may block until data changes, which never happens here.
const WAITING: [&str; 3] = ["feed.watch", "wire.ask", "wire.feed"];
/// More requests would only take longer.
const REQUESTS_LIMIT: usize = 64;

/// Executes all requests in order on an in-memory database. Each must be answered, and the answer must be a
/// valid reply in both protocol versions.
pub fn commands(bytes: &[u8]) {
    done(bytes);
}

/// Executes all requests. Returns the refused commands with their errors.
pub(super) fn done(bytes: &[u8]) -> Vec<String> {
    let mut refused = Vec::new();
    let db = Options::new().background(false).memory().expect("a database in memory");
    let mut session =
        ConnectionState::new(&Shared::new(db, Settings::default()), "here".to_owned());
    for words in read(bytes, bytes.len()).into_iter().flatten().take(REQUESTS_LIMIT) {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        if waits(&words) {
            continue;
        }
        let reply = session.answer_blocking(&words);
        check(&reply);
        if let Reply::Error(why) = reply {
            let name = words.first().copied().unwrap_or_default();
            refused.push(format!("{}: {why}", String::from_utf8_lossy(name)));
        }
    }
    refused
}

fn waits(words: &[&[u8]]) -> bool {
    let named =
        |word: &&[u8]| WAITING.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    words.iter().any(|word| named(word) || word.eq_ignore_ascii_case(b"wait"))
}

fn check(reply: &Reply) {
    for protocol in [Protocol::Two, Protocol::Three] {
        let mut bytes = Vec::new();
        reply.write(protocol, &mut bytes);
        let mut rest = &bytes[..];
        let read = remote::decode(&mut rest).expect("what a server writes a client reads");
        assert!(rest.is_empty(), "a reply is all there is, {read:?} is not");
        assert_eq!(matches!(read, remote::Reply::Error(_)), reply.is_error());
    }
}
