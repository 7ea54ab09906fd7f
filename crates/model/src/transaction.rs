//! The transaction value: the narrow waist that every way in goes through.
//!
//! ```text
//!   Transaction { request, branch, guards, steps, otherwise }
//!        |  all guards hold          |  one does not
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

/// The branch that is always there.
pub const MAIN: &str = "main";

/// A mix of commands that takes effect as a whole or not at all.
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
    /// Names this request, so that asking again gives the same receipt and does nothing twice.
    #[serde(with = "fields::request")]
    pub request: Option<Request>,
    /// The branch it reads and writes.
    #[serde(with = "fields::text")]
    pub branch: CompactString,
    /// The branch must still be the one that had this number; names can be taken again.
    pub branch_id: Option<u32>,
    /// What must hold for the steps to run.
    #[serde(with = "fields::list")]
    pub guards: Vec<Guard>,
    /// What it does.
    #[serde(with = "fields::list")]
    pub steps: SmallVec<[Step; 1]>,
    /// What it does instead when a guard fails; without it the transaction fails.
    #[serde(with = "fields::maybe_list")]
    pub otherwise: Option<Vec<Step>>,
    /// What must have happened before the answer; `None`: as the database is set.
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

    /// Adds a command that has to take effect, or the whole transaction fails.
    #[must_use]
    pub fn must(mut self, command: impl Into<Command>) -> Transaction {
        self.steps.push(Step { command: command.into(), demand: Demand::Effect });
        self
    }

    /// Adds a command that may fail: its error is its answer, and the others take effect.
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

    /// Adds a condition.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Transaction {
        self.guards.push(guard);
        self
    }

    /// Says what happens when a guard fails.
    #[must_use]
    pub fn otherwise(mut self, steps: Vec<Step>) -> Transaction {
        self.otherwise = Some(steps);
        self
    }

    /// Names the request.
    #[must_use]
    pub fn request(mut self, id: RequestId) -> Transaction {
        self.request = Some(Request::Named(id));
        self
    }

    /// Makes it a request of a session.
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

    /// The request of a session that it is.
    pub fn session(&self) -> Option<&SessionRequest> {
        match &self.request {
            Some(Request::Session(request)) => Some(request),
            _ => None,
        }
    }

    /// The name of the request that it is.
    pub fn named(&self) -> Option<&RequestId> {
        match &self.request {
            Some(Request::Named(id)) => Some(id),
            _ => None,
        }
    }

    /// The memory that it takes with all its commands, about.
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

    /// Whether it may take a while, so that others should not have to wait behind it: a merge looks
    /// for what changed before the writer is asked.
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

    /// Whether its guards, searches, lists and folds may look at so much that others should not have to wait behind it.
    ///
    /// ```
    /// use mainstay_model::{CellCommand, RecordCommand, Transaction};
    /// let list = |limit| CellCommand::List { prefix: String::new(), after: None, limit };
    /// assert!(Transaction::new().step(list(10)).walks(), "any number of deleted names may lie before ten");
    /// let count = RecordCommand::Count { prefix: String::new(), filters: Vec::new() };
    /// assert!(Transaction::new().step(count).walks());
    /// ```
    pub fn walks(&self) -> bool {
        // One of the two lists is run.
        let walk = |steps: &[Step]| {
            let looks = steps.iter().map(|step| step.command.looks_at());
            looks.fold(0, usize::saturating_add) > PAGE_DEFAULT
        };
        walk(&self.steps) || self.otherwise.as_deref().is_some_and(walk) || self.has_range_guards()
    }

    /// Whether it takes so long that it is not for an event loop: it merges, walks, or has many commands.
    pub fn is_long(&self) -> bool {
        let otherwise = self.otherwise.as_ref().map_or(0, Vec::len);
        self.steps.len().max(otherwise) > LONG_COMMANDS || self.takes_a_while() || self.walks()
    }

    /// Whether it has a guard on a range, which is compared with all writes since its revision.
    pub fn has_range_guards(&self) -> bool {
        self.guards.iter().any(|guard| matches!(guard, Guard::RangeUnchanged { .. }))
    }
}

impl Default for Transaction {
    fn default() -> Transaction {
        Transaction::new()
    }
}

