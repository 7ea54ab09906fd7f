//! Request headers: preconditions on a counter, idempotency keys and session request numbers.

use super::refusal::{Answered, Refusal};
use axum::http::{HeaderMap, HeaderName, header};
use mainstay::{CellCommand, Guard, Name, RequestId, SessionRequest, Step, Transaction};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Names the session that a request belongs to.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mainstay-session");
/// The lowest request number of the session whose answer the client has not received.
const LOWEST: HeaderName = HeaderName::from_static("mainstay-lowest");

/// The precondition of a write to a cell or a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    /// `If-Match: "n"`
    Counter(u64),
    /// `If-None-Match: *`
    Absent,
}

impl Condition {
    pub fn of(headers: &HeaderMap) -> Answered<Condition> {
        match (text(headers, &header::IF_MATCH)?, text(headers, &header::IF_NONE_MATCH)?) {
            (None, None) => Ok(Condition::Always),
            (Some(tag), None) => counter(tag).map(Condition::Counter).ok_or_else(|| {
                Refusal::invalid(format!("If-Match takes one counter, as in \"7\", not {tag}"))
            }),
            (None, Some("*")) => Ok(Condition::Absent),
            (None, Some(other)) => {
                Err(Refusal::invalid(format!("If-None-Match takes * on a write, not {other}")))
            }
            _ => Err(Refusal::invalid("give If-Match or If-None-Match, not both")),
        }
    }

    /// Converts to the condition that commands on records have themselves.
    pub fn of_record(self) -> Option<mainstay::Condition> {
        match self {
            Condition::Always => None,
            Condition::Counter(counter) => Some(mainstay::Condition::Counter { is: Some(counter) }),
            Condition::Absent => Some(mainstay::Condition::Counter { is: None }),
        }
    }

    /// Guards a transaction with this condition. If the condition fails, the transaction only reads the cell.
    pub fn onto(self, transaction: Transaction, name: &Name) -> Transaction {
        let is = match self {
            Condition::Always => return transaction,
            Condition::Counter(counter) => Some(counter),
            Condition::Absent => None,
        };
        let look = Step::from(CellCommand::Get { name: name.clone() });
        transaction.guard(Guard::Counter { name: name.clone(), is }).otherwise(vec![look])
    }
}

/// Returns whether `If-None-Match` contains the current counter.
pub(crate) fn is_known(headers: &HeaderMap, counter_now: u64) -> bool {
    let tags = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    tags.is_some_and(|tags| tags.split(',').any(|tag| counter(tag) == Some(counter_now)))
}

/// Attaches the request's identity: the session and request number, or the `Idempotency-Key`.
pub(crate) fn identified(headers: &HeaderMap, transaction: Transaction) -> Answered<Transaction> {
    match (session_request(headers)?, headers.get(IDEMPOTENCY_KEY)) {
        (Some(request), _) => Ok(transaction.in_session(request)),
        (None, Some(key)) => Ok(transaction.request(RequestId::new(key.as_bytes())?)),
        (None, None) => Ok(transaction),
    }
}

fn session_request(headers: &HeaderMap) -> Answered<Option<SessionRequest>> {
    let lowest = number(headers, &LOWEST)?;
    let Some(session) = text(headers, &SESSION)? else {
        return match lowest {
            None => Ok(None),
            Some(_) => Err(Refusal::invalid("Mainstay-Lowest stands beside Mainstay-Session")),
        };
    };
    let Some(request_id) = number(headers, &IDEMPOTENCY_KEY)? else {
        let message = "Mainstay-Session wants an Idempotency-Key, the number of the request in it";
        return Err(Refusal::invalid(message));
    };
    // Without `Mainstay-Lowest`, 0 acknowledges no answers.
    let request = SessionRequest::new(Name::new(session)?, request_id, lowest.unwrap_or(0));
    request.check()?;
    Ok(Some(request))
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Answered<Option<u64>> {
    let read = |text: &str| {
        let digits = text.bytes().all(|digit| digit.is_ascii_digit());
        let number = digits.then(|| text.parse().ok()).flatten();
        number.ok_or_else(|| Refusal::invalid(format!("{name} takes a whole number, not {text:?}")))
    };
    text(headers, name)?.map(read).transpose()
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Answered<Option<&'a str>> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(_), Some(_)) => Err(Refusal::invalid(format!("{name} was given twice"))),
        (Some(value), None) => match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(Refusal::invalid(format!("{name} holds what is not text"))),
        },
        (None, _) => Ok(None),
    }
}

/// Parses the counter in an entity tag.
fn counter(tag: &str) -> Option<u64> {
    let digits = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quoted_number_is_a_counter() {
        assert_eq!(counter("\"7\""), Some(7));
        assert_eq!(counter(" \"18446744073709551615\" "), Some(u64::MAX));
        for bad in ["7", "W/\"7\"", "\"\"", "\"+7\"", "\"-7\"", "\"7", "*", "\"1\", \"2\""] {
            assert_eq!(counter(bad), None, "{bad}");
        }
    }
}
