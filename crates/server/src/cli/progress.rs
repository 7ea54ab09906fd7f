//! Progress of long work, on the standard error of a terminal.

use super::paper;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay::Progress;
use std::time::Duration;

/// Where the end is not known.
const COUNTING: &str = "{spinner} {msg} {human_pos}  {elapsed}";
const TICK: Duration = Duration::from_millis(100);

/// A bar that is drawn only where somebody can see it.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar for work of this name.
    pub fn new(what: &'static str) -> Bar {
        // It draws nothing where the standard error is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let bar = bar.with_style(style(COUNTING)).with_message(what);
        bar.enable_steady_tick(TICK);
        Bar { bar }
    }

    /// Shows how far the work has come.
    pub fn show(&self, progress: Progress) {
        if self.bar.length() != progress.total {
            self.measure(progress.total);
        }
        self.bar.set_message(progress.phase);
        self.bar.set_position(progress.done);
    }

    fn measure(&self, total: Option<u64>) {
        match total {
            Some(total) => {
                self.bar.set_style(style(known()));
                self.bar.set_length(total);
            }
            None => {
                self.bar.set_style(style(COUNTING));
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

fn known() -> &'static str {
    match paper::colours_wanted() {
        true => "{msg} {bar:40.green} {human_pos}/{human_len}  {eta}",
        false => "{msg} {bar:40} {human_pos}/{human_len}  {eta}",
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
