//! The one error type.
//!
//! Every failure has a [`Code`] that says exactly what happened and an [`ErrorKind`] that tells
//! the caller what to do about it. Kinds are few and stable; faces map them to their own words.

use std::fmt;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong: fix it.
    Invalid,
    /// Something changed meanwhile: read again and retry.
    Conflict,
    /// The lease or token behind this write is no longer the valid one.
    Fenced,
    /// What was named does not exist.
    NotFound,
    /// What was to be created exists already.
    Exists,
    /// The name belongs to another kind of state.
    WrongType,
    /// The point in time asked for is no longer kept.
    HistoryTrimmed,
    /// A transaction is already open here.
    TransactionActive,
    /// No transaction is open here.
    NoTransaction,
    /// The session is unknown or has expired.
    SessionExpired,
    /// The cached response is gone.
    ResponseEvicted,
    /// A stated limit was passed.
    TooLarge,
    /// This store or version cannot do that.
    Unsupported,
    /// Writes are refused; reads go on.
    ReadOnly,
    /// It is not known who asks: say so, with a password or a certificate that is accepted.
    Unauthenticated,
    /// It is known who asks, and that they may not: have the right given, or ask for something else.
    Forbidden,
    /// Not now: try later.
    Unavailable,
    /// It may or may not have happened: ask again with the same request id.
    UnknownOutcome,
    /// Stored bytes are not what was written.
    Corrupt,
    /// The database was closed.
    Closed,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident => $kind:ident,)*) => {
        /// Exactly what went wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $code,)* }

        impl Code {
            /// What the caller can do about it.
            pub fn kind(self) -> ErrorKind {
                match self { $(Code::$code => ErrorKind::$kind,)* }
            }

            /// Whether it is about one command: its input, or what it met. Such an error can be
            /// an answer ([`Demand::Nothing`](crate::Demand::Nothing)); all others are about the
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

            /// The code's stable name, as stored in kept receipts.
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
    /// A field's name is too long, or a record was given none.
    InvalidField => Invalid,
    /// A value cannot be stored or read as the type asked for.
    InvalidValue => Invalid,
    /// A value is larger than the limit.
    ValueTooLarge => TooLarge,
    /// A value is nested deeper than the limit.
    ValueTooDeep => TooLarge,
    /// An addition met something that is not a number, or not a whole one where it has to be.
    NotANumber => Invalid,
    /// An addition would leave the range of its type, or not be finite.
    Overflow => Invalid,
    /// A page limit of zero or above the maximum.
    InvalidLimit => Invalid,
    /// A time to live of zero or beyond the calendar.
    InvalidTtl => Invalid,
    /// A setting is out of its range.
    InvalidOption => Invalid,
    /// An argument that makes no sense where it stands.
    InvalidArgument => Invalid,
    /// A revision or stamp that lies in the future.
    FutureRevision => Invalid,
    /// More commands, guards or bytes than one transaction may hold.
    TransactionTooLarge => TooLarge,
    /// More levels of branches than allowed.
    BranchTooDeep => TooLarge,
    /// The write queue is full.
    QueueFull => Unavailable,
    /// A key or range that was read has changed.
    Conflict => Conflict,
    /// A guard of the transaction did not hold.
    GuardFailed => Conflict,
    /// A command marked `must` did not take effect.
    MustFailed => Conflict,
    /// A strict merge met keys that both sides changed.
    MergeConflict => Conflict,
    /// The snapshot is older than the window of remembered writes.
    SnapshotTooOld => Conflict,
    /// A request id was used before with another transaction.
    RequestReused => Invalid,
    /// The branch does not exist.
    BranchNotFound => NotFound,
    /// The run was deleted.
    RunNotFound => NotFound,
    /// A run of this name exists.
    RunExists => Exists,
    /// The run's last sequence is not the expected one.
    SequenceMoved => Conflict,
    /// A version that is none, or of another kind than its space has.
    InvalidVersion => Invalid,
    /// The space is declared in another way.
    SpaceExists => Exists,
    /// There is no such checkpoint.
    CheckpointNotFound => NotFound,
    /// A shard failed, or it took too long: the checkpoint will not be.
    CheckpointAborted => Unavailable,
    /// A checkpoint of this number, or a later one, exists.
    CheckpointExists => Exists,
    /// There is no such index.
    IndexNotFound => NotFound,
    /// An index of the same prefix and fields exists.
    IndexExists => Exists,
    /// A branch of this name exists.
    BranchExists => Exists,
    /// A tag of this name exists.
    TagExists => Exists,
    /// `main` and branches with children stay.
    BranchInUse => Invalid,
    /// The point in time is no longer kept.
    HistoryTrimmed => HistoryTrimmed,
    /// A feed consumer fell behind what the log keeps.
    Lagged => HistoryTrimmed,
    /// A transaction is already open on this connection.
    TransactionActive => TransactionActive,
    /// No transaction is open on this connection.
    NoTransaction => NoTransaction,
    /// The transaction was open for too long.
    TransactionExpired => Conflict,
    /// There is no such job.
    JobNotFound => NotFound,
    /// A job of this type and id exists.
    JobExists => Exists,
    /// A job's state is none of those that jobs have.
    UnknownState => Invalid,
    /// A job in this state cannot get into that one.
    IllegalTransition => Invalid,
    /// A job depends on one that there is not.
    UnknownDependency => Invalid,
    /// A job depends on itself.
    SelfDependency => Invalid,
    /// A job names a dependency twice.
    DuplicateDependency => Invalid,
    /// Jobs depend on each other in a circle.
    DependencyCycle => Invalid,
    /// No job was given where at least one is needed.
    EmptyGraph => Invalid,
    /// The holder of this write has been replaced.
    Fenced => Fenced,
    /// The name belongs to another kind of state.
    WrongType => WrongType,
    /// The session is unknown or has expired.
    SessionExpired => SessionExpired,
    /// The cached response is gone.
    ResponseEvicted => ResponseEvicted,
    /// A command of a request is about another session, which there is not.
    SessionNotFound => NotFound,
    /// A session's client has not acknowledged as many requests as may wait for it.
    MailboxFull => TooLarge,
    /// There are as many sessions as there may be.
    TooManySessions => TooLarge,
    /// The machine of a user failed at a command; nothing of it was written.
    MachineFailed => Invalid,
    /// The snapshot is one of another machine, or of another version of it.
    ForeignSnapshot => Invalid,
    /// This build or store cannot do that.
    Unsupported => Unsupported,
    /// The file format is newer than this program.
    NewerFormat => Unsupported,
    /// A sync failed: reopen the database before writing again.
    SyncFailed => ReadOnly,
    /// The disk is full: writes resume when space returns.
    DiskFull => ReadOnly,
    /// The file system or directory does not allow writing.
    ReadOnlyFiles => ReadOnly,
    /// A server asks who is there: it was told nothing, or nothing that it accepts.
    Unauthenticated => Unauthenticated,
    /// The user has no right to do this, or not with these keys.
    Forbidden => Forbidden,
    /// Another process has the database open.
    Locked => Unavailable,
    /// The wait ended before what was waited for.
    TimedOut => Unavailable,
    /// Reading or writing a file failed.
    Io => Unavailable,
    /// It may or may not have been committed.
    UnknownOutcome => UnknownOutcome,
    /// The directory holds something that is not a Mainstay database.
    ForeignDirectory => Invalid,
    /// Bytes in the log are not what was written.
    CorruptLog => Corrupt,
    /// Bytes in the index are not what was written, and the log no longer reaches back.
    CorruptIndex => Corrupt,
    /// Bytes of an export file or a stored value are not what was written.
    CorruptData => Corrupt,
    /// The database was closed.
    Closed => Closed,
    /// The database's directory or lock was removed or replaced while it was open: nothing is written until it is opened again.
    LockLost => ReadOnly,
    /// A read was stopped before it ended, as nobody waits for it any more.
    Cancelled => Unavailable,
}

/// What happened, to what, and what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    code: Code,
    message: String,
    position: Option<usize>,
    keys: Vec<String>,
}

/// The result of everything that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with its code and a sentence that says what to do.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { code, message: message.into(), position: None, keys: Vec::new() }))
    }

    /// Names the command, counted from zero, at which the transaction failed.
    #[must_use]
    pub fn at_position(mut self, position: usize) -> Error {
        self.0.position = Some(position);
        self
    }

    /// Names the keys concerned, as a strict merge does.
    #[must_use]
    pub fn with_keys(mut self, keys: Vec<String>) -> Error {
        self.0.keys = keys;
        self
    }

    /// Exactly what went wrong.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind()
    }

    /// The sentence without its code.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The command, counted from zero, at which the transaction failed.
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The keys concerned, where the error is about keys.
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
