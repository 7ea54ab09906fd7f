//! In-memory source.

use super::{Source, SourceItem};
use mainstay_model::{Code, Error, LogicalTime, Result};

/// Items in memory. A position is the number of items read.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Items, Source};
/// let mut words = Items::new("words", ["so", "it", "goes"]);
/// words.seek(1)?;
/// let read = words.next()?.unwrap();
/// assert_eq!((read.item, read.time, read.position), ("it", LogicalTime::new(0, 1), 2));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Items<T> {
    name: String,
    items: Vec<(LogicalTime, T)>,
    next_index: usize,
}

impl<T> Items<T> {
    /// Items whose times are their indexes, from 0 on.
    pub fn new(name: &str, items: impl IntoIterator<Item = T>) -> Items<T> {
        let numbered = (0..).zip(items);
        Items::with_times(name, numbered.map(|(round, item)| (LogicalTime::new(0, round), item)))
    }

    /// Items with explicit times, which must strictly increase.
    pub fn with_times(name: &str, items: impl IntoIterator<Item = (LogicalTime, T)>) -> Items<T> {
        Items { name: name.to_owned(), items: items.into_iter().collect(), next_index: 0 }
    }
}

impl<T: Clone + Send> Source for Items<T> {
    type Item = T;

    fn name(&self) -> &str {
        &self.name
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        let count = self.items.len();
        match usize::try_from(position).ok().filter(|index| *index <= count) {
            Some(index) => {
                self.next_index = index;
                Ok(())
            }
            None => {
                let message = format!(
                    "source `{}` has {count} items, and cannot go on behind {position}: give it what it was begun with",
                    self.name
                );
                Err(Error::new(Code::InvalidArgument, message))
            }
        }
    }

    fn next(&mut self) -> Result<Option<SourceItem<T>>> {
        let Some((time, item)) = self.items.get(self.next_index) else { return Ok(None) };
        self.next_index += 1;
        Ok(Some(SourceItem { item: item.clone(), time: *time, position: self.next_index as u64 }))
    }
}
