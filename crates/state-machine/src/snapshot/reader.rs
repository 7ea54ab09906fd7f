//! Snapshot reader. It returns a machine only after the end was read and verified.

use super::entry::{Entry, Head, SessionEntry, take_entry, take_head};
use super::writer::prelude;
use super::{END, ENTRIES, FORMAT, HEAD, MAGIC, PRELUDE_BYTES};
use crate::core::Core;
use crate::reply::Reply;
use mainstay_model::Letter;
use mainstay_model::blocks::{BlockReader, damaged};
use mainstay_model::{Code, Error, Name, Result};
use std::io::Read;
use std::sync::Arc;

pub(super) fn read(name: &str, version: u32, from: impl Read) -> Result<Core> {
    let mut from = BlockReader::new(from);
    check_prelude(&mut from)?;
    let (kind, body) = from.take_block()?;
    let head = Some(&body).filter(|_| kind == HEAD).and_then(|body| take_head(body));
    let Some(head) = head else { return Err(damaged("its head cannot be read")) };
    check_machine(&head, name, version)?;
    let core =
        Core { clock: head.clock, limits: head.limits, counters: head.counters, ..Core::default() };
    from.note(kind, &body);
    read_entries(from, Restoring { core, open: None, last: None, entries: 0 })
}

fn check_prelude(from: &mut BlockReader<impl Read>) -> Result<()> {
    let mut read = [0; PRELUDE_BYTES];
    let length = from.fill(&mut read)?;
    if length < MAGIC.len() || !read.starts_with(MAGIC) {
        return Err(damaged("it does not begin like one of a session machine"));
    }
    let [.., a, b, c, d, _, _, _, _] = read;
    let format = u32::from_le_bytes([a, b, c, d]);
    if length < PRELUDE_BYTES || prelude(format) != read {
        return Err(damaged("its first bytes are not what was written"));
    }
    match format {
        FORMAT => Ok(()),
        0 => Err(damaged("its format is none that there was")),
        _ => {
            let message = format!("the snapshot has format {format}, this program reads {FORMAT}");
            Err(Error::new(Code::NewerFormat, message))
        }
    }
}

fn check_machine(head: &Head<'_>, name: &str, version: u32) -> Result<()> {
    if (head.name, head.version) == (name, u64::from(version)) {
        return Ok(());
    }
    let message = format!(
        "the snapshot is of machine `{}`, version {}, and this is `{name}`, version {version}",
        head.name, head.version
    );
    Err(Error::new(Code::ForeignSnapshot, message))
}

fn read_entries(mut from: BlockReader<impl Read>, mut restoring: Restoring) -> Result<Core> {
    loop {
        let (kind, body) = from.take_block()?;
        match kind {
            ENTRIES if !body.is_empty() => {
                from.note(kind, &body);
                restoring.take_block(&body)?;
            }
            END => {
                let expected = [&restoring.entries.to_le_bytes()[..], &from.hash()].concat();
                if body != expected {
                    return Err(damaged("its end does not fit what is before it"));
                }
                from.end(&body)?;
                return restoring.finish();
            }
            _ => return Err(damaged("a block is of no kind that there is")),
        }
    }
}

/// The state restored so far.
struct Restoring {
    core: Core,
    /// The session that the following responses and pending requests belong to.
    open: Option<(Name, SessionEntry)>,
    last: Option<Place>,
    entries: u64,
}

/// The order of entries: sessions, then formers, then keys, each sorted.
#[derive(PartialEq, PartialOrd)]
enum Place {
    Session(Name),
    Former(Name),
    Key(Vec<u8>),
}

impl Restoring {
    fn take_block(&mut self, mut body: &[u8]) -> Result<()> {
        while !body.is_empty() {
            let entry = take_entry(&mut body);
            let taken = entry.and_then(|entry| self.take(entry));
            taken.ok_or_else(|| damaged("an entry cannot be read, or stands where it must not"))?;
            self.entries += 1;
        }
        Ok(())
    }

    fn take(&mut self, entry: Entry<'_>) -> Option<()> {
        match entry {
            Entry::Session(name, session) => {
                self.step(Place::Session(name.clone()))?;
                self.open = Some((name, session));
            }
            Entry::Response(request_id, reply) => self.take_response(request_id, reply)?,
            Entry::Pending(letter) => self.take_letter(letter)?,
            Entry::Former(name, gone, former) => {
                self.step(Place::Former(name.clone()))?;
                self.core.sessions.formers.put(&name, gone, former);
            }
            Entry::Key(key, value) => {
                self.step(Place::Key(key.to_vec()))?;
                self.core.state.set(key.to_vec(), Some(value.to_vec()));
            }
        }
        Some(())
    }

    /// Advances to a higher place and completes the session before.
    fn step(&mut self, place: Place) -> Option<()> {
        if self.last.as_ref().is_some_and(|last| *last >= place) {
            return None;
        }
        self.last = Some(place);
        self.close()
    }

    fn close(&mut self) -> Option<()> {
        if let Some((name, entry)) = self.open.take() {
            let is_complete = (entry.responses, entry.pending) == (0, 0);
            self.core.sessions.insert(name, is_complete.then_some(entry.session)?);
        }
        Some(())
    }

    fn take_response(&mut self, request_id: u64, reply: Reply) -> Option<()> {
        let (_, entry) = self.open.as_mut()?;
        let ledger = &mut entry.session.ledger;
        let is_next = (ledger.next_request()..u64::MAX).contains(&request_id);
        entry.responses = entry.responses.checked_sub(1).filter(|_| is_next)?;
        ledger.keep(request_id, reply);
        Some(())
    }

    fn take_letter(&mut self, letter: Letter<Arc<[u8]>>) -> Option<()> {
        let (_, entry) = self.open.as_mut()?;
        entry.pending = entry.pending.checked_sub(1).filter(|_| entry.responses == 0)?;
        entry.session.mailbox_bytes += letter.payload.len();
        entry.session.mailbox.put(letter.sent, letter.payload);
        Some(())
    }

    fn finish(mut self) -> Result<Core> {
        self.close().ok_or_else(|| damaged("a session is not complete"))?;
        Ok(self.core)
    }
}
