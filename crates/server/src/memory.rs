//! Memory: one accounting of the bytes that clients make the server hold.
//!
//! ```text
//!   server <- face (where it has a limit of its own) <- user <- connection <- reservation { kind, bytes }
//!       every level has a limit; whoever asks for more than one of them allows is told which, and nobody else
//! ```
//!
//! A reservation counts at every level above it, and gives its bytes back when it is dropped.

use crate::config::settings::settings;
use mainstay::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Reservations count in steps of this: a connection that holds little costs no counting.
const STEP_BYTES: usize = 8 << 10;

const GIB: u64 = 1 << 30;

settings! {
    /// The memory for unfinished requests, open transactions and unread answers. The database's own memory has settings of its own.
    pub struct Settings {
        /// The most bytes that all clients together make the server hold; whoever asks for more then is
        /// refused, or disconnected where no answer fits.
        pub total_bytes: usize = 2 << 30, 64 << 10..=1024 * GIB;
        /// The most bytes that the connections of one user hold together.
        pub per_user_bytes: usize = 1 << 30, 64 << 10..=1024 * GIB;
        /// The most bytes that one connection holds.
        pub per_connection_bytes: usize = 512 << 20, 64 << 10..=1024 * GIB;
    }
}

impl Settings {
    /// A limit that lies above the one it is part of would never be met: that is a mistake.
    pub fn check(&self) -> Result<()> {
        let Settings { total_bytes, per_user_bytes, per_connection_bytes } = *self;
        if per_connection_bytes <= per_user_bytes && per_user_bytes <= total_bytes {
            return Ok(());
        }
        let message = format!(
            "memory.per_connection_bytes ({per_connection_bytes}) may be at most memory.per_user_bytes \
             ({per_user_bytes}), and that at most memory.total_bytes ({total_bytes})"
        );
        Err(Error::new(Code::InvalidOption, message))
    }
}

/// The purpose that memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RESP requests that are incomplete or wait for their batch.
    Requests,
    /// RESP replies that are not sent.
    Replies,
    /// Commands between `MULTI` and `EXEC`.
    Queued,
    /// Open interactive transactions: their writes and their read sets.
    Transactions,
    /// Changes that wait for a reader of a feed.
    Feeds,
    /// Bodies of HTTP requests.
    Bodies,
    /// HTTP answers that are not sent.
    Answers,
    /// Server-sent events that are not sent.
    Streams,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Requests,
        Kind::Replies,
        Kind::Queued,
        Kind::Transactions,
        Kind::Feeds,
        Kind::Bodies,
        Kind::Answers,
        Kind::Streams,
    ];

    /// Its name in `INFO` and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Requests => "requests",
            Kind::Replies => "replies",
            Kind::Queued => "queued",
            Kind::Transactions => "transactions",
            Kind::Feeds => "feeds",
            Kind::Bodies => "bodies",
            Kind::Answers => "answers",
            Kind::Streams => "streams",
        }
    }
}

/// A reservation was refused: this limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The setting that limits it.
    pub setting: &'static str,
    limit_bytes: usize,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded { setting, limit_bytes } = self;
        write!(
            f,
            "the memory for requests and answers is used up: {setting} allows {limit_bytes} bytes"
        )
    }
}

/// One counter of the tree, with its limit.
#[derive(Debug)]
struct Meter {
    held_bytes: AtomicUsize,
    limit_bytes: usize,
    /// The setting that the limit is of.
    setting: &'static str,
}

impl Meter {
    fn new(setting: &'static str, limit_bytes: usize) -> Arc<Meter> {
        Arc::new(Meter { held_bytes: AtomicUsize::new(0), limit_bytes, setting })
    }

    /// Adds bytes, unless that would be more than there may be.
    fn add(&self, bytes: usize) -> std::result::Result<(), Exceeded> {
        let before = self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limit_bytes {
            return Ok(());
        }
        self.subtract(bytes);
        Err(Exceeded { setting: self.setting, limit_bytes: self.limit_bytes })
    }

