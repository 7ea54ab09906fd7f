//! The error type of all operations.
//!
//! Every error has a [`Code`] with the exact cause and an [`ErrorKind`] that determines the caller's
//! reaction. The kinds are few and stable. Protocol front ends map them to their own error words.

use std::fmt;

/// The class of an error, which determines the caller's reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong: fix it.
    Invalid,
    /// Another transaction changed the data: read again and retry.
    Conflict,
    /// The lease or token behind this write is no longer the valid one.
    Fenced,
    /// The named object does not exist.
    NotFound,
    /// An object with this name exists already.
    Exists,
    /// The name belongs to another kind of state.
    WrongType,
    /// The requested point in time is no longer kept.
    HistoryTrimmed,
    /// A transaction is already open on this connection.
    TransactionActive,
    /// No transaction is open on this connection.
    NoTransaction,
    /// The session is unknown or has expired.
    SessionExpired,
    /// The stored response was evicted.
    ResponseEvicted,
    /// A limit was exceeded.
    TooLarge,
    /// This store or version cannot do that.
    Unsupported,
    /// Writes are refused. Reads still work.
    ReadOnly,
    /// The caller is unknown: authenticate with an accepted password or certificate.
    Unauthenticated,
    /// The caller is known but lacks the permission: request the permission, or use another object.
    Forbidden,
    /// Temporarily unavailable: retry later.
    Unavailable,
    /// The request may or may not have been executed: retry with the same request id.
    UnknownOutcome,
    /// Stored bytes are damaged.
    Corrupt,
    /// The database was closed.
    Closed,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident => $kind:ident,)*) => {
        /// The exact cause of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $code,)* }

        impl Code {
            /// The class of the error, which determines the caller's reaction.
            pub fn kind(self) -> ErrorKind {
                match self { $(Code::$code => ErrorKind::$kind,)* }
            }

            /// Returns whether the error is about one command: its input or the state it found. Such an error
            /// can be an answer ([`Demand::Nothing`](crate::Demand::Nothing)). All other errors are about the
            /// transaction or the database.
            pub fn is_about_a_command(self) -> bool {
                match self {
                    Code::ValueTooLarge
                    | Code::ValueTooDeep
                    | Code::SequenceMoved
                    | Code::SessionExpired
                    | Code::MailboxFull => true,
                    _ => matches!(
                        self.kind(),
                        ErrorKind::Invalid
                            | ErrorKind::Fenced
                            | ErrorKind::NotFound
                            | ErrorKind::Exists
                            | ErrorKind::WrongType
                    ),
                }
            }

            /// The code's stable name, as stored in receipts.
            pub fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code),)* }
            }

            /// The code with this name.
            pub fn from_name(name: &str) -> Option<Code> {
                match name { $(stringify!($code) => Some(Code::$code),)* _ => None }
            }
        }
    };
}

