//! One version of one key, in one allocation shared by cache, buffer and readers.
//!
//! ```text
//!  | key length u16 | key | entry |
//! ```

use crate::key::entry;
use mainstay_model::Revision;
use std::sync::Arc;

/// What a version costs beside its bytes: the slot, the list place, the counts, the allocator.
const OVERHEAD_BYTES: usize = 136;

/// Key and head of most entries end about here.
const HEAD_BYTES: usize = 64;

/// A key and the entry it had at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Version(Arc<[u8]>);

impl Version {
    /// A version of a key whose entry is known.
    pub fn new(key: &[u8], entry: &[u8]) -> Version {
        let mut bytes = Vec::with_capacity(2 + key.len() + entry.len());
        Version::begin(key, &mut bytes);
        bytes.extend_from_slice(entry);
        Version::from_bytes(&bytes)
    }

    /// Starts a version in a buffer: its entry is appended behind the key.
    #[inline]
    pub fn begin(key: &[u8], out: &mut Vec<u8>) {
        debug_assert!(key.len() <= usize::from(u16::MAX));
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.extend_from_slice(key);
    }

    /// Keeps what `begin` started.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Version {
        Version(Arc::from(bytes))
    }

    #[inline]
    fn key_len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.0[2..2 + self.key_len()]
    }

    /// Whether it is the same one, not merely an equal one.
    #[inline]
    pub fn is(&self, other: &Version) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline]
    pub fn entry(&self) -> &[u8] {
        &self.0[2 + self.key_len()..]
    }

    #[inline]
    pub fn revision(&self) -> Revision {
        entry::revision_of(self.entry())
    }

    /// Reads of it what a write looks at: the key's length and the entry's head.
    #[inline]
    pub fn touch(&self) -> u8 {
        let head = self.0.len().min(HEAD_BYTES) - 1;
        self.0[0] ^ self.0[head]
    }

    /// The memory it holds, everything counted.
    #[inline]
    pub fn cost_bytes(&self) -> usize {
        self.0.len() + OVERHEAD_BYTES
    }
}
