//! `mainstay serve`: a database and its faces, until somebody says stop.
//!
//! ```text
//!   open the database -> listen -> welcome, READY -> SIGTERM -> drain -> close
//! ```

use crate::resp;
use mainstay::{Code, Database, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Serve {
    /// The database's directory.
    pub data: PathBuf,
    /// Where Redis clients connect.
    pub resp: SocketAddr,
    /// The settings of that face.
    pub settings: resp::Settings,
}

/// Serves until a signal comes; `ready` is told where it listens.
pub fn run(serve: &Serve, ready: impl FnOnce(&Database, SocketAddr)) -> Result<()> {
    check_reach(serve.resp)?;
    let options = mainstay::Options::new().durability(serve.settings.durability);
    let db = options.open(&serve.data)?;
    let listener =
        TcpListener::bind(serve.resp).map_err(|error| cannot_listen(serve.resp, &error))?;
    let address = listener.local_addr().map_err(|error| cannot_listen(serve.resp, &error))?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| failed("signals", &error))?;
    let shared = resp::Shared::new(db.clone(), serve.settings.clone());
    let face = resp::serve(listener, &shared).map_err(|error| failed("the event loops", &error))?;
    ready(&db, address);
    // Outside systemd nobody is told.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let _ = signals.forever().next();
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    face.stop();
    db.close()
}

/// Whoever can reach the face can do everything: that has to be this machine alone.
fn check_reach(address: SocketAddr) -> Result<()> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    let message = format!(
        "{address} can be reached from other machines, and there is no authentication yet: listen on \
         127.0.0.1 and put a tunnel in front"
    );
    Err(Error::new(Code::InvalidOption, message))
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Error {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => ": another program does; choose another with --resp",
        _ => "",
    };
    Error::new(Code::Io, format!("cannot listen on {address}: {error}{hint}"))
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{what} could not be set up: {error}"))
}
