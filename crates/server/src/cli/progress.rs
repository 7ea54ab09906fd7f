//! Progress of long work, on the standard error of a terminal.

use super::paper;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the end is not known.
const COUNTING: &str = "{spinner} {msg} {human_pos}  {elapsed}";
/// The same for bytes.
const COUNTING_BYTES: &str = "{spinner} {msg} {binary_bytes}  {elapsed}";
/// Where somebody else does something first.
const WAITING: &str = "{spinner} {msg}  {elapsed}";
const TICK: Duration = Duration::from_millis(100);

/// A bar that is drawn only where somebody can see it.
pub struct Bar {
    bar: ProgressBar,
    of_bytes: bool,
    /// Nothing was counted yet, so that also the first count changes how it looks.
    waits: AtomicBool,
}

impl Bar {
    /// A bar for work of this name, which counts things.
    pub fn new(what: &'static str) -> Bar {
        Bar::looking(COUNTING, what, false)
    }

    /// A bar for work of this name, which counts bytes.
    pub fn of_bytes(what: &'static str) -> Bar {
        Bar::looking(COUNTING_BYTES, what, true)
    }

    /// A bar for bytes that come when somebody else has done this, which it says until then.
    pub fn waiting(what: &'static str) -> Bar {
        Bar::looking(WAITING, what, true)
    }

    fn looking(template: &str, what: &'static str, of_bytes: bool) -> Bar {
        // It draws nothing where the standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let bar = bar.with_style(style(template)).with_message(what);
        bar.enable_steady_tick(TICK);
        Bar { bar, of_bytes, waits: AtomicBool::new(true) }
    }

    /// Shows how far the work has come.
    pub fn show(&self, progress: Progress) {
        if self.waits.swap(false, Ordering::Relaxed) || self.bar.length() != progress.total {
            self.measure(progress.total);
        }
        self.bar.set_message(progress.phase);
        self.bar.set_position(progress.done);
    }

    fn measure(&self, total: Option<u64>) {
        match total {
            Some(total) => {
                self.bar.set_style(style(&known(self.of_bytes)));
                self.bar.set_length(total);
            }
            None => {
                self.bar.set_style(style(open_ended(self.of_bytes)));
                self.bar.unset_length();
            }
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn open_ended(of_bytes: bool) -> &'static str {
    if of_bytes { COUNTING_BYTES } else { COUNTING }
}

fn known(of_bytes: bool) -> String {
    let bar = if paper::colours_wanted() { "{bar:40.green}" } else { "{bar:40}" };
    let count = match of_bytes {
        true => "{binary_bytes}/{binary_total_bytes}",
        false => "{human_pos}/{human_len}",
    };
    format!("{{msg}} {bar} {count}  {{eta}}")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
