//! The table `[database]`: settings of the database.

use super::settings::settings;
use mainstay::{Durability, Options};
use std::path::PathBuf;
use std::time::Duration;

const DAY_MS: u64 = 86_400_000;
const YEARS_MS: u64 = 36_500 * DAY_MS;
const TIB: u64 = 1 << 40;

settings! {
    /// How the database is opened.
    pub struct Settings {
        /// What has to happen before a write is answered, unless its connection says otherwise: "sync" (on
        /// stable storage), "interval" (there within sync_interval_ms) or "memory".
        #[serde(with = "super::durability")]
        pub durability: Durability = Durability::Sync;
        /// How long a write may stay unsynced under "interval".
        pub sync_interval_ms: u64 = 100, 1..=DAY_MS;
        /// The memory for current values; less data takes less.
        pub cache_bytes: u64 = 1 << 30, 0..=TIB;
        /// The memory for blocks of the files.
        pub block_cache_bytes: u64 = 64 << 20, 0..=TIB;
        /// The memory for versions that the files do not hold yet; when it is full, writers wait.
        pub write_buffer_bytes: u64 = 96 << 20, 64 << 10..=TIB;
        /// The size of a segment of the log.
        pub segment_bytes: u64 = 64 << 20, 4096..=16 << 30;
        /// How long versions of cells that were overwritten stay readable; "none" keeps all for ever.
        pub retention_ms: Option<u64> = Some(7 * DAY_MS), 0..=YEARS_MS;
        /// Cells under a prefix that have a retention of their own.
        pub retention_classes: Vec<RetentionClass> = Vec::new();
        /// How long versions of records that were overwritten stay readable; "none" keeps all for ever.
        pub record_retention_ms: Option<u64> = Some(DAY_MS), 0..=YEARS_MS;
        /// Records under a prefix that have a retention of their own.
        pub record_retention_classes: Vec<RecordRetentionClass> = Vec::new();
        /// How long versions of keyed state that were overwritten stay readable; "none" keeps all for ever.
        pub keyed_retention_ms: Option<u64> = Some(DAY_MS), 0..=YEARS_MS;
        /// Spaces of keyed state under a prefix that have a retention of their own.
        pub keyed_retention_classes: Vec<KeyedRetentionClass> = Vec::new();
        /// How long the log is kept for the feed.
        pub feed_retention_ms: u64 = DAY_MS, 0..=YEARS_MS;
        /// Up to how many bytes the log is kept for the feed.
        pub feed_retention_bytes: u64 = 1 << 30, 0..=1 << 50;
        /// How often cells and records are looked for whose time is over; "none" never.
        pub sweep_interval_ms: Option<u64> = Some(1_000), 1..=DAY_MS;
        /// How long a reader may hold back what goes by its age before it is cut.
        pub reader_limit_ms: u64 = 3_600_000, 1..=YEARS_MS;
        /// How long a transaction may be idle.
        pub transaction_idle_limit_ms: u64 = 30_000, 1..=DAY_MS;
        /// How long a transaction may be open in all.
        pub transaction_limit_ms: u64 = 300_000, 1..=DAY_MS;
        /// How far the clock may be ahead of the last write when the database is opened; one that is further ahead is followed only
        /// once it is confirmed. "none" believes whatever it shows.
        pub clock_jump_limit_ms: Option<u64> = Some(30 * DAY_MS), 1..=YEARS_MS;
        /// Whether files and directories of the database keep the modes that they have, so that a group can have access; else opening
        /// takes the rights of everybody but the owner from them.
        pub keep_modes: bool = false;
        /// How many entries a transaction may look at, all its commands together.
        pub transaction_entries: u64 = 10_000_000, 1_000..=1 << 40;
        /// How many entries its lists, counts, searches and merges may pass while it holds the writer, so that all others wait; it
        /// may look up four times as many by their keys.
        pub transaction_writer_entries: u64 = 250_000, 1_000..=1 << 40;
        /// How many commands a transaction may have that writes; while they are executed, all others wait.
        pub transaction_commands: usize = 100_000, 1_000..=100_000;
        /// How many bytes of entries a transaction may read, all its commands together.
        pub transaction_read_bytes: u64 = 4 << 30, 1 << 20..=TIB;
        /// How many bytes a transaction may write before its last command, those counted that it overwrites itself: each command on a
        /// large record writes the whole record, and all others wait. A job is completed together with its dependents, which take up to
        /// 16 MiB: below that some jobs cannot be.
        pub transaction_write_bytes: usize = 256 << 20, 8 << 20..=256 << 20;
        /// Whether messages are claimed and requests to clients are sent on other branches than "main" too. Without it, what
        /// is written on a branch leaves when it has been merged into "main".
        pub serve_branches: bool = false;
        /// A backup that fills an empty directory, or one whose index is lost; "none" without.
        pub base: Option<PathBuf> = None;
    }
}

settings! {
    /// Cells under a prefix that have a retention of their own; the table may stand several times.
    pub struct RetentionClass {
        /// What their names begin with.
        pub prefix: String = String::new();
        /// How long their overwritten versions stay readable; "none" keeps all for ever.
        pub retention_ms: Option<u64> = None, 0..=YEARS_MS;
    }
}

settings! {
    /// Records under a prefix that have a retention of their own; the table may stand several times.
    pub struct RecordRetentionClass {
        /// What their keys begin with.
        pub prefix: String = String::new();
        /// How long their overwritten versions stay readable; "none" keeps all for ever.
        pub retention_ms: Option<u64> = None, 0..=YEARS_MS;
    }
}

