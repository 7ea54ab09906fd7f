//! Fuzz target for the client's RESP reply parser.

use mainstay_client::{Reply, decode};
use std::io::BufReader;

/// Parses a stream of replies, whole and byte by byte, and checks that both agree. Each reply must survive a
/// round trip.
pub fn replies(bytes: &[u8]) {
    let mut rest = bytes;
    let mut slowly = BufReader::with_capacity(1, bytes);
    while let Ok(reply) = decode(&mut rest) {
        let again = decode(&mut slowly).expect("byte by byte it is the same");
        assert!(same(&again, &reply), "byte by byte: {again:?} is not {reply:?}");
        let mut written = Vec::new();
        write(&reply, &mut written);
        let again = decode(&mut &written[..]).expect("what was written can be read");
        assert!(same(&again, &reply), "written: {again:?} is not {reply:?}");
        let _ = reply.as_u64();
    }
    assert!(decode(&mut slowly).is_err(), "byte by byte there is no more either");
}

/// Compares replies. NaN is not equal to itself, so the debug texts are compared too.
fn same(one: &Reply, other: &Reply) -> bool {
    one == other || format!("{one:?}") == format!("{other:?}")
}

/// Encodes a reply as a RESP3 server writes it.
fn write(reply: &Reply, out: &mut Vec<u8>) {
    let head = |out: &mut Vec<u8>, kind: char, what: &dyn std::fmt::Display| {
        out.extend_from_slice(format!("{kind}{what}\r\n").as_bytes());
    };
    match reply {
        Reply::Nil => head(out, '_', &""),
        Reply::Int(n) => head(out, ':', n),
        Reply::Float(n) => head(out, ',', n),
        Reply::Bool(yes) => head(out, '#', if *yes { &"t" } else { &"f" }),
        Reply::Text(text) => bulk(b'$', text, out),
        Reply::Error(text) => bulk(b'!', text.as_bytes(), out),
        Reply::Array(items) => {
            head(out, '*', &items.len());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Map(pairs) => {
            head(out, '%', &pairs.len());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
    }
}

fn bulk(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(format!("{}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
