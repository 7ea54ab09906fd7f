//! Names of archive files, derived from their content.
//!
//! ```text
//!   archive / branch / 2026 / 11 / 15 / run . last event . hash .jsonl.gz
//! ```
//!
//! In the branch and the run, letters, digits, `-` and `_` stay as they are. Every other byte becomes `=` and
//! two hexadecimal digits. A name that would be too long becomes `=H` and its SHA-256; the run's name is then
//! only in the file's first line.

use super::ArchiveSettings;
use mainstay::{Instant, Stamp};
use object_store::ObjectMeta;
use object_store::path::{Path, PathPart};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The longest readable form of a run's name in a file name, in bytes.
const READABLE_LIMIT_BYTES: usize = 120;
const HASH_PREFIX: &str = "=H";
const EXTENSION: &str = "jsonl.gz";
/// The number of hash digits in the name.
const HASH_DIGITS: usize = 32;

/// An archived run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ArchivedRun {
    /// The day of its last event, such as `2026-11-15`.
    pub day: String,
    /// The run.
    pub run_id: String,
    /// The sequence number of its last event.
    pub last_event_seq: u64,
    /// The path of the file in the store.
    pub path: String,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
}

/// The directory of a branch, or of one of its days.
pub(super) fn directory_path(settings: &ArchiveSettings, day: Option<&str>) -> Path {
    let prefix = settings.prefix.split('/').filter(|part| !part.is_empty());
    let branch = escape(&settings.branch);
    let parts =
        prefix.chain([branch.as_str()]).chain(day.into_iter().flat_map(|day| day.split('-')));
    Path::from_iter(parts.map(PathPart::from))
}

/// The path of a run's file.
pub(super) fn file_path(folder: &Path, run: &str, last_event_seq: u64, sha256: &str) -> Path {
    let hash = &sha256[..HASH_DIGITS.min(sha256.len())];
    let name = format!("{}.{last_event_seq}.{hash}.{EXTENSION}", escape(run));
    Path::from_iter(folder.parts().chain([PathPart::from(name.as_str())]))
}

/// The day of a timestamp.
pub(super) fn day(stamp: Stamp) -> String {
    let text = Instant::of_us(stamp);
    text.as_str().get(..10).unwrap_or_default().to_owned()
}

/// Parses a file's path; `None` if it is not an archive file. The flag is false if the run's name is too long
/// for the path.
pub(super) fn parse(meta: &ObjectMeta) -> Option<(ArchivedRun, bool)> {
    let parts: Vec<_> = meta.location.parts().collect();
    let [.., year, month, day, file] = &parts[..] else { return None };
    let day = format!("{}-{}-{}", year.as_ref(), month.as_ref(), day.as_ref());
    let mut name = file.as_ref().splitn(4, '.');
    let run = name.next()?;
    let seq = name.next()?;
    let _hash = name.next()?;
    if name.next()? != EXTENSION {
        return None;
    }
    let last_event_seq = seq.parse().ok()?;
    let path = meta.location.to_string();
    let readable = unescape(run);
    let is_known = readable.is_some();
    let run_id = readable.unwrap_or_default();
    Some((ArchivedRun { day, run_id, last_event_seq, path, size_bytes: meta.size }, is_known))
}

/// Returns whether a file may belong to a run, by its name.
pub(super) fn may_belong_to(meta: &ObjectMeta, run: &str) -> bool {
    let name = meta.location.filename().unwrap_or_default();
    name.split('.').next() == Some(&escape(run))
}

fn escape(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => name.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(name, "={byte:02X}")),
        }
    }
    if name.len() <= READABLE_LIMIT_BYTES {
        name
    } else {
        format!("{HASH_PREFIX}{}", hex(&Sha256::digest(text)))
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'=' {
            (rest, _) = (tail, bytes.push(first));
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Formats bytes as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_never_too_long() {
        let settings = ArchiveSettings { branch: "a/b".to_owned(), ..ArchiveSettings::default() };
        let folder = directory_path(&settings, Some("2026-11-15"));
        assert_eq!(folder.as_ref(), "archive/a=2Fb/2026/11/15");
        let meta = |run: &str| ObjectMeta {
            location: Path::parse(file_path(&folder, run, 7, &"0".repeat(64)).as_ref()).unwrap(),
            last_modified: Default::default(),
            size: 3,
            e_tag: None,
            version: None,
        };
        for run in ["r", "tenant/7 .é=", "..", "100%"] {
            let (read, is_known) = parse(&meta(run)).unwrap();
            assert_eq!((read.run_id.as_str(), read.last_event_seq, is_known), (run, 7, true));
            assert_eq!((read.day.as_str(), read.size_bytes), ("2026-11-15", 3));
            assert!(may_belong_to(&meta(run), run) && !may_belong_to(&meta(run), "other"));
        }
        let long = "é".repeat(512);
        assert!(!parse(&meta(&long)).unwrap().1 && may_belong_to(&meta(&long), &long));
        assert!(meta(&long).location.filename().unwrap().len() < 255);
    }
}
