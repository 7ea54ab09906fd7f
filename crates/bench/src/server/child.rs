//! Our server as a child process: the same as `mainstay serve`, with the given durability.

use crate::context::Outcome;
use mainstay::Durability;
use mainstay_server::config::{Address, Config};
use mainstay_server::serve;
use std::path::Path;

/// Serves until SIGTERM.
pub fn run(directory: &Path, port: u16, durability: Durability) -> Outcome<()> {
    let mut config = Config::default();
    config.server.data = directory.to_path_buf();
    config.resp.address = Address::new(&format!("127.0.0.1:{port}"))?;
    // The benchmark does not use HTTP: any free port will do.
    config.http.address = Address::new("127.0.0.1:0")?;
    config.database.durability = durability;
    Ok(serve::run(&config, |_| {})?)
}
