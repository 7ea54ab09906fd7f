//! A feed reader: reads the log while it is behind, and receives from the hub when it is up to date.

use super::Wanted;
use super::change::next_group;
use super::hub::{Delivery, Held};
use crate::http::Http;
use crate::http::answers::{account, no_memory};
use crate::http::refusal::Answered;
use crate::memory::Account;
use mainstay::{Database, Feed, Filter, Revision};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// The most events that a reader that is behind reads in one piece.
const PIECE_EVENTS: usize = 10_000;
/// The most bytes that it reads in one piece.
const PIECE_BYTES: usize = 256 << 10;

/// One client's position in the feed.
pub(crate) struct Reader {
    app: Http,
    /// The account that is charged for ready deliveries.
    account: Arc<Account>,
    wanted: Wanted,
    /// All wanted changes up to this revision were returned or are in `ready`.
    read: Revision,
    ready: VecDeque<Delivery>,
    place: Place,
}

enum Place {
    /// Neither the log nor the hub is open: at the start, after the reader fell behind, and while a piece is
    /// read.
    Nowhere,
    /// Reads the log.
    Behind(Box<Feed>),
    /// Receives from the hub.
    Live(mpsc::Receiver<Delivery>),
}

impl Reader {
    /// Starts after a revision. Fails if the log no longer reaches back to it.
    pub async fn open(app: &Http, wanted: Wanted, after: Revision) -> Answered<Reader> {
        let ready = VecDeque::new();
        let place = Place::Nowhere;
        let (app, account) = (app.clone(), account(app));
        let mut reader = Reader { app, account, wanted, read: after, ready, place };
        reader.app.db().check_open()?;
        // An up-to-date reader joins at once, without a turn in the catch-up queue.
        let is_new = after >= reader.app.db().durable_revision();
        let live = is_new.then(|| reader.join()).flatten();
        match live {
            Some(receiver) => reader.place = Place::Live(receiver),
            None => reader.read_piece().await?,
        }
        Ok(reader)
    }

    /// The revision to resume after: everything up to it was returned.
    pub fn position(&mut self) -> Revision {
        if let Place::Live(receiver) = &self.place {
            let position = self.app.hub().position_of(receiver);
            self.read = self.read.max(position.unwrap_or_default());
        }
        match self.ready.front() {
            Some(delivery) => delivery.revision - 1,
            None => self.read,
        }
    }

    /// Waits for the next wanted transaction; `None` after `quiet` without one.
    pub async fn next(&mut self, quiet: Duration) -> Answered<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.at_once().await? {
                return Ok(Some(delivery));
            }
            let Place::Live(receiver) = &mut self.place else { continue };
            match tokio::time::timeout(quiet, receiver.recv()).await {
                Ok(Some(delivery)) => self.take(delivery),
                Ok(None) => self.place = Place::Nowhere,
                Err(_) => return Ok(None),
            }
        }
    }

    /// The next wanted transaction, if one is available now; `None` if the reader is up to date.
    pub async fn at_once(&mut self) -> Answered<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return Ok(Some(delivery));
            }
            match &mut self.place {
                Place::Live(receiver) => match receiver.try_recv() {
                    Ok(delivery) => self.take(delivery),
                    Err(TryRecvError::Empty) => return Ok(None),
                    Err(TryRecvError::Disconnected) => self.place = Place::Nowhere,
                },
                _ => self.read_piece().await?,
            }
        }
    }

    /// The next wanted transaction, if it was read already.
    pub fn take_ready(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Queues a delivery of the hub. The hub may have been behind this reader when it joined, so deliveries
    /// that were already read are dropped.
    fn take(&mut self, delivery: Delivery) {
        if delivery.revision > self.read {
            self.read = delivery.revision;
            self.ready.push_back(delivery);
        }
    }

    /// Reads the next piece of the log, and joins the hub at its end. If this future is dropped, the next
    /// call starts again from `read`.
    async fn read_piece(&mut self) -> Answered<()> {
        let place = std::mem::replace(&mut self.place, Place::Nowhere);
        let feed = if let Place::Behind(feed) = place { Some(feed) } else { None };
        let db = self.app.db().clone();
        let wanted = self.wanted.clone();
        let after = self.read;
        let account = self.account.clone();
        let piece = self
            .app
            .catch_up(&self.account, move || Piece::read(&db, feed, &wanted, after, &account))
            .await?;
        self.ready.extend(piece.deliveries);
        self.read = piece.position;
        let live = piece.is_last.then(|| self.join()).flatten();
        self.place = match live {
            Some(receiver) => Place::Live(receiver),
            None => Place::Behind(piece.feed),
        };
        Ok(())
    }

    fn join(&self) -> Option<mpsc::Receiver<Delivery>> {
        self.app.hub().join(self.wanted.clone(), self.read, &self.account)
    }
}

/// One piece of the log.
struct Piece {
    feed: Box<Feed>,
    deliveries: Vec<Delivery>,
    /// Every wanted change up to this revision is in `deliveries`.
    position: Revision,
    /// True if the end of the log was reached.
    is_last: bool,
}

impl Piece {
    /// Reads a piece and filters it here. A filter in the feed would search for the next wanted change
    /// without a bound.
    fn read(
        db: &Database,
        feed: Option<Box<Feed>>,
        wanted: &Wanted,
        after: Revision,
        account: &Arc<Account>,
    ) -> Answered<Piece> {
        let feed = match feed {
            Some(feed) => feed,
            None => Box::new(db.watch(Filter::default(), after)?),
        };
        let mut piece = Piece { feed, deliveries: Vec::new(), position: after, is_last: false };
        let mut events = 0;
        let mut bytes = 0;
        while events < PIECE_EVENTS && bytes < PIECE_BYTES {
            let Some(group) = next_group(&mut piece.feed, wanted, Duration::ZERO)? else {
                piece.is_last = true;
                break;
            };
            events += group.events;
            bytes += group.read_bytes;
            if !group.changes.is_empty() {
                let held = Held::reserve(account, group.bytes);
                let held = held.map_err(|exceeded| no_memory(&exceeded))?;
                let revision = group.revision;
                let changes = group.changes;
                piece.deliveries.push(Delivery { revision, changes, held });
            }
        }
        piece.position = piece.feed.position();
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;

    /// Unwanted changes are read as well, so they count.
    #[test]
    fn a_piece_ends_by_what_was_read_and_not_by_what_was_wanted() {
        let db = Database::memory().unwrap();
        for i in 0..10 {
            db.cells().set(&format!("c{i}"), "x".repeat(1 << 20)).unwrap();
        }
        let account = account(&Http::new(db.clone(), Settings::default()).unwrap());
        let wanted = Wanted { prefix: Some("other".to_owned()), ..Wanted::default() };
        let piece = Piece::read(&db, None, &wanted, 0, &account).unwrap();
        assert_eq!((piece.deliveries.len(), piece.position, piece.is_last), (0, 1, false));
    }

    #[test]
    fn what_the_hub_gives_late_is_not_given_twice() {
        let db = Database::memory().unwrap();
        let app = Http::new(db, Settings::default()).unwrap();
        let wanted = Wanted::default();
        let ready = VecDeque::new();
        let account = account(&app);
        let mut reader = Reader { app, account, wanted, read: 5, ready, place: Place::Nowhere };
        for revision in [4, 5, 6, 6, 9] {
            reader.take(Delivery { revision, changes: Vec::new(), held: Held::default() });
        }
        let seen: Vec<_> = reader.ready.iter().map(|delivery| delivery.revision).collect();
        assert_eq!((seen, reader.read), (vec![6, 9], 9));
    }
}
