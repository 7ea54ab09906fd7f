//! Transactions: guards (optimistic concurrency) and commands, the single entry point of all protocols.
//!
//! ```text
//!   Transaction { request, branch, guards, steps, otherwise }
//!        |  all guards hold          |  a guard fails
//!        v                           v
//!      steps                     otherwise (or the error GuardFailed)
//!        \___________  ____________/
//!                    \/
//!             Receipt { revision, stamp, answers }
//! ```

use crate::limits::{LONG_COMMANDS, PAGE_DEFAULT};
use crate::wire::fields;
use crate::{
    BranchCommand, Code, Command, Contract, Durability, Error, Field, Name, Revision,
    SessionRequest, Stamp, StatePlace, Value, Version,
};
use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The default branch, which always exists.
pub const MAIN: &str = "main";

/// A set of commands that takes effect atomically.
///
/// ```
/// use mainstay_model::{CellCommand, Name, Transaction};
/// let name = Name::new("greeting")?;
/// let transaction = Transaction::new().step(CellCommand::set(name, "hello"));
/// assert_eq!(transaction.steps.len(), 1);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// The idempotency key: a retry with the same request returns the same receipt and has no second effect.
    #[serde(with = "fields::request")]
    pub request: Option<Request>,
    /// The branch it reads and writes.
    #[serde(with = "fields::text")]
    pub branch: CompactString,
    /// If set, the branch must still have this number, because a name can be reused for another branch.
    pub branch_id: Option<u32>,
    /// The conditions under which the steps run.
    #[serde(with = "fields::list")]
    pub guards: Vec<Guard>,
    /// The commands to run if all guards hold.
    #[serde(with = "fields::list")]
    pub steps: SmallVec<[Step; 1]>,
    /// The commands to run if a guard fails. Without them the transaction fails.
    #[serde(with = "fields::maybe_list")]
    pub otherwise: Option<Vec<Step>>,
    /// The durability to reach before the answer; `None` for the database's setting.
    pub durability: Option<Durability>,
}

impl Transaction {
    /// An empty transaction on `main`.
    pub fn new() -> Transaction {
        Transaction::on(MAIN)
    }

    /// An empty transaction on a branch.
    pub fn on(branch: &str) -> Transaction {
        Transaction {
            request: None,
            branch: CompactString::new(branch),
            branch_id: None,
            guards: Vec::new(),
            steps: SmallVec::new(),
            otherwise: None,
            durability: None,
        }
    }

    /// Adds a command.
    #[must_use]
    pub fn step(mut self, command: impl Into<Command>) -> Transaction {
        self.steps.push(Step { command: command.into(), demand: Demand::Success });
        self
    }

    /// Adds a command that must take effect, otherwise the whole transaction fails.
    #[must_use]
    pub fn must(mut self, command: impl Into<Command>) -> Transaction {
        self.steps.push(Step { command: command.into(), demand: Demand::Effect });
        self
    }

    /// Adds a command that may fail: its error is its answer, and the other commands take effect.
    ///
    /// ```
    /// use mainstay_model::{CellCommand, Demand, Name, Transaction};
    /// let get = CellCommand::Get { name: Name::new("a")? };
    /// let transaction = Transaction::new().attempt(get);
    /// assert_eq!(transaction.steps[0].demand, Demand::Nothing);
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    #[must_use]
    pub fn attempt(mut self, command: impl Into<Command>) -> Transaction {
        self.steps.push(Step { command: command.into(), demand: Demand::Nothing });
        self
    }

