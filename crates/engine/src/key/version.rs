//! One version of one key, in one allocation shared by cache, buffer and readers.
//!
//! ```text
//!  | key length u16 | key | entry |
//! ```

use crate::key::entry;
use mainstay_model::Revision;
use std::sync::Arc;

/// Memory cost of a version beside its bytes: the table slot, the list entry, the reference counts, the
/// allocator.
const OVERHEAD_BYTES: usize = 136;

/// The key and the header of most entries end within this many bytes.
const HEAD_BYTES: usize = 64;

/// A key and its entry at one revision.
#[derive(Clone, Debug)]
pub struct Version(Arc<[u8]>);

impl Version {
    /// Creates a version of a key from a complete entry.
    pub fn new(key: &[u8], entry: &[u8]) -> Version {
        let mut bytes = Vec::with_capacity(2 + key.len() + entry.len());
        Version::begin(key, &mut bytes);
        bytes.extend_from_slice(entry);
        Version::from_bytes(&bytes)
    }

    /// Starts a version in a buffer. The caller appends the entry after the key.
    #[inline]
    pub fn begin(key: &[u8], out: &mut Vec<u8>) {
        debug_assert!(key.len() <= usize::from(u16::MAX));
        out.extend_from_slice(&(key.len() as u16).to_le_bytes());
        out.extend_from_slice(key);
    }

    /// Creates a version from the bytes that `begin` started.
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

    /// Returns whether both are the same allocation, not merely equal.
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

    /// Reads one byte each of the key length and of the entry's header, to load the cache lines that a write
    /// will read.
    #[inline]
    pub fn touch(&self) -> u8 {
        let head = self.0.len().min(HEAD_BYTES) - 1;
        self.0[0] ^ self.0[head]
    }

    /// Memory cost in bytes, including the overhead.
    #[inline]
    pub fn cost_bytes(&self) -> usize {
        self.0.len() + OVERHEAD_BYTES
    }
}
