//! Version chains: the version order of every key, with the writer of each version.

use super::{Fate, History, Recorded};
use std::collections::{BTreeMap, HashMap};

/// One version of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// The key's counter after the write.
    pub counter: u64,
    /// The number of writes that the version represents.
    pub writes: u64,
    /// The value; `None` if the key was deleted.
    pub value: Option<i64>,
    /// The transaction's revision. All versions of one revision belong to one transaction.
    pub revision: u64,
}

/// A version with its writer.
pub struct Link {
    /// The index of the transaction that wrote it.
    pub writer: u32,
    /// The value; `None` if the key was deleted.
    pub value: Option<i64>,
    /// Its revision.
    pub revision: u64,
}

/// The versions of a key, oldest first. At place 0, before them, the key is absent.
pub struct Chain<'h> {
    /// The key.
    pub key: &'h str,
    links: Vec<Link>,
}

impl Chain<'_> {
    /// Returns the writer of the version at a place; place 0 has none.
    pub fn writer(&self, place: usize) -> Option<u32> {
        place.checked_sub(1).and_then(|place| self.links.get(place)).map(|link| link.writer)
    }

    /// Returns the value at a place.
    pub fn value(&self, place: usize) -> Option<i64> {
        place.checked_sub(1).and_then(|place| self.links.get(place)).and_then(|link| link.value)
    }

    /// Returns the number of places.
    pub fn len(&self) -> usize {
        self.links.len() + 1
    }

    /// Returns the place of the newest version that is not newer than a revision.
    pub fn place_at(&self, revision: u64) -> usize {
        self.links.partition_point(|link| link.revision <= revision)
    }
}

/// The writer of a value.
#[derive(Clone, Copy)]
pub struct Author {
    /// The index of the transaction.
    pub transaction: u32,
    /// Whether the value is the transaction's last write to that key.
    pub is_last: bool,
}

/// All version chains.
pub struct Chains<'h> {
    /// In the order of keys.
    pub all: Vec<Chain<'h>>,
    /// For each transaction, whether it takes part in the order: it took effect, or at least read.
    pub counts: Vec<bool>,
    authors: HashMap<(&'h str, i64), Author>,
    places: HashMap<(u32, i64), usize>,
}

impl<'h> Chains<'h> {
    /// Finds the writer of each version. Fails for a version without a writer, or one that must not
    /// exist.
    pub fn new(history: &'h History) -> Result<Chains<'h>, String> {
        let authors = authors(&history.transactions)?;
        let by_revision = by_revision(history, &authors);
        let find = Authors {
            transactions: &history.transactions,
            by_value: &authors,
            by_revision: &by_revision,
        };
        let chains = history.versions.iter().map(|(key, versions)| find.chain(key, versions));
        let all = chains.collect::<Result<Vec<_>, String>>()?;
        let counts = took_effect(history, &all)?;
        let places = all.iter().enumerate().flat_map(places_of).collect();
        Ok(Chains { all, counts, authors, places })
    }

    /// Returns the writer of a value.
    pub fn author(&self, key: &str, value: i64) -> Option<Author> {
        self.authors.get(&(key, value)).copied()
    }

    /// Returns the index of a key's chain.
    pub fn number(&self, key: &str) -> Option<usize> {
        self.all.binary_search_by(|chain| chain.key.cmp(key)).ok()
    }

    /// Returns the place of a value in a chain.
    pub fn place(&self, chain: usize, value: i64) -> Option<usize> {
        self.places.get(&(chain as u32, value)).copied()
    }
}

fn places_of<'c>(
    (number, chain): (usize, &'c Chain<'_>),
) -> impl Iterator<Item = ((u32, i64), usize)> + 'c {
    (1..chain.len())
        .filter_map(move |place| chain.value(place).map(|value| ((number as u32, value), place)))
}

fn authors(transactions: &[Recorded]) -> Result<HashMap<(&str, i64), Author>, String> {
    let mut authors = HashMap::new();
    for (number, transaction) in transactions.iter().enumerate() {
        let last: BTreeMap<&str, Option<i64>> = transaction.writes().collect();
        for (key, value) in transaction.writes() {
            let Some(value) = value else { continue };
            let is_last = last.get(key) == Some(&Some(value));
            let author = Author { transaction: number as u32, is_last };
            if authors.insert((key, value), author).is_some() {
                return Err(format!("the history is none: {value} is written to `{key}` twice"));
            }
        }
    }
    Ok(authors)
}