    fn subtract(&self, bytes: usize) {
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory that all clients share.
#[derive(Debug)]
pub struct MemoryBudget {
    settings: Settings,
    total: Arc<Meter>,
    /// By name. Users come from the settings, so there are few.
    users: Mutex<HashMap<String, Arc<Meter>>>,
    kinds: [AtomicUsize; Kind::ALL.len()],
    refused: AtomicU64,
}

impl Default for MemoryBudget {
    fn default() -> MemoryBudget {
        MemoryBudget::with(Settings::default())
    }
}

impl MemoryBudget {
    fn with(settings: Settings) -> MemoryBudget {
        MemoryBudget {
            total: Meter::new("memory.total_bytes", settings.total_bytes),
            users: Mutex::default(),
            kinds: [const { AtomicUsize::new(0) }; Kind::ALL.len()],
            refused: AtomicU64::new(0),
            settings,
        }
    }

    /// A budget with these limits.
    pub fn new(settings: Settings) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget::with(settings))
    }

    /// Its limits.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The bytes that are held for a kind.
    pub fn held_bytes(&self, kind: Kind) -> usize {
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// The bytes that are held in all.
    pub fn total_held_bytes(&self) -> usize {
        self.total.held_bytes.load(Ordering::Relaxed)
    }

    /// How often a reservation was refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A limit of one face within the whole.
    pub fn face(setting: &'static str, limit_bytes: usize) -> Face {
        Face(Meter::new(setting, limit_bytes))
    }

    /// The account of a connection that nobody has said the user of yet.
    pub fn connect(self: &Arc<MemoryBudget>, face: Option<&Face>) -> Arc<Account> {
        let limit_bytes = self.settings.per_connection_bytes;
        Arc::new(Account {
            budget: self.clone(),
            connection: Meter::new("memory.per_connection_bytes", limit_bytes),
            user: None,
            face: face.cloned(),
        })
    }

    fn user(&self, name: &str) -> Arc<Meter> {
        let mut users = self.users.lock();
        if let Some(user) = users.get(name) {
            return user.clone();
        }
        let user = Meter::new("memory.per_user_bytes", self.settings.per_user_bytes);
        users.insert(name.to_owned(), user.clone());
        user
    }
}

/// A face that has a limit of its own. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Face(Arc<Meter>);

/// The path that a reservation counts along: a connection, its user, its face and the server.
#[derive(Debug)]
pub struct Account {
    budget: Arc<MemoryBudget>,
    connection: Arc<Meter>,
    user: Option<Arc<Meter>>,
    face: Option<Face>,
}

impl Account {
    /// The same number for all connections of a user, and another one for those of another.
    pub fn owner(&self) -> usize {
        Arc::as_ptr(self.user.as_ref().unwrap_or(&self.connection)) as usize
    }

    /// The same connection, as this user's.
    pub fn of_user(&self, name: Option<&str>) -> Arc<Account> {
        Arc::new(Account {
            budget: self.budget.clone(),
            connection: self.connection.clone(),
            user: name.map(|name| self.budget.user(name)),
            face: self.face.clone(),
        })
    }

    fn meters(&self) -> impl Iterator<Item = &Meter> {
        let face = self.face.as_ref().map(|Face(meter)| meter);
        let own = std::iter::once(&self.connection).chain(self.user.as_ref());
        own.chain(face).chain(std::iter::once(&self.budget.total)).map(Arc::as_ref)
    }