/// A command and how serious it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What to do.
    pub command: Command,
    /// What it has to achieve for the transaction to go on.
    pub demand: Demand,
}

/// What a step has to achieve for its transaction to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Demand {
    /// Nothing: an error about its own input, or about what its cell holds, is its answer
    /// ([`Answer::Failed`](crate::Answer::Failed)), and nothing of it is written. Errors of the database fail everything,
    /// and so does the error of a command that is not on data.
    Nothing,
    /// No error; that it did not take effect (a lost CAS, a delete of nothing) is an answer.
    #[default]
    Success,
    /// An effect; else everything fails.
    Effect,
}

impl<C: Into<Command>> From<C> for Step {
    fn from(command: C) -> Step {
        Step { command: command.into(), demand: Demand::default() }
    }
}

/// By what a request is known when it is sent again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Request {
    /// By a name of its own, which is kept for a day.
    Named(RequestId),
    /// By its number in a session.
    Session(SessionRequest),
}

/// The caller's own name for a request: 1 to 64 bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RequestId(SmallVec<[u8; 16]>);

impl RequestId {
    /// The longest id, in bytes.
    pub const LIMIT_BYTES: usize = 64;

    /// Checks and keeps an id.
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

    /// The id under which a server keeps this request of one of its users. Two users who choose the same id
    /// get different ones, and no id that a user can choose leads to the receipt of another user.
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
        // Receipts outlive the program, so the context and the order of the fields may never change.
        let mut hasher = blake3::Hasher::new_derive_key("mainstay 2026 request id of a user");
        hasher.update(&(user.len() as u64).to_le_bytes());
        hasher.update(user.as_bytes());
        hasher.update(&self.0);
        RequestId(SmallVec::from_slice(hasher.finalize().as_bytes()))
    }
}

/// What must hold for a transaction's steps to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Guard {
    /// The cell has this counter (`None`: it is absent).
    Counter {
        /// The cell.
        name: Name,
        /// Its counter, `None` for absent.
        is: Option<u64>,
    },
    /// The cell has this value (`None`: it is absent).
    Value {
        /// The cell.
        name: Name,
        /// Its value, `None` for absent.
        #[serde(with = "fields::maybe_value")]
        is: Option<Value>,
    },
    /// What has this name has not been written since this revision, nor has it expired.
    Unchanged {
        /// The kind of state.
        contract: Contract,
        /// The cell, the record's key, the run, or the number of a message.
        name: Name,
        /// The revision it was read at.
        since: Revision,
        /// Its expiry as it was read, so that expiring counts as a change.
        expires: Option<Stamp>,
    },
    /// Nothing in this range has been written since this revision.
    RangeUnchanged {
        /// The kind of state.
        contract: Contract,
        /// Only names that begin with this.
        prefix: String,
        /// Only names behind this one.
        after: Option<String>,
        /// Only names up to and including this one.
        upto: Option<String>,
        /// The revision it was read at.
        since: Revision,
        /// The earliest expiry seen in the range, so that expiring counts as a change.
        expires: Option<Stamp>,
    },
    /// The record has this counter (`None`: it is absent).
    Record {
        /// The record.
        key: Name,
        /// Its counter, `None` for absent.
        is: Option<u64>,
    },
    /// A field of a record has this value (`None`: there is no such field, and maybe no record).
    Field {
        /// The record.
        key: Name,
        /// The field.
        field: Field,
        /// Its value.
        is: Option<Vec<u8>>,
    },
    /// The event of a run that has this idempotency key has this sequence (`None`: there is no such event, and maybe no
    /// run).
    Event {
        /// The run.
        run: Name,
        /// The idempotency key.
        key: String,
        /// The event's sequence, `None` for absent.
        is: Option<u64>,
    },
    /// A key of a space has this version (`None`: nothing was written to it, and maybe there is no such space).
    StateVersion {
        /// The space.
        space: Name,
        /// The key.
        #[serde(with = "fields::bytes")]
        key: Vec<u8>,
        /// Its version, also of a deletion; `None` for none.
        is: Option<Version>,
    },
    /// What stands here in a space has not been written since this revision.
    StateUnchanged {
        /// The space.
        space: Name,
        /// What of it.
        place: StatePlace,
        /// The revision it was read at.
        since: Revision,
    },
}