/// Maps revisions to writers. A deletion has no value that identifies its writer, but another write of
/// the same transaction has.
fn by_revision(history: &History, authors: &HashMap<(&str, i64), Author>) -> HashMap<u64, u32> {
    let author = |key: &str, version: &Version| {
        let author = authors.get(&(key, version.value?))?;
        Some((version.revision, author.transaction))
    };
    let of_key = |(key, versions): (&String, &Vec<Version>)| {
        versions.iter().filter_map(|version| author(key, version)).collect::<Vec<_>>()
    };
    history.versions.iter().flat_map(of_key).collect()
}

/// The maps for finding the writer of a version.
struct Authors<'h> {
    transactions: &'h [Recorded],
    by_value: &'h HashMap<(&'h str, i64), Author>,
    by_revision: &'h HashMap<u64, u32>,
}

impl Authors<'_> {
    fn chain<'k>(&self, key: &'k str, versions: &[Version]) -> Result<Chain<'k>, String> {
        let mut counter = 0;
        let mut links: Vec<Link> = Vec::new();
        for version in versions {
            let Version { writes, value, revision, .. } = *version;
            counter += writes;
            if version.counter != counter {
                let counted = version.counter;
                return Err(format!("`{key}` counts {counted} where {counter} writes were made"));
            }
            if links.last().is_some_and(|link| link.revision >= revision) {
                return Err(format!("`{key}` has versions out of order at revision {revision}"));
            }
            links.push(Link { writer: self.writer(key, version)?, value, revision });
        }
        Ok(Chain { key, links })
    }

    /// Finds the writer of a version. Its writes must count, the value must be its last write to the
    /// key, and the number of writes must agree with the key's counter.
    fn writer(&self, key: &str, version: &Version) -> Result<u32, String> {
        let Version { writes, value, revision, .. } = *version;
        let by_value = value.and_then(|value| self.by_value.get(&(key, value)));
        let writer = match value {
            Some(_) => by_value.map(|author| author.transaction),
            None => self.by_revision.get(&revision).copied(),
        };
        let what = format!("{} of `{key}` at revision {revision}", shown(value));
        let Some(writer) = writer else { return Err(format!("nobody wrote {what}")) };
        let of = &self.transactions[writer as usize];
        if of.fate == Fate::Aborted {
            return Err(format!("G1a, an aborted write: {what} is there, by {of:?}"));
        }
        if by_value.is_some_and(|author| !author.is_last) {
            return Err(format!("G1b, an intermediate write: {what} is there, by {of:?}"));
        }
        let made = of.writes().filter(|(written, _)| *written == key).count() as u64;
        if made == writes {
            Ok(writer)
        } else {
            Err(format!("{what} stands for {writes} writes, {made} were made by {of:?}"))
        }
    }
}

/// Checks atomicity: all writes of a transaction exist or none. An acknowledged transaction must have
/// all.
fn took_effect(history: &History, chains: &[Chain<'_>]) -> Result<Vec<bool>, String> {
    let mut kept = vec![0; history.transactions.len()];
    for chain in chains {
        chain.links.iter().for_each(|link| kept[link.writer as usize] += 1);
    }
    let judge = |(transaction, kept): (&Recorded, usize)| {
        let keys = transaction.writes().map(|(key, _)| key);
        let wanted = keys.collect::<std::collections::BTreeSet<&str>>().len();
        match transaction.fate {
            Fate::Aborted => Ok(true),
            _ if kept == wanted && (wanted > 0 || transaction.fate == Fate::Committed) => Ok(true),
            Fate::Unknown if kept == 0 => Ok(false),
            _ => Err(format!(
                "a lost write: {kept} of {wanted} keys have what {transaction:?} wrote"
            )),
        }
    };
    history.transactions.iter().zip(kept).map(judge).collect()
}

fn shown(value: Option<i64>) -> String {
    value.map_or("the deletion".to_owned(), |value| format!("the value {value}"))
}