    fn add(&self, kind: Kind, bytes: usize) -> std::result::Result<(), Exceeded> {
        for (place, meter) in self.meters().enumerate() {
            if let Err(exceeded) = meter.add(bytes) {
                self.meters().take(place).for_each(|meter| meter.subtract(bytes));
                self.budget.refused.fetch_add(1, Ordering::Relaxed);
                return Err(exceeded);
            }
        }
        self.budget.kinds[kind as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn subtract(&self, kind: Kind, bytes: usize) {
        self.meters().for_each(|meter| meter.subtract(bytes));
        self.budget.kinds[kind as usize].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A reservation of nothing yet.
    pub fn reservation(self: &Arc<Account>, kind: Kind) -> Reservation {
        Reservation { account: self.clone(), kind, bytes: 0 }
    }

    /// Reserves so many bytes.
    pub fn reserve(
        self: &Arc<Account>,
        kind: Kind,
        bytes: usize,
    ) -> std::result::Result<Reservation, Exceeded> {
        let mut reservation = self.reservation(kind);
        reservation.resize(bytes)?;
        Ok(reservation)
    }
}

/// Bytes that somebody holds; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    kind: Kind,
    bytes: usize,
}

impl Reservation {
    /// The bytes that it counts now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether so many bytes count as those that are reserved.
    #[inline]
    pub fn covers(&self, bytes: usize) -> bool {
        bytes / STEP_BYTES * STEP_BYTES == self.bytes
    }

    /// Notes how many bytes are held now. Where they are too many, it stays as it was.
    pub fn resize(&mut self, bytes: usize) -> std::result::Result<(), Exceeded> {
        let bytes = bytes / STEP_BYTES * STEP_BYTES;
        if bytes > self.bytes {
            self.account.add(self.kind, bytes - self.bytes)?;
        } else if bytes < self.bytes {
            self.account.subtract(self.kind, self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Reservation {
    /// The same with nothing held.
    pub fn emptied(self) -> Reservation {
        self.account.reservation(self.kind)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.subtract(self.kind, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn budget() -> Arc<MemoryBudget> {
        MemoryBudget::new(Settings {
            total_bytes: 4 * MIB,
            per_user_bytes: 2 * MIB,
            per_connection_bytes: MIB,
        })
    }

    #[test]
    fn who_asks_beyond_a_limit_is_told_which_one_and_the_others_are_not() {
        let budget = budget();
        let connect = |user| budget.connect(None).of_user(Some(user));
        let (one, two, three) = (connect("a"), connect("a"), connect("a"));
        let mut first = one.reserve(Kind::Replies, MIB).unwrap();
        assert_eq!(first.resize(2 * MIB).unwrap_err().setting, "memory.per_connection_bytes");
        let _second = two.reserve(Kind::Queued, MIB).unwrap();
        let refused = three.reserve(Kind::Queued, MIB / 2).unwrap_err();
        assert_eq!(refused.setting, "memory.per_user_bytes");
        let others: Vec<_> = ["b", "c"].map(connect).into();
        let held: Vec<_> = others.iter().map(|it| it.reserve(Kind::Feeds, MIB).unwrap()).collect();
        let refused = connect("d").reserve(Kind::Feeds, MIB / 2).unwrap_err();
        assert_eq!(refused.setting, "memory.total_bytes");
        assert_eq!((budget.total_held_bytes(), budget.refused()), (4 * MIB, 3));
        assert_eq!(budget.held_bytes(Kind::Feeds), 2 * MIB);
        drop(held);
        assert_eq!(budget.held_bytes(Kind::Feeds), 0);
        assert!(connect("d").reserve(Kind::Feeds, MIB / 2).is_ok());
    }

    #[test]
    fn what_is_dropped_or_refused_leaves_nothing_behind() {
        let budget = budget();
        let face = MemoryBudget::face("resp.held_bytes", MIB / 2);
        let account = budget.connect(Some(&face)).of_user(Some("a"));
        let refused = account.reserve(Kind::Requests, MIB).unwrap_err();
        assert_eq!(refused.setting, "resp.held_bytes");
        let mut held = account.reserve(Kind::Requests, MIB / 2).unwrap();
        held.resize(STEP_BYTES - 1).unwrap();
        assert_eq!(budget.total_held_bytes(), 0, "a little is not counted");
        held.resize(MIB / 2).unwrap();
        drop(held);
        assert!(account.meters().all(|meter| meter.held_bytes.load(Ordering::Relaxed) == 0));
    }
}
