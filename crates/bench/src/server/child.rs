//! Our server as a child process of the bench: what `mainstay serve` does, with this durability.

use crate::context::Outcome;
use mainstay::Durability;
use mainstay_server::serve::{self, Serve};
use std::path::Path;

/// Serves until it is told to stop.
pub fn run(directory: &Path, port: u16, durability: Durability) -> Outcome<()> {
    let resp = format!("127.0.0.1:{port}");
    // Nobody asks over HTTP here: any free port will do.
    let mut serve = Serve::new(Some(directory.to_path_buf()), Some(&resp), Some("127.0.0.1:0"))?;
    serve.settings.durability = durability;
    Ok(serve::run(&serve, |_| {})?)
}
