//! Progress bars, on the standard error if it is a terminal.

use super::console::colours_enabled;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay::Progress;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Style for a count without a known total.
const COUNTING: &str = "{spinner} {msg} {human_pos}  {elapsed}";
/// Style for bytes without a known total.
const COUNTING_BYTES: &str = "{spinner} {msg} {binary_bytes}  {elapsed}";
/// Style while waiting for the server, before anything is counted.
const WAITING: &str = "{spinner} {msg}  {elapsed}";
const TICK: Duration = Duration::from_millis(100);

/// A progress bar that is drawn only on a terminal.
pub struct Bar {
    bar: ProgressBar,
    of_bytes: bool,
    /// True until the first count, which always changes the style.
    waits: AtomicBool,
}

impl Bar {
    /// A bar for work with this name, which counts items.
    pub fn new(what: &'static str) -> Bar {
        Bar::spinner(COUNTING, what, false)
    }

    /// A bar for work with this name, which counts bytes.
    pub fn of_bytes(what: &'static str) -> Bar {
        Bar::spinner(COUNTING_BYTES, what, true)
    }

    /// A bar that shows this text until the first bytes arrive.
    pub fn waiting(what: &'static str) -> Bar {
        Bar::spinner(WAITING, what, true)
    }

    fn spinner(template: &str, what: &'static str, of_bytes: bool) -> Bar {
        // indicatif draws nothing if the standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let bar = bar.with_style(style(template)).with_message(what);
        bar.enable_steady_tick(TICK);
        Bar { bar, of_bytes, waits: AtomicBool::new(true) }
    }

    /// Updates the bar.
    pub fn show(&self, progress: Progress) {
        if self.waits.swap(false, Ordering::Relaxed) || self.bar.length() != progress.total {
            self.set_total(progress.total);
        }
        self.bar.set_message(progress.phase);
        self.bar.set_position(progress.done);
    }

    fn set_total(&self, total: Option<u64>) {
        match total {
            Some(total) => {
                self.bar.set_style(style(&bounded_template(self.of_bytes)));
                self.bar.set_length(total);
            }
            None => {
                self.bar.set_style(style(counting_template(self.of_bytes)));
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

fn counting_template(of_bytes: bool) -> &'static str {
    if of_bytes { COUNTING_BYTES } else { COUNTING }
}

fn bounded_template(of_bytes: bool) -> String {
    let bar = if colours_enabled() { "{bar:40.green}" } else { "{bar:40}" };
    let count =
        if of_bytes { "{binary_bytes}/{binary_total_bytes}" } else { "{human_pos}/{human_len}" };
    format!("{{msg}} {bar} {count}  {{eta}}")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