    /// Adds a guard.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Transaction {
        self.guards.push(guard);
        self
    }

    /// Sets the commands to run if a guard fails.
    #[must_use]
    pub fn otherwise(mut self, steps: Vec<Step>) -> Transaction {
        self.otherwise = Some(steps);
        self
    }

    /// Sets the request id.
    #[must_use]
    pub fn request(mut self, id: RequestId) -> Transaction {
        self.request = Some(Request::Named(id));
        self
    }

    /// Makes the transaction a request of a session.
    ///
    /// ```
    /// use mainstay_model::{CellCommand, Name, SessionRequest, Transaction};
    /// let add = CellCommand::Incr { name: Name::new("n")?, by: 1.into() };
    /// let first = SessionRequest::new(Name::new("till-7")?, 1, 1);
    /// let transaction = Transaction::new().step(add).in_session(first);
    /// assert_eq!(transaction.session().map(|request| request.request_id), Some(1));
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    #[must_use]
    pub fn in_session(mut self, request: SessionRequest) -> Transaction {
        self.request = Some(Request::Session(request));
        self
    }

    /// Returns the session request, if the transaction is one.
    pub fn session(&self) -> Option<&SessionRequest> {
        match &self.request {
            Some(Request::Session(request)) => Some(request),
            _ => None,
        }
    }

    /// Returns the request id, if the transaction has one.
    pub fn named(&self) -> Option<&RequestId> {
        match &self.request {
            Some(Request::Named(id)) => Some(id),
            _ => None,
        }
    }

    /// The approximate memory that the transaction takes with all its commands, in bytes.
    pub fn weight_bytes(&self) -> usize {
        let steps = self.steps.iter().chain(self.otherwise.iter().flatten());
        let steps: usize = steps.map(|step| step.command.weight_bytes()).sum();
        size_of::<Transaction>() + self.guards.len() * size_of::<Guard>() + steps
    }

    /// Overrides the database's durability.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Transaction {
        self.durability = Some(durability);
        self
    }

    /// Returns whether the transaction merges branches. A merge first searches for the changes, so other
    /// requests should not wait behind it.
    ///
    /// ```
    /// use mainstay_model::{BranchCommand, CellCommand, MergeStrategy, Name, Transaction};
    /// let (from, into, strategy) = (Name::new("dev")?, Name::new("main")?, MergeStrategy::Strict);
    /// let merge = BranchCommand::Merge { from, into, strategy };
    /// let set = Transaction::new().step(CellCommand::set(Name::new("a")?, 1));
    /// assert!(!set.takes_a_while());
    /// assert!(set.clone().step(merge.clone()).takes_a_while());
    /// assert!(set.otherwise(vec![merge.into()]).takes_a_while());
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn takes_a_while(&self) -> bool {
        let is_merge =
            |step: &Step| matches!(step.command, Command::Branch(BranchCommand::Merge { .. }));
        self.steps.iter().any(is_merge) || self.otherwise.iter().flatten().any(is_merge)
    }

    /// Returns whether the guards, scans, lists and folds may read so many entries that other requests should
    /// not wait behind it.
    ///
    /// ```
    /// use mainstay_model::{CellCommand, RecordCommand, Transaction};
    /// let list = |limit| CellCommand::List { prefix: String::new(), after: None, limit };
    /// assert!(Transaction::new().step(list(10)).walks(), "any number of deleted names may lie before ten");
    /// let count = RecordCommand::Count { prefix: String::new(), filters: Vec::new() };
    /// assert!(Transaction::new().step(count).walks());
    /// ```
    pub fn walks(&self) -> bool {
        // Only one of the two lists runs.
        let walk = |steps: &[Step]| {
            let looks = steps.iter().map(|step| step.command.looks_at());
            looks.fold(0, usize::saturating_add) > PAGE_DEFAULT
        };
        walk(&self.steps) || self.otherwise.as_deref().is_some_and(walk) || self.has_range_guards()
    }

    /// Returns whether the transaction is too long for an event loop: it merges, scans, or has many commands.
    pub fn is_long(&self) -> bool {
        let otherwise = self.otherwise.as_ref().map_or(0, Vec::len);
        self.steps.len().max(otherwise) > LONG_COMMANDS || self.takes_a_while() || self.walks()
    }

    /// Returns whether the transaction has a range guard, which is checked against all writes since its
    /// revision.
    pub fn has_range_guards(&self) -> bool {
        self.guards.iter().any(|guard| matches!(guard, Guard::RangeUnchanged { .. }))
    }
}

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction::new()
    }
}

/// A command and its required outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The command.
    pub command: Command,
    /// The outcome that the command must have for the transaction to commit.
    pub demand: Demand,
}

/// The outcome that a step must have for its transaction to commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Demand {
    /// Any outcome. An error about the command's input or the data it finds is its answer
    /// ([`Answer::Failed`](crate::Answer::Failed)), and nothing of the command is written. Errors of the
    /// database abort the transaction, and so do errors of commands that are not on data.
    Nothing,
    /// No error. A command without effect, such as a failed CAS or a delete of an absent cell, is accepted.
    #[default]
    Success,
    /// An effect. Otherwise the transaction is aborted.
    Effect,
}

