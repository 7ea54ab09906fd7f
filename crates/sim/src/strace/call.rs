//! Calls by which the engine changes files, and how each can fail.

use std::fmt;

macro_rules! calls {
    ($($call:ident $name:literal,)*) => {
        /// A call of the system.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Call { $($call,)* }

        impl Call {
            /// All of them: `strace -c` of a drill shows no others that change files. Those that it makes only after a failure are
            /// followed in traces, and not let fail: cases come from a process that meets none.
            pub const ALL: &[Call] = &[$(Call::$call,)*];

            /// Its name.
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

/// How a call fails.
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
    /// The call of this name.
    pub fn named(name: &str) -> Option<Call> {
        Call::ALL.iter().copied().find(|call| call.name() == name)
    }

    /// How it can fail.
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

    /// Whether it syncs.
    pub fn syncs(self) -> bool {
        matches!(self, Call::Fsync | Call::Fdatasync)
    }
}

impl Errno {
    /// Its name.
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

    /// Whether there is no room.
    pub fn is_full(self) -> bool {
        matches!(self, Errno::Enospc | Errno::Edquot)
    }

    /// Whether it is no failure, and nobody may notice.
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
