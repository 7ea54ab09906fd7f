//! The memory budget: hierarchical accounting of the bytes that clients make the server hold.
//!
//! ```text
//!   server <- front end (if it has its own limit) <- user <- connection <- reservation { kind, bytes }
//!       every level has a limit; only the client that exceeds one is rejected, with the name of the limit
//! ```
//!
//! A reservation counts at every level above it, and releases its bytes on drop.

use crate::config::settings::settings;
use mainstay::{Code, Error, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Reservations are rounded down to a multiple of this, so that connections with little memory need no
/// accounting.
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
    /// Checks that no limit exceeds the limit above it, because such a limit would have no effect.
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

/// The purpose of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RESP requests that are incomplete or wait for their batch.
    Requests,
    /// Unsent RESP replies.
    Replies,
    /// Commands between `MULTI` and `EXEC`.
    Queued,
    /// Open interactive transactions: their writes and their read sets.
    Transactions,
    /// Changes that wait for a reader of a feed.
    Feeds,
    /// Bodies of HTTP requests.
    Bodies,
    /// Unsent HTTP responses.
    Answers,
    /// Unsent server-sent events.
    Streams,
}

impl Kind {
    /// All kinds.
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

    /// Returns the name in `INFO` and in metrics.
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

/// The error for a rejected reservation, with the limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The setting with the limit.
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

/// One counter of the hierarchy, with its limit.
#[derive(Debug)]
struct Meter {
    held_bytes: AtomicUsize,
    limit_bytes: usize,
    /// The name of the setting with the limit.
    setting: &'static str,
}

impl Meter {
    fn new(setting: &'static str, limit_bytes: usize) -> Arc<Meter> {
        Arc::new(Meter { held_bytes: AtomicUsize::new(0), limit_bytes, setting })
    }

    /// Adds bytes, unless the sum would exceed the limit.
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

/// The memory budget of all clients.
#[derive(Debug)]
pub struct MemoryBudget {
    settings: Settings,
    total: Arc<Meter>,
    /// By user name. Users come from the settings, so they are few.
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

    /// Creates a budget with these limits.
    pub fn new(settings: Settings) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget::with(settings))
    }

    /// Returns the limits.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the bytes held for a kind.
    pub fn held_bytes(&self, kind: Kind) -> usize {
        self.kinds[kind as usize].load(Ordering::Relaxed)
    }

    /// Returns the bytes held in total.
    pub fn total_held_bytes(&self) -> usize {
        self.total.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of rejected reservations.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Creates the limit of one front end, within the total.
    pub fn face(setting: &'static str, limit_bytes: usize) -> Face {
        Face(Meter::new(setting, limit_bytes))
    }

    /// Creates the account of a connection that has no user yet.
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

/// The limit of a front end. Clones share it.
#[derive(Clone, Debug)]
pub struct Face(Arc<Meter>);

/// The levels at which a reservation counts: its connection, user, front end and the server.
#[derive(Debug)]
pub struct Account {
    budget: Arc<MemoryBudget>,
    connection: Arc<Meter>,
    user: Option<Arc<Meter>>,
    face: Option<Face>,
}

impl Account {
    /// Returns a number that is the same for all connections of a user and differs between users.
    pub fn owner(&self) -> usize {
        Arc::as_ptr(self.user.as_ref().unwrap_or(&self.connection)) as usize
    }

    /// Returns the account of the same connection for this user.
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

    /// Creates an empty reservation.
    pub fn reservation(self: &Arc<Account>, kind: Kind) -> Reservation {
        Reservation { account: self.clone(), kind, bytes: 0 }
    }

    /// Creates a reservation of `bytes` bytes.
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

/// Reserved bytes, released on drop.
#[derive(Debug)]
pub struct Reservation {
    account: Arc<Account>,
    kind: Kind,
    bytes: usize,
}

impl Reservation {
    /// Returns the bytes that it counts now.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether `bytes` rounds to the reserved number, so that no change is needed.
    #[inline]
    pub fn covers(&self, bytes: usize) -> bool {
        bytes / STEP_BYTES * STEP_BYTES == self.bytes
    }

    /// Changes the number of held bytes. If a limit would be exceeded, the reservation stays as it was.
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
    /// Releases all bytes and returns an empty reservation.
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
        let one = connect("a");
        let two = connect("a");
        let three = connect("a");
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
