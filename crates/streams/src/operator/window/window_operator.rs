//! Windowed operator: folds items per key and window.

use super::kind::EVENT_LIMIT_MS;
use super::{Window, WindowState, Windows};
use crate::operator::{ApplyContext, ApplyResult, EventTime, KeyFn, Operator};
use mainstay_model::{Code, Error, LogicalTime, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

type FoldFn<I, A> = dyn Fn(Option<A>, &I) -> Result<A> + Send + Sync;
type MergeFn<A> = dyn Fn(A, A) -> Result<A> + Send + Sync;

/// Folds items by key and event-time window. Each window is emitted once, when the watermark has reached its
/// end.
///
/// An item whose windows are all complete is late: it is counted and dropped. Items are folded in the order
/// of their source's time.
///
/// ```
/// use mainstay_streams::{Items, MemorySink, MemoryState, Pipeline, WindowOperator, Windows};
/// use std::sync::Arc;
/// // Clicks per user and minute; a click may arrive ten seconds late.
/// let per_minute = WindowOperator::new(
///     "per-minute",
///     Windows::tumbling(60_000),
///     |click: &(&str, u64)| click.0,
///     |click| click.1,
///     |count: Option<u32>, _click| Ok(count.unwrap_or(0) + 1),
/// )
/// .lateness_ms(10_000);
///
/// let clicks = [("ada", 1_000), ("ada", 61_000), ("ada", 58_000), ("bob", 70_000)];
/// let sink = MemorySink::new("counts");
/// let mut pipeline = Pipeline::of(per_minute)
///     .source(Items::new("clicks", clicks))
///     .sink(sink.clone())
///     .open(Arc::new(MemoryState::new()))?;
/// pipeline.run()?;
/// let first = &sink.outputs()[0];
/// assert_eq!((&first.key[..], first.value.end_ms, first.value.value), (&b"ada"[..], 60_000, 2));
///
/// // The end: open windows are emitted too.
/// assert_eq!(pipeline.advance_to(u64::MAX)?, 2);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct WindowOperator<I, A> {
    name: String,
    windows: Windows,
    key: Box<KeyFn<I>>,
    event_ms: Box<dyn Fn(&I) -> u64 + Send + Sync>,
    fold: Box<FoldFn<I, A>>,
    merge: Option<Box<MergeFn<A>>>,
    lateness_ms: u64,
}

impl<I, A> WindowOperator<I, A> {
    /// Creates an operator. `key` extracts an item's key and `event_ms` its event time, in milliseconds from
    /// 0 on, such as since 1970. `fold` adds an item to a window's value.
    pub fn new<K: Into<Vec<u8>>>(
        name: &str,
        windows: Windows,
        key: impl Fn(&I) -> K + Send + Sync + 'static,
        event_ms: impl Fn(&I) -> u64 + Send + Sync + 'static,
        fold: impl Fn(Option<A>, &I) -> Result<A> + Send + Sync + 'static,
    ) -> WindowOperator<I, A> {
        WindowOperator {
            name: name.to_owned(),
            windows,
            key: Box::new(move |item| key(item).into()),
            event_ms: Box::new(event_ms),
            fold: Box::new(fold),
            merge: None,
            lateness_ms: 0,
        }
    }

    /// Sets the allowed lateness behind the highest event time, in milliseconds; the default is 0.
    #[must_use]
    pub fn lateness_ms(mut self, lateness_ms: u64) -> WindowOperator<I, A> {
        self.lateness_ms = lateness_ms;
        self
    }

    /// Sets the function that merges two sessions, the earlier one first, when an item connects them. Session
    /// windows require it.
    #[must_use]
    pub fn merged_by(
        mut self,
        merge: impl Fn(A, A) -> Result<A> + Send + Sync + 'static,
    ) -> WindowOperator<I, A> {
        self.merge = Some(Box::new(merge));
        self
    }

