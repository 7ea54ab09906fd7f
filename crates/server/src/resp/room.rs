//! Room: the memory that all connections together may hold for what is incomplete or unsent.
//!
//! ```text
//!   room (1 GiB) <-- share of a connection: what it has sent of a request, what it has not read yet
//!        full: whoever grows is told so and closed; the others are served on
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shares are counted in steps of this: a connection that holds little costs no counting.
const STEP_BYTES: usize = 64 << 10;

/// The memory that all connections share.
#[derive(Debug)]
pub struct Room {
    held_bytes: AtomicUsize,
    limit_bytes: usize,
}

impl Room {
    /// So much for all.
    pub fn new(limit_bytes: usize) -> Arc<Room> {
        Arc::new(Room { held_bytes: AtomicUsize::new(0), limit_bytes })
    }

    /// What is held now.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// An empty share of it.
    pub fn share(self: &Arc<Room>) -> Share {
        Share { room: self.clone(), bytes: 0 }
    }
}

/// What one connection holds; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// Notes what the connection holds now; false when it grew and there is no room for that.
    pub fn holds(&mut self, bytes: usize) -> bool {
        let (before, now) = (self.bytes, bytes / STEP_BYTES * STEP_BYTES);
        self.bytes = now;
        if now <= before {
            if now < before {
                self.room.held_bytes.fetch_sub(before - now, Ordering::Relaxed);
            }
            return true;
        }
        let grown = now - before;
        self.room.held_bytes.fetch_add(grown, Ordering::Relaxed) + grown <= self.room.limit_bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.holds(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_grows_beyond_the_room_is_told_and_what_is_dropped_is_free_again() {
        let room = Room::new(1 << 20);
        let (mut one, mut two) = (room.share(), room.share());
        assert!(one.holds(900 << 10));
        assert!(!two.holds(300 << 10));
        drop(two);
        assert!(one.holds(1 << 20));
        assert!(one.holds(STEP_BYTES - 1), "shrinking always fits");
        assert_eq!(room.held_bytes(), 0, "a little is not counted");
        drop(one);
        assert_eq!(room.held_bytes(), 0);
    }
}
