//! Storage format of a response: the answers of a transaction, or its error.
//!
//! ```text
//!   0 | wire frame: any response
//!   1 | held u8 | count | answers        only numbers: compact, and fast to decode
//! ```
//!
//! Most answers are numbers, and a retry should cost about as much as reading a cell.

use super::bytes::damaged;
use mainstay_model::wire::fields;
use mainstay_model::{Answer, Error, Receipt, Result, SmallVec, Value, codec, wire};
use serde::{Deserialize, Serialize};

const ANYTHING: u8 = 0;
const NUMBERS: u8 = 1;

const COUNTER: u8 = 1;
const NO_COUNTER: u8 = 2;
const SOME_COUNTER: u8 = 3;
const DID_NOT: u8 = 4;
const DID: u8 = 5;
const NUMBER: u8 = 6;
const COUNT: u8 = 7;
const REVISION: u8 = 8;

/// The stored response of an executed request.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredResponse {
    pub held: bool,
    #[serde(with = "fields::list")]
    pub answers: SmallVec<[Answer; 1]>,
}

/// Borrowed form of `StoredResponse`, for encoding.
#[derive(Serialize)]
struct Keeping<'r> {
    held: bool,
    #[serde(with = "fields::list")]
    answers: &'r [Answer],
}

/// Appends an encoded response.
pub fn encode(response: &Result<Receipt>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    if let Ok(receipt) = response
        && put_numbers(receipt, out).is_some()
    {
        return Ok(());
    }
    out.truncate(start);
    out.push(ANYTHING);
    let keeping: std::result::Result<Keeping<'_>, &Error> = match response {
        Ok(receipt) => Ok(Keeping { held: receipt.held, answers: &receipt.answers }),
        Err(error) => Err(error),
    };
    out.extend_from_slice(&wire::encode(&keeping)?);
    Ok(())
}

/// Decodes a response.
pub fn decode(bytes: &[u8]) -> Result<Result<StoredResponse>> {
    match bytes.split_first() {
        Some((&NUMBERS, rest)) => take_numbers(rest).map(Ok).ok_or_else(damaged),
        Some((&ANYTHING, frame)) => wire::decode(frame).map_err(|_| damaged()),
        _ => Err(damaged()),
    }
}

/// Appends answers that are all numbers. Returns `None` if one is not.
fn put_numbers(receipt: &Receipt, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&[NUMBERS, u8::from(receipt.held)]);
    codec::put_varint(out, receipt.answers.len() as u64);
    for answer in &receipt.answers {
        let (tag, numbers): (u8, &[u64]) = match answer {
            Answer::Counter(n) => (COUNTER, &[*n]),
            Answer::MaybeCounter(None) => (NO_COUNTER, &[]),
            Answer::MaybeCounter(Some(n)) => (SOME_COUNTER, &[*n]),
            Answer::Did(false) => (DID_NOT, &[]),
            Answer::Did(true) => (DID, &[]),
            Answer::Number { value: Value::Int(n), counter } => (NUMBER, &[zigzag(*n), *counter]),
            Answer::Count(n) => (COUNT, &[*n]),
            Answer::Revision(n) => (REVISION, &[*n]),
            _ => return None,
        };
        out.push(tag);
        numbers.iter().for_each(|n| codec::put_varint(out, *n));
    }
    Some(())
}

fn take_numbers(bytes: &[u8]) -> Option<StoredResponse> {
    let (&held, mut rest) = bytes.split_first()?;
    let rest = &mut rest;
    let count = codec::get_varint(rest)?;
    let mut answers = SmallVec::new();
    for _ in 0..count {
        let (&tag, tail) = rest.split_first()?;
        *rest = tail;
        answers.push(match tag {
            COUNTER => Answer::Counter(codec::get_varint(rest)?),
            NO_COUNTER => Answer::MaybeCounter(None),
            SOME_COUNTER => Answer::MaybeCounter(Some(codec::get_varint(rest)?)),
            DID_NOT => Answer::Did(false),
            DID => Answer::Did(true),
            NUMBER => {
                let value = Value::Int(unzigzag(codec::get_varint(rest)?));
                Answer::Number { value, counter: codec::get_varint(rest)? }
            }
            COUNT => Answer::Count(codec::get_varint(rest)?),
            REVISION => Answer::Revision(codec::get_varint(rest)?),
            _ => return None,
        });
    }
    (rest.is_empty() && held <= 1).then_some(StoredResponse { held: held == 1, answers })
}

/// Zigzag encoding: numbers near zero take few bytes, whatever their sign.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_model::{Code, smallvec};

    fn receipt(held: bool, answers: Vec<Answer>) -> Result<Receipt> {
        let answers = SmallVec::from_vec(answers);
        Ok(Receipt { revision: 1, stamp: 2, held, repeated: false, answers })
    }

    fn bytes(response: &Result<Receipt>) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(response, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn numbers_come_back_and_their_bytes_are_these() {
        let number = |n| Answer::Number { value: Value::Int(n), counter: 1 };
        let answers = vec![
            Answer::Counter(300),
            Answer::MaybeCounter(None),
            Answer::MaybeCounter(Some(1)),
            Answer::Did(false),
            Answer::Did(true),
            number(-1),
            Answer::Count(4),
            Answer::Revision(5),
        ];
        let response = receipt(true, answers.clone());
        let expected = [1, 1, 8, 1, 0xac, 2, 2, 3, 1, 4, 5, 6, 1, 1, 7, 4, 8, 5];
        assert_eq!(bytes(&response), expected);
        let kept = decode(&expected).unwrap().unwrap();
        assert_eq!((kept.held, kept.answers.into_vec()), (true, answers));
        for n in [i64::MIN, -2, 0, 7, i64::MAX] {
            let kept = decode(&bytes(&receipt(false, vec![number(n)]))).unwrap().unwrap();
            assert_eq!(kept, StoredResponse { held: false, answers: smallvec![number(n)] });
        }
        for cut in 0..expected.len() {
            assert!(decode(&expected[..cut]).is_err(), "cut at {cut}");
        }
        assert!(decode(&[&expected[..], &[0]].concat()).is_err());
    }

    #[test]
    fn everything_else_goes_in_a_frame() {
        let answers = vec![
            Answer::Did(true),
            Answer::Replaced { did: true, old: Some(Value::from("x")) },
            Answer::Number { value: Value::Float(0.5), counter: 1 },
        ];
        let response = receipt(true, answers.clone());
        assert_eq!(bytes(&response)[0], ANYTHING);
        assert_eq!(decode(&bytes(&response)).unwrap().unwrap().answers.into_vec(), answers);
        let error = Error::new(Code::GuardFailed, "no").at_position(3);
        assert_eq!(decode(&bytes(&Err(error.clone()))).unwrap().unwrap_err(), error);
    }

    #[test]
    fn nothing_at_all_is_a_response_too() {
        let kept = decode(&bytes(&receipt(false, vec![]))).unwrap().unwrap();
        assert_eq!(kept, StoredResponse { held: false, answers: smallvec![] });
    }
}