    /// Folds an item into its windows. Returns whether it was late for all of them.
    fn add(&self, state: &mut WindowState<A>, item: &I, watermark_ms: u64) -> Result<bool> {
        let spans = self.windows.spans(self.event_time_ms(item)?);
        if let Windows::Session { .. } = self.windows {
            return self.add_to_session(state, item, watermark_ms);
        }
        let mut late = true;
        for span in spans.into_iter().filter(|span| span.end_ms > watermark_ms) {
            late = false;
            let previous =
                state.remove_matching(|other| other == span).pop().map(|window| window.value);
            state.insert(span, (self.fold)(previous, item))?;
        }
        Ok(late)
    }

    fn add_to_session(
        &self,
        state: &mut WindowState<A>,
        item: &I,
        watermark_ms: u64,
    ) -> Result<bool> {
        let Some(own) = self.windows.spans(self.event_time_ms(item)?).pop() else {
            return Ok(true);
        };
        let mut span = own;
        let mut value = None;
        for window in state.remove_matching(|other| other.overlaps(own)) {
            span = span.union(window.span());
            value = Some(match value {
                Some(earlier) => self.merge(earlier, window.value)?,
                None => window.value,
            });
        }
        if span.end_ms <= watermark_ms {
            return Ok(true);
        }
        state.insert(span, (self.fold)(value, item))?;
        Ok(false)
    }

    fn merge(&self, earlier: A, later: A) -> Result<A> {
        match &self.merge {
            Some(merge) => merge(earlier, later),
            None => Err(missing_merge_error(&self.name)),
        }
    }

    fn event_time_ms(&self, item: &I) -> Result<u64> {
        let event_ms = (self.event_ms)(item);
        if event_ms <= EVENT_LIMIT_MS {
            return Ok(event_ms);
        }
        let message = format!("an item happened at {event_ms} ms: {EVENT_LIMIT_MS} is the latest");
        Err(Error::new(Code::InvalidArgument, message))
    }
}

#[cold]
fn missing_merge_error(name: &str) -> Error {
    let message = format!(
        "operator `{name}` has sessions: say what two of them are together, with `merged_by`"
    );
    Error::new(Code::InvalidOption, message)
}

impl<I, A: Clone + Serialize + DeserializeOwned> Operator for WindowOperator<I, A> {
    type Item = I;
    type State = WindowState<A>;
    type Out = Window<A>;

    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<()> {
        self.windows.check()?;
        match self.windows {
            Windows::Session { .. } if self.merge.is_none() => Err(missing_merge_error(&self.name)),
            _ => Ok(()),
        }
    }

    fn key(&self, item: &I) -> Vec<u8> {
        (self.key)(item)
    }

    fn apply(
        &self,
        state: Option<WindowState<A>>,
        item: &I,
        context: ApplyContext,
    ) -> Result<ApplyResult<WindowState<A>, Window<A>>> {
        let mut state = state.unwrap_or_default().without_complete(context.watermark_ms);
        let late = self.add(&mut state, item, context.watermark_ms)?;
        Ok(ApplyResult { state: state.non_empty(), outputs: Vec::new(), late })
    }

    fn event_time(&self) -> Option<&dyn EventTime<I, WindowState<A>, Window<A>>> {
        Some(self)
    }
}

impl<I, A: Clone> EventTime<I, WindowState<A>, Window<A>> for WindowOperator<I, A> {
    fn lateness_ms(&self) -> u64 {
        self.lateness_ms
    }

    fn event_ms(&self, item: &I) -> Result<u64> {
        self.event_time_ms(item)
    }

    fn next_end_ms(&self, state: &WindowState<A>, after_ms: u64) -> Option<u64> {
        state.windows.iter().map(|window| window.end_ms).find(|end_ms| *end_ms > after_ms)
    }

    fn fire(&self, state: &WindowState<A>, end_ms: u64) -> Result<Vec<(LogicalTime, Window<A>)>> {
        let due = state.windows.iter().filter(|window| window.end_ms == end_ms);
        Ok(due.map(|window| (window.version(), window.clone())).collect())
    }
}
