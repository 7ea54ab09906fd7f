//! Parses the output of strace, one event per call.
//!
//! | line | meaning |
//! |---|---|
//! | `7 fsync(5</d/f>) = 0` | a complete call of thread 7, without calls of other threads in between |
//! | `7 fsync(5</d/f> <unfinished ...>` | the beginning of a call |
//! | `7 <... fsync resumed>) = -1 EIO (...) (INJECTED)` | the end of a call |

use super::call::Call;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A completed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The calling thread.
    pub thread: u64,
    /// The kind of the call.
    pub call: Call,
    /// The file, or the name that is created, removed or changed.
    pub path: PathBuf,
    /// The new name of a rename.
    pub to: Option<PathBuf>,
    /// The numeric arguments in order.
    pub numbers: Vec<u64>,
    /// The return value, or the name of the error.
    pub answer: Result<u64, String>,
    /// Whether strace injected the failure.
    pub injected: bool,
    /// The line on which the call began.
    pub begun: usize,
    /// The line on which the call ended; unique.
    pub ended: usize,
}

/// Parses a trace. Events are in the order in which they ended. Calls without an end are left out.
pub fn read(text: &str) -> Vec<Event> {
    let mut open: BTreeMap<u64, (usize, String)> = BTreeMap::new();
    let mut events = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((thread, rest)) = split_thread(line) else { continue };
        if let Some(begin) = rest.strip_suffix(" <unfinished ...>") {
            open.insert(thread, (at, begin.to_owned()));
        } else if let Some((_, end)) = rest.split_once(" resumed>") {
            let whole = open.remove(&thread).map(|(begun, begin)| (begun, begin + end));
            events.extend(whole.and_then(|(begun, whole)| event(thread, &whole, (begun, at))));
        } else {
            events.extend(event(thread, rest, (at, at)));
        }
    }
    events
}

fn split_thread(line: &str) -> Option<(u64, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    Some((thread.parse().ok()?, rest.trim_start()))
}

fn event(thread: u64, text: &str, (begun, ended): (usize, usize)) -> Option<Event> {
    let (name, rest) = text.split_once('(')?;
    let call = Call::named(name)?;
    let (words, answer) = rest.rsplit_once(") ").map(|(words, rest)| (words, rest.trim_start()))?;
    // After a failed result, the reason follows in parentheses of its own.
    let (words, answer) = match words.rsplit_once(") ").map(|(w, rest)| (w, rest.trim_start())) {
        Some((words, failed)) if failed.starts_with("= -1 ") => (words, failed),
        _ => (words, answer),
    };
    let mut names = names(words);
    let path = names.next()?;
    let to = names.next();
    let answer = answer.strip_prefix("= ")?;
    let answer = match answer.strip_prefix("-1 ") {
        Some(error) => Err(error.split(' ').next()?.to_owned()),
        None => Ok(answer.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?),
    };
    let injected = text.ends_with("(INJECTED)");
    let numbers = words.split(", ").filter_map(|word| word.parse().ok()).collect();
    Some(Event { thread, call, path, to, numbers, answer, injected, begun, ended })
}

/// Returns the paths of a call: quoted names relative to the directory before them, or else the path of
/// the open file.
fn names(words: &str) -> impl Iterator<Item = PathBuf> {
    let open = words.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let open = open.map(|(path, _)| PathBuf::from(path.trim_end_matches(" (deleted)")));
    let quoted: Vec<&str> = words.split('"').skip(1).step_by(2).filter(|w| !w.is_empty()).collect();
    let at = open.clone().unwrap_or_default();
    let named: Vec<PathBuf> = quoted.iter().map(|name| at.join(Path::new(name))).collect();
    let file = if named.is_empty() { open } else { None };
    named.into_iter().chain(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Event {
        let mut events = read(line);
        assert_eq!(events.len(), 1, "{line}");
        events.remove(0)
    }

    #[test]
    fn a_write_has_its_file_place_and_length() {
        let event = one("7    pwrite64(5</d/log/1>, \"\"..., 120, 4096) = 120");
        assert_eq!((event.thread, event.call), (7, Call::Pwrite));
        assert_eq!(event.path, Path::new("/d/log/1"));
        assert_eq!((event.numbers, event.answer), (vec![120, 4096], Ok(120)));
        assert!(!event.injected);
    }

    #[test]
    fn a_failure_is_told_from_an_injected_one() {
        let event = one("7 fsync(5</d/f>) = -1 EIO (Input/output error) (INJECTED)");
        assert_eq!((event.answer, event.injected), (Err("EIO".to_owned()), true));
        let event =
            one("7 openat(AT_FDCWD</w>, \"d/f\", O_RDWR) = -1 ENOENT (No such file or directory)");
        assert_eq!((event.answer, event.injected), (Err("ENOENT".to_owned()), false));
        assert_eq!(event.path, Path::new("/w/d/f"));
    }

    #[test]
    fn names_are_in_their_order() {
        let event = one("7 rename(\"/d/a\", \"/d/b\")   = 0");
        assert_eq!((event.path, event.to), ("/d/a".into(), Some("/d/b".into())));
        let event = one("7 renameat(AT_FDCWD</w>, \"/d/a\", AT_FDCWD</w>, \"/d/b\") = 0");
        assert_eq!((event.path, event.to), ("/d/a".into(), Some("/d/b".into())));
        let event = one("7 openat(AT_FDCWD</w>, \"/d/a\", O_RDONLY|O_CLOEXEC) = 3</d/a>");
        assert_eq!((event.path, event.answer), ("/d/a".into(), Ok(3)));
        let event = one("7 unlinkat(6</d/old>, \"table\", 0) = 0");
        assert_eq!(event.path, Path::new("/d/old/table"));
    }

    #[test]
    fn what_others_did_meanwhile_is_between_its_begin_and_its_end() {
        let events = read(
            "7 fdatasync(5</d/a> <unfinished ...>\n8 write(6</d/b>, \"\"..., 3) = 3\n\
             7 <... fdatasync resumed>) = 0\n9 fsync(5</d/a> <unfinished ...>\n",
        );
        assert_eq!(events.len(), 2, "what never ended is left out");
        assert_eq!((events[0].call, events[0].begun, events[0].ended), (Call::Write, 1, 1));
        assert_eq!((events[1].call, events[1].begun, events[1].ended), (Call::Fdatasync, 0, 2));
    }
}