codes! {
    /// A name is empty, too long, holds a NUL or starts with `_mainstay/`.
    InvalidName => Invalid,
    /// A field's name is too long, or a record has no field.
    InvalidField => Invalid,
    /// A value cannot be stored, or read as the requested type.
    InvalidValue => Invalid,
    /// A value is larger than the limit.
    ValueTooLarge => TooLarge,
    /// A value is nested deeper than the limit.
    ValueTooDeep => TooLarge,
    /// An addition found a value that is not a number, or not an integer where one is required.
    NotANumber => Invalid,
    /// The sum of an addition is out of its type's range or not finite.
    Overflow => Invalid,
    /// A page size of zero or above the maximum.
    InvalidLimit => Invalid,
    /// A time to live of zero or beyond the largest timestamp.
    InvalidTtl => Invalid,
    /// A setting is out of its range.
    InvalidOption => Invalid,
    /// An argument is invalid here.
    InvalidArgument => Invalid,
    /// A requested revision or timestamp lies in the future.
    FutureRevision => Invalid,
    /// The transaction has more commands, guards or bytes than the limit.
    TransactionTooLarge => TooLarge,
    /// The branch is nested deeper than the limit.
    BranchTooDeep => TooLarge,
    /// The write queue is full.
    QueueFull => Unavailable,
    /// A key or range in the read set has changed.
    Conflict => Conflict,
    /// A guard of the transaction did not hold.
    GuardFailed => Conflict,
    /// A command marked `must` did not take effect.
    MustFailed => Conflict,
    /// A strict merge found keys that both sides changed.
    MergeConflict => Conflict,
    /// The transaction's snapshot is older than the window of remembered writes.
    SnapshotTooOld => Conflict,
    /// A request id was reused with a different transaction.
    RequestReused => Invalid,
    /// The branch does not exist.
    BranchNotFound => NotFound,
    /// The run was deleted.
    RunNotFound => NotFound,
    /// A run of this name exists.
    RunExists => Exists,
    /// The run's last sequence is not the expected one.
    SequenceMoved => Conflict,
    /// The version is malformed or of another kind than the space's.
    InvalidVersion => Invalid,
    /// The space exists with other options.
    SpaceExists => Exists,
    /// The checkpoint does not exist.
    CheckpointNotFound => NotFound,
    /// A shard failed or timed out, so the checkpoint is not created.
    CheckpointAborted => Unavailable,
    /// A checkpoint of this number, or a later one, exists.
    CheckpointExists => Exists,
    /// The index does not exist.
    IndexNotFound => NotFound,
    /// An index with the same prefix and fields exists.
    IndexExists => Exists,
    /// A branch of this name exists.
    BranchExists => Exists,
    /// A tag of this name exists.
    TagExists => Exists,
    /// `main` and branches with children cannot be deleted.
    BranchInUse => Invalid,
    /// The requested point in time is no longer kept.
    HistoryTrimmed => HistoryTrimmed,
    /// A feed consumer fell behind the oldest entry that the log keeps.
    Lagged => HistoryTrimmed,
    /// A transaction is already open on this connection.
    TransactionActive => TransactionActive,
    /// No transaction is open on this connection.
    NoTransaction => NoTransaction,
    /// The transaction was open longer than its limit.
    TransactionExpired => Conflict,
    /// The job does not exist.
    JobNotFound => NotFound,
    /// A job of this type and id exists.
    JobExists => Exists,
    /// A job's state is not one of the known states.
    UnknownState => Invalid,
    /// A job in this state cannot change to that one.
    IllegalTransition => Invalid,
    /// A job depends on an unknown job.
    UnknownDependency => Invalid,
    /// A job depends on itself.
    SelfDependency => Invalid,
    /// A job names a dependency twice.
    DuplicateDependency => Invalid,
    /// Jobs depend on each other in a cycle.
    DependencyCycle => Invalid,
    /// A list of jobs is empty.
    EmptyGraph => Invalid,
    /// Another holder has replaced the holder of this write: its fencing token is stale.
    Fenced => Fenced,
    /// The name belongs to another kind of state.
    WrongType => WrongType,
    /// The session is unknown or has expired.
    SessionExpired => SessionExpired,
    /// The stored response was evicted.
    ResponseEvicted => ResponseEvicted,
    /// A command of a request names another session, which does not exist.
    SessionNotFound => NotFound,
    /// The mailbox of a session is full, because its client has not acknowledged enough requests.
    MailboxFull => TooLarge,
    /// The limit on the number of sessions is reached.
    TooManySessions => TooLarge,
    /// The user's state machine failed on a command. None of the command's writes was applied.
    MachineFailed => Invalid,
    /// The snapshot belongs to another state machine or to another version of it.
    ForeignSnapshot => Invalid,
    /// This build or store does not support the operation.
    Unsupported => Unsupported,
    /// The file format is newer than this program.
    NewerFormat => Unsupported,
    /// An fsync failed: reopen the database before writing again.
    SyncFailed => ReadOnly,
    /// The disk is full. Writes resume when space is available.
    DiskFull => ReadOnly,
    /// The file system or directory does not allow writing.
    ReadOnlyFiles => ReadOnly,
    /// The server requires authentication, and the credentials are missing or not accepted.
    Unauthenticated => Unauthenticated,
    /// The user lacks the permission for this operation or for these keys.
    Forbidden => Forbidden,
    /// Another process has the database open.
    Locked => Unavailable,
    /// The wait timed out.
    TimedOut => Unavailable,
    /// Reading or writing a file failed.
    Io => Unavailable,
    /// The transaction may or may not have been committed.
    UnknownOutcome => UnknownOutcome,
    /// The directory holds something that is not a Mainstay database.
    ForeignDirectory => Invalid,
    /// Bytes in the write-ahead log are damaged.
    CorruptLog => Corrupt,
    /// Bytes in the index are damaged, and the log no longer reaches back far enough to rebuild it.
    CorruptIndex => Corrupt,
    /// Bytes of an export file or of a stored value are damaged.
    CorruptData => Corrupt,
    /// The database was closed.
    Closed => Closed,
    /// The database's directory or lock was removed or replaced while the database was open. Writes are
    /// refused until it is reopened.
    LockLost => ReadOnly,
    /// A read was cancelled because its caller no longer waits for it.
    Cancelled => Unavailable,
}

/// An error: its code, a message with the object and the remedy, and its position in the transaction.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    code: Code,
    message: String,
    position: Option<usize>,
    keys: Vec<String>,
}

/// The result type of all fallible operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error from its code and a message that says how to fix it.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { code, message: message.into(), position: None, keys: Vec::new() }))
    }

    /// Sets the index, from zero, of the command at which the transaction failed.
    #[must_use]
    pub fn at_position(mut self, position: usize) -> Error {
        self.0.position = Some(position);
        self
    }

    /// Sets the affected keys, as a strict merge does.
    #[must_use]
    pub fn with_keys(mut self, keys: Vec<String>) -> Error {
        self.0.keys = keys;
        self
    }

    /// The exact cause.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The class of the error, which determines the caller's reaction.
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind()
    }

    /// The message without the code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The index, from zero, of the command at which the transaction failed.
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The affected keys, if the error is about keys.
    pub fn keys(&self) -> &[String] {
        &self.0.keys
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code().name(), self.message())?;
        if let Some(position) = self.position() {
            write!(f, " (command {position})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        if !self.keys().is_empty() {
            write!(f, " keys {:?}", self.keys())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_name() {
        for code in [Code::InvalidName, Code::MergeConflict, Code::Closed, Code::DiskFull] {
            assert_eq!(Code::from_name(code.name()), Some(code));
        }
        assert_eq!(Code::from_name("Nonsense"), None);
    }

    #[test]
    fn only_errors_about_a_command_can_be_answers() {
        for code in [Code::NotANumber, Code::InvalidTtl, Code::ValueTooLarge, Code::SessionExpired]
        {
            assert!(code.is_about_a_command(), "{code:?}");
        }
        for code in [Code::TransactionTooLarge, Code::Io, Code::Forbidden, Code::DiskFull] {
            assert!(!code.is_about_a_command(), "{code:?}");
        }
    }

    #[test]
    fn an_error_says_its_code_sentence_and_position() {
        let error = Error::new(Code::InvalidName, "the name is empty").at_position(3);
        assert_eq!(error.to_string(), "InvalidName: the name is empty (command 3)");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
