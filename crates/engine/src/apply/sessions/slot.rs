//! Storage format of a slot: responses of one session, newest first.
//!
//! ```text
//!   mark | number | length | bytes | then each older one: number | revisions before | microseconds before | length | bytes
//! ```
//!
//! Numbers are varints. The newest response has the revision and the time of the entry. Each older one stores
//! its difference to the response before it.

use super::bytes::damaged;
use crate::key::entry::EntryHeader;
use mainstay_model::{REQUEST_LIMIT, Result, Revision, Stamp, codec};

/// One response of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'s> {
    pub request_id: u64,
    pub revision: Revision,
    pub stamp: Stamp,
    /// The answers, or the error: see `response.rs`.
    pub bytes: &'s [u8],
}

/// Appends an encoded slot. The first response is the newest one.
pub fn encode<'s>(
    mark: u64,
    responses: impl Iterator<Item = Result<Response<'s>>>,
    out: &mut Vec<u8>,
) -> Result<()> {
    codec::put_varint(out, mark);
    let mut newer: Option<Response<'_>> = None;
    for response in responses {
        let Response { request_id, revision, stamp, bytes } = response?;
        codec::put_varint(out, request_id);
        if let Some(newer) = newer {
            codec::put_varint(out, newer.revision.wrapping_sub(revision));
            codec::put_varint(out, newer.stamp.wrapping_sub(stamp));
        }
        codec::put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
        newer = Some(Response { request_id, revision, stamp, bytes });
    }
    Ok(())
}

/// Returns the mark at the time of the write, and the responses of a slot.
pub fn split<'s>(head: &EntryHeader, payload: &'s [u8]) -> Result<(u64, Responses<'s>)> {
    let mut rest = payload;
    let mark = codec::get_varint(&mut rest).ok_or_else(damaged)?;
    if rest.is_empty() {
        return Err(damaged());
    }
    Ok((mark, Responses { revision: head.revision, stamp: head.stamp, first: true, rest }))
}

/// Iterator over the responses of a slot, newest first.
#[derive(Clone)]
pub struct Responses<'s> {
    revision: Revision,
    stamp: Stamp,
    first: bool,
    rest: &'s [u8],
}

impl<'s> Responses<'s> {
    fn take(&mut self) -> Option<Response<'s>> {
        let request_id = codec::get_varint(&mut self.rest).filter(|id| *id <= REQUEST_LIMIT)?;
        if !std::mem::take(&mut self.first) {
            self.revision = self.revision.wrapping_sub(codec::get_varint(&mut self.rest)?);
            self.stamp = self.stamp.wrapping_sub(codec::get_varint(&mut self.rest)?);
        }
        let length = usize::try_from(codec::get_varint(&mut self.rest)?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Response { request_id, revision: self.revision, stamp: self.stamp, bytes })
    }
}

impl<'s> Iterator for Responses<'s> {
    type Item = Result<Response<'s>>;

    fn next(&mut self) -> Option<Result<Response<'s>>> {
        if self.rest.is_empty() {
            return None;
        }
        let response = self.take();
        if response.is_none() {
            self.rest = &[];
        }
        Some(response.ok_or_else(damaged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_comes_back_and_its_bytes_are_these() {
        let response = |request_id, revision, stamp, bytes| {
            Ok(Response { request_id, revision, stamp, bytes: &[7; 9][..bytes] })
        };
        let responses =
            [response(12, 1_000, 5_000, 2), response(14, 998, 4_700, 0), response(9, 997, 3, 1)];
        let mut bytes = Vec::new();
        encode(300, responses.clone().into_iter(), &mut bytes).unwrap();
        let expected = [0xac, 2, 12, 2, 7, 7, 14, 2, 0xac, 2, 0, 9, 1, 0xd9, 0x24, 1, 7];
        assert_eq!(bytes, expected);
        let flags = 0;
        let counter = 1;
        let writes = 1;
        let expires = None;
        let head = EntryHeader { flags, revision: 1_000, stamp: 5_000, counter, writes, expires };
        let read = |bytes| {
            split(&head, bytes).and_then(|(mark, all)| Ok((mark, all.collect::<Result<Vec<_>>>()?)))
        };
        let whole: Vec<_> = responses.into_iter().map(Result::unwrap).collect();
        assert_eq!(read(&expected).unwrap(), (300, whole));
        // A slot that is cut between two responses cannot be detected here. The entry's checksum is for that.
        for cut in (0..expected.len()).filter(|cut| ![6, 11].contains(cut)) {
            assert!(read(&expected[..cut]).is_err(), "cut at {cut}");
        }
    }
}
