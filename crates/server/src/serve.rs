//! `mainstay serve`: a database and its faces, until somebody says stop.
//!
//! ```text
//!   open the database -> listen -> welcome, READY -> SIGTERM -> drain -> close
//! ```

use crate::{http, resp};
use mainstay::{Code, Database, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;

/// Where the database is and where the faces listen, if nothing is said.
const DATA: &str = "mainstay-data";
const RESP: &str = "127.0.0.1:7379";
const HTTP: &str = "127.0.0.1:7380";

/// Current values are kept in memory up to this: whoever comes from Redis expects them there. Less
/// data takes less.
const CACHE_BYTES: u64 = 1 << 30;

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct Serve {
    /// The database's directory.
    pub data: PathBuf,
    /// Where Redis clients connect.
    pub resp: SocketAddr,
    /// Where HTTP is spoken.
    pub http: SocketAddr,
    /// The settings of the face for Redis clients.
    pub settings: resp::Settings,
}

impl Serve {
    /// What is given, and defaults for the rest.
    pub fn new(data: Option<PathBuf>, resp: Option<&str>, http: Option<&str>) -> Result<Serve> {
        Ok(Serve {
            data: data.unwrap_or_else(|| PathBuf::from(DATA)),
            resp: address(resp.unwrap_or(RESP), "--resp")?,
            http: address(http.unwrap_or(HTTP), "--http")?,
            settings: resp::Settings::default(),
        })
    }
}

fn address(text: &str, flag: &str) -> Result<SocketAddr> {
    let mut found = text.to_socket_addrs().map_err(|_| {
        let message = format!("{flag} wants HOST:PORT, such as 127.0.0.1:7379, not `{text}`");
        Error::new(Code::InvalidOption, message)
    })?;
    found.next().ok_or_else(|| Error::new(Code::InvalidOption, format!("{text} is no address")))
}

/// Serves until a signal comes. `welcome` is shown what to try, when it can be tried.
pub fn run(serve: &Serve, welcome: impl FnOnce(&str)) -> Result<()> {
    check_reach(serve.resp)?;
    check_reach(serve.http)?;
    let options = mainstay::Options::new().durability(serve.settings.durability);
    let db = options.cache_bytes(CACHE_BYTES).open(&serve.data)?;
    let listener = listen(serve.resp, "--resp")?;
    let at = listener.local_addr().map_err(|error| failed("the listener", &error))?;
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|error| failed("signals", &error))?;
    let shared = resp::Shared::new(db.clone(), serve.settings.clone());
    let face = resp::serve(listener, &shared).map_err(|error| failed("the event loops", &error))?;
    let (app, stop) = (http_app(&db)?, http::Stop::default());
    let web = listen(serve.http, "--http")?;
    let web_at = web.local_addr().map_err(|error| failed("the listener", &error))?;
    shared.speaks_http_at(format!("http://{web_at}"));
    let serving = http::serve(web, app.clone(), stop.clone())
        .map_err(|error| failed("the HTTP face", &error))?;
    welcome(&what_to_try(serve, at, web_at));
    // Outside systemd nobody is told.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    let _ = signals.forever().next();
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    app.start_draining();
    stop.trigger();
    face.stop();
    serving.wait().map_err(|error| failed("the end of the HTTP face", &error))?;
    db.close()
}

fn http_app(db: &Database) -> Result<http::Http> {
    let app = http::Http::new(db.clone(), http::Settings::default());
    app.map_err(|error| failed("the HTTP face", &error))
}

fn what_to_try(serve: &Serve, at: SocketAddr, web: SocketAddr) -> String {
    let port = at.port();
    let lines = [
        (format!("redis-cli -p {port} SET greeting hello"), ""),
        (format!("redis-cli -p {port} CELL.GETV greeting"), "value, counter, stamp, revision"),
        (format!("redis-cli -p {port} BRANCH.FORK trial"), "a branch, in constant time"),
        (format!("redis-cli -p {port} CELL.GET greeting REV 1"), "as it was"),
        (format!("curl http://{web}/v1/cells/greeting"), "the same as JSON"),
        (format!("curl http://{web}/docs"), "all of that face, for a browser"),
        ("mainstay repl".to_owned(), "all of it, with help"),
    ];
    let lines: String =
        lines.iter().map(|(try_it, why)| format!("  {try_it:<46}{why}\n")).collect();
    format!("mainstay serves {}\n\n{lines}\nCtrl-C stops it.", serve.data.display())
}

fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!(": another program listens there; choose another address with {flag}")
            }
            _ => String::new(),
        };
        Error::new(Code::Io, format!("cannot listen on {address}: {error}{hint}"))
    })
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

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{what} could not be set up: {error}"))
}