impl<C: Into<Command>> From<C> for Step {
    fn from(command: C) -> Step {
        Step { command: command.into(), demand: Demand::default() }
    }
}

/// The identity by which a retried request is recognized.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// A unique id, stored with its receipt for a day.
    Named(RequestId),
    /// A number in a session.
    Session(SessionRequest),
}

/// A caller's id for a request: 1 to 64 bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RequestId(SmallVec<[u8; 16]>);

impl RequestId {
    /// The longest id, in bytes.
    pub const LIMIT_BYTES: usize = 64;

    /// Validates an id.
    pub fn new(id: impl AsRef<[u8]>) -> Result<RequestId, Error> {
        let id = id.as_ref();
        if id.is_empty() || id.len() > RequestId::LIMIT_BYTES {
            let message = format!("a request id has 1 to 64 bytes, this one {}", id.len());
            return Err(Error::new(Code::InvalidArgument, message));
        }
        Ok(RequestId(SmallVec::from_slice(id)))
    }

    /// The id's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The id under which a server stores a user's request. Equal ids of two users become different ones, and
    /// no id that a user can choose leads to another user's receipt.
    ///
    /// ```
    /// use mainstay_model::RequestId;
    /// let id = RequestId::new("order-7")?;
    /// assert_ne!(id.of_user("shop"), id.of_user("office"));
    /// assert_eq!(id.of_user("shop"), id.of_user("shop"));
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    #[must_use]
    pub fn of_user(&self, user: &str) -> RequestId {
        // Receipts are stored across program versions, so the context and the order of the fields must never
        // change.
        let mut hasher = blake3::Hasher::new_derive_key("mainstay 2026 request id of a user");
        hasher.update(&(user.len() as u64).to_le_bytes());
        hasher.update(user.as_bytes());
        hasher.update(&self.0);
        RequestId(SmallVec::from_slice(hasher.finalize().as_bytes()))
    }
}

/// A condition under which a transaction's steps run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Guard {
    /// The cell has this counter (`None`: it is absent).
    Counter {
        /// The cell.
        name: Name,
        /// The expected counter; `None` for absent.
        is: Option<u64>,
    },
    /// The cell has this value (`None`: it is absent).
    Value {
        /// The cell.
        name: Name,
        /// The expected value; `None` for absent.
        #[serde(with = "fields::maybe_value")]
        is: Option<Value>,
    },
    /// The named object has neither been written nor expired since this revision.
    Unchanged {
        /// The contract (kind of state).
        contract: Contract,
        /// The cell, the record's key, the run, or the number of a message.
        name: Name,
        /// The revision it was read at.
        since: Revision,
        /// Its expiry when it was read, so that expiring counts as a change.
        expires: Option<Stamp>,
    },
    /// A range guard: no name in the range has been written since this revision.
    RangeUnchanged {
        /// The contract (kind of state).
        contract: Contract,
        /// The prefix of the names.
        prefix: String,
        /// The exclusive lower bound.
        after: Option<String>,
        /// The inclusive upper bound.
        upto: Option<String>,
        /// The revision it was read at.
        since: Revision,
        /// The earliest expiry in the range when it was read, so that expiring counts as a change.
        expires: Option<Stamp>,
    },
    /// The record has this counter (`None`: it is absent).
    Record {
        /// The record.
        key: Name,
        /// The expected counter; `None` for absent.
        is: Option<u64>,
    },
    /// A field of a record has this value (`None`: the field, or the whole record, does not exist).
    Field {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// The expected value.
        is: Option<Vec<u8>>,
    },
    /// The event of a run with this idempotency key has this sequence number (`None`: the event, or the whole
    /// run, does not exist).
    Event {
        /// The run.
        run: Name,
        /// The idempotency key.
        key: String,
        /// The expected sequence number; `None` for absent.
        is: Option<u64>,
    },
    /// A key of a space has this version (`None`: it was never written, or the space does not exist).
    StateVersion {
        /// The space.
        space: Name,
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// The expected version, which may be a tombstone's; `None` for none.
        is: Option<Version>,
    },
    /// A part of a space has not been written since this revision.
    StateUnchanged {
        /// The space.
        space: Name,
        /// The guarded part.
        place: StatePlace,
        /// The revision it was read at.
        since: Revision,
    },
}
