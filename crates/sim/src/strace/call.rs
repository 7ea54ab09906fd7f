//! The system calls by which the engine changes files, and the ways in which each can fail.

use std::fmt;

macro_rules! calls {
    ($($call:ident $name:literal,)*) => {
        /// A system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Call { $($call,)* }

        impl Call {
            /// All calls that change files, as `strace -c` of a drill shows. Calls that occur only
            /// after a failure are traced but not injected, because the cases come from an undisturbed
            /// process.
            pub const ALL: &[Call] = &[$(Call::$call,)*];

            /// The name that strace prints.
            pub fn name(self) -> &'static str {
                match self { $(Call::$call => $name,)* }
            }
        }
    };
}

calls! {
    Openat "openat",
    Write "write",
    Pwrite "pwrite64",
    Fsync "fsync",
    Fdatasync "fdatasync",
    Rename "rename",
    Renameat "renameat",
    Unlink "unlink",
    Unlinkat "unlinkat",
    Mkdir "mkdir",
    Ftruncate "ftruncate",
    Fallocate "fallocate",
}

/// The error of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Errno {
    Eio,
    Enospc,
    Edquot,
    Emfile,
    Eintr,
    Eopnotsupp,
}

impl Call {
    /// Returns the call of this name.
    pub fn named(name: &str) -> Option<Call> {
        Call::ALL.iter().copied().find(|call| call.name() == name)
    }

    /// Returns the errors that the call can fail with.
    pub fn errors(self) -> &'static [Errno] {
        use Errno::*;
        match self {
            Call::Openat => &[Eio, Enospc, Emfile],
            Call::Write | Call::Pwrite => &[Eio, Enospc, Edquot, Eintr],
            Call::Fsync | Call::Fdatasync => &[Eio, Enospc, Edquot, Eintr],
            Call::Rename | Call::Renameat | Call::Mkdir => &[Eio, Enospc],
            Call::Unlink | Call::Unlinkat => &[Eio],
            Call::Ftruncate => &[Eio, Eintr],
            Call::Fallocate => &[Eio, Enospc, Eintr, Eopnotsupp],
        }
    }

    /// Returns whether the call is a sync.
    pub fn syncs(self) -> bool {
        matches!(self, Call::Fsync | Call::Fdatasync)
    }
}

impl Errno {
    /// The name that strace prints.
    pub fn name(self) -> &'static str {
        match self {
            Errno::Eio => "EIO",
            Errno::Enospc => "ENOSPC",
            Errno::Edquot => "EDQUOT",
            Errno::Emfile => "EMFILE",
            Errno::Eintr => "EINTR",
            Errno::Eopnotsupp => "EOPNOTSUPP",
        }
    }

    /// Returns whether the error means that the disk is full.
    pub fn is_full(self) -> bool {
        matches!(self, Errno::Enospc | Errno::Edquot)
    }

    /// Returns whether the error is no failure, so that the database must hide it.
    pub fn is_harmless(self) -> bool {
        matches!(self, Errno::Eintr | Errno::Eopnotsupp)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
