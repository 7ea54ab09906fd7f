//! A saved violation that can be replayed.

use super::explore::{Tally, settle};
use super::recording::Recording;
use crate::disk::Model;
use crate::drill::Outcome;
use mainstay_conformance::random::Random;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A violation, with everything needed to reproduce it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// The recorded events.
    pub recording: Recording,
    /// The journals up to the cut, by process.
    pub said: Vec<(u64, String)>,
    /// The number of events before the power failure.
    pub cut: usize,
    /// The model of the power failure.
    pub model: Model,
    /// The seed of the model's random choices.
    pub seed: u64,
    /// Description of the violation.
    pub what: String,
    /// The procedure that was running; `None` for a plain drill.
    pub procedure: Option<String>,
}

impl Trouble {
    /// Writes the violation to a file. Returns a message with its path.
    pub fn save(&self, path: &Path) -> String {
        let written = serde_json::to_vec(self)
            .map_err(std::io::Error::other)
            .and_then(|bytes| std::fs::write(path, bytes));
        match written {
            Ok(()) => format!("look at it again: prove again {}", path.display()),
            Err(error) => format!("it could not be kept: {error}"),
        }
    }

    /// Reads a saved violation.
    pub fn load(path: &Path) -> Outcome<Trouble> {
        let told = |error: std::io::Error| format!("{}: {error}", path.display());
        let bytes = std::fs::read(path).map_err(told)?;
        serde_json::from_slice(&bytes).map_err(|error| told(std::io::Error::other(error)))
    }
}

/// Replays a violation. The files after the cut remain in `home`.
pub fn again(path: &Path, home: &Path) -> Outcome<()> {
    let Trouble { recording, said, cut, model, seed, what, procedure } = Trouble::load(path)?;
    let mut platter = recording.start.platter();
    let from = cut.saturating_sub(40);
    for (at, event) in recording.events[..cut].iter().enumerate() {
        if at >= from {
            println!("{at}: {}", brief(&format!("{event:?}")));
        }
        platter.apply(event);
    }
    let image = platter.cut(model, &mut Random::of(&[seed]));
    for (path, bytes) in image.files() {
        println!("{} has {} bytes", path.display(), bytes.len());
    }
    match procedure {
        None => settle(&image, &said, home, &mut Tally::default()),
        Some(procedure) => {
            image.write(home).map_err(|error| format!("writing an image: {error}"))?;
            println!("what {procedure} has left is in {}: {what}", home.display());
            Ok(())
        }
    }
}

fn brief(text: &str) -> String {
    text.chars().take(160).collect()
}