settings! {
    /// Spaces of keyed state under a prefix that have a retention of their own; the table may stand several times.
    pub struct KeyedRetentionClass {
        /// What the names of the spaces begin with.
        pub prefix: String = String::new();
        /// How long their overwritten versions stay readable; "none" keeps all for ever.
        pub retention_ms: Option<u64> = None, 0..=YEARS_MS;
    }
}

impl Settings {
    /// Converts the settings to options of the database.
    pub fn options(&self) -> Options {
        let ms = Duration::from_millis;
        let mut options = Options::new()
            .durability(self.durability)
            .sync_interval(ms(self.sync_interval_ms))
            .cache_bytes(self.cache_bytes)
            .block_cache_bytes(self.block_cache_bytes)
            .write_buffer_bytes(self.write_buffer_bytes)
            .segment_bytes(self.segment_bytes)
            .feed_retention(ms(self.feed_retention_ms), self.feed_retention_bytes)
            .record_retention(self.record_retention_ms.map(ms))
            .keyed_retention(self.keyed_retention_ms.map(ms))
            .sweep_interval(self.sweep_interval_ms.map(ms))
            .serve_branches(self.serve_branches)
            .reader_limit(ms(self.reader_limit_ms))
            .clock_jump_limit(self.clock_jump_limit_ms.map(ms))
            .keep_modes(self.keep_modes)
            .transaction_limits(ms(self.transaction_idle_limit_ms), ms(self.transaction_limit_ms))
            .work_limits(self.transaction_entries, self.transaction_read_bytes)
            .writer_entries(self.transaction_writer_entries)
            .transaction_write_bytes(self.transaction_write_bytes)
            .transaction_commands(self.transaction_commands);
        options = match self.retention_ms {
            Some(retention_ms) => options.retention(ms(retention_ms)),
            None => options.retention_all(),
        };
        for class in &self.retention_classes {
            options = options.retention_class(&class.prefix, class.retention_ms.map(ms));
        }
        for class in &self.record_retention_classes {
            options = options.record_retention_class(&class.prefix, class.retention_ms.map(ms));
        }
        for class in &self.keyed_retention_classes {
            options = options.keyed_retention_class(&class.prefix, class.retention_ms.map(ms));
        }
        match &self.base {
            Some(backup) => options.base(backup),
            None => options,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{Fields, ManualClock};

    /// Returns how many versions are left of a cell `a/1` and of the records `a/1`, `b/1` and `c/1`, half a
    /// day after each was written twice.
    fn versions(settings: &Settings) -> [usize; 4] {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let db = settings.options().clock(clock.clone()).sweep_interval(None).memory().unwrap();
        for n in ["1", "2"] {
            db.cells().set("a/1", n).unwrap();
            let fields = Fields::of([("n", n)]).unwrap();
            for key in ["a/1", "b/1", "c/1"] {
                db.records().put(key, &fields, None).unwrap();
            }
        }
        clock.advance(Duration::from_millis(DAY_MS / 2));
        db.cells().set("later", 1).unwrap();
        db.trim().unwrap();
        let cell = db.cells().history("a/1", 9, None).unwrap().len();
        let [a, b, c] =
            ["a/1", "b/1", "c/1"].map(|key| db.records().history(key, 9, None).unwrap().len());
        [cell, a, b, c]
    }

    /// Returns whether the contents of the spaces half a day ago can still be read.
    fn readable(settings: &Settings, spaces: [&str; 2]) -> [bool; 2] {
        let clock = ManualClock::new(1_700_000_000_000_000);
        let db = settings.options().clock(clock.clone()).sweep_interval(None).memory().unwrap();
        let spaces = spaces.map(|space| db.keyed(space).unwrap());
        for version in [1, 2] {
            for space in &spaces {
                space.put("k", "v", version).unwrap();
            }
        }
        clock.advance(Duration::from_millis(DAY_MS / 2));
        db.cells().set("later", 1).unwrap();
        db.trim().unwrap();
        spaces.map(|space| {
            let then = space.at(mainstay::At::Revision(2));
            then.is_ok_and(|then| then.get("k").is_ok())
        })
    }

    #[test]
    fn keyed_state_is_kept_as_long_as_its_own_settings_say() {
        let settings = Settings::default();
        let spaces = ["a/1", "b/1"];
        assert_eq!(readable(&settings, spaces), [true, true], "a day is not over");
        let retention_ms = Some(1);
        let record_retention_ms = Some(1);
        let short = Settings { retention_ms, record_retention_ms, ..settings.clone() };
        assert_eq!(readable(&short, spaces), [true, true], "theirs is another");
        let short = Settings { keyed_retention_ms: Some(DAY_MS / 4), ..short };
        assert_eq!(readable(&short, spaces), [false, false]);
        let class = KeyedRetentionClass { prefix: "a/".to_owned(), retention_ms: None };
        let short = Settings { keyed_retention_classes: vec![class], ..short };
        assert_eq!(readable(&short, spaces), [true, false]);
    }

    #[test]
    fn records_are_kept_as_long_as_their_own_settings_say() {
        let class = |prefix: &str, retention_ms| RecordRetentionClass {
            prefix: prefix.to_owned(),
            retention_ms,
        };
        let settings = Settings::default();
        assert_eq!(versions(&settings), [2, 2, 2, 2], "a day is not over");
        let settings = Settings { record_retention_ms: Some(DAY_MS / 4), ..settings };
        assert_eq!(versions(&settings), [2, 1, 1, 1]);
        let classes = vec![class("a/", None), class("b/", Some(DAY_MS))];
        let settings = Settings { record_retention_classes: classes, ..settings };
        assert_eq!(versions(&settings), [2, 2, 2, 1]);
        let settings = Settings { retention_ms: Some(1), record_retention_ms: None, ..settings };
        assert_eq!(versions(&settings), [1, 2, 2, 2]);
    }
}
